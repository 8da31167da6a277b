//! Rows 21 to 26: chunk sizes, chunk extensions, chunk ends and trailers of a request.

use super::{BAD_BODY, Case, Want, case, chunked, forwarded_post, judge};
use crate::harness::{Client, Origin, Weir};

fn whole(body: &str) -> Want {
    Want::Forwarded(forwarded_post("Transfer-Encoding: chunked", body))
}

/// Row 21.
#[test]
fn rejects_chunk_sizes_that_are_not_plain_hexadecimal() {
    let bad = [
        "+5",
        "-1",
        "-5",
        "0x5",
        "0X5",
        "5_",
        "_5",
        "5_0",
        " 5",
        "5 ",
        "\t5",
        "5\t",
        "",
        "g",
        "5g",
        "5.",
        "5,",
        "\"5\"",
        "10000000000000005",
        "00000000000000005",
        "ffffffffffffffff",
        "fffffffffffffffb",
        "80000000000000005",
        "\u{b}5",
    ];
    let mut cases: Vec<Case> = bad
        .iter()
        .map(|size| {
            case(21, format!("size `{size}`"), chunked(format!("{size}\r\nhello\r\n0\r\n\r\n")), BAD_BODY)
        })
        .collect();
    cases.push(case(21, "NUL in the size", chunked("5\0\r\nhello\r\n0\r\n\r\n"), BAD_BODY));
    cases.push(case(21, "bad second size", chunked("5\r\nhello\r\n0x5\r\nhello\r\n0\r\n\r\n"), BAD_BODY));
    cases.push(case(21, "bad last size", chunked("5\r\nhello\r\n-0\r\n\r\n"), BAD_BODY));
    cases.push(case(21, "leading zeros are digits", chunked("0005\r\nhello\r\n000\r\n\r\n"), whole("hello")));
    cases.push(case(21, "upper-case digits", chunked("A\r\nhello, you\r\n0\r\n\r\n"), whole("hello, you")));
    judge(&cases);
}

/// Rows 22 and 23.
#[test]
fn drops_sound_chunk_extensions_and_rejects_others() {
    let after = |line: &str| chunked(format!("{line}hello\r\n0\r\n\r\n"));
    let mut cases = vec![
        case(22, "ext ended by LF", after("5;a=b\n"), BAD_BODY),
        case(22, "size ended by LF", after("5\n"), BAD_BODY),
        case(22, "LF inside ext", after("5;a\nb\r\n"), BAD_BODY),
        case(22, "CR inside ext", after("5;a\rb\r\n"), BAD_BODY),
        case(22, "LF inside a quoted ext", after("5;a=\"x\ny\"\r\n"), BAD_BODY),
        case(22, "CR LF inside a quoted ext", after("5;a=\"x\r\ny\"\r\n"), BAD_BODY),
        case(22, "NUL in ext", after("5;a\0b\r\n"), BAD_BODY),
        case(22, "last chunk ended by LF", chunked("5\r\nhello\r\n0\n\r\n"), BAD_BODY),
        case(22, "last chunk's ext ended by LF", chunked("5\r\nhello\r\n0;a\n\r\n"), BAD_BODY),
        case(23, "an empty ext", after("5;\r\n"), whole("hello")),
        case(23, "`;a=b`", after("5;a=b\r\n"), whole("hello")),
        case(23, "`;a`", after("5;a\r\n"), whole("hello")),
        case(23, "`;a=\"b; c\"`", after("5;a=\"b; c\"\r\n"), whole("hello")),
        case(23, "two exts", after("5;a=b;c=d\r\n"), whole("hello")),
        case(23, "ext of the last chunk", chunked("5\r\nhello\r\n0;a=b\r\n\r\n"), whole("hello")),
        case(23, "one ext of 64 KiB", after(&format!("5;a={}\r\n", "x".repeat(65536))), BAD_BODY),
    ];
    let chunk = format!("1;a={}\r\nx\r\n", "y".repeat(1024));
    let few = format!("{}0\r\n\r\n", chunk.repeat(2));
    let many = format!("{}0\r\n\r\n", chunk.repeat(64));
    cases.push(case(23, "2 chunks of one byte with 1 KiB of ext each", chunked(few), whole("xx")));
    cases.push(case(23, "64 chunks of one byte with 1 KiB of ext each", chunked(many), BAD_BODY));
    judge(&cases);
}

/// Row 24.
#[test]
fn rejects_chunks_that_do_not_end_where_they_say() {
    judge(&[
        case(24, "data longer than its size", chunked("3\r\nhello\r\n0\r\n\r\n"), BAD_BODY),
        case(24, "data shorter than its size", chunked("7\r\nhello\r\n0\r\n\r\n"), BAD_BODY),
        case(24, "no CR LF after the data", chunked("5\r\nhello0\r\n\r\n"), BAD_BODY),
        case(24, "LF alone after the data", chunked("5\r\nhello\n0\r\n\r\n"), BAD_BODY),
        case(24, "CR alone after the data", chunked("5\r\nhello\r0\r\n\r\n"), BAD_BODY),
        case(24, "two other bytes after the data", chunked("5\r\nhelloXX0\r\n\r\n"), BAD_BODY),
        case(
            24,
            "a request in place of the last chunk's end",
            chunked("0\r\nGET / HTTP/1.1\r\n\r\n"),
            BAD_BODY,
        ),
        case(24, "LF alone after the trailers", chunked("5\r\nhello\r\n0\r\nX: y\r\n\n"), BAD_BODY),
        case(24, "a trailer without colon", chunked("5\r\nhello\r\n0\r\nX y\r\n\r\n"), BAD_BODY),
        case(24, "a folded trailer", chunked("5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n"), BAD_BODY),
        case(24, "SP before a trailer's colon", chunked("5\r\nhello\r\n0\r\nX : y\r\n\r\n"), BAD_BODY),
    ]);
}

/// Rows 25 and 26.
#[test]
fn keeps_trailers_apart_from_fields_and_drops_dangerous_ones() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying(&origin);
    let send = |trailers: &str| {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\nConnection: TE\r\nTransfer-Encoding: chunked\r\n\r\n\
             5\r\nhello\r\n0\r\n{trailers}\r\n"
        );
        Client::exchange(weir.web(), &request)
    };

    assert_eq!(send("X-Sum: 1\r\n").status, 200, "row 25");
    let request = origin.last_request();
    assert_eq!(request.text(), "hello", "row 25");
    assert_eq!(request.fields().all("x-sum"), Vec::<&str>::new(), "row 25: a trailer never becomes a field");
    let trailers = request.body.trailers.all("x-sum");
    assert!(trailers.is_empty() || trailers == ["1"], "row 25: forwarded whole or dropped: {trailers:?}");

    let forbidden = [
        ("Content-Length", "99"),
        ("Transfer-Encoding", "gzip"),
        ("Host", "evil.test"),
        ("Authorization", "Basic eDp5"),
        ("Connection", "close"),
        ("X-Forwarded-For", "6.6.6.6"),
    ];
    for (name, value) in forbidden {
        let before = origin.requests().len();
        let response = send(&format!("{name}: {value}\r\n"));
        assert!(
            [200, 400].contains(&response.status),
            "row 26, trailer {name}: dropped or refused: {response:?}"
        );
        if response.status == 200 {
            let request = origin.last_request();
            assert_eq!(
                request.body.trailers.all(name),
                Vec::<&str>::new(),
                "row 26: the trailer {name} must go"
            );
            assert!(
                !request.fields().all(name).contains(&value),
                "row 26: the trailer {name} became a field"
            );
            assert_eq!(request.text(), "hello", "row 26, trailer {name}");
        } else {
            assert_eq!(origin.requests().len(), before, "row 26, trailer {name}: refused and yet forwarded");
        }
    }
}
