//! Plots as SVG: lines in one figure, one for each thing that is compared.
//!
//! Text is laid out by the reader of the file, so no font of this machine has a part in it. Must not know what is plotted.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
/// Makes a logarithmic axis of a range: `(0.1..10.0).log_scale()`.
pub use plotters::prelude::IntoLogRange;
use plotters::prelude::*;

const SIZE: (u32, u32) = (1100, 540);

/// What the names of the lines take of it.
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

/// A name and its points.
pub type PlotLine = (String, Vec<(f64, f64)>);

/// A figure: its title, which may be empty, its axes, and its lines.
pub struct Chart<'a> {
    /// What is written above it.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: &'a str,
    /// The label of the vertical axis.
    pub y: &'a str,
    /// What is drawn, in the order of the legend.
    pub lines: Vec<PlotLine>,
    /// How points are drawn.
    pub marks: PlotMarks,
}

/// How the points of a line are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlotMarks {
    /// A line through all of them.
    Line,
    /// The same with each one marked, where there are few.
    Points,
    /// Each one by itself: what lies between two of them means nothing.
    Dots,
}

/// The least and the largest on each axis; 0.1 to 1 when there is nothing.
pub fn bounds(lines: &[PlotLine]) -> ((f64, f64), (f64, f64)) {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let range = |axis: fn(&(f64, f64)) -> f64| {
        let min = points().map(axis).fold(f64::INFINITY, f64::min);
        let max = points().map(axis).fold(0.0, f64::max);
        if min.is_finite() && max > 0.0 { (min, max) } else { (0.1, 1.0) }
    };
    (range(|point| point.0), range(|point| point.1))
}

/// Draws the figure with these axes, on white.
///
/// # Errors
/// When plotters cannot draw it.
pub fn draw<X, Y>(figure: &Chart<'_>, x: X, y: Y) -> anyhow::Result<String>
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
        let mut builder = ChartBuilder::on(&area);
        builder.margin(12).margin_right(LEGEND_WIDTH).x_label_area_size(54).y_label_area_size(84);
        if !figure.title.is_empty() {
            builder.caption(&figure.title, ("sans-serif", 20));
        }
        let mut chart = builder.build_cartesian_2d(x, y).map_err(failed)?;
        let label = |value: &f64| label(*value);
        chart
            .configure_mesh()
            .light_line_style(RGBColor(240, 240, 240))
            .x_desc(figure.x)
            .y_desc(figure.y)
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 15))
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .draw()
            .map_err(failed)?;
        for (index, (name, points)) in figure.lines.iter().enumerate() {
            let style = line_style(index, figure.lines.len());
            if figure.marks != PlotMarks::Dots {
                chart.draw_series(LineSeries::new(points.iter().copied(), style)).map_err(failed)?;
            }
            if figure.marks != PlotMarks::Line {
                let size = if figure.marks == PlotMarks::Dots { 2 } else { 4 };
                let mark = |point: &(f64, f64)| Circle::new(*point, size, style.filled());
                chart.draw_series(points.iter().map(mark)).map_err(failed)?;
            }
            // Beside the chart, where it hides nothing.
            let (x, y) = ((SIZE.0 - LEGEND_WIDTH + 4) as i32, 60 + 22 * index as i32);
            area.draw(&PathElement::new([(x, y + 7), (x + 20, y + 7)], style)).map_err(failed)?;
            area.draw(&Text::new(name.as_str(), (x + 26, y), ("sans-serif", 15))).map_err(failed)?;
        }
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

/// A drawing that takes the colours of text and background from the page that contains it.
pub fn inline(svg: &str) -> String {
    svg.replace("fill=\"#FFFFFF\"", "fill=\"none\"")
        .replace("\"#000000\"", "\"currentColor\"")
        .replace("\"#F0F0F0\"", "\"var(--faint)\"")
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
