//! The head of a response as lines: from a server's bytes to a fully validated head.
//!
//! As strict as the request side: a response whose end two parsers could see in different places poisons every later
//! exchange on its connection, so it is refused here and becomes a 502 further up.

use super::HeadProgress;
use super::framing::{add_length, add_transfer_encoding};
use super::lines::{Cursor, PartialToken, read_fields};
use super::normal::NormalizedHead;
use super::status_line::{ParsedStatusLine, REASON};
use crate::message::framing::Framing;
use crate::message::limits::HeadLimits;
use crate::message::name::FieldName;
use crate::message::response::ResponseHead;
use crate::message::rule::Rule;
use crate::message::version::Version;

/// Parses the head of one response, as its bytes arrive; reusable after [`ResponseParser::reset`].
#[derive(Debug, Clone, Default)]
pub struct ResponseParser {
    cursor: Cursor,
    line_read: bool,
    /// Whether there is a Transfer-Encoding, which is then `chunked` and nothing else.
    is_chunked: bool,
    /// Number of received bytes of the head; 0 until it is complete.
    len: usize,
    normal: NormalizedHead,
}

impl ResponseParser {
    /// A parser at the start of a head, nothing allocated.
    pub fn new() -> ResponseParser {
        ResponseParser::default()
    }

    /// Forgets everything but keeps the memory, ready for the next response.
    #[inline]
    pub fn reset(&mut self) {
        self.begin_again();
        self.normal.clear();
    }

    #[inline(always)]
    fn begin_again(&mut self) {
        self.cursor = Cursor::default();
        self.line_read = false;
        self.is_chunked = false;
        self.len = 0;
    }

    /// Parses the head at the start of `received` into `head`, which was reset when the parser was.
    ///
    /// On `Incomplete`, call again with the same head, the same bytes and more behind them: complete lines are not read
    /// twice. Once complete, further calls repeat the answer until `reset`. Of `limits`, the target's do not matter here.
    ///
    /// # Errors
    ///
    /// The first rule that the bytes break, read from the left, however they were cut into calls. The connection to
    /// the server must not be used again then.
    #[inline]
    pub fn parse(
        &mut self,
        head: &mut ResponseHead,
        received: &[u8],
        limits: &HeadLimits,
    ) -> Result<HeadProgress, Rule> {
        if self.len == 0 {
            let window = received.get(..limits.window()).unwrap_or(received);
            let len = if self.normal.is_active() {
                self.advance_normal(head, window, limits)
            } else {
                match self.advance(head, window, limits) {
                    Err(rule) => self.mend(head, window, limits, rule),
                    len => len,
                }
            };
            match len? {
                Some(len) => self.len = len,
                None if window.len() >= limits.window() => return Err(Rule::HeadTooLarge),
                None => return Ok(HeadProgress::Incomplete),
            }
        }
        Ok(HeadProgress::Complete { len: self.len })
    }

    /// Goes on from the first incomplete line. Gives the length of the head once it is complete.
    #[inline(never)]
    fn advance(
        &mut self,
        head: &mut ResponseHead,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, Rule> {
        if self.cursor.still_within(bytes) {
            return Ok(None);
        }
        if !self.line_read {
            let Some((line, next)) = ParsedStatusLine::read(bytes, limits.lenient.high_status)? else {
                // Past version and status there is only the reason phrase.
                let within = if bytes.len() > REASON && !bytes.ends_with(b"\r") {
                    PartialToken::Value
                } else {
                    PartialToken::None
                };
                self.cursor.stop(0, bytes, within);
                return Ok(None);
            };
            (head.version, head.status, head.reason) = (line.version, line.status, line.reason);
            head.without_length = Framing::UntilClose;
            self.line_read = true;
            self.cursor.position = next;
        }
        let version = head.version;
        let ResponseHead { fields, content_length, connection, .. } = head;
        let is_chunked = &mut self.is_chunked;
        let take = |name, _, value: &[u8]| match name {
            FieldName::ContentLength => add_length(content_length, *is_chunked, value),
            FieldName::TransferEncoding if version == Version::Http10 => Err(Rule::TransferEncodingInHttp10),
            FieldName::TransferEncoding => add_transfer_encoding(is_chunked, *content_length, value),
            FieldName::Connection => {
                connection.add(value);
                Ok(())
            }
            _ => Ok(()),
        };
        let complete = read_fields(bytes, &mut self.cursor, fields, limits.fields_max, take)?;
        if *is_chunked {
            head.without_length = Framing::Delimited;
        }
        Ok(complete.then_some(self.cursor.position))
    }

    /// Begins again with the normalised text if the broken rule is relaxed.
    #[cold]
    fn mend(
        &mut self,
        head: &mut ResponseHead,
        window: &[u8],
        limits: &HeadLimits,
        broken: Rule,
    ) -> Result<Option<usize>, Rule> {
        if !limits.lenient.may_mend(broken) {
            return Err(broken);
        }
        self.begin_again();
        head.reset();
        self.normal.begin();
        self.advance_normal(head, window, limits)
    }

    /// The same by way of the normalised text, for a head that breaks a relaxed rule.
    #[cold]
    fn advance_normal(
        &mut self,
        head: &mut ResponseHead,
        received: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, Rule> {
        let mut normal = std::mem::take(&mut self.normal);
        normal.take_lines(received, &limits.lenient);
        // The bound is for the received bytes.
        let unbounded = HeadLimits { head_bytes_max: usize::MAX, ..*limits };
        let mut complete = self.advance(head, normal.ready(), &unbounded);
        if complete == Ok(None) && !self.line_read && !normal.may_drop_next(received, &limits.lenient) {
            let start = normal.peek(received);
            complete = match ParsedStatusLine::read(&start, limits.lenient.high_status) {
                // The line is not complete, so it is still to be normalised.
                Err(rule) if limits.lenient.may_mend(rule) && rule != Rule::BadStatusLine => Ok(None),
                line => line.and(Ok(None)),
            };
        }
        self.normal = normal;
        Ok(complete?.map(|_| self.normal.taken()))
    }

    /// The bytes that all spans of the head refer to: `received` itself, which was given to `parse`, unless a relaxed
    /// rule made the head be normalised.
    #[inline]
    pub fn text<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        if self.normal.text().is_empty() { received } else { self.normal.text() }
    }

    /// Number of received bytes that belong to the head; 0 until it is complete.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no complete head.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
