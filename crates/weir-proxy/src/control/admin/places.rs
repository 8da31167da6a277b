//! What is where on the admin listener.

use std::sync::Arc;

use weir_http::Method;

use super::answer::Answer;
use super::request::Request;
use super::{Served, profile, ready, servers};

const CONTENTS: &str = "Metrics are at /metrics, everything as JSON at /api/overview, servers at /servers, readiness at /ready, profiles at /api/profile/cpu and \
    /api/profile/memory.\n";

/// Answers a request.
pub(super) async fn answer(request: &Request, served: &Arc<Served>) -> Answer {
    match request.method() {
        Method::Get | Method::Head => match profile::answer(request, served).await {
            Some(answer) => answer,
            None => show(request, served),
        },
        Method::Post => match may_change(request, served) {
            Ok(()) => change(request, served).await,
            Err(refusal) => refusal,
        },
        _ => not_served("GET, HEAD, POST"),
    }
}

fn show(request: &Request, served: &Served) -> Answer {
    match request.path() {
        b"/" => Answer::plain(200, CONTENTS),
        b"/metrics" => metrics(served),
        b"/ready" => ready::answer(request, served),
        b"/api/overview" => Answer::json(200, &served.sources.overview()),
        b"/servers" => servers::table(served),
        _ => nothing_here(),
    }
}

async fn change(request: &Request, served: &Arc<Served>) -> Answer {
    match request.path() {
        b"/servers" => servers::change_mode(request, served),
        b"/" | b"/metrics" | b"/ready" | b"/api/overview" | b"/api/profile/cpu" | b"/api/profile/memory" => {
            not_served("GET, HEAD")
        }
        _ => nothing_here(),
    }
}

/// Whether changes may be made here, and by this request.
fn may_change(request: &Request, served: &Served) -> Result<(), Answer> {
    if !served.changes {
        let what = "Changes are not allowed here: `admin.changes` of the config is off.\n";
        return Err(Answer::plain(403, what));
    }
    // Only a browser sends it, and then a web page is behind the request, of this machine or of any other site.
    if request.field("origin").is_some() {
        return Err(Answer::plain(403, "Requests from web pages are refused.\n"));
    }
    Ok(())
}

fn metrics(served: &Served) -> Answer {
    let mut text = String::new();
    weir_observe::prometheus::render(&served.sources.figures(), &mut text);
    Answer::new(200, weir_observe::prometheus::CONTENT_TYPE, text)
}

fn nothing_here() -> Answer {
    Answer::plain(404, format!("There is nothing here. {CONTENTS}"))
}

fn not_served(allowed: &'static str) -> Answer {
    Answer::plain(405, format!("Only {allowed} are served here.\n")).with_field("Allow", allowed)
}
