//! Texts that may have a secret in them, such as a path whose query has a key: compared and sent as they are, shown without.
//!
//! The one place that decides what of a text is a secret. What a config shows, logs or reports goes through it, the lines of a shown config and
//! the messages of diagnostics included, so that a new key needs no thought.

use std::borrow::Cow;
use std::fmt;

/// What is shown in place of a secret within a text.
pub(crate) const MASK: &str = "left-out";

/// Characters from which on a value with a digit in it is taken for a secret, whatever its name.
const VALUE_LEN: usize = 8;

/// The same for any value.
const LONG_VALUE_LEN: usize = 16;

/// A text that may have a secret in it. It is shown, and debugged, without; what sends it has to say so.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct MaskedText(Box<str>);

impl MaskedText {
    /// The text as it is, for what sends it.
    pub fn exposed(&self) -> &str {
        &self.0
    }
}

impl From<Box<str>> for MaskedText {
    fn from(text: Box<str>) -> Self {
        Self(text)
    }
}

impl From<&str> for MaskedText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for MaskedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&masked(&self.0))
    }
}

impl fmt::Debug for MaskedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", masked(&self.0))
    }
}

/// Parts of names whose values are secrets, in lower case.
const TELLING: [&str; 15] = [
    "auth",
    "cookie",
    "token",
    "key",
    "secret",
    "pass",
    "credential",
    "session",
    "signature",
    "jwt",
    "bearer",
    "hmac",
    "pwd",
    "private",
    "psk",
];

/// Whether a name, of a header or a parameter, says that its value is a secret.
pub(crate) fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|part| name.contains(part))
}

/// A URL without its user and password, and a URL or a path without values of its query that are secrets.
pub(crate) fn masked(text: &str) -> Cow<'_, str> {
    match without_user(text) {
        Cow::Borrowed(text) => without_secret_values(text),
        Cow::Owned(text) => Cow::Owned(without_secret_values(&text).into_owned()),
    }
}

/// A sentence, or a line of a config, with each URL and each path in it masked.
pub(crate) fn masked_line(line: &str) -> Cow<'_, str> {
    if !line.contains("://") && !line.contains('?') {
        return Cow::Borrowed(line);
    }
    let ends_text = |c: char| c.is_whitespace() || "\"'`".contains(c);
    let pieces = line.split_inclusive(ends_text).map(|piece| {
        let (text, end) = piece.split_at(piece.trim_end_matches(ends_text).len());
        format!("{}{end}", masked(text))
    });
    Cow::Owned(pieces.collect())
}

/// The bytes of users and passwords of URLs in a text.
pub(crate) fn users(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> {
    text.match_indices("://").filter_map(move |(at, scheme)| {
        let start = at + scheme.len();
        let rest = &text[start..];
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'`".contains(c)).unwrap_or(rest.len());
        rest[..end].rfind('@').map(|at| start..start + at)
    })
}

fn without_user(text: &str) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(text);
    let found: Vec<_> = users(text).collect();
    for range in found.into_iter().rev() {
        masked.to_mut().replace_range(range, MASK);
    }
    masked
}

fn without_secret_values(text: &str) -> Cow<'_, str> {
    let is_target = text.starts_with('/') || text.contains("://");
    let Some((path, query)) = text.split_once('?').filter(|_| is_target) else { return Cow::Borrowed(text) };
    let mut is_changed = false;
    let shown = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, value)) if value != MASK && (is_telling(name) || is_secret_value(value)) => {
            is_changed = true;
            format!("{name}={MASK}")
        }
        // One without a name, as keys of webhooks are.
        None if is_secret_value(parameter) && parameter != MASK => {
            is_changed = true;
            MASK.to_owned()
        }
        _ => parameter.to_owned(),
    });
    let shown = shown.collect::<Vec<_>>().join("&");
    if is_changed { Cow::Owned(format!("{path}?{shown}")) } else { Cow::Borrowed(text) }
}

/// Whether a value is one that only a program would write. One with a placeholder is none of the config.
fn is_secret_value(value: &str) -> bool {
    let is_drawn = |c: char| c.is_ascii_alphanumeric() || "-_+/=.~%".contains(c);
    let has_digit = value.contains(|c: char| c.is_ascii_digit());
    value.chars().all(is_drawn) && (value.len() >= LONG_VALUE_LEN || (value.len() >= VALUE_LEN && has_digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_shown_without_their_secrets() {
        for (text, shown) in [
            ("/alive?token=abc&full=1", "/alive?token=left-out&full=1"),
            ("/check?k=f3a9c01b77&mode=basic", "/check?k=left-out&mode=basic"),
            ("/check?mode=forward-auth", "/check?mode=forward-auth"),
            ("/hook?f3a9c01b77", "/hook?left-out"),
            (
                "/error?status={status}&id={header.x-request-id}",
                "/error?status={status}&id={header.x-request-id}",
            ),
            ("http://ann:hush@a.test/x?y=1", "http://left-out@a.test/x?y=1"),
            ("https://hush@a.test", "https://left-out@a.test"),
            ("redis://:p@ss@a.test:6379/1", "redis://left-out@a.test:6379/1"),
            ("https://a.test/x@y", "https://a.test/x@y"),
            ("^/a?b=f3a9c01b77$", "^/a?b=f3a9c01b77$"),
            ("PING\r\n", "PING\r\n"),
            ("", ""),
        ] {
            assert_eq!(masked(text), shown, "{text}");
            assert_eq!(masked(shown), shown, "shown twice");
            let text = MaskedText::from(text);
            assert_eq!(text.to_string(), shown);
            assert!(!format!("{text:?}").contains("hush"));
        }
        assert_ne!(MaskedText::from("/a?key=1"), MaskedText::from("/a?key=2"), "compared as they are");
    }

    #[test]
    fn lines_and_sentences_are_masked_where_they_quote() {
        for (line, shown) in [
            ("`http://u:hush@a/` holds credentials", "`http://left-out@a/` holds credentials"),
            ("path = \"/a?key=hush\"", "path = \"/a?key=left-out\""),
            (
                "ca = [\"https://a/?t=x\", \"https://b/?key=hush\"]",
                "ca = [\"https://a/?t=x\", \"https://b/?key=left-out\"]",
            ),
            ("is this one? no", "is this one? no"),
        ] {
            assert_eq!(masked_line(line), shown);
        }
    }
}
