//! Messages pass unchanged: methods, statuses, reason phrases, fields, every byte of a body.

use crate::harness::{Client, Origin, Weir, origin::ok};

#[test]
fn methods() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "M-SEARCH", "get", "FOO"] {
        client.send(format!("{method} / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi"));
        assert_eq!(client.response().status, 200, "{method}");
        let request = origin.last_request();
        assert_eq!((request.method(), request.text()), (method, "hi".to_owned()));
    }
}

#[test]
fn statuses_and_reason_phrases() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = request.field("x-status").unwrap_or_default().to_owned();
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for status in
        ["200 OK", "200 ", "201 Created", "299 Odd", "301 Moved", "418 I'm a teapot", "451 No", "599 Last"]
    {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Status: {status}\r\n\r\n"));
        let response = client.response();
        assert_eq!(response.status.to_string(), status[..3], "{response:?}");
        let phrase = response.head.start_line.splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
        assert_eq!(phrase, status[4..], "{response:?}");
    }
}

#[test]
fn fields_keep_order_case_and_number() {
    let lines = "X-First: 1\r\nset-cookie: a=b; Path=/\r\nSet-Cookie: c=d\r\nX-Empty:\r\nWWW-Authenticate: Basic realm=\"x, y\"\r\n\
                 x-ODD-case: \t padded \t\r\nX-Bytes: caf\u{e9}\r\nSet-Cookie: e=f\r\n";
    let bytes: Vec<u8> = format!(
        "HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n{lines}Content-Length: 2\r\n\r\nok"
    )
    .chars()
    .map(|c| c as u8)
    .collect();
    let origin = Origin::answering(bytes);
    let weir = Weir::proxying(&origin);
    let response = Client::get(weir.web(), "/");
    let got: Vec<(&str, &str)> =
        response.fields().0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let framing = ["content-length", "via", "connection"];
    let got: Vec<_> =
        got.into_iter().filter(|(name, _)| !framing.contains(&name.to_ascii_lowercase().as_str())).collect();
    assert_eq!(
        got,
        [
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("X-First", "1"),
            ("set-cookie", "a=b; Path=/"),
            ("Set-Cookie", "c=d"),
            ("X-Empty", ""),
            ("WWW-Authenticate", "Basic realm=\"x, y\""),
            ("x-ODD-case", "padded"),
            ("X-Bytes", "caf\u{e9}"),
            ("Set-Cookie", "e=f"),
        ]
    );
}

/// A head may be as large as the limit says, whatever the size of a buffer and whatever Weir adds to it.
#[test]
fn heads_larger_than_a_buffer() {
    let value = |line: usize| format!("X-{line}: {}\r\n", "v".repeat(990));
    let lines: String = (0..31).map(value).collect();
    let answer = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok");
    let origin = Origin::answering(answer);
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, "ok".to_owned()), "{:?}", response.reason());
        for line in 0..31 {
            let name = format!("x-{line}");
            assert_eq!(response.field(&name).map(str::len), Some(990), "response field {name}");
            assert_eq!(origin.last_request().field(&name).map(str::len), Some(990), "request field {name}");
        }
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn every_byte_of_a_body() {
    const LEN: usize = 3_000_000;
    let content: Vec<u8> = (0..LEN).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
    let expected = content.clone();
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            assert!(request.body.bytes == expected, "the request body is intact");
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"))?;
            conn.send(&expected)?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..2 {
        client.send(format!("PUT / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LEN}\r\n\r\n"));
        client.send(&content);
        let response = client.response();
        assert!(response.body.bytes == content, "the response body is intact");
    }
}

#[test]
fn targets_at_their_longest() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(ok(&request.target().len().to_string()))?;
        }
    });
    let weir = Weir::proxying(&origin);
    for len in [1_usize, 4_095, 4_096, 8_000, 8_192] {
        let target = format!("/{}", "t".repeat(len - 1));
        assert_eq!(Client::get(weir.web(), &target).text(), len.to_string());
    }
}
