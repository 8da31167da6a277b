//! Running sessions, and requests that end them.
//!
//! `GET /api/connections?listener=&upstream=&server=&min_age=&limit=`, `GET /api/connections/ID`, `POST /api/connections/ID/end`,
//! `POST /api/connections/end?upstream=&server=`, `POST /api/connections/ID/qlog?seconds=`. JSON; keys are only added, never renamed.

use std::time::Duration;

use serde_json::{Value, json};
use weir_config::parse_duration;
use weir_traffic::route::query_value;

use super::one_at_a_time::OneAtATime;
use super::query::{decoded, only_known};
use super::request::AdminRequest;
use super::response::BufferedResponse;
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;
use crate::administration::reports::ReportWriter;
use crate::servers::modes::UnknownServer;
use crate::workers::connections;
use crate::workers::connections::LISTED_MAX;
use crate::workers::worker_queries::FoundConnections;
use weir_proxy::state::connections::connection_list::{ConnectionId, ConnectionQuery};

/// The path of all connections is, and the beginning of the path of one.
pub(super) const ALL: &[u8] = b"/api/connections";
pub(super) const ONE: &[u8] = b"/api/connections/";

/// The end of the path that ends a connection is ended, and the path that ends all sessions of a server.
const END: &str = "/end";
const END_ALL: &[u8] = b"/api/connections/end";

/// The end of the path by which it is written down what happens to a connection of HTTP/3.
pub(super) const QLOG: &[u8] = b"/qlog";
const QLOG_TYPE: &str = "application/qlog+json-seq";
const QLOG_SECONDS: u64 = 10;
const QLOG_SECONDS_MAX: u64 = 60;

/// The connection for which that is done.
static TRACED: OneAtATime = OneAtATime::new();

/// Connections in one answer, unless the query says otherwise.
const LIMIT: usize = 100;

/// `GET /api/connections`: the oldest ones that the query takes.
pub(super) async fn list(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    match read(request.query()) {
        Err(what) => bad(&what),
        Ok(query) => {
            let found = operations.queries.ask_running(query).await;
            let report = ReportWriter::new(&operations.queries);
            let lines: Vec<Value> =
                found.connections.iter().map(|connection| report.connection(connection)).collect();
            BufferedResponse::json(200, &with_counts(&found, json!({ "connections": lines })))
        }
    }
}

/// `GET /api/connections/ID`: one, with the record of its exchange so far.
pub(super) async fn one(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    let id = decoded(&request.path()[ONE.len()..]);
    let Ok(connection) = id.parse() else { return unknown(&id, 0) };
    let query = ConnectionQuery { connection: Some(connection), count_max: 1, ..ConnectionQuery::default() };
    let found = operations.queries.ask_running(query).await;
    let report = ReportWriter::new(&operations.queries);
    match found.connections.first() {
        Some(connection) => {
            let mut body = report.connection(connection);
            body["exchange"] =
                connection.recorded.as_ref().map_or(Value::Null, |_| report.exchange_so_far(connection));
            BufferedResponse::json(200, &body)
        }
        None => unknown(&id, found.silent_workers),
    }
}

/// `POST /api/connections/ID/end`, `POST /api/connections/end`.
pub(super) async fn end(
    request: &AdminRequest,
    operations: &Operations,
    peer: AdminPeer,
) -> BufferedResponse {
    if request.path() == END_ALL {
        return end_all(request, operations, peer).await;
    }
    let path = decoded(&request.path()[ONE.len()..]);
    let Some(id) = path.strip_suffix(END) else {
        return bad(
            "the path is /api/connections/ID/end, or /api/connections/end with `upstream` and `server`",
        );
    };
    let Ok(connection) = id.parse::<ConnectionId>() else { return unknown(id, 0) };
    let found = connections::end(&operations.queries, connection, &peer.to_string()).await;
    if found.connections.is_empty() { unknown(id, found.silent_workers) } else { ended(&found) }
}

/// `POST /api/connections/ID/qlog`: what happens to a connection of HTTP/3 in the next seconds.
pub(super) async fn qlog(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    let path = decoded(request.path().get(ONE.len()..).unwrap_or_default());
    let id = path.strip_suffix("/qlog").unwrap_or_default();
    if let Err(what) = only_known(request.query(), &["seconds"]) {
        return bad(&what);
    }
    let seconds = query_value(request.query(), b"seconds").map(decoded);
    let seconds = match seconds.map(|text| text.parse()) {
        None => QLOG_SECONDS,
        Some(Ok(seconds @ 1..=QLOG_SECONDS_MAX)) => seconds,
        Some(_) => return bad(&format!("`seconds` is a number from 1 to {QLOG_SECONDS_MAX}")),
    };
    let Ok(connection) = id.parse::<ConnectionId>() else { return unknown(id, 0) };
    let Some(_slot) = TRACED.take() else {
        let what = "another connection is being written down: wait until that is done";
        return BufferedResponse::json(409, &json!({ "errors": [what] }));
    };
    match operations.queries.trace(connection, Duration::from_secs(seconds)).await {
        Some(text) => BufferedResponse::new(200, QLOG_TYPE, text),
        None => {
            let what = format!("there is no connection of HTTP/3 `{id}`: it may have ended");
            BufferedResponse::json(404, &json!({ "errors": [what] }))
        }
    }
}

async fn end_all(request: &AdminRequest, operations: &Operations, peer: AdminPeer) -> BufferedResponse {
    let said = if request.query().is_empty() { request.body() } else { request.query() };
    if let Err(what) = only_known(said, &["upstream", "server"]) {
        return bad(&what);
    }
    let value = |name: &str| query_value(said, name.as_bytes()).map(decoded);
    let (Some(upstream), Some(server)) = (value("upstream"), value("server")) else {
        return bad("`upstream` and `server` are both needed: the connections of one server are ended");
    };
    if let Err(unknown) = operations.sources.knows(&upstream, &server) {
        let what = match unknown {
            UnknownServer::Upstream(upstream) => format!("there is no upstream `{upstream}`"),
            UnknownServer::Server(upstream, server) => {
                format!("upstream `{upstream}` has no server `{server}`")
            }
        };
        return BufferedResponse::json(404, &json!({ "errors": [what] }));
    }
    ended(&connections::end_all(&operations.queries, &upstream, &server, &peer.to_string()).await)
}

fn ended(found: &FoundConnections) -> BufferedResponse {
    let ids: Vec<String> = found.connections.iter().map(|connection| connection.id.to_string()).collect();
    let body = json!({ "ended": ids, "count": found.matching, "silent_workers": found.silent_workers });
    BufferedResponse::json(200, &body)
}

fn bad(what: &str) -> BufferedResponse {
    BufferedResponse::json(400, &json!({ "errors": [what] }))
}

fn unknown(id: &str, silent_workers: usize) -> BufferedResponse {
    let silent = match silent_workers {
        0 => "",
        _ => ", or its worker did not answer in time",
    };
    let what = format!("there is no connection `{id}`: it may have ended{silent}");
    BufferedResponse::json(404, &json!({ "errors": [what] }))
}

fn with_counts(found: &FoundConnections, mut body: Value) -> Value {
    body["matching"] = found.matching.into();
    body["asked"] = found.asked.into();
    body["silent"] = found.silent.into();
    body["silent_workers"] = found.silent_workers.into();
    body
}

/// Which connections a query means.
fn read(query: &[u8]) -> Result<ConnectionQuery, String> {
    only_known(query, &["listener", "upstream", "server", "min_age", "limit"])?;
    let value = |name: &str| query_value(query, name.as_bytes()).map(decoded).filter(|text| !text.is_empty());
    let limit = value("limit").map(|text| match text.parse() {
        Ok(limit @ 1..=LISTED_MAX) => Ok(limit),
        _ => Err(format!("`limit` is a number from 1 to {LISTED_MAX}, not `{text}`")),
    });
    let age_min = value("min_age").map(|text| parse_duration(&text)).transpose();
    Ok(ConnectionQuery {
        listener: value("listener").map(Into::into),
        upstream: value("upstream").map(Into::into),
        server: value("server").map(Into::into),
        age_min: age_min.map_err(|error| format!("`min_age`: {}", error.message))?.unwrap_or_default(),
        count_max: limit.transpose()?.unwrap_or(LIMIT),
        ..ConnectionQuery::default()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn questions_are_read_from_the_query() {
        let query = read(b"listener=web&upstream=app&server=10.0.0.1%3A80&min_age=90s&limit=7").unwrap();
        assert_eq!(query.listener.as_deref(), Some("web"));
        assert_eq!((query.upstream.as_deref(), query.server.as_deref()), (Some("app"), Some("10.0.0.1:80")));
        assert_eq!((query.age_min, query.count_max, query.ends), (Duration::from_secs(90), 7, None));
        assert_eq!(read(b"").unwrap().count_max, LIMIT);
        for (query, what) in [
            ("limit=0", "`limit` is a number from 1 to 1000, not `0`"),
            ("limit=1001", "`limit` is a number from 1 to 1000, not `1001`"),
            (
                "colour=red",
                "`colour` is not known here; there are listener, upstream, server, min_age, limit",
            ),
        ] {
            assert_eq!(read(query.as_bytes()).unwrap_err(), what);
        }
        assert!(read(b"min_age=soon").is_err());
    }
}
