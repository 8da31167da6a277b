//! The ejection part of the config, and the reasons for an ejection.
//!
//! Plain data. The files beside this one apply it.

use std::time::Duration;

/// When the servers of an upstream are ejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EjectionRules {
    /// When they fail, or do worse than the others.
    Outliers(OutlierRules),
    /// As nginx does it.
    MaxFails(MaxFailsRules),
}

/// Ejection of servers that fail, or do worse than the others; never of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlierRules {
    /// Failures in a row; `None`: they do not matter. 0 counts as 1.
    pub consecutive_failures: Option<u32>,
    /// By how many percentage points the share of failed requests may be above that of the others; `None`: it does not
    /// matter.
    pub error_rate_percent: Option<u32>,
    /// How much slower than the others a server may be; `None`: as slow as it likes.
    pub latency: Option<LatencyRule>,
    /// Requests that a server must have had since the last look to be judged by error rate or latency.
    pub requests_min: u64,
    /// How long the first ejection takes; the second in a row twice as long, the third three times.
    pub base_time: Duration,
    /// The longest that an ejection takes.
    pub max_time: Duration,
    /// The largest share of the servers that may be out, in percent; one always may.
    pub servers_max_percent: u32,
}

/// How much slower than the others a server may be; both have to be exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyRule {
    /// How many times as slow.
    pub factor: u32,
    /// How much slower.
    pub difference_min: Duration,
}

/// nginx's `max_fails` and `fail_timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaxFailsRules {
    /// Failures that make a server unavailable; 0 counts as 1.
    pub max_fails: u32,
    /// The time in which they are counted, and for which the server is unavailable.
    pub fail_timeout: Duration,
}

/// Why a server was ejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EjectionReason {
    /// This many requests failed in a row.
    ConsecutiveFailures(u32),
    /// The share of its requests that failed, and that of the others, in percent.
    ErrorRate {
        /// Of the server.
        percent: u32,
        /// The median of the others.
        others_percent: u32,
    },
    /// It took so long to answer, and the others so long.
    Latency {
        /// The median of the server, in microseconds.
        micros: u64,
        /// The median of the medians of the others, in microseconds.
        others_micros: u64,
    },
    /// The request that it was tried with failed.
    Trial,
    /// This many requests failed by the count of nginx.
    MaxFails(u32),
}

impl EjectionReason {
    /// How many kinds there are.
    pub const COUNT: usize = 5;

    /// The stable kebab-case names of all kinds, by [`EjectionReason::index`].
    pub const NAMES: [&str; EjectionReason::COUNT] =
        ["consecutive-failures", "error-rate", "latency", "trial", "max-fails"];

    /// Which kind it is.
    pub const fn index(self) -> usize {
        match self {
            EjectionReason::ConsecutiveFailures(_) => 0,
            EjectionReason::ErrorRate { .. } => 1,
            EjectionReason::Latency { .. } => 2,
            EjectionReason::Trial => 3,
            EjectionReason::MaxFails(_) => 4,
        }
    }

    /// The stable kebab-case name: label in metrics, word in the log.
    pub const fn name(self) -> &'static str {
        EjectionReason::NAMES[self.index()]
    }
}

impl EjectionRules {
    /// After how many failures in a row the table of the upstream must be informed; `None`: never.
    pub fn failures_to_report(&self) -> Option<u32> {
        match self {
            EjectionRules::Outliers(rules) => rules.consecutive_failures,
            EjectionRules::MaxFails(_) => Some(1),
        }
    }
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
