//! Each rule of frames and streams, broken by exact bytes: the code that the peer is told, and whether the connection lives.

use super::wire::*;
use crate::h2::connection::BlockUse;
use crate::h2::fault::{ConnectionFault, StreamFault};
use crate::h2::frame::{ErrorCode, PREFACE, WINDOW_MAX};
use crate::h2::settings::Settings;
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

const PROTOCOL: ErrorCode = ErrorCode::PROTOCOL_ERROR;
const CLOSED: ErrorCode = ErrorCode::STREAM_CLOSED;
const SIZE: ErrorCode = ErrorCode::FRAME_SIZE_ERROR;
const FLOW: ErrorCode = ErrorCode::FLOW_CONTROL_ERROR;
const CALM: ErrorCode = ErrorCode::ENHANCE_YOUR_CALM;

/// Fails unless `bytes` end the connection of `end` in this way.
fn check(mut end: End, what: &str, bytes: &[u8], code: ErrorCode, rule: Rule) {
    assert_eq!(end.fault(bytes), ConnectionFault { code, rule }, "{what}");
}

#[test]
fn what_comes_first() {
    let server = || End::fresh(Role::Server, Settings::default());
    let rows: &[(&str, Vec<u8>, Rule)] = &[
        ("HTTP/1", b"GET / HTTP/1.1\r\n\r\n".to_vec(), Rule::Http2BadPreface),
        ("the first byte", b"G".to_vec(), Rule::Http2BadPreface),
        ("the last byte", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\r".to_vec(), Rule::Http2BadPreface),
        ("PING first", [&PREFACE[..], &ping()].concat(), Rule::Http2SettingsMissing),
        ("HEADERS first", [&PREFACE[..], &head(1)].concat(), Rule::Http2SettingsMissing),
        ("DATA first", [&PREFACE[..], &data(1, 1)].concat(), Rule::Http2SettingsMissing),
        ("unknown first", [&PREFACE[..], &frame(99, 0, 0, b"")].concat(), Rule::Http2SettingsMissing),
        ("ACK first", [&PREFACE[..], &frame(SETTINGS, ACK, 0, b"")].concat(), Rule::Http2SettingsMissing),
    ];
    for (what, bytes, rule) in rows {
        check(server(), what, bytes, PROTOCOL, *rule);
    }
    check(
        End::fresh(Role::Client, Settings::default()),
        "PING",
        &ping(),
        PROTOCOL,
        Rule::Http2SettingsMissing,
    );
}

#[test]
fn frames_that_nobody_may_send() {
    let padded = |len: u8, flags: u8, number: u8| frame(number, PADDED | flags, 1, &[len, 0x82, 0, 0]);
    let self_dependent = frame(HEADERS, END_HEADERS | PRIORITISED, 3, &[0x80, 0, 0, 3, 16, 0x82]);
    let rows: &[(&str, Vec<u8>, ErrorCode, Rule)] = &[
        ("a large frame", vec![0, 0x40, 1, 0, 0, 0, 0, 0, 1], SIZE, Rule::Http2FrameTooLarge),
        ("a large unknown frame", vec![0, 0x40, 1, 99, 0, 0, 0, 0, 1], SIZE, Rule::Http2FrameTooLarge),
        ("short PRIORITY", frame(PRIORITY, 0, 3, &[0; 4]), SIZE, Rule::Http2BadFrameLength),
        ("long RST_STREAM", frame(RST_STREAM, 0, 1, &[0; 5]), SIZE, Rule::Http2BadFrameLength),
        ("short RST_STREAM", frame(RST_STREAM, 0, 1, &[0; 3]), SIZE, Rule::Http2BadFrameLength),
        ("short WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0; 3]), SIZE, Rule::Http2BadFrameLength),
        ("SETTINGS of 5 bytes", frame(SETTINGS, 0, 0, &[0; 5]), SIZE, Rule::Http2BadFrameLength),
        ("ACK with a setting", frame(SETTINGS, ACK, 0, &[0; 6]), SIZE, Rule::Http2BadFrameLength),
        ("PING of 7 bytes", frame(PING, 0, 0, &[0; 7]), SIZE, Rule::Http2BadFrameLength),
        ("GOAWAY of 7 bytes", frame(GOAWAY, 0, 0, &[0; 7]), SIZE, Rule::Http2BadFrameLength),
        ("short PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, &[0; 3]), SIZE, Rule::Http2BadFrameLength),
        ("HEADERS without its priority", frame(HEADERS, 0x24, 3, &[0; 4]), SIZE, Rule::Http2BadFrameLength),
        ("DATA on 0", data(0, 1), PROTOCOL, Rule::Http2BadStreamId),
        ("HEADERS on 0", head(0), PROTOCOL, Rule::Http2BadStreamId),
        ("PRIORITY on 0", frame(PRIORITY, 0, 0, &[0; 5]), PROTOCOL, Rule::Http2BadStreamId),
        ("RST_STREAM on 0", reset(0, 0), PROTOCOL, Rule::Http2BadStreamId),
        ("CONTINUATION on 0", frame(CONTINUATION, 0, 0, b""), PROTOCOL, Rule::Http2BadStreamId),
        ("SETTINGS on 1", frame(SETTINGS, 0, 1, b""), PROTOCOL, Rule::Http2BadStreamId),
        ("PING on 1", frame(PING, 0, 1, &[0; 8]), PROTOCOL, Rule::Http2BadStreamId),
        ("GOAWAY on 1", frame(GOAWAY, 0, 1, &[0; 8]), PROTOCOL, Rule::Http2BadStreamId),
        (
            "PRIORITY_UPDATE on 1",
            frame(PRIORITY_UPDATE, 0, 1, b"\0\0\0\x01u=1"),
            PROTOCOL,
            Rule::Http2BadStreamId,
        ),
        (
            "PRIORITY_UPDATE of 0",
            frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\0u=1"),
            PROTOCOL,
            Rule::Http2BadStreamId,
        ),
        ("padded DATA without bytes", frame(DATA, PADDED, 1, b""), PROTOCOL, Rule::Http2BadPadding),
        ("padding of all DATA and more", padded(4, 0, DATA), PROTOCOL, Rule::Http2BadPadding),
        (
            "padded HEADERS without bytes",
            frame(HEADERS, PADDED | END_HEADERS, 1, b""),
            PROTOCOL,
            Rule::Http2BadPadding,
        ),
        ("padding of all HEADERS and more", padded(4, END_HEADERS, HEADERS), PROTOCOL, Rule::Http2BadPadding),
        (
            "padding of the priority",
            frame(HEADERS, 0x2c, 3, &[2, 0, 0, 0, 0, 1, 9]),
            PROTOCOL,
            Rule::Http2BadPadding,
        ),
        ("HEADERS that depends on itself", self_dependent, PROTOCOL, Rule::Http2SelfDependency),
        (
            "PRIORITY that depends on itself",
            frame(PRIORITY, 0, 3, &[0, 0, 0, 3, 9]),
            PROTOCOL,
            Rule::Http2SelfDependency,
        ),
        (
            "a push",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
            PROTOCOL,
            Rule::Http2PushRefused,
        ),
        ("a zero increment", window_update(0, 0), PROTOCOL, Rule::Http2ZeroIncrement),
        ("the window of the connection", window_update(0, WINDOW_MAX), FLOW, Rule::Http2WindowOverflow),
        ("ENABLE_PUSH 2", settings(&[(2, 2)]), PROTOCOL, Rule::Http2BadSetting),
        ("INITIAL_WINDOW_SIZE 2^31", settings(&[(4, 1 << 31)]), FLOW, Rule::Http2BadSetting),
        ("MAX_FRAME_SIZE 0", settings(&[(5, 0)]), PROTOCOL, Rule::Http2BadSetting),
        ("33 settings", settings(&[(77, 0); 33]), CALM, Rule::Http2TooManySettings),
        (
            "CONTINUATION alone",
            frame(CONTINUATION, END_HEADERS, 1, b""),
            PROTOCOL,
            Rule::Http2BlockInterrupted,
        ),
    ];
    for (what, bytes, code, rule) in rows {
        let mut server = End::ready(Role::Server);
        server.receive(&head(1));
        check(server, what, bytes, *code, *rule);
        if !what.contains("PRIORITY_UPDATE") {
            check(End::client_with_streams(1), what, bytes, *code, *rule);
        }
    }
}

#[test]
fn only_clients_set_priorities() {
    let update = frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1");
    check(End::client_with_streams(1), "PRIORITY_UPDATE", &update, PROTOCOL, Rule::Http2BadStreamId);
    let seen = End::ready(Role::Server).receive(&update);
    assert_eq!(seen, [Seen::Priority { stream: 1, value: b"u=1".to_vec() }]);
}

#[test]
fn streams_that_have_not_been_opened() {
    let frames = |id| [data(id, 1), reset(id, 8), window_update(id, 1)];
    // Streams of an even number are those that a server would open.
    for (id, frame) in [2, 3].into_iter().flat_map(|id| frames(id).map(|frame| (id, frame))) {
        let mut server = End::ready(Role::Server);
        server.receive(&head(1));
        check(server, &format!("{id} {frame:?}"), &frame, PROTOCOL, Rule::Http2IdleStream);
        check(End::client_with_streams(1), "", &frame, PROTOCOL, Rule::Http2IdleStream);
    }
    check(End::client_with_streams(1), "a head", &head(3), PROTOCOL, Rule::Http2IdleStream);
    check(End::client_with_streams(1), "a head", &head(2), PROTOCOL, Rule::Http2IdleStream);
    check(End::ready(Role::Server), "an even number", &head(2), PROTOCOL, Rule::Http2BadStreamId);
}

#[test]
fn a_stream_that_was_skipped_is_not_opened_later() {
    let mut server = End::ready(Role::Server);
    server.receive(&[last_head(1), last_head(7)].concat());
    check(server, "3", &head(3), PROTOCOL, Rule::Http2BadStreamId);
    let mut server = End::ready(Role::Server);
    server.receive(&last_head(5));
    check(server, "1", &head(1), PROTOCOL, Rule::Http2BadStreamId);
    // One that was opened and has ended is another matter.
    let mut server = End::ready(Role::Server);
    server.receive(&[last_head(1), last_head(7)].concat());
    server.connection.send_end(1, None, &mut Vec::new());
    server.connection.release(1, ErrorCode::CANCEL, &mut Vec::new());
    check(server, "1", &head(1), CLOSED, Rule::Http2StreamClosed);
}

#[test]
fn a_header_block_is_not_interrupted() {
    let open = frame(HEADERS, END_STREAM, 1, b"\x82");
    let others = [
        ping(),
        data(1, 1),
        head(3),
        head(1),
        settings(&[]),
        frame(99, 0, 1, b""),
        frame(PRIORITY, 0, 1, &[0; 5]),
        frame(CONTINUATION, END_HEADERS, 3, b"\x84"),
    ];
    for other in others {
        let bytes = [&open[..], &other].concat();
        check(End::ready(Role::Server), &format!("{other:?}"), &bytes, PROTOCOL, Rule::Http2BlockInterrupted);
    }
    let mut server = End::ready(Role::Server);
    assert!(server.receive(&open).is_empty() && server.connection.is_in_block());
    let seen = server.receive(&frame(CONTINUATION, END_HEADERS, 1, b"\x84"));
    let (stream, block, usage) = (1, b"\x82\x84".to_vec(), BlockUse::Head);
    assert_eq!(seen, [Seen::Block { stream, block, usage, ends_stream: true }]);
    assert!(!server.connection.is_in_block());
}

/// Fails unless `bytes` end stream 1 of `end`, and only that.
fn check_stream(mut end: End, what: &str, bytes: &[u8], code: ErrorCode, rule: Rule) {
    let fault = StreamFault { code, rule };
    let seen = end.receive(bytes);
    let is_it = |seen: &Seen| match seen {
        Seen::Fault { stream: 1, code, rule } => fault == StreamFault { code: *code, rule: *rule },
        Seen::Block { stream: 1, usage: BlockUse::Fault(found), .. } => *found == fault,
        _ => false,
    };
    assert!(seen.iter().any(is_it), "{what}: {seen:?}");
    let resets = end.written().into_iter().filter(|frame| frame.number == RST_STREAM);
    let resets: Vec<_> = resets.map(|frame| (frame.stream, frame.payload)).collect();
    assert_eq!(resets, [(1, code.0.to_be_bytes().to_vec())], "{what}");
    assert_eq!(end.send(1, 1), 0, "{what}");
    // The connection lives.
    assert_eq!(end.receive(&frame(PING, ACK, 0, &[0; 8])), [Seen::Pong([0; 8])]);
}

#[test]
fn what_ends_a_stream_of_a_server() {
    let rows: &[(&str, Vec<u8>, ErrorCode, Rule)] = &[
        ("a zero increment", [head(1), window_update(1, 0)].concat(), PROTOCOL, Rule::Http2ZeroIncrement),
        ("its window", [head(1), window_update(1, WINDOW_MAX)].concat(), FLOW, Rule::Http2WindowOverflow),
        ("DATA behind the end", [last_head(1), data(1, 1)].concat(), CLOSED, Rule::Http2StreamClosed),
        ("HEADERS behind the end", [last_head(1), last_head(1)].concat(), CLOSED, Rule::Http2StreamClosed),
        (
            "DATA behind the trailers",
            [head(1), last_head(1), data(1, 1)].concat(),
            CLOSED,
            Rule::Http2StreamClosed,
        ),
        ("trailers without an end", [head(1), head(1)].concat(), PROTOCOL, Rule::Http2TrailersWithoutEnd),
    ];
    for (what, bytes, code, rule) in rows {
        check_stream(End::ready(Role::Server), what, bytes, *code, *rule);
    }
}

#[test]
fn what_ends_a_stream_of_a_client() {
    let rows: &[(&str, Vec<u8>, ErrorCode, Rule)] = &[
        ("a zero increment", window_update(1, 0), PROTOCOL, Rule::Http2ZeroIncrement),
        ("its window", window_update(1, WINDOW_MAX), FLOW, Rule::Http2WindowOverflow),
        ("DATA behind the end", [last_head(1), data(1, 1)].concat(), CLOSED, Rule::Http2StreamClosed),
        ("HEADERS behind the end", [last_head(1), head(1)].concat(), CLOSED, Rule::Http2StreamClosed),
    ];
    for (what, bytes, code, rule) in rows {
        check_stream(End::client_with_streams(1), what, bytes, *code, *rule);
    }
}

/// RFC 9113 section 5.1: whatever follows RST_STREAM but PRIORITY is a fault of its sender, whether its exchange is torn down yet or not.
#[test]
fn frames_behind_a_reset_of_their_sender() {
    for is_released in [false, true] {
        for frames in [data(1, 1), frame(DATA, END_STREAM, 1, b"")] {
            let mut server = End::ready(Role::Server);
            server.receive(&[head(1), reset(1, 8)].concat());
            if is_released {
                server.connection.release(1, ErrorCode::CANCEL, &mut Vec::new());
            }
            server.receive(&frames);
            assert_eq!(server.resets(), [(1, CLOSED)], "{is_released}");
        }
        let mut server = End::ready(Role::Server);
        server.receive(&[head(1), reset(1, 8)].concat());
        if is_released {
            server.connection.release(1, ErrorCode::CANCEL, &mut Vec::new());
            check(server, "a head", &last_head(1), CLOSED, Rule::Http2StreamClosed);
        } else {
            server.receive(&last_head(1));
            assert_eq!(server.resets(), [(1, CLOSED)]);
        }
    }
    let mut server = End::ready(Role::Server);
    server.receive(&[head(1), reset(1, 8), frame(PRIORITY, 0, 1, &[0; 5]), window_update(1, 1)].concat());
    assert_eq!(server.resets(), []);
}

#[test]
fn a_body_is_as_long_as_was_said() {
    let length_differs = |server: &mut End, bytes: &[u8]| {
        let seen = server.receive(bytes);
        let is_it = |seen: &Seen| match seen {
            Seen::Fault { rule, .. } => *rule == Rule::LengthDiffers,
            Seen::Block { usage: BlockUse::Fault(fault), .. } => fault.rule == Rule::LengthDiffers,
            _ => false,
        };
        let resets = server.written().iter().filter(|frame| frame.number == RST_STREAM).count();
        assert_eq!(usize::from(seen.iter().any(is_it)), resets);
        resets == 1
    };
    let rows: &[(&str, Vec<u8>, bool)] = &[
        ("longer", data(1, 11), true),
        ("longer, in two", [data(1, 10), data(1, 1)].concat(), true),
        ("shorter", frame(DATA, END_STREAM, 1, b"123456789"), true),
        ("none", frame(DATA, END_STREAM, 1, b""), true),
        ("shorter, with trailers", [data(1, 9), last_head(1)].concat(), true),
        ("right", frame(DATA, END_STREAM, 1, b"1234567890"), false),
        ("right, with an empty end", [data(1, 10), frame(DATA, END_STREAM, 1, b"")].concat(), false),
        ("right, with padding", frame(DATA, END_STREAM | PADDED, 1, b"\x021234567890.."), false),
        ("right, with trailers", [data(1, 10), last_head(1)].concat(), false),
        ("not yet over", data(1, 9), false),
    ];
    for (what, bytes, expected) in rows {
        let mut server = End::ready(Role::Server);
        server.receive(&head(1));
        server.connection.expect_length(1, 10).unwrap();
        assert_eq!(length_differs(&mut server, bytes), *expected, "{what}");
        let mut client = End::client_with_streams(1);
        client.receive(&head(1));
        client.connection.expect_length(1, 10).unwrap();
        assert_eq!(length_differs(&mut client, bytes), *expected, "{what}");
    }
    let mut server = End::ready(Role::Server);
    server.receive(&last_head(1));
    assert!(server.connection.expect_length(1, 1).is_err());
    assert_eq!(server.connection.expect_length(1, 0), Ok(()));
}
