//! The head of what a script writes (RFC 3875 section 6): fields in lines, of which `Status` and `Location` say what the status is.
//!
//! It is turned into the head that a server of HTTP/1 would have sent, and read as strictly as that. Fields about connection and framing
//! are dropped: records carry the body. A script that writes a whole HTTP response (NPH) breaks a rule.

use crate::http1::{HeadProgress, ResponseParser};
use crate::message::framing::Framing;
use crate::message::limits::HeadLimits;
use crate::message::response::ResponseHead;
use crate::message::rule::Rule;

/// Fields of a script that have no meaning here, or another one.
const DROPPED: [&[u8]; 7] =
    [b"status", b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade"];

/// How far a head is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgiProgress {
    /// All bytes were taken, and the head goes on.
    Incomplete,
    /// The head is complete with this many of the bytes.
    Complete {
        /// Bytes of the last piece that belong to the head.
        taken: usize,
    },
}

/// Reads the head of one response; reusable after [`CgiHeadParser::reset`].
#[derive(Debug, Default)]
pub struct CgiHeadParser {
    /// What the script has written.
    written: Vec<u8>,
    /// The same as the head of a response of HTTP/1.
    text: Vec<u8>,
    parser: ResponseParser,
}

impl CgiHeadParser {
    /// Forgets everything but the memory; memory beyond `kept_max` goes too.
    pub fn reset(&mut self, kept_max: usize) {
        for bytes in [&mut self.written, &mut self.text] {
            bytes.clear();
            bytes.shrink_to(kept_max);
        }
        self.parser.reset();
    }

    /// Takes the next bytes that the script has written, and fills `head` once it is complete.
    ///
    /// # Errors
    /// The first rule that the head breaks.
    pub fn push(
        &mut self,
        head: &mut ResponseHead,
        data: &[u8],
        limits: &HeadLimits,
    ) -> Result<CgiProgress, Rule> {
        let before = self.written.len();
        let room = limits.head_bytes_max.saturating_add(1).saturating_sub(before);
        self.written.extend_from_slice(&data[..data.len().min(room)]);
        // The end may have begun in earlier bytes.
        let from = before.saturating_sub(3);
        let Some(end) = find_end(&self.written, from) else {
            return match self.written.len() > limits.head_bytes_max {
                true => Err(Rule::HeadTooLarge),
                false => Ok(CgiProgress::Incomplete),
            };
        };
        if end > limits.head_bytes_max {
            return Err(Rule::HeadTooLarge);
        }
        self.written.truncate(end);
        self.compose()?;
        match self.parser.parse(head, &self.text, &HeadLimits { head_bytes_max: usize::MAX, ..*limits })? {
            HeadProgress::Complete { .. } => {
                // Records tell the end, not the connection.
                head.without_length = Framing::Delimited;
                Ok(CgiProgress::Complete { taken: end - before })
            }
            // It ends with an empty line.
            HeadProgress::Incomplete => Err(Rule::MissingColon),
        }
    }

    /// Whether the script has written anything yet.
    pub fn has_begun(&self) -> bool {
        !self.written.is_empty()
    }

    /// What the spans of a complete head refer to.
    pub fn text(&self) -> &[u8] {
        self.parser.text(&self.text)
    }

    /// Makes the head of HTTP/1.
    fn compose(&mut self) -> Result<(), Rule> {
        let (mut status, mut has_location, mut is_empty) = (None, false, true);
        for line in lines(&self.written) {
            is_empty = false;
            match name(line) {
                Some(name) if name.eq_ignore_ascii_case(b"status") => {
                    if status.replace(value(line)).is_some() {
                        return Err(Rule::CgiBadStatus);
                    }
                }
                Some(name) => has_location |= name.eq_ignore_ascii_case(b"location"),
                None => return Err(Rule::MissingColon),
            }
        }
        if is_empty {
            return Err(Rule::CgiEmptyHead);
        }
        let (code, reason) = match status {
            Some(status) => read_status(status).ok_or(Rule::CgiBadStatus)?,
            None if has_location => (&b"302"[..], &b"Found"[..]),
            None => (&b"200"[..], &b"OK"[..]),
        };
        self.text.clear();
        for piece in [&b"HTTP/1.1 "[..], code, b" ", reason, b"\r\n"] {
            self.text.extend_from_slice(piece);
        }
        for line in lines(&self.written) {
            let is_dropped = |name: &[u8]| DROPPED.iter().any(|dropped| dropped.eq_ignore_ascii_case(name));
            if !name(line).is_some_and(is_dropped) {
                self.text.extend_from_slice(line);
                self.text.extend_from_slice(b"\r\n");
            }
        }
        self.text.extend_from_slice(b"\r\n");
        Ok(())
    }
}

/// Where the empty line of a head ends, when that is behind `from`. Lines end with LF, with or without CR.
fn find_end(written: &[u8], from: usize) -> Option<usize> {
    // An empty line alone is a head without fields.
    if let Some(len) = [&b"\n"[..], b"\r\n"].iter().find(|end| written.starts_with(end)).map(|end| end.len())
    {
        return Some(len);
    }
    let rest = &written[from..];
    memchr::memchr_iter(b'\n', rest).find_map(|at| match &rest[at + 1..] {
        [b'\n', ..] => Some(from + at + 2),
        [b'\r', b'\n', ..] => Some(from + at + 3),
        _ => None,
    })
}

/// The lines before the empty one, without their ends.
fn lines(written: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = written.split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).take_while(|line| !line.is_empty())
}

/// The name of the field in a line; `None` when there is no colon.
fn name(line: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b':', line).map(|colon| &line[..colon])
}

fn value(line: &[u8]) -> &[u8] {
    name(line).map_or(&b""[..], |name| line[name.len() + 1..].trim_ascii())
}

/// Code and reason; `None` for what is no final status.
fn read_status(status: &[u8]) -> Option<(&[u8], &[u8])> {
    let (code, rest) = status.split_at_checked(3)?;
    let is_final = code.iter().all(u8::is_ascii_digit) && code[0] >= b'2';
    let reason = match rest {
        [] => rest,
        [b' ', reason @ ..] => reason,
        _ => return None,
    };
    is_final.then_some((code, reason))
}
