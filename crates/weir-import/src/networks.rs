//! Networks as other products take them: with bits behind the prefix, which count for nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network without the bits behind its prefix; what is none stays as it is.
pub(crate) fn network(text: &str) -> String {
    masked(text).unwrap_or_else(|| text.to_owned())
}

fn masked(text: &str) -> Option<String> {
    let (address, bits) = text.split_once('/')?;
    let bits = bits.parse::<u32>().ok()?;
    match address.parse::<IpAddr>().ok()? {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(bits)?).unwrap_or(0);
            Some(format!("{}/{bits}", Ipv4Addr::from(u32::from(v4) & mask)))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128_u32.checked_sub(bits)?).unwrap_or(0);
            Some(format!("{}/{bits}", Ipv6Addr::from(u128::from(v6) & mask)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::network;

    #[test]
    fn bits_behind_the_prefix_are_left_out() {
        for (text, expected) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("10.1.2.3/32", "10.1.2.3/32"),
            ("10.1.2.3/0", "0.0.0.0/0"),
            ("fd00::1/64", "fd00::/64"),
            ("10.1.2.3/33", "10.1.2.3/33"),
            ("10.1.2.3", "10.1.2.3"),
            ("all", "all"),
        ] {
            assert_eq!(network(text), expected, "{text}");
        }
    }
}
