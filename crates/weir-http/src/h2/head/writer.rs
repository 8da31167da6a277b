//! Heads to header blocks: the pseudo-fields, then the fields in the order in which they are given.

use crate::digits::decimal;
use crate::h2::hpack::{HpackEncoder, LineEncoder};
use crate::message::field_set::FieldSet;
use crate::message::field_writer::{FieldRun, FieldWriter};
use crate::message::fields::Field;
use crate::message::name::FieldName;

/// The pseudo-fields of a request (RFC 9113 section 8.3.1).
#[derive(Debug, Clone, Copy)]
pub struct RequestPseudoFields<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The scheme; empty, and not sent, with a `CONNECT` that asks for no protocol.
    pub scheme: &'a [u8],
    /// `host[:port]`, which is sent in place of a Host field. Not sent when it is empty.
    pub authority: &'a [u8],
    /// Path and query, or `*`; empty, and not sent, with a `CONNECT` that asks for no protocol.
    pub path: &'a [u8],
    /// The protocol that an extended `CONNECT` asks for (RFC 8441).
    pub protocol: Option<&'a [u8]>,
}

/// Writes one head, or one trailer section, as a header block.
///
/// Names may be given in any mixture of upper and lower case. Fields about a connection of HTTP/1 are left out.
///
/// ```
/// use weir_http::FieldWriter;
/// use weir_http::h2::{HeadWriter, HpackEncoder};
///
/// let (mut encoder, mut block) = (HpackEncoder::default(), Vec::new());
/// let mut head = HeadWriter::response(&mut encoder, &mut block, 200);
/// head.field(b"Server", b"weir");
/// assert_eq!(block, b"\x88\x0f\x27\x04weir");
/// ```
#[derive(Debug)]
pub struct HeadWriter<'a> {
    lines: LineEncoder<'a>,
    /// Fields that are not copied.
    left_out: FieldSet,
}

impl<'a> HeadWriter<'a> {
    /// Appends the pseudo-fields of a request to `out`, and then its fields.
    pub fn request(
        encoder: &'a mut HpackEncoder,
        out: &'a mut Vec<u8>,
        request: &RequestPseudoFields<'_>,
    ) -> HeadWriter<'a> {
        let mut lines = LineEncoder::begin(encoder, out);
        match request.method {
            b"GET" => lines.indexed(2),
            b"POST" => lines.indexed(3),
            method => lines.pseudo_field(b":method", 2, method),
        }
        match request.scheme {
            b"" => {}
            b"http" => lines.indexed(6),
            b"https" => lines.indexed(7),
            scheme => lines.pseudo_field(b":scheme", 6, scheme),
        }
        if !request.authority.is_empty() {
            lines.pseudo_field(b":authority", 1, request.authority);
        }
        match request.path {
            b"" => {}
            b"/" => lines.indexed(4),
            b"/index.html" => lines.indexed(5),
            path => lines.pseudo_field(b":path", 4, path),
        }
        if let Some(protocol) = request.protocol {
            lines.pseudo_field(b":protocol", 0, protocol);
        }
        // A Host field says again what the authority says.
        let left_out = match request.authority {
            b"" => FieldSet::EMPTY,
            _ => FieldSet::new(&[FieldName::Host]),
        };
        HeadWriter { lines, left_out }
    }

    /// Appends the pseudo-field of a response to `out`, and then its fields. `status` has three digits.
    pub fn response(encoder: &'a mut HpackEncoder, out: &'a mut Vec<u8>, status: u16) -> HeadWriter<'a> {
        debug_assert!((100..=999).contains(&status));
        let mut lines = LineEncoder::begin(encoder, out);
        match status {
            200 => lines.indexed(8),
            204 => lines.indexed(9),
            206 => lines.indexed(10),
            304 => lines.indexed(11),
            400 => lines.indexed(12),
            404 => lines.indexed(13),
            500 => lines.indexed(14),
            _ => lines.pseudo_field(b":status", 8, &digits(status)),
        }
        HeadWriter { lines, left_out: FieldSet::EMPTY }
    }

    /// Appends the fields of a trailer section to `out`.
    pub fn trailers(encoder: &'a mut HpackEncoder, out: &'a mut Vec<u8>) -> HeadWriter<'a> {
        HeadWriter { lines: LineEncoder::begin(encoder, out), left_out: FieldSet::EMPTY }
    }

    /// Leaves fields of this name out when others are copied.
    pub fn leave_out(&mut self, name: FieldName) {
        self.left_out = self.left_out.with(FieldSet::new(&[name]));
    }

    /// Copies a field of another head.
    #[inline]
    fn copy_field(&mut self, text: &[u8], field: &Field) {
        if self.left_out.contains(field.known) {
            return;
        }
        let line = text.get(field.name.start as usize..field.value.end() + 2).unwrap_or_default();
        let name_len = field.name.len as usize;
        let is_plain = field.value.start as usize == field.name.end() + 2
            && line.ends_with(b"\r\n")
            && line[name_len..].starts_with(b": ");
        if is_plain {
            self.lines.field_line(line, name_len, field.known);
        } else {
            self.lines.field_with(field.name.of(text), |out| out.extend_from_slice(field.value.of(text)));
        }
    }

    #[inline]
    fn drops(&self, name: &[u8]) -> bool {
        self.left_out.contains(FieldName::Host) && name.eq_ignore_ascii_case(b"host")
    }
}

/// The digits of a number with three.
const fn digits(status: u16) -> [u8; 3] {
    [(status / 100) as u8 + b'0', (status / 10 % 10) as u8 + b'0', (status % 10) as u8 + b'0']
}

impl FieldWriter for HeadWriter<'_> {
    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        if !self.drops(name) {
            self.lines.field_with(name, |out| out.extend_from_slice(value));
        }
    }

    #[inline]
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if !self.drops(name) {
            self.lines.field_with(name, write);
        }
    }

    #[inline]
    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if !self.drops(name) {
            self.lines.field_unless_empty(name, write);
        }
    }

    #[inline]
    fn decimal_field(&mut self, name: &[u8], value: u64) {
        self.lines.field_with(name, |out| decimal(out, value));
    }

    #[inline]
    fn copy(&mut self, run: FieldRun<'_>) {
        for field in run.fields {
            self.copy_field(run.text, field);
        }
    }
}
