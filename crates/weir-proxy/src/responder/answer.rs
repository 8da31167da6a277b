//! An answer of Weir's own, independent of the protocol.

use std::borrow::Cow;

use weir_config::ResponseOrigin;

/// A response with its whole body.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    pub(crate) status: u16,
    /// Names and values, without those that every answer has.
    pub(crate) fields: Vec<(&'a [u8], Cow<'a, [u8]>)>,
    pub(crate) body: Cow<'a, [u8]>,
    /// Where it comes from, for rules about headers.
    pub(crate) origin: ResponseOrigin,
    /// The media type of what it is about, also where it has no body (304).
    pub(crate) media_type: Option<&'a [u8]>,
}

impl<'a> Answer<'a> {
    /// One without fields or body.
    pub(crate) fn new(status: u16) -> Self {
        let (origin, media_type) = (ResponseOrigin::Weir, None);
        Self { status, fields: Vec::new(), body: Cow::Borrowed(b""), origin, media_type }
    }

    /// The same with another field.
    #[must_use]
    pub(crate) fn with(mut self, name: &'a [u8], value: impl Into<Cow<'a, [u8]>>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The value of the field of this name, in any mixture of upper and lower case.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&[u8]> {
        let mut fields = self.fields.iter();
        fields.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// Whether it may have a body (RFC 9110 section 6.4.1).
    pub(crate) fn may_have_body(&self) -> bool {
        self.status != 204 && self.status != 304
    }
}
