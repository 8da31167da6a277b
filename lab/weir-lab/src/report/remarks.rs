//! Remarks beside the figures: how they were taken, and possible errors.

use std::collections::BTreeMap;

use weir_stats::runs;

use super::summary::SummaryRow;
use crate::load::tool::LoadTool;
use crate::measure::metric::Metric;
use crate::results::measurement::{Limit, Measurement};
use crate::results::run::Run;

/// Which process ran on which CPU.
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

/// Remarks about the table, found in the measurements.
pub(super) fn of(run: &Run, rows: &[SummaryRow]) -> Vec<String> {
    let mut remarks = Vec::new();
    let rounds = run.scenario.rounds;
    remarks.push(format!(
        "Medians of {} interleaved rounds, {:.1} s each after {:.1} s of warm-up{}.",
        rounds.count,
        rounds.window.as_secs_f64(),
        rounds.warm_up.as_secs_f64(),
        if run.tools.contains_key(LoadTool::Wrk.name()) && run.scenario.steady.is_some() {
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
    remarks.extend(moved_apart(run));
    remarks.extend(run.scenario.ladder.as_ref().and_then(|ladder| doubled(run, ladder.errors_max?)));
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

/// In how many measurements the hypervisor had moved the CPUs apart, if it did in some and not in others.
fn moved_apart(run: &Run) -> Option<String> {
    let distances: Vec<f64> = run.measurements.iter().filter_map(|it| it.distance).collect();
    let (near, far) = runs::near_and_far(&distances)?;
    Some(format!(
        "In {} of {} measurements the two CPUs were far apart: {:.0} ns for a cache line there and back, otherwise {:.0}. What passes \
         from client to target costs more then.",
        far.count,
        near.count + far.count,
        far.median,
        near.median
    ))
}

/// How many clients each target took before more than `errors_max` percent of the requests failed, in its worst round.
fn doubled(run: &Run, errors_max: f64) -> Option<String> {
    let clients = |it: &Measurement| it.case.strip_suffix(" clients")?.parse::<u64>().ok();
    let most = run.measurements.iter().filter_map(clients).max()?;
    let mut held: BTreeMap<&str, u64> = BTreeMap::new();
    for target in run.measurements.iter().map(|it| it.target.as_str()) {
        let own = || run.measurements.iter().filter(|it| it.target == target);
        let is_over = |it: &&Measurement| {
            it.failure.is_some()
                || it.values.get(&Metric::Availability).is_some_and(|share| *share < 100.0 - errors_max)
        };
        let over = own().filter(is_over).filter_map(clients).min().unwrap_or(u64::MAX);
        held.insert(target, own().filter_map(clients).filter(|number| *number < over).max().unwrap_or(0));
    }
    let each: Vec<String> = held
        .into_iter()
        .map(|(target, number)| {
            let end = if number == most { ", where the run ended" } else { "" };
            format!("{target} {number}{end}")
        })
        .collect();
    Some(format!("Clients with at most {errors_max} % of errors: {}.", each.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::{BTreeMap, Measurement, Metric, Run, doubled};
    use crate::machine::Machine;
    use crate::scenario::{RunLength, catalogue};

    #[test]
    fn a_target_holds_what_is_below_its_first_failure() {
        let scenario = catalogue::find("stress-doubling").unwrap();
        let mut run = Run::new(&scenario, Machine::look(), None, RunLength::Full);
        for (target, clients, available) in [
            ("weir", 1000, 100.0),
            ("weir", 2000, 99.0),
            ("nginx", 1000, 90.0),
            ("nginx", 2000, 89.9),
            ("caddy", 1000, 3.0),
        ] {
            let values = BTreeMap::from([(Metric::Availability, available)]);
            let (target, case) = (target.to_owned(), format!("{clients} clients"));
            run.measurements.push(Measurement { target, case, values, ..Measurement::default() });
        }
        let said = doubled(&run, 10.0).unwrap();
        assert_eq!(
            said,
            "Clients with at most 10 % of errors: caddy 0; nginx 1000; weir 2000, where the run ended."
        );
    }
}
