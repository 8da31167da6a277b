//! Everything one line of the access log can hold, borrowed from the exchange that is over.
//!
//! Filled once per exchange on the worker; nothing here is computed that the format might not ask for.

use std::net::SocketAddr;

use super::Termination;
use super::timestamp::UnixMicros;
use crate::failure::{Failure, Party};
use crate::words::affinity::AffinityOutcome;
use crate::words::cache_result::CacheResult;
use crate::words::phase::PhaseTimes;

/// One exchange that is over. `..ExchangeRecord::default()` fills in unknown fields.
#[derive(Clone, Copy)]
pub struct ExchangeRecord<'a> {
    /// When the first byte of the request arrived (of a tunnel without a request: when the client connected).
    pub time: UnixMicros,
    /// Name of the listener.
    pub listener: &'a str,
    /// The client of the exchange: the address from a trusted proxy counts. `None` on a Unix socket.
    pub client: Option<SocketAddr>,
    /// The other end of the client connection. `None` on a Unix socket.
    pub peer: Option<SocketAddr>,
    /// The address of Weir that the client connected to. `None` on a Unix socket.
    pub local: Option<SocketAddr>,
    /// The place of this exchange in its connection, from 1.
    pub exchange_number: u64,

    /// The method; empty when the request could not be read.
    pub method: &'a [u8],
    /// The request target as received.
    pub target: &'a [u8],
    /// The protocol version, such as `HTTP/1.1`.
    pub version: &'a [u8],
    /// The path as received, without the query.
    pub path: &'a [u8],
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port, if there is one, that the request was routed by.
    pub authority: &'a [u8],
    /// The same without the port.
    pub host: &'a [u8],
    /// The id of the request, taken over or made.
    pub request_id: &'a [u8],
    /// The id of its trace in hexadecimal; empty when traces are off.
    pub trace_id: &'a [u8],
    /// The user that the client has named; empty when it has named none.
    pub user: &'a [u8],
    /// The outcome of `forward_auth`; `None` when nothing was asked.
    pub auth: Option<AuthRecord>,
    /// What the cache did; `None` without one.
    pub cache: Option<CacheResult>,
    /// More about that.
    pub cache_reason: Option<&'static str>,
    /// Any other field of request or response.
    pub fields: &'a dyn FieldSource,

    /// The status that the client received; `None` when it received none.
    pub status: Option<u16>,
    /// The name of the status of a gRPC call; `None` for other requests.
    pub grpc_status: Option<&'static str>,
    /// Why the exchange ended badly, if it did.
    pub failure: Option<Failure>,
    /// Bytes received from the client, heads and framing included.
    pub bytes_in: u64,
    /// Bytes sent to the client, heads and framing included.
    pub bytes_out: u64,
    /// Bytes of the request body.
    pub body_bytes_in: u64,
    /// Bytes of the response body that were sent.
    pub body_bytes_out: u64,
    /// How the response body was changed: the name of its coding, or `decompressed`; `None` when it was not.
    pub compression: Option<&'static str>,
    /// Bytes of the response body before it was compressed; `None` when it was not.
    pub body_bytes_uncompressed: Option<u64>,

    /// Name of the route; empty when none matched.
    pub route: &'a str,
    /// Name of the upstream; empty when there is none.
    pub upstream: &'a str,
    /// Name of the server of the last attempt; empty when Weir answered itself.
    pub server: &'a str,
    /// How many servers were tried, the same one twice counts twice.
    pub attempts: u32,
    /// Whether the last attempt reused an idle connection; `None` when there was no attempt.
    pub reused: Option<bool>,
    /// What a list says of the request; empty when none does.
    pub tag: &'a [u8],
    /// Name of the limit by key or of the list that has refused or delayed the request; empty when none has.
    pub limit: &'a str,
    /// How many exchanges stood before this one when it was queued.
    pub queue_position: u32,
    /// The length of the body of the request, as its head announces it.
    pub content_length: Option<u64>,
    /// The outcome of affinity; `None` without affinity or response.
    pub kept: Option<AffinityOutcome>,
    /// The result of the TLS handshake with the client; `None` without TLS.
    pub tls: Option<TlsRecord<'a>>,
    /// The party that ended a tunnel, or was the first to end its direction of it; `None` for other exchanges.
    pub ended_by: Option<Party>,
    /// Microseconds spent in each phase.
    pub phases: PhaseTimes,
    /// How much was going on when the exchange ended.
    pub load: OpenConnections,
}

impl ExchangeRecord<'_> {
    /// The status for the log: the one that the client received, else that of the failure, else 0.
    pub fn log_status(&self) -> u16 {
        self.status.or_else(|| self.failure.map(Failure::log_status)).unwrap_or(0)
    }

    /// Attempts beyond the first.
    pub fn retries(&self) -> u32 {
        self.attempts.saturating_sub(1)
    }

    /// How the exchange ended, in the letters of HAProxy's log.
    pub fn termination(&self) -> Termination {
        Termination::new(self.failure, self.server.is_empty() && self.attempts == 0)
    }
}

impl Default for ExchangeRecord<'_> {
    fn default() -> Self {
        ExchangeRecord {
            time: UnixMicros(0),
            listener: "",
            client: None,
            peer: None,
            local: None,
            exchange_number: 0,
            method: b"",
            target: b"",
            version: b"",
            path: b"",
            scheme: "",
            authority: b"",
            host: b"",
            request_id: b"",
            trace_id: b"",
            user: b"",
            auth: None,
            cache: None,
            cache_reason: None,
            fields: &NoFields,
            status: None,
            grpc_status: None,
            failure: None,
            bytes_in: 0,
            bytes_out: 0,
            body_bytes_in: 0,
            body_bytes_out: 0,
            compression: None,
            body_bytes_uncompressed: None,
            route: "",
            upstream: "",
            server: "",
            attempts: 0,
            reused: None,
            tag: b"",
            limit: "",
            queue_position: 0,
            content_length: None,
            kept: None,
            tls: None,
            ended_by: None,
            phases: PhaseTimes::ZERO,
            load: OpenConnections::default(),
        }
    }
}

/// The outcome of a question to the server that decides about requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AuthRecord {
    /// The status of its answer.
    pub status: Option<u16>,
    /// Why there was none.
    pub reason: Option<&'static str>,
    /// How long it took, in microseconds.
    pub micros: u32,
}

/// The result of a TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsRecord<'a> {
    /// `1.2` or `1.3`.
    pub version: &'a str,
    /// The name of the cipher suite in the IANA registry.
    pub cipher_suite: &'a str,
    /// The server name that the client asked for (SNI); empty when it asked for none.
    pub server_name: &'a str,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
    /// Whether the request came before the handshake was over (0-RTT).
    pub early: bool,
    /// The round-trip time to the client in microseconds, where it is known: over QUIC.
    pub round_trip_micros: Option<u32>,
    /// The subject of the client's certificate by RFC 4514; empty when it has shown none.
    pub client_subject: &'a str,
    /// SHA-256 of the client's certificate in hexadecimal; empty when it has shown none.
    pub client_fingerprint: &'a str,
}

/// Connections open when an exchange ended, for the counters of HAProxy's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenConnections {
    /// In the process.
    pub process: u32,
    /// On the listener.
    pub listener: u32,
    /// On the upstream.
    pub upstream: u32,
    /// On the server.
    pub server: u32,
}

/// Where the fields of a message are looked up that have no place of their own in the record.
///
/// [`LogTemplate::request_fields`](super::LogTemplate::request_fields) lists in advance the ones that are needed.
pub trait FieldSource {
    /// The value of a request field by its lower-case name; of several, the first.
    fn request_field(&self, name: &str) -> Option<&[u8]>;

    /// The value of a response field by its lower-case name; of several, the first.
    fn response_field(&self, name: &str) -> Option<&[u8]>;

    /// The value of a cookie of the request.
    fn cookie(&self, name: &str) -> Option<&[u8]>;

    /// The value of a parameter of the query, as sent.
    fn query_parameter(&self, name: &str) -> Option<&[u8]>;

    /// A claim of the token of the request.
    fn claim(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    /// What a group of the `path_regex` of the route has matched.
    fn match_group(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    /// Appends a value that the config defines itself, by its whole name.
    fn write_named(&self, _name: &str, _out: &mut Vec<u8>) {}
}

/// No fields at all.
#[derive(Debug, Clone, Copy)]
pub struct NoFields;

impl FieldSource for NoFields {
    fn request_field(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    fn response_field(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    fn cookie(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    fn query_parameter(&self, _name: &str) -> Option<&[u8]> {
        None
    }
}
