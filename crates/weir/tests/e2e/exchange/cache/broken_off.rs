//! `cache`: a server breaks off a response that is to be stored, before its client has any of it or behind that.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{get, start, status};
use crate::harness::{Client, Gate, Origin, Weir};

const LOG: &str = "access_log = { output = \"file:{dir}/access.log\", format = \"{status} {status_sent} {cache} {attempts} {reason}\" }";

/// The beginning of a response of ten bytes, with its end in the same segment.
const BROKEN_OFF: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n12";

const WHOLE: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n1234567890";

/// The lines of the access log in order of the alphabet: workers write theirs when they come to it.
fn log(weir: &Weir, count: usize) -> Vec<String> {
    let mut lines = weir.access_log(count);
    lines.sort();
    lines
}

#[test]
fn a_response_that_is_broken_off_at_once_is_fetched_again() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => conn.send_last(BROKEN_OFF)?,
                _ => conn.send(WHOLE)?,
            }
        }
    });
    let weir = start(&origin, "", LOG);
    // What is asked for is a part, also the second time.
    let part = get(&weir, "/", "Range: bytes=0-2\r\n");
    assert_eq!((part.status, part.text()), (206, "123".to_owned()));
    assert!(status(&part).ends_with("; stored"), "{}", status(&part));
    assert_eq!(get(&weir, "/", "").text(), "1234567890");
    assert_eq!(origin.requests().len(), 2);
    assert_eq!(log(&weir, 2), ["200 200 hit 0 -", "206 206 miss 2 -"]);
    assert_eq!(weir.metrics().sum("weir_upstream_retries_total", &["cause=\"connection-error\""]), 1.0);
}

#[test]
fn a_response_that_is_always_broken_off_is_a_failure() {
    for broken_off in
        [BROKEN_OFF, "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n"]
    {
        let origin = Origin::start(move |conn| {
            conn.request()?;
            conn.send_last(broken_off)
        });
        let weir = start(&origin, "", LOG);
        let response = get(&weir, "/", "");
        assert_eq!((response.status, response.reason()), (502, Some("response-body-incomplete")));
        assert_eq!(origin.requests().len(), 2);
        assert_eq!(weir.access_log(1), ["502 502 miss 2 response-body-incomplete"]);
    }
    // A body that breaks a rule at once is no other failure than a head that does.
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n")
    });
    let weir = start(&origin, "", LOG);
    assert_eq!(get(&weir, "/", "").status, 502);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn what_is_stale_stands_for_a_response_that_is_broken_off() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => conn.send(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-if-error=60\r\nETag: \"1\"\r\nContent-Length: 3\r\n\r\nold",
                )?,
                _ => conn.send_last(BROKEN_OFF)?,
            }
        }
    });
    let weir = start(&origin, "", &format!("{LOG}\nupstream.app.retry.attempts_max = 1"));
    assert_eq!(get(&weir, "/", "").text(), "old");
    // And stays for the next time.
    for _ in 0..2 {
        let stale = get(&weir, "/", "");
        assert_eq!((stale.status, stale.text()), (200, "old".to_owned()));
        assert!(status(&stale).contains("detail=\"response-body-incomplete\""), "{}", status(&stale));
    }
    assert_eq!(log(&weir, 3), ["200 200 miss 1 -", "200 200 stale 1 -", "200 200 stale 1 -"]);
}

#[test]
fn a_response_that_is_broken_off_behind_its_beginning_has_no_end() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send(BROKEN_OFF)?;
        opened.wait("the client has the beginning");
        None
    });
    let weir = start(&origin, "", LOG);
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    let head = client.head();
    assert_eq!(
        (head.start_line.as_str(), head.fields.one("content-length")),
        ("HTTP/1.1 200 OK", Some("10"))
    );
    assert_eq!(client.take(2), b"12");
    gate.open();
    assert_eq!(client.take_to_end().0, b"");
    assert_eq!(weir.access_log(1), ["200 200 miss 1 response-incomplete"]);
    // Nothing of it is stored.
    assert!(weir.metrics().sum("weir_cache_responses", &[]) == 0.0);
}

/// More than is looked at before its beginning goes to the client.
#[test]
fn a_long_beginning_goes_to_the_client() {
    let origin = Origin::start(move |conn| {
        conn.request()?;
        let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 60000\r\n\r\n";
        conn.send_last([head.as_bytes(), &[b'x'; 50_000]].concat())
    });
    let weir = start(&origin, "", LOG);
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    assert_eq!(client.head().start_line, "HTTP/1.1 200 OK");
    assert_eq!(client.take_to_end().0.len(), 50_000);
    assert_eq!(weir.access_log(1), ["200 200 miss 1 response-incomplete"]);
}
