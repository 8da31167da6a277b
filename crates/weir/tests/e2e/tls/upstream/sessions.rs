//! Connections and sessions that are used again.

use rustls::version::{TLS12, TLS13};

use super::{folder, start, start_for, tell, telling};
use crate::harness::origin::ok;
use crate::harness::{CertificateAuthority, Client, Gate, Origin};

/// A connection for each request.
const NONE_KEPT: &str = "process.workers = 2\nupstream.app.pool.idle_max = 0\n";

#[test]
fn a_new_connection_goes_on_with_the_session_of_the_last() {
    let authority = CertificateAuthority::new();
    for version in [&TLS12, &TLS13] {
        let origin = telling(authority.server_with(&["app.test"], &[version], None));
        let weir = start_for(&origin, &authority, NONE_KEPT);
        let described: Vec<_> = (0..4).map(|_| Client::get(weir.web(), "/").text()).collect();
        assert_eq!(described[0], "app.test Full 0");
        assert!(described[1..].iter().all(|described| described == "app.test Resumed 0"), "{described:?}");
        assert_eq!(origin.connections(), 4);
        assert_eq!(weir.metrics().sum("weir_server_tls_resumptions_total", &[]), 3.0);
    }
}

#[test]
fn sessions_can_be_left_alone() {
    let authority = CertificateAuthority::new();
    let origin = telling(authority.server(&["app.test"]));
    let server = origin.entry();
    let tls = "ca = \"ca.pem\", server_name = \"app.test\", session_reuse = false";
    let weir = start(folder(&authority), &server, tls, NONE_KEPT);
    for _ in 0..3 {
        assert_eq!(Client::get(weir.web(), "/").text(), "app.test Full 0");
    }
}

/// What comes late and means nothing to a request, such as new keys or tickets, leaves an idle connection as good as it was.
#[test]
fn an_idle_connection_takes_in_what_only_concerns_tls() {
    let authority = CertificateAuthority::new();
    let sent = Gate::new();
    let gate = sent.clone();
    let origin = Origin::start_tls(authority.server_with(&["app.test"], &[&TLS13], None), move |conn| {
        conn.request()?;
        conn.send(ok("first"))?;
        conn.tls().change_keys();
        gate.open();
        conn.request()?;
        conn.send(ok("second"))?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start_for(&origin, &authority, "");
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/").text(), "first");
    sent.wait("the server has changed its keys");
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.response().text(), "second");
    assert_eq!(origin.connections(), 1);
}

/// `close_notify` is seen before the connection is used again.
#[test]
fn a_connection_that_was_closed_while_idle_is_not_used() {
    let authority = CertificateAuthority::new();
    let closed = Gate::new();
    let gate = closed.clone();
    let origin = Origin::start_tls(authority.server(&["app.test"]), move |conn| {
        conn.request()?;
        conn.send(ok("fine"))?;
        conn.tls().notify();
        gate.open();
        conn.wait_for_end();
        Some(())
    });
    let weir = start_for(&origin, &authority, "");
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/first").status, 200);
    closed.wait("the server has said that this is the end");
    client.send("POST /second HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().status, 200);
    assert_eq!(origin.connections(), 2);
}

/// Where connections are shared by all workers, they take their encryption along.
#[test]
fn a_connection_goes_from_worker_to_worker() {
    let authority = CertificateAuthority::new();
    let origin = Origin::start_tls(authority.server(&["app.test"]), |conn| {
        loop {
            conn.request()?;
            let described = tell(conn);
            conn.send(ok(&format!("{} {described}", conn.index)))?;
        }
    });
    let settings = "process.workers = 3\nupstream.app.max_requests = 1";
    let weir = start_for(&origin, &authority, settings);
    let mut clients: Vec<_> = (0..6).map(|_| Client::connect(weir.web())).collect();
    for round in 0..3 {
        for client in &mut clients {
            assert_eq!(client.fetch("/").text(), "0 app.test Full 0", "round {round}");
        }
    }
}
