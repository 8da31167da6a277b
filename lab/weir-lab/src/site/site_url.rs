//! The URL of a site, as far as a client needs it.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use anyhow::{Context as _, bail, ensure};

/// `http://HOST[:PORT][/PATH]`, or the same with `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteUrl {
    /// The scheme is `https`.
    pub is_secure: bool,
    /// The host, an address of IPv6 without its brackets.
    pub host: String,
    /// Host and, if it is given, port, as requests name them.
    pub authority: String,
    /// The port, that of the scheme where none is given.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

impl FromStr for SiteUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (is_secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => bail!("`{text}` is no URL of the form http://HOST:PORT/PATH or https://HOST:PORT/PATH"),
        };
        ensure!(
            text.bytes().all(|byte| byte.is_ascii_graphic()),
            "`{text}`: percent-encode what is not ASCII"
        );
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        ensure!(!authority.contains('@'), "`{text}` has a user: give `--field 'Authorization: ...'` instead");
        ensure!(!text.contains('#'), "`{text}` has a fragment, which no server gets");
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').context("`[` of an address has no `]`")?;
                ensure!(port.is_empty() || port.starts_with(':'), "`{authority}` is no host and port");
                (host, port.strip_prefix(':'))
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        ensure!(!host.is_empty(), "`{text}` has no host");
        let usual = if is_secure { 443 } else { 80 };
        let port =
            port.map_or(Ok(usual), |port| port.parse().with_context(|| format!("`{port}` is no port")))?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { is_secure, host: host.to_owned(), authority: authority.to_owned(), port, path })
    }
}

impl SiteUrl {
    /// The address that the host has now.
    ///
    /// # Errors
    /// When it has none.
    pub fn addr(&self) -> anyhow::Result<SocketAddr> {
        let found = (&*self.host, self.port).to_socket_addrs();
        let found = found.with_context(|| format!("cannot look up `{}`", self.host))?.next();
        found.with_context(|| format!("`{}` has no address", self.host))
    }
}

impl fmt::Display for SiteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.is_secure { "https" } else { "http" }, self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::SiteUrl;

    #[test]
    fn a_url_is_taken_apart() {
        for (text, host, port, path) in [
            ("http://127.0.0.1:8080", "127.0.0.1", 8080, "/"),
            ("https://www.example.org/shop?a=1", "www.example.org", 443, "/shop?a=1"),
            ("http://[::1]:81/x", "::1", 81, "/x"),
            ("http://a?q", "a", 80, "/?q"),
        ] {
            let url: SiteUrl = text.parse().unwrap();
            assert_eq!((&*url.host, url.port, &*url.path), (host, port, path), "{text}");
        }
        assert_eq!("https://[::1]/".parse::<SiteUrl>().unwrap().authority, "[::1]");
    }

    #[test]
    fn what_is_no_url_is_named() {
        for (text, why) in [
            ("127.0.0.1:80", "no URL of the form"),
            ("ftp://a/", "no URL of the form"),
            ("http:///x", "no host"),
            ("http://a:b/", "no port"),
            ("http://a:70000/", "no port"),
            ("http://u:p@a/", "--field 'Authorization"),
            ("http://a/#b", "fragment"),
            ("http://a/ü", "percent-encode"),
            ("http://[::1", "no `]`"),
        ] {
            let error = text.parse::<SiteUrl>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
