//! From the text of a log format to its pieces, with a column and a hint for every mistake.
//!
//! A placeholder learns here where it stands: between double quotes, in the open, or in a JSON object. That decides how
//! its value is escaped, so that no value can pretend to be more than one.

use super::escape::EscapeRule;
use super::field::{LogField, PLAIN};
use super::format::{FormatError, FormatItem, LogTemplate, NAMED, NAMED_VALUES};
use super::mask::Mask;
use crate::words::phase::Phase;

/// A piece of the text before it is known where values stand.
enum Piece<'a> {
    Literal { text: String, column: usize },
    Placeholder { name: &'a str, column: usize },
}

impl LogTemplate {
    /// Reads a format: one of the [`names`](LogTemplate::names); a text with `{placeholders}`, where `{{` and `}}` mean
    /// braces; or `json` and a list of placeholders, which makes a JSON object with these keys.
    ///
    /// # Errors
    /// The first mistake, with its column.
    pub fn parse(text: &str) -> Result<LogTemplate, FormatError> {
        let text = text.trim_matches(' ');
        if let Some((_, named)) = NAMED.iter().find(|(name, _)| *name == text) {
            return LogTemplate::parse(named);
        }
        let (pieces, is_json) = match text.strip_prefix("json ") {
            Some(list) => (split(list, "json ".len())?, true),
            None => (split(text, 0)?, false),
        };
        if !pieces.iter().any(|piece| matches!(piece, Piece::Placeholder { .. })) {
            return Err(FormatError {
                column: 1,
                what: "the format has no placeholder".to_owned(),
                hint: Some(match closest(text, LogTemplate::names()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => "write for example `{client_address} {method} {target} {status}`".to_owned(),
                }),
            });
        }
        let items = if is_json { compose_json(pieces)? } else { compose_text(pieces)? };
        Ok(LogTemplate { items: items.into() })
    }
}

/// Splits a text into literals and placeholders.
fn split(text: &str, columns_before: usize) -> Result<Vec<Piece<'_>>, FormatError> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut chars = text.char_indices().enumerate().peekable();
    while let Some((index, (at, char))) = chars.next() {
        let column = columns_before + index + 1;
        let is_doubled = chars.peek().is_some_and(|(_, (_, next))| *next == char);
        match char {
            '{' | '}' if is_doubled => {
                chars.next();
                literal.push(char);
            }
            '{' => {
                let rest = &text[at + 1..];
                let Some(end) = rest.find('}') else {
                    return Err(error(column, "this brace is never closed", Some("write `{{` for a brace")));
                };
                if !literal.is_empty() {
                    let text = std::mem::take(&mut literal);
                    pieces.push(Piece::Literal { column: column - text.chars().count(), text });
                }
                pieces.push(Piece::Placeholder { name: &rest[..end], column });
                let close = at + 1 + end;
                while chars.next_if(|(_, (at, _))| *at <= close).is_some() {}
            }
            '}' => return Err(error(column, "this brace was never opened", Some("write `}}` for a brace"))),
            _ if char.is_control() || matches!(char, '\u{2028}' | '\u{2029}') => {
                return Err(error(column, "a control character would break the line", None));
            }
            _ => literal.push(char),
        }
    }
    if !literal.is_empty() {
        let column = columns_before + text.chars().count() - literal.chars().count() + 1;
        pieces.push(Piece::Literal { text: literal, column });
    }
    Ok(pieces)
}

fn compose_text(pieces: Vec<Piece<'_>>) -> Result<Vec<FormatItem>, FormatError> {
    let mut place = EscapeRule::Bare;
    let mut items = Vec::with_capacity(pieces.len() + 1);
    for piece in pieces {
        match piece {
            Piece::Literal { text, .. } => {
                for _ in text.matches('"') {
                    place = if place == EscapeRule::Bare { EscapeRule::Quoted } else { EscapeRule::Bare };
                }
                items.push(FormatItem::Literal(text.into()));
            }
            Piece::Placeholder { name, column } => {
                items.push(FormatItem::Value(resolve(name, column)?, place));
            }
        }
    }
    items.push(FormatItem::Literal("\n".into()));
    Ok(items)
}

fn compose_json(pieces: Vec<Piece<'_>>) -> Result<Vec<FormatItem>, FormatError> {
    let mut items = Vec::with_capacity(2 * pieces.len() + 1);
    let mut keys = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Literal { text, .. } if text.trim_matches([' ', ',']).is_empty() => {}
            Piece::Literal { column, .. } => {
                let hint = "a JSON format is `json` and placeholders with spaces between";
                return Err(error(column, "text between the placeholders of a JSON format", Some(hint)));
            }
            Piece::Placeholder { name, column } => {
                let field = resolve(name, column)?;
                let name = if matches!(field, LogField::Masked(_)) {
                    name.split('|').next().unwrap_or_default()
                } else {
                    name
                };
                if keys.contains(&name) {
                    return Err(error(column, &format!("`{name}` stands here twice"), None));
                }
                // Placeholder names hold no byte that JSON would want escaped: `resolve` has seen to it.
                let before = if keys.is_empty() { '{' } else { ',' };
                items.push(FormatItem::Literal(format!("{before}\"{name}\":").into()));
                items.push(FormatItem::Value(field, EscapeRule::Json));
                keys.push(name);
            }
        }
    }
    items.push(FormatItem::Literal("}\n".into()));
    Ok(items)
}

/// The field that a placeholder names, with what is hidden of it behind a bar. A header may have a bar in its name.
fn resolve(name: &str, column: usize) -> Result<LogField, FormatError> {
    if NAMED_VALUES.iter().any(|(known, _)| *known == name) {
        return Ok(LogField::Named(name.into()));
    }
    let Some((field_name, mask)) = name.split_once('|') else { return plain_field(name, column) };
    let mask = match Mask::parse(mask) {
        None if name.starts_with("header.") || name.starts_with("response.header.") => {
            return plain_field(name, column);
        }
        None => {
            let hint = "write `{client_address|network:24}`, or `{target|without:token,password}`";
            return Err(error(column, &format!("there is no mask `{mask}`"), Some(hint)));
        }
        Some(mask) => mask.map_err(|what| error(column, &what, None))?,
    };
    let field = plain_field(field_name, column)?;
    if !field.can_hide(&mask) {
        let (what, hint) = match mask {
            Mask::Network(..) => {
                ("an address", "it is for `client_address`, `peer_address` and `local_address`")
            }
            Mask::Without(_) => (
                "a query",
                "it is for `query`, `args`, `target`, `request_line`, `haproxy.request`, `referer` and headers",
            ),
        };
        return Err(error(column, &format!("`{field_name}` is not {what}"), Some(hint)));
    }
    Ok(LogField::Masked(Box::new((field, mask))))
}

/// The field of this name.
fn plain_field(name: &str, column: usize) -> Result<LogField, FormatError> {
    if let Some((_, field, _)) = PLAIN.iter().find(|(plain, ..)| *plain == name) {
        return Ok(field.clone());
    }
    if let Some(phase) = name.strip_prefix("phase.").and_then(Phase::from_name) {
        return Ok(LogField::Phase(phase));
    }
    if let Some(header) = name.strip_prefix("header.") {
        return header_name(header, column).map(LogField::RequestHeader);
    }
    if let Some(cookie) = name.strip_prefix("cookie.") {
        return parameter_name(cookie, column).map(LogField::Cookie);
    }
    if let Some(claim) = name.strip_prefix("jwt.") {
        return parameter_name(claim, column).map(LogField::TokenClaim);
    }
    if let Some(group) = name.strip_prefix("match.") {
        return parameter_name(group, column).map(LogField::MatchGroup);
    }
    if ["map.", "vars.", "proxy.", "table."].iter().any(|prefix| name.starts_with(prefix)) {
        return parameter_name(name, column).map(LogField::Named);
    }
    if let Some(parameter) = name.strip_prefix("query.") {
        return parameter_name(parameter, column).map(LogField::QueryParameter);
    }
    if let Some(header) = name.strip_prefix("request.header.") {
        let hint = format!("write `{{header.{header}}}`");
        return Err(error(column, &format!("there is no placeholder `{name}`"), Some(&hint)));
    }
    if let Some(header) = name.strip_prefix("response.header.") {
        return header_name(header, column).map(LogField::ResponseHeader);
    }
    if name.is_empty() {
        return Err(error(
            column,
            "the braces are empty",
            Some("write for example `{status}`, or `{{}}` for braces"),
        ));
    }
    let names: Vec<String> = LogTemplate::placeholders().map(|(name, _)| name).collect();
    let hint =
        closest(name, names.iter().map(String::as_str)).map(|name| format!("did you mean `{{{name}}}`?"));
    Err(error(column, &format!("there is no placeholder `{name}`"), hint.as_deref()))
}

/// A field name in lower case, which must be a token (RFC 9110 section 5.6.2).
fn header_name(name: &str, column: usize) -> Result<Box<str>, FormatError> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        let hint = "write for example `{header.user-agent}`";
        return Err(error(column, &format!("`{name}` cannot be the name of a header"), Some(hint)));
    }
    Ok(name.to_ascii_lowercase().into())
}

/// The name of a cookie or a parameter: the key of a JSON object has it as it is.
fn parameter_name(name: &str, column: usize) -> Result<Box<str>, FormatError> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    if name.is_empty() || !name.bytes().all(is_plain) {
        return Err(error(column, &format!("`{name}` cannot be the name of a cookie or a parameter"), None));
    }
    Ok(name.into())
}

/// The candidate most like a word, if any is like it at all.
fn closest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(64).collect::<String>().to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&word, &candidate.to_lowercase());
    let best = candidates.min_by_key(|candidate| distance(candidate))?;
    (distance(best) <= word.chars().count().div_ceil(3)).then_some(best)
}

fn error(column: usize, what: &str, hint: Option<&str>) -> FormatError {
    FormatError { column, what: what.to_owned(), hint: hint.map(str::to_owned) }
}
