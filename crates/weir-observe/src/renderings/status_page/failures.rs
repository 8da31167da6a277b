//! The pages about reasons of failures: the words of docs/failures.md, where a failure on the status page leads to.

use maud::{Markup, html};

use super::document;
use crate::failure::{Cause, Reason};

/// One reason; `None` when there is no such code.
pub fn failure_page(code: &str) -> Option<String> {
    let reason = Reason::from_code(code)?;
    let body = html! {
        (header())
        main #main tabindex="-1" {
            article.reason {
                h1 { (reason.code()) }
                (facts(reason))
                p { (reason.happened()) }
                h2 { "Advice" }
                p { (code_marked(reason.change())) }
            }
            p { a href="/failures" { "All reasons" } }
        }
    };
    Some(document(&format!("Weir: {}", reason.code()), None, &body).into_string())
}

/// All reasons.
pub fn failures_page() -> String {
    let own = |reason: &Reason| !matches!(reason.cause(), Cause::Rule(_));
    let possible = Reason::all().filter(|reason| reason.is_possible());
    let (own, rules): (Vec<Reason>, Vec<Reason>) = possible.partition(own);
    let list = |reasons: &[Reason]| {
        html! { dl.glossary { @for reason in reasons {
            dt { a href={ "/failures/" (reason.code()) } { (reason.code()) } }
            dd { (reason.happened()) }
        } } }
    };
    let body = html! {
        (header())
        main #main tabindex="-1" {
            h1 { "Reason codes of failures" }
            p { "The reason code of a failure is in the log, in the metrics, in the field "
                code { "weir-reason" } " of the response, and on this page." }
            (list(&own))
            h2 { "Violations of HTTP" }
            (list(&rules))
        }
    };
    document("Weir: reasons of failures", None, &body).into_string()
}

/// The record of one exchange, which `status.js` takes from `/api/exchanges/` and the last part of the page's address.
pub fn why_page() -> String {
    let body = html! {
        (header())
        main #main tabindex="-1" {
            h1 { "One exchange" }
            p #why-said role="status" { "Loading" }
            noscript { p { "This page needs scripts. Without them, use " code { "weir why ID" } " or " code { "/api/exchanges/ID" } "." } }
            div #why {}
        }
    };
    document("Weir: one exchange", None, &body).into_string()
}

fn header() -> Markup {
    html! { header.top { p.home { a href="/" { "Weir" } } } }
}

fn facts(reason: Reason) -> Markup {
    let phases: Vec<&str> = reason.phases().iter().map(|phase| phase.name()).collect();
    html! {
        dl.pairs {
            div { dt { "Status" } dd { @match reason.status() {
                Some(status) => { (status) }
                None => { "none: no response can be sent (" (reason.log_status()) " in the log)" }
            } } }
            div { dt { "Party" } dd { (reason.party().name()) } }
            div { dt { "Phase" } dd { (phases.join(", ")) } }
        }
    }
}

/// Text between backticks is code.
fn code_marked(text: &str) -> Markup {
    html! { @for (index, part) in text.split('`').enumerate() {
        @if index % 2 == 1 { code { (part) } } @else { (part) }
    } }
}
