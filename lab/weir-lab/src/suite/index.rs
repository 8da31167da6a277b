//! The page above the reports of a suite: each question with its answer, and the way to the figures.

use std::path::Path;

use anyhow::Context as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::costs;
use super::headline::{self, HeadlineCell, HeadlineRow};
use super::{SuiteEntry, SuiteOutcome};
use crate::report::html::{STYLE, word};
use crate::report::verdict::BarVerdict;
use crate::results::run::Run;

/// Its name.
pub(super) const FILE: &str = "index.html";

/// The figures of the reports in words.
const HEADLINE: &str = "headline.md";

/// The cost of the steady loads in words.
const COSTS: &str = "costs.md";

/// Writes the page about `entries`, of `count` in all.
pub(super) fn write(root: &Path, entries: &[SuiteEntry], count: usize) -> anyhow::Result<()> {
    let lines = headline::lines(entries);
    if !lines.is_empty() {
        let text = headline::markdown(&lines, caveat(entries));
        std::fs::write(root.join(HEADLINE), text).with_context(|| format!("cannot write {HEADLINE}"))?;
    }
    if let Some(text) = costs::markdown(entries, caveat(entries)) {
        std::fs::write(root.join(COSTS), text).with_context(|| format!("cannot write {COSTS}"))?;
    }
    let page = page(entries, &lines, count).into_string();
    std::fs::write(root.join(FILE), page).with_context(|| format!("cannot write {FILE}"))
}

fn page(entries: &[SuiteEntry], lines: &[HeadlineRow], count: usize) -> Markup {
    let done = entries.iter().filter(|entry| matches!(entry.outcome, SuiteOutcome::Run(..))).count();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "weir-lab, " (done) " of " (count) " scenarios" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    p.where { "weir-lab · " (done) " of " (count) " scenarios" }
                    h1 { "How does Weir compare on this machine?" }
                    @if let Some(caveat) = caveat(entries) { p.caveat role="note" { (caveat) } }
                }
                main {
                    @if !lines.is_empty() { (figures(lines)) }
                    @for entry in entries { (section(entry)) }
                }
            }
        }
    }
}

/// Why the figures must not be quoted, if any run says so.
fn caveat(entries: &[SuiteEntry]) -> Option<&'static str> {
    entries.iter().find_map(|entry| match &entry.outcome {
        SuiteOutcome::Run(run, _) => run.caveat(),
        SuiteOutcome::Failed(_) => None,
    })
}

/// The figures that the reports name.
fn figures(lines: &[HeadlineRow]) -> Markup {
    html! {
        section {
            h2 { "The figures of the field reports, and the same measured here" }
            p {
                "Theirs are of their machines, with eight to thirty-two cores; here each target has one. The two in a cell are no \
                 comparison, those in a row are. "
                (headline::VOID)
            }
            div.wide tabindex="0" role="region" aria-label="Figures of the reports" {
                table {
                    thead { tr {
                        th scope="col" { "figure" }
                        @for product in headline::PRODUCTS { th.number scope="col" { (product.name()) } }
                    } }
                    tbody { @for line in lines {
                        tr {
                            th.told scope="row" { (line.what) small { (line.how) } }
                            @for cell in &line.cells { td.number { (figure(cell)) } }
                        }
                    } }
                }
            }
        }
    }
}

fn figure(cell: &HeadlineCell) -> Markup {
    html! {
        @match &cell.ours {
            Ok(value) => { (value) }
            Err(why) => { abbr title=(why) { "-" } small.told { (why) } }
        }
        @if let Some(theirs) = cell.theirs { small { "their machine " (theirs) } }
    }
}

fn section(entry: &SuiteEntry) -> Markup {
    let name = &entry.scenario.name;
    html! {
        section {
            h2 { (entry.scenario.question) }
            @match &entry.outcome {
                SuiteOutcome::Run(run, verdicts) => {
                    (answers(run, verdicts))
                    p { a href={ (name) "/report.html" } { (name) ": figures, plots, configurations" } }
                }
                SuiteOutcome::Failed(why) => {
                    ul.verdicts { li.missed { strong.mark { "Failed" } " " (why) } }
                    p.where { (name) }
                }
            }
        }
    }
}

fn answers(run: &Run, verdicts: &[BarVerdict]) -> Markup {
    html! {
        ul.verdicts {
            @for verdict in verdicts {
                @let (class, mark) = word(verdict.is_met);
                li class=(class) { strong.mark { (mark) } " " (verdict.sentence) "." }
            }
            @for (target, failure) in &run.failed {
                li.missed { strong.mark { "Failed" } " " (target) ": " (failure) }
            }
        }
    }
}
