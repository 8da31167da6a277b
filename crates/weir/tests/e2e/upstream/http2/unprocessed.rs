//! Requests that a server leaves unprocessed go again, whatever they are: refused streams and GOAWAY.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{config_of_servers, start};
use crate::harness::http2::frame::REFUSED_STREAM;
use crate::harness::http2::server::{Http2Server, http2_echo};
use crate::harness::{Client, Http2Client, Origin, Weir};

/// Refuses every `each`th stream.
fn refusing(each: usize) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            if count.fetch_add(1, Ordering::SeqCst) % each == each - 1 {
                server.reset(asked.stream, REFUSED_STREAM)?;
            } else {
                server.respond(asked.stream, "200", &asked.body)?;
            }
        }
    })
}

/// Ends each connection behind so many streams.
fn leaving(after: usize) -> Origin {
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        for number in 1.. {
            let asked = server.request()?;
            if number == after {
                server.go_away(asked.stream, 0)?;
            }
            if number <= after {
                server.respond(asked.stream, "200", &asked.body)?;
            }
            if number == after {
                break;
            }
        }
        server.conn.finish();
        server.read_to_end();
        Some(())
    })
}

fn posts(weir: &Weir, count: usize, at_once: usize) {
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..count / at_once {
        let streams: Vec<u32> = (0..at_once)
            .map(|_| {
                let stream = client.post("/", &[]);
                client.data(stream, "hello", true);
                stream
            })
            .collect();
        for stream in streams {
            let response = client.response(stream);
            assert_eq!((response.status, response.text()), (200, "hello".to_owned()), "{response:?}");
        }
    }
}

#[test]
fn refused_streams_fail_no_request() {
    let origin = refusing(10);
    let weir = start(&origin, "retry.budget = \"0%\"\nretry.budget_per_second = 0");
    posts(&weir, 400, 10);
    assert!(weir.metrics().sum("weir_server_unprocessed_total", &[]) >= 40.0);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_server_that_leaves_often_fails_no_request() {
    let origin = leaving(20);
    let weir = start(&origin, "retry.budget = \"0%\"\nretry.budget_per_second = 0");
    posts(&weir, 600, 10);
    assert!(origin.connections() >= 30, "{}", origin.connections());
}

#[test]
fn a_request_that_is_refused_goes_to_another_server_first() {
    let (first, second) = (refusing(1), http2_echo());
    let servers = [first.named("a"), second.named("b")];
    let weir = Weir::start(&config_of_servers(&servers, "balance = \"round-robin\""));
    for _ in 0..6 {
        assert_eq!(Client::get(weir.web(), "/").text(), "GET / ");
    }
}

#[test]
fn refusal_without_end_is_told() {
    let origin = refusing(1);
    let weir = start(&origin, "");
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.reason()), (502, Some("response-stream-refused")));
    assert_eq!(weir.metrics().sum("weir_server_unprocessed_total", &[]), 5.0);
}

#[test]
fn a_body_that_is_no_longer_there_is_not_sent_again() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.head()?;
        server.body(asked.stream, 50_000)?;
        server.reset(asked.stream, REFUSED_STREAM)?;
        server.read_to_end();
        Some(())
    });
    let weir = start(&origin, "retry.body_size = \"4KiB\"");
    let mut client = Client::connect(weir.web());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 60000\r\n\r\n");
    client.send(vec![b'x'; 50_000]);
    let response = client.response();
    assert_eq!((response.status, response.reason()), (502, Some("response-stream-refused")));
}
