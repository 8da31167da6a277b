//! Health checks of many servers and nothing else: their cost, and whether they come spread or in bursts.
//!
//! One process plays all servers, with an address for each; it wrote down when each probe came.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::queue::mean;
use super::window::wait;
use crate::clock;
use crate::measure::memory;
use crate::measure::metric::Metric;
use crate::origin::journal::JournalEntry;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::run::window_mark::{mark, note_cost, note_limit};
use crate::scenario::Rounds;
use crate::scenario::work::ProbesWork;
use crate::target::HEALTH_PATH;
use crate::topology::target::LabTarget;

/// Clients there are none; room for one that looks.
const ROOM: u64 = 16;

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &ProbesWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = bench.set_up(target, ROOM)?;
    let is_over = || bench.options.interrupted.load(Ordering::Relaxed);
    wait(clock::now() + rounds.warm_up, is_over);
    let (before, from) = (mark(&testbed, bench.placement, 0), clock::uptime_ns());
    wait(clock::now() + rounds.window, is_over);
    let to = clock::uptime_ns();
    let came: Vec<u64> =
        testbed.journals()?.iter().flatten().filter_map(|visit| probe(visit, from, to)).collect();
    let after = mark(&testbed, bench.placement, came.len() as u64);
    testbed.is_alive()?;
    let mut measurement = Measurement::default();
    note_cost(&mut measurement, &before, &after);
    if bench.placement.is_some() {
        note_limit(&mut measurement, &before, &after, None);
        // Nothing is as fast as it can be here.
        measurement.limit = None;
    }
    if let Some(child) = &testbed.target {
        measurement.values.insert(Metric::Rss, memory::of_tree(child.pid()).rss as f64);
    }
    let seconds = (to - from) as f64 / 1e9;
    measurement.values.insert(Metric::ProbesPerSecond, came.len() as f64 / seconds);
    if let Some(burst) = burst(&came, from, to, work.bin.as_nanos() as u64) {
        measurement.values.insert(Metric::ProbeBurst, burst);
    }
    Ok(measurement)
}

/// The cost of the probes of `testbed` when there is nothing else, for this time, and how regular they are.
pub(super) fn alone(
    bench: &Bench<'_>,
    testbed: &Testbed,
    length: Duration,
) -> anyhow::Result<BTreeMap<Metric, f64>> {
    let is_over = || bench.options.interrupted.load(Ordering::Relaxed);
    let (before, from) = (mark(testbed, bench.placement, 0), clock::uptime_ns());
    wait(clock::now() + length, is_over);
    let (after, to) = (mark(testbed, bench.placement, 0), clock::uptime_ns());
    let came: Vec<Vec<u64>> = testbed
        .journals()?
        .iter()
        .map(|journal| journal.iter().filter_map(|visit| probe(visit, from, to)).collect())
        .collect();
    let mut measurement = Measurement::default();
    note_cost(&mut measurement, &before, &after);
    let seconds = (to - from) as f64 / 1e9;
    let all: usize = came.iter().map(Vec::len).sum();
    measurement.values.insert(Metric::ProbesPerSecond, all as f64 / seconds);
    if let Some(off) = bench.upstream.health.and_then(|health| off(&came, health.interval)) {
        measurement.values.insert(Metric::ProbeOff, off / 1000.0);
    }
    Ok(measurement.values)
}

/// How far the time between two probes of a server is from `interval`, mean over all servers, ns; `None` without two probes.
fn off(came: &[Vec<u64>], interval: Duration) -> Option<f64> {
    let interval = interval.as_nanos() as u64;
    mean(came.iter().flat_map(|came| came.windows(2)).map(|two| (two[1] - two[0]).abs_diff(interval) as f64))
}

/// When a probe came, if it came in the window.
fn probe(visit: &JournalEntry, from: u64, to: u64) -> Option<u64> {
    (visit.target == HEALTH_PATH && (from..to).contains(&visit.got)).then_some(visit.got)
}

/// The fullest of the whole bins from `from` to `to`, relative to their mean; `None` without probes.
fn burst(came: &[u64], from: u64, to: u64, bin: u64) -> Option<f64> {
    let mut bins = vec![0_u64; (to.saturating_sub(from) / bin) as usize];
    for at in came {
        if let Some(count) = bins.get_mut((at.saturating_sub(from) / bin) as usize) {
            *count += 1;
        }
    }
    let sum: u64 = bins.iter().sum();
    let most = bins.iter().max().copied()?;
    (sum > 0).then(|| most as f64 * bins.len() as f64 / sum as f64)
}

#[cfg(test)]
mod tests {
    use super::{HEALTH_PATH, JournalEntry, burst, off, probe};
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_burst_is_the_fullest_bin_relative_to_the_mean() {
        let even: Vec<u64> = (0..1000).map(|number| 7 * MS + number * MS).collect();
        assert_eq!(burst(&even, 7 * MS, 1007 * MS, 10 * MS), Some(1.0));
        let mut uneven = even;
        // Twenty of them move into one bin of ten.
        uneven[500..520].fill(300 * MS);
        assert_eq!(burst(&uneven, 7 * MS, 1007 * MS, 10 * MS), Some(3.0));
        let all_at_once = vec![42 * MS; 1000];
        assert_eq!(burst(&all_at_once, 7 * MS, 1007 * MS, 10 * MS), Some(100.0));
        assert_eq!(burst(&[], 0, 1000 * MS, 10 * MS), None);
    }

    #[test]
    fn regular_probes_are_as_far_apart_as_they_should() {
        let second = Duration::from_secs(1);
        assert_eq!(off(&[vec![0, 1000 * MS, 2000 * MS], vec![7 * MS]], second), Some(0.0));
        // 100 ms late, then 50 ms early.
        assert_eq!(off(&[vec![0, 1100 * MS, 2050 * MS], vec![]], second), Some(75.0 * MS as f64));
        assert_eq!(off(&[vec![5], vec![]], second), None);
    }

    #[test]
    fn only_probes_of_the_window_count() {
        let visit =
            |got, target: &str| JournalEntry { got, began: None, done: None, target: target.to_owned() };
        assert_eq!(probe(&visit(5, HEALTH_PATH), 5, 9), Some(5));
        for (got, target) in [(4, HEALTH_PATH), (9, HEALTH_PATH), (6, "/")] {
            assert_eq!(probe(&visit(got, target), 5, 9), None);
        }
    }
}
