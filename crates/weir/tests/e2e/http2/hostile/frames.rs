//! Frames that no client may send (RFC 9113 section 6): the connection ends with the code that the RFC demands.

use super::Site;
use crate::harness::http2::frame::{
    self, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY, HEADERS, PADDED, PING,
    PRIORITY, PRIORITY_UPDATE, PROTOCOL_ERROR, PUSH_PROMISE, RST_STREAM, SETTINGS, STREAM_CLOSED,
    WINDOW_UPDATE, WITH_PRIORITY, frame,
};
use crate::harness::http2::start_with_slots;
use crate::harness::scripts::echo_gated;
use crate::harness::{Gate, Http2Client};

#[test]
fn frames_that_end_the_connection() {
    let site = Site::new();
    let large = vec![0; 16_385];
    let rows: Vec<(&str, u32, &str, Vec<u8>)> = vec![
        ("DATA on the connection", PROTOCOL_ERROR, "http2-bad-stream-id", frame(DATA, 0, 0, b"x")),
        (
            "HEADERS on the connection",
            PROTOCOL_ERROR,
            "http2-bad-stream-id",
            frame(HEADERS, END_HEADERS, 0, &[0x82]),
        ),
        (
            "HEADERS on an even stream",
            PROTOCOL_ERROR,
            "http2-bad-stream-id",
            frame(HEADERS, END_HEADERS, 2, &[0x82]),
        ),
        ("SETTINGS on a stream", PROTOCOL_ERROR, "http2-bad-stream-id", frame(SETTINGS, 0, 1, &[])),
        ("PING on a stream", PROTOCOL_ERROR, "http2-bad-stream-id", frame(PING, 0, 1, &[0; 8])),
        ("GOAWAY on a stream", PROTOCOL_ERROR, "http2-bad-stream-id", frame(GOAWAY, 0, 1, &[0; 8])),
        ("PRIORITY on the connection", PROTOCOL_ERROR, "http2-bad-stream-id", frame(PRIORITY, 0, 0, &[0; 5])),
        (
            "RST_STREAM on the connection",
            PROTOCOL_ERROR,
            "http2-bad-stream-id",
            frame(RST_STREAM, 0, 0, &[0; 4]),
        ),
        (
            "PRIORITY_UPDATE of nothing",
            PROTOCOL_ERROR,
            "http2-bad-stream-id",
            frame(PRIORITY_UPDATE, 0, 0, &[0; 4]),
        ),
        ("DATA on an idle stream", PROTOCOL_ERROR, "http2-idle-stream", frame(DATA, 0, 1, b"x")),
        (
            "RST_STREAM on an idle stream",
            PROTOCOL_ERROR,
            "http2-idle-stream",
            frame(RST_STREAM, 0, 1, &[0; 4]),
        ),
        ("WINDOW_UPDATE on an idle stream", PROTOCOL_ERROR, "http2-idle-stream", frame::window_update(1, 1)),
        (
            "PUSH_PROMISE",
            PROTOCOL_ERROR,
            "http2-push-refused",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
        ),
        (
            "a stream that depends on itself",
            PROTOCOL_ERROR,
            "http2-self-dependency",
            frame(PRIORITY, 0, 1, &[0, 0, 0, 1, 0]),
        ),
        (
            "a head that depends on itself",
            PROTOCOL_ERROR,
            "http2-self-dependency",
            frame(HEADERS, END_HEADERS | WITH_PRIORITY, 1, &[0, 0, 0, 1, 0, 0x82]),
        ),
        (
            "padding longer than HEADERS",
            PROTOCOL_ERROR,
            "http2-bad-padding",
            frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0x82]),
        ),
        ("a larger frame than allowed", FRAME_SIZE_ERROR, "http2-frame-too-large", frame(DATA, 0, 1, &large)),
        ("a larger unknown frame", FRAME_SIZE_ERROR, "http2-frame-too-large", frame(0xfa, 0, 0, &large)),
        ("PING of seven bytes", FRAME_SIZE_ERROR, "http2-bad-frame-length", frame(PING, 0, 0, &[0; 7])),
        (
            "SETTINGS of five bytes",
            FRAME_SIZE_ERROR,
            "http2-bad-frame-length",
            frame(SETTINGS, 0, 0, &[0; 5]),
        ),
        (
            "an acknowledgement with settings",
            FRAME_SIZE_ERROR,
            "http2-bad-frame-length",
            frame(SETTINGS, 1, 0, &[0; 6]),
        ),
        (
            "WINDOW_UPDATE of three bytes",
            FRAME_SIZE_ERROR,
            "http2-bad-frame-length",
            frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
        ),
        (
            "RST_STREAM of five bytes",
            FRAME_SIZE_ERROR,
            "http2-bad-frame-length",
            frame(RST_STREAM, 0, 1, &[0; 5]),
        ),
        ("GOAWAY of seven bytes", FRAME_SIZE_ERROR, "http2-bad-frame-length", frame(GOAWAY, 0, 0, &[0; 7])),
        (
            "the window of the connection opened by nothing",
            PROTOCOL_ERROR,
            "http2-zero-increment",
            frame::window_update(0, 0),
        ),
        (
            "the window of the connection opened too far",
            FLOW_CONTROL_ERROR,
            "http2-window-overflow",
            frame::window_update(0, (1 << 31) - 1),
        ),
        (
            "a window larger than there is",
            FLOW_CONTROL_ERROR,
            "http2-bad-setting",
            frame::settings(&[(4, 1 << 31)]),
        ),
        ("a push setting that is no flag", PROTOCOL_ERROR, "http2-bad-setting", frame::settings(&[(2, 2)])),
        (
            "a frame size below the least",
            PROTOCOL_ERROR,
            "http2-bad-setting",
            frame::settings(&[(5, 16_383)]),
        ),
        (
            "a frame size above the greatest",
            PROTOCOL_ERROR,
            "http2-bad-setting",
            frame::settings(&[(5, 1 << 24)]),
        ),
    ];
    for (what, code, reason, bytes) in rows {
        site.assert_cut_off(what, code, reason, |_| bytes);
    }
}

#[test]
fn frames_on_a_stream_that_end_the_connection() {
    let site = Site::new();
    site.assert_cut_off("padding longer than DATA", PROTOCOL_ERROR, "http2-bad-padding", |client| {
        let stream = client.post("/", &[]);
        frame(DATA, PADDED, stream, b"\x09x")
    });
    site.assert_cut_off("padding without a length", PROTOCOL_ERROR, "http2-bad-padding", |client| {
        let stream = client.post("/", &[]);
        frame(DATA, PADDED, stream, b"")
    });
    site.assert_cut_off(
        "a head on a stream that has ended",
        STREAM_CLOSED,
        "http2-stream-closed",
        |client| {
            assert_eq!(client.fetch("/").status, 200);
            client.settle();
            let block = client.block(&client.request("GET", "/"));
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)
        },
    );
    site.assert_cut_off("a stream with a lower number", PROTOCOL_ERROR, "http2-bad-stream-id", |client| {
        client.next_stream();
        assert_eq!(client.fetch("/").status, 200);
        let block = client.block(&client.request("GET", "/"));
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &block)
    });
}

/// Bytes of streams that wait for a slot are held; the window of the connection bounds them all together.
#[test]
fn more_data_than_the_window_of_the_connection() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start_with_slots(&origin, 1, "listener.web.http2.streams_max = 1000");
    let mut client = Http2Client::connect(weir.web());
    client.get("/held");
    client.settle();
    let mut bytes = Vec::new();
    for _ in 0..400 {
        let (stream, opening) = client.opening(&client.request("POST", "/"), false);
        bytes.extend(opening);
        bytes.extend(frame(DATA, 0, stream, &[b'x'; 16_384]).repeat(3));
    }
    let before = weir.resident_bytes();
    let flood = client.flood(bytes);
    assert_eq!(client.end_code(), FLOW_CONTROL_ERROR);
    let _ = flood.join().expect("the thread does not panic");
    let grown = weir.resident_bytes().saturating_sub(before);
    assert!(grown < 40 << 20, "{} KiB", grown >> 10);
    gate.open();
}

#[test]
fn more_data_than_the_window_of_a_stream_ends_the_stream() {
    let site = Site::new();
    let mut client = site.client();
    client.settle();
    let (stream, opening) = client.opening(&client.request("POST", "/"), false);
    let data = frame(DATA, 0, stream, &[b'x'; 16_384]).repeat(9);
    client.send([opening, data].concat());
    assert_eq!(client.wait_for_reset(stream), FLOW_CONTROL_ERROR);
    assert_eq!(client.fetch("/fine").text(), "/fine");
}

#[test]
fn the_first_frame_is_settings() {
    let site = Site::new();
    for first in [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 1, 0, &[]), frame(0xfa, 0, 0, &[])] {
        let mut client = Http2Client::silent(site.weir.web());
        client.send([frame::PREFACE, &first].concat());
        assert_eq!(client.end_code(), PROTOCOL_ERROR);
    }
    assert_eq!(site.failures("http2-settings-missing"), 3.0);
}

#[test]
fn frames_that_mean_nothing_are_no_fault() {
    let site = Site::new();
    let mut client = site.client();
    for bytes in [
        frame(0xfa, 0xff, 7, b"unknown"),
        frame::settings(&[(0xfafa, 1), (6, 100), (1, 0)]),
        frame(PRIORITY, 0, 99, &[0, 0, 0, 3, 16]),
        frame::priority_update(99, "u=1"),
        frame::priority_update(1, &"u=1,".repeat(200)),
        frame(PING, 0xfe, 0, &[0; 8]),
        // The reserved bit of a stream's number.
        frame(WINDOW_UPDATE, 0, 0, &[0x80, 0, 0, 1]),
    ] {
        client.send(bytes);
    }
    assert_eq!(client.fetch("/fine").text(), "/fine");
    let stream = client.next_stream();
    let block = client.block(&client.request("GET", "/with-priority"));
    let payload = [&[0x80, 0, 0, 0, 200][..], &block].concat();
    client.send(frame(HEADERS, END_HEADERS | END_STREAM | WITH_PRIORITY, stream, &payload));
    assert_eq!(client.response(stream).text(), "/with-priority");
    assert_eq!(client.goaways, []);
}
