//! Request heads: the same however they arrive, valid for `httparse` when valid for Weir, and strict after relaxing; written for a server, the same
//! request for `weir-wire`.

use crate::heads::{assert_same_fields, in_known_versions, limits};
use crate::pieces::growths;
use crate::written::{assert_request, end_to_end, passes, put_body};
use weir_http::http1::{HeadProgress, ParsedRequest, write};
use weir_http::{EncodedSlashRule, HeadLimits, Rule, Version, write_normal_path};

fn parse(input: &[u8], growth: &[usize], limits: &HeadLimits) -> (ParsedRequest, Result<HeadProgress, Rule>) {
    let mut head = ParsedRequest::new();
    let mut progress = Ok(HeadProgress::Incomplete);
    for &len in growth {
        progress = head.parse(&input[..len], limits);
        if progress != Ok(HeadProgress::Incomplete) {
            break;
        }
    }
    (head, progress)
}

/// Fails unless the request, written for a server, reads as the same.
fn check_written(head: &ParsedRequest, text: &[u8]) {
    let (method, target) = (head.method_span().of(text), head.target().of(text));
    let mut out = Vec::new();
    write::request_line(&mut out, method, target, Version::Http11);
    write::field(&mut out, b"Host", head.authority().of(text));
    for field in head.fields() {
        let (name, value) = (field.name.of(text), field.value.of(text));
        if passes(name) {
            write::field(&mut out, name, value);
        }
    }
    let is_whole = put_body(&mut out, head.body());
    assert_request(&out, (method, target), &end_to_end(head.fields(), text), is_whole);
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
                assert_eq!((other.body(), other.authority()), (head.body(), head.authority()));
            }
        }
        let Ok(HeadProgress::Complete { len }) = progress else { continue };
        let text = head.text(&input[..len]);
        let (method_and_target, rest) = text.split_at(head.target().end() + " ".len());
        let (version, rest) = rest.split_at("HTTP/1.1".len());
        let known = [method_and_target, &in_known_versions(version), rest].concat();
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut other = httparse::Request::new(&mut headers);
        assert_eq!(other.parse(&known), Ok(httparse::Status::Complete(text.len())));
        assert_eq!(other.method.map(str::as_bytes), Some(head.method_span().of(text)));
        assert_eq!(other.path.map(str::as_bytes), Some(head.target().of(text)));
        assert_same_fields(text, head.fields(), other.headers);
        let generous = HeadLimits { head_bytes_max: usize::MAX, ..HeadLimits::default() };
        let (strict, progress) = parse(text, &[text.len()], &generous);
        assert_eq!(progress, Ok(HeadProgress::Complete { len: text.len() }));
        assert_eq!((strict.body(), strict.host()), (head.body(), head.host()));
        assert_eq!(strict.normal_path(text), head.normal_path(text));
        let mut again = Vec::new();
        write_normal_path(&mut again, head.normal_path(text), EncodedSlashRule::Keep);
        assert_eq!(again, head.normal_path(text), "a normal form is its own");
        check_written(&head, text);
    }
}
