//! What to compare and how: the text of a scenario, read and checked.
//!
//! A scenario asks one question, names the targets, describes exactly one kind of work (`steady`, `idle` or `crowd`) and
//! the bars its figures must meet. The shipped ones lie in `lab/scenarios/` and are built in (`catalogue`).

pub mod bar;
pub mod catalogue;
mod length;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

pub use bar::Bar;

use crate::measure::metric::Metric;
use crate::target::{Class, Target};

/// One scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Its name: that of its file.
    #[serde(default)]
    pub name: String,
    /// The question it answers.
    pub question: String,
    /// Requirements of the project it serves.
    pub requirements: Vec<String>,
    /// What is compared, in the order of the rounds.
    pub targets: Vec<Target>,
    /// How the targets are configured.
    pub class: Class,
    /// Repetition.
    pub rounds: Rounds,
    /// A steady load of closed-loop or constant-rate clients.
    pub steady: Option<Steady>,
    /// Connections that idle.
    pub idle: Option<Idle>,
    /// Many clients at once, played by several tools.
    pub crowd: Option<Crowd>,
    /// What the figures must meet.
    #[serde(default, rename = "bar")]
    pub bars: Vec<Bar>,
}

/// How often and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rounds {
    /// Rounds; each measures every target once.
    pub count: u32,
    /// Load before the window, not counted.
    #[serde(with = "length")]
    pub warm_up: Duration,
    /// Length of the window.
    #[serde(with = "length")]
    pub window: Duration,
}

/// A steady load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Steady {
    /// Simulated clients.
    pub clients: usize,
    /// Whether a client keeps its connection.
    #[serde(default = "yes")]
    pub keep_alive: bool,
    /// Bytes of request body; 0 is a GET.
    #[serde(default)]
    pub body: usize,
    /// Bytes of the answer, for GET.
    #[serde(default = "page_len")]
    pub answer: u64,
    /// A constant rate; without it the loop is closed.
    pub rate: Option<Rate>,
}

/// A constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields, rename_all_fields = "kebab-case")]
pub enum Rate {
    /// So many requests per second.
    Fixed(f64),
    /// A share of the closed-loop peak of one target, found at the start of the run.
    OfPeak {
        /// The share, 0 to 1.
        share: f64,
        /// Whose peak.
        of_peak: Target,
    },
}

/// Idle connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Idle {
    /// Numbers of idle clients at which memory is read; the figure is the slope over them.
    pub clients: Vec<usize>,
    /// Rest before each reading.
    #[serde(with = "length")]
    pub settle: Duration,
}

/// Many clients at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Crowd {
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// What plays them.
    pub tools: Vec<Tool>,
}

/// What plays the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    /// The lab's own driver.
    Driver,
    /// `wrk`.
    Wrk,
    /// ApacheBench, `ab -k`.
    Ab,
    /// `siege`, a connection per request as it does by default.
    Siege,
}

impl Tool {
    /// Its name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Wrk => "wrk",
            Self::Ab => "ab",
            Self::Siege => "siege",
        }
    }
}

fn yes() -> bool {
    true
}

fn page_len() -> u64 {
    crate::origin::PAGE_LEN
}

impl Scenario {
    /// Reads the text of a scenario.
    ///
    /// # Errors
    /// What is wrong with it, with the place.
    pub fn read(name: &str, text: &str) -> anyhow::Result<Self> {
        let mut scenario: Self = toml::from_str(text).with_context(|| format!("scenario {name}"))?;
        ensure!(scenario.name.is_empty(), "scenario {name}: a scenario is called like its file");
        name.clone_into(&mut scenario.name);
        scenario.check().with_context(|| format!("scenario {name}"))?;
        Ok(scenario)
    }

    /// A version of a few seconds that shows that everything works. Its figures mean nothing.
    pub fn shortened(&self) -> Self {
        let mut short = self.clone();
        short.rounds.count = short.rounds.count.min(2);
        short.rounds.warm_up = short.rounds.warm_up.min(Duration::from_millis(200));
        short.rounds.window = short.rounds.window.min(Duration::from_millis(800));
        if let Some(idle) = &mut short.idle {
            idle.clients.iter_mut().for_each(|clients| *clients = clients.div_ceil(20));
            idle.settle = idle.settle.min(Duration::from_millis(100));
        }
        if let Some(crowd) = &mut short.crowd {
            crowd.clients.truncate(1);
            crowd.clients.iter_mut().for_each(|clients| *clients = clients.div_ceil(10));
            // siege and ab count in whole seconds.
            short.rounds.window = Duration::from_secs(1);
            short.rounds.count = 1;
        }
        short
    }

    /// The columns of its table.
    pub fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        if self.idle.is_some() {
            return vec![M::MemoryPerClient, M::Rss, M::Pss];
        }
        if self.crowd.is_some() {
            return vec![M::Availability, M::RequestsPerSecond, M::P50, M::P99, M::Longest, M::Failed];
        }
        let mut columns = vec![M::RequestsPerSecond];
        if self.bars.iter().any(|bar| bar.metric == M::OfDirect) || self.has_variants() {
            columns.push(M::OfDirect);
        }
        columns.extend([M::CpuPerRequest, M::CpuUser, M::CpuSystem, M::P50, M::P99, M::P999, M::Rss]);
        if self.has_variants() {
            columns.extend([M::OriginConnections, M::TimeWait]);
        }
        if self.steady.is_some_and(|steady| steady.rate.is_some()) {
            columns.push(M::LatenessP99);
        }
        columns
    }

    fn has_variants(&self) -> bool {
        self.targets.iter().any(|target| !target.server_reuse)
    }

    fn check(&self) -> anyhow::Result<()> {
        let works = [self.steady.is_some(), self.idle.is_some(), self.crowd.is_some()];
        ensure!(
            works.iter().filter(|is| **is).count() == 1,
            "exactly one of [steady], [idle] and [crowd] is needed"
        );
        ensure!(!self.targets.is_empty() && self.rounds.count > 0, "no targets or no rounds");
        for (index, target) in self.targets.iter().enumerate() {
            ensure!(!self.targets[..index].contains(target), "target {target} is there twice");
        }
        if let Some(steady) = &self.steady {
            ensure!(steady.clients > 0, "no clients");
            match steady.rate {
                Some(Rate::Fixed(rate)) => ensure!(rate > 0.0, "the rate is not positive"),
                Some(Rate::OfPeak { share, .. }) => ensure!(share > 0.0, "the share is not positive"),
                None => {}
            }
        }
        if let Some(idle) = &self.idle {
            let rising = idle.clients.windows(2).all(|pair| pair[0] < pair[1]);
            ensure!(idle.clients.len() >= 2 && rising, "idle clients: two numbers or more, rising");
        }
        if let Some(crowd) = &self.crowd {
            ensure!(!crowd.clients.is_empty() && !crowd.tools.is_empty(), "no clients or no tools");
        }
        self.bars.iter().try_for_each(Bar::check)
    }
}

#[cfg(test)]
mod tests;
