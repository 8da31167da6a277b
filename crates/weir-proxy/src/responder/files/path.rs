//! From the path of a URL to that of a file: decoded once, then segment by segment.

/// The only hidden name that is served in any case (RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// Longest path, as the kernel has it (`PATH_MAX`).
const PATH_MAX: usize = 4096;

/// A path below the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePath {
    /// Without slashes around it; empty is the folder itself.
    pub(crate) relative: Vec<u8>,
    /// Whether the URL ends with a slash: it names a folder.
    pub(crate) is_folder: bool,
}

/// The file that a path of a URL names; `None` when it can name none.
///
/// Decoded once. Segments that climb, that hold a slash or a NUL, or that are hidden (unless `serves_hidden`) name nothing, so that
/// nothing hangs on how a file system reads them.
pub(crate) fn file_path(url_path: &[u8], serves_hidden: bool) -> Option<FilePath> {
    let mut relative = Vec::with_capacity(url_path.len());
    let mut is_folder = true;
    for (at, segment) in url_path.split(|byte| *byte == b'/').enumerate() {
        let start = relative.len();
        if start > 0 {
            relative.push(b'/');
        }
        let name_at = relative.len();
        decode(segment, &mut relative)?;
        let name = &relative[name_at..];
        if name.is_empty() || name == b"." {
            relative.truncate(start);
            is_folder = true;
            continue;
        }
        let is_hidden = name.starts_with(b".") && !(name == WELL_KNOWN && start == 0);
        if name == b".." || name.contains(&b'/') || name.contains(&0) || (is_hidden && !serves_hidden) {
            return None;
        }
        // What stands before the first slash is no segment: a path begins with one.
        if at == 0 {
            return None;
        }
        is_folder = false;
    }
    (relative.len() < PATH_MAX).then_some(FilePath { relative, is_folder })
}

/// Whether bytes that are not decoded name a file in a folder: one segment, which neither climbs nor is hidden (unless `serves_hidden`).
pub(crate) fn is_file_name(name: &[u8], serves_hidden: bool) -> bool {
    let is_segment = !name.is_empty() && !name.contains(&b'/') && !name.contains(&0);
    let is_hidden = name.starts_with(b".");
    is_segment && name.len() < PATH_MAX && name != b"." && name != b".." && (serves_hidden || !is_hidden)
}

/// What follows a script in a path of a URL, decoded. It names no file, so that encoded slashes may be in it; `None` where a program that takes it for
/// one would be led astray.
pub(crate) fn path_info(url_path: &[u8], serves_hidden: bool) -> Option<Vec<u8>> {
    let mut info = Vec::with_capacity(url_path.len());
    decode(url_path, &mut info)?;
    let is_astray = |name: &[u8]| {
        name == b".." || name.contains(&0) || !serves_hidden && name.starts_with(b".") && name != b"."
    };
    let leads_on = !info.split(|byte| *byte == b'/').any(is_astray);
    leads_on.then_some(info)
}

/// Appends `segment` decoded; `None` when a percent sign is not followed by two digits.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digit = |byte: &u8| (*byte as char).to_digit(16);
    let mut rest = segment;
    while let Some(at) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..at]);
        let [high, low] = rest.get(at + 1..at + 3)? else { return None };
        out.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_decoded_once_and_lead_nowhere_else() {
        for (url, relative, is_folder) in [
            ("/", "", true),
            ("/a", "a", false),
            ("/a/", "a", true),
            ("//a///b", "a/b", false),
            ("/a/./b/.", "a/b", true),
            ("/%61%20b", "a b", false),
            ("/a%25%32%66b", "a%2fb", false),
            ("/%252e%252e/x", "%2e%2e/x", false),
            ("/a\\..\\b", "a\\..\\b", false),
            ("/.well-known/x", ".well-known/x", false),
            ("/...", "...", false),
            ("/..a", "..a", false),
        ] {
            let hidden = relative.starts_with("..");
            let expected = FilePath { relative: relative.into(), is_folder };
            assert_eq!(file_path(url.as_bytes(), hidden), Some(expected), "{url}");
        }
        for url in [
            "..",
            "a",
            "/..",
            "/../x",
            "/a/..",
            "/a/../b",
            "/%2e%2e/x",
            "/%2e./x",
            "/a%2fb",
            "/a%2Fb",
            "/%00",
            "/a%00.html",
            "/%",
            "/%4",
            "/%zz",
            "/a/%2e%2e%2f%2e%2e%2fx",
        ] {
            assert_eq!(file_path(url.as_bytes(), true), None, "{url}");
        }
        for url in ["/.git/config", "/a/.htpasswd", "/%2egit", "/a/.well-known"] {
            assert_eq!(file_path(url.as_bytes(), false), None, "{url}");
            assert!(file_path(url.as_bytes(), true).is_some(), "{url}");
        }
        assert_eq!(file_path(format!("/{}", "a".repeat(PATH_MAX)).as_bytes(), false), None);
        // Overlong forms are bytes like others: they are no dot and no slash.
        assert_eq!(
            file_path(b"/%c0%ae%c0%ae%c0%af", false).map(|path| path.relative),
            Some(b"\xc0\xae\xc0\xae\xc0\xaf".to_vec())
        );
    }

    #[test]
    fn names_of_files_are_one_segment() {
        for (name, is_name, is_hidden) in [
            ("index.html", true, false),
            ("a b%2e%2e", true, false),
            ("...", true, true),
            (".htpasswd", true, true),
            ("", false, false),
            (".", false, false),
            ("..", false, false),
            ("../a", false, false),
            ("a/b", false, false),
            ("/", false, false),
            ("a\0", false, false),
        ] {
            assert_eq!(is_file_name(name.as_bytes(), true), is_name, "{name}");
            assert_eq!(is_file_name(name.as_bytes(), false), is_name && !is_hidden, "{name}");
        }
    }

    #[test]
    fn what_follows_a_script_may_have_encoded_slashes() {
        for (url, expected) in [
            ("", Some("")),
            ("/a%2Fb", Some("/a/b")),
            ("/a%2fb/%20", Some("/a/b/ ")),
            ("/a/", Some("/a/")),
            ("/a%2F%2e%2e%2Fb", None),
            ("/..", None),
            ("/%00", None),
            ("/%2", None),
        ] {
            let info = path_info(url.as_bytes(), true);
            assert_eq!(info.as_deref(), expected.map(str::as_bytes), "{url}");
        }
        assert_eq!(path_info(b"/a%2F.git", false), None);
        assert!(path_info(b"/a%2F.git", true).is_some());
    }

    proptest! {
        #[test]
        fn no_path_climbs(url in r"(/|%2e|%2E|\.|%2f|%5c|\\|%00|a|%25|%c0%ae|%){0,12}") {
            if let Some(path) = file_path(format!("/{url}").as_bytes(), true) {
                let segments: Vec<&[u8]> = path.relative.split(|byte| *byte == b'/').collect();
                prop_assert!(path.relative.is_empty() || segments.iter().all(|name| !name.is_empty()));
                prop_assert!(segments.iter().all(|name| *name != b".." && *name != b"."));
                prop_assert!(!path.relative.contains(&0));
            }
        }
    }
}
