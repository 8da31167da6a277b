//! Heads: the limits to parse them with, and how they compare with those of other readers.

use weir_http::{Fields, HeadLimits, Lenient};

/// `input` with HTTP/1.1 for HTTP/1.2 and later, which mean the same (RFC 9110 section 2.5): `hyper` and `httparse` know neither.
pub(crate) fn in_known_versions(input: &[u8]) -> Vec<u8> {
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
pub(crate) fn limits() -> [HeadLimits; 3] {
    let small =
        HeadLimits { head_bytes_max: 100, target_bytes_max: 10, fields_max: 3, ..HeadLimits::default() };
    [HeadLimits::default(), small, HeadLimits { lenient: relaxed(), ..HeadLimits::default() }]
}

/// Every rule relaxed that can be.
pub(crate) fn relaxed() -> Lenient {
    Lenient {
        bare_lf: true,
        obs_fold: true,
        unencoded_target: true,
        unsafe_target: true,
        target_fragment: true,
        repeated_equal_length: true,
        padded_length: true,
        repeated_chunked: true,
        control_bytes: true,
        empty_lines: true,
        high_status: true,
    }
}

/// Fails unless `headers` are the same fields as `fields` in `text`.
pub(crate) fn assert_same_fields(text: &[u8], fields: &Fields, headers: &[httparse::Header<'_>]) {
    assert_eq!(fields.len(), headers.len());
    for (field, header) in fields.iter().zip(headers) {
        assert_eq!(field.name.of(text), header.name.as_bytes());
        assert_eq!(field.value.of(text), header.value);
    }
}
