//! Headers as the specification writes them, as other programs send them, and malformed ones.

use std::net::SocketAddr;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::{
    Endpoints, HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError, ProxyHeaderProgress, ProxyHeaderVersion,
    SslTlv, Tlv, TlvValues, checksum, parse, write_v1, write_v2,
};

/// The 12 bytes of section 2.2.
const SIGNATURE: &[u8] = b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a";

fn inet(source: &str, destination: &str) -> Endpoints<'static> {
    let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
    Endpoints::Inet { source: addr(source), destination: addr(destination) }
}

/// A header of version 2 with this command, family and content.
fn binary(command: u8, family: u8, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &len, content].concat()
}

/// TCP over IPv4 from 192.0.2.1:4660 to 192.0.2.2:443, and `tlvs`.
fn binary4(tlvs: &[u8]) -> Vec<u8> {
    binary(0x21, 0x11, &[b"\xc0\0\x02\x01\xc0\0\x02\x02\x12\x34\x01\xbb", tlvs].concat())
}

fn whole(bytes: &[u8]) -> ProxyHeader<'_> {
    match parse(bytes, HEADER_BYTES_MAX) {
        Ok(ProxyHeaderProgress::Complete(header)) => header,
        other => panic!("{other:?} for {bytes:?}"),
    }
}

fn fault(bytes: &[u8]) -> ProxyHeaderError {
    parse(bytes, HEADER_BYTES_MAX).expect_err("a broken header")
}

/// Fails unless every beginning of `bytes` is incomplete, and the whole is the same with bytes behind it.
fn assert_incremental(bytes: &[u8]) {
    for end in 0..bytes.len() {
        assert_eq!(
            parse(&bytes[..end], HEADER_BYTES_MAX),
            Ok(ProxyHeaderProgress::Incomplete),
            "{end} of {bytes:?}"
        );
    }
    let more = [bytes, b"\r\nPROXY GET"].concat();
    assert_eq!(whole(&more), whole(bytes));
    assert_eq!(whole(bytes).len, bytes.len());
}

/// The lines of section 2.1, worst cases included.
#[test]
fn lines_of_the_specification_are_read() {
    let longest6 = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let worst6 = format!("PROXY TCP6 {longest6} {longest6} 65535 65535\r\n");
    let worst = format!("PROXY UNKNOWN {longest6} {longest6} 65535 65535\r\n");
    assert_eq!((worst6.len(), worst.len()), (104, 107));
    for (line, expected) in [
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
            inet("255.255.255.255:65535", "255.255.255.255:65535"),
        ),
        ("PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", inet("192.168.0.1:56324", "192.168.0.11:443")),
        ("PROXY TCP4 0.0.0.0 127.0.0.1 0 1\r\n", inet("0.0.0.0:0", "127.0.0.1:1")),
        ("PROXY TCP6 2001:db8::1 ::1 4124 443\r\n", inet("[2001:db8::1]:4124", "[::1]:443")),
        ("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", inet("[::ffff:192.0.2.1]:1", "[::1]:2")),
        (&worst6, inet(&format!("[{longest6}]:65535"), &format!("[{longest6}]:65535"))),
        ("PROXY UNKNOWN\r\n", Endpoints::Unknown),
        ("PROXY UNKNOWN what ever this is\r\n", Endpoints::Unknown),
        (&worst, Endpoints::Unknown),
    ] {
        assert_incremental(line.as_bytes());
        let header = whole(line.as_bytes());
        assert_eq!((header.version, header.endpoints), (ProxyHeaderVersion::V1, expected), "{line}");
    }
}

#[test]
fn lines_that_differ_in_anything_are_refused() {
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(92));
    assert_eq!(long.len(), 108);
    for (line, expected) in [
        ("GET / HTTP/1.1\r\n", ProxyHeaderError::Missing),
        ("proxy TCP4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyHeaderError::Missing),
        ("PROXY\tTCP4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyHeaderError::Missing),
        ("PROXY\r\n", ProxyHeaderError::Missing),
        ("PROXY \r\n", ProxyHeaderError::BadProtocol),
        ("PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n", ProxyHeaderError::BadProtocol),
        ("PROXY UDP4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyHeaderError::BadProtocol),
        ("PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyHeaderError::BadProtocol),
        ("PROXY UNKNOWNS\r\n", ProxyHeaderError::BadProtocol),
        ("PROXY  TCP4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyHeaderError::BadProtocol),
        ("PROXY TCP4 1.2.3.4  5.6.7.8 1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 ::1 ::1 1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP6 [::1] [::1] 1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 01.2.3.4 5.6.7.8 1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3 5.6.7.8 1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 65536 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 -1 2\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 \u{663}\r\n", ProxyHeaderError::BadAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", ProxyHeaderError::BadLine),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\rG", ProxyHeaderError::BadLine),
        ("PROXY UNKNOWN a\nb\r\n", ProxyHeaderError::BadLine),
        (&long, ProxyHeaderError::BadLine),
        (&long[..107], ProxyHeaderError::BadLine),
    ] {
        assert_eq!(fault(line.as_bytes()), expected, "{line:?}");
    }
    // The 107th byte may be the LF, but no longer the CR.
    assert_eq!(parse(&long.as_bytes()[..106], HEADER_BYTES_MAX), Ok(ProxyHeaderProgress::Incomplete));
}

/// The combinations of section 2.2 by their bytes.
#[test]
fn binary_headers_of_the_specification_are_read() {
    let six = [
        &b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01"[..],
        b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x02\xdc\x04\x01\xbb",
    ]
    .concat();
    let mut paths = [0; 216];
    paths[..8].copy_from_slice(b"/run/one");
    paths[108..112].copy_from_slice(b"\0two");
    let unix = Endpoints::Unix { source: b"/run/one", destination: b"\0two" };
    for (bytes, expected) in [
        (binary4(b""), inet("192.0.2.1:4660", "192.0.2.2:443")),
        (binary(0x21, 0x21, &six), inet("[2001:db8::1]:56324", "[2001:db8::2]:443")),
        (binary(0x21, 0x31, &paths), unix),
        (binary(0x21, 0x00, b""), Endpoints::Unknown),
        (binary(0x21, 0x00, b"no TLV"), Endpoints::Unknown),
        // Those of datagrams are valid, and as good as unspecified.
        (binary(0x21, 0x12, &[7; 12]), Endpoints::Unknown),
        (binary(0x21, 0x22, &[7; 36]), Endpoints::Unknown),
        (binary(0x21, 0x32, &[7; 216]), Endpoints::Unknown),
        (binary(0x20, 0x00, b""), Endpoints::Local),
        // Of a LOCAL header nothing counts but its length.
        (binary(0x20, 0x11, b"ignored"), Endpoints::Local),
        (binary(0x20, 0xff, b"ignored"), Endpoints::Local),
    ] {
        assert_incremental(&bytes);
        let header = whole(&bytes);
        assert_eq!((header.version, header.endpoints), (ProxyHeaderVersion::V2, expected), "{bytes:?}");
        assert_eq!(header.tlvs.iter().count(), 0);
    }
}

#[test]
fn binary_headers_that_differ_in_anything_are_refused() {
    let four = [0; 12];
    for (bytes, expected) in [
        (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), ProxyHeaderError::Missing),
        (b"\r\n\r\n\x01".to_vec(), ProxyHeaderError::Missing),
        (binary(0x11, 0x11, &four), ProxyHeaderError::BadVersion),
        (binary(0x31, 0x11, &four), ProxyHeaderError::BadVersion),
        (binary(0x22, 0x11, &four), ProxyHeaderError::BadCommand),
        (binary(0x2f, 0x11, &four), ProxyHeaderError::BadCommand),
        (binary(0x21, 0x10, &four), ProxyHeaderError::BadFamily),
        (binary(0x21, 0x01, &four), ProxyHeaderError::BadFamily),
        (binary(0x21, 0x41, &four), ProxyHeaderError::BadFamily),
        (binary(0x21, 0x13, &four), ProxyHeaderError::BadFamily),
        (binary(0x21, 0x11, &four[1..]), ProxyHeaderError::BadLength),
        (binary(0x21, 0x21, &[0; 35]), ProxyHeaderError::BadLength),
        (binary(0x21, 0x31, &[0; 215]), ProxyHeaderError::BadLength),
        (binary(0x21, 0x11, &[0; HEADER_BYTES_MAX]), ProxyHeaderError::TooLarge),
        (binary(0x20, 0x00, &[0; HEADER_BYTES_MAX - 15]), ProxyHeaderError::TooLarge),
    ] {
        assert_eq!(fault(&bytes), expected, "{bytes:?}");
    }
    // An error is reported as soon as it is certain, not when the header is whole.
    assert_eq!(fault(&binary(0x11, 0x11, &four)[..13]), ProxyHeaderError::BadVersion);
    assert_eq!(fault(&binary(0x21, 0x13, &four)[..16]), ProxyHeaderError::BadFamily);
    assert_eq!(fault(&binary(0x21, 0x11, &[0; HEADER_BYTES_MAX])[..16]), ProxyHeaderError::TooLarge);
    assert_eq!(whole(&binary(0x20, 0, &[0; HEADER_BYTES_MAX - 16])).len, HEADER_BYTES_MAX);
}

#[test]
fn values_behind_the_addresses_are_read() {
    let tlvs = [
        &b"\x01\0\x02h2\x02\0\x09a.example\x04\0\x01?\x05\0\x03\x01\xff\0\x30\0\x02ns\xea\0\x01x"[..],
        b"\x20\0\x34\x05\0\0\0\0\x21\0\x07TLSv1.3\x22\0\x03\xc3\xa9x\x23\0\x04ABCD\x24\0\x06SHA256\x25\0\x07RSA2048\x2f\0\x02??",
    ]
    .concat();
    let bytes = binary4(&tlvs);
    assert_incremental(&bytes);
    let header = whole(&bytes);
    let found: Vec<_> = header.tlvs.iter().collect();
    let ssl = SslTlv {
        client: SslTlv::TLS | SslTlv::CERTIFICATE_IN_SESSION,
        verify: 0,
        version: Some("TLSv1.3"),
        common_name: Some("\u{e9}x"),
        cipher: Some("ABCD"),
        signature_algorithm: Some("SHA256"),
        key_algorithm: Some("RSA2048"),
    };
    let expected = [
        Tlv::Alpn(b"h2"),
        Tlv::Authority("a.example"),
        Tlv::Noop,
        Tlv::UniqueId(b"\x01\xff\0"),
        Tlv::Namespace("ns"),
        Tlv::Other { kind: 0xea, value: b"x" },
        Tlv::Ssl(ssl),
    ];
    assert_eq!(found, expected);
    assert_eq!(header.tlvs.authority(), Some("a.example"));
    assert_eq!(header.tlvs.unique_id(), Some(&b"\x01\xff\0"[..]));
}

#[test]
fn values_that_break_their_rules_are_refused() {
    let long_id = [&[5, 0, 129][..], &[7; 129]].concat();
    let tlvs: [&[u8]; 13] = [
        b"\x04",
        b"\x04\0",
        b"\x04\0\x01",
        b"\x04\0\0\x04\0\x02x",
        b"\x02\0\x01\xff",
        b"\x03\0\x03abc",
        b"\x03\0\x05abcde",
        &long_id,
        b"\x20\0\x04\x01\0\0\0",
        b"\x20\0\x07\x01\0\0\0\0\x21\0",
        b"\x20\0\x09\x01\0\0\0\0\x21\0\x01\xe9",
        b"\x30\0\x01\xe9",
        b"\x30\0\x02\xc3\xa9",
    ];
    for tlvs in tlvs {
        assert_eq!(fault(&binary4(tlvs)), ProxyHeaderError::BadTlv, "{tlvs:?}");
    }
}

/// The check value of CRC-32C, and the vectors of RFC 3720 appendix B.4.
#[test]
fn the_checksum_is_that_of_castagnoli() {
    let ascending: Vec<u8> = (0..32).collect();
    for (bytes, expected) in [
        (&b"123456789"[..], 0xe306_9283_u32),
        (&[0; 32], 0x8a91_36aa),
        (&[0xff; 32], 0x62a8_ab43),
        (&ascending, 0x46dd_794e),
        (b"", 0),
    ] {
        assert_eq!(checksum::crc32c(&[bytes]), expected);
        let (front, back) = bytes.split_at(bytes.len() / 3);
        assert_eq!(checksum::crc32c(&[front, back]), expected);
    }
}

#[test]
fn a_checksum_counts_for_every_byte_of_the_header() {
    let mut bytes = Vec::new();
    let claims = TlvValues { authority: Some("a.example"), checksum: true, ..TlvValues::default() };
    write_v2(&mut bytes, &inet("192.0.2.1:1", "192.0.2.2:2"), &claims);
    assert!(matches!(whole(&bytes).tlvs.iter().last(), Some(Tlv::Checksum(_))));
    for place in 16..bytes.len() {
        let mut broken = bytes.clone();
        broken[place] ^= 1;
        assert!(parse(&broken, HEADER_BYTES_MAX).is_err(), "byte {place}");
    }
    let len = bytes.len();
    bytes[len - 1] ^= 0x80;
    assert_eq!(fault(&bytes), ProxyHeaderError::BadChecksum);
    // Two checksums cannot both be right.
    let zero = b"\x03\0\x04\0\0\0\0\x03\0\x04\0\0\0\0";
    assert!(matches!(fault(&binary4(zero)), ProxyHeaderError::BadTlv | ProxyHeaderError::BadChecksum));
}

#[test]
fn headers_are_written_as_the_specification_shows_them() {
    let line = |endpoints: Endpoints<'_>| {
        let mut out = b"before ".to_vec();
        write_v1(&mut out, &endpoints);
        String::from_utf8(out).unwrap()
    };
    let mapped = inet("[::ffff:192.0.2.1]:1", "[2001:db8::2]:2");
    for (endpoints, expected) in [
        (inet("192.168.0.1:56324", "192.168.0.11:443"), "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n"),
        (inet("[::1]:0", "[2001:db8::2]:2"), "PROXY TCP6 ::1 2001:db8::2 0 2\r\n"),
        (inet("192.0.2.1:1", "[2001:db8::2]:2"), "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"),
        (mapped, "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"),
        (Endpoints::Local, "PROXY UNKNOWN\r\n"),
        (Endpoints::Unknown, "PROXY UNKNOWN\r\n"),
        (Endpoints::Unix { source: b"", destination: b"/a" }, "PROXY UNKNOWN\r\n"),
    ] {
        assert_eq!(line(endpoints), format!("before {expected}"));
    }
    let written = |endpoints: Endpoints<'_>, claims: &TlvValues<'_>| {
        let mut out = Vec::new();
        write_v2(&mut out, &endpoints, claims);
        out
    };
    let four = inet("192.0.2.1:4660", "192.0.2.2:443");
    assert_eq!(written(four, &TlvValues::default()), binary4(b""));
    let claims = TlvValues {
        alpn: Some(b"h2"),
        authority: Some("a"),
        unique_id: Some(b"\x01"),
        ssl: Some(SslTlv { client: SslTlv::TLS, verify: 1, version: Some("TLSv1.3"), ..SslTlv::default() }),
        checksum: false,
    };
    let tlvs = b"\x01\0\x02h2\x02\0\x01a\x05\0\x01\x01\x20\0\x0f\x01\0\0\0\x01\x21\0\x07TLSv1.3";
    assert_eq!(written(four, &claims), binary4(tlvs));
    assert_eq!(written(Endpoints::Local, &claims), binary(0x20, 0, b""));
    assert_eq!(written(Endpoints::Unknown, &TlvValues::default()), binary(0x21, 0, b""));
    // A value that is too long is left out as a whole.
    let long = "x".repeat(256);
    let too_long = TlvValues { authority: Some(&long), unique_id: Some(&[0; 129]), ..TlvValues::default() };
    assert_eq!(written(four, &too_long), binary4(b""));
}

fn any_endpoints() -> impl Strategy<Value = Endpoints<'static>> {
    let inet = any::<(SocketAddr, SocketAddr)>().prop_map(|(source, destination)| Endpoints::Inet {
        source: without_scope(source),
        destination: without_scope(destination),
    });
    let unix = Just(Endpoints::Unix { source: b"", destination: b"/run/weir.sock" });
    prop_oneof![8 => inet, 1 => unix, 1 => Just(Endpoints::Unknown), 1 => Just(Endpoints::Local)]
}

/// Neither version can say the scope of a link-local address.
fn without_scope(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip(), addr.port())
}

/// Both ends in the family that a header has for them.
fn in_one_family(endpoints: Endpoints<'_>) -> Endpoints<'_> {
    let Endpoints::Inet { source, destination } = endpoints else { return endpoints };
    if source.is_ipv4() == destination.is_ipv4() {
        return endpoints;
    }
    let six = |addr: SocketAddr| match addr {
        SocketAddr::V4(four) => (four.ip().to_ipv6_mapped(), four.port()).into(),
        six => six,
    };
    Endpoints::Inet { source: six(source), destination: six(destination) }
}

proptest! {
    #[test]
    fn a_line_reads_back_as_it_was_written(endpoints in any_endpoints()) {
        let mut bytes = Vec::new();
        write_v1(&mut bytes, &endpoints);
        assert_incremental(&bytes);
        let expected = match in_one_family(endpoints) {
            Endpoints::Inet { source, destination } => Endpoints::Inet { source, destination },
            _ => Endpoints::Unknown,
        };
        prop_assert_eq!(whole(&bytes).endpoints, expected);
    }

    #[test]
    fn a_binary_header_reads_back_as_it_was_written(
        endpoints in any_endpoints(),
        alpn in option::of(vec(any::<u8>(), 0..255)),
        authority in option::of("\\PC{0,60}"),
        id in option::of(vec(any::<u8>(), 0..128)),
        tls in option::of((any::<u8>(), any::<u32>(), option::of("[ -~]{0,30}"), option::of("\\PC{0,30}"))),
        checksum in any::<bool>(),
    ) {
        let ssl = tls.as_ref().map(|(client, verify, version, name)| SslTlv {
            client: *client,
            verify: *verify,
            version: version.as_deref(),
            common_name: name.as_deref(),
            ..SslTlv::default()
        });
        let claims = TlvValues {
            alpn: alpn.as_deref(),
            authority: authority.as_deref(),
            unique_id: id.as_deref(),
            ssl,
            checksum,
        };
        let mut bytes = Vec::new();
        write_v2(&mut bytes, &endpoints, &claims);
        assert_incremental(&bytes);
        let header = whole(&bytes);
        prop_assert_eq!(header.endpoints, in_one_family(endpoints));
        if matches!(endpoints, Endpoints::Inet { .. } | Endpoints::Unix { .. }) {
            let expected = [
                claims.alpn.map(Tlv::Alpn),
                claims.authority.map(Tlv::Authority),
                claims.unique_id.map(Tlv::UniqueId),
                claims.ssl.map(Tlv::Ssl),
            ];
            let found: Vec<_> =
                header.tlvs.iter().filter(|tlv| !matches!(tlv, Tlv::Checksum(_))).collect();
            prop_assert_eq!(found, expected.into_iter().flatten().collect::<Vec<_>>());
            prop_assert_eq!(header.tlvs.iter().any(|tlv| matches!(tlv, Tlv::Checksum(_))), checksum);
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in vec(any::<u8>(), 0..80), begin in 0..4_u8) {
        let bytes = match begin {
            0 => bytes,
            1 => [b"PROXY TCP4 ", &bytes[..]].concat(),
            2 => binary4(&bytes),
            _ => [SIGNATURE, &[0x21], &bytes].concat(),
        };
        if let Ok(ProxyHeaderProgress::Complete(header)) = parse(&bytes, HEADER_BYTES_MAX) {
            assert!(header.len <= bytes.len());
        }
    }
}
