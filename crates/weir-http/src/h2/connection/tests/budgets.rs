//! What a peer may do often for a moment, but not for long; and that a well-behaved one may do it for ever.

use super::wire::*;
use crate::h2::connection::ConnectionLimits;
use crate::h2::fault::ConnectionFault;
use crate::h2::frame::{ErrorCode, WINDOW_MAX};
use crate::h2::settings::Settings;
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

const fn calm(rule: Rule) -> ConnectionFault {
    ConnectionFault { code: ErrorCode::ENHANCE_YOUR_CALM, rule }
}

/// How often the frames that `make` gives are taken before the connection ends, of `max` times; and with which fault.
fn times(end: &mut End, max: u32, mut make: impl FnMut(u32) -> Vec<u8>) -> (u32, Option<ConnectionFault>) {
    for number in 0..max {
        if let Err(fault) = end.receive_into(&make(number), &mut Vec::new()) {
            return (number, Some(fault));
        }
    }
    (max, None)
}

const fn id(number: u32) -> u32 {
    2 * number + 1
}

#[test]
fn streams_are_not_reset_for_ever() {
    let (resets, too_many) = (Some(calm(Rule::Http2TooManyResets)), Some(calm(Rule::Http2TooManyFaults)));
    type Frames = fn(u32) -> Vec<u8>;
    let by_client: Frames = |number| [head(id(number)), reset(id(number), 8)].concat();
    assert_eq!(times(&mut End::ready(Role::Server), 300, by_client), (200, resets));
    let rows: &[(&str, Frames)] = &[
        ("a zero increment", |number| [last_head(id(number)), window_update(id(number), 0)].concat()),
        ("an overflow", |number| [head(id(number)), window_update(id(number), WINDOW_MAX)].concat()),
        ("DATA behind the end", |number| [last_head(id(number)), data(id(number), 1)].concat()),
        ("bad trailers", |number| [head(id(number)), head(id(number))].concat()),
    ];
    for (what, make) in rows {
        let mut server = End::ready(Role::Server);
        assert_eq!(times(&mut server, 300, make), (200, too_many), "{what}");
        // 20 more a second.
        let mut server = End::ready(Role::Server);
        times(&mut server, 200, make);
        server.now = 500;
        assert_eq!(times(&mut server, 300, |number| make(number + 200)), (10, too_many), "{what}");
    }
    // Those that are refused.
    let local = Settings { max_concurrent_streams: 0, ..Settings::default() };
    let mut server = End::ready_with(Role::Server, local, ConnectionLimits::default());
    assert_eq!(times(&mut server, 300, |number| head(id(number))), (200, resets));
    // Frames behind a reset of the peer, on one stream; that itself is one reset.
    let mut server = End::ready(Role::Server);
    server.receive(&[head(1), reset(1, 8)].concat());
    assert_eq!(times(&mut server, 300, |_| data(1, 1)), (199, too_many));
    // Faults that the reader of heads finds.
    let mut server = End::ready(Role::Server);
    let malformed = crate::h2::StreamFault { code: ErrorCode::PROTOCOL_ERROR, rule: Rule::BadMethod };
    for number in 0..200 {
        server.receive(&head(id(number)));
        server.connection.fail(id(number), malformed, 0, &mut server.out).unwrap();
    }
    server.receive(&head(id(200)));
    assert_eq!(server.connection.fail(id(200), malformed, 0, &mut server.out).err(), too_many);
}

#[test]
fn our_own_resets_cost_the_peer_nothing() {
    let mut server = End::ready(Role::Server);
    for number in 0..1_000 {
        server.receive(&last_head(id(number)));
        server.connection.release(id(number), ErrorCode::INTERNAL_ERROR, &mut server.out);
    }
    // A server may reset what it likes.
    let mut client = End::client_with_streams(0);
    for _ in 0..500 {
        let stream = client.connection.open_stream();
        client.receive(&reset(stream, 7));
        client.connection.release(stream, ErrorCode::CANCEL, &mut client.out);
    }
}

#[test]
fn frames_without_content_have_a_budget() {
    use Rule::{
        Http2ClosedStreamFlood, Http2EmptyDataFlood, Http2OtherFrameFlood, Http2PingFlood,
        Http2PriorityFlood, Http2SettingsFlood, Http2WindowUpdateFlood,
    };
    let rows: &[(&str, Vec<u8>, Rule)] = &[
        ("PING", ping(), Http2PingFlood),
        ("PING that answers", frame(PING, ACK, 0, &[0; 8]), Http2PingFlood),
        ("SETTINGS", settings(&[]), Http2SettingsFlood),
        ("SETTINGS that acknowledge", frame(SETTINGS, ACK, 0, b""), Http2SettingsFlood),
        ("WINDOW_UPDATE", window_update(0, 1), Http2WindowUpdateFlood),
        ("WINDOW_UPDATE of a stream", window_update(1, 1), Http2WindowUpdateFlood),
        ("WINDOW_UPDATE of a stream that is over", window_update(3, 1), Http2WindowUpdateFlood),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0; 5]), Http2PriorityFlood),
        ("PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1"), Http2PriorityFlood),
        ("a long PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, &[b' '; 257]), Http2PriorityFlood),
        ("GOAWAY", go_away(0, 0), Http2OtherFrameFlood),
        ("an unknown frame", frame(99, 0, 0, b""), Http2OtherFrameFlood),
        ("empty DATA", data(1, 0), Http2EmptyDataFlood),
        ("padding", frame(DATA, PADDED, 1, &[5, 0, 0, 0, 0, 0]), Http2EmptyDataFlood),
        ("RST_STREAM of a stream that is over", reset(3, 8), Http2ClosedStreamFlood),
        ("a head on a stream that we reset", head(5), Http2ClosedStreamFlood),
    ];
    for (what, frame, rule) in rows {
        let too_many = Some(calm(*rule));
        let mut server = End::ready(Role::Server);
        server.receive(&[head(1), last_head(3), head(5)].concat());
        server.connection.release(3, ErrorCode::CANCEL, &mut server.out);
        server.connection.reset(5, ErrorCode::INTERNAL_ERROR, &mut server.out);
        server.reader = Reader::Consumes;
        // One was the acknowledgement of our settings.
        assert_eq!(times(&mut server, 2_000, |_| frame.clone()), (999, too_many), "{what}");
    }
    let mut server = End::ready(Role::Server);
    times(&mut server, 999, |_| ping());
    server.now = 50;
    assert_eq!(times(&mut server, 2_000, |_| ping()), (5, Some(calm(Http2PingFlood))), "100 a second");
}

/// Go opens both windows each time that 4 KiB were read, as do others for each frame; it takes no time here.
#[test]
fn the_peer_may_open_windows_for_what_it_reads() {
    let rows = [(16_384, 4_096), (16_384, 16_384), (5_000, 4_096), (100, 100), (1, 1)];
    for (len, step) in rows {
        let mut server = End::ready(Role::Server);
        server.receive(&last_head(1));
        for _ in 0..5_000 {
            assert_eq!(server.send(1, len), len);
            for at in (0..len).step_by(step) {
                let by = step.min(len - at) as u32;
                server.receive(&[window_update(1, by), window_update(0, by)].concat());
            }
            server.out.clear();
        }
    }
    // It may do so late: what is earned is added to the budget of 999, of which two are used.
    assert_eq!(times(&mut End::ready(Role::Server), 2_000, |_| ping()).0, 999);
    let mut server = End::ready(Role::Server);
    server.receive(&[last_head(1), window_update(1, 1 << 20), window_update(0, 1 << 20)].concat());
    assert_eq!(server.send(1, 1 << 20), 1 << 20);
    assert_eq!(times(&mut server, 2_000, |_| ping()).0, 997 + 64 * 10);
}

#[test]
fn a_header_block_is_bounded() {
    let open = |len: usize| frame(HEADERS, 0, 1, &vec![0x82; len]);
    let more = |flags: u8, len: usize| frame(CONTINUATION, flags, 1, &vec![0x82; len]);
    let too_large = calm(Rule::Http2BlockTooLarge);
    let too_many = calm(Rule::Http2TooManyContinuations);
    let rows: &[(&str, Vec<u8>, ConnectionFault)] = &[
        ("one byte more", [open(16_384), more(0, 16_384), more(END_HEADERS, 1)].concat(), too_large),
        ("nine frames", [open(1), more(0, 1).repeat(8), more(END_HEADERS, 1)].concat(), too_many),
        ("an empty one", [open(1), more(0, 0)].concat(), too_many),
    ];
    for (what, bytes, fault) in rows {
        assert_eq!(End::ready(Role::Server).fault(bytes), *fault, "{what}");
        assert_eq!(End::client_with_streams(1).fault(bytes), *fault, "{what}");
    }
    let fine = [
        [open(16_384), more(END_HEADERS, 16_384)].concat(),
        [open(1), more(0, 1).repeat(7), more(END_HEADERS, 1)].concat(),
        [open(0), more(END_HEADERS, 0)].concat(),
    ];
    for bytes in fine {
        let mut server = End::ready(Role::Server);
        assert_eq!(server.receive(&bytes).len(), 1);
        assert_eq!(server.connection.take_block().capacity(), 0, "the memory went with the block");
    }
}
