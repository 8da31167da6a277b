//! The plots of a simulation: all variants in one figure.

use weir_stats::plot::{Chart, IntoLogRange as _, PlotLine, PlotMarks, bounds, draw};

use super::{Report, StretchFigures, VariantFigures};

/// Response times: the share of requests that took longer, both axes logarithmic.
pub(crate) fn distribution(report: &Report) -> anyhow::Result<String> {
    let lines = lines(report, |variant| variant.slower_than.clone());
    let (x, _) = bounds(&lines);
    let smallest = lines.iter().flat_map(|(_, points)| points).map(|(_, share)| *share).fold(1.0, f64::min);
    let figure = Chart {
        title: format!("{}: how many requests took longer", report.name),
        x: "response time, ms",
        y: "share of requests",
        lines,
        marks: PlotMarks::Line,
    };
    let x = (x.0 * 0.9).max(0.001)..x.1 * 1.1;
    draw(&figure, x.log_scale(), (smallest * 0.8..1.2).log_scale())
}

/// The 99th percentile of the response time of requests by when they began, the vertical axis logarithmic.
pub(crate) fn over_time(report: &Report) -> anyhow::Result<String> {
    let lines = lines(report, |variant| series(variant, |stretch| stretch.p99_ms));
    let (_, y) = bounds(&lines);
    let figure = Chart {
        title: format!("{}: 99th percentile of the response time", report.name),
        x: "time at which requests began, s",
        y: "response time, ms",
        lines,
        marks: PlotMarks::Line,
    };
    draw(&figure, 0.0..report.length_s, ((y.0 * 0.8).max(0.001)..y.1 * 1.25).log_scale())
}

/// Answers in time per second.
pub(crate) fn goodput(report: &Report) -> anyhow::Result<String> {
    let lines = lines(report, |variant| series(variant, |stretch| Some(stretch.in_time_per_second)));
    let (_, y) = bounds(&lines);
    let figure = Chart {
        title: format!("{}: answers in time", report.name),
        x: "time, s",
        y: "answers in time per second",
        lines,
        marks: PlotMarks::Line,
    };
    draw(&figure, 0.0..report.length_s, 0.0..y.1 * 1.1)
}

/// The most requests that one server had at once, the vertical axis logarithmic.
pub(crate) fn server_load(report: &Report) -> anyhow::Result<String> {
    let lines =
        lines(report, |variant| series(variant, |stretch| Some(stretch.server_load_max.max(1) as f64)));
    let (_, y) = bounds(&lines);
    let figure = Chart {
        title: format!("{}: the busiest server", report.name),
        x: "time, s",
        y: "requests at one server at once, the most",
        lines,
        marks: PlotMarks::Line,
    };
    draw(&figure, 0.0..report.length_s, (y.0 * 0.8..y.1 * 1.25).log_scale())
}

/// Attempts for each request.
pub(crate) fn attempts(report: &Report) -> anyhow::Result<String> {
    let lines = lines(report, |variant| series(variant, |stretch| stretch.attempts_per_request));
    let (_, y) = bounds(&lines);
    let figure = Chart {
        title: format!("{}: retries", report.name),
        x: "time, s",
        y: "attempts per request",
        lines,
        marks: PlotMarks::Line,
    };
    draw(&figure, 0.0..report.length_s, 0.0..y.1 * 1.1)
}

fn lines(report: &Report, points: impl Fn(&VariantFigures) -> Vec<(f64, f64)>) -> Vec<PlotLine> {
    report.variants.iter().map(|variant| (variant.name.clone(), points(variant))).collect()
}

fn series(variant: &VariantFigures, value: impl Fn(&StretchFigures) -> Option<f64>) -> Vec<(f64, f64)> {
    variant.over_time.iter().filter_map(|stretch| Some((stretch.from_s, value(stretch)?))).collect()
}
