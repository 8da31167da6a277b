//! Header blocks that are large, in frames (VU#421644), in bytes, or once they are decoded (CVE-2016-6581, CVE-2026-49975).

use super::Site;
use crate::harness::Http2Client;
use crate::harness::http2::frame::{
    self, COMPRESSION_ERROR, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, PROTOCOL_ERROR,
};

/// A block without an end, in as many frames.
fn endless(client: &mut Http2Client, fragment: &[u8], count: usize) -> Vec<u8> {
    let stream = client.next_stream();
    let mut bytes = frame::frame(frame::HEADERS, END_STREAM, stream, fragment);
    bytes.extend(frame::frame(frame::CONTINUATION, 0, stream, fragment).repeat(count));
    bytes
}

/// A literal that is not kept, by hand: `x: aaa…`.
fn line(len: usize) -> Vec<u8> {
    assert!(len < 127);
    [&[0, 1, b'x', len as u8][..], &vec![b'a'; len]].concat()
}

#[test]
fn continuations_without_end() {
    let site = Site::new();
    let calm = ENHANCE_YOUR_CALM;
    site.assert_cut_off("small ones", calm, "http2-too-many-continuations", |client| {
        endless(client, &line(10), 10_000)
    });
    site.assert_cut_off("empty ones", calm, "http2-too-many-continuations", |client| {
        endless(client, &[], 10_000)
    });
    site.assert_cut_off("large ones", calm, "http2-block-too-large", |client| {
        endless(client, &line(100).repeat(150), 10_000)
    });
    assert!(site.origin.targets().iter().all(|target| target != "/"));
}

#[test]
fn what_interrupts_a_block() {
    let site = Site::new();
    for (what, interruption) in [
        ("PING", frame::frame(frame::PING, 0, 0, &[0; 8])),
        ("DATA", frame::frame(frame::DATA, 0, 1, b"x")),
        ("HEADERS of another stream", frame::frame(frame::HEADERS, END_HEADERS | END_STREAM, 3, &line(1))),
        ("CONTINUATION of another stream", frame::frame(frame::CONTINUATION, END_HEADERS, 3, &line(1))),
        ("an unknown frame", frame::frame(0xfa, 0, 0, &[])),
    ] {
        site.assert_cut_off(what, PROTOCOL_ERROR, "http2-block-interrupted", |client| {
            let stream = client.next_stream();
            [frame::frame(frame::HEADERS, END_STREAM, stream, &line(10)), interruption].concat()
        });
    }
    site.assert_cut_off("CONTINUATION without a block", PROTOCOL_ERROR, "http2-block-interrupted", |_| {
        frame::frame(frame::CONTINUATION, END_HEADERS, 1, &line(1))
    });
}

/// A block of this many references to the last entry of the table, behind that entry.
fn bomb(client: &mut Http2Client, name: &[u8], value: &[u8], references: usize) -> Vec<u8> {
    let pseudo = client.block(&client.request("GET", "/bomb"));
    let mut entry = vec![0x40, name.len() as u8];
    entry.extend_from_slice(name);
    // A string of more than 126 bytes has its length behind the prefix (RFC 7541 section 5.1).
    let len = value.len();
    match len {
        0..127 => entry.push(len as u8),
        _ => {
            let mut rest = len - 127;
            entry.push(127);
            while rest >= 128 {
                entry.push((rest % 128 + 128) as u8);
                rest /= 128;
            }
            entry.push(rest as u8);
        }
    }
    entry.extend_from_slice(value);
    let stream = client.next_stream();
    let block = [pseudo, entry, vec![0x80 | 62; references]].concat();
    frame::frame(frame::HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

#[test]
fn blocks_that_are_large_once_they_are_decoded() {
    let site = Site::new();
    let before = site.weir.resident_bytes();
    let rows: [(&str, &[u8], usize, usize); 3] = [
        ("a large field, thousands of times", b"x", 3_900, 12_000),
        ("a small field, thousands of times", b"x", 1, 15_000),
        ("crumbs of a cookie, thousands of times", b"cookie", 0, 15_000),
    ];
    for (what, name, len, references) in rows {
        site.assert_cut_off(what, ENHANCE_YOUR_CALM, "http2-block-too-large", |client| {
            bomb(client, name, &vec![b'a'; len], references)
        });
    }
    let grown = site.weir.resident_bytes().saturating_sub(before);
    assert!(grown < 10 << 20, "{} KiB", grown >> 10);
    assert!(!site.origin.targets().contains(&"/bomb".to_owned()));
}

/// A little too large is no attack: the stream is answered, and the table goes on.
#[test]
fn a_block_that_is_a_little_too_large_is_answered() {
    let site = Site::new();
    let mut client = site.client();
    let block = bomb(&mut client, b"x", &[b'a'; 1_000], 60);
    client.send(block);
    assert_eq!(client.response(1).status, 431);
    client.abort();
    assert!(site.origin.targets().is_empty());
}

#[test]
fn blocks_that_cannot_be_decoded() {
    let site = Site::new();
    let rows: [(&str, &[u8]); 10] = [
        ("an index of nothing", &[0x80]),
        ("an index beyond the tables", &[0x80 | 70]),
        ("a name beyond the tables", &[0x7f, 50, 1, b'a']),
        ("a number without end", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("a string longer than the block", &[0x00, 0x7e, b'a']),
        ("Huffman's end of string", &[0x00, 0x84, 0xff, 0xff, 0xff, 0xff, 0x01, b'a']),
        ("Huffman's padding of zeros", &[0x00, 0x81, 0x18, 0x01, b'a']),
        ("a table larger than allowed", &[0x3f, 0xe2, 0x1f, 0x82]),
        ("a change of the table behind a field", &[0x82, 0x20]),
        ("three changes of the table", &[0x20, 0x20, 0x20, 0x82]),
    ];
    for (what, block) in rows {
        site.assert_cut_off(what, COMPRESSION_ERROR, "http2-bad-header-block", |client| {
            let stream = client.next_stream();
            frame::frame(frame::HEADERS, END_HEADERS | END_STREAM, stream, block)
        });
    }
}
