//! The files that a change touches, by Git.

use std::collections::BTreeSet;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// What differs from a commit and what Git does not know yet, relative to the workspace. Without a commit: from HEAD; and if nothing does, what
/// HEAD changed.
///
/// # Errors
/// Git is not there, or does not know the commit.
pub(super) fn changed_files(workspace: &Workspace, since: Option<&str>) -> anyhow::Result<BTreeSet<String>> {
    let mut changed = differing(workspace, since.unwrap_or("HEAD"))?;
    changed.extend(lines(&git(workspace).args(["ls-files", "--others", "--exclude-standard"]).read()?));
    if changed.is_empty() && since.is_none() {
        changed = differing(workspace, "HEAD~1")?;
    }
    Ok(changed)
}

fn differing(workspace: &Workspace, commit: &str) -> anyhow::Result<BTreeSet<String>> {
    // Both names of a file that was renamed: its old place has changed, too.
    let differing = git(workspace).args(["diff", "--name-only", "--no-renames", commit, "--"]).read()?;
    Ok(lines(&differing).collect())
}

fn git(workspace: &Workspace) -> ProgramRun {
    // Names with other letters are not quoted.
    ProgramRun::new(workspace, "git").args(["-c", "core.quotePath=false"])
}

fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().map(str::to_owned)
}
