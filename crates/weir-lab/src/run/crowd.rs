//! A crowd of clients, played by one of several tools, against a target with default settings.
//!
//! Failed requests are the figure here, not a reason to stop: whoever loses requests is to be seen losing them.

use std::time::Duration;

use anyhow::Context as _;

use super::footprint;
use super::stand::Stand;
use crate::load::exchange::{Shape, prepare};
use crate::load::tool::{HOW_TO_GET, Order, Tally, Tool, installed};
use crate::load::{Arrival, Choice, Connections, Plan, Progress, driver};
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::scenario::Rounds;
use crate::topology::target::Target;

/// What the other tools wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    tool: Tool,
    clients: usize,
    rounds: &Rounds,
    target: Target,
) -> anyhow::Result<Measurement> {
    let mut stand = bench.stand_with_servers(target, clients)?;
    let tally = match tool {
        Tool::Driver => drive(bench, &stand, clients, rounds)?,
        other => {
            let installed =
                installed(other).with_context(|| format!("{} is missing: {}", other.name(), HOW_TO_GET))?;
            let order = Order {
                authority: &stand.authority,
                path: "/",
                clients,
                rate: None,
                window: rounds.window,
                dir: bench.dir.path(),
            };
            crate::load::tool::run(other, &installed, &order, &bench.options.runner(&bench.client_cpus()))?
        }
    };
    anyhow::ensure!(!bench.options.is_interrupted(), "interrupted");
    stand.is_alive()?;
    Ok(note(&stand, tally))
}

fn drive(bench: &Bench<'_>, stand: &Stand, clients: usize, rounds: &Rounds) -> anyhow::Result<Tally> {
    let shape = Shape {
        host: &stand.authority,
        path: "/",
        body_len: 0,
        answer_len: PAGE_LEN,
        close: false,
        cookie: None,
    };
    let plan = Plan {
        target: stand.addr,
        secure: None,
        exchanges: prepare(&shape),
        clients,
        choice: Choice::ByClient,
        connections: Connections::Kept,
        arrival: Arrival::Closed,
        warm_up: Duration::ZERO,
        window: rounds.window,
        timeout: TIMEOUT,
        faults_max: u64::MAX,
        trace: false,
        pace: None,
        name: None,
    };
    let progress = Progress::default();
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| driver::run(&plan, &progress));
        crate::clock::wait_until(rounds.window + 2 * TIMEOUT, || {
            running.is_finished() || bench.options.is_interrupted()
        });
        progress.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        running.join().ok().context("the driver panicked")
    })??;
    let at = |quantile: f64| Some(outcome.latency.value_at_quantile(quantile) as f64 / 1000.0);
    Ok(Tally {
        answered: outcome.exchanges,
        faults: outcome.faults,
        rate: outcome.exchanges as f64 / outcome.window.as_secs_f64(),
        p50: at(0.5),
        p99: at(0.99),
        longest: Some(outcome.latency.max() as f64 / 1000.0),
        hung: 0,
    })
}

fn note(stand: &Stand, tally: Tally) -> Measurement {
    let mut measurement = Measurement::default();
    if let Some(child) = &stand.target {
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
