//! One measurement: one target, one round, one case; every kind of work ends in this type.

use std::collections::{BTreeMap, BTreeSet};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use weir_stats::runs::Round;

use crate::load::{Faults, Second, TracedExchange};
use crate::measure::metric::Metric;
use crate::origin::journal::JournalEntry;

/// The limit of the throughput.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The target's CPU was full: its own limit.
    Target,
    /// The CPU of client and origin was full, mostly with the client, and the target's was not.
    Client,
    /// The same, mostly with the origin.
    Origin,
    /// The rate was given and held.
    Rate,
    /// The rate was given and not held.
    RateMissed,
    /// No CPU was full: waiting, for instance for each other.
    Waiting,
    /// Other processes, or the hypervisor, took a share of the CPUs: the limit cannot be determined.
    Disturbed,
}

impl Limit {
    /// The text in a table.
    pub fn label(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Client => "client",
            Self::Origin => "origin",
            Self::Rate => "given rate",
            Self::RateMissed => "rate missed",
            Self::Waiting => "waiting",
            Self::Disturbed => "disturbed",
        }
    }
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Which of several loads of the scenario; empty when there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub case: String,
    /// The target's name.
    pub target: String,
    /// Number of the round, from 1.
    pub round: u32,
    /// The figures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<Metric, f64>,
    /// Figures among them that do not count, since the target was not the limit.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub void: BTreeSet<Metric>,
    /// The limit of the throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Requests that went wrong.
    #[serde(default, skip_serializing_if = "Faults::is_empty")]
    pub faults: Faults,
    /// Latency in µs at some percentiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<(f64, f64)>,
    /// Memory at each number of idle clients: clients, anonymous bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<(f64, f64)>,
    /// Figures second by second, where the driver played the clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<Second>,
    /// Requests that came to each server, where servers keep journals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<u64>,
    /// Response times one by one, µs, in the order in which the requests were sent: the first ones of the first round, where every
    /// one matters.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "numbers")]
    pub responses: Vec<u32>,
    /// How far apart its CPUs were, before or after it, whichever is more; ns for a cache line there and back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<f64>,
    /// Remarks about this measurement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Why there are no figures, or why they do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Above this share of one CPU, other processes disturb a measurement, percent.
const FOREIGN_MAX: f64 = 5.0;

/// Above this share of a CPU, the hypervisor disturbs a measurement, percent.
const STOLEN_MAX: f64 = 2.0;

/// Single response times that are kept of a measurement: more hide each other in a plot.
const RESPONSES_MAX: usize = 400;

/// Percentiles kept in the raw data.
const PERCENTILES: &[f64] = &[1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 100.0];

impl Measurement {
    /// Whether others had so much of the CPUs that the figures suffer.
    pub fn is_disturbed(&self) -> bool {
        let above = |metric, bound| self.values.get(&metric).is_some_and(|value| *value > bound);
        above(Metric::ForeignCpu, FOREIGN_MAX) || above(Metric::Stolen, STOLEN_MAX)
    }

    /// A figure that counts.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        self.values.get(&metric).copied().filter(|_| !self.void.contains(&metric))
    }

    /// A figure that counts, with how far apart the CPUs were if it depends on that.
    pub fn round(&self, metric: Metric) -> Option<Round> {
        let distance = self.distance.filter(|_| metric.follows_distance());
        self.value(metric).map(|value| Round { value, distance })
    }

    /// Notes how many requests of clients came to each server.
    pub fn note_shares(&mut self, journals: &[Vec<JournalEntry>]) {
        let of_clients =
            |journal: &Vec<JournalEntry>| journal.iter().filter(|it| it.client().is_some()).count();
        self.shares = journals.iter().map(|journal| of_clients(journal) as u64).collect();
    }

    /// Notes how long each of the first answered requests took.
    pub fn note_responses(&mut self, trace: &[TracedExchange]) {
        let mut answered: Vec<&TracedExchange> = trace.iter().filter(|event| event.is_answered).collect();
        answered.sort_by_key(|event| event.began);
        self.responses =
            answered.iter().take(RESPONSES_MAX).map(|event| (event.latency_ns() / 1000) as u32).collect();
    }

    /// Notes requests that failed where that is a figure, not a reason to stop.
    pub fn note_failed(&mut self, faults: Faults) {
        self.values.insert(Metric::Failed, faults.total as f64);
        if !faults.is_empty() {
            self.notes.push(format!("failed: {faults}"));
        }
        self.faults = faults;
    }

    /// Notes the latencies of a histogram of nanoseconds.
    pub fn note_latency(&mut self, latency: &Histogram<u64>) {
        let at = |percentile: f64| latency.value_at_quantile(percentile / 100.0) as f64 / 1000.0;
        if latency.is_empty() {
            return;
        }
        self.values.insert(Metric::P50, at(50.0));
        self.values.insert(Metric::P95, at(95.0));
        self.values.insert(Metric::P99, at(99.0));
        self.values.insert(Metric::P999, at(99.9));
        self.values.insert(Metric::Longest, latency.max() as f64 / 1000.0);
        self.percentiles = PERCENTILES.iter().map(|percentile| (*percentile, at(*percentile))).collect();
    }
}

/// Numbers as one line of text: thousands of them would be thousands of lines.
mod numbers {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(numbers: &[u32], to: S) -> Result<S::Ok, S::Error> {
        let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
        to.serialize_str(&words.join(" "))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
        let text = String::deserialize(from)?;
        text.split_whitespace().map(|word| word.parse().map_err(D::Error::custom)).collect()
    }
}
