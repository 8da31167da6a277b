//! Request streams: what may follow on what, how bodies and sections are reported, and which faults end what.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert_eq, prop_oneof, proptest};

use super::*;
use crate::h3::frame::write_frame_head;

/// A frame.
fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame_head(&mut out, number, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

fn headers(payload: &str) -> Vec<u8> {
    frame(frame_type::HEADERS, payload.as_bytes())
}

fn data(payload: &str) -> Vec<u8> {
    frame(frame_type::DATA, payload.as_bytes())
}

fn grease() -> Vec<u8> {
    frame(0x21, b"anything")
}

/// One end that writes down what it sees.
struct Reader {
    stream: RequestStream,
    budgets: PeerBudgets,
    seen: Vec<String>,
}

impl Reader {
    fn new(role: Role) -> Self {
        Self { stream: RequestStream::new(role, 100), budgets: PeerBudgets::new(), seen: Vec::new() }
    }

    /// Gives input, until there is no event.
    fn give(&mut self, bytes: &[u8], is_last: bool) -> Result<(), Http3Fault> {
        let mut rest = bytes;
        loop {
            let input = StreamInput { bytes: rest, is_last };
            let received = self.stream.receive(input, &mut self.budgets, 0)?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match received.event {
                None => {
                    assert_eq!(received.used, rest.len(), "all is used");
                    return Ok(());
                }
                Some(RequestEvent::Section { section, usage, ends_stream }) => {
                    let bytes = text(self.stream.section(&section, rest));
                    self.seen.push(format!("{usage:?} {bytes}"));
                    self.see_end(ends_stream);
                }
                Some(RequestEvent::Data { data, ends_stream }) => {
                    match self.seen.last_mut().filter(|last| last.starts_with("Data")) {
                        Some(last) => last.push_str(&text(&rest[data])),
                        None => self.seen.push(format!("Data {}", text(&rest[data]))),
                    }
                    self.see_end(ends_stream);
                }
                Some(RequestEvent::End) => self.see_end(true),
            }
            rest = &rest[received.used..];
        }
    }

    fn see_end(&mut self, ends_stream: bool) {
        assert_eq!(self.stream.has_ended(), ends_stream);
        if ends_stream {
            self.seen.push("End".into());
        }
    }
}

/// What is seen of a whole stream, given in pieces of a size; the end comes with the last one, or alone.
fn seen(role: Role, bytes: &[u8], size: usize, ends_alone: bool) -> Result<Vec<String>, Http3Fault> {
    let mut reader = Reader::new(role);
    let pieces = bytes.chunks(size).count();
    for (index, piece) in bytes.chunks(size).enumerate() {
        reader.give(piece, index + 1 == pieces && !ends_alone)?;
    }
    if ends_alone || pieces == 0 {
        reader.give(&[], true)?;
    }
    Ok(reader.seen)
}

/// The same, which must be so however the bytes arrive.
fn seen_in_all_ways(role: Role, bytes: &[u8]) -> Result<Vec<String>, Http3Fault> {
    let whole = seen(role, bytes, bytes.len().max(1), false);
    for size in 1..=bytes.len() {
        assert_eq!(seen(role, bytes, size, false), whole, "pieces of {size}");
        assert_eq!(seen(role, bytes, size, true), whole, "pieces of {size}, the end alone");
    }
    whole
}

#[test]
fn streams_that_are_sound() {
    let rows: &[(&[Vec<u8>], &[&str])] = &[
        (&[headers("h")], &["Head h", "End"]),
        (&[headers("h"), data("abc")], &["Head h", "Data abc", "End"]),
        (&[headers("h"), data("a"), data(""), data("bc")], &["Head h", "Data abc", "End"]),
        (&[headers("h"), data("a"), headers("t")], &["Head h", "Data a", "Trailers t", "End"]),
        (&[headers("h"), headers("t")], &["Head h", "Trailers t", "End"]),
        (
            &[grease(), headers("h"), grease(), data("a"), grease(), data("b"), headers("t"), grease()],
            &["Head h", "Data a", "Data b", "Trailers t", "End"],
        ),
        (&[headers("h"), frame(0x21, b"")], &["Head h", "End"]),
        (&[headers("h"), data("")], &["Head h", "End"]),
    ];
    for (frames, expected) in rows {
        let mut found = seen_in_all_ways(Role::Server, &frames.concat()).unwrap();
        // A frame between them is not seen.
        if let Some(place) = found.iter().position(|seen| seen == "Data ab") {
            found.splice(place..=place, ["Data a".into(), "Data b".into()]);
        }
        assert_eq!(found, *expected);
    }
}

#[test]
fn faults_of_the_connection() {
    let unexpected = Http3Code::FRAME_UNEXPECTED;
    let mut rows: Vec<(Vec<Vec<u8>>, Http3Code)> = vec![
        (vec![data("a")], unexpected),
        (vec![data("")], unexpected),
        (vec![grease(), data("a")], unexpected),
        (vec![headers("h"), headers("t"), data("a")], unexpected),
        (vec![headers("h"), headers("t"), headers("u")], unexpected),
        (vec![headers("h"), vec![0]], Http3Code::FRAME_ERROR),
        (vec![headers("h"), vec![0, 0x40]], Http3Code::FRAME_ERROR),
        (vec![headers("h"), vec![0, 2, b'a']], Http3Code::FRAME_ERROR),
        (vec![headers("h"), vec![0, 2]], Http3Code::FRAME_ERROR),
        (vec![vec![1, 2, b'a']], Http3Code::FRAME_ERROR),
        (vec![headers("h"), vec![0x21, 2, b'a']], Http3Code::FRAME_ERROR),
        (vec![vec![0x40]], Http3Code::FRAME_ERROR),
    ];
    for number in [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd, 0xf_0700, 0xf_0701] {
        rows.push((vec![frame(number, b"")], unexpected));
        rows.push((vec![headers("h"), frame(number, b"12345")], unexpected));
    }
    for (frames, code) in rows {
        let fault = seen_in_all_ways(Role::Server, &frames.concat()).unwrap_err();
        assert_eq!((fault.is_of_connection(), fault.code()), (true, code), "{frames:?}");
    }
    let fault = seen_in_all_ways(Role::Client, &frame(frame_type::PUSH_PROMISE, b"\0")).unwrap_err();
    assert_eq!(fault, Http3Fault::bad_id());
}

#[test]
fn faults_of_the_stream() {
    let large = "h".repeat(101);
    let rows: &[(&[Vec<u8>], Http3Code, Rule)] = &[
        (&[], Http3Code::REQUEST_INCOMPLETE, Rule::Http3RequestIncomplete),
        (&[grease()], Http3Code::REQUEST_INCOMPLETE, Rule::Http3RequestIncomplete),
        (&[headers(&large)], Http3Code::EXCESSIVE_LOAD, Rule::HeadTooLarge),
        (&[headers("h"), headers(&large)], Http3Code::EXCESSIVE_LOAD, Rule::TrailersTooLarge),
        (
            &[vec![1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]],
            Http3Code::EXCESSIVE_LOAD,
            Rule::HeadTooLarge,
        ),
    ];
    for (frames, code, rule) in rows {
        let fault = seen_in_all_ways(Role::Server, &frames.concat());
        assert_eq!(fault, Err(Http3Fault::Stream { code: *code, rule: *rule }));
    }
    assert!(seen(Role::Server, &headers(&large[1..]), 7, true).is_ok());
}

/// What becomes of a body that is to have this length.
fn body(expected: u64, frames: &[Vec<u8>], ends_alone: bool) -> Result<(), Http3Fault> {
    let mut reader = Reader::new(Role::Server);
    reader.give(&headers("h"), false)?;
    reader.stream.expect_length(expected)?;
    reader.give(&frames.concat(), !ends_alone)?;
    if ends_alone { reader.give(&[], true) } else { Ok(()) }
}

#[test]
fn bodies_are_held_to_their_length() {
    let differs = Err(Http3Fault::message(Rule::LengthDiffers));
    for ends_alone in [false, true] {
        assert_eq!(body(3, &[data("abc")], ends_alone), Ok(()));
        assert_eq!(body(3, &[data("a"), data("bc"), headers("t")], ends_alone), Ok(()));
        assert_eq!(body(0, &[], ends_alone), Ok(()));
        assert_eq!(body(3, &[data("ab")], ends_alone), differs);
        assert_eq!(body(3, &[data("ab"), headers("t")], ends_alone), differs);
        assert_eq!(body(3, &[data("abcd")], ends_alone), differs);
        assert_eq!(body(3, &[data("abc"), data("d")], ends_alone), differs);
        assert_eq!(body(0, &[data("a")], ends_alone), differs);
        assert_eq!(body(1, &[], ends_alone), differs);
    }
    let mut reader = Reader::new(Role::Server);
    reader.give(&headers("h"), true).unwrap();
    assert_eq!(reader.stream.expect_length(1), differs);
    assert_eq!(reader.stream.expect_length(0), Ok(()));
}

#[test]
fn a_client_takes_any_number_of_interim_heads() {
    let mut reader = Reader::new(Role::Client);
    reader.give(&[headers("1"), headers("2"), headers("3")].concat(), false).unwrap();
    assert_eq!(reader.seen, ["Head 1", "Head 2", "Head 3"]);
    reader.stream.final_head();
    reader.give(&[data("a"), headers("t")].concat(), true).unwrap();
    assert_eq!(reader.seen[3..], ["Data a", "Trailers t", "End"]);

    let mut reader = Reader::new(Role::Client);
    reader.give(&headers("1"), false).unwrap();
    assert_eq!(reader.give(&data("a"), false), Err(Http3Fault::unexpected_frame()));
    let mut reader = Reader::new(Role::Client);
    reader.give(&headers("1"), false).unwrap();
    assert_eq!(reader.give(&[], true).map_err(Http3Fault::code), Err(Http3Code::REQUEST_INCOMPLETE));
}

#[test]
fn a_tunnel_carries_nothing_but_data() {
    let mut reader = Reader::new(Role::Server);
    reader.give(&headers("h"), false).unwrap();
    reader.stream.become_tunnel();
    reader.give(&[data("a"), grease(), data("b")].concat(), false).unwrap();
    assert_eq!(reader.seen, ["Head h", "Data ab"]);
    assert_eq!(reader.give(&headers("t"), true), Err(Http3Fault::unexpected_frame()));
}

#[test]
fn a_section_that_waits_is_kept() {
    let mut stream = RequestStream::new(Role::Server, 100);
    let bytes = [headers("head"), data("abc")].concat();
    let input = StreamInput { bytes: &bytes, is_last: false };
    let received = stream.receive(input, &mut PeerBudgets::new(), 0).unwrap();
    let Some(RequestEvent::Section { section, .. }) = received.event else { panic!("{received:?}") };
    assert_eq!((received.used, stream.section(&section, &bytes)), (6, &b"head"[..]));
    stream.keep_section(&section, &bytes);
    assert_eq!(stream.section(&SectionPlace::Gathered, &[]), b"head");
    stream.drop_section();
    assert_eq!(stream.section(&SectionPlace::Gathered, &[]), b"");
}

#[test]
fn nothing_is_reported_behind_a_fault() {
    let mut reader = Reader::new(Role::Server);
    assert!(reader.give(&headers(&"h".repeat(101)), false).is_err());
    assert_eq!(reader.give(b"anything", false), Ok(()));
    assert_eq!(reader.give(b"at all", true), Ok(()));
    let mut reader = Reader::new(Role::Server);
    reader.give(&headers("h"), false).unwrap();
    reader.stream.abandon();
    assert_eq!(reader.give(&[vec![0, 10], data("a")].concat(), true), Ok(()));
    assert_eq!(reader.seen, ["Head h"]);
}

/// How many times this may come before it ends the connection, and with which rule.
fn bound(piece: &[u8]) -> (usize, Rule) {
    let mut reader = Reader::new(Role::Server);
    reader.give(&headers("h"), false).unwrap();
    let fault = (0..10_000).map(|count| (count, reader.give(piece, false)));
    let (count, fault) = fault.into_iter().find(|(_, outcome)| outcome.is_err()).unwrap();
    let fault = fault.unwrap_err();
    assert_eq!((fault.is_of_connection(), fault.code()), (true, Http3Code::EXCESSIVE_LOAD));
    (count, fault.rule())
}

#[test]
fn frames_that_cost_the_peer_little_are_bounded() {
    assert_eq!(bound(&data("")), (1_000, Rule::Http3EmptyDataFlood));
    assert_eq!(bound(&grease()), (1_000, Rule::Http3UnknownFrameFlood));
    assert_eq!(bound(&frame(0x40, b"")), (1_000, Rule::Http3UnknownFrameFlood));
}

#[test]
fn a_stream_is_small() {
    assert!(size_of::<RequestStream>() <= 112, "{}", size_of::<RequestStream>());
}

fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let piece = prop_oneof![
        Just(headers("section")),
        Just(data("some data")),
        Just(data("")),
        Just(grease()),
        vec(any::<u8>(), 0..6),
    ];
    vec(piece, 0..6)
}

proptest! {
    #[test]
    fn the_same_is_seen_however_bytes_arrive(pieces in pieces(), size in 1_usize..40, ends_alone: bool) {
        let bytes = pieces.concat();
        let whole = seen(Role::Server, &bytes, bytes.len().max(1), false);
        prop_assert_eq!(seen(Role::Server, &bytes, size, ends_alone), whole);
    }
}
