//! The text of a scenario, read and checked: the targets, the load and the bars.
//!
//! A scenario asks one question, names the targets and the servers behind them, describes exactly one kind of work and the
//! bars its figures must meet. The shipped ones lie in `lab/scenarios/` and are built in (`catalogue`).

pub mod catalogue;
mod run_length;
mod expected_duration;
mod check;
mod mistakes;
pub mod steady;
pub mod bar;
pub mod work;
pub mod clients;
pub mod soak;
pub mod http2;
pub mod site;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};

use crate::length;
use crate::load::tool::LoadTool;
use crate::measure::metric::Metric;
use crate::target::Traffic;
use crate::topology::listener::ListenerSetup;
use crate::topology::product::Product;
use crate::topology::target::{LabTarget, TargetVariant, TuningClass};
use crate::topology::upstream::UpstreamSetup;
pub use bar::Bar;
use clients::{LadderWork, ReloadWork, SlowClientsWork};
use http2::{FloodWork, SlowStreamWork};
pub use run_length::RunLength;
use site::SiteWork;
use soak::SoakWork;
pub use steady::{RequestRate, SteadyWork};
use work::{OutageWork, OverloadWork, PersistenceWork, ProbesWork, QueueWork, SlowWork, UnfinishedWork};

/// One scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Its name: that of its file.
    #[serde(default)]
    pub name: String,
    /// The question it answers.
    pub question: String,
    /// Requirements of the project that a scenario of the catalogue serves; one of your own needs none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// Published comparisons that asked the same, by the numbers that docs/lab.md gives them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<String>,
    /// The targets, in the order of the rounds.
    pub targets: Vec<LabTarget>,
    /// Further targets to compare, if they are installed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<LabTarget>,
    /// How the targets are configured.
    pub class: TuningClass,
    /// Repetition.
    pub rounds: Rounds,
    /// The protocol of the targets with the clients; without it, HTTP/1.1.
    #[serde(default)]
    pub listener: ListenerSetup,
    /// The servers, and the targets' settings for them; without it, one server.
    #[serde(default)]
    pub upstream: UpstreamSetup,
    /// A steady load of closed-loop or constant-rate clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyWork>,
    /// Connections that idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleWork>,
    /// Many clients at once, played by several tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowd: Option<CrowdWork>,
    /// Clients that queue for servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueWork>,
    /// A server that is killed or hangs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<OutageWork>,
    /// More requests than the servers can take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overload: Option<OverloadWork>,
    /// A few requests that take long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowWork>,
    /// Health checks of many servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbesWork>,
    /// Clients that belong to servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<PersistenceWork>,
    /// Handshakes that never end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfinished: Option<UnfinishedWork>,
    /// More and more clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<LadderWork>,
    /// Clients that read and write slowly, beside others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_clients: Option<SlowClientsWork>,
    /// Targets that get new configurations under load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<ReloadWork>,
    /// A stream of HTTP/2 that is not read, beside others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_stream: Option<SlowStreamWork>,
    /// Attacks on HTTP/2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flood: Option<FloodWork>,
    /// Everything at once, for long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<SoakWork>,
    /// A site that runs already, which only the command line can give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteWork>,
    /// The bars for the figures.
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

/// Idle connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct IdleWork {
    /// Numbers of idle clients at which memory is read; the figure is the slope over them.
    pub clients: Vec<usize>,
    /// Exchanges of other clients with the target before these clients come: memory that it keeps for its last exchanges, such
    /// as records for a log or the admin listener, is allocated by then and does not count as theirs.
    #[serde(default)]
    pub before: usize,
    /// Rest before each reading.
    #[serde(with = "length")]
    pub settle: Duration,
    /// The clients have a WebSocket tunnel each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnels: Option<Tunnels>,
    /// The clients speak HTTP/2.
    #[serde(default)]
    pub http2: bool,
    /// The cost of this number is reported as well, by the slope over the tunnels that were opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extrapolate: Option<usize>,
}

/// WebSocket tunnels in which little happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tunnels {
    /// Bytes of a message; it comes back.
    pub message: usize,
    /// From one message of a tunnel to the next, while the CPU of the largest number of tunnels is measured.
    #[serde(with = "length")]
    pub heartbeat: Duration,
}

/// Many clients at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CrowdWork {
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// The program that plays them.
    pub tools: Vec<LoadTool>,
}

impl Scenario {
    /// Reads the text of a scenario.
    ///
    /// # Errors
    /// The errors in it, with the place.
    pub fn read(name: &str, text: &str) -> anyhow::Result<Self> {
        let read = mistakes::read(text).map_err(|mistakes| anyhow::anyhow!("\n  {}", mistakes.join("\n  ")));
        let mut scenario: Self = read.with_context(|| format!("scenario {name}"))?;
        ensure!(scenario.name.is_empty(), "scenario {name}: a scenario is called like its file");
        name.clone_into(&mut scenario.name);
        scenario.check().with_context(|| format!("scenario {name}"))?;
        ensure!(
            scenario.site.is_none(),
            "scenario {name}: `[site]` is given on the command line: run --url URL"
        );
        ensure!(
            scenario.all_targets().all(|target| target.product != Product::Url),
            "scenario {name}: `url` is given on the command line"
        );
        Ok(scenario)
    }

    /// The columns of its table.
    pub fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        if self.steady.is_some() {
            self.steady_columns()
        } else if let Some(idle) = &self.idle {
            let pulse = idle.tunnels.map_or(&[][..], |_| &[M::HeartbeatCpu, M::CpuPerRequest]);
            let many = [M::Tunnels, M::CpuOfThousand, M::MemoryOfMany, M::CpuOfMany];
            let many = idle.extrapolate.map_or(&[][..], |_| &many);
            [&[M::MemoryPerClient], many, pulse, &[M::Rss, M::Pss]].concat()
        } else if self.crowd.is_some() {
            vec![M::Availability, M::RequestsPerSecond, M::P50, M::P99, M::Longest, M::Failed]
        } else if let Some(ladder) = &self.ladder {
            ladder.columns()
        } else if let Some(slow) = &self.slow_clients {
            slow.columns()
        } else if let Some(reload) = &self.reload {
            reload.columns()
        } else if let Some(slow) = &self.slow_stream {
            slow.columns()
        } else if let Some(flood) = &self.flood {
            flood.columns()
        } else if let Some(soak) = &self.soak {
            soak.columns()
        } else if let Some(site) = &self.site {
            site.columns()
        } else if self.queue.is_some() {
            let first = [M::OfCapacity, M::LongestOfIdeal, M::Availability, M::Overtaken, M::Overlaps];
            let next = [M::RequestsPerSecond, M::ServiceTime, M::P50, M::P99, M::Longest];
            [&first[..], &next].concat()
        } else if self.overload.is_some() {
            let first = [M::OfCapacity, M::LongestOfLimit, M::AvailabilityAfter, M::Availability];
            [&first[..], &[M::ServiceTime, M::P50, M::P99, M::Longest, M::LatenessP99]].concat()
        } else if self.slow.is_some() {
            let first = [M::P95OfPlain, M::P95Plain, M::P95, M::Longest, M::Overlaps];
            [&first[..], &[M::Availability, M::LatenessP99]].concat()
        } else if self.probes.is_some() {
            vec![M::TargetCpu, M::ProbeBurst, M::ProbesPerSecond, M::CpuPerRequest, M::Rss]
        } else if self.unfinished.is_some() {
            vec![M::MemoryPerClient, M::GoneOfLimit, M::Failed, M::P50, M::P99, M::Longest, M::Rss, M::Pss]
        } else if self.persistence.is_some() {
            let first = [M::Kept, M::MovedOnRemoval, M::MovedOnReturn, M::Availability];
            [&first[..], &[M::P50, M::P99, M::CpuPerRequest]].concat()
        } else {
            let quiet = self.outage.as_ref().and_then(|outage| outage.quiet);
            let quiet = quiet.map_or(&[][..], |_| &[M::TargetCpu, M::ProbeOff, M::ProbesPerSecond]);
            let first = [M::Failed, M::FailedUnsent, M::Availability, M::Detection, M::Recovery];
            [&first[..], quiet, &[M::P50, M::P99, M::Longest, M::LatenessP99]].concat()
        }
    }

    fn steady_columns(&self) -> Vec<Metric> {
        use Metric as M;
        let mut columns = vec![M::RequestsPerSecond];
        if self.bars.iter().any(|bar| bar.metric == M::OfDirect) || self.has_variant(TargetVariant::NoReuse) {
            columns.push(M::OfDirect);
        }
        columns.push(if self.is_bulk() { M::CpuPerGib } else { M::CpuPerRequest });
        if self.has_variant(TargetVariant::NoPersistence) {
            columns.push(M::OfNoPersistence);
        }
        columns.extend([M::CpuUser, M::CpuSystem, M::P50, M::P99, M::P999, M::Rss]);
        if self.has_variant(TargetVariant::NoReuse) {
            columns.extend([M::OriginConnections, M::TimeWait]);
        }
        if self.steady.as_ref().is_some_and(|steady| steady.rate.is_some()) {
            columns.push(M::LatenessP99);
        }
        columns
    }

    /// Whether bodies are so large that they dominate the cost.
    pub fn is_bulk(&self) -> bool {
        self.steady.as_ref().is_some_and(SteadyWork::is_bulk)
    }

    /// The traffic through the targets.
    pub fn traffic(&self) -> Traffic {
        let in_steady = self.steady.as_ref().and_then(|steady| steady.message);
        let in_idle = self.idle.as_ref().and_then(|idle| idle.tunnels);
        let has_ab = self.crowd.as_ref().is_some_and(|crowd| crowd.tools.contains(&LoadTool::Ab));
        Traffic {
            is_bulk: self.is_bulk(),
            is_upload: self.steady.as_ref().is_some_and(SteadyWork::is_upload),
            upgrades: in_steady.is_some() || in_idle.is_some() || (self.is_reloaded() && !self.is_http2()),
            is_http_1_0: has_ab,
            is_http2: self.is_http2(),
            is_http3: self.is_http3(),
            is_reloaded: self.is_reloaded(),
        }
    }

    /// Whether clients speak HTTP/2.
    fn is_http2(&self) -> bool {
        let is_steady = self.steady.as_ref().is_some_and(|steady| steady.streams.is_some() && !steady.http3);
        let is_other = self.idle.as_ref().is_some_and(|idle| idle.http2)
            || self.reload.is_some_and(|reload| reload.streams.is_some());
        is_steady || is_other || self.slow_stream.is_some() || self.flood.is_some()
    }

    /// Whether clients speak HTTP/3.
    fn is_http3(&self) -> bool {
        self.steady.as_ref().is_some_and(|steady| steady.http3)
    }

    fn is_reloaded(&self) -> bool {
        self.reload.is_some() || self.soak.is_some()
    }

    /// Whether the servers are to keep a journal of events that a client cannot see.
    pub fn needs_journal(&self) -> bool {
        let has_other_source = self.idle.is_some() || self.unfinished.is_some() || self.soak.is_some();
        !self.is_only_seen_from_outside() && !has_other_source
    }

    /// Whether the servers are only measured through their clients.
    pub fn is_only_seen_from_outside(&self) -> bool {
        let steady = self.steady.is_some() || self.ladder.is_some() || self.slow_clients.is_some();
        steady || self.crowd.is_some() || self.slow_stream.is_some() || self.flood.is_some()
    }

    fn has_variant(&self, variant: TargetVariant) -> bool {
        self.targets.iter().any(|target| target.variant == variant)
    }

    pub(super) fn all_targets(&self) -> impl Iterator<Item = &LabTarget> {
        self.targets.iter().chain(&self.optional)
    }
}

#[cfg(test)]
mod reference_tests;
#[cfg(test)]
mod tests;
