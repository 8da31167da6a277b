//! Pipelined requests are served one after the other, in order, however they are cut into segments.

use crate::harness::scripts::echo;
use crate::harness::{Client, Origin, Weir, origin::ok};

#[test]
fn a_hundred_at_once() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    let all: String = (0..100).map(|n| format!("GET /{n} HTTP/1.1\r\nHost: a.test\r\n\r\n")).collect();
    client.send(all);
    for n in 0..100 {
        assert_eq!(client.response().text(), format!("/{n}"));
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn more_than_one_buffer_of_requests_with_bodies() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    let body = "b".repeat(5_000);
    for n in 0..40 {
        let framing = if n % 2 == 0 {
            format!("Content-Length: 5000\r\n\r\n{body}")
        } else {
            format!("Transfer-Encoding: chunked\r\n\r\n1388\r\n{body}\r\n0\r\n\r\n")
        };
        client.send(format!("POST /{n} HTTP/1.1\r\nHost: a.test\r\n{framing}"));
    }
    for n in 0..40 {
        assert_eq!(client.response().text(), format!("/{n}{body}"));
    }
}

#[test]
fn byte_by_byte() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    let requests = "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n\
                    POST /2 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\nabc\
                    POST /3 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: 1\r\n\r\n\
                    GET /4 HTTP/1.1\r\nHost: a.test\r\n\r\n";
    assert_eq!(client.send_bytewise(requests), Ok(()));
    let bodies: Vec<String> = (0..4).map(|_| client.response().text()).collect();
    assert_eq!(bodies, ["/1", "/2abc", "/3abc", "/4"]);
}

#[test]
fn good_requests_before_a_bad_one_are_answered() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send(
        "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: a.test\r\n\r\n\
         GET /3 HTTP/1.1\r\nBad Name: a\r\nHost: a.test\r\n\r\nGET /4 HTTP/1.1\r\nHost: a.test\r\n\r\n",
    );
    assert_eq!([client.response().text(), client.response().text()], ["/1", "/2"]);
    let refusal = client.response();
    assert_eq!(refusal.status, 400, "{refusal:?}");
    client.assert_closed();
    assert_eq!(Client::get(weir.web(), "/fence").text(), "/fence");
    assert_eq!(origin.targets(), ["/1", "/2", "/fence"]);
}

#[test]
fn different_methods_keep_their_own_framing() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            match request.method() {
                "HEAD" => conn.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")?,
                _ => conn.send(ok("body"))?,
            }
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    let request = |method: &str| format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    client.send([request("HEAD"), request("GET"), request("HEAD"), request("DELETE")].concat());
    for method in ["HEAD", "GET", "HEAD", "DELETE"] {
        let response = client.response_to(method);
        let (length, body) = if method == "HEAD" { ("100", "") } else { ("4", "body") };
        assert_eq!(
            (response.field("content-length"), response.text().as_str()),
            (Some(length), body),
            "{method}"
        );
    }
}
