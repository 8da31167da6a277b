//! `cargo xtask setup`: brings the machine to where every other command can run.
//!
//! `ci` does the same as its first step. Safe to repeat: what is there is left alone.

use crate::go_programs;
use crate::packages;
use crate::tools;
use crate::wheel;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let packages = packages::install(workspace);
    for tool in [tools::CARGO_DENY, tools::TYPOS] {
        println!("{}", tool.ready(workspace)?.display());
    }
    wheel::install(workspace);
    go_programs::install(workspace);
    packages
}
