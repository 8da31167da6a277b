//! The connection: which streams there may be, what they may say, and how the end is announced.

use super::*;
use crate::h3::fault::Http3Code;
use crate::h3::input::StreamInput;
use crate::message::field_values::priority::Priority;

const SETTINGS: &[u8] = &[0, 4, 0];

fn connection(role: Role) -> Http3Connection {
    let local = Http3Settings {
        qpack_max_table_capacity: 4_096,
        qpack_blocked_streams: 2,
        ..Http3Settings::default()
    };
    Http3Connection::new(role, &local, Http3Limits::default(), None)
}

fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_frame_head(&mut out, number, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

/// Gives input of one stream in pieces of a size.
fn give(
    connection: &mut Http3Connection,
    stream: &mut UnidirectionalStream,
    bytes: &[u8],
    size: usize,
) -> Result<Vec<PeerEvent>, Http3Fault> {
    let mut events = Vec::new();
    for piece in bytes.chunks(size) {
        let mut rest = piece;
        loop {
            let input = StreamInput { bytes: rest, is_last: false };
            let received = connection.receive(stream, input, 0)?;
            rest = &rest[received.used..];
            match received.event {
                Some(event) => events.push(event),
                None => break,
            }
        }
        assert!(rest.is_empty(), "all is used");
    }
    Ok(events)
}

/// What comes of the bytes of a whole stream, which must be so however they arrive.
fn given(role: Role, bytes: &[u8]) -> Result<Vec<PeerEvent>, Http3Fault> {
    let outcome = |size| give(&mut connection(role), &mut UnidirectionalStream::new(), bytes, size);
    let whole = outcome(bytes.len().max(1));
    for size in 1..bytes.len() {
        assert_eq!(outcome(size), whole, "{size}");
    }
    whole
}

#[test]
fn frames_of_the_control_stream() {
    let urgent = Priority { urgency: 1, is_incremental: true };
    let mut long_priority = vec![0];
    long_priority.resize(300, b' ');
    let rows: &[(&[Vec<u8>], &[PeerEvent])] = &[
        (&[], &[]),
        (
            &[frame(7, &[0x40, 0]), frame(7, &[0])],
            &[PeerEvent::GoAway { id: 0 }, PeerEvent::GoAway { id: 0 }],
        ),
        (&[frame(7, &[7])], &[PeerEvent::GoAway { id: 7 }]),
        (&[frame(0xd, &[1]), frame(0xd, &[1]), frame(0xd, &[0x40, 9])], &[]),
        (&[frame(0xf_0700, b"\x04u=1, i")], &[PeerEvent::Priority { stream: 4, priority: urgent }]),
        (&[frame(0xf_0700, b"\x00")], &[PeerEvent::Priority { stream: 0, priority: Priority::default() }]),
        (&[frame(0xf_0700, &long_priority)], &[]),
        (&[frame(0x21, b"anything"), frame(0x33, b""), frame(1 << 60, &[0; 500])], &[]),
    ];
    for (frames, expected) in rows {
        let bytes = [SETTINGS, &frames.concat()].concat();
        let events = given(Role::Server, &bytes).unwrap();
        assert_eq!(events[0], PeerEvent::Settings);
        assert_eq!(events[1..], **expected, "{frames:?}");
    }
    let bytes = [SETTINGS, &frame(7, &[8]), &frame(7, &[4])].concat();
    let expected = [PeerEvent::Settings, PeerEvent::GoAway { id: 8 }, PeerEvent::GoAway { id: 4 }];
    assert_eq!(given(Role::Client, &bytes).unwrap(), expected);
}

#[test]
fn faults_of_the_control_stream() {
    let (unexpected, bad_frame) = (Http3Code::FRAME_UNEXPECTED, Http3Code::FRAME_ERROR);
    let mut rows: Vec<(Role, Vec<u8>, Http3Code)> = vec![
        (Role::Server, frame(7, &[]), bad_frame),
        (Role::Server, frame(7, &[0, 0]), bad_frame),
        (Role::Server, frame(7, &[0x40]), bad_frame),
        (Role::Server, frame(7, &[0; 9]), bad_frame),
        (Role::Server, [frame(7, &[3]), frame(7, &[4])].concat(), Http3Code::ID_ERROR),
        (Role::Client, frame(7, &[1]), Http3Code::ID_ERROR),
        (Role::Client, [frame(7, &[4]), frame(7, &[8])].concat(), Http3Code::ID_ERROR),
        (Role::Server, frame(0xd, &[]), bad_frame),
        (Role::Server, frame(0xd, &[0, 1]), bad_frame),
        (Role::Server, [frame(0xd, &[4]), frame(0xd, &[3])].concat(), Http3Code::ID_ERROR),
        (Role::Client, frame(0xd, &[4]), unexpected),
        (Role::Server, frame(3, &[4]), Http3Code::ID_ERROR),
        (Role::Client, frame(3, &[4]), Http3Code::ID_ERROR),
        (Role::Server, frame(3, &[]), bad_frame),
        (Role::Server, frame(0xf_0700, &[]), bad_frame),
        (Role::Server, frame(0xf_0700, &[0x40]), bad_frame),
        (Role::Server, frame(0xf_0700, &[1]), Http3Code::ID_ERROR),
        (Role::Server, frame(0xf_0701, &[0]), Http3Code::ID_ERROR),
        (Role::Client, frame(0xf_0700, &[0]), unexpected),
        (Role::Client, frame(0xf_0701, &[0]), unexpected),
        (Role::Server, frame(4, &[]), unexpected),
    ];
    for number in [0, 1, 2, 5, 6, 8, 9] {
        rows.push((Role::Server, frame(number, b""), unexpected));
        rows.push((Role::Client, frame(number, b"12345678"), unexpected));
    }
    for (role, frames, code) in rows {
        let fault = given(role, &[SETTINGS, &frames].concat()).unwrap_err();
        assert_eq!((fault.is_of_connection(), fault.code()), (true, code), "{role:?} {frames:?}");
    }
    for (bytes, code) in [
        (&[&[0][..], &frame(0x21, b"")].concat(), Http3Code::MISSING_SETTINGS),
        (&[&[0][..], &frame(7, &[0])].concat(), Http3Code::MISSING_SETTINGS),
        (&[&[0][..], &frame(4, &[2, 0])].concat(), Http3Code::SETTINGS_ERROR),
        (&[&[0][..], &frame(4, &[6])].concat(), bad_frame),
        (&[&[0][..], &frame(4, &[0; 513])].concat(), Http3Code::EXCESSIVE_LOAD),
    ] {
        assert_eq!(given(Role::Server, bytes).map_err(Http3Fault::code), Err(code), "{bytes:?}");
    }
}

#[test]
fn types_of_streams() {
    for (role, bytes, code) in [
        (Role::Server, &[1][..], Http3Code::STREAM_CREATION_ERROR),
        (Role::Server, &[0x40, 1], Http3Code::STREAM_CREATION_ERROR),
        (Role::Client, &[1], Http3Code::ID_ERROR),
    ] {
        assert_eq!(given(role, bytes).map_err(Http3Fault::code), Err(code));
    }
    for bytes in [&[0x21, 1, 2, 3][..], &[0x40, 0x21], &[0x54], &[0xc0, 0, 0, 0, 0, 0, 0, 0x21, 9]] {
        let unknown = if bytes == [0x54] { vec![] } else { vec![PeerEvent::UnknownStream] };
        assert_eq!(given(Role::Server, bytes), Ok(unknown));
    }
    for first in [SETTINGS, &[2], &[3], &[0x40, 2]] {
        let mut connection = connection(Role::Server);
        let (mut one, mut other) = (UnidirectionalStream::new(), UnidirectionalStream::new());
        give(&mut connection, &mut one, first, 1).unwrap();
        let fault = give(&mut connection, &mut other, first, 1).unwrap_err();
        assert_eq!(fault.code(), Http3Code::STREAM_CREATION_ERROR);
    }
}

#[test]
fn critical_streams_must_stay_open() {
    for (first, is_critical) in
        [(SETTINGS, true), (&[2], true), (&[3], true), (&[0x21], false), (&[0x40], false)]
    {
        let mut connection = connection(Role::Server);
        let mut stream = UnidirectionalStream::new();
        give(&mut connection, &mut stream, first, 100).unwrap();
        let end = StreamInput { bytes: &[], is_last: true };
        let ended = connection.receive(&mut stream, end, 0).map(|_| ());
        let expected = if is_critical { Err(Http3Fault::closed_critical_stream()) } else { Ok(()) };
        assert_eq!((ended, connection.reset(&stream, 0)), (expected, expected), "{first:?}");
    }
    // The end comes with the settings, which are seen before.
    let mut connection = connection(Role::Server);
    let mut stream = UnidirectionalStream::new();
    let input = StreamInput { bytes: SETTINGS, is_last: true };
    let received = connection.receive(&mut stream, input, 0).unwrap();
    assert_eq!(received, PeerReceived { used: 3, event: Some(PeerEvent::Settings) });
    let end = StreamInput { bytes: &[], is_last: true };
    assert_eq!(connection.receive(&mut stream, end, 0), Err(Http3Fault::closed_critical_stream()));
}

#[test]
fn streams_of_qpack_reach_their_tables() {
    let mut client = connection(Role::Client);
    let mut server = connection(Role::Server);
    let settings = std::mem::take(client.unsent(OwnStream::Control));
    give(&mut server, &mut UnidirectionalStream::new(), &settings, 100).unwrap();
    assert_eq!(server.remote().map(|remote| remote.qpack_max_table_capacity), Some(4_096));
    assert!(server.unsent(OwnStream::Encoder).is_empty() && server.unsent(OwnStream::Decoder).is_empty());

    let mut out = Vec::new();
    for _ in 0..2 {
        let lines = crate::h3::SectionWriter::response(&mut server.encoder, 0, &mut out, 418);
        lines.finish();
    }
    let instructions = std::mem::take(server.unsent(OwnStream::Encoder));
    assert_eq!(instructions[..4], *b"\x02\x3f\xe1\x1f");
    let mut encoder_stream = UnidirectionalStream::new();
    give(&mut client, &mut encoder_stream, &instructions, 1).unwrap();
    let acknowledgements = std::mem::take(client.unsent(OwnStream::Decoder));
    assert_eq!(acknowledgements, b"\x03\x01");
    give(&mut server, &mut UnidirectionalStream::new(), &acknowledgements, 1).unwrap();
    out.clear();
    crate::h3::SectionWriter::response(&mut server.encoder, 0, &mut out, 418).finish();
    assert_eq!(out, b"\x01\x40\x03\x02\x00\x80");

    let fault = give(&mut client, &mut encoder_stream, b"\x7f", 1).err();
    assert_eq!(fault, None, "an instruction may be cut");
    for (bytes, code) in [
        (&b"\x02\x80\x00"[..], Http3Code::QPACK_ENCODER_STREAM_ERROR),
        (b"\x02\x3f\xff\xff\x7f", Http3Code::QPACK_ENCODER_STREAM_ERROR),
        (b"\x03\x01", Http3Code::QPACK_DECODER_STREAM_ERROR),
        (b"\x03\x00", Http3Code::QPACK_DECODER_STREAM_ERROR),
        (b"\x03\x80", Http3Code::QPACK_DECODER_STREAM_ERROR),
    ] {
        assert_eq!(given(Role::Server, bytes).map_err(Http3Fault::code), Err(code));
    }
}

#[test]
fn the_end_is_announced_in_two_steps() {
    let mut server = connection(Role::Server);
    server.unsent(OwnStream::Control).clear();
    assert_eq!(server.admit_request(0), Ok(RequestAdmission::Taken));
    assert_eq!(server.admit_request(8), Ok(RequestAdmission::Taken), "QUIC opens those before it, too");
    server.announce_go_away();
    let first = std::mem::take(server.unsent(OwnStream::Control));
    assert_eq!(first, b"\x07\x08\xff\xff\xff\xff\xff\xff\xff\xfc");
    assert_eq!(server.admit_request(12), Ok(RequestAdmission::Taken), "it was on its way");
    server.go_away();
    assert_eq!(std::mem::take(server.unsent(OwnStream::Control)), b"\x07\x01\x10");
    assert_eq!(server.admit_request(4), Ok(RequestAdmission::Taken), "it comes late");
    assert_eq!(server.admit_request(16), Ok(RequestAdmission::Rejected));
    server.go_away();
    server.announce_go_away();
    assert!(server.unsent(OwnStream::Control).is_empty(), "nothing is said twice, nor taken back");

    let mut client = connection(Role::Client);
    assert!(client.may_request(0));
    let bytes = [SETTINGS, &first, b"\x07\x01\x10"].concat();
    give(&mut client, &mut UnidirectionalStream::new(), &bytes, 5).unwrap();
    assert!(client.may_request(12) && !client.may_request(16));
    client.unsent(OwnStream::Control).clear();
    client.go_away();
    assert_eq!(client.unsent(OwnStream::Control), b"\x07\x01\x00");
    for (role, stream) in [(Role::Client, 0), (Role::Client, 1), (Role::Server, 1)] {
        let admission = connection(role).admit_request(stream);
        assert_eq!(admission.map_err(Http3Fault::code), Err(Http3Code::STREAM_CREATION_ERROR));
    }
}

#[test]
fn what_means_nothing_is_skipped_by_any_peer() {
    let settings = Http3Settings { enable_connect_protocol: true, ..Http3Settings::default() };
    for random in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
        let mut server = Http3Connection::new(Role::Server, &settings, Http3Limits::default(), Some(random));
        let bytes = std::mem::take(server.unsent(OwnStream::Control));
        let mut client = connection(Role::Client);
        let events = give(&mut client, &mut UnidirectionalStream::new(), &bytes, 3);
        assert_eq!((events, client.remote()), (Ok(vec![PeerEvent::Settings]), Some(&settings)));
    }
}

/// How many times something may come before it ends the connection, and with which rule.
fn bound(mut give_one: impl FnMut(&mut Http3Connection) -> Result<(), Http3Fault>) -> (usize, Rule) {
    let mut connection = connection(Role::Server);
    let mut outcomes = (0..100_000).map(|count| (count, give_one(&mut connection)));
    let (count, outcome) = outcomes.find(|(_, outcome)| outcome.is_err()).unwrap();
    let fault = outcome.unwrap_err();
    assert_eq!((fault.is_of_connection(), fault.code()), (true, Http3Code::EXCESSIVE_LOAD));
    (count, fault.rule())
}

/// The same of a frame on the control stream.
fn control_bound(piece: &[u8]) -> (usize, Rule) {
    let mut stream = UnidirectionalStream::new();
    let mut has_begun = false;
    bound(|connection| {
        if !std::mem::replace(&mut has_begun, true) {
            give(connection, &mut stream, SETTINGS, 100)?;
        }
        give(connection, &mut stream, piece, 100).map(|_| ())
    })
}

#[test]
fn floods_are_bounded() {
    assert_eq!(control_bound(&frame(7, &[0])), (1_000, Rule::Http3ControlFlood));
    assert_eq!(control_bound(&frame(0xd, &[0])), (1_000, Rule::Http3ControlFlood));
    assert_eq!(control_bound(&frame(0xf_0700, &[0])), (1_000, Rule::Http3PriorityFlood));
    assert_eq!(control_bound(&frame(0x21, &[0])), (1_000, Rule::Http3UnknownFrameFlood));
    let unknown =
        bound(|connection| give(connection, &mut UnidirectionalStream::new(), &[0x21], 1).map(|_| ()));
    assert_eq!(unknown, (1_000, Rule::Http3StreamFlood));
    let ended = bound(|connection| {
        let end = StreamInput { bytes: &[], is_last: true };
        connection.receive(&mut UnidirectionalStream::new(), end, 0).map(|_| ())
    });
    assert_eq!(ended, (1_000, Rule::Http3StreamFlood), "before their type");
    let reset = bound(|connection| connection.reset(&UnidirectionalStream::new(), 0));
    assert_eq!(reset, (1_000, Rule::Http3StreamFlood), "before their type");
    let mut decoder_stream = UnidirectionalStream::new();
    let cancellations = bound(|connection| {
        let bytes: &[u8] = if decoder_stream.is_critical() { &[0x44] } else { &[3] };
        give(connection, &mut decoder_stream, bytes, 1).map(|_| ())
    });
    assert_eq!(cancellations, (1_001, Rule::Http3ControlFlood));
    assert_eq!(bound(|connection| connection.budgets.charge_reset(0)), (200, Rule::Http3TooManyResets));
    assert_eq!(bound(|connection| connection.budgets.charge_fault(0)), (200, Rule::Http3TooManyFaults));
    let mut encoder_stream = UnidirectionalStream::new();
    let instructions = bound(|connection| {
        let bytes: &[u8] = if encoder_stream.is_critical() { &[0x20] } else { &[2] };
        give(connection, &mut encoder_stream, bytes, 1).map(|_| ())
    });
    assert_eq!(instructions, (4_001, Rule::Http3EncoderFlood));
    let unread = {
        let mut stream = UnidirectionalStream::new();
        let mut connection = connection(Role::Server);
        give(&mut connection, &mut stream, b"\x02\x3f\xe1\x1f\x41a\x011", 100).unwrap();
        (0..20_000).find_map(|_| {
            connection.admit_request(0).unwrap();
            give(&mut connection, &mut stream, &[0], 1).err()
        })
    };
    assert_eq!(unread.map(Http3Fault::rule), Some(Rule::Http3AcknowledgementFlood));
}

#[test]
fn each_request_earns_a_little() {
    let mut count = 0;
    let mut stream = UnidirectionalStream::new();
    let (frames, _) = bound(|connection| {
        if count == 0 {
            give(connection, &mut stream, SETTINGS, 100)?;
            for request in 0..1_000 {
                connection.admit_request(request * 4)?;
            }
        }
        count += 1;
        give(connection, &mut stream, &frame(0xf_0700, &[0]), 100).map(|_| ())
    });
    assert_eq!(frames, 3_000);
}

#[test]
fn no_larger_table_is_announced_than_there_is() {
    let local = Http3Settings { qpack_max_table_capacity: 1 << 20, ..Http3Settings::default() };
    let mut server = Http3Connection::new(Role::Server, &local, Http3Limits::default(), None);
    let bytes = std::mem::take(server.unsent(OwnStream::Control));
    let mut client = connection(Role::Client);
    give(&mut client, &mut UnidirectionalStream::new(), &bytes, 100).unwrap();
    assert_eq!(client.remote().map(|remote| remote.qpack_max_table_capacity), Some(4_096));
}

#[test]
fn memory_is_given_back() {
    let mut server = connection(Role::Server);
    server.unsent(OwnStream::Control).clear();
    server.shrink();
    assert_eq!(server.control_unsent.capacity(), 0);
    assert!(size_of::<Http3Connection>() <= 700, "{}", size_of::<Http3Connection>());
}
