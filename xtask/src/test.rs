//! `cargo xtask test`: the tests of both workspaces, the balancer's and the lab's, all of them even after one failed.
//!
//! A few tests that fail are run once more, one at a time: what passes then depends on how busy the machine is, which is a fault of the test
//! to be mended, but none of the change under test. Such tests are listed at the end.

use std::collections::BTreeSet;

use anyhow::bail;
use clap::Args;

use crate::lab;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

#[derive(Args, Default)]
pub(crate) struct TestArguments {
    /// Passed on to `cargo test` in the workspace of the balancer, and the tests of the lab are left out
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// With more failures than this the change is at fault, not the load.
const REPEATED_MAX: usize = 4;

/// The variable with the number of tests that a test program runs at a time.
pub(crate) const TEST_THREADS: &str = "RUST_TEST_THREADS";

/// Lines shown of what a test that failed has printed.
const LINES_SHOWN: usize = 12;

pub(crate) fn run(workspace: &Workspace, arguments: &TestArguments) -> anyhow::Result<()> {
    let balancer = run_balancer(workspace, &arguments.rest);
    if !arguments.rest.is_empty() {
        println!("\nThe tests of the lab are left out; run them with: cargo xtask ci lab");
        return balancer;
    }
    match (balancer, run_lab(workspace)) {
        (Err(balancer), Err(lab)) => bail!("{balancer:#}\n\n{lab:#}"),
        (balancer, lab) => balancer.and(lab),
    }
}

/// The tests of the workspace of the balancer; `rest` goes to `cargo test`.
pub(crate) fn run_balancer(workspace: &Workspace, rest: &[String]) -> anyhow::Result<()> {
    run_and_repeat(workspace, || ProgramRun::cargo(workspace).arg("test"), rest)
}

/// The tests of the lab, some of which also take Weir as a target where it is built.
pub(crate) fn run_lab(workspace: &Workspace) -> anyhow::Result<()> {
    if !workspace.target().join("debug/weir").is_file() {
        println!("Weir is not built, and the tests of the lab that run balancers go without it.");
    }
    run_and_repeat(workspace, || lab::cargo(workspace, "test").arg("--locked"), &[])
}

/// Runs all tests of the workspace that `cargo test` is for, and a few that fail once more.
fn run_and_repeat(
    workspace: &Workspace,
    cargo_test: impl Fn() -> ProgramRun,
    rest: &[String],
) -> anyhow::Result<()> {
    let run = || all_tests(workspace, cargo_test());
    let (status, output) = run().args(rest).run_and_keep()?;
    if status.success() {
        return Ok(());
    }
    let failures = Failures::in_output(&output);
    // A crate that does not compile, a test program that crashed, or too much for chance.
    if failures.is_empty() || failures.names.len() > REPEATED_MAX || crashed(&output) {
        bail!("`cargo test` ended with {status}{failures}");
    }
    println!("\nOnce more, one at a time: {}", failures.list());
    let names = failures.names.iter();
    let again = run().args(["--", "--exact", "--test-threads", "1"]).args(names).run_and_keep()?;
    if !again.0.success() {
        bail!("`cargo test` ended with {status}{}", Failures::in_output(&again.1));
    }
    println!("\nFailed at first and passed alone, to be mended: {}", failures.list());
    Ok(())
}

fn all_tests(workspace: &Workspace, cargo_test: ProgramRun) -> ProgramRun {
    cargo_test.finds_tools(workspace).env(TEST_THREADS, threads()).args([
        "--workspace",
        "--all-features",
        "--no-fail-fast",
    ])
}

/// How many tests of a program run at a time, unless the environment says: most wait for sockets and timers two thirds of the time.
pub(crate) fn threads() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::env::var(TEST_THREADS).unwrap_or_else(|_unset| (2 * processors).to_string())
}

/// Whether a test program ended without its summary: as many must end as have begun.
fn crashed(output: &str) -> bool {
    let begun = output.lines().filter(|line| line.starts_with("running ") && line.contains(" test")).count();
    let ended = output.lines().filter(|line| line.starts_with("test result: ")).count();
    begun != ended
}

/// The tests that failed, by the output of all test programs.
#[derive(Debug, Default, PartialEq)]
struct Failures {
    names: BTreeSet<String>,
    /// What each has printed, shortened.
    shown: String,
}

impl Failures {
    fn in_output(output: &str) -> Self {
        let names = output.lines().filter_map(|line| {
            line.strip_prefix("test ")?.strip_suffix(" ... FAILED").map(|name| name.to_owned())
        });
        let mut found = Self { names: names.collect(), shown: String::new() };
        let mut left = 0;
        for line in output.lines() {
            match line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
                Some(_) => left = LINES_SHOWN,
                None if line == "failures:" => left = 0,
                None => {}
            }
            if left > 0 {
                left -= 1;
                found.shown.push_str(line);
                found.shown.push('\n');
            }
        }
        found
    }

    fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn list(&self) -> String {
        self.names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Display for Failures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        write!(f, "; failed: {}\n\n{}", self.list(), self.shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 3 tests
test queue::a ... ok
test queue::b ... FAILED
test queue::c ... ignored, slow

failures:

---- queue::b stdout ----
assertion `left == right` failed
  left: 1

failures:
    queue::b

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

    #[test]
    fn failures_are_found_with_what_they_printed() {
        let failures = Failures::in_output(OUTPUT);
        assert_eq!(failures.list(), "queue::b");
        assert_eq!(
            failures.to_string(),
            "; failed: queue::b\n\n---- queue::b stdout ----\nassertion `left == right` failed\n  left: 1\n\n"
        );
        assert_eq!(Failures::in_output("running 0 tests\n"), Failures::default());
    }

    #[test]
    fn a_program_that_ends_without_a_summary_has_crashed() {
        assert!(!crashed(OUTPUT));
        assert!(crashed(&format!("{OUTPUT}\nrunning 1 test\n")));
    }
}
