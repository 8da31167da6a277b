//! Connections of probes: kept from one probe to the next, replaced when they are old or the server closes them.

use super::{QUICK, config, origin, probes, wait_for_probes, wait_until};
use crate::harness::origin::{ok, status};
use crate::harness::scripts::probed;
use crate::harness::{FailureSwitch, Origin, Weir, eventually};

/// Connections that carried probes, and probes in all, of an origin that gets nothing else.
fn probing(origin: &Origin) -> (usize, usize) {
    let requests = origin.requests();
    let connections: std::collections::HashSet<usize> =
        requests.iter().map(|request| request.connection).collect();
    (connections.len(), requests.len())
}

#[test]
fn a_kept_connection_carries_many_probes() {
    for response in [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nready".to_owned(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nready\r\n0\r\n\r\n".to_owned(),
        status(204),
    ] {
        let server = origin("one", move || response.clone());
        let weir = Weir::start(&config(
            &[server.named("one")],
            &format!("{QUICK}, status = [200, 204], connection_age = \"1h\""),
        ));
        wait_for_probes(&weir, "one", "passed", 5.0);
        let (connections, probes) = probing(&server);
        assert!(connections == 1 && probes >= 5, "{probes} probes on {connections} connections");
        assert_eq!(server.last_request().field("Connection"), None);
    }
}

#[test]
fn a_connection_that_is_old_or_cannot_be_kept_is_replaced() {
    for (settings, response) in [
        ("connection_age = \"1ms\"", ok("ready")),
        (
            "connection_age = \"1h\"",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ),
        ("connection_age = \"1h\", body_size = \"4B\"", ok(&"longer than that".repeat(10_000))),
        ("connection_age = \"off\"", ok("ready")),
    ] {
        let server = origin("one", move || response.clone());
        let weir = Weir::start(&config(&[server.named("one")], &format!("{QUICK}, {settings}")));
        wait_for_probes(&weir, "one", "passed", 4.0);
        let (connections, probes) = probing(&server);
        assert!(
            connections >= 4 && connections == probes,
            "{settings}: {probes} probes on {connections} connections"
        );
    }
}

#[test]
fn a_server_that_closes_a_kept_connection_is_still_well() {
    let server = Origin::start(|conn| {
        conn.request()?;
        conn.send(ok("ready"))?;
        // Says nothing of it, as servers that restart do.
        conn.finish();
        None
    });
    let weir = Weir::start(&config(&[server.named("one")], &format!("{QUICK}, connection_age = \"1h\"")));
    wait_for_probes(&weir, "one", "passed", 6.0);
    assert_eq!(probes(&weir.metrics(), "one", "failed"), 0.0);
}

#[test]
fn a_kept_connection_finds_out_what_a_new_one_would() {
    let is_ill = FailureSwitch::new(false);
    let server = probed("one", &is_ill);
    let weir = Weir::start(&config(&[server.named("one")], &format!("{QUICK}, connection_age = \"1h\"")));
    wait_for_probes(&weir, "one", "passed", 2.0);
    is_ill.set(true);
    wait_until(&weir, "one", false);
    is_ill.set(false);
    wait_until(&weir, "one", true);
}

/// A server that counts connections must not lose one to the probes.
#[test]
fn a_limited_server_gets_a_new_connection_for_each_probe() {
    let server = origin("one", || ok("ready"));
    let limited = format!("{{ name = \"one\", address = \"{}\", max_requests = 1 }}", server.address());
    let weir = Weir::start(&config(&[limited], &format!("{QUICK}, connection_age = \"1h\"")));
    wait_for_probes(&weir, "one", "passed", 4.0);
    let (connections, probes) = probing(&server);
    assert!(connections == probes, "{probes} probes on {connections} connections");
    assert_eq!(server.last_request().field("Connection"), Some("close"));
}

/// Above some hundred probes per second they start together and are answered together, on connections of their own as before.
#[test]
fn many_servers_are_each_probed_and_judged() {
    const SERVERS: usize = 60;
    let is_ill = FailureSwitch::new(false);
    let origins: Vec<Origin> = (0..SERVERS).map(|_| probed("x", &is_ill)).collect();
    let named = origins.iter().enumerate().map(|(number, origin)| origin.named(&format!("s{number}")));
    let servers: Vec<String> = named.collect();
    let health = "path = \"/healthz\", interval = \"100ms\", timeout = \"15s\", fall = 2, rise = 2";
    let weir = Weir::start(&config(&servers, health));
    let passed = |weir: &Weir| weir.metrics().all("weir_server_probes_total", &["result=\"passed\""]);
    eventually("each has passed three times", || {
        passed(&weir).len() == SERVERS && passed(&weir).iter().all(|passed| *passed >= 3.0)
    });
    assert!(origins.iter().all(|origin| origin.connections() == 1), "one connection for the probes of each");
    let up = |weir: &Weir| weir.metrics().sum("weir_server_up", &[]);
    is_ill.set(true);
    eventually("all are down", || up(&weir) == 0.0);
    is_ill.set(false);
    eventually("all are up again", || up(&weir) == SERVERS as f64);
}
