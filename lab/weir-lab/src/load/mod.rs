//! The load: simulated clients that send prepared requests and check every answer.
//!
//! One thread, one epoll (`driver`), any number of clients. Closed loop: a client sends its next request when the last
//! answer is complete. Constant rate: requests have an intended start, whether or not a client is free then, and
//! latency counts from it, so that a stalled target cannot hide its stall (no coordinated omission). A client keeps the cookie
//! that it is given and sends it from then on. Messages of a WebSocket tunnel are exchanges as well.

pub mod tool;
pub mod http3_driver;
pub mod http2_driver;
pub mod unfinished;
pub mod held_connections;
pub mod http3;
pub mod http2;
pub mod probe;
pub mod driver;
pub mod series;
mod client;
pub mod websocket;
pub mod response;
mod cookie_jar;
pub mod seen;
mod socket;
pub mod tls;
pub mod exchange;
pub mod fault;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::Sender;
use std::time::Duration;

use hdrhistogram::Histogram;

pub(crate) use client::{SOURCES, connect};
pub use exchange::PreparedExchange;
pub use fault::{Faults, LoadFault};
pub use series::Second;
pub(crate) use socket::LoadSocket;
pub use tls::TlsClient;

/// The use of a connection after an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// It carries the client's next exchange.
    Kept,
    /// The target closes it, as the request asked; every exchange opens its own.
    PerExchange,
}

/// When exchanges begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoadPattern {
    /// Each client begins the next when the last is complete.
    Closed,
    /// A rate per second, evenly spaced, over all clients.
    Rate(f64),
    /// One rate for so long from the start on, then another.
    Change {
        /// Exchanges per second at first.
        first: f64,
        /// Until when.
        until: Duration,
        /// Exchanges per second from then on.
        then: f64,
    },
}

impl LoadPattern {
    /// Requests per second at first; `None` of a closed loop.
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Rate(rate) | Self::Change { first: rate, .. } => Some(rate),
        }
    }

    /// When exchange `number` is to begin, in nanoseconds from the start; `None` in a closed loop.
    pub fn due_ns(self, number: u64) -> Option<u64> {
        match self {
            Self::Closed => None,
            Self::Rate(rate) => Some((number as f64 * 1e9 / rate) as u64),
            Self::Change { first, until, then } => {
                let early = (first * until.as_secs_f64()).ceil() as u64;
                Some(if number < early {
                    (number as f64 * 1e9 / first) as u64
                } else {
                    until.as_nanos() as u64 + ((number - early) as f64 * 1e9 / then) as u64
                })
            }
        }
    }
}

/// Which of the prepared exchanges comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeOrder {
    /// Client `n` always sends number `n` modulo their count.
    ByClient,
    /// One after the other, whichever client sends them.
    InTurn,
}

/// One exchange of a run, in nanoseconds since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracedExchange {
    /// The client that made the exchange.
    pub client: usize,
    /// Which of the prepared exchanges it was.
    pub exchange: usize,
    /// When it was to begin.
    pub due: u64,
    /// When it began.
    pub began: u64,
    /// When it was over.
    pub ended: u64,
    /// It was answered correctly.
    pub is_answered: bool,
}

impl TracedExchange {
    /// From the intended start to the end.
    pub fn latency_ns(&self) -> u64 {
        self.ended.saturating_sub(self.due)
    }
}

/// One run of the driver.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Where to connect.
    pub target: SocketAddr,
    /// How the clients speak TLS, if they do.
    pub secure: Option<TlsClient>,
    /// The requests to send.
    pub exchanges: Vec<PreparedExchange>,
    /// Which of them comes next.
    pub choice: ExchangeOrder,
    /// Number of simulated clients.
    pub clients: usize,
    /// Whether they keep their connections.
    pub connections: Connections,
    /// When exchanges begin.
    pub arrival: LoadPattern,
    /// Time before the window in which nothing is counted.
    pub warm_up: Duration,
    /// Length of the window that is counted.
    pub window: Duration,
    /// An exchange that takes longer is a fault.
    pub timeout: Duration,
    /// The run ends after this many faults.
    pub faults_max: u64,
    /// Keep every single exchange of the run.
    pub trace: bool,
    /// Bytes that each client sends and reads in a second, and no more; without it, as many as it can.
    pub pace: Option<u64>,
    /// The beginning of the ids of its requests, which the target gets; without it, they have none.
    pub name: Option<String>,
}

/// The state of a run of the driver while it runs; written by the driver alone, except `stop`.
#[derive(Debug, Default)]
pub struct LoadProgress {
    /// Exchanges completed since the start, warm-up included.
    pub exchanges: AtomicU64,
    /// Set from outside to end the run early.
    pub stop: AtomicBool,
    /// Told every exchange that fails, at once.
    pub failed: Option<Sender<FailedExchange>>,
}

/// An exchange that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedExchange {
    /// How.
    pub fault: LoadFault,
    /// Its id, or that of its tunnel; empty without.
    pub id: String,
}

/// The result of a run of the driver.
#[derive(Debug)]
pub struct LoadOutcome {
    /// Exchanges of the window that were answered correctly.
    pub exchanges: u64,
    /// Length of the window.
    pub window: Duration,
    /// Latency of those exchanges, in nanoseconds; under a constant rate from the intended start.
    pub latency: Histogram<u64>,
    /// How late requests went out under a constant rate, in nanoseconds.
    pub lateness: Histogram<u64>,
    /// The faults, including those of the warm-up.
    pub faults: Faults,
    /// Connections opened.
    pub opened: u64,
    /// Kept connections that the target closed between exchanges, or announced to close.
    pub closed_by_target: u64,
    /// Answers that gave a client a cookie, in the warm-up as well.
    pub cookies: u64,
    /// Connections of the window that began with a full handshake.
    pub full_handshakes: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed_handshakes: u64,
    /// Intended starts for which no client was free before the end.
    pub unsent: u64,
    /// The run was ended from outside.
    pub stopped: bool,
    /// Its start, in nanoseconds of `clock::uptime_ns`.
    pub started_ns: u64,
    /// Every exchange of the run that is over, warm-up included, in the order in which they ended; if the plan says so.
    pub trace: Vec<TracedExchange>,
    /// The whole seconds of the window.
    pub seconds: Vec<Second>,
}

impl LoadOutcome {
    /// Of a run that begins at `started_ns` and counts for the length of `window`.
    pub fn at_start(started_ns: u64, window: Duration) -> Self {
        Self {
            exchanges: 0,
            window,
            latency: driver::histogram(),
            lateness: driver::histogram(),
            faults: Faults::default(),
            opened: 0,
            closed_by_target: 0,
            cookies: 0,
            full_handshakes: 0,
            resumed_handshakes: 0,
            unsent: 0,
            stopped: false,
            started_ns,
            trace: Vec::new(),
            seconds: Vec::new(),
        }
    }
}
