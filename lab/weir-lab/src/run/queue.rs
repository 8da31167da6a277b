//! Clients that queue for servers which process few requests at once: what is lost, how long the last one waits, and which
//! requests are served out of order.
//!
//! The yardstick is the service time that the servers measured, not the one they were asked for. Failed requests are a
//! figure here: the report shows how many requests each target rejected.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::traced::{self, TracedLoad};
use crate::load::{LoadOutcome, LoadPattern, TracedExchange};
use crate::measure::metric::Metric;
use crate::origin::journal::JournalEntry;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::scenario::Rounds;
use crate::scenario::work::QueueWork;
use crate::topology::target::LabTarget;
use crate::topology::upstream::UpstreamSetup;

/// Longer than any queue of the scenario.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Requests that were sent, or begun, within this share of the service time of each other have no order: what lies between the
/// client and the servers' clocks is not the target's doing.
const ORDER_SHARE: f64 = 0.25;

/// Measures `target` once, with this many clients.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &QueueWork,
    rounds: &Rounds,
    clients: usize,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = bench.set_up(target, clients as u64)?;
    let arrival = LoadPattern::Closed;
    let load = TracedLoad { clients, service: work.service, body_len: 0, arrival, timeout: TIMEOUT };
    let plan = load.plan(&testbed, rounds);
    let (mut measurement, outcome) = traced::drive(bench, &mut testbed, &plan, &mut [])?;
    let journals = testbed.journals()?;
    measurement.note_shares(&journals);
    measurement.note_responses(&outcome.trace);
    measurement.values.extend(figures(&outcome, rounds.warm_up, clients, &bench.upstream, &journals));
    Ok(measurement)
}

/// The figures of a run, from the notes of the client and of the servers.
fn figures(
    outcome: &LoadOutcome,
    warm_up: Duration,
    clients: usize,
    upstream: &UpstreamSetup,
    journals: &[Vec<JournalEntry>],
) -> BTreeMap<Metric, f64> {
    let mut figures = BTreeMap::new();
    let slots = upstream.slots.unwrap_or(1);
    let places = upstream.servers as usize * slots;
    let from = warm_up.as_nanos() as u64;
    let to = from + outcome.window.as_nanos() as u64;
    let in_window = |event: &&TracedExchange| (from..to).contains(&event.ended);
    let asked = outcome.trace.iter().filter(in_window).count();
    figures.insert(Metric::Availability, 100.0 * outcome.exchanges as f64 / asked.max(1) as f64);
    let per_second = outcome.exchanges as f64 / outcome.window.as_secs_f64();
    figures.insert(Metric::RequestsPerSecond, per_second);
    let all = journals.iter().flatten();
    let worked = all.clone().filter(|visit| visit.got >= outcome.started_ns + from);
    if let Some(service_ns) = mean(worked.filter_map(service_ns)) {
        figures.insert(Metric::ServiceTime, service_ns / 1000.0);
        figures.insert(Metric::OfCapacity, per_second * service_ns / 1e9 / places as f64);
        // In order of arrival the last of all clients has so many turns of all places before it is done.
        let ideal_ns = clients.div_ceil(places) as f64 * service_ns;
        figures.insert(Metric::LongestOfIdeal, outcome.latency.max() as f64 / ideal_ns);
    }
    let overlaps: usize = journals.iter().map(|journal| overlaps(journal, slots)).sum();
    figures.insert(Metric::Overlaps, overlaps as f64);
    let served = served(&outcome.trace, outcome.started_ns, &all.collect::<Vec<_>>());
    let apart_ns = mean(served.iter().map(|served| served.service_ns)).unwrap_or(0.0) * ORDER_SHARE;
    figures.insert(Metric::Overtaken, overtaken(served, apart_ns as u64) as f64);
    figures
}

/// How long a server worked on a request.
pub(super) fn service_ns(visit: &JournalEntry) -> Option<f64> {
    Some(visit.done?.saturating_sub(visit.began?) as f64)
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// How many requests came to a server that had as many as it has slots.
pub(super) fn overlaps(journal: &[JournalEntry], slots: usize) -> usize {
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut overlaps = 0;
    for visit in journal.iter().filter(|visit| visit.began.is_some()) {
        while ends.peek().is_some_and(|Reverse(end)| *end <= visit.got) {
            ends.pop();
        }
        overlaps += usize::from(ends.len() >= slots);
        ends.push(Reverse(visit.done.unwrap_or(u64::MAX)));
    }
    overlaps
}

/// One answered request, in nanoseconds of `clock::uptime_ns`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct ServedRequest {
    /// When the client sent it.
    sent: u64,
    /// When a server began to work on it.
    began: u64,
    /// For how long.
    service_ns: f64,
}

/// Joins the notes of the client and of the servers about each answered request.
fn served(trace: &[TracedExchange], started_ns: u64, visits: &[&JournalEntry]) -> Vec<ServedRequest> {
    let mut by_client: BTreeMap<usize, Vec<&JournalEntry>> = BTreeMap::new();
    for visit in visits {
        if let Some(client) = visit.client() {
            by_client.entry(client).or_default().push(visit);
        }
    }
    by_client.values_mut().for_each(|visits| visits.sort_by_key(|visit| visit.got));
    let matched = |event: &TracedExchange| {
        let sent = started_ns + event.began;
        let own = by_client.get(&event.client)?;
        let first = own.partition_point(|visit| visit.got < sent);
        let visit = own.get(first).filter(|visit| visit.got <= started_ns + event.ended)?;
        Some(ServedRequest { sent, began: visit.began?, service_ns: service_ns(visit)? })
    };
    trace.iter().filter(|event| event.is_answered).filter_map(matched).collect()
}

/// How many were begun clearly after one that was sent clearly later: both by at least `apart_ns`.
fn overtaken(mut served: Vec<ServedRequest>, apart_ns: u64) -> usize {
    served.sort_by_key(|served| served.began);
    let (mut earlier, mut latest_sent, mut overtaken) = (0, 0, 0);
    for it in &served {
        while served[earlier].began + apart_ns <= it.began && served[earlier].began < it.began {
            latest_sent = latest_sent.max(served[earlier].sent);
            earlier += 1;
        }
        overtaken += usize::from(latest_sent >= it.sent + apart_ns.max(1));
    }
    overtaken
}

#[cfg(test)]
mod tests {
    use super::{JournalEntry, TracedExchange, figures, mean, overlaps, overtaken, served, service_ns};
    use crate::load::{LoadOutcome, driver};
    use crate::measure::metric::Metric;
    use crate::topology::upstream::UpstreamSetup;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn visit(client: usize, got: u64, began: u64, done: Option<u64>) -> JournalEntry {
        let target = format!("/delay/20/client/{client}");
        JournalEntry { got: got * MS, began: Some(began * MS), done: done.map(|done| done * MS), target }
    }

    #[test]
    fn a_request_at_a_server_that_is_at_work_is_an_overlap() {
        let in_turn = [visit(0, 0, 0, Some(20)), visit(1, 20, 20, Some(40)), visit(2, 41, 41, None)];
        assert_eq!(overlaps(&in_turn, 1), 0);
        let early = [visit(0, 0, 0, Some(20)), visit(1, 19, 20, Some(40)), visit(2, 39, 40, Some(60))];
        assert_eq!((overlaps(&early, 1), overlaps(&early, 2)), (2, 0));
        // One that was never done takes its slot for good; probes take none.
        let mut stuck = vec![visit(0, 0, 0, None), visit(1, 500, 500, Some(520))];
        assert_eq!(overlaps(&stuck, 1), 1);
        stuck[1].began = None;
        assert_eq!(overlaps(&stuck, 1), 0);
    }

    fn event(client: usize, began: u64, ended: u64) -> TracedExchange {
        let (due, began, ended) = (began * MS, began * MS, ended * MS);
        TracedExchange { client, exchange: client, due, began, ended, is_answered: true }
    }

    /// How many of the requests of `trace` were overtaken, if servers got them as `visits` say.
    fn overtaken_in(trace: &[TracedExchange], visits: &[JournalEntry]) -> usize {
        let served = served(trace, 1000 * MS, &visits.iter().collect::<Vec<_>>());
        assert_eq!(served.len(), trace.len());
        overtaken(served, 5 * MS)
    }

    #[test]
    fn a_request_served_after_a_later_one_was_overtaken() {
        let at = |client, began: u64| visit(client, 1000 + began, 1000 + began, Some(1020 + began));
        let trace = [event(0, 0, 40), event(1, 10, 60), event(2, 15, 80), event(0, 41, 100)];
        assert_eq!(overtaken_in(&trace, &[at(0, 20), at(1, 40), at(2, 60), at(0, 80)]), 0);
        // Client 2 goes first, although it came 5 and 15 ms after the others.
        assert_eq!(overtaken_in(&trace, &[at(2, 16), at(0, 36), at(1, 56), at(0, 80)]), 2);
        // Sent or begun at about the same time, they have no order.
        let together = [event(0, 10, 60), event(1, 12, 60)];
        assert_eq!(overtaken_in(&together, &[at(1, 20), at(0, 40)]), 0);
        let apart = [event(0, 10, 60), event(1, 18, 60)];
        assert_eq!(overtaken_in(&apart, &[at(1, 20), at(0, 23)]), 0);
        assert_eq!(overtaken_in(&apart, &[at(1, 20), at(0, 26)]), 1);
    }

    #[test]
    fn a_run_becomes_figures() {
        // Three clients, one server of 20 ms: each waits for two others, so the server is never idle.
        let (mut trace, mut visits) = (Vec::new(), Vec::new());
        for turn in 0_u64..30 {
            let (client, began) = (turn as usize % 3, 20 * turn);
            trace.push(event(client, began.saturating_sub(40), began + 20));
            visits.push(visit(client, 1000 + began, 1000 + began, Some(1020 + began)));
        }
        let mut latency = driver::histogram();
        trace.iter().for_each(|event| latency.saturating_record(event.latency_ns()));
        let outcome = LoadOutcome {
            exchanges: 30,
            latency,
            trace,
            ..LoadOutcome::at_start(1000 * MS, Duration::from_millis(600))
        };
        let upstream = UpstreamSetup { slots: Some(1), ..UpstreamSetup::default() };
        let with = |outcome: &LoadOutcome| figures(outcome, Duration::ZERO, 3, &upstream, &[visits.clone()]);
        let good = with(&outcome);
        for (metric, value) in [
            (Metric::OfCapacity, 1.0),
            (Metric::LongestOfIdeal, 1.0),
            (Metric::Availability, 100.0),
            (Metric::Overlaps, 0.0),
            (Metric::Overtaken, 0.0),
            (Metric::ServiceTime, 20_000.0),
        ] {
            // The last answer comes at the end of the window, where it is counted by the client only.
            let tolerance = if metric == Metric::Availability { 4.0 } else { 0.001 };
            assert!((good[&metric] - value).abs() < tolerance, "{metric:?}: {}", good[&metric]);
        }
        // Half of the answers failed at once: half of the capacity is lost.
        let mut lossy = LoadOutcome { exchanges: 15, ..outcome };
        lossy.trace[..15].iter_mut().for_each(|event| event.is_answered = false);
        let bad = with(&lossy);
        assert!((bad[&Metric::OfCapacity] - 0.5).abs() < 0.001, "{bad:?}");
        assert!(bad[&Metric::Availability] < 55.0, "{bad:?}");
    }

    #[test]
    fn the_yardstick_is_the_servers_own_measurement() {
        let visits = [visit(0, 0, 5, Some(25)), visit(1, 0, 25, Some(47)), visit(2, 0, 47, None)];
        assert_eq!(mean(visits.iter().filter_map(service_ns)), Some(21.0 * MS as f64));
        assert_eq!(mean(std::iter::empty()), None);
    }
}
