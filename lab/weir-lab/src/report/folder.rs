//! A run on disk. The data: `figures.csv` and `seconds.csv` with every measurement, the configurations as files, and `run.json` with
//! all the rest. Made of these: `report.md` and `report.html`, flame graphs, and single requests for spreadsheets.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::{figures, html, markdown, profile};
use crate::results::measurement::Measurement;
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
        for (file, config) in record.configs() {
            std::fs::write(config_file(folder, target, file), config)?;
        }
    }
    std::fs::write(folder.join("figures.csv"), figures::csv(run)?)?;
    // Last: where it is, the rest is.
    std::fs::write(folder.join("run.json"), json(&without_files(run))?)?;
    Ok(())
}

/// As JSON with a line for each part of the run, and for each measurement.
fn json(run: &Run) -> anyhow::Result<String> {
    let Value::Object(parts) = serde_json::to_value(run)? else { bail!("a run is an object") };
    let mut lines = Vec::new();
    for (name, part) in parts {
        let text = match part {
            Value::Array(items) if !items.is_empty() => {
                let items: Vec<String> = items.iter().map(|item| format!("    {item}")).collect();
                format!("[\n{}\n  ]", items.join(",\n"))
            }
            part => part.to_string(),
        };
        lines.push(format!("  \"{name}\": {text}"));
    }
    Ok(format!("{{\n{}\n}}\n", lines.join(",\n")))
}

/// The run without the parts that are saved in files of their own.
fn without_files(run: &Run) -> Run {
    let mut run = run.clone();
    for record in run.targets.values_mut() {
        record.configs_mut().for_each(|(_, text)| text.clear());
    }
    for measurement in &mut run.measurements {
        measurement.values.clear();
        measurement.percentiles.clear();
        measurement.void.clear();
        measurement.seconds.clear();
        (measurement.limit, measurement.distance) = (None, None);
    }
    run.measurements.retain(|it| {
        let key = (it.case.clone(), it.target.clone(), it.round);
        *it != Measurement { case: key.0, target: key.1, round: key.2, ..Measurement::default() }
    });
    run
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
    let unreadable = || format!("{} is not a run that this version can read", file.display());
    let mut run: Run = serde_json::from_str(&text).with_context(unreadable)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let text = std::fs::read_to_string(folder.join("figures.csv"))
        .with_context(|| format!("cannot read figures.csv beside {}", file.display()))?;
    run.measurements =
        figures::read(&text, &run.measurements).context("figures.csv").with_context(unreadable)?;
    // A run without it still has its figures, and so has one whose configurations are not kept.
    if let Ok(text) = std::fs::read_to_string(folder.join("seconds.csv")) {
        figures::read_seconds(&text, &mut run.measurements)
            .context("seconds.csv")
            .with_context(unreadable)?;
    }
    for (target, record) in &mut run.targets {
        for (file, text) in record.configs_mut() {
            *text = std::fs::read_to_string(config_file(folder, target, file)).unwrap_or_default();
        }
    }
    Ok(run)
}

/// Where the configuration file `file` of `target` is.
fn config_file(folder: &Path, target: &str, file: &str) -> PathBuf {
    folder.join("configs").join(format!("{}-{file}", target.replace('/', "-")))
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
