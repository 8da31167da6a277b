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
    /// There is none: the client is told that the one that it has is good, which may be one that was changed. Another client would get another one
    /// if it `varies`.
    NotModified {
        varies: bool,
    },
    /// It is rewritten, and not compressed. Another client would get it compressed if it `varies`.
    Rewritten {
        varies: bool,
    },
    Compressed(ContentCoding),
    Decompressed(ContentCoding),
}

/// Whether a body is rewritten, before it is decided whether it is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exchange) enum RewriteOutcome {
    /// It is not.
    AsItIs,
    /// There is none, and the one that the client has was rewritten.
    NotModified,
    /// It is.
    Rewritten,
}

impl BodyCoding {
    /// Whether the body is another one than the server has sent.
    pub(in crate::exchange) fn changes_body(self) -> bool {
        matches!(self, Self::Rewritten { .. } | Self::Compressed(_) | Self::Decompressed(_))
    }

    /// The length for the client of a body that has this one.
    pub(in crate::exchange) fn framing_for(self, length: Framing) -> Framing {
        if self.changes_body() && !length.is_empty() { Framing::Delimited } else { length }
    }

    /// Whether the length that the server has announced is that of another body.
    pub(in crate::exchange) fn replaces_length(self) -> bool {
        self.changes_body() || matches!(self, Self::NotModified { .. })
    }

    /// Whether another client would get another body, by what it accepts.
    pub(in crate::exchange) fn varies(self) -> bool {
        match self {
            Self::AsItIs => false,
            Self::NotModified { varies } | Self::Rewritten { varies } => varies,
            Self::Varies | Self::Compressed(_) | Self::Decompressed(_) => true,
        }
    }

    /// Its word in the access log.
    pub(in crate::exchange) fn word(self) -> Option<&'static str> {
        match self {
            Self::Compressed(coding) => Some(coding.name()),
            Self::Decompressed(_) => Some("decompressed"),
            Self::AsItIs | Self::Varies | Self::NotModified { .. } | Self::Rewritten { .. } => None,
        }
    }
}
