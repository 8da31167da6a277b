//! Bodies of any size, both ways, within the windows of flow control.

use std::thread;

use super::start;
use crate::harness::http2::server::{Http2Server, http2_origin};
use crate::harness::scripts::pattern;
use crate::harness::{Client, Gate, Http2Client, Origin};

const LARGE: usize = 8 << 20;

#[test]
fn large_bodies_arrive_whole_both_ways() {
    let origin = http2_origin(|asked| ("200", asked.body.clone()));
    let weir = start(&origin, "");
    let body = pattern(LARGE);
    let mut client = Http2Client::connect(weir.web());
    assert!(client.fetch_by_post("/", &body).body == body, "by HTTP/2");
    let mut client = Client::connect(weir.web());
    let sender = client.duplicate();
    let sent = body.clone();
    let sending = thread::spawn(move || {
        let mut sender = sender;
        sender.send(format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LARGE}\r\n\r\n"));
        sender.send(sent);
    });
    assert!(client.response_to("POST").body.bytes == body, "by HTTP/1");
    sending.join().expect("it is sent");
}

/// The end of the stream says that there is no body; a client of HTTP/1 has to be told by a length.
#[test]
fn a_response_without_a_body_has_a_length_for_clients_of_http1() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            server.send_head(asked.stream, &[(":status", &asked.path()[1..])], true)?;
        }
    });
    let weir = start(&origin, "");
    let mut client = Client::connect(weir.web());
    for (method, status, length) in [
        ("GET", "200", Some("0")),
        ("POST", "404", Some("0")),
        ("GET", "304", None),
        ("GET", "204", None),
        ("HEAD", "200", None),
    ] {
        client.send(format!("{method} /{status} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let response = client.response_to(method);
        assert_eq!(response.status.to_string(), status);
        assert_eq!(response.field("content-length"), length, "{method} {status}");
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_no_other() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let slow = server.request()?.stream;
        server.send_head(slow, &[(":status", "200")], false)?;
        // As much as the window takes: its client does not read.
        let body = pattern(60_000);
        server.send_data(slow, &body, false)?;
        for _ in 0..30 {
            let asked = server.request()?;
            server.respond(asked.stream, "200", &body)?;
        }
        server.read_to_end();
        Some(())
    });
    let weir = start(&origin, "");
    let mut slow = Http2Client::connect_narrow(weir.web(), &[(4, 0)]);
    let stream = slow.get("/slow");
    assert_eq!(slow.head(stream).status, 200);
    for _ in 0..30 {
        assert_eq!(Client::get(weir.web(), "/fast").body.bytes.len(), 60_000);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_server_that_stops_reading_holds_up_no_other_request() {
    let filled = Gate::new();
    let fills = filled.clone();
    let origin = Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        server.gives_back = false;
        let slow = server.head()?.stream;
        server.body(slow, 60_000)?;
        fills.open();
        // The window of the connection is used up nearly, that of the others is not.
        for _ in 0..5 {
            let asked = server.request()?;
            server.respond(asked.stream, "200", b"fast")?;
        }
        server.read_to_end();
        Some(())
    });
    let weir = start(&origin, "");
    let mut slow = Client::connect(weir.web());
    slow.send("POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n");
    slow.send(pattern(65_000));
    filled.wait("the server has what it reads of the body");
    for _ in 0..5 {
        assert_eq!(Client::get(weir.web(), "/fast").text(), "fast");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn an_early_answer_ends_the_request() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.head()?;
        server.respond(asked.stream, "413", b"too much")?;
        assert_eq!(server.wait_for_reset(asked.stream), Some(8), "CANCEL");
        let asked = server.request()?;
        server.respond(asked.stream, "200", b"next")
    });
    let weir = start(&origin, "");
    let mut client = Client::connect(weir.web());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\nbegin");
    let response = client.response();
    assert_eq!((response.status, response.text()), (413, "too much".to_owned()));
    assert_eq!(Client::get(weir.web(), "/").text(), "next");
    assert_eq!(origin.connections(), 1, "one stream was at fault, not the connection");
}

#[test]
fn a_client_that_leaves_has_its_stream_cancelled() {
    let arrived = Gate::new();
    let gate = arrived.clone();
    let origin = Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.request()?;
        gate.open();
        assert_eq!(server.wait_for_reset(asked.stream), Some(8), "CANCEL");
        let asked = server.request()?;
        server.respond(asked.stream, "200", b"next")
    });
    let weir = start(&origin, "");
    let mut client = Client::connect(weir.web());
    client.send_get("/left");
    arrived.wait("the request reaches the server");
    client.reset();
    assert_eq!(Client::get(weir.web(), "/").text(), "next");
    assert_eq!(origin.connections(), 1);
}
