//! Messages at random: mostly by the grammar, now and then with a piece that breaks it, so that both outcomes are met
//! often and close to where they meet.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;

/// One of `good` most of the time, one of `bad` now and then.
fn mostly(good: &'static [&'static str], bad: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![20 => select(good), 1 => select(bad)].prop_map(|piece| piece.as_bytes().to_vec())
}

fn line_end() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![60 => Just("\r\n"), 1 => select(["\n", "\r", "\r\r\n", "", "\r\n ", "\n\r\n"].as_slice())]
        .prop_map(|piece| piece.as_bytes().to_vec())
}

fn request_line() -> impl Strategy<Value = Vec<u8>> {
    let method = mostly(
        &["GET", "POST", "HEAD", "PUT", "OPTIONS", "DELETE", "PATCH", "M-SEARCH"],
        &[
            "CONNECT",
            "",
            "G\0T",
            "get",
            "GET ",
            "PRI",
            "PROXY",
            "{}",
            "AVERYLONGMETHODTHATNOBODYHASEVERHEARDOF",
        ],
    );
    let target = mostly(
        &[
            "/",
            "/index.html",
            "/a/b?c=d&e",
            "/?",
            "/a%20b?100%",
            "/[x]",
            "//a/./b%2e",
            "http://a/b",
            "http://a?b",
            "*",
        ],
        &[
            "",
            "/%zz",
            "/a b",
            "/#",
            "a:443",
            "ftp://a/",
            "/\u{e9}",
            "/\"",
            "/{x}?a|b^`\\",
            "http://u@a/",
            "//a/b",
            "/\0",
        ],
    );
    let version = mostly(
        &["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0"],
        &["HTTP/0.9", "HTTP/2.0", "http/1.1", "HTTP/1.1 ", "HTTP/1", "HTTP/01.1", ""],
    );
    (method, target, version, line_end()).prop_map(|(method, target, version, end)| {
        [method.as_slice(), b" ", &target, b" ", &version, &end].concat()
    })
}

fn status_line() -> impl Strategy<Value = Vec<u8>> {
    let line = mostly(
        &[
            "HTTP/1.1 200 OK",
            "HTTP/1.0 200 OK",
            "HTTP/1.1 404 Not Found",
            "HTTP/1.1 204 ",
            "HTTP/1.1 304",
            "HTTP/1.1 100 X",
        ],
        &[
            "HTTP/1.1 99 X",
            "HTTP/1.1 2000 X",
            "HTTP/1.1",
            "HTTP/2.0 200 OK",
            "ICY 200 OK",
            "HTTP/1.1 600 X",
            "HTTP/1.1  200",
            "HTTP/1.1 200 O\x01K",
            "\r\nHTTP/1.1 200 OK",
            "\r\n\r\nHTTP/1.1 200 OK",
        ],
    );
    (line, line_end()).prop_map(|(line, end)| [line, end].concat())
}

fn field() -> impl Strategy<Value = Vec<u8>> {
    let known = mostly(
        &[
            "Host: a",
            "Host: a:80",
            "Content-Length: 5",
            "Content-Length: 0",
            "Transfer-Encoding: chunked",
            "Connection: close",
            "Connection: keep-alive",
            "connection: x, Upgrade",
            "Upgrade: websocket",
            "Expect: 100-continue",
            "X-Forwarded-For: 1.2.3.4",
            "User-Agent: \t x y \t ",
            "Cookie: a=b",
            "TE: trailers",
            "X: \u{e9}",
            "X:",
            "x-a_b: y",
            "Accept:*/*",
            "Date: Tue, 14 Jul 2026 10:00:00 GMT",
        ],
        &[
            "Content-Length: 6",
            "Content-Length: +5",
            "Content-Length: 5, 5",
            "Content-Length: 05",
            "Content-Length:",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: identity",
            "Transfer-Encoding: chunked, chunked",
            "transfer-encoding: \tchunked,",
            "Content_Length: 5",
            "Content-Length : 5",
            "Host: a b",
            "Host:",
            ": x",
            "X",
            " X: y",
            "X: a\0b",
            "X: \x7f",
            "Content-Length: 5\x01",
            "Transfer-Encoding: chunked",
            "X\x01: y",
            "X: a\rb",
            "X: a\nb",
            "\u{e9}: y",
            "X y: z",
            "Expect: x",
        ],
    );
    let other = (
        vec(select(b"abXY-_09!#".as_slice()), 1..30),
        vec(any::<u8>().prop_map(|byte| byte % 0x5f + 0x20), 0..60),
    )
        .prop_map(|(name, value)| [name.as_slice(), b": ", &value].concat());
    (prop_oneof![4 => known, 1 => other], line_end()).prop_map(|(field, end)| [field, end].concat())
}

/// A start line, fields and the end of the head.
fn head(start: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![Just("Host: a\r\n"), Just("")];
    (mostly(&["", "", "\r\n"], &["\n", " ", "\r"]), start, first, vec(field(), 0..6), line_end()).prop_map(
        |(before, start, first, fields, end)| [before, start, first.into(), fields.concat(), end].concat(),
    )
}

/// One chunk, or something like it.
fn chunk() -> impl Strategy<Value = Vec<u8>> {
    mostly(
        &[
            "5\r\nhello\r\n",
            "1;a=b\r\nx\r\n",
            "3 ;q=\"\\\"\"\r\nabc\r\n",
            "A\r\n0123456789\r\n",
            "002\r\n\r\n\r\n",
        ],
        &[
            "5\r\nhell\r\n",
            "5 \r\nhello\r\n",
            "x\r\n",
            "-1\r\n",
            "5\nhello\r\n",
            "5\r\nhello\n",
            "5;\n\r\nhello\r\n",
            "",
        ],
    )
}

/// A chunked body, whole or broken, with bytes that may follow it.
pub(crate) fn chunked_body() -> impl Strategy<Value = Vec<u8>> {
    let end = mostly(
        &["0\r\n\r\n", "0\r\nX-Sum: 1\r\n\r\n", "00;a\r\nX: y\r\nContent-Length: 3\r\n\r\n"],
        &["0\r\n", "0\r\n\n", "0\r\nX y\r\n\r\n", "0\n\r\n", ""],
    );
    let body = (vec(chunk(), 0..5), end, select(["", "GET / HTTP/1.1\r\n\r\n", "\r\n"].as_slice()));
    mutated(body.prop_map(|(chunks, end, after)| [chunks.concat(), end, after.into()].concat()))
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        chunked_body(),
        Just(b"hello".to_vec()),
        Just(b"helloGET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
        Just(vec![])
    ]
}

/// The bytes with one of them changed, now and then.
fn mutated(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (bytes, any::<proptest::sample::Index>(), prop_oneof![6 => Just(None), 1 => any::<u8>().prop_map(Some)])
        .prop_map(|(mut bytes, index, byte)| {
            if let Some(byte) = byte
                && !bytes.is_empty()
            {
                let at = index.index(bytes.len());
                match byte % 3 {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => _ = bytes.remove(at),
                }
            }
            bytes
        })
}

/// A request, or something like it, with bytes that may follow its head.
pub(crate) fn request() -> impl Strategy<Value = Vec<u8>> {
    (mutated(head(request_line())), body()).prop_map(|(head, body)| [head, body].concat())
}

/// A response, or something like it, with bytes that may follow its head.
pub(crate) fn response() -> impl Strategy<Value = Vec<u8>> {
    let head = (status_line(), vec(field(), 0..6), line_end());
    let head = mutated(head.prop_map(|(line, fields, end)| [line, fields.concat(), end].concat()));
    (head, body()).prop_map(|(head, body)| [head, body].concat())
}

/// Where to cut `len` bytes into pieces: ascending, ending with `len`.
pub(crate) fn cuts() -> impl Strategy<Value = Vec<proptest::sample::Index>> {
    vec(any::<proptest::sample::Index>(), 0..8)
}
