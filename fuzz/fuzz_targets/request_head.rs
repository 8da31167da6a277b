//! Request heads: the same however they arrive, valid for `httparse` when valid for Weir, and strict after relaxing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{assert_same_fields, growths, in_known_versions, limits};
use weir_http::http1::{HeadProgress, ParsedRequest};
use weir_http::{EncodedSlashRule, HeadLimits, Rule, write_normal_path};

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

fuzz_target!(|input: &[u8]| {
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
    }
});
