//! Tunnels between ends in memory, and between one of those and a socket.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use super::memory_end::{MemoryEnd, MemoryPeer};
use super::*;
use crate::net::connection::Connection;
use crate::net::socket::Socket;

/// More than any test sends.
const ROOM: usize = 1 << 20;

/// Set when the tunnel is to be polled again.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A tunnel between two ends in memory, and their peers.
struct Rig {
    tunnel: Tunnel,
    client_end: MemoryEnd,
    server_end: MemoryEnd,
    client: Rc<MemoryPeer>,
    server: Rc<MemoryPeer>,
    stock: Rc<BufferStock>,
    flag: Arc<Flag>,
    resume_at: Option<Instant>,
}

impl Rig {
    fn new(client_room: usize, server_room: usize) -> Self {
        let (client, server) = (MemoryPeer::new(client_room), MemoryPeer::new(server_room));
        Self {
            tunnel: Tunnel::new(None, None),
            client_end: MemoryEnd::new(&client),
            server_end: MemoryEnd::new(&server),
            client,
            server,
            stock: BufferStock::new(4 * 1024),
            flag: Arc::default(),
            resume_at: None,
        }
    }

    fn poll(&mut self) -> Poll<Result<(), BrokenSide>> {
        self.flag.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.flag));
        self.resume_at = None;
        // Through the table, as ends of the rare kinds are called.
        let server: &mut dyn TunnelEnd = &mut self.server_end;
        self.tunnel.poll(
            &mut Context::from_waker(&waker),
            &mut self.client_end,
            server,
            &self.stock,
            &mut self.resume_at,
        )
    }

    #[track_caller]
    fn wait(&mut self) {
        assert!(self.poll().is_pending(), "it goes on");
    }

    /// Polls it as often as a turn of it is spent.
    fn settle(&mut self) -> Poll<Result<(), BrokenSide>> {
        for _ in 0..1_000 {
            let polled = self.poll();
            if polled.is_ready() || !self.was_woken() {
                return polled;
            }
        }
        panic!("it spins");
    }

    fn was_woken(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn assert_over(&mut self) {
        assert!(matches!(self.settle(), Poll::Ready(Ok(()))));
        assert!(self.client.got_end() && self.server.got_end());
    }

    #[track_caller]
    fn assert_broken(&mut self, side: Side) {
        match self.settle() {
            Poll::Ready(Err(broken)) => {
                assert_eq!((broken.side, broken.error.kind()), (side, io::ErrorKind::ConnectionReset));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn bytes_move_both_ways_as_they_come() {
    let mut rig = Rig::new(ROOM, ROOM);
    rig.wait();
    rig.client.send(b"ping");
    assert!(rig.was_woken());
    rig.wait();
    assert_eq!(*rig.server.got(), b"ping");
    rig.server.send(b"pong");
    rig.client.send(b", ping");
    rig.wait();
    assert_eq!((&rig.server.got()[..], &rig.client.got()[..]), (&b"ping, ping"[..], &b"pong"[..]));
    assert_eq!(rig.tunnel.moved(), (10, 4));
    assert!(!rig.client.got_end() && !rig.server.got_end());
}

#[test]
fn a_direction_that_ends_leaves_the_other_open() {
    for first in [Side::Client, Side::Server] {
        let mut rig = Rig::new(ROOM, ROOM);
        let (early, late) = match first {
            Side::Client => (Rc::clone(&rig.client), Rc::clone(&rig.server)),
            Side::Server => (Rc::clone(&rig.server), Rc::clone(&rig.client)),
        };
        early.send(b"last words");
        early.end();
        rig.wait();
        assert_eq!((&late.got()[..], late.got_end(), early.got_end()), (&b"last words"[..], true, false));
        for _ in 0..3 {
            late.send(b"still here");
            rig.wait();
        }
        assert_eq!(early.got().len(), 30);
        late.end();
        rig.assert_over();
        assert_eq!(rig.tunnel.first_end(), Some(first));
    }
}

#[test]
fn both_may_end_at_once_and_at_the_beginning() {
    let mut rig = Rig::new(0, 0);
    rig.client.end();
    rig.server.end();
    rig.assert_over();
    assert_eq!(rig.tunnel.moved(), (0, 0));
}

#[test]
fn an_end_waits_for_the_bytes_before_it() {
    let mut rig = Rig::new(ROOM, 3);
    rig.client.send(b"12345");
    rig.client.end();
    rig.wait();
    assert_eq!((&rig.server.got()[..], rig.server.got_end()), (&b"123"[..], false));
    rig.server.make_room(1);
    rig.wait();
    assert_eq!((&rig.server.got()[..], rig.server.got_end()), (&b"1234"[..], false));
    rig.server.make_room(1);
    rig.wait();
    assert_eq!((&rig.server.got()[..], rig.server.got_end()), (&b"12345"[..], true));
}

#[test]
fn a_full_receiver_holds_up_its_own_direction_only() {
    let mut rig = Rig::new(ROOM, 10);
    rig.client.send(&[b'u'; 50_000]);
    rig.server.send(&[b'd'; 50_000]);
    assert!(rig.settle().is_pending());
    assert_eq!(rig.tunnel.moved(), (10, 50_000));
    // One read of it waits, and no more is read.
    assert_eq!(rig.client_end.received().len(), 1_000 - 10);
    rig.server.make_room(ROOM);
    assert!(rig.settle().is_pending());
    assert_eq!(rig.tunnel.moved(), (50_000, 50_000));
}

#[test]
fn what_was_received_from_an_end_that_aborts_is_delivered() {
    for (side, to_the_gone) in [
        (Side::Client, &b""[..]),
        (Side::Server, b""),
        (Side::Client, b"too late"),
        (Side::Server, b"too late"),
    ] {
        let mut rig = Rig::new(0, 0);
        let (gone, left) = match side {
            Side::Client => (Rc::clone(&rig.client), Rc::clone(&rig.server)),
            Side::Server => (Rc::clone(&rig.server), Rc::clone(&rig.client)),
        };
        gone.send(&[b'x'; 2_500]);
        left.send(to_the_gone);
        rig.wait();
        gone.abort();
        assert!(rig.was_woken(), "also while neither direction can read or write");
        assert!(rig.settle().is_pending());
        assert!(rig.tunnel.is_broken());
        left.make_room(2_499);
        assert!(rig.settle().is_pending());
        left.make_room(1);
        rig.assert_broken(side);
        assert_eq!((left.got().len(), gone.got().len()), (2_500, 0));
        assert!(!left.got_end(), "an end would make a proper one of it");
    }
}

#[test]
fn an_end_that_aborts_gets_no_more_and_is_not_waited_for() {
    let mut rig = Rig::new(ROOM, 0);
    rig.wait();
    rig.client.abort();
    rig.assert_broken(Side::Client);
    assert!(!rig.server.got_end());

    // Nor is one that has ended its direction before.
    let mut rig = Rig::new(0, ROOM);
    rig.server.send(b"for the client");
    rig.client.end();
    rig.wait();
    assert!(rig.server.got_end());
    rig.client.abort();
    rig.assert_broken(Side::Client);
}

#[test]
fn an_abort_behind_two_ends_comes_too_late() {
    let mut rig = Rig::new(ROOM, ROOM);
    rig.client.end();
    rig.wait();
    rig.server.end();
    rig.server.abort();
    rig.assert_over();
}

#[test]
fn the_first_failure_is_the_one_that_counts() {
    let mut rig = Rig::new(ROOM, 0);
    rig.client.send(b"never taken");
    rig.wait();
    rig.client.abort();
    rig.wait();
    rig.server.abort();
    rig.assert_broken(Side::Client);
}

#[test]
fn a_throttled_direction_says_when_it_goes_on() {
    let began = Instant::test(Duration::from_secs(10));
    clock::set(Some(began));
    let mut rig = Rig::new(ROOM, ROOM);
    rig.tunnel = Tunnel::new(Some(Throttle::new(8_000, began)), None);
    rig.client.send(&[0; 2_000]);
    assert!(rig.settle().is_pending());
    assert_eq!(rig.tunnel.moved(), (1_000, 0), "the eighth of a second that the bucket holds");
    let resume_at = rig.resume_at.expect("it is throttled");
    assert!(resume_at > began);
    clock::set(Some(began + Duration::from_secs(1)));
    assert!(rig.settle().is_pending());
    assert_eq!((rig.tunnel.moved(), rig.resume_at), ((2_000, 0), None));
    clock::set(None);
}

#[test]
fn an_end_that_always_has_more_has_a_bounded_part_of_each_turn() {
    let mut rig = Rig::new(16 * ROOM, 16 * ROOM);
    rig.client.send(&vec![0; 1 << 20]);
    rig.wait();
    let (moved, _) = rig.tunnel.moved();
    assert!((16 * 1024..=80 * 1024).contains(&moved), "{moved}");
    assert!(rig.was_woken(), "it goes on behind the others");
}

/// A connection, and the socket at its other end.
fn connection() -> (Connection, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
    ours.set_nonblocking(true).expect("it can be set");
    theirs.set_read_timeout(Some(Duration::from_secs(30))).expect("it can be set");
    (Connection::new(Socket::new(ours.into())), theirs)
}

#[test]
fn a_stream_and_a_connection_are_ends_of_one_tunnel() {
    use std::io::{Read as _, Write as _};

    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
    let (mut client_end, mut socket) = connection();
    let server = MemoryPeer::new(ROOM);
    let mut server_end = MemoryEnd::new(&server);
    let (mut tunnel, stock) = (Tunnel::new(None, None), BufferStock::new(4 * 1024));
    let sender = std::thread::spawn(move || {
        socket.write_all(&[7; 300_000]).expect("it is taken");
        socket.shutdown(std::net::Shutdown::Write).expect("it can be ended");
        let mut got = Vec::new();
        socket.read_to_end(&mut got).expect("it ends properly");
        got
    });
    server.send(&[9; 100_000]);
    let outcome = runtime.block_on(std::future::poll_fn(|cx| {
        let polled = tunnel.poll(cx, &mut client_end, &mut server_end, &stock, &mut None);
        if server.got_end() && !server.has_ended() {
            server.end();
        }
        polled
    }));
    assert!(outcome.is_ok());
    assert_eq!((tunnel.moved(), tunnel.first_end()), ((300_000, 100_000), Some(Side::Client)));
    drop(client_end);
    assert_eq!(sender.join().expect("it has not failed"), [9; 100_000]);
    assert!(server.got().iter().all(|&byte| byte == 7) && server.got().len() == 300_000);
}
