//! Version 1 (section 2.1): one line of text, such as `PROXY TCP4 192.0.2.1 192.0.2.2 56324 443`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::{FromStr, Split};

use super::{Endpoints, ProxyHeader, ProxyHeaderError, ProxyHeaderProgress, ProxyHeaderVersion, Tlvs};
use crate::digits;

/// The longest line in bytes, CR LF included.
pub const LINE_BYTES_MAX: usize = 107;

pub(super) const PREFIX: &[u8] = b"PROXY ";

/// Parses a line that begins with [`PREFIX`], from the bytes received so far.
pub(super) fn parse(received: &[u8]) -> Result<ProxyHeaderProgress<'_>, ProxyHeaderError> {
    let window = &received[..received.len().min(LINE_BYTES_MAX)];
    let Some(end) = window.iter().position(|&byte| byte == b'\r' || byte == b'\n') else {
        return if window.len() < LINE_BYTES_MAX {
            Ok(ProxyHeaderProgress::Incomplete)
        } else {
            Err(ProxyHeaderError::BadLine)
        };
    };
    match &window[end..] {
        [b'\r'] if end + 1 < LINE_BYTES_MAX => return Ok(ProxyHeaderProgress::Incomplete),
        [b'\r', b'\n', ..] => {}
        _ => return Err(ProxyHeaderError::BadLine),
    }
    let line = window.get(PREFIX.len()..end).ok_or(ProxyHeaderError::BadLine)?;
    Ok(ProxyHeaderProgress::Complete(ProxyHeader {
        len: end + 2,
        version: ProxyHeaderVersion::V1,
        endpoints: endpoints(line)?,
        tlvs: Tlvs::default(),
    }))
}

/// Reads the part between the prefix and the end of the line.
fn endpoints(line: &[u8]) -> Result<Endpoints<'static>, ProxyHeaderError> {
    // Whatever stands behind UNKNOWN is to be ignored.
    if line == b"UNKNOWN" || line.starts_with(b"UNKNOWN ") {
        return Ok(Endpoints::Unknown);
    }
    let line = std::str::from_utf8(line).map_err(|_| ProxyHeaderError::BadAddress)?;
    let mut words = line.split(' ');
    let read = match words.next() {
        Some("TCP4") => addresses::<Ipv4Addr>(&mut words),
        Some("TCP6") => addresses::<Ipv6Addr>(&mut words),
        _ => return Err(ProxyHeaderError::BadProtocol),
    };
    let (source, destination) =
        read.filter(|_| words.next().is_none()).ok_or(ProxyHeaderError::BadAddress)?;
    Ok(Endpoints::Inet { source, destination })
}

fn addresses<A: FromStr + Into<IpAddr>>(words: &mut Split<'_, char>) -> Option<(SocketAddr, SocketAddr)> {
    let source: A = words.next()?.parse().ok()?;
    let destination: A = words.next()?.parse().ok()?;
    let source = SocketAddr::new(source.into(), port(words.next()?)?);
    Some((source, SocketAddr::new(destination.into(), port(words.next()?)?)))
}

/// A decimal number below 65536 without sign and leading zeros.
fn port(word: &str) -> Option<u16> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
    word.parse().ok().filter(|_| is_plain)
}

/// Appends a header of version 1. Endpoints that it cannot express are unknown: Unix sockets, and the sender's own.
pub fn write_v1(out: &mut Vec<u8>, endpoints: &Endpoints<'_>) {
    out.extend_from_slice(PREFIX);
    let Endpoints::Inet { source, destination } = *endpoints else {
        out.extend_from_slice(b"UNKNOWN\r\n");
        return;
    };
    let family: &[u8] = if source.is_ipv4() && destination.is_ipv4() { b"TCP4" } else { b"TCP6" };
    out.extend_from_slice(family);
    for end in [source, destination] {
        out.push(b' ');
        if family == b"TCP6" && end.is_ipv4() {
            out.extend_from_slice(b"::ffff:");
        }
        address(out, end.ip());
    }
    for end in [source, destination] {
        out.push(b' ');
        digits::decimal(out, end.port().into());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends `address` in its own family, also when it is an IPv4 address mapped into IPv6.
fn address(out: &mut Vec<u8>, address: IpAddr) {
    if let IpAddr::V6(six) = address
        && six.to_ipv4_mapped().is_some()
    {
        out.extend_from_slice(b"::ffff:");
    }
    digits::address(out, address);
}
