//! The list of open client connections: each connection of a worker reports its state on request.
//!
//! Nothing is stored for that. For a query the worker wakes its connections, and each answers at its wait, from the state of
//! connection and exchange. A query can also end connections. Must not format text for people: the caller does.

mod list;
mod query;
mod unfinished;
mod slowest;
mod least;

use weir_config::ListenerProtocol;
use weir_observe::Phase;

use super::activity::Activity;
use crate::net::clock::Instant;
use crate::net::peer::Peer;
use crate::state::budgets::memory_guard::MemoryOrder;
pub use crate::state::connection_id::ConnectionId;
use crate::state::datagrams::TraceOrder;
use crate::state::routes::access::KeyFetch;
use crate::state::tracing::recorder;
use crate::state::tracing::recorder::{ClientTransport, RecordedExchange};
pub(crate) use list::ConnectionList;
pub(crate) use query::ConnectionFacts;
pub use query::{ConnectionQuery, ConnectionQueryMessage, FoundOnWorker};
pub(crate) use slowest::Slowness;
pub(crate) use unfinished::Unfinished;

/// One connection at the time of the query.
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
    /// The peer of the connection, if it is a proxy that has named the client.
    pub sender: Option<Peer>,
    /// What carries it.
    pub transport: ClientTransport,
    /// Requests that have come on it.
    pub requests: u64,
    /// Its exchange so far.
    pub recorded: Option<Box<RecordedExchange>>,
}

impl ConnectionInfo {
    /// Its state in one word: the phase, unless it is idle or a tunnel.
    pub fn state(&self) -> &'static str {
        match (self.activity, self.phase) {
            (Activity::Tunnel, _) => "tunnel",
            (_, Some(phase)) => phase.name(),
            (_, None) => "idle",
        }
    }
}

/// A query to a worker.
#[derive(Debug)]
pub enum WorkerQuery {
    /// About recorded exchanges.
    Recorder(recorder::RecorderQueryMessage),
    /// About open connections.
    Connections(ConnectionQueryMessage),
    /// For a fetch of keys of tokens.
    Keys(KeyFetch),
    /// To free memory.
    Memory(MemoryOrder),
    /// To write down what happens to a connection.
    Trace(TraceOrder),
    /// Whether the worker makes progress.
    Progress(tokio::sync::oneshot::Sender<()>),
}
