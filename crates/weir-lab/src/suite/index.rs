//! The page above the reports of a suite: each question with its answer, and the way to the figures.

use std::path::Path;

use anyhow::Context as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{Entry, Outcome};
use crate::report::html::{STYLE, word};
use crate::report::verdict::verdicts;
use crate::report::{Run, summary};

/// Its name.
pub(super) const FILE: &str = "index.html";

/// Writes the page about `entries`, of `count` in all.
pub(super) fn write(root: &Path, entries: &[Entry], count: usize) -> anyhow::Result<()> {
    let page = page(entries, count).into_string();
    std::fs::write(root.join(FILE), page).with_context(|| format!("cannot write {FILE}"))
}

fn page(entries: &[Entry], count: usize) -> Markup {
    let done = entries.iter().filter(|entry| matches!(entry.outcome, Outcome::Run(_))).count();
    let caveat = entries.iter().find_map(|entry| match &entry.outcome {
        Outcome::Run(run) => run.caveat(),
        Outcome::Failed(_) => None,
    });
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
                    @if let Some(caveat) = caveat { p.caveat role="note" { (caveat) } }
                }
                main { @for entry in entries { (section(entry)) } }
            }
        }
    }
}

fn section(entry: &Entry) -> Markup {
    let name = &entry.scenario.name;
    html! {
        section {
            h2 { (entry.scenario.question) }
            @match &entry.outcome {
                Outcome::Run(run) => {
                    (answers(run))
                    p { a href={ (name) "/report.html" } { (name) ": figures, plots, configurations" } }
                }
                Outcome::Failed(why) => {
                    ul.verdicts { li.missed { strong.mark { "Failed" } " " (why) } }
                    p.where { (name) }
                }
            }
        }
    }
}

fn answers(run: &Run) -> Markup {
    html! {
        ul.verdicts {
            @for verdict in verdicts(run, &summary::rows(run)) {
                @let (class, mark) = word(verdict.is_met);
                li class=(class) { strong.mark { (mark) } " " (verdict.sentence) "." }
            }
            @for (target, failure) in &run.failed {
                li.missed { strong.mark { "Failed" } " " (target) ": " (failure) }
            }
        }
    }
}
