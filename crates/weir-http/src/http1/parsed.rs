//! A parser together with the head that it fills, for callers that parse one head after another and keep none of them.

use std::ops::Deref;

use super::HeadProgress;
use super::keep_alive::keeps_alive;
use super::request::RequestParser;
use super::response::ResponseParser;
use crate::message::framing::Framing;
use crate::message::limits::HeadLimits;
use crate::message::method::Method;
use crate::message::request::RequestHead;
use crate::message::response::ResponseHead;
use crate::message::rule::Rule;

/// The head of a request and its [`RequestParser`].
#[derive(Debug, Clone, Default)]
pub struct ParsedRequest {
    parser: RequestParser,
    head: RequestHead,
}

/// The head of a response and its [`ResponseParser`].
#[derive(Debug, Clone, Default)]
pub struct ParsedResponse {
    parser: ResponseParser,
    head: ResponseHead,
}

impl ParsedRequest {
    /// An empty head, nothing allocated.
    pub fn new() -> ParsedRequest {
        ParsedRequest::default()
    }

    /// Forgets everything but keeps the memory, ready for the next request.
    #[inline]
    pub fn reset(&mut self) {
        self.parser.reset();
        self.head.reset();
    }

    /// Parses the head at the start of `received`.
    ///
    /// # Errors
    ///
    /// As [`RequestParser::parse`].
    #[inline]
    pub fn parse(&mut self, received: &[u8], limits: &HeadLimits) -> Result<HeadProgress, Rule> {
        self.parser.parse(&mut self.head, received, limits)
    }

    /// The bytes that all spans of the head refer to: see [`RequestParser::text`].
    #[inline]
    pub fn text<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        self.parser.text(received)
    }

    /// Number of received bytes that belong to the head; 0 until it is complete.
    #[inline]
    pub fn len(&self) -> usize {
        self.parser.len()
    }

    /// Whether there is no complete head.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parser.is_empty()
    }

    /// Whether the client wants to send further requests on this connection.
    #[inline]
    pub fn keep_alive(&self) -> bool {
        keeps_alive(self.head.version(), self.head.connection())
    }
}

impl Deref for ParsedRequest {
    type Target = RequestHead;

    fn deref(&self) -> &RequestHead {
        &self.head
    }
}

impl ParsedResponse {
    /// An empty head, nothing allocated.
    pub fn new() -> ParsedResponse {
        ParsedResponse::default()
    }

    /// Forgets everything but keeps the memory, ready for the next response.
    #[inline]
    pub fn reset(&mut self) {
        self.parser.reset();
        self.head.reset();
    }

    /// Parses the head at the start of `received`.
    ///
    /// # Errors
    ///
    /// As [`ResponseParser::parse`].
    #[inline]
    pub fn parse(&mut self, received: &[u8], limits: &HeadLimits) -> Result<HeadProgress, Rule> {
        self.parser.parse(&mut self.head, received, limits)
    }

    /// The bytes that all spans of the head refer to: see [`ResponseParser::text`].
    #[inline]
    pub fn text<'a>(&'a self, received: &'a [u8]) -> &'a [u8] {
        self.parser.text(received)
    }

    /// Number of received bytes that belong to the head; 0 until it is complete.
    #[inline]
    pub fn len(&self) -> usize {
        self.parser.len()
    }

    /// Whether there is no complete head.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parser.is_empty()
    }

    /// Whether the server keeps the connection open after this response, provided that the body is not delimited by closing it.
    #[inline]
    pub fn keep_alive(&self) -> bool {
        keeps_alive(self.head.version(), self.head.connection())
    }

    /// How the body is delimited, in a response to a request with `method`.
    #[inline]
    pub fn framing(&self, method: Method) -> Framing {
        self.head.body(method)
    }
}

impl Deref for ParsedResponse {
    type Target = ResponseHead;

    fn deref(&self) -> &ResponseHead {
        &self.head
    }
}
