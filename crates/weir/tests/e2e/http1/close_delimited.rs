//! Close-delimited responses: intact for every client, and truncation is never taken for the end.

use crate::harness::{Client, End, Gate, Origin, Weir};

const BODY_LEN: usize = 300_000;

fn until_close(version: &'static str) -> Origin {
    Origin::start(move |conn| {
        conn.request()?;
        conn.send(format!("{version} 200 OK\r\nContent-Type: text/plain\r\n\r\n"))?;
        conn.send(vec![b'c'; BODY_LEN])
    })
}

#[test]
fn to_an_http_1_1_client() {
    for version in ["HTTP/1.0", "HTTP/1.1"] {
        let origin = until_close(version);
        let weir = Weir::proxying(&origin);
        let mut client = Client::connect(weir.web());
        let response = client.fetch("/");
        assert_eq!((response.status, response.body.bytes.len()), (200, BODY_LEN), "{version}");
        assert_eq!(response.field("content-length"), None);
        if response.body.until_close {
            assert!(response.closes(), "{version}: {:?}", response.head);
        } else {
            assert_eq!(
                client.fetch("/again").body.bytes.len(),
                BODY_LEN,
                "the client's own connection goes on"
            );
        }
    }
}

#[test]
fn to_an_http_1_0_client() {
    let origin = until_close("HTTP/1.1");
    let weir = Weir::proxying(&origin);
    for line in ["", "Connection: keep-alive\r\n"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET / HTTP/1.0\r\nHost: a.test\r\n{line}\r\n"));
        let response = client.response();
        assert_eq!(response.field("transfer-encoding"), None, "{:?}", response.head);
        assert!(response.body.until_close && response.body.bytes.len() == BODY_LEN, "{:?}", response.head);
        assert!(!response.fields().lists("connection", "keep-alive"), "{:?}", response.head);
    }
}

#[test]
fn bytes_pass_before_the_end() {
    let first_seen = Gate::new();
    let gate = first_seen.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\n\r\nfirst")?;
        gate.wait("the client has the first bytes");
        conn.send("second")
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.head().status(), Ok(200));
    assert_eq!(client.take(5), b"first");
    first_seen.open();
    assert_eq!(client.take_to_end(), (b"second".to_vec(), End::Closed));
}

/// A reset is not an end: the client has to be able to tell.
#[test]
fn a_reset_is_passed_on() {
    let relayed = Gate::new();
    let gate = relayed.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\n\r\nfirst")?;
        gate.wait("the client has the first bytes");
        conn.reset();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    for version in ["1.0", "1.1"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET / HTTP/{version}\r\nHost: a.test\r\n\r\n"));
        let head = client.head();
        let mut got = Vec::new();
        while !got.ends_with(b"first") {
            got.extend(client.take(1));
        }
        relayed.open();
        let (rest, end) = client.take_to_end();
        if head.fields.one("transfer-encoding").is_some() {
            assert!(!rest.ends_with(b"0\r\n\r\n"), "a cut-off body must have no last chunk: {rest:?}");
        } else {
            assert_eq!(end, End::Reset, "HTTP/{version}: the end must not look like a whole body");
        }
    }
}

#[test]
fn an_empty_one() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\n\r\n")
    });
    let weir = Weir::proxying(&origin);
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.text()), (200, String::new()));
}
