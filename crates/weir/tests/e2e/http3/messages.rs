//! Requests and responses over HTTP/3 (RFC 9114 section 4).

use super::start;
use crate::harness::http3::Http3Client;
use crate::harness::scripts::{echo, measuring};
use crate::harness::{Gate, Origin};

#[test]
fn a_request_is_served() {
    let origin = echo();
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let response = client.get("/one?q");
    assert_eq!((response.status, response.text()), (200, "/one?q".to_owned()));
    assert_eq!(origin.targets(), ["/one?q"]);
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_http3_connections_total", &[]), 1.0);
    assert_eq!(metrics.sum("weir_listener_http3_connections_open", &[]), 1.0);
}

#[test]
fn many_requests_share_a_connection() {
    let origin = echo();
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    for round in 0..3 {
        let paths: Vec<String> = (0..100).map(|number| format!("/{round}/{number}")).collect();
        let pending: Vec<_> = paths.iter().map(|path| client.send("GET", path, b"")).collect();
        for (path, pending) in paths.iter().zip(pending) {
            assert_eq!(client.response(pending).text(), *path);
        }
    }
    assert_eq!(weir.metrics().sum("weir_listener_http3_connections_total", &[]), 1.0);
}

#[test]
fn large_bodies_pass_both_ways() {
    let origin = measuring();
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let body: Vec<u8> = (0..3_000_000u32).map(|at| (at % 251) as u8).collect();
    let pending = client.send("POST", "/", &body);
    let response = client.response(pending);
    assert_eq!((response.status, response.text()), (200, body.len().to_string()));
}

/// The end of the stream comes alone, when everything before it is relayed.
#[test]
fn the_end_of_a_body_may_come_late() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |conn| {
        conn.head()?;
        let (mut received, mut buf) = (String::new(), [0; 256]);
        while !received.ends_with("0\r\n\r\n") {
            let len = conn.skim(&mut buf)?;
            received += &String::from_utf8_lossy(&buf[..len]);
            if received.contains("abc") {
                opened.open();
            }
        }
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nsent")
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let body = format!("{}abc", "x".repeat(600));
    let request = http::Request::builder().method("POST").uri("https://a.test/");
    let pending = client.send_until(request, body.as_bytes(), Some(gate));
    assert_eq!(client.response(pending).text(), "sent");
    assert_eq!(weir.metrics().sum("weir_worker_panics_total", &[]), 0.0);
}

#[test]
fn trailers_of_a_server_pass() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n")?;
            conn.send("3\r\nabc\r\n0\r\nx-sum: 6\r\n\r\n")?;
        }
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let request = http::Request::builder().uri("https://a.test/").header("te", "trailers");
    let pending = client.send_with(request, b"");
    let response = client.response(pending);
    assert_eq!(response.text(), "abc");
    assert_eq!(response.trailers, [("x-sum".to_owned(), "6".to_owned())]);
}

/// The client knows how large a head may be, and sends none that is larger; how many fields it may have it does not know.
#[test]
fn a_head_with_too_many_fields_is_refused() {
    let origin = echo();
    let (authority, weir) = start(&origin, "listener.web.limits.headers = 10\n");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let request = http::Request::builder().uri("https://a.test/");
    let request = (0..20).fold(request, |request, number| request.header(format!("x-{number}"), "a"));
    let pending = client.send_with(request, b"");
    assert_eq!(client.response(pending).status, 431);
    assert_eq!(client.get("/next").text(), "/next");
}

#[test]
fn every_response_over_tcp_says_where_http3_is() {
    let origin = echo();
    let (authority, weir) = start(&origin, "");
    let mut client = authority.connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test:8443\r\n\r\n");
    let response = client.response();
    assert_eq!(response.field("alt-svc"), Some("h3=\":8443\"; ma=86400"));
}

#[test]
fn the_access_log_names_the_version() {
    let origin = echo();
    let (authority, weir) =
        start(&origin, "access_log = { format = 'common', output = \"file:{dir}/access.log\" }\n");
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/logged").status, 200);
    let line = &weir.access_log(1)[0];
    assert!(line.contains("\"GET /logged HTTP/3.0\" 200"), "{line}");
}

#[test]
fn the_access_log_has_the_round_trip_time() {
    let origin = echo();
    let (authority, weir) = start(
        &origin,
        "access_log = { format = '{version} {quic.rtt} {tls.early_data}.', output = \"file:{dir}/access.log\" }\n",
    );
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/logged").status, 200);
    let line = weir.access_log(1)[0].clone();
    let seconds =
        line.strip_prefix("HTTP/3.0 ").and_then(|rest| rest.strip_suffix(" -.")).map(str::parse::<f64>);
    assert!(matches!(seconds, Some(Ok(seconds)) if seconds > 0.0 && seconds < 10.0), "{line}");
}
