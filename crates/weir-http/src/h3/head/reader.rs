//! Field sections to heads, and which of their faults break the connection.

use crate::h3::fault::{Http3Code, Http3Fault};
use crate::h3::qpack::{FieldSection, QpackDecoder, QpackError, QpackSection, SectionProgress};
use crate::message::fields::Fields;
use crate::message::limits::{ChunkedLimits, HeadLimits};
use crate::message::request::RequestHead;
use crate::message::response::ResponseHead;
use crate::message::rule::Rule;
use crate::message::version::Version;
use crate::multiplexed::head::request::read_request_lines;
use crate::multiplexed::head::response::read_response_lines;
use crate::multiplexed::head::section::LinesError;
use crate::multiplexed::head::trailers::read_trailer_lines;

/// Why a field section gives no head. One that is far too large is given up, as any other malformed one: that does no harm to the table.
pub type SectionError = LinesError<QpackError>;

impl SectionError {
    /// The fault: of the connection, or of the stream.
    pub const fn http3_fault(self) -> Http3Fault {
        match self {
            LinesError::Compression(QpackError::BlockedTooLarge) => {
                Http3Fault::excessive_load(Rule::Http3BlockedTooLarge)
            }
            LinesError::Compression(QpackError::TooMuchUnsent) => {
                Http3Fault::excessive_load(Rule::Http3AcknowledgementFlood)
            }
            LinesError::Compression(QpackError::TooManyBlocked) => {
                Http3Fault::connection(Http3Code::QPACK_DECOMPRESSION_FAILED, Rule::Http3TooManyBlocked)
            }
            LinesError::Compression(_) => {
                Http3Fault::connection(Http3Code::QPACK_DECOMPRESSION_FAILED, Rule::Http3BadFieldSection)
            }
            LinesError::TooLarge => Http3Fault::message(Rule::HeadTooLarge),
            LinesError::Malformed(rule) => Http3Fault::message(rule),
        }
    }
}

/// Opens a section and lets `read` read its lines; the encoder is told that it was dealt with, whatever became of it.
#[inline(always)]
fn read_section(
    decoder: &mut QpackDecoder,
    section: FieldSection<'_>,
    read: impl FnOnce(&QpackSection<'_>) -> Result<(), SectionError>,
) -> Result<SectionProgress, SectionError> {
    let stream = section.stream;
    let Some(lines) = decoder.open(section)? else { return Ok(SectionProgress::Blocked) };
    let required = lines.required();
    let outcome = read(&lines);
    decoder.acknowledge(stream, required);
    outcome.map(|()| SectionProgress::Read)
}

/// Reads the field section of a request into `head`, which was reset, and `text`, which is emptied first and which all spans of the head refer
/// to then. The text ends with an empty line; its fields are lines one after another, whose names are in lower case.
///
/// Of `limits`, the rules that may be relaxed do not matter here. Whether `:protocol` may be sent at all is for the caller to check (RFC 9220
/// section 3).
///
/// ```
/// use weir_http::h3::{FieldSection, QpackDecoder, SectionProgress, read_request};
/// use weir_http::{Framing, HeadLimits, RequestHead};
///
/// let bytes = b"\x00\x00\xd1\xd7\xc1\x50\x0fwww.example.com";
/// let (mut decoder, mut head, mut text) = (QpackDecoder::new(0, 0), RequestHead::new(), Vec::new());
/// let section = FieldSection { stream: 0, bytes };
/// let progress = read_request(&mut decoder, section, &mut head, &mut text, &HeadLimits::default(), true)?;
///
/// assert_eq!(progress, SectionProgress::Read);
/// assert_eq!(head.path().of(&text), b"/");
/// assert_eq!(head.host().of(&text), b"www.example.com");
/// assert_eq!(head.body(), Framing::None);
/// # Ok::<(), weir_http::h3::SectionError>(())
/// ```
///
/// # Errors
///
/// See [`SectionError`]; the head must be reset then.
pub fn read_request(
    decoder: &mut QpackDecoder,
    section: FieldSection<'_>,
    head: &mut RequestHead,
    text: &mut Vec<u8>,
    limits: &HeadLimits,
    ends_stream: bool,
) -> Result<SectionProgress, SectionError> {
    read_section(decoder, section, |lines| {
        read_request_lines(lines, head, text, limits, Version::Http3, ends_stream)
    })
}

/// Reads the field section of a response, final or interim, into `head`, which was reset, and `text`, as [`read_request`] does.
///
/// Whether the body is as long as its Content-Length says is for the caller to check: that takes the method of the request.
///
/// # Errors
///
/// See [`SectionError`]; the head must be reset then.
pub fn read_response(
    decoder: &mut QpackDecoder,
    section: FieldSection<'_>,
    head: &mut ResponseHead,
    text: &mut Vec<u8>,
    limits: &HeadLimits,
    ends_stream: bool,
) -> Result<SectionProgress, SectionError> {
    read_section(decoder, section, |lines| {
        read_response_lines(lines, head, text, limits, Version::Http3, ends_stream)
    })
}

/// Reads a trailer section into `fields` and `text`, which are emptied first. Fields that are not allowed in trailers (RFC 9110 section 6.5.1) are left
/// out, as `http1::ChunkedDecoder` does.
///
/// # Errors
///
/// See [`SectionError`]; of the rules, [`Rule::TrailersTooLarge`] and [`Rule::BadTrailer`].
pub fn read_trailers(
    decoder: &mut QpackDecoder,
    section: FieldSection<'_>,
    fields: &mut Fields,
    text: &mut Vec<u8>,
    limits: &ChunkedLimits,
) -> Result<SectionProgress, SectionError> {
    read_section(decoder, section, |lines| read_trailer_lines(lines, fields, text, limits))
}
