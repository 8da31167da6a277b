//! What becomes of the body of a response: the outcome of negotiation, for its head, its length and its log line.

use weir_http::{ContentCoding, Framing};

/// What becomes of the body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BodyCoding {
    /// It passes, and would for every client.
    #[default]
    AsItIs,
    /// It passes, but another client would get another one.
    Varies,
    /// There is none: the client is told that the one that it has is good, which may be a compressed one.
    NotModified,
    Compressed(ContentCoding),
    Decompressed(ContentCoding),
}

impl BodyCoding {
    /// Whether the body is another one than the server has sent.
    pub(in crate::exchange) fn changes_body(self) -> bool {
        matches!(self, Self::Compressed(_) | Self::Decompressed(_))
    }

    /// The length for the client of a body that has this one.
    pub(in crate::exchange) fn framing_for(self, length: Framing) -> Framing {
        if self.changes_body() && !length.is_empty() { Framing::Delimited } else { length }
    }

    /// Whether the length that the server has announced is that of another body.
    pub(in crate::exchange) fn replaces_length(self) -> bool {
        self.changes_body() || self == Self::NotModified
    }

    /// Its word in the access log.
    pub(in crate::exchange) fn word(self) -> Option<&'static str> {
        match self {
            Self::Compressed(coding) => Some(coding.name()),
            Self::Decompressed(_) => Some("decompressed"),
            Self::AsItIs | Self::Varies | Self::NotModified => None,
        }
    }
}
