//! Phase Response of an exchange whose request has gone past the cache: what of the response is stored, and what a stored one is good for.

use weir_cache::HeadView;
use weir_cache::rules::{
    FreshenPlan, Freshened, NotStored, StorePlan, StoredRequest, invalidated_targets, invalidates,
    plan_freshening, plan_storing,
};
use weir_cache::store::{FetchTicket, NewResponse, StoredResponse};
use weir_config::RouteCache;
use weir_http::{BodyLength, Method, write_normal_path};
use weir_observe::{CacheResult, CacheShard, Failure, Party, Phase};

use std::sync::Arc;

use super::cache_files;
use super::cache_fill::{self, Fill};
use super::cache_send::{self, StoredAnswer};
use super::cache_use::{CacheTask, CacheUse, note, request_head};
use super::client::Client;
use super::outcome::RespondingServer;
use super::plans::Plans;
use super::stream::ClientStream;
use super::{End, Ended, Exchange, finish, intercept, respond};
use crate::net::clock;
use crate::state::cache::{RouteCachePlan, cache_now};
use crate::state::recorder::Decision;
use crate::upstream::stream::{ServerStream, Servers};

/// For how long a response that may not be stored keeps requests for the same from waiting for one another, in milliseconds.
const PASS_MS: u64 = 120_000;

/// What has become of a response.
pub(super) enum Answering<T> {
    /// The client has its answer.
    Done(End),
    /// It passes as it is.
    Passes(RespondingServer<T>),
}

/// Stores the response that `serving` has begun, or uses it for what is stored, as far as either may be.
///
/// # Errors
/// The failure that broke it off; part of the response may have reached the client.
pub(super) async fn take<U: Servers>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut U,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    mut serving: RespondingServer<U::Stream>,
) -> Result<Answering<U::Stream>, Ended> {
    let Some((plan, used)) = plans.route.cache.as_deref().zip(exchange.cached.as_deref_mut()) else {
        return Ok(Answering::Passes(serving));
    };
    let sent = used.sent;
    match std::mem::replace(&mut used.task, CacheTask::Pass) {
        CacheTask::Pass => Ok(Answering::Passes(serving)),
        CacheTask::Invalidate => {
            let changed = invalidate(client, exchange, plans, plan, &serving);
            if plan.plan.state.disk.is_some() {
                cache_files::forget(client, exchange, plan, &changed).await;
            }
            Ok(Answering::Passes(serving))
        }
        CacheTask::Fetch(ticket) => {
            store(client, stream, servers, exchange, plans, (plan, ticket, sent), serving).await
        }
        CacheTask::Refresh { ticket, stored, stale_on_error } => {
            let status = exchange.response.status();
            let answer = if status == 304 {
                freshened(exchange, plan, serving.server.head(), ticket, stored, sent)
            } else if stale_on_error && matches!(status, 500 | 502 | 503 | 504) {
                drop(ticket);
                stale(exchange, stored, Some(status), "stale-if-error")
            } else {
                if status < 500 {
                    plan.plan.state.forget_file(&stored);
                }
                return match ticket {
                    Some(ticket) => {
                        store(client, stream, servers, exchange, plans, (plan, ticket, sent), serving).await
                    }
                    None => Ok(Answering::Passes(serving)),
                };
            };
            let Some(answer) = answer else { return Ok(Answering::Passes(serving)) };
            respond::account(client, exchange, plans, &serving);
            let is_read = intercept::read_out(client, exchange, plans, &mut serving).await;
            if is_read {
                finish::run(client, servers, exchange, plans, serving);
            } else {
                exchange.record.sent_to_server += serving.server.sent();
                servers.drop_stream(serving.server);
            }
            note(exchange, answer.result, exchange.record.cache_detail);
            cache_send::stored(client, stream, exchange, answer).await?;
            Ok(Answering::Done(End::Done))
        }
    }
}

/// Whether the request goes to a server once more: its client wants a part, the server was asked for the whole, and that is not stored. It goes as the
/// client has sent it then, and so do others for the same: a client that wants the end of a large file does not have to take all of it.
pub(super) fn wants_part_instead<T: ServerStream>(
    client: &mut Client,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    serving: &RespondingServer<T>,
) -> bool {
    let Some((plan, used)) = plans.route.cache.as_deref().zip(exchange.cached.as_deref()) else {
        return false;
    };
    let is_for_whole = matches!(used.task, CacheTask::Fetch(_) | CacheTask::Refresh { .. });
    let wants_part = exchange.request.method() == Method::Get && request_head(exchange).contains("range");
    if !is_for_whole || !wants_part || exchange.response.status() != 200 {
        return false;
    }
    let Err(reason) = plan_response(exchange, plan, serving.server.head(), used.sent) else { return false };
    let Some(used) = exchange.cached.as_deref_mut() else { return false };
    match std::mem::replace(&mut used.task, CacheTask::Pass) {
        CacheTask::Fetch(ticket) | CacheTask::Refresh { ticket: Some(ticket), .. } => {
            not_stored(exchange, plan.plan.state.shards.of(client.worker.index), (ticket, reason));
        }
        CacheTask::Refresh { .. } | CacheTask::Pass | CacheTask::Invalidate => {}
    }
    plans.server(serving.slot.server.index()).shard.responses.record(exchange.response.status());
    let now = clock::now();
    client.now = now;
    exchange.record.spend(Phase::Response, now);
    exchange.attempt_trace.decided(Decision::Part, now);
    exchange.rewind();
    true
}

/// A response is not stored.
fn not_stored(exchange: &mut Exchange, shard: &CacheShard, (ticket, reason): (FetchTicket, NotStored)) {
    shard.not_stored.increment();
    note(exchange, CacheResult::Miss, Some(reason.as_str()));
    // Neither a failure nor what this client asks for says anything about the next response.
    let is_lasting = exchange.response.status() < 500 && reason.is_of_response();
    ticket.not_stored(is_lasting.then(|| cache_now().after(PASS_MS)));
}

/// Stores a response, and answers with what is stored of it so far.
async fn store<U: Servers>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut U,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    (plan, ticket, sent): (&RouteCachePlan, FetchTicket, weir_cache::CacheTime),
    mut serving: RespondingServer<U::Stream>,
) -> Result<Answering<U::Stream>, Ended> {
    let shard = plan.plan.state.shards.of(client.worker.index);
    let planned = match intercept::page(exchange, plans) {
        Some(_) => Err(NotStored::Status),
        None => plan_response(exchange, plan, serving.server.head(), sent),
    };
    let store_plan = match planned {
        Ok(store_plan) => store_plan,
        Err(reason) => {
            not_stored(exchange, shard, (ticket, reason));
            return Ok(Answering::Passes(serving));
        }
    };
    respond::account(client, exchange, plans, &serving);
    let head = HeadView { fields: exchange.response.fields(), text: serving.server.head() };
    let new_head = store_plan.stored_head(head);
    let length = serving.server.begin_body(&exchange.response, Method::Get, plans.upstream.chunked_limits);
    let new = NewResponse {
        status: exchange.response.status(),
        head: new_head,
        lifetime: store_plan.lifetime,
        vary: store_plan.vary,
        len: match length {
            BodyLength::Known(len) => Some(len),
            BodyLength::None => Some(0),
            BodyLength::Unknown => None,
        },
    };
    let storing = ticket.store(new, request_head(exchange));
    serving.server.take_head();
    match storing.refused {
        None => shard.stored.increment(),
        Some(reason) => {
            shard.not_stored.increment();
            note(exchange, CacheResult::Miss, Some(reason.as_str()));
        }
    }
    let stored = Arc::clone(&storing.response);
    let Some(mut answer) = StoredAnswer::of(storing.response, CacheResult::Miss) else {
        servers.drop_stream(serving.server);
        return Ok(Answering::Done(End::Closed));
    };
    answer.forwarded = exchange.cached.as_ref().map(|used| (used.forwarded, None));
    answer.is_new = storing.refused.is_none();
    let fill = Fill::new(serving, (stored, storing.writer), &plan.plan.state);
    cache_fill::run(client, servers, exchange, plans, fill).await?;
    cache_send::stored(client, stream, exchange, answer).await?;
    Ok(Answering::Done(End::Done))
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
    let request = StoredRequest { method: Method::Get, head: request_head(exchange), sent };
    let head = HeadView { fields: exchange.response.fields(), text };
    plan_storing(&request, exchange.response.status(), head, &plan.rules, cache_now())
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
    let request = StoredRequest { method: Method::Get, head: request_head(exchange), sent };
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
            // It has answered about a version that it was not asked about: what is stored is of no more use than this once.
            FreshenPlan::OtherVersion => {
                plan.plan.state.forget(&stored);
                (stored, None)
            }
        };
    let mut answer = StoredAnswer::of(stored, CacheResult::Revalidated)?;
    answer.freshened = only_sent.map(|freshened| {
        let Freshened { head, lifetime } = *freshened;
        (head, lifetime)
    });
    answer.forwarded = exchange.cached.as_ref().map(|used| (used.forwarded, Some(304)));
    Some(answer)
}

/// A stale response in place of a failure.
fn stale(
    exchange: &mut Exchange,
    stored: Arc<StoredResponse>,
    status: Option<u16>,
    detail: &'static str,
) -> Option<StoredAnswer> {
    let mut answer = StoredAnswer::of(stored, CacheResult::Stale)?;
    answer.forwarded = exchange.cached.as_ref().map(|used| (used.forwarded, status));
    note(exchange, CacheResult::Stale, Some(detail));
    Some(answer)
}

/// Answers with a stale response in place of the failure of a server, where that is allowed; `None` when it is not.
pub(super) async fn instead_of_failure(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    failure: Failure,
) -> Option<Result<End, Failure>> {
    if exchange.answered || failure.party == Party::Client || failure.log_status() < 500 {
        return None;
    }
    let used = exchange.cached.as_deref_mut()?;
    let CacheTask::Refresh { ticket, stored, stale_on_error } =
        std::mem::replace(&mut used.task, CacheTask::Pass)
    else {
        return None;
    };
    drop(ticket);
    let answer = if stale_on_error { stale(exchange, stored, None, failure.reason()) } else { None }?;
    Some(cache_send::stored(client, stream, exchange, answer).await.map(|()| End::Done))
}

/// Forgets what a request has changed (RFC 9111 section 4.4); the keys of that.
fn invalidate<T: ServerStream>(
    client: &Client,
    exchange: &Exchange,
    plans: Plans<'_>,
    plan: &RouteCachePlan,
    serving: &RespondingServer<T>,
) -> Vec<Vec<u8>> {
    let Some(CacheUse { key, .. }) = exchange.cached.as_deref() else { return Vec::new() };
    if !invalidates(exchange.request.method(), exchange.response.status()) {
        return Vec::new();
    }
    let mut changed = vec![key.clone()];
    // Under another key than the usual one, what other paths would come to is not known.
    if plans.route.config.cache.as_deref().is_some_and(RouteCache::has_usual_key) {
        let scheme: &[u8] = if client.is_tls { b"https" } else { b"http" };
        let authority = exchange.request.authority().of(&exchange.request_text);
        let head = HeadView { fields: exchange.response.fields(), text: serving.server.head() };
        invalidated_targets(head, scheme, authority, |target| {
            let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
            let (path, query) = target.split_at(end);
            let mut other = [scheme, b"://", authority].concat();
            write_normal_path(&mut other, path, plans.listener.head_limits.paths.encoded_slash);
            other.extend_from_slice(query);
            changed.push(other);
        });
    }
    let (store, now) = (plan.store(), cache_now());
    for key in &changed {
        store.invalidate(&store.key(key), now);
    }
    changed
}
