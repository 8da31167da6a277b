//! Fields as lines of HTTP/1 (RFC 9112 section 5).

use super::write;
use crate::message::field_writer::{FieldRun, FieldWriter};

/// A head on its way out: bytes to which fields are added as lines.
#[derive(Debug, Default)]
pub struct FieldLines(pub Vec<u8>);

impl FieldLines {
    /// Adds fields that are lines already, each with its line end.
    #[inline]
    pub fn lines(&mut self, lines: &[u8]) {
        self.0.extend_from_slice(lines);
    }
}

impl FieldWriter for FieldLines {
    #[inline]
    fn as_lines(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.0)
    }

    #[inline]
    fn field(&mut self, name: &[u8], value: &[u8]) {
        write::field(&mut self.0, name, value);
    }

    #[inline]
    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name);
        self.0.extend_from_slice(b": ");
        write(&mut self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.0.len();
        self.0.extend_from_slice(name);
        self.0.extend_from_slice(b": ");
        let empty = self.0.len();
        write(&mut self.0);
        if self.0.len() == empty {
            self.0.truncate(start);
        } else {
            self.0.extend_from_slice(b"\r\n");
        }
    }

    #[inline]
    fn decimal_field(&mut self, name: &[u8], value: u64) {
        write::decimal_field(&mut self.0, name, value);
    }

    #[inline]
    fn copy(&mut self, run: FieldRun<'_>) {
        if let Some(first) = run.fields.first() {
            self.0.extend_from_slice(&run.text[first.name.start as usize..run.end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_lines() {
        let mut lines = FieldLines::default();
        lines.field(b"A", b"1");
        lines.field_with(b"B", |out| out.extend_from_slice(b"2"));
        lines.field_with(b"C", |_| {});
        lines.field_unless_empty(b"D", |_| {});
        lines.field_unless_empty(b"E", |out| out.push(b'5'));
        lines.decimal_field(b"F", 60);
        lines.as_lines().expect("they have that form").extend_from_slice(b"G: 7\r\n");
        assert_eq!(lines.0, b"A: 1\r\nB: 2\r\nC: \r\nE: 5\r\nF: 60\r\nG: 7\r\n");
    }
}
