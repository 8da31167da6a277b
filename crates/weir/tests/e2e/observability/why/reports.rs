//! Successful exchanges are recorded too: waits, attempts, kept connections, tunnels.

use super::{assert_reported, weir, why};
use crate::harness::scripts::gated;
use crate::harness::{CLOSED_PORT, Client, Gate, Origin, Weir, eventually, origin::ok};

/// The id that the origin got with its request number `at`.
fn id_at(origin: &Origin, at: usize) -> String {
    let requests = origin.wait_for_requests(at + 1);
    requests[at].field("x-request-id").expect("servers get the id").to_owned()
}

#[test]
fn one_that_waited() {
    let gate = Gate::new();
    let origin = gated(&gate, "/held", "fine");
    let weir = Weir::with_one_slot(&origin, "", "");
    let mut clients = Vec::new();
    for (waiting, target) in ["/held", "/first", "/second"].into_iter().enumerate() {
        let mut client = Client::connect(weir.web());
        client.send_get(target);
        let queued = || weir.metrics().sum("weir_upstream_queue_length", &[]);
        match waiting {
            0 => drop(origin.wait_for_requests(1)),
            _ => eventually("it waits", || queued() == waiting as f64),
        }
        clients.push(client);
    }
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    let report = why(&weir, &id_at(&origin, 2));
    assert_reported(
        &report,
        &[
            "GET /second",
            "queue      waited ",
            "behind 1 other, for a server with a free slot",
            "attempt 1",
            "answer     200 by the server",
            "queue ",
        ],
    );
}

#[test]
fn one_whose_path_came_in_another_form() {
    let origin = Origin::serving("fine");
    let weir = weir(&[&origin.address().to_string()], "");
    for target in ["//x/../admin", "/admin"] {
        assert_eq!(Client::get(weir.web(), target).status, 200, "{target}");
    }
    let report = why(&weir, &id_at(&origin, 0));
    assert_reported(&report, &["GET //x/../admin for", "path matched as /admin, its normal form", "answer"]);
    let plain = why(&weir, &id_at(&origin, 1));
    assert!(!plain.contains("normal form"), "{plain}");
}

#[test]
fn one_that_was_tried_again() {
    let (dead, good) = (CLOSED_PORT, Origin::serving("fine"));
    let weir = weir(&[dead, &good.address().to_string()], "");
    // Equals take turns: one of two begins with the server that is not there.
    for _ in 0..2 {
        assert_eq!(Client::get(weir.web(), "/").status, 200);
    }
    let mut retried = None;
    eventually("the second one is kept", || {
        let all = weir.admin_json("/api/exchanges");
        let all = all["exchanges"].as_array().expect("a list").clone();
        retried = all.into_iter().find(|line| line["attempts"] == 2);
        retried.is_some()
    });
    let id = retried.expect("it was just found")["id"].as_str().expect("an id").to_owned();
    let first = format!("attempt 1  on {dead} after");
    let could = format!("{} was eligible, with 0 in flight", good.address());
    let second = format!("attempt 2  on {} after", good.address());
    let failed_on =
        format!("{dead} was not eligible, with 0 in flight: an attempt of this request has failed on it");
    let parts = [
        &first,
        &*could,
        "connect-refused",
        "then: tried again",
        &second,
        &failed_on,
        "answer     200 by the server",
        "ended      in order; the connection of the client went on",
    ];
    assert_reported(&why(&weir, &id), &parts);
}

#[test]
fn one_on_a_kept_connection() {
    let origin = Origin::serving("fine");
    let weir = weir(&[&origin.address().to_string()], "");
    let mut client = Client::connect(weir.web());
    for target in ["/1", "/2"] {
        assert_eq!(client.fetch(target).status, 200);
    }
    assert_reported(&why(&weir, &id_at(&origin, 0)), &["attempt 1", "on a new connection"]);
    let parts = [
        "attempt 1",
        "on a kept connection, ",
        " ms old, which had carried 1",
        "connection of the client went on",
    ];
    assert_reported(&why(&weir, &id_at(&origin, 1)), &parts);
}

#[test]
fn one_whose_kept_connection_had_died() {
    let origin = Origin::start(|conn| {
        if conn.request()?.target() == "/first" {
            conn.send(ok("fine"))?;
            // The next request on this connection finds it dead, without a byte.
            conn.request()?;
            conn.reset();
            return None;
        }
        conn.send(ok("fine"))
    });
    let weir = weir(&[&origin.address().to_string()], "");
    let mut client = Client::connect(weir.web());
    for target in ["/first", "/second"] {
        assert_eq!(client.fetch(target).status, 200);
    }
    let report = why(&weir, &id_at(&origin, 2));
    assert_reported(
        &report,
        &[
            "attempt 1",
            "kept connection",
            "then: tried again on a new connection",
            "attempt 2",
            "on a new connection",
            "answer     200",
        ],
    );
}

#[test]
fn a_tunnel_when_it_is_over() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")?;
        conn.take(5)?;
        conn.send("hello")?;
        conn.wait_for_end();
        Some(())
    });
    let weir = weir(&[&origin.address().to_string()], "");
    let mut client = Client::connect(weir.web());
    client.send("GET /socket HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().status(), Ok(101));
    client.send("hello");
    client.take(5);
    client.finish();
    client.take_to_end();
    let parts = [
        "GET /socket for a.test, which became a tunnel",
        "route      everything",
        "attempt 1",
        "answer     101",
        "ended      the client closed the connection first (FIN)",
        "relay ",
    ];
    assert_reported(&why(&weir, &id_at(&origin, 0)), &parts);
}

#[test]
fn a_tcp_connection() {
    let origin = Origin::start(|conn| {
        conn.send("hello")?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\n[listener.web]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\nupstream = \"app\"\n\
         [upstream.app]\nservers = [\"{}\"]\n",
        origin.address()
    ));
    let mut client = Client::connect(weir.web());
    client.send("secret\r\n");
    client.take(5);
    client.finish();
    client.take_to_end();
    let mut number = None;
    eventually("it is kept", || {
        number = weir.admin_json("/api/exchanges")["exchanges"][0]["number"].as_str().map(str::to_owned);
        number.is_some()
    });
    let parts = [
        "request    a TCP connection\n",
        "attempt 1",
        "answer     none; ",
        "5 bytes to it",
        "ended      the client closed the connection",
    ];
    let number = number.expect("it was just found");
    assert_reported(&why(&weir, &number), &parts);
    let kept = weir.admin_json(&format!("/api/exchanges/{number}")).to_string();
    assert!(!kept.contains("secret"), "{kept}");
}
