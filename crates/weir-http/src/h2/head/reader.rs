//! Header blocks to heads, and which of their faults break the connection.

use crate::h2::fault::ConnectionFault;
use crate::h2::frame::ErrorCode;
use crate::h2::hpack::{HpackBlock, HpackDecoder, HpackError};
use crate::message::fields::Fields;
use crate::message::limits::{ChunkedLimits, HeadLimits};
use crate::message::request::RequestHead;
use crate::message::response::ResponseHead;
use crate::message::rule::Rule;
use crate::message::version::Version;
use crate::multiplexed::head::request::read_request_lines;
use crate::multiplexed::head::response::read_response_lines;
use crate::multiplexed::head::section::{LinesError, skip_lines};
use crate::multiplexed::head::trailers::read_trailer_lines;

/// Why a header block gives no head: what cannot be decoded ends the connection with COMPRESSION_ERROR, what is far too large with
/// ENHANCE_YOUR_CALM.
pub type BlockError = LinesError<HpackError>;

impl BlockError {
    /// Whether the connection is lost.
    pub const fn is_of_connection(self) -> bool {
        self.connection_fault().is_some()
    }

    /// The fault of the connection, if it is lost.
    pub const fn connection_fault(self) -> Option<ConnectionFault> {
        match self {
            LinesError::Compression(_) => {
                Some(ConnectionFault { code: ErrorCode::COMPRESSION_ERROR, rule: Rule::Http2BadHeaderBlock })
            }
            LinesError::TooLarge => Some(ConnectionFault::calm(Rule::Http2BlockTooLarge)),
            LinesError::Malformed(_) => None,
        }
    }
}

/// Decodes a block of which nothing is wanted, as that of a stream that was refused: `text` is used up.
///
/// # Errors
///
/// Only those that break the connection.
pub fn skip_block(
    decoder: &mut HpackDecoder,
    block: &[u8],
    text: &mut Vec<u8>,
    limits: &HeadLimits,
) -> Result<(), BlockError> {
    skip_lines(HpackBlock { decoder, bytes: block }, text, limits)
}

/// Reads the header block of a request into `head`, which was reset, and `text`, which is emptied first and which all spans of the head refer
/// to then. The text ends with an empty line; its fields are lines one after another, whose names are in lower case.
///
/// Of `limits`, the rules that may be relaxed do not matter here. Whether `:protocol` may be sent at all is for the caller to check (RFC 8441
/// section 3).
///
/// ```
/// use weir_http::h2::{HpackDecoder, read_request};
/// use weir_http::{Framing, FieldName, HeadLimits, RequestHead};
///
/// // RFC 7541 appendix C.3.1.
/// let block = b"\x82\x86\x84\x41\x0fwww.example.com";
/// let (mut decoder, mut head, mut text) = (HpackDecoder::new(), RequestHead::new(), Vec::new());
/// read_request(&mut decoder, block, &mut head, &mut text, &HeadLimits::default(), true)?;
///
/// assert_eq!(head.path().of(&text), b"/");
/// assert_eq!(head.host().of(&text), b"www.example.com");
/// assert_eq!(head.body(), Framing::None);
/// assert!(text.ends_with(b"\r\nhost: www.example.com\r\n\r\n"));
/// # Ok::<(), weir_http::h2::BlockError>(())
/// ```
///
/// # Errors
///
/// See [`BlockError`]; the head must be reset then.
pub fn read_request(
    decoder: &mut HpackDecoder,
    block: &[u8],
    head: &mut RequestHead,
    text: &mut Vec<u8>,
    limits: &HeadLimits,
    ends_stream: bool,
) -> Result<(), BlockError> {
    let lines = HpackBlock { decoder, bytes: block };
    read_request_lines(lines, head, text, limits, Version::Http2, ends_stream)
}

/// Reads the header block of a response, final or interim, into `head`, which was reset, and `text`, as [`read_request`] does.
///
/// Whether the body is as long as its Content-Length says is for the caller to check: that takes the method of the request.
///
/// # Errors
///
/// See [`BlockError`]; the head must be reset then.
pub fn read_response(
    decoder: &mut HpackDecoder,
    block: &[u8],
    head: &mut ResponseHead,
    text: &mut Vec<u8>,
    limits: &HeadLimits,
    ends_stream: bool,
) -> Result<(), BlockError> {
    let lines = HpackBlock { decoder, bytes: block };
    read_response_lines(lines, head, text, limits, Version::Http2, ends_stream)
}

/// Reads the header block of a trailer section into `fields` and `text`, which are emptied first. Fields that are not allowed in trailers
/// (RFC 9110 section 6.5.1) are left out, as `http1::ChunkedDecoder` does.
///
/// # Errors
///
/// See [`BlockError`]; of the rules, [`Rule::TrailersTooLarge`] and [`Rule::BadTrailer`].
pub fn read_trailers(
    decoder: &mut HpackDecoder,
    block: &[u8],
    fields: &mut Fields,
    text: &mut Vec<u8>,
    limits: &ChunkedLimits,
) -> Result<(), BlockError> {
    read_trailer_lines(HpackBlock { decoder, bytes: block }, fields, text, limits)
}
