//! Readings at both ends of a window: what the target and everybody else did with the CPUs in between.

use super::measurement::{Limit, Measurement};
use super::stand::Stand;
use crate::measure::metric::Metric;
use crate::measure::{busy, cpu};
use crate::place::Placement;

/// From here on a CPU counts as full.
const FULL: f64 = 0.95;

/// Readings at one end of the window.
pub(super) struct Mark {
    target: Option<cpu::Snapshot>,
    /// The lab with all its children: client, origin and target.
    lab: cpu::Snapshot,
    client: Option<busy::Ticks>,
    other: Option<busy::Ticks>,
    exchanges: u64,
}

/// Reads them.
pub(super) fn mark(stand: &Stand, placement: Option<Placement>, exchanges: u64) -> Mark {
    Mark {
        target: stand.target.as_ref().map(|child| cpu::snapshot(child.pid())),
        lab: cpu::snapshot(std::process::id() as i32),
        client: placement.and_then(|placement| busy::ticks(placement.client)),
        other: placement.and_then(|placement| busy::ticks(placement.target)),
        exchanges,
    }
}

/// CPU of the target between the marks, per exchange completed between them.
pub(super) fn note_cost(measurement: &mut Measurement, before: &Mark, after: &Mark) {
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

/// Which CPU was full, and who else used them.
pub(super) fn note_limit(measurement: &mut Measurement, before: &Mark, after: &Mark, rate: Option<f64>) {
    let (Some(client), Some(other)) = (before.client.zip(after.client), before.other.zip(after.other)) else {
        return;
    };
    let (client, other) = (busy::between(client.0, client.1), busy::between(other.0, other.1));
    let target = measurement.values.get(&Metric::TargetCpu).copied().unwrap_or(0.0) / 100.0;
    let lab = cpu::between(&before.lab, &after.lab).cpus();
    let foreign = (client.busy + other.busy - lab).max(0.0);
    let stolen = client.stolen.max(other.stolen);
    measurement.values.insert(Metric::ClientCpu, client.busy * 100.0);
    measurement.values.insert(Metric::ForeignCpu, foreign * 100.0);
    measurement.values.insert(Metric::Stolen, stolen * 100.0);
    if rate.is_none() {
        measurement.limit = Some(match (target >= FULL, client.busy >= FULL) {
            (true, _) => Limit::Target,
            (false, _) if measurement.is_disturbed() => Limit::Disturbed,
            (false, true) => Limit::Client,
            (false, false) => Limit::Waiting,
        });
    }
}
