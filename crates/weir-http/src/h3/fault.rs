//! What a peer does wrong, and the code that tells it so (RFC 9114 section 8, RFC 9204 section 6).

use crate::message::rule::Rule;

/// Declares [`Http3Code`] with the names of the RFCs.
macro_rules! http3_codes {
    ($($name:ident $number:literal $text:literal,)+) => {
        /// Why a stream or a connection ends; any number may arrive.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct Http3Code(pub u64);

        impl Http3Code {
            $(#[doc = concat!("`", $text, "`")] pub const $name: Self = Self($number);)+

            /// The name of the code; `None` for one that the RFCs do not define.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)+
                    _ => None,
                }
            }
        }
    };
}

http3_codes! {
    NO_ERROR 0x100 "H3_NO_ERROR",
    GENERAL_PROTOCOL_ERROR 0x101 "H3_GENERAL_PROTOCOL_ERROR",
    INTERNAL_ERROR 0x102 "H3_INTERNAL_ERROR",
    STREAM_CREATION_ERROR 0x103 "H3_STREAM_CREATION_ERROR",
    CLOSED_CRITICAL_STREAM 0x104 "H3_CLOSED_CRITICAL_STREAM",
    FRAME_UNEXPECTED 0x105 "H3_FRAME_UNEXPECTED",
    FRAME_ERROR 0x106 "H3_FRAME_ERROR",
    EXCESSIVE_LOAD 0x107 "H3_EXCESSIVE_LOAD",
    ID_ERROR 0x108 "H3_ID_ERROR",
    SETTINGS_ERROR 0x109 "H3_SETTINGS_ERROR",
    MISSING_SETTINGS 0x10a "H3_MISSING_SETTINGS",
    REQUEST_REJECTED 0x10b "H3_REQUEST_REJECTED",
    REQUEST_CANCELLED 0x10c "H3_REQUEST_CANCELLED",
    REQUEST_INCOMPLETE 0x10d "H3_REQUEST_INCOMPLETE",
    MESSAGE_ERROR 0x10e "H3_MESSAGE_ERROR",
    CONNECT_ERROR 0x10f "H3_CONNECT_ERROR",
    VERSION_FALLBACK 0x110 "H3_VERSION_FALLBACK",
    QPACK_DECOMPRESSION_FAILED 0x200 "QPACK_DECOMPRESSION_FAILED",
    QPACK_ENCODER_STREAM_ERROR 0x201 "QPACK_ENCODER_STREAM_ERROR",
    QPACK_DECODER_STREAM_ERROR 0x202 "QPACK_DECODER_STREAM_ERROR",
}

/// A fault of a peer: how far it reaches, the code that says so, and the rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http3Fault {
    /// The connection can carry nothing more: it is closed with this code.
    Connection {
        /// What CONNECTION_CLOSE says.
        code: Http3Code,
        /// The rule that was broken.
        rule: Rule,
    },
    /// It ends one stream: what still arrives on it is not wanted (STOP_SENDING), and it is reset unless a response explains the fault.
    Stream {
        /// What RESET_STREAM and STOP_SENDING say.
        code: Http3Code,
        /// The rule that was broken.
        rule: Rule,
    },
}

impl Http3Fault {
    /// One of the connection.
    pub const fn connection(code: Http3Code, rule: Rule) -> Self {
        Self::Connection { code, rule }
    }

    /// A frame is not allowed where it is (RFC 9114 section 7).
    pub(super) const fn unexpected_frame() -> Self {
        Self::connection(Http3Code::FRAME_UNEXPECTED, Rule::Http3UnexpectedFrame)
    }

    /// The payload of a frame is not what its type says, or it is cut (section 7.1).
    pub(super) const fn bad_frame() -> Self {
        Self::connection(Http3Code::FRAME_ERROR, Rule::Http3BadFrame)
    }

    /// A stream or push ID is one that cannot be.
    pub(super) const fn bad_id() -> Self {
        Self::connection(Http3Code::ID_ERROR, Rule::Http3BadId)
    }

    /// The peer does too much of something that costs it little.
    pub(super) const fn excessive_load(rule: Rule) -> Self {
        Self::connection(Http3Code::EXCESSIVE_LOAD, rule)
    }

    /// A message is malformed (section 4.1.2).
    pub const fn message(rule: Rule) -> Self {
        Self::Stream { code: Http3Code::MESSAGE_ERROR, rule }
    }

    /// A stream that must stay open was closed, reset or stopped by the peer (section 6.2.1, RFC 9204 section 4.2).
    pub const fn closed_critical_stream() -> Self {
        Self::connection(Http3Code::CLOSED_CRITICAL_STREAM, Rule::Http3CriticalStreamClosed)
    }

    /// The code.
    pub const fn code(self) -> Http3Code {
        match self {
            Self::Connection { code, .. } | Self::Stream { code, .. } => code,
        }
    }

    /// The rule that was broken.
    pub const fn rule(self) -> Rule {
        match self {
            Self::Connection { rule, .. } | Self::Stream { rule, .. } => rule,
        }
    }

    /// Whether the connection is lost.
    pub const fn is_of_connection(self) -> bool {
        matches!(self, Self::Connection { .. })
    }
}
