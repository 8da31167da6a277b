//! Licences, bans and sources of all dependencies of both workspaces, as `deny.toml` has them.
//!
//! Security advisories need a git clone of the RustSec database, so they are a command of their own to run (see
//! SECURITY.md) and no step of `ci`: a check that fails because a third host is away says nothing about a change.

use crate::lab;
use crate::process::ProgramRun;
use crate::tools;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let deny = tools::CARGO_DENY.ready(workspace)?;
    for manifest in ["Cargo.toml", lab::MANIFEST] {
        ProgramRun::new(workspace, &deny)
            .args(["--manifest-path", manifest, "--config"])
            .arg(workspace.root().join("deny.toml"))
            .args(["check", "--hide-inclusion-graph", "licenses", "bans", "sources"])
            .run()?;
    }
    Ok(())
}
