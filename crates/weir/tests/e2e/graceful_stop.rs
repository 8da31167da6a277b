//! SIGTERM ends the process when the running exchanges are done; a second signal ends it at once.

use std::net::TcpStream;

use rustix::process::Signal;

use crate::harness::{Client, Gate, Origin, Weir, eventually, origin::ok};

/// An origin that answers `/slow` only when the gate is open.
fn gated(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.target() == "/slow" {
                gate.wait("the slow answer is due");
            }
            conn.send(ok(request.target()))?;
        }
    })
}

#[test]
fn a_running_exchange_is_finished_and_the_exit_is_clean() {
    for signal in [Signal::TERM, Signal::INT] {
        let gate = Gate::new();
        let origin = gated(&gate);
        let mut weir = Weir::proxying(&origin);
        let address = weir.web();
        let mut client = Client::connect(address);
        client.send_get("/slow");
        origin.wait_for_requests(1);
        weir.signal(signal);
        eventually("new connections are refused", || TcpStream::connect(address).is_err());
        assert!(weir.runs(), "an exchange is still under way");
        gate.open();
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, "/slow".to_owned()));
        assert!(response.closes(), "the client must know: {response:?}");
        client.assert_closed();
        assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    }
}

#[test]
fn idle_connections_do_not_delay_the_end() {
    let gate = Gate::new();
    let origin = gated(&gate);
    let mut weir = Weir::proxying(&origin);
    let mut used = Client::connect(weir.web());
    used.send_get("/quick");
    assert_eq!(used.response().status, 200);
    let mut unused = Client::connect(weir.web());
    weir.signal(Signal::TERM);
    used.assert_closed();
    // Perhaps it was never accepted; then its end is a reset.
    assert!(unused.take_to_end().0.is_empty());
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

#[test]
fn a_response_under_way_is_finished() {
    let gate = Gate::new();
    let rest = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfirst")?;
        rest.wait("the stop has begun");
        conn.send("other")
    });
    let mut weir = Weir::proxying(&origin);
    let address = weir.web();
    let mut client = Client::connect(address);
    client.send_get("/");
    client.head();
    assert_eq!(client.take(5), b"first");
    weir.signal(Signal::TERM);
    eventually("new connections are refused", || TcpStream::connect(address).is_err());
    gate.open();
    assert_eq!(client.take(5), b"other");
    client.assert_closed();
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

#[test]
fn the_grace_period_has_an_end() {
    let gate = Gate::new();
    let origin = gated(&gate);
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"200ms\"");
    let mut client = Client::connect(weir.web());
    client.send_get("/slow");
    origin.wait_for_requests(1);
    weir.signal(Signal::TERM);
    let exit = weir.wait_for_exit();
    assert!(exit.code().is_some(), "it ends by itself: {exit}");
    gate.open();
}

/// An origin that takes every connection for a WebSocket and sends back what it gets.
fn echoing_tunnel() -> Origin {
    Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")?;
        loop {
            let bytes = conn.take(4)?;
            conn.send(bytes)?;
        }
    })
}

fn open_tunnel(weir: &Weir) -> Client {
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().status(), Ok(101));
    client
}

/// A tunnel has no end of its own: it may go on for the grace period ...
#[test]
fn a_tunnel_goes_on_during_the_grace_period() {
    let origin = echoing_tunnel();
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"1h\"");
    let address = weir.web();
    let mut client = open_tunnel(&weir);
    weir.signal(Signal::TERM);
    eventually("the stop has begun", || TcpStream::connect(address).is_err());
    client.send("ping");
    assert_eq!(client.take(4), b"ping");
    assert!(weir.runs());
}

/// ... then it is cut.
#[test]
fn a_tunnel_is_cut_at_the_end_of_the_grace_period() {
    let origin = echoing_tunnel();
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"200ms\"");
    let mut client = open_tunnel(&weir);
    weir.signal(Signal::TERM);
    assert!(client.take_to_end().0.is_empty());
    assert!(weir.wait_for_exit().code().is_some());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let gate = Gate::new();
    let origin = gated(&gate);
    let mut weir = Weir::proxying_with(&origin, "process.stop_grace = \"1h\"");
    let address = weir.web();
    let mut client = Client::connect(address);
    client.send_get("/slow");
    origin.wait_for_requests(1);
    weir.signal(Signal::TERM);
    eventually("the first signal was taken", || TcpStream::connect(address).is_err());
    weir.signal(Signal::TERM);
    weir.wait_for_exit();
    gate.open();
}
