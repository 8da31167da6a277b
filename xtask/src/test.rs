//! `cargo xtask test`: the tests of the workspace, all of them even after one failed.

use clap::Args;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

#[derive(Args, Default)]
pub(crate) struct TestArguments {
    /// Passed on to `cargo test`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn run(workspace: &Workspace, arguments: &TestArguments) -> anyhow::Result<()> {
    ProgramRun::cargo(workspace)
        .finds_tools(workspace)
        .args(["test", "--workspace", "--all-features", "--no-fail-fast"])
        .args(&arguments.rest)
        .run()
}
