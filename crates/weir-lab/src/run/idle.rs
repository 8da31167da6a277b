//! Memory per idle client: connections are opened in steps, and the target's memory is read after each.
//!
//! One exchange at a time, so that the target needs one server connection however many clients there are. Afterwards all
//! connections must still be open and a sample of them usable: a target that closes idle clients would look thrifty.

use anyhow::ensure;

use super::measurement::Measurement;
use super::stand::Bench;
use crate::clock;
use crate::load::exchange::{Shape, prepare};
use crate::load::held::Held;
use crate::measure::memory;
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::scenario::Idle;
use crate::stats;
use crate::target::Target;

/// One connection in so many is used again at the end.
const SAMPLE: usize = 50;

/// Measures `target` once.
pub(super) fn measure(bench: &Bench<'_>, idle: &Idle, target: Target) -> anyhow::Result<Measurement> {
    let mut stand = bench.stand(target)?;
    let mut measurement = Measurement::default();
    let shape = Shape { host: stand.addr, path: "/", body_len: 0, answer_len: PAGE_LEN, close: false };
    let exchange = &prepare(&shape)[0];
    let mut held = Held::new(stand.addr, exchange);
    let pid = stand.target.as_ref().map_or(stand.origin.pid(), crate::process::Guarded::pid);
    for &clients in &idle.clients {
        held.grow_to(clients).map_err(|fault| anyhow::anyhow!("at {clients} clients: {fault}"))?;
        clock::pause(idle.settle);
        ensure!(!bench.options.is_interrupted(), "interrupted");
        let memory = memory::of_tree(pid);
        measurement.series.push((clients as f64, memory.anonymous as f64));
        measurement.values.insert(Metric::Rss, memory.rss as f64);
        measurement.values.insert(Metric::Pss, memory.pss as f64);
    }
    stand.is_alive()?;
    let most = idle.clients.last().copied().unwrap_or(0);
    let open = held.open();
    ensure!(open == most, "the target closed {} of {most} idle clients", most - open);
    held.use_again(SAMPLE).map_err(|fault| anyhow::anyhow!("an idle client was forgotten: {fault}"))?;
    if let Some(slope) = stats::slope(&measurement.series) {
        measurement.values.insert(Metric::MemoryPerClient, slope);
    }
    Ok(measurement)
}
