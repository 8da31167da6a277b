//! The head of a response: from a server's bytes to a fully validated description of them.
//!
//! As strict as the request side: a response whose end two parsers could see in different places poisons every later
//! exchange on its connection, so it is refused here and becomes a 502 further up.

use super::HeadProgress;
use super::framing::{MessageFraming, parse_length};
use super::lines::{Cursor, PartialToken, read_fields};
use super::normal::NormalizedHead;
use super::status_line::{ParsedStatusLine, REASON};
use crate::bytes::elements;
use crate::message::connection::{self, ConnectionOptions};
use crate::message::fields::{Field, Fields};
use crate::message::limits::HeadLimits;
use crate::message::method::Method;
use crate::message::name::FieldName;
use crate::message::rule::Rule;
use crate::message::span::TextSpan;
use crate::message::version::Version;

/// How the body of a response is delimited (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseBody {
    /// There is no body, whatever the fields say.
    None,
    /// The body has this many bytes, at least one.
    Length(u64),
    /// The body is in chunks.
    Chunked,
    /// The body ends when the server closes the connection.
    UntilClose,
}

/// The head of one response, reusable: after [`ResponseHead::reset`] the next one parses without allocating.
///
/// Spans refer to [`ResponseHead::text`], and the accessors mean something only once `parse` said `Complete`.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    cursor: Cursor,
    line_read: bool,
    /// Number of received bytes of the head; 0 until it is complete.
    len: usize,
    line: ParsedStatusLine,
    fields: Fields,
    framing: MessageFraming,
    connection: ConnectionOptions,
    normal: NormalizedHead,
}

impl ResponseHead {
    /// An empty head, nothing allocated.
    pub fn new() -> ResponseHead {
        ResponseHead::default()
    }

    /// Forgets everything but keeps the memory, ready for the next response.
    #[inline]
    pub fn reset(&mut self) {
        self.begin_again();
        self.normal.clear();
    }

    /// Forgets what was parsed.
    #[inline(always)]
    fn begin_again(&mut self) {
        self.cursor = Cursor::default();
        self.line_read = false;
        self.len = 0;
        self.line = ParsedStatusLine::default();
        self.fields.clear();
        self.framing = MessageFraming::default();
        self.connection = ConnectionOptions::default();
    }

    /// Parses the head at the start of `received`.
    ///
    /// On `Incomplete`, call again with the same bytes and more behind them: complete lines are not read twice. Once
    /// complete, further calls repeat the answer until `reset`. Of `limits`, the target's do not matter here.
    ///
    /// # Errors
    ///
    /// The first rule that the bytes break, read from the left, however they were cut into calls. The connection to
    /// the server must not be used again then.
    #[inline]
    pub fn parse(&mut self, received: &[u8], limits: &HeadLimits) -> Result<HeadProgress, Rule> {
        if self.len == 0 {
            let window = received.get(..limits.window()).unwrap_or(received);
            let len = if self.normal.is_active() {
                self.advance_normal(window, limits)
            } else {
                match self.advance(window, limits) {
                    Err(rule) => self.mend(window, limits, rule),
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
    fn advance(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<Option<usize>, Rule> {
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
            self.line = line;
            self.line_read = true;
            self.cursor.position = next;
        }
        let (version, framing, connection) = (self.line.version, &mut self.framing, &mut self.connection);
        let take = |name, _, value: &[u8]| take_field(name, value, version, framing, connection);
        let complete = read_fields(bytes, &mut self.cursor, &mut self.fields, limits.fields_max, take)?;
        Ok(complete.then_some(self.cursor.position))
    }

    /// Begins again with the normalised text if the broken rule is relaxed.
    #[cold]
    fn mend(&mut self, window: &[u8], limits: &HeadLimits, broken: Rule) -> Result<Option<usize>, Rule> {
        if !limits.lenient.may_mend(broken) {
            return Err(broken);
        }
        self.begin_again();
        self.normal.begin();
        self.advance_normal(window, limits)
    }

    /// The same by way of the normalised text, for a head that breaks a relaxed rule.
    #[cold]
    fn advance_normal(&mut self, received: &[u8], limits: &HeadLimits) -> Result<Option<usize>, Rule> {
        let mut normal = std::mem::take(&mut self.normal);
        normal.take_lines(received, &limits.lenient);
        // The bound holds for what was received.
        let unbounded = HeadLimits { head_bytes_max: usize::MAX, ..*limits };
        let mut complete = self.advance(normal.ready(), &unbounded);
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

    /// The bytes that all spans of this head refer to: `received` itself, which was given to `parse`, unless a relaxed
    /// rule made the head be normalised.
    #[inline]
    pub fn text<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        if self.normal.text().is_empty() { received } else { self.normal.text() }
    }

    /// Takes the normalised text, to which all spans refer then; empty when they refer to the received bytes.
    pub fn take_normal_text(&mut self) -> Vec<u8> {
        self.normal.take_text()
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

    /// The protocol version.
    #[inline]
    pub fn version(&self) -> Version {
        self.line.version
    }

    /// The status code, 100 to 599, or up to 999 where the limits allow it.
    #[inline]
    pub fn status(&self) -> u16 {
        self.line.status
    }

    /// The reason phrase, which may be empty.
    #[inline]
    pub fn reason(&self) -> TextSpan {
        self.line.reason
    }

    /// All fields, in the order received.
    #[inline]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The options of the `Connection` fields.
    #[inline]
    pub fn connection(&self) -> ConnectionOptions {
        self.connection
    }

    /// Whether `Connection` names `field` as one that must stop here: see `RequestHead::is_named_by_connection`.
    pub fn is_named_by_connection(&self, text: &[u8], field: &Field) -> bool {
        connection::names_field(text, &self.fields, field)
    }

    /// Whether the server keeps the connection open after this response (RFC 9112 section 9.3), provided that the body
    /// is not delimited by closing it.
    #[inline]
    pub fn keep_alive(&self) -> bool {
        !self.connection.close() && (self.line.version == Version::Http11 || self.connection.keep_alive())
    }

    /// How the body is delimited, for a response to a request with `method`.
    #[inline]
    pub fn body(&self, method: Method) -> ResponseBody {
        let bodiless = match self.line.status {
            100..200 | 204 | 304 => true,
            200..300 => matches!(method, Method::Head | Method::Connect),
            _ => method == Method::Head,
        };
        match self.framing {
            _ if bodiless => ResponseBody::None,
            MessageFraming { chunked: true, .. } => ResponseBody::Chunked,
            MessageFraming { length: Some(0), .. } => ResponseBody::None,
            MessageFraming { length: Some(length), .. } => ResponseBody::Length(length),
            MessageFraming { length: None, .. } => ResponseBody::UntilClose,
        }
    }

    /// The Content-Length, also where it only tells what GET would have brought (HEAD, 304).
    #[inline]
    pub fn content_length(&self) -> Option<u64> {
        self.framing.length
    }

    /// Seconds for which the server says it keeps an idle connection: `Keep-Alive: timeout=N` (RFC 2068 section
    /// 19.7.1.1). The smallest when there are several; what is malformed or above `u32::MAX` is passed over.
    pub fn keep_alive_timeout(&self, text: &[u8]) -> Option<u32> {
        let values = self.fields.all(FieldName::KeepAlive).map(|field| field.value.of(text));
        values.flat_map(elements).filter_map(parse_timeout).min()
    }
}

/// Takes in one field.
#[inline]
fn take_field(
    name: FieldName,
    value: &[u8],
    version: Version,
    framing: &mut MessageFraming,
    connection: &mut ConnectionOptions,
) -> Result<(), Rule> {
    match name {
        FieldName::ContentLength => framing.add_length(value),
        FieldName::TransferEncoding if version == Version::Http10 => Err(Rule::TransferEncodingInHttp10),
        FieldName::TransferEncoding => framing.add_transfer_encoding(value),
        FieldName::Connection => {
            connection.add(value);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The seconds of one `timeout=N` parameter.
fn parse_timeout(parameter: &[u8]) -> Option<u32> {
    let (name, value) = parameter.split_at_checked(8)?;
    if !name.eq_ignore_ascii_case(b"timeout=") {
        return None;
    }
    parse_length(value).and_then(|seconds| u32::try_from(seconds).ok())
}
