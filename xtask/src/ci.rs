//! `cargo xtask ci`: every check that a change must pass, one after the other.
//!
//! A failed step does not stop the others: one run tells everything that is wrong. The steps are ordered by what they
//! cost, and each can be run alone (`cargo xtask ci format tidy`).

use anyhow::bail;
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::clock::Stopwatch;
use crate::process::Process;
use crate::summary::{Minutes, Outcome, Summary};
use crate::workspace::Workspace;
use crate::{bench, deny, fuzz, generate, instructions, setup, test, tidy, typos};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The steps to run, all by default
    #[arg(value_parser = PossibleValuesParser::new(STEPS.iter().map(|step| step.name)))]
    steps: Vec<String>,
    /// Stop at the first step that fails
    #[arg(long)]
    fail_fast: bool,
}

struct Step {
    name: &'static str,
    run: fn(&Workspace) -> anyhow::Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "setup", run: setup::run },
    Step { name: "format", run: format },
    Step { name: "tidy", run: tidy::run },
    Step { name: "typos", run: typos::run },
    Step { name: "deny", run: deny::run },
    Step { name: "clippy", run: clippy },
    Step { name: "tests", run: |workspace| test::run(workspace, &test::Arguments::default()) },
    Step { name: "docs", run: docs },
    Step {
        name: "generate",
        run: |workspace| generate::run(workspace, &generate::Arguments { check: true }),
    },
    Step { name: "fuzz", run: |workspace| fuzz::run(workspace, &fuzz::Arguments::smoke()) },
    Step {
        name: "instructions",
        run: |workspace| instructions::run(workspace, &instructions::Arguments::default()),
    },
    Step { name: "bench", run: |workspace| bench::run(workspace, &bench::Arguments::smoke()) },
];

pub(crate) fn run(workspace: &Workspace, arguments: &Arguments) -> anyhow::Result<()> {
    let chosen =
        |step: &&Step| arguments.steps.is_empty() || arguments.steps.iter().any(|name| name == step.name);
    let mut outcomes = Vec::new();
    for step in STEPS.iter().filter(chosen) {
        outcomes.push(run_step(workspace, step));
        if arguments.fail_fast && outcomes.last().is_some_and(|outcome| outcome.result.is_err()) {
            break;
        }
    }
    print!("\n{}", Summary(&outcomes));
    let failed: Vec<&str> =
        outcomes.iter().filter(|outcome| outcome.result.is_err()).map(|outcome| outcome.step).collect();
    if !failed.is_empty() {
        bail!("failed: {}. Run one again with: cargo xtask ci {}", failed.join(", "), failed[0]);
    }
    Ok(())
}

fn run_step(workspace: &Workspace, step: &Step) -> Outcome {
    println!("\n== {} ==", step.name);
    let stopwatch = Stopwatch::start();
    let result = (step.run)(workspace).map_err(|error| format!("{error:#}"));
    let took = stopwatch.elapsed();
    match &result {
        Ok(()) => println!("== {}: ok after {} ==", step.name, Minutes(took)),
        Err(error) => println!("== {}: FAILED after {}: {error} ==", step.name, Minutes(took)),
    }
    Outcome { step: step.name, result, took }
}

fn format(workspace: &Workspace) -> anyhow::Result<()> {
    Process::cargo(workspace).args(["fmt", "--all", "--check"]).run()?;
    // Not a member of the workspace: it is compiled with flags of its own.
    Process::cargo(workspace).args(["fmt", "--check", "--manifest-path", "fuzz/Cargo.toml"]).run()
}

fn clippy(workspace: &Workspace) -> anyhow::Result<()> {
    Process::cargo(workspace).args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()
}

fn docs(workspace: &Workspace) -> anyhow::Result<()> {
    Process::cargo(workspace)
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(["doc", "--workspace", "--no-deps"])
        .run()
}
