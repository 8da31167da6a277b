//! The URL of `weir explain`: taken apart as a client does it, and not judged; that is up to the listener.

/// The parts of a URL as a client uses them: the address to connect to, the host and the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    /// `host[:port]` as it goes into `Host`.
    pub(super) authority: String,
    /// The port, whether written or implied by the scheme; `None` for a path alone.
    pub(super) port: Option<u16>,
    /// Path and query as they go into the request line; `*` for `OPTIONS *`.
    pub(super) target: String,
}

impl Url {
    /// Takes `http://host[:port]/path?query`, the same without the scheme, a path alone, or `*`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // A fragment stays with the client (RFC 9110 section 4.2.5), and so do credentials.
        let text = text.split('#').next().unwrap_or_default();
        if text.is_empty() {
            return Err("the URL is empty".to_owned());
        }
        if text.starts_with('/') || text == "*" {
            return Ok(Self { authority: "localhost".to_owned(), port: None, target: text.to_owned() });
        }
        let (port, rest) = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (80, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (443, rest),
            // A TCP listener has no port of its own kind: the URL names it.
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("tcp") => (443, rest),
            Some((scheme, _)) if !scheme.contains(['/', '?']) => {
                return Err(format!(
                    "`{scheme}` is not the scheme of a URL that Weir serves; write http, https or tcp"
                ));
            }
            _ => (80, text),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let authority = authority.rsplit('@').next().unwrap_or_default();
        if authority.is_empty() {
            return Err(format!("`{text}` has no host"));
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self {
            authority: authority.to_owned(),
            port: Some(written_port(authority).unwrap_or(port)),
            target: format!("{slash}{target}"),
        })
    }

    /// The host without the port.
    pub(super) fn host(&self) -> &str {
        match self.authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => &self.authority,
        }
    }
}

fn written_port(authority: &str) -> Option<u16> {
    authority.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (text, authority, port, target, host) in [
            ("http://a.test/x?y=1#z", "a.test", Some(80), "/x?y=1", "a.test"),
            ("HTTPS://a.test", "a.test", Some(443), "/", "a.test"),
            ("http://a.test:8080?q", "a.test:8080", Some(8080), "/?q", "a.test"),
            ("http://ann:secret@a.test/", "a.test", Some(80), "/", "a.test"),
            ("http://[::1]:81/", "[::1]:81", Some(81), "/", "[::1]"),
            ("http://[::1]/", "[::1]", Some(80), "/", "[::1]"),
            ("a.test/x", "a.test", Some(80), "/x", "a.test"),
            ("a.test:81", "a.test:81", Some(81), "/", "a.test"),
            ("a.test/go?to=http://b.test/", "a.test", Some(80), "/go?to=http://b.test/", "a.test"),
            ("/x", "localhost", None, "/x", "localhost"),
            ("*", "localhost", None, "*", "localhost"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!(
                (&*url.authority, url.port, &*url.target, url.host()),
                (authority, port, target, host),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_url_is_told() {
        for (text, expected) in [
            ("", "empty"),
            ("#top", "empty"),
            ("ftp://a.test/", "`ftp` is not the scheme"),
            ("http:///x", "has no host"),
            ("?q=1", "has no host"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
