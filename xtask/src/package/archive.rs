//! Archives that are the same for the same files: sorted, with one time, without the names of the users of this machine.

use std::path::Path;

use anyhow::Context as _;

use super::release::Release;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// Packs what is in `folder` into the file `archive`, uncompressed.
pub(super) fn pack(
    workspace: &Workspace,
    release: &Release,
    folder: &Path,
    archive: &Path,
) -> anyhow::Result<()> {
    ProgramRun::new(workspace, "tar")
        .args(["--create", "--format=gnu", "--sort=name", "--numeric-owner", "--owner=0", "--group=0"])
        .arg(format!("--mtime=@{}", release.epoch))
        .arg("--file")
        .arg(archive)
        .arg("--directory")
        .arg(folder)
        .arg(".")
        .run()
}

/// Compresses a file in place: its name gets `.gz`. No name and no time go into it.
pub(super) fn compress(workspace: &Workspace, file: &Path) -> anyhow::Result<()> {
    ProgramRun::new(workspace, "gzip").args(["--best", "--no-name", "--force"]).arg(file).run()
}

/// In hexadecimal.
pub(super) fn sha256(workspace: &Workspace, file: &Path) -> anyhow::Result<String> {
    let printed = ProgramRun::new(workspace, "sha256sum").arg("--binary").arg(file).read()?;
    let sum = printed.split_whitespace().next().context("sha256sum prints a sum")?;
    Ok(sum.trim_start_matches('\\').to_owned())
}
