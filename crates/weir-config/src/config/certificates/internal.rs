//! `[listener.NAME.tls.internal]`: certificates of an authority of Weir's own, for development.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where nothing says where the state of Weir is.
const STATE_FOLDER: &str = "/var/lib/weir";

/// The domains below which the authority issues: the public DNS has none of them (RFC 6761, RFC 6762, RFC 8375).
pub const INTERNAL_DOMAINS: [&str; 6] = ["localhost", "test", "example", "internal", "local", "home.arpa"];

/// The networks whose addresses it issues for: those of the machine, private ones and those of a link.
pub const INTERNAL_NETWORKS: [(IpAddr, u8); 8] = [
    (v4(127, 0), 8),
    (v4(10, 0), 8),
    (v4(172, 16), 12),
    (v4(192, 168), 16),
    (v4(169, 254), 16),
    (IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 128),
    (v6(0xfc00), 7),
    (v6(0xfe80), 10),
];

const fn v4(first: u8, second: u8) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(first, second, 0, 0))
}

const fn v6(first: u16) -> IpAddr {
    IpAddr::V6(std::net::Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0))
}

/// Certificates of an authority of Weir's own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InternalAuthority {
    /// The names, in lower case, each once; a leading `*.` is a wildcard.
    pub names: Vec<Box<str>>,
    /// The addresses, each once.
    pub addresses: Vec<IpAddr>,
    /// The folder with root and key, if the config names it.
    pub directory: Option<PathBuf>,
    /// How long a certificate is valid.
    pub lifetime: Duration,
}

impl InternalAuthority {
    /// An authority with its root in a folder.
    pub fn new(
        names: Vec<Box<str>>,
        addresses: Vec<IpAddr>,
        directory: Option<PathBuf>,
        lifetime: Duration,
    ) -> Self {
        Self { names, addresses, directory, lifetime }
    }

    /// The folder with root and key.
    pub fn folder(&self) -> PathBuf {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        self.directory.clone().unwrap_or_else(|| {
            default_folder(
                variable("STATE_DIRECTORY").map(PathBuf::from),
                variable("HOME").map(PathBuf::from),
            )
        })
    }
}

fn default_folder(state: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    let is_of_user = |home: &PathBuf| !["/", "/root"].map(Path::new).contains(&home.as_path());
    let of_user = || home.filter(is_of_user).map(|home| home.join(".local/state/weir"));
    state.or_else(of_user).unwrap_or_else(|| STATE_FOLDER.into()).join("internal")
}

/// Whether the authority issues for a name, which may be a wildcard.
pub(crate) fn is_internal_name(name: &str) -> bool {
    INTERNAL_DOMAINS
        .iter()
        .any(|domain| name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// Whether the authority issues for an address.
pub(crate) fn is_internal_address(address: IpAddr) -> bool {
    let is_in = |(network, prefix): &(IpAddr, u8)| match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (network.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(*prefix)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (network.to_bits() ^ address.to_bits()).leading_zeros() >= u32::from(*prefix)
        }
        _ => false,
    };
    INTERNAL_NETWORKS.iter().any(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_addresses_that_are_not_public() {
        for (name, expected) in [
            ("localhost", true),
            ("app.localhost", true),
            ("*.app.test", true),
            ("printer.home.arpa", true),
            ("home.arpa", true),
            ("notlocalhost", false),
            ("example.com", false),
            ("test.org", false),
        ] {
            assert_eq!(is_internal_name(name), expected, "{name}");
        }
        for (address, expected) in [
            ("127.9.9.9", true),
            ("172.31.0.1", true),
            ("172.32.0.1", false),
            ("8.8.8.8", false),
            ("::1", true),
            ("::2", false),
            ("fd00::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_internal_address(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn the_state_of_a_service_goes_before_that_of_a_user() {
        let path = |text: &str| Some(PathBuf::from(text));
        for (state, home, expected) in [
            (path("/var/lib/weir"), path("/data/a"), "/var/lib/weir/internal"),
            (None, path("/data/a"), "/data/a/.local/state/weir/internal"),
            (None, path("/root"), "/var/lib/weir/internal"),
            (None, None, "/var/lib/weir/internal"),
        ] {
            assert_eq!(default_folder(state, home), Path::new(expected));
        }
    }
}
