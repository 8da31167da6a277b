//! The encoder: which form a field gets, what the table keeps, and that no section ever waits.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::h3::qpack::{FieldSection, QpackDecoder};
use crate::multiplexed::bucket::Bucket;
use crate::multiplexed::compression::decoded::CompressedLines;

fn encoder(capacity: u64) -> QpackEncoder {
    let mut encoder = QpackEncoder::default();
    encoder.set_peer_capacity_max(capacity);
    encoder
}

/// The section of fields.
fn section(encoder: &mut QpackEncoder, stream: u64, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = b"before".to_vec();
    let mut lines = SectionEncoder::begin(encoder, stream, &mut out);
    for (name, value) in fields {
        lines.field_with(name.as_bytes(), |out| out.extend_from_slice(value.as_bytes()));
    }
    lines.finish();
    out.split_off(6)
}

fn unsent(encoder: &mut QpackEncoder) -> Vec<u8> {
    std::mem::take(encoder.unsent())
}

#[test]
fn a_line_is_referred_to_once_it_was_acknowledged() {
    let mut encoder = encoder(4_096);
    let literal = b"\x00\x00\x5f\x4d\x04weir";
    assert_eq!(section(&mut encoder, 0, &[("Server", "weir")]), literal);
    assert_eq!(unsent(&mut encoder), b"");
    assert_eq!(section(&mut encoder, 4, &[("Server", "weir")]), literal, "it is inserted");
    assert_eq!(unsent(&mut encoder), b"\x3f\xe1\x1f\xff\x1d\x83\xf0\x53\x59");
    assert_eq!(section(&mut encoder, 8, &[("Server", "weir")]), literal, "it may not have come");
    assert_eq!(unsent(&mut encoder), b"", "and it is not inserted again");
    assert_eq!(encoder.receive(b"\x01"), Ok(0));
    assert_eq!(section(&mut encoder, 12, &[("Server", "weir")]), b"\x02\x00\x80");
    let other = [("Server", "Weir"), ("X-A", "1")];
    assert_eq!(section(&mut encoder, 16, &other), b"\x00\x00\x5f\x4d\x04Weir\x23x-a\x011");
}

#[test]
fn lines_of_the_static_table_are_one_index() {
    let mut encoder = encoder(4_096);
    let rows: &[(&str, &str, &[u8])] = &[
        ("Content-Type", "text/html; charset=utf-8", b"\xf4"),
        ("X-Frame-Options", "deny", b"\xff\x22"),
        ("x-content-type-options", "nosniff", b"\xfd"),
        ("Vary", "accept-encoding", b"\xfb"),
        ("vary", "Accept-Encoding", b"\x5f\x2c\x0fAccept-Encoding"),
        ("cookie", "", b"\xc5"),
        ("alt-svc", "clear", b"\xff\x14"),
    ];
    for (name, value, expected) in rows {
        for _ in 0..3 {
            let sent = section(&mut encoder, 0, &[(name, value)]);
            assert_eq!(&sent[..2], b"\x00\x00");
            if expected.len() <= 2 {
                assert_eq!(sent[2..], **expected, "{name}");
            }
        }
    }
    let entered = encoder.table.as_ref().map_or(0, |table| table.len());
    assert_eq!(entered, 1, "only what has no index");
}

#[test]
fn secrets_are_never_indexed() {
    let mut encoder = encoder(4_096);
    let secrets = [
        ("authorization", "Basic abc", &b"\x7f\x45\x09Basic abc"[..]),
        ("Proxy-Authorization", "x", b"\x37\x0cproxy-authorization\x01x"),
        ("set-cookie", "a=b", b"\x7e\x03a=b"),
        ("cookie", "a=1234567890123456", b"\x75\x12a=1234567890123456"),
    ];
    for (name, value, expected) in secrets {
        for _ in 0..3 {
            assert_eq!(section(&mut encoder, 0, &[(name, value)])[2..], *expected, "{name}");
        }
    }
    assert_eq!((unsent(&mut encoder), encoder.inserted), (vec![], 0));
    let long = ("cookie", "a=12345678901234567890");
    section(&mut encoder, 0, &[long, long]);
    assert_eq!(encoder.inserted, 1);
}

#[test]
fn fields_of_connections_are_left_out_and_spaces_cut() {
    let fields = [
        ("Connection", "x"),
        ("keep-alive", "1"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("proxy-connection", "x"),
        ("te", "gzip"),
        ("TE", "trailers"),
        ("x", " a\t"),
    ];
    let sent = section(&mut encoder(0), 0, &fields);
    assert_eq!(sent, b"\x00\x00\x22te\x08trailers\x21x\x01a");
}

#[test]
fn without_a_table_nothing_is_inserted() {
    let mut encoder = QpackEncoder::default();
    for capacity in [None, Some(0), Some(31)] {
        if let Some(capacity) = capacity {
            encoder.set_peer_capacity_max(capacity);
        }
        for _ in 0..4 {
            section(&mut encoder, 0, &[("x", "1")]);
        }
        assert_eq!(unsent(&mut encoder), b"");
    }
    let mut encoder = QpackEncoder::new(0);
    encoder.set_peer_capacity_max(4_096);
    section(&mut encoder, 0, &[("x", "1"), ("x", "1")]);
    assert_eq!(unsent(&mut encoder), b"");
}

/// Inserts lines and has them acknowledged.
fn insert(encoder: &mut QpackEncoder, lines: &[(&str, &str)]) {
    let before = encoder.inserted;
    for line in lines {
        section(encoder, 1 << 40, &[*line, *line]);
    }
    let count = encoder.inserted - before;
    assert_eq!(count, lines.len() as u64);
    encoder.receive(&[count as u8]).unwrap();
}

#[test]
fn entries_stay_as_long_as_a_section_needs_them() {
    // Room for three.
    let mut encoder = encoder(110);
    insert(&mut encoder, &[("a", "1"), ("b", "2"), ("c", "3")]);
    assert_eq!(section(&mut encoder, 4, &[("b", "2")])[2..], *b"\x81");
    assert_eq!(section(&mut encoder, 8, &[("a", "1"), ("c", "3")])[2..], *b"\x82\x80");
    let four = [("d", "4"), ("d", "4")];
    section(&mut encoder, 12, &four);
    assert_eq!(encoder.inserted, 3, "`a` is needed");
    assert_eq!(encoder.receive(b"\x88"), Ok(0));
    section(&mut encoder, 12, &four);
    assert_eq!(encoder.inserted, 4, "`a` goes");
    section(&mut encoder, 16, &[("e", "5"), ("e", "5")]);
    assert_eq!(encoder.inserted, 4, "`b` is needed");
    assert_eq!(encoder.receive(b"\x44"), Ok(1), "its stream was cancelled");
    section(&mut encoder, 16, &[("e", "5"), ("e", "5")]);
    assert_eq!(encoder.inserted, 5, "`b` goes");
    insert_fails(&mut encoder, ("f", "6"), &[("c", "3")]);
}

/// A line does not go that the section itself has referred to, nor one that was not acknowledged.
fn insert_fails(encoder: &mut QpackEncoder, line: (&str, &str), before: &[(&str, &str)]) {
    let inserted = encoder.inserted;
    let lines = [before, &[line, line]].concat();
    let sent = section(encoder, 20, &lines);
    assert!(sent[0] > 0, "it has referred to an entry");
    assert_eq!(encoder.inserted, inserted);
    encoder.receive(b"\x94").unwrap();
    section(encoder, 24, &[line, line]);
    assert_eq!(encoder.inserted, inserted + 1);
    let other = ("g", "7");
    section(encoder, 24, &[other, other]);
    assert_eq!(encoder.inserted, inserted + 1, "what would go was not acknowledged");
}

#[test]
fn instructions_of_the_decoder_that_are_faults() {
    for (input, error) in [
        // Nothing was sent on the stream; or nothing that refers to the table.
        (&b"\x80"[..], QpackError::UnknownSection),
        (b"\x84", QpackError::UnknownSection),
        (b"\x88\x88", QpackError::UnknownSection),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", QpackError::IntegerTooLong),
        (b"\x00", QpackError::BadIncrement),
        (b"\x02", QpackError::BadIncrement),
        (b"\x01\x01", QpackError::BadIncrement),
        (b"\x48\x88", QpackError::UnknownSection),
        (b"\x3f\x80\x80\x80\x80\x80\x80\x80\x80\x80", QpackError::IntegerTooLong),
    ] {
        for size in 1..=input.len() {
            let mut encoder = encoder(4_096);
            insert(&mut encoder, &[("a", "1")]);
            section(&mut encoder, 0, &[("b", "2"), ("b", "2")]);
            section(&mut encoder, 4, &[("c", "3")]);
            section(&mut encoder, 8, &[("a", "1")]);
            let found = input.chunks(size).find_map(|piece| encoder.receive(piece).err());
            assert_eq!(found, Some(error), "{input:?}");
        }
    }
    let mut encoder = encoder(4_096);
    assert_eq!(encoder.receive(b"\x44\x7f\x80\x80"), Ok(1), "a stream that is not known may be cancelled");
    assert_eq!(encoder.receive(b"\x01"), Ok(1), "also in pieces");
    assert_eq!(encoder.receive(b"\x01"), Err(QpackError::BadIncrement));
}

#[test]
fn only_so_many_sections_are_remembered() {
    let mut encoder = encoder(4_096);
    insert(&mut encoder, &[("a", "1")]);
    let sections: Vec<_> = (0..200).map(|stream| section(&mut encoder, stream, &[("a", "1")])).collect();
    assert_eq!(sections.iter().filter(|section| section[0] > 0).count(), 128);
    assert_eq!(sections[128], b"\x00\x00\x21a\x011");
    assert_eq!(encoder.receive(b"\x80"), Ok(0));
    assert_eq!(section(&mut encoder, 200, &[("a", "1")]), b"\x02\x00\x80");
}

#[test]
fn what_the_peer_does_not_read_is_bounded() {
    let mut encoder = encoder(4_096);
    for number in 0..2_000 {
        let value = format!("{number}{}", "x".repeat(100));
        section(&mut encoder, 0, &[("x", &value), ("x", &value)]);
        let count = encoder.inserted - encoder.acknowledged;
        let mut increment = Vec::new();
        if count > 0 {
            DecoderInstruction::Increment(count).write(&mut increment);
        }
        encoder.receive(&increment).unwrap();
    }
    assert!(encoder.unsent().len() <= UNSENT_BYTES_MAX && encoder.inserted > 50);
}

#[test]
fn a_large_table_of_the_peer_takes_a_longer_prefix() {
    let mut encoder = encoder(1 << 20);
    assert_eq!(encoder.capacity, TABLE_BYTES_MAX);
    for number in 0..400 {
        insert(&mut encoder, &[("x", &format!("{number:0>1000}"))]);
        unsent(&mut encoder);
    }
    let sent = section(&mut encoder, 0, &[("x", &format!("{:0>1000}", 399))]);
    assert_eq!(sent, b"\xff\x92\x01\x00\x80", "401 and 255 are counted");
    encoder.receive(b"\x80").unwrap();
}

#[test]
fn memory_is_given_back_when_nothing_is_needed() {
    let mut encoder = encoder(4_096);
    insert(&mut encoder, &[("a", "1")]);
    section(&mut encoder, 4, &[("a", "1")]);
    unsent(&mut encoder);
    encoder.release();
    assert!(encoder.table.is_some(), "a section needs it");
    encoder.receive(b"\x84").unwrap();
    encoder.release();
    assert!(encoder.table.is_none());
    assert_eq!(unsent(&mut encoder), b"\x20");
    encoder.release();
    assert_eq!(unsent(&mut encoder), b"");
    insert(&mut encoder, &[("a", "1")]);
    assert_eq!(unsent(&mut encoder)[..3], *b"\x3f\xe1\x1f");
    assert_eq!(section(&mut encoder, 4, &[("a", "1")]), b"\x03\x00\x80");
}

proptest! {
    /// Whatever is delayed, nothing waits and every line arrives.
    #[test]
    fn what_is_encoded_reads_back(
        capacity in 0_u64..6_000,
        steps in vec((0_usize..12, 0_usize..40, 0_u8..8), 1..300),
    ) {
        let (mut encoder, mut decoder) = (encoder(capacity), QpackDecoder::new(capacity, 0));
        let (mut to_decoder, mut to_encoder) = (VecDeque::new(), VecDeque::new());
        let mut budget = Bucket::new(u16::MAX, 0);
        for (stream, (name, value, delay)) in steps.into_iter().enumerate() {
            let stream = stream as u64 * 4;
            let value = "v".repeat(value * value);
            let names: Vec<_> = (0..3).map(|more| format!("Name-{}", name + more)).collect();
            let fields: Vec<_> = names.iter().map(|name| (&name[..], &value[..])).collect();
            let sent = section(&mut encoder, stream, &fields);
            to_decoder.extend(unsent(&mut encoder));
            if delay == 0 {
                decoder.cancel(stream);
            } else {
                let lines = decoder.open(FieldSection { stream, bytes: &sent }).unwrap().expect("it need not wait");
                let (required, mut text) = (lines.required(), Vec::new());
                CompressedLines::decode::<QpackError>(&lines, &mut text, |_, _| Ok(())).unwrap();
                let expected: String =
                    fields.iter().map(|(name, value)| format!("{}: {value}\r\n", name.to_lowercase())).collect();
                prop_assert_eq!(String::from_utf8(text).unwrap(), expected);
                decoder.acknowledge(stream, required);
            }
            if delay >= 4 {
                let some: Vec<u8> = to_decoder.drain(..to_decoder.len() * usize::from(delay) / 7).collect();
                decoder.receive(&some, &mut budget, 0).unwrap();
            }
            to_encoder.extend(std::mem::take(decoder.unsent()));
            if delay >= 3 {
                let some: Vec<u8> = to_encoder.drain(..to_encoder.len() * (usize::from(delay) - 2) / 5).collect();
                encoder.receive(&some).unwrap();
            }
            prop_assert!(encoder.acknowledged <= encoder.inserted);
        }
    }
}
