//! Memory per idle client: the slope of a target's memory over the number of clients it serves.
//!
//! Each number of clients gets a fresh target with room for just these: some products set memory aside for every client they
//! may have when they start, others when it comes, and both is to be counted. One exchange at a time, so that the target needs
//! one server connection however many clients there are. Afterwards all must still be open and a sample of them usable: a target
//! that closes idle clients would look thrifty.

use anyhow::{Context as _, anyhow, ensure};

use super::measurement::Measurement;
use super::server::Server;
use super::stand::Bench;
use crate::clock;
use crate::load::exchange::{Shape, prepare};
use crate::load::held::Held;
use crate::measure::memory::{self, Memory};
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::scenario::Idle;
use crate::stats;
use crate::target::Target;

/// One connection in so many is used again at the end.
const SAMPLE: usize = 50;

/// Measures `target` once.
pub(super) fn measure(bench: &Bench<'_>, idle: &Idle, target: Target) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::default();
    for &clients in &idle.clients {
        let memory = with_clients(bench, idle, target, clients)
            .with_context(|| format!("with {clients} idle clients"))?;
        measurement.series.push((clients as f64, memory.anonymous as f64));
        measurement.values.insert(Metric::Rss, memory.rss as f64);
        measurement.values.insert(Metric::Pss, memory.pss as f64);
    }
    if let Some(slope) = stats::slope(&measurement.series) {
        measurement.values.insert(Metric::MemoryPerClient, slope);
    }
    Ok(measurement)
}

/// Memory of a fresh target once `clients` idle on it.
fn with_clients(bench: &Bench<'_>, idle: &Idle, target: Target, clients: usize) -> anyhow::Result<Memory> {
    let mut stand = bench.stand(target, clients as u64)?;
    let shape =
        Shape { host: stand.addr, path: "/", body_len: 0, answer_len: PAGE_LEN, close: false, cookie: None };
    let exchange = &prepare(&shape)[0];
    let mut held = Held::new(stand.addr, exchange);
    held.grow_to(clients).map_err(|fault| anyhow!("{fault}"))?;
    clock::pause(idle.settle);
    ensure!(!bench.options.is_interrupted(), "interrupted");
    let pid = match &stand.target {
        Some(target) => target.pid(),
        None => stand.servers.first().and_then(Server::pid).context("the origin runs")?,
    };
    let memory = memory::of_tree(pid);
    stand.is_alive()?;
    let open = held.open();
    ensure!(open == clients, "the target closed {}", clients - open);
    held.use_again(SAMPLE).map_err(|fault| anyhow!("one was forgotten: {fault}"))?;
    Ok(memory)
}
