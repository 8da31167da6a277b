//! DATA that the head of its request does not allow (RFC 9113 section 8.1.1): behind `content-length: 0`, none of it may reach a server, where it
//! would be a request of its own on a connection that other clients share. Forms that are legal pass.

use crate::harness::http2::frame::{self, NO_ERROR, PADDED, PROTOCOL_ERROR};
use crate::harness::http2::server::http2_echo;
use crate::harness::http2::start_with;
use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Weir};

/// What an attacker wants a server to take for a request of the next client.
const SMUGGLED: &[u8] = b"POST /admin/steal HTTP/1.1\r\nHost: a.test\r\nContent-Length: 500\r\n\r\n";

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"];

/// Routes by which a request may go: as it comes, taken in whole before, and with a cache.
const ROUTES: &str = "cache.pages.memory = \"1MiB\"\ncache.pages.response_max = \"64KiB\"\n\
    listener.web.route = [\n\
      { path = \"/\", upstream = \"app\" },\n\
      { path = \"/buffered\", upstream = \"app\", buffer_requests = { memory = \"64KiB\" } },\n\
      { path = \"/cached\", upstream = \"app\", cache = { name = \"pages\" } },\n\
    ]\n";

const PATHS: [&str; 3] = ["/plain", "/buffered", "/cached"];

/// Frames that follow the head: what is sent, in how many pieces, and whether something ends the stream behind it.
type Attack = fn(&mut Http2Client, u32);

const ATTACKS: [(&str, Attack); 6] = [
    ("open", |client, stream| client.data(stream, SMUGGLED, false)),
    ("ended", |client, stream| client.data(stream, SMUGGLED, true)),
    ("one byte", |client, stream| client.data(stream, "P", true)),
    ("behind an empty frame", |client, stream| {
        client.data(stream, "", false);
        client.data(stream, SMUGGLED, true);
    }),
    ("padded", |client, stream| {
        let payload = [&[7][..], SMUGGLED, &[0; 7]].concat();
        client.send(frame::frame(frame::DATA, PADDED | frame::END_STREAM, stream, &payload));
    }),
    ("with trailers", |client, stream| {
        client.data(stream, SMUGGLED, false);
        client.trailers(stream, &[("x-a", "1")]);
    }),
];

/// Panics unless a client that shares the connection to the server gets its own response, and the server none but the requests that were meant.
fn assert_untouched(weir: &Weir, origin: &Origin, what: &str) {
    for number in 0..2 {
        let target = format!("/bystander/{number}");
        let response = Client::get(weir.web(), &target);
        assert_eq!(response.status, 200, "{what}: {response:?}");
        assert!(response.text().contains(&target), "{what}: the response of another: {response:?}");
    }
    let targets = origin.targets();
    assert!(!targets.iter().any(|target| target.contains("steal")), "{what}: {targets:?}");
}

#[test]
fn nothing_behind_a_length_of_zero_reaches_a_server_of_http1() {
    let origin = echo();
    let weir = start_with(&origin, ROUTES);
    for method in METHODS {
        for path in PATHS {
            for (what, attack) in ATTACKS {
                for expects in [false, true] {
                    let mut client = Http2Client::connect(weir.web());
                    let mut head = client.request(method, path);
                    head.push(("content-length", "0"));
                    if expects {
                        head.push(("expect", "100-continue"));
                    }
                    let stream = client.open(&head, false);
                    attack(&mut client, stream);
                    let what = format!("{method} {path} {what}, expects: {expects}");
                    let response = client.outcome(stream);
                    // The response to what was a whole request may be complete before the bytes arrive.
                    let was_complete = response.has_ended && matches!(response.reset, None | Some(NO_ERROR));
                    assert!(was_complete || response.reset == Some(PROTOCOL_ERROR), "{what}: {response:?}");
                    assert!(!response.text().contains("steal"), "{what}");
                    assert_eq!(client.fetch("/fine").text(), "/fine", "{what}: the connection goes on");
                }
            }
            assert_untouched(&weir, &origin, path);
        }
    }
    assert!(origin.requests().iter().all(|request| request.body.bytes.is_empty()), "no body was meant");
}

/// The server has the request, and Weir its response, when the bytes come.
#[test]
fn nothing_behind_a_length_of_zero_that_comes_late() {
    let origin = echo();
    let weir = start_with(&origin, ROUTES);
    for (number, path) in PATHS.into_iter().enumerate() {
        let mut client = Http2Client::connect(weir.web());
        let stream = client.post(path, &[("content-length", "0")]);
        origin.wait_for_requests(3 * number + 1);
        client.data(stream, SMUGGLED, true);
        // Its response may have been complete by then: whatever comes behind that is dropped.
        client.outcome(stream);
        assert_untouched(&weir, &origin, path);
    }
}

/// To a server of HTTP/2, the end of the request stands in the frame of its head: DATA behind that would end the connection for all.
#[test]
fn nothing_behind_a_length_of_zero_reaches_a_server_of_http2() {
    let origin = http2_echo();
    let weir = start_with(&origin, &format!("upstream.app.protocol = \"h2c\"\n{ROUTES}"));
    for path in PATHS {
        for (what, attack) in ATTACKS {
            let mut client = Http2Client::connect(weir.web());
            let stream = client.post(path, &[("content-length", "0")]);
            attack(&mut client, stream);
            let attacked = client.outcome(stream);
            let was_complete = attacked.has_ended && matches!(attacked.reset, None | Some(NO_ERROR));
            assert!(was_complete || attacked.reset == Some(PROTOCOL_ERROR), "{path} {what}: {attacked:?}");
            let response = Client::get(weir.web(), "/bystander");
            assert_eq!(
                (response.status, response.text()),
                (200, "GET /bystander ".to_owned()),
                "{path} {what}"
            );
        }
    }
    assert_eq!(origin.connections(), 1, "no violation has ended it");
}

#[test]
fn a_length_of_zero_that_is_kept_passes() {
    for is_http2 in [false, true] {
        let origin = if is_http2 { http2_echo() } else { echo() };
        let protocol = if is_http2 { "upstream.app.protocol = \"h2c\"\n" } else { "" };
        let weir = start_with(&origin, &format!("{protocol}{ROUTES}"));
        for path in PATHS {
            let mut client = Http2Client::connect(weir.web());
            let forms: [(&str, Attack); 4] = [
                ("an empty frame", |client, stream| client.data(stream, "", true)),
                ("two of them", |client, stream| {
                    client.data(stream, "", false);
                    client.data(stream, "", true);
                }),
                ("padding alone", |client, stream| {
                    client.send(frame::frame(frame::DATA, PADDED | frame::END_STREAM, stream, &[3, 0, 0, 0]));
                }),
                ("trailers", |client, stream| client.trailers(stream, &[("x-a", "1")])),
            ];
            for (what, form) in forms {
                let stream = client.post(path, &[("content-length", "0")]);
                form(&mut client, stream);
                let response = client.response(stream);
                assert_eq!(response.status, 200, "{path} {what}: {response:?}");
                assert!(response.text().contains(path), "{path} {what}: {response:?}");
            }
        }
        assert_eq!(origin.connections(), 1, "every form leaves the connection to the server usable");
    }
}
