//! Interim responses: 103 on its way, and 100 for a client that waits with its body (RFC 9110 section 10.1.1).

use crate::harness::http2::{start, start_with};
use crate::harness::origin::ok;
use crate::harness::scripts::continuing;
use crate::harness::{Gate, Http2Client, Origin};

#[test]
fn a_103_comes_before_the_response() {
    let gate = Gate::new();
    let server_gate = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n")?;
        server_gate.wait("the client has the 103");
        conn.send("HTTP/1.1 102 Processing\r\n\r\n")?;
        conn.send(ok("fine"))
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get("/");
    client.wait("the 103 is here", |client| !client.received(stream).interim.is_empty());
    let (status, fields) = client.received(stream).interim[0].clone();
    assert_eq!((status, fields.one("link")), (103, Some("</a.css>; rel=preload")));
    gate.open();
    let response = client.response(stream);
    assert_eq!((response.status, response.text()), (200, "fine".to_owned()));
    assert!(response.interim.iter().all(|(status, _)| [102, 103].contains(status)));
}

#[test]
fn a_client_that_waits_for_100_gets_it() {
    let origin = continuing();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/", &[("expect", "100-continue"), ("content-length", "5")]);
    client.wait("the 100 is here", |client| !client.received(stream).interim.is_empty());
    assert_eq!(client.received(stream).interim[0].0, 100);
    client.data(stream, "hello", true);
    let response = client.response(stream);
    assert_eq!((response.status, response.text(), response.interim.len()), (200, "hello".to_owned(), 1));
}

#[test]
fn a_client_that_waits_for_100_may_be_refused() {
    let origin = Origin::start(|conn| {
        loop {
            conn.head()?;
            conn.send("HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")?;
        }
    });
    let weir = start_with(&origin, "listener.web.limits.body_size = \"1KiB\"");
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/", &[("expect", "100-continue"), ("content-length", "5")]);
    assert_eq!(client.head(stream).status, 417);
    let stream = client.post("/", &[("expect", "100-continue"), ("content-length", "2000")]);
    let response = client.outcome(stream);
    assert_eq!((response.status, response.reason()), (413, Some("body-too-large")));
    assert!(response.interim.is_empty());
}
