//! Response heads: the same however they arrive, valid for `httparse` when valid for Weir, and strict after relaxing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_fuzz::{assert_same_fields, growths, in_known_versions, limits};
use weir_http::http1::{HeadProgress, ParsedResponse, keep_alive_timeout};
use weir_http::{HeadLimits, Lenient, Method, Rule};

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

fuzz_target!(|input: &[u8]| {
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
        _ = keep_alive_timeout(head.fields(), text);
    }
});
