//! Rows 42 and 43: responses that have no body whatever their fields say, and invalid responses.
//!
//! The origin's connection must never be used again after any of the bad ones: stray bytes of one response would be
//! the next client's answer.

use std::sync::Arc;

use super::{assert_none_is_wrong, row};
use crate::harness::{Client, End, Origin, Response, Weir, latin1, origin::ok};

/// What the origin does after it sent the bytes of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Stays,
    Closes,
}

/// What the client must get.
#[derive(Debug, Clone)]
enum Want {
    /// This response, whole, without body.
    Bodiless(u16),
    /// 502 with a reason, or whatever is named instead.
    BadGateway,
    /// 502 while no head went out yet; afterwards a body that does not end in order.
    CutOff,
    /// This status and body, and nothing that came after it.
    Whole(u16, &'static str),
}

struct Case {
    row: u8,
    variant: String,
    method: &'static str,
    response: Vec<u8>,
    after: After,
    want: Want,
    /// Whether the response is sound, so that the connection may serve the next request.
    reusable: bool,
    /// The lines of the head that the client must get, when they are judged.
    head: Option<&'static str>,
}

fn case(row: u8, variant: impl Into<String>, response: impl Into<Vec<u8>>, after: After, want: Want) -> Case {
    let (variant, response) = (variant.into(), response.into());
    Case { row, variant, method: "GET", response, after, want, reusable: false, head: None }
}

/// A response that has no body whatever its fields say, then bytes that no client may get.
const BODILESS: &[(&str, &str, &str, &str)] = &[
    ("HEAD", "200 OK", "Content-Length: 1000", ""),
    ("HEAD", "200 OK", "Transfer-Encoding: chunked", ""),
    ("HEAD", "200 OK", "Content-Length: 5", "hello"),
    ("HEAD", "200 OK", "Content-Length: 44", POISON),
    ("GET", "204 No Content", "Content-Length: 0", ""),
    ("GET", "204 No Content", "Content-Length: 5", ""),
    ("GET", "204 No Content", "Content-Length: 5", "hello"),
    ("GET", "204 No Content", "Transfer-Encoding: chunked", "0\r\n\r\n"),
    ("GET", "204 No Content", "X: y", POISON),
    ("GET", "304 Not Modified", "Content-Length: 1000", ""),
    ("GET", "304 Not Modified", "Transfer-Encoding: chunked", ""),
    ("GET", "304 Not Modified", "Content-Length: 5", "hello"),
    ("GET", "304 Not Modified", "X: y", POISON),
];
const POISON: &str = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";

/// Row 42.
#[test]
fn sends_no_body_where_method_or_status_has_none() {
    let bodiless = |(method, status, field, stray): &(&'static str, &str, &str, &str)| {
        let response = format!("HTTP/1.1 {status}\r\n{field}\r\n\r\n{stray}");
        let want = Want::Bodiless(status[..3].parse().expect("a status has three digits"));
        let case = case(42, format!("{method} {status} with {field}"), response, After::Stays, want);
        Case { method, reusable: stray.is_empty(), ..case }
    };
    let mut cases: Vec<Case> = BODILESS.iter().map(bodiless).collect();
    let interim =
        "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let interim = case(42, "103 with a length", interim, After::Stays, Want::Whole(200, "ok"));
    cases.push(Case { reusable: true, ..interim });
    judge(cases);
}

/// Row 43.
#[test]
fn a_malformed_response_head_is_a_bad_gateway() {
    let after = |line: &str| format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let bad: Vec<(&'static str, Vec<u8>)> = vec![
        ("Content-Length and chunked", after("Content-Length: 15\r\nTransfer-Encoding: chunked").into()),
        ("chunked and Content-Length", after("Transfer-Encoding: chunked\r\nContent-Length: 15").into()),
        ("two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!".into()),
        ("a list of two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\nhello!".into()),
        ("a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello".into()),
        ("a negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello".into()),
        ("chunked, gzip", after("Transfer-Encoding: chunked, gzip").into()),
        ("an unknown coding", after("Transfer-Encoding: cow").into()),
        ("chunked twice", after("Transfer-Encoding: chunked, chunked").into()),
        ("status line ended by LF", "HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello".into()),
        ("every line ended by LF", "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello".into()),
        ("bare CR in a field", "HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 5\r\n\r\nhello".into()),
        ("NUL in a field", "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 5\r\n\r\nhello".into()),
        ("SP before the colon", "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello".into()),
        ("a field without colon", "HTTP/1.1 200 OK\r\nX\r\nContent-Length: 5\r\n\r\nhello".into()),
        (
            "a name with a byte over 0x7f",
            b"HTTP/1.1 200 OK\r\nX\xa0: y\r\nContent-Length: 5\r\n\r\nhello".into(),
        ),
        ("status of two digits", "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello".into()),
        ("status of four digits", "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello".into()),
        ("status 099", "HTTP/1.1 099 What\r\nContent-Length: 5\r\n\r\nhello".into()),
        ("no status", "HTTP/1.1 OK\r\nContent-Length: 5\r\n\r\nhello".into()),
        ("HTTP/2.0", "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello".into()),
        ("HTTP/9.9", "HTTP/9.9 200 OK\r\nContent-Length: 5\r\n\r\nhello".into()),
        ("another protocol", "SSH-2.0-OpenSSH_9.2\r\n\r\n".into()),
        ("HTTP/0.9", "<html>hello</html>\r\n\r\n".into()),
    ];
    judge(
        bad.into_iter()
            .map(|(variant, response)| case(43, variant, response, After::Stays, Want::BadGateway))
            .collect(),
    );
}

/// Row 43.
#[test]
fn a_response_that_ends_early_is_never_completed() {
    judge(vec![
        case(43, "closes without a byte", "", After::Closes, Want::BadGateway),
        case(43, "closes in the status line", "HTTP/1.1 2", After::Closes, Want::BadGateway),
        case(
            43,
            "closes in the head",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n",
            After::Closes,
            Want::BadGateway,
        ),
        case(
            43,
            "closes before the body",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            After::Closes,
            Want::CutOff,
        ),
        case(
            43,
            "closes in the body",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
            After::Closes,
            Want::CutOff,
        ),
        case(
            43,
            "no last chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            After::Closes,
            Want::CutOff,
        ),
        case(
            43,
            "closes in a chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            After::Closes,
            Want::CutOff,
        ),
        case(
            43,
            "closes in the last chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
            After::Closes,
            Want::CutOff,
        ),
        case(
            43,
            "closes after an interim response",
            "HTTP/1.1 103 Early Hints\r\n\r\n",
            After::Closes,
            Want::BadGateway,
        ),
    ]);
}

/// Row 43.
#[test]
fn a_malformed_response_body_is_never_completed() {
    let chunks = |body: &str| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
    // Head and body come in one piece, so Weir knows before any of it has left.
    let mut cases: Vec<Case> = vec![
        case(43, "chunk size 0x5", chunks("0x5\r\nhello\r\n0\r\n\r\n"), After::Stays, Want::BadGateway),
        case(43, "chunk size -1", chunks("-1\r\nhello\r\n0\r\n\r\n"), After::Stays, Want::BadGateway),
        case(
            43,
            "chunk size of 17 digits",
            chunks("10000000000000005\r\nhello\r\n0\r\n\r\n"),
            After::Stays,
            Want::BadGateway,
        ),
        case(
            43,
            "bad second chunk size",
            chunks("5\r\nhello\r\nzz\r\nhello\r\n0\r\n\r\n"),
            After::Stays,
            Want::BadGateway,
        ),
        case(43, "no CR LF after a chunk", chunks("5\r\nhello0\r\n\r\n"), After::Stays, Want::BadGateway),
        case(43, "LF after a chunk", chunks("5\r\nhello\n0\r\n\r\n"), After::Stays, Want::BadGateway),
        case(43, "chunk size ended by LF", chunks("5\nhello\r\n0\r\n\r\n"), After::Stays, Want::BadGateway),
        case(
            43,
            "trailer without colon",
            chunks("5\r\nhello\r\n0\r\nX\r\n\r\n"),
            After::Stays,
            Want::BadGateway,
        ),
    ];
    let length = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello{POISON}");
    cases.push(case(43, "a response after the length", length, After::Stays, Want::Whole(200, "hello")));
    let last_chunk = chunks(&format!("5\r\nhello\r\n0\r\n\r\n{POISON}"));
    cases.push(case(
        43,
        "a response after the last chunk",
        last_chunk,
        After::Stays,
        Want::Whole(200, "hello"),
    ));
    cases.push(case(
        43,
        "one byte after the length",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!",
        After::Stays,
        Want::Whole(200, "hello"),
    ));
    judge(cases);
}

/// What servers send by mistake, and what a client gets of it: the lines of the head that are judged, and the body.
const MENDED: &[(&str, &str, &str, &str)] = &[
    (
        "empty lines first",
        "\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK",
        "hello",
    ),
    ("status 999", "HTTP/1.1 999 What\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 999 What", "hello"),
    ("status 600", "HTTP/1.1 600 What\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 600 What", ""),
    (
        "a repeated length",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "Content-Length: 5",
        "hello",
    ),
    (
        "a list of equal lengths",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello",
        "Content-Length: 5",
        "hello",
    ),
    ("a padded length", "HTTP/1.1 200 OK\r\nContent-Length: 0005\r\n\r\nhello", "Content-Length: 5", "hello"),
    (
        "control bytes",
        "HTTP/1.1 200 O\x01K\r\nX: a\x1b\x7fb\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\nX: ab",
        "hello",
    ),
    (
        "SP behind chunk sizes",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5  \r\nhello\r\n0 \r\n\r\n",
        "Transfer-Encoding: chunked",
        "hello",
    ),
    (
        "a chunk size of 17 digits that is small",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000005\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked",
        "hello",
    ),
    (
        "empty chunk extensions",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0;\r\n\r\n",
        "Transfer-Encoding: chunked",
        "hello",
    ),
];

/// Row 43.
#[test]
fn what_has_one_meaning_is_written_anew() {
    let mended = |(variant, response, head, body): &(&'static str, &str, &'static str, &'static str)| {
        let status = if response.contains("999") {
            999
        } else if response.contains("600") {
            600
        } else {
            200
        };
        let case = case(43, *variant, *response, After::Stays, Want::Whole(status, body));
        Case { reusable: true, head: Some(head), ..case }
    };
    judge(MENDED.iter().map(mended).collect());
}

/// Row 43.
#[test]
fn what_has_one_meaning_is_refused_on_request() {
    let allow = "upstream.app.lenient = { empty_lines = false, high_status = false, control_bytes = false, \
        repeated_length = false, padded_length = false, padded_chunk_size = false, empty_chunk_extension = false }";
    let refused = |(variant, response, ..): &(&'static str, &str, &'static str, &'static str)| {
        case(43, *variant, *response, After::Stays, Want::BadGateway)
    };
    judge_with(allow, MENDED.iter().map(refused).collect());
}

/// Row 43.
#[test]
fn what_has_two_meanings_is_taken_on_request() {
    let mended: &[(&str, &str, &str)] = &[
        ("LF", "HTTP/1.1 200 OK\nX: y\nContent-Length: 5\n\nhello", "HTTP/1.1 200 OK\nX: y"),
        ("a fold", "HTTP/1.1 200 OK\r\nX: a\r\n\t b\r\nContent-Length: 5\r\n\r\nhello", "X: a b"),
        (
            "chunked twice",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked",
        ),
    ];
    let allow = "upstream.app.lenient = { bare_lf = true, obs_fold = true, repeated_chunked = true }";
    let mut cases: Vec<Case> = mended
        .iter()
        .map(|(variant, response, head)| {
            let case = case(43, *variant, *response, After::Stays, Want::Whole(200, "hello"));
            Case { reusable: true, head: Some(head), ..case }
        })
        .collect();
    let both =
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked, chunked\nContent-Length: 5\n\n5\r\nhello\r\n0\r\n\r\n";
    cases.push(case(43, "chunked twice and a length stay refused", both, After::Stays, Want::BadGateway));
    judge_with(allow, cases);
}

/// Row 43.
#[test]
fn more_headers_are_taken_on_request() {
    let many = || format!("HTTP/1.1 200 OK\r\n{}Content-Length: 5\r\n\r\nhello", "X: y\r\n".repeat(200));
    judge(vec![case(43, "201 headers", many(), After::Stays, Want::BadGateway)]);
    let whole = case(43, "201 headers", many(), After::Stays, Want::Whole(200, "hello"));
    judge_with("upstream.app.limits.headers = 300", vec![Case { reusable: true, ..whole }]);
}

fn judge(cases: Vec<Case>) {
    judge_with("", cases);
}

fn judge_with(setting: &str, cases: Vec<Case>) {
    let cases = Arc::new(cases);
    let scripts = Arc::clone(&cases);
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let Some(index) = request.target().strip_prefix("/case/") else {
                conn.send(ok("clean"))?;
                continue;
            };
            let case = &scripts[index.parse::<usize>().expect("the target numbers the case")];
            conn.send(&case.response)?;
            if case.after == After::Closes {
                return Some(());
            }
        }
    });
    let weir = Weir::proxying_with(&origin, setting);
    let wrong: Vec<String> = cases
        .iter()
        .enumerate()
        .filter_map(|(index, case)| {
            let got = play(&weir, &origin, index, case).err()?;
            let sent = latin1(&case.response);
            Some(format!(
                "{}: {}\n  origin   {sent:?}, then {:?}\n  expected {:?}\n  got      {got}",
                row(case.row),
                case.variant,
                case.after,
                case.want
            ))
        })
        .collect();
    assert_none_is_wrong(cases.len(), &wrong);
}

fn play(weir: &Weir, origin: &Origin, index: usize, case: &Case) -> Result<(), String> {
    let mut client = Client::connect(weir.web());
    client.send(format!("{} /case/{index} HTTP/1.1\r\nHost: a.test\r\n\r\n", case.method));
    let mut outcome = client.try_response_to(case.method);
    while outcome.as_ref().is_ok_and(|response| response.status < 200) {
        outcome = client.try_response_to(case.method);
    }
    let bad_gateway = |status: u16, reason: Option<&str>| status == 502 && reason.is_some();
    match (&case.want, &outcome) {
        (Want::Bodiless(status), Ok(response)) if response.status == *status => {}
        (Want::Whole(status, body), Ok(response))
            if response.status == *status && response.text() == *body && has_head(case, response) => {}
        (Want::BadGateway | Want::CutOff, Ok(response))
            if bad_gateway(response.status, response.reason()) => {}
        (Want::CutOff, Err(End::Closed | End::Reset)) => {
            return clean(weir, origin, index, case);
        }
        _ => return Err(format!("{outcome:?}")),
    }
    // The client's own connection may go on, or end in order; it must never show a byte of another response.
    let sent = client.send_what_is_taken("GET /clean HTTP/1.1\r\nHost: a.test\r\n\r\n");
    match sent.and_then(|()| client.try_response_to("GET")) {
        Ok(response) if response.text() == "clean" => {}
        Err(End::Closed | End::Reset) => {}
        other => return Err(format!("the next request on the connection: {other:?}")),
    }
    clean(weir, origin, index, case)
}

/// Whether the client got the lines that are judged, and no other line of their names.
fn has_head(case: &Case, response: &Response) -> bool {
    case.head.unwrap_or_default().lines().all(|line| match line.split_once(": ") {
        Some((name, value)) => response.head.fields.all(name) == [value],
        None => response.head.start_line == line,
    })
}

/// After the case every client gets its own response, and the connection that misbehaved is not used again.
fn clean(weir: &Weir, origin: &Origin, index: usize, case: &Case) -> Result<(), String> {
    for _ in 0..4 {
        let response = Client::get(weir.web(), "/clean");
        if response.text() != "clean" {
            return Err(format!("another client was answered {response:?}"));
        }
    }
    let target = format!("/case/{index}");
    let requests = origin.requests();
    let at =
        requests.iter().rposition(|r| r.target() == target).ok_or("the case never reached the origin")?;
    let bad = requests[at].connection;
    let reused = requests[at + 1..].iter().any(|r| r.connection == bad);
    if reused && !case.reusable {
        return Err("the connection that misbehaved was used again".to_owned());
    }
    Ok(())
}
