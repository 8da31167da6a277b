//! A target that is given one configuration after the other while requests and tunnels go through it: what is lost, when the
//! new one is in effect, and what memory is left over.
//!
//! `configurations` decides what a configuration changes. Whether it is in effect is seen from the servers that get requests, not
//! from what the target reports. Half of the clients that come once ask for a path that has servers of its own now and then.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use weir_stats::trend;

use super::configurations::{Configuration, Effects, NOW_AND_THEN, STILL, effects};
use super::ladder::availability;
use super::outage::TIMEOUT;
use super::slow_stream;
use super::traced::{self, TracedLoad};
use super::window::{self, WindowEvent};
use crate::clock;
use crate::load::exchange::{RequestShape, prepare};
use crate::load::fault::RESET;
use crate::load::held_connections::{HeldConnections, HeldExchange};
use crate::load::http2_driver::Http2Plan;
use crate::load::{
    Connections, ExchangeOrder, LoadOutcome, LoadPattern, LoadPlan, LoadProgress, driver, websocket,
};
use crate::measure::memory;
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::scenario::Rounds;
use crate::scenario::clients::{MANY, ReloadWork};
use crate::target::ConnectionRoom;
use crate::topology::target::LabTarget;

/// Bytes of a message in the tunnels.
const MESSAGE: usize = 32;

/// The reloads, and the readings meanwhile.
#[derive(Debug, Default)]
struct ReloadLog {
    /// When each configuration was given to the target, in nanoseconds of `clock::uptime_ns`.
    given: Vec<u64>,
    /// Resident memory after this many reloads, bytes.
    rss: Vec<(f64, f64)>,
}

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &ReloadWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    // The connections of requests that come one by one are few at any time.
    let clients = 2 * (work.clients + work.tunnels + work.touched_tunnels) as u64;
    let room = ConnectionRoom { clients, servers: clients };
    let mut testbed = bench.set_up_as(target, room, &|servers| numbered(bench, 0, servers))?;
    let messages = [STILL, "/chat"].map(|path| websocket::prepare_at(&testbed.authority, path, MESSAGE));
    let [mut still, mut touched] = [&messages[0][0], &messages[1][0]]
        .map(|it| HeldConnections::new(testbed.addr, HeldExchange::Http1(it)));
    still.grow_to(work.tunnels).map_err(|fault| anyhow!("tunnels: {fault}"))?;
    touched.grow_to(work.touched_tunnels).map_err(|fault| anyhow!("tunnels: {fault}"))?;
    let rounds = Rounds { window: work.length(), ..*rounds };
    let log = RefCell::new(ReloadLog::default());
    let mut steps = steps(bench, work, target, room, &log);
    let (mut measurement, kept, short) = match work.streams {
        Some(streams) => drive_http2(bench, work, &rounds, streams, &mut testbed, &mut steps)?,
        None => drive(bench, work, &rounds, &mut testbed, &mut steps)?,
    };
    drop(steps);
    let is_over = || bench.options.is_interrupted();
    let (lost, lost_touched) = (still.lost(is_over), touched.lost(is_over));
    ensure!(!bench.options.is_interrupted(), "interrupted");
    testbed.is_alive()?;
    let ReloadLog { given, rss } = log.take();
    let (answered, mut faults) = (kept.exchanges + short.exchanges, kept.faults);
    faults.join(short.faults);
    let values = &mut measurement.values;
    values.insert(Metric::LostTunnels, lost as f64);
    values.insert(Metric::LostTouched, lost_touched as f64);
    values.insert(Metric::Resets, faults.of_kind(RESET) as f64);
    values.insert(Metric::ClosedConnections, kept.closed_by_target as f64);
    values.insert(Metric::Availability, availability(answered, faults.total));
    let longest = kept.latency.max().max(short.latency.max()) as f64 / 1000.0;
    values.insert(Metric::Longest, longest);
    measurement.notes.clear();
    note_memory(&mut measurement, &rss);
    measurement.note_failed(faults);
    let mut journals = testbed.journals()?;
    journals.pop();
    note_effects(&mut measurement, &effects(&given, work.every, &journals), given.len());
    Ok(measurement)
}

/// When the configurations were in effect. A target that takes few of them over loses nothing by the others: it fails.
fn note_effects(measurement: &mut Measurement, effects: &Effects, given: usize) {
    let Effects { longest, late } = effects;
    measurement.values.insert(Metric::TakesEffect, *longest as f64 / 1000.0);
    measurement.values.insert(Metric::LateConfigurations, late.len() as f64);
    if late.is_empty() {
        return;
    }
    let numbers: Vec<String> = late.iter().take(10).map(usize::to_string).collect();
    let more = if late.len() > 10 { " and others" } else { "" };
    let sentence = format!(
        "{} of {given} configurations were not in effect when the next one was given: {}{more}",
        late.len(),
        numbers.join(", ")
    );
    if 2 * late.len() > given {
        measurement.failure = Some(sentence);
    } else {
        measurement.notes.push(sentence);
    }
}

fn numbered(bench: &Bench<'_>, number: u32, servers: &[SocketAddr]) -> Configuration {
    Configuration::numbered(number, servers, &bench.upstream, None)
}

/// Clients that keep their connections, with those beside them that do not.
fn drive(
    bench: &Bench<'_>,
    work: &ReloadWork,
    rounds: &Rounds,
    testbed: &mut Testbed,
    steps: &mut [WindowEvent<'_>],
) -> anyhow::Result<(Measurement, LoadOutcome, LoadOutcome)> {
    let arrival = LoadPattern::Rate(work.rate);
    let load =
        TracedLoad { clients: work.clients, service: Duration::ZERO, body_len: 0, arrival, timeout: TIMEOUT };
    let plan = LoadPlan { trace: false, ..load.plan(testbed, rounds) };
    let short = short(testbed, work, &plan);
    let progress = LoadProgress::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| driver::run(&short, &progress));
        let driven = traced::drive(bench, testbed, &plan, steps);
        if driven.is_err() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        let short = running.join().ok().context("the driver panicked")??;
        let (measurement, kept) = driven?;
        Ok((measurement, kept, short))
    })
}

/// Clients of HTTP/2, without others beside them. Every fourth request is for the path that has servers of its own now and then.
fn drive_http2(
    bench: &Bench<'_>,
    work: &ReloadWork,
    rounds: &Rounds,
    streams: usize,
    testbed: &mut Testbed,
    steps: &mut [WindowEvent<'_>],
) -> anyhow::Result<(Measurement, LoadOutcome, LoadOutcome)> {
    let signed = (0..3).map(|client| format!("/delay/0/client/{client}"));
    let plan = Http2Plan {
        paths: signed.chain([NOW_AND_THEN.to_owned()]).collect(),
        connections: work.clients,
        streams,
        ..slow_stream::plan(testbed, rounds, work.rate)
    };
    let driven = window::drive_http2(bench, testbed, &plan, steps)?;
    let measurement = slow_stream::note(bench, &driven, work.rate);
    Ok((measurement, driven.outcome, LoadOutcome::at_start(0, Duration::ZERO)))
}

/// The connections that are not kept, beside those of `kept`.
fn short(testbed: &Testbed, work: &ReloadWork, kept: &LoadPlan) -> LoadPlan {
    let at = |path| {
        let host = &testbed.authority;
        prepare(&RequestShape { host, path, body_len: 0, answer_len: PAGE_LEN, close: true, cookie: None })
    };
    LoadPlan {
        exchanges: ["/", NOW_AND_THEN].into_iter().flat_map(at).collect(),
        choice: ExchangeOrder::InTurn,
        connections: Connections::PerExchange,
        arrival: LoadPattern::Rate(work.short_rate),
        ..kept.clone()
    }
}

/// The reloads, with a reading of the target's memory before each and some time after the last.
fn steps<'a>(
    bench: &'a Bench<'_>,
    work: &ReloadWork,
    target: LabTarget,
    room: ConnectionRoom,
    log: &'a RefCell<ReloadLog>,
) -> Vec<WindowEvent<'a>> {
    let look = |testbed: &Testbed, reloads: u32| {
        log.borrow_mut().rss.push((f64::from(reloads), rss(testbed)?));
        anyhow::Ok(())
    };
    let step = |number: u32| {
        WindowEvent::new(work.every * number, move |testbed: &mut Testbed| {
            look(testbed, number - 1)?;
            let servers: Vec<SocketAddr> = testbed.servers.iter().map(|server| server.addr).collect();
            log.borrow_mut().given.push(clock::uptime_ns());
            bench.reload(target, testbed, &numbered(bench, number, &servers), room)
        })
    };
    let times = work.times;
    let last = WindowEvent::new(work.every * times + work.every / 10 * 9, move |testbed: &mut Testbed| {
        look(testbed, times)
    });
    (1..=times).map(step).chain(std::iter::once(last)).collect()
}

/// The course of memory from one reload to the next.
fn note_memory(measurement: &mut Measurement, rss: &[(f64, f64)]) {
    let (Some((_, first)), Some((reloads, last))) = (rss.first(), rss.last()) else { return };
    measurement.values.insert(Metric::Rss, *last);
    measurement.values.insert(Metric::RssGrowth, last - first);
    let kib = |bytes: f64| bytes / 1024.0;
    let later: Vec<(f64, f64)> =
        rss.iter().copied().filter(|(number, _)| *number >= f64::from(MANY)).collect();
    if let (Some((_, early)), Some(trend)) = (later.first(), trend::trend(&later)) {
        measurement.values.insert(Metric::RssGrowthLater, last - early);
        measurement.values.insert(Metric::RssPerReload, trend.median);
        measurement.notes.push(format!(
            "resident memory {:.0} KiB before the first reload, {:.0} KiB after the tenth, {:.0} KiB after {reloads:.0}; from the \
             tenth on {:.1} KiB for each ({:.1} to {:.1})",
            kib(*first),
            kib(*early),
            kib(*last),
            kib(trend.median),
            kib(trend.low),
            kib(trend.high)
        ));
    }
    measurement.series = rss.to_vec();
}

fn rss(testbed: &Testbed) -> anyhow::Result<f64> {
    let pid = testbed.target.as_ref().context("there is nothing to reload")?.pid();
    Ok(memory::of_tree(pid).rss as f64)
}

#[cfg(test)]
mod tests {
    use super::{Effects, Measurement, Metric, note_effects, note_memory};

    #[test]
    fn a_target_that_takes_most_configurations_over_is_measured_and_one_that_takes_few_fails() {
        for (late, given, fails) in
            [(0, 3, false), (1, 3, false), (2, 3, true), (50, 100, false), (51, 100, true)]
        {
            let mut measurement = Measurement::default();
            note_effects(&mut measurement, &Effects { longest: 7000, late: (1..=late).collect() }, given);
            assert_eq!(measurement.values[&Metric::LateConfigurations], late as f64);
            assert_eq!(measurement.values[&Metric::TakesEffect], 7.0);
            assert_eq!(measurement.failure.is_some(), fails, "{late} of {given}");
            assert_eq!(measurement.notes.len(), usize::from(late > 0 && !fails), "{measurement:?}");
        }
    }

    #[test]
    fn memory_that_grows_with_every_reload_is_distinguished_from_memory_that_was_needed_once() {
        let seen = |of: fn(f64) -> f64| {
            let mut measurement = Measurement::default();
            let rss: Vec<(f64, f64)> =
                (0..=100).map(|number| (f64::from(number), of(f64::from(number)))).collect();
            note_memory(&mut measurement, &rss);
            let value = |metric| measurement.values[&metric].round();
            [Metric::RssGrowth, Metric::RssGrowthLater, Metric::RssPerReload].map(value)
        };
        assert_eq!(seen(|number| 1e6 + number.min(9.0) * 1000.0), [9000.0, 0.0, 0.0]);
        assert_eq!(seen(|number| 1e6 + number * 1000.0), [100_000.0, 90_000.0, 1000.0]);
        let mut few = Measurement::default();
        note_memory(&mut few, &[(0.0, 5.0), (1.0, 7.0)]);
        assert_eq!((few.values[&Metric::RssGrowth], few.values.get(&Metric::RssPerReload)), (2.0, None));
    }
}
