//! Networks of IP addresses: `"10.0.0.0/8"`, `"2001:db8::/32"`, or one address.

use std::net::IpAddr;

use ipnet::IpNet;

use super::ValueError;

/// Parses `address/bits` or one address; bits of the host have to be zero, since they are a slip more often than not.
pub(crate) fn parse_network(text: &str) -> Result<IpNet, ValueError> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let Ok(network) = text.parse::<IpNet>() else {
        let help = "write `10.0.0.0/8`, `2001:db8::/32` or one address";
        return Err(ValueError::new(format!("`{text}` is not a network")).help(help));
    };
    if network.trunc() != network {
        let message = format!("`{text}` has bits set beyond its first {}", network.prefix_len());
        return Err(ValueError::new(message).help(format!("write `{}`", network.trunc())));
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read() {
        for (text, printed) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.1", "127.0.0.1/32"),
            ("::1", "::1/128"),
            ("2001:db8::/32", "2001:db8::/32"),
        ] {
            assert_eq!(parse_network(text).unwrap().to_string(), printed);
        }
    }

    #[test]
    fn diagnostics_say_what_is_wrong() {
        let cases = [
            ("10.0.0.1/8", "`10.0.0.1/8` has bits set beyond its first 8 (write `10.0.0.0/8`)"),
            (
                "10.0.0.0/33",
                "`10.0.0.0/33` is not a network (write `10.0.0.0/8`, `2001:db8::/32` or one address)",
            ),
            ("lan", "`lan` is not a network (write `10.0.0.0/8`, `2001:db8::/32` or one address)"),
        ];
        for (text, message) in cases {
            assert_eq!(
                parse_network(text).map_err(|error| error.to_string()),
                Err(message.to_owned()),
                "{text}"
            );
        }
    }
}
