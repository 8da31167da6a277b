//! From a record to its line.
//!
//! The line goes to the end of a buffer that the worker keeps, so a warm buffer means no allocation.

use super::escape::{self, Place};
use super::field::{Scratch, Value};
use super::format::{Item, LogFormat};
use super::record::ExchangeRecord;

impl LogFormat {
    /// Appends one line, its newline included; whatever the record holds, there is no other newline in it.
    pub fn render(&self, record: &ExchangeRecord<'_>, out: &mut Vec<u8>) {
        let mut scratch = Scratch::new();
        for item in &self.items {
            match item {
                Item::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Item::Value(field, place) => write(field.value(record, &mut scratch), *place, out),
            }
        }
    }
}

fn write(value: Value<'_>, place: Place, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        Value::Decimal(digits) => out.extend_from_slice(digits),
        Value::Minus => out.extend_from_slice(b"-1"),
        _ if place == Place::Json => write_json(value, out),
        Value::Absent => out.push(b'-'),
        Value::Own(text) => out.extend_from_slice(text),
        Value::Bytes(bytes) => escape::text(bytes, place, out),
        Value::Line(parts) => join(parts, out, |part, out| escape::text(part, place, out)),
    }
}

fn write_json(value: Value<'_>, out: &mut Vec<u8>) {
    if value == Value::Absent {
        out.extend_from_slice(b"null");
        return;
    }
    out.push(b'"');
    match value {
        Value::Line(parts) => join(parts, out, escape::json),
        Value::Own(bytes) | Value::Bytes(bytes) => escape::json(bytes, out),
        Value::Number(_) | Value::Decimal(_) | Value::Minus | Value::Absent => {}
    }
    out.push(b'"');
}

/// Parts that are not empty with spaces between; the spaces are escaped like everything else.
fn join(parts: [&[u8]; 3], out: &mut Vec<u8>, escape: impl Fn(&[u8], &mut Vec<u8>)) {
    let mut separator: &[u8] = b"";
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        escape(separator, out);
        escape(part, out);
        separator = b" ";
    }
}
