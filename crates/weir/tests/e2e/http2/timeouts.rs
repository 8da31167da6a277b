//! A client that does not go on with what it has begun, or has nothing to say: the connection ends in time.

use crate::harness::http2::frame::{self, NO_ERROR, PREFACE, SETTINGS_TIMEOUT};
use crate::harness::http2::{H2C, start, start_with, start_with_tls};
use crate::harness::scripts::echo;
use crate::harness::{End, Http2Client, Weir, tls};

const REQUEST_LIMIT: &str = "listener.web.timeouts.request = \"200ms\"";

#[test]
fn a_client_that_agreed_on_http_2_and_says_nothing() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, REQUEST_LIMIT);
    let mut config = authority.client();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut client = tls::connect(weir.web(), config, "a.test");
    assert_eq!(client.take_to_end().1, End::Closed);
}

#[test]
fn a_preface_without_settings() {
    let origin = echo();
    let weir = start_with(&origin, REQUEST_LIMIT);
    for sent in [PREFACE, &PREFACE[..20]] {
        let mut client = Http2Client::silent(weir.web());
        client.answers = false;
        client.send(sent);
        assert_eq!(client.end_code(), NO_ERROR);
    }
    assert_eq!(weir.metrics().sum("weir_listener_failures_total", &["reason=\"request-head-timeout\""]), 2.0);
}

#[test]
fn a_head_that_is_not_continued() {
    let origin = echo();
    let weir = start_with(&origin, REQUEST_LIMIT);
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/").status, 200);
    let stream = client.next_stream();
    let block = client.block(&client.request("GET", "/"));
    client.send(frame::frame(frame::HEADERS, frame::END_STREAM, stream, &block));
    assert_eq!(client.end_code(), NO_ERROR);
    assert_eq!(
        client.goaways.last().map(|(last, _)| *last).into_iter().filter(|last| *last <= stream).count(),
        1
    );
    assert_eq!(origin.targets(), ["/"]);
}

#[test]
fn a_frame_that_is_not_whole() {
    let origin = echo();
    let weir = start_with(&origin, REQUEST_LIMIT);
    let mut client = Http2Client::connect(weir.web());
    client.settle();
    client.send(&frame::frame(frame::PING, 0, 0, &[0; 8])[..12]);
    assert_eq!(client.end_code(), NO_ERROR);
}

/// The limit is of ten seconds, which no config changes.
#[test]
fn settings_that_are_not_acknowledged() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::silent(weir.web());
    client.answers = false;
    client.begin(&[]);
    assert_eq!(client.fetch("/").status, 200, "until then it is served");
    assert_eq!(client.end_code(), SETTINGS_TIMEOUT);
    assert_eq!(weir.metrics().sum("weir_listener_failures_total", &["reason=\"request-head-timeout\""]), 1.0);
}

#[test]
fn an_idle_connection_is_told_of_its_end() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.timeouts.idle = \"200ms\"");
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/").status, 200);
    assert_eq!(client.end(), End::Closed);
    assert_eq!(client.goaways, [(u32::MAX >> 1, NO_ERROR), (1, NO_ERROR)]);
}

#[test]
fn a_connection_with_a_stream_is_not_idle() {
    let gate = crate::harness::Gate::new();
    let origin = crate::harness::scripts::echo_gated(&gate, "/held");
    let weir = start_with(&origin, "listener.web.timeouts.idle = \"500ms\"");
    let mut client = Http2Client::connect(weir.web());
    let held = client.get("/held");
    origin.wait_for_requests(1);
    crate::harness::watchdog::work(std::time::Duration::from_millis(1_200));
    client.settle();
    assert_eq!(client.goaways, []);
    gate.open();
    assert_eq!(client.response(held).text(), "/held");
    assert_eq!(client.end(), End::Closed);
}

/// Pings keep no connection open that has nothing to do.
#[test]
fn a_client_that_only_pings_is_idle() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.timeouts.idle = \"200ms\"");
    let mut client = Http2Client::connect(weir.web());
    while client.goaways.is_empty() {
        client.settle();
        crate::harness::watchdog::pause();
    }
    assert_eq!(client.end(), End::Closed);
}

/// The time limits of an exchange are those of its stream.
#[test]
fn a_server_that_does_not_answer_ends_its_stream_only() {
    let gate = crate::harness::Gate::new();
    let origin = crate::harness::scripts::echo_gated(&gate, "/held");
    let limits = "upstream.app.timeouts.response = \"300ms\"";
    let weir = start_with(&origin, limits);
    let mut client = Http2Client::connect(weir.web());
    let held = client.get("/held");
    assert_eq!(client.fetch("/quick").text(), "/quick");
    let response = client.response(held);
    assert_eq!((response.status, response.reason()), (504, Some("response-timeout")));
    assert_eq!(client.fetch("/quick").text(), "/quick", "the connection goes on");
    gate.open();
}

#[test]
fn a_listener_of_http_2_alone_waits_no_longer_for_a_preface() {
    let origin = echo();
    let weir = Weir::proxying_with(&origin, &format!("{}{REQUEST_LIMIT}", H2C.replace("allowed", "only")));
    let mut client = Http2Client::silent(weir.web());
    let end = client.end();
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
}
