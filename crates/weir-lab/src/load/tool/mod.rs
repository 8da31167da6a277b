//! Load tools other than the lab's own driver: how to call each, and how to read what it prints.
//!
//! One file per tool. All end in one result type; what a tool cannot tell is missing from it.

pub mod wrk;
pub mod ab;
pub mod siege;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::fault::Faults;
use crate::process::{Guarded, Job, Launcher};
use crate::scenario::Tool;
use crate::target::Installed;

/// What a tool is to do: GET the page, over and over.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Where.
    pub target: SocketAddr,
    /// Simulated clients.
    pub clients: usize,
    /// How long.
    pub window: Duration,
    /// A folder for its files.
    pub dir: &'a Path,
}

/// What a tool found out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
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
}

/// How much longer than its window a tool may run: slow clients, connection set-up, timeouts of its own.
const GRACE: Duration = Duration::from_secs(60);

/// How to get the tools.
pub const HOW_TO_GET: &str = "apt-get install wrk siege apache2-utils";

/// Runs `tool` and reads its result.
///
/// # Errors
/// When it cannot be started, does not end, or prints what is not understood.
pub fn run(
    tool: Tool,
    installed: &Installed,
    order: &Order<'_>,
    launcher: &Launcher,
    cpus: &[usize],
    mut interrupted: impl FnMut() -> bool,
) -> anyhow::Result<Tally> {
    let args = match tool {
        Tool::Wrk => wrk::args(order),
        Tool::Ab => ab::args(order),
        Tool::Siege => siege::args(order)?,
        Tool::Driver => bail!("the driver is not a program of its own"),
    };
    let log = order.dir.join(format!("{}.log", tool.name()));
    let job = Job { program: installed.program.clone(), args, cpus: cpus.to_vec(), log: log.clone() };
    let mut running = Guarded::start(launcher, &job)?;
    let Some(how) = running.wait(order.window + GRACE, &mut interrupted) else {
        bail!("{} did not end within {GRACE:?} after its time", tool.name());
    };
    let printed = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let tally = match tool {
        Tool::Wrk => wrk::read(&printed),
        Tool::Ab => ab::read(&printed),
        Tool::Siege => siege::read(&printed),
        Tool::Driver => None,
    };
    tally.with_context(|| format!("{} printed no result ({how})", tool.name()))
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

/// Finds a tool on the PATH.
pub fn installed(tool: Tool) -> Option<Installed> {
    crate::target::installed::find_tool(tool.name())
}
