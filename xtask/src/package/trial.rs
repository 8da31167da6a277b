//! The trial: the Debian package is installed in a fresh Debian, under a systemd of its own, and used there as `packaging/trial/trial.sh` says.
//!
//! The system is a container of systemd-nspawn with a network of its own, so nothing on this machine changes. It takes root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::contents::{copy, make_folder};
use super::remove;
use crate::peers;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// What a fresh system has beyond the packages that every Debian has.
const SYSTEM: &str = "adduser,ca-certificates,curl,dbus,openssl,systemd,systemd-sysv";

/// The release of Debian that is the oldest one supported.
const SUITE: &str = "bookworm";

/// To start the system and to go through all steps on a busy machine.
const LIMIT: Duration = Duration::from_secs(10 * 60);

pub(super) fn run(workspace: &Workspace, package: &Path) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("{} is not tried: that takes root", package.display());
        return Ok(());
    }
    let folder = workspace.target().join("package-trial");
    let root = folder.join("root");
    remove(&root)?;
    make_folder(&root)?;
    unpack_system(workspace, &folder, &root)?;
    let trial = root.join("trial");
    let scripts = workspace.root().join("packaging/trial");
    copy(package, &trial.join("weir.deb"))?;
    copy(&scripts.join("trial.sh"), &trial.join("trial.sh"))?;
    copy(&scripts.join("weir-trial.service"), &root.join("etc/systemd/system/weir-trial.service"))?;
    ProgramRun::new(workspace, "systemctl")
        .arg("--root")
        .arg(&root)
        .args(["enable", "weir-trial.service"])
        .run()?;
    ProgramRun::new(workspace, "systemd-nspawn")
        .args(["--quiet", "--boot", "--private-network", "--link-journal=no", "--register=no", "--keep-unit"])
        // Its own filter is older than that call.
        .args(["--system-call-filter=openat2", "--console=pipe", "--directory"])
        .arg(&root)
        .limit(LIMIT)
        .run()?;
    let result = fs::read_to_string(trial.join("result")).context("the trial has left no result")?;
    remove(&root)?;
    print!("{result}");
    judge(&result)
}

/// A fresh system in `root`; it is fetched once.
fn unpack_system(workspace: &Workspace, folder: &Path, root: &Path) -> anyhow::Result<()> {
    let archive: PathBuf = folder.join(format!("{SUITE}.tar"));
    if !archive.exists() {
        let mirror = peers::mirror().context("apt's list of sources names no mirror of Debian")?;
        let unfinished = archive.with_extension("unfinished.tar");
        ProgramRun::new(workspace, "mmdebstrap")
            .args(["--quiet", "--variant=apt", "--components=main", &format!("--include={SYSTEM}")])
            .args(["--aptopt=Acquire::Check-Valid-Until \"false\"", SUITE])
            .arg(&unfinished)
            .arg(mirror)
            .run()?;
        fs::rename(&unfinished, &archive)?;
    }
    ProgramRun::new(workspace, "tar")
        .arg("--extract")
        .arg("--file")
        .arg(&archive)
        .arg("--directory")
        .arg(root)
        .run()
}

/// Every step must have come out well, up to the last one.
fn judge(result: &str) -> anyhow::Result<()> {
    let failed: Vec<&str> = result.lines().filter(|line| line.starts_with("FAILED ")).collect();
    ensure!(result.lines().last() == Some("end"), "the trial did not come to its end");
    if !failed.is_empty() {
        bail!("{} steps of the trial failed:\n{}", failed.len(), failed.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_fails_or_breaks_off_is_an_error() {
        judge("ok a\nnote: b\nend\n").unwrap();
        assert_eq!(judge("ok a\n").unwrap_err().to_string(), "the trial did not come to its end");
        let error = judge("ok a\nFAILED b: c\nend\n").unwrap_err().to_string();
        assert_eq!(error, "1 steps of the trial failed:\nFAILED b: c");
    }
}
