//! A balancer that runs already, anywhere on the user's network, given by its URL.
//!
//! Only requests are sent to it: its cost on its machine cannot be seen from here.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::str::FromStr;

use anyhow::{Context as _, ensure};

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetUrl {
    /// Host and port as given, for the Host field.
    pub authority: String,
    /// The address that the host has now.
    pub addr: SocketAddr,
}

impl FromStr for TargetUrl {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let rest = text.strip_prefix("http://");
        let rest = rest.with_context(|| format!("`{text}` is no URL of the form http://HOST:PORT/"))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        ensure!(
            !authority.is_empty() && !authority.contains(['/', '?', '#', '@', ' ']),
            "`{text}` has more than host and port: the lab asks for paths of its own"
        );
        let has_port = authority.rsplit_once(':').is_some_and(|(host, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty()
        });
        let name = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let addr = name
            .to_socket_addrs()
            .with_context(|| format!("cannot look up `{authority}`"))?
            .next()
            .with_context(|| format!("`{authority}` has no address"))?;
        Ok(Self { authority: authority.to_owned(), addr })
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}/", self.authority)
    }
}

#[cfg(test)]
mod tests {
    use super::TargetUrl;

    #[test]
    fn a_url_is_host_and_port() {
        for (text, authority, addr) in [
            ("http://127.0.0.1:8080/", "127.0.0.1:8080", "127.0.0.1:8080"),
            ("http://127.0.0.1", "127.0.0.1", "127.0.0.1:80"),
            ("http://[::1]:81", "[::1]:81", "[::1]:81"),
            ("http://[::1]/", "[::1]", "[::1]:80"),
        ] {
            let url: TargetUrl = text.parse().unwrap();
            assert_eq!((url.authority.as_str(), url.addr), (authority, addr.parse().unwrap()), "{text}");
        }
        for wrong in
            ["127.0.0.1:80", "https://127.0.0.1/", "http://", "http://127.0.0.1/path", "http://127.0.0.1/?x"]
        {
            assert!(wrong.parse::<TargetUrl>().is_err(), "{wrong}");
        }
    }
}
