//! What the fuzz targets share: cutting an input into pieces, the limits to parse it with, and a Weir to send it through.
//!
//! Cuts come from the input itself, so a crash repeats with its file alone and seeds stay readable messages.

pub mod session;

use weir_http::{Fields, HeadLimits, Lenient};

/// Inputs up to this length are also shown to a parser byte by byte, which costs the square of it.
const BYTEWISE_MAX: usize = 512;

/// How a parser sees `input` grow: lists of lengths, ascending, each ending with the whole.
pub fn growths(input: &[u8]) -> Vec<Vec<usize>> {
    let mut growths = vec![vec![input.len()]];
    if input.len() <= BYTEWISE_MAX {
        growths.push((0..=input.len()).collect());
    }
    let mut cuts = cuts(input);
    cuts.push(input.len());
    growths.push(cuts);
    growths
}

/// A few places in `input`, ascending, that depend on its bytes alone.
fn cuts(input: &[u8]) -> Vec<usize> {
    let mut state = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut cuts = Vec::new();
    for _ in 0..4 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cuts.push((state >> 33) as usize % (input.len() + 1));
    }
    cuts.sort_unstable();
    cuts
}

/// `input` in the pieces in which it is sent: every other input whole, the rest cut at a few places.
pub(crate) fn pieces(input: &[u8]) -> Vec<&[u8]> {
    let mut cuts = cuts(input);
    if cuts[0].is_multiple_of(2) {
        return vec![input];
    }
    cuts.push(input.len());
    let mut start = 0;
    cuts.iter().map(|&end| &input[std::mem::replace(&mut start, end)..end]).collect()
}

/// `input` with HTTP/1.1 for HTTP/1.2 and later, which mean the same (RFC 9110 section 2.5): `hyper` and `httparse` know neither.
pub fn in_known_versions(input: &[u8]) -> Vec<u8> {
    const START: &[u8] = b"HTTP/1.";
    let mut known = input.to_vec();
    for at in START.len()..known.len() {
        if matches!(known[at], b'2'..=b'9') && known[..at].ends_with(START) {
            known[at] = b'1';
        }
    }
    known
}

/// Limits to parse with: as by default, small enough to be met often, and with every rule relaxed.
pub fn limits() -> [HeadLimits; 3] {
    let small =
        HeadLimits { head_bytes_max: 100, target_bytes_max: 10, fields_max: 3, ..HeadLimits::default() };
    [HeadLimits::default(), small, HeadLimits { lenient: relaxed(), ..HeadLimits::default() }]
}

/// Every rule relaxed that can be.
pub fn relaxed() -> Lenient {
    Lenient {
        bare_lf: true,
        obs_fold: true,
        unencoded_target: true,
        unsafe_target: true,
        repeated_equal_length: true,
        padded_length: true,
        repeated_chunked: true,
        control_bytes: true,
        empty_lines: true,
        high_status: true,
    }
}

/// Fails unless `headers` are the same fields as `fields` in `text`.
pub fn assert_same_fields(text: &[u8], fields: &Fields, headers: &[httparse::Header<'_>]) {
    assert_eq!(fields.len(), headers.len());
    for (field, header) in fields.iter().zip(headers) {
        assert_eq!(field.name.of(text), header.name.as_bytes());
        assert_eq!(field.value.of(text), header.value);
    }
}
