//! More requests than the servers can take, then few again: how many are served in time, how long requests wait, and whether
//! the target recovers afterwards.
//!
//! Requests start at their rate whether or not earlier ones are answered, and a client leaves when its patience is over. Answers
//! within that patience count, relative to the servers' capacity by the service time that they measured themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;

use super::queue::{mean, service_ns};
use super::traced::{self, TracedLoad};
use crate::load::{LoadOutcome, LoadPattern, LoadPlan, TracedExchange};
use crate::measure::metric::Metric;
use crate::origin::journal::JournalEntry;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::scenario::Rounds;
use crate::scenario::work::OverloadWork;
use crate::topology::target::LabTarget;
use crate::topology::upstream::UpstreamSetup;

/// The times of the loads, and the limits of the waits. In nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy)]
struct OverloadPhases {
    /// The overload is in full swing.
    from: u64,
    /// It ends.
    to: u64,
    /// Requests that begin from now on find an empty queue.
    settled: u64,
    /// Longest time a request may wait.
    limit: u64,
}

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &OverloadWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let limit = bench.upstream.queue_timeout.context("the queue has a time limit")?;
    let places = places(&bench.upstream) as f64;
    let capacity = places / work.service.as_secs_f64();
    let first = capacity * work.times;
    // As many as may wait at once, and a few.
    let clients = (first * (work.patience.as_secs_f64() + 0.5)).ceil() as usize + 64;
    let mut testbed = bench.set_up_with_servers(target, clients)?;
    let until = rounds.warm_up + rounds.window;
    let arrival = LoadPattern::Change { first, until, then: capacity * work.then };
    let load = TracedLoad { clients, service: work.service, body_len: 0, arrival, timeout: work.patience };
    let plan = LoadPlan { window: rounds.window + work.after, ..load.plan(&testbed, rounds) };
    let (mut measurement, outcome) = traced::drive(bench, &mut testbed, &plan, &mut [])?;
    let phases = OverloadPhases::of(rounds.warm_up, until, limit, work.after);
    let journals = testbed.journals()?;
    measurement.values.extend(figures(&outcome, phases, &bench.upstream, &journals));
    Ok(measurement)
}

/// Requests that all servers together work on at once.
fn places(upstream: &UpstreamSetup) -> usize {
    upstream.servers as usize * upstream.slots.unwrap_or(1)
}

impl OverloadPhases {
    fn of(from: Duration, to: Duration, limit: Duration, after: Duration) -> Self {
        let ns = |length: Duration| length.as_nanos() as u64;
        // All earlier requests have been answered or given up by then.
        let settle = limit.min(after / 2);
        Self { from: ns(from), to: ns(to), settled: ns(to + settle), limit: ns(limit) }
    }
}

/// The figures of a run, from the notes of the client and of the servers.
fn figures(
    outcome: &LoadOutcome,
    phases: OverloadPhases,
    upstream: &UpstreamSetup,
    journals: &[Vec<JournalEntry>],
) -> BTreeMap<Metric, f64> {
    let mut figures = BTreeMap::new();
    let answered =
        |events: &[&TracedExchange]| events.iter().filter(|event| event.is_answered).count() as f64;
    let share = |events: &[&TracedExchange]| 100.0 * answered(events) / events.len().max(1) as f64;
    let ended: Vec<&TracedExchange> =
        outcome.trace.iter().filter(|event| (phases.from..phases.to).contains(&event.ended)).collect();
    figures.insert(Metric::Availability, share(&ended));
    let after: Vec<&TracedExchange> =
        outcome.trace.iter().filter(|event| event.due >= phases.settled).collect();
    if !after.is_empty() {
        figures.insert(Metric::AvailabilityAfter, share(&after));
    }
    let Some(service_ns) = mean(journals.iter().flatten().filter_map(service_ns)) else { return figures };
    figures.insert(Metric::ServiceTime, service_ns / 1000.0);
    let seconds = (phases.to - phases.from) as f64 / 1e9;
    let goodput = answered(&ended) / seconds * service_ns / 1e9 / places(upstream) as f64;
    figures.insert(Metric::OfCapacity, goodput);
    // From when it was sent: a client that is late itself is not the target's wait.
    let longest = outcome.trace.iter().map(|event| event.ended - event.began).max().unwrap_or(0);
    let wait = (longest as f64 - service_ns).max(0.0);
    figures.insert(Metric::LongestOfLimit, wait / phases.limit as f64);
    figures
}

#[cfg(test)]
mod tests {
    use super::{OverloadPhases, TracedExchange, figures};
    use crate::load::LoadOutcome;
    use crate::measure::metric::Metric;
    use crate::origin::journal::JournalEntry;
    use crate::topology::upstream::UpstreamSetup;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    /// One server of 20 ms, three requests in this time for 10 s, then one in 40 ms for 6 s. `serve` says of the number of a
    /// request how long it waits, and whether it is answered.
    fn outcome(serve: impl Fn(u64) -> (u64, bool)) -> LoadOutcome {
        let due = |number: u64| if number < 1500 { number * 20 / 3 } else { 10_000 + (number - 1500) * 40 };
        let trace = (0..1650)
            .map(|number| {
                let (due, (wait, is_answered)) = (due(number) * MS, serve(number));
                let ended = due + wait * MS + if is_answered { 20 * MS } else { 0 };
                TracedExchange { client: 0, exchange: 0, due, began: due, ended, is_answered }
            })
            .collect();
        LoadOutcome { trace, ..LoadOutcome::at_start(0, Duration::from_secs(16)) }
    }

    fn figure(serve: impl Fn(u64) -> (u64, bool), metric: Metric) -> f64 {
        let visit = JournalEntry { got: 0, began: Some(0), done: Some(20 * MS), target: String::new() };
        let (second, upstream) =
            (Duration::from_secs(1), UpstreamSetup { slots: Some(1), ..UpstreamSetup::default() });
        let phases = OverloadPhases::of(2 * second, 10 * second, 2 * second, 6 * second);
        figures(&outcome(serve), phases, &upstream, &[vec![visit]])[&metric]
    }

    #[test]
    fn goodput_counts_answered_requests_and_waits_all_requests() {
        // Every third is served after 2 s, the others leave then.
        let good = |number: u64| (2000, number >= 1500 || number.is_multiple_of(3));
        assert!((figure(good, Metric::OfCapacity) - 1.0).abs() < 0.01);
        assert!((figure(good, Metric::LongestOfLimit) - 1.0).abs() < 0.001);
        assert_eq!(figure(good, Metric::AvailabilityAfter), 100.0);
        // Half of them hold a server and are not answered in time.
        let wasteful = |number: u64| (2000, number >= 1500 || number.is_multiple_of(6));
        assert!((figure(wasteful, Metric::OfCapacity) - 0.5).abs() < 0.01);
        // One that leaves late is found, answered or not.
        let patient = |number: u64| (if number == 700 { 3000 } else { 2000 }, number.is_multiple_of(3));
        assert!(figure(patient, Metric::LongestOfLimit) > 1.48);
    }

    #[test]
    fn afterwards_begins_when_the_queue_can_be_empty() {
        // The load falls at 10 s; requests that come until 12 s may still be lost.
        let slow_end = |number: u64| (2000, number >= 1550);
        assert_eq!(figure(slow_end, Metric::AvailabilityAfter), 100.0);
        let collapsed = |number: u64| (2000, number < 1600);
        assert_eq!(figure(collapsed, Metric::AvailabilityAfter), 50.0);
    }
}
