//! What a placeholder of the log hides: the host part of an address, or the values of parameters of a query.
//!
//! Hiding errs towards too much: names of parameters are compared decoded and without regard to case, and every separator that some server knows counts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bits of an IPv6 address that are shown where none are named: a site, as 24 are of IPv4.
const IPV6_BITS: u8 = 48;

/// What is hidden of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mask {
    /// All bits of an address behind the first ones: of IPv4, of IPv6.
    Network(u8, u8),
    /// The values of parameters of these names, in lower case.
    Without(Box<[Box<[u8]>]>),
}

impl Mask {
    /// Reads `network:24`, `network:24,56` or `without:token,password`; `None` when it is no mask, an error when it is a wrong one.
    pub(super) fn parse(text: &str) -> Option<Result<Self, String>> {
        if let Some(bits) = text.strip_prefix("network:") {
            let (four, six) = bits.split_once(',').unwrap_or((bits, ""));
            let number = |text: &str, max: u8| text.parse().ok().filter(|bits| *bits <= max);
            let six = if six.is_empty() && !bits.contains(',') { Some(IPV6_BITS) } else { number(six, 128) };
            return Some(match (number(four, 32), six) {
                (Some(four), Some(six)) => Ok(Self::Network(four, six)),
                _ => Err(format!(
                    "`{bits}` are not the bits of an IPv4 network, or those and of an IPv6 network"
                )),
            });
        }
        let names = text.strip_prefix("without:")?;
        let names: Vec<Box<[u8]>> =
            names.split(',').map(|name| name.to_ascii_lowercase().into_bytes().into()).collect();
        let is_whole = names.iter().all(|name| !name.is_empty());
        Some(if is_whole {
            Ok(Self::Without(names.into()))
        } else {
            Err("a parameter has no name".to_owned())
        })
    }

    /// The network of an address.
    pub(super) fn network(address: IpAddr, (four, six): (u8, u8)) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let kept = u32::MAX.checked_shl(32 - u32::from(four)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & kept).into()
            }
            IpAddr::V6(address) => {
                let kept = u128::MAX.checked_shl(128 - u32::from(six)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & kept).into()
            }
        }
    }

    /// Appends a text with a query, without the values of parameters that have one of these names. The query begins at the first `?`, or where
    /// `is_query` with the text.
    pub(super) fn write_without(names: &[Box<[u8]>], text: &[u8], is_query: bool, out: &mut Vec<u8>) {
        let start = match text.iter().position(|byte| *byte == b'?') {
            Some(at) => at + 1,
            None if is_query => 0,
            None => text.len(),
        };
        out.extend_from_slice(&text[..start]);
        let mut rest = &text[start..];
        while !rest.is_empty() {
            let end =
                rest.iter().position(|byte| matches!(byte, b'&' | b';' | b'?' | b'#')).unwrap_or(rest.len());
            let (parameter, behind) = rest.split_at(end);
            let name_len = parameter.iter().position(|byte| *byte == b'=');
            match name_len {
                Some(len) if is_named(names, &parameter[..len]) => out.extend_from_slice(&parameter[..=len]),
                _ => out.extend_from_slice(parameter),
            }
            let (separator, behind) = behind.split_at(behind.len().min(1));
            out.extend_from_slice(separator);
            rest = behind;
        }
    }
}

/// Whether a name as it was sent is one of these; `token[]` is taken for `token`.
fn is_named(names: &[Box<[u8]>], sent: &[u8]) -> bool {
    names.iter().any(|name| {
        let mut sent = decoded(sent);
        let is_prefix = name.iter().all(|byte| sent.next() == Some(*byte));
        is_prefix && matches!(sent.next(), None | Some(b'['))
    })
}

/// The bytes of a name without its percent-encoding, in lower case, and without spaces.
fn decoded(sent: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = sent;
    let bytes = std::iter::from_fn(move || {
        let (&first, behind) = rest.split_first()?;
        rest = behind;
        if first == b'+' {
            return Some(b' ');
        }
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        if let (b'%', [high, low, behind @ ..]) = (first, rest)
            && let (Some(high), Some(low)) = (digit(high), digit(low))
        {
            rest = behind;
            return Some((high * 16 + low) as u8);
        }
        Some(first)
    });
    bytes.filter(|byte| *byte != b' ').map(|byte| byte.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_their_last_bits() {
        for (mask, address, expected) in [
            ("network:24", "192.0.2.77", "192.0.2.0"),
            ("network:24", "2001:db8:1:2:3::4", "2001:db8:1::"),
            ("network:16,32", "192.0.2.77", "192.0.0.0"),
            ("network:16,32", "2001:db8:1:2::4", "2001:db8::"),
            ("network:0,0", "192.0.2.77", "0.0.0.0"),
            ("network:0,0", "2001:db8::1", "::"),
            ("network:32,128", "2001:db8::1", "2001:db8::1"),
        ] {
            let Some(Ok(Mask::Network(four, six))) = Mask::parse(mask) else { panic!("{mask}") };
            let network = Mask::network(address.parse().unwrap(), (four, six));
            assert_eq!(network.to_string(), expected, "{mask} of {address}");
        }
        for wrong in ["network:", "network:33", "network:24,129", "network:24,", "network:a", "network:-1"] {
            assert!(matches!(Mask::parse(wrong), Some(Err(_))), "{wrong}");
        }
        assert_eq!(Mask::parse("nonsense"), None);
    }

    #[test]
    fn values_of_parameters_are_hidden_in_every_spelling() {
        let Some(Ok(Mask::Without(names))) = Mask::parse("without:token,Pass Word") else { panic!() };
        let names: Vec<Box<[u8]>> = names.iter().cloned().chain([b"password".as_slice().into()]).collect();
        for (text, is_query, expected) in [
            ("/a?x=1&token=secret&y=2", false, "/a?x=1&token=&y=2"),
            ("/a?token=secret", false, "/a?token="),
            ("?token=a&token=b", false, "?token=&token="),
            ("token=a&x=b", true, "token=&x=b"),
            ("token=a", false, "token=a"),
            ("?TOKEN=a;Password=b", false, "?TOKEN=;Password="),
            ("?%74oken=a&t%6Fken=b&to+ken=c", false, "?%74oken=&t%6Fken=&to+ken="),
            ("?token[]=a&token%5B0%5D=b", false, "?token[]=&token%5B0%5D="),
            ("?x=token=a&tokens=b&token", false, "?x=token=a&tokens=b&token"),
            ("?a=b?token=c#token=d", false, "?a=b?token=#token="),
            ("?%zz=1&%7=2&token=%", false, "?%zz=1&%7=2&token="),
            ("/plain", false, "/plain"),
            ("", true, ""),
        ] {
            let mut out = Vec::new();
            Mask::write_without(&names, text.as_bytes(), is_query, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
        }
        assert!(
            matches!(Mask::parse("without:"), Some(Err(_)))
                && matches!(Mask::parse("without:a,,b"), Some(Err(_)))
        );
    }
}
