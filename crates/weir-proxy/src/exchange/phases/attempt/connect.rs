//! Phase Connect: a stream to a server, on a connection that is kept or on a new one, within the time limit of the phase.
//!
//! Must not send the request.

use std::future::Future as _;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use weir_config::SourceAddress;
use weir_observe::{Cause, Failure, Party, Phase, UpstreamShard};
use weir_traffic::{ServerId, retry};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::outcome::{AttemptError, AttemptFailure, AttemptHistory, FailureOrigin};
use crate::exchange::exchange_state::plans::Plans;
use crate::net::clock::{self, Instant};
use crate::net::descriptors::{self, ServerPermit};
use crate::net::peer::Peer;
use crate::net::permit_queue::PermitWait;
use crate::net::socket::Behind;
use crate::net::source::{BoundSource, NO_SOURCE};
use crate::state::connections::activity::Activity;
use crate::state::snapshot::UpstreamPlan;
use crate::upstream::proxy_header::{self, ConnectionIdentity};
use crate::upstream::stream::{Destination, Servers};

/// Another server may take the request.
const BY_SERVER: FailureOrigin = FailureOrigin::Server(retry::RetryCause::Connect);

/// A stream on a connection that is quiet and open already.
#[inline(always)]
pub(in crate::exchange) fn take_kept<U: Servers, S>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    server: ServerId,
    history: &AttemptHistory,
) -> Option<U::Stream> {
    // A request that cannot be sent twice gets the more careful check.
    let careful = !plans.upstream.may_repeat(context.exchange) || !context.exchange.request.body().is_empty();
    let to = plans.to(server);
    if plans.upstream.is_for_one_client {
        close_those_of_others(context, to);
    }
    if history.fresh {
        context.servers.forget_kept(to, &mut context.client.pinned);
        return None;
    }
    let kept = context.servers.take_kept(to, &mut context.client.pinned, context.client.now, careful)?;
    to.local.shard.reuses.increment();
    Some(kept)
}

/// A stream on a new connection; on a kept one, too, if it had to wait for a descriptor and there is a `history`. Large: callers put it on
/// the heap.
pub(in crate::exchange) async fn connect<C: ClientEnd, U: Servers>(
    context: &mut Context<'_, C, U>,
    plans: Plans<'_>,
    server: ServerId,
    history: Option<&AttemptHistory>,
) -> Result<U::Stream, AttemptFailure> {
    let to = plans.to(server);
    if ServerPermit::are_used_up() {
        context.client.worker.free_descriptors();
    }
    // Several exchanges may wait for one connection, whose task has the permit.
    let mut permit = None;
    if !plans.upstream.shares_connections() {
        permit = ServerPermit::take_free();
        if permit.is_none() {
            let waiting = wait_for_permit(context, plans, server, history);
            match waiting.await {
                Ok(Admitted::Kept(kept)) => return Ok(kept),
                Ok(Admitted::Permit(awaited)) => permit = Some(awaited),
                Err(failure) => {
                    return Err(not_connected(
                        context.client,
                        plans,
                        server,
                        (failure, FailureOrigin::Other),
                    ));
                }
            }
        }
    }
    let mut outcome = open(context, plans, to).await;
    if let Err((failure, _)) = &outcome
        && failure.cause == Cause::DescriptorLimit
        && context.client.worker.free_descriptors()
    {
        outcome = open(context, plans, to).await;
    }
    let now = clock::now();
    let micros = u64::from(clock::micros(now.saturating_duration_since(context.client.now)));
    context.exchange.record.spend(Phase::Connect, now);
    context.client.now = now;
    // One that is shared is counted when it is opened, not by those that wait for it.
    let counted = (!plans.upstream.shares_connections()).then_some(&to.local.shard);
    if let Some(shard) = counted {
        shard.connects.increment();
    }
    match outcome {
        Ok(opened) => {
            if let Some(shard) = counted {
                shard.connect_time.record(micros);
            }
            let begun = context.servers.begin(opened, to, now);
            // The connection has one of its own by now: until then, this was the one that it counts by.
            drop(permit);
            Ok(begun)
        }
        Err(error) => Err(not_connected(context.client, plans, server, error)),
    }
}

/// Counts a connection that could not be had.
#[cold]
fn not_connected(
    client: &Client,
    plans: Plans<'_>,
    server: ServerId,
    (failure, origin): AttemptError,
) -> AttemptFailure {
    if descriptors::is_local(failure) {
        client.worker.count_wanting(failure);
    } else if !plans.upstream.shares_connections() {
        plans.to(server).local.shard.connect_errors.increment();
    }
    AttemptFailure {
        failure,
        server,
        origin,
        sent_any: false,
        received_any: false,
        unread: false,
        reused: false,
        slot: None,
    }
}

/// What an exchange has waited for.
enum Admitted<T> {
    /// The descriptor of a new connection.
    Permit(ServerPermit),
    /// A connection that another exchange has left.
    Kept(T),
}

/// Waits until there is a descriptor for a connection to `server`, or a connection to it that is kept, within the time limit of the queue:
/// connections to servers have their whole share of the descriptors.
///
/// # Errors
/// When the time is over, or the client is gone.
async fn wait_for_permit<C: ClientEnd, U: Servers>(
    context: &mut Context<'_, C, U>,
    plans: Plans<'_>,
    server: ServerId,
    history: Option<&AttemptHistory>,
) -> Result<Admitted<U::Stream>, Failure> {
    let exhausted = Failure::weir(Phase::Connect, Cause::DescriptorLimit);
    if !context.exchange.waits_for_slot {
        return Err(exhausted);
    }
    let began = clock::now();
    context.client.deadline.set(began, Some(plans.upstream.config.timeouts.queue));
    let counted = QueueCount::begin(plans.upstream_shard(), began);
    let place = PermitWait::begin(plans.config.pool_number(plans.upstream_index, server.index()));
    let history = history.filter(|history| !history.fresh);
    let outcome = std::future::poll_fn(|cx| {
        place.register(cx.waker());
        context.client.now = clock::now();
        let kept = history.and_then(|history| take_kept(context, plans, server, history));
        if let Some(kept) = kept {
            return Poll::Ready(Ok(Admitted::Kept(kept)));
        }
        if let Some(permit) = ServerPermit::take_awaited() {
            return Poll::Ready(Ok(Admitted::Permit(permit)));
        }
        if let Some(cause) = context.stream.poll_gone(cx, context.client) {
            return Poll::Ready(Err(Failure::client(Phase::Queue, cause)));
        }
        context.report(Activity::Queue);
        context
            .client
            .deadline
            .poll_passed()
            .map(|()| Err(context.client.deadline.failure(Phase::Queue, exhausted)))
    })
    .await;
    match &outcome {
        Ok(_) => place.end(),
        Err(_) => drop(place),
    }
    drop(counted);
    let now = clock::now();
    context.exchange.record.spend(Phase::Queue, now);
    context.client.now = now;
    outcome
}

/// Counts an exchange in the queue of its upstream, until it is dropped.
struct QueueCount<'a> {
    shard: &'a UpstreamShard,
    began: Instant,
}

impl<'a> QueueCount<'a> {
    fn begin(shard: &'a UpstreamShard, began: Instant) -> Self {
        shard.queued.increment();
        shard.queue_length.increment();
        Self { shard, began }
    }
}

impl Drop for QueueCount<'_> {
    fn drop(&mut self) {
        self.shard.queue_length.decrement();
        self.shard.queue_time.record(u64::from(clock::micros(clock::now() - self.began)));
    }
}

/// Closes what is kept for this client connection and comes from the address of another client, which a proxy has named in the request before.
#[cold]
fn close_those_of_others<U, S>(context: &mut Context<'_, S, U>, to: Destination<'_>) {
    if to.plan.config.servers[to.server].source_address == Some(SourceAddress::Client) {
        let address = context.client_address();
        context.client.pinned.keep_from(to.local, address);
    }
}

/// Where a connection comes from that is opened for this exchange; `None`: the system chooses.
///
/// # Errors
/// When it is to come from the address of the client, and that has none.
fn source_for<U>(
    context: &Context<'_, impl ClientEnd, U>,
    to: Destination<'_>,
) -> Result<Option<BoundSource>, Failure> {
    let server = &to.plan.config.servers[to.server];
    match server.source_address {
        Some(SourceAddress::Client) => {
            let address = context.client_address();
            // The address of a Unix socket is one that Weir has made up.
            let is_made_up =
                context.client.peer == Peer::Unix && address == context.client.peer.ip_or_local();
            // Bound to no address in particular, the connection would come from one of this machine.
            if is_made_up || address.is_unspecified() {
                Err(NO_SOURCE)
            } else {
                Ok(Some(BoundSource::of_client(address)))
            }
        }
        Some(SourceAddress::Fixed(_)) | None => Ok(BoundSource::of_weir(server)),
    }
}

/// The PROXY protocol header for a connection that is opened for this exchange; `None` when the upstream has no `proxy_protocol`.
fn proxy_header_for<U>(
    context: &Context<'_, impl ClientEnd, U>,
    plan: &UpstreamPlan,
) -> Option<proxy_header::Header> {
    let version = plan.config.proxy_protocol?;
    let asked_for = std::str::from_utf8(&context.exchange.server_name).ok().filter(|name| !name.is_empty());
    let named = context.client.origin.as_ref().and_then(|origin| origin.authority.as_deref());
    let proxied = proxy_header::ProxiedClient {
        peer: context.client.peer,
        destination: context.client.known_destination().or_else(|| context.stream.local_address()),
        authority: asked_for.or(named),
        tls: context.stream.tls(),
        unique_id: Some(&*context.exchange.record.request_id).filter(|id| !id.is_empty()),
    };
    Some(proxy_header::of_client(version, &proxied))
}

/// Opens a connection to a server within the time limit of the phase.
async fn open<C: ClientEnd, U: Servers>(
    context: &mut Context<'_, C, U>,
    plans: Plans<'_>,
    to: Destination<'_>,
) -> Result<U::Opened, AttemptError> {
    let behind = if context.stream.sends_at_once() { Behind::More } else { Behind::Unknown };
    let source = source_for(context, to).map_err(not_opened)?;
    let identity = ConnectionIdentity { header: proxy_header_for(context, plans.upstream), source };
    let outcome = {
        let mut connecting =
            pin!(context.servers.open(to, identity, behind, Rc::clone(&context.client.worker)));
        context.client.deadline.set(clock::now(), Some(plans.upstream.config.timeouts.connect));
        std::future::poll_fn(|cx| {
            if let Poll::Ready(outcome) = connecting.as_mut().poll(cx) {
                return Poll::Ready(outcome.map_err(|failure| Some(not_opened(failure))));
            }
            if let Some(cause) = context.stream.poll_gone(cx, context.client) {
                let gone = Failure::client(Phase::Connect, cause);
                return Poll::Ready(Err(Some((gone, FailureOrigin::Other))));
            }
            context.client.report(Activity::Connecting, context.stream, context.exchange);
            context.client.deadline.poll_passed().map(|()| Err(None))
        })
        .await
    };
    outcome.map_err(|error| error.unwrap_or_else(|| timed_out(context.client, context.servers.lateness(to))))
}

/// Why a connection could not be opened, and whether another server may help.
fn not_opened(failure: Failure) -> AttemptError {
    // Another server may have ports left, or an address of the other family; no server helps where descriptors or memory are used up.
    let is_of_server = matches!(failure.cause, Cause::PortsExhausted | Cause::SourceAddress);
    let is_final = descriptors::is_local(failure) && !is_of_server;
    (failure, if is_final { FailureOrigin::Other } else { BY_SERVER })
}

/// The failure when the time to connect is over, by whichever limit.
fn timed_out(client: &mut Client, late: Failure) -> AttemptError {
    match client.deadline.cut_failure(Phase::Connect) {
        Some(failure) if failure.party == Party::Server => (failure, BY_SERVER),
        Some(failure) => (failure, FailureOrigin::Other),
        // Another server would have no time either.
        None if client.deadline.ends_with_ceiling() => {
            (Failure::weir(Phase::Connect, Cause::ExchangeTimedOut), FailureOrigin::Other)
        }
        None => (late, BY_SERVER),
    }
}
