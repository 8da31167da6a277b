//! The simulated world: servers, clients, events, and the variants that are compared.
//!
//! Plain data, valid by construction: `read` makes it from a TOML file or reports all mistakes. Times are nanoseconds.

mod read;
mod upstream;
mod table_reader;
mod distribution_table;
mod value;
mod error;

use std::time::Duration;

pub(super) use read::read;
use weir_stats::distribution::Distribution;
use weir_traffic::balance::Policy;
use weir_traffic::ejection::{EjectionRules, OutlierRules};
use weir_traffic::health::{ProbeTiming, Thresholds};
use weir_traffic::queue::{DelayTarget, PriorityClass};
use weir_traffic::retry::RetryPolicy;

/// The most servers and balancers of a simulation.
pub(super) const SERVERS_MAX: u64 = 10_000;
/// The most balancers of a simulation.
pub(super) const BALANCERS_MAX: u64 = 1_000;

/// One simulation file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Model {
    /// The question that it answers.
    pub(super) question: String,
    /// No request begins later than this.
    pub(super) length: u64,
    /// Requests that begin before this do not count.
    pub(super) warm_up: u64,
    /// Proxy processes that share the servers and know nothing of each other.
    pub(super) balancers: u32,
    /// Servers, group by group.
    pub(super) servers: Vec<ServerGroup>,
    /// Clients, class by class.
    pub(super) clients: Vec<ClientClass>,
    /// Faults and recoveries of servers, by time.
    pub(super) events: Vec<ServerEvent>,
    /// The variants to compare.
    pub(super) variants: Vec<Variant>,
}

/// Servers that are alike.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServerGroup {
    pub(super) count: u32,
    /// Requests that one of them works on at the same time; `None`: all it is given.
    pub(super) slots: Option<u32>,
    /// How fast they work: 2.0 takes half of the time.
    pub(super) speed: f64,
    /// The weight in the balancer.
    pub(super) weight: u32,
}

/// Clients that are alike.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ClientClass {
    pub(super) name: String,
    /// How many there are.
    pub(super) count: u32,
    pub(super) load: ClassLoad,
    /// The work that a request is, on a server of speed 1.
    pub(super) service: Distribution,
    /// Requests that are something else.
    pub(super) slow: Option<SlowRequests>,
    pub(super) priority: PriorityClass,
    /// Whether a request may be done twice.
    pub(super) idempotent: bool,
    /// After this time a client leaves.
    pub(super) patience: Option<u64>,
    /// A later answer does not count towards goodput.
    pub(super) in_time: Option<u64>,
}

/// When requests of a class begin.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ClassLoad {
    /// Each client has one request at a time.
    Closed {
        /// The time from an answer to the next request.
        think: Distribution,
        /// The time from a failure to the next request.
        pause: u64,
    },
    /// Requests come whether or not others are answered.
    Open {
        arrivals: Arrivals,
        /// Requests per second, each from a time on; the first from 0.
        rates: Vec<(u64, f64)>,
    },
}

/// How requests of an open load follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrivals {
    /// Independently.
    Poisson,
    /// At equal distances.
    Constant,
}

/// One request in `one_in` is different.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SlowRequests {
    pub(super) one_in: u32,
    pub(super) service: Distribution,
}

/// A fault or recovery of servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ServerEvent {
    pub(super) at: u64,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) action: ServerAction,
}

/// A fault or recovery of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ServerAction {
    /// It breaks all connections and refuses new ones.
    Stop,
    /// It accepts everything and does nothing.
    Hang,
    /// It answers an error at once, whatever is asked.
    Fail,
    /// Everything takes this many times as long.
    Slow(f64),
    /// The source of servers does not name it any more. The server itself goes on.
    Leave,
    /// The source of servers names it again.
    Join,
    /// It is as it was at the beginning.
    Recover,
}

impl ServerAction {
    /// Whether it is a change of what the source of servers says, not of the server.
    pub(super) const fn is_of_source(self) -> bool {
        matches!(self, Self::Leave | Self::Join)
    }
}

/// One way to balance.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) upstream: UpstreamModel,
}

/// The settings of the upstream in `weir.toml`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UpstreamModel {
    pub(super) balance: Policy,
    /// 0 means no limit.
    pub(super) max_requests: u32,
    pub(super) slow_start: Option<u64>,
    pub(super) queue: QueueModel,
    pub(super) timeouts: Timeouts,
    pub(super) retry: RetryPolicy,
    pub(super) budget_percent: u32,
    pub(super) budget_per_second: u32,
    pub(super) health: Option<HealthChecks>,
    pub(super) ejection: Option<EjectionModel>,
    /// The share of available servers below which all get requests, in percent.
    pub(super) panic_percent: Option<u32>,
    /// How long an idle connection to a server is kept.
    pub(super) pool_idle: u64,
    pub(super) source: SourceModel,
    /// Whether all balancers begin with the same server; those of the product draw it.
    pub(super) same_start: bool,
}

/// What the source of servers tells each balancer, and when.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SourceModel {
    /// From a change to the moment in which a balancer knows it; each balancer draws its own.
    pub(super) delay: Distribution,
    /// How many of the servers each balancer is told; `None`: all.
    pub(super) subset: Option<u32>,
}

/// Outlier ejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EjectionModel {
    pub(super) rules: OutlierRules,
    /// How often error rates are compared.
    pub(super) interval: u64,
}

impl EjectionModel {
    pub(super) const fn rules(self) -> EjectionRules {
        EjectionRules::Outliers(self.rules)
    }
}

impl Default for EjectionModel {
    fn default() -> Self {
        let rules = OutlierRules {
            consecutive_failures: Some(5),
            error_rate_percent: Some(50),
            latency: None,
            requests_min: 50,
            base_time: Duration::from_secs(10),
            max_time: Duration::from_secs(60),
            servers_max_percent: 50,
        };
        Self { rules, interval: 10 * SECOND }
    }
}

/// Requests that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueModel {
    pub(super) length_max: usize,
    pub(super) fair_share: bool,
    pub(super) delay_target: Option<DelayTarget>,
    /// How long a request waits for the server of its key before it takes any.
    pub(super) affinity_wait: Option<u64>,
}

/// Time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timeouts {
    pub(super) queue: u64,
    /// From the beginning of an attempt to its answer.
    pub(super) response: u64,
}

/// Probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HealthChecks {
    pub(super) pace: ProbeTiming,
    pub(super) thresholds: Thresholds,
    pub(super) timeout: u64,
}

impl Model {
    /// How many servers there are.
    pub(super) fn servers_count(&self) -> usize {
        self.servers.iter().map(|group| group.count as usize).sum()
    }

    /// The changes of what the source of servers says, by time: each with its number from 1 on, which is the version that a
    /// balancer has heard.
    pub(super) fn source_changes(&self) -> impl Iterator<Item = (u32, ServerEvent)> {
        let changes = self.events.iter().filter(|event| event.action.is_of_source());
        changes.enumerate().map(|(index, event)| (index as u32 + 1, *event))
    }

    /// The group of each server.
    pub(super) fn each_server(&self) -> impl Iterator<Item = &ServerGroup> {
        self.servers.iter().flat_map(|group| std::iter::repeat_n(group, group.count as usize))
    }
}

impl Default for UpstreamModel {
    /// The defaults of `weir.toml`.
    fn default() -> Self {
        Self {
            balance: Policy::default(),
            max_requests: 0,
            slow_start: None,
            queue: QueueModel {
                length_max: 10_000,
                fair_share: false,
                delay_target: None,
                affinity_wait: Some(5 * SECOND),
            },
            timeouts: Timeouts { queue: 10 * SECOND, response: 60 * SECOND },
            retry: RetryPolicy::default(),
            budget_percent: weir_traffic::retry::RetryBudget::SHARE_PERCENT_DEFAULT,
            budget_per_second: weir_traffic::retry::RetryBudget::LEAST_PER_SECOND_DEFAULT,
            health: None,
            ejection: Some(EjectionModel::default()),
            panic_percent: None,
            pool_idle: 30 * SECOND,
            source: SourceModel { delay: Distribution::Constant(0), subset: None },
            same_start: false,
        }
    }
}

/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;
/// Nanoseconds of a millisecond.
pub(super) const MILLISECOND: u64 = 1_000_000;

/// `length` in nanoseconds; 584 years are the most.
fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
