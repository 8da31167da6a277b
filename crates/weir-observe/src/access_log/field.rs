//! The placeholders of a log format: their names, their meaning, and their value in a record.
//!
//! A value is found without allocating: numbers and borrowed bytes as they are, times and addresses in a small scratch
//! buffer. Escaping is not done here.

use std::fmt::Write;
use std::net::SocketAddr;

use super::mask::Mask;
use super::record::ExchangeRecord;
use crate::failure::{Failure, Party};
use crate::words::affinity::AffinityOutcome;
use crate::words::cache_result::CacheResult;
use crate::words::phase::Phase;

/// Declares the placeholders without parameters.
macro_rules! fields {
    ($($variant:ident $name:literal $doc:literal,)+) => {
        /// The meaning of a placeholder.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(super) enum LogField {
            $(#[doc = $doc] $variant,)+
            /// Time in one phase.
            Phase(Phase),
            /// A field of the request, by its lower-case name.
            RequestHeader(Box<str>),
            /// A field of the response, by its lower-case name.
            ResponseHeader(Box<str>),
            /// A cookie of the request.
            Cookie(Box<str>),
            /// A parameter of the query, as sent.
            QueryParameter(Box<str>),
            /// A claim of the token.
            TokenClaim(Box<str>),
            /// What a group of the path of the route has matched.
            MatchGroup(Box<str>),
            /// A value that the config defines itself, by its whole name.
            Named(Box<str>),
            /// Another one, of which something is hidden.
            Masked(Box<(LogField, Mask)>),
        }

        /// Name, field and meaning of every placeholder without parameters.
        pub(super) const PLAIN: &[(&str, LogField, &str)] = &[$(($name, LogField::$variant, $doc),)+];
    };
}

fields! {
    Time "time" "Start of the exchange, RFC 3339 with microseconds, UTC.",
    TimeClf "time.clf" "Start of the exchange as in the common log format, UTC.",
    TimeHaproxy "time.haproxy" "Start of the exchange as in HAProxy's log, UTC.",
    TimeSeconds "time.seconds" "Start of the exchange in seconds since 1970, with microseconds.",
    TimeMicros "time.us" "Start of the exchange in microseconds since 1970.",
    Listener "listener" "Name of the listener.",
    ClientAddress "client_address" "Address of the client, from a PROXY protocol header or a trusted proxy if there is one; `unix` on a Unix socket.",
    ClientPort "client_port" "Port of the client.",
    PeerAddress "peer_address" "Address of the peer of the client connection, regardless of PROXY protocol and trusted proxies.",
    PeerPort "peer_port" "Port of the peer of the client connection.",
    LocalAddress "local_address" "Address that the client connected to.",
    LocalPort "local_port" "Port that the client connected to.",
    ConnectionRequests "connection_requests" "Number of the request on its connection, from 1.",
    Method "method" "Method of the request.",
    Target "target" "Target of the request as received, but for bytes that `lenient.unencoded_target` has percent-encoded.",
    Path "path" "Path of the request, as received, or as a rewrite has made it.",
    Query "query" "`?` and the query of the request, as received.",
    Args "args" "Query of the request without `?`, as received.",
    Port "port" "Port that the request names, or else the usual one of its scheme.",
    Scheme "scheme" "`http` or `https`, by the connection of the client.",
    Version "version" "Protocol version of the request.",
    RequestLine "request_line" "Method, target and version.",
    Authority "authority" "Host of the request with the port, if it has one.",
    Host "host" "Host of the request without a port.",
    RequestId "request_id" "Id of the request.",
    TraceId "trace_id" "Trace id (W3C Trace Context), sampled or not; empty when traces are off.",
    UserAgent "user_agent" "Request field User-Agent.",
    Referer "referer" "Request field Referer.",
    Status "status" "Status that the client received, or else the status of the failure; 499 if the client closed the connection.",
    StatusSent "status_sent" "Status that the client received, if any.",
    GrpcStatus "grpc_status" "Status of a gRPC call, such as `ok` or `unavailable`; absent for other requests.",
    BytesIn "bytes_in" "Bytes received from the client.",
    BytesOut "bytes_out" "Bytes sent to the client.",
    BodyBytesIn "body_bytes_in" "Bytes of the request body.",
    BodyBytesOut "body_bytes_out" "Bytes of the response body that were sent.",
    Compression "compression" "How Weir has changed the response body: `gzip`, `br` or `zstd`, or `decompressed`; absent when it passed as it was.",
    CompressionRatio "compression.ratio" "How many times the response body was larger before Weir has compressed it, with two decimals.",
    Route "route" "Name of the route.",
    Upstream "upstream" "Name of the upstream.",
    Server "server" "Name of the server of the last attempt.",
    Attempts "attempts" "Attempts on servers.",
    Retries "retries" "Attempts after the first.",
    ServerConnection "server_connection" "`new` or `reused`: the server connection of the last attempt.",
    Tag "tag" "Text of the entry that the request is in, of a list with `action = \"tag\"`.",
    Limit "limit" "Name of the limit by key or of the list that has refused or delayed the request.",
    Cache "cache" "What the cache did: `hit`, `stale`, `revalidated`, `collapsed`, `miss` or `bypass`; absent without one.",
    CacheReason "cache.reason" "Why the response was not stored, or why a stale one was used.",
    ContentLength "content_length" "Length of the body of the request in bytes, as the client announces it.",
    QueuePosition "queue_position" "Exchanges ahead of this one in the queue; 0 without a queue.",
    Affinity "affinity" "Session affinity: `kept` on the server of the client, `moved` to another one, `new` without one, or `unavailable` where it may have no other one.",
    User "user" "User that the client has named (HTTP Basic), right or wrong, or `sub` of its token (JWT).",
    AuthStatus "auth.status" "Status of the answer to `forward_auth`.",
    AuthReason "auth.reason" "Reason code when `forward_auth` had no answer.",
    AuthTime "auth.time" "Time of `forward_auth` in microseconds; it is part of `phase.route`.",
    TlsVersion "tls.version" "Version of TLS with the client, `1.2` or `1.3`.",
    TlsCipherSuite "tls.cipher_suite" "Cipher suite with the client, by its IANA name.",
    TlsServerName "tls.server_name" "Server name in the TLS handshake of the client (SNI).",
    TlsSession "tls.session" "`new` or `resumed`: the TLS session of the client.",
    TlsEarlyData "tls.early_data" "`1` when the request came before the handshake of the client was over (0-RTT), as `$ssl_early_data` of nginx.",
    QuicRoundTrip "quic.rtt" "Round-trip time of the client's QUIC connection in seconds, with microseconds.",
    TlsClientSubject "tls.client.subject" "Subject of the client certificate (RFC 4514), if there is one.",
    TlsClientFingerprint "tls.client.fingerprint" "SHA-256 of the client certificate in hexadecimal, if there is one.",
    EndedBy "ended_by" "Party that closed a tunnel: `client`, `server`, or `weir` at a time limit. With a `reason`, the tunnel failed.",
    Duration "duration" "Time of the whole exchange in microseconds.",
    DurationMillis "duration.ms" "Time of the whole exchange in milliseconds.",
    DurationSeconds "duration.seconds" "Time of the whole exchange in seconds, with microseconds.",
    Reason "reason" "Reason code of the failure.",
    Failure "failure" "Phase, party and cause of the failure, as in `connect/server/refused`.",
    FailurePhase "failure.phase" "Phase of the failure.",
    FailureParty "failure.party" "Party of the failure.",
    FailureCause "failure.cause" "Cause of the failure.",
    Termination "termination" "Termination state of the exchange, in the letters of HAProxy's log.",
    TerminationTcp "termination.tcp" "Termination state of a connection, in the two letters of HAProxy's tcplog.",
    TimerRequest "timer.TR" "HAProxy's TR: milliseconds to read the request, or -1.",
    TimerQueue "timer.Tw" "HAProxy's Tw: milliseconds in the queue, or -1.",
    TimerConnect "timer.Tc" "HAProxy's Tc: milliseconds to connect, or -1.",
    TimerResponse "timer.Tr" "HAProxy's Tr: milliseconds from the connection to the response head, or -1.",
    TimerActive "timer.Ta" "HAProxy's Ta: milliseconds from the first byte of the request to the last of the response.",
    TimerTotal "timer.Tt" "HAProxy's Tt: milliseconds from the accept to the end.",
    LoadProcess "load.process" "Open client connections of the process.",
    LoadListener "load.listener" "Open client connections of the listener.",
    LoadUpstream "load.upstream" "Running exchanges of the upstream.",
    LoadServer "load.server" "Running exchanges of the server.",
    HaproxyBackend "haproxy.backend" "Name of the upstream, or of the listener when none was chosen.",
    HaproxyServer "haproxy.server" "Name of the server, or `<NOSRV>`.",
    HaproxyRequest "haproxy.request" "Method, target and version, or `<BADREQ>`.",
}

/// The value of a field in one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogValue<'a> {
    /// Nothing: `-` in text, `null` in JSON.
    Absent,
    /// A number that is not negative.
    Number(u64),
    /// A number with a fraction, in decimal digits.
    Decimal(&'a [u8]),
    /// -1, where HAProxy's timers have it.
    Minus,
    /// Printable ASCII that Weir computed itself, such as a time; needs no escaping.
    Own(&'a [u8]),
    /// Bytes that may come from a peer.
    Bytes(&'a [u8]),
    /// Method, target and version, to be joined by spaces.
    Line([&'a [u8]; 3]),
}

impl<'a> LogValue<'a> {
    fn bytes(bytes: &'a [u8]) -> LogValue<'a> {
        if bytes.is_empty() { LogValue::Absent } else { LogValue::Bytes(bytes) }
    }

    fn number(number: Option<impl Into<u64>>) -> LogValue<'a> {
        number.map_or(LogValue::Absent, |number| LogValue::Number(number.into()))
    }

    fn word(word: Option<&'a str>) -> LogValue<'a> {
        LogValue::bytes(word.unwrap_or_default().as_bytes())
    }
}

/// Room for a time, an address or three names; longer text is cut, which none of them can need.
pub(super) struct ValueBuf {
    bytes: [u8; ValueBuf::SIZE],
    len: usize,
    /// What has no such bound.
    text: Vec<u8>,
}

impl ValueBuf {
    const SIZE: usize = 96;

    pub(super) const fn new() -> ValueBuf {
        ValueBuf { bytes: [0; ValueBuf::SIZE], len: 0, text: Vec::new() }
    }

    fn hold(&mut self, text: &[u8]) -> LogValue<'_> {
        let room = &mut self.bytes[..text.len()];
        room.copy_from_slice(text);
        LogValue::Own(room)
    }

    fn fill(&mut self, write: impl FnOnce(&mut ValueBuf) -> std::fmt::Result) -> LogValue<'_> {
        self.len = 0;
        match write(self) {
            Ok(()) => LogValue::Own(&self.bytes[..self.len]),
            Err(_) => LogValue::Absent,
        }
    }
}

impl Write for ValueBuf {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl LogField {
    /// The value in a record; times and addresses are written to `scratch`.
    pub(super) fn value<'a>(&self, record: &ExchangeRecord<'a>, scratch: &'a mut ValueBuf) -> LogValue<'a> {
        match self {
            LogField::Phase(phase) => LogValue::Number(record.phases[*phase].into()),
            LogField::Named(name) => {
                scratch.text.clear();
                record.fields.write_named(name, &mut scratch.text);
                LogValue::bytes(&scratch.text)
            }
            LogField::Masked(masked) => masked.0.masked_value(&masked.1, record, scratch),
            LogField::Time => scratch.hold(&record.time.rfc3339()),
            LogField::TimeClf => scratch.hold(&record.time.clf()),
            LogField::TimeHaproxy => scratch.hold(&record.time.haproxy()),
            LogField::TimeSeconds => seconds(record.time.0, scratch),
            LogField::TimeMicros => LogValue::Number(record.time.0),

            LogField::ClientAddress => address(record.client, scratch),
            LogField::ClientPort => port(record.client),
            LogField::PeerAddress => address(record.peer, scratch),
            LogField::PeerPort => port(record.peer),
            LogField::LocalAddress => address(record.local, scratch),
            LogField::LocalPort => port(record.local),

            LogField::Listener => LogValue::bytes(record.listener.as_bytes()),
            LogField::ConnectionRequests => LogValue::Number(record.exchange_number),
            LogField::Route => LogValue::bytes(record.route.as_bytes()),
            LogField::Upstream => LogValue::bytes(record.upstream.as_bytes()),
            LogField::Server => LogValue::bytes(record.server.as_bytes()),
            LogField::Attempts => LogValue::Number(record.attempts.into()),
            LogField::Retries => LogValue::Number(record.retries().into()),
            LogField::ServerConnection => {
                LogValue::word(record.reused.map(|reused| if reused { "reused" } else { "new" }))
            }
            LogField::GrpcStatus => LogValue::word(record.grpc_status),
            LogField::Tag => LogValue::bytes(record.tag),
            LogField::Limit => LogValue::bytes(record.limit.as_bytes()),
            LogField::Cache => LogValue::word(record.cache.map(CacheResult::as_str)),
            LogField::CacheReason => LogValue::word(record.cache_reason),
            LogField::ContentLength => record.content_length.map_or(LogValue::Absent, LogValue::Number),
            LogField::QueuePosition => LogValue::Number(record.queue_position.into()),
            LogField::Affinity => LogValue::word(record.kept.map(AffinityOutcome::name)),
            LogField::Compression => LogValue::word(record.compression),
            LogField::EndedBy => LogValue::word(record.ended_by.map(Party::name)),

            LogField::TlsVersion => LogValue::word(record.tls.map(|tls| tls.version)),
            LogField::TlsCipherSuite => LogValue::word(record.tls.map(|tls| tls.cipher_suite)),
            LogField::TlsServerName => LogValue::word(record.tls.map(|tls| tls.server_name)),
            LogField::TlsEarlyData => LogValue::word(record.tls.filter(|tls| tls.early).map(|_| "1")),
            LogField::QuicRoundTrip => match record.tls.and_then(|tls| tls.round_trip_micros) {
                Some(micros) => seconds(micros.into(), scratch),
                None => LogValue::word(None),
            },
            LogField::TlsClientSubject => LogValue::word(record.tls.map(|tls| tls.client_subject)),
            LogField::TlsClientFingerprint => LogValue::word(record.tls.map(|tls| tls.client_fingerprint)),
            LogField::TlsSession => {
                LogValue::word(record.tls.map(|tls| if tls.resumed { "resumed" } else { "new" }))
            }

            LogField::BytesIn => LogValue::Number(record.bytes_in),
            LogField::BytesOut => LogValue::Number(record.bytes_out),
            LogField::BodyBytesIn => LogValue::Number(record.body_bytes_in),
            LogField::BodyBytesOut => LogValue::Number(record.body_bytes_out),
            LogField::LoadProcess => LogValue::Number(record.load.process.into()),
            LogField::LoadListener => LogValue::Number(record.load.listener.into()),
            LogField::LoadUpstream => LogValue::Number(record.load.upstream.into()),
            LogField::LoadServer => LogValue::Number(record.load.server.into()),

            _ => self.message_value(record).unwrap_or_else(|| self.outcome_value(record, scratch)),
        }
    }

    /// The field itself, without what hides a part of it.
    pub(super) fn whole(&self) -> &LogField {
        if let LogField::Masked(masked) = self { &masked.0 } else { self }
    }

    /// Whether a mask of this kind fits.
    pub(super) fn can_hide(&self, mask: &Mask) -> bool {
        match mask {
            Mask::Network(..) => {
                matches!(self, LogField::ClientAddress | LogField::PeerAddress | LogField::LocalAddress)
            }
            Mask::Without(_) => matches!(
                self,
                LogField::Query
                    | LogField::Args
                    | LogField::Target
                    | LogField::RequestLine
                    | LogField::HaproxyRequest
                    | LogField::Referer
                    | LogField::RequestHeader(_)
                    | LogField::ResponseHeader(_)
            ),
        }
    }

    /// The value without what a mask hides.
    fn masked_value<'a>(
        &self,
        mask: &Mask,
        record: &ExchangeRecord<'a>,
        scratch: &'a mut ValueBuf,
    ) -> LogValue<'a> {
        match mask {
            Mask::Network(four, six) => {
                let address_of = match self {
                    LogField::ClientAddress => record.client,
                    LogField::PeerAddress => record.peer,
                    _ => record.local,
                };
                let network =
                    |addr: SocketAddr| SocketAddr::new(Mask::network(addr.ip(), (*four, *six)), addr.port());
                address(address_of.map(network), scratch)
            }
            Mask::Without(names) => {
                let value = self.message_value(record).unwrap_or(LogValue::Absent);
                scratch.text.clear();
                match value {
                    LogValue::Bytes(text) => {
                        Mask::write_without(names, text, *self == LogField::Args, &mut scratch.text);
                        LogValue::Bytes(&scratch.text)
                    }
                    LogValue::Line([method, target, version]) => {
                        Mask::write_without(names, target, false, &mut scratch.text);
                        LogValue::Line([method, &scratch.text, version])
                    }
                    other => other,
                }
            }
        }
    }

    /// The value of a placeholder about request, client or connection.
    fn message_value<'a>(&self, record: &ExchangeRecord<'a>) -> Option<LogValue<'a>> {
        let line = [record.method, record.target, record.version];
        Some(match self {
            LogField::Method => LogValue::bytes(record.method),
            LogField::RequestHeader(name) => {
                LogValue::bytes(record.fields.request_field(name).unwrap_or_default())
            }
            LogField::ResponseHeader(name) => {
                LogValue::bytes(record.fields.response_field(name).unwrap_or_default())
            }
            LogField::Target => LogValue::bytes(record.target),
            LogField::Path => LogValue::bytes(record.path),
            LogField::Query => LogValue::bytes(query_of(record.target)),
            LogField::Args => LogValue::bytes(query_of(record.target).strip_prefix(b"?").unwrap_or_default()),
            LogField::Port => LogValue::number(Some(port_of(record.authority, record.scheme))),
            LogField::Scheme => LogValue::word(Some(record.scheme)),
            LogField::QueryParameter(name) => {
                LogValue::bytes(record.fields.query_parameter(name).unwrap_or_default())
            }
            LogField::TokenClaim(name) => LogValue::bytes(record.fields.claim(name).unwrap_or_default()),
            LogField::MatchGroup(name) => {
                LogValue::bytes(record.fields.match_group(name).unwrap_or_default())
            }
            LogField::Cookie(name) => LogValue::bytes(record.fields.cookie(name).unwrap_or_default()),
            LogField::Version => LogValue::bytes(record.version),
            LogField::RequestLine if record.method.is_empty() => LogValue::Absent,
            LogField::RequestLine => LogValue::Line(line),
            LogField::HaproxyRequest if record.method.is_empty() => LogValue::Own(b"<BADREQ>"),
            LogField::HaproxyRequest => LogValue::Line(line),
            LogField::Authority => LogValue::bytes(record.authority),
            LogField::Host => LogValue::bytes(record.host),
            LogField::RequestId => LogValue::bytes(record.request_id),
            LogField::TraceId => LogValue::bytes(record.trace_id),
            LogField::User => LogValue::bytes(record.user),
            LogField::AuthStatus => LogValue::number(record.auth.and_then(|auth| auth.status)),
            LogField::AuthReason => LogValue::word(record.auth.and_then(|auth| auth.reason)),
            LogField::AuthTime => LogValue::number(record.auth.map(|auth| auth.micros)),
            LogField::UserAgent => {
                LogValue::bytes(record.fields.request_field("user-agent").unwrap_or_default())
            }
            LogField::Referer => LogValue::bytes(record.fields.request_field("referer").unwrap_or_default()),
            _ => return None,
        })
    }

    /// How it ended and how long it took.
    fn outcome_value<'a>(&self, record: &ExchangeRecord<'a>, scratch: &'a mut ValueBuf) -> LogValue<'a> {
        let failure = record.failure;
        match self {
            LogField::Status => LogValue::Number(record.log_status().into()),
            LogField::StatusSent => LogValue::number(record.status),
            LogField::Duration => LogValue::Number(record.phases.total()),
            LogField::DurationMillis => LogValue::Number(record.phases.total() / 1000),
            LogField::DurationSeconds => seconds(record.phases.total(), scratch),

            LogField::Reason => LogValue::word(failure.map(Failure::reason)),
            LogField::FailurePhase => LogValue::word(failure.map(|failure| failure.phase.name())),
            LogField::FailureParty => LogValue::word(failure.map(|failure| failure.party.name())),
            LogField::FailureCause => LogValue::word(failure.map(|failure| failure.cause.name())),
            LogField::Failure => match failure {
                Some(Failure { phase, party, cause }) => {
                    scratch.fill(|out| write!(out, "{}/{}/{}", phase.name(), party.name(), cause.name()))
                }
                None => LogValue::Absent,
            },
            LogField::CompressionRatio => ratio(record, scratch),
            LogField::Termination => scratch.hold(record.termination().as_str().as_bytes()),

            LogField::TerminationTcp => scratch.hold(&record.termination().as_str().as_bytes()[..2]),
            LogField::TimerTotal => LogValue::Number(record.phases.total() / 1000),
            LogField::TimerRequest => timer(record, Phase::Request, Phase::Request),
            LogField::TimerQueue => timer(record, Phase::Queue, Phase::Queue),
            LogField::TimerConnect => timer(record, Phase::Connect, Phase::Connect),
            LogField::TimerResponse => timer(record, Phase::Send, Phase::Response),
            LogField::TimerActive => {
                LogValue::Number(record.phases.between(Phase::Request, Phase::Finish) / 1000)
            }
            LogField::HaproxyBackend if record.upstream.is_empty() => {
                LogValue::bytes(record.listener.as_bytes())
            }
            LogField::HaproxyBackend => LogValue::bytes(record.upstream.as_bytes()),
            LogField::HaproxyServer if record.server.is_empty() => LogValue::Own(b"<NOSRV>"),
            LogField::HaproxyServer => LogValue::bytes(record.server.as_bytes()),
            _ => LogValue::Absent,
        }
    }
}

fn address(address: Option<SocketAddr>, scratch: &mut ValueBuf) -> LogValue<'_> {
    match address {
        Some(address) => scratch.fill(|out| write!(out, "{}", address.ip())),
        None => LogValue::Own(b"unix"),
    }
}

fn port<'a>(address: Option<SocketAddr>) -> LogValue<'a> {
    LogValue::number(address.map(|address| address.port()))
}

/// Microseconds as seconds with six decimals.
fn seconds(micros: u64, scratch: &mut ValueBuf) -> LogValue<'_> {
    match scratch.fill(|out| write!(out, "{}.{:06}", micros / 1_000_000, micros % 1_000_000)) {
        LogValue::Own(digits) => LogValue::Decimal(digits),
        other => other,
    }
}

/// How much larger the body was before it was compressed.
fn ratio<'a>(record: &ExchangeRecord<'_>, scratch: &'a mut ValueBuf) -> LogValue<'a> {
    let (Some(whole), sent) = (record.body_bytes_uncompressed, record.body_bytes_out) else {
        return LogValue::Absent;
    };
    let Some(hundredths) = whole.saturating_mul(100).checked_div(sent) else { return LogValue::Absent };
    match scratch.fill(|out| write!(out, "{}.{:02}", hundredths / 100, hundredths % 100)) {
        LogValue::Own(digits) => LogValue::Decimal(digits),
        other => other,
    }
}

/// The query of a target, with its `?`.
fn query_of(target: &[u8]) -> &[u8] {
    target.iter().position(|byte| *byte == b'?').map_or(b"", |at| &target[at..])
}

/// The port that an authority names, or else the usual one of the scheme.
fn port_of(authority: &[u8], scheme: &str) -> u64 {
    let named = authority.rsplit(|byte| *byte == b':').next().filter(|port| port.len() < authority.len());
    let named = named.and_then(|port| std::str::from_utf8(port).ok()?.parse().ok());
    named.unwrap_or(if scheme == "https" { 443 } else { 80 })
}

/// Milliseconds spent in some phases, or -1 when the exchange did not pass the last of them.
fn timer<'a>(record: &ExchangeRecord<'a>, first: Phase, last: Phase) -> LogValue<'a> {
    let passed = match record.failure {
        Some(failure) => failure.phase > last,
        None => true,
    };
    if !passed || (last > Phase::Request && record.attempts == 0) {
        return LogValue::Minus;
    }
    LogValue::Number(record.phases.between(first, last) / 1000)
}
