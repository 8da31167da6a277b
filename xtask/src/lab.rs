//! The workspace of lab and simulator, `lab/Cargo.toml`: no release of the balancer contains any of it (decision 215).
//!
//! Builds into the target folder of the balancer's workspace: dependencies with the same features are compiled once, and the lab finds Weir
//! beside itself.

use std::path::Path;

use anyhow::Context as _;
use cargo_metadata::{Metadata, MetadataCommand};

use crate::process::ProgramRun;
use crate::workspace::Workspace;

pub(crate) const MANIFEST: &str = "lab/Cargo.toml";

/// A cargo command for this workspace.
pub(crate) fn cargo(workspace: &Workspace, command: &str) -> ProgramRun {
    ProgramRun::cargo(workspace)
        .args([command, "--manifest-path", MANIFEST, "--target-dir"])
        .arg(workspace.target())
}

/// Its packages and their dependencies.
pub(crate) fn metadata(root: &Path) -> anyhow::Result<Metadata> {
    MetadataCommand::new()
        .manifest_path(root.join(MANIFEST))
        .exec()
        .context("`cargo metadata` failed for the lab")
}

/// Whether it has the format of `rustfmt.toml`.
pub(crate) fn format(workspace: &Workspace) -> anyhow::Result<()> {
    ProgramRun::cargo(workspace).args(["fmt", "--all", "--check", "--manifest-path", MANIFEST]).run()
}
