//! The queue of an upstream whose servers are all full: the waiters, their order and their deadlines.
//!
//! A plain data structure, generic over the waiter: the owner locks it, wakes waiters and reads the
//! clock. Waiters of a higher [`PriorityClass`] leave first. Those of one priority leave in order of
//! arrival, or, with different `share`s, one of each in turn. Entering and leaving take constant time, from
//! the middle too. Its length is bounded: when it is full, the client with most waiters loses its newest to a client with fewer. Times are milliseconds on any clock that does not go back.

mod drain;
mod lane;
mod clients;
mod overload;
mod nodes;

pub use overload::DelayTarget;

use clients::WaitingClients;
use drain::DrainRate;
use lane::Lane;
use nodes::{NONE, QueueNodes};
use overload::OverloadDetector;

/// The order in which waiters leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PriorityClass {
    /// Before all others.
    High,
    /// As most do.
    #[default]
    Normal,
    /// When no other waits.
    Low,
}

impl PriorityClass {
    /// All of them, the first to leave first.
    pub const ALL: [PriorityClass; 3] = [PriorityClass::High, PriorityClass::Normal, PriorityClass::Low];

    /// The stable lower-case name: value in the config, label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            PriorityClass::High => "high",
            PriorityClass::Normal => "normal",
            PriorityClass::Low => "low",
        }
    }
}

/// Where in the queue a waiter belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueClass {
    /// Waiters of a higher priority leave first.
    pub priority: PriorityClass,
    /// The share of the slots that it counts to (the hash of a client's address, say): of waiters of one priority,
    /// one of each share leaves in turn. All the same for plain order of arrival.
    pub share: u64,
    /// The client, of which the one with most waiters makes room when the queue is full.
    pub client: u64,
}

/// What happens to a waiter whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeDecision {
    /// It is served.
    Serve,
    /// It keeps its place, and the next one is considered.
    PassOver,
    /// It keeps its place, and none behind it can be served either.
    Stop,
}

/// A bounded queue.
#[derive(Debug)]
pub struct WaitQueue<T> {
    places: QueueNodes<T>,
    lanes: [Lane; PriorityClass::ALL.len()],
    clients: [WaitingClients; PriorityClass::ALL.len()],
    overloads: [OverloadDetector; PriorityClass::ALL.len()],
    drain: DrainRate,
    len: usize,
    len_max: usize,
    arrivals: u64,
}

/// A waiter.
#[derive(Debug, PartialEq, Eq)]
pub struct QueuedItem<T> {
    /// The caller's item.
    pub item: T,
    /// When it came, in milliseconds.
    pub arrived_ms: u64,
    /// When it has waited long enough, in milliseconds: from then on it is served no more.
    pub deadline_ms: u64,
    /// How many entered the queue before it, ever.
    pub arrival: u64,
}

/// A waiter's claim to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    place: u32,
    generation: u32,
}

/// The result of entering.
#[derive(Debug, PartialEq, Eq)]
pub struct Pushed<T> {
    /// The new waiter's claim.
    pub ticket: Ticket,
    /// How many of its priority or a higher one were there before it.
    pub ahead: usize,
    /// The waiter that was removed to make room, because the queue was full: the newest of the client with most waiters, of the lowest
    /// priority, or of the same one if that client has more than the one that enters.
    pub evicted: Option<QueuedItem<T>>,
}

/// The queue is full; returns the item.
#[derive(Debug, PartialEq, Eq)]
pub struct QueueFull<T>(pub T);

impl<T> WaitQueue<T> {
    /// An empty queue for at most `len_max` waiters; with a `target`, lasting overload makes the oldest leave.
    /// Memory is taken as it grows.
    pub fn new(len_max: usize, target: Option<DelayTarget>) -> WaitQueue<T> {
        WaitQueue {
            places: QueueNodes::new(),
            lanes: PriorityClass::ALL.map(|_| Lane::new()),
            clients: PriorityClass::ALL.map(|_| WaitingClients::new()),
            overloads: PriorityClass::ALL.map(|_| OverloadDetector::new(target)),
            drain: DrainRate::new(),
            len: 0,
            len_max: len_max.min(NONE as usize),
            arrivals: 0,
        }
    }

    /// How many wait, including waiters past their deadline that have not been removed yet.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether no more can enter without another one's leaving.
    pub fn is_full(&self) -> bool {
        self.len >= self.len_max
    }

    /// The most that can wait at once.
    pub fn len_max(&self) -> usize {
        self.len_max
    }

    /// Changes the bound. Waiters above a lowered bound stay.
    pub fn set_len_max(&mut self, len_max: usize) {
        self.len_max = len_max.min(NONE as usize);
    }

    /// Changes the wait that is acceptable for good; the same one as before changes nothing.
    pub fn set_target(&mut self, target: Option<DelayTarget>) {
        self.overloads.iter_mut().for_each(|overload| overload.set_limits(target));
    }

    /// Puts `item` behind all others of its class.
    ///
    /// # Errors
    /// [`QueueFull`] with the item when the queue is full and no waiter can be displaced.
    pub fn push(
        &mut self,
        item: T,
        class: QueueClass,
        now_ms: u64,
        deadline_ms: u64,
    ) -> Result<Pushed<T>, QueueFull<T>> {
        let evicted = if !self.is_full() {
            None
        } else {
            let Some(victim) = self.displaced_by(class) else { return Err(QueueFull(item)) };
            self.unlink(victim)
        };
        let lane = class.priority as usize;
        let ahead = self.lanes[..=lane].iter().map(Lane::len).sum();
        let waiter = QueuedItem { item, arrived_ms: now_ms, deadline_ms, arrival: self.arrivals };
        self.arrivals += 1;
        let at = self.places.take(waiter, lane as u8);
        self.lanes[lane].push(&mut self.places, at, class.share);
        self.clients[lane].add(&mut self.places, at, class.client);
        self.len += 1;
        let ticket = Ticket { place: at, generation: self.places.generation(at) };
        Ok(Pushed { ticket, ahead, evicted })
    }

    /// Takes out the first waiter that is `eligible` (for the server that has become free, say) and whose
    /// deadline is not reached, to be served. Those passed over keep their places. Takes constant time when
    /// the first one is eligible.
    pub fn pop_front(&mut self, now_ms: u64, mut eligible: impl FnMut(&T) -> bool) -> Option<QueuedItem<T>> {
        self.pop_next(
            now_ms,
            |item| if eligible(item) { ServeDecision::Serve } else { ServeDecision::PassOver },
        )
    }

    /// The same with the choice to look no further.
    pub fn pop_next(
        &mut self,
        now_ms: u64,
        mut decide: impl FnMut(&T) -> ServeDecision,
    ) -> Option<QueuedItem<T>> {
        let places = &self.places;
        let mut stopped = false;
        let mut ends_search = |waiter: &QueuedItem<T>| {
            if now_ms >= waiter.deadline_ms {
                return false;
            }
            let turn = decide(&waiter.item);
            stopped = turn == ServeDecision::Stop;
            turn != ServeDecision::PassOver
        };
        let found = self
            .lanes
            .iter()
            .enumerate()
            .find_map(|(lane, waiting)| waiting.find(places, &mut ends_search).map(|at| (lane, at)));
        let (lane, at) = found.filter(|_| !stopped)?;
        self.lanes[lane].pass_turn(&self.places, at);
        let waiter = self.unlink(at)?;
        self.drain.count(now_ms);
        if self.lanes[lane].len() == 0 {
            self.overloads[lane].end();
        } else {
            self.overloads[lane].observe(now_ms.saturating_sub(waiter.arrived_ms), now_ms);
        }
        Some(waiter)
    }

    /// Takes out the first waiter that has waited longer than the target under lasting overload, of the lowest
    /// priority first; it is not to be served.
    pub fn pop_overdue(&mut self, now_ms: u64) -> Option<QueuedItem<T>> {
        for (lane, overload) in self.lanes.iter().zip(&self.overloads).rev() {
            let Some(at) = lane.front() else { continue };
            let arrived_ms = self.places.waiter(at).arrived_ms;
            if overload.is_overdue(now_ms.saturating_sub(arrived_ms)) {
                return self.unlink(at);
            }
        }
        None
    }

    /// Takes out a waiter whose deadline is reached.
    pub fn pop_expired(&mut self, now_ms: u64) -> Option<QueuedItem<T>> {
        let mut wanted = |waiter: &QueuedItem<T>| now_ms >= waiter.deadline_ms;
        let at = self.lanes.iter().find_map(|lane| lane.find(&self.places, &mut wanted))?;
        self.unlink(at)
    }

    /// Takes out the first waiter that has no `hope`, whatever its deadline; it is not to be served.
    pub fn pop_hopeless(&mut self, hope: impl Fn(&T) -> bool) -> Option<QueuedItem<T>> {
        let mut hopeless = |waiter: &QueuedItem<T>| !hope(&waiter.item);
        let at = self.lanes.iter().find_map(|lane| lane.find(&self.places, &mut hopeless))?;
        self.unlink(at)
    }

    /// The waiter with this claim; `None` when it has left.
    pub fn waiter_mut(&mut self, ticket: Ticket) -> Option<&mut T> {
        let taken = self.places.is_taken(ticket.place, ticket.generation);
        taken.then(|| &mut self.places.waiter_mut(ticket.place).item)
    }

    /// Takes out a waiter that gave up, wherever it stands, in constant time; `None` when it has left
    /// already.
    pub fn remove(&mut self, ticket: Ticket) -> Option<QueuedItem<T>> {
        if !self.places.is_taken(ticket.place, ticket.generation) {
            return None;
        }
        self.unlink(ticket.place)
    }

    /// Changes all waiters, in no order that can be relied on.
    pub fn for_each_mut(&mut self, mut change: impl FnMut(&mut T)) {
        self.places.waiters_mut().for_each(|waiter| change(&mut waiter.item));
    }

    /// How long one more would wait, in milliseconds, if slots become free as they did in the last seconds;
    /// `None` when none has.
    pub fn wait_expected_ms(&self, now_ms: u64) -> Option<u64> {
        self.drain.time_for_ms(self.len as u64 + 1, now_ms)
    }

    /// The first in the queue.
    pub fn front(&self) -> Option<&QueuedItem<T>> {
        self.iter().next()
    }

    /// All waiters, by priority, then share by share, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &QueuedItem<T>> {
        self.lanes.iter().flat_map(|lane| lane.iter(&self.places))
    }

    /// The waiter that a full queue displaces for one of this class.
    fn displaced_by(&self, class: QueueClass) -> Option<u32> {
        let own = class.priority as usize;
        let lower = self.clients[own + 1..].iter().rev().find_map(WaitingClients::newest_of_greediest);
        let (victim, _) = lower.or_else(|| {
            // With two more than the new one's client, it has still as many as that one has then.
            let count_min = self.clients[own].count_of(class.client) + 2;
            self.clients[own].newest_of_greediest().filter(|(_, count)| *count >= count_min)
        })?;
        Some(victim)
    }

    fn unlink(&mut self, at: u32) -> Option<QueuedItem<T>> {
        let lane = self.places.lane(at) as usize;
        self.lanes[lane].unlink(&mut self.places, at);
        self.clients[lane].remove(&mut self.places, at);
        self.len -= 1;
        if self.lanes[lane].len() == 0 {
            self.overloads[lane].end();
        }
        self.places.give_back(at)
    }
}

#[cfg(test)]
mod tests;
