//! Parses one typical request head and one response head over and over, so that the cost of a head can be counted.
//!
//! `valgrind --tool=callgrind parse_head request 1000`, then the same with 3000: the difference of the two counts,
//! divided by 2000, is what one head costs in instructions.

use std::hint::black_box;

use weir_http::HeadLimits;
use weir_http::http1::{HeadProgress, ParsedRequest, ParsedResponse};

const REQUEST: &[u8] =
    b"GET /index.html?id=42 HTTP/1.1\r\nHost: example.com\r\nUser-Agent: wrk/4.2.0\r\nAccept: */*\r\n\
    Accept-Encoding: gzip\r\nX-Trace: 4bf92f35\r\nConnection: keep-alive\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Tue, 14 Jul 2026 10:00:00 GMT\r\n\
    Content-Type: text/html\r\nContent-Length: 612\r\nConnection: keep-alive\r\nETag: \"6543\"\r\n\r\n";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let which = arguments.next().unwrap_or_default();
    let times: u32 = arguments.next().and_then(|times| times.parse().ok()).unwrap_or(1000);
    match which.as_str() {
        "request" => request(times),
        "response" => response(times),
        _ => eprintln!("usage: parse_head request|response [TIMES]"),
    }
}

#[inline(never)]
fn request(times: u32) {
    let limits = HeadLimits::default();
    let mut head = ParsedRequest::new();
    for _ in 0..times {
        head.reset();
        let progress = head.parse(black_box(REQUEST), &limits);
        assert_eq!(progress, Ok(HeadProgress::Complete { len: REQUEST.len() }));
        black_box(&head);
    }
}

#[inline(never)]
fn response(times: u32) {
    let limits = HeadLimits::default();
    let mut head = ParsedResponse::new();
    for _ in 0..times {
        head.reset();
        let progress = head.parse(black_box(RESPONSE), &limits);
        assert_eq!(progress, Ok(HeadProgress::Complete { len: RESPONSE.len() }));
        black_box(&head);
    }
}
