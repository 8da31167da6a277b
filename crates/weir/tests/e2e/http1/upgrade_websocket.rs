//! WebSocket tunnels: bytes both ways untouched, in any size, and an end on one side is an end on the other.

use crate::harness::scripts::{mirror, send_and_take};
use crate::harness::websocket::{HANDSHAKE, SWITCH, open_tunnel, switching};
use crate::harness::{Client, End, Gate, Origin, Weir};

#[test]
fn frames_go_both_ways_one_at_a_time() {
    let origin = switching(|conn| {
        for n in 0_u8..=255 {
            assert_eq!(conn.take(1)?, [n], "every byte value passes");
            conn.send([255 - n])?;
        }
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = open_tunnel(weir.web());
    for n in 0_u8..=255 {
        client.send([n]);
        assert_eq!(client.take(1), [255 - n]);
    }
}

#[test]
fn much_goes_both_ways_at_once() {
    const BYTES: usize = 8 << 20;
    let origin = switching(|conn| {
        mirror(conn, BYTES)?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    send_and_take(&mut open_tunnel(weir.web()), BYTES);
}

#[test]
fn bytes_in_the_same_segment_as_the_101() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(format!("{SWITCH}welcome"))?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    assert_eq!(open_tunnel(weir.web()).take(7), b"welcome");
}

#[test]
fn the_server_finishes_first() {
    let origin = switching(|conn| {
        conn.send("bye")?;
        conn.finish();
        let (rest, end) = conn.wait_for_end();
        assert_eq!((rest.as_slice(), end), (&b"still here"[..], End::Closed));
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = open_tunnel(weir.web());
    assert_eq!(client.take_to_end(), (b"bye".to_vec(), End::Closed));
    client.send("still here");
    client.finish();
    assert_eq!(origin.wait_for_end(0), End::Closed);
}

#[test]
fn a_reset_passes_through() {
    let origin = switching(|conn| {
        let (_, end) = conn.wait_for_end();
        assert!(matches!(end, End::Closed | End::Reset));
        Some(())
    });
    let weir = Weir::proxying(&origin);
    open_tunnel(weir.web()).reset();
    let end = origin.wait_for_end(0);
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
}

#[test]
fn a_reset_of_the_server_is_an_end() {
    let open = Gate::new();
    let gate = open.clone();
    let origin = switching(move |conn| {
        gate.wait("the client has the 101");
        conn.reset();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = open_tunnel(weir.web());
    open.open();
    let (rest, end) = client.take_to_end();
    assert_eq!((rest.as_slice(), end), (&b""[..], End::Closed));
}

#[test]
fn a_silent_tunnel_ends_after_its_time() {
    let origin = switching(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying_with(&origin, "upstream.app.timeouts.tunnel = \"200ms\"");
    let mut client = open_tunnel(weir.web());
    let (rest, end) = client.take_to_end();
    assert!(rest.is_empty() && matches!(end, End::Closed | End::Reset), "{end}");
    origin.wait_for_end(0);
}

#[test]
fn many_tunnels_at_a_time() {
    let origin = switching(|conn| {
        loop {
            let bytes = conn.take(4)?;
            conn.send(bytes)?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut clients: Vec<Client> = (0..100).map(|_| open_tunnel(weir.web())).collect();
    for round in 0..3 {
        for (n, client) in clients.iter_mut().enumerate() {
            client.send(format!("{:04}", n * 10 + round));
        }
        for (n, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.take(4), format!("{:04}", n * 10 + round).as_bytes());
        }
    }
}

/// A server that has not understood the request gets no tunnel: what the client sends would be requests to it.
#[test]
fn a_switch_to_something_else_opens_no_tunnel() {
    for (fields, reason) in [
        (
            "Connection: Upgrade\r\nUpgrade: chat\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
            "response-unexpected-upgrade",
        ),
        (
            "Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
            "response-unexpected-upgrade",
        ),
        (
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n",
            "response-websocket-accept-mismatch",
        ),
        ("Connection: Upgrade\r\nUpgrade: websocket\r\n", "response-websocket-accept-mismatch"),
    ] {
        let origin = Origin::start(move |conn| {
            conn.request()?;
            conn.send(format!("HTTP/1.1 101 Switching Protocols\r\n{fields}\r\n"))?;
            conn.wait_for_end();
            Some(())
        });
        let weir = Weir::proxying(&origin);
        let response = Client::exchange(weir.web(), HANDSHAKE);
        assert_eq!((response.status, response.reason()), (502, Some(reason)), "{fields}");
    }
}

/// RFC 9110 section 15.5.22: the response has to name the required protocol.
#[test]
fn an_upgrade_required_response_names_the_protocol() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(
                "HTTP/1.1 426 Upgrade Required\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\nno",
            )?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for close in [false, true] {
        let more = if close { "Connection: close\r\n" } else { "" };
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{more}\r\n"));
        let response = client.response();
        assert_eq!((response.status, response.field("upgrade")), (426, Some("websocket")));
        assert!(response.fields().lists("connection", "upgrade"), "{response:?}");
        assert_eq!(response.fields().lists("connection", "close"), close, "{response:?}");
    }
    let response = Client::exchange(weir.web(), "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    assert_eq!((response.status, response.field("upgrade")), (426, None), "HTTP/1.0 has no upgrades");
}
