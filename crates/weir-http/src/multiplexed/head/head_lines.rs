//! The fields of a head on their way to an encoder of lines, in the order in which they are given.

use crate::digits::decimal;
use crate::message::field_set::FieldSet;
use crate::message::field_writer::{FieldRun, FieldWriter};
use crate::message::fields::Field;
use crate::message::name::FieldName;
use crate::multiplexed::compression::line_encoder::LineEncoder;

/// Writes fields as lines. Names may be given in any mixture of upper and lower case. Fields about a connection of HTTP/1 are left out.
#[derive(Debug)]
pub(crate) struct HeadLines<L> {
    pub(crate) lines: L,
    /// Fields that are not copied.
    left_out: FieldSet,
}

impl<L: LineEncoder> HeadLines<L> {
    /// Behind pseudo-fields that name no authority.
    #[inline]
    pub(crate) const fn new(lines: L) -> HeadLines<L> {
        HeadLines { lines, left_out: FieldSet::EMPTY }
    }

    /// Behind the pseudo-fields of a request with this authority: a Host field says again what it says.
    #[inline]
    pub(crate) fn of_request(lines: L, authority: &[u8]) -> HeadLines<L> {
        let left_out = match authority {
            b"" => FieldSet::EMPTY,
            _ => FieldSet::new(&[FieldName::Host]),
        };
        HeadLines { lines, left_out }
    }

    /// Leaves fields of this name out when others are copied.
    pub(crate) fn leave_out(&mut self, name: FieldName) {
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

impl<L: LineEncoder> FieldWriter for HeadLines<L> {
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
