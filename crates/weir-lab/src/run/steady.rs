//! A steady load on one target: throughput, latency, CPU per request, memory, and what the limit was.
//!
//! The driver runs on its own thread; this one reads the CPU figures at both ends of the window, together with how many
//! exchanges the driver has completed, so that cost and count belong to the same stretch of time.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::measurement::{Limit, Measurement};
use super::stand::{Bench, Stand};
use crate::clock;
use crate::load::exchange::{Shape, prepare};
use crate::load::tool::{self, Tally};
use crate::load::{Arrival, Connections, Outcome, Plan, Progress, driver};
use crate::measure::metric::Metric;
use crate::measure::{busy, cpu, memory, sockets};
use crate::place::Placement;
use crate::scenario::{Rounds, Steady, Tool};
use crate::target::{Installed, Target};

/// An exchange that takes longer is a fault.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Clients the targets have room for: no limit of theirs is to be felt.
const ROOM: u64 = 4096;

/// After so many faults a measurement is over.
const FAULTS_MAX: u64 = 1000;

/// From here on a CPU counts as full.
const FULL: f64 = 0.95;

/// Requests of a constant rate that go out later than this say that the client cannot keep up, µs.
const LATENESS_MAX: f64 = 1000.0;

/// Readings at one end of the window.
struct Mark {
    target: Option<cpu::Snapshot>,
    /// The lab with all its children: client, origin and target.
    lab: cpu::Snapshot,
    client: Option<busy::Ticks>,
    other: Option<busy::Ticks>,
    exchanges: u64,
}

/// Measures `target` once. `rate`: requests per second, or a closed loop.
pub(super) fn measure(
    bench: &Bench<'_>,
    steady: &Steady,
    rounds: &Rounds,
    rate: Option<f64>,
    target: Target,
) -> anyhow::Result<Measurement> {
    let mut stand = bench.stand(target, ROOM)?;
    let plan = plan(&stand, steady, rounds, rate);
    let mut measurement = Measurement::default();
    let (before, after) = match bench.options.tool {
        Tool::Wrk => {
            let ((before, after), tally) = drive_wrk(bench, &mut stand, &plan)?;
            note_tally(&mut measurement, &tally);
            (before, after)
        }
        _ => {
            let ((before, after), outcome) = drive(bench, &mut stand, &plan)?;
            note_outcome(&mut measurement, &outcome, rate);
            (before, after)
        }
    };
    stand.is_alive()?;
    note_cost(&mut measurement, &before, &after);
    if let Some(child) = &stand.target {
        let memory = memory::of_tree(child.pid());
        measurement.values.insert(Metric::Rss, memory.rss as f64);
        measurement.values.insert(Metric::Pss, memory.pss as f64);
    }
    measurement.values.insert(Metric::OriginConnections, origin_connections(&stand).unwrap_or(0.0));
    measurement.values.insert(Metric::TimeWait, sockets::time_wait() as f64);
    if bench.placement.is_some() {
        note_limit(&mut measurement, &before, &after, rate);
    }
    if !measurement.faults.is_empty() {
        measurement.failure = Some(format!("wrong answers: {}", measurement.faults));
    }
    Ok(measurement)
}

fn plan(stand: &Stand, steady: &Steady, rounds: &Rounds, rate: Option<f64>) -> Plan {
    let path = if steady.answer == crate::origin::PAGE_LEN {
        "/".to_owned()
    } else {
        format!("/bytes/{}", steady.answer)
    };
    let shape = Shape {
        host: stand.addr,
        path: &path,
        body_len: steady.body,
        answer_len: steady.answer,
        close: !steady.keep_alive,
    };
    Plan {
        target: stand.addr,
        exchanges: prepare(&shape),
        clients: steady.clients,
        connections: if steady.keep_alive { Connections::Kept } else { Connections::PerExchange },
        arrival: rate.map_or(Arrival::Closed, Arrival::Rate),
        warm_up: rounds.warm_up,
        window: rounds.window,
        timeout: TIMEOUT,
        faults_max: FAULTS_MAX,
    }
}

/// Runs the driver, with readings at both ends of its window.
fn drive(bench: &Bench<'_>, stand: &mut Stand, plan: &Plan) -> anyhow::Result<((Mark, Mark), Outcome)> {
    let progress = Progress::default();
    std::thread::scope(|scope| {
        let start = clock::now();
        let running = scope.spawn(|| driver::run(plan, &progress));
        let is_over = || running.is_finished() || bench.options.is_interrupted();
        wait(start + plan.warm_up, is_over);
        let before = mark(stand, bench.placement, progress.exchanges.load(Ordering::Relaxed));
        wait(start + plan.warm_up + plan.window, is_over);
        let after = mark(stand, bench.placement, progress.exchanges.load(Ordering::Relaxed));
        let interrupted = bench.options.is_interrupted();
        // A target that has died answers nothing any more: do not wait for its timeouts.
        if interrupted || stand.is_alive().is_err() {
            progress.stop.store(true, Ordering::Relaxed);
        }
        let outcome = running.join().ok().context("the driver panicked")??;
        if interrupted {
            bail!("interrupted");
        }
        Ok(((before, after), outcome))
    })
}

/// Runs wrk, after a warm-up by the driver, since wrk has none.
fn drive_wrk(bench: &Bench<'_>, stand: &mut Stand, plan: &Plan) -> anyhow::Result<((Mark, Mark), Tally)> {
    let installed: Installed =
        tool::installed(Tool::Wrk).with_context(|| format!("wrk is missing: {}", tool::HOW_TO_GET))?;
    let warm_up = Plan { window: plan.warm_up, warm_up: Duration::ZERO, ..plan.clone() };
    driver::run(&warm_up, &Progress::default())?;
    let order =
        tool::Order { target: stand.addr, clients: plan.clients, window: plan.window, dir: bench.dir.path() };
    let before = mark(stand, bench.placement, 0);
    let cpus = bench.client_cpus();
    let tally = tool::run(Tool::Wrk, &installed, &order, &bench.options.runner(&cpus))?;
    let after = mark(stand, bench.placement, tally.answered);
    Ok(((before, after), tally))
}

/// Lets time pass until `deadline`, or until `is_over`.
fn wait(deadline: Instant, is_over: impl Fn() -> bool) {
    loop {
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() || is_over() {
            return;
        }
        clock::pause(left.min(Duration::from_millis(50)));
    }
}

fn mark(stand: &Stand, placement: Option<Placement>, exchanges: u64) -> Mark {
    Mark {
        target: stand.target.as_ref().map(|child| cpu::snapshot(child.pid())),
        lab: cpu::snapshot(std::process::id() as i32),
        client: placement.and_then(|placement| busy::ticks(placement.client)),
        other: placement.and_then(|placement| busy::ticks(placement.target)),
        exchanges,
    }
}

fn note_outcome(measurement: &mut Measurement, outcome: &Outcome, rate: Option<f64>) {
    let per_second = outcome.exchanges as f64 / outcome.window.as_secs_f64();
    measurement.values.insert(Metric::RequestsPerSecond, per_second);
    measurement.note_latency(&outcome.latency);
    measurement.faults = outcome.faults.clone();
    measurement.values.insert(Metric::Failed, outcome.faults.total as f64);
    if outcome.closed_by_target > 0 {
        measurement.notes.push(format!("the target closed {} kept connections", outcome.closed_by_target));
    }
    if rate.is_some() {
        let lateness = outcome.lateness.value_at_quantile(0.99) as f64 / 1000.0;
        measurement.values.insert(Metric::LatenessP99, lateness);
        let missed = outcome.unsent > 0 || lateness > LATENESS_MAX;
        measurement.limit = Some(if missed { Limit::RateMissed } else { Limit::Rate });
    }
}

fn note_tally(measurement: &mut Measurement, tally: &Tally) {
    measurement.values.insert(Metric::RequestsPerSecond, tally.rate);
    let figures = [(Metric::P50, tally.p50), (Metric::P99, tally.p99), (Metric::Longest, tally.longest)];
    for (metric, value) in figures {
        if let Some(value) = value {
            measurement.values.insert(metric, value);
        }
    }
    measurement.faults = tally.faults.clone();
    measurement.values.insert(Metric::Failed, tally.faults.total as f64);
}

/// CPU of the target between the marks, per exchange completed between them.
fn note_cost(measurement: &mut Measurement, before: &Mark, after: &Mark) {
    let exchanges = after.exchanges.saturating_sub(before.exchanges);
    let (Some(first), Some(second)) = (&before.target, &after.target) else { return };
    if exchanges == 0 {
        return;
    }
    let spent = cpu::between(first, second);
    let each = spent.total.as_secs_f64() * 1e6 / exchanges as f64;
    measurement.values.insert(Metric::CpuPerRequest, each);
    measurement.values.insert(Metric::CpuUser, each * spent.user_share);
    measurement.values.insert(Metric::CpuSystem, each * (1.0 - spent.user_share));
    measurement.values.insert(Metric::SwitchesPerRequest, spent.switches as f64 / exchanges as f64);
    measurement.values.insert(Metric::TargetCpu, spent.cpus() * 100.0);
}

/// Which CPU was full, and who else used them.
fn note_limit(measurement: &mut Measurement, before: &Mark, after: &Mark, rate: Option<f64>) {
    let (Some(client), Some(other)) = (before.client.zip(after.client), before.other.zip(after.other)) else {
        return;
    };
    let (client, other) = (busy::between(client.0, client.1), busy::between(other.0, other.1));
    let target = measurement.values.get(&Metric::TargetCpu).copied().unwrap_or(0.0) / 100.0;
    let lab = cpu::between(&before.lab, &after.lab).cpus();
    let foreign = (client.busy + other.busy - lab).max(0.0);
    let stolen = client.stolen.max(other.stolen);
    measurement.values.insert(Metric::ClientCpu, client.busy * 100.0);
    measurement.values.insert(Metric::ForeignCpu, foreign * 100.0);
    measurement.values.insert(Metric::Stolen, stolen * 100.0);
    if rate.is_none() {
        measurement.limit = Some(match (target >= FULL, client.busy >= FULL) {
            (true, _) => Limit::Target,
            (false, _) if measurement.is_disturbed() => Limit::Disturbed,
            (false, true) => Limit::Client,
            (false, false) => Limit::Waiting,
        });
    }
}

/// Connections the origin has accepted, as it says itself.
fn origin_connections(stand: &Stand) -> Option<f64> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(stand.origin_addr).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).ok()?;
    stream.write_all(b"GET /counters HTTP/1.1\r\nHost: origin\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let json: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1)?).ok()?;
    // This connection is not the target's.
    Some(json["accepted"].as_f64()? - 1.0)
}
