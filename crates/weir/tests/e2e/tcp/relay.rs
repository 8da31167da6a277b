//! Bytes pass in both directions, and the end of each direction is passed on: in order or by a reset.

use std::io::{Read as _, Write as _};

use super::{address, config, echo};
use crate::harness::scripts::{mirror, send_and_take};
use crate::harness::{Client, End, Origin, Weir, eventually};

#[test]
fn the_server_may_speak_first_and_every_byte_passes() {
    let server = echo();
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    for byte in 0..=255_u8 {
        client.send([byte]);
        assert_eq!(client.take(1), [byte.wrapping_add(1)]);
    }
    client.finish();
    assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
    assert_eq!(weir.access_log(1), [format!("web app {} 1 256 261 client -", server.address())]);
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_tunnels_total", &["listener=\"web\""]), 1.0);
    assert_eq!(metrics.sum("weir_listener_tunnels_open", &["listener=\"web\""]), 0.0);
    assert_eq!(metrics.sum("weir_listener_requests_total", &["listener=\"web\""]), 0.0);
    assert_eq!(metrics.sum("weir_upstream_requests_total", &["upstream=\"app\""]), 1.0);
}

/// A connection may last for days: its bytes are counted while it runs, and only once.
#[test]
fn bytes_are_counted_while_a_connection_lasts() {
    let server = echo();
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    client.send([1; 10]);
    client.take(10);
    let bytes = |name: &str| weir.metrics().sum(name, &["upstream=\"app\""]);
    let counted = || (bytes("weir_server_sent_bytes_total"), bytes("weir_server_received_bytes_total"));
    eventually("they are counted", || counted() == (10.0, 15.0));
    assert_eq!(weir.metrics().sum("weir_listener_tunnels_open", &[]), 1.0);
    client.finish();
    client.take_to_end();
    eventually("it has ended", || weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0);
    assert_eq!(counted(), (10.0, 15.0));
    let overview = Client::get_by_address(weir.address("admin"), "/api/overview").text();
    assert!(overview.contains("\"protocol\":\"tcp\""), "{overview}");
}

#[test]
fn an_end_of_one_direction_leaves_the_other_open() {
    let server = Origin::start(|conn| {
        let (received, end) = conn.wait_for_end();
        assert_eq!(end, End::Closed);
        // The client has ended its direction and still listens.
        conn.send(received.iter().rev().copied().collect::<Vec<u8>>())?;
        conn.finish();
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    client.send("question");
    client.finish();
    assert_eq!(client.take_to_end(), (b"noitseuq".to_vec(), End::Closed));
    assert_eq!(weir.access_log(1), [format!("web app {} 1 8 8 client -", server.address())]);
}

#[test]
fn a_server_that_ends_first_leaves_the_client_its_direction() {
    let server = Origin::start(|conn| {
        conn.send("bye")?;
        conn.finish();
        let (received, _) = conn.wait_for_end();
        assert_eq!(received, b"one more thing");
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take_to_end(), (b"bye".to_vec(), End::Closed));
    client.send("one more thing");
    client.finish();
    assert_eq!(weir.access_log(1), [format!("web app {} 1 14 3 server -", server.address())]);
    assert_eq!(server.wait_for_end(0), End::Closed);
}

#[test]
fn a_reset_of_the_client_is_passed_on_and_one_of_the_server_is_an_end() {
    let server = Origin::start(|conn| {
        conn.take(2)?;
        conn.reset();
        None
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    client.send("go");
    assert_eq!(client.take_to_end().1, End::Closed);
    let waiting = Origin::start(|conn| {
        conn.send("hello")?;
        conn.wait_for_end();
        Some(())
    });
    let other = Weir::start(&config(&[&address(&waiting)], "", ""));
    let mut client = Client::connect(other.web());
    assert_eq!(client.take(5), b"hello");
    client.reset();
    assert_eq!(waiting.wait_for_end(0), End::Reset);
    assert_eq!(weir.access_log(1), [format!("web app {} 1 2 0 server relay-server-reset", server.address())]);
    assert_eq!(other.access_log(1), [format!("web app {} 1 0 5 client client-reset", waiting.address())]);
}

#[test]
fn much_goes_both_ways_at_once() {
    const BYTES: usize = 8 << 20;
    let server = Origin::start(|conn| {
        mirror(conn, BYTES)?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    let mut client = Client::connect(weir.web());
    send_and_take(&mut client, BYTES);
    client.finish();
    assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
}

/// A server that takes all it gets and returns it when there is room, behind a client that sends everything before it reads anything: both
/// ways are full at times, and neither must hold up the other.
#[test]
fn a_full_direction_does_not_stop_the_other() {
    const BYTES: usize = 48 << 20;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::spawn(move || {
        let (mut from, _) = listener.accept().expect("a connection comes");
        let mut to = from.try_clone().expect("one more descriptor");
        let (taken, kept) = std::sync::mpsc::channel::<Vec<u8>>();
        std::thread::spawn(move || kept.into_iter().try_for_each(|bytes| to.write_all(&bytes)));
        let mut buf = vec![0; 64 * 1024];
        while let Ok(len @ 1..) = from.read(&mut buf) {
            if taken.send(buf[..len].to_vec()).is_err() {
                break;
            }
        }
    });
    let weir = Weir::start(&config(&[&address], "", ""));
    let mut client = Client::connect(weir.web());
    for _ in 0..BYTES / 65_536 {
        client.send(vec![7; 65_536]);
    }
    assert!(client.take(BYTES).iter().all(|byte| *byte == 7));
}

/// A client that is gone before its connection was accepted is no client that has ended its direction and goes on reading.
#[test]
fn a_reset_before_the_first_byte_is_a_reset() {
    let server = Origin::start(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&config(&[&address(&server)], "", ""));
    weir.pause();
    Client::connect(weir.web()).reset();
    weir.signal(rustix::process::Signal::CONT);
    let line = weir.access_log(1).remove(0);
    assert!(line.ends_with("client client-reset"), "{line}");
}
