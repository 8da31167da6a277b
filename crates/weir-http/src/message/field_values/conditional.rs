//! Conditional requests: whether what the client has, or expects, is what there is (RFC 9110 section 13).

use crate::message::fields::Fields;
use crate::message::name::FieldName;
use crate::wall_time::WallTime;

/// What tells one version of a representation from another (RFC 9110 section 8.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validators<'a> {
    /// The entity tag, quotes included.
    pub etag: &'a [u8],
    /// The time of the last change, in seconds since 1970.
    pub modified: u64,
}

/// What the preconditions of a request come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// The method is carried out.
    Passed,
    /// The client has this version already: 304.
    NotModified,
    /// The version is not the one that the client expects: 412.
    Failed,
}

impl Validators<'_> {
    /// Evaluates the preconditions of a GET or HEAD in the order of RFC 9110 section 13.2.2.
    pub fn evaluate(&self, fields: &Fields, text: &[u8]) -> ConditionOutcome {
        if let Some(matches) = self.any_tag_matches(fields, text, "if-match", is_same_strong) {
            if !matches {
                return ConditionOutcome::Failed;
            }
        } else if let Some(since) = only_date(fields, text, "if-unmodified-since")
            && self.modified > since
        {
            return ConditionOutcome::Failed;
        }
        if self.is_had(fields, text) { ConditionOutcome::NotModified } else { ConditionOutcome::Passed }
    }

    /// Whether the client has this version already, by the preconditions that a cache evaluates, too: `If-None-Match`, or else
    /// `If-Modified-Since` (RFC 9111 section 4.3.2).
    pub fn is_had(&self, fields: &Fields, text: &[u8]) -> bool {
        if fields.contains(FieldName::IfNoneMatch) {
            return self.any_tag_matches(fields, text, "if-none-match", is_same_weak) == Some(true);
        }
        only_date(fields, text, "if-modified-since").is_some_and(|since| self.modified <= since)
    }

    /// Whether a range of this version is what the client can use (RFC 9110 section 13.1.5): `If-Range` is absent or names it.
    pub fn allow_range(&self, fields: &Fields, text: &[u8]) -> bool {
        let mut values = fields.all_by_name(text, "if-range").map(|field| field.value.of(text).trim_ascii());
        match (values.next(), values.next()) {
            (None, _) => true,
            (Some(tag), None) if tag.ends_with(b"\"") => is_same_strong(tag, self.etag),
            (Some(date), None) => parse_date(date) == Some(self.modified),
            _ => false,
        }
    }

    /// Whether some tag of the fields of this name is the present one; `None` without such a field.
    fn any_tag_matches(
        &self,
        fields: &Fields,
        text: &[u8],
        name: &str,
        is_same: impl Fn(&[u8], &[u8]) -> bool,
    ) -> Option<bool> {
        let mut has_field = false;
        for field in fields.all_by_name(text, name) {
            has_field = true;
            let value = field.value.of(text).trim_ascii();
            if value == b"*" || EntityTags(value).any(|tag| is_same(tag, self.etag)) {
                return Some(true);
            }
        }
        has_field.then_some(false)
    }
}

/// The tags of a list, up to the first that is none.
struct EntityTags<'a>(&'a [u8]);

impl<'a> Iterator for EntityTags<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|byte| !matches!(byte, b',' | b' ' | b'\t'))?;
        let rest = &self.0[start..];
        let opaque = rest.strip_prefix(b"W/").unwrap_or(rest).strip_prefix(b"\"")?;
        let end = rest.len() - opaque.len() + opaque.iter().position(|byte| *byte == b'"')? + 1;
        self.0 = &rest[end..];
        Some(&rest[..end])
    }
}

/// Strong comparison (RFC 9110 section 8.8.3.2): neither is weak.
fn is_same_strong(one: &[u8], other: &[u8]) -> bool {
    one == other && !one.starts_with(b"W/")
}

/// Weak comparison.
fn is_same_weak(one: &[u8], other: &[u8]) -> bool {
    one.strip_prefix(b"W/").unwrap_or(one) == other.strip_prefix(b"W/").unwrap_or(other)
}

/// The date of the only field of this name; a date that is none, or one of several, is ignored (RFC 9110 section 13.1.3).
fn only_date(fields: &Fields, text: &[u8], name: &str) -> Option<u64> {
    let mut dates = fields.all_by_name(text, name).map(|field| parse_date(field.value.of(text).trim_ascii()));
    match (dates.next(), dates.next()) {
        (Some(date), None) => date,
        _ => None,
    }
}

/// Seconds since 1970 of a date in one of the three formats of RFC 9110 section 5.6.7.
pub fn parse_date(value: &[u8]) -> Option<u64> {
    let time = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    Some(WallTime::from(time).seconds())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadLimits;
    use crate::http1::ParsedRequest;

    const NOW: Validators<'static> = Validators { etag: b"\"now\"", modified: 784_111_777 };
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

    fn request(fields: &str) -> (ParsedRequest, Vec<u8>) {
        let end = if fields.is_empty() { "" } else { "\r\n" };
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}{end}\r\n").into_bytes();
        let mut head = ParsedRequest::new();
        head.parse(&text, &HeadLimits::default()).expect("the head is valid");
        (head, text)
    }

    fn outcome(fields: &str) -> ConditionOutcome {
        let (head, text) = request(fields);
        NOW.evaluate(head.fields(), &text)
    }

    #[test]
    fn preconditions_are_evaluated_in_the_order_of_the_rfc() {
        use ConditionOutcome::{Failed, NotModified, Passed};
        for (fields, expected) in [
            (String::new(), Passed),
            ("If-Match: \"now\"".into(), Passed),
            ("If-Match: \"a\", \"now\"".into(), Passed),
            ("If-Match: *".into(), Passed),
            ("If-Match: W/\"now\"".into(), Failed),
            ("If-Match: \"then\"".into(), Failed),
            ("If-Match: now".into(), Failed),
            (format!("If-Match: \"now\"\r\nIf-Unmodified-Since: {BEFORE}"), Passed),
            (format!("If-Unmodified-Since: {DATE}"), Passed),
            (format!("If-Unmodified-Since: {BEFORE}"), Failed),
            ("If-Unmodified-Since: yesterday".into(), Passed),
            ("If-None-Match: \"now\"".into(), NotModified),
            ("If-None-Match: W/\"now\"".into(), NotModified),
            ("If-None-Match: *".into(), NotModified),
            ("If-None-Match: \"a,b\" , ,W/\"now\"".into(), NotModified),
            ("If-None-Match: \"a\"\r\nIf-None-Match: \"now\"".into(), NotModified),
            ("If-None-Match: \"then\"".into(), Passed),
            ("If-None-Match: \"now".into(), Passed),
            ("If-None-Match: \"a\" now".into(), Passed),
            (format!("If-None-Match: \"then\"\r\nIf-Modified-Since: {DATE}"), Passed),
            (format!("If-Modified-Since: {DATE}"), NotModified),
            (format!("If-Modified-Since: {BEFORE}"), Passed),
            ("If-Modified-Since: Sunday, 06-Nov-94 08:49:37 GMT".into(), NotModified),
            ("If-Modified-Since: Sun Nov  6 08:49:37 1994".into(), NotModified),
            (format!("If-Modified-Since: {DATE}\r\nIf-Modified-Since: {DATE}"), Passed),
            ("If-Modified-Since: 0".into(), Passed),
            (format!("If-Match: \"then\"\r\nIf-None-Match: \"now\"\r\nIf-Modified-Since: {DATE}"), Failed),
        ] {
            assert_eq!(outcome(&fields), expected, "{fields}");
        }
    }

    #[test]
    fn a_range_is_for_the_version_that_the_client_has() {
        for (fields, expected) in [
            (String::new(), true),
            ("If-Range: \"now\"".into(), true),
            ("If-Range: W/\"now\"".into(), false),
            ("If-Range: \"then\"".into(), false),
            (format!("If-Range: {DATE}"), true),
            (format!("If-Range: {BEFORE}"), false),
            ("If-Range: now".into(), false),
            ("If-Range: \"now\"\r\nIf-Range: \"now\"".into(), false),
        ] {
            let (head, text) = request(&fields);
            assert_eq!(NOW.allow_range(head.fields(), &text), expected, "{fields}");
        }
    }
}
