//! Heads of legacy peers, rewritten line by line into heads that obey the rules which were relaxed for them.
//!
//! The strict parser then reads the rewritten text and never learns of it, so what is routed and what is forwarded are
//! the same bytes, and relaxing one rule cannot loosen another. Off the usual path: only with a rule relaxed.

use crate::bytes::{elements, is_space, is_target_byte, trim};
use crate::framing::parse_length;
use crate::limits::Lenient;
use crate::name::FieldName;
use crate::write;

/// Length of what is looked at before the first line end: enough for the longest method.
const PEEK_BYTES: usize = 64;

/// The rewritten part of one head.
#[derive(Debug, Clone, Default)]
pub(crate) struct Normal {
    /// The rewritten lines.
    text: Vec<u8>,
    /// How much of `text` is final: a field line is not before its successor has come, which may continue it.
    ready: usize,
    /// Number of received bytes that went into `text`.
    taken: usize,
    /// End of the received bytes already searched for the end of the next line.
    searched: usize,
    /// What the next line is.
    next: Next,
    /// The Content-Length seen.
    length: Option<u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Next {
    #[default]
    StartLine,
    Field,
    /// Nothing: the head is complete.
    End,
}

impl Normal {
    /// Forgets everything but keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !self.text.is_empty() || self.searched > 0 {
            *self = Normal { text: std::mem::take(&mut self.text), ..Normal::default() };
            self.text.clear();
        }
    }

    /// The rewritten text; empty when nothing was rewritten.
    #[inline]
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The part of the text that will not change any more.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.text[..self.ready]
    }

    /// Number of received bytes that were rewritten.
    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    /// The text followed by the start of what was not rewritten yet: enough to see early that this is not HTTP.
    pub(crate) fn peek(&self, received: &[u8]) -> Vec<u8> {
        let unseen = &received[self.taken..];
        [&self.text, &unseen[..unseen.len().min(PEEK_BYTES)]].concat()
    }

    /// Rewrites the lines that are complete in `received`, which starts as it did last time.
    pub(crate) fn take_lines(&mut self, received: &[u8], lenient: &Lenient) {
        while self.next != Next::End {
            let unseen = self.searched.max(self.taken);
            let Some(at) = received.get(unseen..).and_then(|bytes| memchr::memchr(b'\n', bytes)) else {
                self.searched = received.len();
                return;
            };
            let line = &received[self.taken..unseen + at];
            self.taken = unseen + at + 1;
            match line.strip_suffix(b"\r") {
                Some(line) => self.take_line(line, b"\r\n", lenient),
                None if lenient.bare_lf => self.take_line(line, b"\r\n", lenient),
                None => self.take_line(line, b"\n", lenient),
            }
        }
    }

    /// Rewrites one line, which was received without its line end; `end` is what to put in its place.
    fn take_line(&mut self, line: &[u8], end: &[u8], lenient: &Lenient) {
        let start = self.text.len();
        let mut held = false;
        match self.next {
            Next::StartLine => {
                if !line.is_empty() {
                    self.next = Next::Field;
                }
                self.push_start_line(line, lenient);
            }
            _ if line.is_empty() => self.next = Next::End,
            _ if line.starts_with(b" ") || line.starts_with(b"\t") => {
                if lenient.obs_fold && self.unfold(line, end) {
                    return;
                }
                self.text.extend_from_slice(line);
            }
            _ => {
                if !self.push_field(line, lenient) {
                    // What continues the dropped line must not continue the one before it.
                    self.ready = self.text.len();
                    return;
                }
                held = lenient.obs_fold;
            }
        }
        self.text.extend_from_slice(end);
        self.ready = if held { start } else { self.text.len() };
    }

    /// Appends the request line with the unsafe bytes of its target encoded; any other start line as it came.
    fn push_start_line(&mut self, line: &[u8], lenient: &Lenient) {
        let spaces = (memchr::memchr(b' ', line), memchr::memrchr(b' ', line));
        match spaces {
            (Some(first), Some(last))
                if first < last && lenient.unsafe_target && !line.starts_with(b"HTTP/") =>
            {
                self.text.extend_from_slice(&line[..=first]);
                encode_target(&mut self.text, &line[first + 1..last]);
                self.text.extend_from_slice(&line[last..]);
            }
            _ => self.text.extend_from_slice(line),
        }
    }

    /// Appends a field line, a Content-Length in its plain form. `false`: it repeated the earlier one and was dropped.
    fn push_field(&mut self, line: &[u8], lenient: &Lenient) -> bool {
        if name_of(line) == FieldName::ContentLength {
            let (name, value) = line.split_at(FieldName::ContentLength.as_str().len() + 1);
            if let Some(length) = plain_length(value, lenient) {
                if lenient.repeated_equal_length && self.length == Some(length) {
                    return false;
                }
                self.length = Some(length);
                self.text.extend_from_slice(name);
                write::decimal(&mut self.text, length);
                return true;
            }
        }
        self.text.extend_from_slice(line);
        true
    }

    /// Appends a continuation to the field line before it, one SP between. `false`: there is no such field, or it is
    /// one where no relaxation may change what others understand.
    fn unfold(&mut self, line: &[u8], end: &[u8]) -> bool {
        let field = &self.text[self.ready..];
        let framing =
            [FieldName::Host, FieldName::ContentLength, FieldName::TransferEncoding, FieldName::Connection];
        let Some(field) = field.strip_suffix(end) else { return false };
        if field.is_empty() || framing.contains(&name_of(field)) {
            return false;
        }
        let kept = field.iter().rposition(|&byte| !is_space(byte)).map_or(0, |last| last + 1);
        self.text.truncate(self.ready + kept);
        self.text.push(b' ');
        self.text.extend_from_slice(trim(line));
        self.text.extend_from_slice(end);
        true
    }
}

/// The name of a field line.
fn name_of(line: &[u8]) -> FieldName {
    let name_len = memchr::memchr(b':', line).unwrap_or_default();
    FieldName::recognise(&line[..name_len])
}

/// The number that a Content-Length stands for by the rules that are relaxed, if it is one.
fn plain_length(value: &[u8], lenient: &Lenient) -> Option<u64> {
    let mut lengths = elements(value).map(|digits| {
        let zeros =
            if lenient.padded_length { digits.iter().take_while(|&&digit| digit == b'0').count() } else { 0 };
        // The last digit stays, so that zero remains a number.
        parse_length(&digits[zeros.min(digits.len().saturating_sub(1))..])
    });
    let first = lengths.next()??;
    let repeated = lengths.try_fold(false, |_, length| (length? == first).then_some(true))?;
    (!repeated || lenient.repeated_equal_length).then_some(first)
}

/// Appends `target` with every byte percent-encoded that a target cannot hold, control bytes excepted: for those there
/// is no excuse, and the strict parser refuses them.
fn encode_target(out: &mut Vec<u8>, target: &[u8]) {
    for (index, &byte) in target.iter().enumerate() {
        let encode = match byte {
            b'%' => {
                let digits = target.get(index + 1..index + 3);
                !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            }
            _ => byte >= b' ' && !is_target_byte(byte),
        };
        if encode {
            out.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
        } else {
            out.push(byte);
        }
    }
}

/// Upper case, as RFC 3986 section 2.1 asks for.
const HEX: &[u8; 16] = b"0123456789ABCDEF";
