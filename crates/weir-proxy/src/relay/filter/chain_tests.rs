//! Chains of filters: in every order, in pieces of every size, with trailers, and of bodies that are cut.

use std::collections::VecDeque;

use weir_http::http1::FieldLines;

use super::tests::{Pieces, Slow, coding, filter, text};
use super::*;
use crate::relay::Relay;
use crate::relay::filter::coding::FlushMode;
use crate::relay::filter::digest::RunningDigest;
use crate::relay::filter::grpc_web::GrpcWebResponse;
use std::task::Waker;
use weir_http::ContentCoding;

/// Filters that a chain is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Digest,
    Compress,
    Decompress,
}

impl Kind {
    fn filter(self) -> BodyFilter {
        match self {
            Kind::Digest => BodyFilter::Digest(RunningDigest::new()),
            Kind::Compress => coding(ContentCoding::Gzip, Some(3), FlushMode::Early, None),
            Kind::Decompress => coding(ContentCoding::Gzip, None, FlushMode::Late, None),
        }
    }
}

/// What a chain has made, and the digest of what it took.
type Outcome = (Result<Vec<u8>, RelayError>, Option<(u64, u128)>);

/// What comes out of a chain, the filter nearest the source first, and the digest of what it took.
fn run(chain: &[Kind], source: &mut Pieces) -> Outcome {
    let (mut relay, mut sink) = (Relay::new(), Slow { step: 1_000, ..Slow::default() });
    chain.iter().for_each(|kind| relay.add_filter(kind.filter()));
    relay.observe(Kind::Digest.filter());
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = relay.poll(&mut cx, source, &mut sink) {
            return (outcome.map(|()| sink.taken), relay.digest());
        }
    }
}

fn digest_of(body: &[u8]) -> (u64, u128) {
    let mut digest = RunningDigest::new();
    digest.add(body);
    digest.value()
}

fn pieces(body: &[u8], len: usize) -> Pieces {
    Pieces::new(body.chunks(len).map(<[u8]>::to_vec))
}

#[test]
fn every_order_of_filters_gives_what_they_give_one_after_the_other() {
    use Kind::{Compress, Decompress, Digest};
    let plain = text(3_000, 9);
    let packed = filter(Compress.filter(), &mut pieces(&plain, 500), 9_000).unwrap();
    for kinds in [
        [Digest, Compress, Decompress],
        [Compress, Digest, Decompress],
        [Compress, Decompress, Digest],
        [Digest, Decompress, Compress],
        [Decompress, Digest, Compress],
        [Decompress, Compress, Digest],
    ] {
        let packs_first = kinds.iter().find(|kind| **kind != Digest) == Some(&Compress);
        let body = if packs_first { &plain } else { &packed };
        for len in [1, 7, 100, 5_000] {
            let (made, digest) = run(&kinds, &mut pieces(body, len));
            let mut made = made.unwrap();
            if !packs_first {
                made = filter(Decompress.filter(), &mut pieces(&made, 9_000), 9_000).unwrap();
            }
            assert!(made == plain, "{kinds:?} in pieces of {len}");
            assert_eq!(digest, Some(digest_of(body)), "{kinds:?}: of the body as it came");
        }
    }
}

#[test]
fn what_was_taken_is_of_the_body_as_it_came() {
    let body = text(40_000, 3);
    let mut relay = Relay::new();
    relay.add_filter(Kind::Compress.filter());
    relay.observe(Kind::Digest.filter());
    let mut cx = Context::from_waker(Waker::noop());
    let (mut source, mut sink) = (pieces(&body, 8_000), Slow { step: 9_000, ..Slow::default() });
    while relay.poll(&mut cx, &mut source, &mut sink).is_pending() {}
    assert_eq!(relay.taken(), 40_000);
    assert!(relay.moved < 20_000 && relay.moved == sink.taken.len() as u64);
}

#[test]
fn the_strictest_filter_decides_about_trailers() {
    use Kind::{Compress, Digest};
    let lines = |chain: &[Kind]| {
        let mut source = pieces(b"text", 4);
        source.trailers = &[("Repr-Digest", "sha-256=:x:"), ("Server-Timing", "a")];
        let mut running = None;
        for kind in chain {
            running = Some(RunningFilter::behind(running, kind.filter()));
        }
        let filtered = Filtered { source: &mut source, running: running.as_deref_mut() };
        let mut lines = FieldLines(Vec::new());
        assert!(filtered.has_trailers());
        filtered.write_trailers(&mut lines);
        String::from_utf8(lines.0).unwrap()
    };
    assert_eq!(lines(&[Digest, Digest]), "Repr-Digest: sha-256=:x:\r\nServer-Timing: a\r\n");
    assert_eq!(lines(&[Digest, Compress]), "Server-Timing: a\r\n");
    assert_eq!(lines(&[Compress, Digest]), "Server-Timing: a\r\n");
}

/// A filter that puts trailers into the body has those that the filters before it leave.
#[test]
fn trailers_that_become_part_of_the_body_pass_the_filters_before() {
    let mut source = pieces(b"\0\0\0\0\x02hi", 1);
    source.trailers = &[("grpc-status", "0")];
    let mut relay = Relay::new();
    relay.add_filter(BodyFilter::GrpcWebResponse(GrpcWebResponse::new(false)));
    relay.observe(Kind::Digest.filter());
    let mut sink = Slow { step: 10, ..Slow::default() };
    let mut cx = Context::from_waker(Waker::noop());
    while relay.poll(&mut cx, &mut source, &mut sink).is_pending() {}
    assert_eq!(
        sink.taken.escape_ascii().to_string(),
        "\\x00\\x00\\x00\\x00\\x02hi\\x80\\x00\\x00\\x00\\x10grpc-status: 0\\r\\n"
    );
    assert!(!sink.has_trailers);
    assert_eq!(relay.digest(), Some(digest_of(b"\0\0\0\0\x02hi")));
}

#[test]
fn a_body_that_is_cut_is_an_error_wherever_the_decoder_stands() {
    use Kind::{Compress, Decompress, Digest};
    let whole = filter(Compress.filter(), &mut pieces(&text(5_000, 4), 500), 9_000).unwrap();
    for chain in [&[Decompress][..], &[Digest, Decompress], &[Decompress, Digest], &[Decompress, Compress]] {
        for len in [1, whole.len() / 2, whole.len() - 1] {
            let (outcome, _) = run(chain, &mut pieces(&whole[..len], 1));
            assert!(matches!(outcome, Err(RelayError::Broken(Rule::BrokenCoding))), "{chain:?} {len}");
        }
    }
    let mut cut = pieces(b"\0\0\0\0\x02h", 1);
    cut.to_come = VecDeque::from([b"\0\0\0\0\x02h".to_vec()]);
    let mut relay = Relay::new();
    relay.add_filter(BodyFilter::GrpcWebResponse(GrpcWebResponse::new(false)));
    relay.add_filter(Kind::Compress.filter());
    assert!(!relay.has_filter() || relay.may_end());
    let mut sink = Slow { step: 10, ..Slow::default() };
    let mut cx = Context::from_waker(Waker::noop());
    let outcome = loop {
        if let Poll::Ready(outcome) = relay.poll(&mut cx, &mut cut, &mut sink) {
            break outcome;
        }
    };
    assert!(matches!(outcome, Err(RelayError::Broken(Rule::GrpcMessageCut))), "{outcome:?}");
    assert!(!relay.may_end());
}
