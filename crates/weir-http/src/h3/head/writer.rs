//! Heads to HEADERS frames: the pseudo-fields, then the fields in the order in which they are given.

use crate::h3::frame::frame_type;
use crate::h3::qpack::{QpackEncoder, SectionEncoder};
use crate::h3::varint::write_varint;
use crate::message::field_writer::{FieldRun, FieldWriter};
use crate::message::name::FieldName;
use crate::multiplexed::head::head_lines::HeadLines;
use crate::multiplexed::head::pseudo_fields::{RequestPseudoFields, status_digits};

/// Bytes of the header of the frame, for which room is left: the type, and a length of up to 16 383.
const HEAD_BYTES: usize = 3;

/// Writes one head, or one trailer section, as a HEADERS frame, which [`SectionWriter::finish`] completes.
///
/// Names may be given in any mixture of upper and lower case. Fields about a connection of HTTP/1 are left out.
///
/// ```
/// use weir_http::FieldWriter;
/// use weir_http::h3::{QpackEncoder, SectionWriter};
///
/// let (mut encoder, mut out) = (QpackEncoder::default(), Vec::new());
/// let mut head = SectionWriter::response(&mut encoder, 0, &mut out, 200);
/// head.field(b"Server", b"weir");
/// head.finish();
/// // HEADERS of ten bytes: nothing of the table is needed, `:status: 200`, the name `server` and a value.
/// assert_eq!(out, b"\x01\x40\x0a\x00\x00\xd9\x5f\x4d\x04weir");
/// ```
#[derive(Debug)]
#[must_use]
pub struct SectionWriter<'a> {
    fields: HeadLines<SectionEncoder<'a>>,
    /// Where the frame begins in the output.
    start: usize,
}

impl<'a> SectionWriter<'a> {
    /// Begins a frame in `out` for this stream.
    #[inline]
    fn begin(
        encoder: &'a mut QpackEncoder,
        stream: u64,
        out: &'a mut Vec<u8>,
    ) -> (usize, SectionEncoder<'a>) {
        let start = out.len();
        out.extend_from_slice(&[frame_type::HEADERS as u8, 0x40, 0]);
        (start, SectionEncoder::begin(encoder, stream, out))
    }

    /// Appends the pseudo-fields of a request on this stream to `out`, and then its fields.
    pub fn request(
        encoder: &'a mut QpackEncoder,
        stream: u64,
        out: &'a mut Vec<u8>,
        request: &RequestPseudoFields<'_>,
    ) -> SectionWriter<'a> {
        let (start, mut lines) = Self::begin(encoder, stream, out);
        match request.method {
            b"CONNECT" => lines.indexed(15),
            b"DELETE" => lines.indexed(16),
            b"GET" => lines.indexed(17),
            b"HEAD" => lines.indexed(18),
            b"OPTIONS" => lines.indexed(19),
            b"POST" => lines.indexed(20),
            b"PUT" => lines.indexed(21),
            method => lines.pseudo_field(b":method", Some(15), method),
        }
        match request.scheme {
            b"" => {}
            b"http" => lines.indexed(22),
            b"https" => lines.indexed(23),
            scheme => lines.pseudo_field(b":scheme", Some(22), scheme),
        }
        if !request.authority.is_empty() {
            lines.pseudo_field(b":authority", Some(0), request.authority);
        }
        match request.path {
            b"" => {}
            b"/" => lines.indexed(1),
            path => lines.pseudo_field(b":path", Some(1), path),
        }
        if let Some(protocol) = request.protocol {
            lines.pseudo_field(b":protocol", None, protocol);
        }
        SectionWriter { fields: HeadLines::of_request(lines, request.authority), start }
    }

    /// Appends the pseudo-field of a response on this stream to `out`, and then its fields. `status` has three digits.
    pub fn response(
        encoder: &'a mut QpackEncoder,
        stream: u64,
        out: &'a mut Vec<u8>,
        status: u16,
    ) -> SectionWriter<'a> {
        debug_assert!((100..=999).contains(&status));
        let (start, mut lines) = Self::begin(encoder, stream, out);
        match status {
            200 => lines.indexed(25),
            304 => lines.indexed(26),
            404 => lines.indexed(27),
            503 => lines.indexed(28),
            103 => lines.indexed(24),
            100 => lines.indexed(63),
            204 => lines.indexed(64),
            206 => lines.indexed(65),
            302 => lines.indexed(66),
            400 => lines.indexed(67),
            403 => lines.indexed(68),
            421 => lines.indexed(69),
            425 => lines.indexed(70),
            500 => lines.indexed(71),
            _ => lines.pseudo_field(b":status", Some(24), &status_digits(status)),
        }
        SectionWriter { fields: HeadLines::new(lines), start }
    }

    /// Appends the fields of a trailer section on this stream to `out`.
    pub fn trailers(encoder: &'a mut QpackEncoder, stream: u64, out: &'a mut Vec<u8>) -> SectionWriter<'a> {
        let (start, lines) = Self::begin(encoder, stream, out);
        SectionWriter { fields: HeadLines::new(lines), start }
    }

    /// Leaves fields of this name out when others are copied.
    pub fn leave_out(&mut self, name: FieldName) {
        self.fields.leave_out(name);
    }

    /// Completes the frame: without this it cannot be read.
    #[inline]
    pub fn finish(self) {
        let SectionWriter { fields, start } = self;
        let out = fields.lines.finish();
        let len = out.len() - start - HEAD_BYTES;
        match (u16::try_from(len), out.get_mut(start + 1..start + HEAD_BYTES)) {
            (Ok(short @ 0..0x4000), Some(room)) => room.copy_from_slice(&(short | 0x4000).to_be_bytes()),
            _ => lengthen(out, start, len as u64),
        }
    }
}

/// Makes room for a length of more than two bytes.
#[cold]
fn lengthen(out: &mut Vec<u8>, start: usize, len: u64) {
    let mut bytes = Vec::new();
    write_varint(&mut bytes, len);
    out.splice(start + 1..start + HEAD_BYTES, bytes);
}

impl FieldWriter for SectionWriter<'_> {
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
