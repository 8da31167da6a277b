//! The static table (RFC 9204 appendix A), each entry as a line with its class.

use crate::message::name::FieldName;
use crate::multiplexed::compression::line_class::LineName;
use crate::multiplexed::compression::static_line::{OTHER, StaticLine, known_names, static_class};

/// Number of entries.
const STATIC_LINES: usize = 99;

/// No entry.
const NONE: u8 = u8::MAX;

/// Bytes of the longest name that is not a known one.
const OTHER_NAME_BYTES_MAX: usize = 32;

/// The entry with this index.
#[inline(always)]
pub(super) fn static_line(index: usize) -> Option<&'static StaticLine> {
    LINES.get(index)
}

/// Index of the first entry of the name of a field, which is in any mixture of upper and lower case.
#[inline]
pub(super) fn static_name(known: FieldName, name: &[u8]) -> Option<usize> {
    let index = match known {
        FieldName::Other => other_name(name),
        known => KNOWN_NAMES[known as usize],
    };
    if index == NONE { None } else { Some(index.into()) }
}

/// Index of the entry with this value, of those that follow one another from `first` on with the same name.
#[inline]
pub(super) fn static_value(first: usize, value: &[u8]) -> Option<usize> {
    let count = usize::from(*SAME_NAME.get(first)?);
    let found = LINES.get(first..first + count)?.iter().position(|line| {
        // Few have the length of the value.
        line.line.len() == line.name_len + 4 + value.len()
            && &line.line[line.name_len + 2..][..value.len()] == value
    });
    found.map(|place| first + place)
}

/// How many entries that follow one another from an index on have its name.
static SAME_NAME: [u8; STATIC_LINES] = {
    let (mut counts, mut index) = ([1; STATIC_LINES], STATIC_LINES - 1);
    while index > 0 {
        index -= 1;
        if have_same_name(&LINES[index], &LINES[index + 1]) {
            counts[index] = counts[index + 1] + 1;
        }
    }
    counts
};

const fn have_same_name(one: &StaticLine, other: &StaticLine) -> bool {
    let mut at = 0;
    while at < one.name_len && at < other.name_len && one.line[at] == other.line[at] {
        at += 1;
    }
    at == one.name_len && at == other.name_len
}

/// Declares the entries with their names as they are known here.
macro_rules! static_lines {
    ($($name:literal $value:literal $line_name:expr,)+) => {
        static LINES: [StaticLine; STATIC_LINES] = [$(StaticLine {
            line: concat!($name, ": ", $value, "\r\n").as_bytes(),
            name_len: $name.len(),
            class: static_class($line_name),
        },)+];
    };
}

static_lines! {
    ":authority" "" LineName::Authority,
    ":path" "/" LineName::Path,
    "age" "0" LineName::Field(FieldName::Age),
    "content-disposition" "" OTHER,
    "content-length" "0" LineName::Field(FieldName::ContentLength),
    "cookie" "" LineName::Field(FieldName::Cookie),
    "date" "" LineName::Field(FieldName::Date),
    "etag" "" LineName::Field(FieldName::Etag),
    "if-modified-since" "" LineName::Field(FieldName::IfModifiedSince),
    "if-none-match" "" LineName::Field(FieldName::IfNoneMatch),
    "last-modified" "" LineName::Field(FieldName::LastModified),
    "link" "" OTHER,
    "location" "" LineName::Field(FieldName::Location),
    "referer" "" LineName::Field(FieldName::Referer),
    "set-cookie" "" LineName::Field(FieldName::SetCookie),
    ":method" "CONNECT" LineName::Method,
    ":method" "DELETE" LineName::Method,
    ":method" "GET" LineName::Method,
    ":method" "HEAD" LineName::Method,
    ":method" "OPTIONS" LineName::Method,
    ":method" "POST" LineName::Method,
    ":method" "PUT" LineName::Method,
    ":scheme" "http" LineName::Scheme,
    ":scheme" "https" LineName::Scheme,
    ":status" "103" LineName::Status,
    ":status" "200" LineName::Status,
    ":status" "304" LineName::Status,
    ":status" "404" LineName::Status,
    ":status" "503" LineName::Status,
    "accept" "*/*" LineName::Field(FieldName::Accept),
    "accept" "application/dns-message" LineName::Field(FieldName::Accept),
    "accept-encoding" "gzip, deflate, br" LineName::Field(FieldName::AcceptEncoding),
    "accept-ranges" "bytes" OTHER,
    "access-control-allow-headers" "cache-control" OTHER,
    "access-control-allow-headers" "content-type" OTHER,
    "access-control-allow-origin" "*" OTHER,
    "cache-control" "max-age=0" LineName::Field(FieldName::CacheControl),
    "cache-control" "max-age=2592000" LineName::Field(FieldName::CacheControl),
    "cache-control" "max-age=604800" LineName::Field(FieldName::CacheControl),
    "cache-control" "no-cache" LineName::Field(FieldName::CacheControl),
    "cache-control" "no-store" LineName::Field(FieldName::CacheControl),
    "cache-control" "public, max-age=31536000" LineName::Field(FieldName::CacheControl),
    "content-encoding" "br" LineName::Field(FieldName::ContentEncoding),
    "content-encoding" "gzip" LineName::Field(FieldName::ContentEncoding),
    "content-type" "application/dns-message" LineName::Field(FieldName::ContentType),
    "content-type" "application/javascript" LineName::Field(FieldName::ContentType),
    "content-type" "application/json" LineName::Field(FieldName::ContentType),
    "content-type" "application/x-www-form-urlencoded" LineName::Field(FieldName::ContentType),
    "content-type" "image/gif" LineName::Field(FieldName::ContentType),
    "content-type" "image/jpeg" LineName::Field(FieldName::ContentType),
    "content-type" "image/png" LineName::Field(FieldName::ContentType),
    "content-type" "text/css" LineName::Field(FieldName::ContentType),
    "content-type" "text/html; charset=utf-8" LineName::Field(FieldName::ContentType),
    "content-type" "text/plain" LineName::Field(FieldName::ContentType),
    "content-type" "text/plain;charset=utf-8" LineName::Field(FieldName::ContentType),
    "range" "bytes=0-" OTHER,
    "strict-transport-security" "max-age=31536000" OTHER,
    "strict-transport-security" "max-age=31536000; includesubdomains" OTHER,
    "strict-transport-security" "max-age=31536000; includesubdomains; preload" OTHER,
    "vary" "accept-encoding" LineName::Field(FieldName::Vary),
    "vary" "origin" LineName::Field(FieldName::Vary),
    "x-content-type-options" "nosniff" OTHER,
    "x-xss-protection" "1; mode=block" OTHER,
    ":status" "100" LineName::Status,
    ":status" "204" LineName::Status,
    ":status" "206" LineName::Status,
    ":status" "302" LineName::Status,
    ":status" "400" LineName::Status,
    ":status" "403" LineName::Status,
    ":status" "421" LineName::Status,
    ":status" "425" LineName::Status,
    ":status" "500" LineName::Status,
    "accept-language" "" LineName::Field(FieldName::AcceptLanguage),
    "access-control-allow-credentials" "FALSE" OTHER,
    "access-control-allow-credentials" "TRUE" OTHER,
    "access-control-allow-headers" "*" OTHER,
    "access-control-allow-methods" "get" OTHER,
    "access-control-allow-methods" "get, post, options" OTHER,
    "access-control-allow-methods" "options" OTHER,
    "access-control-expose-headers" "content-length" OTHER,
    "access-control-request-headers" "content-type" OTHER,
    "access-control-request-method" "get" OTHER,
    "access-control-request-method" "post" OTHER,
    "alt-svc" "clear" OTHER,
    "authorization" "" LineName::Field(FieldName::Authorization),
    "content-security-policy" "script-src 'none'; object-src 'none'; base-uri 'none'" OTHER,
    "early-data" "1" OTHER,
    "expect-ct" "" OTHER,
    "forwarded" "" LineName::Field(FieldName::Forwarded),
    "if-range" "" OTHER,
    "origin" "" LineName::Field(FieldName::Origin),
    "purpose" "prefetch" OTHER,
    "server" "" LineName::Field(FieldName::Server),
    "timing-allow-origin" "*" OTHER,
    "upgrade-insecure-requests" "1" OTHER,
    "user-agent" "" LineName::Field(FieldName::UserAgent),
    "x-forwarded-for" "" LineName::Field(FieldName::XForwardedFor),
    "x-frame-options" "deny" OTHER,
    "x-frame-options" "sameorigin" OTHER,
}

/// The index of the first entry of each known name.
static KNOWN_NAMES: [u8; FieldName::Other as usize + 1] = known_names(&LINES, 0, NONE);

/// The first entry with a name that is not a known one.
fn other_name(name: &[u8]) -> u8 {
    let mut lower = [0; OTHER_NAME_BYTES_MAX];
    let Some(lower) = lower.get_mut(..name.len()) else { return NONE };
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    match &*lower {
        b"content-disposition" => 3,
        b"link" => 11,
        b"accept-ranges" => 32,
        b"access-control-allow-headers" => 33,
        b"access-control-allow-origin" => 35,
        b"range" => 55,
        b"strict-transport-security" => 56,
        b"x-content-type-options" => 61,
        b"x-xss-protection" => 62,
        b"access-control-allow-credentials" => 73,
        b"access-control-allow-methods" => 76,
        b"access-control-expose-headers" => 79,
        b"access-control-request-headers" => 80,
        b"access-control-request-method" => 81,
        b"alt-svc" => 83,
        b"content-security-policy" => 85,
        b"early-data" => 86,
        b"expect-ct" => 87,
        b"if-range" => 89,
        b"purpose" => 91,
        b"timing-allow-origin" => 93,
        b"upgrade-insecure-requests" => 94,
        b"x-frame-options" => 97,
        _ => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiplexed::compression::line_class::LineClass;

    fn name(entry: &StaticLine) -> &[u8] {
        &entry.line[..entry.name_len]
    }

    #[test]
    fn entries_are_lines_of_their_class() {
        for (index, entry) in LINES.iter().enumerate() {
            let line = String::from_utf8_lossy(entry.line);
            assert_eq!(&entry.line[entry.name_len..entry.name_len + 2], b": ", "{line}");
            let found = LineClass::new(entry.line, entry.name_len);
            assert_eq!((found.name, found.broken), (entry.class.name, entry.class.broken), "{line}");
            assert_eq!(static_line(index).map(|entry| entry.line), Some(entry.line));
            if let LineName::Field(known) = entry.class.name {
                let first = LINES.iter().position(|other| name(other) == name(entry));
                assert_eq!(static_name(known, name(entry)), first, "{line}");
                assert_eq!(static_name(known, &name(entry).to_ascii_uppercase()), first, "{line}");
            }
            let value = &entry.line[entry.name_len + 2..entry.line.len() - 2];
            assert_eq!(static_value(index, value), Some(index), "{line}");
        }
        assert!(static_line(STATIC_LINES).is_none());
        assert_eq!(static_name(FieldName::Other, b"x"), None);
        assert_eq!(static_name(FieldName::Other, &[b'x'; 40]), None);
        assert_eq!(static_name(FieldName::Te, b"te"), None);
        assert_eq!(
            (static_value(36, b"no-store"), static_value(36, b"br"), static_value(99, b"")),
            (Some(40), None, None)
        );
    }

    /// RFC 9204 appendix A, the places at which it is easiest to be off by one.
    #[test]
    fn entries_are_where_the_rfc_has_them() {
        for (index, line) in [
            (0, ":authority: \r\n"),
            (17, ":method: GET\r\n"),
            (25, ":status: 200\r\n"),
            (31, "accept-encoding: gzip, deflate, br\r\n"),
            (46, "content-type: application/json\r\n"),
            (63, ":status: 100\r\n"),
            (72, "accept-language: \r\n"),
            (84, "authorization: \r\n"),
            (95, "user-agent: \r\n"),
            (98, "x-frame-options: sameorigin\r\n"),
        ] {
            assert_eq!(static_line(index).map(|entry| entry.line), Some(line.as_bytes()));
        }
    }
}
