//! `show errors`: failures since the start by reason, and the last ones one by one.

use std::fmt::Write as _;
use std::time::Duration;

use crate::access_log::UnixMicros;
use crate::failure::Failure;
use crate::overview::Overview;

/// One of the last failures.
#[derive(Debug, Clone)]
pub struct ErrorRow {
    /// When it came to its end.
    pub at: UnixMicros,
    /// The number of its trace.
    pub number: String,
    /// Where it came in.
    pub listener: String,
    /// Where it went, once that was decided.
    pub upstream: Option<String>,
    /// The server of the last attempt.
    pub server: Option<String>,
    /// The client.
    pub source: String,
    /// The id of the request; empty if it has none.
    pub request_id: Vec<u8>,
    /// Method and path; of a head that could not be read, its beginning; empty if nothing was asked.
    pub request: Vec<u8>,
    /// How long it took.
    pub took: Duration,
    /// The failure.
    pub failure: Failure,
}

/// `show errors`: the counts since the start, at the listeners where they occurred, then `last`, the newest first.
pub fn errors(overview: &Overview, last: &[ErrorRow]) -> String {
    let at = UnixMicros(overview.process.at_ms.saturating_mul(1000)).haproxy();
    let failures = || {
        let of = |listener: &'_ crate::overview::ListenerOverview| listener.failures.clone();
        overview
            .listeners
            .iter()
            .flat_map(move |listener| of(listener).into_iter().map(move |failure| (listener, failure)))
    };
    let total: u64 = failures().map(|(_, failure)| failure.count).sum();
    let mut text = format!("Total events captured on [{}] : {total}\n", String::from_utf8_lossy(&at));
    for (listener, failure) in failures() {
        text.push_str(&format!(
            "  frontend {}: {} x {}, by the {}, in phase {}\n",
            listener.name,
            failure.count,
            failure.reason,
            failure.party,
            failure.phases.join(" or "),
        ));
    }
    for row in last {
        one(row, &mut text);
    }
    text
}

// Writing to a `String` does not fail.
fn one(row: &ErrorRow, text: &mut String) {
    let at = row.at.haproxy();
    let failure = row.failure;
    let _fits = write!(
        text,
        "\n[{}] frontend {}: {}\n  backend {}, server {}, event #{}, src {}\n  phase {}, party {}, after {} ms\n",
        String::from_utf8_lossy(&at),
        row.listener,
        failure.reason(),
        row.upstream.as_deref().unwrap_or("<NONE>"),
        row.server.as_deref().unwrap_or("<NONE>"),
        row.number,
        row.source,
        failure.phase.name(),
        failure.party.name(),
        row.took.as_millis(),
    );
    if !row.request.is_empty() || !row.request_id.is_empty() {
        let (request, id) = (row.request.escape_ascii(), row.request_id.escape_ascii());
        let _fits = writeln!(text, "  request \"{request}\", id {id}");
    }
    let _fits = writeln!(text, "  {}", failure.explanation().happened);
}
