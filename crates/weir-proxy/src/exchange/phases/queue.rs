//! Phase Queue: a slot on a server, now or in the order of arrival.
//!
//! An exchange that finds every server full waits in the queue of the upstream, shared by all workers, and gets the first
//! free slot that it may use. Must not connect.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};

use tokio::sync::oneshot;
use weir_observe::{AffinityOutcome, Cause, Failure, Party, Phase, UpstreamShard};
use weir_traffic::ServerId;
use weir_traffic::admission::{AdmissionDecision, AdmissionRequest, Enqueued, QueueWait, WaitOutcome};
use weir_traffic::balance::{HashKey, Pick, WhenFull};
use weir_traffic::hash_bytes;
use weir_traffic::limit::ClientKey;
use weir_traffic::queue::{QueueClass, Ticket};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::outcome::AttemptHistory;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock::{self, Instant};
use crate::state::connections::activity::Activity;
use crate::state::servers::upstream::queue::notify;
use crate::state::snapshot::UpstreamPlan;
use crate::state::worker_config::WorkerConfig;
use crate::upstream::slot::Slot;

/// The newest config that has the upstream of `plans`, and its place there; `None`: that of `plans` itself.
fn newer(client: &Client, plans: Plans<'_>) -> Option<(Rc<WorkerConfig>, usize)> {
    let present = client.worker.config.borrow();
    if Rc::ptr_eq(&present, plans.config) {
        return None;
    }
    let (index, _) = present.snapshot.upstream(&plans.upstream.config.name)?;
    Some((Rc::clone(&present), index))
}

/// A slot, or the wait for one.
pub(in crate::exchange) enum SlotGrant<W> {
    Now(Slot),
    Later(Pin<Box<W>>),
}

impl<W: Future<Output = Result<Slot, Ended>>> SlotGrant<W> {
    /// Waits if there is no slot yet.
    ///
    /// # Errors
    /// The failure of the last attempt, when the queue is full or the wait takes too long.
    #[inline(always)]
    pub(in crate::exchange) async fn slot(self) -> Result<Slot, Ended> {
        match self {
            Self::Now(slot) => Ok(slot),
            Self::Later(wait) => wait.await,
        }
    }
}

/// Takes a slot for this exchange on a server that it has not failed on yet, or the one that its last attempt has left. The wait for one is on the
/// heap, since it is rare and would make every exchange larger.
///
/// # Errors
/// The failure of the last attempt, when no server may take it.
#[inline(always)]
pub(in crate::exchange) fn admit<'a, U>(
    context: &'a mut Context<'_, impl ClientEnd, U>,
    plans: Plans<'a>,
    history: &'a mut AttemptHistory,
) -> Result<SlotGrant<impl Future<Output = Result<Slot, Ended>>>, Ended> {
    if let Some(slot) = history.slot.take() {
        return Ok(SlotGrant::Now(slot));
    }
    let history = &*history;
    let newest = newer(context.client, plans);
    if let Some((config, upstream)) = &newest {
        context.exchange.move_on(config, *upstream);
        let plan = config.upstream_plan(*upstream);
        if plan.is_dynamic() {
            context.exchange.follow_named_server(plan);
        }
    }
    let Plans { config, upstream: plan, upstream_index: upstream, .. } = on_newest(&newest, plans);
    let balancer = plan.balancer();
    let hash = balancer.hash_key().and_then(|key| hash(context, on_newest(&newest, plans), key));
    let slot = |server| Slot { config: Rc::clone(config), upstream, server };
    let now_ms = if balancer.measures_latency() { plan.millis(context.client.now) } else { 0 };
    let pick = Pick { hash, excluded: &history.excluded, random: context.client.worker.random(), now_ms };
    let (bound, when_full) = match private_server(context.client, on_newest(&newest, plans)) {
        None => (context.exchange.affinity.server, plan.when_full),
        // On any other server, the client would have to authenticate again, or the handshake would fail.
        private => (private, WhenFull::Queue),
    };
    let request = AdmissionRequest { pick, bound, when_full };
    let own = match plan.admission.try_admit(&request) {
        AdmissionDecision::Server(server) => return Ok(SlotGrant::Now(slot(server))),
        AdmissionDecision::NoneEligible => {
            context.exchange.attempt_trace.no_server(balancer.states(), context.client.now);
            return Err(history.or_last(none_eligible(context, on_newest(&newest, plans)).into()));
        }
        AdmissionDecision::Wait(_) if !context.exchange.waits_for_slot => {
            return Err(Failure::weir(Phase::Queue, Cause::AllServersFull).into());
        }
        AdmissionDecision::Wait(own) => own,
    };
    Ok(SlotGrant::Later(Box::pin(async move {
        let admitted = wait_for_slot(context, on_newest(&newest, plans), pick, own).await;
        admitted.map_err(|ended| history.or_last(ended))
    })))
}

/// The hash of the key of the request, by which consistent hashing chooses; `None` without one.
fn hash<U>(context: &Context<'_, impl ClientEnd, U>, plans: Plans<'_>, key: &HashKey) -> Option<u64> {
    match (key, &plans.upstream.config.hash_template) {
        (HashKey::Made, Some(template)) => {
            let mut text = Vec::new();
            let values = TemplateValues::new(context, Some(plans.route));
            values.write_own_key(template, &mut text).then(|| hash_bytes(&text))
        }
        (key, _) => key.hash(&context.routable()),
    }
}

/// Why no server may take the request: that may be because it belongs to one.
#[cold]
fn none_eligible<U>(context: &mut Context<'_, impl ClientEnd, U>, plans: Plans<'_>) -> Failure {
    let is_bound = context.exchange.affinity.server.is_some();
    if !is_bound || plans.upstream.is_dynamic() || plans.upstream.when_full != WhenFull::Never {
        return Failure::weir(Phase::Queue, Cause::NoServer);
    }
    let outcome = AffinityOutcome::Unavailable;
    context.exchange.record.affinity = Some(outcome);
    plans.upstream_shard().affinity[outcome as usize].increment();
    Failure::weir(Phase::Queue, Cause::AffinityUnavailable)
}

/// The plans by the config that the exchange has moved on to, if it has.
#[inline(always)]
fn on_newest<'a>(newest: &'a Option<(Rc<WorkerConfig>, usize)>, plans: Plans<'a>) -> Plans<'a> {
    newest.as_ref().map_or(plans, |(config, upstream)| plans.on(config, *upstream))
}

/// Waits for a slot, since no server has one.
async fn wait_for_slot<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
    pick: Pick<'_>,
    own: Option<ServerId>,
) -> Result<Slot, Ended> {
    let Plans { config, upstream: plan, upstream_index: upstream, .. } = plans;
    let began = clock::now();
    let outcome = wait(context, plans, &pick, own, began).await;
    let now = clock::now();
    if outcome.is_err() {
        context.exchange.attempt_trace.no_server(plan.balancer().states(), began);
    }
    if outcome.is_err_and(|failure| {
        failure.party == Party::Weir && !matches!(failure.cause, Cause::Killed | Cause::MemoryLimit)
    }) {
        context.exchange.retry_after = Some(plan.queue_drains_in(now));
    }
    context.exchange.record.spend(Phase::Queue, now);
    context.client.now = now;
    let server = outcome.map_err(Ended::Failed)?;
    if plan.when_full == WhenFull::Never && own.is_some_and(|own| own != server) {
        // Its own server went while it waited for it.
        plan.admission.give_back(server);
        plan.serve_queue();
        return Err(none_eligible(context, plans).into());
    }
    let newest = newer(context.client, plans);
    let of_newest = newest.as_ref().map_or(plan, |(config, upstream)| config.upstream_plan(*upstream));
    if of_newest.is_dynamic() && !context.exchange.is_named(of_newest, server) {
        // The place is that of another name by now.
        plan.admission.give_back(server);
        plan.serve_queue();
        return Err(none_eligible(context, plans).into());
    }
    // After a wait, the server may be one of the newest config only.
    match newest {
        Some((config, upstream)) => {
            context.exchange.move_on(&config, upstream);
            Ok(Slot { config, upstream, server })
        }
        None if server.index() < plan.config.servers.len() => {
            Ok(Slot { config: Rc::clone(config), upstream, server })
        }
        None => Err(Failure::weir(Phase::Queue, Cause::NoServer).into()),
    }
}

/// The server that has authenticated the client, or is about to, on a connection that is kept for it.
#[inline(always)]
fn private_server(client: &mut Client, plans: Plans<'_>) -> Option<ServerId> {
    if client.pinned.is_empty() { None } else { find_private_server(client, plans) }
}

#[inline(never)]
fn find_private_server(client: &mut Client, plans: Plans<'_>) -> Option<ServerId> {
    if plans.upstream.is_dynamic() {
        // That of this request is the one that it names, and no other.
        return None;
    }
    let servers = plans.config.used_servers(plans.upstream_index);
    let index = client.pinned.private_server(&servers, client.now)?;
    u32::try_from(index).ok().map(ServerId)
}

/// Waits in the queue until a server is handed over.
async fn wait<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
    pick: &Pick<'_>,
    own: Option<ServerId>,
    began: Instant,
) -> Result<ServerId, Failure> {
    let plan = plans.upstream;
    let (sender, mut receiver) = oneshot::channel();
    let now_ms = plan.millis(began);
    let limit = plan.config.timeouts.queue;
    let deadline_ms = now_ms + limit.as_millis() as u64;
    let wait = QueueWait { own, class: queue_class(context, plans), now_ms, deadline_ms };
    let entered = plan.admission.enter_or_serve(pick, wait, sender, notify);
    let Ok(Enqueued { ticket, ahead, evicted }) = entered else {
        let none = plan.config.queue.length_max == 0;
        let cause = if none { Cause::AllServersFull } else { Cause::QueueFull };
        return Err(Failure::weir(Phase::Queue, cause));
    };
    if let Some(evicted) = evicted {
        notify(evicted, WaitOutcome::Evicted);
    }
    let record = &mut context.exchange.record;
    record.queue_position = record.queue_position.max(u32::try_from(ahead).unwrap_or(u32::MAX));
    let own_until = own.and(plan.config.queue.affinity_wait).map(|wait| wait.min(limit));
    let own_until = own_until
        .filter(|_| plan.when_full != WhenFull::Never && own != private_server(context.client, plans));
    let shard = plans.upstream_shard();
    // Only after the entry: a reader of the metric can rely on later exchanges being queued behind this one.
    shard.queued.increment();
    shard.queue_length.increment();
    let own = own.is_some();
    let mut entry = QueueEntry { plan, shard, ticket: Some(ticket), receiver: &mut receiver, began, own };
    // A slot may have become free between the look at the servers and the entry into the queue.
    plan.serve_queue();
    context.client.deadline.set(began, Some(own_until.unwrap_or(limit)));
    std::future::poll_fn(|cx| entry.poll(cx, context)).await
}

/// Where in the queue the exchange belongs.
fn queue_class<S, U>(context: &Context<'_, S, U>, plans: Plans<'_>) -> QueueClass {
    let client = ClientKey::from(context.client_address()).number();
    let share = if plans.upstream.config.queue.fair_share { client } else { 0 };
    QueueClass { priority: plans.route.config.queue_priority.into(), share, client }
}

/// A place in the queue, given up when dropped; a slot that was handed over meanwhile goes to the next.
struct QueueEntry<'a> {
    plan: &'a UpstreamPlan,
    shard: &'a UpstreamShard,
    ticket: Option<Ticket>,
    receiver: &'a mut oneshot::Receiver<Result<ServerId, Cause>>,
    began: Instant,
    /// Whether only the server that the request belongs to will do, for now.
    own: bool,
}

impl QueueEntry<'_> {
    fn poll<U>(
        &mut self,
        cx: &mut task::Context<'_>,
        context: &mut Context<'_, impl ClientEnd, U>,
    ) -> Poll<Result<ServerId, Failure>> {
        use std::future::Future as _;
        loop {
            if let Poll::Ready(outcome) = std::pin::Pin::new(&mut *self.receiver).poll(cx) {
                self.ticket = None;
                // The sender is only dropped unused when the upstream goes away.
                let outcome = outcome.unwrap_or(Err(Cause::NoServer));
                return Poll::Ready(outcome.map_err(|cause| Failure::weir(Phase::Queue, cause)));
            }
            if let Some(cause) = context.stream.poll_gone(cx, context.client) {
                return Poll::Ready(Err(Failure::client(Phase::Queue, cause)));
            }
            context.report(Activity::Queue);
            match (context.client.deadline.poll_passed(), self.ticket) {
                (Poll::Ready(()), Some(ticket)) if self.own => self.take_any(context.client, ticket),
                (passed, _) => {
                    let timed_out = Failure::weir(Phase::Queue, Cause::TimedOut);
                    return passed.map(|()| Err(context.client.deadline.failure(Phase::Queue, timed_out)));
                }
            }
        }
    }

    /// The server that the request belongs to had its time: from now on any will do.
    fn take_any(&mut self, client: &mut Client, ticket: Ticket) {
        self.own = false;
        self.plan.admission.unbind(ticket);
        self.plan.serve_queue();
        client.deadline.set(self.began, Some(self.plan.config.timeouts.queue));
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.plan.admission.leave(ticket);
            self.receiver.close();
            if let Ok(Ok(server)) = self.receiver.try_recv() {
                self.plan.admission.give_back(server);
                self.plan.serve_queue();
            }
        }
        self.shard.queue_length.decrement();
        self.shard.queue_time.record(u64::from(clock::micros(clock::now() - self.began)));
    }
}
