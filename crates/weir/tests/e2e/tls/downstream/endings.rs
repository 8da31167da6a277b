//! The end of a TLS connection: a complete message ends with `close_notify`, a truncated one never looks complete.

use super::Site;
use crate::harness::websocket::{HANDSHAKE, SWITCH};
use crate::harness::{Connection, End, Origin};

/// An origin that answers one request with `head` and `abc`, and then closes or resets.
fn cutting(head: &'static str, reset: bool) -> Origin {
    Origin::start(move |conn| {
        conn.request()?;
        conn.send(head)?;
        conn.send("abc")?;
        if reset {
            // The reset must not overtake the bytes.
            crate::harness::watchdog::work(std::time::Duration::from_millis(100));
            conn.reset();
        }
        None
    })
}

#[test]
fn a_complete_response_ends_with_close_notify() {
    let origin = cutting("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", false);
    let site = Site::start(&origin);
    let mut client = site.connect();
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    client.head();
    assert_eq!(client.take_to_end(), (b"abc".to_vec(), End::Closed));
}

#[test]
fn a_cut_response_does_not() {
    for (head, reset) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", true),
    ] {
        let origin = cutting(head, reset);
        let site = Site::start(&origin);
        let mut client = site.connect();
        client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
        client.head();
        let (_, end) = client.take_to_end();
        assert!(matches!(end, End::Reset | End::Truncated), "{head:?}: {end}");
    }
}

/// A request body whose client closes without `close_notify` is not complete, whatever the server would accept.
#[test]
fn a_truncated_request_is_not_taken_for_complete() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.wait_for_end();
        Some(())
    });
    let site = Site::start(&origin);
    let mut client = site.connect();
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    origin.wait_for_connections(1);
    client.tls().tcp.shutdown(std::net::Shutdown::Write).expect("the connection is open");
    let end = origin.wait_for_end(0);
    assert!(matches!(end, End::Reset | End::Closed), "{end}");
    assert!(!origin.connection(0).received.ends_with(b"0\r\n\r\n"), "no last chunk");
    assert!(origin.requests().is_empty());
}

/// Bytes both ways, then the end of one direction, then more in the other.
#[test]
fn a_tunnel_passes_half_closes() {
    let origin = Origin::start(|conn: &mut Connection| {
        conn.request()?;
        conn.send(SWITCH)?;
        assert_eq!(conn.take(4)?, b"ping");
        conn.send("pong")?;
        let (rest, end) = conn.wait_for_end();
        assert_eq!((rest, end), (b"last".to_vec(), End::Closed));
        conn.send("still here")?;
        conn.finish();
        Some(())
    });
    let site = Site::start(&origin);
    let mut client = site.connect();
    client.send(HANDSHAKE);
    assert_eq!(client.head().status(), Ok(101));
    client.send("ping");
    assert_eq!(client.take(4), b"pong");
    client.send("last");
    client.finish();
    assert_eq!(client.take_to_end(), (b"still here".to_vec(), End::Closed));
}

/// At a stop as well: `close_notify` shows the client that the end is not a truncation.
#[test]
fn a_drained_tunnel_ends_with_close_notify() {
    let origin = Origin::start(|conn: &mut Connection| {
        conn.send("hello")?;
        conn.wait_for_end();
        Some(())
    });
    let site = Site::start_with(&origin, "listener.web.protocol = \"tcp\"\nprocess.stop_grace = \"1s\"");
    let mut client = site.connect();
    assert_eq!(client.take(5), b"hello");
    site.weir.signal(rustix::process::Signal::TERM);
    assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
}

/// A TCP listener with TLS: the server speaks first, and either side may end first.
#[test]
fn a_tcp_listener_ends_its_tunnels_with_close_notify() {
    let origin = Origin::start(|conn: &mut Connection| {
        conn.send("hello")?;
        // The second client does not send `close_notify`.
        let (rest, end) = conn.wait_for_end();
        if end == End::Closed {
            conn.send(rest)?;
        }
        None
    });
    let site = Site::start_with(&origin, "listener.web.protocol = \"tcp\"");
    let mut client = site.connect();
    assert_eq!(client.take(5), b"hello");
    let much: Vec<u8> = (0..3_000_000_usize).map(|at| (at / 7 % 251) as u8).collect();
    client.send(&much);
    client.finish();
    let (rest, end) = client.take_to_end();
    assert!(rest == much && end == End::Closed, "{} bytes, {end}", rest.len());
    let mut cut = site.connect();
    assert_eq!(cut.take(5), b"hello");
    cut.tls().tcp.shutdown(std::net::Shutdown::Write).expect("the connection is open");
    let (_, end) = cut.take_to_end();
    assert!(matches!(end, End::Reset | End::Truncated), "{end}");
}

/// The end of the server's direction reaches the client, which goes on sending.
#[test]
fn a_tunnel_passes_the_end_of_the_server() {
    let origin = Origin::start(|conn: &mut Connection| {
        conn.request()?;
        conn.send(format!("{SWITCH}bye"))?;
        conn.finish();
        assert_eq!(conn.wait_for_end(), (b"and more".to_vec(), End::Closed));
        Some(())
    });
    let site = Site::start(&origin);
    let mut client = site.connect();
    client.send(HANDSHAKE);
    assert_eq!(client.head().status(), Ok(101));
    assert_eq!(client.take_to_end(), (b"bye".to_vec(), End::Closed));
    client.send("and more");
    client.finish();
    origin.wait_for_end(0);
}

/// An idle connection ends with `close_notify`, whether the client or Weir ends it.
#[test]
fn an_idle_connection_is_closed_and_not_cut() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin);
    let mut client = site.connect();
    client.assert_alive();
    client.finish();
    let (rest, end) = client.take_to_end();
    assert!(rest.is_empty() && end == End::Closed, "{end}");
    let site = Site::start_with(&origin, "listener.web.timeouts.idle = \"200ms\"");
    let mut idle = site.connect();
    idle.assert_alive();
    idle.assert_closed();
}
