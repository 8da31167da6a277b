//! Phase Queue: a slot on a server, now or in the order of arrival.
//!
//! Whoever finds every server full waits in the queue of the upstream, shared by all workers, and is handed the first
//! slot that becomes free and that it may use. Must not connect.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use tokio::sync::oneshot;
use weir_observe::{Cause, Failure, Party, Phase};
use weir_traffic::ServerId;
use weir_traffic::balance::{Choice, Excluded, Pick};
use weir_traffic::limit::ClientKey;
use weir_traffic::queue::{Entered, Full, Standing, Ticket};

use crate::clock;
use crate::downstream::session::Session;
use crate::exchange::attempt::Plans;
use crate::exchange::{Ended, Exchange, forwarded};
use crate::snapshot::{UpstreamPlan, Waiter};
use crate::view::View;

/// The longest that a client is asked to stay away, in seconds: a queue is seldom as full in two minutes as it is now.
const RETRY_AFTER_MAX: u32 = 120;

/// A slot on a server, given back, and passed on to the next in the queue, when dropped.
pub(crate) struct Slot {
    view: Rc<View>,
    upstream: usize,
    pub(crate) server: ServerId,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let plan = &self.view.snapshot.upstreams[self.upstream];
        plan.balancer.release(self.server);
        plan.serve_queue();
    }
}

/// Takes a slot for this exchange on a server that it has not failed on yet.
///
/// # Errors
/// When no server may take it, the queue is full, or the wait takes too long.
pub(crate) async fn admit(
    session: &mut Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    excluded: &Excluded,
) -> Result<Slot, Ended> {
    let Plans { view, upstream: plan, upstream_index: upstream, .. } = plans;
    let hash = plan.balancer.hash_key().and_then(|key| key.hash(&exchange.asked(session, plans.listener)));
    let slot = |server| Slot { view: Rc::clone(view), upstream, server };
    let now_ms = if plan.balancer.measures_latency() { plan.millis(session.now) } else { 0 };
    let pick = Pick { hash, excluded, random: session.worker.random(), now_ms };
    if plan.waiting.load(Ordering::SeqCst) == 0 {
        match plan.balancer.choose(&pick) {
            Choice::Server(server) => return Ok(slot(server)),
            Choice::NoneEligible => return Err(Failure::weir(Phase::Queue, Cause::NoServer).into()),
            Choice::AllFull => {}
        }
    }
    let shard = &view.upstreams[upstream].shard;
    shard.queued.increment();
    shard.queue_length.increment();
    let began = clock::now();
    let outcome = wait(session, exchange, plans, &pick, began).await;
    let now = clock::now();
    if outcome.is_err_and(|failure| failure.party == Party::Weir) {
        exchange.retry_after = Some(plan.queue_drains_in(now));
    }
    shard.queue_length.decrement();
    shard.queue_time.record(u64::from(clock::micros(now - began)));
    exchange.record.spend(Phase::Queue, now);
    session.now = now;
    outcome.map(slot).map_err(Ended::Failed)
}

/// Waits in the queue until a server is handed over.
async fn wait(
    session: &mut Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    pick: &Pick<'_>,
    began: Instant,
) -> Result<ServerId, Failure> {
    let plan = plans.upstream;
    let (sender, mut receiver) = oneshot::channel();
    let now_ms = plan.millis(began);
    let limit = plan.config.timeouts.queue;
    let waiter = Waiter { hash: pick.hash, excluded: *pick.excluded, random: pick.random, sender };
    let standing = standing(session, exchange, plans);
    let place = plan.enqueue(waiter, standing, now_ms, now_ms + limit.as_millis() as u64);
    let Ok((ticket, ahead)) = place else {
        let none = plan.config.queue.length_max == 0;
        let cause = if none { Cause::AllServersFull } else { Cause::QueueFull };
        return Err(Failure::weir(Phase::Queue, cause));
    };
    let record = &mut exchange.record;
    record.queue_position = record.queue_position.max(u32::try_from(ahead).unwrap_or(u32::MAX));
    let mut claim = Claim { plan, ticket: Some(ticket), receiver: &mut receiver };
    // A slot may have become free between the look at the servers and the entry into the queue.
    plan.serve_queue();
    session.deadline.set(began, Some(limit));
    std::future::poll_fn(|cx| claim.poll(cx, session)).await
}

/// Where in the queue the exchange belongs.
fn standing(session: &Session, exchange: &Exchange, plans: Plans<'_>) -> Standing {
    let share = match plans.upstream.config.queue.fair_share {
        true => ClientKey::from(forwarded::client_address(session, exchange, plans.listener)).number(),
        false => 0,
    };
    Standing { priority: plans.route.config.queue_priority.into(), share }
}

/// A place in the queue, given up when dropped; a slot that was handed over meanwhile goes to the next.
struct Claim<'a> {
    plan: &'a UpstreamPlan,
    ticket: Option<Ticket>,
    receiver: &'a mut oneshot::Receiver<Result<ServerId, Cause>>,
}

impl Claim<'_> {
    fn poll(&mut self, cx: &mut Context<'_>, session: &mut Session) -> Poll<Result<ServerId, Failure>> {
        use std::future::Future as _;
        if let Poll::Ready(outcome) = std::pin::Pin::new(&mut *self.receiver).poll(cx) {
            self.ticket = None;
            // The sender is only dropped unused when the upstream goes away.
            let outcome = outcome.unwrap_or(Err(Cause::NoServer));
            return Poll::Ready(outcome.map_err(|cause| Failure::weir(Phase::Queue, cause)));
        }
        if session.poll_client_gone(cx) {
            return Poll::Ready(Err(Failure::client(Phase::Queue, Cause::Reset)));
        }
        session.deadline.poll_passed().map(|()| Err(Failure::weir(Phase::Queue, Cause::TimedOut)))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        self.plan.leave_queue(ticket);
        self.receiver.close();
        if let Ok(Ok(server)) = self.receiver.try_recv() {
            self.plan.balancer.release(server);
            self.plan.serve_queue();
        }
    }
}

impl Waiter {
    /// Says that there will be no server; somebody who has left meanwhile need not hear it.
    fn send_away(self, cause: Cause) {
        let _left = self.sender.send(Err(cause));
    }
}

impl UpstreamPlan {
    /// Enters a waiter into the queue; tells how many stand before it.
    fn enqueue(
        &self,
        waiter: Waiter,
        standing: Standing,
        now_ms: u64,
        deadline_ms: u64,
    ) -> Result<(Ticket, usize), Full<Waiter>> {
        let mut queue = self.lock_queue();
        let entered = queue.push(waiter, standing, now_ms, deadline_ms);
        self.waiting.store(queue.len(), Ordering::SeqCst);
        let Entered { ticket, ahead, displaced } = entered?;
        if let Some(displaced) = displaced {
            displaced.item.send_away(Cause::QueueDisplaced);
        }
        Ok((ticket, ahead))
    }

    /// When one who comes now could expect a slot, in whole seconds; the time limit of the queue when nobody has left it
    /// lately.
    fn queue_drains_in(&self, now: Instant) -> u32 {
        let expected_ms = self.lock_queue().wait_expected_ms(self.millis(now));
        let limit_ms = self.config.timeouts.queue.as_millis() as u64;
        let seconds = expected_ms.unwrap_or(limit_ms).div_ceil(1000);
        u32::try_from(seconds).unwrap_or(u32::MAX).clamp(1, RETRY_AFTER_MAX)
    }

    fn leave_queue(&self, ticket: Ticket) {
        let mut queue = self.lock_queue();
        queue.remove(ticket);
        self.waiting.store(queue.len(), Ordering::SeqCst);
    }

    /// Hands free slots to those who wait, in order of arrival, as long as there are any of both.
    pub(crate) fn serve_queue(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.serve_queue_anew();
        }
    }

    /// The same after a server came or went: unlike slots, that change and the number of those who wait are not in one
    /// order for all threads, so the lock has to be taken to be sure that nobody came in between.
    pub(crate) fn serve_queue_anew(&self) {
        let now_ms = self.millis(clock::now());
        let mut queue = self.lock_queue();
        if !self.balancer.has_eligible() {
            // As those who come now: waiting does not help.
            while let Some(waiter) = queue.pop_any() {
                waiter.item.send_away(Cause::NoServer);
            }
        }
        while let Some(overdue) = queue.pop_overdue(now_ms) {
            overdue.item.send_away(Cause::QueueOverload);
        }
        loop {
            let mut chosen = None;
            let mut nothing_free = false;
            let next = queue.pop_front(now_ms, |waiter: &Waiter| {
                if nothing_free {
                    return false;
                }
                let Waiter { hash, ref excluded, random, .. } = *waiter;
                let pick = Pick { hash, excluded, random, now_ms };
                match self.balancer.choose(&pick) {
                    Choice::Server(server) => {
                        chosen = Some(server);
                        true
                    }
                    // Nobody behind this one can be served either, unless it is this one's own restriction.
                    Choice::AllFull => {
                        nothing_free = waiter.excluded.is_empty();
                        false
                    }
                    Choice::NoneEligible => false,
                }
            });
            let (Some(waiter), Some(server)) = (next, chosen) else { break };
            if waiter.item.sender.send(Ok(server)).is_err() {
                self.balancer.release(server);
            }
        }
        self.waiting.store(queue.len(), Ordering::SeqCst);
    }
}
