//! Addresses of `bind` and `server`.

use super::parse::{CLOSE, OPEN};
use super::proxy::name_of;

/// An address as HAProxy takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HaproxyAddress {
    /// A host or address without brackets; empty for all addresses, or a path.
    pub(super) host: String,
    /// A port, a range, or a variable of the environment.
    pub(super) port: Option<String>,
    pub(super) family: AddressFamily,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressFamily {
    Any,
    Ipv4,
    Ipv6,
    Unix,
    /// `fd@`, `abns@` and their like.
    Other,
}

pub(super) fn parse_address(text: &str) -> HaproxyAddress {
    let text = with_variables(&with_open_variables(text));
    let (family, rest) = match text.split_once('@') {
        Some(("ipv4" | "tcp4" | "tcp", rest)) => (AddressFamily::Ipv4, rest),
        Some(("ipv6" | "tcp6", rest)) => (AddressFamily::Ipv6, rest),
        Some(("unix", rest)) => (AddressFamily::Unix, rest),
        Some((_, rest)) => (AddressFamily::Other, rest),
        None if text.starts_with('/') => (AddressFamily::Unix, text.as_str()),
        None => (AddressFamily::Any, text.as_str()),
    };
    if family == AddressFamily::Unix || family == AddressFamily::Other {
        return HaproxyAddress { host: rest.to_owned(), port: None, family };
    }
    let is_port = |text: &str| {
        !text.is_empty()
            && (text.contains("${") || text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | '+')))
    };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if is_port(port) && !(rest.ends_with(']')) => (host, Some(port.to_owned())),
        // `10.0.0.1:`, with the port of somewhere else.
        Some((host, "")) => (host, None),
        _ => (rest, None),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host == "*" { "" } else { host };
    HaproxyAddress { host: host.to_owned(), port, family }
}

impl HaproxyAddress {
    /// The address with brackets where it needs them.
    pub(super) fn host_text(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }

    pub(super) fn port_number(&self) -> Option<u16> {
        self.port.as_ref()?.parse().ok()
    }
}

/// Variables that were not set, as Weir writes them.
pub(super) fn with_open_variables(text: &str) -> String {
    text.replace(OPEN, "${").replace(CLOSE, "}")
}

/// `$NAME` as `${NAME}`.
fn with_variables(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if rest.starts_with('{') {
            result.push('$');
            continue;
        }
        let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        result.push_str(&format!("${{{}}}", &rest[..length]));
        rest = &rest[length..];
    }
    result.push_str(rest);
    result
}

/// A path in `folder`, unless it is absolute.
pub(super) fn path_in(folder: Option<&str>, path: &str) -> String {
    match folder {
        Some(folder) if !path.starts_with('/') => format!("{}/{path}", folder.trim_end_matches('/')),
        _ => path.to_owned(),
    }
}

/// A name that no other has yet.
pub(super) fn free_name(wanted: &str, taken: &[String]) -> String {
    let base = name_of(wanted);
    let mut name = base.clone();
    let mut number = 1;
    while taken.contains(&name) {
        number += 1;
        name = format!("{base}-{number}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::{AddressFamily, parse_address};

    #[test]
    fn all_forms_of_addresses() {
        for (text, host, port, family) in [
            (":80", "", Some("80"), AddressFamily::Any),
            ("*:80", "", Some("80"), AddressFamily::Any),
            (":::80", "::", Some("80"), AddressFamily::Any),
            ("[::1]:80", "::1", Some("80"), AddressFamily::Any),
            ("10.0.0.1", "10.0.0.1", None, AddressFamily::Any),
            ("a.test:$PORT", "a.test", Some("${PORT}"), AddressFamily::Any),
            ("*:${PORT}", "", Some("${PORT}"), AddressFamily::Any),
            (":20000-20199", "", Some("20000-20199"), AddressFamily::Any),
            ("ipv4@*:80", "", Some("80"), AddressFamily::Ipv4),
            ("/run/a.sock", "/run/a.sock", None, AddressFamily::Unix),
            ("unix@/run/a.sock", "/run/a.sock", None, AddressFamily::Unix),
            ("fd@3", "3", None, AddressFamily::Other),
        ] {
            let address = parse_address(text);
            assert_eq!(
                (address.host.as_str(), address.port.as_deref(), address.family),
                (host, port, family),
                "{text}"
            );
        }
    }
}
