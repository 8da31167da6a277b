//! Values of a PROXY protocol header: `{proxy.source_address}`, and of version 2 `{proxy.authority}`, `{proxy.tlv.0xea}`.

/// What stands before the name.
pub(super) const PROXY: &str = "proxy.";

/// What stands before the type of a raw value.
const RAW: &str = "tlv.";

/// A value that the header of a client connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ProxyValue {
    /// The address of the client.
    SourceAddress,
    /// The port of the client.
    SourcePort,
    /// The address that the client connected to.
    DestinationAddress,
    /// The port that the client connected to.
    DestinationPort,
    /// The host name that the client asked for.
    Authority,
    /// The sender's name of the connection.
    UniqueId,
    /// The application protocol of the connection.
    Alpn,
    /// The version of TLS with the client.
    TlsVersion,
    /// The cipher suite with the client.
    TlsCipherSuite,
    /// The common name of the certificate of the client.
    TlsClientCommonName,
    /// Whether the certificate of the client was verified.
    TlsClientVerified,
    /// The algorithm that signed the certificate of the sender.
    TlsSignatureAlgorithm,
    /// The algorithm of the key of that certificate.
    TlsKeyAlgorithm,
    /// The VPC endpoint of AWS that the client came through.
    AwsVpcEndpoint,
    /// The value of this type as it was sent.
    Raw(u8),
}

/// The names, without `proxy.`, and what they stand for.
const NAMES: [(&str, ProxyValue, &str); 14] = [
    (
        "source_address",
        ProxyValue::SourceAddress,
        "Address of the client by the PROXY header; nothing where it names none (`UNKNOWN`, `LOCAL`), and without a header.",
    ),
    ("source_port", ProxyValue::SourcePort, "Port of the client by the PROXY header."),
    (
        "destination_address",
        ProxyValue::DestinationAddress,
        "Address that the client connected to by the PROXY header.",
    ),
    (
        "destination_port",
        ProxyValue::DestinationPort,
        "Port that the client connected to by the PROXY header.",
    ),
    (
        "authority",
        ProxyValue::Authority,
        "Host name that the client asked the sender of the PROXY header for (SNI).",
    ),
    (
        "unique_id",
        ProxyValue::UniqueId,
        "Id that the sender of the PROXY header has given to the connection.",
    ),
    ("alpn", ProxyValue::Alpn, "Application protocol of the connection, by the PROXY header."),
    (
        "tls.version",
        ProxyValue::TlsVersion,
        "Version of TLS between the client and the sender of the PROXY header, such as `TLSv1.3`.",
    ),
    ("tls.cipher_suite", ProxyValue::TlsCipherSuite, "Cipher suite between them, as the sender names it."),
    (
        "tls.client.common_name",
        ProxyValue::TlsClientCommonName,
        "Common name of the certificate of the client; see `{proxy.tls.client.verified}`.",
    ),
    (
        "tls.client.verified",
        ProxyValue::TlsClientVerified,
        "`yes` if the client has presented a certificate that the sender has verified, else `no`; nothing without TLS.",
    ),
    (
        "tls.signature_algorithm",
        ProxyValue::TlsSignatureAlgorithm,
        "Algorithm that signed the certificate of the sender.",
    ),
    ("tls.key_algorithm", ProxyValue::TlsKeyAlgorithm, "Algorithm of the key of that certificate."),
    ("aws.vpc_endpoint", ProxyValue::AwsVpcEndpoint, "VPC endpoint of AWS that the client came through."),
];

impl ProxyValue {
    /// The value that a placeholder of this name stands for, with `proxy.`.
    pub fn of_placeholder(name: &str) -> Option<Self> {
        Self::from_name(name.strip_prefix(PROXY)?)
    }

    /// Whether it is part of the addresses, which are known of each header.
    pub(super) fn is_address(self) -> bool {
        use ProxyValue::{DestinationAddress, DestinationPort, SourceAddress, SourcePort};
        matches!(self, SourceAddress | SourcePort | DestinationAddress | DestinationPort)
    }

    /// The value of this name, which is without `proxy.`.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name.strip_prefix(RAW) {
            Some(kind) => raw_kind(kind).map(Self::Raw),
            None => NAMES.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| *value),
        }
    }

    /// Its name, without `proxy.`.
    pub(super) fn name(self) -> String {
        match self {
            Self::Raw(kind) => format!("{RAW}{kind:#04x}"),
            plain => {
                NAMES.iter().find(|(_, value, _)| *value == plain).map_or("", |(name, ..)| name).to_owned()
            }
        }
    }

    /// The names of those without a number, without `proxy.`.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, ..)| *name)
    }

    /// What they stand for, for the reference.
    pub(super) fn meanings() -> impl Iterator<Item = (&'static str, &'static str)> {
        NAMES.iter().map(|(name, _, meaning)| (*name, *meaning))
    }
}

/// The number of a type: hexadecimal with `0x`, or decimal.
fn raw_kind(text: &str) -> Option<u8> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            u8::from_str_radix(digits, 16).ok()
        }
        Some(_) => None,
        None => text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_printed() {
        for (name, _, _) in NAMES {
            assert_eq!(ProxyValue::from_name(name).map(ProxyValue::name).as_deref(), Some(name));
        }
        for (name, expected) in [
            ("tlv.0xEA", Some("tlv.0xea")),
            ("tlv.234", Some("tlv.0xea")),
            ("tlv.0x5", Some("tlv.0x05")),
            ("tlv.256", None),
            ("tlv.0x100", None),
            ("tlv.+5", None),
            ("tlv.0x+5", None),
            ("tlv.", None),
            ("tlv", None),
            ("tls", None),
        ] {
            assert_eq!(ProxyValue::from_name(name).map(ProxyValue::name).as_deref(), expected, "{name}");
        }
    }
}
