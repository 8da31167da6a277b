//! Compressed responses: for whom, with which fields, when each piece goes out, and how one ends that is cut.

use crate::harness::http2::start_with_tls;
use crate::harness::message::Fields;
use crate::harness::origin::Connection;
use crate::harness::watchdog::{Gate, eventually};
use crate::harness::{Client, Http2Client, Origin, Response, Weir, config_with, temporary_folder};

/// Some 16 KiB of text that shrinks.
fn page() -> String {
    (0..800).map(|line| format!("<p>line {line} of {}</p>\n", line * line % 97)).collect()
}

pub(super) fn gzip(text: &str) -> Vec<u8> {
    let mut out = vec![0; text.len() + 100];
    let config = zlib_rs::DeflateConfig { window_bits: 31, ..zlib_rs::DeflateConfig::default() };
    let (made, _) = zlib_rs::compress_slice(&mut out, text.as_bytes(), config);
    made.to_vec()
}

/// What a body of this coding decodes to, as far as it goes, and whether it is whole.
pub(super) fn decode(coding: &str, bytes: &[u8]) -> (String, bool) {
    let mut out = vec![0; 4 << 20];
    let (len, is_whole) = match coding {
        "gzip" => {
            let mut inflate = zlib_rs::Inflate::new(true, 31);
            let status = inflate.decompress(bytes, &mut out, zlib_rs::InflateFlush::SyncFlush);
            (inflate.total_out() as usize, status == Ok(zlib_rs::Status::StreamEnd))
        }
        "br" => {
            let mut decoder = brotli::Decompressor::new(bytes, 4096);
            let mut len = 0;
            let end = loop {
                match std::io::Read::read(&mut decoder, &mut out[len..]) {
                    Ok(0) => break true,
                    Ok(more) => len += more,
                    Err(_) => break false,
                }
            };
            (len, end)
        }
        "zstd" => {
            let mut decoder = zstd_safe::DCtx::create();
            let mut output = zstd_safe::OutBuffer::around(&mut out[..]);
            let mut input = zstd_safe::InBuffer::around(bytes);
            let mut left = 1;
            while input.pos() < bytes.len() {
                left = decoder.decompress_stream(&mut output, &mut input).expect("the body is of zstd");
            }
            (output.pos(), left == 0)
        }
        other => panic!("an unknown coding: {other}"),
    };
    out.truncate(len);
    (String::from_utf8(out).expect("the body is text"), is_whole)
}

/// What a response decodes to, by its `Content-Encoding`.
pub(super) fn text_of(response: &Response) -> String {
    match response.field("content-encoding") {
        None => response.text(),
        Some(coding) => {
            let (text, is_whole) = decode(coding, &response.body.bytes);
            assert!(is_whole, "it has its end");
            text
        }
    }
}

fn answer(conn: &mut Connection, head: &str, method: &str, body: &[u8]) -> Option<()> {
    conn.send(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\n\r\n", body.len()))?;
    if method == "HEAD" { Some(()) } else { conn.send(body) }
}

/// Answers by the path, as servers do.
fn origin() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let (page, method) = (page(), request.method().to_owned());
            let mut send = |head: &str, body: &[u8]| answer(conn, head, &method, body);
            match request.target() {
                "/page" if request.field("if-none-match").is_some() => conn.send(
                    "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nVary: Accept\r\nContent-Length: 9999\r\n\r\n",
                )?,
                "/page" => send(
                    "Content-Type: text/html; charset=utf-8\r\nETag: \"v1\"\r\nVary: Accept\r\nAccept-Ranges: bytes\r\n\
                     Repr-Digest: sha-256=:abc:\r\nX-Other: kept\r\n",
                    page.as_bytes(),
                )?,
                "/weak" => send("Content-Type: text/css\r\nETag: W/\"v1\"\r\nVary: *\r\n", page.as_bytes())?,
                "/short" => send("Content-Type: text/html\r\n", b"short")?,
                "/image" => send("Content-Type: image/png\r\n", page.as_bytes())?,
                "/untyped" => send("", page.as_bytes())?,
                "/fixed" => {
                    send("Content-Type: text/html\r\nCache-Control: max-age=9, No-Transform\r\n", page.as_bytes())?;
                }
                "/gzipped" => {
                    send("Content-Type: text/html\r\nContent-Encoding: gzip\r\nETag: \"z\"\r\n", &gzip(&page))?;
                }
                // In one piece, so that none of the head has left when the body is looked at.
                "/broken" => conn.send(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: 15\r\n\r\nnot gzip at all",
                )?,
                "/part" => conn.send(format!(
                    "HTTP/1.1 206 Partial Content\r\nContent-Type: text/html\r\nContent-Range: bytes 0-{}/99999\r\n\
                     Content-Length: {}\r\n\r\n{page}",
                    page.len() - 1,
                    page.len()
                ))?,
                "/error" => conn.send(format!(
                    "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{page}",
                    page.len()
                ))?,
                "/chunked" => conn.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{page}\r\n0\r\n\
                     Server-Timing: a\r\n\r\n",
                    page.len()
                ))?,
                "/cut" => {
                    conn.send(format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 999999\r\n\r\n{page}"
                    ))?;
                    return None;
                }
                _ => send("Content-Type: text/plain\r\n", b"not found")?,
            }
        }
    })
}

fn start(origin: &Origin, keys: &str, settings: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1\nlistener.web.route = [{{ path = \"/\", upstream = \"app\", compression = {keys} }}]\n\
             access_log.format = '{{target}} {{status}} {{compression}} {{reason}}'\naccess_log.output = \"file:{{dir}}/access.log\"\n{settings}"
        ),
    ))
}

fn fetch(weir: &Weir, method: &str, target: &str, accepts: &str) -> Response {
    Client::exchange(
        weir.web(),
        &format!(
            "{method} {target} HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: {accepts}\r\nConnection: close\r\n\r\n"
        ),
    )
}

/// The fields of a compressed page.
fn assert_compressed(fields: &Fields, coding: &str) {
    for (name, value) in [
        ("content-encoding", Some(coding)),
        ("content-type", Some("text/html; charset=utf-8")),
        ("content-length", None),
        ("etag", Some("W/\"v1\"")),
        ("vary", Some("Accept, Accept-Encoding")),
        ("accept-ranges", None),
        ("repr-digest", None),
        ("x-other", Some("kept")),
    ] {
        assert_eq!(fields.one(name), value, "{name}");
    }
}

#[test]
fn each_client_gets_what_it_accepts() {
    let origin = origin();
    let weir = start(&origin, "true", "");
    for (accepts, coding) in [
        ("gzip", "gzip"),
        ("br;q=0.9, gzip;q=0.8", "br"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("zstd;q=0, *", "br"),
    ] {
        let response = fetch(&weir, "GET", "/page", accepts);
        assert_compressed(response.fields(), coding);
        assert_eq!(response.field("transfer-encoding"), Some("chunked"));
        assert!(response.body.bytes.len() < page().len() / 3, "{}", response.body.bytes.len());
        assert_eq!(text_of(&response), page(), "{accepts}");
        // RFC 9110 section 9.3.2: the fields of GET.
        assert_compressed(fetch(&weir, "HEAD", "/page", accepts).fields(), coding);
    }
    for accepts in ["", "identity", "gzip;q=0", "gzip;q=0.5, identity", "compress"] {
        let response = fetch(&weir, "GET", "/page", accepts);
        assert_eq!(response.text(), page(), "{accepts}");
        for (name, value) in [
            ("content-encoding", None),
            ("etag", Some("\"v1\"")),
            ("vary", Some("Accept, Accept-Encoding")),
            ("accept-ranges", Some("bytes")),
            ("repr-digest", Some("sha-256=:abc:")),
        ] {
            assert_eq!(response.field(name), value, "{accepts} {name}");
        }
        assert_eq!(response.field("content-length"), Some(page().len().to_string().as_str()));
    }
}

#[test]
fn what_passes_as_it_is() {
    let origin = origin();
    let weir = start(&origin, "true", "");
    for (target, coding, vary) in [
        ("/short", None, None),
        ("/image", None, None),
        ("/untyped", None, None),
        ("/fixed", None, None),
        ("/part", None, Some("Accept-Encoding")),
        ("/gzipped", Some("gzip"), None),
        ("/error", Some("gzip"), Some("Accept-Encoding")),
        ("/weak", Some("gzip"), Some("*")),
    ] {
        let response = fetch(&weir, "GET", target, "gzip");
        assert_eq!((response.field("content-encoding"), response.field("vary")), (coding, vary), "{target}");
        if target != "/short" {
            assert_eq!(text_of(&response), page(), "{target}");
        }
    }
    assert_eq!(fetch(&weir, "GET", "/weak", "gzip").field("etag"), Some("W/\"v1\""));
    let metrics = || weir.metrics();
    for (reason, count) in [("short", 1.0), ("media-type", 2.0), ("unchangeable", 2.0), ("encoded", 1.0)] {
        let label = format!("reason=\"{reason}\"");
        eventually(reason, || metrics().sum("weir_worker_uncompressed_responses_total", &[&label]) == count);
    }
    let compressed = metrics().sum("weir_worker_compressed_responses_total", &["algorithm=\"gzip\""]);
    assert_eq!(compressed, 3.0);
    let (before, after) = (
        metrics().sum("weir_worker_compression_input_bytes_total", &[]),
        metrics().sum("weir_worker_compression_output_bytes_total", &[]),
    );
    assert_eq!(before, 3.0 * page().len() as f64);
    assert!(after > 0.0 && after < before / 3.0, "{after} of {before}");
    assert_eq!(metrics().sum("weir_worker_compressions_open", &[]), 0.0);
}

#[test]
fn a_client_that_has_the_compressed_page_is_told_so() {
    let origin = origin();
    let weir = start(&origin, "true", "");
    for (asked, etag) in [
        ("W/\"v1\"", "W/\"v1\""),
        ("\"v0\", W/\"v1\"", "W/\"v1\""),
        ("\"v1\"", "\"v1\""),
        ("W/\"v1x\", \"v1\"", "\"v1\""),
    ] {
        let response = Client::exchange(
            weir.web(),
            &format!(
                "GET /page HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\nIf-None-Match: {asked}\r\n\r\n"
            ),
        );
        assert_eq!((response.status, response.field("etag")), (304, Some(etag)), "{asked}");
        assert_eq!(response.field("vary"), Some("Accept, Accept-Encoding"));
        assert_eq!((response.field("content-encoding"), response.field("content-length")), (None, None));
    }
    // The same request without a condition would get the page as it is, with its own tag.
    for fields in ["", "Accept-Encoding: gzip;q=0\r\n"] {
        let head = format!("GET /page HTTP/1.1\r\nHost: a.test\r\n{fields}If-None-Match: W/\"v1\"\r\n\r\n");
        let response = Client::exchange(weir.web(), &head);
        assert_eq!((response.status, response.field("etag")), (304, Some("\"v1\"")), "{fields}");
        assert_eq!(response.field("vary"), Some("Accept, Accept-Encoding"));
    }
}

#[test]
fn a_client_of_http_1_0_gets_it_until_the_connection_closes() {
    let origin = origin();
    let weir = start(&origin, "true", "");
    let mut client = Client::connect(weir.web());
    client.send(
        "GET /page HTTP/1.0\r\nHost: a.test\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n",
    );
    let head = client.head();
    assert_compressed(&head.fields, "gzip");
    assert_eq!(head.fields.one("transfer-encoding"), None);
    let (bytes, _) = client.take_to_end();
    assert_eq!(decode("gzip", &bytes), (page(), true));
}

#[test]
fn bodies_of_unknown_length_keep_their_trailers() {
    let origin = origin();
    let weir = start(&origin, "true", "");
    let response = fetch(&weir, "GET", "/chunked", "br");
    assert_eq!((response.field("content-encoding"), text_of(&response)), (Some("br"), page()));
    assert_eq!(response.body.trailers.one("server-timing"), Some("a"));
}

#[test]
fn over_http2() {
    let origin = origin();
    let (authority, weir) = start_with_tls(
        &origin,
        "listener.web.compression = { algorithms = [\"gzip\"], min_length = \"0B\" }",
    );
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    for (target, accepts, coding) in
        [("/page", "gzip, br", Some("gzip")), ("/page", "br", None), ("/chunked", "gzip", Some("gzip"))]
    {
        let stream = client.get_with(target, &[("accept-encoding", accepts)]);
        let response = client.response(stream);
        assert_eq!((response.status, response.field("content-encoding")), (200, coding), "{target}");
        match coding {
            None => assert_eq!(response.text(), page()),
            Some(coding) => {
                assert_eq!(response.field("content-length"), None);
                assert_eq!(decode(coding, &response.body), (page(), true));
            }
        }
    }
}

#[test]
fn a_body_that_is_cut_resets_its_stream_and_events_go_out_at_once_over_http2() {
    let origin = origin();
    let (authority, weir) = start_with_tls(&origin, "listener.web.compression = true");
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let stream = client.get_with("/cut", &[("accept-encoding", "gzip")]);
    assert_ne!(client.wait_for_reset(stream), 0, "no end without an error");

    let gate = Gate::new();
    let origin = in_two_pieces("text/event-stream", &gate);
    let (authority, weir) = start_with_tls(&origin, "listener.web.compression = { event_streams = true }");
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let stream = client.get_with("/", &[("accept-encoding", "zstd")]);
    client.wait("the first event", |client| decode("zstd", &client.received(stream).body).0 == "data: 1\n\n");
    gate.open();
    let response = client.response(stream);
    assert_eq!(decode("zstd", &response.body), ("data: 1\n\ndata: 2\n\n".to_owned(), true));
}

/// Answers with two pieces; the second one comes when the gate opens.
fn in_two_pieces(content_type: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
            ))?;
            gate.wait("the client has the first piece");
            conn.send("9\r\ndata: 2\n\n\r\n0\r\n\r\n")?;
        }
    })
}

#[test]
fn a_piece_goes_out_when_no_other_follows() {
    for content_type in ["text/event-stream", "text/plain"] {
        for coding in ["gzip", "br", "zstd"] {
            let gate = Gate::new();
            let origin = in_two_pieces(content_type, &gate);
            let weir = start(&origin, "{ event_streams = true }", "");
            let mut client = Client::connect(weir.web());
            client.send(format!("GET / HTTP/1.0\r\nHost: a.test\r\nAccept-Encoding: {coding}\r\n\r\n"));
            assert_eq!(client.head().fields.one("content-encoding"), Some(coding));
            let mut received = Vec::new();
            while decode(coding, &received).0 != "data: 1\n\n" {
                received.extend(client.take(1));
            }
            gate.open();
            received.extend(client.take_to_end().0);
            assert_eq!(decode(coding, &received), ("data: 1\n\ndata: 2\n\n".to_owned(), true));
        }
    }
}

/// A body with a length that is made slowly, and one without whose pieces follow each other within the interval of flushes.
#[test]
fn a_slow_body_goes_out_after_a_while() {
    let gates = [Gate::new(), Gate::new()];
    let [first, second] = gates.clone();
    let origin = Origin::start(move |conn| {
        loop {
            match conn.request()?.target() {
                "/known" => {
                    conn.send(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2000\r\n\r\nbegin ",
                    )?;
                    first.wait("the client has the beginning");
                    conn.send(" ".repeat(1994))?;
                }
                _ => {
                    conn.send(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
                    )?;
                    for piece in 0..50 {
                        conn.send(format!("5\r\np{piece:02}, \r\n"))?;
                    }
                    second.wait("the client has what was sent");
                    conn.send("0\r\n\r\n")?;
                }
            }
        }
    });
    let weir = start(&origin, "true", "");
    let pieces: String = (0..50).map(|piece| format!("p{piece:02}, ")).collect();
    for (target, expected, gate) in [("/known", "begin ", &gates[0]), ("/pieces", &*pieces, &gates[1])] {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET {target} HTTP/1.0\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n"));
        assert_eq!(client.head().fields.one("content-encoding"), Some("gzip"));
        let mut received = Vec::new();
        while decode("gzip", &received).0 != expected {
            received.extend(client.take(1));
        }
        gate.open();
        received.extend(client.take_to_end().0);
        assert!(decode("gzip", &received).1);
    }
}

#[test]
fn event_streams_pass_unless_it_is_wanted() {
    let gate = Gate::new();
    gate.open();
    let origin = in_two_pieces("text/event-stream", &gate);
    let weir = start(&origin, "{ types = [\"*\"] }", "");
    let response = fetch(&weir, "GET", "/", "gzip");
    assert_eq!((response.field("content-encoding"), response.field("vary")), (None, None));
    assert_eq!(response.text(), "data: 1\n\ndata: 2\n\n");
}

#[test]
fn a_body_that_is_cut_has_no_end() {
    let origin = origin();
    let weir = start(&origin, "true", "");
    for coding in ["gzip", "br", "zstd"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET /cut HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: {coding}\r\n\r\n"));
        assert_eq!(client.head().fields.one("transfer-encoding"), Some("chunked"));
        let (bytes, _) = client.take_to_end();
        assert!(!bytes.ends_with(b"0\r\n\r\n"), "no last chunk");
    }
    let lines = weir.access_log(3);
    assert_eq!(lines, ["gzip", "br", "zstd"].map(|coding| format!("/cut 200 {coding} response-incomplete")));
}

#[test]
fn a_client_that_leaves_leaves_nothing_behind() {
    let gate = Gate::new();
    let origin = in_two_pieces("text/plain", &gate);
    let weir = start(&origin, "{ min_length = \"0B\" }", "");
    let open = || weir.metrics().sum("weir_worker_compressions_open", &[]);
    for coding in ["gzip", "br", "zstd"] {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: {coding}\r\n\r\n"));
        client.head();
        eventually("it is compressed", || open() == 1.0);
        client.reset();
        eventually("it is given up", || open() == 0.0);
    }
    gate.open();
}

#[test]
fn no_more_at_a_time_than_configured() {
    let gate = Gate::new();
    let origin = in_two_pieces("text/plain", &gate);
    let weir = start(&origin, "true", "process.compressions_max = 1");
    let mut first = Client::connect(weir.web());
    first.send("GET / HTTP/1.0\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!(first.head().fields.one("content-encoding"), Some("gzip"));
    let mut second = Client::connect(weir.web());
    second.send("GET / HTTP/1.0\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n");
    let head = second.head();
    assert_eq!(
        (head.fields.one("content-encoding"), head.fields.one("vary")),
        (None, Some("Accept-Encoding"))
    );
    gate.open();
    assert!(decode("gzip", &first.take_to_end().0).1);
    assert_eq!(second.take_to_end().0, b"data: 1\n\ndata: 2\n\n");
    let refused = weir.metrics().sum("weir_worker_uncompressed_responses_total", &["reason=\"limit\""]);
    assert_eq!(refused, 1.0);
}

#[test]
fn a_body_is_decoded_for_a_client_that_cannot() {
    let origin = origin();
    let weir = start(&origin, "{ decompress = true }", "");
    let response = fetch(&weir, "GET", "/gzipped", "br");
    assert_eq!(response.text(), page());
    for (name, value) in
        [("content-encoding", None), ("etag", Some("W/\"z\"")), ("vary", Some("Accept-Encoding"))]
    {
        assert_eq!(response.field(name), value, "{name}");
    }
    let head = fetch(&weir, "HEAD", "/gzipped", "br");
    assert_eq!((head.field("content-encoding"), head.field("content-length")), (None, None));
    let response = fetch(&weir, "GET", "/gzipped", "gzip");
    assert_eq!((response.field("etag"), response.field("vary")), (Some("\"z\""), Some("Accept-Encoding")));
    assert_eq!(text_of(&response), page());
    assert_eq!(weir.access_log(3)[0], "/gzipped 200 decompressed -");

    let response = fetch(&weir, "GET", "/broken", "");
    assert_eq!((response.status, response.reason()), (502, Some("response-broken-coding")));
    assert_eq!(weir.access_log(4)[3], "/broken 502 - response-broken-coding");
}

#[test]
fn answers_of_weir_and_keys_of_routes() {
    let origin = origin();
    let body = "a line of an answer\\n".repeat(100);
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "listener.web.compression = {{ gzip_level = 1 }}\n\
             listener.web.route = [
                {{ path = \"/own\", respond = {{ body = \"{body}\", headers = {{ etag = '\"r\"' }} }} }},
                {{ path = \"/page\", upstream = \"app\", compression = false }},
                {{ path = \"/error\", upstream = \"app\", compression = {{ algorithms = [\"br\"] }} }},
                {{ path = \"/weak\", upstream = \"app\", response_headers.set = {{ vary = \"X\", etag = '\"own\"' }} }},
                {{ path = \"/chunked\", upstream = \"app\", response_headers.set = {{ content-encoding = \"own\" }} }},
             ]"
        ),
    ));
    let response = fetch(&weir, "GET", "/own", "gzip");
    assert_eq!(text_of(&response), "a line of an answer\n".repeat(100));
    for (name, value) in
        [("content-encoding", Some("gzip")), ("etag", Some("W/\"r\"")), ("vary", Some("Accept-Encoding"))]
    {
        assert_eq!(response.field(name), value, "{name}");
    }
    let head = fetch(&weir, "HEAD", "/own", "gzip");
    assert_eq!((head.field("content-encoding"), head.field("content-length")), (Some("gzip"), None));
    let response = fetch(&weir, "GET", "/own", "");
    assert_eq!(
        (response.field("content-length"), response.field("vary")),
        (Some("2000"), Some("Accept-Encoding"))
    );
    for (target, coding, vary) in [
        ("/page", None, Some("Accept")),
        ("/error", None, Some("Accept-Encoding")),
        ("/other", None, None),
        ("/weak", Some("gzip"), Some("X")),
    ] {
        let response = fetch(&weir, "GET", target, "gzip");
        assert_eq!((response.field("content-encoding"), response.field("vary")), (coding, vary), "{target}");
    }
    assert_eq!(fetch(&weir, "GET", "/weak", "gzip").field("etag"), Some("\"own\""));
    let response = fetch(&weir, "GET", "/chunked", "gzip");
    assert_eq!((response.field("content-encoding"), response.text()), (Some("own"), page()));
}

/// Files have their forms beside them first; what has none is compressed as it is read.
#[test]
fn files_are_compressed_as_they_are_read() {
    let folder = temporary_folder();
    for (name, content) in [
        ("page.html", page().into_bytes()),
        ("both.html", page().into_bytes()),
        ("both.html.gz", gzip(&page())),
    ] {
        std::fs::write(folder.path().join(name), content).expect("the folder takes files");
    }
    let settings = "listener.web.compression = true\n\
                    listener.web.route = [{ path = \"/\", files = { root = \".\", precompressed = [\"gzip\"] } }]";
    let weir = Weir::start_in(folder, &config_with(&["'127.0.0.1:1'".to_owned()], settings));
    let response = fetch(&weir, "GET", "/page.html", "br, gzip;q=0.1");
    assert_eq!(
        (response.field("content-encoding"), response.field("vary")),
        (Some("br"), Some("Accept-Encoding"))
    );
    assert_eq!((text_of(&response), response.field("accept-ranges")), (page(), None));
    let etag = response.field("etag").expect("files have one").to_owned();
    assert!(etag.starts_with("W/"), "{etag}");
    let again = Client::exchange(
        weir.web(),
        &format!(
            "GET /page.html HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: br\r\nIf-None-Match: {etag}\r\n\r\n"
        ),
    );
    assert_eq!((again.status, again.field("etag")), (304, Some(&*etag)));

    let response = fetch(&weir, "GET", "/both.html", "gzip");
    assert_eq!((response.field("content-encoding"), text_of(&response)), (Some("gzip"), page()));
    assert!(response.field("content-length").is_some(), "the file beside it");
    assert_eq!(text_of(&fetch(&weir, "GET", "/both.html", "zstd")), page());
}

/// What the server sends waits in a small buffer, and little comes out of it.
#[test]
fn a_response_that_is_buffered_and_compressed() {
    let text = "the same line again and again\n".repeat(100_000);
    let (whole, packed) = (text.clone(), gzip(&text));
    let origin = Origin::start(move |conn| {
        loop {
            let is_packed = conn.request()?.target() == "/packed";
            let head = if is_packed { "Content-Encoding: gzip\r\n" } else { "" };
            let body = if is_packed { &packed[..] } else { whole.as_bytes() };
            answer(conn, &format!("Content-Type: text/plain\r\n{head}"), "GET", body)?;
        }
    });
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        "listener.web.route = [{ path = \"/\", upstream = \"app\", compression = { decompress = true },
             buffer_responses = { memory = \"16KiB\", file = \"0B\" } }]",
    ));
    for (target, accepts) in [("/", "gzip"), ("/", "br"), ("/", "zstd"), ("/packed", ""), ("/packed", "gzip")]
    {
        assert!(text_of(&fetch(&weir, "GET", target, accepts)) == text, "{target} {accepts}");
    }
}

#[test]
fn under_load_levels_fall_and_then_responses_pass() {
    let origin = origin();
    let weir =
        start(&origin, "{ algorithms = [\"br\"], brotli_level = 6 }", "process.compression_time = \"1%\"");
    let mut client = Client::connect(weir.web());
    let mut passed = 0;
    eventually("one passes as it is", || {
        for _ in 0..20 {
            client.send("GET /page HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: br\r\n\r\n");
            let response = client.response();
            assert_eq!(text_of(&response), page());
            assert_eq!(response.field("vary"), Some("Accept, Accept-Encoding"));
            passed += usize::from(response.field("content-encoding").is_none());
        }
        passed > 0
    });
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_worker_compression_step", &[]), 3.0);
    assert!(metrics.sum("weir_worker_uncompressed_responses_total", &["reason=\"load\""]) >= passed as f64);
}
