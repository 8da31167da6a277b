//! Room for new connections where there is none: the client connections that have been idle longest are closed; where none is idle, clients
//! that have been longest without a whole request head.
//!
//! As nginx does when it is short of connections: a client whose idle connection is closed opens another when it has a
//! request, a client that is not accepted can do nothing. One whose first request has not come is not idle, and one that has just had a
//! response may be sending the next request: these go after a while, and the next responses say that their connections end. Must not close a
//! connection whose request is whole.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::accept::WorkerSocket;
use crate::net::clock::{self, Instant};
use crate::net::timing::idleness::Evictable;
use crate::state::budgets::memory_guard::ConnectionAdmission;
use crate::state::budgets::places::{LimitReached, PlaceWait};
use crate::state::budgets::slow_heads::WaitForRoom;
use crate::state::shared::AskedRoom;
use crate::state::worker::Worker;
use crate::state::worker_config::LocalListener;

/// How long a connection is idle at least before it makes room: a client that sends one request after the other does so earlier, and would
/// lose one that is on its way.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// How often a worker asks others for a connection that has been idle for longer than its own, before it closes its own: they may be busy.
const ASKED_MAX: usize = 16;

/// Of so many looks for a place, one is made out of turn.
const LOOKS_IN_TURN: usize = 8;

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
        let listener = incoming.listener();
        if !self.shared.places.ends.is_awaited() && self.try_reserve(&listener.state) {
            return listener;
        }
        // On the heap, since it is rare.
        Box::pin(self.wait_for_place(incoming)).await
    }

    /// The same behind all that wait by now, of all workers.
    async fn wait_for_place(&self, incoming: &WorkerSocket) -> Rc<LocalListener> {
        let turn = PlaceWait::begin(&self.shared.places, incoming.listener().state.number);
        let mut wait = WaitForRoom::default();
        loop {
            let listener = incoming.listener();
            let number = listener.state.number;
            // A place that an earlier task has not taken by now is another worker's that makes no progress.
            let earlier = turn.is_behind(number).filter(|_| !(wait.tries + 1).is_multiple_of(LOOKS_IN_TURN));
            let full = earlier.map_or_else(|| self.reserve_now(&listener.state), Err);
            let Err(full) = full else { return listener };
            // Without a connection that waits, no room is needed.
            let waiting = if incoming.has_waiting() { incoming.waiting().max(1) } else { 0 };
            turn.note(number, full, waiting.min(incoming.known_waiting().unwrap_or(1).max(1)));
            let is_made = if waiting > 0 {
                wait.since.get_or_insert_with(clock::now);
                wait.waiting = waiting;
                self.make_room((full == LimitReached::Listener).then_some(number), &mut wait)
            } else {
                wait = WaitForRoom::default();
                false
            };
            // A place may also be there since a limit was raised: check periodically.
            tokio::select! {
                () = turn.woken() => {}
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

    /// Has the connection closed that has been idle longest, of a listener or of all, or clients without a whole request head where others have
    /// waited too long; whether there may be one.
    #[cold]
    pub(crate) fn make_room(&self, listener: Option<u16>, wait: &mut WaitForRoom) -> bool {
        wait.tries += 1;
        let now = clock::now();
        let idle_before = now - IDLE_MIN;
        let workers = self.shared.loads.len();
        let own = self.timers.longest_idle(listener).filter(|since| *since < idle_before);
        let asked = self.longer_idle(listener, own.unwrap_or(idle_before)).filter(|_| wait.asked < ASKED_MAX);
        if let Some((other, idle_before)) = asked {
            wait.asked += 1;
            self.ask(other, AskedRoom { listener, idle_before, slow_heads: 0 });
            return true;
        }
        if own.is_some() {
            return self.timers.evict_idle(Evictable::IdleBefore(listener, idle_before));
        }
        let mut slow_heads = self.head_pressure.count_to_end(wait.since.unwrap_or(now), now, wait.waiting);
        if slow_heads > 0 && (workers == 1 || !self.head_pressure.take_is_of_others()) {
            self.ask(self.index, AskedRoom { listener, idle_before, slow_heads });
            slow_heads = 0;
        }
        if workers == 1 {
            return false;
        }
        let load = |worker: &usize| self.shared.loads[*worker].0.load(Ordering::Relaxed);
        // The one with most connections may be one with none that is idle.
        let other = if wait.tries.is_multiple_of(2) {
            self.others().max_by_key(load).unwrap_or(self.index)
        } else {
            (self.index + 1 + self.random() as usize % (workers - 1)) % workers
        };
        self.ask(other, AskedRoom { listener, idle_before, slow_heads });
        // That may be in vain: after some tries there is no hurry.
        wait.tries < 2 * workers
    }

    fn ask(&self, worker: usize, room: AskedRoom) {
        self.shared.room_requests[worker].ask(room);
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let (index, workers) = (self.index, self.shared.loads.len());
        (1..workers).map(move |step| (index + step) % workers)
    }

    /// The other worker that may have the longest idle connection of all, if that may have been so since before `since`; and since before when
    /// it has to be, so that no third worker has one that has been idle for longer.
    fn longer_idle(&self, listener: Option<u16>, since: Instant) -> Option<(usize, Instant)> {
        let noted = |worker: usize| self.shared.room_requests[worker].idle_since(listener);
        let noted = |worker: usize| noted(worker).unwrap_or(Instant::from_nanos(0));
        let longest =
            self.others().min_by_key(|worker| noted(*worker)).filter(|worker| noted(*worker) < since)?;
        let next = self.others().filter(|worker| *worker != longest).map(noted).min();
        Some((longest, next.map_or(since, |next| next.min(since))))
    }
}

/// Makes room for other workers when they ask for it, and for its own new connections where that takes more than a moment.
pub(super) async fn make_room_for_others(worker: Rc<Worker>) {
    loop {
        let AskedRoom { listener, idle_before, slow_heads } =
            worker.shared.room_requests[worker.index].asked().await;
        let now = clock::now();
        let idle_before = idle_before.min(now - IDLE_MIN);
        let is_evicted = worker.timers.evict_idle(Evictable::IdleBefore(listener, idle_before));
        let longest = worker.timers.longest_idle(listener).unwrap_or(now);
        worker.shared.room_requests[worker.index].note_idle_since(listener, longest);
        if is_evicted || slow_heads == 0 {
            continue;
        }
        let ended = worker.connection_list.end_unfinished(&worker.timers, slow_heads, listener).await;
        let ended_at = clock::now();
        worker.head_pressure.note_search(ended, ended_at.saturating_duration_since(now), ended_at);
        worker.count_slow_heads_ended(ended);
    }
}
