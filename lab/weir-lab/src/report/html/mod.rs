//! The report as one HTML file that needs no network: the answer, the figures, the plots, and everything it takes to repeat them.
//!
//! Has the content of the Markdown, and more details. Must not compute anything that `summary` and `verdict` do not know.

mod plots;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_stats::plot;

use super::summary::{SummaryRow, rows};
use super::verdict::{BarVerdict, verdicts};
use super::{memory, profile, remarks};
use crate::measure::metric::Metric;
use crate::results::run::Run;

/// The style of all pages.
pub(crate) const STYLE: &str = include_str!("style.css");

/// The whole page.
///
/// # Errors
/// When a plot cannot be drawn.
pub fn page(run: &Run) -> anyhow::Result<String> {
    let rows = rows(run);
    let verdicts = verdicts(run, &rows);
    let plots = plots::of(run, &rows)?;
    let date = run.started.strftime("%Y-%m-%d %H:%M UTC").to_string();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (run.scenario.name) ", " (date) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.where { (run.scenario.name) " · " (date) }
                    h1 { (run.scenario.question) }
                    @if let Some(caveat) = run.caveat() { p.caveat role="note" { (caveat) } }
                }
                main {
                    (answer(run, &verdicts))
                    (figures(run, &rows))
                    (where_the_memory_is(&rows))
                    (profile::section(run))
                    @if !plots.is_empty() {
                        section {
                            h2 { "Plots" }
                            @for (what, svg) in &plots {
                                figure {
                                    figcaption { (what) }
                                    div.plot role="img" aria-label=(what) { (PreEscaped(plot::inline(svg))) }
                                }
                            }
                        }
                    }
                    (notes(run, &rows))
                    (machine(run))
                    (configurations(run))
                }
            }
        }
    };
    Ok(page.into_string())
}

/// The mark of a verdict: its class, and a word for readers who see no colours.
pub(crate) fn word(is_met: Option<bool>) -> (&'static str, &'static str) {
    match is_met {
        Some(true) => ("met", "Met"),
        Some(false) => ("missed", "Missed"),
        None => ("open", "Not judged"),
    }
}

/// A sentence per bar.
fn answer(run: &Run, verdicts: &[BarVerdict]) -> Markup {
    html! {
        section {
            h2 { "Answer" }
            ul.verdicts {
                @for verdict in verdicts {
                    @let (class, mark) = word(verdict.is_met);
                    li class=(class) { strong.mark { (mark) } " " (verdict.sentence) "." }
                }
                @for (target, why) in &run.cannot {
                    li.open { strong.mark { "Left out" } " " (target) " cannot take part: " (why) "." }
                }
                @for (target, failure) in &run.failed {
                    li.missed { strong.mark { "Failed" } " " (target) " was left out from then on: " (failure) }
                }
                @if verdicts.is_empty() && run.failed.is_empty() {
                    li.open { "No bar was set; there is no verdict on the figures below." }
                }
            }
        }
    }
}

/// The median of every figure, with its range and its ratio to the best peer.
fn figures(run: &Run, rows: &[SummaryRow]) -> Markup {
    let columns = run.scenario.columns();
    let has_cases = rows.iter().any(|row| !row.case.is_empty());
    html! {
        section {
            h2 { "Figures" }
            p { "The median of all rounds; below it the smallest and the largest, and, after ×, the ratio to the best peer with its 95 % interval." }
            div.wide tabindex="0" role="region" aria-label="Figures" {
                table {
                    thead { tr {
                        @if has_cases { th scope="col" { "case" } }
                        th scope="col" { "target" }
                        @for metric in &columns { th.number scope="col" title=(metric.phrase()) { (metric.heading()) } }
                        th scope="col" { "limit" }
                        th.number scope="col" { "errors" }
                    } }
                    tbody {
                        @for row in rows {
                            tr {
                                @if has_cases { td { (row.case) } }
                                th scope="row" { (row.target) }
                                @for metric in &columns { td.number { (figure(row, *metric)) } }
                                td { (row.limit.map_or("-", |limit| limit.label())) }
                                td.number { (row.faults) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure(row: &SummaryRow, metric: Metric) -> Markup {
    let Some(spread) = row.spreads.get(&metric) else { return html! { (row.blank(metric)) } };
    let ratio = row.ratios.get(&metric).filter(|ratio| ratio.peer != row.target);
    html! {
        (metric.format(spread.median))
        @if spread.count > 1 {
            small { (metric.format(spread.min)) "–" (metric.format(spread.max)) }
        }
        @if let Some(ratio) = ratio {
            small title={ "relative to " (ratio.peer) } { "× " (ratio.in_brief().replace('-', "–")) }
        }
    }
}

fn where_the_memory_is(rows: &[SummaryRow]) -> Markup {
    let Some(cells) = memory::cells(rows) else { return html! {} };
    html! {
        section {
            h2 { "Where the memory is" }
            p { (memory::CAPTION) }
            div.wide tabindex="0" role="region" aria-label="Where the memory is" {
                table {
                    @for (index, line) in cells.iter().enumerate() {
                        @if index == 0 {
                            thead { tr { @for (place, cell) in line.iter().enumerate() {
                                th.number[place > 0] scope="col" { (cell) }
                            } } }
                        } @else {
                            tr { th scope="row" { (line[0]) } @for cell in &line[1..] { td.number { (cell) } } }
                        }
                    }
                }
            }
        }
    }
}

fn notes(run: &Run, rows: &[SummaryRow]) -> Markup {
    html! {
        section {
            h2 { "What to know" }
            ul { @for note in run.notes.iter().cloned().chain(remarks::of(run, rows)) { li { (note) } } }
        }
    }
}

fn machine(run: &Run) -> Markup {
    html! {
        section {
            h2 { "Machine, versions and commands" }
            p { (run.machine.sentence()) }
            p { (remarks::placement(run)) }
            dl {
                dt { "descriptors" } dd { (run.machine.descriptors) }
                @for (name, value) in &run.machine.settings { dt { (name) } dd { (value) } }
                dt { "weir-lab " (run.version) } dd { code { (run.command) } }
                @for (target, record) in &run.targets {
                    dt { (target) } dd { (record.sentence()) br; code { (record.command) } }
                }
                @for (tool, version) in &run.tools { dt { (tool) } dd { (version) } }
            }
        }
    }
}

fn configurations(run: &Run) -> Markup {
    html! {
        section {
            h2 { "Configurations" }
            p { "As in the first round; ports and folders differ in the others." }
            @for (target, record) in &run.targets {
                @for (file, config) in record.configs() {
                    details {
                        summary { (target) ", " code { (file) } }
                        pre { code { (config) } }
                    }
                }
            }
        }
    }
}
