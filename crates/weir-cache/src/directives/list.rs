//! Directives as a list: names with or without an argument, which may be quoted.

use std::borrow::Cow;

/// One directive, as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive<'a> {
    pub(super) name: &'a [u8],
    /// The argument, without its quotes.
    pub(super) argument: Option<Cow<'a, [u8]>>,
    /// Whether its syntax is wrong: a quote without an end, something behind one, white space about the `=`.
    pub(super) is_malformed: bool,
}

impl Directive<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The directives of one field value.
pub(super) struct DirectiveList<'a>(&'a [u8]);

impl<'a> DirectiveList<'a> {
    pub(super) fn new(value: &'a [u8]) -> Self {
        Self(value)
    }
}

impl<'a> Iterator for DirectiveList<'a> {
    type Item = Directive<'a>;

    fn next(&mut self) -> Option<Directive<'a>> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            let (member, rest) = split_member(self.0);
            self.0 = rest;
            let member = member.trim_ascii();
            if !member.is_empty() {
                return Some(read(member));
            }
        }
    }
}

/// Up to the next comma that is not in quotes, and what is behind it.
fn split_member(value: &[u8]) -> (&[u8], &[u8]) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, byte) in value.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return (&value[..at], &value[at + 1..]),
            _ => {}
        }
    }
    (value, &[])
}

fn read(member: &[u8]) -> Directive<'_> {
    let Some(at) = member.iter().position(|byte| *byte == b'=') else {
        let is_malformed = member.iter().any(|byte| matches!(byte, b'"' | b' ' | b'\t'));
        let end = member.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(member.len());
        return Directive { name: &member[..end], argument: None, is_malformed };
    };
    let (name, argument) = (&member[..at], &member[at + 1..]);
    let (value, is_valid) = match argument.strip_prefix(b"\"") {
        Some(quoted) => unquote(quoted),
        None => (Cow::Borrowed(argument), !argument.iter().any(|byte| matches!(byte, b'"' | b' ' | b'\t'))),
    };
    let has_space = name.ends_with(b" ") || name.ends_with(b"\t");
    Directive { name: name.trim_ascii(), argument: Some(value), is_malformed: has_space || !is_valid }
}

/// The text up to the closing quote, and whether that is the last byte.
fn unquote(quoted: &[u8]) -> (Cow<'_, [u8]>, bool) {
    if !quoted.contains(&b'\\')
        && let Some(end) = quoted.iter().position(|byte| *byte == b'"')
    {
        return (Cow::Borrowed(&quoted[..end]), end + 1 == quoted.len());
    }
    let (mut text, mut bytes) = (Vec::new(), quoted.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return (text.into(), bytes.next().is_none()),
            b'\\' => text.extend(bytes.next()),
            _ => text.push(*byte),
        }
    }
    (text.into(), false)
}
