//! How the tests parse: every request in one piece, byte by byte, and with another request behind it. The outcome must
//! not differ.

use weir_http::http1::{HeadProgress, ParsedRequest};
use weir_http::{HeadLimits, Rule};

/// Parses `bytes` in one piece.
pub(crate) fn parse_whole(bytes: &[u8], limits: &HeadLimits) -> Result<(ParsedRequest, HeadProgress), Rule> {
    let mut head = ParsedRequest::new();
    head.parse(bytes, limits).map(|progress| (head, progress))
}

/// Parses `bytes` as they come in one by one.
pub(crate) fn parse_bytewise(
    bytes: &[u8],
    limits: &HeadLimits,
) -> Result<(ParsedRequest, HeadProgress), Rule> {
    let mut head = ParsedRequest::new();
    for len in 0..=bytes.len() {
        match head.parse(&bytes[..len], limits)? {
            HeadProgress::Incomplete => {}
            complete => return Ok((head, complete)),
        }
    }
    Ok((head, HeadProgress::Incomplete))
}

pub(crate) fn outcome(result: &Result<(ParsedRequest, HeadProgress), Rule>) -> Result<HeadProgress, Rule> {
    result.as_ref().map(|(_, progress)| *progress).map_err(|rule| *rule)
}

/// As much of `bytes` as a message should show.
fn start_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

/// Parses `bytes` in every way and gives the outcome they agree on.
pub(crate) fn parse(bytes: &[u8], limits: &HeadLimits) -> Result<(ParsedRequest, HeadProgress), Rule> {
    let whole = parse_whole(bytes, limits);
    assert_eq!(
        outcome(&whole),
        outcome(&parse_bytewise(bytes, limits)),
        "byte by byte: {:?}",
        start_of(bytes)
    );
    if outcome(&whole) != Ok(HeadProgress::Incomplete) {
        let more = [bytes, b"GET /next HTTP/1.1\r\nHost: next\r\n\r\n"].concat();
        assert_eq!(
            outcome(&whole),
            outcome(&parse_whole(&more, limits)),
            "with more behind: {:?}",
            start_of(bytes)
        );
    }
    whole
}

#[track_caller]
pub(crate) fn assert_refused(group: u32, bytes: &[u8], rule: Rule) {
    let result = parse(bytes, &HeadLimits::default());
    assert_eq!(outcome(&result), Err(rule), "group {group}: {:?}", start_of(bytes));
}

#[track_caller]
pub(crate) fn assert_accepted(group: u32, bytes: &[u8]) -> ParsedRequest {
    match parse(bytes, &HeadLimits::default()) {
        Ok((head, HeadProgress::Complete { len })) => {
            assert_eq!(len, bytes.len(), "group {group}");
            assert_eq!(head.len(), len, "group {group}");
            head
        }
        other => panic!("group {group}: {:?}: {:?}", start_of(bytes), outcome(&other)),
    }
}

/// A GET with the given field lines, each with its line end, besides Host.
pub(crate) fn get(lines: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

/// A POST with the given field lines.
pub(crate) fn post(lines: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").into_bytes()
}

/// A GET for the given target.
pub(crate) fn get_target(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes()
}
