//! Reads one answer of HTTP/3 as it arrives and compares it with the expected one (RFC 9114, section 4.1), as `response` does for HTTP/1.1.

use crate::load::exchange::ExpectedBody;
use crate::load::fault::LoadFault;
use crate::load::seen::SeenAnswer;
use crate::wire::http3::{self, kind};

/// Longest field section the lab reads, in bytes.
const SECTION_MAX: u64 = 64 * 1024;

/// The place reached in an answer.
#[derive(Debug, Default)]
pub(super) struct AnswerReader {
    /// A head of a frame, or a field section, that came in pieces.
    partial: Vec<u8>,
    /// The frame whose payload is read.
    frame: Option<AnswerFrame>,
    has_status: bool,
    /// Body bytes read.
    position: u64,
    /// What was seen of an unknown answer.
    seen: SeenAnswer,
}

#[derive(Debug, Clone, Copy)]
struct AnswerFrame {
    kind: u64,
    /// Bytes of it that have not come.
    left: u64,
}

impl AnswerReader {
    /// Takes arrived bytes.
    ///
    /// # Errors
    /// The error in the answer.
    pub(super) fn feed(&mut self, input: &[u8], expected: &ExpectedBody) -> Result<(), LoadFault> {
        let mut rest = input;
        while !rest.is_empty() {
            rest = match self.frame {
                None => self.feed_head(rest, expected)?,
                Some(frame) => {
                    let (part, more) = rest.split_at((rest.len() as u64).min(frame.left) as usize);
                    self.feed_payload(frame.kind, part, expected)?;
                    self.advance(frame, part.len() as u64, expected)?;
                    more
                }
            };
        }
        Ok(())
    }

    /// The answer is over.
    ///
    /// # Errors
    /// When it is not complete.
    pub(super) fn end(&self, expected: &ExpectedBody) -> Result<(), LoadFault> {
        if self.frame.is_some() || !self.partial.is_empty() || !self.has_status {
            return Err(LoadFault::Closed(self.position));
        }
        if self.position != expected.len() && !matches!(expected, ExpectedBody::Unknown(_)) {
            return Err(LoadFault::Length(expected.len(), self.position));
        }
        Ok(())
    }

    /// What was seen of an unknown answer.
    pub(super) fn into_seen(self) -> SeenAnswer {
        self.seen
    }

    /// The head of a frame; gives what follows it.
    fn feed_head<'a>(&mut self, input: &'a [u8], expected: &ExpectedBody) -> Result<&'a [u8], LoadFault> {
        let before = self.partial.len();
        let head = if before == 0 {
            http3::frame_head(input).map(|(kind, len, rest)| (kind, len, input.len() - rest.len()))
        } else {
            // A head has no more than 16 bytes.
            self.partial.extend(input.iter().take(16));
            let whole = &self.partial;
            http3::frame_head(whole).map(|(kind, len, rest)| (kind, len, whole.len() - rest.len() - before))
        };
        let Some((kind, left, used)) = head else {
            if before == 0 {
                self.partial.extend_from_slice(input);
            }
            return Ok(&[]);
        };
        self.partial.clear();
        if kind == kind::DATA && !self.has_status {
            return Err(malformed("a body before the head"));
        }
        if kind == kind::HEADERS && left > SECTION_MAX {
            return Err(malformed("a head over 64 KiB"));
        }
        self.advance(AnswerFrame { kind, left }, 0, expected)?;
        Ok(&input[used..])
    }

    fn feed_payload(&mut self, kind: u64, part: &[u8], expected: &ExpectedBody) -> Result<(), LoadFault> {
        match kind {
            kind::HEADERS => self.partial.extend_from_slice(part),
            kind::DATA => {
                let (start, end) = (self.position, self.position + part.len() as u64);
                if end > expected.len() {
                    return Err(LoadFault::Length(expected.len(), end));
                }
                if !expected.matches(start, part) {
                    return Err(LoadFault::Content(start));
                }
                self.position = end;
                if let ExpectedBody::Unknown(text) = expected {
                    self.seen.body(part, text.as_deref());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `taken` more bytes of `frame` have been read.
    fn advance(&mut self, frame: AnswerFrame, taken: u64, expected: &ExpectedBody) -> Result<(), LoadFault> {
        let left = frame.left - taken;
        self.frame = (left > 0).then_some(AnswerFrame { left, ..frame });
        if left == 0 && frame.kind == kind::HEADERS {
            let section = std::mem::take(&mut self.partial);
            // What follows the body are trailers.
            if !self.has_status {
                self.has_status = self.is_final(&section, expected)?;
            }
        }
        Ok(())
    }

    /// Whether this is the head of the answer itself and not of an interim one.
    fn is_final(&mut self, section: &[u8], expected: &ExpectedBody) -> Result<bool, LoadFault> {
        match http3::status(section) {
            Some(100..200) => Ok(false),
            Some(status) if matches!(expected, ExpectedBody::Unknown(_)) => {
                self.seen.status = status;
                Ok(true)
            }
            Some(200..300) => Ok(true),
            Some(status) => Err(LoadFault::Status(status, String::new())),
            None => Err(malformed("a head begins with a status, without a dynamic table")),
        }
    }
}

fn malformed(rule: &str) -> LoadFault {
    LoadFault::Malformed(rule.to_owned())
}

#[cfg(test)]
mod tests {
    use super::AnswerReader;
    use crate::load::exchange::ExpectedBody;
    use crate::wire::http3::{kind, write_frame_head, write_integer};

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_frame_head(&mut out, kind, payload.len() as u64);
        out.extend_from_slice(payload);
        out
    }

    fn read(wire: &[u8], piece: usize) -> Result<(), &'static str> {
        let (mut reader, expected) = (AnswerReader::default(), ExpectedBody::Literal(b"hello".to_vec()));
        for part in wire.chunks(piece) {
            reader.feed(part, &expected).map_err(|fault| fault.kind())?;
        }
        reader.end(&expected).map_err(|fault| fault.kind())
    }

    const OK: &[u8] = b"\0\0\xd9";

    #[test]
    fn correct_answers_are_taken_however_they_are_framed_and_cut() {
        let mut grease = Vec::new();
        write_integer(&mut grease, 0x1f * 7 + 0x21);
        grease.extend([3, 1, 2, 3]);
        for wire in [
            [frame(kind::HEADERS, OK), frame(kind::DATA, b"hello")].concat(),
            [
                frame(kind::HEADERS, b"\0\0\xd8"),
                grease,
                frame(kind::HEADERS, b"\0\0\x5f\x09\x03201\x51\x00"),
                frame(kind::DATA, b"he"),
                frame(kind::DATA, b""),
                frame(kind::DATA, b"llo"),
                frame(kind::HEADERS, b"\0\0\x21a\x01b"),
            ]
            .concat(),
        ] {
            for piece in 1..=wire.len() {
                assert_eq!(read(&wire, piece), Ok(()), "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn wrong_answers_are_named() {
        let head = frame(kind::HEADERS, OK);
        let mut cut = [&head[..], &frame(kind::DATA, b"hello")].concat();
        cut.pop();
        for (wire, kind) in [
            (frame(kind::HEADERS, b"\0\0\x5f\x09\x03502"), "status"),
            ([head.clone(), frame(kind::DATA, b"hell")].concat(), "body length"),
            ([head.clone(), frame(kind::DATA, b"hello!")].concat(), "body length"),
            ([head.clone(), frame(kind::DATA, b"hellO")].concat(), "body content"),
            (cut, "closed early"),
            (head[..2].to_vec(), "closed early"),
            (head.clone(), "body length"),
            (Vec::new(), "closed early"),
            (frame(kind::DATA, b"hello"), "malformed answer"),
            (frame(kind::HEADERS, b"\x02\0\x80"), "malformed answer"),
            (frame(kind::HEADERS, b""), "malformed answer"),
        ] {
            for piece in [1, 3, 100] {
                assert_eq!(read(&wire, piece), Err(kind), "{wire:x?} in pieces of {piece}");
            }
        }
    }
}
