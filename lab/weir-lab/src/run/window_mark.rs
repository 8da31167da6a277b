//! Readings at both ends of a window: the CPU time of the target and of all other processes in between.

use super::limit::Shares;
use super::server::ServerProcess;
use crate::measure::metric::Metric;
use crate::measure::{busy, cpu, softirq};
use crate::placement::Placement;
use crate::results::measurement::{Limit, Measurement};
use crate::run::testbed::Testbed;

/// Readings at one end of the window.
pub(super) struct WindowMark {
    target: Option<cpu::CpuSnapshot>,
    /// The servers.
    origin: cpu::CpuSnapshot,
    /// The lab with all its children: client, origin and target.
    lab: cpu::CpuSnapshot,
    /// The kernel's threads for network traffic. The machine has no other traffic worth mentioning: their CPU time is the lab's.
    network: cpu::CpuSnapshot,
    client: Option<busy::Ticks>,
    other: Option<busy::Ticks>,
    exchanges: u64,
}

/// Reads them.
pub(super) fn mark(testbed: &Testbed, placement: Option<Placement>, exchanges: u64) -> WindowMark {
    WindowMark {
        target: testbed.target.as_ref().map(|child| cpu::snapshot(child.pid())),
        origin: cpu::snapshot_all(&testbed.servers.iter().filter_map(ServerProcess::pid).collect::<Vec<_>>()),
        lab: cpu::snapshot(std::process::id() as i32),
        network: cpu::snapshot_all(softirq::threads()),
        client: placement.and_then(|placement| busy::ticks(placement.client)),
        other: placement.and_then(|placement| busy::ticks(placement.target)),
        exchanges,
    }
}

/// CPU of the target between the marks, per exchange completed between them.
pub(super) fn note_cost(measurement: &mut Measurement, before: &WindowMark, after: &WindowMark) {
    let exchanges = after.exchanges.saturating_sub(before.exchanges);
    let (Some(first), Some(second)) = (&before.target, &after.target) else { return };
    let spent = cpu::between(first, second);
    measurement.values.insert(Metric::TargetCpu, spent.cpus() * 100.0);
    if exchanges == 0 {
        return;
    }
    let each = spent.total.as_secs_f64() * 1e6 / exchanges as f64;
    measurement.values.insert(Metric::CpuPerRequest, each);
    measurement.values.insert(Metric::CpuUser, each * spent.user_share);
    measurement.values.insert(Metric::CpuSystem, each * (1.0 - spent.user_share));
    measurement.values.insert(Metric::SwitchesPerRequest, spent.switches as f64 / exchanges as f64);
}

/// Which CPU was full and by which process, and the use by other processes.
pub(super) fn note_limit(
    measurement: &mut Measurement,
    before: &WindowMark,
    after: &WindowMark,
    rate: Option<f64>,
) {
    let (Some(client), Some(other)) = (before.client.zip(after.client), before.other.zip(after.other)) else {
        return;
    };
    let (client, other) = (busy::between(client.0, client.1), busy::between(other.0, other.1));
    let target = measurement.values.get(&Metric::TargetCpu).map(|percent| percent / 100.0);
    let spent = cpu::between(&before.origin, &after.origin);
    let origin = spent.cpus();
    let lab = cpu::between(&before.lab, &after.lab).cpus();
    let network = cpu::between(&before.network, &after.network).cpus();
    let foreign = (client.busy + other.busy - lab - network).max(0.0);
    let stolen = client.stolen.max(other.stolen);
    measurement.values.insert(Metric::ClientCpu, client.busy * 100.0);
    measurement.values.insert(Metric::ForeignCpu, foreign * 100.0);
    measurement.values.insert(Metric::Stolen, stolen * 100.0);
    let driver = (lab - origin - target.unwrap_or(0.0)).max(0.0);
    measurement.values.insert(Metric::OriginCpu, origin * 100.0);
    measurement.values.insert(Metric::DriverCpu, driver * 100.0);
    let exchanges = after.exchanges.saturating_sub(before.exchanges);
    if exchanges > 0 && !spent.total.is_zero() {
        let each = spent.total.as_secs_f64() * 1e6 / exchanges as f64;
        measurement.values.insert(Metric::OriginPerRequest, each);
    }
    let is_disturbed = measurement.is_disturbed();
    let limit = Shares { target, shared: client.busy, origin, driver, is_disturbed }.limit();
    // A rate that was missed while the client or the origin had no time left is theirs to answer for.
    let missed_by_them =
        measurement.limit == Some(Limit::RateMissed) && matches!(limit, Limit::Client | Limit::Origin);
    if rate.is_none() || missed_by_them {
        measurement.limit = Some(limit);
    }
}
