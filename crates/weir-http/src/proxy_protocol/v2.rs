//! Version 2 (section 2.2): a binary header of addresses and TLVs, as long as it says.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::tlv::{self, TlvValues, Tlvs};
use super::{
    Endpoints, PATH_BYTES, ProxyHeader, ProxyHeaderError, ProxyHeaderProgress, ProxyHeaderVersion, checksum,
};

/// The largest header accepted by default, in bytes. Senders keep theirs below the size of a packet.
pub const HEADER_BYTES_MAX: usize = 4096;

/// The size that must be accepted at least: a header with the longest addresses, in bytes.
pub const HEADER_BYTES_MIN: usize = FIXED_BYTES + 2 * PATH_BYTES;

pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family and transport, length.
const FIXED_BYTES: usize = 16;

const VERSION: u8 = 0x20;
const LOCAL: u8 = 0x0;
const PROXY: u8 = 0x1;

const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;
const UDP4: u8 = 0x12;
const UDP6: u8 = 0x22;
const UNIX_DATAGRAM: u8 = 0x32;

/// Parses a header that begins with [`SIGNATURE`], from the bytes received so far.
pub(super) fn parse(received: &[u8], bytes_max: usize) -> Result<ProxyHeaderProgress<'_>, ProxyHeaderError> {
    let Some(&command) = received.get(SIGNATURE.len()) else { return Ok(ProxyHeaderProgress::Incomplete) };
    if command & 0xf0 != VERSION {
        return Err(ProxyHeaderError::BadVersion);
    }
    let command = command & 0x0f;
    if command != LOCAL && command != PROXY {
        return Err(ProxyHeaderError::BadCommand);
    }
    let Some(&[family, high, low]) = received.get(SIGNATURE.len() + 1..FIXED_BYTES) else {
        return Ok(ProxyHeaderProgress::Incomplete);
    };
    let len = FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    let addresses_len = match family {
        // The family of a LOCAL header, and all that follows it, is to be ignored.
        _ if command == LOCAL => 0,
        // Valid and not supported, since a stream has no datagrams: to be taken as unspecified (section 2.2).
        UNSPECIFIED | UDP4 | UDP6 | UNIX_DATAGRAM => 0,
        TCP4 => 2 * (4 + 2),
        TCP6 => 2 * (16 + 2),
        UNIX_STREAM => 2 * PATH_BYTES,
        _ => return Err(ProxyHeaderError::BadFamily),
    };
    if len > bytes_max {
        return Err(ProxyHeaderError::TooLarge);
    }
    if len < FIXED_BYTES + addresses_len {
        return Err(ProxyHeaderError::BadLength);
    }
    let Some(header) = received.get(..len) else { return Ok(ProxyHeaderProgress::Incomplete) };
    let (addresses, rest) = header[FIXED_BYTES..].split_at(addresses_len);
    let endpoints = match family {
        _ if command == LOCAL => Endpoints::Local,
        TCP4 => inet4(addresses).ok_or(ProxyHeaderError::BadLength)?,
        TCP6 => inet6(addresses).ok_or(ProxyHeaderError::BadLength)?,
        UNIX_STREAM => {
            let (source, destination) = addresses.split_at(PATH_BYTES);
            Endpoints::Unix { source: without_zeros(source), destination: without_zeros(destination) }
        }
        _ => Endpoints::Unknown,
    };
    // Behind no addresses may stand some of a family that is not named, so there is no place where TLVs begin.
    let tlvs = if addresses_len == 0 { Tlvs::default() } else { tlv::check(header, rest)? };
    Ok(ProxyHeaderProgress::Complete(ProxyHeader { len, version: ProxyHeaderVersion::V2, endpoints, tlvs }))
}

fn inet4(addresses: &[u8]) -> Option<Endpoints<'static>> {
    let (source, rest) = addresses.split_first_chunk::<4>()?;
    let (destination, ports) = rest.split_first_chunk::<4>()?;
    let (source_port, destination_port) = split_ports(ports)?;
    Some(Endpoints::Inet {
        source: (Ipv4Addr::from(*source), source_port).into(),
        destination: (Ipv4Addr::from(*destination), destination_port).into(),
    })
}

fn inet6(addresses: &[u8]) -> Option<Endpoints<'static>> {
    let (source, rest) = addresses.split_first_chunk::<16>()?;
    let (destination, ports) = rest.split_first_chunk::<16>()?;
    let (source_port, destination_port) = split_ports(ports)?;
    Some(Endpoints::Inet {
        source: (Ipv6Addr::from(*source), source_port).into(),
        destination: (Ipv6Addr::from(*destination), destination_port).into(),
    })
}

fn split_ports(ports: &[u8]) -> Option<(u16, u16)> {
    let &[a, b, c, d] = ports else { return None };
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// A path without its padding: the zeros at the end.
fn without_zeros(path: &[u8]) -> &[u8] {
    let len = path.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &path[..len]
}

/// Appends a header of version 2. Of connections that are the sender's own nothing is said but that.
pub fn write_v2(out: &mut Vec<u8>, endpoints: &Endpoints<'_>, claims: &TlvValues<'_>) {
    let start = out.len();
    out.extend_from_slice(SIGNATURE);
    let command = if *endpoints == Endpoints::Local { LOCAL } else { PROXY };
    out.push(VERSION | command);
    write_endpoints(out, endpoints);
    if *endpoints != Endpoints::Local {
        tlv::write(out, claims);
    }
    let checksum_at = claims.checksum.then(|| tlv::write_checksum_room(out));
    let len = u16::try_from(out.len() - start - FIXED_BYTES).expect("every value has a maximum");
    out[start + FIXED_BYTES - 2..start + FIXED_BYTES].copy_from_slice(&len.to_be_bytes());
    if let Some(at) = checksum_at {
        let checksum = checksum::crc32c(&[&out[start..]]);
        out[at..at + 4].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// Appends family, room for the length, and addresses.
fn write_endpoints(out: &mut Vec<u8>, endpoints: &Endpoints<'_>) {
    match endpoints {
        Endpoints::Local | Endpoints::Unknown => out.extend_from_slice(&[UNSPECIFIED, 0, 0]),
        Endpoints::Inet { source: SocketAddr::V4(source), destination: SocketAddr::V4(destination) } => {
            out.extend_from_slice(&[TCP4, 0, 0]);
            out.extend_from_slice(&source.ip().octets());
            out.extend_from_slice(&destination.ip().octets());
            out.extend_from_slice(&source.port().to_be_bytes());
            out.extend_from_slice(&destination.port().to_be_bytes());
        }
        Endpoints::Inet { source, destination } => {
            out.extend_from_slice(&[TCP6, 0, 0]);
            out.extend_from_slice(&octets_of_six(source));
            out.extend_from_slice(&octets_of_six(destination));
            out.extend_from_slice(&source.port().to_be_bytes());
            out.extend_from_slice(&destination.port().to_be_bytes());
        }
        Endpoints::Unix { source, destination } => {
            out.extend_from_slice(&[UNIX_STREAM, 0, 0]);
            for path in [source, destination] {
                let fits = if path.len() <= PATH_BYTES { path } else { &[][..] };
                out.extend_from_slice(fits);
                out.resize(out.len() + PATH_BYTES - fits.len(), 0);
            }
        }
    }
}

/// An address as IPv6, mapped into it where it is not.
fn octets_of_six(addr: &SocketAddr) -> [u8; 16] {
    match addr {
        SocketAddr::V4(addr) => addr.ip().to_ipv6_mapped().octets(),
        SocketAddr::V6(addr) => addr.ip().octets(),
    }
}
