//! What a request, or a GiB of bodies, costs each target: one table over the steady loads of a suite.

use std::collections::BTreeMap;

use weir_stats::table;

use super::{SuiteEntry, SuiteOutcome};
use crate::measure::metric::Metric;
use crate::report::summary::{self, SummaryRow};
use crate::results::run::Run;
use crate::scenario::Scenario;
use crate::topology::product::Product;

/// The table as Markdown; nothing when there is no steady load with one case.
pub(super) fn markdown(entries: &[SuiteEntry], caveat: Option<&str>) -> Option<String> {
    let rows: Vec<(&Scenario, &Run)> = entries.iter().filter_map(of_steady).collect();
    let mut targets: Vec<String> = Vec::new();
    for target in rows.iter().flat_map(|(scenario, _)| scenario.all_targets()) {
        let name = target.to_string();
        if target.product != Product::Direct && !targets.contains(&name) {
            targets.push(name);
        }
    }
    if rows.is_empty() {
        return None;
    }
    let heading = ["scenario", "unit"].map(str::to_owned).into_iter().chain(targets.iter().cloned());
    let heading = heading.chain(["weir of best peer".to_owned()]).collect();
    let line = |(scenario, run): &(&Scenario, &Run)| line(scenario, run, &targets);
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(rows.iter().map(line)).collect();
    let caveat = caveat.map(|caveat| format!("**{caveat}**\n\n")).unwrap_or_default();
    Some(format!(
        "# CPU time of the target\n\n{caveat}{}\nMedian of the rounds, in brackets the smallest. The last column is the median of the ratios within each round, with its 95 % interval.\n",
        table::write(&rows, 2)
    ))
}

/// A steady load that was run.
fn of_steady(entry: &SuiteEntry) -> Option<(&Scenario, &Run)> {
    let steady = entry.scenario.steady.as_ref()?;
    match &entry.outcome {
        SuiteOutcome::Run(run, _) if steady.suites.is_empty() => Some((&entry.scenario, run)),
        _ => None,
    }
}

fn line(scenario: &Scenario, run: &Run, targets: &[String]) -> Vec<String> {
    let metric = if scenario.is_bulk() { Metric::CpuPerGib } else { Metric::CpuPerRequest };
    let rows = summary::rows(run);
    let by_target: BTreeMap<&str, &SummaryRow> = rows.iter().map(|row| (row.target.as_str(), row)).collect();
    let cell = |target: &String| {
        let spread = by_target.get(target.as_str()).and_then(|row| row.spreads.get(&metric));
        match spread {
            Some(spread) => format!("{} ({})", metric.format(spread.median), metric.format(spread.min)),
            None => without(run, target),
        }
    };
    let ratio = by_target.get(Product::Weir.name()).and_then(|row| row.ratios.get(&metric));
    let ratio =
        ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{} of {}", ratio.in_brief(), ratio.peer));
    let first = [scenario.name.clone(), metric.heading().to_owned()];
    first.into_iter().chain(targets.iter().map(cell)).chain([ratio]).collect()
}

/// Why there is no figure of `target`.
fn without(run: &Run, target: &str) -> String {
    let failed = run.failed.get(target).map(|why| format!("- (failed: {why})"));
    let cannot = run.cannot.get(target).map(|why| format!("- ({why})"));
    failed.or(cannot).unwrap_or_else(|| "-".to_owned())
}

#[cfg(test)]
mod tests {
    use super::markdown;
    use crate::measure::metric::Metric;
    use crate::results::measurement::Measurement;
    use crate::results::run::Run;
    use crate::scenario::{RunLength, catalogue};
    use crate::suite::{SuiteEntry, judged, tests::machine};
    use std::collections::BTreeMap;

    fn entry(name: &str, metric: Metric, measured: &[(&str, u32, f64)]) -> SuiteEntry {
        let scenario = catalogue::find(name).unwrap();
        let mut run = Run::new(&scenario, machine(), None, RunLength::Brief);
        for (target, round, value) in measured {
            let values = BTreeMap::from([(metric, *value)]);
            let target = (*target).to_owned();
            run.measurements.push(Measurement { target, round: *round, values, ..Measurement::default() });
        }
        run.cannot.insert("apache".to_owned(), "it has no HTTP/3".to_owned());
        SuiteEntry { scenario, outcome: judged(run) }
    }

    #[test]
    fn each_steady_load_is_a_row_with_its_own_unit() {
        let measured = [
            ("weir", 1, 20.0),
            ("nginx", 1, 40.0),
            ("weir", 2, 22.0),
            ("nginx", 2, 44.0),
            ("weir", 3, 21.0),
            ("nginx", 3, 42.0),
        ];
        let entries = [
            entry("h3-keepalive-1", Metric::CpuPerRequest, &measured),
            entry("h3-bulk", Metric::CpuPerGib, &measured),
            entry("idle-memory", Metric::MemoryPerClient, &measured),
        ];
        let text = markdown(&entries, Some("These mean nothing.")).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| h3")).collect();
        assert_eq!(rows.len(), 2, "{text}");
        let format = |metric: Metric, value: f64| metric.format(value);
        for (row, metric) in rows.iter().zip([Metric::CpuPerRequest, Metric::CpuPerGib]) {
            let own = format!("{} ({})", format(metric, 21.0), format(metric, 20.0));
            assert!(row.contains(&own) && row.contains("0.50 (0.50-0.50) of nginx"), "{row}");
            assert!(row.contains(metric.heading()), "{row}");
        }
        assert!(text.contains("**These mean nothing.**"));
        assert!(markdown(&entries[2..], None).is_none());
    }
}
