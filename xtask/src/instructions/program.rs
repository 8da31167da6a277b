//! The programs whose instructions are counted.
//!
//! Each is run twice, with different numbers of exchanges; the difference holds no start-up cost.

use std::path::PathBuf;

use anyhow::ensure;

use super::callgrind::Callgrind;
use super::peers::ExchangeShape;
use super::serve;
use crate::dist::DistBuild;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// A program and how much of it to run.
pub(super) struct Program {
    /// Its name in the baseline.
    pub(super) name: &'static str,
    subject: Subject,
    /// In the shorter run; the longer one does twice as many.
    exchanges: u64,
}

/// What is run.
enum Subject {
    /// The HTTP/1 codec alone: `crates/weir-http/examples/http_codec.rs`. Its arguments are an operation and the number of repetitions.
    Codec(&'static str),
    /// `weir serve` with everything that is on by default, between a client and a server of ours.
    Serve(&'static ExchangeShape),
}

const GET: ExchangeShape = ExchangeShape {
    request: b"GET /products/42?sort=price HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: curl/8.5.0\r\n\
               Accept: */*\r\n\r\n",
    request_body_bytes: 0,
    response_body_bytes: 612,
};

const POST: ExchangeShape = ExchangeShape {
    request: b"POST /events HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: curl/8.5.0\r\n\
               Content-Type: application/json\r\nContent-Length: 1024\r\n\r\n",
    request_body_bytes: 1024,
    response_body_bytes: 612,
};

pub(super) const PROGRAMS: &[Program] = &[
    Program { name: "request-head", subject: Subject::Codec("request-head"), exchanges: 2_000 },
    Program { name: "response-head", subject: Subject::Codec("response-head"), exchanges: 2_000 },
    Program { name: "chunked-body", subject: Subject::Codec("chunked-body"), exchanges: 2_000 },
    Program { name: "exchange-get", subject: Subject::Serve(&GET), exchanges: 4_000 },
    Program { name: "exchange-post-1k", subject: Subject::Serve(&POST), exchanges: 4_000 },
];

/// How often a program is counted that seems to have grown. On a busy machine an exchange waits for its peers more often, and each wait takes
/// instructions: the least count is the one that was disturbed least.
const COUNTS_MAX: u32 = 4;

/// Everything that is counted, as packages hold it.
pub(super) struct Executables {
    weir: PathBuf,
    codec: PathBuf,
}

impl Executables {
    pub(super) fn build(workspace: &Workspace) -> anyhow::Result<Self> {
        let dist = DistBuild::measured(workspace)?;
        Ok(Self { weir: dist.weir()?, codec: dist.example("weir-http", "http_codec")? })
    }
}

impl Program {
    /// Counted again as long as `is_enough` says no to the count so far, at most [`COUNTS_MAX`] times.
    pub(super) fn instructions_per_exchange(
        &self,
        workspace: &Workspace,
        executables: &Executables,
        is_enough: impl Fn(u64) -> bool,
    ) -> anyhow::Result<u64> {
        let (mut fewer, mut more, mut per_exchange) = (u64::MAX, u64::MAX, u64::MAX);
        for _ in 0..COUNTS_MAX {
            fewer = fewer.min(self.count(workspace, executables, self.exchanges)?);
            more = more.min(self.count(workspace, executables, 2 * self.exchanges)?);
            per_exchange = more.saturating_sub(fewer) / self.exchanges;
            if is_enough(per_exchange) {
                break;
            }
        }
        ensure!(per_exchange > 0, "{} does not execute more instructions for more exchanges", self.name);
        Ok(per_exchange)
    }

    /// Runs it once and prints the functions in the order of their instructions, start-up included.
    pub(super) fn show_profile(
        &self,
        workspace: &Workspace,
        executables: &Executables,
    ) -> anyhow::Result<()> {
        let callgrind = self.run(workspace, executables, 2 * self.exchanges)?;
        ProgramRun::new(workspace, "callgrind_annotate").arg("--auto=no").arg(callgrind.profile()).run()
    }

    fn count(&self, workspace: &Workspace, executables: &Executables, exchanges: u64) -> anyhow::Result<u64> {
        self.run(workspace, executables, exchanges)?.total()
    }

    fn run(
        &self,
        workspace: &Workspace,
        executables: &Executables,
        exchanges: u64,
    ) -> anyhow::Result<Callgrind> {
        let callgrind = Callgrind::new(workspace.target());
        match self.subject {
            Subject::Codec(what) => {
                let process =
                    ProgramRun::new(workspace, "valgrind").args(callgrind.args()).arg(&executables.codec);
                process.arg(what).arg(exchanges.to_string()).run()?;
            }
            Subject::Serve(traffic) => serve::run(&callgrind, &executables.weir, traffic, exchanges)?,
        }
        Ok(callgrind)
    }
}
