//! How the old balancer is reached, and where Weir listens beside it.

use std::net::IpAddr;
use std::str::FromStr;

/// How a config is made that runs beside the old balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowOptions {
    /// The old balancer: once for listeners without TLS, once for those with it.
    pub old: Vec<OldBalancer>,
    /// Where Weir listens, if not at the addresses of the original.
    pub listen: Option<ShadowListen>,
    /// How many of a hundred requests are copied.
    pub share: u8,
    /// The folder of the sockets between fronts and imported listeners: an absolute path.
    pub folder: String,
}

/// The balancer whose config was imported: `http://10.0.0.1:8080`. Without a port, each listener goes to its own port there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldBalancer {
    /// Whether it is spoken to with TLS.
    pub tls: bool,
    /// A name or an address; one of IPv6 in brackets.
    pub host: String,
    /// The port, if all listeners of a kind go to one.
    pub port: Option<u16>,
}

/// Where Weir listens beside the old balancer: an address, a port or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowListen {
    /// In place of the address of each listener.
    pub host: Option<String>,
    /// The port of the first listener; the next ones have the next ports.
    pub port: Option<u16>,
}

impl FromStr for OldBalancer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err("a URL begins with `http://` or `https://`".to_owned()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = host_and_port(rest)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if !host.starts_with('[') && (host.is_empty() || !host.bytes().all(is_name)) {
            return Err(
                "a name or an address, and nothing behind its port: `http://10.0.0.1:8080`".to_owned()
            );
        }
        Ok(Self { tls, host: host.to_owned(), port })
    }
}

impl FromStr for ShadowListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (host, port) = match text.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => (format!("[{address}]"), None),
            Ok(IpAddr::V4(_)) => (text.to_owned(), None),
            Err(_) => {
                let (host, port) = host_and_port(text)?;
                (host.to_owned(), port)
            }
        };
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        if !host.is_empty() && !is_address || host.is_empty() && port.is_none() {
            return Err("an address, a port or both: `10.0.0.9`, `:8000` or `10.0.0.9:8000`".to_owned());
        }
        Ok(Self { host: Some(host).filter(|host| !host.is_empty()), port })
    }
}

/// `a.test:80`, `[::1]:80`, `:80`, and the same without a port.
fn host_and_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let end_of_brackets = text.starts_with('[').then(|| text.find(']')).flatten();
    let (host, port) = match end_of_brackets {
        Some(end) => (&text[..=end], text[end + 1..].strip_prefix(':')),
        None => text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let bare = host.trim_matches(['[', ']']);
    let rest = end_of_brackets.map_or(0, |end| text.len() - end - 1);
    let is_strange =
        end_of_brackets.is_some() && (bare.parse::<IpAddr>().is_err() || rest > 0 && port.is_none());
    let port = port.map(|port| port.parse::<u16>().ok().filter(|port| *port > 0));
    if is_strange || port == Some(None) {
        return Err(format!("`{text}` has no port between 1 and 65535 where one stands"));
    }
    Ok((host, port.flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_balancer_is_a_scheme_a_host_and_perhaps_a_port() {
        for (text, tls, host, port) in [
            ("http://127.0.0.1:8080", false, "127.0.0.1", Some(8080)),
            ("https://lb.internal/", true, "lb.internal", None),
            ("http://[::1]:81", false, "[::1]", Some(81)),
            ("https://[2001:db8::1]", true, "[2001:db8::1]", None),
        ] {
            let expected = OldBalancer { tls, host: host.to_owned(), port };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in [
            "127.0.0.1:8080",
            "ftp://a",
            "http://",
            "http://:80",
            "http://a/b",
            "http://a:0",
            "http://a:70000",
            "http://a@b",
            "http://a?b",
            "http://[::1]8",
            "http://[a]:80",
            "http://a b",
        ] {
            assert!(text.parse::<OldBalancer>().is_err(), "{text}");
        }
    }

    #[test]
    fn weir_listens_at_an_address_a_port_or_both() {
        for (text, host, port) in [
            ("10.0.0.9", Some("10.0.0.9"), None),
            (":8000", None, Some(8000)),
            ("10.0.0.9:8000", Some("10.0.0.9"), Some(8000)),
            ("::1", Some("[::1]"), None),
            ("[::1]:8000", Some("[::1]"), Some(8000)),
        ] {
            let expected = ShadowListen { host: host.map(str::to_owned), port };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", ":", "a.test", "a.test:80", ":0", "10.0.0.9:x", "10.0.0"] {
            assert!(text.parse::<ShadowListen>().is_err(), "{text}");
        }
    }
}
