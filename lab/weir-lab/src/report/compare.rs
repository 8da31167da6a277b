//! Two runs side by side: which differences are real, and which may be chance.
//!
//! The runs need not be of one machine or one day, so nothing is paired: each side is condensed by itself, and a difference counts only
//! where the bootstrap interval of the ratio excludes 1.

use weir_stats::estimate::{self, Estimate};
use weir_stats::runs::{self, Round};
use weir_stats::table;

use super::summary::{self, SummaryRow, rows};
use crate::measure::metric::{Better, Metric};
use crate::results::measurement::Measurement;
use crate::results::run::Run;
use crate::scenario::site::{SiteProtocol, SiteWork};

/// The change of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricChange {
    Better,
    Worse,
    /// The interval of the ratio has 1 in it.
    Noise,
}

impl MetricChange {
    fn of(metric: Metric, ratio: Estimate) -> Self {
        if ratio.low <= 1.0 && ratio.high >= 1.0 {
            return Self::Noise;
        }
        match (metric.better(), ratio.median < 1.0) {
            (Better::Lower, true) | (Better::Higher, false) => Self::Better,
            (Better::Lower, false) | (Better::Higher, true) => Self::Worse,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Noise => "inside the noise",
        }
    }
}

/// Every figure that both runs have of the same case and target, and differences that make the runs hard to compare.
pub fn compare(before: &Run, after: &Run) -> String {
    let named = |run: &Run| format!("{}, {}", run.scenario.name, run.started.strftime("%Y-%m-%d %H:%M UTC"));
    let mut text = format!("# {} against {}\n\n", named(after), named(before));
    for caveat in caveats(before, after) {
        text.push_str(&format!("> {caveat}\n"));
    }
    let heading = ["case", "target", "figure", "before", "after", "ratio (95 %)", "change"];
    let mut cells = vec![heading.map(str::to_owned).to_vec()];
    for row in rows(after) {
        for metric in after.scenario.columns() {
            cells.extend(line(before, after, &row, metric));
        }
    }
    if cells.len() == 1 {
        text.push_str("\nThe runs have no figure in common.\n");
        return text;
    }
    if cells[1..].iter().all(|line| line[0].is_empty()) {
        for line in &mut cells {
            line.remove(0);
        }
        text.push_str(&format!("\n{}", table::write(&cells, 2)));
    } else {
        text.push_str(&format!("\n{}", table::write(&cells, 3)));
    }
    text.push_str(
        "\nMedians; the ratio is that of the medians, after to before. A ratio whose interval has 1 in it may be random. Times and rates are \
         those of rounds in which the CPUs were as far apart in both runs; `not measured alike` where there are too few of them.\n",
    );
    text
}

/// Whether a later run is worse, for a machine to decide by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegressionVerdict {
    /// No figure is worse by more than noise and the given share.
    None,
    /// These are: a sentence each.
    Worse(Vec<String>),
    /// The runs cannot be compared: why.
    Incomparable(String),
}

/// Fewer rounds than this have no noise to judge by.
const ROUNDS_MIN: u32 = 3;

/// Whether a figure of `after` is worse than that of `before` by more than noise, and by more than `percent`.
pub fn regression(before: &Run, after: &Run, percent: f64) -> RegressionVerdict {
    let cannot = |why: &str| RegressionVerdict::Incomparable(why.to_owned());
    if before.scenario.name != after.scenario.name {
        return cannot("they are runs of different scenarios");
    }
    if before.scenario.site.as_ref().map(load_of) != after.scenario.site.as_ref().map(load_of) {
        return cannot("the sites were given different loads");
    }
    if before.scenario.rounds.count.min(after.scenario.rounds.count) < ROUNDS_MIN {
        return cannot("noise cannot be told from change in fewer than three rounds");
    }
    if !after.failed.is_empty() {
        let failed: Vec<String> =
            after.failed.iter().map(|(target, why)| format!("{target}: {why}")).collect();
        return RegressionVerdict::Worse(failed);
    }
    let (mut worse, mut compared) = (Vec::new(), 0);
    for row in rows(after) {
        for metric in after.scenario.columns() {
            let [old, new] = [before, after].map(|run| rounds_of(run, &row, metric));
            let Some((old, new)) = runs::alike(&old, &new) else { continue };
            let (Some(was), Some(is)) = (estimate::median(&old), estimate::median(&new)) else { continue };
            compared += 1;
            let place =
                [&*row.case, &*row.target].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>();
            let say = |ratio: String| {
                let values = (metric.format_with_unit(was), metric.format_with_unit(is));
                format!(
                    "{}: {} was {} and is {}{ratio}",
                    place.join(", "),
                    metric.phrase(),
                    values.0,
                    values.1
                )
            };
            let Some(ratio) = runs::ratio_of_runs(&new, &old) else {
                // There is no ratio to nothing: failures where there were none.
                if was == 0.0 && is > 0.0 && metric == Metric::Failed {
                    worse.push(say(String::new()));
                }
                continue;
            };
            let change = 100.0 * (ratio.median - 1.0).abs();
            if MetricChange::of(metric, ratio) == MetricChange::Worse && change > percent {
                worse.push(say(format!(
                    " ({:.2}, 95 % interval {:.2} to {:.2})",
                    ratio.median, ratio.low, ratio.high
                )));
            }
        }
    }
    match (worse.is_empty(), compared) {
        (_, 0) => cannot("they have no figure in common that was measured alike"),
        (true, _) => RegressionVerdict::None,
        (false, _) => RegressionVerdict::Worse(worse),
    }
}

/// What of the load of a site must be the same in both runs.
fn load_of(site: &SiteWork) -> (&str, &str, usize, usize, SiteProtocol) {
    (&site.requests, &site.load, site.clients, site.streams, site.protocol)
}

/// Why a difference may have other reasons than the one that is looked for.
fn caveats(before: &Run, after: &Run) -> Vec<String> {
    let mut caveats = Vec::new();
    if before.scenario.name != after.scenario.name {
        caveats.push("These are runs of different scenarios.".to_owned());
    } else if before.scenario != after.scenario {
        caveats.push("The scenario was run with other rounds, targets or settings.".to_owned());
    }
    let machines =
        [&before.machine, &after.machine].map(|machine| (&machine.cpu, machine.cpus, &machine.kernel));
    if machines[0] != machines[1] {
        caveats.push(
            "The runs are from different machines or kernels: compare ratios to peers, not figures."
                .to_owned(),
        );
    }
    for (target, record) in &after.targets {
        if let Some(old) = before.targets.get(target)
            && old.version != record.version
        {
            caveats.push(format!("{target} was `{}` and is `{}`.", old.version, record.version));
        }
    }
    for (run, which) in [(before, "The earlier run"), (after, "The later run")] {
        if let Some(caveat) = run.caveat() {
            caveats.push(format!("{which}: {caveat}"));
        }
    }
    caveats
}

fn line(before: &Run, after: &Run, row: &SummaryRow, metric: Metric) -> Option<Vec<String>> {
    let [old, new] = [before, after].map(|run| rounds_of(run, row, metric));
    let Some((old, new)) = runs::alike(&old, &new) else {
        let cells = [&*row.case, &*row.target, metric.heading(), "-", "-", "-", "not measured alike"];
        return Some(cells.map(str::to_owned).to_vec());
    };
    let ratio = runs::ratio_of_runs(&new, &old)?;
    let change = MetricChange::of(metric, ratio);
    Some(vec![
        row.case.clone(),
        row.target.clone(),
        metric.heading().to_owned(),
        metric.format(estimate::median(&old)?),
        metric.format(estimate::median(&new)?),
        format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.low, ratio.high),
        change.word().to_owned(),
    ])
}

fn rounds_of(run: &Run, row: &SummaryRow, metric: Metric) -> Vec<Round> {
    let is_it = |it: &&Measurement| it.failure.is_none() && it.case == row.case && it.target == row.target;
    summary::rounds(&run.measurements.iter().filter(is_it).collect::<Vec<_>>(), metric)
}
