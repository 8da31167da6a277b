//! Admission: a slot on a server of an upstream, now or in turn.
//!
//! Combines balancer and queue: a request that finds every server full waits, and gets the first free slot that it may
//! use. A request that is bound to one server (by a cookie or by its key) waits for that one, until
//! the caller unbinds it. One [`Admission`] is shared by all workers; its lock is taken only while a request waits. It neither
//! wakes tasks nor reads a clock: the caller's closure receives each request that gets a slot.

mod waiters;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::balance::{Balancer, BalancerChoice, Excluded, Pick, WhenFull};
use crate::queue::{DelayTarget, QueueClass, QueueFull, ServeDecision, Ticket, WaitQueue};
use crate::server::ServerId;
use waiters::WaiterCounts;

/// The way in to the servers of one upstream.
#[derive(Debug)]
pub struct Admission<T> {
    balancer: Arc<Balancer>,
    line: Arc<SharedQueue<T>>,
}

/// The waiting requests: one queue over all configs of an upstream, so that requests keep their place over a reload.
#[derive(Debug)]
struct SharedQueue<T> {
    waiting: Mutex<QueueState<T>>,
    /// Counts of the waiting requests, readable without the lock.
    waiters: WaiterCounts,
}

#[derive(Debug)]
struct QueueState<T> {
    /// Made when the first has to wait.
    queue: Option<Box<WaitQueue<QueuedRequest<T>>>>,
    len_max: usize,
    target: Option<DelayTarget>,
    /// That of the newest config, whichever config a slot was taken under: the servers of an older one may all be gone.
    balancer: Arc<Balancer>,
}

/// One request that asks for a server.
#[derive(Debug, Clone, Copy)]
pub struct AdmissionRequest<'a> {
    /// The request as the balancer sees it.
    pub pick: Pick<'a>,
    /// The server it is bound to; one that cannot take it does not count.
    pub bound: Option<ServerId>,
    /// Whether it would rather wait for its own server than have another one at once, or has no other one at all.
    pub when_full: WhenFull,
}

/// The answer to a request for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an admitted request holds a slot that has to be released"]
pub enum AdmissionDecision {
    /// This server, on which a slot is now taken.
    Server(ServerId),
    /// All slots are taken: wait for any, or for one on this server.
    Wait(Option<ServerId>),
    /// No server may take it: waiting does not help.
    NoneEligible,
}

/// How the wait of a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// This server, on which a slot is now taken.
    Server(ServerId),
    /// No server may take it any more.
    NoServer,
    /// It has waited longer than is acceptable for good.
    Overload,
    /// The queue was full, and another request had precedence.
    Evicted,
}

/// How one waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueWait {
    /// The one server that will do, for now; `None` for any.
    pub own: Option<ServerId>,
    /// Where in the queue it belongs.
    pub class: QueueClass,
    /// The time, in milliseconds.
    pub now_ms: u64,
    /// When it has waited long enough, in milliseconds.
    pub deadline_ms: u64,
}

/// The result of entering the queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Enqueued<T> {
    /// The claim to the place.
    pub ticket: Ticket,
    /// How many of the same priority or a higher one were there before.
    pub ahead: usize,
    /// The request that was removed to make room, because the queue was full.
    pub evicted: Option<T>,
}

#[derive(Debug)]
struct QueuedRequest<T> {
    hash: Option<u64>,
    excluded: Excluded,
    random: u64,
    /// The one server it waits for.
    own: Option<ServerId>,
    item: T,
}

impl<T> Admission<T> {
    /// The servers of `balancer` behind an empty queue; see [`WaitQueue::new`].
    pub fn new(balancer: Balancer, len_max: usize, target: Option<DelayTarget>) -> Admission<T> {
        let waiters = WaiterCounts::new(balancer.states().len());
        let balancer = Arc::new(balancer);
        let waiting = QueueState { queue: None, len_max, target, balancer: Arc::clone(&balancer) };
        Admission { balancer, line: Arc::new(SharedQueue { waiting: Mutex::new(waiting), waiters }) }
    }

    /// The admission of the next config, with the same line. Every server of this balancer has the same [`ServerId`] in that
    /// one. Waiting requests can get its servers only after [`take_over`](Self::take_over).
    #[must_use]
    pub fn succeeded_by(&self, balancer: Balancer) -> Admission<T> {
        self.line.waiters.grow(balancer.states().len());
        Admission { balancer: Arc::new(balancer), line: Arc::clone(&self.line) }
    }

    /// Serves the waiting requests by this balancer and these limits from now on; the caller has to [`serve`](Self::serve)
    /// afterwards.
    pub fn take_over(&self, len_max: usize, target: Option<DelayTarget>) {
        let mut waiting = self.lock();
        waiting.balancer = Arc::clone(&self.balancer);
        (waiting.len_max, waiting.target) = (len_max, target);
        if let Some(queue) = &mut waiting.queue {
            queue.set_len_max(len_max);
            queue.set_target(target);
        }
    }

    /// The balancer that chooses the servers.
    pub fn balancer(&self) -> &Balancer {
        &self.balancer
    }

    /// Takes a slot for a request if one is free and no waiting request has precedence. No lock, no allocation.
    #[inline]
    pub fn try_admit(&self, arrival: &AdmissionRequest<'_>) -> AdmissionDecision {
        if self.line.waiters.is_empty() { answer(self.choose(arrival)) } else { self.try_pass(arrival) }
    }

    /// Puts a request in the queue after [`AdmissionDecision::Wait`]. The caller has to [`serve`](Self::serve) afterwards: a slot may
    /// have become free meanwhile.
    ///
    /// # Errors
    /// [`QueueFull`] with the item when the queue is full and no waiting request can be displaced.
    pub fn enter(&self, pick: &Pick<'_>, wait: QueueWait, item: T) -> Result<Enqueued<T>, QueueFull<T>> {
        self.enter_in(self.lock(), pick, wait, item)
    }

    /// The same if there is room without displacing another.
    fn enter_with_room(
        &self,
        pick: &Pick<'_>,
        wait: QueueWait,
        item: T,
    ) -> Result<Enqueued<T>, QueueFull<T>> {
        let mut waiting = self.lock();
        if waiting.queue().is_full() {
            return Err(QueueFull(item));
        }
        self.enter_in(waiting, pick, wait, item)
    }

    fn enter_in(
        &self,
        mut waiting: MutexGuard<'_, QueueState<T>>,
        pick: &Pick<'_>,
        wait: QueueWait,
        item: T,
    ) -> Result<Enqueued<T>, QueueFull<T>> {
        let QueueWait { own, class, now_ms, deadline_ms } = wait;
        let waiter =
            QueuedRequest { hash: pick.hash, excluded: *pick.excluded, random: pick.random, own, item };
        let entered = waiting.queue().push(waiter, class, now_ms, deadline_ms);
        let entered = entered.map_err(|full| QueueFull(full.0.item))?;
        self.line.waiters.enter(own);
        let evicted = entered.evicted.map(|evicted| self.take_out(evicted.item));
        Ok(Enqueued { ticket: entered.ticket, ahead: entered.ahead, evicted })
    }

    /// The same; but when the queue is full, it is [served](Self::serve) first. [`try_admit`](Self::try_admit) takes a
    /// slot for a moment before it gives it back to a waiting request, and meanwhile no waiting request can have it: so
    /// a request is rejected or displaced only after the queue was served once more.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub fn enter_or_serve(
        &self,
        pick: &Pick<'_>,
        wait: QueueWait,
        item: T,
        tell: impl FnMut(T, WaitOutcome) -> bool,
    ) -> Result<Enqueued<T>, QueueFull<T>> {
        match self.enter_with_room(pick, wait, item) {
            Err(full) if self.has_waiters() => {
                self.serve(wait.now_ms, tell);
                self.enter(pick, wait, full.0)
            }
            entered => entered,
        }
    }

    /// Removes a request from the queue; `None` when it has left already.
    pub fn leave(&self, ticket: Ticket) -> Option<T> {
        self.lock().queue.as_mut()?.remove(ticket).map(|waiter| self.take_out(waiter.item))
    }

    /// Lets a request that waited for a server of its own take any; the caller has to [`serve`](Self::serve) afterwards.
    pub fn unbind(&self, ticket: Ticket) {
        let mut waiting = self.lock();
        let waiter = waiting.queue.as_mut().and_then(|queue| queue.waiter_mut(ticket));
        if let Some(own) = waiter.and_then(|waiter| waiter.own.take()) {
            self.line.waiters.unbind(own);
        }
    }

    /// Gives back a slot. True when a waiting request could have it: then [`serve`](Self::serve).
    #[inline]
    #[must_use = "waiting requests have to be served"]
    pub fn release(&self, server: ServerId) -> bool {
        self.balancer.release(server);
        !self.line.waiters.is_empty() && self.line.waiters.waits_for(server)
    }

    /// Gives back a slot that was handed to a waiting request; the caller has to [`serve`](Self::serve) afterwards.
    pub fn give_back(&self, server: ServerId) {
        self.lock().balancer.give_back(server);
    }

    /// Whether any request waits.
    pub fn has_waiters(&self) -> bool {
        !self.line.waiters.is_empty()
    }

    /// Hands free slots to waiting requests, in their order, as long as there are any of both, and removes those
    /// that no server may take. `tell` returns whether the receiver accepted the outcome; a slot that was not accepted goes to the
    /// next.
    pub fn serve(&self, now_ms: u64, mut tell: impl FnMut(T, WaitOutcome) -> bool) {
        let mut waiting = self.lock();
        let QueueState { queue: Some(queue), balancer, .. } = &mut *waiting else { return };
        self.unbind_lost(queue, balancer);
        if !balancer.has_eligible() {
            // As for requests that arrive now: waiting does not help.
            while let Some(waiter) = queue.pop_hopeless(|waiter| waiter.own.is_some()) {
                tell(self.take_out(waiter.item), WaitOutcome::NoServer);
            }
        }
        while let Some(waiter) = queue.pop_overdue(now_ms) {
            tell(self.take_out(waiter.item), WaitOutcome::Overload);
        }
        while let Some((waiter, server)) = self.next(queue, balancer, now_ms) {
            if !tell(self.take_out(waiter), WaitOutcome::Server(server)) {
                balancer.give_back(server);
            }
        }
    }

    /// How long one more would wait, in milliseconds; see [`WaitQueue::wait_expected_ms`].
    pub fn wait_expected_ms(&self, now_ms: u64) -> Option<u64> {
        self.lock().queue.as_ref()?.wait_expected_ms(now_ms)
    }

    fn choose(&self, arrival: &AdmissionRequest<'_>) -> BalancerChoice {
        let Some(own) = arrival.bound else {
            return self.balancer.choose_with(arrival.when_full, &arrival.pick);
        };
        match self.balancer.choose_bound(own, arrival.pick.excluded) {
            Some(BalancerChoice::BoundFull(_)) if arrival.when_full == WhenFull::Spill => {
                self.balancer.choose(&arrival.pick)
            }
            Some(choice) => choice,
            None if arrival.when_full == WhenFull::Never => BalancerChoice::NoneEligible,
            None => self.balancer.choose_with(arrival.when_full, &arrival.pick),
        }
    }

    /// Takes a slot ahead of the waiting requests, which is only allowed when none of them could have it.
    #[cold]
    fn try_pass(&self, arrival: &AdmissionRequest<'_>) -> AdmissionDecision {
        let answer = answer(self.choose(arrival));
        let AdmissionDecision::Server(server) = answer else { return answer };
        if !self.line.waiters.waits_for(server) {
            return answer;
        }
        self.balancer.give_back(server);
        let is_own = arrival.bound == Some(server) || arrival.pick.hash.is_some();
        AdmissionDecision::Wait(Some(server).filter(|_| is_own && arrival.when_full != WhenFull::Spill))
    }

    /// The next request that can have a slot, and the slot.
    fn next(
        &self,
        queue: &mut WaitQueue<QueuedRequest<T>>,
        balancer: &Balancer,
        now_ms: u64,
    ) -> Option<(QueuedRequest<T>, ServerId)> {
        let own_free = self.line.waiters.wanted().iter().any(|server| !balancer.state(*server).is_full());
        let mut any_free = self.line.waiters.has_unbound();
        let mut chosen = None;
        let waiter = queue.pop_next(now_ms, |waiter| {
            if !own_free && !any_free {
                return ServeDecision::Stop;
            }
            let choice = match waiter.own {
                Some(own) => {
                    balancer.choose_bound(own, &waiter.excluded).unwrap_or(BalancerChoice::BoundFull(own))
                }
                None if any_free => balancer.choose(&waiter.pick(now_ms)),
                None => BalancerChoice::AllFull,
            };
            match choice {
                BalancerChoice::Server(server) => {
                    chosen = Some(server);
                    return ServeDecision::Serve;
                }
                // Then no request that takes any server can be served, unless this one's own exclusions are the cause.
                BalancerChoice::AllFull if waiter.excluded.is_empty() => any_free = false,
                BalancerChoice::AllFull | BalancerChoice::BoundFull(_) | BalancerChoice::NoneEligible => {}
            }
            ServeDecision::PassOver
        })?;
        Some((waiter.item, chosen?))
    }

    /// Lets requests take any server whose own takes no bound requests any more.
    fn unbind_lost(&self, queue: &mut WaitQueue<QueuedRequest<T>>, balancer: &Balancer) {
        let lost = |server: &ServerId| !balancer.state(*server).accepts_bound();
        if !self.line.waiters.wanted().iter().any(lost) {
            return;
        }
        queue.for_each_mut(|waiter| {
            if let Some(own) = waiter.own.filter(lost) {
                waiter.own = None;
                self.line.waiters.unbind(own);
            }
        });
    }

    fn take_out(&self, waiter: QueuedRequest<T>) -> T {
        self.line.waiters.leave(waiter.own);
        waiter.item
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        // A panic inside leaves a queue that is whole: its operations do not call out while they change it.
        self.line.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> QueueState<T> {
    fn queue(&mut self) -> &mut WaitQueue<QueuedRequest<T>> {
        let (len_max, target) = (self.len_max, self.target);
        self.queue.get_or_insert_with(|| Box::new(WaitQueue::new(len_max, target)))
    }
}

impl<T> QueuedRequest<T> {
    fn pick(&self, now_ms: u64) -> Pick<'_> {
        Pick { hash: self.hash, excluded: &self.excluded, random: self.random, now_ms }
    }
}

/// What a choice means for a request that may have to wait.
fn answer(choice: BalancerChoice) -> AdmissionDecision {
    match choice {
        BalancerChoice::Server(server) => AdmissionDecision::Server(server),
        BalancerChoice::AllFull => AdmissionDecision::Wait(None),
        BalancerChoice::BoundFull(own) => AdmissionDecision::Wait(Some(own)),
        BalancerChoice::NoneEligible => AdmissionDecision::NoneEligible,
    }
}

#[cfg(test)]
mod tests;
