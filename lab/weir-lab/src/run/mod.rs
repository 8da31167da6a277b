//! A run: rounds over targets, each measurement from nothing, the results gathered for the report.
//!
//! `testbed` starts servers and target for one measurement; `steady` to `reload` each know how to measure one kind of
//! work; `rounds` interleaves them and leaves out failed ones. The result is a `Measurement`, whatever the kind.

pub mod rounds;
mod case;
pub mod capacity;
mod peak;
mod profiled;
mod crowd;
mod idle;
mod unfinished;
mod persistence;
mod overload;
mod slow;
mod reload;
mod soak;
mod outage;
mod probes;
mod queue;
mod slow_clients;
mod flood;
mod slow_stream;
mod ladder;
mod steady;
mod traced;
mod watcher;
mod footprint;
mod window;
mod lingering_thread;
mod window_mark;
mod limit;
pub mod testbed;
pub mod server;
mod web_server;
pub mod bench;
mod configurations;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::scenario::RunLength;

pub(crate) use ladder::fit;
pub use rounds::run;

use crate::load::tool::{LoadTool, ToolRunner};
use crate::process::Launcher;
use crate::scenario::SteadyWork;
use crate::target::TargetUrl;
use crate::target::search::ProgramSearch;
use crate::topology::target::LabTarget;

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to start the lab's own program again.
    pub launcher: Launcher,
    /// Only these targets.
    pub targets: Option<Vec<LabTarget>>,
    /// The number of rounds.
    pub rounds: Option<u32>,
    /// Windows of this length.
    pub window: Option<std::time::Duration>,
    /// How long the run is.
    pub length: RunLength,
    /// Go on without peers and tools that are not installed.
    pub peers_optional: bool,
    /// Where programs are.
    pub programs: ProgramSearch,
    /// A balancer that runs already, to be measured as well.
    pub url: Option<TargetUrl>,
    /// The load tool of a steady load: the driver or wrk.
    pub tool: LoadTool,
    /// CPU of client and origin, and of the target.
    pub cpus: Option<(usize, usize)>,
    /// Profile each target in one more round.
    pub profile: bool,
    /// Set when the user wants it to end.
    pub interrupted: Arc<AtomicBool>,
}

impl Options {
    /// How a load tool is run on `cpus`.
    pub fn runner<'a>(&'a self, cpus: &'a [usize]) -> ToolRunner<'a> {
        ToolRunner { launcher: &self.launcher, cpus, interrupted: &self.interrupted }
    }

    /// The load tool of this load: for HTTP/2 and for gRPC there is one, for HTTP/3 the driver and one more.
    pub fn tool_for(&self, steady: &SteadyWork) -> LoadTool {
        match (steady.grpc, steady.streams) {
            (Some(_), _) => LoadTool::GrpcClient,
            (None, Some(_)) if steady.http3 && self.tool != LoadTool::H2load => LoadTool::Driver,
            (None, Some(_)) => LoadTool::H2load,
            (None, None) => self.tool,
        }
    }

    /// Whether the user wants it to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
