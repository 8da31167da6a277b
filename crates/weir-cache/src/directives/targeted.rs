//! `CDN-Cache-Control` is a dictionary of structured fields (RFC 8941 section 3.2): one that is malformed anywhere is ignored as a whole.

use std::borrow::Cow;

use super::list::Directive;

/// One member.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DictionaryMember<'a> {
    name: &'a [u8],
    value: MemberValue<'a>,
}

#[derive(Debug, PartialEq, Eq)]
enum MemberValue<'a> {
    /// `?1`, or no value.
    True,
    /// `?0`: the directive does not hold.
    False,
    /// Digits.
    Integer(&'a [u8]),
    /// A string, without its quotes, or a token.
    Text(&'a [u8]),
    /// Of a type that no directive has.
    Other,
}

impl DictionaryMember<'_> {
    /// As `Cache-Control` would have it. An argument of the wrong type is a malformed one.
    pub(super) fn as_directive(&self) -> Directive<'_> {
        let (argument, is_malformed) = match self.value {
            MemberValue::True => (None, false),
            MemberValue::Integer(digits) => (Some(Cow::Borrowed(digits)), false),
            MemberValue::Text(text) => (Some(Cow::Borrowed(text)), text.iter().all(u8::is_ascii_digit)),
            MemberValue::False | MemberValue::Other => (Some(Cow::Borrowed(&b""[..])), true),
        };
        Directive { name: self.name, argument, is_malformed }
    }
}

/// The members of all lines, the last of each name, without those that are `?0`; `None` when the dictionary is malformed.
pub(super) fn parse_dictionary<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
) -> Option<Vec<DictionaryMember<'a>>> {
    let mut members: Vec<DictionaryMember<'a>> = Vec::new();
    for line in lines {
        let mut rest = line.trim_ascii();
        while !rest.is_empty() {
            let member = parse_member(&mut rest)?;
            members.retain(|other| other.name != member.name);
            members.push(member);
            rest = rest.trim_ascii_start();
            if rest.is_empty() {
                break;
            }
            rest = rest.strip_prefix(b",")?.trim_ascii_start();
            if rest.is_empty() {
                return None;
            }
        }
    }
    members.retain(|member| member.value != MemberValue::False);
    Some(members)
}

fn parse_member<'a>(rest: &mut &'a [u8]) -> Option<DictionaryMember<'a>> {
    let name = parse_key(rest)?;
    let value = match rest.strip_prefix(b"=") {
        Some(behind) => {
            *rest = behind;
            parse_value(rest)?
        }
        None => MemberValue::True,
    };
    skip_parameters(rest)?;
    Some(DictionaryMember { name, value })
}

fn skip_parameters(rest: &mut &[u8]) -> Option<()> {
    while let Some(behind) = rest.strip_prefix(b";") {
        *rest = behind.trim_ascii_start();
        parse_key(rest)?;
        if let Some(behind) = rest.strip_prefix(b"=") {
            *rest = behind;
            parse_item(rest)?;
        }
    }
    Some(())
}

fn take<'a>(rest: &mut &'a [u8], belongs: impl Fn(u8) -> bool) -> &'a [u8] {
    let end = rest.iter().position(|byte| !belongs(*byte)).unwrap_or(rest.len());
    let (taken, behind) = rest.split_at(end);
    *rest = behind;
    taken
}

fn parse_key<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let starts = rest.first().is_some_and(|byte| byte.is_ascii_lowercase() || *byte == b'*');
    let belongs = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
    };
    starts.then(|| take(rest, belongs))
}

fn parse_value<'a>(rest: &mut &'a [u8]) -> Option<MemberValue<'a>> {
    let Some(behind) = rest.strip_prefix(b"(") else { return parse_item(rest) };
    *rest = behind;
    loop {
        *rest = rest.trim_ascii_start();
        if let Some(behind) = rest.strip_prefix(b")") {
            *rest = behind;
            return Some(MemberValue::Other);
        }
        parse_item(rest)?;
        skip_parameters(rest)?;
        if !matches!(rest.first(), Some(b' ' | b')')) {
            return None;
        }
    }
}

fn parse_item<'a>(rest: &mut &'a [u8]) -> Option<MemberValue<'a>> {
    match *rest.first()? {
        b'?' => {
            let value = match rest.get(1)? {
                b'1' => MemberValue::True,
                b'0' => MemberValue::False,
                _ => return None,
            };
            *rest = &rest[2..];
            Some(value)
        }
        b'"' => {
            *rest = &rest[1..];
            let text = take(rest, |byte| byte != b'"' && byte != b'\\');
            // One with escapes is the argument of no directive.
            let mut has_escapes = false;
            while let Some(behind) = rest.strip_prefix(b"\\") {
                has_escapes = true;
                matches!(behind.first()?, b'"' | b'\\').then_some(())?;
                *rest = &behind[1..];
                take(rest, |byte| byte != b'"' && byte != b'\\');
            }
            *rest = rest.strip_prefix(b"\"")?;
            Some(if has_escapes { MemberValue::Other } else { MemberValue::Text(text) })
        }
        b':' => {
            *rest = &rest[1..];
            take(rest, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
            *rest = rest.strip_prefix(b":")?;
            Some(MemberValue::Other)
        }
        b'-' | b'0'..=b'9' => parse_number(rest),
        byte if byte.is_ascii_alphabetic() || byte == b'*' => {
            let belongs = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte);
            Some(MemberValue::Text(take(rest, belongs)))
        }
        _ => None,
    }
}

fn parse_number<'a>(rest: &mut &'a [u8]) -> Option<MemberValue<'a>> {
    let is_negative = rest.starts_with(b"-");
    *rest = &rest[usize::from(is_negative)..];
    let digits = take(rest, |byte| byte.is_ascii_digit());
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    if let Some(behind) = rest.strip_prefix(b".") {
        *rest = behind;
        let decimals = take(rest, |byte| byte.is_ascii_digit());
        return (1..=3).contains(&decimals.len()).then_some(MemberValue::Other);
    }
    Some(if is_negative { MemberValue::Other } else { MemberValue::Integer(digits) })
}
