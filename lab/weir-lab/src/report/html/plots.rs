//! The plots of a run: how the figure that matters came out round by round, how long answers took, how figures change with the
//! number of clients. The plots of a single round are in `single`.

mod single;

use weir_stats::estimate;
use weir_stats::plot::{Chart, IntoLogRange as _, PlotLine, PlotMarks, bounds, draw};

use crate::measure::metric::Metric;
use crate::report::summary::{SummaryRow, main_figure};
use crate::results::measurement::Measurement;
use crate::results::run::Run;
use crate::topology::product::Product;

/// More cases than this are better read in the table.
const CASES_MAX: usize = 6;

/// Of more cases than this only the last is shown second by second.
const SECONDS_MAX: usize = 3;

/// The caption of each plot, and the plot as SVG.
pub(super) type Plot = (String, String);

/// The plots that the measurements of this run allow.
pub(super) fn of(run: &Run, rows: &[SummaryRow]) -> anyhow::Result<Vec<Plot>> {
    let cases = cases(rows);
    let mut plots = ladders(run, rows)?;
    if cases.len() <= CASES_MAX {
        for case in &cases {
            plots.extend(rounds(run, case)?);
        }
        for case in &cases {
            plots.extend(distribution(run, case)?);
        }
        for case in &cases {
            plots.extend(single::responses(run, case)?);
            plots.extend(single::shares(run, case)?);
        }
        // Of a ladder the upper end is of interest.
        let shown = if cases.len() > SECONDS_MAX { &cases[cases.len() - 1..] } else { &cases[..] };
        for case in shown {
            plots.extend(single::seconds(run, case)?);
        }
    }
    plots.extend(growth(run)?);
    Ok(plots)
}

/// The cases in the order of the table; one without a name when there is one.
fn cases(rows: &[SummaryRow]) -> Vec<&str> {
    let mut cases: Vec<&str> = Vec::new();
    for row in rows {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
    }
    cases
}

fn good(run: &Run) -> impl Iterator<Item = &Measurement> {
    run.measurements.iter().filter(|measurement| measurement.failure.is_none())
}

/// Targets in the order in which they were measured, except that the baseline comes last: lines get their colours by their place, and
/// it is not in every plot.
fn targets(run: &Run) -> Vec<&str> {
    let mut targets: Vec<&str> = Vec::new();
    for measurement in good(run) {
        if !targets.contains(&measurement.target.as_str()) {
            targets.push(&measurement.target);
        }
    }
    targets.sort_by_key(|target| *target == Product::Direct.name());
    targets
}

/// A line for each target, of those that have points.
fn lines(run: &Run, points: impl Fn(&str) -> Vec<(f64, f64)>) -> Vec<PlotLine> {
    let lines = targets(run).into_iter().map(|target| (target.to_owned(), points(target)));
    lines.filter(|(_, points)| !points.is_empty()).collect()
}

fn titled(what: &str, case: &str) -> String {
    if case.is_empty() { what.to_owned() } else { format!("{what}: {case}") }
}

/// The figure that matters in each round.
fn rounds(run: &Run, case: &str) -> anyhow::Result<Option<Plot>> {
    let Some(metric) = main_figure(run, &run.scenario.columns()) else { return Ok(None) };
    let lines = lines(run, |target| {
        let own = good(run).filter(|it| it.target == target && it.case == case);
        own.filter_map(|it| Some((f64::from(it.round), shown(metric, *it.values.get(&metric)?)))).collect()
    });
    let rounds = bounds(&lines).0.1;
    if lines.is_empty() || rounds < 2.0 {
        return Ok(None);
    }
    let what = titled(&format!("{} in each round", capital(metric.phrase())), case);
    let y = bounds(&lines).1;
    let figure =
        Chart { title: String::new(), x: "round", y: metric.heading(), lines, marks: PlotMarks::Points };
    Ok(Some((what, draw(&figure, 0.8..rounds + 0.2, 0.0..y.1 * 1.1)?)))
}

/// How many answers took longer than so long, by the median of all rounds at each percentile.
fn distribution(run: &Run, case: &str) -> anyhow::Result<Option<Plot>> {
    let lines = lines(run, |target| {
        let own: Vec<_> = good(run).filter(|it| it.target == target && it.case == case).collect();
        let Some(first) = own.first() else { return Vec::new() };
        let at = |index: usize| {
            let values: Vec<f64> = own.iter().filter_map(|it| Some(it.percentiles.get(index)?.1)).collect();
            estimate::median(&values)
        };
        let percentiles =
            first.percentiles.iter().enumerate().filter(|(_, (percentile, _))| *percentile < 100.0);
        percentiles
            .filter_map(|(index, (percentile, _))| Some((at(index)? / 1000.0, 1.0 - percentile / 100.0)))
            .collect()
    });
    if lines.is_empty() {
        return Ok(None);
    }
    let what = titled("How many answers took longer", case);
    let ((fast, slow), _) = bounds(&lines);
    let figure = Chart {
        title: String::new(),
        x: "response time, ms",
        y: "share of answers",
        lines,
        marks: PlotMarks::Line,
    };
    let x = (fast * 0.9).max(0.001)..slow * 1.1;
    Ok(Some((what, draw(&figure, x.log_scale(), (0.00008..1.2).log_scale())?)))
}

/// Figures over the number of clients, where the cases differ in it.
fn ladders(run: &Run, rows: &[SummaryRow]) -> anyhow::Result<Vec<Plot>> {
    let steps: Vec<(&SummaryRow, &str, f64)> = rows
        .iter()
        .filter_map(|row| {
            let (load, clients) = clients_of(&row.case)?;
            Some((row, load, clients))
        })
        .collect();
    let mut plots = Vec::new();
    for metric in run.scenario.columns() {
        let mut lines: Vec<PlotLine> = Vec::new();
        for (row, load, clients) in &steps {
            let Some(spread) = row.spreads.get(&metric) else { continue };
            let name = if load.is_empty() { row.target.clone() } else { format!("{}, {load}", row.target) };
            let point = (*clients, shown(metric, spread.median));
            match lines.iter_mut().find(|(known, _)| *known == name) {
                Some((_, points)) => points.push(point),
                None => lines.push((name, vec![point])),
            }
        }
        if lines.iter().all(|(_, points)| points.len() < 2) {
            continue;
        }
        let what = format!("{} by number of clients", capital(metric.phrase()));
        let ((few, many), (_, most)) = bounds(&lines);
        let figure = Chart {
            title: String::new(),
            x: "clients",
            y: metric.heading(),
            lines,
            marks: PlotMarks::Points,
        };
        plots.push((what, draw(&figure, (few * 0.9..many * 1.1).log_scale(), 0.0..most * 1.1)?));
    }
    Ok(plots)
}

/// What is said of a case beside its number of clients, and that: `ab -k, 500 clients`.
fn clients_of(case: &str) -> Option<(&str, f64)> {
    let rest = case.strip_suffix(" clients")?;
    let (load, number) = rest.rsplit_once(", ").unwrap_or(("", rest));
    Some((load, number.parse().ok()?))
}

/// Memory over the number of connections, reloads or minutes.
fn growth(run: &Run) -> anyhow::Result<Option<Plot>> {
    let lines = lines(run, |target| {
        let last = good(run).filter(|it| it.target == target && !it.series.is_empty()).last();
        last.map_or_else(Vec::new, |it| {
            it.series.iter().map(|(clients, bytes)| (*clients, bytes / 1_048_576.0)).collect()
        })
    });
    if lines.is_empty() {
        return Ok(None);
    }
    let (what, x, y) = if run.scenario.reload.is_some() {
        ("Memory by number of reloads", "reloads", "resident memory, MiB")
    } else if run.scenario.soak.is_some() {
        ("Memory over time", "minutes", "resident memory, MiB")
    } else {
        ("Memory by number of idle connections", "connections", "anonymous memory, MiB")
    };
    let ((_, most), (_, largest)) = bounds(&lines);
    let figure = Chart { title: String::new(), x, y, lines, marks: PlotMarks::Points };
    Ok(Some((what.to_owned(), draw(&figure, 0.0..most * 1.05, 0.0..largest * 1.1)?)))
}

/// A value in the unit that the heading of its column names.
fn shown(metric: Metric, value: f64) -> f64 {
    let text: String = metric.format(value).chars().filter(|c| *c != ' ').collect();
    text.parse().unwrap_or(value)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::{clients_of, shown};
    use crate::measure::metric::Metric;

    #[test]
    fn the_number_of_clients_is_read_from_a_case() {
        assert_eq!(clients_of("ab -k, 500 clients"), Some(("ab -k", 500.0)));
        assert_eq!(clients_of("30 clients"), Some(("", 30.0)));
        for case in ["", "GET", "POST of 1024 bytes", "many clients"] {
            assert_eq!(clients_of(case), None, "{case}");
        }
    }

    #[test]
    fn plots_have_the_unit_of_the_tables() {
        assert_eq!(shown(Metric::Longest, 12_345.0), 12.3);
        assert_eq!(shown(Metric::RequestsPerSecond, 71_250.2), 71_250.0);
    }
}
