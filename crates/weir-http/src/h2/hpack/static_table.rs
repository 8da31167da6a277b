//! The static table (RFC 7541 appendix A), each entry as a line with its class.

use crate::message::name::FieldName;
use crate::multiplexed::compression::line_class::LineName;
use crate::multiplexed::compression::static_line::{OTHER, StaticLine, known_names, static_class};

/// Number of entries; the dynamic table has the indices behind them.
pub(super) const STATIC_LINES: usize = 61;

/// The entry with this index, which is not 0.
#[inline(always)]
pub(super) fn static_line(index: usize) -> Option<&'static StaticLine> {
    LINES.get(index.wrapping_sub(1))
}

/// Index of the first entry of this name; 0 when there is none.
#[inline]
pub(super) fn static_name(known: FieldName, name: &[u8]) -> usize {
    match known {
        FieldName::Other => other_name(name),
        known => usize::from(KNOWN_NAMES[known as usize]),
    }
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
    ":method" "GET" LineName::Method,
    ":method" "POST" LineName::Method,
    ":path" "/" LineName::Path,
    ":path" "/index.html" LineName::Path,
    ":scheme" "http" LineName::Scheme,
    ":scheme" "https" LineName::Scheme,
    ":status" "200" LineName::Status,
    ":status" "204" LineName::Status,
    ":status" "206" LineName::Status,
    ":status" "304" LineName::Status,
    ":status" "400" LineName::Status,
    ":status" "404" LineName::Status,
    ":status" "500" LineName::Status,
    "accept-charset" "" OTHER,
    "accept-encoding" "gzip, deflate" LineName::Field(FieldName::AcceptEncoding),
    "accept-language" "" LineName::Field(FieldName::AcceptLanguage),
    "accept-ranges" "" OTHER,
    "accept" "" LineName::Field(FieldName::Accept),
    "access-control-allow-origin" "" OTHER,
    "age" "" LineName::Field(FieldName::Age),
    "allow" "" OTHER,
    "authorization" "" LineName::Field(FieldName::Authorization),
    "cache-control" "" LineName::Field(FieldName::CacheControl),
    "content-disposition" "" OTHER,
    "content-encoding" "" LineName::Field(FieldName::ContentEncoding),
    "content-language" "" OTHER,
    "content-length" "" LineName::Field(FieldName::ContentLength),
    "content-location" "" OTHER,
    "content-range" "" OTHER,
    "content-type" "" LineName::Field(FieldName::ContentType),
    "cookie" "" LineName::Field(FieldName::Cookie),
    "date" "" LineName::Field(FieldName::Date),
    "etag" "" LineName::Field(FieldName::Etag),
    "expect" "" LineName::Field(FieldName::Expect),
    "expires" "" OTHER,
    "from" "" OTHER,
    "host" "" LineName::Field(FieldName::Host),
    "if-match" "" OTHER,
    "if-modified-since" "" LineName::Field(FieldName::IfModifiedSince),
    "if-none-match" "" LineName::Field(FieldName::IfNoneMatch),
    "if-range" "" OTHER,
    "if-unmodified-since" "" OTHER,
    "last-modified" "" LineName::Field(FieldName::LastModified),
    "link" "" OTHER,
    "location" "" LineName::Field(FieldName::Location),
    "max-forwards" "" LineName::Field(FieldName::MaxForwards),
    "proxy-authenticate" "" LineName::Field(FieldName::ProxyAuthenticate),
    "proxy-authorization" "" LineName::Field(FieldName::ProxyAuthorization),
    "range" "" OTHER,
    "referer" "" LineName::Field(FieldName::Referer),
    "refresh" "" OTHER,
    "retry-after" "" LineName::Field(FieldName::RetryAfter),
    "server" "" LineName::Field(FieldName::Server),
    "set-cookie" "" LineName::Field(FieldName::SetCookie),
    "strict-transport-security" "" OTHER,
    "transfer-encoding" "" LineName::Field(FieldName::TransferEncoding),
    "user-agent" "" LineName::Field(FieldName::UserAgent),
    "vary" "" LineName::Field(FieldName::Vary),
    "via" "" LineName::Field(FieldName::Via),
    "www-authenticate" "" LineName::Field(FieldName::WwwAuthenticate),
}

/// The index of the entry of each known name; 0 when there is none.
static KNOWN_NAMES: [u8; FieldName::Other as usize + 1] = known_names(&LINES, 1, 0);

/// The entry with a name that is not a known one; 0 when there is none.
fn other_name(name: &[u8]) -> usize {
    match name {
        b"accept-charset" => 15,
        b"accept-ranges" => 18,
        b"access-control-allow-origin" => 20,
        b"allow" => 22,
        b"content-disposition" => 25,
        b"content-language" => 27,
        b"content-location" => 29,
        b"content-range" => 30,
        b"expires" => 36,
        b"from" => 37,
        b"if-match" => 39,
        b"if-range" => 42,
        b"if-unmodified-since" => 43,
        b"link" => 45,
        b"range" => 50,
        b"refresh" => 52,
        b"strict-transport-security" => 56,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiplexed::compression::line_class::LineClass;

    #[test]
    fn entries_are_lines_of_their_class() {
        for (index, entry) in LINES.iter().enumerate() {
            let line = String::from_utf8_lossy(entry.line);
            assert_eq!(&entry.line[entry.name_len..entry.name_len + 2], b": ", "{line}");
            let found = LineClass::new(entry.line, entry.name_len);
            assert_eq!(found.name, entry.class.name, "{line}");
            assert_eq!(static_line(index + 1).map(|entry| entry.line), Some(entry.line));
            if let LineName::Field(known) = entry.class.name {
                assert_eq!(static_name(known, &entry.line[..entry.name_len]), index + 1, "{line}");
            }
        }
        assert!(static_line(0).is_none() && static_line(STATIC_LINES + 1).is_none());
        assert_eq!((static_name(FieldName::Other, b"x"), static_name(FieldName::Te, b"te")), (0, 0));
    }

    /// RFC 7541 appendix A, the names at which it is easiest to be off by one.
    #[test]
    fn entries_are_where_the_rfc_has_them() {
        for (index, line) in [
            (1, ":authority: \r\n"),
            (8, ":status: 200\r\n"),
            (15, "accept-charset: \r\n"),
            (16, "accept-encoding: gzip, deflate\r\n"),
            (31, "content-type: \r\n"),
            (38, "host: \r\n"),
            (44, "last-modified: \r\n"),
            (55, "set-cookie: \r\n"),
            (61, "www-authenticate: \r\n"),
        ] {
            assert_eq!(static_line(index).map(|entry| entry.line), Some(line.as_bytes()));
        }
    }
}
