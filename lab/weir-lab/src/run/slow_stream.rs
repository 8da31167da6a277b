//! A stream of HTTP/2 that its client does not read, beside the others on the same connection: whether these suffer.
//!
//! The same without that stream is measured first, on a target of its own. The client opens the window of the connection again for
//! whatever arrives, so that nothing of it need hold up the others.

use std::time::Duration;

use anyhow::Context as _;

use super::ladder::availability;
use super::window::{self, WindowEvent, WindowOutcome};
use crate::load::LoadPattern;
use crate::load::http2_driver::Http2Plan;
use crate::measure::memory;
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::run::window_mark::{note_cost, note_limit};
use crate::scenario::Rounds;
use crate::scenario::http2::SlowStreamWork;
use crate::target::ConnectionRoom;
use crate::topology::target::LabTarget;

/// Clients, and connections to servers, that a target has room for.
const ROOM: u64 = 256;

/// A request that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &SlowStreamWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let plain = beside(bench, work, rounds, None, target).context("without the slow stream")?;
    let mut measurement = beside(bench, work, rounds, Some(work.answer), target)?;
    note_ratio(&mut measurement, &plain);
    Ok(measurement)
}

/// P99 relative to that of `plain`.
pub(super) fn note_ratio(measurement: &mut Measurement, plain: &Measurement) {
    let p99 = |measurement: &Measurement| measurement.values.get(&Metric::P99).copied();
    if let (Some(with), Some(without)) = (p99(measurement), p99(plain)) {
        measurement.values.insert(Metric::P99OfPlain, with / without);
    }
}

/// The others beside a stream whose answer of `stalled` bytes is not read.
fn beside(
    bench: &Bench<'_>,
    work: &SlowStreamWork,
    rounds: &Rounds,
    stalled: Option<u64>,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = set_up(bench, target)?;
    let path = work.service.map_or_else(|| "/".to_owned(), |it| format!("/delay/{}", it.as_millis()));
    let plan = Http2Plan {
        paths: vec![path],
        connections: 1,
        streams: work.streams,
        stalled,
        ..plan(&testbed, rounds, work.rate)
    };
    let mut rss = None;
    let look = WindowEvent::new(rounds.window, |testbed: &mut Testbed| {
        rss = testbed.target.as_ref().map(|child| memory::of_tree(child.pid()).rss as f64);
        Ok(())
    });
    let driven = window::drive_http2(bench, &mut testbed, &plan, &mut [look])?;
    testbed.is_alive()?;
    let mut measurement = note(bench, &driven, work.rate);
    measurement.values.extend(rss.map(|rss| (Metric::Rss, rss)));
    Ok(measurement)
}

/// A fresh target with room for the few connections of such works.
pub(super) fn set_up(bench: &Bench<'_>, target: LabTarget) -> anyhow::Result<Testbed> {
    bench.set_up_with(target, ConnectionRoom { clients: ROOM, servers: ROOM })
}

/// Requests for the page on one connection, one at a time.
pub(super) fn plan(testbed: &Testbed, rounds: &Rounds, rate: f64) -> Http2Plan {
    Http2Plan {
        target: testbed.addr,
        authority: testbed.authority.clone(),
        paths: vec!["/".to_owned()],
        answer: PAGE_LEN,
        connections: 1,
        streams: 1,
        arrival: LoadPattern::Rate(rate),
        stalled: None,
        warm_up: rounds.warm_up,
        window: rounds.window,
        timeout: TIMEOUT,
    }
}

/// The figures of the usual clients.
pub(super) fn note(bench: &Bench<'_>, driven: &WindowOutcome, rate: f64) -> Measurement {
    let (mut measurement, outcome) = (Measurement::default(), &driven.outcome);
    note_cost(&mut measurement, &driven.before, &driven.after);
    if bench.placement.is_some() {
        note_limit(&mut measurement, &driven.before, &driven.after, Some(rate));
    }
    let late = outcome.lateness.value_at_quantile(0.99) as f64 / 1000.0;
    measurement.values.insert(Metric::LatenessP99, late);
    // What found no place in time failed as well.
    let lost = outcome.faults.total + outcome.unsent;
    measurement.values.insert(Metric::Availability, availability(outcome.exchanges, lost));
    measurement.note_latency(&outcome.latency);
    measurement.note_failed(outcome.faults.clone());
    measurement
}
