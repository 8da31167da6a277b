//! Flow control in both directions, by exact bytes, and against a model of what the peer knows.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};

use super::wire::*;
use crate::h2::connection::ConnectionLimits;
use crate::h2::fault::ConnectionFault;
use crate::h2::frame::{ErrorCode, WINDOW_MAX};
use crate::h2::settings::{INITIAL_WINDOW, Settings};
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

/// A server with an open stream 1 whose window has this size.
fn server(stream_window: u32, held_bytes_max: u32) -> End {
    let local = Settings { initial_window_size: stream_window, ..Settings::default() };
    let limits = ConnectionLimits { held_bytes_max, ..ConnectionLimits::default() };
    let mut server = End::ready_with(Role::Server, local, limits);
    server.receive(&head(1));
    server
}

#[test]
fn a_stream_that_nobody_reads_holds_its_own_window_only() {
    let mut server = server(INITIAL_WINDOW, 1 << 20);
    let all = |stream| [data(stream, 16_384).repeat(3), data(stream, 16_383)].concat();
    server.receive(&all(1));
    assert_eq!(server.opened(), [(0, 32_768), (0, 32_767)], "nothing for the stream");
    // Another stream is not held up.
    server.receive(&[head(3), all(3)].concat());
    assert_eq!(server.opened(), [(0, 32_768), (0, 32_767)]);
    // More on the first one is a fault of that stream.
    let (stream, code, rule) = (1, ErrorCode::FLOW_CONTROL_ERROR, Rule::Http2WindowExceeded);
    assert_eq!(server.receive(&data(1, 1)), [Seen::Fault { stream, code, rule }]);
}

#[test]
fn what_many_streams_hold_is_bounded() {
    let mut server = server(INITIAL_WINDOW, 20_000);
    server.receive(&data(1, 15_000));
    server.receive(&[head(3), data(3, 15_000)].concat());
    server.receive(&[head(5), data(5, 15_000)].concat());
    server.receive(&[data(5, 16_384), data(5, 4_151)].concat());
    assert_eq!(server.opened(), [], "19 151 of 65 535 are given back, less than half of the window");
    server.connection.consumed(3, 15_000, &mut server.out);
    assert_eq!(server.opened(), [(0, 35_000)], "what was consumed, and as much as may be held");
    server.receive(&[head(7), data(7, 16_384), data(7, 16_384), data(7, 2_232)].concat());
    assert_eq!(server.opened(), []);
    let fault = ConnectionFault { code: ErrorCode::FLOW_CONTROL_ERROR, rule: Rule::Http2WindowExceeded };
    assert_eq!(server.fault(&data(1, 1)), fault);
}

#[test]
fn streams_that_end_give_back_what_they_hold() {
    type Ending = fn(&mut End);
    let endings: [Ending; 5] = [
        |end| _ = end.connection.consumed(1, u32::MAX, &mut end.out),
        |end| end.connection.reset(1, ErrorCode::CANCEL, &mut end.out),
        |end| end.connection.release(1, ErrorCode::CANCEL, &mut end.out),
        |end| drop(end.receive(&reset(1, 8))),
        |end| drop(end.receive(&window_update(1, 0))),
    ];
    for (number, end) in endings.into_iter().enumerate() {
        let mut server = server(INITIAL_WINDOW, 0);
        server.receive(&[data(1, 16_384), data(1, 16_384)].concat());
        assert_eq!(server.opened(), [], "{number}");
        end(&mut server);
        // The next bytes show it, where the end itself wrote nothing.
        server.receive(&[head(3), data(3, 1)].concat());
        let opened = server.written().into_iter().find(|frame| (frame.number, frame.stream) == (8, 0));
        let by = opened.map(|frame| frame.payload);
        assert_eq!(by, Some(32_768_u32.to_be_bytes().to_vec()), "{number}");
        assert_eq!((server.connection.held, server.connection.owed), (1, 1), "{number}");
    }
}

#[test]
fn what_may_be_held_is_not_owed() {
    let mut server = server(INITIAL_WINDOW, 16_000);
    server.receive(&[data(1, 15_000), data(1, 15_000), head(3), data(3, 15_000)].concat());
    assert_eq!((server.connection.held, server.connection.owed), (45_000, 30_000));
    server.connection.consumed(1, 30_000, &mut server.out);
    assert_eq!((server.connection.held, server.connection.owed), (15_000, 0));
}

#[test]
fn what_may_be_held_can_change() {
    let mut server = server(INITIAL_WINDOW, 1 << 20);
    server.connection.set_held_bytes_max(0);
    server.receive(&[data(1, 16_384).repeat(3), data(1, 16_383)].concat());
    assert_eq!((server.connection.owed, server.opened()), (65_535, vec![]));
    // A stream that is read does not have to wait for the one that is not.
    server.connection.set_held_bytes_max(1 << 20);
    assert_eq!(server.connection.owed, 0);
    server.connection.grow_connection_window(0, &mut server.out);
    assert_eq!(server.opened(), [(0, 65_535)]);
    // What has been given is not taken back.
    server.connection.set_held_bytes_max(0);
    assert_eq!((server.connection.held, server.connection.owed), (65_535, 0));
    server.receive(&[head(3), data(3, 1_000)].concat());
    assert_eq!(server.connection.owed, 1_000);
    server.connection.consumed(3, 1_000, &mut server.out);
    assert_eq!(
        (server.connection.held, server.connection.owed),
        (65_535, 1_000),
        "the stream that is not read owes it"
    );
    server.connection.consumed(1, 65_535, &mut server.out);
    assert_eq!((server.connection.held, server.connection.owed), (0, 0));
}

#[test]
fn bytes_that_break_a_rule_come_back() {
    let mut server = End::ready(Role::Server);
    for id in [1, 3, 5, 7, 9] {
        server.receive(&[last_head(id), data(id, 16_384)].concat());
    }
    let is_update = |frame: &Written| frame.number == WINDOW_UPDATE;
    let updates: Vec<_> = server.written().into_iter().filter(is_update).collect();
    assert_eq!(updates, frames(&window_update(0, 32_768).repeat(2)));
}

#[test]
fn padding_counts_and_comes_back_at_once() {
    let mut server = server(1_000, 1 << 20);
    let padded = |data_len: usize, padding: u8| {
        let payload = [&[padding][..], &vec![b'.'; data_len], &vec![0; padding.into()]].concat();
        frame(DATA, PADDED, 1, &payload)
    };
    let seen = server.receive(&padded(400, 99));
    assert_eq!(seen, [Seen::Data { stream: 1, data: vec![b'.'; 400], ends_stream: false }]);
    assert_eq!((server.connection.held, server.opened()), (400, vec![]));
    // Padding alone: 100 + 256 + 256 are more than half.
    server.receive(&padded(0, 255));
    assert_eq!(server.opened(), []);
    server.receive(&padded(0, 243));
    assert_eq!(server.opened(), [(1, 600)]);
    server.receive(&padded(350, 249));
    assert_eq!(server.opened(), []);
    let fault =
        [Seen::Fault { stream: 1, code: ErrorCode::FLOW_CONTROL_ERROR, rule: Rule::Http2WindowExceeded }];
    assert_eq!(server.receive(&padded(0, 0)), fault, "the length of the padding itself counts");
}

#[test]
fn a_window_that_the_peer_does_not_know_yet_is_the_first_one() {
    let local = Settings { initial_window_size: 1_000, ..Settings::default() };
    let mut server = End::fresh(Role::Server, local);
    server.receive(crate::h2::frame::PREFACE);
    server.receive(&settings(&[]));
    server.out.clear();
    let all = [head(1), data(1, 16_384).repeat(3), data(1, 16_383), head(3), head(5), data(5, 500)].concat();
    let seen = server.receive(&all);
    assert!(!seen.iter().any(|seen| matches!(seen, Seen::Fault { .. })), "{seen:?}");
    server.receive(&frame(SETTINGS, ACK, 0, b""));
    server.out.clear();
    // The first stream is 64 535 bytes below its window, and gets back what is read.
    server.connection.consumed(1, 64_535, &mut server.out);
    assert_eq!(server.opened(), [(1, 64_535)]);
    let fault =
        |stream| Seen::Fault { stream, code: ErrorCode::FLOW_CONTROL_ERROR, rule: Rule::Http2WindowExceeded };
    assert_eq!(server.receive(&data(1, 1)), [fault(1)]);
    // The others have what is left of the smaller one.
    let seen = server.receive(&[data(3, 1_000), data(5, 500)].concat());
    assert!(seen.iter().all(|seen| matches!(seen, Seen::Data { .. })), "{seen:?}");
    assert_eq!(server.receive(&data(3, 1)), [fault(3)]);
    assert_eq!(server.receive(&data(5, 1)), [fault(5)]);
    server.receive(&[head(7), data(7, 1_000)].concat());
    assert_eq!(server.receive(&data(7, 1)), [fault(7)]);
}

#[test]
fn a_window_that_grew_before_the_peer_knew_it() {
    let local = Settings { initial_window_size: 1_000, ..Settings::default() };
    let mut server = End::fresh(Role::Server, local);
    server.receive(crate::h2::frame::PREFACE);
    server.receive(&[settings(&[]), head(1)].concat());
    server.out.clear();
    server.connection.grow_window(1, 3_000, &mut server.out);
    assert_eq!(server.opened(), [(1, 2_000)]);
    server.receive(&[frame(SETTINGS, ACK, 0, b""), data(1, 3_000)].concat());
    assert!(matches!(server.receive(&data(1, 1))[..], [Seen::Fault { stream: 1, .. }]));
}

#[test]
fn windows_grow() {
    let mut server = server(1_000, 1 << 20);
    server.connection.grow_connection_window(1 << 20, &mut server.out);
    assert_eq!(
        (server.opened(), server.connection.connection_window()),
        (vec![(0, (1 << 20) - 65_535)], 1 << 20)
    );
    server.connection.grow_window(1, 2_000, &mut server.out);
    assert_eq!(server.opened(), [(1, 1_000)]);
    server.connection.grow_window(3, 2_000, &mut server.out);
    assert_eq!(server.opened(), []);
    server.receive(&data(1, 2_000));
    assert!(matches!(server.receive(&data(1, 1))[..], [Seen::Fault { stream: 1, .. }]));
}

#[test]
fn no_more_is_sent_than_both_windows_let_pass() {
    let mut server = server(INITIAL_WINDOW, 0);
    assert_eq!(server.send(1, 100_000), 65_535);
    let lens: Vec<_> = server.written().iter().map(|frame| frame.payload.len()).collect();
    assert_eq!(lens, [16_384, 16_384, 16_384, 16_383]);
    assert_eq!(server.send(1, 1), 0);
    assert_eq!(server.receive(&window_update(1, 10)), [Seen::Window(1)]);
    assert_eq!(server.send(1, 1), 0, "the connection has no room");
    assert_eq!(server.receive(&window_update(0, 7)), [Seen::Window(0)]);
    assert_eq!(server.connection.send_data(1, b"0123456789", 5, &mut server.out), 5);
    assert_eq!(server.connection.send_data(1, b"56789", 5, &mut server.out), 2);
    assert_eq!(server.written(), frames(&[frame(DATA, 0, 1, b"01234"), frame(DATA, 0, 1, b"56")].concat()));
    // Streams that are over take nothing.
    server.receive(&[head(3), reset(3, 8)].concat());
    server.receive(&window_update(0, 7));
    assert_eq!((server.send(3, 1), server.send(5, 1)), (0, 0));
}

#[test]
fn settings_move_all_windows() {
    let mut server = server(INITIAL_WINDOW, 0);
    server.receive(&window_update(0, 1 << 20));
    assert_eq!(server.send(1, 1_000), 1_000);
    server.receive(&settings(&[(4, 100)]));
    assert_eq!(server.send(1, 1), 0, "900 below zero");
    server.receive(&window_update(1, 900));
    assert_eq!(server.send(1, 1), 0);
    server.receive(&window_update(1, 1));
    assert_eq!(server.send(1, 10), 1);
    server.receive(&head(3));
    assert_eq!(server.send(3, 1_000), 100, "the size of a new stream");
    server.receive(&settings(&[(4, 0), (4, 150)]));
    assert_eq!((server.send(1, 1_000), server.send(3, 1_000)), (50, 50));
    // The largest size is reached, and must not be exceeded by any stream.
    server.receive(&window_update(3, WINDOW_MAX - 150));
    server.receive(&settings(&[(4, 300)]));
    let fault = ConnectionFault { code: ErrorCode::FLOW_CONTROL_ERROR, rule: Rule::Http2WindowOverflow };
    assert_eq!(server.fault(&settings(&[(4, 301)])), fault);
}

/// Something that happens to one of the streams 1, 3, 5 and 7.
#[derive(Debug, Clone)]
enum Step {
    Data { stream: u32, len: u32, padding: u8 },
    Consume { stream: u32, len: u32 },
    ResetByPeer(u32),
    Reset(u32),
    Release(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let stream = || (0_u32..4).prop_map(|number| 2 * number + 1);
    let len = || prop_oneof![Just(0_u32), 1_u32..100, 1_u32..16_000];
    let padding = prop_oneof![3 => Just(0), 1 => 0_u8..=255];
    prop_oneof![
        60 => (stream(), len(), padding).prop_map(|(stream, len, padding)| Step::Data { stream, len, padding }),
        40 => (stream(), 0_u32..40_000).prop_map(|(stream, len)| Step::Consume { stream, len }),
        1 => stream().prop_map(Step::ResetByPeer),
        1 => stream().prop_map(Step::Reset),
        1 => stream().prop_map(Step::Release),
    ]
}

/// What the peer knows, and what is held back from it.
struct Model {
    window: i64,
    /// Windows of the streams that it may still send on.
    streams: HashMap<u32, i64>,
    /// Received and not consumed, on streams that are not over.
    held: HashMap<u32, u32>,
}

impl Model {
    fn all_held(&self) -> i64 {
        self.held.values().map(|len| i64::from(*len)).sum()
    }

    /// Sends DATA if the windows let it, and returns its bytes.
    fn data(&mut self, stream: u32, len: u32, padding: u8) -> Vec<u8> {
        let framing = if padding > 0 { 1 + u32::from(padding) } else { 0 };
        let counted = i64::from(len + framing);
        let Some(window) = self.streams.get_mut(&stream).filter(|window| **window >= counted) else {
            return Vec::new();
        };
        if self.window < counted {
            return Vec::new();
        }
        *window -= counted;
        self.window -= counted;
        self.held.entry(stream).and_modify(|held| *held += len);
        let body = vec![b'.'; len as usize];
        match padding {
            0 => frame(DATA, 0, stream, &body),
            _ => frame(DATA, PADDED, stream, &[&[padding][..], &body, &vec![0; padding.into()]].concat()),
        }
    }

    fn read(&mut self, written: &[Written]) {
        for frame in written.iter().filter(|frame| frame.number == WINDOW_UPDATE) {
            let by = u32::from_be_bytes(frame.payload[..].try_into().unwrap());
            let window = match frame.stream {
                0 => &mut self.window,
                stream => self.streams.get_mut(&stream).expect("the peer may still send on it"),
            };
            *window += i64::from(by);
        }
    }
}

proptest! {
    #[test]
    fn room_is_given_back_as_it_should(
        steps in vec(step(), 0..150),
        size in prop_oneof![Just(1), 1_u32..2_000, Just(INITIAL_WINDOW)],
        held_bytes_max in prop_oneof![Just(0), 0_u32..20_000, Just(1 << 20)],
    ) {
        let mut server = server(size, held_bytes_max);
        server.receive(&[head(3), head(5), head(7)].concat());
        let streams = [1, 3, 5, 7].into_iter();
        let mut model = Model {
            window: INITIAL_WINDOW.into(),
            streams: streams.clone().map(|id| (id, size.into())).collect(),
            held: streams.map(|id| (id, 0)).collect(),
        };
        for step in steps {
            match step {
                Step::Data { stream, len, padding } => {
                    let bytes = model.data(stream, len, padding);
                    let seen = server.receive(&bytes);
                    let is_fault = seen.iter().any(|seen| matches!(seen, Seen::Fault { .. }));
                    prop_assert!(!is_fault, "{:?}", seen);
                }
                Step::Consume { stream, len } => {
                    server.connection.consumed(stream, len, &mut server.out);
                    model.held.entry(stream).and_modify(|held| *held = held.saturating_sub(len));
                }
                Step::ResetByPeer(stream) => {
                    if model.streams.remove(&stream).is_some() {
                        server.receive(&reset(stream, 8));
                    }
                    model.held.remove(&stream);
                }
                Step::Reset(stream) => {
                    server.connection.reset(stream, ErrorCode::CANCEL, &mut server.out);
                    model.held.remove(&stream);
                }
                Step::Release(stream) => {
                    server.connection.release(stream, ErrorCode::CANCEL, &mut server.out);
                    model.held.remove(&stream);
                }
            }
            let written = server.written();
            model.read(&written);
            let held = model.all_held();
            prop_assert_eq!(i64::from(server.connection.held), held);
            let owed = i64::from(server.connection.owed);
            prop_assert!(0 <= owed && owed <= held && held - owed <= held_bytes_max.into());
            // Nothing more is owed than must be.
            prop_assert!(owed == 0 || held - owed > i64::from(held_bytes_max) - 16_000, "{held} {owed}");
            prop_assert!(model.window <= i64::from(INITIAL_WINDOW) - owed);
            prop_assert!(model.window > i64::from(INITIAL_WINDOW) - owed - i64::from(INITIAL_WINDOW / 2));
            for (stream, held) in &model.held {
                let Some(window) = model.streams.get(stream) else { continue };
                let whole = window + i64::from(*held);
                prop_assert!(whole <= i64::from(size) && whole > i64::from(size) - i64::from((size / 2).max(1)));
            }
        }
    }
}
