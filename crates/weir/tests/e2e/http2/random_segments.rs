//! Many streams whose frames are in any order and in any pieces: each comes through whole, whatever becomes of the others.
//!
//! The order is drawn from a seed; a failure names the seed that shows it again.

use std::collections::BTreeMap;

use crate::harness::draw::Draw;
use crate::harness::http2::frame::{self, CANCEL, INITIAL_WINDOW_SIZE};
use crate::harness::http2::{start, start_with_tls};
use crate::harness::scripts::pattern;
use crate::harness::{Http2Client, Origin};

/// Answers with as many bytes of the pattern as the target says, in chunks, and then the body of the request; trailers last.
fn origin() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let len: usize = request.target()[1..].parse().expect("a number");
            conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for piece in pattern(len).chunks(7_001).chain(request.body.bytes.chunks(5_003)) {
                conn.send(format!("{:x}\r\n", piece.len()))?;
                conn.send(piece)?;
                conn.send("\r\n")?;
            }
            conn.send("0\r\nX-End: 1\r\n\r\n")?;
        }
    })
}

/// A stream that is open: what it has to send, and what it expects.
struct Open {
    left: Vec<u8>,
    expected: Vec<u8>,
    has_ended: bool,
}

fn session(client: &mut Http2Client, seed: u64) {
    let mut draw = Draw::new(seed);
    let mut open: BTreeMap<u32, Open> = BTreeMap::new();
    let (mut begun, mut resets) = (0, 0);
    while begun < 60 || !open.is_empty() {
        let chosen = open.keys().copied().nth(draw.below(open.len().max(1)));
        match (draw.below(10), chosen) {
            (0..3, _) if begun < 60 && open.len() < 30 => {
                begun += 1;
                let (length, sent) =
                    ([0, 1, 100, 20_000, 200_000][draw.below(5)], [0, 1, 3_000, 100_000][draw.below(4)]);
                let target = format!("/{length}");
                let priority = format!("u={}{}", draw.below(8), if draw.below(2) == 0 { ", i" } else { "" });
                let stream = client.post(&target, &[("priority", &priority)]);
                let left: Vec<u8> = pattern(sent + 13)[13..].to_vec();
                let expected = [pattern(length), left.clone()].concat();
                open.insert(stream, Open { left, expected, has_ended: false });
            }
            // Its response is to come.
            (3..8, Some(stream)) if open[&stream].has_ended => client.read_frame(),
            (3..8, Some(stream)) => {
                let room = client.send_room(stream).clamp(0, 16_384) as usize;
                let state = open.get_mut(&stream).expect("it was chosen from them");
                let len = state.left.len().min(room).min(1 + draw.below(16_384));
                let piece: Vec<u8> = state.left.drain(..len).collect();
                if state.left.is_empty() && draw.below(2) == 0 {
                    state.has_ended = true;
                    if draw.below(3) == 0 {
                        client.data(stream, piece, false);
                        client.trailers(stream, &[("x-sum", "1")]);
                    } else {
                        client.data(stream, piece, true);
                    }
                } else if len > 0 {
                    client.data(stream, piece, false);
                } else if !state.left.is_empty() {
                    // Its window is to open.
                    client.read_frame();
                }
            }
            (8, Some(stream)) if draw.below(4) == 0 && resets < 100 => {
                resets += 1;
                client.reset(stream, CANCEL);
                open.remove(&stream);
            }
            _ => {}
        }
        open.retain(|stream, state| {
            let received = client.received(*stream);
            assert_eq!(received.reset, None, "stream {stream} of seed {seed}: {:?}", received.status);
            if received.has_ended {
                let lens = (received.body.len(), state.expected.len(), state.left.len(), state.has_ended);
                assert!(
                    received.body == state.expected,
                    "stream {stream} of seed {seed} has another body: {lens:?}"
                );
                assert!(received.trailers.is_some(), "stream {stream} of seed {seed} has no trailers");
            }
            !received.has_ended
        });
    }
    assert_eq!(client.goaways, [], "seed {seed}");
}

#[test]
fn sessions_of_many_streams() {
    let origin = origin();
    let weir = start(&origin);
    for seed in 0..6 {
        let window = [65_535, 1_000, 1 << 20][seed as usize % 3];
        let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, window)]);
        session(&mut client, seed);
        session(&mut client, seed + 100);
    }
}

#[test]
fn sessions_with_tls() {
    let origin = origin();
    let (authority, weir) = start_with_tls(&origin, "");
    for seed in 10..13 {
        session(&mut Http2Client::connect_tls(&authority, weir.web()), seed);
    }
}

#[test]
fn a_session_in_random_segments() {
    for seed in 20..26 {
        let origin = origin();
        let weir = start(&origin);
        let mut draw = Draw::new(seed);
        let mut client = Http2Client::connect(weir.web());
        client.settle();
        let mut bytes = Vec::new();
        let mut streams = Vec::new();
        for _ in 0..20 {
            let (length, sent) = ([0, 1, 3_000][draw.below(3)], [0, 1, 2_000][draw.below(3)]);
            let (stream, opening) = client.opening(&client.request("POST", &format!("/{length}")), false);
            bytes.extend(opening);
            for piece in pattern(sent).chunks(700) {
                bytes.extend(frame::frame(frame::DATA, 0, stream, piece));
            }
            bytes.extend(frame::frame(frame::DATA, 1, stream, b""));
            streams.push((stream, [pattern(length), pattern(sent)].concat()));
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = if draw.below(3) == 0 { 1 + draw.below(12) } else { 1 + draw.below(3_000) };
            let (piece, after) = rest.split_at(len.min(rest.len()));
            client.send(piece);
            if draw.below(4) == 0 {
                // What was sent before has arrived by then.
                crate::harness::watchdog::pause();
            }
            rest = after;
        }
        for (stream, expected) in streams {
            assert!(client.response(stream).body == expected, "stream {stream} of seed {seed}");
        }
    }
}
