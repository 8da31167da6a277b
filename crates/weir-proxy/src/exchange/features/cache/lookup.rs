//! Phase Route of a route with a cache: whether there is a response already, and who fetches it if there is none.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_cache::directives::RequestDirectives;
use weir_cache::disk::DiskHit;
use weir_cache::rules::{ClientRules, ForwardReason, Reuse, RevalidateCause, reuse};
use weir_cache::store::{FetchOutcome, FetchSlot, FetchTicket, FetchWait, Found, Join, StoredResponse};
use weir_config::{
    Feature, HeaderRule, PartitionName, PathForm, RouteAction, RouteCache, ServerProtocol, SplitTarget, Stage,
};
use weir_http::{FieldName, Method};
use weir_observe::{CacheResult, Cause, Failure, Phase};

use super::files;
use super::files::Loaded;
use super::head;
use super::refresh;
use super::send;
use super::send::StoredAnswer;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::cache_use::{CacheTask, CacheUse, RequestKey};
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::header_changes::rule_bit;
use crate::exchange::exchange_state::plans::MatchedRoute;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::affinity::by_name;
use crate::exchange::features::answer;
use crate::exchange::features::cors;
use crate::exchange::phases::end::{EarlyEnd, End};
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::responder::Answer;
use crate::state::caching::cache::{RouteCachePlan, cache_now};
use crate::state::caching::cache_keys::{ForwardedProto, RequestClass};
use crate::state::connections::activity::Activity;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::upstream::stream::Servers;

/// What is to be done with a request.
enum CacheStep {
    Answer(StoredAnswer),
    /// It is stale: it is the answer, and refreshed behind it.
    AnswerAndRefresh(StoredAnswer),
    Wait(FetchWait),
    /// A server is asked by GET in the place of a HEAD, which waits for that.
    Fetch(FetchTicket, ForwardReason, Option<Arc<StoredResponse>>),
    /// It is in a file.
    Load(Box<DiskHit>, ForwardReason, FetchTicket),
    Forward(ForwardReason, CacheTask, Option<&'static str>),
    /// The client wants nothing but what is stored, and nothing is.
    Nothing,
}

/// What a request lets the cache do.
struct CacheWants {
    directives: RequestDirectives,
    client: ClientRules,
    /// Whether a stale response may be refreshed behind its client.
    refreshes_behind: bool,
}

impl CacheWants {
    fn new(exchange: &Exchange, (plan, config): (&RouteCachePlan, &RouteCache), refreshes: bool) -> Self {
        let directives = match config.obey_clients {
            true => RequestDirectives::new(exchange.request_for_cache()),
            false => RequestDirectives::default(),
        };
        Self {
            client: ClientRules { no_cache: plan.client.no_cache || refreshes, ..plan.client },
            directives: RequestDirectives { no_cache: directives.no_cache || refreshes, ..directives },
            refreshes_behind: config.store_when.is_none(),
        }
    }
}

/// How far waiting for others has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waited {
    Not,
    /// The response of another request is here.
    Done,
    /// It was one for other requests with this key, and so was waited for once more.
    Twice,
    /// There is none: this request fetches it itself.
    TimedOut,
}

/// Answers from the cache; `None` when the request goes to a server.
///
/// # Errors
/// When the client leaves meanwhile, or does not take the answer.
pub(in crate::exchange) async fn pass(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    matched: MatchedRoute<'_>,
) -> EarlyEnd {
    let MatchedRoute { route, target: route_to_server, .. } = matched;
    let Some((plan, config)) = route.cache.as_deref().zip(route.config.cache.as_deref()) else {
        return Ok(None);
    };
    let is_exchange = context.exchange.grpc.is_none() && context.exchange.request.upgrade().is_none();
    // What a target of a split answers itself is no response of a server.
    let Some(target) = target_of(context.exchange, matched).filter(|_| is_exchange) else { return Ok(None) };
    if cors::is_preflight_on(route, context.exchange) {
        return Ok(None);
    }
    acting::note(Stage::BeforeServer, Feature::Cache);
    if !is_server_known(context, route_to_server) {
        return Ok(None);
    }
    let values = TemplateValues::new(context, Some(route));
    let refreshes = config.refresh_when.as_ref().is_some_and(|condition| condition.holds(&values));
    let Some(key) = key_of((context, &values), (plan, config), (route_to_server, target)) else {
        return Ok(None);
    };
    let bypass = bypass(context.exchange, (config, context.listener), &values);
    if let Some((reason, task)) = bypass {
        begin(context.exchange, (key, reason, task), (CacheResult::Bypass, None));
        return Ok(None);
    }
    let wants = CacheWants::new(context.exchange, (plan, config), refreshes);
    look_up(context, matched, (plan, config), (key, wants)).await
}

/// Whether the request is for a server that it may have, where its upstream has those that requests name: there is nothing of others.
fn is_server_known<U>(context: &mut Context<'_, impl ClientEnd, U>, target: &RoutePlan) -> bool {
    let config = context.config;
    match context.exchange.record.upstream.and_then(|index| config.snapshot.upstreams.get(index)) {
        Some(plan) if plan.is_dynamic() => by_name::find(context, target, plan),
        _ => true,
    }
}

/// Answers with what is stored, waits for what another request fetches, or has the request go to a server.
///
/// # Errors
/// When the client leaves meanwhile, or does not take the answer.
async fn look_up(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    matched: MatchedRoute<'_>,
    (plan, config): (&RouteCachePlan, &RouteCache),
    (key, wants): (RequestKey, CacheWants),
) -> EarlyEnd {
    let (mut waited, mut is_loaded, mut loaded) = (Waited::Not, false, None);
    loop {
        let so_far = (waited, is_loaded, loaded.take());
        match step(context.exchange, (plan, config), (&key.key, &wants), so_far) {
            CacheStep::Answer(answer) => return answered(context, answer).await,
            CacheStep::AnswerAndRefresh(answer) => {
                refresh::begin(context, way_of(matched, plan), (&key, &answer.stored));
                return answered(context, answer).await;
            }
            CacheStep::Wait(wait) => {
                let outcome = wait_for(context, wait, config.wait.unwrap_or_default()).await?;
                waited = match outcome {
                    FetchOutcome::Stored(_) if waited == Waited::Not => Waited::Done,
                    FetchOutcome::Stored(_) => Waited::Twice,
                    FetchOutcome::NotStored | FetchOutcome::Failed => Waited::TimedOut,
                };
                if let FetchOutcome::Stored(stored) = outcome
                    && plan.store().is_for(
                        &stored,
                        &plan.store().key(&key.key),
                        context.exchange.request_for_cache(),
                    )
                    && let Ok(CacheStep::Answer(answer)) = of_stored(stored, &wants, waited)
                {
                    return answered(context, answer).await;
                }
            }
            CacheStep::Fetch(ticket, reason, stored) => {
                let fetch = (ticket, reason, stored);
                if let Some(answer) = fetch_by_get(context, matched, (plan, config), (&key, fetch)).await? {
                    return answered(context, answer).await;
                }
                waited = Waited::TimedOut;
            }
            CacheStep::Load(hit, reason, ticket) => {
                let loading = (&key.key[..], *hit, ticket);
                is_loaded = true;
                match files::load(context, plan, loading).await? {
                    Loaded::Whole(stored) => loaded = Some(stored),
                    Loaded::Purged => {}
                    Loaded::Unusable(ticket) => {
                        let is_get = context.exchange.request.method() == Method::Get;
                        let task = if is_get { CacheTask::Fetch(ticket) } else { CacheTask::Pass };
                        begin(
                            context.exchange,
                            (key, reason, task),
                            (CacheResult::Miss, Some("file-unusable")),
                        );
                        return Ok(None);
                    }
                }
            }
            CacheStep::Forward(reason, task, detail) => {
                begin(context.exchange, (key, reason, task), (CacheResult::Miss, detail));
                return Ok(None);
            }
            CacheStep::Nothing => {
                let nothing = Answer::new(504).with(b"Cache-Status", &b"weir; detail=only-if-cached"[..]);
                context.exchange.note_cache(CacheResult::Miss, Some("only-if-cached"));
                return answer::pass_on(context, &nothing).await.map(Some);
            }
        }
    }
}

/// Has a server asked by GET, and waits for what comes of it: the answer to a HEAD, or `None` when that has to go to a server itself.
///
/// # Errors
/// When the client leaves meanwhile.
async fn fetch_by_get(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    matched: MatchedRoute<'_>,
    (plan, config): (&RouteCachePlan, &RouteCache),
    (key, fetch): (&RequestKey, (FetchTicket, ForwardReason, Option<Arc<StoredResponse>>)),
) -> Result<Option<StoredAnswer>, Ended> {
    let (ticket, reason, stored) = fetch;
    let wait = ticket.wait();
    refresh::fetch(context, way_of(matched, plan), (key, ticket, stored.as_ref()));
    let outcome = wait_for(context, wait, config.wait.unwrap_or_default()).await?;
    Ok(head::answer(context.exchange, plan, (&key.key, reason), (outcome, stored)))
}

/// The way of a request of Weir's own to the server that the client's would go to.
fn way_of<'a>(matched: MatchedRoute<'a>, plan: &'a RouteCachePlan) -> refresh::FetchWay<'a> {
    let MatchedRoute { route, target, .. } = matched;
    (target, target.cache.as_deref().unwrap_or(plan), route.place_of_target(target))
}

/// The key of a request to a target in this place; `None` when nothing is stored for it.
fn key_of<U>(
    (context, values): (&Context<'_, impl ClientEnd, U>, &TemplateValues<'_>),
    (plan, config): (&RouteCachePlan, &RouteCache),
    (target, place): (&RoutePlan, usize),
) -> Option<RequestKey> {
    let mut key = Vec::new();
    if !values.write_key(&config.key, &mut key) {
        return None;
    }
    let class = class_of(context);
    // What a server gets by conditions makes another response.
    let rules = target.config.request_headers.rules_by_request();
    let holds = |rule: &HeaderRule| rule.when.as_ref().is_some_and(|condition| condition.holds(values));
    let holding = rules.zip(0_u32..).filter(|((_, rule), _)| holds(rule));
    let (mut applied, mut places) = (0_u8, 0_u32);
    for ((place, _), at) in holding {
        applied |= 1_u8.checked_shl(at).unwrap_or_default();
        places |= rule_bit(place);
    }
    write_way(context, &mut key);
    write_named_server(context.exchange, &mut key);
    let trail = trail_of(context).filter(|_| config.share.is_none());
    let has_place = plan.end_key(&mut key, place, (class, applied), trail);
    has_place.then_some(RequestKey { key, applied: places, is_proven: class.is_proven })
}

/// The routes that the request has left, by what they match: those who came another way get nothing of what it is answered with.
fn trail_of<'a, U>(context: &'a Context<'_, impl ClientEnd, U>) -> impl Iterator<Item = PartitionName> + 'a {
    let left = context.exchange.rerouting().map_or(&[][..], |way| &way.left);
    left.iter().filter_map(|at| *context.listener.trail_names.get(*at)?)
}

/// Appends what an application gets of the request beside its path as it is now: the one that came (`REQUEST_URI`).
fn write_way<U>(context: &Context<'_, impl ClientEnd, U>, key: &mut Vec<u8>) {
    let Some(way) = context.exchange.rerouting().filter(|way| way.received_target.is_some()) else { return };
    let upstreams = &context.config.snapshot.upstreams;
    let upstream = context.exchange.record.upstream.and_then(|index| upstreams.get(index));
    if upstream.is_some_and(|upstream| upstream.config.protocol == ServerProtocol::Fastcgi) {
        key.push(b' ');
        key.extend_from_slice(&way.received_uri);
    }
}

/// Appends the server that the request names: what one has is never found for another, whatever the text of the key is. A name has no space, so the last
/// one of a key is before it.
pub(super) fn write_named_server(exchange: &Exchange, key: &mut Vec<u8>) {
    if let Some(name) = exchange.named_server() {
        key.push(b' ');
        key.extend_from_slice(name.as_bytes());
    }
}

/// The place of the target of the split that the request goes to, 0 without a split; `None` when it goes to no server.
fn target_of(exchange: &Exchange, matched: MatchedRoute<'_>) -> Option<usize> {
    let route = matched.route;
    let upstream = exchange.record.upstream?;
    let RouteAction::Split(targets) = &route.config.action else { return Some(0) };
    route.place_of_target(matched.target).or_else(|| {
        // Targets of one upstream that are as the route is have the same partition.
        let is_it = |target: &SplitTarget| {
            !target.is_apart() && target.upstream().is_some_and(|index| index.0 == upstream)
        };
        targets.iter().position(is_it)
    })
}

/// What the key of a request does not say of it.
fn class_of<U>(context: &Context<'_, impl ClientEnd, U>) -> RequestClass {
    let has_certificate = || context.stream.tls().is_some_and(|tls| tls.client_certificate.is_some());
    let proto = || context.exchange.request.fields().first(FieldName::XForwardedProto);
    let forwarded = match context.listener.trusts(context.client.peer) {
        false => ForwardedProto::Own,
        true => match proto().map(|field| field.value.of(&context.exchange.request_text)) {
            None => ForwardedProto::Unsaid,
            Some(value) if value.eq_ignore_ascii_case(b"https") => ForwardedProto::Https,
            Some(value) if value.eq_ignore_ascii_case(b"http") => ForwardedProto::Http,
            Some(_) => ForwardedProto::Other,
        },
    };
    RequestClass { is_proven: context.exchange.authorization.is_some() || has_certificate(), forwarded }
}

/// Why a request has nothing to do with what is stored.
fn bypass(
    exchange: &Exchange,
    (config, listener): (&RouteCache, &ListenerPlan),
    values: &TemplateValues<'_>,
) -> Option<(ForwardReason, CacheTask)> {
    let method = exchange.request.method();
    if !matches!(method, Method::Get | Method::Head) {
        let task = if method.is_safe() { CacheTask::Pass } else { CacheTask::Invalidate };
        return Some((ForwardReason::Method, task));
    }
    let head = exchange.request_for_cache();
    // Only the server knows the version that these are about (RFC 9111 section 4.3.2).
    let is_for_server = head.contains("if-match") || head.contains("if-unmodified-since");
    // The server gets the path in a form that the key does not have, and may take it for another.
    let is_sent_otherwise = listener.config.paths.forward == PathForm::AsReceived
        && exchange.rewritten.is_empty()
        && !exchange.request.is_path_normal();
    let mut text = Vec::new();
    let is_bypassed = is_for_server
        || is_sent_otherwise
        || exchange.keeps_fields_back()
        || !exchange.request.body().is_empty()
        || config.when.as_ref().is_some_and(|condition| !condition.holds(values))
        || config.bypass.iter().any(|template| {
            text.clear();
            values.write(template, &mut text);
            !matches!(&text[..], b"" | b"0")
        });
    is_bypassed.then_some((ForwardReason::Bypass, CacheTask::Pass))
}

/// `loaded`: the response that was just read from a file. It may have made room for others in memory by now.
fn step(
    exchange: &Exchange,
    (plan, config): (&RouteCachePlan, &RouteCache),
    (key_text, wants): (&[u8], &CacheWants),
    (waited, is_loaded, loaded): (Waited, bool, Option<Arc<StoredResponse>>),
) -> CacheStep {
    let directives = &wants.directives;
    let (store, head, now, wait) = (plan.store(), exchange.request_for_cache(), cache_now(), config.wait);
    let key = store.key(key_text);
    let is_head = exchange.request.method() == Method::Head;
    let missing = match loaded.map_or_else(|| store.find(&key, head, now), Found::Hit) {
        Found::Hit(stored) => match of_stored(stored, wants, waited) {
            Ok(step) => return step,
            Err((stored, reason, stale_on_error)) => {
                if directives.only_if_cached {
                    return CacheStep::Nothing;
                }
                if is_head && !(config.convert_head && waited == Waited::Not) {
                    return CacheStep::Forward(reason, head::task(stored, stale_on_error), None);
                }
                let ticket = match store.join_refresh(&key, &stored) {
                    Join::Lead(ticket) if is_head => return CacheStep::Fetch(ticket, reason, Some(stored)),
                    Join::Lead(ticket) => Some(ticket),
                    Join::Wait(fetch) if wait.is_some() && waited == Waited::Not => {
                        return CacheStep::Wait(fetch);
                    }
                    Join::Wait(_) => None,
                };
                return CacheStep::Forward(
                    reason,
                    CacheTask::Refresh { ticket, stored, stale_on_error },
                    None,
                );
            }
        },
        Found::Passed(slot) => {
            return match directives.only_if_cached {
                true => CacheStep::Nothing,
                false => CacheStep::Forward(miss(slot), CacheTask::Pass, Some("not-stored-before")),
            };
        }
        Found::Missing(slot) => slot,
    };
    let in_file = if is_loaded { None } else { files::find(plan, key_text, head, now) };
    if in_file.is_none() && directives.only_if_cached {
        return CacheStep::Nothing;
    }
    if in_file.is_none() && is_head && !(config.convert_head && waited != Waited::TimedOut) {
        return CacheStep::Forward(miss(missing), CacheTask::Pass, None);
    }
    let lead = |ticket| match in_file {
        Some(hit) => CacheStep::Load(Box::new(hit), miss(missing), ticket),
        None if is_head => CacheStep::Fetch(ticket, miss(missing), None),
        None => CacheStep::Forward(miss(missing), CacheTask::Fetch(ticket), None),
    };
    let may_wait = match waited {
        Waited::Not => true,
        // What came was another variant: this one may be on its way, too.
        Waited::Done => missing.is_variant,
        Waited::Twice | Waited::TimedOut => false,
    };
    if !may_wait || wait.is_none() {
        return lead(store.lead_alone(&key, missing));
    }
    match store.join(&key, missing) {
        Join::Lead(ticket) => lead(ticket),
        Join::Wait(fetch) => CacheStep::Wait(fetch),
    }
}

fn miss(slot: FetchSlot) -> ForwardReason {
    if slot.is_variant { ForwardReason::VaryMiss } else { ForwardReason::UriMiss }
}

/// What becomes of a stored response; the error says that a server is to be asked about it, why, and whether it is of use if that fails.
fn of_stored(
    stored: Arc<StoredResponse>,
    wants: &CacheWants,
    waited: Waited,
) -> Result<CacheStep, (Arc<StoredResponse>, ForwardReason, bool)> {
    let lifetime = stored.lifetime();
    let has_waited = matches!(waited, Waited::Done | Waited::Twice);
    let used = reuse(&lifetime, &wants.directives, wants.client, cache_now());
    let fresh = if has_waited { CacheResult::Collapsed } else { CacheResult::Hit };
    let answer = |result| StoredAnswer::new(Arc::clone(&stored), result);
    match used {
        Reuse::Fresh => answer(fresh).map(CacheStep::Answer).ok_or((stored, ForwardReason::Miss, false)),
        Reuse::Stale => {
            answer(CacheResult::Stale).map(CacheStep::Answer).ok_or((stored, ForwardReason::Stale, false))
        }
        // Whether the next version may be stored is decided with its request at hand.
        Reuse::StaleWhileRevalidate if !wants.refreshes_behind => Err((stored, ForwardReason::Stale, false)),
        Reuse::StaleWhileRevalidate => {
            let answer = answer(CacheResult::Stale);
            answer.map(CacheStep::AnswerAndRefresh).ok_or((stored, ForwardReason::Stale, false))
        }
        // One that another request has just fetched is as good as one that this request would fetch.
        Reuse::Revalidate { cause: RevalidateCause::Stale, .. } if has_waited => {
            answer(fresh).map(CacheStep::Answer).ok_or((stored, ForwardReason::Stale, false))
        }
        Reuse::Revalidate { cause, stale_on_error } => {
            let reason = match cause {
                RevalidateCause::Request => ForwardReason::Request,
                RevalidateCause::Stale | RevalidateCause::NoCache => ForwardReason::Stale,
            };
            Err((stored, reason, stale_on_error))
        }
    }
}

/// The request goes to a server.
fn begin(
    exchange: &mut Exchange,
    (RequestKey { key, applied, is_proven }, forwarded, task): (RequestKey, ForwardReason, CacheTask),
    (result, detail): (CacheResult, Option<&'static str>),
) {
    exchange.note_cache(result, detail);
    exchange.cache_use =
        Some(Box::new(CacheUse { key, applied, is_proven, forwarded, task, sent: cache_now() }));
}

async fn answered(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    answer: StoredAnswer,
) -> Result<Option<End>, Ended> {
    // No server has seen the request.
    context.exchange.record.upstream = None;
    context.exchange.note_cache(answer.result, None);
    let Some(route) = context.route() else { return Ok(Some(End::Done)) };
    send::stored_or_page(context, route, answer).await.map(Some)
}

/// Waits until the response that another request fetches begins.
async fn wait_for<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    mut wait: FetchWait,
    time: Duration,
) -> Result<FetchOutcome, Ended> {
    context.client.deadline.set(clock::now(), Some(time));
    let outcome = poll_fn(|cx| {
        if let Poll::Ready(outcome) = wait.poll(cx) {
            return Poll::Ready(Ok(outcome));
        }
        if let Some(cause) = context.stream.poll_gone(cx, context.client) {
            return Poll::Ready(Err(Failure::client(Phase::Route, cause)));
        }
        context.report(Activity::Cache);
        context.client.deadline.poll_passed().map(|()| {
            match context.client.deadline.cut_failure(Phase::Route) {
                Some(failure) => Err(failure),
                None if context.client.deadline.ends_with_ceiling() => {
                    Err(Failure::weir(Phase::Route, Cause::ExchangeTimedOut))
                }
                None => Ok(FetchOutcome::Failed),
            }
        })
    })
    .await
    .map_err(Ended::Failed)?;
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Route, now);
    Ok(outcome)
}
