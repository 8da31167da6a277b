//! The normal form of a path: the one spelling of all that mean the same to a server that resolves them.
//!
//! Rules are matched on it, so that none is got round by another spelling. Decoding happens once: what an encoded
//! percent sign hides stays hidden.

use crate::bytes::{is_target_byte, is_unreserved};
use crate::digits::percent_encoded;

/// The treatment of `%2F` in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EncodedSlashRule {
    /// It stays as it is, a byte inside a segment (RFC 3986 section 2.2).
    #[default]
    Keep,
    /// It becomes a slash, and counts as one.
    Decode,
    /// The request is refused.
    Refuse,
}

/// The form of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathRules {
    /// The treatment of `%2F`.
    pub encoded_slash: EncodedSlashRule,
    /// Whether a path in any other than its normal form is refused.
    pub refuse_other_forms: bool,
}

/// Appends the normal form of `path`, which starts with a slash; any other text is appended as it is.
///
/// Dot segments are resolved (RFC 3986 section 5.2.4), several slashes in a row are one, unreserved characters are
/// not encoded, bytes that no target may hold are, with upper-case digits (section 6.2.2). A path that climbs above its
/// root ends there.
///
/// ```
/// use weir_http::{EncodedSlashRule, write_normal_path};
///
/// let mut normal = Vec::new();
/// write_normal_path(&mut normal, b"//a/./%62/%2e%2e/c%2fd", EncodedSlashRule::Keep);
/// assert_eq!(normal, b"/a/c%2Fd");
/// ```
pub fn write_normal_path(out: &mut Vec<u8>, path: &[u8], encoded_slash: EncodedSlashRule) {
    let root = out.len();
    let Some(mut rest) = path.strip_prefix(b"/") else { return out.extend_from_slice(path) };
    out.push(b'/');
    let mut segment = out.len();
    while let Some((&byte, behind)) = rest.split_first() {
        let (byte, is_encoded, behind) = match (byte, encoded_byte(behind)) {
            (b'%', Some(byte)) => (byte, true, &behind[2..]),
            _ => (byte, false, behind),
        };
        rest = behind;
        match byte {
            b'/' if !is_encoded || encoded_slash == EncodedSlashRule::Decode => {
                if !end_segment(out, root, segment) && out.len() > segment {
                    out.push(b'/');
                }
                segment = out.len();
            }
            _ if is_encoded && !is_unreserved(byte) || !is_encoded && !is_target_byte(byte) => {
                percent_encoded(out, byte);
            }
            _ => out.push(byte),
        }
    }
    end_segment(out, root, segment);
}

/// Takes a dot segment, if one starts at `segment`, off the end of `out`, with the segment that it takes back. `true`:
/// there was one.
fn end_segment(out: &mut Vec<u8>, root: usize, segment: usize) -> bool {
    match &out[segment..] {
        b"." => out.truncate(segment),
        b".." => {
            // The slash before this segment, and the one before the segment that it takes back.
            let above = out[root..segment - 1].iter().rposition(|&byte| byte == b'/');
            out.truncate(above.map_or(segment, |slash| root + slash + 1));
        }
        _ => return false,
    }
    true
}

/// The byte of the two hexadecimal digits at the start of `digits`.
fn encoded_byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    Some((digit(0)? << 4 | digit(1)?) as u8)
}

/// Whether `path` holds an encoded slash.
pub(crate) fn has_encoded_slash(path: &[u8]) -> bool {
    path.windows(3).any(|bytes| bytes.eq_ignore_ascii_case(b"%2f"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use proptest::sample::select;

    use super::*;
    use crate::bytes::path_run;

    fn normal(path: &[u8], encoded_slash: EncodedSlashRule) -> Vec<u8> {
        let mut out = b"before".to_vec();
        write_normal_path(&mut out, path, encoded_slash);
        out.split_off(6)
    }

    #[test]
    fn spellings_have_one_normal_form() {
        let rows: &[(&str, &str)] = &[
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("//", "/"),
            ("//a", "/a"),
            ("///a//b//", "/a/b/"),
            ("/.", "/"),
            ("/./", "/"),
            ("/..", "/"),
            ("/../", "/"),
            ("/../../a", "/a"),
            ("/a/.", "/a/"),
            ("/a/..", "/"),
            ("/a/../", "/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a/b/../../c", "/c"),
            ("/a//../b", "/b"),
            ("/a/./b", "/a/b"),
            ("/x/../admin", "/admin"),
            ("/%61dmin", "/admin"),
            ("/%61%64%6D%69%6e", "/admin"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/%2e/a", "/a"),
            ("/%7euser%2Dx%5fy", "/~user-x_y"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a..b/...", "/a..b/..."),
            ("/a;/..;/b", "/a;/..;/b"),
            ("/a%2fb", "/a%2Fb"),
            ("/a/..%2fb", "/a/..%2Fb"),
            ("/%252e%252e/a", "/%252e%252e/a"),
            ("/%25%32%65/a", "/%252e/a"),
            ("/a%5c..%5cb", "/a%5C..%5Cb"),
            ("/caf%c3%a9%00%20", "/caf%C3%A9%00%20"),
            ("/http://a", "/http:/a"),
            ("/a|b\u{e9}", "/a%7Cb%C3%A9"),
            ("*", "*"),
            ("", ""),
        ];
        for (path, expected) in rows {
            let found = normal(path.as_bytes(), EncodedSlashRule::Keep);
            assert_eq!(String::from_utf8(found).unwrap(), *expected, "{path:?}");
        }
        for (path, expected) in [("/a%2Fb", "/a/b"), ("/a%2f%2e%2e%2fb", "/b"), ("/a%252fb", "/a%252fb")] {
            let found = normal(path.as_bytes(), EncodedSlashRule::Decode);
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{path:?}");
        }
    }

    /// The words of RFC 3986 section 5.2.4, on segments in a list.
    fn by_segments(path: &str) -> String {
        let mut kept: Vec<&str> = Vec::new();
        let segments: Vec<&str> = path[1..].split('/').collect();
        for (at, segment) in segments.iter().enumerate() {
            let is_last = at + 1 == segments.len();
            match *segment {
                "." | "" if !is_last => {}
                ".." => {
                    kept.pop();
                    if is_last {
                        kept.push("");
                    }
                }
                "." => kept.push(""),
                other => kept.push(other),
            }
        }
        format!("/{}", kept.join("/"))
    }

    proptest! {
        #[test]
        fn dot_segments_go_as_the_rfc_has_it(pieces in vec(select(["/", ".", "..", "a", "bc"].as_slice()), 0..12)) {
            let path = format!("/{}", pieces.concat());
            prop_assert_eq!(String::from_utf8(normal(path.as_bytes(), EncodedSlashRule::Keep)).unwrap(), by_segments(&path));
        }

        #[test]
        fn a_normal_form_is_its_own(pieces in vec(select(["/", ".", "%2e", "%2F", "%2f", "a", "%61", "%25"].as_slice()), 0..12)) {
            let path = format!("/{}", pieces.concat());
            for slash in [EncodedSlashRule::Keep, EncodedSlashRule::Decode] {
                let once = normal(path.as_bytes(), slash);
                // An encoded percent sign stays, so nothing is decoded a second time.
                prop_assert_eq!(&normal(&once, slash), &once);
                let (len, is_odd) = path_run(path.as_bytes());
                prop_assert_eq!(len, path.len());
                prop_assert!(is_odd || once == path.as_bytes(), "{} is not seen", path);
            }
        }
    }
}
