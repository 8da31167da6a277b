//! Memory per idle client: the slope of a target's memory over the number of clients it serves.
//!
//! Each number of clients gets a fresh target with room for just these: some products set memory aside for every client they
//! may have when they start, others when it comes, and both is to be counted. One exchange at a time, so that the target needs
//! one server connection however many clients there are. Afterwards all must still be open and a sample of them usable: a target
//! that closes idle clients would look thrifty. Others come and go before them, for a target may keep something of its last
//! exchanges. Tunnels, each with a server connection of its own, then get a heartbeat.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use weir_stats::trend;

use super::footprint;
use super::server::ServerProcess;
use crate::clock;
use crate::load::exchange::{PreparedExchange, RequestShape, prepare};
use crate::load::fault::LoadFault;
use crate::load::held_connections::{HeldConnections, HeldExchange};
use crate::load::websocket;
use crate::measure::memory::{self, Memory};
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::window_mark::{WindowMark, mark, note_cost, note_limit};
use crate::scenario::{IdleWork, Rounds};
use crate::target::ConnectionRoom;
use crate::topology::target::LabTarget;

/// Exchanges of each earlier client: no product ends a connection after so few.
const EXCHANGES_EACH: usize = 50;

/// One connection in this many is used again at the end.
const SAMPLE: usize = 50;

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    idle: &IdleWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut measurement = Measurement::default();
    for &clients in &idle.clients {
        let is_last = Some(&clients) == idle.clients.last();
        let pulse = idle.tunnels.filter(|_| is_last).map(|tunnels| (tunnels.heartbeat, rounds.window));
        let memory = with_clients(bench, idle, target, clients, pulse, &mut measurement)
            .with_context(|| format!("with {clients} idle clients"))?;
        measurement.series.push((clients as f64, memory.anonymous as f64));
        measurement.values.insert(Metric::Rss, memory.rss as f64);
        measurement.values.insert(Metric::Pss, memory.pss as f64);
    }
    if let Some(slope) = trend::slope(&measurement.series) {
        measurement.values.insert(Metric::MemoryPerClient, slope);
    }
    if let Some(many) = idle.extrapolate {
        extrapolate(&mut measurement, many);
    }
    Ok(measurement)
}

/// The memory of `many`, if each further one took as much as those that were opened.
fn extrapolate(measurement: &mut Measurement, many: usize) {
    let Some((most, bytes)) = measurement.series.last().copied() else { return };
    let values = &mut measurement.values;
    values.insert(Metric::Tunnels, most);
    if let Some(each) = values.get(&Metric::MemoryPerClient).copied() {
        values.insert(Metric::MemoryOfMany, bytes + each * (many as f64 - most));
    }
    if let Some(micros) = values.get(&Metric::HeartbeatCpu).copied() {
        // 10 000 us of each second are a percent of a CPU.
        values.insert(Metric::CpuOfThousand, micros / 10_000.0);
        values.insert(Metric::CpuOfMany, micros / 10_000.0 * many as f64 / 1000.0);
    }
}

/// Memory of a fresh target once `clients` idle on it. `pulse`: interval of a heartbeat, and for how long there is one
/// afterwards; what that costs goes into `measurement`.
fn with_clients(
    bench: &Bench<'_>,
    idle: &IdleWork,
    target: LabTarget,
    clients: usize,
    pulse: Option<(Duration, Duration)>,
    measurement: &mut Measurement,
) -> anyhow::Result<Memory> {
    let servers = if idle.tunnels.is_some() { clients as u64 } else { 0 };
    let mut testbed = bench.set_up_with(target, ConnectionRoom { clients: clients as u64, servers })?;
    let (prepared, authority) = (prepared(testbed.addr, idle), testbed.authority.clone());
    let exchange = if idle.http2 { HeldExchange::Http2(&authority) } else { HeldExchange::Http1(&prepared) };
    come_and_go(testbed.addr, exchange, idle.before).map_err(|fault| anyhow!("before they come: {fault}"))?;
    let mut held = HeldConnections::new(testbed.addr, exchange);
    held.grow_to(clients).map_err(|fault| anyhow!("{fault}"))?;
    clock::pause(idle.settle);
    ensure!(!bench.options.is_interrupted(), "interrupted");
    let pid = match &testbed.target {
        Some(target) => target.pid(),
        None => testbed.servers.first().and_then(ServerProcess::pid).context("the origin runs")?,
    };
    let memory = memory::of_tree(pid);
    if testbed.target.is_some() {
        // Of the largest number in the end.
        footprint::note(measurement, pid);
    }
    if let Some((interval, length)) = pulse {
        let before = mark(&testbed, bench.placement, 0);
        let beats = held.beat(interval, length, || bench.options.is_interrupted());
        let after = mark(&testbed, bench.placement, beats.map_err(|fault| anyhow!("heartbeat: {fault}"))?);
        ensure!(!bench.options.is_interrupted(), "interrupted");
        note_pulse(measurement, clients, bench.placement.is_some(), &before, &after);
    }
    testbed.is_alive()?;
    let open = held.open();
    ensure!(open == clients, "the target closed {}", clients - open);
    held.use_again(SAMPLE).map_err(|fault| anyhow!("one was forgotten: {fault}"))?;
    Ok(memory)
}

/// At least this many exchanges, by one client after the other.
fn come_and_go(addr: SocketAddr, exchange: HeldExchange<'_>, exchanges: usize) -> Result<(), LoadFault> {
    for _ in 0..exchanges.div_ceil(EXCHANGES_EACH) {
        let mut held = HeldConnections::new(addr, exchange);
        held.grow_to(1)?;
        for _ in 1..EXCHANGES_EACH {
            held.use_again(1)?;
        }
    }
    Ok(())
}

/// The exchange of each client of HTTP/1.1 before it idles, and with every heartbeat.
fn prepared(addr: SocketAddr, idle: &IdleWork) -> PreparedExchange {
    if let Some(tunnels) = idle.tunnels {
        return websocket::prepare(addr, tunnels.message).swap_remove(0);
    }
    let shape = RequestShape {
        host: &addr.to_string(),
        path: "/",
        body_len: 0,
        answer_len: PAGE_LEN,
        close: false,
        cookie: None,
    };
    prepare(&shape).swap_remove(0)
}

/// CPU of the target while `clients` tunnels had a heartbeat.
fn note_pulse(
    measurement: &mut Measurement,
    clients: usize,
    is_placed: bool,
    before: &WindowMark,
    after: &WindowMark,
) {
    note_cost(measurement, before, after);
    if is_placed {
        note_limit(measurement, before, after, None);
        // Nothing is as fast as it can be here.
        measurement.limit = None;
    }
    if let Some(percent) = measurement.values.get(&Metric::TargetCpu) {
        // Percent of a CPU are 10 000 us of each second.
        let of_thousand = percent * 10_000.0 * 1000.0 / clients as f64;
        measurement.values.insert(Metric::HeartbeatCpu, of_thousand);
    }
}

#[cfg(test)]
mod tests {
    use super::{Measurement, Metric, extrapolate};

    #[test]
    fn the_memory_of_many_follows_from_the_slope() {
        let mut measurement =
            Measurement { series: vec![(1000.0, 6e6), (2000.0, 10e6)], ..Measurement::default() };
        measurement.values.insert(Metric::MemoryPerClient, 4000.0);
        measurement.values.insert(Metric::HeartbeatCpu, 5000.0);
        extrapolate(&mut measurement, 200_000);
        let of = |metric| measurement.values[&metric];
        assert_eq!((of(Metric::Tunnels), of(Metric::MemoryOfMany)), (2000.0, 10e6 + 198_000.0 * 4000.0));
        assert_eq!((of(Metric::CpuOfThousand), of(Metric::CpuOfMany)), (0.5, 100.0));
    }
}
