//! Rows 39 and 40: `Expect: 100-continue`, and its malformed variants.

use super::{Forwarded, Want, case, judge};
use crate::harness::scripts::continuing;
use crate::harness::{Client, End, Origin, Weir, origin::ok};

const WAITING_POST: &str =
    "POST /upload HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";

/// Row 39.
#[test]
fn relays_100_before_the_body_is_sent() {
    let origin = continuing();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(WAITING_POST);
    assert_eq!(client.response().status, 100, "the 100 comes before the body is sent");
    client.send("hello");
    let response = client.response();
    assert_eq!((response.status, response.text()), (200, "hello".to_owned()));
    client.assert_alive();
}

/// Row 39.
#[test]
fn relays_a_final_response_that_comes_before_the_body() {
    let origin = Origin::start(|conn| {
        let head = conn.head()?;
        if head.word(0) == "GET" {
            return conn.send(ok("alive"));
        }
        conn.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 2\r\n\r\nno")?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(WAITING_POST);
    let response = client.response();
    assert_eq!(
        (response.status, response.text()),
        (417, "no".to_owned()),
        "relayed without waiting for the body"
    );
    // The body never comes; what does come must not be taken for it, nor the body for a request.
    client.finish();
    let (rest, end) = client.take_to_end();
    assert_eq!((rest.as_slice(), end), (&b""[..], End::Closed));
    assert_eq!(Client::get(weir.web(), "/alive").status, 200);
}

/// Row 40.
#[test]
fn forwards_or_rejects_unknown_expectations() {
    let post = |version: &str, line: &str, body: &str| {
        format!("POST / {version}\r\nHost: a.test\r\n{line}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let arrives = |fields: &[&str]| Forwarded {
        start_line: "POST / HTTP/1.1".to_owned(),
        fields: fields.iter().map(|&line| line.to_owned()).collect(),
        framing: Some("Content-Length: 5".to_owned()),
        body: "hello".to_owned(),
    };
    let with_expect = |line: &str| arrives(&["Host: a.test", line]);
    judge(&[
        case(
            40,
            "unknown expectation",
            post("HTTP/1.1", "Expect: the-impossible", "hello"),
            Want::Either(&[417], with_expect("Expect: the-impossible")),
        ),
        case(
            40,
            "a list with an unknown member",
            post("HTTP/1.1", "Expect: 100-continue, x", "hello"),
            Want::Either(&[417], with_expect("Expect: 100-continue, x")),
        ),
        case(
            40,
            "expectation on a GET without body",
            "GET / HTTP/1.1\r\nHost: a.test\r\nExpect: the-impossible\r\n\r\n",
            Want::Either(&[417], super::forwarded_get("/", &["Host: a.test", "Expect: the-impossible"])),
        ),
    ]);
}

/// Row 40.
#[test]
fn sends_no_100_to_an_http_1_0_client() {
    let origin = continuing();
    let weir = Weir::proxying(&origin);
    let request = "POST / HTTP/1.0\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello";
    let response = Client::exchange(weir.web(), request);
    assert_eq!((response.status, response.text()), (200, "hello".to_owned()), "no 1xx to an HTTP/1.0 client");
}

/// Row 40.
#[test]
fn serves_an_expectation_without_a_body() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    for framing in ["", "Content-Length: 0\r\n"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET /none HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\n{framing}\r\n"));
        let response = client.final_response();
        assert_eq!(response.status, 200, "framing {framing:?}");
        client.assert_alive();
    }
}

/// Row 40. The 0.CL desync: the server answers without reading the body; the body must not become the next request.
#[test]
fn a_body_that_the_server_did_not_read_is_never_the_next_request() {
    let hidden = "GET /smuggled HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let origin = Origin::start(|conn| {
        loop {
            // This server answers on the head alone and takes what follows for the next request, as the broken do.
            conn.head()?;
            conn.send(ok("early"))?;
        }
    });
    let weir = Weir::proxying(&origin);
    for method in ["GET", "POST"] {
        let mut client = Client::connect(weir.web());
        client.send(format!(
            "{method} /outer HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            hidden.len()
        ));
        let response = client.final_response();
        assert_eq!(response.text(), "early", "{method}");
        // The peer may be gone already, which is one right way to end this.
        let _ = client.send_what_is_taken(format!("{hidden}GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        // Either the body was consumed and one answer comes (to /next), or the connection is closed.
        match client.try_response_to("GET") {
            Ok(next) => {
                assert_eq!(next.text(), "early", "{method}");
                let more = client
                    .send_what_is_taken("GET /last HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
                assert_eq!(more, Ok(()), "{method}");
                assert_eq!(client.response().text(), "early");
                client.assert_closed();
            }
            Err(end) => assert!(matches!(end, End::Closed | End::Reset), "{method}: {end}"),
        }
    }
}
