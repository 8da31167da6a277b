//! A trailer section (RFC 9113 section 8.1, RFC 9114 section 4.1).

use super::section::{LineLimits, LinesError, field, read_lines};
use crate::message::fields::Fields;
use crate::message::limits::ChunkedLimits;
use crate::message::rule::Rule;
use crate::multiplexed::compression::decoded::CompressedLines;
use crate::multiplexed::compression::line_class::LineName;

/// Reads the lines of a trailer section into `fields` and `text`, which are emptied first. Fields that are not allowed in trailers
/// (RFC 9110 section 6.5.1) are left out, as `http1::ChunkedDecoder` does.
///
/// # Errors
///
/// See [`LinesError`]; of the rules, [`Rule::TrailersTooLarge`] and [`Rule::BadTrailer`].
#[inline(always)]
pub(crate) fn read_trailer_lines<L: CompressedLines>(
    lines: L,
    fields: &mut Fields,
    text: &mut Vec<u8>,
    limits: &ChunkedLimits,
) -> Result<(), LinesError<L::Error>> {
    fields.clear();
    let limits = LineLimits { bytes_max: limits.trailer_bytes_max, fields_max: limits.trailer_fields_max };
    let outcome = read_lines(lines, text, limits, |text, line| match line.class.name {
        LineName::Field(known) if known.is_allowed_in_trailers() => {
            fields.push(field(text, line, known));
            Ok(())
        }
        LineName::Field(_) => {
            text.truncate(line.start);
            Ok(())
        }
        _ => Err(Rule::LatePseudoField),
    });
    outcome.map_err(|error| match error {
        LinesError::Malformed(Rule::HeadTooLarge | Rule::TooManyFields) => {
            LinesError::Malformed(Rule::TrailersTooLarge)
        }
        LinesError::Malformed(_) => LinesError::Malformed(Rule::BadTrailer),
        error => error,
    })
}
