//! Health checks of servers that speak HTTP/2: requests, and the gRPC health protocol.

use super::start;
use crate::harness::http2::server::Http2Server;
use crate::harness::origin::ok;
use crate::harness::{Client, FailureSwitch, Origin, Weir, eventually};

/// Answers probes as the switch says, and everything else with 200.
fn probed(fails: &FailureSwitch) -> Origin {
    let fails = fails.clone();
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            match asked.path() {
                "/healthz" => {
                    assert!(asked.field("user-agent").is_some_and(|name| name.starts_with("weir-health/")));
                    server.respond(
                        asked.stream,
                        if fails.is_on() { "503" } else { "200" },
                        b"all is well",
                    )?;
                }
                "/grpc.health.v1.Health/Check" => {
                    assert_eq!((asked.field("te"), asked.field(":method")), (Some("trailers"), Some("POST")));
                    assert_eq!(asked.body, b"\0\0\0\0\x05\x0a\x03a.B");
                    let status = if fails.is_on() { 2 } else { 1 };
                    server.send_head(
                        asked.stream,
                        &[(":status", "200"), ("content-type", "application/grpc")],
                        false,
                    )?;
                    server.send_data(asked.stream, &[0, 0, 0, 0, 2, 8, status], false)?;
                    server.send_head(asked.stream, &[("grpc-status", "0")], true)?;
                }
                _ => server.respond(asked.stream, "200", b"fine")?,
            }
        }
    })
}

fn is_up(weir: &Weir) -> bool {
    weir.metrics().sum("weir_server_up", &[]) == 1.0
}

fn follows(keys: &str) {
    let fails = FailureSwitch::new(false);
    let origin = probed(&fails);
    let weir = start(&origin, &format!("health = {{ interval = \"50ms\", timeout = \"2s\", {keys} }}"));
    eventually("the server is up", || is_up(&weir));
    assert_eq!(Client::get(weir.web(), "/").text(), "fine", "{keys}");
    fails.set(true);
    eventually("it is down", || !is_up(&weir));
    fails.set(false);
    eventually("it is up again", || is_up(&weir));
    assert!(origin.connections() < 20, "{keys}: probes share a connection: {}", origin.connections());
}

#[test]
fn probes_follow_the_status() {
    follows("path = \"/healthz\"");
    follows("path = \"/healthz\", body_contains = \"is well\"");
}

#[test]
fn probes_follow_the_grpc_health_protocol() {
    follows("kind = \"grpc\", service = \"a.B\"");
}

#[test]
fn a_body_that_lacks_what_is_looked_for_is_a_failure() {
    let origin = probed(&FailureSwitch::new(false));
    let weir = start(
        &origin,
        "health = { interval = \"50ms\", timeout = \"2s\", path = \"/healthz\", body_contains = \"ill\" }",
    );
    eventually("the server is down", || !is_up(&weir));
}

/// A server of gRPC often answers probes of HTTP/1 on a port of its own.
#[test]
fn another_port_is_probed_by_http1() {
    let origin = probed(&FailureSwitch::new(false));
    let probes = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(ok("well"))?;
        }
    });
    let port = probes.address().port();
    let keys =
        format!("health = {{ interval = \"50ms\", timeout = \"2s\", path = \"/healthz\", port = {port} }}");
    let weir = start(&origin, &keys);
    probes.wait_for_requests(3);
    assert!(is_up(&weir));
    assert_eq!(Client::get(weir.web(), "/").text(), "fine");
}
