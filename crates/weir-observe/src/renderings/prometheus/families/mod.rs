//! Every family: its name, its meaning, and how the samples of a part are read.

mod caches;
mod limits;
mod listeners;
mod maps;
mod process;
mod servers;
mod tables;
mod upstreams;

use std::sync::Arc;

use super::source::{CachePart, LimitPart, ListenerPart, MapPart, TablePart, UpstreamPart};
use super::text::{MetricType, Samples};
use crate::counters::counter::Level;
use crate::counters::histogram::{Histogram, HistogramSnapshot};
use crate::counters::per_worker::PerWorker;
use crate::counters::shard::{FailureCounters, RouteShard};
use crate::counters::stats::{FailureStats, Stats, WorkerStats};

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A family of metrics.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) kind: MetricType,
    pub(super) help: &'static str,
    pub(super) write: Write,
}

/// The kind of part that a family has samples of, and how those of one part are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    Process(fn(&mut Samples<'_>, &Stats)),
    Worker(fn(&mut Samples<'_>, &WorkerStats)),
    Listener(fn(&mut Samples<'_>, &dyn ListenerPart)),
    Route(fn(&mut Samples<'_>, &PerWorker<RouteShard>)),
    Map(fn(&mut Samples<'_>, &dyn MapPart)),
    Limit(fn(&mut Samples<'_>, &dyn LimitPart)),
    Table(fn(&mut Samples<'_>, &dyn TablePart)),
    Cache(fn(&mut Samples<'_>, &dyn CachePart)),
    Upstream(fn(&mut Samples<'_>, &dyn UpstreamPart)),
    Server(fn(&mut Samples<'_>, &dyn UpstreamPart, usize)),
}

/// All families, in the order of the text.
pub(super) fn all() -> impl Iterator<Item = &'static Family> {
    [
        process::FAMILIES,
        listeners::FAMILIES,
        listeners::ROUTE_FAMILIES,
        maps::FAMILIES,
        limits::FAMILIES,
        tables::FAMILIES,
        caches::FAMILIES,
        upstreams::FAMILIES,
        servers::FAMILIES,
    ]
    .into_iter()
    .flatten()
}

/// Declares families: name, kind, parts with samples, help, and how those are written.
macro_rules! families {
    ($($name:literal $kind:ident $write:ident, $help:literal, $with:expr;)+) => {
        &[$(Family { name: $name, kind: MetricType::$kind, help: $help, write: Write::$write($with) },)+]
    };
}
use families;

/// The sum of the counters of all workers.
fn sum<'a, T: 'a>(shards: impl IntoIterator<Item = &'a Arc<T>>, of: impl Fn(&T) -> u64) -> u64 {
    shards.into_iter().map(|shard| of(shard)).sum()
}

/// The same of several counters at once.
fn sums<'a, T: 'a, const N: usize>(
    shards: impl IntoIterator<Item = &'a Arc<T>>,
    of: impl Fn(&T) -> [u64; N],
) -> [u64; N] {
    let mut totals = [0; N];
    for shard in shards {
        totals.iter_mut().zip(of(shard)).for_each(|(total, count)| *total += count);
    }
    totals
}

/// The sum of the gauges of all workers.
fn level<'a, T: 'a>(shards: impl IntoIterator<Item = &'a Arc<T>>, of: impl Fn(&T) -> Level) -> Level {
    let mut level = Level::default();
    shards.into_iter().for_each(|shard| level.merge(of(shard)));
    level
}

/// The histograms of all workers together.
fn times<'a, T: 'a>(
    shards: impl IntoIterator<Item = &'a Arc<T>>,
    of: impl Fn(&T) -> &Histogram,
) -> HistogramSnapshot {
    let mut snapshot = HistogramSnapshot::new();
    shards.into_iter().for_each(|shard| snapshot.add(of(shard)));
    snapshot
}

fn write_classes(samples: &mut Samples<'_>, counts: [u64; 5]) {
    for (class, count) in CLASSES.into_iter().zip(counts) {
        samples.labelled(&[("class", class)], count);
    }
}

/// Only reasons that occurred get a sample: most never do, and there are nearly two hundred.
fn write_reasons<'a>(samples: &mut Samples<'_>, counters: impl IntoIterator<Item = &'a FailureCounters>) {
    let mut failures = FailureStats::default();
    counters.into_iter().for_each(|counters| failures.add(counters));
    for (reason, count) in failures.occurred() {
        samples.labelled(&[("party", reason.party().name()), ("reason", reason.code())], count);
    }
}
