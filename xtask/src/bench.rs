//! `cargo xtask bench`: scenarios of the lab against Weir as packages hold it.
//!
//! Building is all that happens here: the lab measures, judges and reports.

use anyhow::ensure;
use clap::Args;

use crate::dist::DistBuild;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// Keep-alive HTTP is what most traffic is, and the lab needs nothing special to run it.
const SCENARIO_DEFAULT: &str = "l7-keepalive";

#[derive(Args)]
pub(crate) struct BenchArguments {
    /// Scenarios by name (`cargo run --manifest-path lab/Cargo.toml --package weir-lab -- list` shows them)
    #[arg(value_name = "SCENARIO", default_value = SCENARIO_DEFAULT)]
    scenarios: Vec<String>,
    /// A few short rounds: shows that everything runs, measures nothing worth quoting
    #[arg(long)]
    short: bool,
    /// Passed on to the lab
    #[arg(last = true)]
    rest: Vec<String>,
}

impl BenchArguments {
    /// What `ci` runs: the lab's own load generator against every target, then those of others.
    pub(crate) fn smoke() -> Self {
        let scenarios = [SCENARIO_DEFAULT, "clients-default"].map(str::to_owned).to_vec();
        Self { scenarios, short: true, rest: Vec::new() }
    }
}

pub(crate) fn run(workspace: &Workspace, arguments: &BenchArguments) -> anyhow::Result<()> {
    let (_, lab) = DistBuild::measured(workspace)?.measured_programs()?;
    let mut failed = Vec::new();
    for scenario in &arguments.scenarios {
        let mut process = ProgramRun::new(workspace, &lab).finds_tools(workspace).args(["run", scenario]);
        if arguments.short {
            process = process.arg("--short");
        }
        if let Err(error) = process.args(&arguments.rest).run() {
            println!("{error:#}");
            failed.push(scenario.as_str());
        }
    }
    ensure!(failed.is_empty(), "these scenarios failed, see above: {}", failed.join(", "));
    Ok(())
}
