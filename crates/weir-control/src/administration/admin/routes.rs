//! The paths of the admin listener.

use std::sync::Arc;

use weir_config::ConfigDump;
use weir_http::Method;
use weir_observe::overview::Overview;
use weir_observe::status_page::{self, PageInput};
use weir_traffic::route::query_value;

use super::query::decoded;
use super::request::AdminRequest;
use super::response::{BufferedResponse, RefusedRequest};
use super::scrape;
use super::scrape::ActiveScrape;
use super::{
    api, connections, exchanges, guard, hand_over, maintenance, profile, purge, ready, server_modes,
    stub_status,
};
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;
use crate::administration::statistics::certificate_reports::certificates;
use crate::administration::statistics::overview::{caches, keys, limits, mirrors};
use crate::administration::statistics::tables;
use crate::features::PROFILER;
use crate::telemetry::logs::own_log;

/// Bytes of the config that the status page shows.
const CONFIG_SHOWN_MAX: usize = 1 << 18;

const HTML: &str = "text/html; charset=utf-8";

const CONTENTS: &str = "The status page is at /, metrics are at /metrics, a few of them as nginx writes them at /stub_status, everything as JSON at /api/overview, what runs now at \
    /api/connections, the last failures at /api/failures, the config at /api/config, the last lines of the log at /api/log, limits by key at /api/limits, tables of counters at /api/tables, caches at /api/caches, memory at /api/memory, keys of tokens at /api/keys, certificates at /api/certificates, mirrors at /api/mirrors, servers at /servers, readiness at /ready, life at /live, profiles by POST to \
    /api/profile/cpu and /api/profile/memory, and qlog of a connection of HTTP/3 by POST to /api/connections/ID/qlog.\n";

/// The answer to be sent.
pub(super) enum AdminReply {
    Whole(BufferedResponse),
    /// Piece by piece.
    Metrics(Box<ActiveScrape>),
}

/// Answers a request that the guard has let in.
pub(super) async fn respond(
    request: &AdminRequest,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> Result<AdminReply, RefusedRequest> {
    match request.method() {
        Method::Get | Method::Head if request.path() == b"/metrics" => {
            match scrape::begin(request, operations).await? {
                Ok(scraping) => Ok(AdminReply::Metrics(scraping)),
                Err(answer) => Ok(AdminReply::Whole(answer)),
            }
        }
        _ => answer(request, operations, peer).await.map(AdminReply::Whole),
    }
}

/// Answers whatever is answered at once.
pub(super) async fn answer(
    request: &AdminRequest,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> Result<BufferedResponse, RefusedRequest> {
    match request.method() {
        Method::Get | Method::Head if request.path() == b"/api/raw" => {
            Ok(api::raw_look(request.query(), operations, peer).await)
        }
        Method::Get | Method::Head => Ok(show(request, operations).await),
        Method::Post if request.path().starts_with(profile::BELOW) => {
            guard::may_profile(&operations.access, request, peer)?;
            Ok(profile::answer(request, operations).await.unwrap_or_else(nothing_here))
        }
        Method::Post if request.path().ends_with(connections::QLOG) => {
            guard::may_profile(&operations.access, request, peer)?;
            Ok(connections::qlog(request, operations).await)
        }
        Method::Post => {
            guard::may_change(&operations.access, request, peer)?;
            Ok(change(request, operations, peer).await)
        }
        _ => Ok(not_served("GET, HEAD, POST")),
    }
}

async fn show(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    match request.path() {
        b"/" | b"/status" => page(request, operations)
            .map_or_else(|answer| answer, |overview| status_page(&overview, operations)),
        b"/status.css" => BufferedResponse::new(200, "text/css; charset=utf-8", status_page::STYLE),
        b"/status.js" => BufferedResponse::new(200, "text/javascript; charset=utf-8", status_page::SCRIPT),
        b"/failures" => BufferedResponse::new(200, HTML, status_page::failures_page()),
        path if path.starts_with(b"/failures/") => failure_page(&path[b"/failures/".len()..]),
        path if path.starts_with(b"/why/") => BufferedResponse::new(200, HTML, status_page::why_page()),
        b"/ready" => ready::answer(request, operations),
        b"/live" => BufferedResponse::plain(200, "live\n"),
        b"/api/overview" => page(request, operations)
            .map_or_else(|answer| answer, |overview| BufferedResponse::json(200, &overview)),
        b"/stub_status" => page(request, operations).map_or_else(
            |answer| answer,
            |overview| BufferedResponse::plain(200, stub_status::text(&overview.workers)),
        ),
        b"/api/config" => api::config(operations),
        b"/api/log" => BufferedResponse::new(200, "text/plain; charset=utf-8", own_log::last_lines()),
        b"/api/tables" => BufferedResponse::json(200, &tables::overviews(&operations.sources.current.load())),
        b"/api/limits" => BufferedResponse::json(200, &limits(&operations.sources.current.load())),
        b"/api/mirrors" => BufferedResponse::json(200, &mirrors(&operations.sources.current.load())),
        b"/api/keys" => BufferedResponse::json(200, &keys(&operations.sources.current.load())),
        b"/api/certificates" => {
            BufferedResponse::json(200, &certificates(&operations.sources.current.load()))
        }
        b"/api/hand-over" => hand_over::show(operations),
        b"/api/memory" => BufferedResponse::json(200, &**operations.sources.memory.load()),
        b"/api/caches" => BufferedResponse::json(200, &caches(&operations.sources.current.load())),
        b"/servers" => server_modes::table(operations),
        b"/api/failures" => exchanges::failures(request, operations).await,
        b"/api/exchanges" => exchanges::recent(request, operations).await,
        connections::ALL => connections::list(request, operations).await,
        path if path.starts_with(profile::BELOW) => not_served("POST"),
        path if path.starts_with(connections::ONE) => connections::one(request, operations).await,
        path if path.starts_with(exchanges::ONE) => exchanges::one(request, operations).await,
        _ => nothing_here(),
    }
}

async fn change(request: &AdminRequest, operations: &Arc<Operations>, peer: AdminPeer) -> BufferedResponse {
    match request.path() {
        b"/servers" => server_modes::change_mode(request, operations),
        b"/api/reload" => api::reload(operations, peer).await,
        b"/api/hand-over" => hand_over::begin(request, operations, peer),
        b"/api/take-back" => hand_over::take_back(operations, peer),
        b"/api/upgrade" => api::upgrade(operations, peer).await,
        b"/api/raw" => api::raw(request.body(), operations, peer).await,
        path if path.starts_with(connections::ONE) => connections::end(request, operations, peer).await,
        path if path.starts_with(api::SERVERS) => api::change_server(request, operations, peer).await,
        path if path.starts_with(purge::CACHES) => purge::change(request, operations, peer).await,
        path if path.starts_with(maintenance::LISTENERS) => maintenance::change(request, operations, peer),
        b"/" | b"/metrics" | b"/stub_status" | b"/ready" | b"/live" | b"/api/overview" | b"/api/config" => {
            not_served("GET, HEAD")
        }
        _ => nothing_here(),
    }
}

/// The part of everything that `upstream` and `page` ask for; without them the first page.
fn page(request: &AdminRequest, operations: &Operations) -> Result<Overview, BufferedResponse> {
    let value = |name: &str| query_value(request.query(), name.as_bytes()).map(decoded);
    let number = match value("page").map(|page| page.parse::<usize>()) {
        None => 1,
        Some(Ok(number)) => number,
        Some(Err(_)) => return Err(BufferedResponse::plain(400, "`page` is a number from 1.\n")),
    };
    operations
        .sources
        .page(value("upstream").as_deref(), number)
        .ok_or_else(|| BufferedResponse::plain(404, "There is no such upstream, or it has no such page.\n"))
}

fn status_page(overview: &Overview, operations: &Operations) -> BufferedResponse {
    let config = operations.access.shown_config();
    let shown = PageInput {
        overview,
        admin: operations.access.figures(),
        config: &beginning(&config),
        page_token: operations.access.page_token(),
        has_profiler: PROFILER.is_compiled_in,
    };
    BufferedResponse::new(200, HTML, status_page::page(&shown))
}

/// The lines of a config that a page shows.
fn beginning(config: &ConfigDump) -> String {
    let mut text = String::new();
    for line in config.lines() {
        if text.len() + line.len() >= CONFIG_SHOWN_MAX {
            text.push_str("# The config continues: /api/config has the whole of it.\n");
            break;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The meaning of a reason of failures, by its code.
fn failure_page(code: &[u8]) -> BufferedResponse {
    match std::str::from_utf8(code).ok().and_then(status_page::failure_page) {
        Some(page) => BufferedResponse::new(200, HTML, page),
        None => BufferedResponse::plain(404, "There is no such reason: /failures lists them all.\n"),
    }
}

fn nothing_here() -> BufferedResponse {
    BufferedResponse::plain(404, format!("There is nothing here. {CONTENTS}"))
}

fn not_served(allowed: &'static str) -> BufferedResponse {
    BufferedResponse::plain(405, format!("Only {allowed} are served here.\n")).with_field("Allow", allowed)
}
