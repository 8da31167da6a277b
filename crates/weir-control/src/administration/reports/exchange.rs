//! An exchange as JSON: a line of a list, or its whole record.

use std::time::Duration;

use serde_json::{Map, Value, json};
use weir_observe::access_log::UnixMicros;
use weir_observe::{CacheResult, Failure, Party, Phase};
use weir_traffic::Eligibility;

use super::{ReportWriter, client, millis, rfc3339, unix_micros};
use crate::workers::connections::shown;
use crate::workers::worker_queries::KnownListener;
use weir_proxy::net::clock::Instant;
use weir_proxy::state::connections::connection_list::ConnectionId;
use weir_proxy::state::snapshot::SourceStatement;
use weir_proxy::state::tracing::recorder::{
    ATTEMPTS_KEPT, Decision, Entry, EntryKind, NONE, RecordedExchange, TracedAttempt,
};

/// Where each failure is described.
const FAILURES: &str = "docs/failures.md";

impl ReportWriter {
    /// The fields of a list.
    pub(crate) fn line(&self, worker: usize, recorded: &RecordedExchange) -> Value {
        Value::Object(self.outline(worker, &recorded.entry))
    }

    pub(crate) fn outline(&self, worker: usize, entry: &Entry) -> Map<String, Value> {
        let names = self.names(entry.generation);
        let listener = names.and_then(|names| names.listener(entry.listener));
        let served = self.names(entry.served_generation);
        let upstream = served.and_then(|names| names.upstream(entry.upstream));
        let number = format!("{worker}-{}", entry.number);
        let id = lossy(entry.words.id());
        let mut fields = Map::new();
        let mut put = |key: &str, value: Value| {
            fields.insert(key.to_owned(), value);
        };
        put("id", if id.is_empty() { number.clone().into() } else { id.into() });
        put("number", number.clone().into());
        let connection = ConnectionId { worker, number: entry.connection };
        put("connection", (entry.connection > 0).then(|| connection.to_string()).into());
        put("trace_id", trace_id(entry.trace_id));
        put("link", format!("/api/exchanges/{number}").into());
        put("time", rfc3339(entry.began).into());
        put("kind", kind(entry.kind).into());
        put("listener", listener.map(|listener| &*listener.name).into());
        put("client", client(entry).into());
        let has_request = entry.kind != EntryKind::NoRequest;
        put("method", text(if has_request { entry.words.method() } else { b"" }));
        put("path", text(entry.words.path()));
        put("host", text(entry.words.host()));
        put("route", listener.and_then(|listener| listener.route(entry.route)).map(|(name, _)| name).into());
        put("upstream", upstream.map(|upstream| &*upstream.name).into());
        put(
            "server",
            upstream.and_then(|upstream| upstream.server(entry.server, entry.served_revision)).into(),
        );
        put("status", if entry.status == 0 { Value::Null } else { entry.status.into() });
        put("attempts", entry.attempts.into());
        put("total_ms", millis(entry.ended.saturating_duration_since(entry.began)));
        put("failure", entry.failure.map_or(Value::Null, failure));
        fields
    }

    /// Everything that is known.
    pub(crate) fn record(&self, worker: usize, recorded: &RecordedExchange) -> Value {
        let entry = &recorded.entry;
        let mut fields = self.outline(worker, entry);
        let names = self.names(entry.generation);
        let listener = names.and_then(|names| names.listener(entry.listener));
        let upstream = self.names(entry.served_generation).and_then(|names| names.upstream(entry.upstream));
        let mut put = |key: &str, value: Value| {
            fields.insert(key.to_owned(), value);
        };
        put("generation", entry.generation.into());
        put("names_known", names.is_some().into());
        put("words_cut", entry.words.is_cut.into());
        put("normal_path", normal_path(entry, listener));
        put("tls", entry.transport.is_encrypted().into());
        put("transport", entry.transport.name().into());
        put("peer", shown(entry.peer).into());
        put("rule", listener.and_then(|listener| listener.route(entry.route)).map(|(_, rule)| rule).into());
        put("stopped_by", names.and_then(|names| names.rule(entry.stopped_by)).into());
        put("balance", upstream.map(|upstream| upstream.balance).into());
        let source = upstream.and_then(|upstream| upstream.source.as_ref()?.said());
        put("source", source.map_or(Value::Null, |said| source_of(&said, unix_micros(entry.began))));
        put("affinity", entry.kept.map(weir_observe::AffinityOutcome::name).into());
        put("cache", entry.cache.0.map(CacheResult::as_str).into());
        put("cache_reason", entry.cache.1.into());
        put("bytes_in", entry.bytes_in.into());
        put("bytes_out", entry.bytes_out.into());
        put("answered_by", answered_by(entry).into());
        let waited = Duration::from_micros(entry.times[Phase::Queue].into());
        put("queue", json!({ "waited_ms": millis(waited), "ahead": entry.queue_position }));
        let seen = usize::from(entry.attempts_seen);
        put("attempts_omitted", seen.saturating_sub(ATTEMPTS_KEPT).into());
        let mut failed_on = Vec::new();
        let mut attempts = Vec::new();
        let traced: Vec<&TracedAttempt> = recorded.attempts().collect();
        for (at, noted) in traced.iter().enumerate() {
            let server =
                |place: u32| upstream.and_then(|upstream| upstream.server(place, entry.served_revision));
            let is_last = at + 1 == traced.len();
            attempts.push(attempt(entry, noted, &failed_on, is_last, server));
            failed_on.push(noted.server);
        }
        put("attempt_list", attempts.into());
        let phases = Phase::ALL.into_iter().filter(|phase| entry.times[*phase] > 0);
        let spent = |phase: Phase| millis(Duration::from_micros(entry.times[phase].into()));
        put("phases", phases.map(|phase| json!({ "phase": phase.name(), "ms": spent(phase) })).collect());
        put("ended", ended(entry));
        Value::Object(fields)
    }
}

/// The id of a trace as it is written everywhere; null without one.
fn trace_id(id: [u8; 16]) -> Value {
    match u128::from_be_bytes(id) {
        0 => Value::Null,
        id => format!("{id:032x}").into(),
    }
}

/// A failure in the words of the log and of docs/failures.md.
fn failure(failure: Failure) -> Value {
    let explanation = failure.explanation();
    json!({
        "reason": failure.reason(),
        "phase": failure.phase.name(),
        "party": failure.party.name(),
        "cause": failure.cause.name(),
        "status": failure.log_status(),
        "happened": explanation.happened,
        "change": explanation.change,
        "read": format!("{FAILURES}#{}", failure.reason()),
    })
}

fn attempt<'a>(
    entry: &Entry,
    noted: &TracedAttempt,
    failed_on: &[u32],
    is_last: bool,
    server: impl Fn(u32) -> Option<&'a str>,
) -> Value {
    let since = |at: Instant| at.saturating_duration_since(entry.began);
    let ends = noted.failed_at.or((is_last && noted.failure.is_some()).then_some(entry.ended));
    let candidates: Vec<Value> = noted
        .candidates()
        .map(|(place, glance)| {
            let is_chosen = place == noted.server;
            let standing = match (is_chosen, failed_on.contains(&place)) {
                (true, _) => Eligibility::Eligible,
                (false, true) => Eligibility::Excluded,
                (false, false) => glance.eligibility(),
            };
            json!({
                "server": server(place),
                // The slot of this exchange was taken already.
                "in_flight": glance.in_flight.saturating_sub(u32::from(is_chosen)),
                "weight": glance.weight(),
                "chosen": is_chosen,
                "eligible": standing == Eligibility::Eligible,
                "eligibility": standing.sentence(),
            })
        })
        .collect();
    let is_reused = noted.opened_at.is_some_and(|opened_at| opened_at < noted.began);
    let connection = noted.opened_at.map_or(Value::Null, |opened_at| {
        json!({
            "reused": is_reused,
            "age_ms": millis(noted.began.saturating_duration_since(opened_at)),
            "carried": noted.carried,
        })
    });
    json!({
        "server": server(noted.server),
        "no_server": noted.server == NONE,
        "began_ms": millis(since(noted.began)),
        "lasted_ms": ends.map(|at| millis(at.saturating_duration_since(noted.began))),
        "connection": connection,
        "failure": noted.failure.filter(|_| noted.status == 0).map(failure),
        "refused_status": (noted.status != 0).then_some(noted.status),
        "sent_any": noted.sent_any,
        "received_any": noted.received_any,
        "decision": decision(noted.decision),
        "servers": noted.servers,
        "candidates": candidates,
    })
}

/// What names the servers, and how old its last word was when the exchange began: negative where it came later.
fn source_of(said: &SourceStatement, began: UnixMicros) -> Value {
    let age_ms = i64::try_from(began.0 / 1000).unwrap_or(i64::MAX).saturating_sub_unsigned(said.said_at_ms);
    json!({
        "name": &*said.source,
        "said_at": rfc3339_of(said.said_at_ms),
        "age_ms": age_ms,
        "is_stale": said.is_stale,
        "problem": said.problem.as_deref(),
    })
}

fn rfc3339_of(unix_ms: u64) -> String {
    String::from_utf8_lossy(&UnixMicros(unix_ms.saturating_mul(1000)).rfc3339()).into_owned()
}

fn decision(decision: Decision) -> Value {
    match decision {
        Decision::None => Value::Null,
        Decision::Again => "again".into(),
        Decision::Fresh => "again-on-new-connection".into(),
        Decision::Part => "again-for-part".into(),
        Decision::Unconditional => "again-without-conditions".into(),
        Decision::Confirmed => "again-after-handshake".into(),
        Decision::GiveUp(reason) => reason.name().into(),
    }
}

/// The party that ended it first, and how.
fn ended(entry: &Entry) -> Value {
    let (by, how) = match (entry.failure, entry.ended_by) {
        (Some(failure), _) => {
            let (party, closing) = failure.closing();
            (party, closing.name())
        }
        (None, Some(party)) => (party, "closed"),
        (None, None) if entry.client_stays => return json!({ "by": Value::Null, "how": "kept" }),
        (None, None) => (Party::Weir, "closed"),
    };
    json!({ "by": by.name(), "how": how })
}

fn answered_by(entry: &Entry) -> Option<&'static str> {
    if entry.status == 0 {
        return None;
    }
    let is_stored =
        entry.cache.0.is_some_and(|result| !matches!(result, CacheResult::Miss | CacheResult::Bypass));
    if is_stored && entry.failure.is_none() {
        return Some("cache");
    }
    let by_weir = entry.server == NONE || entry.failure.is_some_and(|failure| failure.phase < Phase::Relay);
    Some(if by_weir { "weir" } else { "server" })
}

fn kind(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Request => "request",
        EntryKind::Tunnel => "tunnel",
        EntryKind::TcpConnection => "connection",
        EntryKind::NoRequest => "no-request",
    }
}

/// The form of the path on which rules were matched, where it came in another.
fn normal_path(entry: &Entry, listener: Option<&KnownListener>) -> Value {
    let Some(listener) = listener.filter(|_| !entry.words.is_cut && !entry.words.method().is_empty()) else {
        return Value::Null;
    };
    let mut normal = Vec::new();
    weir_http::write_normal_path(&mut normal, entry.words.path(), listener.encoded_slash);
    if normal == entry.words.path() { Value::Null } else { text(&normal) }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes of a peer; null where there are none.
fn text(bytes: &[u8]) -> Value {
    if bytes.is_empty() { Value::Null } else { lossy(bytes).into() }
}
