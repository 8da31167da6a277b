//! A pooled server connection that has died fails no request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Client, Gate, Origin, Weir, config_with, origin::ok};

/// The server closes the idle connection and the FIN has arrived: whatever the method, the next request goes elsewhere.
#[test]
fn a_connection_closed_while_idle_is_not_used() {
    let closed = Gate::new();
    let gate = closed.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send(ok("fine"))?;
        if conn.index % 2 == 0 {
            conn.finish();
            gate.open();
        }
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/first").status, 200);
    closed.wait("the server has closed its idle connection");
    client.send("POST /second HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().status, 200);
    assert_eq!(
        (origin.targets(), origin.connections()),
        (vec!["/first".to_owned(), "/second".to_owned()], 2)
    );
}

/// The server closes the idle connection between the check of it and the request, which never arrives: no byte of it was acknowledged, so it
/// goes again whatever its method.
#[cfg(debug_assertions)]
#[test]
fn a_request_that_a_closing_server_never_got_goes_again() {
    let closed = Gate::new();
    let gate = closed.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send(ok("fine"))?;
        if conn.index % 2 == 0 {
            // Both directions: what comes now, its system refuses.
            conn.close();
            gate.open();
        }
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start_faulty(&config_with(&[origin.named("a")], "process.workers = 1\n"));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/first").status, 200);
    closed.wait("the server has closed its idle connection");
    client.send(
        "POST /second HTTP/1.1\r\nHost: a.test\r\nweir-fault: blind-reuse\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert_eq!(client.response().status, 200);
    assert_eq!(
        (origin.targets(), origin.connections()),
        (vec!["/first".to_owned(), "/second".to_owned()], 2)
    );
    assert_eq!(weir.metrics().sum("weir_server_stale_reuses_total", &[]), 1.0);
}

/// The idle connection is closed as soon as the server closes it, not when it is needed next.
#[test]
fn a_connection_closed_while_idle_is_let_go() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(ok("fine"))?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying_with(&origin, "upstream.app.timeouts.idle = \"1s\"");
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    origin.wait_for_end(0);
}

/// Unsolicited bytes on an idle connection (a server that sends 408 before it closes) are not taken for a response.
#[test]
fn unasked_bytes_on_an_idle_connection_are_not_served() {
    let sent = Gate::new();
    let gate = sent.clone();
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(ok("fine"))?;
            if conn.index == 0 {
                gate.wait("the first response has reached its client");
                conn.send("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")?;
                conn.finish();
                conn.wait_for_end();
            }
        }
    });
    let weir = Weir::proxying_with(&origin, "process.workers = 1");
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/first").status, 200);
    sent.open();
    origin.wait_for_end(0);
    for _ in 0..3 {
        let response = Client::get(weir.web(), "/after");
        assert_eq!((response.status, response.text()), (200, "fine".to_owned()));
    }
}

/// RFC 9112 section 9.3 and the Keep-Alive field: the server says how long it keeps the connection, Weir stays a second
/// clear of that.
#[test]
fn keep_alive_timeout_is_honoured() {
    for (seconds, connections) in [(1, 3), (600, 1)] {
        let origin = Origin::answering(format!(
            "HTTP/1.1 200 OK\r\nKeep-Alive: timeout={seconds}, max=100\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nfine"
        ));
        let weir = Weir::proxying(&origin);
        let mut client = Client::connect(weir.web());
        for _ in 0..3 {
            let response = client.fetch("/");
            assert_eq!(response.text(), "fine");
            assert_eq!(
                response.field("keep-alive"),
                None,
                "it is for Weir, not for the client: {response:?}"
            );
        }
        assert_eq!(origin.connections(), connections, "timeout={seconds}");
    }
}

#[test]
fn an_idle_connection_ends_after_its_time() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(ok("fine"))?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying_with(&origin, "upstream.app.timeouts.idle = \"200ms\"");
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    origin.wait_for_end(0);
}

/// A server that drops connections at random moments, without a word: no client that asks idempotently may notice.
#[test]
fn a_server_that_keeps_closing_is_not_noticed() {
    let served = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&served);
    let origin = Origin::start(move |conn| {
        for _ in 0..=conn.index % 3 {
            conn.request()?;
            counting.fetch_add(1, Ordering::Relaxed);
            conn.send(ok("fine"))?;
        }
        // Closed without `Connection: close`, possibly just as the next request comes in.
        if conn.index % 2 == 0 {
            conn.reset();
        }
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(weir.web())).collect();
    for round in 0..50 {
        clients.iter_mut().for_each(|client| client.send_get(&format!("/{round}")));
        for client in &mut clients {
            let response = client.response();
            assert_eq!(
                (response.status, response.text()),
                (200, "fine".to_owned()),
                "round {round}: {response:?}"
            );
        }
    }
    assert!(served.load(Ordering::Relaxed) >= 1_000);
}

/// A request is tried again on a fresh connection, not on the next stale one of many.
#[test]
fn many_stale_connections_cost_one_retry() {
    let close = Gate::new();
    let gate = close.clone();
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.target() == "/together" {
                conn.send(ok("fine"))?;
                // The next request finds the connection dead only after it was sent.
                conn.head()?;
                gate.open();
                conn.reset();
                return None;
            }
            conn.send(ok("fine"))?;
        }
    });
    let weir = Weir::proxying_with(&origin, "process.workers = 1");
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(weir.web())).collect();
    // Eight exchanges at the same time leave up to eight idle connections behind.
    clients.iter_mut().for_each(|client| client.send_get("/together"));
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    for n in 0..4 {
        let response = Client::get(weir.web(), &format!("/after/{n}"));
        assert_eq!((response.status, response.text()), (200, "fine".to_owned()), "{n}");
    }
    close.wait("at least one stale connection was tried");
}
