//! The field lines of a head or a trailer section, one after another (RFC 9112 section 5).
//!
//! A line is read from the left in one go, so the first wrong byte decides which rule is broken, however the bytes
//! arrive. A line that is not complete yet is read again from its start when its end has come, at most once, so a head
//! costs linear time even byte by byte. Nothing here knows what a field means.

use crate::bytes::{is_space, is_token_byte, trim, value_run, visible_run};
use crate::fields::{Field, Fields};
use crate::name::{FieldName, START_BYTES};
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

/// Reads field lines until the empty line. `true`: the section is complete and the cursor behind it.
///
/// `take` sees name and value of every field before it is stored, and may refuse it.
#[inline(always)]
pub(crate) fn read_fields(
    bytes: &[u8],
    cursor: &mut Cursor,
    fields: &mut Fields,
    fields_max: usize,
    mut take: impl FnMut(FieldName, Span, &[u8]) -> Result<(), Rule>,
) -> Result<bool, Rule> {
    let mut rest = bytes.get(cursor.position..).unwrap_or_default();
    loop {
        if let Some(after) = rest.strip_prefix(b"\r\n") {
            cursor.position = bytes.len() - after.len();
            return Ok(true);
        }
        let line = match read_line(rest) {
            Ok(Some(line)) => line,
            Ok(None) => {
                *cursor = Cursor { position: bytes.len() - rest.len(), searched: bytes.len() };
                return Ok(false);
            }
            Err(rule) => return Err(blame_line(rule, fields)),
        };
        if fields.len() >= fields_max {
            return Err(Rule::TooManyFields);
        }
        let start = bytes.len() - rest.len();
        let value_start = start + line.value_start;
        let name = Span::new(start, start + line.name_len);
        let value = Span::new(value_start, value_start + line.value.len());
        take(line.known, value, line.value)?;
        fields.push(Field { name, value, known: line.known });
        rest = line.after;
    }
}

/// A field line.
struct Line<'a> {
    known: FieldName,
    /// Length of the name, with which the line starts.
    name_len: usize,
    /// Where the value starts, in bytes from the start of the line.
    value_start: usize,
    value: &'a [u8],
    /// What follows the line.
    after: &'a [u8],
}

/// Reads the field line that `line` starts with; `None` when bytes are missing.
#[inline(always)]
fn read_line(line: &[u8]) -> Result<Option<Line<'_>>, Rule> {
    let (known, name_len) = match line.first_chunk().and_then(FieldName::recognise_start) {
        Some(recognised) => recognised,
        None => match read_other_name(line)? {
            Some(name) => name,
            None => return Ok(None),
        },
    };
    let rest = &line[name_len + 1..];
    let text = rest.strip_prefix(b" ").unwrap_or(rest);
    let mut value_len = visible_run(text);
    if !text[value_len..].starts_with(b"\r\n") {
        value_len = match read_odd_value(text)? {
            Some(len) => len,
            None => return Ok(None),
        };
    }
    let (mut value, after) = (&text[..value_len], &text[value_len + 2..]);
    let mut value_start = line.len() - text.len();
    // SP and HTAB are the only value bytes up to SP.
    if let ([first, ..], [.., last]) = (value, value)
        && (*first <= b' ' || *last <= b' ')
    {
        let spaces;
        (spaces, value) = trim_value(value);
        value_start += spaces;
    }
    Ok(Some(Line { known, name_len, value_start, value, after }))
}

/// Length of the value that `text` starts with, where no line end follows its visible bytes; `None` when bytes are missing.
#[cold]
fn read_odd_value(text: &[u8]) -> Result<Option<usize>, Rule> {
    let len = value_run(text);
    match &text[len..] {
        [b'\r', b'\n', ..] => Ok(Some(len)),
        [] | [b'\r'] => Ok(None),
        rest => Err(blame_line_end(rest)),
    }
}

/// `value` without the white space around it, and how much of it stood before.
#[cold]
fn trim_value(value: &[u8]) -> (usize, &[u8]) {
    let spaces = value.iter().take_while(|&&byte| is_space(byte)).count();
    (spaces, trim(value))
}

/// Reads the name at the start of a line, with its length, where no known name stands before a colon in its proper
/// place; `None` when bytes are missing.
#[inline(never)]
fn read_other_name(line: &[u8]) -> Result<Option<(FieldName, usize)>, Rule> {
    let mut underscores = 0;
    let mut is_in_name = |byte: &u8| {
        underscores |= u32::from(*byte == b'_');
        is_token_byte(*byte)
    };
    let name_len = line.iter().take_while(|byte| is_in_name(byte)).count();
    let (name, rest) = line.split_at(name_len);
    match rest.first() {
        // A line this short was not looked at yet.
        Some(b':') if name_len > 0 && line.len() < START_BYTES => {
            Ok(Some((FieldName::recognise(name), name_len)))
        }
        Some(b':') if name_len > 0 && underscores > 0 => {
            Ok(Some((FieldName::recognise_underscored(name), name_len)))
        }
        Some(b':') if name_len > 0 => Ok(Some((FieldName::Other, name_len))),
        None => Ok(None),
        _ if rest == b"\r" => Ok(None),
        _ => blame_name(name, rest),
    }
}

/// The rule that is broken when the line behind `fields` breaks `rule`.
#[cold]
fn blame_line(rule: Rule, fields: &Fields) -> Rule {
    if rule == Rule::ObsFold && fields.is_empty() { Rule::LeadingSpace } else { rule }
}

/// Which rule is broken by a line that has `rest` where the colon behind `name` should be; `None` when bytes are missing
/// to tell.
#[cold]
fn blame_name<T>(name: &[u8], rest: &[u8]) -> Result<Option<T>, Rule> {
    Err(match (name.len(), rest) {
        (0, [b':', ..]) => Rule::EmptyFieldName,
        (0, [b' ' | b'\t', ..]) => Rule::ObsFold,
        (_, [b' ' | b'\t', ..]) => match rest.iter().find(|&&byte| !is_space(byte)) {
            None => return Ok(None),
            Some(b':') => Rule::SpaceBeforeColon,
            Some(b'\r' | b'\n') => Rule::MissingColon,
            Some(_) => Rule::BadFieldName,
        },
        (1.., [b'\r', b'\n', ..]) => Rule::MissingColon,
        (_, [b'\r' | b'\n' | 0, ..]) => blame_line_end(rest),
        _ => Rule::BadFieldName,
    })
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
