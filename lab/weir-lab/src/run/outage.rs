//! A server that is killed, or hangs, under a constant rate, and comes back: which clients are affected, and for how long.
//!
//! When the target knows is seen from where its requests come to: the last one that is sent to a server that hangs, the first
//! one after it is well again. Failed requests are a figure here. One that began when the killed server was gone for good
//! cannot have been sent to it, so it may be sent to another server, whatever its method.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;

use super::probes;
use super::traced::{self, TracedLoad};
use super::window::WindowEvent;
use crate::clock;
use crate::load::{LoadOutcome, LoadPattern, TracedExchange};
use crate::measure::metric::Metric;
use crate::origin::journal::JournalEntry;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::scenario::Rounds;
use crate::scenario::work::{OutageWork, ServerOutage};
use crate::topology::target::LabTarget;

/// Longer than a target takes for all its attempts.
pub(super) const TIMEOUT: Duration = Duration::from_secs(20);

const NO_SERVER: &str = "an upstream has servers";

/// When the server was not there, in nanoseconds of `clock::uptime_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ServerAbsence {
    from: u64,
    to: u64,
}

/// Measures `target` once, with bodies of `body_len` bytes.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &OutageWork,
    rounds: &Rounds,
    body_len: usize,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = bench.set_up_with_servers(target, work.clients)?;
    let probing = work.quiet.map(|quiet| probes::alone(bench, &testbed, quiet)).transpose()?;
    let OutageWork { clients, service, .. } = *work;
    let load =
        TracedLoad { clients, service, body_len, arrival: LoadPattern::Rate(work.rate), timeout: TIMEOUT };
    let plan = load.plan(&testbed, rounds);
    let (gone, back) = (Cell::new(0), Cell::new(0));
    let mut steps = steps(bench, work, &gone, &back);
    let (mut measurement, outcome) = traced::drive(bench, &mut testbed, &plan, &mut steps)?;
    drop(steps);
    let absence = ServerAbsence { from: gone.get(), to: back.get() };
    let visits = testbed.servers.last().context(NO_SERVER)?.visits()?;
    measurement.values.extend(figures(work, &outcome, &visits, absence));
    // The cost of the probes, not that of the load.
    measurement.values.extend(probing.into_iter().flatten());
    measurement.note_shares(&testbed.journals()?);
    Ok(measurement)
}

/// What happens to the last server. Tells from when on it is `gone`, and when it is `back`.
fn steps<'a>(
    bench: &'a Bench<'_>,
    work: &OutageWork,
    gone: &'a Cell<u64>,
    back: &'a Cell<u64>,
) -> Vec<WindowEvent<'a>> {
    let OutageWork { after, length, .. } = *work;
    match work.event {
        ServerOutage::Kill => kill_and_return(bench, after, length, gone, back).into(),
        ServerOutage::Hang => vec![WindowEvent::new(after, move |testbed| {
            // The server counts from when it reads this; what it takes until the answer is here is not counted in its favour.
            gone.set(clock::uptime_ns());
            back.set(clock::uptime_ns() + length.as_nanos() as u64);
            testbed.servers.last_mut().context(NO_SERVER)?.hang(length)
        })],
    }
}

/// The last server is killed `after` a while and comes back when `length` is over. Tells from when on it is `gone`, and when it
/// is `back`.
pub(super) fn kill_and_return<'a>(
    bench: &'a Bench<'_>,
    after: Duration,
    length: Duration,
    gone: &'a Cell<u64>,
    back: &'a Cell<u64>,
) -> [WindowEvent<'a>; 2] {
    [
        WindowEvent::new(after, |testbed| {
            gone.set(testbed.servers.last_mut().context(NO_SERVER)?.kill()?);
            Ok(())
        }),
        WindowEvent::new(after + length, |testbed| {
            testbed.servers.last_mut().context(NO_SERVER)?.come_back(bench)?;
            back.set(clock::uptime_ns());
            Ok(())
        }),
    ]
}

/// The figures of a run, from the notes of the client and of the server concerned.
fn figures(
    work: &OutageWork,
    outcome: &LoadOutcome,
    visits: &[JournalEntry],
    absence: ServerAbsence,
) -> BTreeMap<Metric, f64> {
    let mut figures = BTreeMap::new();
    let answered = outcome.trace.iter().filter(|event| event.is_answered).count();
    let asked = outcome.trace.len().max(1);
    figures.insert(Metric::Availability, 100.0 * answered as f64 / asked as f64);
    if work.event == ServerOutage::Kill {
        let unsent = unsent(&outcome.trace, outcome.started_ns, absence.from);
        figures.insert(Metric::FailedUnsent, unsent as f64);
    }
    // When the requests of clients came; probes carry no client number.
    let came: Vec<u64> = visits.iter().filter(|visit| visit.client().is_some()).map(|it| it.got).collect();
    let end = outcome.started_ns + outcome.trace.iter().map(|event| event.ended).max().unwrap_or(0);
    if work.event == ServerOutage::Hang {
        let last = came.iter().copied().filter(|got| (absence.from..absence.to).contains(got)).max();
        let taken = last.map_or(0, |last| last - absence.from);
        figures.insert(Metric::Detection, taken as f64 / 1000.0);
    }
    // Without any until the end, it took at least that long.
    let first = came.iter().copied().filter(|got| *got >= absence.to).min().unwrap_or(end);
    figures.insert(Metric::Recovery, first.saturating_sub(absence.to) as f64 / 1000.0);
    figures
}

/// Requests that failed although they began when the server was `gone`.
fn unsent(trace: &[TracedExchange], started_ns: u64, gone: u64) -> usize {
    trace.iter().filter(|event| !event.is_answered && started_ns + event.began > gone).count()
}

#[cfg(test)]
mod tests {
    use super::{ServerAbsence, TracedExchange, figures};
    use crate::load::LoadOutcome;
    use crate::measure::metric::Metric;
    use crate::origin::journal::JournalEntry;
    use crate::scenario::work::{OutageWork, ServerOutage};
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn work(event: ServerOutage) -> OutageWork {
        OutageWork {
            event,
            rate: 100.0,
            clients: 4,
            service: Duration::from_millis(5),
            bodies: vec![0],
            quiet: None,
            after: Duration::from_secs(1),
            length: Duration::from_secs(4),
        }
    }

    /// A request every 10 ms for 10 s, of which those in `lost` fail.
    fn outcome(lost: &[u64]) -> LoadOutcome {
        let trace: Vec<TracedExchange> = (0..1000)
            .map(|number| {
                let (due, is_answered) = (number * 10 * MS, !lost.contains(&number));
                TracedExchange { client: 0, exchange: 0, due, began: due, ended: due + 6 * MS, is_answered }
            })
            .collect();
        LoadOutcome { trace, ..LoadOutcome::at_start(50_000 * MS, Duration::from_secs(10)) }
    }

    fn visit(at: u64, target: &str) -> JournalEntry {
        JournalEntry { got: (50_000 + at) * MS, began: None, done: None, target: target.to_owned() }
    }

    const ABSENCE: ServerAbsence = ServerAbsence { from: 51_000 * MS, to: 55_000 * MS };

    #[test]
    fn detection_ends_with_the_last_request_and_recovery_with_the_first_again() {
        let client = "/delay/5/client/1";
        let visits = [
            visit(990, client),
            visit(1010, client),
            visit(2500, client),
            visit(2700, "/health"),
            visit(5100, "/health"),
            visit(6400, client),
            visit(6500, client),
        ];
        let seen = figures(&work(ServerOutage::Hang), &outcome(&[]), &visits, ABSENCE);
        assert_eq!((seen[&Metric::Detection], seen[&Metric::Recovery]), (1_500_000.0, 1_400_000.0));
        assert_eq!(seen[&Metric::Availability], 100.0);
        // A target that never learns sends until the end of it; one that never comes back has no first request.
        let stubborn: Vec<JournalEntry> = (100..500).map(|number| visit(number * 10, client)).collect();
        let seen = figures(&work(ServerOutage::Hang), &outcome(&[]), &stubborn, ABSENCE);
        assert_eq!((seen[&Metric::Detection], seen[&Metric::Recovery]), (3_990_000.0, 4_996_000.0));
    }

    #[test]
    fn only_requests_that_the_killed_server_cannot_have_had_count_against_the_target() {
        // Requests 99 and 100 began before or as the server went, 101 and 400 when it was gone.
        for (lost, unsent) in [(&[][..], 0.0), (&[99, 100][..], 0.0), (&[100, 101, 400][..], 2.0)] {
            let seen = figures(&work(ServerOutage::Kill), &outcome(lost), &[], ABSENCE);
            assert_eq!(seen[&Metric::FailedUnsent], unsent, "{lost:?}");
            assert_eq!(seen[&Metric::Availability], 100.0 - lost.len() as f64 / 10.0, "{lost:?}");
            assert!(!seen.contains_key(&Metric::Detection));
        }
    }
}
