//! Reads one answer of HTTP/1.1 whose content is not known (RFC 9112, sections 4 and 6).

use crate::load::LoadFault;
use crate::load::seen::SeenAnswer;
use crate::wire::chunked::ChunkedReader;
use crate::wire::fields::{self, BodyFraming};

/// Longest head the lab reads, in bytes.
const HEAD_MAX: usize = 64 * 1024;

#[derive(Debug)]
enum AnswerState {
    Head,
    /// So many bytes are left.
    Length(u64),
    Chunked(ChunkedReader),
    UntilClose,
}

/// The place reached in an answer.
#[derive(Debug)]
pub(super) struct Http1Reader {
    state: AnswerState,
    /// The start of a head that came in pieces.
    partial: Vec<u8>,
    is_head: bool,
    /// The connection ends with it.
    pub(super) closes: bool,
    /// What was seen of it.
    pub(super) seen: SeenAnswer,
    /// All bytes that came.
    pub(super) total: u64,
}

impl Http1Reader {
    /// For the answer to a HEAD, or to another method.
    pub(super) fn new(is_head: bool) -> Self {
        Self {
            state: AnswerState::Head,
            partial: Vec::new(),
            is_head,
            closes: false,
            seen: SeenAnswer::default(),
            total: 0,
        }
    }

    /// Takes arrived bytes; true when the answer is complete.
    ///
    /// # Errors
    /// The error in the answer.
    pub(super) fn feed(&mut self, input: &[u8], text: Option<&[u8]>) -> Result<bool, LoadFault> {
        self.total += input.len() as u64;
        if !matches!(self.state, AnswerState::Head) {
            return self.feed_body(input, text);
        }
        let mut bytes = std::mem::take(&mut self.partial);
        bytes.extend_from_slice(input);
        let mut rest = &bytes[..];
        while let Some(len) = fields::head_len(rest) {
            let (head, after) = rest.split_at(len);
            rest = after;
            if self.read_head(head)? {
                return self.feed_body(rest, text);
            }
        }
        if rest.len() > HEAD_MAX {
            return Err(LoadFault::Malformed("a head over 64 KiB".to_owned()));
        }
        self.partial = rest.to_vec();
        Ok(false)
    }

    /// The target closed; fine where an answer ends with that.
    ///
    /// # Errors
    /// When the answer was not complete.
    pub(super) fn end(&mut self) -> Result<(), LoadFault> {
        self.closes = true;
        if matches!(self.state, AnswerState::UntilClose) {
            Ok(())
        } else {
            Err(LoadFault::Closed(self.total))
        }
    }

    /// Reads a head; false when it is an interim one.
    fn read_head(&mut self, head: &[u8]) -> Result<bool, LoadFault> {
        let (line, lines) = fields::split_line(head)?;
        let (version, status) = match (line.get(..9), line.get(9..12).and_then(fields::decimal)) {
            (Some(version @ (b"HTTP/1.1 " | b"HTTP/1.0 ")), Some(status))
                if (100..1000).contains(&status) =>
            {
                (version, status as u16)
            }
            _ => return Err(LoadFault::Malformed("a status line is HTTP/1.x, status, reason".to_owned())),
        };
        if status == 101 {
            return Err(LoadFault::Malformed("it changes the protocol, which was not asked for".to_owned()));
        }
        if status < 200 {
            return Ok(false);
        }
        let fields = fields::read(lines)?;
        self.seen.status = status;
        self.closes = fields.close || (version == b"HTTP/1.0 " && !fields.keep_alive);
        self.state = match fields.framing {
            _ if self.is_head || matches!(status, 204 | 304) => AnswerState::Length(0),
            BodyFraming::Length(len) => AnswerState::Length(len),
            BodyFraming::Chunked => AnswerState::Chunked(ChunkedReader::default()),
            BodyFraming::Unstated => AnswerState::UntilClose,
        };
        Ok(true)
    }

    fn feed_body(&mut self, input: &[u8], text: Option<&[u8]>) -> Result<bool, LoadFault> {
        let seen = &mut self.seen;
        let (used, is_done) = match &mut self.state {
            AnswerState::Head => return Ok(false),
            AnswerState::Length(left) => {
                let take = (*left).min(input.len() as u64);
                seen.body(&input[..take as usize], text);
                *left -= take;
                (take as usize, *left == 0)
            }
            AnswerState::Chunked(chunked) => {
                let used = chunked.feed(input, |data| seen.body(data, text))?;
                (used, chunked.is_done())
            }
            AnswerState::UntilClose => {
                seen.body(input, text);
                (input.len(), false)
            }
        };
        if used < input.len() {
            return Err(LoadFault::Surplus);
        }
        Ok(is_done)
    }
}

#[cfg(test)]
mod tests {
    use super::Http1Reader;

    /// Status, length, and whether the connection ends.
    fn read(wire: &str, is_head: bool, piece: usize) -> Result<(u16, u64, bool), &'static str> {
        let mut reader = Http1Reader::new(is_head);
        let mut is_done = false;
        for part in wire.as_bytes().chunks(piece) {
            is_done = reader.feed(part, None).map_err(|fault| fault.kind())?;
        }
        if !is_done {
            reader.end().map_err(|fault| fault.kind())?;
        }
        Ok((reader.seen.status, reader.seen.len, reader.closes))
    }

    #[test]
    fn answers_of_all_kinds_are_read_however_they_are_cut() {
        for (wire, is_head, seen) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false, (200, 5, false)),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, (200, 0, false)),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, (304, 0, false)),
            ("HTTP/1.1 204 No Content\r\n\r\n", false, (204, 0, false)),
            (
                "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno",
                false,
                (404, 2, true),
            ),
            (
                "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n0\r\n\r\n",
                false,
                (500, 2, false),
            ),
            ("HTTP/1.0 200 OK\r\n\r\nhello", false, (200, 5, true)),
            (
                "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
                false,
                (302, 0, false),
            ),
        ] {
            for piece in 1..=wire.len() {
                assert_eq!(read(wire, is_head, piece), Ok(seen), "{wire} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn wrong_answers_are_named() {
        for (wire, kind) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "closed early"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!", "surplus bytes"),
            ("HTTP/1.1 101 Switching\r\n\r\n", "malformed answer"),
            ("SSH-2.0-x\r\n\r\n", "malformed answer"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", "closed early"),
            ("", "closed early"),
        ] {
            assert_eq!(read(wire, false, wire.len().max(1)), Err(kind), "{wire}");
        }
    }
}
