//! What is where on the admin listener.

use std::sync::Arc;

use weir_config::ConfigDump;
use weir_http::Method;
use weir_observe::overview::Overview;
use weir_observe::status_page::{self, PageInput};
use weir_traffic::route::query_value;

use super::query::decoded;
use super::request::Request;
use super::response::{Answer, Refused};
use super::scrape::{self, Scraping};
use super::{api, connections, exchanges, guard, profile, ready, server_modes};
use crate::control::admin_access::Peer;
use crate::control::operations::Served;

/// Bytes of the config that the status page shows.
const CONFIG_SHOWN_MAX: usize = 1 << 18;

const HTML: &str = "text/html; charset=utf-8";

const CONTENTS: &str = "The status page is at /, metrics are at /metrics, everything as JSON at /api/overview, what runs now at \
    /api/sessions, the last failures at /api/failures, the config at /api/config, servers at /servers, readiness at /ready, profiles by POST to \
    /api/profile/cpu and /api/profile/memory.\n";

/// What is sent.
pub(super) enum Reply {
    Whole(Answer),
    /// Piece by piece.
    Metrics(Box<Scraping>),
}

/// Answers a request that the guard has let in.
pub(super) async fn reply(request: &Request, served: &Arc<Served>, peer: Peer) -> Result<Reply, Refused> {
    match request.method() {
        Method::Get | Method::Head if request.path() == b"/metrics" => {
            match scrape::begin(request, served).await? {
                Ok(scraping) => Ok(Reply::Metrics(scraping)),
                Err(answer) => Ok(Reply::Whole(answer)),
            }
        }
        _ => answer(request, served, peer).await.map(Reply::Whole),
    }
}

/// Answers whatever is answered at once.
pub(super) async fn answer(request: &Request, served: &Arc<Served>, peer: Peer) -> Result<Answer, Refused> {
    match request.method() {
        Method::Get | Method::Head if request.path() == b"/api/raw" => {
            Ok(api::raw_look(request.query(), served, peer).await)
        }
        Method::Get | Method::Head => Ok(show(request, served).await),
        Method::Post if request.path().starts_with(profile::BELOW) => {
            guard::may_profile(&served.guard, request, peer)?;
            Ok(profile::answer(request, served).await.unwrap_or_else(nothing_here))
        }
        Method::Post => {
            guard::may_change(&served.guard, request, peer)?;
            Ok(change(request, served, peer).await)
        }
        _ => Ok(not_served("GET, HEAD, POST")),
    }
}

async fn show(request: &Request, served: &Served) -> Answer {
    match request.path() {
        b"/" | b"/status" => {
            page(request, served).map_or_else(|answer| answer, |overview| status_page(&overview, served))
        }
        b"/status.css" => Answer::new(200, "text/css; charset=utf-8", status_page::STYLE),
        b"/status.js" => Answer::new(200, "text/javascript; charset=utf-8", status_page::SCRIPT),
        b"/failures" => Answer::new(200, HTML, status_page::failures_page()),
        path if path.starts_with(b"/failures/") => failure_page(&path[b"/failures/".len()..]),
        path if path.starts_with(b"/why/") => Answer::new(200, HTML, status_page::why_page()),
        b"/ready" => ready::answer(request, served),
        b"/api/overview" => {
            page(request, served).map_or_else(|answer| answer, |overview| Answer::json(200, &overview))
        }
        b"/api/config" => api::config(served),
        b"/servers" => server_modes::table(served),
        b"/api/failures" => exchanges::failures(request, served).await,
        b"/api/exchanges" => exchanges::recent(request, served).await,
        connections::ALL => connections::list(request, served).await,
        path if path.starts_with(profile::BELOW) => not_served("POST"),
        path if path.starts_with(connections::ONE) => connections::one(request, served).await,
        path if path.starts_with(exchanges::ONE) => exchanges::one(request, served).await,
        _ => nothing_here(),
    }
}

async fn change(request: &Request, served: &Arc<Served>, peer: Peer) -> Answer {
    match request.path() {
        b"/servers" => server_modes::change_mode(request, served),
        b"/api/reload" => api::reload(served, peer).await,
        b"/api/raw" => api::raw(request.body(), served, peer).await,
        path if path.starts_with(connections::ONE) => connections::end(request, served, peer).await,
        path if path.starts_with(api::SERVERS) => api::change_server(request, served, peer).await,
        b"/" | b"/metrics" | b"/ready" | b"/api/overview" | b"/api/config" => not_served("GET, HEAD"),
        _ => nothing_here(),
    }
}

/// The part of everything that `upstream` and `page` ask for; without them the first page.
fn page(request: &Request, served: &Served) -> Result<Overview, Answer> {
    let value = |name: &str| query_value(request.query(), name.as_bytes()).map(decoded);
    let number = match value("page").map(|page| page.parse::<usize>()) {
        None => 1,
        Some(Ok(number)) => number,
        Some(Err(_)) => return Err(Answer::plain(400, "`page` is a number from 1.\n")),
    };
    served
        .sources
        .page(value("upstream").as_deref(), number)
        .ok_or_else(|| Answer::plain(404, "There is no such upstream, or it has no such page.\n"))
}

fn status_page(overview: &Overview, served: &Served) -> Answer {
    let config = served.guard.shown_config();
    let shown = PageInput {
        overview,
        admin: served.guard.figures(),
        config: &beginning(&config),
        page_token: served.guard.page_token(),
    };
    Answer::new(200, HTML, status_page::page(&shown))
}

/// The lines of a config that a page shows.
fn beginning(config: &ConfigDump) -> String {
    let mut text = String::new();
    for line in config.lines() {
        if text.len() + line.len() >= CONFIG_SHOWN_MAX {
            text.push_str("# The config goes on: /api/config has the whole of it.\n");
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// What a reason of failures means, by its code.
fn failure_page(code: &[u8]) -> Answer {
    match std::str::from_utf8(code).ok().and_then(status_page::failure_page) {
        Some(page) => Answer::new(200, HTML, page),
        None => Answer::plain(404, "There is no such reason: /failures lists them all.\n"),
    }
}

fn nothing_here() -> Answer {
    Answer::plain(404, format!("There is nothing here. {CONTENTS}"))
}

fn not_served(allowed: &'static str) -> Answer {
    Answer::plain(405, format!("Only {allowed} are served here.\n")).with_field("Allow", allowed)
}
