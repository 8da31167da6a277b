//! gRPC-Web in front of servers of gRPC: bytes and text, over both versions of HTTP, trailers as the last frame, and failures.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

use super::origin;
use crate::harness::message::Fields;
use crate::harness::{CLOSED_PORT, Client, Http2Client, Origin, Response, Weir, config_with};

const QUESTION: &[u8] = b"\0\0\0\0\x08question";
const ANSWER: &[u8] = b"\0\0\0\0\x06answer";
const QUESTION_TEXT: &str = "AAAAAAhxdWVzdGlvbg==";
const ANSWER_TEXT: &str = "AAAAAAZhbnN3ZXI=";
const END: &[u8] = b"\x80\0\0\0\x28grpc-status: 0\r\ngrpc-message: so it is\r\n";
const END_TEXT: &str = "gAAAAChncnBjLXN0YXR1czogMA0KZ3JwYy1tZXNzYWdlOiBzbyBpdCBpcw0K";

const HEAD: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc+proto")];

fn start_with(servers: &[String], route: &str, keys: &str) -> Weir {
    Weir::start(&config_with(
        servers,
        &format!(
            "process.workers = 1\nlistener.web.http2.prior_knowledge = \"allowed\"\n\
             access_log = {{ format = '{{target}} {{status}} {{grpc_status}} {{reason}}', output = \"file:{{dir}}/access.log\" }}\n\
             listener.web.route = [{{ upstream = \"app\", path = \"/\"{route} }}]\n\
             upstream.app.protocol = \"h2c\"\n{keys}"
        ),
    ))
}

fn start(origin: &Origin) -> Weir {
    start_with(&[origin.named("a")], ", grpc_web = true", "")
}

/// An origin of gRPC: it wants a question, and answers it.
fn answering() -> Origin {
    origin(|server, asked| {
        assert_eq!(asked.body, QUESTION);
        assert_eq!(asked.field("content-type"), Some("application/grpc+proto"));
        assert_eq!(asked.field("te"), Some("trailers"));
        server.send_head(asked.stream, &HEAD, false)?;
        server.send_data(asked.stream, ANSWER, false)?;
        server.send_head(asked.stream, &[("grpc-status", "0"), ("grpc-message", "so it is")], true)
    })
}

/// A call over HTTP/1.1.
fn call(client: &mut Client, content_type: &str, fields: &str, body: &[u8]) -> Response {
    send_call(client, content_type, fields, body);
    client.response_to("POST")
}

fn send_call(client: &mut Client, content_type: &str, fields: &str, body: &[u8]) {
    client.send(format!(
        "POST /a.B/C HTTP/1.1\r\nHost: a.test\r\nContent-Type: {content_type}\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    ));
    client.send(body);
}

fn content_type(fields: &Fields) -> Option<&str> {
    fields.one("content-type")
}

#[test]
fn bytes_over_http1() {
    let (origin, body) = (answering(), [ANSWER, END].concat());
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        let response = call(&mut client, "application/grpc-web+proto", "", QUESTION);
        assert_eq!(content_type(response.fields()), Some("application/grpc-web+proto"));
        assert_eq!(response.body.bytes, body);
        assert!(!response.closes(), "the connection can be used again");
    }
    assert_eq!(weir.access_log(3)[0], "/a.B/C 200 ok -");
    assert_eq!(weir.metrics().sum("weir_upstream_grpc_calls_total", &["status=\"ok\""]), 3.0);
}

#[test]
fn text_over_http1() {
    let origin = answering();
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    let response = call(&mut client, "application/grpc-web-text+proto", "", QUESTION_TEXT.as_bytes());
    assert_eq!(content_type(response.fields()), Some("application/grpc-web-text+proto"));
    // The message and the trailers may have come together or one by one.
    assert_eq!(response.text(), format!("{ANSWER_TEXT}{END_TEXT}"));
    // What the client accepts decides about the response.
    let accepts = "Accept: application/grpc-web-text\r\n";
    let response = call(&mut client, "application/grpc-web+proto", accepts, QUESTION);
    assert_eq!(response.text(), format!("{ANSWER_TEXT}{END_TEXT}"));
}

#[test]
fn text_over_http2() {
    let origin = answering();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/a.B/C", &[("content-type", "application/grpc-web-text+proto")]);
    let (first, second) = QUESTION_TEXT.split_at(7);
    client.data(stream, first, false);
    client.settle();
    client.data(stream, second, true);
    let response = client.response(stream);
    assert_eq!(response.field("content-type"), Some("application/grpc-web-text+proto"));
    assert_eq!(response.text(), format!("{ANSWER_TEXT}{END_TEXT}"));
    assert!(response.trailers.is_none(), "they are in the body: {response:?}");
}

/// A response that is only a head stays one, with its status in a field.
#[test]
fn trailers_only() {
    let origin = origin(|server, asked| {
        server.send_head(asked.stream, &[&HEAD[..], &[("grpc-status", "5")]].concat(), true)
    });
    let weir = start(&origin);
    let response = call(&mut Client::connect(weir.web()), "application/grpc-web+proto", "", QUESTION);
    assert_eq!(content_type(response.fields()), Some("application/grpc-web+proto"));
    assert_eq!((response.field("grpc-status"), &response.body.bytes[..]), (Some("5"), &b""[..]));
    assert_eq!(weir.access_log(1)[0], "/a.B/C 200 not-found -");
}

#[test]
fn without_the_key_calls_pass_as_they_are() {
    let origin = origin(|server, asked| {
        assert_eq!(asked.field("content-type"), Some("application/grpc-web-text"));
        assert_eq!(asked.text(), QUESTION_TEXT);
        server.respond(asked.stream, "200", END)
    });
    let weir = start_with(&[origin.named("a")], "", "");
    let mut client = Client::connect(weir.web());
    let response = call(&mut client, "application/grpc-web-text", "", QUESTION_TEXT.as_bytes());
    assert_eq!(response.body.bytes, END);
    assert_eq!(weir.access_log(1)[0], "/a.B/C 200 - -");
}

#[test]
fn other_requests_of_such_a_route_pass_as_they_are() {
    let origin = origin(|server, asked| server.respond(asked.stream, "200", &asked.body));
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    assert_eq!(call(&mut client, "application/json", "", b"{}").text(), "{}");
    // Nor is a response changed that is none of gRPC.
    let response = call(&mut client, "application/grpc-web+proto", "", QUESTION);
    assert_eq!(response.body.bytes, QUESTION);
}

#[test]
fn a_text_that_is_none_is_refused() {
    let origin = answering();
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    let response = call(&mut client, "application/grpc-web-text", "", b"AAAA*AAA");
    assert_eq!((response.field("grpc-status"), response.reason()), (Some("13"), Some("grpc-web-text")));
    assert_eq!(content_type(response.fields()), Some("application/grpc-web-text"));
}

#[test]
fn failures_of_weir_are_statuses() {
    let closed = [format!("\"{CLOSED_PORT}\"")];
    let weir = start_with(&closed, ", grpc_web = true", "upstream.app.retry.attempts_max = 1");
    let response = call(&mut Client::connect(weir.web()), "application/grpc-web+proto", "", QUESTION);
    assert_eq!((response.field("grpc-status"), response.reason()), (Some("14"), Some("connect-refused")));
    assert_eq!(content_type(response.fields()), Some("application/grpc-web+proto"));
}

/// A call that is refused before a server is chosen is one, too.
#[test]
fn a_call_that_is_too_large_has_a_status() {
    let origin = answering();
    let weir = start_with(&[origin.named("a")], ", grpc_web = true, limits.body_size = \"4B\"", "");
    for content_type in ["application/grpc-web+proto", "application/grpc-web-text"] {
        let response = call(&mut Client::connect(weir.web()), content_type, "", QUESTION);
        assert_eq!((response.status, response.field("grpc-status")), (200, Some("8")), "{content_type}");
        assert_eq!(response.field("content-type"), Some(content_type));
    }
}

/// The text is decoded anew for each attempt.
#[test]
fn a_call_in_text_goes_again() {
    let count = AtomicUsize::new(0);
    let origin = origin(move |server, asked| {
        assert_eq!(asked.body, QUESTION);
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => server.reset(asked.stream, 7),
            _ => server.send_head(asked.stream, &[&HEAD[..], &[("grpc-status", "0")]].concat(), true),
        }
    });
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    let response = call(&mut client, "application/grpc-web-text", "", QUESTION_TEXT.as_bytes());
    assert_eq!(response.field("grpc-status"), Some("0"));
}

/// A response that breaks off within a message: a frame of trailers would pass for a part of that.
#[test]
fn a_call_that_is_cut_within_a_message_is_cut_short() {
    let origin = origin(|server, asked| {
        server.send_head(asked.stream, &HEAD, false)?;
        server.send_data(asked.stream, &ANSWER[..7], false)?;
        server.reset(asked.stream, 2)
    });
    let weir = start(&origin);
    for content_type in ["application/grpc-web+proto", "application/grpc-web-text"] {
        let mut client = Client::connect(weir.web());
        let question = if content_type.ends_with("text") { QUESTION_TEXT.as_bytes() } else { QUESTION };
        send_call(&mut client, content_type, "", question);
        let (got, _end) = client.take_to_end();
        let text = String::from_utf8_lossy(&got);
        assert!(text.starts_with("HTTP/1.1 200 ") && !text.contains("grpc-status"), "{text}");
        assert!(!text.ends_with("\r\n0\r\n\r\n"), "{text}");
    }
    assert_eq!(weir.access_log(2), ["/a.B/C 200 internal relay-server-reset"; 2]);
}

/// A response that breaks off: the status says so, behind what has come of it.
#[test]
fn a_call_that_is_cut_has_a_status() {
    let origin = origin(|server, asked| {
        server.send_head(asked.stream, &HEAD, false)?;
        server.send_data(asked.stream, ANSWER, false)?;
        server.reset(asked.stream, 2)
    });
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    let response = call(&mut client, "application/grpc-web+proto", "", QUESTION);
    let (message, end) = response.body.bytes.split_at(ANSWER.len());
    assert_eq!(message, ANSWER);
    let end = String::from_utf8_lossy(end);
    assert!(
        end.contains("grpc-status: 14\r\n") && end.contains("weir-reason: relay-server-reset\r\n"),
        "{end}"
    );
    // As trailers of gRPC itself.
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/a.B/C", &[("content-type", "application/grpc"), ("te", "trailers")]);
    client.data(stream, QUESTION, true);
    let response = client.response(stream);
    assert_eq!(response.body, ANSWER);
    let trailers = response.trailers.expect("they end the call");
    assert_eq!(
        (trailers.one("grpc-status"), trailers.one("weir-reason")),
        (Some("14"), Some("relay-server-reset"))
    );
    assert_eq!(weir.access_log(2), ["/a.B/C 200 unavailable relay-server-reset"; 2]);
}

/// Inside a message, trailers would be taken for bytes of it: the response is cut, in both versions of HTTP, whether the server has reset the
/// stream or ended it.
#[test]
fn a_call_that_ends_inside_a_message_is_cut() {
    for (resets, reason) in [(true, "relay-server-reset"), (false, "response-grpc-message-cut")] {
        let (has_arrived, arrival) = mpsc::channel();
        let arrival = Mutex::new(arrival);
        let origin = origin(move |server, asked| {
            server.send_head(asked.stream, &HEAD, false)?;
            server.send_data(asked.stream, &ANSWER[..8], false)?;
            arrival.lock().expect("no other thread has failed").recv().ok()?;
            match resets {
                true => server.reset(asked.stream, 2),
                false => server.send_head(asked.stream, &[("grpc-status", "13")], true),
            }
        });
        let weir = start(&origin);
        let mut client = Client::connect(weir.web());
        client.send(format!(
            "POST /a.B/C HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/grpc-web+proto\r\nContent-Length: {}\r\n\r\n",
            QUESTION.len()
        ));
        client.send(QUESTION);
        assert_eq!(client.head().fields.one("transfer-encoding"), Some("chunked"));
        assert_eq!(client.take(13), [b"8\r\n", &ANSWER[..8], b"\r\n"].concat());
        has_arrived.send(()).expect("the origin waits");
        let (rest, _) = client.take_to_end();
        assert_eq!(rest, b"", "resets: {resets}");

        let mut client = Http2Client::connect(weir.web());
        let stream = client.post("/a.B/C", &[("content-type", "application/grpc-web+proto")]);
        client.data(stream, QUESTION, true);
        assert_eq!(client.body(stream, 8), &ANSWER[..8]);
        has_arrived.send(()).expect("the origin waits");
        client.wait_for_reset(stream);
        assert_eq!(client.received(stream).body, &ANSWER[..8], "resets: {resets}");
        let log = weir.access_log(2);
        assert!(log.iter().all(|line| line.starts_with("/a.B/C 200 ") && line.ends_with(reason)), "{log:?}");
    }
}
