//! The key of one client: an IPv4 address, or an IPv6 network of 64 bits.

use std::net::IpAddr;

/// One client for limits. An IPv6 client owns at least its whole /64 (RFC 6177) and could come from a new
/// address each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(pub(super) u64);

impl ClientKey {
    /// The key of something else that is limited, by a hash of it that clients cannot predict.
    pub const fn of_hash(hash: u64) -> ClientKey {
        ClientKey(hash)
    }

    /// A number that no other client has.
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl From<IpAddr> for ClientKey {
    /// An IPv4-mapped IPv6 address counts as its IPv4 address.
    fn from(address: IpAddr) -> ClientKey {
        match address.to_canonical() {
            // No unicast IPv6 network begins with ffff:ffff.
            IpAddr::V4(v4) => ClientKey(0xffff_ffff << 32 | u64::from(u32::from(v4))),
            IpAddr::V6(v6) => ClientKey((u128::from(v6) >> 64) as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_apart() {
        let key = |text: &str| ClientKey::from(text.parse::<IpAddr>().unwrap());
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
        assert_ne!(key("0.0.0.1"), key("::1"));
    }
}
