//! Room for new connections where there is none: the client connections that have been idle longest are closed; where none is idle, clients
//! that have been longest without a whole request head.
//!
//! As nginx does when it is short of connections: a client whose idle connection is closed opens another when it has a
//! request, a client that is not accepted can do nothing. A worker evicts its own connections first, then asks another worker. Must not close a
//! connection whose request is whole.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::accept::WorkerSocket;
use crate::net::clock;
use crate::state::memory_guard::ConnectionAdmission;
use crate::state::slow_heads::WaitForRoom;
use crate::state::worker::{LimitReached, Worker};
use crate::state::worker_config::LocalListener;

/// Interval of the checks for room that other workers make without a request.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The same when it is being made.
const LOOK_SOON: Duration = Duration::from_millis(3);

impl Worker {
    /// Reserves the place of one more connection, for which an idle one may have to go; those that come meanwhile wait in the backlog
    /// of the kernel.
    ///
    /// Gives the listener whose place it is: a reload may give the socket to another one meanwhile.
    pub(crate) async fn reserve(&self, incoming: &WorkerSocket) -> Rc<LocalListener> {
        let (mut tries, mut since) = (0, None);
        loop {
            let listener = incoming.listener();
            let Err(full) = self.reserve_now(&listener.state) else { return listener };
            // Without a connection that waits, no room is needed.
            let is_awaited = incoming.has_waiting();
            let of = match full {
                LimitReached::Process => None,
                LimitReached::Listener => Some(listener.state.number),
            };
            let is_made = if is_awaited {
                let since = *since.get_or_insert_with(clock::now);
                self.make_room(of, WaitForRoom { since, waiting: incoming.waiting(), tries })
            } else {
                since = None;
                false
            };
            tries += 1;
            // Connections of other workers end without a notification to this one: check periodically.
            tokio::select! {
                () = self.room.notified() => {}
                () = self.timers.sleep(if is_made { LOOK_SOON } else { LOOK_AGAIN }) => {}
            }
        }
    }

    /// Waits until there is memory for one more connection; those that come meanwhile wait in the backlog of the kernel. Where it is short for too
    /// long, they are to be refused.
    pub(crate) async fn wait_for_memory(&self) -> ConnectionAdmission {
        loop {
            match self.shared.memory.admit(self.stock.size()) {
                // A stop ends the wait: its last connections are few.
                ConnectionAdmission::Wait if !self.is_stopping() => self.timers.sleep(LOOK_AGAIN).await,
                ConnectionAdmission::Wait => return ConnectionAdmission::Accept,
                decided => return decided,
            }
        }
    }

    /// Has an idle connection closed, of a listener or of all, or clients without a whole request head where others have waited too long;
    /// whether there may be one.
    #[cold]
    pub(crate) fn make_room(&self, listener: Option<u16>, wait: WaitForRoom) -> bool {
        if self.timers.evict_idle(listener) {
            return true;
        }
        let workers = self.shared.loads.len();
        let mut slow_heads = self.head_pressure.count_to_end(wait.since, clock::now(), wait.waiting);
        if slow_heads > 0 && (workers == 1 || !self.head_pressure.take_is_of_others()) {
            self.shared.room_requests[self.index].ask(listener, slow_heads);
            slow_heads = 0;
        }
        if workers == 1 {
            return false;
        }
        let tries = wait.tries;
        let others = (1..workers).map(|step| (self.index + step) % workers);
        let load = |worker: &usize| self.shared.loads[*worker].0.load(Ordering::Relaxed);
        // The one with most connections may be one with none that is idle.
        let other = if tries.is_multiple_of(2) {
            others.max_by_key(load).unwrap_or(self.index)
        } else {
            (self.index + 1 + self.random() as usize % (workers - 1)) % workers
        };
        self.shared.room_requests[other].ask(listener, slow_heads);
        // That may be in vain: after some tries there is no hurry.
        tries < 2 * workers
    }
}

/// Makes room for other workers when they ask for it, and for its own new connections where that takes more than a moment.
pub(super) async fn make_room_for_others(worker: Rc<Worker>) {
    loop {
        let (listener, slow_heads) = worker.shared.room_requests[worker.index].asked().await;
        if worker.timers.evict_idle(listener) || slow_heads == 0 {
            continue;
        }
        let began = clock::now();
        let ended = worker.connection_list.end_unfinished(&worker.timers, slow_heads, listener).await;
        let now = clock::now();
        worker.head_pressure.note_search(ended, now.saturating_duration_since(began), now);
        worker.count_slow_heads_ended(ended);
    }
}
