//! Bodies whose pieces come one by one, in both directions.

use super::start;
use crate::harness::http3::{Http3Client, frame};
use crate::harness::scripts::{echo, measuring, pattern};
use crate::harness::{Gate, Origin};

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/")];

/// Each piece is a frame of its own: the first may not announce more than it has.
#[test]
fn a_body_of_unknown_length_comes_in_pieces() {
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let opened = gates.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for gate in &opened {
            gate.wait("the client has the piece before");
            conn.send("3\r\nabc\r\n")?;
        }
        conn.send("0\r\n\r\n")
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = client.open(&GET);
    stream.finish();
    for (number, gate) in gates.iter().enumerate() {
        gate.open();
        assert_eq!(client.body(&mut stream, 3 * number + 3), b"abcabcabc"[..3 * number + 3]);
    }
    let all = client.rest(&mut stream);
    assert_eq!((all.body, all.has_ended), (b"abcabcabc".to_vec(), true));
    assert_eq!(weir.metrics().sum("weir_worker_panics_total", &[]), 0.0);
}

#[test]
fn large_bodies_of_unknown_length_pass_to_the_client() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let body = pattern(1_000_000);
            match request.target() {
                "/chunked" => {
                    conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                    for piece in body.chunks(70_001) {
                        conn.send([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat())?;
                    }
                    conn.send("0\r\n\r\n")?;
                }
                _ => {
                    conn.send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
                    conn.send(body)?;
                    return Some(());
                }
            }
        }
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    for target in ["/chunked", "/until-close"] {
        let response = client.get(target);
        assert!(response.body == pattern(1_000_000), "{target}: {} bytes", response.body.len());
    }
}

/// RFC 9114 section 4.1: trailers of a request, and what is said of its length.
#[test]
fn trailers_of_a_request_pass() {
    let origin = Origin::start(|conn| {
        let request = conn.request()?;
        let trailer = request.body.trailers.one("x-sum").unwrap_or("none").to_owned();
        conn.send(crate::harness::origin::ok(&format!("{} {trailer}", request.text())))
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = client.open(&post(&[("trailer", "x-sum")]));
    client.send_data(&mut stream, b"abc");
    let trailers = crate::harness::http3::section(&[("x-sum", "6")]);
    client.send_raw(&mut stream, &frame(1, &trailers));
    stream.finish();
    assert_eq!(client.rest(&mut stream).body, b"abc 6");
}

fn post<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[(":method", "POST")][..], &GET[1..], more].concat()
}

/// Frames may be cut anywhere, and those that mean nothing are passed over.
#[test]
fn a_body_may_be_cut_anywhere() {
    let origin = measuring();
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let bytes = [frame(0, &[b'a'; 300]), frame(0x21, b"nothing"), frame(0, b""), frame(0, b"bcd")].concat();
    for size in [1, 2, 3, 7, 100] {
        let mut stream = client.open(&post(&[]));
        for piece in bytes.chunks(size) {
            client.send_raw(&mut stream, piece);
        }
        stream.finish();
        assert_eq!(client.rest(&mut stream).body, b"303", "{size}");
    }
}

#[test]
fn a_request_that_is_given_up_reaches_no_end() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.wait_for_end();
        Some(())
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = client.open(&post(&[]));
    client.send_data(&mut stream, b"abc");
    origin.wait_for_connections(1);
    stream.reset(0x10c);
    stream.stop(0x10c);
    origin.wait_for_end(0);
    let other = echo();
    assert_eq!(other.targets().len(), 0);
}

/// Bytes behind a declared length are malformed (RFC 9114 section 4.1.2), and the server gets none of them.
#[test]
fn more_than_the_declared_length_is_refused() {
    let origin = measuring();
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    for length in ["0", "2"] {
        let mut stream = client.open(&post(&[("content-length", length)]));
        // Weir may have given the stream up.
        let _ = client.try_send_raw(&mut stream, &frame(0, b"GET /evil HTTP/1.1\r\n\r\n"));
        stream.finish();
        let outcome = client.rest(&mut stream);
        assert!(outcome.reset.is_some() || outcome.status() >= 400, "{length}: {outcome:?}");
    }
    assert_eq!(client.get("/next").text(), "0");
    assert!(origin.targets().iter().all(|target| target != "/evil"));
}
