//! Bodies whose pieces come one by one, in both directions.

use quinn::TransportConfig;

use super::start;
use crate::harness::http3::{Http3Client, frame};
use crate::harness::scripts::{continuing, measuring, pattern};
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
    client.finish(&mut stream);
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
    client.finish(&mut stream);
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
        client.finish(&mut stream);
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
    client.cancel(&mut stream);
    origin.wait_for_end(0);
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
        client.finish(&mut stream);
        let outcome = client.rest(&mut stream);
        assert!(outcome.reset.is_some() || outcome.status() >= 400, "{length}: {outcome:?}");
    }
    assert_eq!(client.get("/next").text(), "0");
    assert!(origin.targets().iter().all(|target| target != "/evil"));
}

/// What the server has sent before it breaks off reaches the client, and then it is told.
#[test]
fn a_response_that_breaks_off_is_cut_behind_what_came() {
    let origin = Origin::start(|conn| {
        loop {
            let head = match conn.request()?.target() {
                "/length" => "Content-Length: 1000",
                _ => "Transfer-Encoding: chunked",
            };
            conn.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nabc\r\n"))?;
            conn.close();
        }
    });
    let settings = "listener.web.route = [\
        { path = \"/buffered\", upstream = \"app\", buffer_responses = { memory = \"16KiB\" } }, \
        { path = \"/\", upstream = \"app\" }]\n";
    let (authority, weir) = start(&origin, settings);
    let mut client = Http3Client::connect(weir.web(), &authority);
    for (target, body) in
        [("/length", &b"5\r\nabc\r\n"[..]), ("/chunked", b"abc\r\n"), ("/buffered", b"abc\r\n")]
    {
        let mut stream = client.open(&[&GET[..3], &[(":path", target)]].concat());
        client.finish(&mut stream);
        let all = client.rest(&mut stream);
        assert_eq!((all.status(), all.has_ended, all.reset), (200, false, Some(0x102)), "{target}");
        assert!(body.starts_with(&all.body) && !all.body.is_empty(), "{target}: {:?}", all.body);
    }
}

#[test]
fn a_client_may_wait_for_the_server_to_agree() {
    let origin = continuing();
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = client.open(&post(&[("expect", "100-continue"), ("content-length", "5")]));
    assert_eq!(client.interim(&mut stream).first(":status"), Some("100"));
    client.send_data(&mut stream, b"hello");
    client.finish(&mut stream);
    assert_eq!(client.rest(&mut stream).status(), 200);
}

/// A response before the end of the request is whole, and the rest of the request is not wanted (RFC 9114 section 4.1).
#[test]
fn an_early_response_stops_the_request() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.send("HTTP/1.1 403 No\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")?;
        conn.wait_for_end();
        Some(())
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = client.open(&post(&[]));
    client.send_data(&mut stream, &[b'x'; 10_000]);
    let all = client.rest(&mut stream);
    assert_eq!((all.status(), &all.body[..], all.has_ended), (403, &b"no"[..], true));
    assert_eq!(client.stop_code(&mut stream), Some(0x100));
}

#[test]
fn large_heads_pass_both_ways() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let long = request.field("x-long").unwrap_or("none").to_owned();
            let fields: String =
                (0..20).map(|number| format!("X-{number}: {}\r\n", "y".repeat(900))).collect();
            conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{long}", long.len()))?;
        }
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let long = "x".repeat(14_000);
    for _ in 0..3 {
        let response = client.get_with("/", &[("x-long", &long)]);
        assert_eq!((response.status, response.text() == long), (200, true));
        assert_eq!(response.field("x-19").map(str::len), Some(900));
    }
}

/// A client that takes nothing holds its stream alone, and the server as well.
#[test]
fn a_client_that_reads_slowly_is_waited_for() {
    let origin = Origin::start(|conn| {
        loop {
            let len = match conn.request()?.target() {
                "/large" => 4_000_000,
                _ => 5,
            };
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"))?;
            conn.send(pattern(len))?;
        }
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut slow = client.open(&[&GET[..3], &[(":path", "/large")]].concat());
    client.finish(&mut slow);
    client.body(&mut slow, 1_000);
    for _ in 0..10 {
        assert_eq!(client.get("/small").body, pattern(5));
    }
    let all = client.rest(&mut slow);
    assert!(all.has_ended && all.body == pattern(4_000_000), "{} bytes", all.body.len());
}

/// Clients may send the end in a packet of its own: a GET is none with a body for that.
#[test]
fn a_request_whose_end_comes_alone_has_no_body() {
    let origin = Origin::serving("x");
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    for method in ["GET", "HEAD", "DELETE"] {
        let mut stream = client.open(&[&[(":method", method)], &GET[1..]].concat());
        client.finish(&mut stream);
        assert_eq!(client.head(&mut stream).status(), 200, "{method}");
        let request = origin.last_request();
        assert_eq!(request.method(), method);
        assert_eq!(
            request.field("transfer-encoding").or(request.field("content-length")),
            None,
            "{request:?}"
        );
    }
}

/// One whose end does not come has a body, which may come late.
#[test]
fn a_get_may_have_a_body() {
    let origin = measuring();
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut stream = client.open(&GET);
    origin.wait_for_connections(1);
    client.send_data(&mut stream, b"abc");
    client.finish(&mut stream);
    assert_eq!(client.rest(&mut stream).body, b"3");
}

/// Whatever part of a piece there is room for on the connection: the rest follows when there is more.
#[test]
fn a_body_goes_on_when_the_connection_has_room_again() {
    let body = "x".repeat(1_000_000);
    let told = body.clone();
    let origin = Origin::start(move |conn| {
        conn.head()?;
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", told.len()))?;
        for piece in told.as_bytes().chunks(1_500) {
            conn.send(piece)?;
        }
        Some(())
    });
    let (authority, weir) = start(&origin, "");
    for window in [2_500_u32, 3_300, 4_100, 7_000, 9_500] {
        let mut transport = TransportConfig::default();
        transport.receive_window(window.into());
        let client = Http3Client::try_connect_with(weir.web(), authority.client(), transport);
        let response = client.expect("there is HTTP/3").get("/");
        assert!(response.text() == body, "{window}: {} bytes", response.text().len());
    }
}
