//! Heads that break a rule, rewritten line by line into heads that obey the rules which were relaxed for them.
//!
//! The strict parser then reads the rewritten text and never learns of it, so routing and forwarding use
//! the same bytes, and relaxing one rule cannot loosen another. Off the usual path: only once the strict parser has met
//! a broken rule that is relaxed.

use super::status_line::REASON;
use crate::bytes::{elements, is_space, is_target_byte, is_value_byte, trim};
use crate::digits;
use crate::message::field_values::content_length::parse_length;
use crate::message::limits::Lenient;
use crate::message::name::FieldName;

/// Length of the part that is examined before the first line end: enough for the longest method.
const PEEK_BYTES: usize = 64;

/// How many empty lines may come before a status line.
const EMPTY_LINES_MAX: u8 = 4;

/// The rewritten part of one head.
#[derive(Debug, Clone, Default)]
pub(crate) struct NormalizedHead {
    /// Whether the head is rewritten at all.
    active: bool,
    /// The rewritten lines.
    text: Vec<u8>,
    /// How much of `text` is final: a field line is not before its successor has come, which may continue it.
    ready: usize,
    /// Number of received bytes that went into `text`.
    taken: usize,
    /// End of the received bytes already searched for the end of the next line.
    searched: usize,
    /// The kind of the next line.
    next: NextLine,
    /// The Content-Length seen.
    length: Option<u64>,
    /// Whether `Transfer-Encoding: chunked` was seen.
    chunked: bool,
    /// Empty lines dropped before the status line.
    empty_lines: u8,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum NextLine {
    #[default]
    StartLine,
    Field,
    /// Nothing: the head is complete.
    End,
}

impl NormalizedHead {
    /// Forgets everything but keeps the memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.active {
            *self = NormalizedHead { text: std::mem::take(&mut self.text), ..NormalizedHead::default() };
            self.text.clear();
        }
    }

    /// From now on the head is rewritten.
    pub(crate) fn begin(&mut self) {
        self.active = true;
    }

    /// Whether the head is rewritten.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active
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

    /// Whether the bytes that were not rewritten yet may be an empty line that will be dropped.
    pub(crate) fn may_drop_next(&self, received: &[u8], lenient: &Lenient) -> bool {
        lenient.empty_lines && matches!(received[self.taken..], [] | [b'\r'])
    }

    /// The text followed by the start of the bytes that were not rewritten yet: enough to see early that this is not HTTP.
    pub(crate) fn peek(&self, received: &[u8]) -> Vec<u8> {
        let unseen = &received[self.taken..];
        [&self.text, &unseen[..unseen.len().min(PEEK_BYTES)]].concat()
    }

    /// Rewrites the lines that are complete in `received`, which starts as it did last time.
    pub(crate) fn take_lines(&mut self, received: &[u8], lenient: &Lenient) {
        while self.next != NextLine::End {
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

    /// Rewrites one line, which was received without its line end; `end` is the line end to write.
    fn take_line(&mut self, line: &[u8], end: &[u8], lenient: &Lenient) {
        let start = self.text.len();
        let mut held = false;
        match self.next {
            NextLine::StartLine => {
                let is_empty = line.is_empty() && end == b"\r\n";
                if is_empty && lenient.empty_lines && self.empty_lines < EMPTY_LINES_MAX {
                    self.empty_lines += 1;
                    return;
                }
                if !line.is_empty() {
                    self.next = NextLine::Field;
                }
                self.push_start_line(line, lenient);
            }
            _ if line.is_empty() => self.next = NextLine::End,
            _ if line.starts_with(b" ") || line.starts_with(b"\t") => {
                if lenient.obs_fold && self.unfold(line, end) {
                    return;
                }
                self.text.extend_from_slice(line);
            }
            _ => {
                if !self.push_field(line, lenient) {
                    // A continuation of the dropped line must not continue the one before it.
                    self.ready = self.text.len();
                    return;
                }
                held = lenient.obs_fold;
            }
        }
        self.text.extend_from_slice(end);
        self.ready = if held { start } else { self.text.len() };
    }

    /// Appends the request line with the unsafe bytes of its target encoded, or the status line.
    fn push_start_line(&mut self, line: &[u8], lenient: &Lenient) {
        if line.starts_with(b"HTTP/") {
            // Control bytes are dropped from the reason phrase alone: no other parser skips them in a version or a status.
            let (status, reason) = line.split_at(line.len().min(REASON));
            self.text.extend_from_slice(status);
            return push_value(&mut self.text, reason, lenient);
        }
        let spaces = (memchr::memchr(b' ', line), memchr::memrchr(b' ', line));
        match spaces {
            (Some(first), Some(last)) if first < last => {
                self.text.extend_from_slice(&line[..=first]);
                encode_target(&mut self.text, &line[first + 1..last], lenient);
                self.text.extend_from_slice(&line[last..]);
            }
            _ => self.text.extend_from_slice(line),
        }
    }

    /// Appends a field line, a framing field in its plain form. `false`: it repeated the earlier one and was dropped.
    fn push_field(&mut self, line: &[u8], lenient: &Lenient) -> bool {
        let name = name_of(line);
        if name == FieldName::ContentLength {
            let (name, value) = line.split_at(FieldName::ContentLength.as_str().len() + 1);
            if let Some(length) = plain_length(value, lenient) {
                if lenient.repeated_equal_length && self.length == Some(length) {
                    return false;
                }
                self.length = Some(length);
                self.text.extend_from_slice(name);
                digits::decimal(&mut self.text, length);
                return true;
            }
        }
        if name == FieldName::TransferEncoding && lenient.repeated_chunked {
            let (name, value) = line.split_at(FieldName::TransferEncoding.as_str().len() + 1);
            if elements(value).all(|coding| coding.eq_ignore_ascii_case(b"chunked")) {
                if std::mem::replace(&mut self.chunked, true) {
                    return false;
                }
                self.text.extend_from_slice(name);
                self.text.extend_from_slice(b"chunked");
                return true;
            }
        }
        match memchr::memchr(b':', line) {
            Some(colon) if !FRAMING.contains(&name) => {
                self.text.extend_from_slice(&line[..colon]);
                push_value(&mut self.text, &line[colon..], lenient);
            }
            _ => self.text.extend_from_slice(line),
        }
        true
    }

    /// Appends a continuation to the field line before it, one SP between. `false`: there is no such field, or it is
    /// one where no relaxation may change the meaning for others.
    fn unfold(&mut self, line: &[u8], end: &[u8]) -> bool {
        let field = &self.text[self.ready..];
        let Some(field) = field.strip_suffix(end) else { return false };
        if field.is_empty() || FRAMING.contains(&name_of(field)) {
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

/// Fields in which no relaxation may change the meaning for others, except the ones made for them.
const FRAMING: [FieldName; 4] =
    [FieldName::Host, FieldName::ContentLength, FieldName::TransferEncoding, FieldName::Connection];

/// Appends a value, without its control bytes where they are dropped. NUL and CR stay, for the strict parser to refuse.
fn push_value(out: &mut Vec<u8>, value: &[u8], lenient: &Lenient) {
    if lenient.control_bytes {
        out.extend(value.iter().filter(|&&byte| is_value_byte(byte) || matches!(byte, 0 | b'\r' | b'\n')));
    } else {
        out.extend_from_slice(value);
    }
}

/// The name of a field line.
fn name_of(line: &[u8]) -> FieldName {
    let name_len = memchr::memchr(b':', line).unwrap_or_default();
    FieldName::recognise(&line[..name_len])
}

/// The number of a Content-Length by the rules that are relaxed, if it is one.
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

/// Appends `target` without its fragment, where that is relaxed, and with every byte of its path and query percent-encoded that a target cannot contain. Control bytes
/// stay, and the strict parser refuses them.
fn encode_target(out: &mut Vec<u8>, target: &[u8], lenient: &Lenient) {
    // A host is never encoded: every parser has to see the same host.
    let start = match memchr::memmem::find(target, b"://") {
        _ if target.starts_with(b"/") => 0,
        Some(scheme) => target[scheme + 3..]
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .map_or(target.len(), |at| scheme + 3 + at),
        None => target.len(),
    };
    out.extend_from_slice(&target[..start]);
    // What is behind it is no part of what a client asks for (RFC 9110 section 4.2.5).
    let fragment = if lenient.target_fragment { memchr::memchr(b'#', &target[start..]) } else { None };
    let is_plain = |at: &usize| target[start + at..].iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    let target = &target[..fragment.filter(is_plain).map_or(target.len(), |at| start + at)];
    for (index, &byte) in target.iter().enumerate().skip(start) {
        let encode = match byte {
            b'%' => {
                let digits = target.get(index + 1..index + 3);
                lenient.unsafe_target
                    && !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            }
            b' ' | b'#' | 0x7f => lenient.unsafe_target,
            _ => (lenient.unencoded_target || lenient.unsafe_target) && byte > b' ' && !is_target_byte(byte),
        };
        if encode {
            digits::percent_encoded(out, byte);
        } else {
            out.push(byte);
        }
    }
}
