//! Load tools other than the lab's own driver: how to call each, and how to read its output.
//!
//! One file per tool. All have one result type; figures that a tool does not report are missing from it.

pub mod wrk;
pub mod ab;
pub mod siege;
pub mod vegeta;
pub mod h2load;
pub mod grpc_client;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};

use super::fault::Faults;
use crate::clock;
use crate::installed::{self, Installed};
use crate::process::{Guarded, Job, Launcher, stuck};
use crate::topology::listener::Suite;
use grpc_client::GrpcCalls;

/// The program that plays the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadTool {
    /// The lab's own driver.
    Driver,
    /// `wrk`.
    Wrk,
    /// ApacheBench, `ab -k`.
    Ab,
    /// `siege`, a connection per request as it does by default.
    Siege,
    /// `vegeta`, at a constant rate where there is one.
    Vegeta,
    /// `h2load`: HTTP/2.
    H2load,
    /// The benchmark client of grpc-go.
    GrpcClient,
}

impl LoadTool {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Wrk => "wrk",
            Self::Ab => "ab",
            Self::Siege => "siege",
            Self::Vegeta => "vegeta",
            Self::H2load => "h2load",
            Self::GrpcClient => grpc_client::NAME,
        }
    }
}

/// The task of a tool: the same request, over and over.
#[derive(Debug, Clone, Copy)]
pub struct ToolOrder<'a> {
    /// Where: host and port.
    pub authority: &'a str,
    /// The target of the request, from its `/` on.
    pub path: &'a str,
    /// Bytes of its body; 0 is a GET.
    pub body: usize,
    /// Bytes of the answer, for a tool that can ask for them.
    pub answer: u64,
    /// Which calls, for a tool that speaks gRPC.
    pub calls: GrpcCalls,
    /// Simulated clients.
    pub clients: usize,
    /// Requests of each at once, for a tool that speaks HTTP/2.
    pub streams: usize,
    /// Whether it is over TLS, for a tool that speaks HTTP/2.
    pub is_secure: bool,
    /// The one suite that is offered over HTTP/3; without it, that is not spoken.
    pub suite: Option<Suite>,
    /// Requests per second, for a tool that can hold a rate; without one, as many as the clients can.
    pub rate: Option<f64>,
    /// How long.
    pub window: Duration,
    /// A folder for its files.
    pub dir: &'a Path,
}

/// The result of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolResult {
    /// Requests answered with 2xx.
    pub answered: u64,
    /// Requests that failed.
    pub faults: Faults,
    /// Requests per second, by its own clock.
    pub rate: f64,
    /// Median latency, µs.
    pub p50: Option<f64>,
    /// P99 latency, µs.
    pub p99: Option<f64>,
    /// Longest latency, µs.
    pub longest: Option<f64>,
    /// Bytes of bodies that came, of requests as well that were not over at the end.
    pub body_bytes: Option<u64>,
    /// How often the tool did not end by itself and was started again.
    pub hung: u32,
}

/// How much longer than its window a tool may run: connection set-up, and its own timeout of 30 s.
const GRACE: Duration = Duration::from_secs(40);

/// How to get the tools.
pub const HOW_TO_GET: &str = "apt-get install wrk siege apache2-utils nghttp2-client nghttp2-server; go install github.com/tsenart/vegeta/v12@latest; \
     GOBIN=~/go/bin/grpc-benchmark go install google.golang.org/grpc/benchmark/{client,server}@latest";

/// How often a tool is started again that did not end by itself: siege (4.0) now and then waits for itself for ever, which is seen
/// soon after its time.
const RETRIES: u32 = 2;

/// Where and how tools run.
#[derive(Debug, Clone, Copy)]
pub struct ToolRunner<'a> {
    /// How to start the lab's own program again.
    pub launcher: &'a Launcher,
    /// CPUs for the tool; empty leaves the choice to the kernel.
    pub cpus: &'a [usize],
    /// Set when the user wants it to end.
    pub interrupted: &'a AtomicBool,
}

/// Runs `tool` and reads its result.
///
/// # Errors
/// When it cannot be started, does not end, or its output is not understood.
pub fn run(
    tool: LoadTool,
    installed: &Installed,
    order: &ToolOrder<'_>,
    runner: &ToolRunner<'_>,
) -> anyhow::Result<ToolResult> {
    for hung in 0..=RETRIES {
        if let Some(tally) = try_once(tool, installed, order, runner)? {
            return Ok(ToolResult { hung, ..tally });
        }
        ensure!(!runner.interrupted.load(Ordering::Relaxed), "interrupted");
    }
    bail!("{} did not end within {GRACE:?} after its time, in {} attempts", tool.name(), RETRIES + 1)
}

/// Nothing when the tool did not end.
fn try_once(
    tool: LoadTool,
    installed: &Installed,
    order: &ToolOrder<'_>,
    runner: &ToolRunner<'_>,
) -> anyhow::Result<Option<ToolResult>> {
    if tool == LoadTool::Siege {
        siege::prepare(order)?;
    }
    if tool == LoadTool::H2load {
        h2load::prepare(order)?;
    }
    let mut running = Vec::new();
    for (number, clients) in parts(tool, order.clients).into_iter().enumerate() {
        let order = ToolOrder { clients, ..*order };
        let args = match tool {
            LoadTool::Wrk => wrk::args(&order),
            LoadTool::Ab => ab::args(&order),
            LoadTool::Siege => siege::args(&order),
            LoadTool::Vegeta => vegeta::args(&installed.program, &order),
            LoadTool::H2load => h2load::args(&order),
            LoadTool::GrpcClient => grpc_client::args(&order),
            LoadTool::Driver => bail!("the driver is not a program of its own"),
        };
        let log = order.dir.join(format!("{}-{number}.log", tool.name().replace('/', "-")));
        let program = match tool {
            LoadTool::Vegeta => PathBuf::from("/bin/sh"),
            _ => installed.program.clone(),
        };
        let job = Job { program, args, cpus: runner.cpus.to_vec(), log: log.clone(), ..Job::default() };
        running.push((Guarded::start(runner.launcher, &job)?, log));
    }
    let end = clock::now() + order.window;
    let mut sum: Option<ToolResult> = None;
    for (mut process, log) in running {
        let left = (end + GRACE).saturating_duration_since(clock::now());
        let mut watch = stuck::StuckWatch::new(process.pid(), end);
        let is_over = || runner.interrupted.load(Ordering::Relaxed) || watch.is_stuck();
        let Some(how) = process.wait(left, is_over) else {
            return Ok(None);
        };
        let printed = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
        let tally = read(tool, &printed, order)
            .with_context(|| format!("{} printed no result ({how})", tool.name()))?;
        sum = Some(sum.map_or(tally.clone(), |sum| sum.and(tally)));
    }
    Ok(sum)
}

/// How the clients are shared out over processes of the tool.
///
/// siege (4.0.7 and 4.1.5 at least) watches the wrong descriptor once a descriptor's number reaches FD_SETSIZE, 1024, and
/// then reports failures that never were: each process of it gets at most 500 clients.
fn parts(tool: LoadTool, clients: usize) -> Vec<usize> {
    let most = if tool == LoadTool::Siege { siege::CLIENTS_MAX } else { usize::MAX };
    let number = clients.div_ceil(most).max(1);
    (0..number).map(|part| clients * (part + 1) / number - clients * part / number).collect()
}

fn read(tool: LoadTool, printed: &str, order: &ToolOrder<'_>) -> Option<ToolResult> {
    match tool {
        LoadTool::Wrk => wrk::read(printed),
        LoadTool::Ab => ab::read(printed),
        LoadTool::Siege => siege::read(printed),
        LoadTool::Vegeta => vegeta::read(printed),
        LoadTool::H2load => h2load::read(printed),
        LoadTool::GrpcClient => grpc_client::read(printed, order),
        LoadTool::Driver => None,
    }
}

impl ToolResult {
    /// Both together, having run side by side. Percentiles cannot be added up and are left out.
    fn and(mut self, other: Self) -> Self {
        self.faults.join(other.faults);
        Self {
            answered: self.answered + other.answered,
            faults: self.faults,
            rate: self.rate + other.rate,
            p50: None,
            p99: None,
            longest: self.longest.zip(other.longest).map(|(one, two)| one.max(two)),
            body_bytes: self.body_bytes.zip(other.body_bytes).map(|(one, two)| one + two),
            hung: 0,
        }
    }
}

/// The number at the start of `text`, after blanks.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number that follows `label`.
fn number_after(printed: &str, label: &str) -> Option<f64> {
    number(&printed[printed.find(label)? + label.len()..])
}

/// How to get an `h2load` that speaks HTTP/3.
const HOW_TO_GET_HTTP3: &str = "docs/lab.md says how to build one";

/// Finds a tool on the PATH.
pub fn installed(tool: LoadTool) -> Option<Installed> {
    installed::find_tool(tool.name())
}

/// The same, one that speaks HTTP/3 where `is_http3`.
///
/// # Errors
/// When it is missing, and how to get it.
pub fn installed_for(tool: LoadTool, is_http3: bool) -> anyhow::Result<Installed> {
    if is_http3 && tool == LoadTool::H2load {
        let found = installed::find_http3_h2load();
        return found.with_context(|| format!("there is no h2load that speaks HTTP/3: {HOW_TO_GET_HTTP3}"));
    }
    installed(tool).with_context(|| format!("{} is missing: {HOW_TO_GET}", tool.name()))
}

#[cfg(test)]
mod tests {
    use super::{ToolResult, parts};
    use crate::load::Faults;
    use crate::load::tool::LoadTool;

    #[test]
    fn siege_never_gets_descriptors_it_cannot_watch() {
        assert_eq!(parts(LoadTool::Siege, 500), [500]);
        assert_eq!(parts(LoadTool::Siege, 1001), [333, 334, 334]);
        assert_eq!(parts(LoadTool::Siege, 5000), [500; 10]);
        assert_eq!(parts(LoadTool::Wrk, 5000), [5000]);
    }

    #[test]
    fn tallies_of_processes_side_by_side_add_up() {
        let mut faults = Faults::default();
        faults.note_many("failed", 2, || "siege: two".to_owned());
        let one = ToolResult {
            answered: 10,
            faults: faults.clone(),
            rate: 5.0,
            p50: Some(1.0),
            p99: None,
            longest: Some(9.0),
            body_bytes: None,
            hung: 0,
        };
        let two = ToolResult {
            answered: 20,
            faults,
            rate: 7.0,
            p50: Some(2.0),
            p99: None,
            longest: Some(11.0),
            body_bytes: None,
            hung: 0,
        };
        let both = one.and(two);
        assert_eq!((both.answered, both.faults.total, both.rate), (30, 4, 12.0));
        assert_eq!((both.p50, both.longest, both.faults.kinds["failed"]), (None, Some(11.0), 4));
    }
}
