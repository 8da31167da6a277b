//! Compressed lines as a message: its limits, and what breaks the connection or only the message.
//!
//! Once the message is broken, the rest of its lines are dropped. Where they change the table of their connection, they are decoded all the same:
//! the tables of both sides must stay in step (RFC 9113 section 4.3). Only what is far too large is given up then, and the connection with it.

use crate::message::fields::Field;
use crate::message::limits::HeadLimits;
use crate::message::name::FieldName;
use crate::message::rule::Rule;
use crate::message::span::TextSpan;
use crate::multiplexed::compression::decoded::{CompressedLines, DecodedLine};
use crate::multiplexed::compression::line_class::{LineName, counted_bytes};

/// How often a limit must be exceeded for the lines to be given up.
const GIVE_UP_FACTOR: usize = 4;

/// Why compressed lines give no head. `C` is what can be wrong with them as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinesError<C> {
    /// They cannot be decoded. The connection is lost.
    Compression(C),
    /// They exceed a limit more than four times. They were not decoded to their end, though they may change the table: the connection is lost.
    TooLarge,
    /// The message breaks a rule. The stream is lost, or answered with an error; the connection lives on.
    Malformed(Rule),
}

impl<C> From<C> for LinesError<C> {
    fn from(error: C) -> LinesError<C> {
        LinesError::Compression(error)
    }
}

/// Decodes lines of which nothing is wanted, as those of a stream that was refused: `text` is used up.
///
/// # Errors
///
/// Only those that break the connection.
pub(crate) fn skip_lines<L: CompressedLines>(
    lines: L,
    text: &mut Vec<u8>,
    limits: &HeadLimits,
) -> Result<(), LinesError<L::Error>> {
    // Any rule will do: the first line breaks it, and the others go with it.
    let skip = |_: &mut Vec<u8>, _| Err(Rule::HeadTooLarge);
    match read_lines(lines, text, LineLimits::of_head(limits), skip) {
        Err(LinesError::Malformed(_)) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The limits of one head, or one trailer section.
#[derive(Clone, Copy)]
pub(crate) struct LineLimits {
    /// Of names and values, and 32 bytes for each (RFC 9113 section 10.5.1).
    pub(crate) bytes_max: usize,
    /// Of fields, of which pseudo-fields are none and each part of a cookie is one.
    pub(crate) fields_max: usize,
}

impl LineLimits {
    pub(crate) const fn of_head(limits: &HeadLimits) -> LineLimits {
        LineLimits { bytes_max: limits.window(), fields_max: limits.fields_max }
    }
}

/// What the lines count so far.
struct LineCount {
    bytes: usize,
    fields: usize,
}

impl LineCount {
    /// Counts a line.
    #[inline(always)]
    fn add(&mut self, line_len: usize, name: LineName) {
        self.bytes += counted_bytes(line_len);
        self.fields += usize::from(matches!(name, LineName::Field(_)));
    }

    /// Checks the count.
    #[inline(always)]
    fn check<C>(&self, limits: LineLimits) -> Result<(), LinesError<C>> {
        if self.bytes <= limits.bytes_max && self.fields <= limits.fields_max {
            return Ok(());
        }
        self.blame(limits)
    }

    #[cold]
    fn blame<C>(&self, limits: LineLimits) -> Result<(), LinesError<C>> {
        let give_up = |max: usize| max.saturating_mul(GIVE_UP_FACTOR);
        if self.bytes > give_up(limits.bytes_max) || self.fields > give_up(limits.fields_max) {
            return Err(LinesError::TooLarge);
        }
        let is_large = self.bytes > limits.bytes_max;
        Err(LinesError::Malformed(if is_large { Rule::HeadTooLarge } else { Rule::TooManyFields }))
    }
}

/// Decodes lines into `text`, which is emptied first, and calls `read` for each line until one breaks a rule. The line is the last of the
/// text then; `read` may take it off again.
#[inline(always)]
pub(crate) fn read_lines<L: CompressedLines>(
    lines: L,
    text: &mut Vec<u8>,
    limits: LineLimits,
    mut read: impl FnMut(&mut Vec<u8>, DecodedLine) -> Result<(), Rule>,
) -> Result<(), LinesError<L::Error>> {
    text.clear();
    let mut count = LineCount { bytes: 0, fields: 0 };
    let mut broken = None;
    lines.decode(text, |text, line| {
        count.add(text.len() - line.start, line.class.name);
        let within_limits = match count.check(limits) {
            Err(LinesError::Malformed(rule)) => Err(rule),
            Err(error) => return Err(error),
            Ok(()) => Ok(()),
        };
        if broken.is_none() {
            let outcome = match line.class.broken {
                Some(rule) => Err(rule),
                None => within_limits.and_then(|()| read(text, line)),
            };
            broken = outcome.err();
        }
        if let Some(rule) = broken {
            text.truncate(line.start);
            if !L::CHANGE_TABLE {
                return Err(LinesError::Malformed(rule));
            }
        }
        Ok(())
    })?;
    broken.map_or(Ok(()), |rule| Err(LinesError::Malformed(rule)))
}

/// Where the value of a line is that ends the text.
#[inline(always)]
pub(crate) fn value_span(text: &[u8], line: DecodedLine) -> TextSpan {
    TextSpan::new(line.start + line.name_len + 2, text.len() - 2)
}

/// The field of a line that ends the text.
#[inline(always)]
pub(crate) fn field(text: &[u8], line: DecodedLine, known: FieldName) -> Field {
    let name = TextSpan::new(line.start, line.start + line.name_len);
    Field { name, value: value_span(text, line), known }
}
