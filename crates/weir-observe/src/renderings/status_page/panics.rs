//! Panics on the status page, where there were any: a defect of Weir is to be seen, and to be reported.

use maud::{Markup, html};

use super::format;
use crate::overview::{Overview, PanicOverview};

pub(super) fn section(overview: &Overview) -> Markup {
    let process = &overview.process;
    html! {
        @if !process.panics.is_empty() {
            section #panics aria-labelledby="panics-heading" {
                h2 #panics-heading { "Defects of Weir" }
                p.warning {
                    "Weir has panicked. Each panic ended one connection or one stream, or had a worker started anew. Please report it with the output of "
                    code { "weir report" } "."
                }
                @for panic in &process.panics { (one(panic, process.at_ms)) }
            }
        }
    }
}

fn one(panic: &PanicOverview, now_ms: u64) -> Markup {
    let ago = |at_ms: u64| format!("{} ago", format::lasting(now_ms.saturating_sub(at_ms)));
    html! {
        dl.pairs {
            div { dt { "Place" } dd { (panic.location) } }
            div { dt { "Message" } dd { (panic.message) } }
            div { dt { "Thread" } dd { (panic.thread) } }
            div { dt { "Panics" } dd { (format::count(panic.count)) } }
            div { dt { "First, last" } dd { (ago(panic.first_ms)) ", " (ago(panic.last_ms)) } }
        }
        @if let Some(backtrace) = &panic.backtrace {
            details { summary { "Backtrace" } pre tabindex="0" { code { (backtrace) } } }
        }
    }
}
