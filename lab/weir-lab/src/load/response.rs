//! Reads one answer as it arrives and compares it with the expected one (RFC 9112 4, 6).
//!
//! The usual answer comes in one piece: one search for the end of the head, one pass over the fields, one comparison of
//! the body, no copy. Interim answers (1xx) are skipped.

use super::exchange::{ExpectedBody, PreparedExchange};
use super::fault::LoadFault;
use crate::wire::chunked::ChunkedReader;
use crate::wire::fields::{self, BodyFraming, MalformedHead};

/// Longest head the driver reads, in bytes.
const HEAD_MAX: usize = 64 * 1024;

/// So much of the head of an answer with a wrong status is kept: the fields by which a target says why are in it.
const START_MAX: usize = 500;

/// How far an answer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadProgress {
    /// More has to arrive.
    More,
    /// The answer is complete and correct.
    Done {
        /// The connection ends with it.
        closes: bool,
    },
}

#[derive(Debug, Clone)]
enum ReaderState {
    Head,
    Length(u64),
    Chunked(ChunkedReader),
    UntilClose,
}

/// The place reached in an answer.
#[derive(Debug, Clone)]
pub struct ResponseReader {
    state: ReaderState,
    /// The start of a head that came in pieces.
    partial: Vec<u8>,
    /// Body bytes read.
    position: u64,
    /// All bytes read.
    total: u64,
    closes: bool,
    /// The value of its Set-Cookie.
    set_cookie: Option<Vec<u8>>,
}

impl Default for ResponseReader {
    fn default() -> Self {
        Self {
            state: ReaderState::Head,
            partial: Vec::new(),
            position: 0,
            total: 0,
            closes: false,
            set_cookie: None,
        }
    }
}

impl From<MalformedHead> for LoadFault {
    fn from(rule: MalformedHead) -> Self {
        Self::Malformed(rule.0.to_owned())
    }
}

impl ResponseReader {
    /// Makes it ready for the answer to `exchange`: a head and a body, or bytes alone in a tunnel.
    pub fn reset(&mut self, exchange: &PreparedExchange) {
        self.state = match exchange.opening {
            None => ReaderState::Head,
            Some(_) => ReaderState::Length(exchange.expected.len()),
        };
        self.partial.clear();
        self.position = 0;
        self.total = 0;
        self.closes = false;
        self.set_cookie = None;
    }

    /// The value of its Set-Cookie, once the head is read.
    pub fn set_cookie(&self) -> Option<&[u8]> {
        self.set_cookie.as_deref()
    }

    /// Takes arrived bytes.
    ///
    /// # Errors
    /// The error in the answer.
    pub fn feed(&mut self, input: &[u8], expected: &ExpectedBody) -> Result<ReadProgress, LoadFault> {
        self.total += input.len() as u64;
        if !matches!(self.state, ReaderState::Head) {
            return self.feed_body(input, expected);
        }
        if self.partial.is_empty() {
            return self.feed_head(input, expected);
        }
        let mut whole = std::mem::take(&mut self.partial);
        whole.extend_from_slice(input);
        self.feed_head(&whole, expected)
    }

    /// Notes that the target closed.
    ///
    /// # Errors
    /// When the answer was not complete.
    pub fn end(&mut self, expected: &ExpectedBody) -> Result<ReadProgress, LoadFault> {
        if !matches!(self.state, ReaderState::UntilClose) {
            return Err(LoadFault::Closed(self.total));
        }
        if self.position != expected.len() {
            return Err(LoadFault::Length(expected.len(), self.position));
        }
        Ok(ReadProgress::Done { closes: true })
    }

    fn feed_head(&mut self, bytes: &[u8], expected: &ExpectedBody) -> Result<ReadProgress, LoadFault> {
        let mut bytes = bytes;
        loop {
            let Some(len) = fields::head_len(bytes) else {
                if bytes.len() > HEAD_MAX {
                    return Err(LoadFault::Malformed("a head over 64 KiB".to_owned()));
                }
                self.partial.extend_from_slice(bytes);
                return Ok(ReadProgress::More);
            };
            let (head, rest) = bytes.split_at(len);
            bytes = rest;
            if self.read_head(head, expected)? {
                return self.feed_body(rest, expected);
            }
        }
    }

    /// Reads a head; false when it is an interim one.
    fn read_head(&mut self, head: &[u8], expected: &ExpectedBody) -> Result<bool, LoadFault> {
        let (line, lines) = fields::split_line(head)?;
        let (version, status) = match (line.get(..9), line.get(9..12).and_then(fields::decimal)) {
            (Some(version @ (b"HTTP/1.1 " | b"HTTP/1.0 ")), Some(status))
                if (100..1000).contains(&status) =>
            {
                (version, status as u16)
            }
            _ => return Err(LoadFault::Malformed("a status line is HTTP/1.x, status, reason".to_owned())),
        };
        if status < 200 {
            return Ok(false);
        }
        if status > 299 {
            let start = String::from_utf8_lossy(&head[..head.len().min(START_MAX)]).replace("\r\n", " | ");
            return Err(LoadFault::Status(status, start));
        }
        let fields = fields::read(lines)?;
        self.set_cookie = fields.set_cookie.map(<[u8]>::to_vec);
        self.closes = fields.close || (version == b"HTTP/1.0 " && !fields.keep_alive);
        self.state = match fields.framing {
            _ if status == 204 => ReaderState::Length(0),
            BodyFraming::Length(len) => ReaderState::Length(len),
            BodyFraming::Chunked => ReaderState::Chunked(ChunkedReader::default()),
            BodyFraming::Unstated => ReaderState::UntilClose,
        };
        if let ReaderState::Length(len) = self.state
            && len != expected.len()
        {
            return Err(LoadFault::Length(expected.len(), len));
        }
        Ok(true)
    }

    fn feed_body(&mut self, input: &[u8], expected: &ExpectedBody) -> Result<ReadProgress, LoadFault> {
        let (start, mut position, mut same) = (self.position, self.position, true);
        let mut check = |data: &[u8]| {
            same &= expected.matches(position, data);
            position += data.len() as u64;
        };
        let (used, done) = match &mut self.state {
            ReaderState::Head => unreachable!("the head is read before the body"),
            ReaderState::Length(len) => {
                let take = (*len - start).min(input.len() as u64) as usize;
                check(&input[..take]);
                (take, start + take as u64 == *len)
            }
            ReaderState::Chunked(chunked) => {
                let used = chunked.feed(input, &mut check)?;
                (used, chunked.is_done())
            }
            ReaderState::UntilClose => {
                check(input);
                (input.len(), false)
            }
        };
        self.position = position;
        if !same {
            return Err(if position > expected.len() {
                LoadFault::Length(expected.len(), position)
            } else {
                LoadFault::Content(start)
            });
        }
        if used < input.len() {
            return Err(LoadFault::Surplus);
        }
        match done {
            false => Ok(ReadProgress::More),
            true if position != expected.len() => Err(LoadFault::Length(expected.len(), position)),
            true => Ok(ReadProgress::Done { closes: self.closes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ReadProgress, ResponseReader};
    use crate::load::exchange::{ExpectedBody, PreparedExchange};
    use crate::load::fault::LoadFault;

    fn hello() -> PreparedExchange {
        PreparedExchange {
            request: Vec::new(),
            expected: ExpectedBody::Literal(b"hello".to_vec()),
            opening: None,
        }
    }

    fn read(wire: &[u8], piece: usize) -> Result<ReadProgress, LoadFault> {
        let (mut reader, expected) = (ResponseReader::default(), ExpectedBody::Literal(b"hello".to_vec()));
        let mut step = ReadProgress::More;
        for part in wire.chunks(piece) {
            step = reader.feed(part, &expected)?;
        }
        if step == ReadProgress::More { reader.end(&expected) } else { Ok(step) }
    }

    #[test]
    fn correct_answers_are_taken_however_they_are_framed_and_cut() {
        for (wire, closes) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello", true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\n\r\nhello", true),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nhello",
                false,
            ),
        ] {
            for piece in 1..=wire.len() {
                assert_eq!(
                    read(wire.as_bytes(), piece),
                    Ok(ReadProgress::Done { closes }),
                    "{wire} in pieces of {piece}"
                );
            }
        }
    }

    #[test]
    fn wrong_answers_are_named() {
        for (wire, kind) in [
            ("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "status"),
            ("HTTP/1.1 304 Not Modified\r\n\r\n", "status"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell", "body length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!", "body length"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhellO", "body content"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", "closed early"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!", "surplus bytes"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n0\r\n\r\n", "body length"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello!\r\n0\r\n\r\n", "body length"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed answer"),
            ("HTTP/1.1 200 OK\r\n\r\nhell", "body length"),
            ("HTTP/1.1 OK\r\n\r\n", "malformed answer"),
            ("HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello", "malformed answer"),
            ("SSH-2.0-x\r\n\r\n", "malformed answer"),
            ("HTTP/1.1 200 OK\r\nContent-Le", "closed early"),
            ("", "closed early"),
        ] {
            let fault = read(wire.as_bytes(), wire.len().max(1)).expect_err(wire);
            assert_eq!(fault.kind(), kind, "{wire}: {fault}");
        }
    }

    #[test]
    fn the_cookie_is_that_of_this_answer_and_not_of_an_interim_one() {
        let (mut reader, expected) = (ResponseReader::default(), ExpectedBody::Literal(b"hello".to_vec()));
        for (wire, cookie) in [
            ("HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 5\r\n\r\nhello", Some(&b"a=1"[..])),
            (
                "HTTP/1.1 103 Early Hints\r\nSet-Cookie: a=1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                None,
            ),
        ] {
            reader.reset(&hello());
            for byte in wire.as_bytes() {
                reader.feed(&[*byte], &expected).unwrap();
            }
            assert_eq!(reader.set_cookie(), cookie, "{wire}");
        }
    }

    #[test]
    fn a_reader_is_good_for_the_next_answer_too() {
        let (mut reader, expected) = (ResponseReader::default(), ExpectedBody::Literal(b"hello".to_vec()));
        for _ in 0..3 {
            let step = reader.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", &expected);
            assert_eq!(step, Ok(ReadProgress::Done { closes: false }));
            reader.reset(&hello());
        }
    }

    #[test]
    fn an_answer_in_a_tunnel_is_its_bytes() {
        let tunnel = PreparedExchange { opening: Some(Vec::new()), ..hello() };
        let mut reader = ResponseReader::default();
        for (parts, step) in [
            (&[&b"he"[..], b"llo"][..], Ok(ReadProgress::Done { closes: false })),
            (&[b"hell"], Ok(ReadProgress::More)),
            (&[b"hellO"], Err("body content")),
            (&[b"hello!"], Err("surplus bytes")),
        ] {
            reader.reset(&tunnel);
            let mut last = Ok(ReadProgress::More);
            for part in parts {
                last = reader.feed(part, &tunnel.expected).map_err(|fault| fault.kind());
            }
            assert_eq!(last, step);
        }
        assert!(reader.end(&tunnel.expected).is_err());
    }
}
