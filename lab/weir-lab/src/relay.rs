//! The lab's own target: passes bytes between a client and a server, at a CPU cost that its options set.
//!
//! What it does for a message from a client is a fixed amount of work, so that it and not the client is the limit. Made slower, it
//! burns a share of the CPU time that it has spent, by the kernel's count of its own thread: a difference that is known before
//! it is measured. Looks at no byte, keeps one connection to the server for each client, and runs on one thread.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use slab::Slab;
use weir_stats::terminal::say;

use crate::{clock, length, placement};

/// The settings of the relay.
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// Address to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// The server.
    #[arg(long)]
    to: SocketAddr,
    /// CPU time to spend on each message from a client, such as `20us`.
    #[arg(long, value_parser = length::read)]
    work: Option<Duration>,
    /// So much more CPU time than all of it takes, in percent.
    #[arg(long, default_value_t = 0)]
    slower: u32,
}

/// Token of the listener.
const LISTENER: u64 = u64::MAX;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;

/// The most bytes that may wait for one side before the other is no longer read.
const PENDING_MAX: usize = 256 * 1024;

/// One of the two connections of a pair.
struct RelaySide {
    socket: OwnedFd,
    /// Bytes that could not be sent yet.
    pending: Vec<u8>,
    /// The events it waits for.
    watched: EventFlags,
    ended: bool,
}

/// A client's connection, and the one to the server.
struct RelayedConnection([RelaySide; 2]);

struct RelayServer {
    epoll: OwnedFd,
    listener: TcpListener,
    pairs: Slab<RelayedConnection>,
    to: SocketAddr,
    work: Duration,
    buf: Box<[u8]>,
}

/// Relays until the process is ended.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve(args: &RelayArgs) -> anyhow::Result<()> {
    placement::raise_descriptor_limit();
    let listener =
        TcpListener::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), EventFlags::IN)?;
    say(&format!("listening on {}", listener.local_addr()?))?;
    let buf = vec![0; 64 * 1024].into_boxed_slice();
    let work = args.work.unwrap_or_default();
    let mut relay = RelayServer { epoll, listener, pairs: Slab::new(), to: args.to, work, buf };
    Ok(relay.run(f64::from(args.slower) / 100.0)?)
}

impl RelayServer {
    /// Relays, and burns this share of its own CPU time.
    fn run(&mut self, slower: f64) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut mark = clock::cpu_time();
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    token => self.serve((token >> 1) as usize, (token & 1) as usize),
                }
            }
            // Both kinds read the clock as often, so that they differ in what is burnt and in nothing else.
            let spent = clock::cpu_time().saturating_sub(mark);
            clock::burn(spent.mul_f64(slower));
            mark = clock::cpu_time();
        }
    }

    fn accept(&mut self) {
        while let Ok(client) =
            rustix::net::accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
        {
            // A server that is not there ends the client's connection, as any failure here does.
            let Ok(server) = connect(self.to) else { continue };
            if sockopt::set_tcp_nodelay(&client, true).is_err() {
                continue;
            }
            let side =
                |socket| RelaySide { socket, pending: Vec::new(), watched: EventFlags::IN, ended: false };
            let key = self.pairs.insert(RelayedConnection([side(client), side(server)]));
            let added = [0, 1].iter().all(|which| {
                let token = epoll::EventData::new_u64((key << 1 | which) as u64);
                epoll::add(&self.epoll, &self.pairs[key].0[*which].socket, token, EventFlags::IN).is_ok()
            });
            if !added {
                self.pairs.remove(key);
            }
        }
    }

    /// Moves bytes from side `which` of a pair to the other, as many as that accepts.
    fn serve(&mut self, key: usize, which: usize) {
        let Some(RelayedConnection(sides)) = self.pairs.get_mut(key) else { return };
        let is_over = match flush(&mut sides[which]) {
            Ok(()) => pass(sides, which, &mut self.buf, self.work).is_err(),
            Err(_) => true,
        };
        let [one, two] = sides;
        let done = |from: &RelaySide, to: &RelaySide| from.ended && to.pending.is_empty();
        if is_over || (done(one, two) || done(two, one)) || !self.watch(key) {
            self.pairs.remove(key);
        }
    }

    /// Asks for the events that the two sides now wait for; false when the kernel refuses.
    fn watch(&mut self, key: usize) -> bool {
        let RelayedConnection(sides) = &mut self.pairs[key];
        let waits = [0, 1].map(|which| sides[1 - which].pending.len() >= PENDING_MAX || sides[which].ended);
        sides.iter_mut().zip(waits).enumerate().all(|(which, (side, waits))| {
            let mut wanted = if waits { EventFlags::empty() } else { EventFlags::IN };
            wanted.set(EventFlags::OUT, !side.pending.is_empty());
            if wanted == side.watched {
                return true;
            }
            side.watched = wanted;
            let token = epoll::EventData::new_u64((key << 1 | which) as u64);
            epoll::modify(&self.epoll, &side.socket, token, wanted).is_ok()
        })
    }
}

/// Reads once from side `which` and sends it to the other.
fn pass(sides: &mut [RelaySide; 2], which: usize, buf: &mut [u8], work: Duration) -> Result<(), Errno> {
    let [one, two] = sides;
    let (from, to) = if which == 0 { (one, two) } else { (two, one) };
    if from.ended || to.pending.len() >= PENDING_MAX {
        return Ok(());
    }
    match rustix::net::recv(&from.socket, &mut *buf, RecvFlags::empty()) {
        Ok((0, _)) => from.ended = true,
        Ok((len, _)) => {
            if which == 0 {
                clock::burn(work);
            }
            to.pending.extend_from_slice(&buf[..len]);
            flush(to)?;
        }
        Err(Errno::AGAIN | Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Sends waiting bytes, as many as the socket accepts. One that is still connecting accepts none yet.
fn flush(side: &mut RelaySide) -> Result<(), Errno> {
    while !side.pending.is_empty() {
        match rustix::net::send(&side.socket, &side.pending, SendFlags::NOSIGNAL) {
            Ok(len) => drop(side.pending.drain(..len)),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn connect(to: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}
