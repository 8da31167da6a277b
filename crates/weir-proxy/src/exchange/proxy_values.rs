//! What the PROXY protocol header of a connection says: `{proxy.source_address}`, `{proxy.authority}` and the like.
//!
//! A claim of a peer that `proxy_protocol.from` names; nothing where there is no such header. Must not decide anything.

use weir_config::ProxyValue;
use weir_http::digits;
use weir_http::proxy_protocol::{SslTlv, Tlvs};

use super::exchange_state::client::Client;
use crate::net::peer::Peer;

/// Appends a value, as it was sent.
#[cold]
pub(in crate::exchange) fn write(client: &Client, value: ProxyValue, out: &mut Vec<u8>) {
    let Some(origin) = client.origin.as_deref() else { return };
    let tlvs = Tlvs::of_checked(origin.values.as_deref().unwrap_or_default());
    let of_tls = |name: fn(SslTlv<'_>) -> Option<&str>| tlvs.ssl().and_then(name).map(str::as_bytes);
    let found = match value {
        // Where the connection came in, without a header, is none of its words.
        _ if origin.sender.is_none() => return,
        ProxyValue::SourceAddress => {
            return client.peer.ip().into_iter().for_each(|ip| digits::address(out, ip));
        }
        ProxyValue::SourcePort => {
            let Peer::Inet(address) = client.peer else { return };
            return digits::decimal(out, address.port().into());
        }
        ProxyValue::DestinationAddress => return digits::address(out, origin.destination.ip()),
        ProxyValue::DestinationPort => return digits::decimal(out, origin.destination.port().into()),
        ProxyValue::Authority => tlvs.authority().map(str::as_bytes),
        ProxyValue::UniqueId => tlvs.unique_id(),
        ProxyValue::Alpn => tlvs.alpn(),
        ProxyValue::TlsVersion => of_tls(|tls| tls.version),
        ProxyValue::TlsCipherSuite => of_tls(|tls| tls.cipher),
        ProxyValue::TlsClientCommonName => of_tls(|tls| tls.common_name),
        ProxyValue::TlsClientVerified => of_tls(|tls| {
            (tls.client & SslTlv::TLS != 0).then_some(if is_verified(tls) { "yes" } else { "no" })
        }),
        ProxyValue::TlsSignatureAlgorithm => of_tls(|tls| tls.signature_algorithm),
        ProxyValue::TlsKeyAlgorithm => of_tls(|tls| tls.key_algorithm),
        ProxyValue::AwsVpcEndpoint => tlvs.aws_vpc_endpoint(),
        ProxyValue::Raw(kind) => tlvs.raw(kind),
    };
    out.extend_from_slice(found.unwrap_or_default());
}

/// Whether the client has presented a certificate, in this connection or in that whose session it resumes, and the sender has verified it.
fn is_verified(tls: SslTlv<'_>) -> bool {
    let presented = SslTlv::CERTIFICATE_ON_CONNECTION | SslTlv::CERTIFICATE_IN_SESSION;
    tls.client & presented != 0 && tls.verify == 0
}
