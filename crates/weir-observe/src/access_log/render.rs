//! From a record to its line.
//!
//! The line goes to the end of a buffer that the worker keeps, so a warm buffer means no allocation.

use super::escape::{self, EscapeRule};
use super::field::{LogValue, ValueBuf};
use super::format::{FormatItem, LogTemplate};
use super::record::ExchangeRecord;

impl LogTemplate {
    /// Appends one line, its newline included; whatever the record holds, there is no other newline in it.
    pub fn render(&self, record: &ExchangeRecord<'_>, out: &mut Vec<u8>) {
        let mut scratch = ValueBuf::new();
        for item in &self.items {
            match item {
                FormatItem::Literal(text) => out.extend_from_slice(text.as_bytes()),
                FormatItem::Value(field, place) => write(field.value(record, &mut scratch), *place, out),
            }
        }
    }
}

fn write(value: LogValue<'_>, place: EscapeRule, out: &mut Vec<u8>) {
    match value {
        LogValue::Number(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        LogValue::Decimal(digits) => out.extend_from_slice(digits),
        LogValue::Minus => out.extend_from_slice(b"-1"),
        _ if place == EscapeRule::Json => write_json(value, out),
        LogValue::Absent => out.push(b'-'),
        LogValue::Own(text) => out.extend_from_slice(text),
        LogValue::Bytes(bytes) => escape::text(bytes, place, out),
        LogValue::Line(parts) => join(parts, out, |part, out| escape::text(part, place, out)),
    }
}

fn write_json(value: LogValue<'_>, out: &mut Vec<u8>) {
    if value == LogValue::Absent {
        out.extend_from_slice(b"null");
        return;
    }
    out.push(b'"');
    match value {
        LogValue::Line(parts) => join(parts, out, escape::json),
        LogValue::Own(bytes) | LogValue::Bytes(bytes) => escape::json(bytes, out),
        LogValue::Number(_) | LogValue::Decimal(_) | LogValue::Minus | LogValue::Absent => {}
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
