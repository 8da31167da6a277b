//! Rows 44 to 46: pipelined requests, server connections that die under a request, answers before the request ends.

use crate::harness::scripts::echo_gated;
use crate::harness::{Client, End, Gate, Origin, Weir, origin::ok};

/// Row 44.
#[test]
fn pipelined_requests_are_answered_in_order() {
    let slow = Gate::new();
    let origin = echo_gated(&slow, "/slow");
    let weir = Weir::proxying(&origin);
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut client = Client::connect(weir.web());
    client.send([get("/slow"), get("/2"), get("/3")].concat());
    origin.wait_for_requests(1);
    slow.open();
    let bodies = [client.response().text(), client.response().text(), client.response().text()];
    assert_eq!(bodies, ["/slow", "/2", "/3"]);

    let post = "POST /4 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello";
    let chunked =
        "POST /6 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    client.send([post, &get("/5"), chunked, &get("/7")].concat());
    let bodies: Vec<String> = (0..4).map(|_| client.response().text()).collect();
    assert_eq!(bodies, ["/4hello", "/5", "/6hello", "/7"]);
}

/// Row 44.
#[test]
fn nothing_is_served_after_a_close() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(
        "GET /first HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\nGET /second HTTP/1.1\r\nHost: a.test\r\n\r\n",
    );
    let response = client.response();
    assert!(response.closes(), "{response:?}");
    client.assert_closed();
    assert_eq!(Client::get(weir.web(), "/fence").status, 200);
    assert_eq!(origin.targets(), ["/first", "/fence"]);
}

/// The origin answers one request on its first connection, then ends it as the second request arrives.
fn stale_after_one(reset: bool) -> Origin {
    Origin::start(move |conn| {
        conn.request()?;
        conn.send(ok("fine"))?;
        if conn.index == 0 {
            conn.head()?;
            if reset {
                conn.reset();
            }
            return Some(());
        }
        loop {
            conn.request()?;
            conn.send(ok("fine"))?;
        }
    })
}

/// Row 45.
#[test]
fn an_idempotent_request_moves_to_a_fresh_connection() {
    for reset in [false, true] {
        for method in ["GET", "HEAD", "OPTIONS", "DELETE", "PUT"] {
            let origin = stale_after_one(reset);
            let weir = Weir::proxying(&origin);
            let mut client = Client::connect(weir.web());
            assert_eq!(client.fetch("/first").status, 200);
            client.send(format!("{method} /second HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            let response = client.response_to(method);
            assert_eq!(response.status, 200, "{method}, reset {reset}: {response:?}");
            assert_eq!(origin.connections(), 2, "{method}, reset {reset}");
            assert_eq!(origin.targets(), ["/first", "/second"], "{method}, reset {reset}");
        }
    }
}

/// Row 45.
#[test]
fn a_request_that_is_not_idempotent_is_never_sent_twice() {
    for reset in [false, true] {
        let origin = stale_after_one(reset);
        let weir = Weir::proxying(&origin);
        let mut client = Client::connect(weir.web());
        assert_eq!(client.fetch("/first").status, 200);
        client.send("POST /second HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
        let response = client.response();
        assert!([502, 503].contains(&response.status), "reset {reset}: {response:?}");
        assert!(response.reason().is_some(), "{response:?}");
        assert_eq!(Client::get(weir.web(), "/fence").status, 200);
        assert_eq!(origin.targets(), ["/first", "/fence"], "reset {reset}: the POST must not be sent again");
    }
}

/// Row 45.
#[test]
fn a_request_half_sent_is_never_sent_twice() {
    let origin = stale_after_one(false);
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/first").status, 200);
    client.send("POST /second HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello");
    let response = client.response();
    assert!([502, 503].contains(&response.status), "{response:?}");
    assert_eq!(Client::get(weir.web(), "/fence").status, 200);
    assert_eq!(origin.targets(), ["/first", "/fence"]);
}

/// Row 46.
#[test]
fn an_early_response_stops_the_upload() {
    let origin = Origin::start(|conn| {
        let head = conn.head()?;
        if head.word(0) == "GET" {
            return conn.send(ok("alive"));
        }
        conn.send("HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(
        "POST /upload HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000000000000\r\n\r\nthe first bytes",
    );
    let response = client.response();
    assert_eq!((response.status, response.text()), (413, "big".to_owned()));
    // The rest of a body without end must not be taken for ever.
    let block = [b'x'; 65536];
    let mut taken = 0_u64;
    while client.send_what_is_taken(block).is_ok() {
        taken += block.len() as u64;
        assert!(taken < 1 << 30, "an upload that was answered must be stopped");
    }
    assert_eq!(Client::get(weir.web(), "/alive").text(), "alive");
}

/// Row 46.
#[test]
fn a_client_that_half_closes_gets_its_response_where_the_listener_serves_it() {
    let answer = Gate::new();
    let due = answer.clone();
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            due.wait("the client has finished its side");
            conn.send(ok(&format!("whole{}", request.text())))?;
        }
    });
    let weir = Weir::proxying_with(&origin, "listener.web.abort_on_close = false");
    for request in [
        "GET /half HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "POST /half HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi",
    ] {
        let mut client = Client::connect(weir.web());
        client.send(request);
        client.finish();
        origin.wait_for_requests(1);
        answer.open();
        let response = client.response();
        assert!(response.text().starts_with("whole"), "{response:?}");
        assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
    }
}
