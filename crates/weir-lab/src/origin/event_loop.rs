//! The sockets of one origin thread: edge-triggered epoll, one receive and one send per request.
//!
//! After a receive that did not fill the buffer the socket is known to be empty, so nothing is read again until the
//! next edge: the usual second `recv` that only says EAGAIN would cost as much as the answer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use slab::Slab;

use super::Counters;
use super::answer::Stock;
use super::connection::{Connection, Desk};
use crate::clock;

const LISTENER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

/// Events taken from the kernel at once.
const EVENTS: usize = 1024;

/// Longest wait: bounds how old the Date of an answer can be.
const TICK: Duration = Duration::from_millis(500);

struct Client {
    socket: OwnedFd,
    connection: Connection,
    /// Tells this connection from an earlier one in the same place.
    serial: u32,
    /// The kernel has announced the end of what the client sends.
    ends: bool,
    /// That end has been read.
    ended: bool,
}

/// See the module.
pub(super) struct EventLoop {
    epoll: OwnedFd,
    listener: TcpListener,
    clients: Slab<Client>,
    delays: BinaryHeap<Reverse<(Instant, u64)>>,
    stock: Stock,
    counters: Arc<Counters>,
    buf: Box<[u8]>,
    serial: u32,
}

impl EventLoop {
    pub(super) fn new(listener: TcpListener, wake: &OwnedFd, counters: Arc<Counters>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        epoll::add(&epoll, wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            clients: Slab::new(),
            delays: BinaryHeap::new(),
            stock: Stock::new(),
            counters,
            buf: vec![0; 64 * 1024].into_boxed_slice(),
            serial: 0,
        })
    }

    /// Serves until told to stop.
    pub(super) fn run(&mut self) {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => panic!("epoll_wait on a valid descriptor: {error}"),
            }
            self.stock.refresh();
            let now = clock::now();
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    WAKE => return,
                    token => {
                        let flags = event.flags;
                        let ends = flags.intersects(
                            epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
                        );
                        self.serve(token, ends, now);
                    }
                }
            }
            self.fire_delays(clock::now());
        }
    }

    fn timeout(&self) -> Timespec {
        let wait = match self.delays.peek() {
            Some(Reverse((due, _))) => due.saturating_duration_since(clock::now()).min(TICK),
            None => TICK,
        };
        Timespec::try_from(wait).expect("at most half a second")
    }

    fn accept(&mut self) {
        while let Ok(socket) =
            rustix::net::accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
        {
            self.counters.accepted.fetch_add(1, Ordering::Relaxed);
            self.serial = self.serial.wrapping_add(1) & 0x7fff_ffff;
            let serial = self.serial;
            let client = Client { socket, connection: Connection::new(), serial, ends: false, ended: false };
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
    fn serve(&mut self, token: u64, ends: bool, now: Instant) {
        let key = (token & 0xffff_ffff) as usize;
        let serial = (token >> 32) as u32;
        let Some(client) = self.clients.get_mut(key).filter(|client| client.serial == serial) else { return };
        let desk = Desk { stock: &self.stock, counters: &self.counters, now };
        let delayed_before = client.connection.due();
        client.ends |= ends;
        let open = exchange(client, &mut self.buf, &desk);
        if let Some(due) = client.connection.due().filter(|due| Some(*due) != delayed_before) {
            self.delays.push(Reverse((due, token)));
        }
        if !open {
            self.close(key);
        }
    }

    fn fire_delays(&mut self, now: Instant) {
        while let Some(Reverse((due, token))) = self.delays.peek().copied() {
            if due > now {
                return;
            }
            self.delays.pop();
            let key = (token & 0xffff_ffff) as usize;
            let serial = (token >> 32) as u32;
            if let Some(client) = self.clients.get_mut(key).filter(|client| client.serial == serial) {
                client.connection.fire(&Desk { stock: &self.stock, counters: &self.counters, now });
                self.serve(token, false, now);
            }
        }
    }

    fn close(&mut self, key: usize) {
        self.clients.remove(key);
        self.counters.closed.fetch_add(1, Ordering::Relaxed);
    }
}

fn token_of(key: usize, serial: u32) -> u64 {
    u64::from(serial) << 32 | key as u64
}

/// Alternates receiving and sending until neither can go on; false when the connection is over.
fn exchange(client: &mut Client, buf: &mut [u8], desk: &Desk<'_>) -> bool {
    let mut drained = false;
    loop {
        while !client.connection.is_blocked() && !client.ended && !drained {
            match rustix::net::recv(&client.socket, &mut *buf, RecvFlags::empty()) {
                Ok((0, _)) => client.ended = true,
                Ok((len, _)) => {
                    client.connection.receive(&buf[..len], desk);
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
            client.connection.resume(desk);
            continue;
        }
        return !(client.ended && client.connection.is_flushed());
    }
}
