//! A crowd of clients, played by one of several tools, against a target with default settings.
//!
//! Failed requests are the figure here, not a reason to stop: the report shows how many each target lost.

use std::time::Duration;

use anyhow::Context as _;

use super::footprint;
use crate::load::exchange::{RequestShape, prepare};
use crate::load::tool::grpc_client::GrpcCalls;
use crate::load::tool::{HOW_TO_GET, LoadTool, ToolOrder, ToolResult, installed};
use crate::load::{Connections, ExchangeOrder, LoadPattern, LoadPlan, LoadProgress, driver};
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::scenario::Rounds;
use crate::topology::target::LabTarget;

/// The time limit of the other tools for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    tool: LoadTool,
    clients: usize,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = bench.set_up_with_servers(target, clients)?;
    let tally = match tool {
        LoadTool::Driver => drive(bench, &testbed, clients, rounds)?,
        other => {
            let installed =
                installed(other).with_context(|| format!("{} is missing: {}", other.name(), HOW_TO_GET))?;
            let order = ToolOrder {
                authority: &testbed.authority,
                path: "/",
                body: 0,
                answer: PAGE_LEN,
                calls: GrpcCalls::default(),
                streams: 1,
                is_secure: false,
                suite: None,
                clients,
                rate: None,
                window: rounds.window,
                dir: bench.dir.path(),
            };
            crate::load::tool::run(other, &installed, &order, &bench.options.runner(&bench.client_cpus()))?
        }
    };
    anyhow::ensure!(!bench.options.is_interrupted(), "interrupted");
    testbed.is_alive()?;
    Ok(note(&testbed, tally))
}

fn drive(
    bench: &Bench<'_>,
    testbed: &Testbed,
    clients: usize,
    rounds: &Rounds,
) -> anyhow::Result<ToolResult> {
    let shape = RequestShape {
        host: &testbed.authority,
        path: "/",
        body_len: 0,
        answer_len: PAGE_LEN,
        close: false,
        cookie: None,
    };
    let plan = LoadPlan {
        target: testbed.addr,
        secure: None,
        exchanges: prepare(&shape),
        clients,
        choice: ExchangeOrder::ByClient,
        connections: Connections::Kept,
        arrival: LoadPattern::Closed,
        warm_up: Duration::ZERO,
        window: rounds.window,
        timeout: TIMEOUT,
        faults_max: u64::MAX,
        trace: false,
        pace: None,
        name: None,
    };
    let progress = LoadProgress::default();
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| driver::run(&plan, &progress));
        crate::clock::wait_until(rounds.window + 2 * TIMEOUT, || {
            running.is_finished() || bench.options.is_interrupted()
        });
        progress.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        running.join().ok().context("the driver panicked")
    })??;
    let at = |quantile: f64| Some(outcome.latency.value_at_quantile(quantile) as f64 / 1000.0);
    Ok(ToolResult {
        answered: outcome.exchanges,
        faults: outcome.faults,
        rate: outcome.exchanges as f64 / outcome.window.as_secs_f64(),
        p50: at(0.5),
        p99: at(0.99),
        longest: Some(outcome.latency.max() as f64 / 1000.0),
        body_bytes: None,
        hung: 0,
    })
}

fn note(testbed: &Testbed, tally: ToolResult) -> Measurement {
    let mut measurement = Measurement::default();
    if let Some(child) = &testbed.target {
        footprint::note(&mut measurement, child.pid());
    }
    let asked = tally.answered + tally.faults.total;
    let values = &mut measurement.values;
    values.insert(Metric::Availability, 100.0 * tally.answered as f64 / asked.max(1) as f64);
    values.insert(Metric::RequestsPerSecond, tally.rate);
    let figures = [(Metric::P50, tally.p50), (Metric::P99, tally.p99), (Metric::Longest, tally.longest)];
    for (metric, value) in figures {
        if let Some(value) = value {
            values.insert(metric, value);
        }
    }
    if tally.hung > 0 {
        measurement
            .notes
            .push(format!("the tool itself did not end {} times and was started again", tally.hung));
    }
    measurement.note_failed(tally.faults);
    measurement
}
