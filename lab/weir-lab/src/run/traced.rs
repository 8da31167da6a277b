//! A load whose every exchange is written down: by the clients in a trace, by the servers in their journals.
//!
//! How the works on queues, outages, overload, slow requests and persistence send it, and what they all note of it. Failed
//! requests are figures there, not a reason to stop. Each of them evaluates the trace and the journals by itself.

use std::time::Duration;

use super::window::{self, WindowEvent};
use crate::load::exchange::{SignedRequest, sign};
use crate::load::{Connections, ExchangeOrder, LoadOutcome, LoadPattern, LoadPlan};
use crate::measure::metric::Metric;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::testbed::Testbed;
use crate::run::window_mark::{note_cost, note_limit};
use crate::scenario::Rounds;

/// Clients that keep their connections and sign their requests, each with its own number.
#[derive(Debug, Clone, Copy)]
pub(super) struct TracedLoad {
    pub(super) clients: usize,
    /// How long a server works on each request.
    pub(super) service: Duration,
    /// Bytes of each request; 0: GET.
    pub(super) body_len: usize,
    pub(super) arrival: LoadPattern,
    /// Longest wait for an answer.
    pub(super) timeout: Duration,
}

impl TracedLoad {
    /// The load on `testbed` for the length of a round.
    pub(super) fn plan(&self, testbed: &Testbed, rounds: &Rounds) -> LoadPlan {
        let signed = SignedRequest { host: testbed.addr, service: self.service, body_len: self.body_len };
        LoadPlan {
            target: testbed.addr,
            secure: None,
            exchanges: (0..self.clients).map(|client| sign(&signed, client)).collect(),
            choice: ExchangeOrder::ByClient,
            clients: self.clients,
            connections: Connections::Kept,
            arrival: self.arrival,
            warm_up: rounds.warm_up,
            window: rounds.window,
            timeout: self.timeout,
            faults_max: u64::MAX,
            trace: true,
            pace: None,
            name: None,
        }
    }
}

/// Runs `plan`, and `steps` in their order: the cost for the target, the outcome of its clients, and their notes.
pub(super) fn drive(
    bench: &Bench<'_>,
    testbed: &mut Testbed,
    plan: &LoadPlan,
    steps: &mut [WindowEvent<'_>],
) -> anyhow::Result<(Measurement, LoadOutcome)> {
    let driven = window::drive(bench, testbed, plan, steps)?;
    testbed.is_alive()?;
    let (rate, outcome) = (plan.arrival.rate(), driven.outcome);
    let mut measurement = Measurement::default();
    note_cost(&mut measurement, &driven.before, &driven.after);
    if bench.placement.is_some() {
        note_limit(&mut measurement, &driven.before, &driven.after, rate);
    }
    if rate.is_some() {
        let late = outcome.lateness.value_at_quantile(0.99) as f64 / 1000.0;
        measurement.values.insert(Metric::LatenessP99, late);
    }
    measurement.note_latency(&outcome.latency);
    measurement.seconds.clone_from(&outcome.seconds);
    measurement.note_failed(outcome.faults.clone());
    Ok((measurement, outcome))
}
