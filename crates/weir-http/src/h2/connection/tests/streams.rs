//! The life of streams: how they begin and end, in which order, and what is still taken when they are over.

use super::wire::*;
use crate::h2::connection::{BlockUse, ConnectionLimits};
use crate::h2::frame::{ErrorCode, PREFACE, WINDOW_MAX};
use crate::h2::settings::Settings;
use crate::multiplexed::role::Role;

const CANCEL: ErrorCode = ErrorCode::CANCEL;

fn block(stream: u32, usage: BlockUse, ends_stream: bool) -> Seen {
    Seen::Block { stream, block: b"\x82".to_vec(), usage, ends_stream }
}

fn body(stream: u32, data: &[u8], ends_stream: bool) -> Seen {
    Seen::Data { stream, data: data.to_vec(), ends_stream }
}

#[test]
fn both_sides_begin() {
    let local = Settings { max_concurrent_streams: 7, ..Settings::default() };
    let mut client = End::fresh(Role::Client, Settings::default());
    let mut server = End::fresh(Role::Server, local);
    assert!(client.out.starts_with(PREFACE));
    assert_eq!(client.connection.remote().max_concurrent_streams, 100, "until the server says so");
    let bytes = std::mem::take(&mut client.out);
    assert_eq!(server.receive(&bytes), [Seen::Settings]);
    assert!(server.connection.has_begun() && !server.connection.is_acknowledged());
    let bytes = std::mem::take(&mut server.out);
    assert_eq!(client.receive(&bytes), [Seen::Settings]);
    assert_eq!(*client.connection.remote(), local);
    assert!(client.connection.is_acknowledged());
    server.receive(&client.out);
    assert!(server.connection.is_acknowledged());
}

#[test]
fn a_request_with_body_and_trailers() {
    let mut server = End::ready(Role::Server);
    let request = [head(1), data(1, 2), frame(DATA, PADDED, 1, b"\x01a."), last_head(1)].concat();
    let expected =
        [block(1, BlockUse::Head, false), body(1, b"..a", false), block(1, BlockUse::Trailers, true)];
    assert_eq!(server.receive(&request), expected);
    assert_eq!((server.connection.streams_open(), server.connection.last_stream()), (1, 1));
    let open = server.connection.begin_block(1, &mut server.out);
    server.out.push(0x88);
    server.connection.end_block(open, false, &mut server.out);
    server.send(1, 3);
    server.connection.send_end(1, None, &mut server.out);
    server.connection.release(1, CANCEL, &mut server.out);
    let head = frame(HEADERS, END_HEADERS, 1, b"\x88");
    assert_eq!(server.out, [head, data(1, 3), frame(DATA, END_STREAM, 1, b"")].concat());
    assert_eq!((server.connection.streams_open(), server.connection.streams_opened()), (0, 1));
}

#[test]
fn the_last_frame_bears_the_end() {
    let mut server = End::ready(Role::Server);
    server.receive(&[last_head(1), last_head(3), last_head(5)].concat());
    let start = server.out.len();
    server.send(1, 3);
    server.connection.send_end(1, Some(start), &mut server.out);
    server.connection.send_end(1, Some(start), &mut server.out);
    assert_eq!(server.written(), frames(&frame(DATA, END_STREAM, 1, b"...")));
    // The frame of another stream does not.
    server.send(3, 1);
    server.connection.send_end(5, Some(0), &mut server.out);
    assert_eq!(server.written(), frames(&[data(3, 1), frame(DATA, END_STREAM, 5, b"")].concat()));
    // A head does, if it is in one frame.
    let open = server.connection.begin_block(3, &mut server.out);
    server.connection.end_block(open, false, &mut server.out);
    server.connection.send_end(3, Some(0), &mut server.out);
    assert_eq!(server.written(), frames(&frame(HEADERS, END_HEADERS | END_STREAM, 3, b"")));
}

#[test]
fn a_long_block_is_divided() {
    let mut server = End::ready(Role::Server);
    for (len, ends_stream) in [(16_384_usize, false), (16_385, true), (40_000, false)] {
        let id = server.connection.last_stream() + if len == 16_384 { 1 } else { 2 };
        server.receive(&last_head(id));
        let block: Vec<u8> = (0..len).map(|number| number as u8).collect();
        let open = server.connection.begin_block(id, &mut server.out);
        server.out.extend_from_slice(&block);
        server.connection.end_block(open, ends_stream, &mut server.out);
        let frames = server.written();
        assert_eq!(frames.len(), len.div_ceil(16_384));
        assert_eq!(frames.iter().flat_map(|frame| frame.payload.clone()).collect::<Vec<u8>>(), block);
        for (at, frame) in frames.iter().enumerate() {
            let is_last = at + 1 == frames.len();
            let flags = u8::from(ends_stream && at == 0) | if is_last { END_HEADERS } else { 0 };
            let number = if at == 0 { HEADERS } else { CONTINUATION };
            assert_eq!((frame.number, frame.flags, frame.stream), (number, flags, id));
        }
    }
}

#[test]
fn late_frames_of_a_stream_that_we_reset_are_no_fault() {
    let late = [data(1, 5), head(1), window_update(1, 1), frame(DATA, END_STREAM, 1, b""), reset(1, 8)];
    for is_released in [false, true] {
        let mut server = End::ready(Role::Server);
        server.receive(&head(1));
        server.connection.reset(1, ErrorCode::INTERNAL_ERROR, &mut server.out);
        if is_released {
            server.connection.release(1, CANCEL, &mut server.out);
        }
        assert_eq!(server.resets(), [(1, ErrorCode::INTERNAL_ERROR)], "once");
        for frame in &late {
            let seen = server.receive(frame);
            let is_block = |seen: &Seen| *seen == block(1, BlockUse::Discard, false);
            assert!(seen.iter().all(is_block), "{seen:?}");
        }
        assert!(server.out.is_empty());
        // The block came all the same, for the sake of HPACK.
        assert_eq!(server.receive(&late[1]), [block(1, BlockUse::Discard, false)]);
    }
}

#[test]
fn late_frames_are_no_fault_however_many_streams_were_reset() {
    let local = Settings { max_concurrent_streams: 2, ..Settings::default() };
    let mut server = End::ready_with(Role::Server, local, ConnectionLimits::default());
    // A client that has not seen this setting opens a hundred streams, and sends their bodies in turn.
    let ids = || (1..200).step_by(2);
    for id in ids() {
        server.receive(&head(id));
    }
    assert_eq!(server.written().len(), 98);
    for _ in 0..10 {
        for id in ids() {
            let seen = server.receive(&data(id, 10));
            assert!(id < 4 || seen.is_empty(), "{id}: {seen:?}");
        }
    }
    for id in ids().skip(2) {
        assert_eq!(server.receive(&last_head(id)), [block(id, BlockUse::Discard, true)]);
    }
    assert_eq!(server.written(), []);
}

#[test]
fn a_stream_is_released() {
    let rows = [
        // What has come and gone, and the code of the reset.
        (head(1), false, Some(CANCEL)),
        (last_head(1), false, Some(CANCEL)),
        // The client is to take the answer.
        (head(1), true, Some(ErrorCode::NO_ERROR)),
        (last_head(1), true, None),
    ];
    for (request, local_ends, code) in rows {
        let mut server = End::ready(Role::Server);
        server.receive(&request);
        if local_ends {
            server.connection.send_end(1, None, &mut server.out);
            server.out.clear();
        }
        server.connection.release(1, CANCEL, &mut server.out);
        assert_eq!(server.resets(), Vec::from_iter(code.map(|code| (1, code))));
        assert_eq!(server.connection.streams_open(), 0);
        server.connection.release(1, CANCEL, &mut server.out);
        assert!(server.out.is_empty());
    }
    let mut client = End::client_with_streams(1);
    client.connection.send_end(1, None, &mut Vec::new());
    client.connection.release(1, ErrorCode::INTERNAL_ERROR, &mut client.out);
    assert_eq!(client.resets(), [(1, CANCEL)], "the answer is not wanted");
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let local = Settings { max_concurrent_streams: 1, ..Settings::default() };
    let mut server = End::ready_with(Role::Server, local, ConnectionLimits::default());
    assert_eq!(server.receive(&last_head(1)), [block(1, BlockUse::Head, true)]);
    assert_eq!(server.receive(&head(3)), [block(3, BlockUse::Refused, false)]);
    assert_eq!(server.resets(), [(3, ErrorCode::REFUSED_STREAM)]);
    // Its body is no fault, and a reset does not make room before the exchange is over.
    assert_eq!(server.receive(&[data(3, 10), reset(1, 8)].concat()), [Seen::Reset { stream: 1, code: 8 }]);
    server.receive(&head(5));
    assert_eq!(server.resets(), [(5, ErrorCode::REFUSED_STREAM)]);
    server.connection.release(1, CANCEL, &mut server.out);
    assert_eq!(server.receive(&last_head(7)), [block(7, BlockUse::Head, true)]);
    assert!(server.out.is_empty());
}

/// A client may count a stream as closed with its own last frame, whatever the exchange still does here.
#[test]
fn a_stream_that_both_sides_have_ended_makes_room() {
    let local = Settings { max_concurrent_streams: 1, ..Settings::default() };
    let mut server = End::ready_with(Role::Server, local, ConnectionLimits::default());
    server.receive(&head(1));
    server.connection.send_end(1, None, &mut server.out);
    server.out.clear();
    server.receive(&data(1, 10));
    let both = [frame(DATA, END_STREAM, 1, b""), last_head(3)].concat();
    server.receive(&both);
    assert_eq!(server.resets(), [(3, ErrorCode::REFUSED_STREAM)], "what it has sent is not consumed");
    server.connection.consumed(1, 10, &mut server.out);
    assert_eq!(server.receive(&last_head(5)), [block(5, BlockUse::Head, true)]);
    server.receive(&last_head(7));
    assert_eq!(server.resets(), [(7, ErrorCode::REFUSED_STREAM)]);
}

#[test]
fn streams_beyond_a_go_away_are_not_taken() {
    let mut server = End::ready(Role::Server);
    server.receive(&head(1));
    server.connection.go_away(WINDOW_MAX, ErrorCode::NO_ERROR, &mut server.out);
    // Still under way when the client read this.
    assert_eq!(server.receive(&head(3)), [block(3, BlockUse::Head, false)]);
    let last = server.connection.last_stream();
    server.connection.go_away(last, ErrorCode::NO_ERROR, &mut server.out);
    assert_eq!(server.written(), frames(&[go_away(WINDOW_MAX, 0), go_away(3, 0)].concat()));
    assert_eq!(server.receive(&head(5)), [block(5, BlockUse::Discard, false)]);
    assert_eq!(
        server.receive(&[data(5, 5), last_head(5), reset(5, 8), window_update(5, 1)].concat()).len(),
        1
    );
    assert_eq!(server.receive(&data(3, 5)), [body(3, b".....", false)]);
    // It is never taken back.
    server.connection.go_away(WINDOW_MAX, ErrorCode::ENHANCE_YOUR_CALM, &mut server.out);
    assert_eq!(server.written(), frames(&go_away(3, 11)));
}

#[test]
fn a_client_opens_no_stream_that_the_server_does_not_want() {
    let mut client = End::ready(Role::Client);
    client.receive(&settings(&[(3, 2)]));
    assert_eq!((client.connection.open_stream(), client.connection.open_stream()), (1, 3));
    assert!(!client.connection.can_open());
    client.receive(&reset(1, ErrorCode::REFUSED_STREAM.0));
    client.connection.release(1, CANCEL, &mut Vec::new());
    assert!(client.connection.can_open());
    assert_eq!(client.receive(&go_away(3, 0)), [Seen::GoAway { last_stream: 3, code: 0 }]);
    assert!(!client.connection.can_open());
    // What was taken goes on.
    assert_eq!(client.receive(&head(3)), [block(3, BlockUse::Head, false)]);
}

#[test]
fn a_response_of_several_heads() {
    let mut client = End::client_with_streams(1);
    let response = [head(1), head(1), data(1, 1), last_head(1)].concat();
    let head = || block(1, BlockUse::Head, false);
    let expected = [head(), head(), body(1, b".", false), block(1, BlockUse::Head, true)];
    assert_eq!(client.receive(&response), expected);
    // One that is no longer expected.
    let mut client = End::client_with_streams(1);
    client.connection.release(1, CANCEL, &mut client.out);
    assert_eq!(client.receive(&super::wire::head(1)), [block(1, BlockUse::Discard, false)]);
    assert_eq!(client.resets(), [(1, CANCEL)]);
}

#[test]
fn pings_are_answered_and_answers_reported() {
    let mut server = End::ready(Role::Server);
    assert_eq!(server.receive(&ping()), []);
    assert_eq!(server.written(), frames(&frame(PING, ACK, 0, b"12345678")));
    server.connection.ping(*b"abcdefgh", &mut server.out);
    assert_eq!(server.written(), frames(&frame(PING, 0, 0, b"abcdefgh")));
    assert_eq!(server.receive(&frame(PING, ACK, 0, b"abcdefgh")), [Seen::Pong(*b"abcdefgh")]);
    assert!(server.out.is_empty());
}

#[test]
fn what_means_nothing_is_skipped() {
    let mut server = End::ready(Role::Server);
    let bytes = [
        frame(99, 0xff, 1, &[1; 300]),
        frame(PRIORITY, 0, 7, &[0, 0, 0, 1, 16]),
        frame(PRIORITY_UPDATE, 0, 0, &[1; 300]),
        // Flags that mean nothing, and the reserved bit.
        frame(PING, 0xfe, 0, &[0; 8]),
        frame(HEADERS, END_HEADERS | PADDED | PRIORITISED | 0xd2, 1 | 1 << 31, &[1, 0, 0, 0, 0, 5, 0x82, 0]),
    ];
    assert_eq!(server.receive(&bytes.concat()), [block(1, BlockUse::Head, false)]);
}
