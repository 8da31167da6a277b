//! Rows 35 to 37: hop-by-hop fields of a client stop at Weir, and no others do.

use crate::harness::{Client, Origin, Request, Response, Weir};

/// Plays `requests` in order on one Weir; returns each with what the origin received and what the client got.
fn play(requests: &[&str]) -> Vec<(Request, Response)> {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying(&origin);
    let play = |request: &&str| {
        let response = Client::exchange(weir.web(), request);
        (origin.last_request(), response)
    };
    requests.iter().map(play).collect()
}

/// Row 35.
#[test]
fn keeps_essential_fields_that_connection_names() {
    let played = play(&[
        "POST /35 HTTP/1.1\r\nHost: a.test\r\nAuthorization: Basic eDp5\r\nCookie: a=b\r\nX-Forwarded-For: 6.6.6.6\r\n\
         X-Hop: 1\r\nConnection: close, X-Forwarded-For, Host, Authorization, Content-Length, Cookie, X-Hop\r\n\
         Content-Length: 5\r\n\r\nhello",
        "POST /35-chunked HTTP/1.1\r\nHost: a.test\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n\r\n",
        "GET /35-odd HTTP/1.1\r\nHost: a.test\r\nConnection: , ,x-one ,\r\nX-ONE: 1\r\nConnection: x-two\r\nX-Two: 2\r\n\
         X-Three: 3\r\n\r\n",
    ]);

    let (request, response) = &played[0];
    assert_eq!(response.status, 200);
    assert!(response.closes(), "the client asked for a close: {response:?}");
    assert_eq!(request.field("host"), Some("a.test"), "Host stays: {request:?}");
    assert_eq!(request.field("authorization"), Some("Basic eDp5"), "Authorization stays: {request:?}");
    assert_eq!(request.field("content-length"), Some("5"), "the framing stays: {request:?}");
    assert_eq!(request.field("cookie"), Some("a=b"), "Cookie stays: {request:?}");
    assert_eq!(request.text(), "hello");
    assert_eq!(request.field("x-hop"), None, "an ordinary field that Connection names goes: {request:?}");
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"), "Weir's own stands: {request:?}");
    assert_no_option(
        request,
        &["x-forwarded-for", "host", "authorization", "content-length", "cookie", "x-hop"],
    );

    let (request, _) = &played[1];
    assert_eq!((request.field("transfer-encoding"), request.text()), (Some("chunked"), "hello".to_owned()));

    let (request, _) = &played[2];
    let kept = [request.field("x-one"), request.field("x-two"), request.field("x-three")];
    assert_eq!(kept, [None, None, Some("3")], "{request:?}");
}

/// Row 36.
#[test]
fn removes_hop_by_hop_fields() {
    let played = play(&[
        "GET /36 HTTP/1.1\r\nHost: a.test\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n\
         TE: gzip, trailers\r\nTrailer: X-Sum\r\nUpgrade: chat/2\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\
         Connection: keep-alive, TE, Upgrade, HTTP2-Settings\r\n\r\n",
        "GET /36-unnamed HTTP/1.1\r\nHost: a.test\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\n\
         TE: gzip\r\nUpgrade: websocket\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    ]);
    for (request, response) in &played {
        assert_eq!(response.status, 200, "{response:?}");
        for name in ["keep-alive", "proxy-connection", "http2-settings"] {
            assert_eq!(request.fields().all(name), Vec::<&str>::new(), "{name} must go: {request:?}");
        }
        assert!(
            request.fields().all("te").iter().all(|te| *te == "trailers"),
            "TE holds trailers alone: {request:?}"
        );
        assert_no_option(request, &["http2-settings", "proxy-connection"]);
    }
    assert_eq!(played[0].0.field("te"), Some("trailers"), "the client takes trailers: {:?}", played[0].0);
    assert_eq!(played[1].0.field("te"), None, "no trailers in the list: {:?}", played[1].0);
    let unnamed = &played[1].0;
    assert_eq!(
        unnamed.field("upgrade"),
        None,
        "Connection does not name Upgrade, so there is none: {unnamed:?}"
    );
}

/// Row 37.
#[test]
fn never_upgrades_to_h2c() {
    let played = play(&[
        "GET /37 HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
        "GET /37-alone HTTP/1.1\r\nHost: a.test\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        "GET /37-case HTTP/1.1\r\nHost: a.test\r\nUpgrade: H2C\r\nConnection: upgrade\r\n\r\n",
        "GET /37-list HTTP/1.1\r\nHost: a.test\r\nUpgrade: h2c, h2\r\nConnection: upgrade\r\n\r\n",
    ]);
    for (request, response) in &played {
        assert_eq!(response.status, 200, "answered over HTTP/1.1: {response:?}");
        assert_eq!(request.fields().all("upgrade"), Vec::<&str>::new(), "{request:?}");
        assert_eq!(request.fields().all("http2-settings"), Vec::<&str>::new(), "{request:?}");
        assert_no_option(request, &["upgrade", "http2-settings"]);
    }
}

fn assert_no_option(request: &Request, options: &[&str]) {
    for option in options {
        assert!(!request.fields().lists("connection", option), "`Connection: {option}` must go: {request:?}");
    }
}
