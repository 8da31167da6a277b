//! Percent-encoding in targets and hosts (RFC 3986 section 2.1).
//!
//! The strict parser only asks whether every `%` is followed by two hexadecimal digits; nothing is ever decoded here,
//! so routing and forwarding use the same bytes.

/// Whether every `%` in `bytes` is followed by two hexadecimal digits.
pub(crate) fn is_well_formed(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        match &rest[at..] {
            [_, high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest = tail,
            _ => return false,
        }
    }
    true
}

/// Whether `bytes` holds an encoded NUL (`%00`).
pub(crate) fn has_encoded_nul(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, b"%00").is_some()
}
