//! Rows 10 to 20: where a request body ends.

use super::{BAD_REQUEST, Want, case, chunked, forwarded_get, forwarded_post, get_with, judge, post_with};

const HELLO_CHUNKED: &str = "5\r\nhello\r\n0\r\n\r\n";

/// Row 10.
#[test]
fn drops_names_with_underscores() {
    let plain = || Want::Forwarded(forwarded_get("/", &["Host: a.test"]));
    judge(&[
        case(10, "Content_Length is dropped", get_with("Content_Length: 5"), plain()),
        case(10, "Transfer_Encoding is dropped", get_with("Transfer_Encoding: chunked"), plain()),
        case(10, "X_Forwarded_For is dropped", get_with("X_Forwarded_For: 6.6.6.6"), plain()),
        case(
            10,
            "Content_Length beside Content-Length",
            post_with("Content_Length: 50\r\nContent-Length: 5", "hello"),
            Want::Forwarded(forwarded_post("Content-Length: 5", "hello")),
        ),
    ]);
}

/// Row 11.
#[test]
fn rejects_a_length_beside_chunked() {
    let length_first = post_with("Content-Length: 15\r\nTransfer-Encoding: chunked", HELLO_CHUNKED);
    let coding_first = post_with("Transfer-Encoding: chunked\r\nContent-Length: 15", HELLO_CHUNKED);
    let smuggle = post_with(
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "0\r\n\r\nGET /smuggled HTTP/1.1\r\n\r\n",
    );
    judge(&[
        case(11, "Content-Length, then chunked", length_first, BAD_REQUEST),
        case(11, "chunked, then Content-Length", coding_first, BAD_REQUEST),
        case(11, "with a request hidden behind it", smuggle, BAD_REQUEST),
        case(
            11,
            "Content-Length: 0 and chunked",
            post_with("Content-Length: 0\r\nTransfer-Encoding: chunked", HELLO_CHUNKED),
            BAD_REQUEST,
        ),
        case(
            11,
            "a field between them",
            post_with("Content-Length: 15\r\nX: y\r\nTransfer-Encoding: chunked", HELLO_CHUNKED),
            BAD_REQUEST,
        ),
    ]);
}

/// Rows 12 to 15.
#[test]
fn rejects_lengths_that_differ_or_are_no_digits() {
    let five = || forwarded_post("Content-Length: 5", "hello");
    let mut cases = vec![
        case(12, "5 and 6", post_with("Content-Length: 5\r\nContent-Length: 6", "hello!"), BAD_REQUEST),
        case(12, "6 and 5", post_with("Content-Length: 6\r\nContent-Length: 5", "hello!"), BAD_REQUEST),
        case(12, "`5, 6`", post_with("Content-Length: 5, 6", "hello!"), BAD_REQUEST),
        case(12, "5 and nothing", post_with("Content-Length: 5\r\nContent-Length:", "hello"), BAD_REQUEST),
        case(
            13,
            "5 and 5",
            post_with("Content-Length: 5\r\nContent-Length: 5", "hello"),
            Want::Either(&[400], five()),
        ),
        case(13, "`5, 5`", post_with("Content-Length: 5, 5", "hello"), Want::Either(&[400], five())),
    ];
    let bad = [
        "+5",
        "-1",
        "-0",
        "0x5",
        "5_0",
        "1 0",
        "",
        "18446744073709551616",
        "18446744073709551621",
        "9223372036854775808",
        "99999999999999999999999999999999",
        "5;",
        "5.0",
        "5e0",
        "five",
        "\u{b}5",
        "5,",
        ",5",
        "\"5\"",
    ];
    cases.extend(bad.iter().map(|value| {
        case(
            14,
            format!("Content-Length `{value}`"),
            post_with(format!("Content-Length: {value}"), "hello"),
            BAD_REQUEST,
        )
    }));
    let superscript = post_with(b"Content-Length: \xb5", "hello");
    cases.push(case(14, "Content-Length that is a digit only in Unicode", superscript, BAD_REQUEST));
    cases.push(case(15, "005", post_with("Content-Length: 005", "hello"), Want::Either(&[400], five())));
    cases.push(case(
        15,
        "010 is not octal",
        post_with("Content-Length: 010", "hello, you"),
        Want::Either(&[400], forwarded_post("Content-Length: 10", "hello, you")),
    ));
    cases.push(case(
        15,
        "a zero length stays a length",
        post_with("Content-Length: 0", ""),
        Want::Forwarded(forwarded_post("Content-Length: 0", "")),
    ));
    judge(&cases);
}

/// Rows 16 to 19.
#[test]
fn rejects_codings_other_than_one_final_chunked() {
    let good = || forwarded_post("Transfer-Encoding: chunked", "hello");
    let with = |line: &str| post_with(line, HELLO_CHUNKED);
    let unknown = Want::Refused(&[400, 501]);
    let http10 =
        "POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let http10_kept = http10.replace("\r\nTransfer", "\r\nConnection: keep-alive\r\nTransfer");
    let mut cases = vec![
        case(16, "chunked in HTTP/1.0", http10, BAD_REQUEST),
        case(16, "chunked in a kept HTTP/1.0 connection", http10_kept, BAD_REQUEST),
    ];
    for value in [
        "chunked, gzip",
        "xchunked",
        "identity",
        "gzip",
        "gzip, chunked",
        "chunkedx",
        "chunked chunked",
        "cow",
    ] {
        cases.push(case(
            17,
            format!("`{value}`"),
            with(&format!("Transfer-Encoding: {value}")),
            unknown.clone(),
        ));
    }
    cases.push(case(17, "empty", with("Transfer-Encoding:"), unknown.clone()));
    for value in ["chunked, chunked", "chunked;q=1", "chunked;", "chunked ; a=b"] {
        cases.push(case(
            18,
            format!("`{value}`"),
            with(&format!("Transfer-Encoding: {value}")),
            unknown.clone(),
        ));
    }
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding:";
    cases.push(case(
        18,
        "two lines, chunked and chunked",
        with(&format!("{twice} chunked")),
        unknown.clone(),
    ));
    cases.push(case(
        18,
        "two lines, chunked and identity",
        with(&format!("{twice} identity")),
        unknown.clone(),
    ));
    cases.push(case(18, "two lines, chunked and nothing", with(twice), unknown.clone()));
    cases.push(case(
        18,
        "two lines, gzip and chunked",
        with("Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"),
        unknown,
    ));
    for value in [",chunked", "chunked,", ", chunked ,", ",,chunked"] {
        cases.push(case(
            19,
            format!("`{value}`"),
            with(&format!("Transfer-Encoding: {value}")),
            Want::Either(&[400, 501], good()),
        ));
    }
    judge(&cases);
}

/// Row 20.
#[test]
fn reads_chunked_in_any_case_and_no_other_spelling() {
    let good = || forwarded_post("Transfer-Encoding: chunked", "hello");
    let with = |line: &str| post_with(line, HELLO_CHUNKED);
    judge(&[
        case(20, "0x0b before chunked", with("Transfer-Encoding: \u{b}chunked"), BAD_REQUEST),
        case(20, "0x0c after chunked", with("Transfer-Encoding: chunked\u{c}"), BAD_REQUEST),
        case(20, "NUL after chunked", with("Transfer-Encoding: chunked\0"), BAD_REQUEST),
        case(20, "chunked in quotes", with("Transfer-Encoding: \"chunked\""), Want::Refused(&[400, 501])),
        case(20, "CHUNKED", with("Transfer-Encoding: CHUNKED"), Want::Forwarded(good())),
        case(20, "ChUnKeD", with("transfer-ENCODING: ChUnKeD"), Want::Forwarded(good())),
        case(20, "HTAB around chunked", with("Transfer-Encoding:\tchunked\t"), Want::Forwarded(good())),
        case(20, "chunked", chunked(HELLO_CHUNKED), Want::Forwarded(good())),
    ]);
}
