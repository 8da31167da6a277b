//! What happens when: the servers of a simulation and the schedule of both sides, drawn from one seed.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::time::Duration;

use super::client::ClientWorld;
use super::server::{Connecting, KeptConnection, Play, ServerWorld, attempt};
use crate::net::clock::{self, Instant};

/// Something that happens.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// A connection to a server is open, or refused.
    Connected(Rc<Connecting>, bool),
    /// A request has begun to leave for a server.
    Request(Rc<ServerWorld>),
    /// A server reads on.
    ServerReads(Rc<ServerWorld>),
    Respond(Rc<ServerWorld>),
    /// More of the response arrives.
    ServerSends(Rc<ServerWorld>),
    ServerCloses(Rc<ServerWorld>),
    ServerBreaks(Rc<ServerWorld>),
    /// More of a request arrives.
    ClientSends(usize),
    ClientReads(usize),
    ClientLeaves(usize),
    /// A peer of a tunnel does something.
    ClientTunnels(usize),
    ServerTunnels(Rc<ServerWorld>),
    /// The task of an exchange is dropped, at once or when it is woken next.
    TaskDropped(usize, bool),
}

/// An event with its time and its number, by which equal times are ordered.
struct Scheduled(Instant, u64, Event);

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// The world around the exchanges of one simulation.
pub(super) struct World {
    random: Cell<u64>,
    scheduled: RefCell<BinaryHeap<Reverse<Scheduled>>>,
    number: Cell<u64>,
    pub(super) clients: Vec<Rc<ClientWorld>>,
    /// Kept connections to each server.
    kept: RefCell<Vec<Vec<KeptConnection>>>,
    /// Connections to servers so far.
    connections: Cell<usize>,
    /// Exchanges whose tasks are to be dropped, and whether only when they are woken next.
    pub(super) dropped: RefCell<Vec<(usize, bool)>>,
    /// All attempts, in their order.
    pub(super) attempts: RefCell<Vec<Rc<ServerWorld>>>,
    /// Whether servers do what is asked of them at once, and the rest is up to the test.
    is_scripted: bool,
}

impl World {
    pub(super) fn new(seed: u64, clients: Vec<Rc<ClientWorld>>, servers: usize) -> Rc<Self> {
        Rc::new(Self {
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            scheduled: RefCell::default(),
            number: Cell::new(0),
            clients,
            kept: RefCell::new(vec![Vec::new(); servers]),
            connections: Cell::new(0),
            dropped: RefCell::default(),
            attempts: RefCell::default(),
            is_scripted: false,
        })
    }

    /// A world in which nothing is left to chance.
    pub(super) fn scripted(clients: Vec<Rc<ClientWorld>>, servers: usize) -> Rc<Self> {
        let mut world = Self::new(1, clients, servers);
        Rc::get_mut(&mut world).expect("nothing else has it").is_scripted = true;
        world
    }

    pub(super) fn is_scripted(&self) -> bool {
        self.is_scripted
    }

    /// A number below `bound` (xorshift64*).
    pub(super) fn below(&self, bound: usize) -> usize {
        let mut bits = self.random.get();
        bits ^= bits >> 12;
        bits ^= bits << 25;
        bits ^= bits >> 27;
        self.random.set(bits);
        (bits.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(super) fn after(&self, micros: usize, event: Event) {
        let at = clock::now() + Duration::from_micros(micros as u64);
        self.number.set(self.number.get() + 1);
        self.scheduled.borrow_mut().push(Reverse(Scheduled(at, self.number.get(), event)));
    }

    pub(super) fn at_once(&self, event: Event) {
        self.after(0, event);
    }

    /// When the next event is.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.scheduled.borrow().peek().map(|Reverse(Scheduled(at, ..))| *at)
    }

    /// Lets the next event happen, at its time.
    pub(super) fn step(&self) {
        let next = self.scheduled.borrow_mut().pop();
        if let Some(Reverse(Scheduled(_, _, event))) = next {
            self.happen(event);
        }
    }

    pub(super) fn connect(&self) -> Rc<Connecting> {
        let connecting = Rc::new(Connecting::default());
        if self.is_scripted {
            connecting.end(true);
            return connecting;
        }
        match self.below(16) {
            // Never: the time limit ends it.
            0 => {}
            1 | 2 => self.after(self.below(3_000), Event::Connected(Rc::clone(&connecting), false)),
            _ => self.after(self.below(3_000), Event::Connected(Rc::clone(&connecting), true)),
        }
        connecting
    }

    pub(super) fn take_kept(&self, server: usize) -> Option<KeptConnection> {
        self.kept.borrow_mut()[server].pop()
    }

    pub(super) fn keep(&self, server: usize, connection: KeptConnection) {
        self.kept.borrow_mut()[server].push(connection);
    }

    /// Draws how an attempt goes.
    pub(super) fn begin_attempt(
        &self,
        client: usize,
        server: usize,
        kept: Option<KeptConnection>,
    ) -> Rc<ServerWorld> {
        let play = match self.below(26) {
            _ if self.is_scripted => Play::Answer,
            0 | 1 => Play::AnswerEarly,
            2 => Play::CutBody,
            3 => Play::Close,
            4 => Play::Garbage,
            5 => Play::Hang,
            // A kept connection may be dead.
            6 | 7 if kept.is_some() => Play::Close,
            8 => Play::Refuse,
            9 => Play::GoAway,
            10 => Play::RequireHttp1,
            _ => Play::Answer,
        };
        let left_at = self.clients[client].left_at();
        assert!(
            left_at.is_none_or(|at| at >= clock::now()),
            "client {client} has left, and its request is still sent"
        );
        let status = [200, 200, 200, 200, 204, 304, 404, 500, 503, 503][self.below(10)];
        let status = if self.switches(client, play) { 101 } else { status };
        let is_bodiless = matches!(status, 101 | 204 | 304) || self.clients[client].head.starts_with("HEAD");
        let len = if is_bodiless { 0 } else { [0, 7, 600, 5_000, 20_000][self.below(5)] };
        let body = body_bytes(len, server * 7 + client);
        let connection =
            kept.map_or_else(|| self.connections.replace(self.connections.get() + 1), |kept| kept.number);
        let world = attempt((server, connection), client, play, status, body);
        let proves = self.clients[client].asks_for_tunnel() && (self.is_scripted || !self.one_in(12));
        world.switches_wrongly.set(!proves);
        self.attempts.borrow_mut().push(Rc::clone(&world));
        world
    }

    /// The last attempt for a client.
    pub(super) fn last_attempt(&self, client: usize) -> Option<Rc<ServerWorld>> {
        self.attempts.borrow().iter().rfind(|attempt| attempt.client == client).map(Rc::clone)
    }

    /// Draws whether a server switches protocols, which some do without being asked.
    fn switches(&self, client: usize, play: Play) -> bool {
        let is_asked = self.clients[client].asks_for_tunnel();
        let whim = self.below(120);
        match play {
            Play::Answer | Play::AnswerEarly if is_asked => self.is_scripted || whim >= 12,
            Play::Answer => whim == 0,
            _ => false,
        }
    }

    fn happen(&self, event: Event) {
        match event {
            Event::Connected(connecting, is_open) => connecting.end(is_open),
            Event::Request(server) => self.begin_request(server),
            Event::ServerReads(server) => self.read_on(server),
            Event::Respond(server) => self.respond(server),
            Event::ServerSends(server) => self.send_on(server),
            Event::ServerCloses(server) => server.close(),
            Event::ServerBreaks(server) => server.break_head(),
            Event::ClientSends(client) => {
                let world = &self.clients[client];
                world.body.arrive(self.below(4_000));
                if world.body.arrived() < world.body.bytes.len() && !world.is_gone() {
                    self.after(self.below(5_000), Event::ClientSends(client));
                }
            }
            Event::ClientReads(client) => {
                let world = &self.clients[client];
                world.reply.make_room(1 + self.below(4_000));
                if !world.reply.is_ended() && !world.is_gone() && !world.is_over() {
                    self.after(self.below(5_000), Event::ClientReads(client));
                }
            }
            Event::ClientLeaves(client) => self.clients[client].leave(),
            Event::ClientTunnels(client) => {
                self.go_on(&self.clients[client].tunnel, Event::ClientTunnels(client));
            }
            Event::ServerTunnels(server) => {
                self.go_on(&server.tunnel, Event::ServerTunnels(Rc::clone(&server)));
            }
            Event::TaskDropped(client, when_woken) => self.dropped.borrow_mut().push((client, when_woken)),
        }
    }

    fn begin_request(&self, server: Rc<ServerWorld>) {
        let delay = self.below(8_000);
        match server.play {
            Play::Close | Play::Refuse | Play::GoAway | Play::RequireHttp1 => {
                self.after(delay, Event::ServerCloses(Rc::clone(&server)));
            }
            Play::Garbage => self.after(delay, Event::ServerBreaks(Rc::clone(&server))),
            Play::AnswerEarly => self.after(delay, Event::Respond(Rc::clone(&server))),
            Play::Answer | Play::CutBody | Play::Hang => {}
        }
        self.at_once(Event::ServerReads(server));
    }

    fn read_on(&self, server: Rc<ServerWorld>) {
        if server.request.is_ended() {
            if matches!(server.play, Play::Answer | Play::CutBody) {
                self.after(self.below(20_000), Event::Respond(server));
            }
        } else if !server.is_over() {
            server.request.make_room(1 + self.below(6_000));
            self.after(1 + self.below(3_000), Event::ServerReads(server));
        }
    }

    fn respond(&self, server: Rc<ServerWorld>) {
        // An early answer is one to a head that has come.
        let Some(id) = server.id() else {
            if !server.is_over() {
                self.after(1_000, Event::Respond(server));
            }
            return;
        };
        if !self.is_scripted && self.one_in(6) {
            server.say(format!("HTTP/1.1 103 Early Hints\r\nX-Id: {id}\r\nLink: </a>\r\n\r\n"));
        }
        if server.has_tunnel() {
            let upgrade = "Connection: Upgrade\r\nUpgrade: websocket";
            return server.say(format!("HTTP/1.1 101 It\r\nX-Id: {id}\r\n{upgrade}\r\n\r\n"));
        }
        let framing = if matches!(server.status, 204 | 304) {
            String::new()
        } else if self.one_in(3) {
            "Transfer-Encoding: chunked\r\n".to_owned()
        } else {
            format!("Content-Length: {}\r\n", server.body.bytes.len())
        };
        server.say(format!("HTTP/1.1 {} It\r\nX-Id: {id}\r\n{framing}\r\n", server.status));
        self.after(self.below(2_000), Event::ServerSends(server));
    }

    fn send_on(&self, server: Rc<ServerWorld>) {
        let len = server.body.bytes.len();
        if server.play == Play::CutBody {
            server.body.arrive(len / 2);
            return self.after(self.below(4_000), Event::ServerCloses(server));
        }
        server.body.arrive(1 + self.below(6_000));
        if server.body.arrived() < len && !server.is_over() {
            self.after(self.below(4_000), Event::ServerSends(server));
        }
    }
}

/// The bytes of a body. They repeat after 251, which divides no size of a buffer: a part in a wrong place shows.
pub(super) fn body_bytes(len: usize, salt: usize) -> Vec<u8> {
    let period: Vec<u8> = (0..251).map(|at| (at * 13 + salt) as u8).collect();
    let mut bytes = period.repeat(len.div_ceil(period.len()));
    bytes.truncate(len);
    bytes
}
