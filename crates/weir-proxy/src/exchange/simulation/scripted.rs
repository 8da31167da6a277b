//! Tunnels in exact schedules: each test says what both peers do, and when.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_observe::{Cause, Failure, Party, Phase};

use super::client::ClientWorld;
use super::world::World;
use super::{SERVERS, Task, config, exchange_task, tunnel_head, worker};
use crate::net::clock::{self, Instant};
use crate::relay::tunnel::memory_end::MemoryPeer;
use crate::state::worker::Worker;

/// `timeouts.tunnel` in the config, and how late its end may be noticed: silence is measured eight times in it, and begins at the
/// first look that finds it.
const IDLE: Duration = Duration::from_secs(4);
const IDLE_LATE: Duration = Duration::from_millis(1_100);

/// A tunnel, both of whose peers are in the hands of a test.
struct Rig {
    worker: Rc<Worker>,
    world: Rc<World>,
    task: Task,
    client: Rc<MemoryPeer>,
    server: Rc<MemoryPeer>,
}

impl Rig {
    /// A tunnel that has just begun.
    fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let runtime = runtime.expect("it can be made");
        let _in_runtime = runtime.enter();
        clock::set(Some(Instant::test(Duration::from_secs(1_000))));
        let worker = worker(&config().into_result().expect("the config is good"), &[SERVERS, 1], 1);
        let client = Rc::new(ClientWorld::new(0, tunnel_head("/one/a", 0), Vec::new()));
        client.reply.make_room(1_000);
        let world = World::scripted(vec![Rc::clone(&client)], SERVERS);
        let mut task = exchange_task(&worker, &world, 0);
        while worker.shard.tunnels_open.value() == 0 {
            while task.poll() {}
            if let Some(at) = world.next_at() {
                clock::set(Some(at.max(clock::now())));
                world.step();
            }
            assert!(!task.is_over(), "there is no tunnel");
        }
        let server = Rc::clone(&world.server_of_tunnel(0).tunnel.stream);
        let client = Rc::clone(&client.tunnel.stream);
        let mut rig = Self { worker, world, task, client, server };
        rig.settle();
        rig
    }

    /// Lets the tunnel do what there is to do.
    fn settle(&mut self) {
        while self.task.poll() {}
    }

    /// Lets so much time pass.
    fn pass(&mut self, time: Duration) {
        let end = clock::now() + time;
        while let Some(due) = self.worker.timers.next_due().filter(|due| *due <= end) {
            clock::set(Some(due.max(clock::now())));
            self.worker.timers.fire();
            self.settle();
        }
        clock::set(Some(end));
        self.settle();
    }

    /// How it has ended.
    #[track_caller]
    fn outcome(&mut self) -> Result<(), Failure> {
        self.settle();
        let outcome = self.task.outcome.as_ref().and_then(|outcome| outcome.tunnelled);
        let outcome = outcome.expect("it is over");
        let config = self.worker.config.borrow();
        let (_, upstream) = config.snapshot.upstream("one").expect("it is in the config");
        assert_eq!(upstream.balancer().states()[0].in_flight(), 0, "its slot is free again");
        let (up, down) = self.moved();
        let head = self.world.server_of_tunnel(0).request.got.borrow().len() as u64;
        assert_eq!(self.counted_of_server(), (head + up, down), "with the head of the request");
        assert_eq!(self.worker.shard.tunnels_open.value(), 0);
        outcome
    }

    /// Bytes that the server and the client have got.
    fn moved(&self) -> (u64, u64) {
        (self.server.got().len() as u64, self.client.got().len() as u64)
    }

    /// Bytes that are counted as sent to the server and received from it.
    fn counted_of_server(&self) -> (u64, u64) {
        let config = self.worker.config.borrow();
        let (index, _) = config.snapshot.upstream("one").expect("it is in the config");
        let shard = &config.server(index, 0).shard;
        (shard.bytes_out.value(), shard.bytes_in.value())
    }

    #[track_caller]
    fn assert_aborted(&self) {
        assert!(self.client.got_abort() && self.server.got_abort());
        assert!(!self.client.got_end() && !self.server.got_end());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        clock::set(None);
        assert!(self.world.next_at().is_none() || std::thread::panicking(), "the rest is up to the test");
    }
}

#[test]
fn half_closes_pass_in_each_order() {
    for client_first in [true, false] {
        let mut rig = Rig::open();
        let (first, second) = match client_first {
            true => (Rc::clone(&rig.client), Rc::clone(&rig.server)),
            false => (Rc::clone(&rig.server), Rc::clone(&rig.client)),
        };
        first.send(b"all that I have");
        first.end();
        rig.settle();
        assert_eq!((&second.got()[..], second.got_end()), (&b"all that I have"[..], true));
        // One direction alone keeps a tunnel open, as long as something moves.
        for _ in 0..5 {
            rig.pass(IDLE / 2);
            second.send(b"and on");
            rig.settle();
        }
        assert!(!rig.task.is_over() && !first.got_end());
        // Counted as it moves: the end may be days away.
        assert_eq!(rig.counted_of_server(), rig.moved());
        second.end();
        assert_eq!(rig.outcome(), Ok(()));
        assert!(first.got_end() && first.got().len() == 30);
        assert!(!first.got_abort() && !second.got_abort());
    }
}

#[test]
fn a_client_that_aborts_resets_the_server_behind_its_last_bytes() {
    let mut rig = Rig::open();
    rig.client.send(&[1; 5_000]);
    rig.settle();
    rig.client.abort();
    rig.settle();
    assert!(!rig.task.is_over() && !rig.server.got_abort(), "the server has not taken everything");
    rig.server.make_room(5_000);
    assert_eq!(rig.outcome(), Err(Failure::client(Phase::Relay, Cause::Reset)));
    assert_eq!(rig.server.got().len(), 5_000);
    rig.assert_aborted();
}

#[test]
fn a_server_that_aborts_ends_the_client_behind_its_last_bytes() {
    let mut rig = Rig::open();
    rig.server.send(&[1; 5_000]);
    rig.settle();
    rig.server.abort();
    rig.client.make_room(5_000);
    assert_eq!(rig.outcome(), Err(Failure::server(Phase::Relay, Cause::Reset)));
    assert_eq!(rig.client.got().len(), 5_000);
    rig.assert_aborted();
}

#[test]
fn an_abort_is_noticed_although_nothing_can_move() {
    let mut rig = Rig::open();
    rig.client.send(&[1; 5_000]);
    rig.settle();
    rig.pass(IDLE - Duration::from_secs(1));
    rig.client.abort();
    rig.settle();
    // The time for the delivery counts from the abort. The server takes nothing, so it is given up.
    rig.pass(IDLE - Duration::from_secs(1));
    assert!(!rig.task.is_over());
    rig.pass(Duration::from_secs(1) + IDLE_LATE);
    assert_eq!(rig.outcome(), Err(Failure::weir(Phase::Relay, Cause::TunnelIdle)));
    rig.assert_aborted();
}

#[test]
fn silence_on_both_sides_ends_a_tunnel_in_time() {
    let mut rig = Rig::open();
    rig.pass(IDLE - Duration::from_millis(100));
    assert!(!rig.task.is_over());
    rig.server.send(b"?");
    rig.settle();
    rig.pass(IDLE - Duration::from_millis(100));
    assert!(!rig.task.is_over(), "it was not silent for so long");
    rig.pass(IDLE_LATE + Duration::from_millis(100));
    let failure = rig.outcome().expect_err("it was silent");
    assert_eq!((failure.party, failure.cause), (Party::Weir, Cause::TunnelIdle));
    rig.assert_aborted();
}

#[test]
fn a_stop_ends_a_tunnel_properly() {
    let mut rig = Rig::open();
    let shared = &rig.worker.shared;
    shared.places.ends.store(true, Ordering::Relaxed);
    shared.stopping.store(true, Ordering::Relaxed);
    rig.client.send(b"wakes it");
    rig.settle();
    assert!(!rig.task.is_over(), "a stop leaves it some time");
    let grace = rig.worker.config.borrow().snapshot.process.stop_grace;
    let mut left = grace;
    while !rig.task.is_over() && left > Duration::ZERO {
        rig.server.send(b"busy to the end");
        rig.client.make_room(1_000);
        rig.pass(Duration::from_secs(1));
        left = left.saturating_sub(Duration::from_secs(1));
    }
    assert_eq!(rig.outcome(), Err(Failure::weir(Phase::Relay, Cause::Drained)));
    assert!(rig.client.got_end() && rig.server.got_end());
    assert!(!rig.client.got_abort() && !rig.server.got_abort());
    assert_eq!(rig.worker.shard.tunnels_drained.value(), 1);
}
