//! The head of a response, whatever the protocol that brought it.
//!
//! Filled in place, as that of a request is: spans into one text, and the meaning of the fields as a whole. It must not decide
//! what to forward.

use super::field_values::connection::{self, ConnectionOptions};
use super::fields::{Field, Fields};
use super::framing::Framing;
use super::method::Method;
use super::span::TextSpan;
use super::version::Version;

/// The head of one response, reusable: after [`ResponseHead::reset`] the next one is filled in without allocating.
///
/// Spans refer to the text that the protocol gives with the head: see `http1::ResponseParser`. The accessors mean something
/// only once it has said that the head is complete.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    pub(crate) version: Version,
    pub(crate) status: u16,
    pub(crate) reason: TextSpan,
    pub(crate) fields: Fields,
    pub(crate) content_length: Option<u64>,
    /// How a body without a Content-Length is delimited.
    pub(crate) without_length: Framing,
    /// Empty in a protocol without `Connection`.
    pub(crate) connection: ConnectionOptions,
}

impl ResponseHead {
    /// An empty head, nothing allocated.
    pub fn new() -> ResponseHead {
        ResponseHead::default()
    }

    /// Forgets everything but keeps the memory, ready for the next response.
    #[inline]
    pub fn reset(&mut self) {
        self.version = Version::default();
        self.status = 0;
        self.reason = TextSpan::default();
        self.fields.clear();
        self.content_length = None;
        self.without_length = Framing::None;
        self.connection = ConnectionOptions::default();
    }

    /// Gives it another status, without a reason phrase: of a page that is sent in place of another response. The framing of its body must not change by that.
    pub fn replace_status(&mut self, status: u16) {
        debug_assert!(
            !matches!(self.status, 100..=199 | 204 | 304) && !matches!(status, 100..=199 | 204 | 304)
        );
        self.status = status;
        self.reason = TextSpan::default();
    }

    /// The protocol version.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The status code, 100 to 599, or up to 999 where the limits allow it.
    #[inline]
    pub fn status(&self) -> u16 {
        self.status
    }

    /// The reason phrase, which may be empty; always so in a protocol that has none.
    #[inline]
    pub fn reason(&self) -> TextSpan {
        self.reason
    }

    /// All fields, in the order received.
    #[inline]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The options of the `Connection` fields; none in a protocol that does not have that field.
    #[inline]
    pub fn connection(&self) -> ConnectionOptions {
        self.connection
    }

    /// Whether `Connection` names `field` as one that must stop here: see `RequestHead::is_named_by_connection`.
    pub fn is_named_by_connection(&self, text: &[u8], field: &Field) -> bool {
        connection::names_field(text, &self.fields, field)
    }

    /// How the body is delimited, in a response to a request with `method` (RFC 9110 section 6.4.1).
    #[inline]
    pub fn body(&self, method: Method) -> Framing {
        Framing::from_length(self.content_length, self.without_length).in_response(method, self.status)
    }

    /// The Content-Length, also where it only gives the length that a GET would have had (HEAD, 304).
    #[inline]
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }
}
