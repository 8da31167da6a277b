//! A set of known field names, and the sets that a proxy needs.

use super::name::FieldName;

/// A set of known field names, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldSet(u64);

impl FieldSet {
    /// No field.
    pub const EMPTY: Self = Self(0);

    /// Fields of a request that are never copied: those of the connection (RFC 9110 section 7.6.1), and those that are
    /// written anew for the next hop.
    pub const REQUEST_HOP: Self = Self::new(&[
        FieldName::Host,
        FieldName::ContentLength,
        FieldName::TransferEncoding,
        FieldName::Connection,
        FieldName::KeepAlive,
        FieldName::ProxyConnection,
        FieldName::Te,
        FieldName::Upgrade,
        FieldName::Http2Settings,
    ]);

    /// Fields by which a client could pass for another client or another origin; only trusted proxies may send them.
    pub const REQUEST_ORIGIN: Self = Self::new(&[
        FieldName::XForwardedFor,
        FieldName::XForwardedProto,
        FieldName::XForwardedHost,
        FieldName::XForwardedPort,
        FieldName::Forwarded,
        FieldName::XForwardedOther,
        FieldName::XRealIp,
    ]);

    /// Fields by which a server asks the proxy in front of it for something: no matter of a client.
    pub const FOR_PROXY: Self = Self::new(&[
        FieldName::XAccelRedirect,
        FieldName::XAccelExpires,
        FieldName::XAccelBuffering,
        FieldName::XAccelLimitRate,
        FieldName::XAccelCharset,
        FieldName::XSendfile,
    ]);

    /// Fields of a response that are never copied: those of the connection, and those [for the proxy](Self::FOR_PROXY).
    pub const RESPONSE_HOP: Self = Self::new(&[
        FieldName::ContentLength,
        FieldName::TransferEncoding,
        FieldName::Connection,
        FieldName::KeepAlive,
        FieldName::ProxyConnection,
        FieldName::Te,
        FieldName::Upgrade,
    ])
    .with(Self::FOR_PROXY);

    /// The set of `names`.
    pub const fn new(names: &[FieldName]) -> Self {
        let mut bits = 0;
        let mut index = 0;
        while index < names.len() {
            bits |= 1 << names[index] as u8;
            index += 1;
        }
        Self(bits)
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `name` is in the set.
    pub const fn contains(self, name: FieldName) -> bool {
        self.0 >> name as u8 & 1 != 0
    }
}

// Each name has a bit.
const _: () = assert!(FieldName::Other as u8 <= 63);
