//! The rules that a listener may relax by name: such messages are then normalised, so the origin never sees the violation.

use super::{
    BAD_BODY, BAD_REQUEST, Case, Want, case, chunked, forwarded_get, forwarded_post, get_with, judge_on,
    post_with,
};
use crate::harness::Weir;

fn judge_with(setting: &str, cases: &[Case]) {
    judge_on(|origin| Weir::proxying_with(origin, &format!("listener.web.lenient.{setting}")), cases);
}

fn get(target: &str, fields: &[&str]) -> Want {
    Want::Forwarded(forwarded_get(target, fields))
}

/// Row 1.
#[test]
fn bare_lf_ends_a_line_where_it_is_allowed() {
    let post = "POST / HTTP/1.1\nHost: a.test\nContent-Length: 5\n\nhello";
    judge_with(
        "bare_lf = true",
        &[
            case(
                1,
                "every line",
                "GET / HTTP/1.1\nHost: a.test\nX: y\n\n",
                get("/", &["Host: a.test", "X: y"]),
            ),
            case(
                1,
                "one line",
                "GET / HTTP/1.1\r\nHost: a.test\nX: y\r\n\r\n",
                get("/", &["Host: a.test", "X: y"]),
            ),
            case(1, "a body behind it", post, Want::Forwarded(forwarded_post("Content-Length: 5", "hello"))),
            case(
                2,
                "a bare CR stays refused",
                "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\rb\r\n\r\n",
                BAD_REQUEST,
            ),
            case(5, "a fold stays refused", get_with("X: a\n b"), BAD_REQUEST),
        ],
    );
}

/// Row 5.
#[test]
fn folded_fields_are_unfolded_where_they_are_allowed() {
    judge_with(
        "obs_fold = true",
        &[
            case(5, "SP", get_with("X: a\r\n b"), get("/", &["Host: a.test", "X: a b"])),
            case(
                5,
                "HTAB and more",
                get_with("X: a\r\n\t  b\r\n c"),
                get("/", &["Host: a.test", "X: a b c"]),
            ),
            case(5, "Host", "GET / HTTP/1.1\r\nHost: a.test\r\n .evil\r\n\r\n", BAD_REQUEST),
            case(5, "Content-Length", post_with("Content-Length: 5\r\n 0", "hello"), BAD_REQUEST),
            case(
                5,
                "Transfer-Encoding",
                post_with("Transfer-Encoding:\r\n chunked", "0\r\n\r\n"),
                BAD_REQUEST,
            ),
            case(7, "before the first field", "GET / HTTP/1.1\r\n X: y\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        ],
    );
}

/// Row 13.
#[test]
fn equal_lengths_become_one_where_they_are_allowed() {
    let five = || Want::Forwarded(forwarded_post("Content-Length: 5", "hello"));
    judge_with(
        "repeated_length = true",
        &[
            case(13, "5 and 5", post_with("Content-Length: 5\r\nContent-Length: 5", "hello"), five()),
            case(13, "`5, 5`", post_with("Content-Length: 5, 5", "hello"), five()),
            case(
                12,
                "5 and 6 stay refused",
                post_with("Content-Length: 5\r\nContent-Length: 6", "hello!"),
                BAD_REQUEST,
            ),
        ],
    );
}

/// Row 15.
#[test]
fn a_padded_length_loses_its_zeros_unless_it_is_not_allowed() {
    judge_with(
        "padded_length = false",
        &[case(15, "005 is refused on request", post_with("Content-Length: 005", "hello"), BAD_REQUEST)],
    );
    judge_on(
        Weir::proxying,
        &[
            case(
                15,
                "005",
                post_with("Content-Length: 005", "hello"),
                Want::Forwarded(forwarded_post("Content-Length: 5", "hello")),
            ),
            case(14, "+5 stays refused", post_with("Content-Length: +5", "hello"), BAD_REQUEST),
        ],
    );
}

/// Rows 21 and 22.
#[test]
fn padded_chunk_sizes_are_read_where_they_are_allowed() {
    let body = |line: &str| chunked(format!("{line}hello\r\n0\r\n\r\n"));
    let whole = || Want::Forwarded(forwarded_post("Transfer-Encoding: chunked", "hello"));
    judge_with(
        "padded_chunk_size = true",
        &[
            case(21, "SP behind the size", body("5 \r\n"), whole()),
            case(21, "SP behind the last size", chunked("5\r\nhello\r\n0 \r\n\r\n"), whole()),
            case(21, "17 digits", body("00000000000000005\r\n"), whole()),
            case(21, "SP before the size stays refused", body(" 5\r\n"), BAD_BODY),
            case(21, "an overflow stays refused", body("10000000000000005\r\n"), BAD_BODY),
            case(22, "LF stays refused", body("5 \n"), BAD_BODY),
        ],
    );
    judge_with("empty_chunk_extension = false", &[case(22, "refused on request", body("5;\r\n"), BAD_BODY)]);
}

/// Row 31.
#[test]
fn unencoded_targets_are_rejected_where_they_are_not_allowed() {
    let request = |target: &[u8]| [b"GET ", target, b" HTTP/1.1\r\nHost: a.test\r\n\r\n"].concat();
    judge_with(
        "unencoded_target = false",
        &[
            case(31, "quote", request(b"/a\"b"), BAD_REQUEST),
            case(31, "backslash", request(b"/a\\b"), BAD_REQUEST),
            case(31, "UTF-8", request("/café".as_bytes()), BAD_REQUEST),
        ],
    );
}

/// Row 31.
#[test]
fn unsafe_targets_are_encoded_where_they_are_allowed() {
    let request = |target: &[u8]| [b"GET ", target, b" HTTP/1.1\r\nHost: a.test\r\n\r\n"].concat();
    let encoded = |target: &str| get(target, &["Host: a.test"]);
    judge_with(
        "unsafe_target = true",
        &[
            case(31, "quote", request(b"/a\"b"), encoded("/a%22b")),
            case(31, "angle brackets", request(b"/<a>"), encoded("/%3Ca%3E")),
            case(31, "UTF-8", request("/café".as_bytes()), encoded("/caf%C3%A9")),
            case(31, "space", request(b"/a b"), encoded("/a%20b")),
            case(31, "fragment", request(b"/a#b"), encoded("/a%23b")),
            case(31, "NUL stays refused", request(b"/a\0b"), BAD_REQUEST),
        ],
    );
}

/// Row 32.
#[test]
fn an_encoded_nul_is_rejected_where_it_is_not_allowed() {
    judge_with(
        "encoded_nul = false",
        &[
            case(32, "%00", "GET /a%00b HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
            case(
                32,
                "%01 passes",
                "GET /a%01b HTTP/1.1\r\nHost: a.test\r\n\r\n",
                get("/a%01b", &["Host: a.test"]),
            ),
        ],
    );
}

/// Row 10.
#[test]
fn names_with_underscores_pass_where_they_are_allowed() {
    judge_with(
        "underscore_names = true",
        &[
            case(10, "an ordinary name", get_with("X_Y: z"), get("/", &["Host: a.test", "X_Y: z"])),
            case(
                10,
                "never framing",
                get_with("Content_Length: 5"),
                get("/", &["Host: a.test", "Content_Length: 5"]),
            ),
        ],
    );
    judge_on(
        Weir::proxying,
        &[case(10, "dropped by default", get_with("X_Y: z"), get("/", &["Host: a.test"]))],
    );
}

/// Row 31.
#[test]
fn fragments_are_cut_off_where_they_are_allowed() {
    let request = |target: &[u8]| [b"GET ", target, b" HTTP/1.1\r\nHost: a.test\r\n\r\n"].concat();
    let without = |target: &str| get(target, &["Host: a.test"]);
    judge_with(
        "target_fragment = true",
        &[
            case(31, "path", request(b"/a#b"), without("/a")),
            case(31, "query", request(b"/a?b#c?d#e"), without("/a?b")),
            case(31, "segment", request(b"/a/../b/..#c"), without("/")),
            case(31, "NUL stays refused", request(b"/a\0#b"), BAD_REQUEST),
            case(31, "NUL behind it stays refused", request(b"/a#\0"), BAD_REQUEST),
            case(31, "host", request(b"http://a.test#b/"), BAD_REQUEST),
        ],
    );
}
