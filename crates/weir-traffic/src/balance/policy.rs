//! The balancing part of the config: the policies and the keys of consistent hashing.
//!
//! Plain data with checked constructors. The file of each algorithm describes how it chooses.

use std::net::IpAddr;

use crate::affinity::cookie_value;
use crate::hash::{hash_address, hash_bytes};
use crate::route::{
    FieldError, FieldMatch, QueryMatch, RouteRequest, ValueMatch, decoded_parameter, is_token, query_value,
};

/// How an upstream chooses among its servers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Policy {
    /// In turn, smooth, in proportion to the weights.
    RoundRobin,
    /// The server with the fewest requests in flight for its weight; the default.
    #[default]
    LeastRequests,
    /// The server with the least latency times load for its weight.
    PeakEwma,
    /// The less loaded of two servers drawn at random by weight.
    PowerOfTwo,
    /// One server drawn at random by weight.
    Random,
    /// The server that the key belongs to, or the next one when that has more than its bounded load.
    ConsistentHash {
        /// The part of the request that is the key.
        key: HashKey,
        /// How far above the average load a server may go.
        load_factor: LoadFactor,
    },
    /// The server at the place that is the remainder of the hash of the key.
    MapBasedHash {
        /// The part of the request that is the key.
        key: HashKey,
    },
}

impl Policy {
    /// The names of all policies as the config spells them, the default first.
    pub const NAMES: &[&str] = &[
        "least-requests",
        "round-robin",
        "peak-ewma",
        "power-of-two",
        "random",
        "consistent-hash",
        "map-based-hash",
    ];

    /// The name of this policy as the config spells it.
    pub const fn name(&self) -> &'static str {
        match self {
            Policy::RoundRobin => "round-robin",
            Policy::LeastRequests => "least-requests",
            Policy::PeakEwma => "peak-ewma",
            Policy::PowerOfTwo => "power-of-two",
            Policy::Random => "random",
            Policy::ConsistentHash { .. } => "consistent-hash",
            Policy::MapBasedHash { .. } => "map-based-hash",
        }
    }

    /// The key of a policy that hashes.
    pub const fn hash_key(&self) -> Option<&HashKey> {
        match self {
            Policy::ConsistentHash { key, .. } | Policy::MapBasedHash { key } => Some(key),
            _ => None,
        }
    }
}

/// The part of a request that is the key of consistent hashing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    /// The address of the client, or the network that it is in.
    ClientAddress(AddressPrefixes),
    /// The same, hashed so that networks next to each other have numbers next to each other.
    ClientNetwork(AddressPrefixes),
    /// The value of the first field of this name, which is in lower case: build with [`HashKey::header`].
    Header(String),
    /// The value of the first cookie of this name.
    Cookie(String),
    /// The value of the first query parameter of this name, as sent: not decoded.
    Query(String),
    /// The path as sent: not decoded, without the query.
    Path,
    /// A text that the caller makes of the request and hashes by [`hash_bytes`]; [`HashKey::hash`] knows none.
    Made,
}

impl HashKey {
    /// The value of the header field `name`, whose case does not matter.
    ///
    /// # Errors
    /// [`FieldError::BadFieldName`].
    pub fn header(name: &str) -> Result<HashKey, FieldError> {
        FieldMatch::new(name, ValueMatch::Present).map(|rule| HashKey::Header(rule.name().to_owned()))
    }

    /// The value of the cookie `name`.
    ///
    /// # Errors
    /// [`FieldError::BadCookieName`].
    pub fn cookie(name: &str) -> Result<HashKey, FieldError> {
        if is_token(name) {
            Ok(HashKey::Cookie(name.to_owned()))
        } else {
            Err(FieldError::BadCookieName(name.to_owned()))
        }
    }

    /// The value of the query parameter `name`, written as clients send it.
    ///
    /// # Errors
    /// [`FieldError::BadParameterName`].
    pub fn query(name: &str) -> Result<HashKey, FieldError> {
        QueryMatch::new(name, ValueMatch::Present).map(|rule| HashKey::Query(rule.name().to_owned()))
    }

    /// The hash of the address of a client; `None` when the key is something else.
    pub fn hash_of_address(&self, address: IpAddr) -> Option<u64> {
        match self {
            HashKey::ClientAddress(prefixes) => Some(hash_address(prefixes.network(address))),
            HashKey::ClientNetwork(prefixes) => Some(match prefixes.network(address) {
                IpAddr::V4(v4) => number_of_network(&v4.octets(), prefixes.ipv4),
                IpAddr::V6(v6) => number_of_network(&v6.octets(), prefixes.ipv6),
            }),
            _ => None,
        }
    }

    /// The hash of the key in `request`; `None` when the request has none or an empty one, and then the least loaded server
    /// is as good as any: all requests without a key on one server would be no balance.
    pub fn hash(&self, request: &impl RouteRequest) -> Option<u64> {
        let hash = |value: &[u8]| (!value.is_empty()).then(|| hash_bytes(value));
        match self {
            HashKey::ClientAddress(_) | HashKey::ClientNetwork(_) => self.hash_of_address(request.source()),
            HashKey::Header(name) => request.header(name).and_then(hash),
            HashKey::Cookie(name) => cookie_value(request.header("cookie")?, name.as_bytes()).and_then(hash),
            HashKey::Query(name) => hash(&decoded_parameter(query_value(request.query(), name.as_bytes())?)),
            HashKey::Path => Some(hash_bytes(request.path())),
            HashKey::Made => None,
        }
    }
}

/// The hash of `ip_hash` of nginx, of the bytes that a network of so many bits is in.
fn number_of_network(octets: &[u8], bits: u8) -> u64 {
    let octets = &octets[..usize::from(bits.div_ceil(8))];
    octets.iter().fold(89, |hash, octet| (hash * 113 + u64::from(*octet)) % 6271)
}

/// How many bits of a client's address count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressPrefixes {
    ipv4: u8,
    ipv6: u8,
}

impl AddressPrefixes {
    /// The first `ipv4` bits of an IPv4 address (1 to 32) and the first `ipv6` of an IPv6 address (1 to 128).
    pub const fn new(ipv4: u8, ipv6: u8) -> Option<AddressPrefixes> {
        if ipv4 < 1 || ipv4 > 32 || ipv6 < 1 || ipv6 > 128 {
            return None;
        }
        Some(AddressPrefixes { ipv4, ipv6 })
    }

    /// The bits of an IPv4 address.
    pub const fn ipv4(self) -> u8 {
        self.ipv4
    }

    /// The bits of an IPv6 address.
    pub const fn ipv6(self) -> u8 {
        self.ipv6
    }

    /// The first address of the network that `address` is in. An IPv4-mapped IPv6 address counts as its IPv4 address.
    pub fn network(self, address: IpAddr) -> IpAddr {
        match address.to_canonical() {
            IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & u32::MAX << (32 - self.ipv4)).into()),
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & u128::MAX << (128 - self.ipv6)).into()),
        }
    }
}

/// The whole of an IPv4 address, and the 64 bits of an IPv6 address that a client cannot choose (RFC 4291 section 2.5.1,
/// RFC 8981).
impl Default for AddressPrefixes {
    fn default() -> AddressPrefixes {
        AddressPrefixes { ipv4: 32, ipv6: 64 }
    }
}

/// How far above the average load for its weight a server may go under consistent hashing, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadFactor(u32);

/// A load factor outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a load factor is between {} and {} percent", LoadFactor::PERCENT_MIN, LoadFactor::PERCENT_MAX)]
pub struct LoadFactorError;

impl LoadFactor {
    /// The smallest factor: every server may have its fair share, rounded up, and no more.
    pub const PERCENT_MIN: u32 = 100;
    /// The largest factor that means anything.
    pub const PERCENT_MAX: u32 = 10_000;
    /// No bound: a key stays with its server however busy that is.
    pub const UNBOUNDED: LoadFactor = LoadFactor(0);

    /// A factor in percent of the average load, [`Self::PERCENT_MIN`] to [`Self::PERCENT_MAX`].
    pub const fn from_percent(percent: u32) -> Result<LoadFactor, LoadFactorError> {
        if percent < Self::PERCENT_MIN || percent > Self::PERCENT_MAX {
            return Err(LoadFactorError);
        }
        Ok(LoadFactor(percent))
    }

    /// The factor in percent, `None` when unbounded.
    pub const fn percent(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0) }
    }
}

/// 125 percent: the value the authors of bounded loads found to cost little locality (Mirrokni, Thorup,
/// Zadimoghaddam 2016).
impl Default for LoadFactor {
    fn default() -> LoadFactor {
        LoadFactor(125)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct KeyedRequest {
        cookie: Option<&'static str>,
    }

    impl RouteRequest for KeyedRequest {
        fn host(&self) -> &[u8] {
            b"example.com"
        }
        fn path(&self) -> &[u8] {
            b"/a%2Fb"
        }
        fn query(&self) -> &[u8] {
            b"user=7&user=8"
        }
        fn method(&self) -> &[u8] {
            b"GET"
        }
        fn header(&self, name: &str) -> Option<&[u8]> {
            match name {
                "cookie" => self.cookie.map(str::as_bytes),
                "x-user" => Some(b"ann"),
                _ => None,
            }
        }
        fn source(&self) -> IpAddr {
            IpAddr::from([192, 0, 2, 1])
        }
    }

    #[test]
    fn keys_are_found_in_requests() {
        let request = KeyedRequest { cookie: None };
        for (key, expected) in [
            (HashKey::ClientAddress(AddressPrefixes::default()), Some(&[192, 0, 2, 1][..])),
            (HashKey::ClientAddress(AddressPrefixes::new(24, 56).unwrap()), Some(&[192, 0, 2, 0])),
            (HashKey::header("X-User").unwrap(), Some(b"ann")),
            (HashKey::header("X-Other").unwrap(), None),
            (HashKey::query("user").unwrap(), Some(b"7")),
            (HashKey::query("use").unwrap(), None),
            (HashKey::Path, Some(b"/a%2Fb")),
            (HashKey::cookie("id").unwrap(), None),
        ] {
            assert_eq!(key.hash(&request), expected.map(hash_bytes), "{key:?}");
        }
    }

    #[test]
    fn cookies_are_told_apart() {
        let key = HashKey::cookie("id").unwrap();
        for (cookie, expected) in [
            ("id=1", Some("1")),
            ("a=2; id=1; id=3", Some("1")),
            ("a=2;id=1", Some("1")),
            ("xid=2; id=1", Some("1")),
            ("id=a=b", Some("a=b")),
            ("id=", None),
            ("id", None),
            ("ID=1", None),
            ("a=id=1", None),
            ("", None),
        ] {
            let found = key.hash(&KeyedRequest { cookie: Some(cookie) });
            assert_eq!(found, expected.map(|value| hash_bytes(value.as_bytes())), "{cookie:?}");
        }
    }

    #[test]
    fn clients_of_one_network_count_as_one() {
        let network = |ipv4, ipv6, text: &str| {
            let prefixes = AddressPrefixes::new(ipv4, ipv6).unwrap();
            prefixes.network(text.parse().unwrap()).to_string()
        };
        assert_eq!(network(24, 64, "192.0.2.77"), "192.0.2.0");
        assert_eq!(network(1, 64, "192.0.2.77"), "128.0.0.0");
        assert_eq!(network(32, 64, "::ffff:192.0.2.77"), "192.0.2.77");
        assert_eq!(network(32, 64, "2001:db8::1:2:3:4"), "2001:db8::");
        assert_eq!(network(32, 128, "2001:db8::1:2:3:4"), "2001:db8::1:2:3:4");
        for (ipv4, ipv6) in [(0, 64), (33, 64), (24, 0), (24, 129)] {
            assert!(AddressPrefixes::new(ipv4, ipv6).is_none());
        }
    }

    #[test]
    fn names_of_keys_are_checked() {
        assert!(
            HashKey::header("a b").is_err()
                && HashKey::cookie("").is_err()
                && HashKey::cookie("a=b").is_err()
        );
        assert!(HashKey::query("a&b").is_err());
    }
}
