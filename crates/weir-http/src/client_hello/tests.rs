//! Hellos of real clients, of every shape that a client may choose, and hostile ones.

use proptest::collection::vec;
use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

use super::{CLIENT_HELLO_BYTES_MAX, ClientHello, HelloError, HelloProgress};

/// OpenSSL 3.0: TLS 1.2 and 1.3, server name `Www.Example.com`, protocols h2 and http/1.1.
const OPENSSL: &str = "160301014e0100014a03039cd73bb82a6c0cd0f20db58177331a843c3ae01bf1cc304c3d76e1f28997e31420be7372b4 \
     d3890450e383216affd11ddc02c30a3f5940fb98480193a810ba4b60003e130213031301c02cc030009fcca9cca8ccaa \
     c02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c0035002f00ff010000c3 \
     00000014001200000f5777772e4578616d706c652e636f6d000b000403000102000a00160014001d0017001e00190018 \
     01000101010201030104002300000010000e000c02683208687474702f312e310016000000170000000d002a00280403 \
     05030603080708080809080a080b080408050806040105010601030303010302040205020602002b0009080304030303 \
     020301002d00020101003300260024001d002001e4c1cdb5252d24dcd217ad4142221839022b39a3fb469a26ef120355 \
     0aea5a";

/// OpenSSL 3.0, TLS 1.2 alone, without a name.
const NAMELESS: &str = "16030100b7010000b30303676c80d17d2b0fe3490cbd7d4cf4efef7fa854b76ea7c0894fa08708bf1f8057000038c02c \
     c030009fcca9cca8ccaac02bc02f009ec024c028006bc023c0270067c00ac0140039c009c0130033009d009c003d003c \
     0035002f00ff01000052000b000403000102000a000c000a001d0017001e00190018002300000016000000170000000d \
     002a0028040305030603080708080809080a080b080408050806040105010601030303010302040205020602";

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// `body` behind its length in `width` bytes.
fn vector(width: usize, body: &[u8]) -> Vec<u8> {
    let mut vector = (body.len() as u64).to_be_bytes()[8 - width..].to_vec();
    vector.extend_from_slice(body);
    vector
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector(2, body)].concat()
}

fn server_name(names: &[(u8, &[u8])]) -> Vec<u8> {
    let names: Vec<u8> =
        names.iter().flat_map(|(kind, name)| [vec![*kind], vector(2, name)].concat()).collect();
    extension(0, &vector(2, &names))
}

fn protocols(names: &[&[u8]]) -> Vec<u8> {
    let names: Vec<u8> = names.iter().flat_map(|name| vector(1, name)).collect();
    extension(16, &vector(2, &names))
}

/// The message of a hello with these extensions; `None`: none at all, as of old.
fn message(version: u16, extensions: Option<&[u8]>) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&vector(1, &[9; 32]));
    body.extend_from_slice(&vector(2, &[0x0a, 0x0a, 0x13, 0x01]));
    body.extend_from_slice(&vector(1, &[0]));
    if let Some(extensions) = extensions {
        body.extend_from_slice(&vector(2, extensions));
    }
    [vec![1], vector(3, &body)].concat()
}

/// `message` in records of `len` bytes.
fn records(message: &[u8], len: usize) -> Vec<u8> {
    message.chunks(len).flat_map(|piece| [vec![22, 3, 1], vector(2, piece)].concat()).collect()
}

fn hello(extensions: &[u8]) -> Vec<u8> {
    records(&message(0x0303, Some(extensions)), 1 << 14)
}

fn parse(received: &[u8]) -> (ClientHello, Result<HelloProgress, HelloError>) {
    let mut hello = ClientHello::new();
    let outcome = hello.parse(received, CLIENT_HELLO_BYTES_MAX);
    (hello, outcome)
}

/// The names of a whole hello.
fn found(received: &[u8]) -> (Option<String>, Vec<Vec<u8>>) {
    let (hello, outcome) = parse(received);
    assert_eq!(outcome, Ok(HelloProgress::Complete));
    (hello.server_name().map(str::to_owned), hello.protocols().map(<[u8]>::to_vec).collect())
}

fn fault(received: &[u8]) -> HelloError {
    let (hello, outcome) = parse(received);
    assert_eq!(hello.server_name(), None, "nothing is said about a broken hello");
    outcome.expect_err("a broken hello")
}

#[test]
fn the_name_and_the_protocols_of_real_clients_are_found() {
    let (name, protocols) = found(&bytes_of(OPENSSL));
    assert_eq!(name.as_deref(), Some("www.example.com"));
    assert_eq!(protocols, [b"h2".as_slice(), b"http/1.1"]);
    assert_eq!(found(&bytes_of(NAMELESS)), (None, vec![]));
}

#[test]
fn a_hello_may_arrive_byte_by_byte_in_records_of_any_length() {
    for whole in [bytes_of(OPENSSL), bytes_of(NAMELESS)] {
        let expected = found(&whole);
        for len in [1, 2, 3, 4, 5, 60, 100, 1 << 14] {
            let mut cut = records(&whole[5..], len);
            let mut promised = 0;
            for end in 0..cut.len() {
                let (_, outcome) = parse(&cut[..end]);
                let Ok(HelloProgress::Incomplete { bytes_min }) = outcome else {
                    panic!("{outcome:?} after {end} bytes of records of {len}")
                };
                assert!(bytes_min > end && bytes_min <= cut.len() && bytes_min >= promised);
                promised = bytes_min;
            }
            // The rest is ignored.
            cut.extend_from_slice(b"\x14\x03\x03\0\x01\x01");
            assert_eq!(found(&cut), expected, "records of {len}");
        }
    }
}

#[test]
fn every_version_and_unknown_extensions_are_accepted() {
    let grease = extension(0xdada, &[]);
    let unknown = extension(0xfe0d, &[1, 2, 3]);
    let named = server_name(&[(0, b"a.example")]);
    let extensions = [grease.clone(), unknown, named, extension(0x3a3a, &[0])].concat();
    for version in [0x0300, 0x0301, 0x0302, 0x0303, 0x0304, 0x03ff] {
        let bytes = records(&message(version, Some(&extensions)), 1 << 14);
        assert_eq!(found(&bytes), (Some("a.example".to_owned()), vec![]), "{version:x}");
    }
    assert_eq!(found(&records(&message(0x0301, None), 1 << 14)), (None, vec![]));
    assert_eq!(found(&hello(&[])), (None, vec![]));
    assert_eq!(found(&hello(&grease)), (None, vec![]));
    // A record may claim any version of the family.
    let mut odd = hello(&server_name(&[(0, b"b.example")]));
    odd[2] = 4;
    assert_eq!(found(&odd).0.as_deref(), Some("b.example"));
}

#[test]
fn names_are_host_names_and_addresses_are_none() {
    let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
    for (name, expected) in [
        ("example.com", Some("example.com")),
        ("EXAMPLE.Com", Some("example.com")),
        ("localhost", Some("localhost")),
        ("_a.xn--bcher-kva.example", Some("_a.xn--bcher-kva.example")),
        (&longest, Some(longest.as_str())),
        ("192.0.2.1", None),
        ("2001:db8::1", None),
    ] {
        let bytes = hello(&server_name(&[(0, name.as_bytes())]));
        assert_eq!(found(&bytes).0.as_deref(), expected, "{name}");
    }
    let too_long = format!("{longest}c");
    let label = format!("{}.example", "a".repeat(64));
    for name in [
        "", ".", "a..b", ".a", "a.", "-a", "a-", "a b", "a/b", "a:80", "*.a", "[::1]", "\u{e9}", "a\0",
        &too_long, &label,
    ] {
        let bytes = hello(&server_name(&[(0, name.as_bytes())]));
        assert_eq!(fault(&bytes), HelloError::BadServerName, "{name}");
    }
}

#[test]
fn a_server_name_extension_holds_one_host_name() {
    // Other types of names may be beside it.
    assert_eq!(found(&hello(&server_name(&[(1, b"?"), (0, b"a")]))).0.as_deref(), Some("a"));
    assert_eq!(found(&hello(&server_name(&[(7, b"")]))).0, None);
    let one = server_name(&[(0, b"a")]);
    for extensions in [
        server_name(&[(0, b"a"), (0, b"b")]),
        [one.clone(), one].concat(),
        extension(0, &[]),
        extension(0, &[0, 0]),
        extension(0, &[0, 4, 0, 0, 1, b'a', 0]),
        extension(0, &[0, 5, 0, 0, 1, b'a']),
        extension(0, &[0, 4, 0, 0, 2, b'a']),
    ] {
        assert_eq!(fault(&hello(&extensions)), HelloError::BadServerName, "{extensions:?}");
    }
}

#[test]
fn protocols_are_kept_in_their_order_as_far_as_there_is_room() {
    let many: Vec<Vec<u8>> = (0..40).map(|number| format!("name-{number:02}").into_bytes()).collect();
    let names: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
    let (_, kept) = found(&hello(&protocols(&names)));
    assert_eq!(kept, many[..256 / 8]);
    let longest = [b'x'; 255];
    assert_eq!(found(&hello(&protocols(&[&longest, b"h2"]))).1, [longest.to_vec()]);
    let one = protocols(&[b"h2"]);
    for extensions in [
        [one.clone(), one].concat(),
        protocols(&[]),
        protocols(&[b"h2", b""]),
        extension(16, &[]),
        extension(16, &[0, 3, 3, b'h', b'2']),
        extension(16, &[0, 3, 2, b'h', b'2', 0]),
    ] {
        assert_eq!(fault(&hello(&extensions)), HelloError::BadProtocols, "{extensions:?}");
    }
}

#[test]
fn the_first_bytes_show_that_it_is_not_tls() {
    for bytes in [
        b"GET / HTTP/1.1\r\n".as_slice(),
        b"G",
        b"\x15\x03\x01\0\x02\x02\x28",
        b"\x80\x2e\x01\x03\x01",
        b"\x16\x02\0\0\0",
        b"\x16\x04",
        b"PROXY TCP4",
    ] {
        assert_eq!(parse(bytes).1, Ok(HelloProgress::NotTls), "{bytes:?}");
    }
    for bytes in [b"".as_slice(), b"\x16", b"\x16\x03", b"\x16\x03\x01"] {
        assert_eq!(parse(bytes).1, Ok(HelloProgress::Incomplete { bytes_min: 5 }), "{bytes:?}");
    }
}

#[test]
fn broken_records_and_messages_are_refused_as_soon_as_they_are_seen() {
    let whole = message(0x0303, Some(&server_name(&[(0, b"a.example")])));
    let mut foreign = records(&whole, 20);
    foreign[25] = 21;
    let mut empty = records(&whole, 20);
    empty.splice(25..25, [22, 3, 1, 0, 0]);
    for (bytes, expected) in [
        (foreign, HelloError::BadRecord),
        (empty, HelloError::BadRecord),
        (vec![22, 3, 1, 0, 0], HelloError::BadRecord),
        (vec![22, 3, 1, 0x40, 1], HelloError::BadRecord),
        (vec![22, 3, 1, 0, 5, 2], HelloError::OtherMessage),
        (vec![22, 3, 1, 0, 1, 2], HelloError::OtherMessage),
        (vec![22, 3, 1, 0, 4, 1, 1, 0, 0], HelloError::TooLarge),
        (records(&[1, 0, 0, 0], 4), HelloError::BadMessage),
        (records(&[1, 0, 0, 2, 3, 3], 6), HelloError::BadMessage),
    ] {
        assert_eq!(fault(&bytes), expected, "{bytes:?}");
    }
}

/// Every length in a hello, one more and one less: never a panic, and never a name from the wrong place.
#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let whole = message(0x0303, Some(&[protocols(&[b"h2"]), server_name(&[(0, b"a.example")])].concat()));
    // Of session id, cipher suites, compression, extensions; protocols, their list, a name; server names, their list, a name.
    for place in [0, 34, 39, 42, 46, 48, 49, 55, 57, 60].map(|behind_random| 4 + 34 + behind_random) {
        for change in [1, 255] {
            let mut broken = whole.clone();
            broken[place] = broken[place].wrapping_add(change);
            _ = fault(&records(&broken, 1 << 14));
        }
    }
    let mut odd_suites = whole.clone();
    odd_suites[4 + 34 + 34] = 3;
    assert_eq!(fault(&records(&odd_suites, 1 << 14)), HelloError::BadMessage);
    let mut other_family = whole;
    other_family[4] = 2;
    assert_eq!(fault(&records(&other_family, 1 << 14)), HelloError::BadMessage);
}

#[test]
fn a_hello_is_bounded_however_it_is_cut() {
    let padding = extension(21, &vec![0; 16_000]);
    let large = message(0x0303, Some(&[padding, server_name(&[(0, b"large.example")])].concat()));
    assert!(large.len() > 16_000);
    assert_eq!(found(&records(&large, 1 << 14)).0.as_deref(), Some("large.example"));
    // In records of one byte it is six times as long.
    let slow = records(&large, 1);
    let mut hello = ClientHello::new();
    assert_eq!(hello.parse(&slow, CLIENT_HELLO_BYTES_MAX), Err(HelloError::TooLarge));
    let limit = 6_000;
    for end in 0..slow.len() {
        match hello.parse(&slow[..end], limit) {
            Ok(HelloProgress::Incomplete { bytes_min }) => assert!(bytes_min <= limit),
            outcome => {
                assert_eq!(outcome, Err(HelloError::TooLarge));
                assert!(end <= limit, "known before the limit is passed, not after {end} bytes");
                break;
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_no_harm(mut bytes in vec(any::<u8>(), 0..200), is_tls in any::<bool>()) {
        if is_tls {
            bytes.splice(0..0, [22, 3, 1]);
        }
        let (hello, outcome) = parse(&bytes);
        prop_assert!(outcome == Ok(HelloProgress::Complete) || hello.server_name().is_none());
    }

    #[test]
    fn written_names_are_found(
        name in "[a-z0-9]([a-z0-9_-]{0,20}[a-z0-9])?(\\.[a-z]{1,10}){0,4}",
        offered in vec(vec(any::<u8>(), 1..20), 1..8),
        len in 1_usize..400,
        order in any::<bool>(),
    ) {
        let names: Vec<&[u8]> = offered.iter().map(Vec::as_slice).collect();
        let mut extensions = [server_name(&[(0, name.as_bytes())]), protocols(&names)];
        if order {
            extensions.reverse();
        }
        let bytes = records(&message(0x0303, Some(&extensions.concat())), len);
        prop_assert_eq!(found(&bytes), (Some(name), offered));
    }
}
