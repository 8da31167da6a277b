//! A steady load on one target: throughput, latency, CPU per request, memory, and the limit.
//!
//! The driver runs on its own thread; this one reads the CPU figures at both ends of the window, together with how many
//! exchanges the driver has completed, so that cost and count belong to the same stretch of time.

use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::server::ServerProcess;
use super::watcher::Watcher;
use super::{footprint, limit, window};
use crate::installed::Installed;
use crate::load::exchange::{RequestShape, prepare};
use crate::load::http3::request;
use crate::load::http3_driver::Http3Plan;
use crate::load::tool::{self, LoadTool, ToolResult};
use crate::load::{
    Connections, ExchangeOrder, LoadOutcome, LoadPattern, LoadPlan, LoadProgress, driver, websocket,
};
use crate::measure::metric::Metric;
use crate::measure::sockets;
use crate::results::measurement::{Limit, Measurement};
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::run::window::{WindowEvent, WindowOutcome};
use crate::run::window_mark::{WindowMark, mark, note_cost, note_limit};
use crate::scenario::{Rounds, SteadyWork};
use crate::target::ConnectionRoom;
use crate::topology::listener::Tls;
use crate::topology::product::Product;
use crate::topology::target::{LabTarget, TargetVariant};

/// An exchange that takes longer is a fault.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The room of the targets: no limit of theirs may matter.
const ROOM: u64 = 4096;

/// Bytes of a GiB.
const GIB: f64 = (1_u64 << 30) as f64;

/// After this many faults a measurement is over.
const FAULTS_MAX: u64 = 1000;

/// Requests of a constant rate that go out later than this say that the client cannot keep up, µs.
const LATENESS_MAX: f64 = 1000.0;

/// Measures `target` once. `rate`: requests per second, or a closed loop.
pub(super) fn measure(
    bench: &Bench<'_>,
    steady: &SteadyWork,
    rounds: &Rounds,
    rate: Option<f64>,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = bench.set_up_with(target, room(steady))?;
    let mut measurement = Measurement::default();
    let watcher = (target.variant == TargetVariant::Watched).then(|| Watcher::start(&bench.dir_of(target)));
    let (before, after) = match bench.options.tool_for(steady) {
        tool @ (LoadTool::Wrk | LoadTool::Vegeta | LoadTool::H2load | LoadTool::GrpcClient) => {
            let plan = plan(&testbed, steady, rounds, rate);
            let ((before, after), tally) = drive_tool(bench, &mut testbed, &plan, steady, tool)?;
            note_tally(&mut measurement, &tally);
            (before, after)
        }
        _ => {
            let driven = drive(bench, &mut testbed, (steady, rounds, rate), target, &mut [])?;
            note_outcome(&mut measurement, &driven.outcome, rate);
            let binds = target.variant.has_persistence_cookie(&bench.upstream) && testbed.target.is_some();
            measurement.failure = unbound(if binds { steady.clients } else { 0 }, driven.outcome.cookies)
                .or_else(|| bench.listener.tls.and_then(|tls| handshakes(tls, &driven.outcome)));
            (driven.before, driven.after)
        }
    };
    if let Some(watcher) = watcher {
        measurement.notes.push(watcher.stop()?);
    }
    testbed.is_alive()?;
    note_cost(&mut measurement, &before, &after);
    if let (true, Some(each)) = (bench.traffic.is_bulk, measurement.values.get(&Metric::CpuPerRequest)) {
        let per_gib = each * GIB / steady.body_bytes() as f64;
        measurement.values.insert(Metric::CpuPerGib, per_gib);
    }
    if let Some(child) = &testbed.target {
        footprint::note(&mut measurement, child.pid());
    }
    if let Some(accepted) = accepted(&testbed) {
        measurement.values.insert(Metric::OriginConnections, accepted);
    }
    measurement.values.insert(Metric::TimeWait, sockets::time_wait() as f64);
    if bench.placement.is_some() {
        note_limit(&mut measurement, &before, &after, rate);
        if target.product != Product::Direct {
            limit::note_void(&mut measurement, steady.clients);
        }
    }
    if !measurement.faults.is_empty() {
        measurement.failure = Some(format!("wrong answers: {}", measurement.faults));
    }
    Ok(measurement)
}

/// The room that targets need for `steady`. In tunnels, clients have a server connection each.
pub(super) fn room(steady: &SteadyWork) -> ConnectionRoom {
    ConnectionRoom { clients: ROOM, servers: steady.message.map_or(0, |_| ROOM) }
}

/// The request to the origin.
fn path(steady: &SteadyWork) -> String {
    let service = steady.service.iter().map(|service| format!("/delay/{service}"));
    let answer = (steady.answer != crate::origin::PAGE_LEN).then(|| format!("/bytes/{}", steady.answer));
    let path: String = service.chain(answer).collect();
    if steady.body > 0 {
        return "/checksum".to_owned();
    }
    if path.is_empty() { "/".to_owned() } else { path }
}

/// The plan of a steady load on `testbed`.
pub(super) fn plan(testbed: &Testbed, steady: &SteadyWork, rounds: &Rounds, rate: Option<f64>) -> LoadPlan {
    let path = path(steady);
    let shape = RequestShape {
        host: &testbed.authority,
        path: &path,
        body_len: steady.body,
        answer_len: steady.answer,
        close: !steady.keep_alive,
        cookie: steady.cookie.as_deref(),
    };
    LoadPlan {
        target: testbed.addr,
        secure: None,
        exchanges: match steady.message {
            Some(len) => websocket::prepare(&testbed.authority, len),
            None => prepare(&shape),
        },
        clients: steady.clients,
        choice: ExchangeOrder::ByClient,
        connections: if steady.keep_alive { Connections::Kept } else { Connections::PerExchange },
        arrival: rate.map_or(LoadPattern::Closed, LoadPattern::Rate),
        warm_up: rounds.warm_up,
        window: rounds.window,
        timeout: TIMEOUT,
        faults_max: FAULTS_MAX,
        trace: false,
        pace: None,
        name: None,
    }
}

/// Runs the lab's own driver with this load, and `steps` in their order.
pub(super) fn drive(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    (steady, rounds, rate): (&SteadyWork, &Rounds, Option<f64>),
    target: LabTarget,
    steps: &mut [WindowEvent<'_>],
) -> anyhow::Result<WindowOutcome> {
    let plan = LoadPlan { secure: bench.secure_with(target)?, ..plan(testbed, steady, rounds, rate) };
    if !steady.http3 {
        return window::drive(bench, testbed, &plan, steps);
    }
    let LoadPlan { target: addr, arrival, warm_up, window, timeout, faults_max, .. } = plan;
    let plan = Http3Plan {
        target: addr,
        setup: bench.http3_with(target)?.context("HTTP/3 needs TLS")?,
        requests: match steady.body {
            0 => vec![request::get(&testbed.authority, &path(steady), steady.answer)],
            len => request::posts(&testbed.authority, len),
        },
        connections: steady.clients,
        streams: steady.streams.unwrap_or(1),
        arrival,
        warm_up,
        window,
        timeout,
        faults_max,
    };
    window::drive_http3(bench, testbed, &plan, steps)
}

/// Runs a tool, after a warm-up by the driver, since tools have none.
fn drive_tool(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    plan: &LoadPlan,
    steady: &SteadyWork,
    which: LoadTool,
) -> anyhow::Result<((WindowMark, WindowMark), ToolResult)> {
    let installed: Installed = tool::installed_for(which, steady.http3)?;
    let path = path(steady);
    let order = tool::ToolOrder {
        authority: &testbed.authority,
        path: &path,
        body: steady.body,
        answer: steady.answer,
        calls: steady.grpc.unwrap_or_default(),
        clients: plan.clients,
        streams: steady.streams.unwrap_or(1),
        is_secure: bench.listener.tls.is_some(),
        suite: bench.listener.tls.filter(|_| steady.http3).map(|tls| tls.suite),
        rate: plan.arrival.rate(),
        window: plan.window,
        dir: bench.dir.path(),
    };
    let cpus = bench.client_cpus();
    if steady.streams.is_some() {
        // The driver does not speak HTTP/2; with HTTP/3, the same client warms up.
        let warm_up = tool::ToolOrder { window: plan.warm_up, ..order };
        tool::run(which, &installed, &warm_up, &bench.options.runner(&cpus))?;
    } else {
        let warm_up = LoadPlan { window: plan.warm_up, warm_up: Duration::ZERO, ..plan.clone() };
        driver::run(&warm_up, &LoadProgress::default())?;
    }
    let before = mark(testbed, bench.placement, 0);
    let tally = tool::run(which, &installed, &order, &bench.options.runner(&cpus))?;
    let after = mark(testbed, bench.placement, tally.answered);
    // GETs and messages have answers of a known length; those that were cut off at the end are in the sum as well.
    let known = if steady.body == 0 { steady.answer * tally.answered } else { 0 };
    ensure!(
        tally.body_bytes.is_none_or(|bytes| bytes >= known),
        "{} answers of {} bytes had {} bytes altogether",
        tally.answered,
        steady.answer,
        tally.body_bytes.unwrap_or_default()
    );
    Ok(((before, after), tally))
}

fn note_outcome(measurement: &mut Measurement, outcome: &LoadOutcome, rate: Option<f64>) {
    let per_second = outcome.exchanges as f64 / outcome.window.as_secs_f64();
    measurement.values.insert(Metric::RequestsPerSecond, per_second);
    measurement.note_latency(&outcome.latency);
    measurement.faults = outcome.faults.clone();
    measurement.seconds.clone_from(&outcome.seconds);
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

/// Says so when fewer cookies than one for each of `bound` clients were given: the figures would be of something else.
fn unbound(bound: usize, given: u64) -> Option<String> {
    (given < bound as u64).then(|| format!("the target gave {given} cookies to {bound} clients"))
}

/// Says so when handshakes were not of the kind that was to be measured.
fn handshakes(tls: Tls, outcome: &LoadOutcome) -> Option<String> {
    let LoadOutcome { full_handshakes: full, resumed_handshakes: resumed, .. } = outcome;
    let wrong = if tls.resume { full } else { resumed };
    // A session may be lost now and then; one in a hundred changes no figure.
    (wrong * 100 > full + resumed).then(|| format!("{resumed} sessions were resumed and {full} were not"))
}

fn note_tally(measurement: &mut Measurement, tally: &ToolResult) {
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

/// Connections that all servers have accepted, if they know.
fn accepted(testbed: &Testbed) -> Option<f64> {
    let counts: Option<Vec<f64>> = testbed.servers.iter().map(ServerProcess::accepted).collect();
    counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::{LoadOutcome, Tls, handshakes, unbound};
    use crate::topology::listener::{CertificateKey, Suite};
    use std::time::Duration;

    #[test]
    fn a_client_without_a_cookie_is_noticed() {
        assert!(unbound(64, 63).is_some_and(|said| said.contains("63 cookies to 64 clients")));
        assert_eq!([unbound(64, 64), unbound(64, 65), unbound(0, 0)], [None, None, None]);
    }

    #[test]
    fn handshakes_of_the_wrong_kind_are_noticed() {
        let said = |resume, full_handshakes, resumed_handshakes| {
            let start = LoadOutcome::at_start(0, Duration::ZERO);
            let outcome = LoadOutcome { full_handshakes, resumed_handshakes, ..start };
            handshakes(
                Tls {
                    suite: Suite::Tls13Aes256,
                    key: CertificateKey::EcdsaP256,
                    resume,
                    handshake_timeout: None,
                },
                &outcome,
            )
        };
        assert_eq!([said(true, 1, 99), said(false, 1000, 1), said(true, 0, 0)], [None, None, None]);
        assert!(said(true, 2, 98).is_some_and(|text| text == "98 sessions were resumed and 2 were not"));
        assert!(said(false, 98, 2).is_some());
    }
}
