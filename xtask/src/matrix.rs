//! `cargo xtask matrix`: combinations of protocols, features, bodies and events on the real program, judged by every byte (`crates/weir-matrix`).
//!
//! Builds the program as the tests do, and the tool, which does the rest.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::former_faults;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// All triples take some minutes on two cores.
const RUN_LIMIT: Duration = Duration::from_secs(30 * 60);

#[derive(Args, Default)]
pub(crate) struct MatrixArguments {
    /// Then also build a program that has former faults again, and see that the matrix finds each of them
    #[arg(long)]
    former_faults: bool,
    /// What goes to the tool: `--triples`, `--seed N`, `--case NAME`, `--jobs N`, `--list`, `--coverage`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

impl MatrixArguments {
    /// All pairs, and the program with former faults.
    pub(crate) fn with_former_faults() -> Self {
        Self { former_faults: true, ..Self::default() }
    }
}

pub(crate) fn run(workspace: &Workspace, arguments: &MatrixArguments) -> anyhow::Result<()> {
    let (tool, program) = build(workspace)?;
    ProgramRun::new(workspace, &tool)
        .arg("--program")
        .arg(program)
        .arg("--failed")
        .arg(workspace.target().join("matrix"))
        .args(&arguments.arguments)
        .limit(RUN_LIMIT)
        .run()?;
    if arguments.former_faults { former_faults::run(workspace, &tool) } else { Ok(()) }
}

/// The tool, and the program that the tests run: a build without them would give dependencies other features, and compile them anew.
fn build(workspace: &Workspace) -> anyhow::Result<(PathBuf, PathBuf)> {
    // An example is among the targets for the same reason: without one, nothing that only tests and examples use counts.
    let targets = ["--bin", "weir-matrix", "--bin", "weir", "--example", "pick_server"];
    ProgramRun::cargo(workspace).args(["build", "--workspace", "--all-features"]).args(targets).run()?;
    let built = workspace.target().join("debug");
    Ok((built.join("weir-matrix"), built.join("weir")))
}
