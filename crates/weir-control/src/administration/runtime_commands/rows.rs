//! Running sessions and the last failures as rows of `show sess` and `show errors`.

use std::net::SocketAddr;

use weir_observe::haproxy::{ErrorRow, SessionRow};

use crate::administration::reports::{ReportWriter, client, unix_micros};
use crate::workers::connections::shown;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::peer::Peer;
use weir_proxy::state::connections::connection_list::ConnectionInfo;
use weir_proxy::state::tracing::recorder::{Entry, RecordedExchange};

/// A session that runs.
pub(super) fn connection_row(running: &ConnectionInfo, report: &ReportWriter) -> SessionRow {
    let now = clock::now();
    let entry = running.recorded.as_deref().map(|recorded| &recorded.entry);
    let places = entry.map(|entry| report.places(entry));
    let since = |at: Instant| now.saturating_duration_since(at);
    SessionRow {
        pointer: running.id.pointer(),
        id: running.id.to_string(),
        opened: unix_micros(running.opened_at),
        proto: match running.sender.unwrap_or(running.peer) {
            Peer::Inet(SocketAddr::V4(_)) => "tcpv4",
            Peer::Inet(SocketAddr::V6(_)) => "tcpv6",
            Peer::Unix => "unix_stream",
        },
        source: shown(running.peer),
        listener: running.listener.to_string(),
        mode: running.protocol.name(),
        is_tls: running.transport.is_encrypted(),
        upstream: places.as_ref().and_then(|places| places.upstream).map(str::to_owned),
        server: places.as_ref().and_then(|places| places.server).map(str::to_owned),
        age: since(running.opened_at),
        state: running.state(),
        state_age: since(running.since),
        awaited: running.activity.awaited(),
        requests: running.requests,
        request_id: entry.map(|entry| entry.words.id().to_vec()).unwrap_or_default(),
        request: entry.map(asked).unwrap_or_default(),
        attempts: entry.map_or(0, |entry| entry.attempts),
        bytes: entry.map_or((0, 0), |entry| (entry.bytes_in, entry.bytes_out)),
    }
}

/// A failure.
pub(super) fn error_row(
    worker: usize,
    recorded: &RecordedExchange,
    report: &ReportWriter,
) -> Option<ErrorRow> {
    let entry = &recorded.entry;
    let places = report.places(entry);
    Some(ErrorRow {
        at: unix_micros(entry.ended),
        number: format!("{worker}-{}", entry.number),
        listener: places.listener.unwrap_or("-").to_owned(),
        upstream: places.upstream.map(str::to_owned),
        server: places.server.map(str::to_owned),
        source: client(entry),
        request_id: entry.words.id().to_vec(),
        request: asked(entry),
        took: entry.ended.saturating_duration_since(entry.began),
        failure: entry.failure?,
    })
}

/// Method and path, or their replacement.
fn asked(entry: &Entry) -> Vec<u8> {
    let words = [entry.words.method(), entry.words.path()];
    // A session that has sent no request has the default method and no path.
    if words[1].is_empty() { Vec::new() } else { words.join(&b' ').trim_ascii_start().to_vec() }
}
