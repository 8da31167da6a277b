//! Lines on their way to the wire, for the encoders of HPACK and QPACK: which of them are sent, and which of them no table may keep.

use super::sent_line::{hash, make_lower_case};
use super::{LINE_OVERHEAD_BYTES, line_class::is_connection_field};
use crate::bytes::{is_space, is_token, is_value_byte, trim};
use crate::message::name::FieldName;

/// Cookies that are shorter could be guessed, if their presence in a table could be found out (RFC 7541 section 7.1.3).
const COOKIE_BYTES_GUESSABLE: usize = 20;

/// A line that the peer does not have. It is in [`LineEncoder::buf`].
#[derive(Clone, Copy)]
pub(crate) struct NewLine {
    pub(crate) name_len: usize,
    pub(crate) known: FieldName,
    /// Whether no table may ever keep it (RFC 7541 section 7.1).
    pub(crate) is_secret: bool,
    /// Of the line in the spelling that it came in.
    pub(crate) hash: u32,
}

/// Writes the lines of one head or one trailer section.
///
/// A version of HTTP says how it refers to a line that the peer has, and how it writes one that the peer does not have.
pub(crate) trait LineEncoder {
    /// The line that is being written.
    fn buf(&mut self) -> &mut Vec<u8>;

    /// Refers to a line that the peer has; whether it has it.
    fn write_known(&mut self, line: &[u8], hash: u32) -> bool;

    /// Writes the line of a field. Its name is in any mixture of upper and lower case: it is found in the table again by the same one.
    fn write_new(&mut self, line: NewLine);

    /// Writes a field whose value `write_value` appends.
    #[inline]
    fn field_with(&mut self, name: &[u8], write_value: impl FnOnce(&mut Vec<u8>)) {
        self.begin_field(name);
        write_value(self.buf());
        self.end_field(name.len());
    }

    /// The same, but no field when its value is empty.
    #[inline]
    fn field_unless_empty(&mut self, name: &[u8], write_value: impl FnOnce(&mut Vec<u8>)) {
        self.begin_field(name);
        write_value(self.buf());
        if self.buf().len() > name.len() + 2 {
            self.end_field(name.len());
        }
    }

    /// Puts a pseudo-field into the buffer; its hash.
    fn begin_pseudo_field(&mut self, name: &[u8], value: &[u8]) {
        let line = self.buf();
        line.clear();
        line.extend_from_slice(name);
        line.extend_from_slice(b": ");
        line.extend_from_slice(value);
        line.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn begin_field(&mut self, name: &[u8]) {
        debug_assert!(is_token(name));
        let line = self.buf();
        line.clear();
        line.extend_from_slice(name);
        line.extend_from_slice(b": ");
    }

    #[inline]
    fn end_field(&mut self, name_len: usize) {
        self.buf().extend_from_slice(b"\r\n");
        let hash = hash(self.buf());
        if !self.write_known_buf(hash) {
            let known = match FieldName::recognise_start(self.buf()) {
                Some((known, len)) if len == name_len => known,
                _ => FieldName::Other,
            };
            self.write_field(name_len, known, hash);
        }
    }

    /// The same as `write_known` for the line in the buffer.
    #[inline]
    fn write_known_buf(&mut self, hash: u32) -> bool {
        let line = std::mem::take(self.buf());
        let is_known = self.write_known(&line, hash);
        *self.buf() = line;
        is_known
    }

    /// Writes a field that is a line already: `name: value` and the line end.
    #[inline]
    fn field_line(&mut self, line: &[u8], name_len: usize, known: FieldName) {
        let hash = hash(line);
        if !self.write_known(line, hash) {
            let buf = self.buf();
            buf.clear();
            buf.extend_from_slice(line);
            self.write_field(name_len, known, hash);
        }
    }

    /// Writes the line of a field that the peer does not have, if it is one to be sent.
    fn write_field(&mut self, name_len: usize, known: FieldName, hash: u32) {
        let line: &[u8] = self.buf();
        let value = &line[name_len + 2..line.len() - 2];
        debug_assert!(value.iter().all(|&byte| is_value_byte(byte)));
        if has_edge_space(value) {
            return self.write_trimmed(name_len, known);
        }
        // Callers leave these out; a message that had one would be refused.
        if is_connection_field(known) || (known == FieldName::Te && !value.eq_ignore_ascii_case(b"trailers"))
        {
            return;
        }
        let is_secret = match known {
            FieldName::Authorization | FieldName::ProxyAuthorization | FieldName::SetCookie => true,
            FieldName::Cookie => line.len() - LINE_OVERHEAD_BYTES - name_len < COOKIE_BYTES_GUESSABLE,
            _ => false,
        };
        self.write_new(NewLine { name_len, known, is_secret, hash });
    }

    /// Writes the line without the white space around its value, which HTTP/1 and configs may have.
    #[cold]
    fn write_trimmed(&mut self, name_len: usize, known: FieldName) {
        let line = self.buf();
        let value = trim(&line[name_len + 2..line.len() - 2]);
        let trimmed = [&line[..name_len + 2], value, b"\r\n"].concat();
        self.field_line(&trimmed, name_len, known);
    }
}

/// Makes lower case of the name of a line.
#[inline]
pub(crate) fn lower_name(line: &mut [u8], name_len: usize) -> &[u8] {
    make_lower_case(&mut line[..name_len]);
    &line[..name_len]
}

#[inline]
fn has_edge_space(value: &[u8]) -> bool {
    matches!((value.first(), value.last()), (Some(first), Some(last)) if is_space(*first) || is_space(*last))
}
