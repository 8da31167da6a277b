//! Heads to header blocks: the pseudo-fields, then the fields in the order in which they are given.

use crate::h2::hpack::{BlockLines, HpackEncoder};
use crate::message::field_writer::{FieldRun, FieldWriter};
use crate::message::name::FieldName;
use crate::multiplexed::head::head_lines::HeadLines;
use crate::multiplexed::head::pseudo_fields::{RequestPseudoFields, status_digits};

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
    fields: HeadLines<BlockLines<'a>>,
}

impl<'a> HeadWriter<'a> {
    /// Appends the pseudo-fields of a request to `out`, and then its fields.
    pub fn request(
        encoder: &'a mut HpackEncoder,
        out: &'a mut Vec<u8>,
        request: &RequestPseudoFields<'_>,
    ) -> HeadWriter<'a> {
        let mut lines = BlockLines::begin(encoder, out);
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
        HeadWriter { fields: HeadLines::of_request(lines, request.authority) }
    }

    /// Appends the pseudo-field of a response to `out`, and then its fields. `status` has three digits.
    pub fn response(encoder: &'a mut HpackEncoder, out: &'a mut Vec<u8>, status: u16) -> HeadWriter<'a> {
        debug_assert!((100..=999).contains(&status));
        let mut lines = BlockLines::begin(encoder, out);
        match status {
            200 => lines.indexed(8),
            204 => lines.indexed(9),
            206 => lines.indexed(10),
            304 => lines.indexed(11),
            400 => lines.indexed(12),
            404 => lines.indexed(13),
            500 => lines.indexed(14),
            _ => lines.pseudo_field(b":status", 8, &status_digits(status)),
        }
        HeadWriter { fields: HeadLines::new(lines) }
    }

    /// Appends the fields of a trailer section to `out`.
    pub fn trailers(encoder: &'a mut HpackEncoder, out: &'a mut Vec<u8>) -> HeadWriter<'a> {
        HeadWriter { fields: HeadLines::new(BlockLines::begin(encoder, out)) }
    }

    /// Leaves fields of this name out when others are copied.
    pub fn leave_out(&mut self, name: FieldName) {
        self.fields.leave_out(name);
    }
}

impl FieldWriter for HeadWriter<'_> {
    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.fields.field(name, value);
    }

    #[inline]
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.fields.field_with(name, write);
    }

    #[inline]
    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.fields.field_unless_empty(name, write);
    }

    #[inline]
    fn decimal_field(&mut self, name: &[u8], value: u64) {
        self.fields.decimal_field(name, value);
    }

    #[inline]
    fn copy(&mut self, run: FieldRun<'_>) {
        self.fields.copy(run);
    }
}
