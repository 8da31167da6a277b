//! Addresses of sites: `example.com`, `http://a.test:8080`, `:443`, `*.example.com/path`.

use std::net::IpAddr;

use super::matchers::escaped;
use super::options::CaddyOptions;

/// Where a site is, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SiteAddress {
    /// None for all hosts; `*.example.com` for those below one.
    pub(super) host: Option<String>,
    pub(super) port: u16,
    pub(super) has_tls: bool,
    /// Whether a listener without TLS leads here.
    pub(super) is_redirected_to: bool,
    /// A path that requests have to be below.
    pub(super) path: Option<String>,
    /// The expression for its names, where an asterisk stands for a label.
    pub(super) labels: Option<String>,
}

/// The domains below which Weir issues certificates itself.
const DEVELOPMENT: [&str; 6] = ["localhost", "test", "example", "internal", "local", "home.arpa"];

/// How the certificate of a host is got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiteHostKind {
    /// From an authority.
    Public,
    /// From one of its own: the public DNS does not know it.
    Internal,
}

impl SiteAddress {
    /// Reads one; `has_tls` says that the site has a directive for it.
    pub(super) fn read(text: &str, has_tls: bool, options: &CaddyOptions) -> Result<SiteAddress, String> {
        let text = text.trim_end_matches(',');
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, text),
        };
        if !matches!(scheme, None | Some("http" | "https")) {
            return Err(format!("Weir has no sites for `{text}`"));
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
            None => (rest, None),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        if host.contains(['{', '}']) {
            return Err(format!("`{text}`: a placeholder in an address"));
        }
        let port = match port {
            Some(port) => {
                Some(port.parse::<u16>().map_err(|_| format!("`{text}` has no port that Weir reads"))?)
            }
            None => None,
        };
        let host = (!host.is_empty() && host != "*").then(|| host.to_ascii_lowercase());
        let wildcard = host.as_deref().and_then(one_label);
        let host = match (host, &wildcard) {
            (Some(_), Some((base, _))) => Some(base.clone()),
            (host, _) => host,
        };
        if host.as_deref().is_some_and(|host| !host.is_ascii()) {
            return Err(format!("`{text}`: write the name as DNS has it (`xn--...`)"));
        }
        let is_http = scheme == Some("http") || port == Some(options.http_port);
        let is_https = scheme == Some("https") || port == Some(options.https_port) || has_tls;
        let automatic = host.is_some() && options.has_automatic_https;
        let with_tls = !is_http && (is_https || automatic);
        let usual = if with_tls { options.https_port } else { options.http_port };
        let has_redirect =
            with_tls && automatic && options.has_redirects && scheme.is_none_or(|scheme| scheme == "https");
        Ok(SiteAddress {
            host,
            port: port.unwrap_or(usual),
            has_tls: with_tls,
            is_redirected_to: has_redirect,
            path: path.filter(|path| path != "/" && path != "/*"),
            labels: wildcard.map(|(_, expression)| expression),
        })
    }

    /// Whether the authority for development issues for it.
    pub(super) fn is_for_development(&self) -> bool {
        let Some(host) = &self.host else { return true };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => {
                address.is_loopback() || address.is_private() || address.is_link_local()
            }
            Ok(IpAddr::V6(address)) => {
                address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
            }
            Err(_) => {
                let is_below = |domain: &str| {
                    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
                };
                DEVELOPMENT.iter().any(|domain| is_below(domain))
                    && host.strip_prefix("*.").is_none_or(|rest| rest.contains('.'))
            }
        }
    }

    /// Where the certificate comes from.
    pub(super) fn kind(&self) -> SiteHostKind {
        let Some(host) = &self.host else { return SiteHostKind::Internal };
        let ends = [".localhost", ".local", ".internal", ".home.arpa"];
        let is_address = host.starts_with('[') || host.chars().all(|c| c.is_ascii_digit() || c == '.');
        match host == "localhost" || is_address || ends.iter().any(|end| host.ends_with(end)) {
            true => SiteHostKind::Internal,
            false => SiteHostKind::Public,
        }
    }
}

/// Of a host with asterisks, each of which stands for one label: the wildcard of Weir that has all of its names, and the expression for them.
fn one_label(host: &str) -> Option<(String, String)> {
    let (_, behind) = host.rsplit_once('*')?;
    let labels: Vec<String> =
        host.split('.').map(|label| if label == "*" { "[^.]+".to_owned() } else { escaped(label) }).collect();
    let base = if behind.starts_with('.') { format!("*{behind}") } else { "*".to_owned() };
    Some((base, format!("^{}$", labels.join("\\."))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_caddy_does() {
        let options = CaddyOptions::default();
        for (text, port, has_tls, redirected) in [
            ("example.com", 443, true, true),
            ("http://example.com", 80, false, false),
            (":8080", 8080, false, false),
            (":443", 443, true, false),
            ("localhost:2015", 2015, true, true),
            ("example.com:80", 80, false, false),
            ("https://example.com:8443", 8443, true, true),
        ] {
            let address = SiteAddress::read(text, false, &options).unwrap();
            assert_eq!(
                (address.port, address.has_tls, address.is_redirected_to),
                (port, has_tls, redirected),
                "{text}"
            );
        }
        assert!(SiteAddress::read("tcp://a", false, &options).is_err());
    }
}
