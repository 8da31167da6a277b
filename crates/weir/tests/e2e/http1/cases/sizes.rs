//! Row 47: heads that exceed each limit, and one that never ends.

use super::{BAD_REQUEST, Want, case, forwarded_get, judge};
use crate::harness::{Client, Origin, Weir};

/// Row 47.
#[test]
fn rejects_heads_that_are_too_large() {
    let long_line = format!("/{}", "a".repeat(7_990 - "GET  HTTP/1.1".len()));
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let lines =
        |line: &str, count: usize| format!("GET / HTTP/1.1\r\nHost: a.test\r\n{}\r\n", line.repeat(count));
    let numbered: String = (0..10_000).map(|n| format!("X-{n}: {n}\r\n")).collect();
    let cookie_line = format!("Cookie: {}\r\n", "c".repeat(4_000));
    judge(&[
        case(
            47,
            "request line of 8000 bytes",
            get(&long_line),
            Want::Forwarded(forwarded_get(&long_line, &["Host: a.test"])),
        ),
        case(47, "target of 100 KB", get(&format!("/{}", "a".repeat(100_000))), Want::Refused(&[414])),
        case(
            47,
            "field of 100 KB",
            lines(&format!("X: {}\r\n", "a".repeat(100_000)), 1),
            Want::Refused(&[431]),
        ),
        case(
            47,
            "field name of 100 KB",
            lines(&format!("{}: a\r\n", "X".repeat(100_000)), 1),
            Want::Refused(&[431]),
        ),
        case(
            47,
            "10 000 fields",
            format!("GET / HTTP/1.1\r\nHost: a.test\r\n{numbered}\r\n"),
            Want::Refused(&[431]),
        ),
        case(47, "10 000 fields that are tiny", lines("X:\r\n", 10_000), Want::Refused(&[431])),
        case(
            47,
            "method of 100 KB",
            format!("{} / HTTP/1.1\r\nHost: a.test\r\n\r\n", "A".repeat(100_000)),
            Want::Refused(&[400, 501]),
        ),
        case(47, "method of 100 KB without end", "A".repeat(100_000), Want::Refused(&[400, 501])),
        case(47, "cookie of 1 MB in lines of 4 KB", lines(&cookie_line, 256), Want::Refused(&[431])),
        case(
            47,
            "100 KB of white space before a value",
            lines(&format!("X:{}y\r\n", " ".repeat(100_000)), 1),
            Want::Refused(&[431]),
        ),
        case(47, "100 KB of empty lines before the request", "\r\n".repeat(50_000), BAD_REQUEST),
    ]);
}

/// Row 47. The limit is on the whole head: a byte now and then does not prolong it.
#[test]
fn a_head_that_comes_byte_by_byte_times_out() {
    let origin = Origin::serving("never");
    let weir = Weir::proxying_with(&origin, "listener.web.timeouts.request = \"400ms\"");
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nX: ");
    client.limit_reads(std::time::Duration::from_millis(50));
    let start = crate::harness::watchdog::now();
    let answer = loop {
        match client.try_response_to("GET") {
            Ok(response) => break response,
            Err(crate::harness::End::Silence) => {
                // Refused writes show up as an answer or an end on the next read.
                let _ = client.send_what_is_taken("a");
            }
            Err(end) => panic!("408 must come before the connection ends, but {end}"),
        }
        assert!(start.elapsed() < crate::harness::watchdog::WATCHDOG, "a head byte by byte must time out");
    };
    assert_eq!(answer.status, 408, "{answer:?}");
    assert_eq!(answer.reason(), Some("request-head-timeout"));
    assert_eq!(origin.connections(), 0);
}
