//! The field lines of a head or a trailer section, one after another (RFC 9112 section 5).
//!
//! A line is read from the left in one go, so the first wrong byte decides which rule is broken, however the bytes
//! arrive. A line that is not complete yet is read again from its start when its end has come, at most once, so a head
//! costs linear time even byte by byte. Nothing here knows what a field means.

use crate::bytes::{is_space, token_run, trim, value_run};
use crate::fields::{Field, Fields};
use crate::name::FieldName;
use crate::rule::Rule;
use crate::span::Span;

/// Length up to which an incomplete start line is read anew each time, so that what is not HTTP is refused at its first
/// byte; enough for the longest method.
pub(crate) const EARLY: usize = 64;

/// How far into its bytes a parser has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    /// Start of the first line that is not complete.
    pub(crate) position: usize,
    /// End of the bytes already searched for the end of that line; at or below `position` when none were.
    pub(crate) searched: usize,
}

impl Cursor {
    /// Whether the line that was incomplete last time still is, found without reading it again.
    #[inline]
    pub(crate) fn still_waits(&mut self, bytes: &[u8]) -> bool {
        if self.searched <= self.position {
            return false;
        }
        let waits = match bytes.get(self.searched..) {
            Some(new) => memchr::memchr(b'\n', new).is_none(),
            None => true,
        };
        if waits {
            self.searched = bytes.len();
        }
        waits
    }
}

/// What stands at the start of a line.
enum Line {
    /// A field line, and where the next line starts.
    Field(Field, usize),
    /// The empty line that ends the section, and where what follows starts.
    End(usize),
    /// Bytes are missing.
    Incomplete,
}

/// Reads field lines until the empty line. `true`: the section is complete and the cursor behind it.
///
/// `take` sees every field before it is stored and may refuse it.
#[inline]
pub(crate) fn read_fields(
    bytes: &[u8],
    cursor: &mut Cursor,
    fields: &mut Fields,
    fields_max: usize,
    mut take: impl FnMut(&Field) -> Result<(), Rule>,
) -> Result<bool, Rule> {
    loop {
        let line = read_line(bytes, cursor.position).map_err(|rule| match rule {
            Rule::ObsFold if fields.is_empty() => Rule::LeadingSpace,
            rule => rule,
        });
        match line? {
            Line::Field(field, next) => {
                if fields.len() >= fields_max {
                    return Err(Rule::TooManyFields);
                }
                take(&field)?;
                fields.push(field);
                cursor.position = next;
            }
            Line::End(next) => {
                cursor.position = next;
                return Ok(true);
            }
            Line::Incomplete => {
                cursor.searched = bytes.len();
                return Ok(false);
            }
        }
    }
}

/// Reads the line that starts at `start`.
#[inline]
fn read_line(bytes: &[u8], start: usize) -> Result<Line, Rule> {
    let line = bytes.get(start..).unwrap_or_default();
    let name_len = token_run(line);
    if line.get(name_len) != Some(&b':') || name_len == 0 {
        return read_odd_line(line, start, name_len);
    }
    let value_start = name_len + 1;
    let value_len = value_run(&line[value_start..]);
    let value_end = value_start + value_len;
    match &line[value_end..] {
        [b'\r', b'\n', ..] => {
            let value = trim_span(bytes, start + value_start, start + value_end);
            let name = Span::new(start, start + name_len);
            let known = FieldName::recognise(&line[..name_len]);
            Ok(Line::Field(Field { name, value, known }, start + value_end + 2))
        }
        [] | [b'\r'] => Ok(Line::Incomplete),
        rest => Err(blame_line_end(rest)),
    }
}

/// The span of `start..end` without white space around it.
#[inline]
fn trim_span(bytes: &[u8], start: usize, end: usize) -> Span {
    let raw = &bytes[start..end];
    let lead = raw.iter().position(|&byte| !is_space(byte)).unwrap_or(raw.len());
    let value = trim(&raw[lead..]);
    Span::new(start + lead, start + lead + value.len())
}

/// A line that does not start with a name and its colon: the end of the section, an incomplete line, or a broken rule.
#[cold]
fn read_odd_line(line: &[u8], start: usize, name_len: usize) -> Result<Line, Rule> {
    let rest = &line[name_len..];
    match (name_len, rest) {
        (0, [b'\r', b'\n', ..]) => Ok(Line::End(start + 2)),
        (_, [] | [b'\r']) => Ok(Line::Incomplete),
        (0, [b':', ..]) => Err(Rule::EmptyFieldName),
        (0, [b' ' | b'\t', ..]) => Err(Rule::ObsFold),
        (_, [b' ' | b'\t', ..]) => {
            let spaces = rest.iter().position(|&byte| !is_space(byte));
            match spaces.map(|at| rest[at]) {
                None => Ok(Line::Incomplete),
                Some(b':') => Err(Rule::SpaceBeforeColon),
                Some(b'\r' | b'\n') => Err(Rule::MissingColon),
                Some(_) => Err(Rule::BadFieldName),
            }
        }
        (1.., [b'\r', b'\n', ..]) => Err(Rule::MissingColon),
        (_, [b'\r' | b'\n' | 0, ..]) => Err(blame_line_end(rest)),
        _ => Err(Rule::BadFieldName),
    }
}

/// Which rule the byte breaks that ended a run of allowed bytes; `rest` starts with it and is not CR LF.
#[cold]
pub(crate) fn blame_line_end(rest: &[u8]) -> Rule {
    match rest.first() {
        Some(b'\n') => Rule::BareLf,
        Some(b'\r') => Rule::BareCr,
        Some(0) => Rule::NulByte,
        _ => Rule::ControlByte,
    }
}
