//! `host[:port]`: the value of Host, the authority of an absolute target, the target of CONNECT.
//!
//! Userinfo is refused everywhere (RFC 9110 section 4.2.4), ports are 1 to 65535 without leading zeros, and an
//! address in brackets must be IPv6 or of a later version. A name has a label at either end: one dot may follow it, none may precede it. Nothing is resolved. What is forwarded stays as it came; rules compare the form that
//! [`normalize_authority`] gives.

use std::io::Write as _;
use std::net::Ipv6Addr;

use super::percent;
use crate::bytes::{host_run, is_host_byte};

/// A valid `host[:port]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority<'a> {
    /// The host as received: a registered name, an IPv4 address, or an address in its brackets.
    pub host: &'a [u8],
    /// The port when one is given; an empty one (`host:`) counts as absent.
    pub port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// Reads `bytes` as `uri-host [":" port]` (RFC 9110 section 7.2); `None` when it is not one. The empty host is
    /// valid only as a whole empty authority.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Option<Authority<'a>> {
        let (host, port) = if bytes.first() == Some(&b'[') {
            let end = memchr::memchr(b']', bytes)?;
            if !is_future_address(&bytes[1..end]) {
                let address = std::str::from_utf8(&bytes[1..end]).ok()?;
                address.parse::<Ipv6Addr>().ok()?;
            }
            bytes.split_at(end + 1)
        } else {
            let mut len = host_run(bytes);
            if bytes.get(len) == Some(&b'%') {
                len = encoded_host_len(bytes)?;
            }
            let has_empty_label = bytes.first() == Some(&b'.') || bytes[..len].ends_with(b"..");
            if (len == 0 || has_empty_label) && !bytes.is_empty() {
                return None;
            }
            bytes.split_at(len)
        };
        let port = match port {
            [] | [b':'] => None,
            [b':', digits @ ..] => Some(parse_port(digits)?),
            _ => return None,
        };
        Some(Authority { host, port })
    }
}

/// Brings the host, or the `host[:port]`, that `text` ends with from `start` on into the form in which rules compare it: in lower case, without a dot behind
/// the name, without the usual port, an address of IPv6 as RFC 5952 has it.
pub fn normalize_authority(text: &mut Vec<u8>, start: usize, usual_port: u16) {
    text[start..].make_ascii_lowercase();
    let Some(Authority { host, port }) = Authority::parse(&text[start..]) else { return };
    let address = host.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let address = address.and_then(|address| std::str::from_utf8(address).ok()?.parse::<Ipv6Addr>().ok());
    let host_len = host.strip_suffix(b".").unwrap_or(host).len();
    match address {
        None => text.truncate(start + host_len),
        Some(address) => {
            text.truncate(start);
            write!(text, "[{address}]").expect("memory takes everything");
        }
    }
    if let Some(port) = port.filter(|port| *port != usual_port) {
        write!(text, ":{port}").expect("memory takes everything");
    }
}

/// Whether `bytes` is `"v" 1*HEXDIG "." 1*( unreserved / sub-delims / ":" )`, an address of a version to come (IPvFuture in RFC
/// 3986 section 3.2.2).
#[inline]
fn is_future_address(bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"v").or_else(|| bytes.strip_prefix(b"V")) else { return false };
    let Some(dot) = rest.iter().position(|&byte| byte == b'.') else { return false };
    let (version, address) = (&rest[..dot], &rest[dot + 1..]);
    // A comma would make one Host look like a list.
    let fits = |&byte: &u8| byte == b':' || is_host_byte(byte);
    !version.is_empty()
        && version.iter().all(u8::is_ascii_hexdigit)
        && !address.is_empty()
        && address.iter().all(fits)
}

/// Length of a host with percent-encoded bytes; `None` when they are not encoded properly.
#[cold]
fn encoded_host_len(bytes: &[u8]) -> Option<usize> {
    let len = bytes.iter().position(|&byte| byte != b'%' && !is_host_byte(byte)).unwrap_or(bytes.len());
    percent::is_well_formed(&bytes[..len]).then_some(len)
}

/// A port from 1 to 65535, decimal, without leading zeros.
pub(crate) fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.len() > 5 || digits.first() == Some(&b'0') || digits.is_empty() {
        return None;
    }
    let mut port = 0_u32;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        port = port * 10 + u32::from(digit - b'0');
    }
    u16::try_from(port).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_form() {
        for (authority, expected) in [
            ("a.test", "a.test"),
            ("A.Test.", "a.test"),
            ("A.TEST.:80", "a.test"),
            ("a.test:", "a.test"),
            ("a.test:8080", "a.test:8080"),
            ("a.test.:443", "a.test:443"),
            ("192.0.2.1", "192.0.2.1"),
            ("[2001:DB8:0:0::1]:80", "[2001:db8::1]"),
            ("[::FFFF:192.0.2.1]:81", "[::ffff:192.0.2.1]:81"),
            ("[vF.A:b]", "[vf.a:b]"),
            ("", ""),
        ] {
            let mut text = b"X.: ".to_vec();
            text.extend_from_slice(authority.as_bytes());
            normalize_authority(&mut text, 4, 80);
            assert_eq!(text.escape_ascii().to_string(), format!("X.: {expected}"), "{authority}");
        }
    }

    #[test]
    fn a_name_has_a_label_at_either_end() {
        for refused in [".", "..", ".:80", ".a.test", "..a.test", "a.test..", "a.test..:80", "%61.."] {
            assert_eq!(Authority::parse(refused.as_bytes()), None, "{refused}");
        }
        for taken in ["a.test.", "a.test.:80", "a..test", "%61."] {
            assert!(Authority::parse(taken.as_bytes()).is_some(), "{taken}");
        }
    }
}
