//! Two connections of ours talk to each other, whatever their settings, and however their bytes are cut: all that is sent arrives, in
//! order, and neither finds a fault with the other.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::{any, proptest};

use super::wire::*;
use crate::h2::connection::{BlockUse, ConnectionLimits};
use crate::h2::frame::ErrorCode;
use crate::h2::settings::Settings;
use crate::multiplexed::role::Role;

/// Steps in which all must be over: far more than any run takes.
const STEPS_MAX: usize = 200_000;

/// A random sequence that is the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// The body of one direction of a stream: byte `n` of it is `n` and the number of its stream.
fn body_byte(stream: u32, at: usize) -> u8 {
    (at as u8).wrapping_mul(7).wrapping_add(stream as u8)
}

/// One direction of a stream on its way out.
#[derive(Debug)]
struct Outgoing {
    len: usize,
    sent: usize,
    has_trailers: bool,
    is_over: bool,
}

/// One direction of a stream on its way in.
#[derive(Debug, Default)]
struct Incoming {
    received: usize,
    unread: usize,
    is_over: bool,
}

#[derive(Debug)]
struct Exchange {
    outgoing: Outgoing,
    incoming: Incoming,
    is_reset: bool,
}

/// One end with its exchanges.
struct Side {
    end: End,
    role: Role,
    exchanges: BTreeMap<u32, Exchange>,
    /// Header blocks that were written, in their order, for the other side to find.
    blocks: VecDeque<Vec<u8>>,
    /// Requests that are still to be made.
    waiting: usize,
    /// Bytes of each finished direction that came in.
    bodies: BTreeMap<u32, usize>,
    sent: BTreeMap<u32, usize>,
    /// Whether it resets streams now and then.
    resets: bool,
    /// Whether windows, and so bodies, are tiny.
    is_tiny: bool,
}

impl Side {
    fn new(role: Role, is_tiny: bool, chance: &mut Chance) -> Self {
        let windows: &[u32] = if is_tiny { &[0, 1, 100] } else { &[0, 16_384, 65_535, 100_000, 1 << 20] };
        let local = Settings {
            initial_window_size: chance.of(windows),
            max_concurrent_streams: chance.of(&[1, 3, 100]),
            ..Settings::default()
        };
        let held_bytes_max = chance.of(&[0, 1_000, 1 << 20]);
        let limits = ConnectionLimits { held_bytes_max, ..ConnectionLimits::default() };
        let mut end = End::limited(role, local, limits);
        if chance.below(2) == 0 {
            end.connection.grow_connection_window(chance.of(&[70_000, 1 << 20, u32::MAX]), &mut end.out);
        }
        Self {
            end,
            role,
            exchanges: BTreeMap::new(),
            blocks: VecDeque::new(),
            waiting: if role == Role::Client { 1 + chance.below(12) } else { 0 },
            bodies: BTreeMap::new(),
            sent: BTreeMap::new(),
            resets: chance.below(3) == 0,
            is_tiny,
        }
    }

    fn write_block(&mut self, stream: u32, ends_stream: bool, chance: &mut Chance) {
        let len = chance.of(&[1, 10, 16_384, 20_000, 32_768]);
        let block: Vec<u8> = (0..len).map(|_| chance.below(256) as u8).collect();
        let open = self.end.connection.begin_block(stream, &mut self.end.out);
        self.end.out.extend_from_slice(&block);
        self.end.connection.end_block(open, ends_stream, &mut self.end.out);
        self.blocks.push_back(block);
    }

    /// Begins our direction of a stream.
    fn begin(&mut self, stream: u32, incoming: Incoming, chance: &mut Chance) {
        let len = chance.of(if self.is_tiny { &[0, 1, 2, 200] } else { &[0, 0, 1, 1_000, 30_000, 100_000] });
        let has_trailers = chance.below(3) == 0;
        let is_over = len == 0 && !has_trailers && chance.below(2) == 0;
        self.write_block(stream, is_over, chance);
        self.sent.insert(stream, len);
        let outgoing = Outgoing { len, sent: 0, has_trailers, is_over };
        self.exchanges.insert(stream, Exchange { outgoing, incoming, is_reset: false });
        if self.end.connection.local.initial_window_size == 0 {
            let size = chance.of(if self.is_tiny { &[1, 10] } else { &[5_000, 200_000] });
            self.end.connection.grow_window(stream, size, &mut self.end.out);
        }
    }

    /// Does one thing by chance.
    fn step(&mut self, chance: &mut Chance) {
        if self.waiting > 0 && self.end.connection.can_open() && chance.below(3) == 0 {
            self.waiting -= 1;
            let stream = self.end.connection.open_stream();
            self.begin(stream, Incoming::default(), chance);
        }
        let ids: Vec<u32> = self.exchanges.keys().copied().collect();
        if ids.is_empty() {
            return;
        }
        let id = chance.of(&ids);
        match chance.below(10) {
            0..5 => self.send(id, chance),
            5..9 => self.read(id, chance),
            _ if self.resets && chance.below(20) == 0 => {
                self.end.connection.reset(id, ErrorCode::INTERNAL_ERROR, &mut self.end.out);
                self.exchanges.entry(id).and_modify(|exchange| exchange.is_reset = true);
            }
            _ => {}
        }
        self.release(id);
    }

    fn send(&mut self, id: u32, chance: &mut Chance) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let Outgoing { len, sent, has_trailers, is_over } = exchange.outgoing;
        if is_over || exchange.is_reset {
            return;
        }
        let piece: Vec<u8> = (sent..len.min(sent + 40_000)).map(|at| body_byte(id, at)).collect();
        let start = self.end.out.len();
        let max = chance.of(&[1, 100, 20_000, usize::MAX]);
        let passed = self.end.connection.send_data(id, &piece, max, &mut self.end.out);
        exchange.outgoing.sent += passed;
        if exchange.outgoing.sent < len {
            return;
        }
        exchange.outgoing.is_over = true;
        if has_trailers {
            self.write_block(id, true, chance);
        } else {
            // The last frame may have left already.
            let is_one_frame = (1..=16_384).contains(&passed) && chance.below(2) == 0;
            self.end.connection.send_end(id, is_one_frame.then_some(start), &mut self.end.out);
        }
    }

    fn read(&mut self, id: u32, chance: &mut Chance) {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return };
        let unread = exchange.incoming.unread;
        let len = if chance.below(2) == 0 { unread } else { chance.below(unread + 1) };
        exchange.incoming.unread -= len;
        self.end.connection.consumed(id, len as u32, &mut self.end.out);
    }

    /// Forgets a stream that is over.
    fn release(&mut self, id: u32) {
        let is_over = self.exchanges.get(&id).is_some_and(|exchange| {
            let is_done = exchange.outgoing.is_over && exchange.incoming.is_over;
            exchange.is_reset || is_done && exchange.incoming.unread == 0
        });
        if is_over && let Some(exchange) = self.exchanges.remove(&id) {
            self.end.connection.release(id, ErrorCode::CANCEL, &mut self.end.out);
            if !exchange.is_reset {
                self.bodies.insert(id, exchange.incoming.received);
            }
        }
    }

    /// Takes in bytes of the other side, whose header blocks are `blocks`.
    fn take(&mut self, bytes: &[u8], blocks: &mut VecDeque<Vec<u8>>, chance: &mut Chance) {
        for seen in self.end.receive(bytes) {
            match seen {
                Seen::Block { stream, block, usage, ends_stream } => {
                    assert_eq!(Some(block), blocks.pop_front());
                    self.take_block(stream, usage, ends_stream, chance);
                }
                Seen::Data { stream, data, ends_stream } => self.take_data(stream, &data, ends_stream),
                Seen::Reset { stream, code } => {
                    let Some(exchange) = self.exchanges.get_mut(&stream) else { continue };
                    exchange.is_reset = true;
                    if code == ErrorCode::REFUSED_STREAM.0 {
                        self.waiting += 1;
                        self.sent.remove(&stream);
                    }
                }
                Seen::Fault { .. } => panic!("{seen:?}"),
                _ => {}
            }
        }
    }

    fn take_block(&mut self, stream: u32, usage: BlockUse, ends_stream: bool, chance: &mut Chance) {
        match usage {
            BlockUse::Head if self.role == Role::Server => {
                let incoming = Incoming { is_over: ends_stream, ..Incoming::default() };
                self.begin(stream, incoming, chance);
            }
            BlockUse::Head | BlockUse::Trailers => {
                let exchange = self.exchanges.get_mut(&stream).expect("the stream is open");
                exchange.incoming.is_over = ends_stream;
            }
            BlockUse::Discard | BlockUse::Refused => {}
            BlockUse::Fault(fault) => panic!("{fault:?}"),
        }
    }

    fn take_data(&mut self, stream: u32, data: &[u8], ends_stream: bool) {
        let exchange = self.exchanges.get_mut(&stream).expect("the stream is open");
        let start = exchange.incoming.received;
        assert!(data.iter().enumerate().all(|(at, byte)| *byte == body_byte(stream, start + at)));
        exchange.incoming.received += data.len();
        exchange.incoming.unread += data.len();
        exchange.incoming.is_over = ends_stream;
    }

    fn is_done(&self) -> bool {
        self.waiting == 0 && self.exchanges.is_empty()
    }
}

/// Moves some bytes from one side to the other.
fn carry(wire: &mut Vec<u8>, from: &mut Side, to: &mut Side, chance: &mut Chance) {
    // What is on the wire cannot be changed any more.
    if chance.below(2) == 0 {
        wire.append(&mut from.end.out);
    }
    let max = chance.of(&[1, 10, 1_000, 30_000, usize::MAX]);
    let bytes: Vec<u8> = wire.drain(..wire.len().min(max)).collect();
    to.take(&bytes, &mut from.blocks, chance);
}

fn run(seed: u64) {
    let mut chance = Chance(seed | 1);
    let is_tiny = chance.below(3) == 0;
    let mut client = Side::new(Role::Client, is_tiny, &mut chance);
    let mut server = Side::new(Role::Server, is_tiny, &mut chance);
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let mut steps = 0;
    while !(client.is_done() && server.is_done()) {
        steps += 1;
        assert!(steps < STEPS_MAX, "stuck: {:?} {:?}", client.exchanges, server.exchanges);
        match chance.below(4) {
            0 => client.step(&mut chance),
            1 => server.step(&mut chance),
            2 => carry(&mut there, &mut client, &mut server, &mut chance),
            _ => carry(&mut back, &mut server, &mut client, &mut chance),
        }
    }
    // What both took for whole is whole.
    for (here, other) in [(&client, &server), (&server, &client)] {
        for (stream, received) in &here.bodies {
            assert_eq!(other.sent.get(stream), Some(received), "{stream}");
        }
    }
    if !client.resets && !server.resets {
        assert_eq!(client.bodies.len(), server.bodies.len());
        assert_eq!(client.bodies.len(), client.sent.len());
    }
    for side in [&client, &server] {
        let connection = &side.end.connection;
        assert_eq!((connection.streams_open(), connection.held, connection.owed), (0, 0, 0));
    }
}

proptest! {
    #[test]
    fn all_that_is_sent_arrives(seed in any::<u64>()) {
        run(seed);
    }
}
