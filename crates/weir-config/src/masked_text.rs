//! Texts that may have a secret in them, such as a path whose query has a key: compared and sent as they are, shown without.
//!
//! The one place that decides what of a text is a secret. What a config shows, logs or reports goes through it, the lines of a shown config and
//! the messages of diagnostics included, so that a new key needs no thought.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use weir_sort::CompactSort as _;

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
        f.write_str(&masked_target(&self.0))
    }
}

impl fmt::Debug for MaskedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", masked_target(&self.0))
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
    without(text, secrets_of_text(text))
}

/// The same of a URL or a path that Weir asks, also without segments of its path that look drawn at random.
pub(crate) fn masked_target(text: &str) -> Cow<'_, str> {
    let mut found = secrets_of_text(text);
    found.extend(segments_of_target(text));
    found.sort_compact_by_key(|range| range.start);
    without(text, found)
}

/// A sentence, or a line of a config, with each URL and each path in it masked.
pub(crate) fn masked_line(line: &str) -> Cow<'_, str> {
    without(line, secrets_of_line(line))
}

/// The secrets of all URLs and paths in a line, or in several, in their order.
pub(crate) fn secrets_of_line(line: &str) -> Vec<Range<usize>> {
    if !line.contains("://") && !line.contains('?') {
        return Vec::new();
    }
    let (mut found, mut at) = (Vec::new(), 0);
    for piece in line.split(|c: char| c.is_whitespace() || "\"'`".contains(c)) {
        found.extend(secrets_of_text(piece).into_iter().map(|range| range.start + at..range.end + at));
        // What parts the pieces is one byte, or a whitespace of several.
        at += piece.len() + line[at + piece.len()..].chars().next().map_or(0, char::len_utf8);
    }
    found
}

/// A text with something else in these places, which are in their order.
fn without(text: &str, secrets: Vec<Range<usize>>) -> Cow<'_, str> {
    let mut masked = Cow::Borrowed(text);
    for range in secrets.into_iter().rev().filter(|range| text[range.clone()] != *MASK) {
        masked.to_mut().replace_range(range, MASK);
    }
    masked
}

/// The users, passwords and secret values of a URL or a path, in their order.
fn secrets_of_text(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<_> = users(text).collect();
    let is_target = text.starts_with('/') || text.contains("://");
    let Some(query) = text.find('?').filter(|_| is_target) else { return found };
    let mut at = query + 1;
    for parameter in text[at..].split('&') {
        let end = at + parameter.len();
        match parameter.split_once('=') {
            Some((name, value)) if is_telling(name) || is_secret_value(value) => {
                found.push(end - value.len()..end);
            }
            // One without a name, as keys of webhooks are.
            None if is_secret_value(parameter) => found.push(at..end),
            _ => {}
        }
        at = end + 1;
    }
    found
}

/// The bytes of users and passwords of URLs in a text.
fn users(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("://").filter_map(move |(at, scheme)| {
        let start = at + scheme.len();
        let rest = &text[start..];
        let end = rest.find(|c: char| c.is_whitespace() || "/?#\"'`".contains(c)).unwrap_or(rest.len());
        rest[..end].rfind('@').map(|at| start..start + at)
    })
}

/// The segments of the path of a URL or of a path that look drawn at random, as those of webhooks.
pub(crate) fn segments_of_target(text: &str) -> impl Iterator<Item = Range<usize>> {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let start = text[..end].find("://").map_or(0, |at| at + "://".len());
    let path = text[start..end].find('/').map_or(end, |at| start + at);
    let mut at = path;
    text[path..end].split('/').filter_map(move |segment| {
        let range = at..at + segment.len();
        at = range.end + 1;
        is_drawn_segment(segment).then_some(range)
    })
}

/// Letters and digits in a row from which on a segment is taken for one drawn at random, if they alternate: a name with a year does not.
const SEGMENT_RUN_LEN: usize = 12;

/// Changes between letters and digits from which on they do.
const CHANGES_MIN: usize = 3;

/// The same, if there are small and capital letters.
const MIXED_RUN_LEN: usize = 20;

fn is_drawn_segment(segment: &str) -> bool {
    segment.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        let has = |is: fn(&u8) -> bool| run.bytes().any(|byte| is(&byte));
        let of_both = |pair: &&[u8]| pair[0].is_ascii_digit() != pair[1].is_ascii_digit();
        let changes = run.as_bytes().windows(2).filter(of_both).count();
        let is_of_cases = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
        run.len() >= SEGMENT_RUN_LEN && changes >= CHANGES_MIN || run.len() >= MIXED_RUN_LEN && is_of_cases
    })
}

/// Characters from which on a word with letters and digits is taken for a secret.
const DRAWN_LEN: usize = 12;

/// Whether a word of a value is one that a program has drawn at random.
pub(crate) fn has_drawn_word(written: &str) -> bool {
    let words = written.split(|c: char| !(c.is_ascii_alphanumeric() || "-_+/=".contains(c)));
    let has = |word: &str, is: fn(&char) -> bool| word.chars().any(|c| is(&c));
    words
        .filter(|word| word.len() >= DRAWN_LEN && !word.contains("max-age"))
        .any(|word| has(word, char::is_ascii_digit) && has(word, char::is_ascii_alphabetic))
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
    fn segments_that_look_drawn_are_not_shown_of_targets() {
        for (text, shown) in [
            ("/hooks/T024BE7LD/f3a9c01b77aa", "/hooks/T024BE7LD/left-out"),
            ("/hooks/f3a9c01b77aa/x?y=1", "/hooks/left-out/x?y=1"),
            ("/a/XbRnQwLkTzVyPmSdFgHj", "/a/left-out"),
            ("/a/0b6ee6a2-8d2f-4c55-9d0e-6a1f0c9f7a3b/", "/a/left-out/"),
            ("https://u:p@a.test/f3a9c01b77aa?key=hush#x", "https://left-out@a.test/left-out?key=left-out"),
            ("https://f3a9c01b77aa.test", "https://f3a9c01b77aa.test"),
            ("/.well-known/jwks.json", "/.well-known/jwks.json"),
            (
                "/api/v1alpha1/internal-authentication-service",
                "/api/v1alpha1/internal-authentication-service",
            ),
            ("/realms/production2024/certs", "/realms/production2024/certs"),
            ("/{status}.html", "/{status}.html"),
        ] {
            let target = MaskedText::from(text);
            assert_eq!(target.to_string(), shown);
            assert!(!format!("{target:?}").contains("f3a9c01b77aa/"));
            assert_eq!(masked_target(shown), shown, "shown twice");
        }
        assert_eq!(masked("/assets/f3a9c01b77aa"), "/assets/f3a9c01b77aa", "a path of the config is shown");
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
