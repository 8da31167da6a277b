//! Responses without a body are recognised by method and status, never by their length, and leave both connections usable.

use crate::harness::{Client, Origin, Weir};

fn origin() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(match (request.method(), request.target()) {
                ("HEAD", "/length") => "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n",
                ("HEAD", "/chunked") => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                ("HEAD", "/neither") => "HTTP/1.1 200 OK\r\n\r\n",
                (_, "/204") => "HTTP/1.1 204 No Content\r\n\r\n",
                (_, "/304") => "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 1234\r\n\r\n",
                (_, "/empty") => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                (_, "/empty-chunked") => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
            })?;
        }
    })
}

#[test]
fn both_connections_go_on() {
    let origin = origin();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    let rounds = [
        ("HEAD", "/length", 200),
        ("HEAD", "/chunked", 200),
        ("HEAD", "/neither", 200),
        ("GET", "/204", 204),
        ("HEAD", "/204", 204),
        ("GET", "/304", 304),
        ("GET", "/empty", 200),
        ("GET", "/empty-chunked", 200),
    ];
    for (method, target, status) in rounds {
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        let response = client.response_to(method);
        assert_eq!((response.status, response.text()), (status, String::new()), "{method} {target}");
        assert_eq!(client.fetch("/after").text(), "body", "after {method} {target}");
    }
    assert_eq!(origin.connections(), 1);
}

/// RFC 9110 section 8.6: the length of a HEAD or 304 response is that of the response to GET; it passes unchanged.
#[test]
fn lengths_pass_unchanged() {
    let origin = origin();
    let weir = Weir::proxying(&origin);
    let head = Client::exchange(weir.web(), "HEAD /length HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(head.field("content-length"), Some("1234"));
    let not_modified = Client::get(weir.web(), "/304");
    assert_eq!(not_modified.field("etag"), Some("\"x\""));
    assert!([None, Some("1234")].contains(&not_modified.field("content-length")), "{not_modified:?}");
    let no_content = Client::get(weir.web(), "/204");
    assert_eq!(no_content.field("content-length"), None, "RFC 9110 section 8.6 forbids it in a 204");
    assert_eq!(no_content.field("transfer-encoding"), None, "RFC 9112 section 6.1 forbids it in a 204");
}

#[test]
fn http_1_0_clients_get_them_too() {
    let origin = origin();
    let weir = Weir::proxying(&origin);
    for (method, target) in
        [("HEAD", "/length"), ("HEAD", "/chunked"), ("HEAD", "/neither"), ("GET", "/204"), ("GET", "/304")]
    {
        let mut client = Client::connect(weir.web());
        client.send(format!("{method} {target} HTTP/1.0\r\nHost: a.test\r\n\r\n"));
        let response = client.response_to(method);
        assert_eq!(response.field("transfer-encoding"), None, "{method} {target}: {response:?}");
        client.assert_closed();
    }
}

#[test]
fn weirs_own_answers_to_head_have_no_body() {
    let origin = origin();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("HEAD / HTTP/1.1\r\nHost: a.test\r\nBad Name: x\r\n\r\n");
    let response = client.response_to("HEAD");
    assert_eq!(response.status, 400);
    client.assert_closed();
}

/// What is known of a request that was refused must not come from the one before it.
#[test]
fn a_refused_head_behind_a_head_request_gets_its_page() {
    let origin = origin();
    let weir = Weir::proxying_with(&origin, "process.workers = 1");
    assert_eq!(Client::exchange(weir.web(), "HEAD /length HTTP/1.0\r\nHost: a.test\r\n\r\n").status, 200);
    let mut client = Client::connect(weir.web());
    client.send(format!("{} / HTTP/1.1\r\n", "M".repeat(100)));
    let refused = client.response();
    assert_eq!((refused.status, refused.reason()), (501, Some("method-too-long")));
    assert!(refused.text().contains("501"), "{refused:?}");
}
