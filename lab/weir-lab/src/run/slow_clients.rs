//! Clients that read and write slowly, beside usual ones: whether these suffer, and whether the slow ones are served.
//!
//! The same load without slow clients is measured first, on a target of its own. A slow exchange is carried to its end, or the
//! target ends it, by a rule that it has for such: both are figures. An answer that is wrong fails the target.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::ladder::availability;
use super::{steady, window};
use crate::load::exchange::{RequestShape, prepare};
use crate::load::{Connections, Faults, LoadOutcome, LoadPlan, LoadProgress, PreparedExchange, driver};
use crate::measure::memory;
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::run::window_mark::{note_cost, note_limit};
use crate::scenario::clients::SlowClientsWork;
use crate::scenario::{Rounds, SteadyWork};
use crate::target::ConnectionRoom;
use crate::topology::target::LabTarget;

/// Faults of a slow exchange that no rule of a target explains, unlike the end of a connection that is too slow.
const WRONG: [&str; 5] = ["malformed answer", "body length", "body content", "surplus bytes", "not closed"];

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &SlowClientsWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let plain = SlowClientsWork { readers: 0, writers: 0, ..*work };
    let (plain, _, _) = beside(bench, &plain, rounds, target).context("without slow clients")?;
    let (mut measurement, slow, rss) = beside(bench, work, rounds, target)?;
    let p99 = |measurement: &Measurement| measurement.values.get(&Metric::P99).copied();
    if let (Some(with), Some(without)) = (p99(&measurement), p99(&plain)) {
        measurement.values.insert(Metric::P99OfPlain, with / without);
    }
    let wrong = wrong(&slow.faults);
    let values = &mut measurement.values;
    values.insert(Metric::SlowWhole, availability(slow.exchanges, slow.faults.total));
    values.insert(Metric::SlowEnded, (slow.faults.total - wrong) as f64);
    values.insert(Metric::SlowWrong, wrong as f64);
    values.extend(rss.map(|rss| (Metric::Rss, rss)));
    if wrong > 0 {
        measurement.failure = Some(format!("wrong answers to slow clients: {}", slow.faults));
    } else if !slow.faults.is_empty() {
        measurement.notes.push(format!("ended slow clients: {}", slow.faults));
    }
    Ok(measurement)
}

fn wrong(faults: &Faults) -> u64 {
    faults.kinds.iter().filter(|(kind, _)| WRONG.contains(&kind.as_str())).map(|(_, number)| number).sum()
}

/// Usual clients beside slow ones: the figures of those, the outcome of these, and the memory of the target meanwhile.
fn beside(
    bench: &Bench<'_>,
    work: &SlowClientsWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<(Measurement, LoadOutcome, Option<f64>)> {
    let clients = (work.clients + work.readers + work.writers) as u64;
    let mut testbed = bench.set_up_with(target, ConnectionRoom { clients, servers: clients })?;
    let plan = steady::plan(&testbed, &SteadyWork::of(work.clients), rounds, Some(work.rate));
    let plan = LoadPlan { faults_max: u64::MAX, ..plan };
    let slow = slow_plan(&testbed, work, &plan);
    let progress = LoadProgress::default();
    let (driven, slow, rss) = std::thread::scope(|scope| {
        let running = scope.spawn(|| match work.readers + work.writers {
            0 => Ok(LoadOutcome::at_start(0, Duration::ZERO)),
            _ => driver::run(&slow, &progress),
        });
        let mut rss = None;
        let look = |testbed: &mut Testbed| {
            rss = testbed.target.as_ref().map(|child| memory::of_tree(child.pid()).rss as f64);
            Ok(())
        };
        let driven =
            window::drive(bench, &mut testbed, &plan, &mut [window::WindowEvent::new(rounds.window, look)]);
        if driven.is_err() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        let slow = running.join().ok().context("the driver panicked")??;
        anyhow::Ok((driven?, slow, rss))
    })?;
    ensure!(!bench.options.is_interrupted(), "interrupted");
    testbed.is_alive()?;
    let mut measurement = Measurement::default();
    note_cost(&mut measurement, &driven.before, &driven.after);
    if bench.placement.is_some() {
        note_limit(&mut measurement, &driven.before, &driven.after, Some(work.rate));
    }
    let outcome = driven.outcome;
    let late = outcome.lateness.value_at_quantile(0.99) as f64 / 1000.0;
    measurement.values.insert(Metric::LatenessP99, late);
    measurement.values.insert(Metric::Availability, availability(outcome.exchanges, outcome.faults.total));
    measurement.note_latency(&outcome.latency);
    measurement.note_failed(outcome.faults);
    measurement.seconds = outcome.seconds;
    Ok((measurement, slow, rss))
}

/// The slow ones: each does one exchange after the other, with a connection for each, and ends the last one it began.
pub(super) fn slow_plan(testbed: &Testbed, work: &SlowClientsWork, usual: &LoadPlan) -> LoadPlan {
    let longest = work.answer.max(work.body as u64) / work.pace + 1;
    LoadPlan {
        exchanges: slow_exchanges(&testbed.authority, work),
        clients: work.readers + work.writers,
        connections: Connections::PerExchange,
        arrival: crate::load::LoadPattern::Closed,
        warm_up: Duration::ZERO,
        // Exchanges that began in the window may take as long as they need.
        window: usual.warm_up + usual.window,
        timeout: Duration::from_secs(4 * longest),
        pace: Some(work.pace),
        ..usual.clone()
    }
}

/// The requests of the client with this number: first the readers, then the writers.
fn slow_exchanges(host: &str, work: &SlowClientsWork) -> Vec<PreparedExchange> {
    let path = format!("/bytes/{}", work.answer);
    let shape = |body_len| RequestShape {
        host,
        path: &path,
        body_len,
        answer_len: if body_len == 0 { work.answer } else { PAGE_LEN },
        close: true,
        cookie: None,
    };
    let readers = prepare(&shape(0)).into_iter().cycle().take(work.readers);
    let writers = prepare(&shape(work.body.max(1))).into_iter().cycle().take(work.writers);
    readers.chain(writers).collect()
}

#[cfg(test)]
mod tests {
    use super::{slow_exchanges, wrong};
    use crate::load::{Faults, LoadFault};
    use crate::scenario::clients::SlowClientsWork;

    #[test]
    fn readers_read_and_writers_write() {
        let work = SlowClientsWork {
            rate: 1.0,
            clients: 1,
            readers: 2,
            answer: 7000,
            writers: 3,
            body: 500,
            pace: 100,
        };
        let exchanges = slow_exchanges("127.0.0.1:1", &work);
        let is_post = |index: usize| exchanges[index].request.starts_with(b"POST /checksum ");
        assert_eq!((0..5).map(is_post).collect::<Vec<_>>(), [false, false, true, true, true]);
        assert_eq!(exchanges[0].expected.len(), 7000);
        assert!(
            slow_exchanges("127.0.0.1:1", &SlowClientsWork { writers: 0, readers: 0, ..work }).is_empty()
        );
    }

    #[test]
    fn an_end_by_rule_is_no_wrong_answer() {
        let mut faults = Faults::default();
        for fault in
            [LoadFault::Status(408, String::new()), LoadFault::Closed(9), LoadFault::Transport(String::new())]
        {
            faults.note(&fault);
        }
        assert_eq!(wrong(&faults), 0);
        faults.note(&LoadFault::Content(3));
        faults.note(&LoadFault::Length(7, 5));
        assert_eq!(wrong(&faults), 2);
    }
}
