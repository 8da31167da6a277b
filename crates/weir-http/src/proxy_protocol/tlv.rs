//! The values of a header of version 2 besides the addresses, each behind its type and length (section 2.2).
//!
//! All of them are checked when the header is parsed, so that reading them later cannot fail.

use super::{ProxyHeaderError, checksum};

const ALPN: u8 = 0x01;
const AUTHORITY: u8 = 0x02;
const CRC32C: u8 = 0x03;
const NOOP: u8 = 0x04;
const UNIQUE_ID: u8 = 0x05;
const SSL: u8 = 0x20;
const SSL_VERSION: u8 = 0x21;
const SSL_CN: u8 = 0x22;
const SSL_CIPHER: u8 = 0x23;
const SSL_SIG_ALG: u8 = 0x24;
const SSL_KEY_ALG: u8 = 0x25;
const NETNS: u8 = 0x30;
const AWS: u8 = 0xea;
const AWS_VPC_ENDPOINT: u8 = 0x01;

/// The longest unique id (section 2.2.5), in bytes.
const UNIQUE_ID_BYTES_MAX: usize = 128;
/// The longest name that is written, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// One value of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tlv<'a> {
    /// The application protocol of the connection.
    Alpn(&'a [u8]),
    /// The host name that the client asked for.
    Authority(&'a str),
    /// The checksum of the header, which is right.
    Checksum(u32),
    /// Nothing: fills up.
    Noop,
    /// The sender's name of the connection.
    UniqueId(&'a [u8]),
    /// The TLS connection of the client.
    Ssl(SslTlv<'a>),
    /// The network namespace of the sender's socket.
    Namespace(&'a str),
    /// Of a type without a meaning here.
    Other {
        /// The type.
        kind: u8,
        /// The value.
        value: &'a [u8],
    },
}

/// The values of a header of version 2 besides the addresses. A value that is too long is left out, not cut: half a name is
/// another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlvValues<'a> {
    /// The application protocol of the connection, as in ALPN; 255 bytes at most.
    pub alpn: Option<&'a [u8]>,
    /// The host name that the client asked for, as in SNI; 255 bytes at most.
    pub authority: Option<&'a str>,
    /// The sender's name of the connection; 128 bytes at most.
    pub unique_id: Option<&'a [u8]>,
    /// The TLS connection of the client; absent when it has none.
    pub ssl: Option<SslTlv<'a>>,
    /// Whether a checksum of the header goes with it.
    pub checksum: bool,
}

/// The facts about the TLS connection of a client (section 2.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SslTlv<'a> {
    /// The facts, in bits: [`SslTlv::TLS`], [`SslTlv::CERTIFICATE_ON_CONNECTION`], [`SslTlv::CERTIFICATE_IN_SESSION`].
    pub client: u8,
    /// Zero when the client presented a certificate that was verified.
    pub verify: u32,
    /// Version of TLS, such as `TLSv1.3`.
    pub version: Option<&'a str>,
    /// Common name of the client's certificate.
    pub common_name: Option<&'a str>,
    /// Name of the cipher suite.
    pub cipher: Option<&'a str>,
    /// Algorithm that signed the certificate of the listener.
    pub signature_algorithm: Option<&'a str>,
    /// Algorithm of the key of that certificate.
    pub key_algorithm: Option<&'a str>,
}

impl SslTlv<'_> {
    /// The client connected over TLS.
    pub const TLS: u8 = 0x01;
    /// The client presented a certificate over this connection.
    pub const CERTIFICATE_ON_CONNECTION: u8 = 0x02;
    /// The client presented a certificate at least once in the TLS session.
    pub const CERTIFICATE_IN_SESSION: u8 = 0x04;
}

/// The values of one header, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tlvs<'a> {
    bytes: &'a [u8],
}

impl<'a> Tlvs<'a> {
    /// Those of a header that was parsed before, by [`as_bytes`](Self::as_bytes).
    pub const fn of_checked(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Their bytes, to be kept longer than the header.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The value of the first of a type, as it was sent.
    pub fn raw(self, kind: u8) -> Option<&'a [u8]> {
        raw(self.bytes).map_while(Result::ok).find_map(|(known, value)| (known == kind).then_some(value))
    }

    /// The application protocol of the connection, if the header names it.
    pub fn alpn(self) -> Option<&'a [u8]> {
        self.raw(ALPN)
    }

    /// The TLS connection of the client, if it has one.
    pub fn ssl(self) -> Option<SslTlv<'a>> {
        self.iter().find_map(|tlv| if let Tlv::Ssl(ssl) = tlv { Some(ssl) } else { None })
    }

    /// The VPC endpoint that the client came through, by the balancer of AWS: a type of the vendor, with a type of its own in front.
    pub fn aws_vpc_endpoint(self) -> Option<&'a [u8]> {
        match self.raw(AWS)? {
            [AWS_VPC_ENDPOINT, id @ ..] => Some(id),
            _ => None,
        }
    }

    /// The values, those of unknown types included.
    pub fn iter(self) -> impl Iterator<Item = Tlv<'a>> {
        raw(self.bytes).map_while(Result::ok).map_while(|(kind, value)| read(kind, value))
    }

    /// The host name that the client asked for, if the header names one.
    pub fn authority(self) -> Option<&'a str> {
        self.iter().find_map(|tlv| if let Tlv::Authority(name) = tlv { Some(name) } else { None })
    }

    /// The sender's name of the connection, if it has one.
    pub fn unique_id(self) -> Option<&'a [u8]> {
        self.iter().find_map(|tlv| if let Tlv::UniqueId(id) = tlv { Some(id) } else { None })
    }
}

/// Checks that `bytes`, which end `header`, are TLVs without a mistake.
pub(super) fn check<'a>(header: &'a [u8], bytes: &'a [u8]) -> Result<Tlvs<'a>, ProxyHeaderError> {
    let mut summed = false;
    let mut at = header.len() - bytes.len();
    for tlv in raw(bytes) {
        let (kind, value) = tlv?;
        at += 3;
        match read(kind, value) {
            None => return Err(ProxyHeaderError::BadTlv),
            Some(Tlv::Checksum(_)) if std::mem::replace(&mut summed, true) => {
                return Err(ProxyHeaderError::BadTlv);
            }
            Some(Tlv::Checksum(sum)) => {
                let (before, behind) = (&header[..at], &header[at + value.len()..]);
                if checksum::crc32c(&[before, &[0; 4], behind]) != sum {
                    return Err(ProxyHeaderError::BadChecksum);
                }
            }
            Some(_) => {}
        }
        at += value.len();
    }
    Ok(Tlvs { bytes })
}

/// Type and value of each TLV; ends with an error where one does not fit.
fn raw(bytes: &[u8]) -> impl Iterator<Item = Result<(u8, &[u8]), ProxyHeaderError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (kind, len, behind) = match std::mem::take(&mut rest) {
            [] => return None,
            [kind, high, low, behind @ ..] => (*kind, u16::from_be_bytes([*high, *low]), behind),
            _ => return Some(Err(ProxyHeaderError::BadTlv)),
        };
        let Some((value, behind)) = behind.split_at_checked(len.into()) else {
            return Some(Err(ProxyHeaderError::BadTlv));
        };
        rest = behind;
        Some(Ok((kind, value)))
    })
}

/// Reads one value; `None` when it is invalid for its type.
fn read(kind: u8, value: &[u8]) -> Option<Tlv<'_>> {
    Some(match kind {
        ALPN => Tlv::Alpn(value),
        AUTHORITY => Tlv::Authority(std::str::from_utf8(value).ok()?),
        CRC32C => Tlv::Checksum(u32::from_be_bytes(value.try_into().ok()?)),
        NOOP => Tlv::Noop,
        UNIQUE_ID if value.len() > UNIQUE_ID_BYTES_MAX => return None,
        UNIQUE_ID => Tlv::UniqueId(value),
        SSL => Tlv::Ssl(read_ssl(value)?),
        NETNS => Tlv::Namespace(ascii(value)?),
        kind => Tlv::Other { kind, value },
    })
}

fn read_ssl(value: &[u8]) -> Option<SslTlv<'_>> {
    let (&client, value) = value.split_first()?;
    let (verify, inner) = value.split_first_chunk()?;
    let mut ssl = SslTlv { client, verify: u32::from_be_bytes(*verify), ..SslTlv::default() };
    for tlv in raw(inner) {
        let (kind, value) = tlv.ok()?;
        match kind {
            SSL_VERSION => ssl.version = Some(ascii(value)?),
            SSL_CN => ssl.common_name = Some(std::str::from_utf8(value).ok()?),
            SSL_CIPHER => ssl.cipher = Some(ascii(value)?),
            SSL_SIG_ALG => ssl.signature_algorithm = Some(ascii(value)?),
            SSL_KEY_ALG => ssl.key_algorithm = Some(ascii(value)?),
            _ => {}
        }
    }
    Some(ssl)
}

fn ascii(value: &[u8]) -> Option<&str> {
    std::str::from_utf8(value).ok().filter(|text| text.is_ascii())
}

/// Appends `claims`, without the checksum.
pub(super) fn write(out: &mut Vec<u8>, claims: &TlvValues<'_>) {
    let name = |bytes: &&[u8]| bytes.len() <= NAME_BYTES_MAX;
    if let Some(protocol) = claims.alpn.filter(name) {
        write_one(out, ALPN, protocol);
    }
    if let Some(authority) = claims.authority.map(str::as_bytes).filter(name) {
        write_one(out, AUTHORITY, authority);
    }
    if let Some(id) = claims.unique_id.filter(|id| id.len() <= UNIQUE_ID_BYTES_MAX) {
        write_one(out, UNIQUE_ID, id);
    }
    if let Some(ssl) = &claims.ssl {
        write_ssl(out, ssl);
    }
}

/// Appends a checksum of zero and returns where it stands.
pub(super) fn write_checksum_room(out: &mut Vec<u8>) -> usize {
    write_one(out, CRC32C, &[0; 4]);
    out.len() - 4
}

fn write_one(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    out.push(kind);
    // Every value that is written has a maximum far below 64 KiB.
    out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
}

fn write_ssl(out: &mut Vec<u8>, ssl: &SslTlv<'_>) {
    let start = out.len();
    out.extend_from_slice(&[SSL, 0, 0, ssl.client]);
    out.extend_from_slice(&ssl.verify.to_be_bytes());
    let texts = [
        (SSL_VERSION, ssl.version),
        (SSL_CN, ssl.common_name),
        (SSL_CIPHER, ssl.cipher),
        (SSL_SIG_ALG, ssl.signature_algorithm),
        (SSL_KEY_ALG, ssl.key_algorithm),
    ];
    for (kind, text) in texts {
        if let Some(text) = text.filter(|text| text.len() <= NAME_BYTES_MAX) {
            write_one(out, kind, text.as_bytes());
        }
    }
    let len = (out.len() - start - 3) as u16;
    out[start + 1..start + 3].copy_from_slice(&len.to_be_bytes());
}
