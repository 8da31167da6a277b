//! Traces: the trace context that servers get, the spans that a collector gets, and a collector that is down.

mod collector;
mod down;
mod hostile;
mod life;
#[cfg(debug_assertions)]
mod panics;
mod propagation;
mod sampling;
mod spans;

use collector::{Collector, Span};

use crate::harness::{Origin, Request, Weir, config_with};

/// The trace and the span of the examples.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// A Weir that traces to `collector`, accepts the trace context of every client, and has more keys of `[traces]` if need be.
fn tracing(origin: &Origin, collector: &Collector, more: &str) -> Weir {
    Weir::start(&config(origin, &format!("endpoint = \"{}\", accept = \"always\"{more}", collector.url())))
}

/// One worker, one listener, one server, and these keys of `[traces]`.
fn config(origin: &Origin, traces: &str) -> String {
    config_with(&[origin.entry()], &format!("process.workers = 1\ntraces = {{ {traces} }}"))
}

/// A GET with these field lines.
fn get(target: &str, fields: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: shop.test\r\n{fields}\r\n")
}

/// The trace context that a server got: the trace, the span, and the flags.
fn trace_context(request: &Request) -> [String; 3] {
    let value = request.field("traceparent").unwrap_or_else(|| panic!("no traceparent: {request:?}"));
    let [version, trace, span, flags] = value.split('-').collect::<Vec<_>>()[..] else {
        panic!("not a traceparent: {value}");
    };
    let is_number = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    assert!(version == "00" && is_number(trace, 32) && is_number(span, 16) && is_number(flags, 2), "{value}");
    assert!(trace.contains(|digit| digit != '0') && span.contains(|digit| digit != '0'), "{value}");
    [trace, span, flags].map(str::to_owned)
}

/// The only one of these spans of this kind.
fn only(spans: &[Span], kind: &str) -> Span {
    let found: Vec<&Span> = spans.iter().filter(|span| span.kind == kind).collect();
    let [only] = found[..] else { panic!("one {kind} wanted: {spans:#?}") };
    only.clone()
}
