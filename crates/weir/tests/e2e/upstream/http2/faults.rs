//! Servers that break the protocol, die or fall silent: what ends, and what does not.

use std::sync::{Arc, Mutex};

use super::{config_of_servers, start};
use crate::harness::http2::frame;
use crate::harness::http2::server::{Http2Server, http2_origin};
use crate::harness::{Client, Http2Client, Origin, ReservedAddress, Weir};

#[test]
fn a_response_that_breaks_a_rule_ends_its_stream_only() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            match asked.path() {
                "/no-status" => server.send_head(asked.stream, &[("x-a", "b")], true)?,
                "/upper" => server.send_head(asked.stream, &[(":status", "200"), ("X-A", "b")], true)?,
                "/connection" => {
                    server.send_head(asked.stream, &[(":status", "200"), ("connection", "close")], true)?;
                }
                "/data-first" => server.send_data(asked.stream, b"data", true)?,
                "/newline" => server.send_head(asked.stream, &[(":status", "200"), ("x-a", "b\nc")], true)?,
                "/switching" => server.send_head(asked.stream, &[(":status", "101")], false)?,
                _ => server.respond(asked.stream, "200", b"fine")?,
            }
        }
    });
    let weir = start(&origin, "retry.attempts_max = 1\nejection = \"off\"");
    for (target, reason) in [
        ("/no-status", "response-missing-pseudo-field"),
        ("/upper", "response-upper-case-field-name"),
        ("/connection", "response-connection-field"),
        ("/data-first", "response-http2-data-before-head"),
        ("/newline", "response-bare-lf"),
        ("/switching", "response-switching-protocols"),
    ] {
        let response = Client::get(weir.web(), target);
        assert_eq!((response.status, response.reason()), (502, Some(reason)), "{target}");
        assert_eq!(Client::get(weir.web(), "/").text(), "fine", "{target}");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_connection_that_breaks_a_rule_fails_its_own_streams_only() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            if asked.path() == "/break" {
                server.conn.send(frame::frame(frame::PUSH_PROMISE, 4, asked.stream, &[0, 0, 0, 2]))?;
                server.read_to_end();
                assert_eq!(server.goaway, Some(1), "PROTOCOL_ERROR");
                return Some(());
            }
            server.respond(asked.stream, "200", b"fine")?;
        }
    });
    let weir = start(&origin, "retry.attempts_max = 1");
    let response = Client::get(weir.web(), "/break");
    assert_eq!((response.status, response.reason()), (502, Some("response-http2-push-refused")));
    assert_eq!(Client::get(weir.web(), "/").text(), "fine");
    assert_eq!(origin.connections(), 2);
}

#[test]
fn a_server_that_closes_in_the_middle_is_told_by_how_far_it_came() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.request()?;
        if asked.path() == "/body" {
            server.send_head(asked.stream, &[(":status", "200"), ("content-length", "10")], false)?;
            server.send_data(asked.stream, b"begin", false)?;
        }
        Some(())
    });
    let weir = start(&origin, "retry.attempts_max = 1");
    let response = Client::get(weir.web(), "/head");
    assert_eq!((response.status, response.reason()), (502, Some("response-closed")));
    let mut client = Client::connect(weir.web());
    client.send_get("/body");
    let (bytes, _) = client.take_to_end();
    assert!(bytes.ends_with(b"begin"), "what there was has come");
}

#[test]
fn a_stale_connection_costs_no_request_that_may_be_repeated() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.request()?;
        server.respond(asked.stream, "200", b"fine")?;
        // The second request on a connection meets its end.
        server.request()?;
        Some(())
    });
    let weir = start(&origin, "retry.budget = \"0%\"\nretry.budget_per_second = 0");
    for _ in 0..6 {
        assert_eq!(Client::get(weir.web(), "/").text(), "fine");
    }
    assert!(weir.metrics().sum("weir_server_stale_reuses_total", &[]) >= 2.0);
}

/// Answers, but resets the streams of requests for `/reset` (RFC 9113 section 7, INTERNAL_ERROR); and the targets that it was asked for.
fn resetting(body: &'static [u8], resets: bool) -> (Origin, Arc<Mutex<Vec<String>>>) {
    let asked_for = Arc::new(Mutex::new(Vec::new()));
    let known = Arc::clone(&asked_for);
    let origin = Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            known.lock().expect("nothing panics with it").push(asked.path().to_owned());
            match resets && asked.path().starts_with("/reset") {
                true => server.reset(asked.stream, 2)?,
                false => server.respond(asked.stream, "200", body)?,
            }
        }
    });
    (origin, asked_for)
}

#[test]
fn a_stream_that_is_reset_is_an_answer_of_its_server() {
    let (origin, asked_for) = resetting(b"fine", true);
    // The connection has carried requests before, and two attempts would be allowed: not within this budget.
    let weir = start(&origin, "ejection = \"off\"\nretry.budget = \"0%\"\nretry.budget_per_second = 0");
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..10 {
        assert_eq!(Client::get(weir.web(), "/").text(), "fine");
        let response = Client::get(weir.web(), "/reset");
        assert_eq!((response.status, response.reason()), (502, Some("response-reset")));
        let response = client.fetch_by_post("/reset", b"body");
        assert_eq!((response.status, response.reason()), (502, Some("response-reset")));
    }
    assert_eq!(asked_for.lock().expect("nothing panics with it").len(), 30, "each was sent once");
    assert_eq!(origin.connections(), 1, "the connection is as good as before");
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_server_stale_reuses_total", &[]), 0.0);
    let refused = metrics.sum("weir_upstream_retries_refused_total", &["reason=\"budget-exhausted\""]);
    assert_eq!(refused, 10.0);
}

#[test]
fn a_request_whose_stream_is_reset_goes_to_another_server() {
    let (failing, asked_for) = resetting(b"first", true);
    let (other, _) = resetting(b"other", false);
    let keys = "ejection = \"off\"\nretry.budget_per_second = 1000";
    let weir = Weir::start(&config_of_servers(&[failing.named("a"), other.named("b")], keys));
    for _ in 0..10 {
        Client::get(weir.web(), "/");
    }
    for number in 0..20 {
        let response = Client::get(weir.web(), &format!("/reset/{number}"));
        assert_eq!((response.status, response.text().as_str()), (200, "other"));
    }
    let asked_for = asked_for.lock().expect("nothing panics with it");
    let mut resets: Vec<_> = asked_for.iter().filter(|path| path.starts_with("/reset")).collect();
    assert!(!resets.is_empty(), "it was asked for some");
    let count = resets.len();
    resets.sort();
    resets.dedup();
    assert_eq!(resets.len(), count, "never twice for the same: {resets:?}");
    let retries = weir.metrics().sum("weir_upstream_retries_total", &["cause=\"connection-error\""]);
    assert_eq!(retries, count as f64, "each of them is an attempt");
}

#[test]
fn a_silent_server_is_found_by_a_ping() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        server.answers = server.conn.index > 0;
        let asked = server.request()?;
        if server.conn.index > 0 {
            // Longer than the silence that is borne.
            while server.pings < 2 {
                server.read_frame()?;
            }
            server.respond(asked.stream, "200", b"late, but alive")?;
        }
        server.read_to_end();
        Some(())
    });
    let weir = start(&origin, "http2 = { ping_interval = \"200ms\", ping_timeout = \"2s\" }");
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.text()), (200, "late, but alive".to_owned()));
    assert_eq!(origin.connections(), 2, "the first is dead, and the request went again");
    let hanging = origin_that_hangs();
    let dead = start(
        &hanging,
        "retry.attempts_max = 1\nhttp2 = { ping_interval = \"100ms\", ping_timeout = \"100ms\" }",
    );
    let response = Client::get(dead.web(), "/");
    assert_eq!((response.status, response.reason()), (504, Some("server-ping-timeout")));
}

fn origin_that_hangs() -> Origin {
    Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        server.answers = false;
        server.read_to_end();
        Some(())
    })
}

#[test]
fn a_server_of_http1_is_found_before_anything_is_sent() {
    let origin = Origin::start(|conn| {
        conn.take(24)?;
        conn.send("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin, "");
    let response =
        Client::exchange(weir.web(), "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((response.status, response.reason()), (502, Some("connect-not-http2")));
}

#[test]
fn a_server_that_refuses_connections_is_told_to_all_that_wait() {
    let address = ReservedAddress::new();
    let server = format!("{{ name = \"a\", address = \"{}\" }}", address.address());
    let weir = crate::harness::Weir::start(&super::config_of_servers(&[server], "retry.attempts_max = 1"));
    let mut client = Http2Client::connect(weir.web());
    let streams: Vec<u32> = (0..20).map(|_| client.get("/")).collect();
    for stream in streams {
        let response = client.response(stream);
        assert_eq!((response.status, response.reason()), (502, Some("connect-refused")));
    }
}

#[test]
fn floods_of_a_server_end_its_connection() {
    let origin = http2_flood();
    let weir = start(&origin, "retry.attempts_max = 1");
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.reason()), (502, Some("response-http2-ping-flood")));
    let healthy = http2_origin(|_| ("200", b"fine".to_vec()));
    let weir = start(&healthy, "");
    assert_eq!(Client::get(weir.web(), "/").text(), "fine");
}

fn http2_flood() -> Origin {
    Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        server.request()?;
        let pings: Vec<u8> = (0..5_000).flat_map(|_| frame::frame(frame::PING, 0, 0, &[0; 8])).collect();
        server.conn.send(pings)?;
        server.read_to_end();
        Some(())
    })
}
