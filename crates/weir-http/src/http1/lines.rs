//! The field lines of a head or a trailer section, one after another (RFC 9112 section 5).
//!
//! A line is read from the left in one go, so the first wrong byte decides which rule is broken, however the bytes
//! arrive. A line that ends in the middle is read again only when something else than more of the same has come, so a
//! head costs linear time even byte by byte. Nothing here interprets a field.

use crate::bytes::{is_space, is_token_byte, target_run, token_run, trim, value_run, visible_run};
use crate::message::fields::{Field, Fields};
use crate::message::name::FieldName;
use crate::message::rule::Rule;
use crate::message::span::TextSpan;

/// How far into its bytes a parser has come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cursor {
    /// Start of the first line that is not complete.
    pub(crate) position: usize,
    /// End of the bytes of that line that have been read.
    read: usize,
    /// The part of the line in which the bytes ended.
    within: PartialToken,
}

/// The long parts of a line. In the middle of one, new bytes that continue it need not make the line be read again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum PartialToken {
    /// None: a short part, or a boundary.
    #[default]
    None,
    /// A request target.
    Target,
    /// A field name.
    Name,
    /// A field value, or a reason phrase.
    Value,
}

impl Cursor {
    /// Stops before the line at `position`, of which all `bytes` there are have been read.
    #[cold]
    pub(crate) fn stop(&mut self, position: usize, bytes: &[u8], within: PartialToken) {
        *self = Cursor { position, read: bytes.len(), within };
    }

    /// Whether the new ones among `bytes` only continue the part of the line in which the parser stopped.
    #[inline]
    pub(crate) fn still_within(&mut self, bytes: &[u8]) -> bool {
        let run = match self.within {
            PartialToken::None => return false,
            PartialToken::Target => target_run,
            PartialToken::Name => token_run,
            PartialToken::Value => value_run,
        };
        let new = bytes.get(self.read..).unwrap_or_default();
        let still = run(new) == new.len();
        if still {
            self.read = bytes.len();
        }
        still
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
    mut take: impl FnMut(FieldName, TextSpan, &[u8]) -> Result<(), Rule>,
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
                cursor.stop(bytes.len() - rest.len(), bytes, within(rest));
                return Ok(false);
            }
            Err(rule) => return Err(blame_line(rule, fields)),
        };
        if fields.len() >= fields_max {
            return Err(Rule::TooManyFields);
        }
        let start = bytes.len() - rest.len();
        let value_start = start + line.value_start;
        let name = TextSpan::new(start, start + line.name_len);
        let value = TextSpan::new(value_start, value_start + line.value.len());
        take(line.known, value, line.value)?;
        fields.push(Field { name, value, known: line.known });
        rest = line.after;
    }
}

/// The part of a field line in whose middle the bytes of `line` end.
#[cold]
fn within(line: &[u8]) -> PartialToken {
    match line {
        [] | [.., b'\r'] => PartialToken::None,
        _ if memchr::memchr(b':', line).is_some() => PartialToken::Value,
        _ => PartialToken::Name,
    }
}

/// A field line.
struct FieldLine<'a> {
    known: FieldName,
    /// Length of the name, with which the line starts.
    name_len: usize,
    /// Where the value starts, in bytes from the start of the line.
    value_start: usize,
    value: &'a [u8],
    /// The bytes behind the line.
    after: &'a [u8],
}

/// Reads the field line that `line` starts with; `None` when bytes are missing.
#[inline(always)]
fn read_line(line: &[u8]) -> Result<Option<FieldLine<'_>>, Rule> {
    let (known, name_len) = match FieldName::recognise_start(line) {
        Some(recognised) => recognised,
        None => match read_other_name(line)? {
            Some(name) => name,
            None => return Ok(None),
        },
    };
    let text = &line[name_len + 1..];
    let mut len = visible_run(text);
    if !text[len..].starts_with(b"\r\n") {
        len = match read_odd_value(text)? {
            Some(len) => len,
            None => return Ok(None),
        };
    }
    // SP and HTAB are the only value bytes up to SP. Nearly always one SP stands before the value and none behind it.
    let (value_start, value) = match &text[..len] {
        [b' ', value @ ..] if is_trimmed(value) => (name_len + 2, value),
        value => {
            let spaces = value.iter().take_while(|&&byte| is_space(byte)).count();
            (name_len + 1 + spaces, trim(value))
        }
    };
    Ok(Some(FieldLine { known, name_len, value_start, value, after: &text[len + 2..] }))
}

/// Whether `value` is not empty and neither starts nor ends with white space.
#[inline]
fn is_trimmed(value: &[u8]) -> bool {
    matches!((value, value), ([first, ..], [.., last]) if *first > b' ' && *last > b' ')
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
        Some(b':') if name_len > 0 => Ok(Some((FieldName::of_other(name, underscores > 0), name_len))),
        None => Ok(None),
        _ if rest == b"\r" => Ok(None),
        _ => Err(blame_name(name, rest)),
    }
}

/// The rule that is broken when the line behind `fields` breaks `rule`.
#[cold]
fn blame_line(rule: Rule, fields: &Fields) -> Rule {
    if rule == Rule::ObsFold && fields.is_empty() { Rule::LeadingSpace } else { rule }
}

/// Which rule is broken by a line that has `rest` where the colon behind `name` should be.
#[cold]
fn blame_name(name: &[u8], rest: &[u8]) -> Rule {
    match (name.len(), rest) {
        (0, [b':', ..]) => Rule::EmptyFieldName,
        (0, [b' ' | b'\t', ..]) => Rule::ObsFold,
        (_, [b' ' | b'\t', ..]) => Rule::SpaceBeforeColon,
        (1.., [b'\r', b'\n', ..]) => Rule::MissingColon,
        (_, [b'\r' | b'\n' | 0, ..]) => blame_line_end(rest),
        _ => Rule::BadFieldName,
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
