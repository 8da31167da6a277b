//! The plots, as SVG: all variants in one figure.
//!
//! Text is laid out by the reader of the file, so no font of this machine has a part in it.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::{Report, StretchFigures, VariantFigures};

const SIZE: (u32, u32) = (1100, 540);
/// What the names of the variants take of it.
const LEGEND_WIDTH: u32 = 270;

/// Colours that people with any kind of colour vision tell apart (Okabe and Ito 2008).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 150, 150),
];

/// A figure: its title, its axes, and a line for each variant.
struct Figure<'a> {
    title: String,
    x: &'a str,
    y: &'a str,
    lines: Vec<(&'a str, Vec<(f64, f64)>)>,
}

/// Response times: the share of requests that took longer, both axes logarithmic.
pub(in crate::simulate) fn distribution(report: &Report) -> anyhow::Result<String> {
    let lines = lines(report, |variant| variant.slower_than.clone());
    let (x, _) = bounds(&lines);
    let smallest = lines.iter().flat_map(|(_, points)| points).map(|(_, share)| *share).fold(1.0, f64::min);
    let figure = Figure {
        title: format!("{}: how many requests took longer", report.name),
        x: "response time, ms",
        y: "share of requests",
        lines,
    };
    let x = (x.0 * 0.9).max(0.001)..x.1 * 1.1;
    draw(&figure, x.log_scale(), (smallest * 0.8..1.2).log_scale())
}

/// The 99th percentile of the response time of requests by when they began, the vertical axis logarithmic.
pub(in crate::simulate) fn over_time(report: &Report) -> anyhow::Result<String> {
    let lines = lines(report, |variant| series(variant, |stretch| stretch.p99_ms));
    let (_, y) = bounds(&lines);
    let figure = Figure {
        title: format!("{}: 99th percentile of the response time", report.name),
        x: "time at which requests began, s",
        y: "response time, ms",
        lines,
    };
    draw(&figure, 0.0..report.length_s, ((y.0 * 0.8).max(0.001)..y.1 * 1.25).log_scale())
}

/// Answers in time per second.
pub(in crate::simulate) fn goodput(report: &Report) -> anyhow::Result<String> {
    let lines = lines(report, |variant| series(variant, |stretch| Some(stretch.in_time_per_second)));
    let (_, y) = bounds(&lines);
    let figure = Figure {
        title: format!("{}: answers in time", report.name),
        x: "time, s",
        y: "answers in time per second",
        lines,
    };
    draw(&figure, 0.0..report.length_s, 0.0..y.1 * 1.1)
}

fn lines(
    report: &Report,
    points: impl Fn(&VariantFigures) -> Vec<(f64, f64)>,
) -> Vec<(&str, Vec<(f64, f64)>)> {
    report.variants.iter().map(|variant| (variant.name.as_str(), points(variant))).collect()
}

fn series(variant: &VariantFigures, value: impl Fn(&StretchFigures) -> Option<f64>) -> Vec<(f64, f64)> {
    variant.over_time.iter().filter_map(|stretch| Some((stretch.from_s, value(stretch)?))).collect()
}

/// The least and the largest on each axis; 0.1 to 1 when there is nothing.
fn bounds(lines: &[(&str, Vec<(f64, f64)>)]) -> ((f64, f64), (f64, f64)) {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let range = |axis: fn(&(f64, f64)) -> f64| {
        let min = points().map(axis).fold(f64::INFINITY, f64::min);
        let max = points().map(axis).fold(0.0, f64::max);
        if min.is_finite() && max > 0.0 { (min, max) } else { (0.1, 1.0) }
    };
    (range(|point| point.0), range(|point| point.1))
}

fn draw<X, Y>(figure: &Figure<'_>, x: X, y: Y) -> anyhow::Result<String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
{
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let failed = |error: DrawingAreaErrorKind<_>| anyhow::anyhow!("cannot draw: {error}");
        area.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(&area)
            .caption(&figure.title, ("sans-serif", 20))
            .margin(12)
            .margin_right(LEGEND_WIDTH)
            .x_label_area_size(44)
            .y_label_area_size(70)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        let label = |value: &f64| label(*value);
        chart
            .configure_mesh()
            .light_line_style(RGBColor(240, 240, 240))
            .x_desc(figure.x)
            .y_desc(figure.y)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .draw()
            .map_err(failed)?;
        for (index, (name, points)) in figure.lines.iter().enumerate() {
            let style = line_style(index, figure.lines.len());
            chart.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(failed)?;
            // Beside the chart, where it hides nothing.
            let (x, y) = ((SIZE.0 - LEGEND_WIDTH + 4) as i32, 60 + 22 * index as i32);
            area.draw(&PathElement::new([(x, y + 7), (x + 20, y + 7)], style)).map_err(failed)?;
            area.draw(&Text::new(*name, (x + 26, y), ("sans-serif", 13))).map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Lines that lie on each other are all to be seen: the first are the widest.
fn line_style(index: usize, count: usize) -> ShapeStyle {
    let width = 2 + 4 * (count - 1 - index) / (count - 1).max(1);
    COLOURS[index % COLOURS.len()].stroke_width(width as u32)
}

/// A number on an axis, without digits that say nothing.
fn label(value: f64) -> String {
    match value {
        value if value >= 1.0 || value == 0.0 => format!("{}", (value * 100.0).round() / 100.0),
        value => format!("{value:.6}").trim_end_matches('0').to_owned(),
    }
}
