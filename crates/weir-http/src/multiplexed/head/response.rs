//! The head of a response (RFC 9113 section 8.3.2, RFC 9114 section 4.3.2).
//!
//! As strict as that of a request: a response that HTTP/1 could not carry, or that could be read in two ways, is refused here.

use super::section::{LineLimits, LinesError, field, read_lines, value_span};
use crate::message::field_values::content_length;
use crate::message::fields::Field;
use crate::message::framing::Framing;
use crate::message::limits::HeadLimits;
use crate::message::name::FieldName;
use crate::message::response::ResponseHead;
use crate::message::rule::Rule;
use crate::message::span::TextSpan;
use crate::message::version::Version;
use crate::multiplexed::compression::decoded::{CompressedLines, DecodedLine};
use crate::multiplexed::compression::line_class::LineName;

/// Reads the lines of a response, final or interim, into `head`, which was reset, and `text`, as `read_request_lines` does.
///
/// Whether the body is as long as its Content-Length says is for the caller to check: that takes the method of the request.
///
/// # Errors
///
/// See [`LinesError`]; the head must be reset then.
#[inline(always)]
pub(crate) fn read_response_lines<L: CompressedLines>(
    lines: L,
    head: &mut ResponseHead,
    text: &mut Vec<u8>,
    limits: &HeadLimits,
    version: Version,
    ends_stream: bool,
) -> Result<(), LinesError<L::Error>> {
    head.version = version;
    head.without_length = if ends_stream { Framing::Length(0) } else { Framing::Delimited };
    let status_max = if limits.lenient.high_status { 999 } else { 599 };
    read_lines(lines, text, LineLimits::of_head(limits), |text, line| {
        read_line(head, text, line, status_max)
    })?;
    text.extend_from_slice(b"\r\n");
    match head.status {
        0 => Err(LinesError::Malformed(Rule::MissingPseudoField)),
        101 => Err(LinesError::Malformed(Rule::SwitchingProtocols)),
        100..200 if ends_stream => Err(LinesError::Malformed(Rule::InterimEndsStream)),
        _ => Ok(()),
    }
}

/// Makes the success of an extended CONNECT (RFC 8441 section 5) what it is in HTTP/1: 101 and `Upgrade: protocol`, with `accept` as the
/// proof of a WebSocket where the client waits for one.
pub fn switch_protocols(head: &mut ResponseHead, text: &mut Vec<u8>, protocol: &[u8], accept: Option<&[u8]>) {
    head.status = 101;
    head.content_length = None;
    let accept = accept.map(|accept| (FieldName::SecWebsocketAccept, &b"sec-websocket-accept"[..], accept));
    // The empty line stays the last.
    text.truncate(text.len().saturating_sub(2));
    for (known, name, value) in
        [Some((FieldName::Upgrade, &b"upgrade"[..], protocol)), accept].into_iter().flatten()
    {
        let start = text.len();
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        let name = TextSpan::new(start, start + name.len());
        head.fields.push(Field { name, value: TextSpan::new(name.end() + 2, text.len()), known });
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
}

#[inline(always)]
fn read_line(head: &mut ResponseHead, text: &[u8], line: DecodedLine, status_max: u16) -> Result<(), Rule> {
    match line.class.name {
        LineName::Field(known) => {
            let field = field(text, line, known);
            if known == FieldName::ContentLength {
                content_length::add(&mut head.content_length, field.value.of(text))?;
            }
            head.fields.push(field);
            Ok(())
        }
        LineName::Status if !head.fields.is_empty() => Err(Rule::LatePseudoField),
        LineName::Status if head.status != 0 => Err(Rule::DuplicatePseudoField),
        LineName::Status => {
            // It has three digits and does not start with zero.
            let digits = value_span(text, line).of(text);
            let status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
            head.status = status;
            if status > status_max { Err(Rule::BadStatus) } else { Ok(()) }
        }
        _ => Err(Rule::UnexpectedPseudoField),
    }
}
