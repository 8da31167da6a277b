//! Requests and responses over TLS are what they are without: pipelined, large, in pieces of any size.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::ClientConnection;

use super::Site;
use crate::harness::scripts::{echo, pattern};
use crate::harness::{Origin, latin1};

#[test]
fn keep_alive_and_pipelining() {
    let origin = echo();
    let site = Site::start(&origin);
    let mut client = site.connect();
    for n in 0..20 {
        assert_eq!(client.fetch(&format!("/{n}")).text(), format!("/{n}"));
    }
    let many: String = (0..50).map(|n| format!("GET /p{n} HTTP/1.1\r\nHost: a.test\r\n\r\n")).collect();
    client.send(many);
    for n in 0..50 {
        assert_eq!(client.response().text(), format!("/p{n}"));
    }
    assert_eq!(origin.connections(), 1, "one after the other on one connection");
}

#[test]
fn large_bodies_both_ways_arrive_whole() {
    const LEN: usize = 3_000_017;
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let body = &request.body.bytes;
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()))?;
            conn.send(body)?;
        }
    });
    let site = Site::start(&origin);
    let body = pattern(LEN);
    let mut client = site.connect();
    for chunked in [false, true] {
        if chunked {
            client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
            for piece in body.chunks(40_000) {
                client.send(format!("{:x}\r\n", piece.len()));
                client.send(piece);
                client.send("\r\n");
            }
            client.send("0\r\n\r\n");
        } else {
            client.send(format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LEN}\r\n\r\n"));
            client.send(&body);
        }
        let response = client.response_to("POST");
        assert!(response.body.bytes == body, "chunked {chunked}: {} bytes", response.body.bytes.len());
    }
}

/// A reader that stops keeps little of the response in Weir, and gets all of it when it goes on.
#[test]
fn a_slow_reader_gets_everything() {
    const LEN: usize = 16 << 20;
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"))?;
        conn.send(pattern(LEN))
    });
    let site = Site::start(&origin);
    let before = site.weir.resident_bytes();
    let mut client = site.connect();
    client.send_get("/");
    client.head();
    crate::harness::watchdog::work(std::time::Duration::from_millis(300));
    let grown = site.weir.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for a client that does not read");
    assert!(client.take(LEN) == pattern(LEN));
}

/// Every byte of the handshake and of the first request in a segment of its own.
#[test]
fn a_hello_in_single_bytes() {
    let origin = Origin::serving("patience");
    let site = Site::start(&origin);
    let mut tcp = TcpStream::connect(site.weir.web()).expect("the listener accepts");
    tcp.set_nodelay(true).expect("a connected socket takes its options");
    let name = "a.test".try_into().expect("a host name");
    let mut session = ClientConnection::new(Arc::new(site.authority.client()), name).expect("sound settings");
    session
        .writer()
        .write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
        .expect("it is buffered");
    let mut answer = Vec::new();
    loop {
        let mut records = Vec::new();
        while session.wants_write() {
            session.write_tls(&mut records).expect("a vector takes everything");
        }
        for byte in records {
            tcp.write_all(&[byte]).expect("Weir reads");
        }
        if session.read_tls(&mut tcp).expect("Weir answers") == 0 {
            break;
        }
        let state = session.process_new_packets().expect("Weir keeps to the protocol");
        let mut piece = vec![0; state.plaintext_bytes_to_read()];
        session.reader().read_exact(&mut piece).expect("that much is there");
        answer.extend(piece);
        if state.peer_has_closed() {
            break;
        }
    }
    assert!(latin1(&answer).ends_with("\r\n\r\npatience"), "{:?}", latin1(&answer));
}
