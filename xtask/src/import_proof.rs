//! `cargo xtask import-proof FILE`: the original program on the original config and Weir on the imported one get the same requests, and all that
//! differs is judged (`crates/weir-proof`, `docs/import-proof.md`).
//!
//! Builds both programs as the tests do, and starts the tool, which does the rest: what `weir import --prove` does with those of a package. `import-coverage` imports the files of a folder.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// 500 requests take some seconds with each program; those that get no answer take some more.
const RUN_LIMIT: Duration = Duration::from_secs(30 * 60);

#[derive(Args)]
pub(crate) struct ImportProofArguments {
    /// What goes to the tool: the original, `--from nginx`, `--program PATH`, `--requests 500`, `--seed N`, `--json`, `--config weir.toml`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ImportCoverageArguments {
    /// The folder of configs
    folder: PathBuf,
    /// Where results and reports go; by default `results` in the folder
    results: Option<PathBuf>,
}

pub(crate) fn run(workspace: &Workspace, arguments: &ImportProofArguments) -> anyhow::Result<()> {
    // A build of the two alone would give dependencies other features, and compile them anew.
    let targets = ["--bin", "weir-proof", "--bin", "weir", "--example", "pick_server"];
    ProgramRun::cargo(workspace).args(["build", "--workspace", "--all-features"]).args(targets).run()?;
    let built = workspace.target().join("debug");
    ProgramRun::new(workspace, built.join("weir-proof"))
        .arg("--weir")
        .arg(built.join("weir"))
        .args(&arguments.arguments)
        .limit(RUN_LIMIT)
        .run()
}

pub(crate) fn run_coverage(workspace: &Workspace, arguments: &ImportCoverageArguments) -> anyhow::Result<()> {
    let command = ["run", "--quiet", "--package", "weir-import", "--example", "coverage", "--"];
    ProgramRun::cargo(workspace).args(command).arg(&arguments.folder).args(&arguments.results).run()
}
