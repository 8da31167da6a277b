//! Filters between a source that comes in pieces and a sink that takes some bytes at a time.

use std::collections::VecDeque;
use std::task::Waker;

use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use weir_http::FieldWriter;

use super::*;
use crate::relay::Relay;
use crate::relay::ends::Sink;

/// A body of these pieces, with trailers.
struct Pieces {
    here: Vec<u8>,
    to_come: VecDeque<Vec<u8>>,
    trailers: &'static [(&'static str, &'static str)],
}

impl Pieces {
    fn new(pieces: impl IntoIterator<Item = Vec<u8>>) -> Self {
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
struct Slow {
    step: usize,
    taken: Vec<u8>,
    /// How much of the data that was accepted is still to be written.
    direct: usize,
    has_trailers: bool,
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
fn filter(filter: BodyFilter, source: &mut Pieces, step: usize) -> Result<Vec<u8>, RelayError> {
    let (mut relay, mut sink) = (Relay::new(), Slow { step, ..Slow::default() });
    relay.set_filter(filter);
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

proptest! {
    #[test]
    fn a_response_in_text_is_the_request_in_text_that_is_decoded(
        pieces in vec(vec(any::<u8>(), 1..20_000), 0..6),
        step in 1..9_000_usize,
    ) {
        let body = pieces.concat();
        let encoded = filter(BodyFilter::GrpcWebResponse(GrpcWebResponse::new(true)), &mut Pieces::new(pieces), step).unwrap();
        prop_assert!(encoded.len() >= body.len());
        let mut source = Pieces::new(encoded.chunks(step).map(<[u8]>::to_vec));
        let decoded = filter(BodyFilter::GrpcWebRequest(GrpcWebRequest::default()), &mut source, step).unwrap();
        prop_assert_eq!(decoded, body);
    }
}
