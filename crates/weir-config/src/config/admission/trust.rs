//! Which peers are trusted to name the client of a request, by which field, and which clients no limit on connections holds for.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_http::ClientAddressField;

use super::list::AccessList;
use crate::key::{TextFormat, text_values};
use crate::value::{HeaderName, ValueError};

/// `trusted_proxies`: peers whose `X-Forwarded-*`, `Forwarded` and `X-Real-Ip` headers are trusted and extended. Those of other peers are dropped or replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TrustedProxies {
    /// Networks of trusted peers.
    pub networks: Vec<IpNet>,
    /// Lists of networks of trusted peers.
    pub lists: Vec<Arc<AccessList>>,
    /// Whether peers on a Unix socket are trusted.
    pub unix: bool,
}

impl TrustedProxies {
    /// Whether a peer is trusted; `None` is a peer on a Unix socket.
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        let Some(address) = peer.map(|address| address.to_canonical()) else { return self.unix };
        self.networks.iter().any(|network| network.contains(&address)) || is_in(&self.lists, address)
    }

    /// Whether no peer is.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.lists.is_empty() && !self.unix
    }
}

/// Whether one of these lists has an address.
pub fn is_in(lists: &[Arc<AccessList>], address: IpAddr) -> bool {
    lists.iter().any(|list| list.find_address(address).is_some())
}

/// `client_address_header`: where trusted proxies name the client.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ClientAddressHeader {
    /// Nowhere: the peer is the client.
    Off,
    /// In `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// In `Forwarded` (RFC 7239).
    Forwarded,
    /// In a header of one address.
    Single(HeaderName),
}

const X_FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";
const OFF: &str = "off";

/// Headers that say something else of a request.
const OF_REQUESTS: [&str; 5] = ["authorization", "cookie", "expect", "host", "via"];

impl ClientAddressHeader {
    /// The field as it is read; `None`: there is none.
    pub fn field(&self) -> Option<ClientAddressField<'_>> {
        Some(match self {
            Self::Off => return None,
            Self::XForwardedFor => ClientAddressField::XForwardedFor,
            Self::Forwarded => ClientAddressField::Forwarded,
            Self::Single(name) => ClientAddressField::Single(name),
        })
    }

    /// The name of a header of one address.
    pub fn single(&self) -> Option<&HeaderName> {
        match self {
            Self::Single(name) => Some(name),
            Self::Off | Self::XForwardedFor | Self::Forwarded => None,
        }
    }

    fn read(text: &str) -> Result<Self, ValueError> {
        let name: HeaderName = text.parse()?;
        match &*name {
            OFF => Ok(Self::Off),
            X_FORWARDED_FOR => Ok(Self::XForwardedFor),
            FORWARDED => Ok(Self::Forwarded),
            other if name.is_framing() || OF_REQUESTS.contains(&other) => {
                let error = ValueError::new(format!("`{other}` cannot name the client"));
                Err(error.help("write the header of your proxy, such as `x-real-ip` or `cf-connecting-ip`"))
            }
            _ => Ok(Self::Single(name)),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Off => OFF,
            Self::XForwardedFor => X_FORWARDED_FOR,
            Self::Forwarded => FORWARDED,
            Self::Single(name) => name,
        }
    }
}

text_values! {
    ClientAddressHeader, ClientAddressHeader::read, |value: &ClientAddressHeader| value.name().to_owned(), TextFormat {
        name: "client address header",
        article: "a header that names the client",
        examples: &["x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip", "off"],
        pattern: r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        about: "`x-forwarded-for` or `forwarded`, which list the hops of a request; the name of any other header, which has one address; or \
                `off`.",
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AccessListParts, Checked, ListAction};

    #[test]
    fn a_peer_is_trusted_by_its_network_or_by_a_list() {
        let networks = ["192.0.2.0/24".parse().unwrap()].map(|network| (network, "x".into()));
        let list = AccessListParts::of_networks("cdn", ListAction::Allow, networks);
        let trusted = TrustedProxies {
            networks: vec!["10.0.0.0/8".parse().unwrap()],
            lists: vec![Arc::new(Checked::assume(list))],
            unix: false,
        };
        for (peer, expected) in [
            ("10.1.1.1", true),
            ("192.0.2.7", true),
            ("::ffff:192.0.2.7", true),
            ("192.0.3.7", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(trusted.contains(Some(peer.parse().unwrap())), expected, "{peer}");
        }
        assert!(!trusted.contains(None) && !trusted.is_empty());
        assert!(TrustedProxies::default().is_empty() && !TrustedProxies::default().contains(None));
    }

    #[test]
    fn headers_are_read_and_printed() {
        for text in ["off", "x-forwarded-for", "forwarded", "x-real-ip", "true-client-ip"] {
            let read = ClientAddressHeader::read(&text.to_ascii_uppercase()).unwrap();
            assert_eq!(read.name(), text);
        }
        for text in ["", "a b", "host", "Cookie", "connection", "content-length"] {
            assert!(ClientAddressHeader::read(text).is_err(), "{text}");
        }
    }
}
