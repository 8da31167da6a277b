//! A run: rounds over targets, each measurement from nothing, the results gathered for the report.
//!
//! `stand` starts servers and target for one measurement; `steady` to `reload` each know how to measure one kind of
//! work; `rounds` interleaves them and leaves out what has failed. What is measured is a `Measurement`, whatever the kind.

pub mod measurement;
pub mod server;
pub mod stand;
mod mark;
mod limit;
pub mod capacity;
mod footprint;
mod profiled;
mod site;
mod linger;
mod window;
mod traced;
mod steady;
mod watcher;
mod idle;
mod crowd;
mod queue;
mod outage;
mod overload;
mod slow;
mod probes;
mod persistence;
mod unfinished;
mod ladder;
mod slow_clients;
mod configurations;
mod reload;
mod soak;
mod case;
mod peak;
pub mod rounds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) use ladder::fit;
pub use measurement::Measurement;
pub use rounds::run;

use crate::load::tool::Runner;
use crate::process::Launcher;
use crate::scenario::{Scenario, Tool};
use crate::target::{Search, Target, Url};

/// How long a run is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Length {
    /// As the scenario says.
    #[default]
    Full,
    /// Fewer rounds and shorter windows; figures with less certainty.
    Brief,
    /// A few seconds, to see that everything works.
    Trial,
}

impl Length {
    /// `scenario` at this length.
    pub fn of(self, scenario: &Scenario) -> Scenario {
        match self {
            Self::Full => scenario.clone(),
            Self::Brief => scenario.brief(),
            Self::Trial => scenario.shortened(),
        }
    }
}

/// What a user may choose about a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How to start the lab's own program again.
    pub launcher: Launcher,
    /// Only these targets.
    pub targets: Option<Vec<Target>>,
    /// So many rounds.
    pub rounds: Option<u32>,
    /// Windows of this length.
    pub window: Option<std::time::Duration>,
    /// How long the run is.
    pub length: Length,
    /// Go on without peers and tools that are not installed.
    pub peers_optional: bool,
    /// Where programs are.
    pub programs: Search,
    /// A balancer that runs already, to be measured as well.
    pub url: Option<Url>,
    /// What plays the clients of a steady load: the driver or wrk.
    pub tool: Tool,
    /// CPU of client and origin, and of the target.
    pub cpus: Option<(usize, usize)>,
    /// Profile each target in one more round.
    pub profile: bool,
    /// Set when the user wants it to end.
    pub interrupted: Arc<AtomicBool>,
}

impl Options {
    /// How a load tool is run on `cpus`.
    pub fn runner<'a>(&'a self, cpus: &'a [usize]) -> Runner<'a> {
        Runner { launcher: &self.launcher, cpus, interrupted: &self.interrupted }
    }

    /// Whether the user wants it to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}
