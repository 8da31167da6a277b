//! Exchanges, from the flight recorders of the workers: one with its whole record, running or over; the last failures; the last ones at all.
//!
//! `GET /api/exchanges/ID`, `GET /api/failures`, `GET /api/exchanges?upstream=&server=&status=&min_time=&limit=`. JSON; keys are only
//! added, never renamed.

use std::time::Duration;

use serde_json::{Value, json};
use weir_config::parse_duration;
use weir_traffic::route::query_value;

use super::query::{decoded, only_known};
use super::request::AdminRequest;
use super::response::BufferedResponse;
use crate::administration::admin_operations::Operations;
use crate::administration::reports::{ReportWriter, rfc3339};
use crate::workers::worker_queries::{
    ExchangeFilter, FoundConnections, FoundExchanges, RecorderQuery, WorkerQueries,
};
use weir_proxy::state::connections::connection_list::ConnectionQuery;

/// The beginning of the path of one exchange; its request id, or its number (`WORKER-NUMBER`), follows.
pub(super) const ONE: &[u8] = b"/api/exchanges/";

/// Exchanges with the same id that an answer contains; clients may send any id again.
const SAME_ID_MAX: usize = 20;

/// Exchanges in one answer, unless the query says otherwise, and at most.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;

/// One exchange, and those with the same id: the running ones first, then the finished ones.
pub(super) async fn one(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    let queries = &operations.queries;
    let id = decoded(&request.path()[ONE.len()..]);
    let mut found = FoundExchanges { recorded: Vec::new(), silent: 0 };
    if let Some((worker, number)) = read_number(&id) {
        found = queries.ask(RecorderQuery::Number { worker, number }, 1).await;
    }
    let mut running = FoundConnections::default();
    if found.recorded.is_empty() {
        let (query, wanted) = named(&id);
        running = queries.ask_running(query).await;
        found = queries.ask(wanted, SAME_ID_MAX).await;
    }
    let report = ReportWriter::new(queries);
    let silent = found.silent.max(running.silent_workers);
    let mut records: Vec<Value> =
        running.connections.iter().map(|connection| report.exchange_so_far(connection)).collect();
    records.extend(found.recorded.iter().map(|(worker, recorded)| report.record(*worker, recorded)));
    if records.is_empty() {
        let body = json!({ "error": "unknown", "id": id, "kept": kept(queries), "silent_workers": silent });
        return BufferedResponse::json(404, &body);
    }
    BufferedResponse::json(200, &json!({ "exchanges": records, "silent_workers": silent }))
}

/// The exchanges with this id, or those of the connection with this name: the running ones, and the finished ones.
fn named(id: &str) -> (ConnectionQuery, RecorderQuery) {
    let query = ConnectionQuery { count_max: SAME_ID_MAX, ..ConnectionQuery::default() };
    // Request ids of 128 bits in hexadecimal look like no connection, shorter ones of clients may.
    match id.parse().ok().filter(|_| id.starts_with('s')) {
        Some(connection) => {
            (ConnectionQuery { connection: Some(connection), ..query }, RecorderQuery::Connection(connection))
        }
        None => {
            let request_id = Some(id.as_bytes().into());
            (ConnectionQuery { request_id, ..query }, RecorderQuery::Id(id.as_bytes().into()))
        }
    }
}

/// The last failures, the newest first.
pub(super) async fn failures(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    match ExchangeQuery::read(request.query(), &["limit"]) {
        Err(what) => BufferedResponse::refused(400, &what),
        Ok(query) => {
            let found =
                operations.queries.ask(RecorderQuery::Failures, query.limit.unwrap_or(LIMIT_MAX)).await;
            list("failures", &found, &operations.queries)
        }
    }
}

/// The last exchanges that the query takes, the newest first.
pub(super) async fn recent(request: &AdminRequest, operations: &Operations) -> BufferedResponse {
    match ExchangeQuery::read(request.query(), &["limit", "upstream", "server", "status", "min_time"]) {
        Err(what) => BufferedResponse::refused(400, &what),
        Ok(query) => {
            let filter = query.filter(&operations.queries);
            let found =
                operations.queries.ask(RecorderQuery::Any(filter), query.limit.unwrap_or(LIMIT)).await;
            list("exchanges", &found, &operations.queries)
        }
    }
}

fn list(name: &str, found: &FoundExchanges, queries: &WorkerQueries) -> BufferedResponse {
    let report = ReportWriter::new(queries);
    let lines: Vec<Value> =
        found.recorded.iter().map(|(worker, recorded)| report.line(*worker, recorded)).collect();
    BufferedResponse::json(
        200,
        &json!({ name: lines, "kept": kept(queries), "silent_workers": found.silent }),
    )
}

/// How much is kept.
fn kept(queries: &WorkerQueries) -> Value {
    json!({
        "exchanges_per_worker": queries.limits.exchanges,
        "failures_per_worker": queries.limits.failures,
        "since": rfc3339(queries.since),
    })
}

/// `2-1841` is number 1841 of worker 2.
fn read_number(id: &str) -> Option<(usize, u64)> {
    let (worker, number) = id.split_once('-')?;
    Some((worker.parse().ok()?, number.parse().ok()?))
}

/// The parameters of a query for exchanges.
#[derive(Debug, Default, PartialEq, Eq)]
struct ExchangeQuery {
    limit: Option<usize>,
    upstream: Option<String>,
    server: Option<String>,
    status: Option<(u16, u16)>,
    min_time: Duration,
}

impl ExchangeQuery {
    fn read(query: &[u8], known: &[&str]) -> Result<Self, String> {
        only_known(query, known)?;
        let value =
            |name: &str| query_value(query, name.as_bytes()).map(decoded).filter(|text| !text.is_empty());
        let limit = value("limit").map(|text| match text.parse() {
            Ok(limit @ 1..=LIMIT_MAX) => Ok(limit),
            _ => Err(format!("`limit` is a number from 1 to {LIMIT_MAX}, not `{text}`")),
        });
        let status = value("status").map(|text| read_status(&text)).transpose()?;
        let min_time = value("min_time").map(|text| parse_duration(&text)).transpose();
        Ok(Self {
            limit: limit.transpose()?,
            upstream: value("upstream"),
            server: value("server"),
            status,
            min_time: min_time.map_err(|error| format!("`min_time`: {}", error.message))?.unwrap_or_default(),
        })
    }

    fn filter(&self, queries: &WorkerQueries) -> ExchangeFilter {
        let (upstream, server) = (self.upstream.as_deref(), self.server.as_deref());
        let places = (upstream.is_some() || server.is_some()).then(|| {
            let all = queries.names.all();
            all.iter().flat_map(|names| names.places(upstream, server)).collect()
        });
        ExchangeFilter { places, status: self.status, time_min: self.min_time }
    }
}

/// `503`, or `5xx` for a class.
fn read_status(text: &str) -> Result<(u16, u16), String> {
    let class = text
        .strip_suffix("xx")
        .and_then(|class| class.parse::<u16>().ok())
        .filter(|class| (1..=9).contains(class));
    match (class, text.parse::<u16>()) {
        (Some(class), _) => Ok((class * 100, class * 100 + 99)),
        (None, Ok(status @ 100..=999)) => Ok((status, status)),
        _ => Err(format!("`status` is a number such as 503, or a class such as 5xx, not `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_from_the_query() {
        let known = ["limit", "upstream", "server", "status", "min_time"];
        let expected = ExchangeQuery {
            limit: Some(5),
            upstream: Some("app".into()),
            server: Some("10.0.0.1:80".into()),
            status: Some((500, 599)),
            min_time: Duration::from_millis(1500),
        };
        let query = b"limit=5&upstream=app&server=10.0.0.1%3A80&status=5xx&min_time=1500ms";
        assert_eq!(ExchangeQuery::read(query, &known), Ok(expected));
        assert_eq!(ExchangeQuery::read(b"", &known), Ok(ExchangeQuery::default()));
        for (query, what) in [
            ("limit=0", "`limit` is a number from 1 to 1000, not `0`"),
            ("limit=1001", "`limit` is a number from 1 to 1000, not `1001`"),
            ("status=teapot", "`status` is a number such as 503, or a class such as 5xx, not `teapot`"),
            ("colour=red", "`colour` is not known here; there are limit, upstream, server, status, min_time"),
        ] {
            assert_eq!(ExchangeQuery::read(query.as_bytes(), &known), Err(what.to_owned()));
        }
        assert!(ExchangeQuery::read(b"min_time=soon", &known).is_err());
    }

    #[test]
    fn numbers_name_a_worker() {
        assert_eq!(read_number("2-1841"), Some((2, 1841)));
        assert_eq!((read_number("2"), read_number("a-b"), read_number("1-2-3")), (None, None, None));
    }
}
