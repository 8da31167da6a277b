//! `Expect: 100-continue` with real uploads: the client decides by the response.

use crate::harness::{Client, Gate, Origin, Weir, origin::ok};

/// An origin that asks for the body, except of `/refuse`.
fn asking() -> Origin {
    Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            if head.word(1) == "/refuse" {
                conn.send("HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")?;
                conn.wait_for_end();
                return None;
            }
            if head.fields.lists("expect", "100-continue") {
                conn.send("HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            let request = conn.request_body(head)?;
            conn.send(ok(&request.text().len().to_string()))?;
        }
    })
}

#[test]
fn a_large_upload_after_100() {
    let origin = asking();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for framing in ["Content-Length: 1000000", "Transfer-Encoding: chunked"] {
        client
            .send(format!("POST /up HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\n{framing}\r\n\r\n"));
        assert_eq!(client.response().status, 100, "{framing}");
        let body = vec![b'u'; 1_000_000];
        if framing.contains("chunked") {
            client.send("f4240\r\n");
            client.send(&body);
            client.send("\r\n0\r\n\r\n");
        } else {
            client.send(&body);
        }
        assert_eq!(client.response().text(), "1000000", "{framing}");
    }
}

#[test]
fn a_client_that_does_not_wait() {
    let origin = asking();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client
        .send("POST /up HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello");
    let mut response = client.response();
    if response.status == 100 {
        response = client.response();
    }
    assert_eq!((response.status, response.text()), (200, "5".to_owned()));
    client.assert_alive();
}

#[test]
fn a_refusal_instead_of_100() {
    let origin = asking();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("POST /refuse HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(client.response().status, 401);
    // A second client is not harmed by what the first left behind.
    let again =
        Client::exchange(weir.web(), "POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(again.text(), "5");
}

/// RFC 9110 section 10.1.1: a proxy forwards the expectation at once, it does not sit on the head.
#[test]
fn the_head_goes_on_before_the_body_comes() {
    let seen = Gate::new();
    let head_arrived = seen.clone();
    let origin = Origin::start(move |conn| {
        let head = conn.head()?;
        head_arrived.open();
        let request = conn.request_body(head)?;
        conn.send(ok(&request.text()))
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("POST /up HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    seen.wait("the head reaches the server while the client still waits for 100");
    // This server never sends 100; the client gives up waiting, as RFC 9110 allows.
    client.send("hello");
    let mut response = client.response();
    if response.status == 100 {
        response = client.response();
    }
    assert_eq!(response.text(), "hello");
}

/// The body has no bytes, and yet the client asks and waits.
#[test]
fn a_question_about_no_bytes_reaches_the_server() {
    let origin = asking();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..2 {
        client.send("POST /up HTTP/1.1\r\nHost: a.test\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(client.response().status, 100);
        assert_eq!(client.response().text(), "0");
    }
}
