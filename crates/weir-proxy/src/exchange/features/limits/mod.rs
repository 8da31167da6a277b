//! Limits by key: whether a request may go on, now or after a while.
//!
//! Asked when the route and the upstream are known and nothing was sent yet: each limit once, at the stage at which its key is known. When one refuses,
//! what the others have taken is given back, so that a refused request costs nothing. Must not answer.

pub(in crate::exchange) mod rule_key;

use std::sync::Arc;
use std::time::Duration;

use weir_config::{Feature, Stage, TemplatePart, TemplateValue, WhenCondition};
use weir_http::digits;
use weir_observe::{Cause, Failure, Phase};

use self::rule_key::RuleKey;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::exchange_limits::RuleInForce;
use crate::exchange::features::conditions;
use crate::exchange::phases::pause;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::relay::pace::BodyPace;
use crate::state::limits::limit::{LimitAnswer, LimitHold, LimitInUse, LimitPlan};
use crate::state::snapshot::RoutePlan;

/// Where keys are looked up.
#[derive(Clone, Copy)]
pub(in crate::exchange) struct KeyPlace<'a> {
    pub(in crate::exchange) route: Option<&'a RoutePlan>,
    /// What is known by now.
    pub(in crate::exchange) stage: Stage,
}

/// Keys of one request under one limit at most, where it has several values of what the limit is by.
const KEYS_MAX: usize = 8;

/// Asks the limits of a route whose keys are known from a stage on: the longest wait that one of them wants, in nanoseconds.
///
/// # Errors
/// When one refuses the request.
pub(in crate::exchange) fn ask<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    route: &RoutePlan,
    stage: Stage,
) -> Result<u64, Failure> {
    match &route.rules {
        Some(rules) => ask_all(context, KeyPlace { route: Some(route), stage }, &rules.limits),
        None => Ok(0),
    }
}

/// Asks those of these limits that are asked at a stage.
///
/// # Errors
/// As [`ask`].
pub(in crate::exchange) fn ask_all<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    place: KeyPlace<'_>,
    limits: &[LimitInUse],
) -> Result<u64, Failure> {
    context.exchange.limits.is_asked = true;
    acting::note(place.stage, Feature::Limits);
    let is_later = place.stage > Stage::Route;
    if !is_later {
        context.exchange.limits.asked.clear();
    }
    if !is_later && context.exchange.rerouting().is_none() {
        // What was asked for the request before stays taken.
        context.exchange.limits.told.clear();
        context.exchange.limits.paced.clear();
    }
    let (mut longest_ns, paced) = (0, context.exchange.limits.paced.len());
    for (index, limit) in limits.iter().enumerate() {
        let is_elsewhere = limit.upstream.is_some() && limit.upstream != context.exchange.record.upstream
            || context.exchange.has_asked(&limit.plan);
        if is_elsewhere || (limit.stage > Stage::Route) != is_later {
            continue;
        }
        let holds = |condition: &WhenCondition| {
            let values = TemplateValues::new(context, place.route);
            conditions::has_too_many(&values, condition) || condition.holds(&values)
        };
        if limit.plan.config.when.as_ref().is_some_and(|condition| !holds(condition)) {
            continue;
        }
        if limit.plan.config.is_by_address() {
            let address = context.client_address();
            let key = (limit.plan.hash_address(address), 0);
            longest_ns = ask_one(context, place, (limits, index, key), longest_ns)?;
            continue;
        }
        let mut keys = std::mem::take(&mut context.exchange.limits.keys);
        find_keys(context, place, &limit.plan, &mut keys);
        let asked = keys.iter().try_fold(longest_ns, |longest_ns, key| {
            ask_one(context, place, (limits, index, *key), longest_ns)
        });
        context.exchange.limits.keys = keys;
        longest_ns = asked?;
    }
    if context.exchange.limits.paced.len() > paced || context.exchange.rerouting().is_some() {
        set_pace(context.exchange, limits);
    }
    Ok(longest_ns)
}

/// Has the response sent no faster than the limits of the route allow. One that another route has asked already is among them, if both have it.
fn set_pace(exchange: &mut Exchange, limits: &[LimitInUse]) {
    let is_here = |plan: &Arc<LimitPlan>| limits.iter().any(|limit| Arc::ptr_eq(&limit.plan, plan));
    let paced = exchange.limits.paced.iter().filter(|(plan, _)| is_here(plan));
    let paced: Vec<_> = paced.cloned().collect();
    if !paced.is_empty() {
        exchange.response_relay.set_pace(BodyPace::new(paced));
    }
}

/// Asks the limit at `index` about one key, the text of which is at `place` among those of the request: the longest wait by now, in nanoseconds.
///
/// # Errors
/// When it refuses the request.
fn ask_one<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    place: KeyPlace<'_>,
    (limits, index, (key, text)): (&[LimitInUse], usize, (u64, usize)),
    mut longest_ns: u64,
) -> Result<u64, Failure> {
    let plan = &limits[index].plan;
    let shard = plan.state.shards.of(context.client.worker.index);
    let answer = plan.ask(key, context.client.now);
    let is_over = !matches!(answer, LimitAnswer::Pass { .. });
    match answer {
        LimitAnswer::Pass { wait_ns: 0 } => shard.passed.increment(),
        LimitAnswer::Pass { .. } if plan.config.dry_run => shard.excess.increment(),
        LimitAnswer::Pass { wait_ns } => {
            shard.delayed.increment();
            if wait_ns > longest_ns {
                longest_ns = wait_ns;
                context.exchange.limits.by = Some(RuleInForce::Limit(Arc::clone(plan)));
            }
        }
        _ if plan.config.dry_run => {
            shard.excess.increment();
            note(context, place, plan, (key, text));
        }
        refusal => {
            shard.refused.increment();
            note(context, place, plan, (key, text));
            return Err(refuse(context.exchange, limits, plan, refusal));
        }
    }
    if plan.is_held() {
        let has_place = plan.config.concurrent.is_some() && !is_over;
        context.exchange.limits.holds.push(LimitHold { plan: Arc::clone(plan), key, has_place });
    }
    if !is_over {
        context.exchange.limits.asked.push((Arc::clone(plan), key));
        let is_told = context.exchange.limits.told.iter().any(|(told, _)| Arc::ptr_eq(told, plan));
        if plan.tells() && !is_told {
            context.exchange.limits.told.push((Arc::clone(plan), key));
        }
    }
    if plan.is_pacing() {
        context.exchange.limits.paced.push((Arc::clone(plan), key));
    }
    Ok(longest_ns)
}

/// The hashes of what a limit counts the request by, each with the place of its text; none: nothing of it is there, so the limit does not hold. Every
/// value of a header that came in several lines counts, whichever a server believes; of more than [`KEYS_MAX`], the first ones and the last.
fn find_keys<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    place: KeyPlace<'_>,
    plan: &LimitPlan,
    keys: &mut Vec<(u64, usize)>,
) {
    keys.clear();
    let mut text = std::mem::take(&mut context.exchange.limits.text);
    let values = TemplateValues::new(context, place.route);
    let key = RuleKey::new(&values, &plan.config.key);
    let (first, last) = match key.count() {
        count if count <= KEYS_MAX => (count, None),
        count => (KEYS_MAX - 1, Some(count - 1)),
    };
    for place in (0..first).chain(last) {
        if write_key(&values, &key, place, plan, (&mut text, false)) {
            let hash = plan.hash(&text);
            if keys.iter().all(|(known, _)| *known != hash) {
                keys.push((hash, place));
            }
        }
    }
    context.exchange.limits.text = text;
}

/// Bytes of a secret, such as a token, that operators see: enough to know which it is.
const SHOWN_OF_SECRETS: usize = 4;

/// Writes the text of a key; whether there is any. Where it is shown, secrets are cut.
fn write_key(
    values: &TemplateValues<'_>,
    key: &RuleKey<'_>,
    place: usize,
    plan: &LimitPlan,
    (out, is_shown): (&mut Vec<u8>, bool),
) -> bool {
    out.clear();
    let mut has_value = plan.config.key.literal().is_some();
    key.for_each_part(place, |part, nth| match part {
        TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
        TemplatePart::Value(value) => {
            let start = out.len();
            match value {
                TemplateValue::ClientAddress => {
                    let address = values.client_address();
                    digits::address(out, plan.config.prefixes.network(address));
                }
                value => key.write_value(value, nth, out),
            }
            has_value |= out.len() > start;
            if is_shown && value.is_secret() && out.len() > start + SHOWN_OF_SECRETS {
                out.truncate(start + SHOWN_OF_SECRETS);
                out.extend_from_slice(b"...");
            }
            // No value can end like another and begin like the next.
            out.push(0);
        }
    });
    has_value
}

/// Keeps the text of a key that was refused, for operators.
#[cold]
fn note<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    place: KeyPlace<'_>,
    plan: &LimitPlan,
    (key, at): (u64, usize),
) {
    let mut text = std::mem::take(&mut context.exchange.limits.text);
    let values = TemplateValues::new(context, place.route);
    write_key(&values, &RuleKey::new(&values, &plan.config.key), at, plan, (&mut text, true));
    text.retain(|byte| *byte != 0);
    plan.note_refusal(context.client.worker.index, key, &text, context.client.now);
    context.exchange.limits.text = text;
}

/// The failure of a request that a limit refuses; gives back what the limits before it have taken.
#[cold]
fn refuse(
    exchange: &mut Exchange,
    limits: &[LimitInUse],
    plan: &Arc<LimitPlan>,
    refusal: LimitAnswer,
) -> Failure {
    for (asked, key) in exchange.limits.asked.drain(..) {
        asked.give_back_token(key);
    }
    let cause = match refusal {
        LimitAnswer::OverRate { retry_ns } => {
            let seconds = Duration::from_nanos(retry_ns).as_millis().div_ceil(1_000).max(1);
            exchange.retry_after = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
            Cause::RateLimited
        }
        _ => Cause::ConcurrencyLimited,
    };
    exchange.limits.told.clear();
    // A limit by responses must not count its own refusals: a client that waits for the end of it would never see it. What was taken on another
    // route stays taken, since it is not asked again.
    let mut holds = std::mem::take(&mut exchange.limits.holds);
    holds.retain(|hold| exchange.has_asked(&hold.plan));
    exchange.limits.holds = holds;
    // The upstream has not seen the request.
    exchange.record.upstream = None;
    let here = limits.iter().find(|one| Arc::ptr_eq(&one.plan, plan));
    exchange.limits.status = here.and_then(|one| one.status);
    exchange.limits.by = Some(RuleInForce::Limit(Arc::clone(plan)));
    exchange.limits.refusal = Some(refusal);
    Failure::weir(Phase::Route, cause)
}

/// Waits for the turn of the request.
///
/// # Errors
/// When too many wait, or the client leaves meanwhile.
pub(in crate::exchange) async fn wait<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    route: &RoutePlan,
    wait_ns: u64,
) -> Result<(), Ended> {
    let Some(RuleInForce::Limit(plan)) = context.exchange.limits.by.clone() else { return Ok(()) };
    let Some(_turn) = plan.wait() else {
        plan.state.shards.of(context.client.worker.index).refused.increment();
        let refusal = LimitAnswer::OverRate { retry_ns: wait_ns };
        let limits = route.rules.as_ref().map_or(&[][..], |rules| &rules.limits);
        return Err(refuse(context.exchange, limits, &plan, refusal).into());
    };
    pause::hold(context, Duration::from_nanos(wait_ns)).await?;
    context.client.now = clock::now();
    context.exchange.record.spend(Phase::Queue, context.client.now);
    Ok(())
}
