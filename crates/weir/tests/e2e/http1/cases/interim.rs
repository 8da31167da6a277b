//! Row 41: interim responses pass in order, never to HTTP/1.0, and not without end.

use crate::harness::{Client, Origin, Weir};

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
const PROCESSING: &str = "HTTP/1.1 102 Processing\r\n\r\n";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
const FINAL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone";

fn answers(responses: &[&str]) -> (Origin, Weir) {
    let origin = Origin::answering(responses.concat());
    let weir = Weir::proxying(&origin);
    (origin, weir)
}

fn statuses(client: &mut Client) -> Vec<u16> {
    let mut statuses = Vec::new();
    loop {
        let response = client.response();
        statuses.push(response.status);
        if response.status >= 200 {
            assert_eq!(response.text(), "done");
            return statuses;
        }
    }
}

/// Row 41.
#[test]
fn relays_one_interim_response() {
    for (interim, status) in [(HINTS, 103), (PROCESSING, 102)] {
        let (_origin, weir) = answers(&[interim, FINAL]);
        let mut client = Client::connect(weir.web());
        client.send_get("/one");
        assert_eq!(statuses(&mut client), [status, 200]);
        client.send_get("/again");
        assert_eq!(statuses(&mut client), [status, 200], "the connection goes on");
    }
}

/// Row 41.
#[test]
fn relays_the_fields_of_an_interim_response() {
    let (_origin, weir) = answers(&[HINTS, FINAL]);
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/hints").field("link"), Some("</a.css>; rel=preload"));
    assert_eq!(client.response().text(), "done");
}

/// Row 41. RFC 9110 section 7.6.1 holds for every message: what `Connection` names stops here.
#[test]
fn removes_hop_by_hop_fields_of_an_interim_response() {
    let hints = "HTTP/1.1 103 Early Hints\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
                 Link: </a.css>; rel=preload\r\n\r\n";
    let (_origin, weir) = answers(&[hints, FINAL]);
    let mut client = Client::connect(weir.web());
    let interim = client.fetch("/hop");
    let names: Vec<&str> = interim.fields().0.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((interim.status, names), (103, vec!["Link"]));
    assert_eq!(client.response().text(), "done");
}

/// Row 41.
#[test]
fn relays_several_interim_responses_in_order() {
    let (_origin, weir) = answers(&[PROCESSING, HINTS, PROCESSING, FINAL]);
    let mut client = Client::connect(weir.web());
    client.send_get("/several");
    assert_eq!(statuses(&mut client), [102, 103, 102, 200]);
}

/// Row 41. RFC 9110 section 15.2: a proxy forwards a 1xx unless it asked for it itself; a client takes an unasked 100.
#[test]
fn relays_or_drops_an_unrequested_100() {
    let (_origin, weir) = answers(&[CONTINUE, FINAL]);
    let mut client = Client::connect(weir.web());
    client.send_get("/unasked");
    let got = statuses(&mut client);
    assert!(got == [100, 200] || got == [200], "{got:?}");
    client.send_get("/again");
    assert_eq!(statuses(&mut client).last(), Some(&200));
}

/// Row 41.
#[test]
fn sends_no_interim_response_to_an_http_1_0_client() {
    let (_origin, weir) = answers(&[PROCESSING, HINTS, CONTINUE, FINAL]);
    let mut client = Client::connect(weir.web());
    client.send("GET /old HTTP/1.0\r\nHost: a.test\r\n\r\n");
    assert_eq!(statuses(&mut client), [200]);
    client.assert_closed();
}

/// Row 41.
#[test]
fn interim_responses_without_end_are_a_bad_gateway() {
    let origin = Origin::start(|conn| {
        let request = conn.request()?;
        if request.target() == "/alive" {
            return conn.send(FINAL);
        }
        loop {
            conn.send(PROCESSING)?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send_get("/flood");
    let mut interim = 0;
    let last = loop {
        match client.try_response_to("GET") {
            Ok(response) if response.status < 200 => interim += 1,
            Ok(response) => break Some(response),
            Err(_) => break None,
        }
        assert!(interim < 10_000, "interim responses must be capped");
    };
    if let Some(response) = last {
        assert_eq!(response.status, 502, "{response:?}");
    }
    assert_eq!(Client::get(weir.web(), "/alive").text(), "done");
}
