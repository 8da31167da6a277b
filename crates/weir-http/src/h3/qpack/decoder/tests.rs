//! The decoder: the examples of RFC 9204, what waits and for how long, and what it does not put up with.

use super::*;
use crate::h3::qpack::QpackError;

const PLENTY: Bucket = Bucket::new(u16::MAX, 0);

fn decoder(blocked_max: u64) -> QpackDecoder {
    QpackDecoder::new(4_096, blocked_max)
}

/// Gives input of the encoder stream, and what is to be sent for it.
fn insert(decoder: &mut QpackDecoder, input: &[u8]) -> Result<Vec<u8>, QpackError> {
    decoder.receive(input, &mut { PLENTY }, 0)?;
    Ok(std::mem::take(decoder.unsent()))
}

/// The lines of a section; `None` when it has to wait.
fn read(decoder: &mut QpackDecoder, stream: u64, bytes: &[u8]) -> Result<Option<String>, QpackError> {
    let Some(section) = decoder.open(FieldSection { stream, bytes })? else { return Ok(None) };
    let (required, mut text) = (section.required(), Vec::new());
    (&section).decode::<QpackError>(&mut text, |_, _| Ok(()))?;
    decoder.acknowledge(stream, required);
    Ok(Some(String::from_utf8(text).unwrap().replace("\r\n", "|")))
}

/// The lines in the table, oldest first.
fn table(decoder: &QpackDecoder) -> Vec<String> {
    let lines = (0..).map_while(|age| decoder.table.get(age));
    let mut lines: Vec<_> = lines.map(|line| String::from_utf8(line.line.to_vec()).unwrap()).collect();
    lines.reverse();
    lines
}

/// RFC 9204 appendix B.
#[test]
fn the_examples_of_the_rfc() {
    let mut decoder = QpackDecoder::new(220, 10);
    let first = read(&mut decoder, 0, b"\x00\x00\x51\x0b/index.html");
    assert_eq!(first, Ok(Some(":path: /index.html|".into())));
    assert!(decoder.unsent().is_empty(), "a section without dynamic entries is not acknowledged");

    // B.2: the section comes first.
    let section = b"\x03\x81\x10\x11";
    assert_eq!(read(&mut decoder, 4, section), Ok(None));
    assert_eq!((decoder.next_unblocked(), decoder.streams_blocked()), (None, 1));
    let input = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
    assert_eq!(insert(&mut decoder, input), Ok(vec![2]));
    assert_eq!((decoder.next_unblocked(), decoder.next_unblocked()), (Some(4), None));
    let lines = read(&mut decoder, 4, section);
    assert_eq!(lines, Ok(Some(":authority: www.example.com|:path: /sample/path|".into())));
    assert_eq!(std::mem::take(decoder.unsent()), b"\x84");

    // B.3
    assert_eq!(insert(&mut decoder, b"\x4acustom-key\x0ccustom-value"), Ok(vec![1]));
    // B.4
    assert_eq!(read(&mut decoder, 8, b"\x05\x00\x80\xc1\x81"), Ok(None));
    assert_eq!(insert(&mut decoder, b"\x02"), Ok(vec![1]));
    assert_eq!(decoder.next_unblocked(), Some(8));
    let lines = read(&mut decoder, 8, b"\x05\x00\x80\xc1\x81");
    let expected = ":authority: www.example.com|:path: /|custom-key: custom-value|";
    assert_eq!(lines, Ok(Some(expected.into())));
    decoder.unsent().clear();
    decoder.cancel(8);
    assert_eq!(std::mem::take(decoder.unsent()), b"\x48");
    // B.5: the oldest entry goes.
    assert_eq!(insert(&mut decoder, b"\x81\x0dcustom-value2"), Ok(vec![1]));
    assert_eq!(
        table(&decoder),
        [
            ":path: /sample/path\r\n",
            "custom-key: custom-value\r\n",
            ":authority: www.example.com\r\n",
            "custom-key: custom-value2\r\n"
        ]
    );
}

/// An instruction that inserts a line.
fn insertion(name: &str, value: &str) -> Vec<u8> {
    let mut out = Vec::new();
    string::write(&mut out, 0x40, 5, name.as_bytes(), false);
    string::write_whole(&mut out, value.as_bytes(), true);
    out
}

/// A decoder with a table of 4 096 bytes and these lines in it.
fn filled(lines: &[(&str, &str)]) -> QpackDecoder {
    let mut decoder = decoder(2);
    assert_eq!(insert(&mut decoder, b"\x3f\xe1\x1f"), Ok(vec![]));
    for (name, value) in lines {
        assert_eq!(insert(&mut decoder, &insertion(name, value)), Ok(vec![1]));
    }
    decoder
}

#[test]
fn every_representation() {
    let mut decoder = filled(&[("a", "1"), ("b", "2"), ("c", "3")]);
    // Three insertions, base 2: before it are `b` and `a`, behind it is `c`.
    for (bytes, expected) in [
        (&b"\x04\x80\xd1"[..], ":method: GET|"),
        (b"\x04\x80\xff\x23", "x-frame-options: sameorigin|"),
        (b"\x04\x80\x80\x81", "b: 2|a: 1|"),
        (b"\x04\x80\x10", "c: 3|"),
        (b"\x04\x80\x5f\x50\x01x", "user-agent: x|"),
        (b"\x04\x80\x7f\x50\x01x", "user-agent: x|"),
        (b"\x04\x80\x40\x01x\x61\x01y", "b: x|a: y|"),
        (b"\x04\x80\x00\x01x\x08\x01y", "c: x|c: y|"),
        (b"\x04\x80\x21d\x014\x31e\x81\x0f", "d: 4|e: 1|"),
        (b"\x04\x80", ""),
    ] {
        assert_eq!(read(&mut decoder, 0, bytes), Ok(Some(expected.into())), "{bytes:?}");
        assert_eq!(std::mem::take(decoder.unsent()), [0x80], "each needs insertions, whatever is in it");
    }
}

#[test]
fn sections_that_cannot_be_decoded() {
    for (bytes, error) in [
        (&b""[..], QpackError::Truncated),
        (b"\x00", QpackError::Truncated),
        (b"\x00\x00\x51", QpackError::Truncated),
        (b"\x00\x00\x51\x05abc", QpackError::Truncated),
        (b"\x00\x00\xff", QpackError::Truncated),
        (b"\x00\x00\x23ab", QpackError::Truncated),
        (b"\x00\x00\xff\xff\xff\xff\xff\xff\x00", QpackError::IntegerTooLong),
        (b"\x00\x00\x51\x81\x00", QpackError::BadPadding),
        (b"\x00\x00\x51\x84\xff\xff\xff\xff", QpackError::EndOfString),
        // Behind the static table.
        (b"\x00\x00\xff\x24", QpackError::BadIndex),
        (b"\x00\x00\x5f\x54\x00", QpackError::BadIndex),
        // It says that it needs nothing.
        (b"\x00\x00\x80", QpackError::BadIndex),
        (b"\x00\x05\x80", QpackError::BadIndex),
        (b"\x00\x00\x10", QpackError::BadIndex),
        (b"\x00\x00\x00\x00", QpackError::BadIndex),
        // It says that it needs the first only.
        (b"\x02\x00\x10", QpackError::BadIndex),
        (b"\x02\x01\x80", QpackError::BadIndex),
        (b"\x02\x00\x81", QpackError::BadIndex),
        (b"\x02\x00\x41\x00", QpackError::BadIndex),
        (b"\x02\x81\x80", QpackError::BadBase),
        (b"\xff\xff\x7f\x00", QpackError::BadInsertCount),
    ] {
        let mut decoder = filled(&[("a", "1"), ("b", "2")]);
        assert_eq!(read(&mut decoder, 0, bytes), Err(error), "{bytes:?}");
    }
}

#[test]
fn entries_that_are_gone_cannot_be_referred_to() {
    let mut decoder = filled(&[("a", "1"), ("b", "2")]);
    // Room for one.
    assert_eq!(insert(&mut decoder, b"\x3f\x03"), Ok(vec![]));
    assert_eq!(table(&decoder), ["b: 2\r\n"]);
    assert_eq!(read(&mut decoder, 0, b"\x03\x00\x80"), Ok(Some("b: 2|".into())));
    assert_eq!(read(&mut decoder, 0, b"\x03\x00\x81"), Err(QpackError::BadIndex));
}

#[test]
fn instructions_that_cannot_be_followed() {
    for (input, error) in [
        // 4 097 bytes.
        (&b"\x3f\xe2\x1f"[..], QpackError::CapacityTooLarge),
        (b"\xff\x24\x00", QpackError::BadIndex),
        (b"\x81\x00", QpackError::BadIndex),
        (b"\x01", QpackError::BadIndex),
        (b"\x3f\xff\xff\xff\xff\xff\xff\x00", QpackError::IntegerTooLong),
        (b"\xc1\x84\xff\xff\xff\xff", QpackError::EndOfString),
        // Ten bytes are not even enough for an entry without a name.
        (b"\x2a\x40\x00", QpackError::EntryTooLarge),
    ] {
        let mut decoder = filled(&[("a", "1")]);
        assert_eq!(insert(&mut decoder, input), Err(error), "{input:?}");
        for size in 1..input.len() {
            let mut decoder = filled(&[("a", "1")]);
            let mut pieces = input.chunks(size).map(|piece| insert(&mut decoder, piece));
            assert_eq!(pieces.find_map(Result::err), Some(error), "{input:?}");
        }
    }
    let mut decoder = QpackDecoder::new(0, 0);
    assert_eq!(insert(&mut decoder, b"\x20"), Ok(vec![]), "a capacity of nothing is allowed");
    assert_eq!(insert(&mut decoder, &insertion("a", "1")), Err(QpackError::EntryTooLarge));
    assert_eq!(read(&mut decoder, 0, b"\x02\x00\x80"), Err(QpackError::BadInsertCount));
}

#[test]
fn an_entry_may_come_from_one_that_goes_for_it() {
    let mut decoder = decoder(0);
    assert_eq!(insert(&mut decoder, b"\x3f\x03"), Ok(vec![]));
    assert_eq!(insert(&mut decoder, &insertion("a", "1")), Ok(vec![1]));
    assert_eq!(insert(&mut decoder, b"\x00"), Ok(vec![1]));
    assert_eq!(insert(&mut decoder, b"\x80\x012"), Ok(vec![1]));
    assert_eq!(table(&decoder), ["a: 2\r\n"]);
    assert_eq!(read(&mut decoder, 0, b"\x03\x00\x80"), Err(QpackError::BadIndex), "it is gone");
    assert_eq!(read(&mut decoder, 0, b"\x04\x00\x80"), Ok(Some("a: 2|".into())));
}

#[test]
fn instructions_come_in_pieces_of_any_size() {
    let input =
        [&b"\x3f\xe1\x1f"[..], &insertion("name", &"value".repeat(30)), b"\xc1\x02/a\x00\x81\x01x"].concat();
    let mut whole = decoder(0);
    assert_eq!(insert(&mut whole, &input), Ok(vec![4]));
    for size in 1..input.len() {
        let mut decoder = decoder(0);
        let mut increments = 0;
        for piece in input.chunks(size) {
            increments += insert(&mut decoder, piece).unwrap().iter().map(|by| u64::from(*by)).sum::<u64>();
        }
        assert_eq!((table(&decoder), increments), (table(&whole), 4), "{size}");
        assert!(decoder.partial.is_empty());
    }
}

#[test]
fn an_instruction_without_end_is_given_up() {
    let mut decoder = decoder(0);
    insert(&mut decoder, b"\x3f\xe1\x1f\x5f\x80\x80\x80\x7f").unwrap();
    let outcome = (0..100).map(|_| insert(&mut decoder, &[b'x'; 1_000])).find_map(Result::err);
    assert_eq!(outcome, Some(QpackError::InstructionTooLong));
}

#[test]
fn only_so_many_streams_wait_and_with_so_many_bytes() {
    let mut decoder = filled(&[]);
    let section = b"\x02\x00\x80";
    assert_eq!(read(&mut decoder, 0, section), Ok(None));
    assert_eq!(read(&mut decoder, 4, section), Ok(None));
    assert_eq!(read(&mut decoder, 4, section), Ok(None), "the same again");
    assert_eq!(read(&mut decoder, 8, section), Err(QpackError::TooManyBlocked));
    decoder.cancel(4);
    assert_eq!(read(&mut decoder, 8, section), Ok(None));
    insert(&mut decoder, &insertion("a", "1")).unwrap();
    assert_eq!([(); 3].map(|()| decoder.next_unblocked()), [Some(0), Some(8), None]);

    let mut decoder = QpackDecoder::new(4_096, 100);
    let section = [&section[..], &[b'x'; 32_000]].concat();
    let outcomes: Vec<_> = (0..6).map(|stream| read(&mut decoder, stream, &section)).collect();
    assert_eq!(outcomes[3..], [Ok(None), Err(QpackError::BlockedTooLarge), Err(QpackError::BlockedTooLarge)]);
    let mut decoder = QpackDecoder::new(4_096, 0);
    assert_eq!(read(&mut decoder, 0, b"\x02\x00\x80"), Err(QpackError::TooManyBlocked));
}

#[test]
fn instructions_draw_from_a_budget() {
    let mut decoder = filled(&[("a", "1")]);
    let mut budget = Bucket::new(10, 1);
    assert_eq!(decoder.receive(&[0; 10], &mut budget, 0), Ok(()));
    assert_eq!(decoder.receive(&[0; 1], &mut budget, 0), Err(QpackError::TooManyInstructions));
}

#[test]
fn what_the_peer_does_not_read_is_bounded() {
    let mut decoder = filled(&[("a", "1")]);
    let mut read = || decoder.open(FieldSection { stream: 1 << 60, bytes: b"\x02\x00\x80" }).map(|_| ());
    assert_eq!(read(), Ok(()));
    for _ in 0..UNSENT_BYTES_MAX {
        decoder.acknowledge(0, 1);
    }
    let mut read = || decoder.open(FieldSection { stream: 0, bytes: b"\x02\x00\x80" }).map(|_| ());
    assert_eq!(read(), Err(QpackError::TooMuchUnsent));
    decoder.cancel(4);
    assert_eq!(decoder.unsent().len(), UNSENT_BYTES_MAX);
    assert_eq!(decoder.receive(b"\x00", &mut { PLENTY }, 0), Err(QpackError::TooMuchUnsent));
}

#[test]
fn an_acknowledged_section_acknowledges_its_insertions() {
    let mut decoder = filled(&[]);
    let all = [insertion("a", "1"), insertion("b", "2")].concat();
    assert_eq!(insert(&mut decoder, &all), Ok(vec![2]), "both at once");
    assert_eq!(read(&mut decoder, 4, b"\x03\x00\x80"), Ok(Some("b: 2|".into())));
    assert_eq!(std::mem::take(decoder.unsent()), [0x84]);
    assert_eq!(insert(&mut decoder, &insertion("c", "3")), Ok(vec![1]));
}
