//! Chunked bodies: the same however they arrive, and the same payload that `httparse` finds chunk by chunk.

use crate::pieces::growths;
use weir_http::http1::ChunkedDecoder;
use weir_http::{ChunkedLimits, LenientChunks, Rule};

/// Payload, bytes taken, number of trailers, and whether the body has ended.
type DecodedBody = Result<(Vec<u8>, usize, usize, bool), Rule>;

fn decode(input: &[u8], growth: &[usize], limits: ChunkedLimits) -> DecodedBody {
    let mut decoder = ChunkedDecoder::new(limits);
    let (mut payload, mut taken) = (Vec::new(), 0);
    for &len in growth {
        let mut buf = input[taken..len].to_vec();
        let decoded = decoder.decode(&mut buf)?;
        payload.extend_from_slice(&buf[decoded.data]);
        taken += decoded.consumed;
        if decoded.done {
            break;
        }
        assert_eq!(taken, len);
    }
    Ok((payload, taken, decoder.trailers().count(), decoder.is_done()))
}

/// The payload and length of the body at the start of `input`, with `httparse` for sizes and trailers.
fn reference(input: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut payload, mut at) = (Vec::new(), 0);
    loop {
        let httparse::Status::Complete((len, size)) = httparse::parse_chunk_size(&input[at..]).ok()? else {
            return None;
        };
        at += len;
        if size == 0 {
            break;
        }
        let end = at.checked_add(usize::try_from(size).ok()?)?;
        payload.extend_from_slice(input.get(at..end)?);
        at = end + input[end..].strip_prefix(b"\r\n").map(|_| 2)?;
    }
    let mut headers = [httparse::EMPTY_HEADER; 64];
    match httparse::parse_headers(&input[at..], &mut headers).ok()? {
        httparse::Status::Complete((len, _)) => Some((payload, at + len)),
        httparse::Status::Partial => None,
    }
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    let small = ChunkedLimits {
        extension_bytes_max: 8,
        trailer_bytes_max: 32,
        trailer_fields_max: 2,
        ..ChunkedLimits::default()
    };
    let lenient = LenientChunks { padded_size: true, empty_extension: true };
    for limits in [ChunkedLimits::default(), small, ChunkedLimits { lenient, ..ChunkedLimits::default() }] {
        let whole = decode(input, &[input.len()], limits);
        for growth in growths(input) {
            assert_eq!(decode(input, &growth, limits), whole);
        }
        if let Ok((payload, taken, _, true)) = whole {
            let found = reference(input);
            // `httparse` reads no more than 16 digits, zeros included.
            let may_be_refused = limits.lenient.padded_size && found.is_none();
            assert!(may_be_refused || found == Some((payload, taken)));
        }
    }
}
