//! Everything at once, for long: clients of every kind, servers that die, hang and fail, one configuration after the other. What
//! grows meanwhile, what fails, and whether the target can say why.
//!
//! `loads` are the clients, `events` what happens to servers and target, `explanation` asks the target about what failed.

mod events;
mod explanation;
mod loads;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};

use anyhow::{Context as _, ensure};
use weir_stats::{estimate, trend};

use super::configurations::Configuration;
use super::ladder::availability;
use super::window::{self, WindowOutcome};
use crate::load::{FailedExchange, Faults, LoadOutcome, LoadProgress, driver};
use crate::measure::metric::Metric;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::run::window_mark::{note_cost, note_limit};
use crate::scenario::Rounds;
use crate::scenario::soak::SoakWork;
use crate::target::ConnectionRoom;
use crate::topology::product::Product;
use crate::topology::target::LabTarget;
use events::{SoakEvents, TargetSample};
use explanation::ExplanationSource;
use loads::{SoakKind, SoakLoad};

/// The first part of the window: what a target needs for good it has by then, and growth is looked for in the rest.
const SETTLES: f64 = 0.2;

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &SoakWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let admin = if target == LabTarget::of(Product::Weir) { Some(free_addr()?) } else { None };
    let clients = loads::clients(work);
    let room = ConnectionRoom { clients, servers: clients };
    let configure = |servers: &[SocketAddr]| Configuration::numbered(0, servers, &bench.upstream, admin);
    let mut testbed = bench.set_up_as(target, room, &configure)?;
    let loads = loads::of(&testbed, work, rounds);
    let samples = RefCell::new(Vec::new());
    let events = SoakEvents { bench, target, room, admin, samples: &samples };
    let asked = ExplanationSource::find(admin);
    let (failed, listen) = channel();
    let (driven, others, tally) = std::thread::scope(|scope| {
        let asking = scope.spawn(move || explanation::tell(&listen, &asked));
        let ended = drive(&events, work, rounds, &mut testbed, &loads, failed);
        let tally = asking.join().ok().context("the thread that queries the target panicked")?;
        let (driven, others) = ended?;
        anyhow::Ok((driven, others, tally))
    })?;
    ensure!(!bench.options.is_interrupted(), "interrupted");
    testbed.is_alive()?;
    let mut measurement = Measurement::default();
    note_cost(&mut measurement, &driven.before, &driven.after);
    if bench.placement.is_some() {
        note_limit(&mut measurement, &driven.before, &driven.after, Some(work.rate));
    }
    measurement.note_latency(&driven.outcome.latency);
    measurement.seconds.clone_from(&driven.outcome.seconds);
    let outcomes = BTreeMap::from_iter(others.into_iter().chain([(SoakKind::Kept, driven.outcome)]));
    note_failed(&mut measurement, outcomes);
    note_growth(&mut measurement, &samples.take());
    measurement.notes.push(tally.sentence(&asked));
    if admin.is_some() {
        measurement.values.insert(Metric::Unexplained, tally.unexplained as f64);
    }
    Ok(measurement)
}

/// All loads at once, with the events meanwhile. Drops `failed` when it returns, which ends the receiver.
fn drive(
    events: &SoakEvents<'_>,
    work: &SoakWork,
    rounds: &Rounds,
    testbed: &mut Testbed,
    loads: &[SoakLoad],
    failed: Sender<FailedExchange>,
) -> anyhow::Result<(WindowOutcome, Vec<(SoakKind, LoadOutcome)>)> {
    let progress = || LoadProgress { failed: Some(failed.clone()), ..LoadProgress::default() };
    let (first, others) = loads.split_first().context("no loads")?;
    let (main, besides): (LoadProgress, Vec<LoadProgress>) =
        (progress(), others.iter().map(|_| progress()).collect());
    drop(failed);
    let mut steps = events.steps(work, rounds.window);
    std::thread::scope(|scope| {
        let running: Vec<_> = others
            .iter()
            .zip(&besides)
            .map(|(load, progress)| (load.kind, scope.spawn(|| driver::run(&load.plan, progress))))
            .collect();
        let driven = window::drive_as(events.bench, testbed, &first.plan, &mut steps, &main);
        if driven.is_err() {
            besides.iter().for_each(|progress| progress.stop.store(true, Ordering::Relaxed));
        }
        let end =
            |(kind, it): (SoakKind, std::thread::ScopedJoinHandle<'_, std::io::Result<LoadOutcome>>)| {
                anyhow::Ok((kind, it.join().ok().context("the driver panicked")??))
            };
        let others: anyhow::Result<Vec<_>> = running.into_iter().map(end).collect();
        Ok((driven?, others?))
    })
}

/// The failures of each load. Clients that leave fail by intention.
fn note_failed(measurement: &mut Measurement, outcomes: BTreeMap<SoakKind, LoadOutcome>) {
    let (mut answered, mut faults, mut kinds) = (0, Faults::default(), Vec::new());
    for (kind, outcome) in outcomes {
        let (own, left) = kind.failures(outcome.faults);
        if kind == SoakKind::Leaving {
            measurement.notes.push(format!("{left} clients left before the answer"));
        }
        if kind == SoakKind::Tunnels {
            measurement.values.insert(Metric::LostTunnels, own.total as f64);
        }
        if !own.is_empty() {
            kinds.push(format!("{} {}", own.total, kind.name()));
        }
        answered += outcome.exchanges;
        faults.join(own);
    }
    if !kinds.is_empty() {
        measurement.notes.push(format!("failed of each kind: {}", kinds.join(", ")));
    }
    measurement.values.insert(Metric::Availability, availability(answered, faults.total));
    measurement.note_failed(faults);
}

/// The growth of memory and descriptors, from the time on when there should be none.
fn note_growth(measurement: &mut Measurement, samples: &[TargetSample]) {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return };
    let from = first.minutes + SETTLES * (last.minutes - first.minutes);
    let settled: Vec<&TargetSample> = samples.iter().filter(|sample| sample.minutes >= from).collect();
    let rss: Vec<(f64, f64)> = settled.iter().map(|it| (it.minutes, it.rss)).collect();
    let open: Vec<(f64, f64)> = settled.iter().map(|it| (it.minutes, it.descriptors)).collect();
    measurement.series = samples.iter().map(|it| (it.minutes, it.rss)).collect();
    let values = &mut measurement.values;
    values.insert(Metric::Rss, last.rss);
    if let Some(trend) = trend::trend(&rss) {
        values.insert(Metric::RssPerMinute, trend.median);
        values.insert(Metric::RssPerMinuteLow, trend.low);
        values.insert(Metric::RssPerMinuteHigh, trend.high);
    }
    // They come and go with the servers: the middle of a tenth of the time, not one moment.
    let tenth = open.len().div_ceil(10);
    let middle =
        |part: &[(f64, f64)]| estimate::median(&part.iter().map(|(_, open)| *open).collect::<Vec<_>>());
    values.extend(middle(&open[..tenth]).map(|open| (Metric::DescriptorsBefore, open)));
    values.extend(middle(&open[open.len() - tenth..]).map(|open| (Metric::DescriptorsAfter, open)));
    if let Some(trend) = trend::trend(&open) {
        values.insert(Metric::DescriptorsPerMinuteLow, trend.low);
    }
}

/// A free address of this machine.
fn free_addr() -> std::io::Result<SocketAddr> {
    TcpListener::bind("127.0.0.1:0")?.local_addr()
}

#[cfg(test)]
mod tests {
    use super::{LoadOutcome, Measurement, Metric, SoakKind, TargetSample, note_failed, note_growth};
    use crate::load::LoadFault;
    use std::collections::BTreeMap;
    use std::time::Duration;

    #[test]
    fn memory_that_grows_until_it_is_settled_is_no_leak_and_one_that_goes_on_is() {
        let seen = |of: fn(f64) -> f64| {
            let mut measurement = Measurement::default();
            let sample = |second: u32| {
                let wobble = f64::from(second * 7919 % 101);
                let rss = of(f64::from(second)) + wobble * 40.0;
                TargetSample { minutes: f64::from(second) / 60.0, rss, descriptors: 50.0 + wobble % 7.0 }
            };
            note_growth(&mut measurement, &(0..600).map(sample).collect::<Vec<_>>());
            measurement
        };
        let settled = seen(|second| 1e7 + second.min(100.0) * 1e5);
        assert!(settled.values[&Metric::RssPerMinuteLow] <= 0.0, "{settled:?}");
        assert!(settled.values[&Metric::RssPerMinuteHigh] >= 0.0, "{settled:?}");
        assert!(settled.values[&Metric::DescriptorsPerMinuteLow] <= 0.0, "{settled:?}");
        let before = settled.values[&Metric::DescriptorsBefore];
        assert!((50.0..57.0).contains(&before), "{before}");
        let leak = seen(|second| 1e7 + second * 1000.0);
        assert!((leak.values[&Metric::RssPerMinute] / 60_000.0 - 1.0).abs() < 0.1, "{leak:?}");
        assert!(leak.values[&Metric::RssPerMinuteLow] > 0.0, "{leak:?}");
    }

    #[test]
    fn clients_that_leave_are_not_failures() {
        let outcome = |faults: &[LoadFault]| {
            let mut outcome =
                LoadOutcome { exchanges: 10, ..LoadOutcome::at_start(0, Duration::from_secs(1)) };
            faults.iter().for_each(|fault| outcome.faults.note(fault));
            outcome
        };
        let mut measurement = Measurement::default();
        let reset = LoadFault::Reset("by peer".to_owned());
        note_failed(
            &mut measurement,
            BTreeMap::from([
                (SoakKind::Kept, outcome(&[])),
                (SoakKind::Leaving, outcome(&[LoadFault::Timeout, LoadFault::Timeout, LoadFault::Closed(0)])),
                (SoakKind::Tunnels, outcome(&[reset])),
            ]),
        );
        let value = |metric| measurement.values[&metric];
        assert_eq!((value(Metric::Failed), value(Metric::LostTunnels)), (2.0, 1.0));
        let notes = measurement.notes.join("; ");
        assert!(
            notes.contains("2 clients left before") && notes.contains("1 leaving, 1 in tunnels"),
            "{notes}"
        );
    }
}
