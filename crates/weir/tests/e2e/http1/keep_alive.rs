//! Connections are kept on both sides, and closed when one side says so, independently of the other side.

use crate::harness::scripts::echo;
use crate::harness::{Client, Gate, Origin, Weir, eventually};

#[test]
fn one_client_connection_uses_one_server_connection() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for n in 0..20 {
        let response = client.fetch(&format!("/{n}"));
        assert_eq!((response.status, response.text()), (200, "fine".to_owned()));
        assert!(!response.closes(), "{response:?}");
    }
    assert_eq!((origin.requests().len(), origin.connections()), (20, 1));
}

#[test]
fn short_client_connections_share_a_server_connection() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "process.workers = 1");
    for n in 0..20 {
        assert_eq!(Client::get(weir.web(), &format!("/{n}")).status, 200);
    }
    assert_eq!((origin.requests().len(), origin.connections()), (20, 1));
}

#[test]
fn a_client_that_says_close_is_closed_and_the_server_connection_stays() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "process.workers = 1");
    for value in ["close", "Close", "x, CLOSE"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: {value}\r\n\r\n"));
        let response = client.response();
        assert!(response.closes(), "{value}: {response:?}");
        client.assert_closed();
    }
    assert_eq!(origin.connections(), 1, "`Connection` of the client is not passed on");
    assert!(origin.requests().iter().all(|r| !r.fields().lists("connection", "close")));
}

#[test]
fn a_server_that_says_close_is_closed_and_the_client_connection_stays() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nfine")?;
        // Weir has to end the connection although the server leaves it open.
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for n in 0..5 {
        let response = client.fetch(&format!("/{n}"));
        assert_eq!(response.text(), "fine");
        assert!(!response.closes(), "{response:?}");
    }
    assert_eq!(origin.connections(), 5);
    (0..5).for_each(|index| {
        origin.wait_for_end(index);
    });
}

#[test]
fn http_1_0_closes_by_default() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.response().text(), "fine");
    client.assert_closed();
    assert!(origin.last_request().head.start_line.ends_with("HTTP/1.1"), "Weir speaks its own version");
}

#[test]
fn http_1_0_without_host_is_served() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    assert_eq!(Client::exchange(weir.web(), "GET / HTTP/1.0\r\n\r\n").text(), "fine");
    assert!(
        origin.last_request().field("host").is_some(),
        "an HTTP/1.1 request has a Host (RFC 9112 section 3.2)"
    );
}

#[test]
fn http_1_0_connections_are_kept_on_request() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        client.send("GET / HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n\r\n");
        let response = client.response();
        assert_eq!(response.text(), "fine");
        assert!(
            response.fields().lists("connection", "keep-alive"),
            "the response must say so: {response:?}"
        );
    }
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.response().text(), "fine");
    client.assert_closed();
}

#[test]
fn an_http_1_0_server_is_closed_unless_it_says_keep_alive() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let keep = if request.target() == "/keep" { "Connection: keep-alive\r\n" } else { "" };
            conn.send(format!("HTTP/1.0 200 OK\r\n{keep}Content-Length: 4\r\n\r\nfine"))?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    let expected = [("/keep", 1), ("/keep", 1), ("/close", 1), ("/keep", 2), ("/close", 2), ("/close", 3)];
    for (target, connections) in expected {
        let response = client.fetch(target);
        assert_eq!(response.text(), "fine");
        assert!(
            response.head.start_line.starts_with("HTTP/1.1 "),
            "Weir speaks its own version: {response:?}"
        );
        assert_eq!(origin.connections(), connections, "{target}");
    }
}

#[test]
fn no_idle_connection_is_kept_when_none_is_allowed() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "upstream.app.pool.idle_max = 0");
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        assert_eq!(client.fetch("/").status, 200);
    }
    assert_eq!(origin.connections(), 3);
}

#[test]
fn idle_server_connections_are_counted_in_every_pool() {
    // Each worker keeps its own; where the requests of a server are limited, all share them.
    for settings in ["", "upstream.app.max_requests = 4\n"] {
        let origin = Origin::serving("fine");
        let weir = Weir::proxying_with(
            &origin,
            &format!("process.workers = 2\nadmin.address = \"127.0.0.1:0\"\n{settings}"),
        );
        assert_eq!(Client::get(weir.web(), "/").status, 200);
        let shown = |name: &str| weir.metrics().all(name, &[]).iter().sum::<f64>();
        eventually("the connection idles", || {
            [shown("weir_server_connections_open"), shown("weir_server_connections_idle")] == [1.0, 1.0]
        });
    }
}

#[test]
fn a_server_connection_retires_after_its_requests() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "upstream.app.pool.requests_max = 2");
    let mut client = Client::connect(weir.web());
    for _ in 0..6 {
        assert_eq!(client.fetch("/").status, 200);
    }
    assert_eq!(origin.connections(), 3);
}

#[test]
fn a_connection_ends_after_its_requests() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "listener.web.limits.requests_per_connection = 3");
    let mut client = Client::connect(weir.web());
    for n in 1..=3 {
        let response = client.fetch("/");
        assert_eq!(response.closes(), n == 3, "request {n}: {response:?}");
    }
    client.assert_closed();
}

/// A request that comes while the last response of a connection is on its way is never read. The response is whole all the same: a
/// close with bytes unread would be a reset, which drops what the client has not fetched yet.
#[test]
fn a_last_response_is_whole_whatever_comes_behind_its_request() {
    const BYTES: usize = 4 << 20;
    let second_sent = Gate::new();
    let gate = second_sent.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"))?;
        gate.wait("the client has sent a second request");
        conn.send(vec![b'x'; BYTES])
    });
    let weir = Weir::proxying_with(&origin, "listener.web.limits.requests_per_connection = 1");
    let mut client = Client::connect_narrow(weir.web());
    client.send_get("/last");
    assert!(client.head().fields.lists("connection", "close"));
    client.send_get("/behind");
    second_sent.open();
    let (mut got, mut buf) = (0, [0; 16 << 10]);
    while got < BYTES {
        got += client.skim(&mut buf);
    }
    assert_eq!(got, BYTES);
    client.assert_closed();
    assert_eq!(origin.targets(), ["/last"]);
}

/// A response may be answered while Weir still holds the server connection of another client: they never mix.
#[test]
fn two_clients_at_a_time_use_two_server_connections() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(weir.web())).collect();
    for round in 0..5 {
        for (n, client) in clients.iter_mut().enumerate() {
            client.send_get(&format!("/{n}/{round}"));
        }
        for (n, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.response().text(), format!("/{n}/{round}"));
        }
    }
}
