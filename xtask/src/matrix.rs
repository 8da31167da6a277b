//! `cargo xtask matrix`: combinations of protocols, features, bodies and events on the real program, judged by every byte (`crates/weir-matrix`).
//!
//! Builds the program as the tests do, and the tool, which does the rest.

use std::time::Duration;

use clap::Args;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// All triples take some minutes on two cores.
const RUN_LIMIT: Duration = Duration::from_secs(30 * 60);

#[derive(Args, Default)]
pub(crate) struct MatrixArguments {
    /// What goes to the tool: `--triples`, `--seed N`, `--case NAME`, `--jobs N`, `--list`, `--coverage`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, arguments: &MatrixArguments) -> anyhow::Result<()> {
    // The program that the tests run: a build without them would give dependencies other features, and compile them anew.
    ProgramRun::cargo(workspace).args(["test", "--workspace", "--all-features", "--no-run"]).run()?;
    ProgramRun::cargo(workspace)
        .args(["build", "--workspace", "--all-features", "--bin", "weir-matrix"])
        .run()?;
    let built = workspace.target().join("debug");
    ProgramRun::new(workspace, built.join("weir-matrix"))
        .arg("--program")
        .arg(built.join("weir"))
        .arg("--failed")
        .arg(workspace.target().join("matrix"))
        .args(&arguments.arguments)
        .limit(RUN_LIMIT)
        .run()
}
