//! Text from outside on its way to a log, a terminal or a page: what could end a line, steer a terminal or turn the text around it is shown by its
//! number.
//!
//! Each output passes all of its text through here, whatever its parts come from: names and addresses of servers, answers of peers, reasons
//! of failures. A line of the access log has an escape of its own for bytes that are no text.

use std::borrow::Cow;

/// Whether a character is not shown as it is: control characters, ends of lines, marks of direction, and characters without width.
pub fn misleads(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2064}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
        )
}

/// One line: `\u{1b}` for what misleads.
pub fn shown(text: &str) -> Cow<'_, str> {
    replaced(text, misleads, by_number)
}

/// The same of a text whose lines and columns are Weir's own.
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |char| !matches!(char, '\n' | '\t') && misleads(char), by_number)
}

/// A line of JSON with its end: what misleads can be in strings alone, which keep their meaning.
pub fn shown_json(line: &str) -> Cow<'_, str> {
    replaced(line, |char| char != '\n' && misleads(char), |char| format!("\\u{:04x}", u32::from(char)))
}

fn by_number(char: char) -> String {
    format!("\\u{{{:x}}}", u32::from(char))
}

fn replaced(
    text: &str,
    is_replaced: impl Fn(char) -> bool + Copy,
    replacement: impl Fn(char) -> String,
) -> Cow<'_, str> {
    if !text.contains(is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for char in text.chars() {
        match is_replaced(char) {
            true => out.push_str(&replacement(char)),
            false => out.push(char),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[2J\r\nb\u{9b}31m\u{202e}c\u{7f}\u{200b}\u{feff}\u{2028}é";

    #[test]
    fn what_misleads_is_shown_by_its_number() {
        assert!(matches!(shown("plain é 日本 🦀"), Cow::Borrowed(_)));
        let expected = r"a\u{1b}[2J\u{d}\u{a}b\u{9b}31m\u{202e}c\u{7f}\u{200b}\u{feff}\u{2028}é";
        assert_eq!(shown(HOSTILE), expected);
        assert_eq!(shown_lines("a\tb\nc\u{1b}\n"), "a\tb\nc\\u{1b}\n");
    }

    #[test]
    fn json_means_the_same_afterwards() {
        let line = format!("{}\n", serde_json::json!({ "why": HOSTILE }));
        let shown = shown_json(&line);
        assert!(!shown.trim_end_matches('\n').contains(misleads), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["why"], HOSTILE);
    }
}
