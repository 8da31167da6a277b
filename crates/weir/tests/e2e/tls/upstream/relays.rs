//! Bodies, tunnels and endings over TLS with a server.

use super::{folder, start, start_for};
use crate::harness::origin::ok;
use crate::harness::{CertificateAuthority, Client, End, Origin};

/// Larger than any buffer, and no multiple of a record.
const LARGE: usize = 3_000_003;

#[test]
fn large_bodies_both_ways_arrive_whole() {
    let authority = CertificateAuthority::new();
    let origin = Origin::start_tls(authority.server(&["app.test"]), |conn| {
        loop {
            let request = conn.request()?;
            conn.send(ok(&String::from_utf8_lossy(&request.body.bytes)))?;
        }
    });
    let weir = start_for(&origin, &authority, "");
    let body: String = (0..LARGE).map(|at| char::from(b'a' + (at * 7 % 26) as u8)).collect();
    let mut client = Client::connect(weir.web());
    for _ in 0..2 {
        client.send(format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LARGE}\r\n\r\n{body}"));
        assert!(client.response().text() == body, "the body came back changed");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_close_delimited_body_is_complete_only_with_close_notify() {
    let authority = CertificateAuthority::new();
    for is_whole in [true, false] {
        let origin = Origin::start_tls(authority.server(&["app.test"]), move |conn| {
            conn.request()?;
            conn.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall of it")?;
            if is_whole {
                conn.tls().notify();
            }
            Some(())
        });
        let weir = start_for(&origin, &authority, "");
        let mut client = Client::connect(weir.web());
        client.send_get("/");
        let outcome = client.try_response_to("GET");
        assert_eq!(outcome.is_ok(), is_whole, "{outcome:?}");
    }
}

#[test]
fn a_websocket_and_its_end_pass() {
    let authority = CertificateAuthority::new();
    let origin = Origin::start_tls(authority.server(&["app.test"]), |conn| {
        conn.head()?;
        conn.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello",
        )?;
        let said = conn.take(4)?;
        conn.send(said)?;
        let (_, end) = conn.wait_for_end();
        assert_eq!(end, End::Closed);
        conn.send("bye")?;
        conn.tls().notify();
        Some(())
    });
    let weir = start_for(&origin, &authority, "");
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().status(), Ok(101));
    assert_eq!(client.take(5), b"hello");
    client.send("ping");
    assert_eq!(client.take(4), b"ping");
    client.finish();
    assert_eq!(client.take_to_end(), (b"bye".to_vec(), End::Closed));
}

/// Whose connection it is stands before TLS, where a server that only passes it on can read it.
#[test]
fn the_proxy_header_comes_before_the_handshake() {
    let authority = CertificateAuthority::new();
    let (tell, described) = std::sync::mpsc::channel();
    let heard = move |line| tell.send(line).expect("the test listens");
    let origin = Origin::start_tls_behind_line(authority.server(&["app.test"]), heard, |conn| {
        loop {
            conn.request()?;
            conn.send(ok("fine"))?;
        }
    });
    let weir = start_for(&origin, &authority, "upstream.app.proxy_protocol = \"v1\"");
    let mut client = Client::connect_from("127.0.0.7", weir.web());
    for _ in 0..2 {
        assert_eq!(client.fetch("/").text(), "fine");
    }
    let expected =
        format!("PROXY TCP4 127.0.0.7 127.0.0.1 {} {}\r\n", client.local_port(), weir.web().port());
    assert_eq!(described.try_iter().collect::<Vec<_>>(), [expected]);
}

/// A client of plain TCP, and a server that is the first to speak.
#[test]
fn a_tcp_listener_can_speak_tls_to_its_servers() {
    let authority = CertificateAuthority::new();
    let origin = Origin::start_tls(authority.server(&["app.test"]), |conn| {
        conn.send("welcome")?;
        let said = conn.take(5)?;
        conn.send(said)?;
        conn.wait_for_end();
        Some(())
    });
    let server = origin.entry();
    let tls = "ca = \"ca.pem\", server_name = \"app.test\"";
    let weir = start(folder(&authority), &server, tls, "listener.web.protocol = \"tcp\"");
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(7), b"welcome");
    client.send("hello");
    assert_eq!(client.take(5), b"hello");
    client.finish();
    assert_eq!(origin.wait_for_end(0), End::Closed);
}
