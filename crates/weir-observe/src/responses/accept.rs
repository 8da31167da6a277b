//! Which format a client wants Weir's own answers in, by its `Accept` field (RFC 9110 section 12.5.1).
//!
//! Two formats exist, so this is no general negotiation: each gets the weight of the most specific range that names it, and
//! HTML wins a tie. An answer is sent in any case; 406 would hide the failure that the client should read about.

use weir_http::weight_of;

/// A format for Weir's own answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyFormat {
    /// A page for people.
    Html,
    /// An object for programs.
    Json,
}

impl ReplyFormat {
    /// The value of the `Content-Type` field.
    pub const fn content_type(self) -> &'static str {
        match self {
            ReplyFormat::Html => "text/html; charset=utf-8",
            ReplyFormat::Json => "application/json",
        }
    }
}

/// The weight of a format in thousandths, and how specific the range was that gave it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Preference {
    weight: u16,
    specificity: u8,
}

/// Chooses the format by the value of `Accept`; without one, HTML. Malformed ranges are skipped.
pub fn choose_format(accept: Option<&[u8]>) -> ReplyFormat {
    let (mut html, mut json) = (Preference::default(), Preference::default());
    for range in split_outside_quotes(accept.unwrap_or_default(), b',') {
        let mut parts = split_outside_quotes(range, b';').map(|part| part.trim_ascii());
        let media = parts.next().unwrap_or_default();
        let Some(weight) = parts.find_map(weight_of).unwrap_or(Some(1000)) else { continue };
        raise(&mut html, weight, html_specificity(media));
        raise(&mut json, weight, json_specificity(media));
    }
    if json > html { ReplyFormat::Json } else { ReplyFormat::Html }
}

/// A more specific range overrules a less specific one, even when its weight is lower.
fn raise(preference: &mut Preference, weight: u16, specificity: u8) {
    if specificity > preference.specificity
        || (specificity == preference.specificity && specificity > 0 && weight > preference.weight)
    {
        *preference = Preference { weight, specificity };
    }
}

fn html_specificity(media: &[u8]) -> u8 {
    match media {
        b"*/*" => 1,
        _ if media.eq_ignore_ascii_case(b"text/*") => 2,
        _ if media.eq_ignore_ascii_case(b"text/html") => 3,
        _ => 0,
    }
}

/// Types such as `application/vnd.api+json` count as JSON: a client that accepts one reads JSON rather than HTML.
fn json_specificity(media: &[u8]) -> u8 {
    match media {
        b"*/*" => 1,
        _ if media.eq_ignore_ascii_case(b"application/*") => 2,
        _ if media.eq_ignore_ascii_case(b"application/json") => 3,
        _ if media.len() > 5 && media[media.len() - 5..].eq_ignore_ascii_case(b"+json") => 3,
        _ => 0,
    }
}

/// The parts between separators that stand outside quoted strings.
fn split_outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |byte| {
        let was_escaped = std::mem::take(&mut escaped);
        match byte {
            _ if was_escaped => false,
            b'"' => {
                quoted = !quoted;
                false
            }
            b'\\' if quoted => {
                escaped = true;
                false
            }
            _ => *byte == separator && !quoted,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_chosen_by_weight_then_by_specificity() {
        use ReplyFormat::{Html, Json};
        let cases: &[(&str, ReplyFormat)] = &[
            ("", Html),
            ("*/*", Html),
            ("application/json", Json),
            ("Application/JSON", Json),
            ("application/json, text/plain, */*", Json),
            ("application/vnd.api+json", Json),
            ("application/problem+JSON;q=0.9", Json),
            ("+json", Html),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8", Html),
            ("text/html, application/json", Html),
            ("application/json, text/html", Html),
            ("text/html;q=0.5, application/json;q=0.6", Json),
            ("text/html;q=0.5, application/json;q=0.4", Html),
            ("text/html;q=0.501,application/json;q=0.5", Html),
            ("text/html ; q=0.1 , application/json ; q=1.000", Json),
            ("text/html;level=1;q=0.2, */*;q=0.3", Json),
            ("text/html;q=0, */*", Json),
            ("text/html;q=0, application/json;q=0", Html),
            ("application/*;q=0.5, text/*;q=0.4", Json),
            ("application/*, */*", Json),
            ("application/json;q=2, text/html;q=0.1", Html),
            ("application/json;q=1.001, text/html;q=0.1", Html),
            ("application/json;q=0.1234, text/html;q=0.1", Html),
            ("application/json;q=, text/html;q=0.1", Html),
            ("text/html;x=\"a,application/json\"", Html),
            ("text/plain;x=\"\\\",application/json\"", Html),
            ("text/plain;x=\"a\",application/json", Json),
            (",,;;,application/json,,", Json),
        ];
        for (accept, format) in cases {
            assert_eq!(choose_format(Some(accept.as_bytes())), *format, "{accept}");
        }
        assert_eq!(choose_format(None), Html);
        assert_eq!(choose_format(Some(b"\xff\x00;q=\xff, application/json")), Json);
    }
}
