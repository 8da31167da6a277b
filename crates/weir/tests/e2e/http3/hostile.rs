//! Clients that cost more than they should: of QUIC, and of what HTTP/3 adds to it. Those that HTTP/2 has, too, are tested there.

use std::time::Duration;

use quinn::TransportConfig;

use crate::harness::http2::start_with_tls;
use crate::harness::http3::{HeldHandshakes, Http3Client};
use crate::harness::scripts::echo;
use crate::harness::{Origin, Weir, eventually};

const HTTP3: &str = "listener.web.http3 = {}\n";

/// H3_EXCESSIVE_LOAD (RFC 9114 section 8.1).
const EXCESSIVE_LOAD: u64 = 0x107;

fn failures(weir: &Weir, reason: &str) -> f64 {
    weir.metrics().sum("weir_listener_failures_total", &[&format!("reason=\"{reason}\"")])
}

#[test]
fn streams_that_end_before_their_type_are_counted() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, HTTP3);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let ended = client.open_without_type(30_000, |mut stream| stream.finish().expect("it is open"));
    assert_eq!(ended, EXCESSIVE_LOAD);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let reset = client.open_without_type(30_000, |mut stream| stream.reset(0u32.into()).expect("it is open"));
    assert_eq!(reset, EXCESSIVE_LOAD);
    assert_eq!(failures(&weir, "http3-stream-flood"), 2.0);
}

/// Windows are opened for each few bytes, which costs Weir a packet both ways.
#[test]
fn frames_without_data_are_counted() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        let body = "x".repeat(1_000_000);
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    });
    let (authority, weir) = start_with_tls(&origin, HTTP3);
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(64u32.into());
    let client = Http3Client::try_connect_with(weir.web(), authority.client(), transport);
    let code = client.expect("there is HTTP/3").read_until_closed("/", 64);
    assert_eq!(code, EXCESSIVE_LOAD);
    assert_eq!(failures(&weir, "quic-frame-flood"), 1.0);
}

/// A client that takes nothing shows by its PING frames that it is there, and not that it takes anything.
#[test]
fn acknowledging_is_not_progress() {
    let origin = echo();
    let settings = format!(
        "{HTTP3}listener.web.timeouts.send = {{ credit = '1s', rate_min = '500B/s' }}\nlistener.web.timeouts.idle = '1s'\n"
    );
    let (authority, weir) = start_with_tls(&origin, &settings);
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(0u32.into()).keep_alive_interval(Some(Duration::from_millis(10)));
    let client = Http3Client::try_connect_with(weir.web(), authority.client(), transport);
    let mut client = client.expect("there is HTTP/3");
    let pending = client.send("GET", "/", b"");
    assert!(client.try_response(pending).is_err(), "it is never taken");
    eventually("the connection is over", || {
        weir.metrics().sum("weir_listener_http3_connections_open", &[]) == 0.0
    });
}

/// Handshakes that are not ended are bounded, and no client uses the bound up.
#[test]
fn one_client_does_not_keep_others_out() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, &format!("{HTTP3}listener.web.timeouts.tls = '60s'\n"));
    let _held = HeldHandshakes::begin(weir.web(), &authority, 600);
    let open = || weir.metrics().sum("weir_listener_connections_open", &[]);
    eventually("clients have to prove their address", || open() >= 160.0);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/one").text(), "/one");
    assert!(open() <= 170.0, "{}", open());
}
