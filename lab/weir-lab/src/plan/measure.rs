//! The cost of a request and of a client on this machine, from runs of the target alone.

use anyhow::{Context as _, bail, ensure};
use weir_stats::estimate::Spread;

use super::{ClientKeepAlive, PlannedLoad};
use crate::machine::Machine;
use crate::measure::metric::Metric;
use crate::report::summary::rows;
use crate::results::measurement::Limit;
use crate::results::run::Run;
use crate::run::{self, Options};
use crate::scenario::Scenario;
use crate::topology::product::Product;

/// Clients of the small loads.
const FEW: u64 = 64;

/// Most clients that memory is measured with: each takes descriptors of the load generator as well.
const MANY_MAX: u64 = 4000;

/// The share of a core's peak at which the cost of a request is taken: where a service is run.
const USUAL_SHARE: f64 = 0.5;

/// The results.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub(super) machine: Machine,
    /// The product's words about its version.
    pub(super) version: String,
    /// Requests per second that one core carries when it is full.
    pub(super) peak: f64,
    /// CPU per request when the core is full, µs.
    pub(super) cost_full: Spread,
    /// CPU per request at the usual share of that, µs.
    pub(super) cost_usual: Spread,
    /// The rate at which that was measured, and how busy the core was, percent.
    pub(super) usual: (f64, f64),
    /// Resident memory with few clients and with many: clients, bytes.
    pub(super) memory: [(f64, f64); 2],
    /// Why the figures must not be relied on, if so.
    pub(super) caveat: Option<&'static str>,
    /// Whether the figures mean anything at all.
    pub(super) is_sound: bool,
    /// Rates that the target was given and did not hold: clients, and the purpose of each measurement.
    pub(super) missed: Vec<String>,
    /// Requests that failed meanwhile.
    pub(super) faults: u64,
}

/// Measures the costs that the plan needs.
pub(super) fn measure(planned: &PlannedLoad, options: &Options) -> anyhow::Result<Measured> {
    ensure!(
        !matches!(planned.target.product, Product::Direct | Product::Url),
        "what `{}` costs cannot be seen: take a balancer that the lab can start, see `weir-lab targets`",
        planned.target
    );
    let full = one_run(planned, options, FEW, None).context("the peak of one core")?;
    let peak = figure(&full, Metric::RequestsPerSecond)?.median;
    let usual_rate = (peak * USUAL_SHARE).round();
    let usual = one_run(planned, options, FEW, Some(usual_rate)).context("half of that peak")?;
    let many_clients = planned.clients.clamp(2 * FEW, MANY_MAX);
    let many =
        one_run(planned, options, many_clients, Some(usual_rate)).context("memory with many clients")?;
    Ok(Measured {
        machine: full.machine.clone(),
        version: full.targets.values().next().map_or_else(String::new, |record| record.version.clone()),
        peak,
        cost_full: figure(&full, Metric::CpuPerRequest)?,
        cost_usual: figure(&usual, Metric::CpuPerRequest)?,
        usual: (usual_rate, figure(&usual, Metric::TargetCpu)?.median),
        memory: [
            (FEW as f64, figure(&usual, Metric::Rss)?.median),
            (many_clients as f64, figure(&many, Metric::Rss)?.median),
        ],
        caveat: [&full, &usual, &many].into_iter().find_map(Run::caveat),
        is_sound: ![&full, &usual, &many].into_iter().any(Run::means_nothing),
        missed: [(&usual, FEW), (&many, many_clients)]
            .into_iter()
            .filter(|(run, _)| is_rate_missed(run))
            .map(|(run, clients)| missed(run, clients, usual_rate))
            .collect(),
        faults: [&full, &usual, &many].into_iter().flat_map(rows).map(|row| row.faults).sum(),
    })
}

/// Whether the given rate was not held in most rounds.
fn is_rate_missed(run: &Run) -> bool {
    rows(run).first().is_some_and(|row| row.limit == Some(Limit::RateMissed))
}

fn missed(run: &Run, clients: u64, rate: f64) -> String {
    let held = figure(run, Metric::RequestsPerSecond)
        .map_or_else(|_| "less".to_owned(), |spread| format!("{:.0}", spread.median));
    format!("of {rate:.0} requests per second from {clients} clients it held {held}")
}

fn one_run(planned: &PlannedLoad, options: &Options, clients: u64, rate: Option<f64>) -> anyhow::Result<Run> {
    let scenario = Scenario::read("plan", &scenario(planned, clients, rate))?;
    let run = run::run(&scenario, options)?;
    match run.failed.values().next() {
        Some(failure) => bail!("{failure}"),
        None => Ok(run),
    }
}

fn scenario(planned: &PlannedLoad, clients: u64, rate: Option<f64>) -> String {
    let listener = match planned.tls {
        // As browsers choose it with HTTP/3.
        true if planned.http3 => {
            "[listener]\ntls = { suite = \"TLS_AES_128_GCM_SHA256\", key = \"ecdsa-p256\" }\n"
        }
        true => "[listener]\ntls = { suite = \"TLS_AES_256_GCM_SHA384\", key = \"ecdsa-p256\" }\n",
        false => "",
    };
    let rate = rate.map_or_else(String::new, |rate| format!("rate = {rate:?}\n"));
    let kind = match planned.message {
        Some(len) => format!("message = {len}\n"),
        None if planned.http3 => format!("http3 = true\nstreams = 1\nanswer = {}\n", planned.answer),
        None => format!("answer = {}\n", planned.answer),
    };
    format!(
        "question = \"What does it cost to carry this?\"\nrequirements = [\"B7\"]\ntargets = [\"{}\"]\nclass = \"tuned\"\n\
         rounds = {{ count = 3, warm-up = \"1s\", window = \"2s\" }}\n{listener}\
         [steady]\nclients = {clients}\nkeep-alive = {}\nbody = {}\n{kind}{rate}",
        planned.target,
        planned.keepalive == ClientKeepAlive::Yes,
        planned.body
    )
}

fn figure(run: &Run, metric: Metric) -> anyhow::Result<Spread> {
    let rows = rows(run);
    let row = rows.first().context("nothing was measured")?;
    row.spreads.get(&metric).copied().with_context(|| format!("{} was not measured", metric.phrase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_wish_is_a_sound_scenario() {
        for (tls, keepalive, body, rate) in [
            (false, ClientKeepAlive::Yes, 0, None),
            (true, ClientKeepAlive::No, 1024, Some(1000.0)),
            (true, ClientKeepAlive::Yes, 0, Some(0.5)),
        ] {
            let target = "haproxy".parse().unwrap();
            let planned = PlannedLoad {
                rate: 1,
                clients: 1,
                body,
                answer: 612,
                message: None,
                http3: false,
                core_hour: None,
                keepalive,
                tls,
                server_time: Duration::ZERO,
                target,
            };
            let read = Scenario::read("plan", &scenario(&planned, 64, rate)).unwrap();
            let steady = read.steady.unwrap();
            assert_eq!((steady.keep_alive, steady.body as u64), (keepalive == ClientKeepAlive::Yes, body));
            assert_eq!((read.listener.tls.is_some(), steady.rate.is_some()), (tls, rate.is_some()));
        }
    }

    #[test]
    fn answers_tunnels_and_http3_are_what_is_measured() {
        let target = "nginx".parse().unwrap();
        let page = PlannedLoad {
            rate: 1,
            clients: 1,
            body: 0,
            answer: 10_240,
            message: None,
            http3: false,
            core_hour: None,
            keepalive: ClientKeepAlive::Yes,
            tls: false,
            server_time: Duration::ZERO,
            target,
        };
        let steady = |planned: &PlannedLoad| {
            Scenario::read("plan", &scenario(planned, 64, Some(10.0))).unwrap().steady.unwrap()
        };
        assert_eq!(steady(&page).answer, 10_240);
        let tunnels = PlannedLoad { answer: 612, message: Some(100), ..page };
        assert_eq!(steady(&tunnels).message, Some(100));
        let http3 = PlannedLoad { http3: true, tls: true, ..page };
        assert_eq!((steady(&http3).http3, steady(&http3).answer), (true, 10_240));
    }
}
