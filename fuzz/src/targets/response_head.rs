//! Response heads: the same however they arrive, valid for `httparse` when valid for Weir, and strict after relaxing; written for a client, the same
//! response for `weir-wire`.

use crate::heads::{assert_same_fields, in_known_versions, limits};
use crate::pieces::growths;
use crate::written::{assert_response, end_to_end, passes, put_body};
use weir_http::http1::{HeadProgress, ParsedResponse, keep_alive_timeout, write};
use weir_http::{HeadLimits, Lenient, Method, Rule, Version};

fn parse(
    input: &[u8],
    growth: &[usize],
    limits: &HeadLimits,
) -> (ParsedResponse, Result<HeadProgress, Rule>) {
    let mut head = ParsedResponse::new();
    let mut progress = Ok(HeadProgress::Incomplete);
    for &len in growth {
        progress = head.parse(&input[..len], limits);
        if progress != Ok(HeadProgress::Incomplete) {
            break;
        }
    }
    (head, progress)
}

/// Fails unless the response, written for a client, reads as the same.
fn check_written(head: &ParsedResponse, text: &[u8]) {
    let mut out = Vec::new();
    write::status_line(&mut out, Version::Http11, head.status(), head.reason().of(text));
    for field in head.fields() {
        let (name, value) = (field.name.of(text), field.value.of(text));
        if passes(name) {
            write::field(&mut out, name, value);
        }
    }
    let is_whole = put_body(&mut out, head.framing(Method::Get));
    assert_response(&out, head.status(), &end_to_end(head.fields(), text), is_whole);
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    for limits in limits() {
        let (head, progress) = parse(input, &[input.len()], &limits);
        for growth in growths(input) {
            let (other, found) = parse(input, &growth, &limits);
            assert_eq!(found, progress);
            if let Ok(HeadProgress::Complete { .. }) = progress {
                assert_eq!(other.fields().as_slice(), head.fields().as_slice());
                assert_eq!(other.text(input), head.text(input));
                assert_eq!(other.framing(Method::Get), head.framing(Method::Get));
            }
        }
        let Ok(HeadProgress::Complete { len }) = progress else { continue };
        let text = head.text(&input[..len]);
        let (version, rest) = text.split_at("HTTP/1.1".len());
        let known = [&in_known_versions(version), rest].concat();
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut other = httparse::Response::new(&mut headers);
        assert_eq!(other.parse(&known), Ok(httparse::Status::Complete(text.len())));
        assert_eq!(other.code, Some(head.status()));
        assert_same_fields(text, head.fields(), other.headers);
        // A status code has no other form.
        let lenient = Lenient { high_status: limits.lenient.high_status, ..Lenient::default() };
        let generous = HeadLimits { head_bytes_max: usize::MAX, lenient, ..HeadLimits::default() };
        let (strict, progress) = parse(text, &[text.len()], &generous);
        assert_eq!(progress, Ok(HeadProgress::Complete { len: text.len() }));
        assert_eq!(strict.framing(Method::Get), head.framing(Method::Get));
        check_written(&head, text);
        _ = keep_alive_timeout(head.fields(), text);
    }
}
