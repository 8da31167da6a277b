//! Tunnels between streams in memory: what both peers do with them in a random schedule, what must hold of each, and exact schedules.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Context;

use weir_observe::{Cause, Failure, Party};

use super::MemoryConnection;
use super::client::ClientWorld;
use super::server::ServerWorld;
use super::world::{Event, World, body_bytes};
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::phases::tunnel::{TunnelClient, Tunnelled};
use crate::net::tls::facts::TlsFacts;
use crate::relay::tunnel::memory_end::{MemoryEnd, MemoryPeer};

/// Bytes that a peer takes at first.
const ROOM: usize = 300;

/// What one peer of a tunnel does; shared with the schedule.
#[derive(Debug)]
pub(super) struct TunnelPeer {
    pub(super) stream: Rc<MemoryPeer>,
    /// What is left of what it will send.
    left: Cell<usize>,
    salt: usize,
    /// Whether it does nothing any more, and says nothing of it.
    is_silent: Cell<bool>,
}

impl TunnelPeer {
    pub(super) fn new(salt: usize) -> Self {
        Self { stream: MemoryPeer::new(ROOM), left: Cell::new(0), salt, is_silent: Cell::new(false) }
    }

    /// Draws how much it will send.
    fn begin(&self, world: &World) {
        self.left.set([0, 7, 600, 5_000, 60_000][world.below(5)]);
    }

    /// Does one thing; whether there will be others.
    fn act(&self, world: &World) -> bool {
        let stream = &self.stream;
        if stream.is_dropped() || stream.has_aborted() || stream.has_ended() && stream.got_end() {
            return false;
        }
        match world.below(300) {
            0 => stream.abort(),
            1 => self.is_silent.set(true),
            at if at % 2 == 0 => stream.make_room(1 + world.below(4_000)),
            _ if self.left.get() > 0 => self.send(1 + world.below(4_000)),
            _ if !stream.has_ended() && world.below(3) == 0 => stream.end(),
            _ => {}
        }
        !self.is_silent.get()
    }

    fn send(&self, len: usize) {
        let len = len.min(self.left.get());
        let before = self.stream.sent().len();
        self.stream.send(&body_bytes(before + len, self.salt)[before..]);
        self.left.set(self.left.get() - len);
    }
}

impl World {
    /// A tunnel has begun: lets both peers act.
    pub(super) fn begin_tunnel(&self, client: usize) {
        if self.is_scripted() {
            return;
        }
        let server = self.server_of_tunnel(client);
        self.clients[client].tunnel.begin(self);
        server.tunnel.begin(self);
        self.after(self.below(3_000), Event::ClientTunnels(client));
        self.after(self.below(3_000), Event::ServerTunnels(server));
    }

    /// The server that has switched protocols for a client.
    pub(super) fn server_of_tunnel(&self, client: usize) -> Rc<ServerWorld> {
        self.last_attempt(client).expect("a server has switched")
    }

    pub(super) fn go_on(&self, peer: &TunnelPeer, event: Event) {
        if peer.act(self) {
            self.after(self.below(4_000), event);
        }
    }
}

/// The client of a tunnel.
struct MemoryTunnelClient<'a> {
    client: &'a mut Client,
    end: MemoryEnd,
}

impl TunnelClient for MemoryTunnelClient<'_> {
    type End = MemoryEnd;

    fn split(&mut self) -> (&mut Client, &mut MemoryEnd) {
        (self.client, &mut self.end)
    }
}

impl ClientEnd for MemoryEnd {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        None
    }

    fn local_address(&self) -> Option<SocketAddr> {
        None
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        false
    }

    fn poll_gone(&mut self, _cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        None
    }

    fn body_received(&self) -> u64 {
        0
    }

    fn sent(&self) -> u64 {
        0
    }

    fn stays_open(&self) -> bool {
        false
    }
}

/// Runs a tunnel to its end, as the protocol of a client does.
pub(super) async fn run(
    connection: &mut MemoryConnection,
    world: &ClientWorld,
    mut tunnel: Box<Tunnelled>,
) -> Result<(), Failure> {
    let end = MemoryEnd::new(&world.tunnel.stream);
    let mut owner = MemoryTunnelClient { client: &mut connection.0, end };
    let outcome = tunnel.run(&mut owner).await;
    if let Err(failure) = outcome
        && failure.cause != Cause::Drained
    {
        tunnel.abort_server(owner.client, failure.party).await;
        crate::relay::tunnel::end::TunnelEnd::abort(&mut owner.end);
    }
    outcome
}

/// What must hold of a tunnel that is over, however it went.
pub(super) fn check(world: &World, number: usize, outcome: Result<(), Failure>) {
    let server = world.server_of_tunnel(number);
    assert!(!server.switches_wrongly.get(), "client {number} has a tunnel that was not agreed on");
    let (client, server) = (&world.clients[number].tunnel, &server.tunnel);
    let (down, up) = (&client.stream, &server.stream);
    let label = format!(
        "tunnel of client {number}: {outcome:?}, up {} of {}, down {} of {}",
        up.got().len(),
        down.sent().len(),
        down.got().len(),
        up.sent().len()
    );
    assert!(down.sent().starts_with(&up.got()), "{label}: other bytes than the client sent");
    assert!(up.sent().starts_with(&down.got()), "{label}: other bytes than the server sent");
    assert!(down.is_dropped() && up.is_dropped(), "{label}: an end is left");
    for (from, to) in [(down, up), (up, down)] {
        let is_whole = from.has_ended() && to.got().len() == from.sent().len();
        assert!(!to.got_end() || is_whole, "{label}: the end of what is not whole");
    }
    match outcome {
        Ok(()) => {
            assert!(down.got_end() && up.got_end(), "{label}: an end was not passed on");
            assert!(!down.got_abort() && !up.got_abort(), "{label}: aborted");
        }
        Err(failure) => {
            assert!(down.got_abort() && up.got_abort(), "{label}: one side takes it for whole");
            match (failure.party, failure.cause) {
                (Party::Client, Cause::Reset) => check_delivery(down, up, &label),
                (Party::Server, Cause::Reset) => check_delivery(up, down, &label),
                (Party::Weir, Cause::TunnelIdle) => {
                    assert!(
                        client.is_silent.get() || server.is_silent.get(),
                        "{label}: neither side was silent"
                    );
                }
                _ => panic!("{label}: nothing else can fail here"),
            }
        }
    }
}

/// An end has failed: what it had sent before has reached the other, unless that has failed as well.
fn check_delivery(failed: &MemoryPeer, other: &MemoryPeer, label: &str) {
    assert!(failed.has_aborted(), "{label}: it is still there");
    if !other.has_aborted() {
        assert_eq!(other.got().len(), failed.sent().len(), "{label}: received, and not delivered");
    }
}
