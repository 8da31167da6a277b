//! A collector that is down, slow, or rejects exports: requests are answered, memory is bounded, and what is lost is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message as _;

use super::collector::{Collector, TAKEN};
use super::{config, get, tracing};
use crate::harness::{Client, Gate, Origin, ReservedAddress, Weir, eventually};

fn send(weir: &Weir, count: usize) {
    let mut client = Client::connect(weir.web());
    for _ in 0..count {
        client.send(get("/", ""));
        assert_eq!(client.response().status, 200, "no request is harmed");
    }
}

fn lost(weir: &Weir, reason: &str) -> f64 {
    weir.metrics().sum("weir_trace_spans_dropped_total", &[&format!("reason=\"{reason}\"")])
}

fn lines(weir: &Weir, part: &str) -> usize {
    weir.stderr().lines().filter(|line| line.contains(part)).count()
}

#[test]
fn a_collector_that_comes_back_gets_what_has_waited() {
    let origin = Origin::serving("seen");
    let place = ReservedAddress::new();
    let address = place.address();
    let weir = Weir::start(&config(&origin, &format!("endpoint = \"http://{address}/v1/traces\"")));
    send(&weir, 10);
    let line = weir.line(&["spans cannot be exported", &address.to_string()]);
    assert!(line.contains("efused") && line.contains("`traces.endpoint`"), "cause and remedy: {line}");
    let failed = || weir.metrics().sum("weir_trace_exports_failed_total", &[]);
    eventually("it is tried again", || failed() >= 2.0);
    assert_eq!(lines(&weir, "spans cannot be exported"), 1, "it is said once: {}", weir.stderr());
    let collector = Collector::listen(place.listener());
    collector.wait_for(20);
    weir.line(&["spans are exported again", "failed="]);
    assert_eq!([lost(&weir, "undelivered"), lost(&weir, "refused")], [0.0, 0.0]);
}

#[test]
fn a_collector_that_says_nothing_costs_no_memory() {
    let origin = Origin::serving("seen");
    let gate = Gate::new();
    let collector = Collector::silent(&gate);
    let more = ", queue_max = 50, rate = 100000, timeout = \"500ms\"";
    let weir = tracing(&origin, &collector, more);
    // Until everything has been done once, and memory taken for it.
    eventually("the oldest make room", || {
        send(&weir, 200);
        lost(&weir, "undelivered") > 0.0
    });
    let dropped = || weir.metrics().sum("weir_worker_traces_dropped_total", &[]);
    let (memory_before, dropped_before) = (weir.resident_bytes(), dropped());
    send(&weir, 8_000);
    let grown = weir.resident_bytes().saturating_sub(memory_before);
    // Each that was kept would be a KiB and more: 8 MiB.
    assert!(grown < 3 * 1024 * 1024, "{grown} bytes more");
    let dropped = dropped() - dropped_before;
    assert!((6_000.0..=8_000.0).contains(&dropped), "{dropped} of 8000 had no room");
    gate.open();
}

#[test]
fn a_collector_that_has_too_much_to_do_is_asked_again() {
    let origin = Origin::serving("seen");
    let tries = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&tries);
    let collector = Collector::scripted(move |conn| {
        loop {
            conn.request()?;
            let answer = match count.fetch_add(1, Ordering::SeqCst) {
                0 => "HTTP/1.1 503 X\r\nRetry-After: 0\r\nContent-Length: 4\r\n\r\nbusy",
                _ => TAKEN,
            };
            conn.send(answer)?;
        }
    });
    let weir = tracing(&origin, &collector, "");
    send(&weir, 1);
    let requests = collector.origin.wait_for_requests(2);
    assert_eq!(requests[0].body.bytes, requests[1].body.bytes, "the same spans");
    weir.line(&["spans cannot be exported", "503", "`traces.rate`"]);
    weir.line(&["spans are exported again"]);
    let exported = || weir.metrics().sum("weir_trace_spans_exported_total", &[]);
    eventually("they were taken in the end", || exported() == 2.0);
    assert_eq!(weir.metrics().sum("weir_trace_exports_failed_total", &[]), 1.0);
}

#[test]
fn what_a_collector_refuses_is_counted_and_not_sent_again() {
    let origin = Origin::serving("seen");
    let answer = "HTTP/1.1 401 X\r\nContent-Length: 2\r\n\r\nno";
    let collector = Collector::answering(answer);
    let weir = tracing(&origin, &collector, "");
    send(&weir, 1);
    weir.line(&["spans cannot be exported", "401", "`traces.headers`"]);
    eventually("they are lost", || lost(&weir, "refused") == 2.0);
    send(&weir, 1);
    eventually("and those behind them", || lost(&weir, "refused") == 4.0);
    assert_eq!(collector.origin.requests().len(), 2, "each batch is sent once");
    assert_eq!(lines(&weir, "spans cannot be exported"), 1, "{}", weir.stderr());
}

#[test]
fn a_redirect_is_not_followed() {
    let origin = Origin::serving("seen");
    let elsewhere = Collector::start();
    let to = elsewhere.url();
    let collector =
        Collector::answering(format!("HTTP/1.1 307 X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"));
    let weir = tracing(&origin, &collector, ", headers = { Authorization = \"a secret\" }");
    send(&weir, 1);
    weir.line(&["spans cannot be exported", "307", "`traces.endpoint`"]);
    assert_eq!(elsewhere.origin.connections(), 0, "the headers go to no other server");
}

#[test]
fn what_a_collector_takes_in_part_is_counted_in_parts() {
    let origin = Origin::serving("seen");
    let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: "too old".to_owned() };
    let body = ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
    let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend(body);
    let collector = Collector::answering(answer);
    let weir = tracing(&origin, &collector, "");
    send(&weir, 1);
    weir.line(&["spans cannot be exported", "rejected 1 spans", "too old"]);
    eventually("one is lost", || lost(&weir, "refused") == 1.0);
    assert_eq!(weir.metrics().sum("weir_trace_spans_exported_total", &[]), 1.0);
}
