//! The programs whose instructions are counted.
//!
//! Each is an example of some package that takes a number of exchanges as its last argument and does exactly that
//! many. It is run twice, with different numbers; the difference holds no start-up cost. A program that needs peers
//! over sockets starts itself once more for them: valgrind follows no child.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::callgrind;
use crate::process::Process;
use crate::workspace::Workspace;

/// A program and how much of it to run.
pub(super) struct Program {
    /// Its name in the baseline.
    pub(super) name: &'static str,
    package: &'static str,
    example: &'static str,
    args: &'static [&'static str],
    /// In the shorter run; the longer one does twice as many.
    exchanges: u64,
}

pub(super) const PROGRAMS: &[Program] = &[
    Program {
        name: "request-head",
        package: "xtask",
        example: "http_codec",
        args: &["request-head"],
        exchanges: 2_000,
    },
    Program {
        name: "response-head",
        package: "xtask",
        example: "http_codec",
        args: &["response-head"],
        exchanges: 2_000,
    },
    Program {
        name: "chunked-body",
        package: "xtask",
        example: "http_codec",
        args: &["chunked-body"],
        exchanges: 2_000,
    },
];

impl Program {
    /// Builds it as released and returns where it is.
    pub(super) fn build(&self, workspace: &Workspace) -> anyhow::Result<PathBuf> {
        Process::cargo(workspace)
            .args(["build", "--release", "--package", self.package, "--example", self.example])
            .run()?;
        Ok(workspace.target().join("release").join("examples").join(self.example))
    }

    pub(super) fn instructions_per_exchange(
        &self,
        workspace: &Workspace,
        binary: &Path,
    ) -> anyhow::Result<u64> {
        let fewer = self.count(workspace, binary, self.exchanges)?;
        let more = self.count(workspace, binary, 2 * self.exchanges)?;
        let per_exchange = more.saturating_sub(fewer) / self.exchanges;
        ensure!(per_exchange > 0, "{} does not do more when it is told to do more", self.name);
        Ok(per_exchange)
    }

    fn count(&self, workspace: &Workspace, binary: &Path, exchanges: u64) -> anyhow::Result<u64> {
        callgrind::count(workspace, binary, self.args, exchanges)
    }
}
