//! The state that all workers share, and the messages between them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use weir_traffic::limit::ConnectionCount;

use super::access::password_checks::PasswordChecks;
use super::memory_guard::MemoryGuard;
use super::node_hand_over::NodeHandOverStep;
use super::snapshot::ListenerState;
use crate::net::peer::Peer;

/// What all workers share.
#[derive(Debug)]
pub struct Shared {
    /// Connections per worker, counted from the moment they are assigned.
    pub loads: Box<[Load]>,
    /// How a worker reaches another to hand a connection over.
    pub hand_over: Box<[UnboundedSender<AcceptedConnection>]>,
    /// How workers ask each other for room.
    pub room_requests: Box<[RoomRequest]>,
    /// Client connections of the process, with their limit.
    pub connections: ConnectionCount,
    /// Buffers that all workers have together.
    pub buffers_max: u32,
    /// How short memory is.
    pub memory: MemoryGuard,
    /// Passwords that are to be verified.
    pub passwords: Arc<PasswordChecks>,
    /// Whether connections end with their next response: the process stops, or another node is about to take over.
    pub ending: AtomicBool,
    /// How far a planned hand-over to another node has come.
    pub node_hand_over: NodeHandOverStep,
    /// Whether it is known that the process stops soon; it goes on as before.
    pub stop_announced: AtomicBool,
    /// Whether the process stops: idle connections end, no new ones are accepted.
    pub stopping: AtomicBool,
    /// Whether another process has the addresses now: idle connections do not end at once, but with their next response.
    pub replaced: AtomicBool,
    /// Workers that accept no connections any more.
    pub closed: AtomicUsize,
}

/// The number of connections of one worker, on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Load(pub AtomicU32);

/// A connection on its way from the worker that accepted it to the one that will serve it.
#[derive(Debug)]
pub struct AcceptedConnection {
    pub(crate) listener: Arc<ListenerState>,
    pub(crate) fd: OwnedFd,
    pub(crate) peer: Peer,
    /// The port it came in on; none on a Unix socket.
    pub(crate) port: Option<u16>,
}

/// Of any listener.
pub(crate) const ANY_LISTENER: u32 = u32::MAX;

/// The request of another worker for room.
#[derive(Debug)]
#[repr(align(128))]
pub struct RoomRequest {
    /// The number of the listener that is full, or [`ANY_LISTENER`].
    pub(crate) listener: AtomicU32,
    pub(crate) asked: Notify,
}

impl Default for RoomRequest {
    fn default() -> Self {
        Self { listener: AtomicU32::new(ANY_LISTENER), asked: Notify::new() }
    }
}
