//! The encoder: which form a field gets, what the table keeps, and what the peer is told about its size.

use super::*;
use crate::h2::hpack::HpackDecoder;

/// The block of fields.
fn block(encoder: &mut HpackEncoder, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut lines = BlockLines::begin(encoder, &mut out);
    for (name, value) in fields {
        lines.field_with(name.as_bytes(), |out| out.extend_from_slice(value.as_bytes()));
    }
    out
}

fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder.decode_fields(block, |name, value| fields.push((text(name), text(value)))).expect("it is valid");
    fields
}

#[test]
fn a_line_enters_the_table_when_it_comes_again() {
    let mut encoder = HpackEncoder::default();
    assert_eq!(block(&mut encoder, &[("Server", "weir")]), b"\x0f\x27\x04weir");
    assert_eq!(block(&mut encoder, &[("Server", "weir")]), b"\x76\x83\xf0\x53\x59"[..].to_vec());
    assert_eq!(block(&mut encoder, &[("Server", "weir")]), b"\xbe");
    assert_eq!(block(&mut encoder, &[("Server", "weir"), ("x-A", "1")]), b"\xbe\x00\x03x-a\x011");
    assert_eq!(block(&mut encoder, &[("x-A", "1"), ("Server", "weir")])[..1], b"\x40"[..]);
    assert_eq!(block(&mut encoder, &[("x-A", "1"), ("Server", "weir")]), b"\xbe\xbf");
    // Another value is another line.
    assert_eq!(block(&mut encoder, &[("Server", "Weir")]), b"\x0f\x27\x04Weir");
}

#[test]
fn a_line_is_found_by_the_spelling_that_it_came_in() {
    let mut encoder = HpackEncoder::default();
    let all = [("Server", "weir"), ("server", "weir"), ("SERVER", "weir")];
    let mut decoder = HpackDecoder::new();
    for _ in 0..3 {
        let sent = block(&mut encoder, &all);
        assert_eq!(
            decoded(&mut decoder, &sent),
            [("server", "weir"); 3].map(|(name, value)| (name.into(), value.into()))
        );
    }
    assert_eq!(block(&mut encoder, &all), b"\xc0\xbf\xbe", "each has a place of its own");
}

#[test]
fn secrets_are_never_indexed() {
    let mut encoder = HpackEncoder::default();
    let secrets = [
        ("authorization", "Basic abc", &b"\x1f\x08\x09Basic abc"[..]),
        ("Proxy-Authorization", "x", b"\x1f\x22\x01x"),
        ("set-cookie", "a=b", b"\x1f\x28\x03a=b"),
        ("cookie", "a=1234567890123456", b"\x1f\x11\x12a=1234567890123456"),
    ];
    for (name, value, expected) in secrets {
        for _ in 0..3 {
            assert_eq!(block(&mut encoder, &[(name, value)]), expected);
        }
    }
    // A cookie of 20 bytes cannot be guessed.
    let cookie = [("cookie", "a=123456789012345678")];
    let blocks: Vec<_> = (0..3).map(|_| block(&mut encoder, &cookie)).collect();
    assert_eq!((blocks[0][0], blocks[1][0], &blocks[2][..]), (0x0f, 0x60, &b"\xbe"[..]));
}

#[test]
fn fields_about_a_connection_of_http1_are_left_out() {
    let fields = [
        ("Connection", "close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "close"),
        ("Transfer-Encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("TE", "Trailers"),
    ];
    assert_eq!(block(&mut HpackEncoder::default(), &fields), b"\x00\x02te\x08Trailers");
}

#[test]
fn values_are_trimmed() {
    let fields = [("a", " b\t"), ("c", "  "), ("d", "e f "), ("g", "")];
    let expected = b"\x00\x01a\x01b\x00\x01c\x00\x00\x01d\x03e f\x00\x01g\x00";
    assert_eq!(block(&mut HpackEncoder::default(), &fields), expected);
    // They enter the table once, as others do.
    let mut encoder = HpackEncoder::default();
    let blocks = [(); 4].map(|()| block(&mut encoder, &[("a", " b ")]));
    assert_eq!(blocks.map(|block| block[0]), [0x00, 0x40, 0xbe, 0xbe]);
}

#[test]
fn values_that_occur_once_push_nothing_out() {
    let (mut encoder, mut decoder) = (HpackEncoder::default(), HpackDecoder::new());
    let server = ("server", "weir");
    for _ in 0..2 {
        block(&mut encoder, &[server]);
    }
    for number in 0..1000 {
        let id = format!("{number:0100}");
        let block = block(&mut encoder, &[server, ("x-request-id", &id)]);
        assert_eq!(block[0], 0xbe, "{number}");
    }
    let mut encoder = HpackEncoder::default();
    // More lines that recur than the table holds: the oldest go, and what is sent is still right.
    for number in 0..1000 {
        let id = format!("{:0100}", number / 4);
        let block = block(&mut encoder, &[("a", &id)]);
        assert_eq!(decoded(&mut decoder, &block), [("a".to_owned(), id)]);
        assert_eq!(block == b"\xbe", number % 4 > 1, "{number}");
    }
}

#[test]
fn a_line_of_half_the_table_is_not_kept() {
    let mut encoder = HpackEncoder::default();
    let long = "x".repeat(2048 - 33);
    let longer = "x".repeat(2048 - 32);
    let first_bytes =
        |encoder: &mut HpackEncoder, value: &str| [(); 3].map(|()| block(encoder, &[("a", value)])[0]);
    assert_eq!(first_bytes(&mut encoder, &long), [0x00, 0x40, 0xbe]);
    assert_eq!(first_bytes(&mut encoder, &longer), [0x00, 0x00, 0x00]);
}

#[test]
fn the_peer_is_told_the_size_of_the_table() {
    let field = [("server", "weir")];
    let literal = b"\x0f\x27\x04weir".to_vec();
    let indexed = b"\x76\x83\xf0\x53\x59".to_vec();
    let with = |start: &[u8], rest: &[u8]| [start, rest].concat();
    // No table, by our own bound.
    let mut encoder = HpackEncoder::new(0);
    assert_eq!(block(&mut encoder, &field), with(b"\x20", &literal));
    assert_eq!(block(&mut encoder, &field), literal);
    // A larger setting of the peer changes nothing.
    encoder.set_peer_table_bytes_max(1 << 16);
    assert_eq!(block(&mut encoder, &field), literal);
    let mut encoder = HpackEncoder::new(1 << 16);
    encoder.set_peer_table_bytes_max(1 << 16);
    assert_eq!(block(&mut encoder, &field), literal);
    assert_eq!(block(&mut encoder, &field), indexed);
    // Down and up again: the lowest size and the last one.
    for size in [100, 30, 200] {
        encoder.set_peer_table_bytes_max(size);
    }
    assert_eq!(block(&mut encoder, &field), with(b"\x3e\x3f\xa9\x01", &indexed));
    assert_eq!(block(&mut encoder, &field), b"\xbe");
    // Only down: the line is still there.
    encoder.set_peer_table_bytes_max(90);
    assert_eq!(block(&mut encoder, &field), b"\x3f\x3b\xbe");
    encoder.set_peer_table_bytes_max(90);
    assert_eq!(block(&mut encoder, &field), b"\xbe");
    // Dropped for an idle connection.
    encoder.release();
    encoder.release();
    assert!(encoder.table.is_none() && encoder.line.capacity() == 0);
    assert_eq!(block(&mut encoder, &field), with(b"\x20\x3f\x3b", &literal));
    assert_eq!(block(&mut encoder, &field), indexed);
    // Dropped together with a new size.
    encoder.release();
    encoder.set_peer_table_bytes_max(4096);
    assert_eq!(block(&mut encoder, &field), with(b"\x20\x3f\xe1\x1f", &literal));
    // There was nothing to drop.
    let mut fresh = HpackEncoder::default();
    fresh.release();
    assert_eq!(block(&mut fresh, &field), literal);
}
