//! A run on disk: `report.md`, `run.json` with all raw figures, and the configurations as files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{Run, markdown};

/// Saves `run` below `root`, in a folder named after its date and scenario; says where.
///
/// # Errors
/// When it cannot be written.
pub fn save(run: &Run, root: &Path) -> anyhow::Result<PathBuf> {
    let folder = free_folder(root, run);
    let configs = folder.join("configs");
    std::fs::create_dir_all(&configs).with_context(|| format!("cannot create {}", configs.display()))?;
    std::fs::write(folder.join("report.md"), markdown::report(run))?;
    std::fs::write(folder.join("run.json"), serde_json::to_string_pretty(run)? + "\n")?;
    for (target, record) in &run.targets {
        let target = target.replace('/', "-");
        std::fs::write(configs.join(format!("{target}-{}", record.file)), &record.config)?;
        if let Some((file, text)) = &record.second {
            std::fs::write(configs.join(format!("{target}-{file}")), text)?;
        }
    }
    Ok(folder)
}

/// `<root>/<date>-<scenario>`, with a number when that is taken.
fn free_folder(root: &Path, run: &Run) -> PathBuf {
    let name = format!("{}-{}", run.started.strftime("%Y-%m-%d"), run.scenario.name);
    let numbered = (2_u32..).map(|number| root.join(format!("{name}-{number}")));
    std::iter::once(root.join(&name))
        .chain(numbered)
        .find(|path| !path.exists())
        .expect("some number is free")
}
