//! `cargo xtask fuzz`: builds the targets of `fuzz/` with coverage and runs each for a while.
//!
//! Works with the stable compiler: its LLVM has the coverage pass, only the address sanitizer needs nightly, and there
//! is next to no `unsafe` for it to watch. Committed seeds are read, never written: what a run finds goes under
//! `target/`, a crash to `fuzz/artifacts/`. That the seeds find nothing is shown by the tests of `fuzz/`, which need none of this.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde::Deserialize;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// What `cargo fuzz` passes, less the sanitizer. The first one brings libFuzzer in. Debug assertions include overflow checks.
const RUSTFLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Cdebug-assertions=on",
    "-Cdebuginfo=line-tables-only",
];

/// One input that takes longer than this is a finding.
const INPUT_SECONDS_MAX: u32 = 10;

/// Loading a corpus and writing a crash, on top of the time that is fuzzed.
const OVERHEAD: Duration = Duration::from_secs(120);

#[derive(Args)]
pub(crate) struct FuzzArguments {
    /// The targets to run, all of `fuzz/Cargo.toml` by default
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Where chance starts, to try the same inputs again; 0 for another place each time
    #[arg(long, default_value_t = 0)]
    seed: u32,
}

impl FuzzArguments {
    /// What `ci --all` runs: from the same seed each time, so that a commit is not blamed for what another one did.
    pub(crate) fn smoke() -> Self {
        Self { targets: Vec::new(), seconds: 10, seed: 1 }
    }
}

pub(crate) fn run(workspace: &Workspace, arguments: &FuzzArguments) -> anyhow::Result<()> {
    let folder = workspace.root().join("fuzz");
    let manifest = folder.join("Cargo.toml");
    let text =
        fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let targets = chosen(targets_in(&text)?, &arguments.targets)?;
    let programs = build(workspace, &targets)?;
    let crashed =
        run_all(&targets, |target| run_target(workspace, &folder, &programs.join(target), target, arguments));
    ensure!(
        crashed.is_empty(),
        "{} found something, see above; the inputs are in fuzz/artifacts",
        crashed.join(", ")
    );
    println!("{} targets ran for {} s each and found nothing.", targets.len(), arguments.seconds);
    Ok(())
}

/// Builds these targets and returns the folder that holds them.
fn build(workspace: &Workspace, targets: &[String]) -> anyhow::Result<PathBuf> {
    let host = host(workspace)?;
    let target_folder = workspace.target().join("fuzz");
    // With --target the flags stay off build scripts and procedural macros, which could not link with them.
    ProgramRun::cargo(workspace)
        .env("RUSTFLAGS", RUSTFLAGS.join(" "))
        .args(["build", "--package", "weir-fuzz", "--release", "--target", &host, "--target-dir"])
        .arg(&target_folder)
        .args(targets.iter().flat_map(|target| ["--bin", target]))
        .run()?;
    Ok(target_folder.join(host).join("release"))
}

/// Runs targets side by side, one on each processor; returns those that found something.
fn run_all(targets: &[String], run: impl Fn(&str) -> anyhow::Result<()> + Sync) -> Vec<&str> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, crashed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..processors {
            scope.spawn(|| {
                while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = run(target) {
                        println!("{error:#}");
                        crashed.lock().expect("no holder panics").push(target.as_str());
                    }
                }
            });
        }
    });
    let mut crashed = crashed.into_inner().expect("no holder panics");
    crashed.sort_unstable();
    crashed
}

fn run_target(
    workspace: &Workspace,
    folder: &Path,
    program: &Path,
    target: &str,
    arguments: &FuzzArguments,
) -> anyhow::Result<()> {
    let found = workspace.target().join("fuzz").join("corpus").join(target);
    let artifacts = folder.join("artifacts").join(target);
    fs::create_dir_all(&found)?;
    fs::create_dir_all(&artifacts)?;
    let process = ProgramRun::new(workspace, program)
        .arg(format!("-max_total_time={}", arguments.seconds))
        .arg(format!("-seed={}", arguments.seed))
        .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-verbosity=0", "-print_final_stats=1"])
        .arg(found)
        .arg(folder.join("corpus").join(target));
    process.limit(Duration::from_secs(arguments.seconds.into()) + OVERHEAD).run()
}

fn host(workspace: &Workspace) -> anyhow::Result<String> {
    let printed = ProgramRun::new(workspace, "rustc").arg("-vV").read()?;
    let host = printed.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
}

#[derive(Deserialize)]
struct FuzzManifest {
    #[serde(default)]
    bin: Vec<FuzzTarget>,
}

#[derive(Deserialize)]
struct FuzzTarget {
    name: String,
}

fn targets_in(manifest: &str) -> anyhow::Result<Vec<String>> {
    let manifest: FuzzManifest = toml::from_str(manifest).context("fuzz/Cargo.toml is no manifest")?;
    ensure!(!manifest.bin.is_empty(), "fuzz/Cargo.toml has no [[bin]]: nothing to run");
    Ok(manifest.bin.into_iter().map(|target| target.name).collect())
}

fn chosen(all: Vec<String>, wanted: &[String]) -> anyhow::Result<Vec<String>> {
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        bail!("there is no target {unknown}; there are: {}", all.join(", "));
    }
    Ok(all.into_iter().filter(|name| wanted.is_empty() || wanted.contains(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"f\"\n[[bin]]\nname = \"head\"\n[[bin]]\nname = \"chunked\"\n";

    #[test]
    fn targets_are_the_programs_of_the_manifest() {
        assert_eq!(targets_in(MANIFEST).unwrap(), ["head", "chunked"]);
        assert!(targets_in("[package]\nname = \"f\"\n").unwrap_err().to_string().contains("nothing to run"));
    }

    #[test]
    fn all_targets_run_and_those_that_find_something_are_named() {
        let all: Vec<String> = ["head", "chunked", "body"].map(str::to_owned).into();
        let ran = Mutex::new(Vec::new());
        let crashed = run_all(&all, |target| {
            ran.lock().unwrap().push(target.to_owned());
            ensure!(target == "body", "found something");
            Ok(())
        });
        assert_eq!(crashed, ["chunked", "head"]);
        assert_eq!(ran.into_inner().unwrap().len(), 3);
    }

    #[test]
    fn a_wrong_target_is_named_with_the_right_ones() {
        let all = || targets_in(MANIFEST).unwrap();
        assert_eq!(chosen(all(), &[]).unwrap(), ["head", "chunked"]);
        assert_eq!(chosen(all(), &["chunked".to_owned()]).unwrap(), ["chunked"]);
        let error = chosen(all(), &["chunk".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "there is no target chunk; there are: head, chunked");
    }
}
