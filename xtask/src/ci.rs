//! `cargo xtask ci`: every check that a change must pass, one after the other.
//!
//! A failed step does not stop the others: one run tells everything that is wrong. The steps are ordered by what they
//! cost, those that use the builds of the tests first, and each can be run alone (`cargo xtask ci format tidy`).

use anyhow::{Context as _, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::clock::Stopwatch;
use crate::process::ProgramRun;
use crate::recorded::RecordedCheck;
use crate::summary::{CiSummary, Minutes, StepOutcome};
use crate::workspace::Workspace;
use crate::{
    bench, deny, dist, features, fuzz, gateway_types, generate, instructions, kubernetes, lab, manifests,
    matrix, package, recorded, setup, test, tidy, typos,
};

#[derive(Args)]
pub(crate) struct CiArguments {
    /// The steps to run, all by default
    #[arg(value_parser = PossibleValuesParser::new(STEPS.iter().map(|step| step.name)))]
    steps: Vec<String>,
    /// Also what is left out by default, because it takes minutes: manifests, fuzzing, lab and packages that have passed as they are, former faults
    #[arg(long)]
    all: bool,
    /// Record that lab or packages have passed as they are, so that they are left out until that changes
    #[arg(long)]
    record: bool,
    /// Stop at the first step that fails
    #[arg(long)]
    fail_fast: bool,
}

/// The builds of both dist programs have 4 GiB; the rest is for packages, the system that they are tried in, and compilers at work.
const FREE_FOR_PROGRAMS: u64 = 12 << 30;

/// What the last run with `--all` has said.
const WHOLE_RUN: &str = "xtask/last_whole_run.txt";

struct CiStep {
    name: &'static str,
    run: fn(&Workspace) -> anyhow::Result<()>,
    /// Left out unless it is named or `--all` is given.
    only_all: bool,
    /// What `--all` runs in its place.
    run_all: Option<fn(&Workspace) -> anyhow::Result<()>>,
    /// Left out while it has passed for what it depends on; not with `--all`.
    recorded: Option<&'static RecordedCheck>,
}

impl CiStep {
    const fn new(name: &'static str, run: fn(&Workspace) -> anyhow::Result<()>) -> Self {
        Self { name, run, only_all: false, run_all: None, recorded: None }
    }

    const fn only_with_all(self) -> Self {
        Self { only_all: true, ..self }
    }

    const fn with_all(self, run_all: fn(&Workspace) -> anyhow::Result<()>) -> Self {
        Self { run_all: Some(run_all), ..self }
    }

    const fn with_record(self, recorded: &'static RecordedCheck) -> Self {
        Self { recorded: Some(recorded), ..self }
    }
}

const STEPS: &[CiStep] = &[
    CiStep::new("setup", setup::run),
    CiStep::new("format", format),
    CiStep::new("tidy", tidy::run),
    CiStep::new("typos", typos::run),
    CiStep::new("deny", deny::run),
    CiStep::new("clippy", clippy),
    CiStep::new("tests", |workspace| test::run_balancer(workspace, &[])),
    CiStep::new("matrix", |workspace| matrix::run(workspace, &matrix::MatrixArguments::default()))
        .with_all(|workspace| matrix::run(workspace, &matrix::MatrixArguments::with_former_faults())),
    CiStep::new("lab", lab).with_record(&recorded::LAB),
    CiStep::new("features", features::run),
    CiStep::new("docs", docs),
    CiStep::new("generate", |workspace| {
        generate::run(workspace, &generate::GenerateArguments { check: true })
    }),
    CiStep::new("gateway-types", gateway_types::step),
    CiStep::new("kubernetes", kubernetes::step),
    CiStep::new("manifests", manifests::step).only_with_all(),
    CiStep::new("fuzz", |workspace| fuzz::run(workspace, &fuzz::FuzzArguments::smoke())).only_with_all(),
    CiStep::new("programs", programs).with_all(all_programs),
    CiStep::new("instructions", |workspace| {
        instructions::run(workspace, &instructions::InstructionsArguments::default())
    }),
    CiStep::new("package", |workspace| package::run(workspace, &package::PackageArguments::of_ci()))
        .with_record(&recorded::PACKAGES),
    CiStep::new("bench", |workspace| bench::run(workspace, &bench::BenchArguments::smoke())),
];

pub(crate) fn run(workspace: &Workspace, arguments: &CiArguments) -> anyhow::Result<()> {
    let chosen = |step: &&CiStep| match arguments.steps.is_empty() {
        true => arguments.all || !step.only_all,
        false => arguments.steps.iter().any(|name| name == step.name),
    };
    let mut outcomes = Vec::new();
    for step in STEPS.iter().filter(chosen) {
        // A step that is named runs in full.
        outcomes.push(run_step(workspace, step, arguments));
        if arguments.fail_fast && outcomes.last().is_some_and(|outcome| outcome.result.is_err()) {
            break;
        }
    }
    print!("\n{}", CiSummary(&outcomes));
    if arguments.all && arguments.steps.is_empty() && !arguments.fail_fast {
        keep_whole_run(workspace, &outcomes)?;
    }
    let failed: Vec<&str> =
        outcomes.iter().filter(|outcome| outcome.result.is_err()).map(|outcome| outcome.step).collect();
    if !failed.is_empty() {
        bail!("failed: {}. Run one again with: cargo xtask ci {}", failed.join(", "), failed[0]);
    }
    Ok(())
}

/// Writes what a whole run has said, with its commit, to a file of the repository: what `ci` leaves out has been seen by someone, and when.
fn keep_whole_run(workspace: &Workspace, outcomes: &[StepOutcome]) -> anyhow::Result<()> {
    let commit = ProgramRun::new(workspace, "git").args(["describe", "--always", "--dirty"]).read()?;
    let date = ProgramRun::new(workspace, "date").args(["-u", "+%Y-%m-%d %H:%M UTC"]).read()?;
    let text = format!(
        "The last run of `cargo xtask ci --all`: commit {}, ended {}, on {} processors.\n\n{}",
        commit.trim(),
        date.trim(),
        std::thread::available_parallelism().map_or(0, usize::from),
        CiSummary(outcomes)
    );
    std::fs::write(workspace.root().join(WHOLE_RUN), text)
        .with_context(|| format!("cannot write {WHOLE_RUN}"))
}

fn run_step(workspace: &Workspace, step: &CiStep, arguments: &CiArguments) -> StepOutcome {
    println!("\n== {} ==", step.name);
    let stopwatch = Stopwatch::start();
    let all = arguments.all || !arguments.steps.is_empty();
    let run = step.run_all.filter(|_| all).unwrap_or(step.run);
    let result = match step.recorded {
        Some(check) if !all && check.has_passed(workspace) => {
            println!("Left out: it has passed for what it depends on as it is (xtask/recorded.toml).");
            Ok(())
        }
        Some(check) if arguments.record => run(workspace).and_then(|()| check.record(workspace)),
        _ => run(workspace),
    };
    let result = result.map_err(|error| format!("{error:#}"));
    let took = stopwatch.elapsed();
    match &result {
        Ok(()) => println!("== {}: ok after {} ==", step.name, Minutes(took)),
        Err(error) => println!("== {}: FAILED after {}: {error} ==", step.name, Minutes(took)),
    }
    StepOutcome { step: step.name, result, took, disk_free: free_space(workspace).ok() }
}

/// The program that is measured, and the static one where packages are made.
fn programs(workspace: &Workspace) -> anyhow::Result<()> {
    if !recorded::PACKAGES.has_passed(workspace) {
        return all_programs(workspace);
    }
    make_room(workspace)?;
    dist::DistBuild::measured(workspace)?.measured_programs().map(drop)
}

fn all_programs(workspace: &Workspace) -> anyhow::Result<()> {
    make_room(workspace)?;
    dist::run_both(workspace)
}

/// Removes what the steps before were built for, if the disk has too little room for the rest: the programs of the tests are most of it, and no
/// later step needs them.
fn make_room(workspace: &Workspace) -> anyhow::Result<()> {
    if free_space(workspace)? >= FREE_FOR_PROGRAMS {
        return Ok(());
    }
    println!(
        "\nThe disk has less than {} GiB left: the builds of the tests are removed.",
        FREE_FOR_PROGRAMS >> 30
    );
    ProgramRun::cargo(workspace).args(["clean", "--profile", "dev"]).run()
}

/// The bytes that the disk of the builds has left.
fn free_space(workspace: &Workspace) -> anyhow::Result<u64> {
    let disk =
        rustix::fs::statvfs(workspace.target()).context("cannot ask for the free space of the disk")?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

pub(crate) fn format(workspace: &Workspace) -> anyhow::Result<()> {
    ProgramRun::cargo(workspace).args(["fmt", "--all", "--check"]).run()?;
    lab::format(workspace)
}

pub(crate) fn clippy(workspace: &Workspace) -> anyhow::Result<()> {
    ProgramRun::cargo(workspace)
        .args(["clippy", "--workspace", "--all-features", "--all-targets", "--", "-D", "warnings"])
        .run()
}

/// Lints, tests and documentation of the lab's workspace.
fn lab(workspace: &Workspace) -> anyhow::Result<()> {
    lab::cargo(workspace, "clippy")
        .args(["--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
        .run()?;
    test::run_lab(workspace)?;
    lab::cargo(workspace, "doc")
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(["--workspace", "--no-deps", "--locked"])
        .run()
}

fn docs(workspace: &Workspace) -> anyhow::Result<()> {
    ProgramRun::cargo(workspace)
        .env("RUSTDOCFLAGS", "-D warnings")
        .args(["doc", "--workspace", "--all-features", "--no-deps"])
        .run()
}
