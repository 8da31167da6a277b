//! `stale_if_error_status`: in place of which statuses a stale response is used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use super::{get, start, status};
use crate::harness::{Http2Client, Origin, Weir, config_with, eventually};

/// Answers with a response that is stale at once as long as the status is 200, then with that status.
fn failing(fields: &'static str) -> (Origin, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(200));
    let said = Arc::clone(&status);
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(match said.load(Ordering::Relaxed) {
                200 => format!("HTTP/1.1 200 OK\r\n{fields}ETag: \"a\"\r\nContent-Length: 4\r\n\r\nbody"),
                status => format!(
                    "HTTP/1.1 {status} No\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nno"
                ),
            })?;
        }
    });
    (origin, status)
}

const STALE: &str = "Cache-Control: max-age=0\r\n";

#[test]
fn a_stale_response_is_used_in_place_of_the_statuses_that_are_named() {
    for (keys, failure, expected) in [
        ("", 404, 404),
        ("", 503, 200),
        (", stale_if_error_status = [404, 429]", 404, 200),
        (", stale_if_error_status = [404, 429]", 429, 200),
        (", stale_if_error_status = [404, 429]", 403, 403),
        // Those of RFC 5861 are not among them unless they are named.
        (", stale_if_error_status = 404", 503, 503),
        (", stale_if_error_status = [\"4xx\", \"5xx\"]", 501, 200),
    ] {
        let (origin, said) = failing(STALE);
        let weir = start(&origin, &format!(", stale_if_error = \"1m\"{keys}"), "");
        assert_eq!(get(&weir, "/", "").text(), "body");
        said.store(failure, Ordering::Relaxed);
        let again = get(&weir, "/", "");
        assert_eq!(again.status, expected, "{keys} {failure}: {}", status(&again));
        if expected == 200 {
            assert_eq!(again.text(), "body");
            let detail = format!("fwd=stale; fwd-status={failure}");
            assert!(status(&again).contains(&detail), "{}", status(&again));
            let mut client = Http2Client::connect(weir.web());
            assert_eq!(client.fetch("/").text(), "body");
        }
    }
}

/// `must-revalidate` of the server forbids it, and a time that is over ends it.
#[test]
fn what_must_not_be_used_stale_is_not() {
    for (fields, keys) in [
        ("Cache-Control: max-age=0, must-revalidate\r\n", ", stale_if_error = \"1m\""),
        ("Cache-Control: no-cache\r\n", ", stale_if_error = \"1m\""),
        (STALE, ""),
        (STALE, ", stale_if_error = \"1ms\""),
    ] {
        let (origin, said) = failing(fields);
        let weir = start(&origin, &format!(", stale_if_error_status = \"4xx\"{keys}"), "");
        assert_eq!(get(&weir, "/", "").text(), "body");
        said.store(404, Ordering::Relaxed);
        eventually("the time is over", || get(&weir, "/", "").status == 404);
    }
}

/// The response that says 404 behind the client neither replaces what is stored nor removes it.
#[test]
fn a_refresh_that_fails_leaves_what_is_stored() {
    for (keys, expected) in [(", stale_if_error_status = 404", 200), ("", 404)] {
        let (origin, said) =
            failing("Cache-Control: max-age=0, stale-while-revalidate=60, stale-if-error=60\r\n");
        let weir = start(&origin, keys, "");
        // What is fresh for no time is not refreshed behind clients by the operator's time, but by the server's.
        assert_eq!(get(&weir, "/", "").text(), "body");
        said.store(404, Ordering::Relaxed);
        assert_eq!(get(&weir, "/", "").status, 200);
        eventually("it was refreshed", || origin.requests().len() >= 2);
        let last = || {
            // While the refresh is on its way, the stale one is used.
            let response = get(&weir, "/", "");
            response.status == expected
        };
        eventually("what the refresh has made of it is seen", last);
        if expected == 200 {
            for asked in 3..6 {
                assert_eq!(get(&weir, "/", "").status, 200);
                eventually("it is asked again", || origin.requests().len() >= asked);
            }
        }
    }
}

/// What the server has for the proxy in front of it is stored for no client: the next request gets what it names.
#[test]
fn a_refresh_that_leads_elsewhere_is_not_stored() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            let is_inside = conn.request()?.target() == "/inside";
            let first = !is_inside && count.fetch_add(1, Ordering::Relaxed) == 0;
            conn.send(match (is_inside, first) {
                (true, _) => "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Length: 6\r\n\r\ninside",
                (false, true) => "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-while-revalidate=60\r\nContent-Length: 4\r\n\r\nbody",
                (false, false) => "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nX-Accel-Redirect: /inside\r\nContent-Length: 4\r\n\r\nnone",
            })?;
        }
    });
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        "cache.pages = { memory = \"4MiB\", response_max = \"1MiB\" }
         listener.web.route = [
             { path = \"/\", upstream = \"app\", cache = \"pages\", x_accel = [\"redirect\"] },
             { path = \"/inside\", internal = true, upstream = \"app\" },
         ]",
    ));
    assert_eq!(get(&weir, "/", "").text(), "body");
    let shown = || {
        let text = get(&weir, "/", "").text();
        assert!(text == "body" || text == "inside", "{text}");
        text
    };
    eventually("the stale response is gone", || shown() == "inside");
    assert_eq!(shown(), "inside");
}
