//! A trailer section as a header block (RFC 9113 section 8.1).

use super::block::{BlockError, BlockLimits, field, read_lines};
use crate::h2::hpack::{HpackDecoder, LineName};
use crate::message::fields::Fields;
use crate::message::limits::ChunkedLimits;
use crate::message::rule::Rule;

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
    fields.clear();
    let limits = BlockLimits { bytes_max: limits.trailer_bytes_max, fields_max: limits.trailer_fields_max };
    let outcome = read_lines(decoder, block, text, limits, |text, line| match line.class.name {
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
        BlockError::Malformed(Rule::HeadTooLarge | Rule::TooManyFields) => {
            BlockError::Malformed(Rule::TrailersTooLarge)
        }
        BlockError::Malformed(_) => BlockError::Malformed(Rule::BadTrailer),
        error => error,
    })
}
