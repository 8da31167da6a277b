//! The server behind every balancer under test: fast enough not to be the limit, and exact about HTTP/1.1.
//!
//! Answers any GET with a fixed page of 612 bytes, takes POST bodies, and lets the URL choose size, chunks, delay, status and
//! failure (`response_spec`). WebSocket messages come back as they are. A hand-written epoll loop per thread (`event_loop`), no allocation per request. On demand it works on
//! few requests at once (`work_slots`) and keeps a `journal`. It never uses the proxy's HTTP code.

pub mod command;
mod event_loop;
mod connection;
pub mod response_spec;
pub mod delay;
mod pieces;
pub mod request;
mod response_head;
pub mod journal;
mod work_slots;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::EventfdFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use weir_stats::distribution::Distribution;
use weir_stats::random::{Purpose, RandomStream};

use crate::clock;
use response_spec::ResponseSpec;

/// Size of the page, in bytes: that of nginx's welcome page, which most published comparisons fetch.
pub const PAGE_LEN: u64 = 612;

/// Ports that are tried before it is given up to find one that is free at every address.
const PORTS_TRIED: usize = 32;

/// Connections waiting to be accepted; the kernel caps it at `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// The seed where none is given.
pub const SEED: u64 = 1;

/// The counters of the origin since its start, summed over its threads.
#[derive(Debug, Default)]
pub struct OriginCounters {
    accepted: AtomicU64,
    closed: AtomicU64,
    requests: AtomicU64,
    /// Until when nothing is answered, in nanoseconds of `clock::uptime_ns`; 0: never was.
    hung_until: AtomicU64,
    /// Where the randomness of delays and failures begins.
    seed: u64,
    /// CPU time to spend on every answer.
    burn: Duration,
    /// Answers that are 500 without having been asked for, percent.
    errors: u8,
    /// Requests for which something was drawn.
    drawn: AtomicU64,
}

impl OriginCounters {
    /// Lets it answer nothing for `length`.
    fn hang(&self, length: Duration) {
        self.hung_until.store(clock::uptime_ns() + length.as_nanos() as u64, Ordering::Relaxed);
    }

    /// How long it still answers nothing.
    fn hang_left(&self) -> Duration {
        match self.hung_until.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            until => Duration::from_nanos(until.saturating_sub(clock::uptime_ns())),
        }
    }

    /// How long the next request takes, and whether it fails as it wishes to: drawn by its number, in the order in which such
    /// requests come.
    fn draw(&self, spec: &mut ResponseSpec) -> Duration {
        if let (Distribution::Constant(ns), None, 0) = (&spec.delay, spec.failure, self.errors) {
            return Duration::from_nanos(*ns);
        }
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let mut random = RandomStream::new(self.seed, Purpose::Service, [number, 0]);
        if random.below(100) >= u64::from(spec.share) {
            spec.failure = None;
        }
        if random.below(100) < u64::from(self.errors) && spec.hang.is_zero() {
            spec.status = 500;
        }
        Duration::from_nanos(spec.delay.draw(&mut random))
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections open now.
    pub fn open(&self) -> u64 {
        self.accepted().saturating_sub(self.closed.load(Ordering::Relaxed))
    }

    /// Requests read completely so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// The settings of an origin.
#[derive(Debug, Clone)]
pub struct OriginSetup {
    /// Where it listens; port 0: any free port.
    pub listen: SocketAddr,
    /// This many addresses, counted upwards from that one, with the same port.
    pub addresses: u32,
    /// Event loops that share the addresses.
    pub threads: usize,
    /// How many requests with a delay it works on at once, per thread; `None`: as many as come.
    pub slots: Option<usize>,
    /// The file for its journal; with one thread only.
    pub journal: Option<PathBuf>,
    /// Where the randomness of delays and failures begins.
    pub seed: u64,
    /// Additional CPU time for every answer.
    pub burn: Duration,
    /// This many percent of its answers are 500, for any request.
    pub errors: u8,
}

impl OriginSetup {
    /// An origin like a fast server: as many requests at once as come, no journal.
    pub fn plain(listen: SocketAddr, threads: usize) -> Self {
        Self {
            listen,
            addresses: 1,
            threads,
            slots: None,
            journal: None,
            seed: SEED,
            burn: Duration::ZERO,
            errors: 0,
        }
    }
}

/// A running origin; it stops when dropped.
#[derive(Debug)]
pub struct OriginServer {
    addr: SocketAddr,
    counters: Arc<OriginCounters>,
    stop: Vec<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl OriginServer {
    /// Starts `threads` event loops that share `listen` (port 0: any free port).
    ///
    /// # Errors
    /// When the address cannot be bound or a thread cannot be started.
    pub fn start(listen: SocketAddr, threads: usize) -> io::Result<Self> {
        Self::start_as(&OriginSetup::plain(listen, threads))
    }

    /// Starts an origin as `setup` says.
    ///
    /// # Errors
    /// When an address cannot be bound, the journal not written or a thread not started.
    pub fn start_as(setup: &OriginSetup) -> io::Result<Self> {
        let mut addr = setup.listen;
        let OriginSetup { seed, burn, errors, .. } = *setup;
        let counters = Arc::new(OriginCounters { seed, burn, errors, ..OriginCounters::default() });
        let (mut stop, mut running) = (Vec::new(), Vec::new());
        for index in 0..setup.threads.max(1) {
            let listeners = bind_all(addr, setup.addresses)?;
            addr = listeners[0].local_addr()?;
            let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
            let journal = setup.journal.as_deref().map(journal::JournalWriter::create).transpose()?;
            let work = work_slots::WorkSlots::new(setup.slots);
            let mut event_loop =
                event_loop::EventLoop::new(listeners, &wake, Arc::clone(&counters), work, journal)?;
            running.push(
                std::thread::Builder::new()
                    .name(format!("origin-{index}"))
                    .spawn(move || event_loop.run())?,
            );
            stop.push(wake);
        }
        Ok(Self { addr, counters, stop, threads: running })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its counters so far.
    pub fn counters(&self) -> &OriginCounters {
        &self.counters
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        for thread in self.threads.drain(..) {
            // A panicking loop has already said why; the others keep serving.
            let _ = thread.join();
        }
    }
}

impl Drop for OriginServer {
    fn drop(&mut self) {
        for wake in &self.stop {
            // The counter of an eventfd cannot be full after one write.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The address `number` places after `first`, with the same port. IPv6 has one loopback address only.
pub fn nth_addr(first: SocketAddr, number: u32) -> SocketAddr {
    match first.ip() {
        IpAddr::V4(ip) => {
            SocketAddr::from((Ipv4Addr::from_bits(ip.to_bits().wrapping_add(number)), first.port()))
        }
        IpAddr::V6(_) => first,
    }
}

/// Binds `count` listeners, at `first` and the addresses after it. Any port that is free at the first may be taken at another, so
/// several are tried where any will do.
fn bind_all(first: SocketAddr, count: u32) -> io::Result<Vec<TcpListener>> {
    let tries = if first.port() == 0 { PORTS_TRIED } else { 1 };
    let mut outcome = Err(io::ErrorKind::AddrInUse.into());
    for _ in 0..tries {
        outcome = bind(first).and_then(|listener| {
            let addr = listener.local_addr()?;
            let others = (1..count).map(|number| bind(nth_addr(addr, number)));
            std::iter::once(Ok(listener)).chain(others).collect()
        });
        if !matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::AddrInUse) {
            break;
        }
    }
    outcome
}

/// Binds one listener; several may share the address. Accepted sockets inherit TCP_NODELAY from it.
fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    rustix::net::bind(&socket, &addr)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}
