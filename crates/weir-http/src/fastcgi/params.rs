//! The parameters of a request: gathered, then encoded as name-value pairs (FastCGI 1.0 section 3.4) in PARAMS records.
//!
//! Fields become `HTTP_NAME` (RFC 3875 section 4.1.18). Fields whose names hold anything but letters, digits and hyphens are left out,
//! since `X_Y` and `X-Y` would be the same parameter; so is `Proxy`, which programs take for the address of a proxy (httpoxy).

use std::ops::Range;

use super::record::{PARAMS, RECORD_CONTENT_MAX, header};
use crate::digits;
use crate::message::field_writer::{FieldRun, FieldWriter};

/// What stands before the name of a field.
const OF_FIELD: &[u8] = b"HTTP_";

/// A pair, as places in the bytes of [`Params`].
#[derive(Debug, Clone)]
struct ParamPair {
    name: Range<usize>,
    value: Range<usize>,
    is_fixed: bool,
}

/// The parameters of one request; reused from one to the next.
///
/// Parameters of the config come first ([`Params::fix`]): nothing that follows replaces them.
#[derive(Debug, Default)]
pub struct Params {
    bytes: Vec<u8>,
    pairs: Vec<ParamPair>,
}

/// Whether `name` can be the name of a parameter of the config: letters, digits and underscores, not beginning with a digit.
pub fn is_param_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && name.bytes().all(is_word) && !name.as_bytes()[0].is_ascii_digit()
}

impl Params {
    /// Forgets everything but the memory; memory beyond `kept_max` goes too.
    pub fn reset(&mut self, kept_max: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept_max);
        self.pairs.clear();
    }

    /// Adds a parameter of the config, whose value `write` appends.
    pub fn fix(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.push(name, true, write);
    }

    /// Adds a parameter, unless the config has one of this name.
    pub fn set(&mut self, name: &[u8], value: &[u8]) {
        self.set_with(name, |out| out.extend_from_slice(value));
    }

    /// The same with a value that `write` appends.
    pub fn set_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if self.find(name).is_none() {
            self.push(name, false, write);
        }
    }

    fn push(&mut self, name: &[u8], is_fixed: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.finish(start, is_fixed, write);
    }

    /// Adds the pair whose name is what was appended since `start`.
    fn finish(&mut self, start: usize, is_fixed: bool, write: impl FnOnce(&mut Vec<u8>)) {
        let value_start = self.bytes.len();
        write(&mut self.bytes);
        let pair = ParamPair { name: start..value_start, value: value_start..self.bytes.len(), is_fixed };
        self.pairs.push(pair);
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        self.pairs.iter().position(|pair| self.bytes[pair.name.clone()] == *name)
    }

    /// Adds a field as a parameter. Of several fields of one name, the values are joined, as for a list (RFC 9110 section 5.3).
    fn add_field(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            || name.eq_ignore_ascii_case(b"proxy")
        {
            return;
        }
        let start = self.bytes.len();
        if !name.eq_ignore_ascii_case(b"content-type") {
            self.bytes.extend_from_slice(OF_FIELD);
        }
        self.bytes.extend(name.iter().map(|byte| match byte {
            b'-' => b'_',
            byte => byte.to_ascii_uppercase(),
        }));
        match self.find(&self.bytes[start..]) {
            None => self.finish(start, false, write),
            Some(known) if self.pairs[known].is_fixed => self.bytes.truncate(start),
            Some(known) => {
                // The joined value is written anew behind the others.
                let separator = if name.eq_ignore_ascii_case(b"cookie") { &b"; "[..] } else { b", " };
                self.bytes.truncate(start);
                self.bytes.extend_from_within(self.pairs[known].value.clone());
                self.bytes.extend_from_slice(separator);
                write(&mut self.bytes);
                self.pairs[known].value = start..self.bytes.len();
            }
        }
    }

    /// Appends all of them as PARAMS records, with the empty one that ends them.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut record = out.len();
        out.extend_from_slice(&header(PARAMS, 0));
        for pair in &self.pairs {
            let (name, value) = (&self.bytes[pair.name.clone()], &self.bytes[pair.value.clone()]);
            write_length(out, name.len());
            write_length(out, value.len());
            out.extend_from_slice(name);
            out.extend_from_slice(value);
            record = split(out, record);
        }
        let len = out.len() - record - header(PARAMS, 0).len();
        if len > 0 {
            out[record..record + 8].copy_from_slice(&header(PARAMS, len as u16));
            out.extend_from_slice(&header(PARAMS, 0));
        }
    }

    /// The parameters, for tests and messages.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|pair| (&self.bytes[pair.name.clone()], &self.bytes[pair.value.clone()]))
    }
}

/// Puts headers between what is longer than a record behind the header at `record`; where the last header is.
fn split(out: &mut Vec<u8>, mut record: usize) -> usize {
    loop {
        let start = record + 8;
        if out.len() - start <= RECORD_CONTENT_MAX {
            return record;
        }
        out[record..start].copy_from_slice(&header(PARAMS, RECORD_CONTENT_MAX as u16));
        record = start + RECORD_CONTENT_MAX;
        // Rare: most requests fit one record.
        out.splice(record..record, header(PARAMS, 0));
    }
}

/// Appends a length: one byte below 128, else four with the highest bit set.
fn write_length(out: &mut Vec<u8>, len: usize) {
    match u8::try_from(len) {
        Ok(short @ ..0x80) => out.push(short),
        _ => out.extend_from_slice(&(len as u32 | 0x8000_0000).to_be_bytes()),
    }
}

impl FieldWriter for Params {
    fn field(&mut self, name: &[u8], value: &[u8]) {
        self.add_field(name, |out| out.extend_from_slice(value));
    }

    fn field_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.add_field(name, write);
    }

    fn field_unless_empty(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = Vec::new();
        write(&mut value);
        if !value.is_empty() {
            self.field(name, &value);
        }
    }

    fn decimal_field(&mut self, name: &[u8], value: u64) {
        self.add_field(name, |out| digits::decimal(out, value));
    }

    fn copy(&mut self, run: FieldRun<'_>) {
        for field in run.fields {
            self.field(field.name.of(run.text), field.value.of(run.text));
        }
    }
}
