//! The head of a request as lines: from received bytes to a fully validated head.
//!
//! This is where a client's bytes first get a meaning. The result is spans into the text of the head, with every
//! rule of RFC 9110 and RFC 9112 already checked. It must not decide what to answer, nor what to forward.

use super::HeadProgress;
use super::framing::{add_length, add_transfer_encoding};
use super::lines::{Cursor, read_fields};
use super::normal::NormalizedHead;
use super::request_line::{self, read_method, read_request_line, skip_empty_lines};
use crate::message::limits::HeadLimits;
use crate::message::name::FieldName;
use crate::message::request::{RequestFacts, RequestHead};
use crate::message::rule::Rule;
use crate::message::span::TextSpan;
use crate::message::version::Version;

/// Parses the head of one request, as its bytes arrive; reusable after [`RequestParser::reset`].
///
/// A body of unknown length is chunked: nothing else delimits one in a request (RFC 9112 section 6.3).
///
/// ```
/// use weir_http::http1::{HeadProgress, RequestParser};
/// use weir_http::{Framing, FieldName, HeadLimits, RequestHead};
///
/// let received = b"POST /a?b HTTP/1.1\r\nHost: example.com\r\nContent-Length: 5\r\n\r\nhello";
/// let (mut parser, mut head) = (RequestParser::new(), RequestHead::new());
/// let limits = HeadLimits::default();
/// assert_eq!(parser.parse(&mut head, &received[..20], &limits), Ok(HeadProgress::Incomplete));
/// let Ok(HeadProgress::Complete { len }) = parser.parse(&mut head, received, &limits) else { unreachable!() };
///
/// let text = parser.text(received);
/// assert_eq!(head.path().of(text), b"/a");
/// assert_eq!(head.host().of(text), b"example.com");
/// assert_eq!(head.body(), Framing::Length(5));
/// assert!(!head.fields().contains(FieldName::Cookie));
/// assert_eq!(&received[len..], b"hello");
/// ```
#[derive(Debug, Clone, Default)]
pub struct RequestParser {
    cursor: Cursor,
    line_read: bool,
    /// Number of received bytes of the head; 0 until it is complete.
    len: usize,
    normal: NormalizedHead,
}

impl RequestParser {
    /// A parser at the start of a head, nothing allocated.
    pub fn new() -> RequestParser {
        RequestParser::default()
    }

    /// Forgets everything but keeps the memory, ready for the next request.
    #[inline]
    pub fn reset(&mut self) {
        self.begin_again();
        self.normal.clear();
    }

    #[inline(always)]
    fn begin_again(&mut self) {
        self.cursor = Cursor::default();
        self.line_read = false;
        self.len = 0;
    }

    /// Parses the head at the start of `received` into `head`, which was reset when the parser was.
    ///
    /// On `Incomplete`, call again with the same head, the same bytes and more behind them: complete lines are not read
    /// twice. Once complete, further calls repeat the answer until `reset`.
    ///
    /// # Errors
    ///
    /// The first rule that the bytes break, read from the left, however they were cut into calls. Parser and head must be
    /// reset then; nothing may be forwarded and nothing behind it may be read as another request.
    #[inline]
    pub fn parse(
        &mut self,
        head: &mut RequestHead,
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
        head: &mut RequestHead,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, Rule> {
        if self.cursor.still_within(bytes) && (self.line_read || bytes.len() <= limits.target_bytes_max) {
            return Ok(None);
        }
        if !self.line_read {
            let Some(start) = skip_empty_lines(bytes)? else { return Ok(None) };
            let Some(next) = read_request_line(head, bytes, start, limits)? else {
                self.cursor.stop(start, bytes, request_line::within(&bytes[start..], limits));
                return Ok(None);
            };
            if head.target.is_odd {
                head.normalise_path(bytes, &limits.paths)?;
            }
            self.line_read = true;
            self.cursor.position = next;
        }
        let (version, facts) = (head.version, &mut head.facts);
        let take = |name, span, value: &[u8]| take_field(facts, name, span, value, version);
        if !read_fields(bytes, &mut self.cursor, &mut head.fields, limits.fields_max, take)? {
            return Ok(None);
        }
        if head.facts.host_len == 0 {
            check_without_host(head)?;
        }
        Ok(Some(self.cursor.position))
    }

    /// Begins again with the normalised text if the broken rule is relaxed.
    #[cold]
    fn mend(
        &mut self,
        head: &mut RequestHead,
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
        head: &mut RequestHead,
        received: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, Rule> {
        let mut normal = std::mem::take(&mut self.normal);
        normal.take_lines(received, &limits.lenient);
        // The bound is for the received bytes; encoding may make up to three bytes of one.
        let unbounded = HeadLimits { head_bytes_max: usize::MAX, ..*limits };
        let mut complete = self.advance(head, normal.ready(), &unbounded);
        if complete == Ok(None) && !self.line_read {
            let start = normal.peek(received);
            let method =
                skip_empty_lines(&start).and_then(|at| at.map_or(Ok(None), |at| read_method(&start, at)));
            complete = method.and(Ok(None));
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

    /// Number of received bytes that belong to the head, leading empty lines included; 0 until it is complete.
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

/// Whether the head may be without a host in its fields: every HTTP/1.1 request has one Host field, even when the target says it all
/// (RFC 9112 section 3.2), and one that says nothing would make a URL without a host (RFC 9110 section 4.2.1).
#[cold]
fn check_without_host(head: &RequestHead) -> Result<(), Rule> {
    match (head.facts.host, head.version) {
        (None, Version::Http11) => Err(Rule::MissingHost),
        (Some(_), _) if head.authority().is_empty() => Err(Rule::EmptyHost),
        _ => Ok(()),
    }
}

/// Notes one field.
#[inline]
fn take_field(
    facts: &mut RequestFacts,
    name: FieldName,
    span: TextSpan,
    value: &[u8],
    version: Version,
) -> Result<(), Rule> {
    const TELLING: u64 = FieldName::Host.bit()
        | FieldName::ContentLength.bit()
        | FieldName::TransferEncoding.bit()
        | FieldName::Connection.bit()
        | FieldName::Expect.bit()
        | FieldName::Upgrade.bit();
    if TELLING & name.bit() == 0 {
        return Ok(());
    }
    match name {
        FieldName::Host => facts.add_host(span, value),
        FieldName::Connection => {
            facts.connection.add(value);
            Ok(())
        }
        FieldName::ContentLength => add_length(&mut facts.content_length, facts.is_open, value),
        FieldName::TransferEncoding if version == Version::Http10 => Err(Rule::TransferEncodingInHttp10),
        FieldName::TransferEncoding => add_transfer_encoding(&mut facts.is_open, facts.content_length, value),
        _ => {
            take_rare_field(facts, name, span, value, version);
            Ok(())
        }
    }
}

#[cold]
fn take_rare_field(
    facts: &mut RequestFacts,
    name: FieldName,
    span: TextSpan,
    value: &[u8],
    version: Version,
) {
    match name {
        FieldName::Expect if version == Version::Http11 => facts.add_expectation(value),
        FieldName::Upgrade => facts.add_upgrade(span),
        _ => {}
    }
}
