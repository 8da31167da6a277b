//! The one hash of Weir: XXH64 with seed 0, the same in every worker, on every node and in every version.
//!
//! Consistent hashing maps keys to servers with it and sticky splits map clients to upstreams, so a changed
//! hash moves every client. It is not keyed: a client can search for keys that land on one server, which is
//! what the bounded load is for.

use std::net::IpAddr;

use twox_hash::XxHash64;

/// XXH64 of `bytes` with seed 0 (xxHash specification, version 0.1.1).
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    XxHash64::oneshot(0, bytes)
}

/// XXH64 of the address in network byte order: 4 or 16 bytes, an IPv4-mapped IPv6 address as its IPv4
/// address.
pub fn hash_address(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(v4) => hash_bytes(&v4.octets()),
        IpAddr::V6(v6) => hash_bytes(&v6.octets()),
    }
}

/// Spreads the entropy of `word` over all 64 bits: the finaliser of SplitMix64 (variant 13 of Stafford's
/// mixers).
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_specification() {
        // Published XXH64 vectors, seed 0.
        for (text, hash) in
            [("", 0xef46_db37_51d8_e999), ("a", 0xd24e_c4f1_a98c_6e5b), ("abc", 0x44bc_2cf5_ad77_0999)]
        {
            assert_eq!(hash_bytes(text.as_bytes()), hash, "{text:?}");
        }
    }

    #[test]
    fn a_mapped_address_hashes_as_its_ipv4_address() {
        let plain = "192.0.2.7".parse().unwrap();
        let mapped = "::ffff:192.0.2.7".parse().unwrap();
        assert_eq!(hash_address(plain), hash_address(mapped));
    }
}
