//! The HTTP/1 codec alone, a given number of times, for `cargo xtask instructions`.
//!
//! `http_codec (request-head|response-head|chunked-body) TIMES`. The messages are those of an ordinary page: a browser's
//! request, a server's answer, a body in two chunks. Nothing is allocated per message. It measures no time.

use std::hint::black_box;

use weir_http::http1::{ChunkedDecoder, HeadProgress, ParsedRequest, ParsedResponse};
use weir_http::{ChunkedLimits, HeadLimits};

const REQUEST: &[u8] = b"GET /products/42?sort=price&page=3 HTTP/1.1\r\n\
Host: shop.example.com\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Referer: https://shop.example.com/products\r\n\
Connection: keep-alive\r\n\
Cookie: session=5f1d7a0c93b84e26; theme=light\r\n\
Sec-Fetch-Mode: navigate\r\n\
Cache-Control: max-age=0\r\n\
\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
Server: nginx/1.22.1\r\n\
Date: Tue, 04 Mar 2025 10:15:00 GMT\r\n\
Content-Type: text/html; charset=utf-8\r\n\
Content-Length: 612\r\n\
Last-Modified: Mon, 03 Mar 2025 08:00:00 GMT\r\n\
ETag: \"67c561c0-264\"\r\n\
Connection: keep-alive\r\n\
Accept-Ranges: bytes\r\n\
\r\n";

const CHUNKS: &[u8] =
    b"26\r\nthirty-eight bytes of an ordinary page\r\n15\r\nand twenty-one in all\r\n0\r\n\r\n";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().expect("the first argument says what to run");
    let times = arguments.next().and_then(|times| times.parse().ok()).expect("the second one says how often");
    match what.as_str() {
        "request-head" => request_heads(times),
        "response-head" => response_heads(times),
        "chunked-body" => chunked_bodies(times),
        other => panic!("unknown: {other}"),
    }
}

fn request_heads(times: u64) {
    let limits = HeadLimits::default();
    let mut head = ParsedRequest::new();
    for _ in 0..times {
        head.reset();
        let progress = head.parse(black_box(REQUEST), &limits);
        assert_eq!(progress, Ok(HeadProgress::Complete { len: REQUEST.len() }));
        black_box(&head);
    }
}

fn response_heads(times: u64) {
    let limits = HeadLimits::default();
    let mut head = ParsedResponse::new();
    for _ in 0..times {
        head.reset();
        let progress = head.parse(black_box(RESPONSE), &limits);
        assert_eq!(progress, Ok(HeadProgress::Complete { len: RESPONSE.len() }));
        black_box(&head);
    }
}

fn chunked_bodies(times: u64) {
    let mut decoder = ChunkedDecoder::new(ChunkedLimits::default());
    let mut buf = CHUNKS.to_vec();
    for _ in 0..times {
        decoder.reset();
        buf.copy_from_slice(black_box(CHUNKS));
        let decoded = decoder.decode(&mut buf).expect("the body is well-formed");
        assert!(decoder.is_done() && decoded.consumed == CHUNKS.len(), "{decoded:?}");
        black_box(&buf);
    }
}
