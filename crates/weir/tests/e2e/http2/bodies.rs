//! Bodies of any size, both ways, within the windows of flow control (RFC 9113 section 5.2).

use std::thread;

use crate::harness::http2::frame::{self, INITIAL_WINDOW_SIZE};
use crate::harness::http2::{start, start_with, start_with_tls};
use crate::harness::scripts::pattern;
use crate::harness::{Http2Client, Origin};

const LARGE: usize = 8 << 20;

/// Answers a POST with its body, as it comes, and a GET with a large one.
fn large() -> Origin {
    Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            if head.word(0) == "POST" {
                let request = conn.request_body(head)?;
                let len = request.body.bytes.len();
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"))?;
                conn.send(&request.body.bytes)?;
            } else if head.word(1) == "/chunked" {
                conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for piece in pattern(LARGE).chunks(10_007) {
                    conn.send(format!("{:x}\r\n", piece.len()))?;
                    conn.send(piece)?;
                    conn.send("\r\n")?;
                }
                conn.send("0\r\n\r\n")?;
            } else {
                conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n"))?;
                conn.send(pattern(LARGE))?;
            }
        }
    })
}

#[test]
fn a_large_response_arrives_whole() {
    let weir_origin = large();
    let weir = start(&weir_origin);
    let mut client = Http2Client::connect(weir.web());
    for target in ["/length", "/chunked"] {
        let response = client.fetch(target);
        assert!(response.body == pattern(LARGE), "{target}: {} bytes", response.body.len());
    }
}

#[test]
fn a_large_request_arrives_whole() {
    let origin = large();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for fields in [&[][..], &[("content-length", "8388608")]] {
        let stream = client.post("/", fields);
        assert_eq!(client.upload(stream, &pattern(LARGE), true), LARGE);
        let response = client.response(stream);
        assert!(response.body == pattern(LARGE), "{fields:?}: {} bytes", response.body.len());
    }
}

#[test]
fn large_bodies_with_tls() {
    let origin = large();
    let (authority, weir) = start_with_tls(&origin, "");
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let response = client.fetch_by_post("/", &pattern(LARGE));
    assert!(response.body == pattern(LARGE), "{} bytes", response.body.len());
}

#[test]
fn many_large_bodies_share_a_connection() {
    const LEN: usize = 500_000;
    let origin = large();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let body = pattern(LEN);
    let streams: Vec<u32> = (0..20).map(|_| client.post("/", &[])).collect();
    for piece in body.chunks(4_000) {
        for stream in &streams {
            client.upload(*stream, piece, false);
        }
    }
    for stream in &streams {
        client.data(*stream, "", true);
    }
    for stream in streams {
        assert!(client.response(stream).body == body, "{stream}");
    }
}

#[test]
fn a_body_comes_only_as_far_as_the_window_is_open() {
    let origin = large();
    let weir = start(&origin);
    let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, 1_000)]);
    client.gives_back = false;
    let stream = client.get("/length");
    assert_eq!(client.body(stream, 1_000).len(), 1_000);
    client.settle();
    assert_eq!(client.received(stream).body.len(), 1_000, "and not a byte more");
    client.open_window(stream, 1);
    assert_eq!(client.body(stream, 1_001).len(), 1_001);
    // A change of the setting moves the windows of open streams.
    client.send_settings(&[(INITIAL_WINDOW_SIZE, 3_000)]);
    assert_eq!(client.body(stream, 3_001).len(), 3_001);
    client.settle();
    assert_eq!(client.received(stream).body.len(), 3_001);
    // A smaller one makes the window negative, and it opens only behind that.
    client.send_settings(&[(INITIAL_WINDOW_SIZE, 0)]);
    client.open_window(stream, 3_000);
    client.settle();
    assert_eq!(client.received(stream).body.len(), 3_001);
    client.open_window(stream, 10);
    assert_eq!(client.body(stream, 3_011).len(), 3_011);
    client.gives_back = true;
    client.open_window(0, 1 << 30);
    client.open_window(stream, 1 << 30);
    assert!(client.response(stream).body == pattern(LARGE));
}

#[test]
fn the_window_of_the_connection_holds_all_streams_together() {
    let origin = large();
    let weir = start(&origin);
    let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    client.gives_back = false;
    let streams: Vec<u32> = (0..4).map(|_| client.get("/length")).collect();
    let taken =
        |client: &Http2Client| streams.iter().map(|id| client.received(*id).body.len()).sum::<usize>();
    client.wait("the window is used up", |client| taken(client) == 65_535);
    client.settle();
    assert_eq!(taken(&client), 65_535);
    client.open_window(0, 100_000);
    client.wait("the window is used up again", |client| taken(client) == 165_535);
    client.gives_back = true;
    client.open_window(0, 1 << 30);
    for stream in streams {
        assert!(client.response(stream).body == pattern(LARGE), "{stream}");
    }
}

/// A server that does not read holds its own stream: what Weir keeps for it is bounded by its window.
#[test]
fn a_server_that_does_not_read_stops_its_stream_and_no_other() {
    let origin = Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            if head.word(1) == "/stalled" {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhead")?;
                thread::park_timeout(crate::harness::watchdog::WATCHDOG);
                return None;
            }
            let request = conn.request_body(head)?;
            conn.send(crate::harness::origin::ok(&request.body.bytes.len().to_string()))?;
        }
    });
    let weir = start_with(&origin, "upstream.app.timeouts.send = \"off\"");
    let mut client = Http2Client::connect(weir.web());
    let stalled = client.post("/stalled", &[]);
    let piece = vec![b'x'; 1_000_000];
    // The server's system takes some; then the window stays shut.
    let mut sent = 0;
    while client.send_room(stalled) > 0 || {
        client.settle();
        client.send_room(stalled) > 0
    } {
        let room = client.send_room(stalled).min(16_384) as usize;
        client.data(stalled, &piece[..room], false);
        sent += room;
    }
    assert!(sent >= 65_535, "{sent}");
    for _ in 0..3 {
        assert_eq!(client.fetch_by_post("/other", &piece).text(), "1000000");
    }
    client.reset(stalled, frame::CANCEL);
    assert_eq!(client.fetch_by_post("/other", &piece).text(), "1000000");
}

#[test]
fn padding_counts_and_is_not_content() {
    let origin = crate::harness::scripts::echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.next_stream();
    let block = client.block(&client.request("POST", "/"));
    let padded = [&[10][..], &block, &[0; 10]].concat();
    client.send(frame::frame(frame::HEADERS, frame::END_HEADERS | frame::PADDED, stream, &padded));
    client.send(frame::frame(frame::DATA, frame::PADDED, stream, b"\x05hello\0\0\0\0\0"));
    client.send(frame::frame(frame::DATA, frame::PADDED | frame::END_STREAM, stream, b"\x03\0\0\0"));
    assert_eq!(client.response(stream).text(), "/hello");
}
