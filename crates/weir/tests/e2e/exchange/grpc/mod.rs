//! gRPC calls: deadlines, statuses in trailers, answers of Weir's own, retries and ejection by status, and streams that last.

mod mirror;
mod web;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::http2::server::{Asked, Http2Server};
use crate::harness::watchdog::now;
use crate::harness::{CLOSED_PORT, Gate, Http2Client, Origin, Weir, config_with, eventually};

/// A message of gRPC.
fn message(content: &[u8]) -> Vec<u8> {
    [&[0][..], &(content.len() as u32).to_be_bytes(), content].concat()
}

fn start(servers: &[String], keys: &str) -> Weir {
    let keys: String = keys.lines().map(|key| format!("upstream.app.{}\n", key.trim_start())).collect();
    Weir::start(&config_with(
        servers,
        &format!(
            "process.workers = 1\nlistener.web.http2.prior_knowledge = \"only\"\n\
             access_log = {{ format = '{{target}} {{status}} {{grpc_status}} {{reason}}', output = \"file:{{dir}}/access.log\" }}\n\
             upstream.app.protocol = \"h2c\"\n{keys}"
        ),
    ))
}

fn start_one(origin: &Origin, keys: &str) -> Weir {
    start(&[origin.named("a")], keys)
}

/// Opens a call.
fn call(client: &mut Http2Client, target: &str, fields: &[(&str, &str)]) -> u32 {
    let fields = [&[("content-type", "application/grpc"), ("te", "trailers")][..], fields].concat();
    client.post(target, &fields)
}

/// A unary call; its status and the content of its message.
fn unary(client: &mut Http2Client, target: &str, fields: &[(&str, &str)]) -> (String, Vec<u8>) {
    let stream = call(client, target, fields);
    client.data(stream, message(b"question"), true);
    let response = client.response(stream);
    assert_eq!(response.status, 200, "{response:?}");
    let in_head = response.field("grpc-status").map(str::to_owned);
    let trailers = response.trailers.as_ref();
    let status = in_head.or_else(|| trailers.and_then(|fields| fields.one("grpc-status").map(str::to_owned)));
    (status.expect("a call has a status"), response.body)
}

const HEAD: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc")];

fn trailers_only(
    server: &mut Http2Server<'_>,
    stream: u32,
    status: &str,
    more: &[(&str, &str)],
) -> Option<()> {
    server.send_head(stream, &[&HEAD[..], &[("grpc-status", status)], more].concat(), true)
}

/// Answers with a message and this status.
fn answer(server: &mut Http2Server<'_>, asked: &Asked, content: &[u8], status: &str) -> Option<()> {
    server.send_head(asked.stream, &HEAD, false)?;
    server.send_data(asked.stream, &message(content), false)?;
    server.send_head(asked.stream, &[("grpc-status", status), ("grpc-message", "so it is")], true)
}

/// Answers each call as `answer` says.
pub(super) fn origin(
    answer: impl Fn(&mut Http2Server<'_>, &Asked) -> Option<()> + Send + Sync + 'static,
) -> Origin {
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            answer(&mut server, &asked)?;
        }
    })
}

#[test]
fn the_status_of_a_call_is_in_its_trailers_the_log_and_the_metrics() {
    let origin = origin(|server, asked| {
        assert_eq!(asked.body, message(b"question"));
        let status = asked.path().trim_start_matches('/').to_owned();
        answer(server, asked, b"answer", &status)
    });
    let weir = start_one(&origin, "");
    let mut client = Http2Client::connect(weir.web());
    for status in ["0", "5", "14", "99"] {
        let expected = (status.to_owned(), message(b"answer"));
        assert_eq!(unary(&mut client, &format!("/{status}"), &[]), expected);
    }
    assert_eq!(weir.access_log(4)[1], "/5 200 not-found -");
    let metrics = weir.metrics();
    for (name, count) in [("ok", 1.0), ("not-found", 1.0), ("unavailable", 1.0), ("unknown", 1.0)] {
        let label = format!("status=\"{name}\"");
        assert_eq!(metrics.sum("weir_upstream_grpc_calls_total", &[&label]), count, "{name}");
    }
}

#[test]
fn a_deadline_bounds_a_call() {
    let hanging = origin(|server, _| server.read_frame());
    let weir = start_one(&hanging, "");
    let mut client = Http2Client::connect(weir.web());
    let (status, body) = unary(&mut client, "/slow", &[("grpc-timeout", "200m")]);
    assert_eq!((status.as_str(), body), ("4", Vec::new()), "DEADLINE_EXCEEDED");
    assert_eq!(weir.access_log(1)[0], "/slow 200 deadline-exceeded exchange-timeout");
}

/// The server learns how much time is left, not how much there was.
#[test]
fn a_server_gets_the_time_that_is_left() {
    let origin = origin(|server, asked| {
        let micros = asked.field("grpc-timeout").and_then(|value| value.strip_suffix('u')).map(str::to_owned);
        answer(server, asked, micros.unwrap_or_default().as_bytes(), "0")
    });
    let weir = start_one(&origin, "");
    let mut client = Http2Client::connect(weir.web());
    let (_, body) = unary(&mut client, "/", &[("grpc-timeout", "20S")]);
    let left: u64 = String::from_utf8_lossy(&body[5..]).parse().expect("microseconds");
    assert!((1..20_000_000).contains(&left), "{left}");
    assert_eq!(unary(&mut client, "/", &[("grpc-timeout", "never")]).1, message(b""), "it passes as it is");
}

#[test]
fn failures_of_weir_are_statuses_of_grpc() {
    let weir = start(&[format!("\"{CLOSED_PORT}\"")], "retry.attempts_max = 1");
    let mut client = Http2Client::connect(weir.web());
    let stream = call(&mut client, "/a.B/C", &[]);
    client.data(stream, message(b"question"), true);
    let response = client.response(stream);
    assert_eq!((response.status, response.reason()), (200, Some("connect-refused")));
    assert_eq!(response.field("content-type"), Some("application/grpc"));
    assert_eq!(response.field("grpc-status"), Some("14"));
    let message = response.field("grpc-message").unwrap_or_default();
    assert!(message.contains("cannot be reached"), "{message}");
    assert!(response.body.is_empty() && response.trailers.is_none());
    // Another request gets a page, as ever.
    assert_eq!(client.fetch("/page").status, 502);
}

#[test]
fn a_listed_status_goes_again() {
    let count = AtomicUsize::new(0);
    let origin = origin(move |server, asked| match count.fetch_add(1, Ordering::SeqCst) % 2 {
        0 => trailers_only(server, asked.stream, "14", &[]),
        _ => answer(server, asked, b"answer", "0"),
    });
    let weir = start_one(&origin, "retry.on_grpc_status = [\"unavailable\"]");
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..5 {
        assert_eq!(unary(&mut client, "/", &[]), ("0".to_owned(), message(b"answer")));
    }
    assert_eq!(weir.metrics().sum("weir_upstream_retries_total", &["cause=\"grpc-status\""]), 5.0);
}

#[test]
fn a_status_that_is_not_listed_or_comes_behind_a_message_does_not() {
    let origin = origin(|server, asked| match asked.path() {
        "/behind" => answer(server, asked, b"answer", "14"),
        _ => trailers_only(server, asked.stream, "13", &[]),
    });
    let weir = start_one(&origin, "retry.on_grpc_status = [\"unavailable\"]\nejection = \"off\"");
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(unary(&mut client, "/behind", &[]).0, "14");
    assert_eq!(unary(&mut client, "/other", &[]).0, "13");
    assert_eq!(weir.metrics().sum("weir_upstream_retries_total", &[]), 0.0);
}

#[test]
fn a_server_may_hold_calls_back() {
    let count = AtomicUsize::new(0);
    let origin = origin(move |server, asked| match (asked.path(), count.fetch_add(1, Ordering::SeqCst)) {
        ("/never", _) => trailers_only(server, asked.stream, "14", &[("grpc-retry-pushback-ms", "-1")]),
        ("/later", 0) => trailers_only(server, asked.stream, "14", &[("grpc-retry-pushback-ms", "300")]),
        _ => answer(server, asked, b"answer", "0"),
    });
    let weir = start_one(&origin, "retry.on_grpc_status = [\"unavailable\"]");
    let mut client = Http2Client::connect(weir.web());
    let began = now();
    assert_eq!(unary(&mut client, "/later", &[]).0, "0");
    assert!(began.elapsed() >= Duration::from_millis(300), "it has waited");
    assert_eq!(unary(&mut client, "/never", &[]).0, "14");
    assert_eq!(weir.metrics().sum("weir_upstream_retries_total", &[]), 1.0);
}

#[test]
fn a_server_is_ejected_by_the_statuses_of_its_calls() {
    let ill = origin(|server, asked| answer(server, asked, b"answer", "14"));
    let well = origin(|server, asked| answer(server, asked, b"answer", "0"));
    let keys = "balance = \"round-robin\"\nejection = { consecutive_failures = 3, servers_max = \"100%\" }";
    let weir = start(&[ill.named("ill"), well.named("well")], keys);
    let mut client = Http2Client::connect(weir.web());
    eventually("the one server is ejected", || {
        unary(&mut client, "/", &[]);
        weir.metrics().sum("weir_server_ejected", &["server=\"ill\""]) == 1.0
    });
    for _ in 0..5 {
        assert_eq!(unary(&mut client, "/", &[]).0, "0");
    }
}

#[test]
fn calls_of_one_connection_are_balanced() {
    let named = |name: &'static str| origin(move |server, asked| answer(server, asked, name.as_bytes(), "0"));
    let (first, second) = (named("first"), named("second"));
    let weir = start(&[first.named("a"), second.named("b")], "balance = \"round-robin\"");
    let mut client = Http2Client::connect(weir.web());
    let answers: Vec<_> = (0..6).map(|_| unary(&mut client, "/", &[]).1).collect();
    assert_eq!(answers.iter().filter(|answer| **answer == message(b"first")).count(), 3);
}

/// Both directions at once, silent for longer than a response may be, and ended by either side first.
#[test]
fn a_stream_lasts_as_long_as_both_want() {
    let silence = Gate::new();
    let gate = silence.clone();
    let origin = Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.head()?;
            server.send_head(asked.stream, &HEAD, false)?;
            for number in 1..=3 {
                let len = number * message(b"ping").len();
                server.body(asked.stream, len)?;
                if number == 2 && asked.path() == "/silent" {
                    gate.wait("the silence is over");
                }
                server.send_data(asked.stream, &message(b"pong"), false)?;
            }
            if asked.path() != "/server-first" {
                while !server.streams[&asked.stream].has_ended {
                    server.read_frame()?;
                }
            }
            server.send_head(asked.stream, &[("grpc-status", "0")], true)?;
        }
    });
    let keys = "timeouts = { relay = \"300ms\", response = \"300ms\", send = \"300ms\" }";
    let weir = start_one(&origin, keys);
    let mut client = Http2Client::connect(weir.web());
    for target in ["/client-first", "/silent", "/server-first"] {
        let stream = call(&mut client, target, &[]);
        for number in 1..=3 {
            client.data(stream, message(b"ping"), false);
            if number == 2 && target == "/silent" {
                let began = now();
                eventually("a while has passed", || began.elapsed() > Duration::from_millis(900));
                silence.open();
            }
            client.body(stream, number * message(b"pong").len());
        }
        if target != "/server-first" {
            client.data(stream, "", true);
        }
        let response = client.response(stream);
        let status = response.trailers.as_ref().and_then(|fields| fields.one("grpc-status"));
        assert_eq!((response.status, status), (200, Some("0")), "{target}: {response:?}");
    }
    eventually("all are counted", || {
        weir.metrics().sum("weir_upstream_grpc_calls_total", &["status=\"ok\""]) == 3.0
    });
}
