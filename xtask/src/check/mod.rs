//! `cargo xtask check`: what a change needs, by the files that it touches.
//!
//! Style, lints, and the tests that are near: those of the crates that changed, and the folders of end-to-end tests that belong to the files
//! ([`areas`]). It builds what `cargo xtask test` builds, with the same features, so that each finds the work of the other done. What it leaves out is
//! for `cargo xtask ci`.

mod test_programs;

mod changes;

mod areas;

use anyhow::bail;
use clap::Args;

use crate::clock::Stopwatch;
use crate::summary::{CiSummary, Minutes, StepOutcome};
use crate::workspace::Workspace;
use crate::{ci, generate, tidy};
use areas::Needed;

#[derive(Args)]
pub(crate) struct ChangeArguments {
    /// The files that differ from this commit; by default from HEAD, or those of the last commit when nothing does
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
    /// Say what would run, and run nothing
    #[arg(long)]
    dry_run: bool,
}

struct CheckStep {
    name: &'static str,
    is_needed: fn(&Needed) -> bool,
    run: fn(&Workspace, &Needed) -> anyhow::Result<()>,
}

const STEPS: &[CheckStep] = &[
    CheckStep { name: "format", is_needed: Needed::compiles, run: |workspace, _| ci::format(workspace) },
    CheckStep { name: "tidy", is_needed: |_| true, run: |workspace, _| tidy::run(workspace) },
    CheckStep { name: "clippy", is_needed: Needed::compiles, run: |workspace, _| ci::clippy(workspace) },
    CheckStep {
        name: "generate",
        is_needed: |needed| needed.compiles() || needed.documents,
        run: |workspace, _| generate::run(workspace, &generate::GenerateArguments { check: true }),
    },
    CheckStep { name: "tests", is_needed: Needed::compiles, run: test_programs::run },
];

pub(crate) fn run(workspace: &Workspace, arguments: &ChangeArguments) -> anyhow::Result<()> {
    let changed = changes::changed_files(workspace, arguments.since.as_deref())?;
    let needed = Needed::by(&changed);
    println!("{} files changed. {needed}", changed.len());
    if arguments.dry_run {
        return Ok(());
    }
    let mut outcomes = Vec::new();
    for step in STEPS.iter().filter(|step| (step.is_needed)(&needed)) {
        println!("\n== {} ==", step.name);
        let stopwatch = Stopwatch::start();
        let result = (step.run)(workspace, &needed).map_err(|error| format!("{error:#}"));
        let outcome = StepOutcome { step: step.name, result, took: stopwatch.elapsed(), disk_free: None };
        println!("== {}: {} ==", step.name, Minutes(outcome.took));
        // What does not compile has no tests.
        let ends = outcome.result.is_err() && step.name == "clippy";
        outcomes.push(outcome);
        if ends {
            break;
        }
    }
    print!("\n{}", CiSummary(&outcomes));
    match outcomes.iter().any(|outcome| outcome.result.is_err()) {
        true => bail!("the change is not ready"),
        false => Ok(()),
    }
}
