//! Phase Response of an exchange whose request has gone past the cache: what of the response is stored, and what a stored one is good for.

use weir_cache::rules::{
    FreshenPlan, Freshened, Lifetime, NotStored, StorePlan, StoredRequest, invalidated_targets, invalidates,
    is_same_version, normalize_authority, plan_freshening, plan_storing,
};
use weir_cache::store::{FetchTicket, NewResponse, StoredResponse, key_text};
use weir_cache::{HeadView, StoredHead};
use weir_config::{Feature, RouteCache, Stage};
use weir_http::{Method, write_normal_path};
use weir_observe::{CacheResult, CacheShard, Failure, Party, Phase};
use weir_traffic::retry::RetryCause;

use std::sync::Arc;

use super::PASS_MS;
use super::files;
use super::fill;
use super::fill::Fill;
use super::lookup::write_named_server;
use super::send;
use super::send::StoredAnswer;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::cache_use::{CacheTask, CacheUse};
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::{AttemptFailure, FailureOrigin, RespondingServer};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::affinity;
use crate::exchange::features::error_pages::{intercept, stored as page_of_stored};
use crate::exchange::phases::attempt_response::AttemptResponse;
use crate::exchange::phases::end::End;
use crate::exchange::phases::{finish, respond};
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::relay::ends::RelayError;
use crate::relay::failure::of_unsent_body;
use crate::state::caching::cache::{RouteCachePlan, cache_now};
use crate::state::snapshot::RoutePlan;
use crate::state::tracing::recorder::Decision;
use crate::upstream::stream::{ServerStream, Servers};

/// What is fetched, to be stored.
struct Fetching {
    ticket: FetchTicket,
    /// The stale response that it replaces, and whether that is used in place of a failure.
    replaced: Option<(Arc<StoredResponse>, bool)>,
}

impl Fetching {
    /// The same for another attempt.
    fn into_task(self) -> CacheTask {
        let Self { ticket, replaced } = self;
        match replaced {
            None => CacheTask::Fetch(ticket),
            Some((stored, stale_on_error)) => {
                CacheTask::Refresh { ticket: Some(ticket), stored, stale_on_error }
            }
        }
    }

    /// The right to store it; the server has something else than what is in a file.
    fn into_ticket(self, plan: &RouteCachePlan, status: u16) -> FetchTicket {
        if let Some((stored, _)) = self.replaced
            && status < 500
        {
            plan.plan.state.forget_file(&stored);
        }
        self.ticket
    }
}

/// Stores the response that `responding` has begun, or uses it for what is stored, as far as either may be.
///
/// # Errors
/// The failure that broke it off; part of the response may have reached the client.
pub(in crate::exchange) async fn take<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    mut responding: RespondingServer<U::Stream>,
) -> Result<AttemptResponse<U::Stream>, Ended> {
    let Some((plan, used)) = plans.route.cache.as_deref().zip(context.exchange.cache_use.as_deref_mut())
    else {
        return Ok(AttemptResponse::Passes(responding));
    };
    acting::note(Stage::ResponseHead, Feature::Cache);
    let sent = used.sent;
    match std::mem::replace(&mut used.task, CacheTask::Pass) {
        CacheTask::Pass => Ok(AttemptResponse::Passes(responding)),
        CacheTask::Invalidate => {
            let changed = invalidate(context, plans, plan, &responding);
            if plan.plan.state.disk.is_some() {
                files::forget(context, plan, &changed).await;
            }
            Ok(AttemptResponse::Passes(responding))
        }
        CacheTask::Fetch(ticket) => {
            let fetching = Fetching { ticket, replaced: None };
            store(context, plans, (plan, fetching, sent), responding).await
        }
        CacheTask::Refresh { ticket, stored, stale_on_error } => {
            let status = context.exchange.response.status();
            let answer = if status == 304 {
                freshened(context.exchange, plan, responding.server.head(), ticket, stored, sent)
            } else if stale_on_error
                && is_failure(plans, status)
                && !is_replaced(context, plans.route, &stored)
            {
                drop(ticket);
                stale(context.exchange, stored, Some(status), "stale-if-error")
            } else if let Some(ticket) = ticket {
                let fetching = Fetching { ticket, replaced: Some((stored, stale_on_error)) };
                return store(context, plans, (plan, fetching, sent), responding).await;
            } else {
                if status < 500 {
                    plan.plan.state.forget_file(&stored);
                }
                return Ok(AttemptResponse::Passes(responding));
            };
            let Some(answer) = answer else { return Ok(AttemptResponse::Passes(responding)) };
            respond::account(context, plans, &responding);
            let is_read = intercept::read_out(context, plans, &mut responding).await;
            if is_read {
                finish::run(context, plans, responding);
            } else {
                context.exchange.record.sent_to_server += responding.server.sent();
                context.servers.drop_stream(responding.server);
            }
            context.exchange.note_cache(answer.result, context.exchange.record.cache_detail);
            let end = send::stored_or_page(context, plans.route, answer).await?;
            Ok(AttemptResponse::Done(end))
        }
    }
}

/// Nothing of the response is stored: its server has sent the request on. What the request has changed is forgotten all the same.
pub(in crate::exchange) async fn leave<T: ServerStream, S, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
) {
    let Some((plan, used)) = plans.route.cache.as_deref().zip(context.exchange.cache_use.as_deref_mut())
    else {
        return;
    };
    let fetching = match std::mem::replace(&mut used.task, CacheTask::Pass) {
        CacheTask::Pass | CacheTask::Refresh { ticket: None, .. } => return,
        CacheTask::Invalidate => {
            let changed = invalidate(context, plans, plan, responding);
            if plan.plan.state.disk.is_some() {
                files::forget(context, plan, &changed).await;
            }
            return;
        }
        CacheTask::Fetch(ticket) => Fetching { ticket, replaced: None },
        CacheTask::Refresh { ticket: Some(ticket), stored, stale_on_error } => {
            Fetching { ticket, replaced: Some((stored, stale_on_error)) }
        }
    };
    let shard = plan.plan.state.shards.of(context.client.worker.index);
    let ticket = fetching.into_ticket(plan, context.exchange.response.status());
    not_stored(context.exchange, shard, (ticket, NotStored::Accel));
}

/// Whether the request goes to a server once more: its client wants a part, the server was asked for the whole, and that is not stored. It goes as the
/// client has sent it then, and so do others for the same: a client that wants the end of a large file does not have to take all of it.
pub(in crate::exchange) fn wants_part_instead<T: ServerStream, S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
) -> bool {
    let Some((plan, used)) = plans.route.cache.as_deref().zip(context.exchange.cache_use.as_deref()) else {
        return false;
    };
    let is_for_whole = matches!(used.task, CacheTask::Fetch(_) | CacheTask::Refresh { .. });
    let wants_part = plans.route.config.rewrite_body.is_none()
        && plans.route.config.max_ranges > 0
        && context.exchange.request.method() == Method::Get
        && context.exchange.request_for_cache().contains("range");
    if !is_for_whole || !wants_part || context.exchange.response.status() != 200 {
        return false;
    }
    let planned = match may_store(context, plans, responding) {
        true => plan_response(context.exchange, plan, responding.server.head(), used.sent),
        false => Err(NotStored::Condition),
    };
    let Err(reason) = planned else { return false };
    let Some(used) = context.exchange.cache_use.as_deref_mut() else { return false };
    match std::mem::replace(&mut used.task, CacheTask::Pass) {
        CacheTask::Fetch(ticket) | CacheTask::Refresh { ticket: Some(ticket), .. } => {
            not_stored(
                context.exchange,
                plan.plan.state.shards.of(context.client.worker.index),
                (ticket, reason),
            );
        }
        CacheTask::Refresh { .. } | CacheTask::Pass | CacheTask::Invalidate => {}
    }
    goes_once_more(context, plans, responding, Decision::Part);
    true
}

/// Whether the request goes to a server once more: its response confirms another version than the one that the server was asked about (RFC 9111
/// section 4.3.4). What is stored is forgotten, and the request goes without conditions.
pub(in crate::exchange) fn confirms_other_version<T: ServerStream, S, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
) -> bool {
    let Some((plan, used)) = plans.route.cache.as_deref().zip(context.exchange.cache_use.as_deref_mut())
    else {
        return false;
    };
    let CacheTask::Refresh { stored, .. } = &used.task else { return false };
    let newer = HeadView { fields: context.exchange.response.fields(), text: responding.server.head() };
    if context.exchange.response.status() != 304 || is_same_version(stored.head().view(), newer) {
        return false;
    }
    plan.plan.state.forget(stored);
    used.task = match std::mem::replace(&mut used.task, CacheTask::Pass) {
        CacheTask::Refresh { ticket: Some(ticket), .. } => CacheTask::Fetch(ticket),
        _ => CacheTask::Pass,
    };
    goes_once_more(context, plans, responding, Decision::Unconditional);
    true
}

/// The request goes to a server once more, in place of the response at hand.
fn goes_once_more<T: ServerStream, S, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
    decision: Decision,
) {
    plans.server(responding.slot.server.index()).shard.responses.record(context.exchange.response.status());
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Response, now);
    context.exchange.attempt_trace.decided(decision, now);
    context.exchange.rewind();
}

/// A response is not stored.
fn not_stored(exchange: &mut Exchange, shard: &CacheShard, (ticket, reason): (FetchTicket, NotStored)) {
    shard.not_stored.increment();
    exchange.note_cache(CacheResult::Miss, Some(reason.as_str()));
    // Neither a failure nor what this client asks for says anything about the next response.
    let is_lasting = exchange.response.status() < 500 && reason.is_of_response();
    ticket.not_stored(is_lasting.then(|| cache_now().after(PASS_MS)));
}

/// Stores a response, and answers with what is stored of it so far.
async fn store<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    (plan, fetching, sent): (&RouteCachePlan, Fetching, weir_cache::CacheTime),
    mut responding: RespondingServer<U::Stream>,
) -> Result<AttemptResponse<U::Stream>, Ended> {
    let (shard, status) =
        (plan.plan.state.shards.of(context.client.worker.index), context.exchange.response.status());
    let planned = match may_store(context, plans, &responding) {
        false => Err(NotStored::Condition),
        true => plan_response(context.exchange, plan, responding.server.head(), sent),
    };
    let store_plan = match planned {
        Ok(store_plan) => store_plan,
        Err(reason) => {
            not_stored(context.exchange, shard, (fetching.into_ticket(plan, status), reason));
            return Ok(AttemptResponse::Passes(responding));
        }
    };
    let (new, other_head) = take_head(context, plans, &mut responding, store_plan);
    let begun = match fill::begin(context.client, &mut responding).await {
        Ok(begun) => begun,
        Err(error) => {
            if let Some(used) = context.exchange.cache_use.as_deref_mut() {
                used.task = fetching.into_task();
            }
            return Ok(AttemptResponse::BrokenOff(broken_off(
                context.servers,
                context.exchange,
                plans,
                responding,
                &error,
            )));
        }
    };
    let storing = fetching.into_ticket(plan, status).store(new, context.exchange.request_for_cache());
    match storing.refused {
        None => shard.stored.increment(),
        Some(reason) => {
            shard.not_stored.increment();
            context.exchange.note_cache(CacheResult::Miss, Some(reason.as_str()));
        }
    }
    let stored = Arc::clone(&storing.response);
    let Some(mut answer) = StoredAnswer::new(storing.response, CacheResult::Miss) else {
        context.servers.drop_stream(responding.server);
        return Ok(AttemptResponse::Done(End::Closed));
    };
    answer.forwarded = context.exchange.cache_use.as_ref().map(|used| (used.forwarded, None));
    answer.is_new = storing.refused.is_none();
    answer.other_head = other_head;
    let fill = Fill::new((responding, begun), (stored, storing.writer), &plan.plan.state);
    fill::run(context, plans, fill).await;
    let end = send::stored_or_page(context, plans.route, answer).await?;
    Ok(AttemptResponse::Done(end))
}

/// Takes the head of a response that is to be stored: what is stored of it, and what the client gets that has fetched it, if that is not the same.
fn take_head<T: ServerStream, S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    responding: &mut RespondingServer<T>,
    store_plan: StorePlan,
) -> (NewResponse, Option<(StoredHead, Lifetime)>) {
    respond::account(context, plans, responding);
    if plans.upstream.affinity.is_some() {
        // Its client gets it.
        affinity::learn(context, plans, responding.slot.server, responding.server.head());
    }
    let exchange = &mut *context.exchange;
    let head = HeadView { fields: exchange.response.fields(), text: responding.server.head() };
    let fetched_head = store_plan.fetched_head(head).map(|fetched| (fetched, store_plan.lifetime));
    let stored_head = store_plan.stored_head(head);
    let length = responding.server.begin_body(&exchange.response, Method::Get, plans.upstream.chunked_limits);
    responding.server.take_head();
    let new = NewResponse {
        status: exchange.response.status(),
        head: stored_head,
        lifetime: store_plan.lifetime,
        vary: store_plan.vary,
        len: length.length(),
    };
    (new, fetched_head)
}

/// The attempt whose server has broken off its response.
#[cold]
fn broken_off<U: Servers>(
    servers: &mut U,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    responding: RespondingServer<U::Stream>,
    error: &RelayError,
) -> AttemptFailure {
    let failure = of_unsent_body(error);
    respond::count_cut(plans, &responding, Err(failure));
    let record = &mut exchange.record;
    record.sent_to_server += responding.server.sent();
    // The client has none yet.
    record.status = 0;
    let failed = AttemptFailure {
        failure,
        server: responding.slot.server,
        origin: FailureOrigin::Server(RetryCause::ConnectionError),
        sent_any: responding.sent_any,
        received_any: true,
        unread: false,
        reused: record.reused,
        slot: None,
    };
    servers.drop_stream(responding.server);
    failed
}

/// Whether a stale response is used in place of one with this status.
fn is_failure(plans: Plans<'_>, status: u16) -> bool {
    plans.route.config.cache.as_deref().is_some_and(|config| config.is_failure(status))
}

/// Whether `store_when` of the route lets the response be stored.
fn may_store<T: ServerStream, S: ClientEnd, U>(
    context: &Context<'_, S, U>,
    plans: Plans<'_>,
    responding: &RespondingServer<T>,
) -> bool {
    let config = plans.route.config.cache.as_deref();
    let Some(condition) = config.and_then(|config| config.store_when.as_ref()) else { return true };
    let values = TemplateValues::for_attempt(context, plans, responding.slot.server);
    let response = Some((context.exchange.response.fields(), responding.server.head()));
    let status = context.exchange.response.status();
    condition.holds(&TemplateValues { response, status, ..values })
}

/// Whether the response may be stored, and how.
fn plan_response(
    exchange: &Exchange,
    plan: &RouteCachePlan,
    text: &[u8],
    sent: weir_cache::CacheTime,
) -> Result<StorePlan, NotStored> {
    let too_large = plan.plan.config.response_max;
    if exchange.response.content_length().is_some_and(|len| len > too_large) {
        return Err(NotStored::TooLarge);
    }
    let request = stored_request(exchange, sent);
    let head = HeadView { fields: exchange.response.fields(), text };
    plan_storing(&request, exchange.response.status(), head, &plan.rules, cache_now())
}

/// The request as the rules see it.
fn stored_request(exchange: &Exchange, sent: weir_cache::CacheTime) -> StoredRequest<'_> {
    // As long as it is not known, the response is for its client alone.
    let is_proven = exchange.cache_use.as_ref().is_none_or(|used| used.is_proven);
    StoredRequest { method: Method::Get, head: exchange.request_for_cache(), sent, is_proven }
}

/// What a server has confirmed.
fn freshened(
    exchange: &mut Exchange,
    plan: &RouteCachePlan,
    text: &[u8],
    ticket: Option<FetchTicket>,
    stored: Arc<StoredResponse>,
    sent: weir_cache::CacheTime,
) -> Option<StoredAnswer> {
    let request = stored_request(exchange, sent);
    let newer = HeadView { fields: exchange.response.fields(), text };
    let now = cache_now();
    let (stored, only_sent) =
        match plan_freshening(&request, stored.status(), stored.head().view(), newer, &plan.rules, now) {
            FreshenPlan::Store(freshened) => match ticket {
                Some(ticket) => {
                    let stored = ticket.freshen(&stored, *freshened);
                    plan.plan.state.freshen_file(&stored);
                    (stored, None)
                }
                None => (stored, Some(freshened)),
            },
            FreshenPlan::SendOnly(freshened, reason) => {
                if reason.is_of_response() {
                    plan.plan.state.forget(&stored);
                }
                (stored, Some(freshened))
            }
            // The request has gone to a server again in place of that.
            FreshenPlan::OtherVersion => return None,
        };
    let mut answer = StoredAnswer::new(stored, CacheResult::Revalidated)?;
    answer.other_head = only_sent.map(|freshened| {
        let Freshened { head, lifetime } = *freshened;
        (head, lifetime)
    });
    answer.forwarded = exchange.cache_use.as_ref().map(|used| (used.forwarded, Some(304)));
    Some(answer)
}

/// Whether a page would be sent in place of a stale response: then it is no help where the server fails, and the page of the failure is sent.
fn is_replaced<U>(
    context: &Context<'_, impl ClientEnd, U>,
    route: &RoutePlan,
    stored: &StoredResponse,
) -> bool {
    page_of_stored::is_wanted(context, route, (stored.status(), stored.head().view()))
}

/// A stale response in place of a failure.
fn stale(
    exchange: &mut Exchange,
    stored: Arc<StoredResponse>,
    status: Option<u16>,
    detail: &'static str,
) -> Option<StoredAnswer> {
    let mut answer = StoredAnswer::new(stored, CacheResult::Stale)?;
    answer.forwarded = exchange.cache_use.as_ref().map(|used| (used.forwarded, status));
    exchange.note_cache(CacheResult::Stale, Some(detail));
    Some(answer)
}

/// Answers with a stale response in place of the failure of a server, where that is allowed; `None` when it is not.
pub(in crate::exchange) async fn instead_of_failure<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    failure: Failure,
) -> Option<Result<End, Failure>> {
    if context.exchange.answered || failure.party == Party::Client || failure.log_status() < 500 {
        return None;
    }
    let used = context.exchange.cache_use.as_deref_mut()?;
    let CacheTask::Refresh { ticket, stored, stale_on_error } =
        std::mem::replace(&mut used.task, CacheTask::Pass)
    else {
        return None;
    };
    drop(ticket);
    let stale_on_error =
        stale_on_error && !context.route().is_some_and(|route| is_replaced(context, route, &stored));
    let answer = if stale_on_error { stale(context.exchange, stored, None, failure.reason()) } else { None }?;
    Some(send::stored(context, answer).await.map(|()| End::Done))
}

/// Forgets what a request has changed (RFC 9111 section 4.4); the keys of that.
fn invalidate<T: ServerStream, S, U>(
    context: &Context<'_, S, U>,
    plans: Plans<'_>,
    plan: &RouteCachePlan,
    responding: &RespondingServer<T>,
) -> Vec<Vec<u8>> {
    let Some(CacheUse { key, .. }) = context.exchange.cache_use.as_deref() else { return Vec::new() };
    if !invalidates(context.exchange.request.method(), context.exchange.response.status()) {
        return Vec::new();
    }
    let mut texts = vec![key_text(key).to_vec()];
    // Under another key than the usual one, what other paths would come to is not known.
    if plans.route.config.cache.as_deref().is_some_and(RouteCache::has_usual_key) {
        let scheme: &[u8] = if context.client.is_tls { b"https" } else { b"http" };
        let authority = context.exchange.request.authority().of(&context.exchange.request_text);
        let head = HeadView { fields: context.exchange.response.fields(), text: responding.server.head() };
        invalidated_targets(head, scheme, authority, |target| {
            let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
            let (path, query) = target.split_at(end);
            let mut other = [scheme, b"://", authority].concat();
            normalize_authority(&mut other, scheme.len() + 3, scheme);
            write_normal_path(&mut other, path, context.listener.head_limits.paths.encoded_slash);
            other.extend_from_slice(query);
            write_named_server(context.exchange, &mut other);
            texts.push(other);
        });
    }
    let snapshot = &plans.config.snapshot;
    let cache = snapshot.caches.iter().position(|one| one.config.name == plan.plan.config.name);
    // Wherever this listener or this upstream has stored it.
    let of = (context.exchange.record.listener(), plans.upstream_index);
    let keys = texts.iter().flat_map(|text| snapshot.partitions.keys(text, cache.unwrap_or_default(), of));
    let mut changed: Vec<Vec<u8>> = keys.collect();
    let (store, now) = (plan.store(), cache_now());
    if !context.listener.trail_names.is_empty() {
        // By way of other routes it may be in any partition.
        changed.extend(texts.iter().flat_map(|text| store.known_keys(text)));
    }
    for key in &changed {
        store.invalidate(&store.key(key), now);
    }
    changed
}
