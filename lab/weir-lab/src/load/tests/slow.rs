//! Slow clients, and the driver's figures second by second.

use std::time::Duration;

use super::{Connections, LoadPlan, drive, origin, plan, scripted};
use crate::load::exchange::{RequestShape, prepare};

const PACE: u64 = 100_000;
const BYTES: usize = 50_000;

/// Half a second of bytes, in ten portions or more that come every 50 ms.
const AT_LEAST: Duration = Duration::from_millis(440);

fn slow(target: std::net::SocketAddr, body_len: usize) -> LoadPlan {
    let host = &target.to_string();
    let path = &format!("/bytes/{BYTES}");
    let shape = RequestShape { host, path, body_len, answer_len: BYTES as u64, close: true, cookie: None };
    LoadPlan {
        exchanges: prepare(&shape),
        clients: 3,
        warm_up: Duration::ZERO,
        // The exchanges that begin with it end in it, however slow the machine is.
        window: Duration::from_secs(2),
        pace: Some(PACE),
        ..plan(target, 0, Connections::PerExchange)
    }
}

#[test]
fn a_slow_client_reads_and_writes_at_its_pace_and_whole() {
    let origin = origin();
    for body_len in [0, BYTES] {
        let outcome = drive(&slow(origin.addr(), body_len));
        assert!(outcome.faults.is_empty(), "{}", outcome.faults);
        assert!(outcome.exchanges >= 3, "{}", outcome.exchanges);
        let fastest = Duration::from_nanos(outcome.latency.min());
        assert!(fastest >= AT_LEAST, "{fastest:?} for {body_len} bytes of body");
    }
}

#[test]
fn a_slow_client_that_is_ended_is_a_fault_with_its_reason() {
    // How much of the answer arrives before the reset is not determined.
    let timed_out = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let outcome = drive(&slow(scripted(timed_out, true), BYTES));
    assert_eq!((outcome.exchanges, outcome.faults.is_empty()), (0, false));
    let outcome = drive(&slow(scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\nabc", true), 0));
    assert_eq!((outcome.exchanges, outcome.faults.is_empty()), (0, false));
}

#[test]
fn every_answer_of_a_window_is_in_one_of_its_seconds() {
    let origin = origin();
    let plan = LoadPlan { window: Duration::from_secs(2), ..plan(origin.addr(), 0, Connections::Kept) };
    let outcome = drive(&plan);
    assert_eq!(outcome.seconds.len(), 2);
    let sum: u64 = outcome.seconds.iter().map(|second| second.requests).sum();
    assert_eq!((sum, outcome.faults.total), (outcome.exchanges, 0));
    assert!(outcome.seconds.iter().all(|second| second.requests == 0 || second.p99 >= second.p50));
}
