//! The status page: the overview as HTML that reads well without scripts, and the pages about failures.
//!
//! Markup is made here and nowhere else. An element that changes every second carries the path of its figure in the overview (`data-v`, below
//! the `data-at` of its part) and its format (`data-f`); `status.js` looks the figure up in `/api/overview` and writes it anew. When parts come
//! or go, it loads the whole page once more. Nothing is loaded from elsewhere, and there are no inline scripts or styles: the policy of the page forbids them.

mod listeners;
mod caches;
mod certificates;
mod keys;
mod tables;
mod limits;
mod upstreams;
mod failures;
mod panics;
mod weir;
mod format;
#[cfg(test)]
mod tests;

use maud::{DOCTYPE, Markup, html};

use crate::counters::admin::AdminStats;
use crate::overview::{FailureCount, Overview};
use crate::printable;

pub use failures::{failure_page, failures_page, why_page};

/// The style of the page, to be served at `/status.css`.
pub const STYLE: &str = include_str!("status.css");

/// The script that keeps the page current, to be served at `/status.js`.
pub const SCRIPT: &str = include_str!("status.js");

/// The data of the page.
#[derive(Debug)]
pub struct PageInput<'a> {
    /// Everything, at this moment.
    pub overview: &'a Overview,
    /// The counts of requests to the admin listener.
    pub admin: AdminStats,
    /// The config in use, without secrets.
    pub config: &'a str,
    /// The token that the page has to send with a change; `None`: it has no buttons.
    pub page_token: Option<&'a str>,
    /// Whether this Weir can take profiles of itself.
    pub has_profiler: bool,
}

/// The whole page.
pub fn page(shown: &PageInput<'_>) -> String {
    let overview = shown.overview;
    let process = &overview.process;
    let title = format!("Weir: {}", process.name);
    let main = html! {
        (panics::section(overview))
        (weir::tiles(overview))
        (upstreams::section(shown))
        (listeners::section(overview))
        (limits::section(overview))
        (tables::section(overview))
        (caches::section(overview))
        (keys::section(overview))
        (certificates::section(overview))
        (weir::lost_logs(process))
        section #failures aria-labelledby="failures-heading" hidden {
            h2 #failures-heading { "Recent failures" }
            p.note {
                "Newest first; those with the same reason, place and status are one row. A request links to its details, a reason to the advice. "
                button #failures-all type="button" { "Show all" }
            }
            div.scroll tabindex="0" role="region" aria-labelledby="failures-heading" { table.list {
                thead { tr {
                    th scope="col" { "When" } th scope="col" { "Request" } th scope="col" { "Reason" }
                    th scope="col" { "Where" } th scope="col" { "Status" } th scope="col" { "Took" } th scope="col" { "Count" }
                } }
                tbody {}
            } }
        }
        (weir::workers(overview))
        (weir::process(overview, &shown.admin))
        (weir::config(overview, shown.config))
    };
    let page = document(
        &title,
        shown.page_token,
        &html! {
            header.top {
                h1 { a href="/" { "Weir" } " " span.name { (process.name) } }
                p.facts {
                    span.pill data-at="process" data-v="state" data-f="text" { (process.state) }
                    span { "up " b data-at="process" data-v="started_ms" data-f="since" { (format::lasting(process.at_ms.saturating_sub(process.started_ms))) } }
                    span { "version " b { (process.version) } }
                    span { "config " b { (overview.config.generation) } }
                }
                p #live role="status" { span.dot aria-hidden="true" {} span #live-text { "as of loading" } }
            }
            main #main tabindex="-1" { (main) }
            footer {
                p { a href="/metrics" { "Metrics" } a href="/api/overview" { "JSON" } a href="/servers" { "Servers as text" } a href="/failures" { "All reason codes" } }
                @if shown.has_profiler && shown.page_token.is_some() {
                    // Forms, since taking a profile is a POST; without a script, and in tabs of their own.
                    form.profiles method="post" target="_blank" rel="noopener" {
                        span { "Profiles of this process:" }
                        button formaction="/api/profile/cpu?seconds=10" { "CPU, 10 s" span.hidden { " (in a new tab)" } }
                        button formaction="/api/profile/memory" { "Memory" span.hidden { " (in a new tab)" } }
                    }
                }
            }
            @if shown.page_token.is_some() { (upstreams::selection()) (upstreams::dialog()) }
        },
    );
    // Markup is escaped where it is made; this is about what turns or hides the text around it.
    printable::shown_lines(&page.into_string()).into_owned()
}

/// A whole document around `body`.
fn document(title: &str, page_token: Option<&str>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                @if let Some(token) = page_token { meta name="weir-page-token" content=(token); }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/status.css";
                noscript { meta http-equiv="refresh" content="5"; }
                script src="/status.js" defer {}
            }
            body {
                a.skip href="#main" { "To the content" }
                (body)
            }
        }
    }
}

/// A figure that is kept current: a path below its part, and its format.
fn live(path: &str, format: &str, text: &str) -> Markup {
    html! { span data-v=(path) data-f=(format) { (text) } }
}

/// Reasons with their counts, each a link to its explanation.
fn reasons(failures: &[FailureCount]) -> Markup {
    html! {
        ul.reasons data-v="failures" data-f="reasons" {
            @for failure in failures {
                li { a href={ "/failures/" (failure.reason) } { (failure.reason) } " " b { (format::count(failure.count)) } }
            }
        }
    }
}
