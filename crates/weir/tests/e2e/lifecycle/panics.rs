//! Panics in Weir itself, which tests order: each ends one connection or one stream, is counted, logged and shown, and leaves nothing behind.

use crate::harness::http2::H2C;
use crate::harness::{Client, Http2Client, Metrics, Origin, Weir, config_with, eventually};

/// Panics in each phase; more than there are slots on the server, many times.
const PANICS: usize = 33;

const FAULTS: [&str; 3] = ["panic-route", "panic-queue", "panic-response"];

/// What is to be zero when no exchange and no connection of a client is left.
const GAUGES: [&str; 6] = [
    "weir_listener_connections_open",
    "weir_worker_connections_open",
    "weir_worker_exchanges_open",
    "weir_worker_buffers_in_use",
    "weir_server_attempts_open",
    "weir_upstream_queue_length",
];

fn one_slot(origin: &Origin) -> String {
    let server = format!("{{ name = \"a\", address = \"{}\", max_requests = 1 }}", origin.address());
    config_with(&[server], "process.workers = 1\n")
}

fn ordering(fault: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a.test\r\nWeir-Fault: {fault}\r\n\r\n")
}

pub(super) fn are_zero(metrics: &Metrics) -> bool {
    GAUGES.iter().all(|gauge| metrics.sum(gauge, &[]) == 0.0)
}

#[test]
fn a_panic_ends_one_connection_and_leaves_nothing_behind() {
    let origin = Origin::serving("app");
    let weir = Weir::start_faulty(&one_slot(&origin));
    let mut other = Client::connect(weir.web());
    for _ in 0..PANICS {
        for fault in FAULTS {
            let mut client = Client::connect(weir.web());
            client.send(ordering(fault));
            assert_eq!(client.take_to_end().0, b"", "{fault}");
            assert_eq!(other.fetch("/").text(), "app", "the only slot is free after {fault}");
        }
    }
    let count = (PANICS * FAULTS.len()) as f64;
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_worker_panics_total", &[]), count);
    assert_eq!(metrics.sum("weir_process_panics_total", &[]), count);
    assert_eq!(metrics.sum("weir_worker_restarts_total", &[]), 0.0);
    assert_eq!(metrics.sum("weir_listener_failures_total", &["reason=\"panic\""]), count);
    drop(other);
    eventually("all gauges are zero", || are_zero(&weir.metrics()));
}

#[test]
fn a_panic_ends_one_stream_of_several() {
    let origin = Origin::serving("app");
    let weir = Weir::start_faulty(&format!("{}{H2C}", one_slot(&origin)));
    let mut client = Http2Client::connect(weir.web());
    for fault in FAULTS {
        let stream = client.get_with("/", &[("weir-fault", fault)]);
        client.wait_for_reset(stream);
        assert_eq!(client.fetch("/").text(), "app", "the only slot is free after {fault}");
    }
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_worker_panics_total", &[]), FAULTS.len() as f64);
    assert_eq!(metrics.sum("weir_listener_streams_open", &[]), 0.0);
    drop(client);
    eventually("all gauges are zero", || are_zero(&weir.metrics()));
}

#[test]
fn a_panic_is_shown_with_its_backtrace() {
    let origin = Origin::serving("app");
    let weir = Weir::start_faulty(&one_slot(&origin));
    for _ in 0..3 {
        let mut client = Client::connect(weir.web());
        client.send(ordering("panic-queue"));
        client.take_to_end();
    }
    weir.line(&["panic: a defect of Weir", "weir-worker-0", "a fault was ordered at Queue"]);
    let mut kept = serde_json::Value::Null;
    eventually("the names of the backtrace are known", || {
        kept = weir.admin_json("/api/overview")["process"]["panics"].take();
        kept[0]["backtrace"].is_string()
    });
    assert_eq!(kept.as_array().map(Vec::len), Some(1), "one place: {kept:#}");
    assert_eq!((kept[0]["count"].as_u64(), kept[0]["thread"].as_str()), (Some(3), Some("weir-worker-0")));
    let backtrace = kept[0]["backtrace"].as_str().unwrap_or_default();
    assert!(backtrace.contains("weir_proxy::exchange::phases::attempt"), "{backtrace}");
    assert!(backtrace.lines().count() <= 65, "{backtrace}");
    let page = Client::get_by_address(weir.address("admin"), "/").text();
    assert!(page.contains("Defects of Weir") && page.contains("a fault was ordered at Queue"), "{page}");
    let failures = Client::get_by_address(weir.address("admin"), "/api/failures").text();
    assert_eq!(failures.matches("\"panic\"").count(), 3, "{failures}");
}

#[test]
fn faults_are_not_to_be_had_by_requests_alone() {
    let origin = Origin::serving("app");
    let weir = Weir::start(&one_slot(&origin));
    for fault in FAULTS.into_iter().chain(["crash", "hang"]) {
        assert_eq!(Client::exchange(weir.web(), &ordering(fault)).text(), "app", "{fault}");
    }
}
