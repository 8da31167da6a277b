//! Servers of FastCGI that fail: each way has a reason of its own, and a response or a cut that the client can see.

use crate::harness::fastcgi::{FastcgiRequest, STDERR, STDOUT, end, record, response};
use crate::harness::{Client, End, Gate, Origin, eventually};
use std::sync::Arc;

use super::{PAGE, server, start};

const ROUTE: &str = "fastcgi = { script = \"\" }";

/// The answer when the server sends these bytes and closes the connection.
fn answer(bytes: Vec<u8>) -> (u16, String) {
    let origin = Origin::start(move |conn| {
        let _request = FastcgiRequest::read(conn)?;
        conn.send(&bytes)
    });
    let weir = start(&origin, ROUTE, "upstream.app.retry.attempts_max = 1");
    let response = Client::get(weir.web(), "/");
    (response.status, response.reason().unwrap_or_default().to_owned())
}

#[test]
fn what_is_no_response_has_a_reason() {
    for (what, bytes, status, reason) in [
        ("closed", Vec::new(), 502, "response-closed"),
        ("HTTP", b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), 502, "response-fastcgi-bad-record"),
        ("a record of another request", vec![1, 6, 0, 2, 0, 0, 0, 0], 502, "response-fastcgi-bad-record"),
        ("a cut head", record(STDOUT, b"Content-Type: te", 0), 502, "response-head-incomplete"),
        (
            "an end within the head",
            [record(STDOUT, b"A: b\r\n", 0), end(0, 0)].concat(),
            502,
            "response-head-incomplete",
        ),
        ("garbage", record(STDOUT, b"<html>\n\n", 0), 502, "response-missing-colon"),
        ("nothing but an end", end(0, 0), 502, "response-fastcgi-no-response"),
        (
            "errors and an end",
            [record(STDERR, b"no memory", 0), end(255, 0)].concat(),
            502,
            "response-fastcgi-no-response",
        ),
        ("overloaded", end(0, 2), 503, "response-fastcgi-overloaded"),
        ("one at a time", end(0, 1), 503, "response-fastcgi-overloaded"),
        ("another role", end(0, 3), 502, "response-fastcgi-no-responder"),
        ("an unknown end", end(0, 9), 502, "response-fastcgi-bad-end"),
        ("NPH", response("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"), 502, "response-missing-colon"),
        ("an interim status", response("Status: 100 Continue\r\n\r\n"), 502, "response-cgi-bad-status"),
        ("no field", response("\r\nbody"), 502, "response-cgi-empty-head"),
    ] {
        assert_eq!(answer(bytes), (status, reason.to_owned()), "{what}");
    }
}

#[test]
fn a_cut_body_is_seen_by_the_client() {
    for (what, rest) in [
        ("closed", Vec::new()),
        ("another record", vec![1, 6, 0, 2, 0, 0, 0, 0]),
        ("an error at the end", end(0, 2)),
    ] {
        let origin = Origin::start(move |conn| {
            let _request = FastcgiRequest::read(conn)?;
            conn.send([record(STDOUT, b"A: b\r\n\r\npart", 0), rest.clone()].concat())
        });
        let weir = start(&origin, ROUTE, "");
        let mut client = Client::connect(weir.web());
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let (text, end) = client.take_to_end();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.contains("part") && !text.ends_with("0\r\n\r\n"), "{what}: {text}");
        assert!(matches!(end, End::Closed | End::Reset), "{what}: {end:?}");
    }
}

#[test]
fn an_announced_length_has_to_come() {
    let origin = Origin::start(|conn| {
        let _request = FastcgiRequest::read(conn)?;
        conn.send(response("Content-Length: 10\r\n\r\nshort"))
    });
    let weir = start(&origin, ROUTE, "");
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let (text, _) = client.take_to_end();
    assert!(text.ends_with(b"short"), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn an_overloaded_server_is_passed_over() {
    let (full, _) = server(|_| end(0, 2));
    let (free, _) = server(|_| response(PAGE));
    let entries = format!("upstream.app.servers = [{}, {}]", full.entry(), free.entry());
    let text = crate::harness::config_with(
        &[],
        "upstream.app.protocol = \"fastcgi\"\nlistener.web.route = [{ path = \"/\", upstream = \"app\", fastcgi = { script = \"\" } }]\n",
    )
    .replace("upstream.app.servers = []", &entries);
    let weir = crate::harness::Weir::start(&text);
    for _ in 0..6 {
        let mut client = Client::connect(weir.web());
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(client.response().text(), "hello");
    }
}

#[test]
fn a_slow_server_meets_the_time_limit() {
    let gate = Arc::new(Gate::new());
    let held = Arc::clone(&gate);
    let origin = Origin::start(move |conn| {
        let _request = FastcgiRequest::read(conn)?;
        // Errors are no response.
        conn.send(record(STDERR, b"working\n", 0))?;
        held.wait("the test is over");
        Some(())
    });
    let upstream = "upstream.app.timeouts.response = \"300ms\"\nupstream.app.retry.attempts_max = 1";
    let weir = start(&origin, ROUTE, upstream);
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.reason()), (504, Some("response-timeout")));
    weir.line(&["FastCGI: working"]);
    gate.open();
}

#[test]
fn a_request_that_is_answered_early_is_no_failure() {
    let origin = Origin::start(|conn| {
        let _request = FastcgiRequest::read_params(conn)?;
        conn.send(response("Status: 413 Too Large\r\n\r\nenough"))?;
        conn.wait_for_end();
        Some(())
    });
    let weir =
        start(&origin, &format!("{ROUTE}\nlimits.body_size = \"100MiB\""), "upstream.app.pool.idle_max = 1");
    for _ in 0..2 {
        let mut client = Client::connect(weir.web());
        let len = 20 << 20;
        client.send(format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len}\r\n\r\n"));
        let _partly = client.send_what_is_taken(vec![b'x'; len]);
        assert_eq!(client.response().status, 413);
    }
    eventually("the connections are not used again", || origin.connections() == 2);
}

#[test]
fn a_client_that_leaves_ends_the_request() {
    let origin = Origin::start(|conn| {
        let _request = FastcgiRequest::read(conn)?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin, ROUTE, "upstream.app.pool.idle_max = 1");
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    origin.wait_for_connections(1);
    eventually("the request has arrived", || origin.connection(0).received.len() > 100);
    client.reset();
    assert_eq!(origin.wait_for_end(0), End::Closed);
}

/// What a program says of itself counts for more than its status, where the route says so.
#[test]
fn a_text_in_the_error_stream_is_a_failure() {
    let (one, _asked) = server(|_| {
        let errors = [record(STDERR, b"PHP Fatal ", 0), record(STDERR, b"error: no memory\n", 0)].concat();
        [errors, response("Status: 200 OK\r\n\r\nhalf a page")].concat()
    });
    let (good, _asked_too) = server(|_| response("A: b\r\n\r\ngood"));
    let route = "fastcgi = { script = \"\", catch_stderr = [\"no such text\", \"PHP Fatal error\"] }";
    for (route, keys, expected) in [
        (ROUTE, "", (200, "half a page", None)),
        ("fastcgi = { script = \"\", catch_stderr = [\"PHP Warning\"] }", "", (200, "half a page", None)),
        (route, "upstream.app.retry.attempts_max = 1", (502, "", Some("response-fastcgi-caught-error"))),
    ] {
        let weir = start(&one, route, keys);
        let response = Client::get(weir.web(), "/");
        let (status, body, reason) = expected;
        assert_eq!((response.status, response.reason()), (status, reason), "{route}");
        assert!(reason.is_some() || response.text() == body, "{route}");
        weir.line(&["PHP Fatal error: no memory"]);
    }
    let pages = format!(
        "{route}\nerror_pages = [{{ status = 502, then = \"/page\" }}]\n[[listener.web.route]]\npath_exact = \"/page\"\nrespond = {{ body = \"page\" }}"
    );
    let weir = start(&one, &pages, "upstream.app.retry.attempts_max = 1");
    let response = Client::get(weir.web(), "/x");
    assert_eq!((response.status, response.text().as_str()), (502, "page"));
    // Another server has a try, and the client sees nothing of the first one.
    let both = format!(
        "upstream.two = {{ servers = [{}, {}], balance = \"round-robin\", protocol = \"fastcgi\" }}\n\
         [[listener.web.route]]\npath = \"/two\"\nupstream = \"two\"\n{route}",
        one.entry(),
        good.entry()
    );
    let weir = start(&one, route, &both);
    for _ in 0..4 {
        assert_eq!(Client::get(weir.web(), "/two").text(), "good");
    }
}
