//! Room for new connections where there is none: the client connections that have been idle longest are closed.
//!
//! As nginx does when it is short of connections: a client whose kept connection is closed opens another when it has a
//! request, one that is not let in can do nothing. A worker asks its own sessions first, then another worker. Must not close a connection on
//! which anything is under way.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::downstream::listener::Door;
use crate::net::clock::{self, Instant};
use crate::state::snapshot::ListenerState;
use crate::state::view::LocalListener;
use crate::worker::Worker;

/// How often it is looked for room that other workers make without being asked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The same when it is being made.
const LOOK_SOON: Duration = Duration::from_millis(3);

/// How often the log says so.
const TOLD_AGAIN: Duration = Duration::from_secs(10);

/// Of any listener.
const ANY: u32 = u32::MAX;

/// How a worker hears that another one needs room.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct RoomWanted {
    /// The number of the listener that is full, or [`ANY`].
    listener: AtomicU32,
    asked: Notify,
}

impl Default for RoomWanted {
    fn default() -> Self {
        Self { listener: AtomicU32::new(ANY), asked: Notify::new() }
    }
}

/// What a worker has closed to make room.
#[derive(Debug, Default)]
pub(crate) struct Displaced {
    /// Since the log last said so.
    untold: Cell<u64>,
    told_at: Cell<Option<Instant>>,
}

/// Why there is no room.
enum Full {
    Process,
    Listener,
}

impl Worker {
    /// Reserves the place of one more connection on a listener, if process and listener may have one.
    pub(crate) fn try_reserve(&self, listener: &ListenerState) -> bool {
        self.reserve_now(listener).is_ok()
    }

    fn reserve_now(&self, listener: &ListenerState) -> Result<(), Full> {
        if !self.shared.connections.try_acquire() {
            return Err(Full::Process);
        }
        if !listener.connections.try_acquire() {
            self.shared.connections.release();
            return Err(Full::Listener);
        }
        Ok(())
    }

    /// Gives back what [`Worker::try_reserve`] took.
    pub(crate) fn unreserve(&self, listener: &ListenerState) {
        self.shared.connections.release();
        listener.connections.release();
    }

    /// Reserves the place of one more connection, for which an idle one may have to go; those that come meanwhile wait in the backlog
    /// of the kernel.
    ///
    /// Gives the listener whose place it is: a reload may give the socket to another one meanwhile.
    pub(crate) async fn reserve(&self, door: &Door) -> Rc<LocalListener> {
        let mut tries = 0;
        loop {
            let listener = door.listener();
            let Err(full) = self.reserve_now(&listener.state) else { return listener };
            // Without a connection that waits, no room is needed.
            let is_awaited = door.has_waiting();
            let of = match full {
                Full::Process => None,
                Full::Listener => Some(listener.state.number),
            };
            let is_made = is_awaited && self.make_room(of, tries);
            tries += 1;
            // Sessions of other workers end without a word to this one: look again now and then.
            tokio::select! {
                () = self.room.notified() => {}
                () = self.timers.nap(if is_made { LOOK_SOON } else { LOOK_AGAIN }) => {}
            }
        }
    }

    /// Has an idle connection closed, of a listener or of all; whether there may be one. `tries` so many times it was tried before.
    #[cold]
    pub(crate) fn make_room(&self, listener: Option<u16>, tries: usize) -> bool {
        if self.timers.displace_idle(listener) {
            return true;
        }
        let workers = self.shared.loads.len();
        if workers == 1 {
            return false;
        }
        let others = (1..workers).map(|step| (self.index + step) % workers);
        let load = |worker: &usize| self.shared.loads[*worker].0.load(Ordering::Relaxed);
        // The one with most sessions may be one with none that is idle.
        let other = if tries.is_multiple_of(2) {
            others.max_by_key(load).unwrap_or(self.index)
        } else {
            (self.index + 1 + self.random() as usize % (workers - 1)) % workers
        };
        let wanted = &self.shared.room_wanted[other];
        wanted.listener.store(listener.map_or(ANY, u32::from), Ordering::Relaxed);
        wanted.asked.notify_one();
        // That may be in vain: after some tries there is no hurry.
        tries < 2 * workers
    }

    /// Makes room for other workers, when they ask for it.
    pub(crate) async fn make_room_for_others(self: Rc<Self>) {
        let wanted = &self.shared.room_wanted[self.index];
        loop {
            wanted.asked.notified().await;
            let listener = wanted.listener.swap(ANY, Ordering::Relaxed);
            self.timers.displace_idle(u16::try_from(listener).ok());
        }
    }

    /// Counts a session that was idle and ends so that another one has its place.
    #[cold]
    pub(crate) fn count_displaced(&self) {
        self.shard.sessions_displaced.increment();
        let Displaced { untold, told_at } = &self.displaced;
        untold.set(untold.get() + 1);
        let now = clock::now();
        if told_at.get().is_some_and(|at| now < at + TOLD_AGAIN) {
            return;
        }
        told_at.set(Some(now));
        tracing::warn!(
            closed = untold.take(),
            "idle client connections were closed to make room for new ones: raise `connections_max` and the limit on open files, or lower \
             `listener.NAME.timeouts.idle`"
        );
    }
}
