//! Rounds condensed: per case and target the spread of each figure, and its ratio to the best peer.
//!
//! The best peer of a figure is the one with the better median over all rounds. The ratio is taken within each round, where
//! both saw the same machine, and the median of these ratios is given with its bootstrap interval. A bar may name one peer.

use std::collections::{BTreeMap, BTreeSet};

use weir_stats::estimate::{self, Estimate, Spread};
use weir_stats::runs::Round;

use crate::measure::metric::{Better, Metric};
use crate::results::measurement::{Limit, Measurement};
use crate::results::run::Run;
use crate::topology::product::Product;
use crate::topology::target::{LabTarget, TargetVariant};

/// One target in one case.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRow {
    /// The case; empty when there is one.
    pub case: String,
    /// The target's name.
    pub target: String,
    /// Each figure over the rounds.
    pub spreads: BTreeMap<Metric, Spread>,
    /// Figures that count in less than half of the rounds, since the target was not the limit.
    pub void: BTreeSet<Metric>,
    /// Each figure relative to that of the best peer.
    pub ratios: BTreeMap<Metric, Ratio>,
    /// Each figure relative to that of each peer, of Envoy, and of each other variant of the same product.
    pub others: BTreeMap<(Metric, LabTarget), Ratio>,
    /// The most frequent limit of the throughput.
    pub limit: Option<Limit>,
    /// Requests that failed, over all rounds.
    pub faults: u64,
}

impl SummaryRow {
    /// The text of a table cell without a figure.
    pub fn blank(&self, metric: Metric) -> &'static str {
        if self.void.contains(&metric) { "void" } else { "-" }
    }
}

/// A figure relative to that of the best peer.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// Which peer.
    pub peer: String,
    /// The median of the ratios within each round, and its interval.
    pub estimate: Estimate,
    /// In how many rounds both figures count.
    pub rounds: usize,
}

/// Fewer rounds than this have no interval that deserves the name.
const INTERVAL_MIN: usize = 3;

impl Ratio {
    /// The 95 % interval; of too few rounds, how many they are.
    pub fn interval(&self) -> Result<(f64, f64), String> {
        match self.rounds {
            1 => Err("1 round".to_owned()),
            rounds if rounds < INTERVAL_MIN => Err(format!("{rounds} rounds")),
            _ => Ok((self.estimate.low, self.estimate.high)),
        }
    }

    /// For a table: the median, and in brackets its interval.
    pub fn in_brief(&self) -> String {
        let brackets =
            self.interval().map_or_else(|rounds| rounds, |(low, high)| format!("{low:.2}-{high:.2}"));
        format!("{:.2} ({brackets})", self.estimate.median)
    }
}

/// The products that a bar may name.
const NAMED: [Product; 3] = [Product::Nginx, Product::Haproxy, Product::Envoy];

/// The rows of a run, in the order of its measurements.
pub fn rows(run: &Run) -> Vec<SummaryRow> {
    let good: Vec<&Measurement> =
        run.measurements.iter().filter(|measurement| measurement.failure.is_none()).collect();
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for measurement in &good {
        let key = (measurement.case.as_str(), measurement.target.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys.into_iter().map(|(case, target)| row(&good, case, target)).collect()
}

fn row(good: &[&Measurement], case: &str, target: &str) -> SummaryRow {
    let own: Vec<&Measurement> = of(good, case, target);
    let metrics: BTreeSet<Metric> =
        own.iter().flat_map(|measurement| measurement.values.keys().copied()).collect();
    // Without a target in between there is nothing to compare.
    let is_compared = target != Product::Direct.name();
    let spreads: BTreeMap<Metric, Spread> = metrics
        .iter()
        .filter_map(|metric| Some((*metric, estimate::spread(&values(&own, *metric))?)))
        .collect();
    let ratios = metrics
        .iter()
        .filter(|_| is_compared)
        .filter_map(|metric| {
            Some((*metric, ratio(good, case, &own, *metric, best_peer(good, case, *metric)?)?))
        })
        .collect();
    let others = others(good, case, target);
    let each = metrics.iter().flat_map(|metric| others.iter().map(move |other| (*metric, *other)));
    let others = each
        .filter(|_| is_compared)
        .filter_map(|(metric, other)| {
            Some(((metric, other), ratio(good, case, &own, metric, other.to_string())?))
        })
        .collect();
    SummaryRow {
        case: case.to_owned(),
        target: target.to_owned(),
        void: metrics.iter().copied().filter(|metric| !spreads.contains_key(metric)).collect(),
        spreads,
        ratios,
        others,
        limit: most_frequent(own.iter().filter_map(|measurement| measurement.limit)),
        faults: own.iter().map(|measurement| measurement.faults.total).sum(),
    }
}

/// The peers as they are usually, and other variants of what `target` is.
fn others(good: &[&Measurement], case: &str, target: &str) -> BTreeSet<LabTarget> {
    let own = target.parse::<LabTarget>().ok();
    let there = good.iter().filter(|measurement| measurement.case == case);
    let others = there.filter_map(|measurement| measurement.target.parse::<LabTarget>().ok());
    others
        .filter(|other| {
            let is_peer = NAMED.contains(&other.product) && other.variant == TargetVariant::Usual;
            is_peer || own.is_some_and(|own| own.product == other.product && own != *other)
        })
        .collect()
}

fn of<'a>(good: &[&'a Measurement], case: &str, target: &str) -> Vec<&'a Measurement> {
    good.iter().copied().filter(|m| m.case == case && m.target == target).collect()
}

/// What counts of a figure. Where it is void in most rounds nothing does: what is left is what chance has chosen.
pub fn rounds(measurements: &[&Measurement], metric: Metric) -> Vec<Round> {
    let measured = measurements.iter().filter(|measurement| measurement.values.contains_key(&metric)).count();
    let rounds: Vec<Round> =
        measurements.iter().filter_map(|measurement| measurement.round(metric)).collect();
    if rounds.len() * 2 < measured { Vec::new() } else { rounds }
}

fn values(measurements: &[&Measurement], metric: Metric) -> Vec<f64> {
    rounds(measurements, metric).into_iter().map(|round| round.value).collect()
}

/// The ratio of `own` to `peer` in the same case. Zero has no ratio.
fn ratio(
    good: &[&Measurement],
    case: &str,
    own: &[&Measurement],
    metric: Metric,
    peer: String,
) -> Option<Ratio> {
    let theirs = of(good, case, &peer);
    if values(own, metric).is_empty() || values(&theirs, metric).is_empty() {
        return None;
    }
    let ratios: Vec<f64> = own
        .iter()
        .filter_map(|mine| {
            let other = theirs.iter().find(|theirs| theirs.round == mine.round)?;
            let (mine, other) = (mine.value(metric)?, other.value(metric)?);
            (other != 0.0).then(|| mine / other)
        })
        .collect();
    Some(Ratio { peer, estimate: estimate::estimate(&ratios)?, rounds: ratios.len() })
}

/// The peer, in its usual variant, with the better median.
fn best_peer(good: &[&Measurement], case: &str, metric: Metric) -> Option<String> {
    let mut peers: Vec<&str> = Vec::new();
    for measurement in good.iter().filter(|measurement| measurement.case == case) {
        let is_peer = measurement
            .target
            .parse::<LabTarget>()
            .is_ok_and(|t| t.product.is_peer() && t.variant == TargetVariant::Usual);
        if is_peer && !peers.contains(&measurement.target.as_str()) {
            peers.push(&measurement.target);
        }
    }
    peers
        .into_iter()
        .filter_map(|peer| Some((estimate::median(&values(&of(good, case, peer), metric))?, peer)))
        .min_by(|(one, _), (other, _)| match metric.better() {
            Better::Lower => one.total_cmp(other),
            Better::Higher => other.total_cmp(one),
        })
        .map(|(_, peer)| peer.to_owned())
}

/// The limit that occurs most often.
fn most_frequent(limits: impl Iterator<Item = Limit>) -> Option<Limit> {
    let mut counts: Vec<(Limit, usize)> = Vec::new();
    for limit in limits {
        match counts.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, count)) => *count += 1,
            None => counts.push((limit, 1)),
        }
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(limit, _)| limit)
}

/// The figure the table gives in full: that of the first bar, a ratio, or the first that is measured.
pub(super) fn main_figure(run: &Run, columns: &[Metric]) -> Option<Metric> {
    run.scenario.bars.first().map(|bar| bar.metric).or_else(|| {
        let is_ratio = |metric: &Metric| matches!(metric, Metric::OfDirect | Metric::OfNoPersistence);
        columns.iter().copied().find(is_ratio).or(columns.first().copied())
    })
}
