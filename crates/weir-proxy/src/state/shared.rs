//! The state that all workers share, and the messages between them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

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

/// Of any listener, as a number of one.
const ANY_LISTENER: u64 = u32::MAX as u64;

/// The request of another worker for room, or that of the worker itself for what takes a while.
#[derive(Debug)]
#[repr(align(128))]
pub struct RoomRequest {
    /// How many clients without a whole request head have to go, and below it the number of the listener that is full, or [`ANY_LISTENER`].
    wanted: AtomicU64,
    asked: Notify,
}

impl Default for RoomRequest {
    fn default() -> Self {
        Self { wanted: AtomicU64::new(ANY_LISTENER), asked: Notify::new() }
    }
}

impl RoomRequest {
    /// Asks for room on a listener or on any: for one idle connection or, where there is none, up to `slow_heads` clients without a whole
    /// request head. Only the last of several requests at the same moment counts.
    pub(crate) fn ask(&self, listener: Option<u16>, slow_heads: usize) {
        let wanted =
            (slow_heads.min(u16::MAX.into()) as u64) << 32 | listener.map_or(ANY_LISTENER, u64::from);
        self.wanted.store(wanted, Ordering::Relaxed);
        self.asked.notify_one();
    }

    /// Waits for a request; gives what [`RoomRequest::ask`] was called with.
    pub(crate) async fn asked(&self) -> (Option<u16>, usize) {
        self.asked.notified().await;
        let wanted = self.wanted.swap(ANY_LISTENER, Ordering::Relaxed);
        (u16::try_from(wanted & ANY_LISTENER).ok(), (wanted >> 32) as usize)
    }
}
