//! Reloads and stops while requests share connections to servers.

use std::os::unix::process::ExitStatusExt as _;

use rustix::process::Signal;

use super::{config, start};
use crate::harness::http2::server::{Http2Server, http2_echo};
use crate::harness::origin::ok;
use crate::harness::{BackgroundTraffic, Client, Gate, Http2Client, Origin, eventually};

#[test]
fn a_reload_keeps_connections_whose_settings_stay() {
    let origin = http2_echo();
    let weir = start(&origin, "");
    let traffic = BackgroundTraffic::start(weir.web());
    for round in 0..5 {
        weir.reload(&config(&origin, &format!("timeouts.response = \"{}s\"", 20 + round)));
        traffic.goes_on();
    }
    traffic.end();
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_request_goes_on_whose_server_is_removed() {
    let gate = Gate::new();
    let held = gate.clone();
    let old = Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.request()?;
        held.wait("the test lets the request go on");
        server.respond(asked.stream, "200", b"old")?;
        server.read_to_end();
        Some(())
    });
    let new = http2_echo();
    let weir = start(&old, "");
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get("/");
    old.wait_for_connections(1);
    weir.reload(&config(&new, ""));
    assert_eq!(Client::get(weir.web(), "/").text(), "GET / ");
    gate.open();
    assert_eq!(client.response(stream).text(), "old");
    old.wait_for_end(0);
}

/// The server never sends its settings: the request waits for a connection that is still being opened.
#[test]
fn a_stop_while_a_connection_is_opened_is_a_stop() {
    let origin = Origin::start(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let mut weir = start(&origin, "timeouts.connect = \"60s\"");
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    origin.wait_for_connections(1);
    weir.signal(Signal::TERM);
    weir.line(&["stopping"]);
    weir.signal(Signal::TERM);
    let status = weir.wait_for_exit();
    assert!(status.signal().is_none() && !weir.stderr().contains("panicked"), "{status}: {}", weir.stderr());
}

#[test]
fn another_protocol_is_spoken_on_new_connections() {
    let origin = Origin::start(|conn| {
        if conn.peek(3)? == b"GET" {
            conn.request()?;
            return conn.send(ok("by HTTP/1"));
        }
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            server.respond(asked.stream, "200", b"by HTTP/2")?;
        }
    });
    let weir = start(&origin, "");
    assert_eq!(Client::get(weir.web(), "/").text(), "by HTTP/2");
    weir.reload(&config(&origin, "").replace("\"h2c\"", "\"http1\""));
    assert_eq!(Client::get(weir.web(), "/").text(), "by HTTP/1");
    weir.reload(&config(&origin, ""));
    assert_eq!(Client::get(weir.web(), "/").text(), "by HTTP/2");
    eventually("the first connection has ended", || origin.connection(0).end.is_some());
}
