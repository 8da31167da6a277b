//! What runs now: each connection of a worker tells what it does, when somebody asks.
//!
//! Nothing is kept for that. A question is a roll call: the worker wakes its connections, and each answers where it waits, from what
//! connection and exchange know anyway. In the same way connections are told to end. Must not make sentences for people of names and numbers:
//! that is for whoever asks.

mod list;
mod query;

use weir_config::ListenerProtocol;
use weir_observe::Phase;

use super::activity::Activity;
pub use super::connection_id::ConnectionId;
use crate::net::clock::Instant;
use crate::net::peer::Peer;
use crate::state::recorder::{self, Flight};
pub(crate) use list::ConnectionList;
pub(crate) use query::ConnectionFacts;
pub use query::{ConnectionQuery, ConnectionQueryMessage, FoundOnWorker};

/// One connection, as it was when it was asked.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// Its number is the greater, the younger it is.
    pub id: ConnectionId,
    /// When the connection was accepted.
    pub opened_at: Instant,
    /// Since when it does what it does.
    pub since: Instant,
    /// What it waits for.
    pub activity: Activity,
    /// The phase of its exchange or, before there is one, of the connection; none between two exchanges.
    pub(crate) phase: Option<Phase>,
    /// The protocol of its listener.
    pub protocol: ListenerProtocol,
    /// The name of its listener.
    pub listener: Box<str>,
    /// The client.
    pub peer: Peer,
    /// Who is at the other end of the connection, if that is a proxy that has named the client.
    pub sender: Option<Peer>,
    /// Whether the client uses TLS.
    pub is_tls: bool,
    /// Requests that have come on it.
    pub requests: u64,
    /// Its exchange so far.
    pub flight: Option<Box<Flight>>,
}

impl ConnectionInfo {
    /// What it does in one word: the phase, unless it is idle or a tunnel.
    pub fn state(&self) -> &'static str {
        match (self.activity, self.phase) {
            (Activity::Tunnel, _) => "tunnel",
            (_, Some(phase)) => phase.name(),
            (_, None) => "idle",
        }
    }
}

/// What a worker is asked.
#[derive(Debug)]
pub enum WorkerQuery {
    /// What it keeps of exchanges that are over.
    Recorder(recorder::RecorderQueryMessage),
    /// What its connections do now.
    Connections(ConnectionQueryMessage),
}
