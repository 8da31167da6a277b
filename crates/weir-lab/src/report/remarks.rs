//! What a reader should know beside the figures: how they were taken, and what may be wrong with them.

use super::Run;
use super::summary::Row;
use crate::measure::metric::Metric;
use crate::run::measurement::Limit;
use crate::scenario::Tool;

/// Which CPU had whom.
pub(super) fn placement(run: &Run) -> String {
    match run.placement {
        Some(placement) => format!(
            "Client and origin ran on CPU {}, the target on CPU {}{}.",
            placement.client,
            placement.target,
            if placement.siblings { ", a hardware thread of the same core" } else { "" }
        ),
        None => "Nothing was pinned to a CPU.".to_owned(),
    }
}

/// What a reader should know about the table, found in the measurements.
pub(super) fn of(run: &Run, rows: &[Row]) -> Vec<String> {
    let mut remarks = Vec::new();
    let rounds = run.scenario.rounds;
    remarks.push(format!(
        "Medians of {} interleaved rounds, {:.1} s each after {:.1} s of warm-up{}.",
        rounds.count,
        rounds.window.as_secs_f64(),
        rounds.warm_up.as_secs_f64(),
        if run.tools.contains_key(Tool::Wrk.name()) && run.scenario.steady.is_some() {
            "; load by wrk"
        } else {
            ""
        }
    ));
    let void: Vec<&str> =
        rows.iter().filter(|row| !row.void.is_empty()).map(|row| row.target.as_str()).collect();
    if !void.is_empty() {
        remarks.push(format!(
            "Where a figure is void, the target was not the limit: {} could have done more. CPU per request and memory hold.",
            void.join(", ")
        ));
    }
    if rows.iter().any(|row| row.limit == Some(Limit::RateMissed)) {
        remarks.push("The given rate was not held everywhere: see the column `limit`.".to_owned());
    }
    if run.disturbed() > 0 {
        let most = |metric: Metric| {
            let values = run.measurements.iter().filter_map(|measurement| measurement.values.get(&metric));
            values.copied().fold(0.0, f64::max)
        };
        remarks.push(format!(
            "{} of {} measurements were disturbed: other processes used up to {:.0} % of a CPU, the hypervisor took up to \
             {:.0} %.",
            run.disturbed(),
            run.measurements.len(),
            most(Metric::ForeignCpu),
            most(Metric::Stolen)
        ));
    }
    for measurement in &run.measurements {
        for note in &measurement.notes {
            let case = if measurement.case.is_empty() { "" } else { ", " };
            remarks.push(format!(
                "{}{case}{}, round {}: {note}",
                measurement.target, measurement.case, measurement.round
            ));
        }
    }
    remarks
}
