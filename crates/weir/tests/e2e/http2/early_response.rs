//! Responses that come, and end, before the request does: the client is told with RST_STREAM NO_ERROR that the rest of the request is not
//! wanted (RFC 9113 section 8.1).

use crate::harness::http2::frame::NO_ERROR;
use crate::harness::http2::{start, start_with};
use crate::harness::{Http2Client, Origin};

/// Answers a head at once; the body of a POST is never read to its end.
fn early() -> Origin {
    Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            if head.word(0) == "POST" {
                conn.send("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")?;
                conn.wait_for_end();
                return Some(());
            }
            conn.send(crate::harness::origin::ok("fine"))?;
        }
    })
}

#[test]
fn a_response_that_is_whole_is_followed_by_a_reset_without_error() {
    let origin = early();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..20 {
        let stream = client.post("/", &[]);
        client.data(stream, "some of it", false);
        assert_eq!(client.wait_for_reset(stream), NO_ERROR);
        let response = client.received(stream);
        assert_eq!((response.status, response.text(), response.has_ended), (403, "no".to_owned(), true));
        // What was on its way is no fault.
        client.data(stream, "more of it", true);
    }
    assert_eq!(client.fetch("/").text(), "fine");
    assert_eq!(client.goaways, []);
}

#[test]
fn an_answer_of_weir_to_a_request_that_goes_on() {
    let origin = early();
    let weir = start_with(&origin, "listener.web.limits.body_size = \"10KiB\"");
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/", &[("content-length", "50000")]);
    client.data(stream, vec![b'x'; 10_000], false);
    assert_eq!(client.wait_for_reset(stream), NO_ERROR);
    let response = client.received(stream);
    assert_eq!((response.status, response.reason(), response.has_ended), (413, Some("body-too-large"), true));
    assert_eq!(client.fetch("/").text(), "fine");
}

#[test]
fn both_directions_flow_at_the_same_time() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for _ in 0..50 {
            // `a CRLF 0123456789 CRLF`: a chunk comes as it was sent.
            let chunk = conn.take(15)?;
            conn.send(chunk)?;
        }
        let end = conn.take(5)?;
        conn.send(end)
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/echo", &[]);
    for round in 0..50 {
        client.data(stream, format!("{round:010}"), false);
        let body = client.body(stream, 10 * (round + 1));
        assert!(body.ends_with(format!("{round:010}").as_bytes()));
    }
    client.data(stream, "", true);
    assert!(client.response(stream).has_ended);
}
