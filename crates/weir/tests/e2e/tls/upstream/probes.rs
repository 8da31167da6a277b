//! Health checks over TLS.

use super::{folder, start};
use crate::harness::metrics::of_server;
use crate::harness::origin::ok;
use crate::harness::{CertificateAuthority, Origin, Weir, config_with, eventually};

/// Quick probes with time for a busy machine.
const QUICK: &str = "interval = \"30ms\", timeout = \"15s\"";

fn origin(authority: &CertificateAuthority, name: &str) -> Origin {
    Origin::start_tls(authority.server(&[name]), |conn| {
        loop {
            conn.request()?;
            conn.send(ok("fine"))?;
        }
    })
}

fn passed(weir: &Weir, server: &str) -> f64 {
    weir.metrics().sum("weir_server_probes_total", &[&of_server(server), "result=\"passed\""])
}

/// Two servers that are probed as `health` says; the second has a certificate for another name.
fn probed(health: &str) -> (Weir, [Origin; 2]) {
    let authority = CertificateAuthority::new();
    let origins = [origin(&authority, "app.test"), origin(&authority, "other.test")];
    let servers = format!("{}, {}", origins[0].named("good"), origins[1].named("bad"));
    let tls = "ca = \"ca.pem\", server_name = \"app.test\"";
    let health = format!("upstream.app.health = {{ {QUICK}{health} }}");
    (start(folder(&authority), &servers, tls, &health), origins)
}

#[test]
fn probes_ask_for_the_same_proof_as_the_traffic() {
    for health in ["", ", path = \"/healthz\"", ", path = \"/healthz\", connection_age = \"off\""] {
        let (weir, origins) = probed(health);
        eventually("the server with the wrong name is down", || !weir.is_up("bad"));
        eventually("the other passes its probes", || passed(&weir, "good") >= 3.0);
        assert!(weir.is_up("good"));
        weir.line(&["a probe failed", "server=\"bad\"", "connect-tls-certificate-name-mismatch"]);
        assert_eq!(origins[0].requests().is_empty(), health.is_empty());
        assert!(origins[1].requests().is_empty());
    }
}

#[test]
fn probes_can_do_without_tls() {
    let (weir, _origins) = probed(", kind = \"tcp\"");
    eventually("both pass their probes", || {
        ["good", "bad"].iter().all(|server| passed(&weir, server) >= 2.0)
    });
    assert!(weir.is_up("bad"));
}

/// Where TLS passes through, a probe accepts any certificate; a server without TLS fails it.
#[test]
fn servers_behind_a_passage_are_probed_by_a_handshake() {
    let authority = CertificateAuthority::new();
    let (good, plain) = (origin(&authority, "app.test"), Origin::start(|conn| conn.send("220 mail\r\n")));
    for health in ["kind = \"tls\", host = \"app.test\"", "tls = true, path = \"/\", host = \"app.test\""] {
        let servers = [good.named("good"), plain.named("plain")];
        let weir = Weir::start(&config_with(
            &servers,
            &format!("listener.web.protocol = \"tcp\"\nupstream.app.health = {{ {QUICK}, {health} }}"),
        ));
        eventually("the server without TLS is down", || !weir.is_up("plain"));
        eventually("the other passes its probes", || passed(&weir, "good") >= 2.0);
        assert!(weir.is_up("good"));
    }
}
