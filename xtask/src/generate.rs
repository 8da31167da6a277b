//! `cargo xtask generate`: the files that are made from the code, and whether they are still what the code makes.
//!
//! Each belongs to a test of the crate it describes. The test compares; with `UPDATE=1` it writes. So a stale file fails
//! `cargo test` too, and this command is only the list of those tests.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{bail, ensure};
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
    /// Which tests to compile, of all packages, to write it: those of libraries, of a program, or a test program.
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
        file: "docs/order.md",
        target: &["--test", "config"],
        test: "reference::the_page_of_the_order_is_current",
    },
    Generated {
        file: "docs/failures.md",
        target: &["--lib"],
        test: "failure::tests::failures_page_is_up_to_date",
    },
    Generated {
        file: "docs/metrics.md",
        target: &["--lib"],
        test: "renderings::prometheus::tests::documents::the_page_of_metrics_is_current",
    },
    Generated {
        file: "docs/ingress.md",
        target: &["--lib"],
        test: "ingress::page::tests::the_page_has_the_table",
    },
    Generated {
        file: "docs/from-nginx.md",
        target: &["--test", "guides"],
        test: "the_guide_from_nginx_is_current",
    },
    Generated {
        file: "docs/from-haproxy.md",
        target: &["--test", "guides"],
        test: "the_guide_from_haproxy_is_current",
    },
    Generated {
        file: "docs/commands.md",
        target: &["--bin", "weir"],
        test: "documents::commands_page::commands_page_is_up_to_date",
    },
];

static ENDED: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?m)^test (\S+) \.\.\. (\w+)").expect("the pattern is constant"));

pub(crate) fn run(workspace: &Workspace, arguments: &GenerateArguments) -> anyhow::Result<()> {
    if arguments.check { check(workspace) } else { write(workspace) }
}

/// All of them by one command, with what `cargo xtask test` compiled: a choice of targets would give dependencies other features, and they would
/// be compiled anew.
fn check(workspace: &Workspace) -> anyhow::Result<()> {
    let (_, printed) = ProgramRun::cargo(workspace)
        .args(["test", "--no-fail-fast", "--workspace", "--all-features", "--", "--exact"])
        .args(GENERATED.iter().map(|generated| generated.test))
        .run_and_keep()?;
    let ended = ended(&printed);
    let mut stale = Vec::new();
    for generated in GENERATED {
        match ended.get(generated.test).copied() {
            Some("ok") => println!("{}: current", generated.file),
            Some(_) => stale.push(generated.file),
            // A test that was renamed would pass by not running.
            None => {
                bail!("{} did not run: if there is no such test, correct the list in xtask", generated.test)
            }
        }
    }
    ensure!(stale.is_empty(), "stale: {}. Write anew with: cargo xtask generate", stale.join(", "));
    Ok(())
}

/// One after the other, and compiles no more than each needs.
fn write(workspace: &Workspace) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for generated in GENERATED {
        match generated.write(workspace) {
            Ok(()) => println!("{}: written", generated.file),
            Err(error) => {
                println!("{error:#}");
                failed.push(generated.file);
            }
        }
    }
    ensure!(failed.is_empty(), "not written: {}", failed.join(", "));
    Ok(())
}

impl Generated {
    fn write(&self, workspace: &Workspace) -> anyhow::Result<()> {
        let printed = ProgramRun::cargo(workspace)
            .args(["test", "--workspace", "--all-features"])
            .args(self.target)
            .args([self.test, "--", "--exact"])
            .env("UPDATE", "1")
            .read()?;
        ensure!(
            ended(&printed).get(self.test) == Some(&"ok"),
            "there is no test {}: correct the list in xtask",
            self.test
        );
        ensure!(workspace.root().join(self.file).exists(), "{} does not make {}", self.test, self.file);
        Ok(())
    }
}

/// The tests that ran, each with how it ended: `ok`, `FAILED`, `ignored`.
fn ended(printed: &str) -> BTreeMap<&str, &str> {
    ENDED
        .captures_iter(printed)
        .map(|test| {
            let (_, [name, result]) = test.extract();
            (name, result)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_each_test_ended_is_read() {
        let printed = "\nrunning 2 tests\ntest pages::current ... ok\ntest other ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed\n";
        let ended = ended(printed);
        assert_eq!(ended["pages::current"], "ok");
        assert_eq!(ended["other"], "FAILED");
        assert_eq!(ended.len(), 2);
    }
}
