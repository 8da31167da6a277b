//! `cargo xtask generate`: the files that are made from the code, and whether they are still what the code makes.
//!
//! Each belongs to a test of the crate it describes. The test compares; with `UPDATE=1` it writes. So a stale file fails
//! `cargo test` too, and this command is only the list of those tests.

use std::sync::LazyLock;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use regex::Regex;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// Write nothing, fail when a file is stale
    #[arg(long)]
    pub(crate) check: bool,
}

/// A file and the one test that makes it.
struct Generated {
    file: &'static str,
    /// Which tests to compile, of all packages: those of libraries, of a program, or a test program. With the whole workspace, dependencies
    /// have the features that they have for `cargo test`, and are not compiled anew.
    target: &'static [&'static str],
    /// The path of the test, as `cargo test` lists it.
    test: &'static str,
}

const GENERATED: &[Generated] = &[
    Generated {
        file: "docs/configuration.md",
        target: &["--test", "config"],
        test: "reference::the_reference_is_current",
    },
    Generated {
        file: "docs/elsewhere.md",
        target: &["--test", "config"],
        test: "reference::the_page_of_other_products_is_current",
    },
    Generated {
        file: "docs/failures.md",
        target: &["--lib"],
        test: "failure::tests::failures_page_is_up_to_date",
    },
    Generated {
        file: "docs/metrics.md",
        target: &["--lib"],
        test: "prometheus::tests::documents::the_page_of_metrics_is_current",
    },
    Generated {
        file: "docs/commands.md",
        target: &["--bin", "weir"],
        test: "commands_page::commands_page_is_up_to_date",
    },
];

static PASSED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^test result: ok\. (\d+) passed").expect("the pattern is constant"));

pub(crate) fn run(workspace: &Workspace, arguments: &GenerateArguments) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for generated in GENERATED {
        match generated.run(workspace, arguments.check) {
            Ok(()) => println!("{}: {}", generated.file, if arguments.check { "current" } else { "written" }),
            Err(error) => {
                println!("{error:#}");
                failed.push(generated.file);
            }
        }
    }
    match (failed.is_empty(), arguments.check) {
        (true, _) => Ok(()),
        (false, true) => bail!("stale: {}. Write anew with: cargo xtask generate", failed.join(", ")),
        (false, false) => bail!("not written: {}", failed.join(", ")),
    }
}

impl Generated {
    fn run(&self, workspace: &Workspace, check: bool) -> anyhow::Result<()> {
        let mut process = ProgramRun::cargo(workspace)
            .args(["test", "--quiet", "--workspace", "--all-features"])
            .args(self.target)
            .args([self.test, "--", "--exact"]);
        if !check {
            process = process.env("UPDATE", "1");
        }
        // A test that was renamed would pass by not running.
        let passed = passed(&process.read()?).context("`cargo test` reports no result")?;
        ensure!(passed == 1, "there is no test {}: correct the list in xtask", self.test);
        ensure!(workspace.root().join(self.file).exists(), "{} does not make {}", self.test, self.file);
        Ok(())
    }
}

/// How many tests passed in all test programs that ran; `None` when none did.
fn passed(printed: &str) -> Option<u32> {
    let counts: Vec<u32> =
        PASSED.captures_iter(printed).filter_map(|result| result[1].parse().ok()).collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_tests_is_read() {
        let result = "\nrunning 1 test\n.\ntest result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 56 filtered out\n";
        assert_eq!(passed(result), Some(1));
        let without = result.replace("1 passed", "0 passed");
        assert_eq!(passed(&without), Some(0));
        assert_eq!(passed(&format!("{without}{result}")), Some(1));
        assert_eq!(passed("error: no such package"), None);
    }
}
