//! Hosts in keys: their letter case and the default port of their scheme make no other resource (RFC 9110 section 4.2.3).

/// Brings the authority, or the host, that `text` ends with from `start` on into normal form: in lower case, without the default port.
pub fn normalize_authority(text: &mut Vec<u8>, start: usize, scheme: &[u8]) {
    text[start..].make_ascii_lowercase();
    let len = without_default_port(&text[start..], scheme).len();
    text.truncate(start + len);
}

/// The key of a URL as an operator writes it, or the beginning of one, if its host is not in normal form; `None` for other texts.
pub fn normal_key(text: &[u8]) -> Option<Vec<u8>> {
    let scheme_len = text.windows(3).position(|bytes| bytes == b"://")?;
    let is_url =
        [&b"http"[..], b"https"].iter().any(|scheme| text[..scheme_len].eq_ignore_ascii_case(scheme));
    if !is_url {
        return None;
    }
    let start = scheme_len + 3;
    let is_end = |byte: &u8| matches!(byte, b'/' | b'?');
    // The beginning of a host, or of a port, is no whole one.
    let end = text[start..].iter().position(is_end).map(|len| start + len);
    let mut normal = text[..end.unwrap_or(text.len())].to_ascii_lowercase();
    if let Some(end) = end {
        let len = without_default_port(&normal[start..], &normal[..scheme_len]).len();
        normal.truncate(start + len);
        normal.extend_from_slice(&text[end..]);
    }
    (normal != text).then_some(normal)
}

/// Without the port that the scheme implies, and without the colon before none.
pub(super) fn without_default_port<'a>(authority: &'a [u8], scheme: &[u8]) -> &'a [u8] {
    let port: &[u8] = if scheme.eq_ignore_ascii_case(b"https") { b":443" } else { b":80" };
    authority.strip_suffix(port).or_else(|| authority.strip_suffix(b":")).unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_default_port_make_no_other_host() {
        for (scheme, authority, expected) in [
            ("http", "a.test", "a.test"),
            ("http", "A.Test", "a.test"),
            ("http", "a.test:80", "a.test"),
            ("http", "a.test:", "a.test"),
            ("http", "a.test:443", "a.test:443"),
            ("https", "a.test:443", "a.test"),
            ("https", "a.test:80", "a.test:80"),
            ("http", "a.test:8080", "a.test:8080"),
            ("http", "[2001:DB8::80]", "[2001:db8::80]"),
            ("http", "[2001:DB8::1]:80", "[2001:db8::1]"),
        ] {
            let mut text = b"X://".to_vec();
            text.extend_from_slice(authority.as_bytes());
            normalize_authority(&mut text, 4, scheme.as_bytes());
            assert_eq!(text.escape_ascii().to_string(), format!("X://{expected}"), "{scheme} {authority}");
        }
    }

    #[test]
    fn keys_of_operators_are_brought_into_normal_form() {
        for (text, expected) in [
            ("http://A.test/Path?Q=A", Some("http://a.test/Path?Q=A")),
            ("HTTP://a.test:80/B", Some("http://a.test/B")),
            ("https://a.test:443/", Some("https://a.test/")),
            ("http://a.test/", None),
            ("http://a.test:8080/A:80", None),
            // Beginnings of hosts and ports.
            ("http://A", Some("http://a")),
            ("http://a.test:80", None),
            // Keys of other forms.
            ("A.test/Path", None),
            ("ftp://A.test/", None),
            ("", None),
        ] {
            let normal = normal_key(text.as_bytes());
            assert_eq!(normal.as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }
}
