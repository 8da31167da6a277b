//! The state that all workers share, and the messages between them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use weir_traffic::limit::ConnectionCount;

use super::budgets::memory_guard::MemoryGuard;
use super::budgets::places::PlaceQueue;
use super::datagrams::DatagramRoutes;
use super::node_hand_over::NodeHandOverStep;
use super::routes::access::password_checks::PasswordChecks;
use super::snapshot::ListenerState;
use crate::net::clock::Instant;
use crate::net::peer::Peer;

/// What all workers share.
#[derive(Debug)]
pub struct Shared {
    /// Connections per worker, counted from the moment they are assigned.
    pub loads: Box<[Load]>,
    /// How a worker reaches another to hand a connection over.
    pub hand_over: Box<[UnboundedSender<AcceptedConnection>]>,
    /// How a worker reaches another with a datagram that is for a connection of that one.
    pub datagrams: DatagramRoutes,
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
    /// Whether connections end with their next response, and what waits for the places of connections.
    pub places: PlaceQueue,
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

/// A connection on its way from where it was accepted to the worker that will serve it. One that is a descriptor may go to another worker.
#[derive(Debug)]
pub struct AcceptedConnection<C = OwnedFd> {
    pub(crate) listener: Arc<ListenerState>,
    /// What its transport is made of.
    pub(crate) carrier: C,
    pub(crate) peer: Peer,
    /// The port it came in on; none on a Unix socket.
    pub(crate) port: Option<u16>,
}

/// Of any listener, as a number of one.
const ANY_LISTENER: u64 = 1 << 16;

/// The bits of the number of a listener, or of [`ANY_LISTENER`].
const LISTENER_MASK: u64 = ANY_LISTENER | 0xffff;

/// The request of another worker for room, or that of the worker itself for what takes a while.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct RoomRequest {
    /// How many clients without a whole request head have to go, and below it the number of the listener that is full, or [`ANY_LISTENER`].
    wanted: AtomicU64,
    /// Since when an idle connection must have been so to go, as nanoseconds of the clock.
    idle_before: AtomicU64,
    asked: Notify,
    /// Since when at most the longest idle connection of the worker has been so, in nanoseconds of the clock: below it the listener that it
    /// was sought for.
    idle_since: AtomicU64,
}

/// What a worker is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedRoom {
    /// The listener that is full; none: the process is.
    pub(crate) listener: Option<u16>,
    /// An idle connection goes if it has been idle since before this moment.
    pub(crate) idle_before: Instant,
    /// Where there is none, so many clients without a whole request head go.
    pub(crate) slow_heads: usize,
}

impl RoomRequest {
    /// Asks for room. Only the last of several requests at the same moment counts.
    pub(crate) fn ask(&self, room: AskedRoom) {
        let slow_heads = (room.slow_heads.min(u16::MAX.into()) as u64) << 32;
        self.idle_before.store(room.idle_before.since_boot_ns(), Ordering::Relaxed);
        self.wanted.store(slow_heads | number_of(room.listener), Ordering::Relaxed);
        self.asked.notify_one();
    }

    /// Waits for a request.
    pub(crate) async fn asked(&self) -> AskedRoom {
        self.asked.notified().await;
        let wanted = self.wanted.swap(ANY_LISTENER, Ordering::Relaxed);
        AskedRoom {
            listener: u16::try_from(wanted & LISTENER_MASK).ok(),
            idle_before: Instant::from_nanos(self.idle_before.load(Ordering::Relaxed)),
            slow_heads: (wanted >> 32) as usize,
        }
    }

    /// Notes since when the longest idle connection has been so, of a listener or of all; where there is none, since now.
    pub(crate) fn note_idle_since(&self, listener: Option<u16>, since: Instant) {
        let since = since.since_boot_ns() & !LISTENER_MASK | number_of(listener);
        self.idle_since.store(since, Ordering::Relaxed);
    }

    /// A moment before which no connection of the worker has been idle, of a listener or of all. It may be far too early.
    pub(crate) fn idle_since(&self, listener: Option<u16>) -> Option<Instant> {
        let noted = self.idle_since.load(Ordering::Relaxed);
        (noted & LISTENER_MASK == number_of(listener)).then(|| Instant::from_nanos(noted & !LISTENER_MASK))
    }
}

fn number_of(listener: Option<u16>) -> u64 {
    listener.map_or(ANY_LISTENER, u64::from)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_noted_of_idle_connections_is_of_one_listener_or_of_all() {
        let (request, at) = (RoomRequest::default(), Instant::test(Duration::from_secs(100)));
        assert_eq!(request.idle_since(None), None, "nothing is known");
        for noted in [None, Some(0), Some(7), Some(u16::MAX)] {
            request.note_idle_since(noted, at);
            for asked in [None, Some(0), Some(7), Some(u16::MAX)] {
                let since = request.idle_since(asked);
                assert_eq!(since.is_some(), noted == asked, "{noted:?} {asked:?}");
                assert!(since.is_none_or(|since| since <= at && at - since < Duration::from_millis(1)));
            }
        }
    }
}
