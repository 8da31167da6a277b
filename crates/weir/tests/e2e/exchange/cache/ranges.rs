//! Ranges of responses that are not stored yet: the whole is fetched where it may be stored, and the part where it may not.

use super::{get, start, status};
use crate::harness::{Client, Gate, Origin};

/// Longer than `response_max`.
const LARGE: usize = 3_000_000;

/// Serves a body of which each byte tells its place, with ranges, and with these fields.
fn ranged(fields: &'static str, len: usize) -> Origin {
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let wanted = request.field("range").and_then(|range| {
                let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
                Some((start.parse::<usize>().ok()?, end.parse::<usize>().ok()?))
            });
            match wanted {
                Some((start, end)) => {
                    conn.send(format!(
                        "HTTP/1.1 206 Partial Content\r\n{fields}Content-Range: bytes {start}-{end}/{len}\r\nContent-Length: {}\r\n\r\n",
                        end + 1 - start
                    ))?;
                    conn.send(body(start, end + 1))?;
                }
                None => {
                    conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {len}\r\n\r\n"))?;
                    conn.send(body(0, len))?;
                }
            }
        }
    })
}

fn body(start: usize, end: usize) -> Vec<u8> {
    (start..end).map(|at| (at % 251) as u8).collect()
}

#[test]
fn a_part_of_what_is_not_stored_comes_as_a_part() {
    for (fields, len, reason) in [
        ("Cache-Control: max-age=60\r\n", LARGE, "too-large"),
        ("Cache-Control: no-store\r\n", 10_000, "no-store"),
        ("Cache-Control: private\r\n", 10_000, "private"),
    ] {
        let origin = ranged(fields, len);
        let weir = start(
            &origin,
            "",
            "access_log = { output = \"file:{dir}/access.log\", format = \"{status} {cache} {cache.reason} {attempts}\" }",
        );
        for _ in 0..3 {
            let part = get(&weir, "/a", "Range: bytes=9000-9099\r\n");
            assert_eq!((part.status, part.field("content-length")), (206, Some("100")), "{reason}");
            assert_eq!(part.field("content-range"), Some(&*format!("bytes 9000-9099/{len}")));
            assert!(part.body.bytes == body(9_000, 9_100));
        }
        // The first time the whole was asked for; the others pass.
        let ranges: Vec<bool> =
            origin.requests().iter().map(|request| request.field("range").is_some()).collect();
        assert_eq!(ranges, [false, true, true, true], "{reason}");
        let log = weir.access_log(3);
        let lines = |text: &str| log.iter().filter(|line| *line == text).count();
        assert_eq!(lines(&format!("206 miss {reason} 2")), 1, "{log:?}");
        assert_eq!(lines("206 miss not-stored-before 1"), 2, "{log:?}");
        assert!(get(&weir, "/a", "").body.bytes == body(0, len), "the whole is still to be had");
    }
}

#[test]
fn a_part_comes_out_of_a_body_that_is_still_coming() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            assert_eq!(request.field("range"), None);
            conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 200000\r\n\r\n")?;
            conn.send(body(0, 100_000))?;
            opened.wait("the rest of the body");
            conn.send(body(100_000, 200_000))?;
        }
    });
    let weir = start(&origin, "", "process.workers = 2");
    let ask = |range: &str| {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nRange: bytes={range}\r\n\r\n"));
        client
    };
    // What is here already does not wait for the rest.
    let first = ask("1000-1999").response();
    assert_eq!((first.status, first.field("content-range")), (206, Some("bytes 1000-1999/200000")));
    assert!(first.body.bytes == body(1_000, 2_000));
    assert_eq!(status(&first).split("; ttl").next(), Some("weir; fwd=uri-miss"));
    let again = ask("2000-2999").response();
    assert!(again.status == 206 && again.body.bytes == body(2_000, 3_000));
    assert_eq!(ask("200000-").response().status, 416);
    let (mut last, mut across) = (ask("-100"), ask("99000-101000"));
    // Several parts are the whole, as long as it comes.
    let mut several = ask("0-9,100-109");
    assert!(several.head().start_line.starts_with("HTTP/1.1 200"));
    gate.open();
    let last = last.response();
    assert_eq!((last.status, last.field("content-range")), (206, Some("bytes 199900-199999/200000")));
    assert!(last.body.bytes == body(199_900, 200_000));
    assert!(across.response().body.bytes == body(99_000, 101_001));
    assert!(several.take(200_000) == body(0, 200_000));
    // From now on it is a hit.
    let hit = get(&weir, "/", "Range: bytes=0-9\r\n");
    assert!(hit.status == 206 && status(&hit).starts_with("weir; hit"), "{}", status(&hit));
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn as_many_ranges_are_served_of_what_is_stored_as_the_route_says() {
    let ranges = ["bytes=0-0", "bytes=0-0,2-2", "bytes=0-0,2-2,4-4", "bytes=20000-"];
    for (keys, expected) in [
        ("", [206, 206, 206, 416]),
        (" }, max_ranges = 2, vars = {", [206, 206, 200, 416]),
        (" }, max_ranges = 1, vars = {", [206, 200, 200, 416]),
        (" }, max_ranges = 0, vars = {", [200; 4]),
    ] {
        let origin = ranged("Cache-Control: max-age=60\r\nAccept-Ranges: bytes\r\n", 10_000);
        let weir = start(&origin, keys, "");
        let first = get(&weir, "/a", "");
        let shown = |response: &crate::harness::Response| response.field("accept-ranges").is_some();
        assert_eq!(shown(&first), expected[0] == 206, "{keys}");
        for (range, expected) in ranges.iter().zip(expected) {
            let part = get(&weir, "/a", &format!("Range: {range}\r\n"));
            assert_eq!(part.status, expected, "{keys} {range}");
            assert!(part.status != 200 || part.body.bytes == body(0, 10_000));
        }
        assert_eq!(origin.requests().len(), 1);
    }
    // Where there are no ranges, the server is not asked for a part either.
    let origin = ranged("Cache-Control: private\r\n", 10_000);
    let weir = start(&origin, " }, max_ranges = 0, vars = {", "");
    let whole = get(&weir, "/a", "Range: bytes=0-0\r\n");
    assert_eq!((whole.status, whole.body.bytes.len()), (200, 10_000));
}
