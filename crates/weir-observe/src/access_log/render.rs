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
    let is_json = place == Place::Json;
    match value {
        Value::Absent => out.extend_from_slice(if is_json { b"null" } else { b"-" }),
        Value::Minus => out.extend_from_slice(b"-1"),
        Value::Number(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        Value::Decimal(digits) => out.extend_from_slice(digits),
        Value::Bytes(bytes) if is_json => {
            out.push(b'"');
            escape::json(bytes, out);
            out.push(b'"');
        }
        Value::Bytes(bytes) => escape::text(bytes, place, out),
        Value::Line(parts) => write_line(parts, place, out),
    }
}

/// Method, target and version with spaces between, which are escaped like any other where a space would end a column.
fn write_line(parts: [&[u8]; 3], place: Place, out: &mut Vec<u8>) {
    if place == Place::Json {
        out.push(b'"');
    }
    let mut separator: &[u8] = b"";
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        match place {
            Place::Json => {
                out.extend_from_slice(separator);
                escape::json(part, out);
            }
            Place::Quoted | Place::Bare => {
                escape::text(separator, place, out);
                escape::text(part, place, out);
            }
        }
        separator = b" ";
    }
    if place == Place::Json {
        out.push(b'"');
    }
}
