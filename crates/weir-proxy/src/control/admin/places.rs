//! What is where on the admin listener.

use std::sync::Arc;

use weir_http::Method;

use super::answer::Answer;
use super::guard::{Peer, Refused};
use super::request::Request;
use super::{Served, api, servers};

const CONTENTS: &str = "Metrics are at /metrics, everything as JSON at /api/overview, the config at /api/config, servers at /servers.\n";

/// Answers a request that the guard has let in.
pub(super) async fn answer(request: &Request, served: &Arc<Served>, peer: Peer) -> Result<Answer, Refused> {
    match request.method() {
        Method::Get | Method::Head if request.path() == b"/api/raw" => {
            Ok(api::raw_look(request.query(), served, peer).await)
        }
        Method::Get | Method::Head => Ok(show(request.path(), served)),
        Method::Post => {
            served.guard.may_change(request, peer)?;
            Ok(change(request, served, peer).await)
        }
        _ => Ok(not_served("GET, HEAD, POST")),
    }
}

fn show(path: &[u8], served: &Served) -> Answer {
    match path {
        b"/" => Answer::plain(200, CONTENTS),
        b"/metrics" => metrics(served),
        b"/api/overview" => Answer::json(200, &served.sources.overview()),
        b"/api/config" => api::config(served),
        b"/servers" => servers::table(served),
        _ => nothing_here(),
    }
}

async fn change(request: &Request, served: &Arc<Served>, peer: Peer) -> Answer {
    match request.path() {
        b"/servers" => servers::change_mode(request, served),
        b"/api/reload" => api::reload(served, peer).await,
        b"/api/raw" => api::raw(request.body(), served, peer).await,
        path if path.starts_with(api::SERVERS) => api::change_server(request, served, peer).await,
        b"/" | b"/metrics" | b"/api/overview" | b"/api/config" => not_served("GET, HEAD"),
        _ => nothing_here(),
    }
}

fn metrics(served: &Served) -> Answer {
    let mut figures = served.sources.figures();
    figures.admin = served.guard.figures();
    let mut text = String::new();
    weir_observe::prometheus::render(&figures, &mut text);
    Answer::new(200, weir_observe::prometheus::CONTENT_TYPE, text)
}

fn nothing_here() -> Answer {
    Answer::plain(404, format!("There is nothing here. {CONTENTS}"))
}

fn not_served(allowed: &'static str) -> Answer {
    Answer::plain(405, format!("Only {allowed} are served here.\n")).with_field("Allow", allowed)
}
