//! Records of servers, whole and broken.

use std::collections::BTreeSet;

use super::*;

/// A frame whose payload is short.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() < 64);
    [&[kind, payload.len() as u8][..], payload].concat()
}

/// A section of literals.
fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = vec![0, 0];
    for (name, value) in fields {
        // Lengths with 3 and 7 bits.
        assert!(name.len() < 7 + 128 && value.len() < 127);
        if name.len() < 7 {
            bytes.push(0x20 | name.len() as u8);
        } else {
            bytes.extend([0x27, (name.len() - 7) as u8]);
        }
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(value.len() as u8);
        bytes.extend_from_slice(value.as_bytes());
    }
    bytes
}

fn head(fields: &[(&str, &str)]) -> Vec<u8> {
    frame(1, &section(fields))
}

fn bytes(stream: u64, bytes: &[u8]) -> RecordedPiece {
    RecordedPiece::new(stream, StreamPiece::Bytes(bytes.to_vec()))
}

fn end(stream: u64) -> RecordedPiece {
    RecordedPiece::new(stream, StreamPiece::End)
}

fn read(pieces: &[RecordedPiece]) -> Http3Reading {
    let record: Vec<u8> = pieces.iter().flat_map(RecordedPiece::write).collect();
    read_server(&record, AnnouncedByClient { table_bytes_max: 200, without_bodies: &BTreeSet::from([40]) })
}

#[test]
fn whole_responses_are_read() {
    let all = [
        head(&[(":status", "103"), ("link", "</a>")]),
        head(&[(":status", "200"), ("x-a", "b")]),
        frame(0x21, b"nothing"),
        frame(0, b"hel"),
        frame(0, b"lo"),
        head(&[("x-sum", "1")]),
    ]
    .concat();
    // In pieces of each size: nothing depends on where they are cut.
    for size in 1..all.len() {
        let mut pieces = vec![bytes(3, b"\0"), bytes(3, &frame(4, &[1, 0, 7, 0]))];
        pieces.extend(all.chunks(size).map(|chunk| bytes(0, chunk)));
        pieces.push(end(0));
        pieces.push(bytes(3, &frame(7, &[4])));
        let reading = read(&pieces);
        assert_eq!(reading.fault, None);
        let stream = &reading.streams[&0];
        assert_eq!((stream.status(), &stream.body[..], stream.has_ended), (200, &b"hello"[..], true));
        assert_eq!(stream.interim.len(), 1);
        assert_eq!(stream.trailers.as_ref().and_then(|trailers| trailers.first("x-sum")), Some("1"));
        assert_eq!((reading.settings.map(|it| it.len()), reading.goaway), (Some(2), Some(4)));
    }
}

#[test]
fn the_table_of_the_server_is_followed() {
    let ok = head(&[(":status", "200")]);
    // The type of the stream, a capacity of 200 (31 in the prefix, 169 behind it), a line.
    let insert = [2, 0x3f, 0xa9, 1, 0x43, b'x', b'-', b'a', 1, b'1'];
    // The newest entry by its base: a required count of 1 is sent as 2.
    let uses = frame(1, &[&[2, 0][..], &[0xc0 | 25], &[0x80]].concat());
    let reading = read(&[bytes(7, &insert), bytes(0, &uses), end(0), bytes(4, &ok), end(4)]);
    assert_eq!(reading.fault, None);
    assert_eq!((reading.insertions, reading.sections), (1, vec![0]));
    assert_eq!(reading.streams[&0].head.first("x-a"), Some("1"));
    let waits = read(&[bytes(0, &uses), end(0)]);
    assert!(waits.fault.is_some_and(|fault| fault.what.contains("waits")));
}

#[test]
fn what_a_server_must_not_send_is_a_fault() {
    let ok = head(&[(":status", "200")]);
    let with = |rest: &[u8]| [&ok[..], rest].concat();
    let cases: &[(&str, &[RecordedPiece])] = &[
        ("no response", &[end(0)]),
        ("inside of a frame", &[bytes(0, &with(&[0, 5, b'a'])), end(0)]),
        ("behind the end", &[bytes(0, &ok), end(0), bytes(0, b"a")]),
        ("behind the trailers", &[bytes(0, &with(&[head(&[("a", "b")]), frame(0, b"x")].concat()))]),
        ("a frame of HTTP/2", &[bytes(0, &with(&frame(6, b"")))]),
        ("DATA first", &[bytes(0, &frame(0, b"a"))]),
        ("of HTTP/1", &[bytes(0, &head(&[(":status", "200"), ("connection", "close")]))]),
        ("length", &[bytes(0, &head(&[(":status", "200"), ("content-length", "2")])), end(0)]),
        ("to HEAD", &[bytes(40, &with(&frame(0, b"a")))]),
        ("no settings", &[bytes(3, b"\0"), bytes(3, &frame(7, &[0]))]),
        ("settings twice", &[bytes(3, b"\0"), bytes(3, &[frame(4, &[]), frame(4, &[])].concat())]),
        ("two control streams", &[bytes(3, b"\0"), bytes(7, b"\0")]),
        ("push", &[bytes(3, b"\x01")]),
        ("control ends", &[bytes(3, b"\0"), end(3)]),
        ("a stream of the client", &[bytes(2, b"\0")]),
        ("a table that is too large", &[bytes(3, &[2, 0x3f, 0xaa, 1])]),
        ("an increment of nothing", &[bytes(3, &[3, 0])]),
    ];
    for (what, pieces) in cases {
        assert!(read(pieces).fault.is_some(), "{what}");
    }
}

#[test]
fn what_has_not_come_is_no_fault() {
    let all = [head(&[(":status", "200"), ("content-length", "5")]), frame(0, b"hello")].concat();
    for len in 0..=all.len() {
        assert_eq!(read(&[bytes(0, &all[..len])]).fault, None);
    }
    let reset = RecordedPiece::new(0, StreamPiece::Reset(0x10c));
    let reading = read(&[bytes(0, &all[..all.len() - 2]), reset]);
    assert_eq!((reading.fault, reading.streams[&0].reset), (None, Some(0x10c)));
}
