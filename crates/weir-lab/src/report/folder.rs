//! A run on disk: `report.md` and `report.html`, `run.json` with all raw figures, `figures.csv`, what was noted of seconds and
//! requests, the configurations and flame graphs as files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{figures, html, markdown, profile};
use crate::results::run::Run;

/// Saves `run` below `root`, in a folder named after its date and scenario; says where.
///
/// # Errors
/// When it cannot be written.
pub fn save(run: &Run, root: &Path) -> anyhow::Result<PathBuf> {
    let folder = free_folder(root, run);
    save_as(run, &folder)?;
    Ok(folder)
}

/// Saves `run` in `folder`, in the place of what may be there.
///
/// # Errors
/// When it cannot be written.
pub fn save_as(run: &Run, folder: &Path) -> anyhow::Result<()> {
    let configs = folder.join("configs");
    std::fs::create_dir_all(&configs).with_context(|| format!("cannot create {}", configs.display()))?;
    write(run, folder)?;
    for (target, record) in &run.targets {
        let target = target.replace('/', "-");
        for (file, config) in record.configs() {
            std::fs::write(configs.join(format!("{target}-{file}")), config)?;
        }
    }
    // Last: where it is, the rest is.
    std::fs::write(folder.join("run.json"), serde_json::to_string_pretty(run)? + "\n")?;
    Ok(())
}

/// Reads a run that was saved: its folder, or its `run.json`.
///
/// # Errors
/// When there is none, or it is from a version that wrote other figures.
pub fn load(path: &Path) -> anyhow::Result<Run> {
    let file = if path.is_dir() { path.join("run.json") } else { path.to_owned() };
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!("cannot read {} (needed: the folder of a saved run, or its run.json)", file.display())
    })?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not a run that this version can read", file.display()))
}

/// Writes the report of a run that was saved anew, in its folder, in the words and plots of this version.
///
/// # Errors
/// As [`load`], and when it cannot be written.
pub fn rewrite(folder: &Path) -> anyhow::Result<()> {
    let run = load(folder)?;
    write(&run, folder)
}

fn write(run: &Run, folder: &Path) -> anyhow::Result<()> {
    let save = |name: &str, text: String| {
        std::fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))
    };
    save("report.md", markdown::report(run))?;
    save("report.html", html::page(run)?)?;
    for (name, text) in [("seconds.csv", figures::seconds(run)), ("requests.csv", figures::requests(run))] {
        text.map_or(Ok(()), |text| save(name, text))?;
    }
    save("figures.csv", figures::csv(run)?)?;
    let drawn: Vec<(String, String)> = run
        .profiles
        .iter()
        .filter_map(|(target, profile)| Some((profile::file_of(target), profile.svg().ok()?)))
        .collect();
    if !drawn.is_empty() {
        std::fs::create_dir_all(folder.join("profiles"))?;
    }
    drawn.into_iter().try_for_each(|(file, svg)| save(&format!("profiles/{file}"), svg))
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
