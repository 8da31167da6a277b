//! PROXY protocol headers: the same however they arrive, and their values read back the same when written again.

use crate::pieces::growths;
use weir_http::proxy_protocol::{
    Endpoints, HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError, ProxyHeaderProgress, ProxyHeaderVersion, Tlv,
    TlvValues, parse, write_v1, write_v2,
};

fn parse_grown<'a>(
    input: &'a [u8],
    growth: &[usize],
    bytes_max: usize,
) -> Result<ProxyHeaderProgress<'a>, ProxyHeaderError> {
    let mut progress = Ok(ProxyHeaderProgress::Incomplete);
    for &len in growth {
        progress = parse(&input[..len], bytes_max);
        if progress != Ok(ProxyHeaderProgress::Incomplete) {
            break;
        }
    }
    progress
}

/// The values that Weir would pass on: the last of each type, if it has a place.
fn claims<'a>(header: &ProxyHeader<'a>) -> TlvValues<'a> {
    let mut claims = TlvValues::default();
    for tlv in header.tlvs.iter() {
        match tlv {
            Tlv::Alpn(protocol) => claims.alpn = Some(protocol),
            Tlv::Authority(name) => claims.authority = Some(name),
            Tlv::Checksum(_) => claims.checksum = true,
            Tlv::UniqueId(id) => claims.unique_id = Some(id),
            Tlv::Ssl(ssl) => claims.ssl = Some(ssl),
            Tlv::Noop | Tlv::Namespace(_) | Tlv::Other { .. } => {}
        }
    }
    claims
}

/// `claims` without the texts that are too long to be written.
fn within_limits(claims: TlvValues<'_>) -> bool {
    let texts = claims.ssl.map_or([None; 5], |ssl| {
        [ssl.version, ssl.common_name, ssl.cipher, ssl.signature_algorithm, ssl.key_algorithm]
    });
    claims.alpn.is_none_or(|alpn| alpn.len() <= 255)
        && claims.authority.is_none_or(|name| name.len() <= 255)
        && texts.into_iter().flatten().all(|text| text.len() <= 255)
}

fn check_written(header: &ProxyHeader<'_>) {
    let mut line = Vec::new();
    write_v1(&mut line, &header.endpoints);
    let Ok(ProxyHeaderProgress::Complete(read)) = parse(&line, HEADER_BYTES_MAX) else { panic!("{line:?}") };
    assert_eq!(read.len, line.len());
    if let Endpoints::Inet { .. } = header.endpoints {
        assert_eq!(read.endpoints, header.endpoints);
    }
    let claims = claims(header);
    let mut binary = Vec::new();
    write_v2(&mut binary, &header.endpoints, &claims);
    let Ok(ProxyHeaderProgress::Complete(read)) = parse(&binary, usize::MAX) else { panic!("{binary:?}") };
    assert_eq!(
        (read.len, read.version, read.endpoints),
        (binary.len(), ProxyHeaderVersion::V2, header.endpoints)
    );
    if within_limits(claims) {
        assert_eq!(self::claims(&read), claims);
    }
}

/// Fails when `input` shows a fault.
pub fn check(input: &[u8]) {
    for bytes_max in [240, HEADER_BYTES_MAX] {
        let whole = parse(input, bytes_max);
        for growth in growths(input) {
            assert_eq!(parse_grown(input, &growth, bytes_max), whole);
        }
        if let Ok(ProxyHeaderProgress::Complete(header)) = whole {
            assert!(header.len <= input.len());
            assert_eq!(parse(&input[..header.len], bytes_max), whole);
            check_written(&header);
        }
    }
}
