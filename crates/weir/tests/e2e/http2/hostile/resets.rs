//! Streams that are opened and given up, by the client (CVE-2023-44487) or by Weir, which the client makes do so (CVE-2025-8671).

use super::{OnStream, Site};
use crate::harness::http2::frame::{self, CANCEL, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM};
use crate::harness::http2::start;
use crate::harness::{Http2Client, Origin};

/// Requests of a flood that may reach a server: as many resets as there may be at once, and those of a few seconds.
const REACHED_MAX: usize = 300;

#[test]
fn rapid_reset() {
    let site = Site::with(
        "access_log = { format = '{target} {status} {reason}', output = \"file:{dir}/access.log\" }",
    );
    site.assert_cut_off("resets", ENHANCE_YOUR_CALM, "http2-too-many-resets", |client| {
        let mut bytes = Vec::new();
        for _ in 0..20_000 {
            let (stream, opening) = client.opening(&client.request("GET", "/reset"), true);
            bytes.extend(opening);
            bytes.extend(frame::reset(stream, CANCEL));
        }
        bytes
    });
    let reached = site.origin.connections();
    assert!(reached <= REACHED_MAX, "{reached} requests reached the server");
    let metrics = site.weir.metrics();
    let [reset, refused] = ["weir_listener_streams_reset_total", "weir_listener_streams_refused_total"]
        .map(|name| metrics.sum(name, &[]));
    assert!(reset + refused >= 200.0, "{reset} reset, {refused} refused");
    assert_eq!(metrics.sum("weir_listener_http2_goaways_total", &[]), 1.0);
    let log = site.weir.access_log(4);
    assert!(log.iter().any(|line| line == "- 400 http2-too-many-resets"), "{log:?}");
}

/// Streams that are reset one after the other, each when its request has reached the server, draw from the same budget.
#[test]
fn resets_that_come_late() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin);
    let mut attacker = Http2Client::connect(weir.web());
    let mut sent = 0;
    loop {
        let stream = attacker.get("/reset");
        if attacker.try_settle().is_err()
            || attacker.send_what_is_taken(frame::reset(stream, CANCEL)).is_err()
        {
            break;
        }
        sent += 1;
        assert!(sent < 1_000, "Weir does not end it");
    }
    assert!(sent >= 200, "{sent} resets are allowed");
    assert_eq!(attacker.end_code(), ENHANCE_YOUR_CALM);
    let metrics = weir.metrics();
    assert!(metrics.sum("weir_listener_failures_total", &["reason=\"http2-too-many-resets\""]) >= 1.0);
}

/// A client that gives up now and then is none that means harm.
#[test]
fn some_resets_are_allowed() {
    let site = Site::new();
    let mut client = site.client();
    for _ in 0..100 {
        let stream = client.get("/reset");
        client.reset(stream, CANCEL);
    }
    assert_eq!(client.fetch("/fine").text(), "/fine");
    assert_eq!(client.goaways, []);
}

/// Opens streams with `opening` and makes Weir reset each.
fn made(
    client: &mut Http2Client,
    has_body: bool,
    fields: &[(&str, &str)],
    fault: impl Fn(u32) -> Vec<u8>,
) -> Vec<u8> {
    let method = if has_body { "POST" } else { "GET" };
    let mut bytes = Vec::new();
    for _ in 0..2_000 {
        let request = [&client.request(method, "/made")[..], fields].concat();
        let (stream, opening) = client.opening(&request, !has_body);
        bytes.extend(opening);
        bytes.extend(fault(stream));
    }
    bytes
}

#[test]
fn resets_that_weir_is_made_to_send() {
    let site = Site::new();
    type Fields<'a> = &'a [(&'a str, &'a str)];
    let rows: [(&str, bool, Fields<'_>, OnStream); 5] = [
        ("a window opened by nothing", false, &[], |stream| frame::window_update(stream, 0)),
        ("a window opened too far", false, &[], |stream| frame::window_update(stream, (1 << 31) - 1)),
        ("DATA behind the end", false, &[], |stream| frame::frame(frame::DATA, END_STREAM, stream, b"x")),
        ("DATA beyond the length", true, &[("content-length", "1")], |stream| {
            frame::frame(frame::DATA, 0, stream, b"xx")
        }),
        ("a body that is too short", true, &[("content-length", "2")], |stream| {
            frame::frame(frame::DATA, END_STREAM, stream, b"x")
        }),
    ];
    for (what, has_body, fields, fault) in rows {
        let before = site.origin.connections();
        site.assert_cut_off(what, ENHANCE_YOUR_CALM, "http2-too-many-faults", |client| {
            made(client, has_body, fields, fault)
        });
        let reached = site.origin.connections() - before;
        assert!(reached <= REACHED_MAX, "{what}: {reached} requests reached the server");
    }
    let by_weir = site.weir.metrics().sum("weir_listener_streams_reset_by_weir_total", &[]);
    assert!(by_weir >= 5.0 * 200.0, "{by_weir}");
}

/// Each is answered before its stream is reset: those that come meanwhile are refused.
#[test]
fn malformed_requests() {
    let site = Site::new();
    site.assert_cut_off("malformed requests", ENHANCE_YOUR_CALM, "http2-too-many-resets", |client| {
        made(client, false, &[("connection", "close")], |_| Vec::new())
    });
    assert_eq!(site.origin.connections(), 1, "none but those of the other client");
}

#[test]
fn trailers_that_do_not_end_their_stream() {
    let site = Site::new();
    site.assert_cut_off("trailers", ENHANCE_YOUR_CALM, "http2-too-many-faults", |client| {
        let mut bytes = Vec::new();
        for _ in 0..2_000 {
            let (stream, opening) = client.opening(&client.request("POST", "/made"), false);
            bytes.extend(opening);
            let block = client.block(&[("x-a", "1")]);
            bytes.extend(frame::frame(frame::HEADERS, END_HEADERS, stream, &block));
        }
        bytes
    });
}

#[test]
fn streams_beyond_the_limit() {
    let site = Site::with("listener.web.http2.streams_max = 1");
    site.assert_cut_off("refused streams", ENHANCE_YOUR_CALM, "http2-too-many-resets", |client| {
        let mut bytes = Vec::new();
        // The first has no end, so it stays open.
        bytes.extend(client.opening(&client.request("POST", "/stays"), false).1);
        for _ in 0..2_000 {
            bytes.extend(client.opening(&client.request("GET", "/refused"), true).1);
        }
        bytes
    });
    assert!(!site.origin.targets().contains(&"/refused".to_owned()));
    assert!(site.weir.metrics().sum("weir_listener_streams_refused_total", &[]) >= 199.0);
}
