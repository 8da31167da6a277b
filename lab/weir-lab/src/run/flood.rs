//! Attacks on HTTP/2 beside usual clients: whether these suffer, and whether the target ends the attackers.
//!
//! The same load without attackers is measured first, on a target of its own. Memory is read before the attack and at its end.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Context as _;

use super::slow_stream::{note, note_ratio, plan, set_up};
use super::window::{self, WindowEvent};
use crate::load::http2::flood::{self, FloodKind, FloodOutcome, FloodPlan};
use crate::load::http2_driver::Http2Plan;
use crate::measure::memory;
use crate::measure::metric::Metric;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::scenario::Rounds;
use crate::scenario::http2::FloodWork;
use crate::topology::target::LabTarget;

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &FloodWork,
    rounds: &Rounds,
    kind: FloodKind,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = set_up(bench, target)?;
    let usual = usual(&testbed, work, rounds);
    let driven = window::drive_http2(bench, &mut testbed, &usual, &mut []).context("without an attack")?;
    testbed.is_alive()?;
    let plain = note(bench, &driven, work.rate);
    drop(testbed);
    let mut measurement = attacked(bench, work, rounds, kind, target)?;
    note_ratio(&mut measurement, &plain);
    Ok(measurement)
}

/// The load of the usual clients.
fn usual(testbed: &Testbed, work: &FloodWork, rounds: &Rounds) -> Http2Plan {
    let (connections, streams) = (work.connections, work.streams);
    Http2Plan { connections, streams, ..plan(testbed, rounds, work.rate) }
}

/// The figures of the usual clients during the attack, and those of the attackers.
fn attacked(
    bench: &Bench<'_>,
    work: &FloodWork,
    rounds: &Rounds,
    kind: FloodKind,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = set_up(bench, target)?;
    let usual = usual(&testbed, work, rounds);
    let plan = FloodPlan {
        target: testbed.addr,
        authority: testbed.authority.clone(),
        kind,
        attackers: work.attackers,
        rate: work.attack_rate,
        length: rounds.window,
    };
    let (rss, stop, (begin, begun)) = (RefCell::new(Vec::new()), AtomicBool::new(false), channel());
    let look = |testbed: &Testbed| {
        rss.borrow_mut().extend(testbed.target.as_ref().map(|child| memory::of_tree(child.pid()).rss as f64));
    };
    let (driven, outcome) = std::thread::scope(|scope| {
        let (plan, stop) = (&plan, &stop);
        let attack = scope.spawn(move || match begun.recv() {
            Ok(()) => flood::run(plan, stop),
            Err(_) => Ok(FloodOutcome::default()),
        });
        // Not before the usual clients have warmed up.
        let first = WindowEvent::new(Duration::ZERO, move |testbed: &mut Testbed| {
            look(testbed);
            Ok(begin.send(())?)
        });
        let last = WindowEvent::new(rounds.window, |testbed: &mut Testbed| {
            look(testbed);
            Ok(())
        });
        let driven = window::drive_http2(bench, &mut testbed, &usual, &mut [first, last]);
        stop.store(true, Ordering::Relaxed);
        let outcome = attack.join().ok().context("the attackers panicked")?.context("the attack")?;
        anyhow::Ok((driven?, outcome))
    })?;
    testbed.is_alive()?;
    let mut measurement = note(bench, &driven, work.rate);
    note_attack(&mut measurement, outcome, &rss.into_inner());
    Ok(measurement)
}

/// The fate of the attackers, and the memory before and after.
fn note_attack(measurement: &mut Measurement, outcome: FloodOutcome, rss: &[f64]) {
    let FloodOutcome { ended, open, sent } = outcome;
    let values = &mut measurement.values;
    if ended + open > 0 {
        values.insert(Metric::CutOff, 100.0 * ended as f64 / (ended + open) as f64);
    }
    if ended > 0 {
        values.insert(Metric::UnitsUntilCutOff, sent as f64 / ended as f64);
    }
    if let [before, .., after] = rss {
        values.insert(Metric::Rss, *after);
        values.insert(Metric::RssGrowth, after - before);
    }
}

#[cfg(test)]
mod tests {
    use super::{FloodOutcome, Measurement, Metric, note_attack};

    #[test]
    fn attackers_that_are_still_there_are_not_cut_off() {
        let of = |ended, open| {
            let mut measurement = Measurement::default();
            note_attack(&mut measurement, FloodOutcome { ended, open, sent: 3000 }, &[5.0, 7.0]);
            let value = |metric| measurement.values.get(&metric).copied();
            [Metric::CutOff, Metric::UnitsUntilCutOff, Metric::RssGrowth].map(value)
        };
        assert_eq!(of(30, 0), [Some(100.0), Some(100.0), Some(2.0)]);
        assert_eq!(of(3, 1), [Some(75.0), Some(1000.0), Some(2.0)]);
        assert_eq!(of(0, 10), [Some(0.0), None, Some(2.0)]);
        assert_eq!(of(0, 0), [None, None, Some(2.0)]);
    }
}
