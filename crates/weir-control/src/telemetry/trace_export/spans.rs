//! What a sampled exchange is in spans: one of the exchange, one of each attempt on a server, one of its wait in the queue.
//!
//! Names by the semantic conventions of OpenTelemetry for HTTP, 1.x; what they have no word for is called `weir.*`. The query is told
//! nowhere, as in the recorder. Pure: names and times come in.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use weir_config::ServerAddress;
use weir_http::WallTime;
use weir_observe::{Failure, Party, Phase};

use crate::workers::worker_queries::GenerationNames;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::peer::Peer;
use weir_proxy::state::tracing::recorder::{ATTEMPTS_KEPT, Decision, Entry, EntryKind, NONE, TracedAttempt};
use weir_proxy::state::tracing::trace_queue::SampledExchange;

/// One moment on both clocks, from which times of exchanges are reckoned.
pub(super) struct ClockReading {
    at: Instant,
    date: WallTime,
}

impl ClockReading {
    pub(super) fn now() -> Self {
        Self { at: clock::now(), date: clock::date() }
    }

    fn system_time(&self, at: Instant) -> SystemTime {
        (self.date - self.at.saturating_duration_since(at)).into()
    }
}

/// A sampled exchange beside what there is to know about its places.
struct SpanSource<'a> {
    sampled: &'a SampledExchange,
    entry: &'a Entry,
    /// Of the config that its listener and route are of.
    names: Option<&'a GenerationNames>,
    /// Of the config that its upstream and servers are of.
    served: Option<&'a GenerationNames>,
    moment: &'a ClockReading,
}

/// All spans of an exchange, its own first.
pub(super) fn spans_of(
    sampled: &SampledExchange,
    names: &[Arc<GenerationNames>],
    moment: &ClockReading,
) -> Vec<SpanData> {
    let entry = &sampled.recorded.entry;
    let of =
        |generation: u64| names.iter().map(|names| &**names).find(|names| names.generation == generation);
    let (names, served) = (of(entry.generation), of(entry.served_generation));
    let source = SpanSource { sampled, entry, names, served, moment };
    let mut spans = vec![source.exchange()];
    spans.extend(source.queue());
    let traced: Vec<&TracedAttempt> = sampled.recorded.attempts().collect();
    for (at, noted) in traced.iter().enumerate() {
        // Where no server could take it, nothing was attempted.
        if noted.server != NONE {
            let is_last = at + 1 == traced.len();
            spans.push(source.attempt(noted, number(at, entry.attempts_seen), is_last));
        }
    }
    spans
}

/// How many spans an exchange has.
pub(super) fn span_count(sampled: &SampledExchange) -> u64 {
    let entry = &sampled.recorded.entry;
    let attempts = sampled.recorded.attempts().filter(|noted| noted.server != NONE).count();
    1 + u64::from(has_queue_span(entry)) + attempts as u64
}

fn has_queue_span(entry: &Entry) -> bool {
    entry.times[Phase::Queue] != 0 && entry.attempts_seen <= 1
}

/// The number of an attempt from its place among those that were noted: the first ones, and the last.
fn number(at: usize, seen: u8) -> u8 {
    if at + 1 == ATTEMPTS_KEPT { seen } else { at as u8 + 1 }
}

impl SpanSource<'_> {
    /// A span with nothing in it yet.
    fn blank(&self, id: u64, parent: u64, kind: SpanKind, (begin, end): (Instant, Instant)) -> SpanData {
        let trace_id = TraceId::from(self.sampled.own.traceparent.trace_id);
        let state = TraceState::default();
        SpanData {
            span_context: SpanContext::new(trace_id, SpanId::from(id), TraceFlags::SAMPLED, false, state),
            parent_span_id: SpanId::from(parent),
            parent_span_is_remote: false,
            span_kind: kind,
            name: "".into(),
            start_time: self.moment.system_time(begin),
            end_time: self.moment.system_time(end.max(begin)),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("weir")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }

    /// The span of the exchange itself.
    fn exchange(&self) -> SpanData {
        let (own, entry) = (&self.sampled.own, self.entry);
        let mut span =
            self.blank(own.traceparent.span_id, own.parent_id, SpanKind::Server, (entry.began, entry.ended));
        span.parent_span_is_remote = own.parent_id != 0;
        let (method, template) = (self.method(), self.template());
        span.name = match template {
            Some(template) => format!("{method} {template}").into(),
            None => method.to_owned().into(),
        };
        let mut attributes = SpanAttributes(&mut span.attributes);
        self.put_request(&mut attributes);
        attributes.put("http.route", template.map(str::to_owned));
        self.put_client(&mut attributes);
        self.put_places(&mut attributes);
        attributes.put("http.response.status_code", (entry.status != 0).then_some(i64::from(entry.status)));
        attributes.put("weir.request_id", text(entry.words.id()));
        attributes.put("weir.attempts", Some(i64::from(entry.attempts)));
        attributes.put("weir.received_bytes", i64::try_from(entry.bytes_in).ok());
        attributes.put("weir.sent_bytes", i64::try_from(entry.bytes_out).ok());
        attributes.put("weir.tunnel", (entry.kind == EntryKind::Tunnel).then_some(true));
        attributes.put("weir.affinity", entry.kept.map(weir_observe::AffinityOutcome::name));
        for phase in Phase::ALL {
            let micros = entry.times[phase];
            let name = format!("weir.phase.{}", phase.name());
            attributes.put(name, (micros > 0).then_some(micros as f64 / 1e6));
        }
        self.tell_failure(&mut span);
        span
    }

    /// How it ended. A client that went away, or asked for what there is not, is no error of a server.
    fn tell_failure(&self, span: &mut SpanData) {
        let entry = self.entry;
        let mut attributes = SpanAttributes(&mut span.attributes);
        attributes.put("weir.failure", entry.failure.map(Failure::reason));
        attributes.put("weir.failure.party", entry.failure.map(|failure| failure.party.name()));
        let is_error = match entry.failure {
            Some(failure) => entry.status >= 500 || failure.party != Party::Client && entry.status < 400,
            None => entry.status >= 500,
        };
        if is_error {
            let kind = entry.failure.map_or_else(|| entry.status.to_string(), |why| why.reason().to_owned());
            attributes.put("error.type", Some(kind));
            span.status = Status::error(entry.failure.map_or("", |failure| failure.explanation().happened));
        }
    }

    /// The span of the wait for a server, if it waited once.
    fn queue(&self) -> Option<SpanData> {
        let (own, entry) = (&self.sampled.own, self.entry);
        if !has_queue_span(entry) {
            return None;
        }
        let waited = Duration::from_micros(entry.times[Phase::Queue].into());
        // An exchange that got no server is recorded at the beginning of its wait.
        let first = self.sampled.recorded.attempts().next().filter(|noted| noted.server != NONE);
        let end = first.map_or(entry.ended, |noted| noted.began);
        let begin = end - waited;
        let (id, parent) = (own.queue_id(), own.traceparent.span_id);
        let mut span = self.blank(id, parent, SpanKind::Internal, (begin, end));
        span.name = "queue".into();
        let mut attributes = SpanAttributes(&mut span.attributes);
        attributes.put("weir.upstream", self.upstream());
        attributes.put("weir.queue.ahead", Some(i64::from(entry.queue_position)));
        Some(span)
    }

    /// The span of an attempt.
    fn attempt(&self, noted: &TracedAttempt, number: u8, is_last: bool) -> SpanData {
        let (own, entry) = (&self.sampled.own, self.entry);
        let ended = noted.failed_at.unwrap_or(entry.ended);
        let (id, parent) = (own.attempt_id(number), own.traceparent.span_id);
        let mut span = self.blank(id, parent, SpanKind::Client, (noted.began, ended));
        span.name = self.method().to_owned().into();
        if let Some(opened_at) = noted.opened_at.filter(|opened_at| *opened_at >= noted.began) {
            let at = self.moment.system_time(opened_at);
            let mut events = SpanEvents::default();
            events.events.push(Event::new("connected", at, Vec::new(), 0));
            span.events = events;
        }
        let mut attributes = SpanAttributes(&mut span.attributes);
        attributes.method(entry.words.method());
        self.put_server(&mut attributes, noted.server);
        attributes.put("network.protocol.version", noted.opened_at.map(|_| "1.1"));
        attributes.put("http.request.resend_count", (number > 1).then(|| i64::from(number) - 1));
        attributes.put("weir.connection.reused", noted.opened_at.map(|opened_at| opened_at < noted.began));
        attributes.put("weir.retry", decision(noted.decision));
        let failure = noted.failure.filter(|_| noted.status == 0);
        let status = match noted.failure {
            Some(_) => noted.status,
            // The status of the exchange is that of the server, unless Weir has answered in its place.
            None if is_last && entry.failure.is_none_or(|failure| failure.phase >= Phase::Relay) => {
                entry.status
            }
            None => 0,
        };
        attributes.put("http.response.status_code", (status != 0).then_some(i64::from(status)));
        // A failure of the exchange behind the head of the response, too, is one of its last attempt.
        let failure = failure.or(entry.failure.filter(|_| is_last && noted.failure.is_none()));
        if failure.is_some() || status >= 400 {
            let kind = failure.map_or_else(|| status.to_string(), |why| why.reason().to_owned());
            attributes.put("error.type", Some(kind));
            span.status = Status::error(failure.map_or("", |failure| failure.explanation().happened));
        }
        span
    }

    /// What both sides of it know of the request.
    fn put_request(&self, attributes: &mut SpanAttributes<'_>) {
        let (entry, words) = (self.entry, &self.entry.words);
        attributes.method(words.method());
        let has_head = !words.method().is_empty();
        attributes.put("url.scheme", Some(if entry.transport.is_encrypted() { "https" } else { "http" }));
        if has_head {
            attributes.put("url.path", text(words.path()));
            let (host, port) = host_and_port(words.host());
            attributes.put("server.address", text(host));
            attributes.put("server.port", port.map(i64::from));
            let version = if self.sampled.own.is_http_10 { "1.0" } else { "1.1" };
            attributes.put("network.protocol.version", Some(version));
        }
    }

    fn put_client(&self, attributes: &mut SpanAttributes<'_>) {
        let peer = match self.entry.peer {
            Peer::Inet(addr) => Some(addr),
            Peer::Unix => None,
        };
        let client = self.entry.client.or(peer.map(|addr| addr.ip()));
        attributes.put("client.address", client.map(|ip: IpAddr| ip.to_canonical().to_string()));
        attributes.put("network.peer.address", peer.map(|addr| addr.ip().to_canonical().to_string()));
        attributes.put("network.peer.port", peer.map(|addr| i64::from(addr.port())));
    }

    fn put_places(&self, attributes: &mut SpanAttributes<'_>) {
        let listener = self.names.and_then(|names| names.listener(self.entry.listener));
        attributes.put("weir.listener", listener.map(|listener| listener.name.to_string()));
        let route = listener.and_then(|listener| listener.route(self.entry.route));
        attributes.put("weir.route", route.map(|(name, _)| name.to_owned()));
        attributes.put("weir.upstream", self.upstream());
        attributes.put("weir.server", self.server_name(self.entry.server));
    }

    /// Who was asked, and for what.
    fn put_server(&self, attributes: &mut SpanAttributes<'_>, place: u32) {
        attributes.put("weir.upstream", self.upstream());
        attributes.put("weir.server", self.server_name(place));
        let upstream = self.served.and_then(|names| names.upstream(self.entry.upstream));
        let Some(server) =
            upstream.and_then(|upstream| upstream.server_names(place, self.entry.served_revision))
        else {
            return;
        };
        let (host, port) = match &server.address {
            ServerAddress::Ip(addr) => (addr.ip().to_string(), Some(addr.port())),
            ServerAddress::Name { host, port } => (host.to_string(), Some(*port)),
            ServerAddress::Unix(path) => (path.display().to_string(), None),
        };
        attributes.put("server.address", Some(host));
        attributes.put("server.port", port.map(i64::from));
        // A server at a path has no URL, and a tunnel does not keep whether its path was rewritten.
        if port.is_some() && self.entry.kind == EntryKind::Request {
            let path = self.sampled.rewritten.as_deref().unwrap_or(self.entry.words.path());
            let scheme = if upstream.is_some_and(|upstream| upstream.is_tls) { "https" } else { "http" };
            attributes.put(
                "url.full",
                Some(format!("{scheme}://{}{}", server.address, String::from_utf8_lossy(path))),
            );
        }
    }

    fn upstream(&self) -> Option<String> {
        let upstream = self.served.and_then(|names| names.upstream(self.entry.upstream));
        upstream.map(|upstream| upstream.name.to_string())
    }

    fn server_name(&self, place: u32) -> Option<String> {
        let upstream = self.served.and_then(|names| names.upstream(self.entry.upstream));
        upstream.and_then(|upstream| upstream.server(place, self.entry.served_revision)).map(str::to_owned)
    }

    /// What the paths of the route have in common.
    fn template(&self) -> Option<&str> {
        let listener = self.names.and_then(|names| names.listener(self.entry.listener))?;
        listener.route_names(self.entry.route)?.template.as_deref()
    }

    /// What the conventions call the method in the name of a span.
    fn method(&self) -> &str {
        match known_method(self.entry.words.method()) {
            Some(method) => method,
            None => "HTTP",
        }
    }
}

/// The attributes of a span.
struct SpanAttributes<'a>(&'a mut Vec<KeyValue>);

impl SpanAttributes<'_> {
    fn put(&mut self, name: impl Into<opentelemetry::Key>, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.push(KeyValue::new(name, value));
        }
    }

    /// Methods that the conventions do not know are told apart from those that they know.
    fn method(&mut self, method: &[u8]) {
        let known = known_method(method);
        self.put("http.request.method", Some(known.unwrap_or("_OTHER").to_owned()));
        self.put("http.request.method_original", text(method).filter(|_| known.is_none()));
    }
}

fn known_method(method: &[u8]) -> Option<&'static str> {
    match weir_http::Method::recognise(method) {
        weir_http::Method::Other => None,
        method => Some(method.as_str()),
    }
}

/// Bytes of a peer; nothing where there are none.
fn text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
}

/// The host of an authority without brackets, and its port.
fn host_and_port(authority: &[u8]) -> (&[u8], Option<u16>) {
    let end = authority.iter().rposition(|byte| *byte == b']').map_or(0, |bracket| bracket + 1);
    let colon = authority[end..].iter().position(|byte| *byte == b':').map(|colon| end + colon);
    let (host, port) = match colon {
        Some(colon) => (&authority[..colon], std::str::from_utf8(&authority[colon + 1..]).ok()),
        None => (authority, None),
    };
    let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
    (bare.unwrap_or(host), port.and_then(|port| port.parse().ok()))
}

/// What was decided after an attempt that failed, in the words of `weir why`.
fn decision(decision: Decision) -> Option<&'static str> {
    match decision {
        Decision::None => None,
        Decision::Again => Some("again"),
        Decision::Fresh => Some("again-on-new-connection"),
        Decision::Part => Some("again-for-part"),
        Decision::Unconditional => Some("again-without-conditions"),
        Decision::Confirmed => Some("again-after-handshake"),
        Decision::GiveUp(reason) => Some(reason.name()),
    }
}

#[cfg(test)]
mod tests;
