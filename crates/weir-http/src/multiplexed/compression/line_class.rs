//! What a decoded line is, and whether its name and its value may occur in HTTP/2 at all (RFC 9113 section 8.2).
//!
//! Found once, on the way into the table of the decoder or straight into a head. Whether the message may have such a field where it is,
//! and what that means, is decided by the reader of the head.

use super::{ENTRY_OVERHEAD_BYTES, LINE_OVERHEAD_BYTES};
use crate::bytes::{is_space, is_token, is_token_byte, target_run, value_run};
use crate::message::method::METHOD_BYTES_MAX;
use crate::message::name::FieldName;
use crate::message::rule::Rule;

/// The name of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineName {
    /// `:method`
    Method,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `:path`
    Path,
    /// `:protocol` (RFC 8441)
    Protocol,
    /// `:status`
    Status,
    /// Any name without a colon before it.
    Field(FieldName),
}

/// The class of a line, two bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LineClass {
    pub(crate) name: LineName,
    /// The rule that name or value break, wherever the line occurs.
    pub(crate) broken: Option<Rule>,
}

/// What a line counts in a table and against the limits of a head (RFC 7541 section 4.1, RFC 9113 section 10.5.1).
#[inline(always)]
pub(crate) const fn counted_bytes(line_len: usize) -> usize {
    line_len - LINE_OVERHEAD_BYTES + ENTRY_OVERHEAD_BYTES
}

impl LineClass {
    /// The class of a line whose name has this length.
    #[inline(always)]
    pub(crate) fn new(line: &[u8], name_len: usize) -> LineClass {
        match classify_name(line, name_len) {
            Ok(name) => LineClass { name, broken: None }.with_value(line, name_len),
            Err(rule) => LineClass { name: LineName::Field(FieldName::Other), broken: Some(rule) },
        }
    }

    /// The class of a line with the same name as a valid one of this class, and another value.
    #[inline]
    pub(crate) fn with_value(self, line: &[u8], name_len: usize) -> LineClass {
        let value = &line[name_len + 2..line.len() - 2];
        LineClass { name: self.name, broken: check_value(self.name, value).err() }
    }
}

fn classify_name(line: &[u8], name_len: usize) -> Result<LineName, Rule> {
    let name = &line[..name_len];
    match FieldName::recognise_start(line) {
        Some((known, len)) if len == name_len => {
            if name.iter().any(u8::is_ascii_uppercase) {
                return Err(Rule::UpperCaseFieldName);
            }
            Ok(LineName::Field(known))
        }
        _ => classify_other_name(name),
    }
}

/// Whether it is a pseudo-field, or an unknown name that is a token in lower case.
fn classify_other_name(name: &[u8]) -> Result<LineName, Rule> {
    match name {
        [] => return Err(Rule::EmptyFieldName),
        b":method" => return Ok(LineName::Method),
        b":scheme" => return Ok(LineName::Scheme),
        b":authority" => return Ok(LineName::Authority),
        b":path" => return Ok(LineName::Path),
        b":protocol" => return Ok(LineName::Protocol),
        b":status" => return Ok(LineName::Status),
        [b':', ..] => return Err(Rule::UnknownPseudoField),
        _ => {}
    }
    let mut has_underscores = false;
    for &byte in name {
        if byte.is_ascii_uppercase() {
            return Err(Rule::UpperCaseFieldName);
        }
        if !is_token_byte(byte) {
            return Err(Rule::BadFieldName);
        }
        has_underscores |= byte == b'_';
    }
    Ok(LineName::Field(FieldName::of_other(name, has_underscores)))
}

fn check_value(name: LineName, value: &[u8]) -> Result<(), Rule> {
    check_value_bytes(value)?;
    match name {
        LineName::Field(known) => check_field(known, value),
        // Its grammar is checked with that of Host.
        LineName::Authority => Ok(()),
        LineName::Method if !is_token(value) => Err(Rule::BadMethod),
        LineName::Method if value.len() > METHOD_BYTES_MAX => Err(Rule::MethodTooLong),
        LineName::Path if value.is_empty() || target_run(value) < value.len() => Err(Rule::BadTarget),
        LineName::Scheme if !is_http_scheme(value) => Err(Rule::BadScheme),
        LineName::Protocol if !is_token(value) => Err(Rule::BadProtocol),
        LineName::Status if !is_status(value) => Err(Rule::BadStatus),
        _ => Ok(()),
    }
}

/// Checks the bytes of a value: those that HTTP/1 can carry, and no white space around them.
fn check_value_bytes(value: &[u8]) -> Result<(), Rule> {
    match value.get(value_run(value)) {
        None => {}
        Some(b'\r') => return Err(Rule::BareCr),
        Some(b'\n') => return Err(Rule::BareLf),
        Some(0) => return Err(Rule::NulByte),
        Some(_) => return Err(Rule::ControlByte),
    }
    match value {
        [first, .., last] if is_space(*first) || is_space(*last) => Err(Rule::EdgeSpace),
        [only] if is_space(*only) => Err(Rule::EdgeSpace),
        _ => Ok(()),
    }
}

/// Checks that a field is not one about a connection of HTTP/1 (RFC 9113 section 8.2.2).
fn check_field(known: FieldName, value: &[u8]) -> Result<(), Rule> {
    match known {
        _ if is_connection_field(known) => Err(Rule::ConnectionField),
        FieldName::Te if !value.eq_ignore_ascii_case(b"trailers") => Err(Rule::BadTe),
        _ => Ok(()),
    }
}

/// Whether a field is about a connection of HTTP/1, and must not occur in HTTP/2 (RFC 9113 section 8.2.2).
#[inline]
pub(crate) const fn is_connection_field(name: FieldName) -> bool {
    const SET: u64 = FieldName::Connection.bit()
        | FieldName::KeepAlive.bit()
        | FieldName::ProxyConnection.bit()
        | FieldName::TransferEncoding.bit()
        | FieldName::Upgrade.bit();
    SET & name.bit() != 0
}

fn is_http_scheme(value: &[u8]) -> bool {
    value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"http")
}

/// Whether a status has three digits; which ones, is the affair of the head.
fn is_status(value: &[u8]) -> bool {
    value.len() == 3 && value[0] != b'0' && value.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &[u8], value: &[u8]) -> LineClass {
        LineClass::new(&[name, b": ", value, b"\r\n"].concat(), name.len())
    }

    #[test]
    fn names_are_recognised() {
        let rows = [
            (":method", "GET", LineName::Method),
            (":scheme", "https", LineName::Scheme),
            (":authority", "a:1", LineName::Authority),
            (":path", "/a?b", LineName::Path),
            (":protocol", "websocket", LineName::Protocol),
            (":status", "200", LineName::Status),
            ("host", "a", LineName::Field(FieldName::Host)),
            ("te", "Trailers", LineName::Field(FieldName::Te)),
            ("x-a", "", LineName::Field(FieldName::Other)),
            ("content_length", "5", LineName::Field(FieldName::Underscored)),
            ("my_field", "a\tb \u{e9}", LineName::Field(FieldName::Other)),
            ("a-name-that-is-longer-than-all-known-ones", "1", LineName::Field(FieldName::Other)),
        ];
        for (name, value, expected) in rows {
            assert_eq!(class(name.as_bytes(), value.as_bytes()), LineClass { name: expected, broken: None });
        }
        assert_eq!(size_of::<LineClass>(), 2);
    }

    #[test]
    fn names_and_values_that_occur_nowhere() {
        let rows: &[(&[u8], &[u8], Rule)] = &[
            (b"", b"1", Rule::EmptyFieldName),
            (b"Host", b"a", Rule::UpperCaseFieldName),
            (b"x-Foo", b"a", Rule::UpperCaseFieldName),
            (b"x foo", b"a", Rule::BadFieldName),
            (b"x\r\ny", b"a", Rule::BadFieldName),
            (b"x\0", b"a", Rule::BadFieldName),
            (b"host:", b"a", Rule::BadFieldName),
            (b"host: a\r\nx", b"a", Rule::BadFieldName),
            (b"x\xe9", b"a", Rule::BadFieldName),
            (b":", b"a", Rule::UnknownPseudoField),
            (b":Path", b"/", Rule::UnknownPseudoField),
            (b":path:", b"/", Rule::UnknownPseudoField),
            (b"x", b"a\r", Rule::BareCr),
            (b"x", b"a\r\nb: c", Rule::BareCr),
            (b"x", b"a\nb", Rule::BareLf),
            (b"x", b"\0", Rule::NulByte),
            (b"x", b"\x7f", Rule::ControlByte),
            (b"x", b" a", Rule::EdgeSpace),
            (b"x", b"a\t", Rule::EdgeSpace),
            (b"x", b" ", Rule::EdgeSpace),
            (b"connection", b"close", Rule::ConnectionField),
            (b"keep-alive", b"timeout=1", Rule::ConnectionField),
            (b"proxy-connection", b"close", Rule::ConnectionField),
            (b"transfer-encoding", b"chunked", Rule::ConnectionField),
            (b"upgrade", b"h2c", Rule::ConnectionField),
            (b"te", b"trailers, deflate", Rule::BadTe),
            (b"te", b"", Rule::BadTe),
            (b":method", b"G T", Rule::BadMethod),
            (b":method", b"", Rule::BadMethod),
            (b":method", b"AVERYLONGMETHODTHATISNOTREGISTERED", Rule::MethodTooLong),
            (b":scheme", b"ftp", Rule::BadScheme),
            (b":scheme", b"", Rule::BadScheme),
            (b":path", b"", Rule::BadTarget),
            (b":path", b"/a b", Rule::BadTarget),
            (b":path", b"/a#b", Rule::BadTarget),
            (b":path", b"/\xe9", Rule::BadTarget),
            (b":path", b"/ HTTP/1.1\r\nx: y", Rule::BareCr),
            (b":protocol", b"web socket", Rule::BadProtocol),
            (b":status", b"20", Rule::BadStatus),
            (b":status", b"2000", Rule::BadStatus),
            (b":status", b"2x0", Rule::BadStatus),
            (b":status", b"099", Rule::BadStatus),
            (b":authority", b"a\0", Rule::NulByte),
        ];
        for (name, value, rule) in rows {
            let text = String::from_utf8_lossy(name);
            assert_eq!(class(name, value).broken, Some(*rule), "{text:?}: {value:?}");
        }
    }
}
