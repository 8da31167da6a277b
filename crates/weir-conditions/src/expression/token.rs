//! Text to tokens.

use std::ops::Range;

use super::error::ExpressionError;

/// A word or sign of a condition, with where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxToken {
    pub(super) span: Range<usize>,
    pub(super) kind: TokenKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name, or a part of one.
    Name(String),
    /// A text in quotes, without them.
    Text(Vec<u8>),
    /// A whole number.
    Number(i64),
    /// Anything else.
    Sign(&'static str),
}

/// Signs, longer ones first.
const SIGNS: &[&str] =
    &["&&", "||", "==", "!=", "<=", ">=", "!", "<", ">", "(", ")", "[", "]", ",", ".", "-"];

/// Signs of other languages, with what to write.
const FOREIGN: &[(&str, &str)] = &[
    ("&", "write `&&`"),
    ("|", "write `||`"),
    ("=~", "write `NAME.matches(\"REGEX\")`"),
    ("~", "write `NAME.matches(\"REGEX\")`"),
    ("=", "write `==` to compare"),
    ("$", "variables have no `$`: `header[\"user-agent\"]`, `host`, `path`, `client_address`"),
    ("{", "names stand without braces here: `path`, not `{path}`"),
    ("}", "names stand without braces here: `path`, not `{path}`"),
    ("?", "there is no `?:`: write two rules, or use a map"),
    ("`", "texts need `\"` or `'` around them"),
    ("#", "there are no comments in a condition"),
];

pub(super) fn tokens(text: &str) -> Result<Vec<SyntaxToken>, ExpressionError> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (len, kind) = match first {
            ' ' | '\t' | '\n' | '\r' => {
                at += 1;
                continue;
            }
            '"' | '\'' => quoted(text, at, first)?,
            'r' | 'R' if rest[1..].starts_with(['"', '\'']) => raw(text, at)?,
            'a'..='z' | 'A'..='Z' | '_' => {
                let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
                let len = rest.find(is_end).unwrap_or(rest.len());
                (len, TokenKind::Name(rest[..len].to_owned()))
            }
            '0'..='9' => number(text, at)?,
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (sign.len(), TokenKind::Sign(sign)),
                None => return Err(foreign(rest, at, first)),
            },
        };
        tokens.push(SyntaxToken { span: at..at + len, kind });
        at += len;
    }
    Ok(tokens)
}

/// Where the texts in quotes are that are no part of a name, in a text that was read before.
pub(super) fn constant_texts(text: &str) -> Vec<Range<usize>> {
    let tokens = tokens(text).unwrap_or_default();
    let is_name = |at: usize| {
        let before = at.checked_sub(2).map(|first| [&tokens[first].kind, &tokens[first + 1].kind]);
        matches!(before, Some([TokenKind::Name(name), TokenKind::Sign("[")]) if name != "in")
            || matches!(before, Some([TokenKind::Sign("]"), TokenKind::Sign("[")]))
    };
    let texts = tokens
        .iter()
        .enumerate()
        .filter(|(at, token)| matches!(token.kind, TokenKind::Text(_)) && !is_name(*at));
    texts.map(|(_, token)| token.span.clone()).collect()
}

fn foreign(rest: &str, at: usize, first: char) -> ExpressionError {
    match FOREIGN.iter().find(|(sign, _)| rest.starts_with(sign)) {
        Some((sign, help)) => {
            ExpressionError::new(at..at + sign.len(), format!("`{sign}` is no sign of a condition"))
                .help(*help)
        }
        None => {
            let span = at..at + first.len_utf8();
            ExpressionError::new(span, format!("`{}` is no sign of a condition", first.escape_default()))
                .help("texts need `\"` or `'` around them")
        }
    }
}

fn number(text: &str, at: usize) -> Result<(usize, TokenKind), ExpressionError> {
    let rest = &text[at..];
    let len = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let span = at..at + len;
    if rest[len..].starts_with('.') && rest[len + 1..].starts_with(|c: char| c.is_ascii_digit()) {
        return Err(ExpressionError::new(span, "numbers are whole, and an address is a text")
            .help("write an address or a network in quotes: `client_address in [\"192.0.2.0/24\"]`"));
    }
    rest[..len].parse().map(|number| (len, TokenKind::Number(number))).map_err(|_| {
        let message = format!("`{}` is no whole number", &rest[..len]);
        ExpressionError::new(span, message).help("units are those of the name: bytes, milliseconds")
    })
}

/// `r"..."`: every byte stands for itself, as regular expressions want it.
fn raw(text: &str, at: usize) -> Result<(usize, TokenKind), ExpressionError> {
    let quote = char::from(text.as_bytes()[at + 1]);
    let Some(len) = text[at + 2..].find(quote) else { return Err(not_closed(text, at)) };
    Ok((len + 3, TokenKind::Text(text.as_bytes()[at + 2..at + 2 + len].to_vec())))
}

fn not_closed(text: &str, at: usize) -> ExpressionError {
    ExpressionError::new(at..text.len(), "the text is not closed by a quote")
}

/// A text with the escapes of CEL.
fn quoted(text: &str, at: usize, quote: char) -> Result<(usize, TokenKind), ExpressionError> {
    let (mut bytes, mut next) = (Vec::new(), at + 1);
    loop {
        let Some(c) = text[next..].chars().next() else { return Err(not_closed(text, at)) };
        if c == quote {
            return Ok((next + 1 - at, TokenKind::Text(bytes)));
        }
        if c == '\\' {
            next += escape(text, next, &mut bytes)?;
        } else {
            next += c.len_utf8();
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
}

/// Reads the escape at `at`; its length.
fn escape(text: &str, at: usize, bytes: &mut Vec<u8>) -> Result<usize, ExpressionError> {
    let code = |digits: usize| {
        let digits =
            text.get(at + 2..at + 2 + digits).filter(|some| some.bytes().all(|b| b.is_ascii_hexdigit()));
        digits.and_then(|digits| u32::from_str_radix(digits, 16).ok())
    };
    let plain = match text[at + 1..].chars().next() {
        Some(c @ ('\\' | '"' | '\'' | '?' | '`')) => u8::try_from(c).unwrap_or_default(),
        Some('n') => b'\n',
        Some('r') => b'\r',
        Some('t') => b'\t',
        Some('x' | 'X') => {
            let byte =
                code(2).and_then(|code| u8::try_from(code).ok()).ok_or_else(|| bad_escape(text, at))?;
            bytes.push(byte);
            return Ok(4);
        }
        Some('u') => {
            let c = code(4).and_then(char::from_u32).ok_or_else(|| bad_escape(text, at))?;
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Ok(6);
        }
        _ => return Err(bad_escape(text, at)),
    };
    bytes.push(plain);
    Ok(2)
}

fn bad_escape(text: &str, at: usize) -> ExpressionError {
    let len = text[at + 1..].chars().next().map_or(0, char::len_utf8);
    let span = at..at + 1 + len;
    ExpressionError::new(span.clone(), format!("`{}` is no escape", &text[span]))
        .help("write `\\\\` for a backslash, or `r\"...\"`, in which each stands for itself")
}
