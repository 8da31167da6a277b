//! Filters between a source that comes in pieces and a sink that takes some bytes at a time.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;

use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use tokio::runtime::{Builder, Runtime};
use weir_http::{ContentCoding, FieldWriter};
use weir_observe::{ShardSizes, WorkerShard};

use super::coding::FlushMode;
use super::*;
use crate::compression::{CodecStock, CompressionLimits};
use crate::net::clock;
use crate::net::timing::timers::Timers;
use crate::relay::Relay;
use crate::relay::ends::Sink;

/// A body of these pieces, with trailers.
pub(super) struct Pieces {
    here: Vec<u8>,
    pub(super) to_come: VecDeque<Vec<u8>>,
    pub(super) trailers: &'static [(&'static str, &'static str)],
}

impl Pieces {
    pub(super) fn new(pieces: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self { here: Vec::new(), to_come: pieces.into_iter().collect(), trailers: &[] }
    }
}

impl Source for Pieces {
    fn data(&self) -> &[u8] {
        &self.here
    }

    fn take(&mut self, len: usize) {
        self.here.drain(..len);
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        self.here.is_empty() && self.to_come.is_empty()
    }

    fn poll_read(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        self.here = self.to_come.pop_front().expect("the body has not ended");
        Poll::Ready(Ok(()))
    }

    fn has_trailers(&self) -> bool {
        !self.trailers.is_empty()
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        self.trailers.iter().for_each(|(name, value)| out.field(name.as_bytes(), value.as_bytes()));
    }
}

/// A sink that copies short data, and takes longer data by up to `step` bytes at each write.
#[derive(Default)]
pub(super) struct Slow {
    pub(super) step: usize,
    pub(super) taken: Vec<u8>,
    /// How much of the data that was accepted is still to be written.
    pub(super) direct: usize,
    pub(super) has_trailers: bool,
}

impl Sink for Slow {
    fn has_room(&self) -> bool {
        self.direct == 0
    }

    fn is_waiting(&self) -> bool {
        self.direct > 0
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if data.len() > 100 {
            self.direct = data.len();
            return 0;
        }
        self.taken.extend_from_slice(data);
        data.len()
    }

    fn finish(&mut self, source: &impl Source) {
        self.has_trailers = source.has_trailers();
    }

    fn poll_write(&mut self, _cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, RelayError>> {
        let len = self.direct.min(self.step);
        self.taken.extend_from_slice(&data[..len]);
        self.direct -= len;
        Poll::Ready(Ok(len))
    }
}

/// What comes out of the filter.
pub(super) fn filter(filter: BodyFilter, source: &mut Pieces, step: usize) -> Result<Vec<u8>, RelayError> {
    let (mut relay, mut sink) = (Relay::new(), Slow { step, ..Slow::default() });
    relay.add_filter(filter);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = relay.poll(&mut cx, source, &mut sink) {
            outcome?;
            assert!(relay.is_done() && !sink.has_trailers);
            assert_eq!(relay.moved, sink.taken.len() as u64);
            return Ok(sink.taken);
        }
    }
}

#[test]
fn a_response_gets_its_trailers_as_a_frame() {
    for (is_text, expected) in [
        (false, &b"\0\0\0\0\x02hi\x80\0\0\0\x10grpc-status: 0\r\n"[..]),
        (true, b"AAAAAAJoaQ==gAAAABBncnBjLXN0YXR1czogMA0K"),
    ] {
        let mut source = Pieces::new([b"\0\0\0\0\x02hi".to_vec()]);
        source.trailers = &[("Grpc-Status", "0")];
        let made =
            filter(BodyFilter::GrpcWebResponse(GrpcWebResponse::new(is_text)), &mut source, 10).unwrap();
        assert_eq!(made, expected, "{}", made.escape_ascii());
    }
}

#[test]
fn a_text_that_is_none_is_an_error() {
    for text in ["A", "AAA", "A=AA", "AAAA!", "AAAA A"] {
        let request = BodyFilter::GrpcWebRequest(GrpcWebRequest::default());
        let outcome = filter(request, &mut Pieces::new([text.as_bytes().to_vec()]), 10);
        assert!(matches!(outcome, Err(RelayError::Broken(Rule::GrpcWebText))), "{text}: {outcome:?}");
    }
}

/// A frame of trailers would be taken for bytes of the message.
#[test]
fn a_response_that_ends_inside_a_message_is_an_error() {
    for is_text in [false, true] {
        for (body, may_end) in [
            (&b""[..], true),
            (b"\0", false),
            (b"\0\0\0\0\x02h", false),
            (b"\0\0\0\0\x02hi", true),
            (b"\0\0\0\0\x02hi\x01\0", false),
            (b"no message", false),
        ] {
            let mut source = Pieces::new(body.chunks(1).map(<[u8]>::to_vec));
            source.trailers = &[("grpc-status", "0")];
            let response = BodyFilter::GrpcWebResponse(GrpcWebResponse::new(is_text));
            let outcome = filter(response, &mut source, 10);
            match may_end {
                true => assert!(outcome.is_ok(), "{}: {outcome:?}", body.escape_ascii()),
                false => {
                    assert!(matches!(outcome, Err(RelayError::Broken(Rule::GrpcMessageCut))), "{outcome:?}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn a_response_in_text_is_the_request_in_text_that_is_decoded(
        pieces in vec(vec(any::<u8>(), 1..20_000), 0..6),
        step in 1..9_000_usize,
    ) {
        let message = |piece: Vec<u8>| [&[0][..], &(piece.len() as u32).to_be_bytes(), &piece].concat();
        let pieces: Vec<Vec<u8>> = pieces.into_iter().map(message).collect();
        let body = pieces.concat();
        let encoded = filter(BodyFilter::GrpcWebResponse(GrpcWebResponse::new(true)), &mut Pieces::new(pieces), step).unwrap();
        prop_assert!(encoded.len() >= body.len());
        let mut source = Pieces::new(encoded.chunks(step).map(<[u8]>::to_vec));
        let decoded = filter(BodyFilter::GrpcWebRequest(GrpcWebRequest::default()), &mut source, step).unwrap();
        prop_assert_eq!(decoded, body);
    }
}

/// A codec as an exchange gets it.
pub(super) fn coding(
    coding: ContentCoding,
    level: Option<u32>,
    mode: FlushMode,
    length: Option<u64>,
) -> BodyFilter {
    let limits = CompressionLimits { time: 100, codecs_max: 10 };
    let stock = STOCK.with(Rc::clone);
    let lease = match level {
        Some(level) => stock.encoder(coding, level, length, limits, clock::now()),
        None => stock.decoder(coding, limits),
    };
    BodyFilter::Coding(CodingFilter::new(lease.unwrap(), mode, &TIMERS.with(Rc::clone), clock::now()))
}

thread_local! {
    /// One for all tests of a thread, so that codecs are used again.
    static STOCK: Rc<CodecStock> = {
        let shard = Arc::new(WorkerShard::new(ShardSizes { listeners: 0, servers: &[] }));
        CodecStock::new(&shard)
    };
    static RUNTIME: Runtime = Builder::new_current_thread().enable_io().build().unwrap();
    static TIMERS: Rc<Timers> = RUNTIME.with(|runtime| {
        let _inside = runtime.enter();
        Timers::new().unwrap()
    });
}

/// Text that repeats itself now and then, so that it shrinks.
pub(super) fn text(len: usize, seed: u64) -> Vec<u8> {
    let mut bits = seed | 1;
    let mut text = Vec::new();
    while text.len() < len {
        bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        text.extend_from_slice(format!("line {} of {}\n", bits >> 52, bits >> 61).as_bytes());
    }
    text.truncate(len);
    text
}

#[test]
fn a_body_is_compressed_at_every_level_and_comes_back() {
    let body = text(300_000, 5);
    for (kind, levels) in
        [(ContentCoding::Gzip, 0..=9), (ContentCoding::Brotli, 0..=6), (ContentCoding::Zstd, 0..=9)]
    {
        for level in levels {
            let length = (level % 2 == 0).then_some(body.len() as u64);
            let encoder = coding(kind, Some(level), FlushMode::Late, length);
            let made =
                filter(encoder, &mut Pieces::new(body.chunks(16_384).map(<[u8]>::to_vec)), 9_000).unwrap();
            assert!(made.len() < body.len() / 2, "{kind:?} {level}: {}", made.len());
            let decoder = coding(kind, None, FlushMode::Late, None);
            let back =
                filter(decoder, &mut Pieces::new(made.chunks(1_000).map(<[u8]>::to_vec)), 9_000).unwrap();
            assert!(back == body, "{kind:?} {level}");
        }
    }
}

#[test]
fn an_empty_body_comes_back_empty() {
    for kind in ContentCoding::ALL {
        let made = filter(coding(kind, Some(1), FlushMode::Late, None), &mut Pieces::new([]), 10).unwrap();
        assert!(!made.is_empty(), "{kind:?}");
        let back = filter(coding(kind, None, FlushMode::Late, None), &mut Pieces::new([made]), 10).unwrap();
        assert_eq!(back, b"", "{kind:?}");
        // What some servers send for it.
        assert_eq!(filter(coding(kind, None, FlushMode::Late, None), &mut Pieces::new([]), 10).unwrap(), b"");
    }
}

#[test]
fn what_is_broken_or_cut_is_an_error() {
    let body = text(50_000, 7);
    for kind in ContentCoding::ALL {
        let encode = || {
            filter(coding(kind, Some(4), FlushMode::Late, None), &mut Pieces::new([body.clone()]), 9_000)
                .unwrap()
        };
        let decode = |bytes: Vec<u8>| {
            filter(coding(kind, None, FlushMode::Late, None), &mut Pieces::new([bytes]), 9_000)
        };
        let whole = encode();
        assert_eq!(whole, encode(), "an encoder that is used again makes the same");
        for len in [1, 5, whole.len() / 2, whole.len() - 1] {
            let outcome = decode(whole[..len].to_vec());
            assert!(
                matches!(outcome, Err(RelayError::Broken(Rule::BrokenCoding))),
                "{kind:?} {len}: {outcome:?}"
            );
        }
        let garbage = [&whole[..], b"\0garbage behind it"].concat();
        assert!(decode(garbage).is_err(), "{kind:?}");
        assert!(decode(b"<html>not encoded at all</html>".to_vec()).is_err(), "{kind:?}");
    }
    let mut wrong =
        filter(coding(ContentCoding::Gzip, Some(1), FlushMode::Late, None), &mut Pieces::new([body]), 9_000)
            .unwrap();
    let at = wrong.len() - 6;
    wrong[at] ^= 1;
    let outcome =
        filter(coding(ContentCoding::Gzip, None, FlushMode::Late, None), &mut Pieces::new([wrong]), 9_000);
    assert!(outcome.is_err(), "the checksum is compared");
}

#[test]
fn members_in_a_row_are_one_body() {
    for kind in [ContentCoding::Gzip, ContentCoding::Zstd] {
        let part = |text: &str| {
            filter(
                coding(kind, Some(1), FlushMode::Late, None),
                &mut Pieces::new([text.as_bytes().to_vec()]),
                10,
            )
            .unwrap()
        };
        let whole = [part("one, "), part("two")].concat();
        let back = filter(coding(kind, None, FlushMode::Late, None), &mut Pieces::new([whole]), 10).unwrap();
        assert_eq!(back, b"one, two", "{kind:?}");
    }
}

#[test]
fn trailers_pass_but_for_what_held_for_another_body() {
    let mut source = Pieces::new([b"text".to_vec()]);
    source.trailers = &[("Repr-Digest", "sha-256=:x:"), ("Server-Timing", "a"), ("ETag", "\"1\"")];
    let BodyFilter::Coding(filter) = coding(ContentCoding::Gzip, Some(1), FlushMode::Late, None) else {
        unreachable!("it is a codec")
    };
    let mut running = RunningFilter::behind(None, BodyFilter::Coding(filter));
    let filtered = Filtered { source: &mut source, running: Some(&mut running) };
    let mut lines = weir_http::http1::FieldLines(Vec::new());
    assert!(filtered.has_trailers());
    filtered.write_trailers(&mut lines);
    assert_eq!(lines.0.escape_ascii().to_string(), "Server-Timing: a\\r\\n");
}

#[test]
fn a_step_makes_no_more_than_a_piece_of_what_grows() {
    // A megabyte of zeros is a kilobyte.
    for kind in ContentCoding::ALL {
        let encoder = coding(kind, Some(6), FlushMode::Late, None);
        let made = filter(encoder, &mut Pieces::new([vec![0; 1 << 20]]), 9_000).unwrap();
        assert!(made.len() < 2_000);
        let mut running = RunningFilter::behind(None, coding(kind, None, FlushMode::Late, None));
        let mut source = Pieces::new([]);
        source.here = made;
        let mut filtered = Filtered { source: &mut source, running: Some(&mut running) };
        let mut total = 0;
        while !filtered.is_finished() {
            filtered.decode().unwrap();
            let len = filtered.data().len();
            assert!(len <= 16_384 && (len > 0 || filtered.is_finished()), "{kind:?} {len}");
            filtered.take(len);
            total += len;
        }
        assert_eq!(total, 1 << 20, "{kind:?}");
    }
}

#[test]
fn a_piece_of_a_stream_of_events_can_be_decoded_as_soon_as_it_is_here() {
    for kind in ContentCoding::ALL {
        let mut encoder = RunningFilter::behind(None, coding(kind, Some(3), FlushMode::EachPiece, None));
        let mut decoder = RunningFilter::behind(None, coding(kind, None, FlushMode::Late, None));
        for event in ["data: 1\n\n", "data: 2\n\n", "data: 2\n\n"] {
            let mut source = Pieces::new([b"more to come".to_vec()]);
            source.here = event.as_bytes().to_vec();
            let mut filtered = Filtered { source: &mut source, running: Some(&mut encoder) };
            filtered.decode().unwrap();
            let mut received = Pieces::new([b"more to come".to_vec()]);
            received.here = filtered.data().to_vec();
            filtered.take(received.here.len());
            let mut decoded = Filtered { source: &mut received, running: Some(&mut decoder) };
            decoded.decode().unwrap();
            assert_eq!(decoded.data(), event.as_bytes(), "{kind:?}");
            decoded.take(event.len());
        }
    }
}

proptest! {
    #[test]
    fn a_body_that_is_compressed_is_the_same_however_it_comes(
        kind in 0..ContentCoding::COUNT,
        level in 0..=6_u32,
        pieces in vec((any::<u64>(), 0..40_000_usize), 0..5),
        step in 1..20_000_usize,
        mode in 0..3_usize,
        is_known in any::<bool>(),
    ) {
        let kind = ContentCoding::ALL[kind];
        let pieces: Vec<_> = pieces.into_iter().map(|(seed, len)| text(len + 1, seed)).collect();
        let body = pieces.concat();
        let mode = [FlushMode::EachPiece, FlushMode::Early, FlushMode::Late][mode];
        let encoder = coding(kind, Some(level), mode, is_known.then_some(body.len() as u64));
        let made = filter(encoder, &mut Pieces::new(pieces), step).unwrap();
        let decoder = coding(kind, None, FlushMode::Late, None);
        let back = filter(decoder, &mut Pieces::new(made.chunks(step).map(<[u8]>::to_vec)), step).unwrap();
        prop_assert!(back == body);
    }

    #[test]
    fn bytes_of_any_kind_never_break_a_decoder(bytes in vec(any::<u8>(), 0..2_000), kind in 0..ContentCoding::COUNT) {
        let kind = ContentCoding::ALL[kind];
        let header: &[u8] = match kind {
            ContentCoding::Gzip => b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
            ContentCoding::Brotli => b"",
            ContentCoding::Zstd => b"\x28\xb5\x2f\xfd",
        };
        let source = [header, &bytes].concat();
        let _outcome = filter(coding(kind, None, FlushMode::Late, None), &mut Pieces::new([source]), 9_000);
    }
}
