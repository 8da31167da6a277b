//! Whether a connection outlives a message, and for how long it may idle (RFC 9112 section 9.3).

use crate::bytes::elements;
use crate::message::field_values::connection::ConnectionOptions;
use crate::message::field_values::content_length::parse_length;
use crate::message::fields::Fields;
use crate::message::name::FieldName;
use crate::message::version::Version;

/// Whether the sender of a message keeps its connection open behind it (RFC 9112 section 9.3), provided that no body is
/// delimited by closing it.
#[inline]
pub fn keeps_alive(version: Version, options: ConnectionOptions) -> bool {
    !options.close() && (version == Version::Http11 || options.keep_alive())
}

/// Seconds for which the server says it keeps an idle connection: `Keep-Alive: timeout=N` (RFC 2068 section
/// 19.7.1.1). The smallest when there are several; malformed values and those above `u32::MAX` are ignored.
pub fn keep_alive_timeout(fields: &Fields, text: &[u8]) -> Option<u32> {
    let values = fields.all(FieldName::KeepAlive).map(|field| field.value.of(text));
    values.flat_map(elements).filter_map(parse_timeout).min()
}

/// The seconds of one `timeout=N` parameter.
fn parse_timeout(parameter: &[u8]) -> Option<u32> {
    let (name, value) = parameter.split_at_checked(8)?;
    if !name.eq_ignore_ascii_case(b"timeout=") {
        return None;
    }
    parse_length(value).and_then(|seconds| u32::try_from(seconds).ok())
}
