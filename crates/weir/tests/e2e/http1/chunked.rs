//! Chunked bodies in both directions: content intact, streamed as it comes, extensions gone, trailers kept apart.

use crate::harness::{Client, Gate, Origin, Weir, origin::ok};

#[test]
fn a_request_in_chunks_of_every_size() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let content: &[u8] = &request.body.bytes;
            let sound = content.iter().enumerate().all(|(at, byte)| *byte == at as u8);
            conn.send(ok(&format!("{} {sound}", content.len())))?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("POST /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut sent = 0_usize;
    for size in (1..40).chain([4_095, 4_096, 4_097, 16_383, 16_384, 16_385, 65_536, 100_000]) {
        let chunk: Vec<u8> = (sent..sent + size).map(|at| at as u8).collect();
        client.send(format!("{size:x}\r\n"));
        client.send(chunk);
        client.send("\r\n");
        sent += size;
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().text(), format!("{sent} true"));
    client.assert_alive();
}

#[test]
fn a_response_in_chunks_of_every_size() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let mut sent = 0_usize;
            for size in (1..40).chain([4_096, 16_383, 16_384, 16_385, 100_000]) {
                let chunk: Vec<u8> = (sent..sent + size).map(|at| at as u8).collect();
                conn.send([format!("{size:X};ext=\"a;b\"\r\n").as_bytes(), &chunk, b"\r\n"].concat())?;
                sent += size;
            }
            conn.send("000;last\r\n\r\n")?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..2 {
        let response = client.fetch("/down");
        assert_eq!(response.field("transfer-encoding"), Some("chunked"));
        assert_eq!(response.body.extensions, Vec::<String>::new(), "extensions are for one hop");
        assert_eq!(response.body.bytes.len(), (1..40).sum::<usize>() + 4_096 + 3 * 16_384 + 100_000);
        assert!(response.body.bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn byte_by_byte_both_ways() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            assert_eq!(request.text(), "hello, world");
            conn.send_bytewise(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n7\r\n, world\r\n0\r\nX-Sum: 1\r\n\r\n",
            )?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..2 {
        let request = "POST /up HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n\
                       5;a=b\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n";
        assert_eq!(client.send_bytewise(request), Ok(()));
        assert_eq!(client.response().text(), "hello, world");
    }
}

#[test]
fn each_chunk_goes_on_as_it_comes() {
    let first_down = Gate::new();
    let gate = first_down.clone();
    let origin = Origin::start(move |conn| {
        let head = conn.head()?;
        assert_eq!(head.fields.one("transfer-encoding"), Some("chunked"));
        // The first chunk of the request is here while the client has not sent the second.
        let mut content = Vec::new();
        while !content.ends_with(b"first\r\n") {
            content.extend(conn.take(1)?);
        }
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")?;
        gate.wait("the client has the first chunk of the response");
        conn.send("6\r\nsecond\r\n0\r\n\r\n")?;
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("POST /stream HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
    assert_eq!(client.head().status(), Ok(200));
    let mut got = Vec::new();
    while !got.ends_with(b"first\r\n") {
        got.extend(client.take(1));
    }
    first_down.open();
    while !got.ends_with(b"0\r\n\r\n") {
        got.extend(client.take(1));
    }
    assert!(got.windows(6).any(|w| w == b"second"), "{got:?}");
}

#[test]
fn a_chunked_response_to_an_http_1_0_client() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    let weir = Weir::proxying(&origin);
    for line in ["", "Connection: keep-alive\r\n"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET / HTTP/1.0\r\nHost: a.test\r\n{line}\r\n"));
        let response = client.response();
        assert_eq!(response.field("transfer-encoding"), None, "HTTP/1.0 knows no chunks: {response:?}");
        assert_eq!(response.text(), "hello", "{line:?}");
        if response.body.until_close {
            assert!(
                !response.fields().lists("connection", "keep-alive"),
                "its end is the close: {response:?}"
            );
        }
    }
}

#[test]
fn trailers_of_a_response() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\
         Content-Length: 99\r\nTransfer-Encoding: gzip\r\nSet-Cookie: a=b\r\n\r\n",
    );
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    let response = client.response();
    assert_eq!(response.text(), "hello");
    assert_eq!(response.body.trailers.all("x-sum"), ["1"], "a client that takes trailers gets them");
    for name in ["content-length", "transfer-encoding"] {
        assert_eq!(response.body.trailers.all(name), Vec::<&str>::new(), "{name} is no trailer");
    }
    assert_eq!(response.field("x-sum"), None, "a trailer is no field");
    assert_eq!(client.fetch("/again").text(), "hello");
}

#[test]
fn trailers_of_a_request() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying(&origin);
    let request = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n\
                   5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n";
    assert_eq!(Client::exchange(weir.web(), request).status, 200);
    let seen = origin.last_request();
    assert_eq!(seen.text(), "hello");
    let trailers = [seen.body.trailers.one("x-sum"), seen.body.trailers.one("x-more")];
    assert!([[Some("1"), Some("2")], [None, None]].contains(&trailers), "all or none: {seen:?}");
}
