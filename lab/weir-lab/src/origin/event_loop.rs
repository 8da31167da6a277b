//! The sockets of one origin thread: edge-triggered epoll, one receive and one send per request.
//!
//! After a receive that did not fill the buffer the socket is known to be empty, so nothing is read again until the
//! next edge: the usual second `recv` that only says EAGAIN would cost as much as the answer.
//! Service times run here: `Work` says how many requests are worked on at once, the others wait.

use std::cell::RefCell;
use std::io;
use std::net::TcpListener;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, sockopt};
use slab::Slab;

use super::OriginCounters;
use super::connection::{OriginConnection, OriginShared};
use super::journal::JournalWriter;
use crate::clock;
use crate::origin::response_head::ReadyHeads;
use crate::origin::work_slots::WorkSlots;

const WAKE: u64 = u64::MAX;

/// From here on tokens are of listeners. Connections have a serial of 31 bits in front.
const LISTENERS: u64 = 1 << 63;

/// Events taken from the kernel at once.
const EVENTS: usize = 1024;

/// Longest wait: bounds how old the Date of an answer can be.
const TICK: Duration = Duration::from_millis(500);

struct OriginClient {
    socket: OwnedFd,
    connection: OriginConnection,
    /// Distinguishes this connection from an earlier one in the same place.
    serial: u32,
    /// The kernel has announced the end of the client's bytes.
    ends: bool,
    /// That end has been read.
    ended: bool,
}

/// See the module.
pub(super) struct EventLoop {
    epoll: OwnedFd,
    listeners: Vec<TcpListener>,
    clients: Slab<OriginClient>,
    work: WorkSlots,
    heads: ReadyHeads,
    counters: Arc<OriginCounters>,
    journal: Option<RefCell<JournalWriter>>,
    buf: Box<[u8]>,
    serial: u32,
}

impl EventLoop {
    /// A loop over `listeners` that ends when `wake` is written to.
    pub(super) fn new(
        listeners: Vec<TcpListener>,
        wake: &OwnedFd,
        counters: Arc<OriginCounters>,
        work: WorkSlots,
        journal: Option<JournalWriter>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for (index, listener) in listeners.iter().enumerate() {
            let token = epoll::EventData::new_u64(LISTENERS + index as u64);
            epoll::add(&epoll, listener, token, epoll::EventFlags::IN)?;
        }
        epoll::add(&epoll, wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listeners,
            clients: Slab::new(),
            work,
            heads: ReadyHeads::new(),
            counters,
            journal: journal.map(RefCell::new),
            buf: vec![0; 64 * 1024].into_boxed_slice(),
            serial: 0,
        })
    }

    /// Serves until it is stopped.
    pub(super) fn run(&mut self) {
        // The default slack of 50 us would make all work longer by that much; without the call it does.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("epoll_wait on a valid descriptor: {error}"),
            }
            self.heads.refresh();
            for event in &events {
                match event.data.u64() {
                    WAKE => return,
                    token if token >= LISTENERS => self.accept((token - LISTENERS) as usize),
                    token => {
                        let flags = event.flags;
                        let ends = flags.intersects(
                            epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
                        );
                        self.serve(token, ends);
                    }
                }
            }
            self.finish_work();
            if let Some(journal) = &self.journal {
                journal.borrow_mut().flush();
            }
        }
    }

    fn timeout(&self) -> Timespec {
        let wait = match self.work.next_due() {
            Some(due) => due.saturating_duration_since(clock::now()).max(self.counters.hang_left()).min(TICK),
            None => TICK,
        };
        Timespec::try_from(wait).expect("at most half a second")
    }

    fn accept(&mut self, listener: usize) {
        while let Ok(socket) =
            rustix::net::accept_with(&self.listeners[listener], SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
        {
            self.counters.accepted.fetch_add(1, Ordering::Relaxed);
            self.serial = self.serial.wrapping_add(1) & 0x7fff_ffff;
            let serial = self.serial;
            let client = OriginClient {
                socket,
                connection: OriginConnection::new(),
                serial,
                ends: false,
                ended: false,
            };
            let key = self.clients.insert(client);
            let flags = epoll::EventFlags::IN
                | epoll::EventFlags::OUT
                | epoll::EventFlags::RDHUP
                | epoll::EventFlags::ET;
            let token = epoll::EventData::new_u64(token_of(key, serial));
            if epoll::add(&self.epoll, &self.clients[key].socket, token, flags).is_err() {
                self.close(key);
            }
        }
    }

    /// Reads, answers and sends for one connection until it would block.
    fn serve(&mut self, token: u64, ends: bool) {
        let Some(client) = client(&mut self.clients, token) else { return };
        let shared =
            OriginShared { heads: &self.heads, counters: &self.counters, journal: self.journal.as_ref() };
        client.ends |= ends;
        let mut open = exchange(client, &mut self.buf, &shared);
        // A silent connection is not read any more, so reading cannot detect its end.
        open &= !(client.ends && client.connection.is_silent());
        if let Some(length) = client.connection.take_work()
            && self.work.begin(token, length, clock::now())
        {
            client.connection.begin_work(&shared);
        }
        if !open {
            self.close((token & 0xffff_ffff) as usize);
        }
    }

    /// Answers the requests whose work is done, and begins that of others. While the origin hangs, none is.
    fn finish_work(&mut self) {
        while self.counters.hang_left().is_zero()
            && let Some(done) = self.work.finish(clock::now())
        {
            let shared =
                OriginShared { heads: &self.heads, counters: &self.counters, journal: self.journal.as_ref() };
            if let Some(next) = done.begun.and_then(|token| client(&mut self.clients, token)) {
                next.connection.begin_work(&shared);
            }
            if let Some(client) = client(&mut self.clients, done.token) {
                client.connection.finish_work(&shared);
                self.serve(done.token, false);
            }
        }
    }

    fn close(&mut self, key: usize) {
        let client = self.clients.remove(key);
        if client.connection.is_reset() {
            // With no time to linger, closing sends RST (`socket(7)`); a client that has gone needs none.
            let _ = sockopt::set_socket_linger(&client.socket, Some(Duration::ZERO));
        }
        self.counters.closed.fetch_add(1, Ordering::Relaxed);
    }
}

/// The connection that `token` means, if it is still there.
fn client(clients: &mut Slab<OriginClient>, token: u64) -> Option<&mut OriginClient> {
    let client = clients.get_mut((token & 0xffff_ffff) as usize)?;
    (client.serial == (token >> 32) as u32).then_some(client)
}

fn token_of(key: usize, serial: u32) -> u64 {
    u64::from(serial) << 32 | key as u64
}

/// Alternates receiving and sending until neither can continue; false when the connection is over.
fn exchange(client: &mut OriginClient, buf: &mut [u8], shared: &OriginShared<'_>) -> bool {
    let mut drained = false;
    loop {
        while !client.connection.is_blocked() && !client.ended && !drained {
            match rustix::net::recv(&client.socket, &mut *buf, RecvFlags::empty()) {
                Ok((0, _)) => client.ended = true,
                Ok((len, _)) => {
                    client.connection.receive(&buf[..len], shared);
                    drained = len < buf.len() && !client.ends;
                }
                Err(Errno::AGAIN) => drained = true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        let was_blocked = client.connection.is_blocked();
        loop {
            let ready = client.connection.to_send();
            if ready.is_empty() {
                break;
            }
            match rustix::net::send(&client.socket, ready, SendFlags::NOSIGNAL) {
                Ok(len) => client.connection.advance(len),
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        if client.connection.is_finished() {
            return false;
        }
        if client.connection.is_resumable() || (was_blocked && !client.connection.is_blocked()) {
            client.connection.resume(shared);
            continue;
        }
        return !(client.ended && client.connection.is_flushed());
    }
}
