//! A collector: takes what Weir exports, by the types of the official crates, and answers as the test says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::TcpListener;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{self as proto, span::SpanKind, status::StatusCode};
use prost::Message as _;

use crate::harness::{Connection, Gate, Origin, Request, eventually};

/// What a collector answers that took everything.
pub(super) const TAKEN: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";

/// A span as the tests look at it.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    /// Empty for a span without a parent.
    pub(super) parent: String,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) error: Option<String>,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// A collector that listens.
pub(super) struct Collector {
    pub(super) origin: Origin,
}

impl Collector {
    /// One that takes everything.
    pub(super) fn start() -> Collector {
        Collector::answering(TAKEN)
    }

    /// One that takes everything at the address of this socket.
    pub(super) fn listen(listener: TcpListener) -> Collector {
        Collector { origin: Origin::listen(listener, |conn| answer(conn, TAKEN.as_bytes())) }
    }

    /// One that gives every request the same answer.
    pub(super) fn answering(response: impl Into<Vec<u8>>) -> Collector {
        let response = response.into();
        Collector { origin: Origin::start(move |conn| answer(conn, &response)) }
    }

    /// One that answers by `script`.
    pub(super) fn scripted(
        script: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static,
    ) -> Collector {
        Collector { origin: Origin::start(script) }
    }

    /// One that reads the head of each request and does not answer until the gate is open.
    pub(super) fn silent(gate: &Gate) -> Collector {
        let gate = gate.clone();
        Collector::scripted(move |conn| {
            conn.head()?;
            gate.wait("the test is over");
            None
        })
    }

    /// Where it takes traces.
    pub(super) fn url(&self) -> String {
        format!("http://{}/v1/traces", self.origin.address())
    }

    /// The spans that it was sent so far.
    pub(super) fn spans(&self) -> Vec<Span> {
        self.origin.requests().iter().flat_map(spans_of).collect()
    }

    /// The spans that it was sent, once there are so many.
    pub(super) fn wait_for(&self, count: usize) -> Vec<Span> {
        let mut spans = Vec::new();
        eventually(&format!("{count} spans reach the collector"), || {
            spans = self.spans();
            spans.len() >= count
        });
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }
}

fn answer(conn: &mut Connection, response: &[u8]) -> Option<()> {
    loop {
        conn.request()?;
        conn.send(response)?;
    }
}

/// The whole message of a request.
pub(super) fn message(request: &Request) -> ExportTraceServiceRequest {
    assert_eq!((request.method(), request.field("content-type")), ("POST", Some("application/x-protobuf")));
    ExportTraceServiceRequest::decode(&request.body.bytes[..]).expect("it is a request by the specification")
}

/// What the spans of a request have in common.
pub(super) fn resource(request: &Request) -> BTreeMap<String, String> {
    let message = message(request);
    let [of_one] = &message.resource_spans[..] else { panic!("one resource wanted: {message:#?}") };
    attributes(&of_one.resource.as_ref().expect("there is a resource").attributes)
}

fn spans_of(request: &Request) -> Vec<Span> {
    let of_scopes = message(request).resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
    of_scopes.flat_map(|scope| scope.spans).map(|span| read(&span)).collect()
}

fn read(span: &proto::Span) -> Span {
    let kind = match span.kind() {
        SpanKind::Server => "server",
        SpanKind::Client => "client",
        SpanKind::Internal => "internal",
        other => panic!("Weir has no spans of this kind: {other:?}"),
    };
    let status = span.status.clone().unwrap_or_default();
    let is_error = status.code() == StatusCode::Error;
    assert!(
        span.start_time_unix_nano <= span.end_time_unix_nano && span.start_time_unix_nano > 0,
        "{span:?}"
    );
    Span {
        trace: hexadecimal(&span.trace_id),
        id: hexadecimal(&span.span_id),
        parent: hexadecimal(&span.parent_span_id),
        name: span.name.clone(),
        kind,
        attributes: attributes(&span.attributes),
        error: is_error.then_some(status.message),
        begin: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
    }
}

fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        Some(Value::BoolValue(is_so)) => is_so.to_string(),
        other => panic!("Weir tells nothing of this type: {other:?}"),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(&attribute.value))).collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes it");
        text
    })
}
