//! Rows 1 to 9: line ends, control bytes, folding, white space and the names of fields.

use super::{BAD_REQUEST, Case, Want, case, forwarded_get, forwarded_post, get_with, judge, post_with};

/// Rows 1 and 2.
#[test]
fn rejects_line_ends_other_than_cr_lf() {
    let bare_lf: &[(&str, &[u8])] = &[
        ("request line", b"GET / HTTP/1.1\nHost: a.test\r\n\r\n"),
        ("field line", b"GET / HTTP/1.1\r\nHost: a.test\nX: y\r\n\r\n"),
        ("last field line", b"GET / HTTP/1.1\r\nHost: a.test\n\r\n"),
        ("empty line", b"GET / HTTP/1.1\r\nHost: a.test\r\n\n"),
        ("every line", b"GET / HTTP/1.1\nHost: a.test\n\n"),
        ("every line of a POST", b"POST / HTTP/1.1\nHost: a.test\nContent-Length: 1\n\nx"),
        (
            "hidden framing",
            b"POST / HTTP/1.1\r\nHost: a.test\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        ("line before the request", b"\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ];
    let bare_cr: &[(&str, &[u8])] = &[
        ("inside a value", b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\rb\r\n\r\n"),
        (
            "before a field in the value",
            b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\rContent-Length: 5\r\n\r\nhello",
        ),
        ("ends a field line", b"GET / HTTP/1.1\r\nHost: a.test\rX: y\r\n\r\n"),
        ("ends the request line", b"GET / HTTP/1.1\rHost: a.test\r\n\r\n"),
        ("ends every line", b"GET / HTTP/1.1\rHost: a.test\r\r\r\n\r\n"),
        ("doubled before LF", b"GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\r\n\r\n"),
        ("in a name", b"GET / HTTP/1.1\r\nHost: a.test\r\nX\rY: a\r\n\r\n"),
        ("in the target", b"GET /a\rb HTTP/1.1\r\nHost: a.test\r\n\r\n"),
        ("in place of the empty line", b"GET / HTTP/1.1\r\nHost: a.test\r\n\rX: y\r\n\r\n"),
    ];
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(bare_lf.iter().map(|(v, send)| case(1, format!("bare LF: {v}"), *send, BAD_REQUEST)));
    cases.extend(bare_cr.iter().map(|(v, send)| case(2, format!("bare CR: {v}"), *send, BAD_REQUEST)));
    // RFC 9112 section 2.2: an empty line before the request line should be ignored.
    cases.push(case(
        2,
        "CR LF before the request line",
        "\r\nGET /after HTTP/1.1\r\nHost: a.test\r\n\r\n",
        Want::Forwarded(forwarded_get("/after", &["Host: a.test"])),
    ));
    judge(&cases);
}

/// Rows 3 and 4.
#[test]
fn rejects_control_bytes() {
    let mut cases = vec![
        case(3, "NUL in a name", get_with(b"X\0Y: v"), BAD_REQUEST),
        case(3, "NUL in a value", get_with(b"X: a\0b"), BAD_REQUEST),
        case(3, "NUL at the end of a value", get_with(b"X: a\0"), BAD_REQUEST),
        case(3, "NUL in the target", "GET /a\0b HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        case(3, "NUL in the method", "GE\0T / HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        case(3, "NUL in the version", "GET / HTTP/1.1\0\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        case(3, "NUL in Host", "GET / HTTP/1.1\r\nHost: a\0.test\r\n\r\n", BAD_REQUEST),
        case(3, "NUL before the request line", "\0GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
    ];
    let control_bytes = (0x01..0x20).chain([0x7f]).filter(|byte| !b"\t\n\r".contains(byte));
    cases.extend(control_bytes.map(|byte: u8| {
        case(
            4,
            format!("{byte:#04x} in a value"),
            get_with([b"X: a", &[byte][..], b"b"].concat()),
            BAD_REQUEST,
        )
    }));
    cases.push(case(
        4,
        "HTAB in a value is allowed",
        get_with("X: a\tb"),
        Want::Forwarded(forwarded_get("/", &["Host: a.test", "X: a\tb"])),
    ));
    cases.push(case(
        4,
        "obs-text in a value is allowed",
        get_with(b"X: caf\xe9"),
        Want::Forwarded(forwarded_get("/", &["Host: a.test", "X: caf\u{e9}"])),
    ));
    judge(&cases);
}

/// Row 5.
#[test]
fn rejects_folded_fields() {
    judge(&[
        case(5, "fold with SP", get_with("X: a\r\n b"), BAD_REQUEST),
        case(5, "fold with HTAB", get_with("X: a\r\n\tb"), BAD_REQUEST),
        case(5, "empty folded line", get_with("X: a\r\n \r\nY: b"), BAD_REQUEST),
        case(5, "fold that looks like a field", get_with("X: a\r\n Content-Length: 5"), BAD_REQUEST),
        case(5, "fold in Host", "GET / HTTP/1.1\r\nHost: a.test\r\n .evil\r\n\r\n", BAD_REQUEST),
        case(
            5,
            "fold in Transfer-Encoding",
            chunked_with_fold("Transfer-Encoding:\r\n chunked"),
            BAD_REQUEST,
        ),
        case(
            5,
            "fold inside Transfer-Encoding",
            chunked_with_fold("Transfer-Encoding: chu\r\n nked"),
            BAD_REQUEST,
        ),
        case(5, "fold in Content-Length", post_with("Content-Length:\r\n 5", "hello"), BAD_REQUEST),
        case(5, "fold after Content-Length", post_with("Content-Length: 5\r\n 0", "hello"), BAD_REQUEST),
    ]);
}

fn chunked_with_fold(line: &str) -> Vec<u8> {
    post_with(line, "5\r\nhello\r\n0\r\n\r\n")
}

/// Rows 6 and 7.
#[test]
fn rejects_white_space_around_names_and_before_fields() {
    let no_colon_space: &[(&str, Vec<u8>)] = &[
        ("SP before the colon", get_with("Name : v")),
        ("HTAB before the colon", get_with("Name\t: v")),
        ("SP before the colon of Host", b"GET / HTTP/1.1\r\nHost : a.test\r\n\r\n".to_vec()),
        ("SP before the colon of Content-Length", post_with("Content-Length : 5", "hello")),
        ("SP before the colon of Transfer-Encoding", post_with("Transfer-Encoding : chunked", "0\r\n\r\n")),
        ("SP inside a name", get_with("Na me: v")),
    ];
    let leading: &[(&str, &[u8])] = &[
        ("white line before the first field", b"GET / HTTP/1.1\r\n \r\nHost: a.test\r\n\r\n"),
        ("SP before the first field", b"GET / HTTP/1.1\r\n Host: a.test\r\n\r\n"),
        ("SP before a first field, Host after", b"GET / HTTP/1.1\r\n X: y\r\nHost: a.test\r\n\r\n"),
        ("HTAB before the first field", b"GET / HTTP/1.1\r\n\tHost: a.test\r\n\r\n"),
        ("SP before the request line", b" GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"),
    ];
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(no_colon_space.iter().map(|(v, send)| case(6, *v, send.clone(), BAD_REQUEST)));
    cases.extend(leading.iter().map(|(v, send)| case(7, *v, *send, BAD_REQUEST)));
    cases.push(case(
        6,
        "white space around a value goes",
        get_with("Name: \t v \t"),
        Want::Forwarded(forwarded_get("/", &["Host: a.test", "Name: v"])),
    ));
    cases.push(case(
        6,
        "no space after the colon is fine",
        post_with("Content-Length:5", "hello"),
        Want::Forwarded(forwarded_post("Content-Length: 5", "hello")),
    ));
    judge(&cases);
}

/// Rows 8 and 9.
#[test]
fn rejects_names_that_are_no_tokens() {
    let mut cases = vec![
        case(8, "empty name", get_with(": x"), BAD_REQUEST),
        case(8, "empty first name", "GET / HTTP/1.1\r\n: x\r\nHost: a.test\r\n\r\n", BAD_REQUEST),
        case(8, "only a colon", get_with(":"), BAD_REQUEST),
        case(8, "no colon", get_with("Name"), BAD_REQUEST),
        case(
            8,
            "no colon on the last line of a chunked request",
            post_with("Transfer-Encoding: chunked\r\nName", "0\r\n\r\n"),
            BAD_REQUEST,
        ),
    ];
    for byte in b"{}()<>@,;\\\"/[]?=\x85\xa0".iter().copied().chain([0x80, 0xff]) {
        let middle = [b"Na", &[byte][..], b"me: v"].concat();
        cases.push(case(9, format!("{byte:#04x} in a name"), get_with(middle), BAD_REQUEST));
    }
    cases.push(case(9, "UTF-8 in a name", get_with("Namé: v"), BAD_REQUEST));
    let smuggled = [b"Transfer-Encoding", &[0xa0][..], b": chunked"].concat();
    cases.push(case(9, "0xa0 after Transfer-Encoding", post_with(smuggled, "0\r\n\r\n"), BAD_REQUEST));
    let length = [&[0x85][..], b"Content-Length: 5"].concat();
    cases.push(case(9, "0x85 before Content-Length", post_with(length, "hello"), BAD_REQUEST));
    cases.push(case(
        9,
        "every token byte is fine",
        get_with("!#$%&'*+-.^`|~09azAZ: v"),
        Want::Forwarded(forwarded_get("/", &["Host: a.test", "!#$%&'*+-.^`|~09azAZ: v"])),
    ));
    judge(&cases);
}
