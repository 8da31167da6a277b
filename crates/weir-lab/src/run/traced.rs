//! A load whose every exchange is written down: by the clients in a trace, by the servers in their journals.
//!
//! How the works on queues, outages, overload, slow requests and persistence send it, and what they all note of it. Failed
//! requests are figures there, not a reason to stop. What else trace and journals say is for each of them to find out.

use std::time::Duration;

use super::mark::{note_cost, note_limit};
use super::stand::Stand;
use super::window::{self, Step};
use crate::load::exchange::{Signed, sign};
use crate::load::{Arrival, Choice, Connections, Outcome, Plan};
use crate::measure::metric::Metric;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::scenario::Rounds;

/// Clients that keep their connections and sign their requests, each with its own number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) clients: usize,
    /// How long a server works on each request.
    pub(super) service: Duration,
    /// Bytes of each request; 0: GET.
    pub(super) body_len: usize,
    pub(super) arrival: Arrival,
    /// Longest wait for an answer.
    pub(super) timeout: Duration,
}

impl Load {
    /// The load on `stand` for the length of a round.
    pub(super) fn plan(&self, stand: &Stand, rounds: &Rounds) -> Plan {
        let signed = Signed { host: stand.addr, service: self.service, body_len: self.body_len };
        Plan {
            target: stand.addr,
            secure: None,
            exchanges: (0..self.clients).map(|client| sign(&signed, client)).collect(),
            choice: Choice::ByClient,
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

/// Runs `plan`, and `steps` in their order: what it cost the target and how its clients fared, and all that they wrote down.
pub(super) fn drive(
    bench: &Bench<'_>,
    stand: &mut Stand,
    plan: &Plan,
    steps: &mut [Step<'_>],
) -> anyhow::Result<(Measurement, Outcome)> {
    let driven = window::drive(bench, stand, plan, steps)?;
    stand.is_alive()?;
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
