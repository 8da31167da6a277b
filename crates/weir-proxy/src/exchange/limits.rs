//! Limits by key: whether a request may go on, now or after a while.
//!
//! Asked when the route and the upstream are known and nothing was sent yet. A request is under each limit once; when one refuses, what
//! the others have taken is given back, so that a refused request costs nothing. Must not answer.

use std::sync::Arc;
use std::time::Duration;

use weir_config::{TemplatePart, TemplateValue};
use weir_http::digits;
use weir_observe::{Cause, Failure, Phase};

use super::client::Client;
use super::client_end::ClientEnd;
use super::exchange_state::{Ended, Exchange};
use super::limited::RuleInForce;
use super::template::TemplateValues;
use super::{forwarded, pause};
use crate::net::clock;
use crate::relay::pace::BodyPace;
use crate::state::limit::{LimitAnswer, LimitHold, LimitInUse, LimitPlan};
use crate::state::snapshot::{ListenerPlan, RoutePlan};

/// Where keys are looked up.
#[derive(Clone, Copy)]
pub(super) struct KeyPlace<'a> {
    pub(super) listener: &'a ListenerPlan,
    pub(super) route: Option<&'a RoutePlan>,
}

/// Asks the limits: the longest wait that one of them wants, in nanoseconds.
///
/// # Errors
/// When one refuses the request.
pub(super) fn ask(
    client: &Client,
    stream: &impl ClientEnd,
    exchange: &mut Exchange,
    place: KeyPlace<'_>,
    limits: &[LimitInUse],
) -> Result<u64, Failure> {
    // What was asked for the request before stays taken.
    exchange.limited.asked.clear();
    exchange.limited.told.clear();
    let (mut longest_ns, mut pacing) = (0, Vec::new());
    for (index, limit) in limits.iter().enumerate() {
        if limit.upstream.is_some() && limit.upstream != exchange.record.upstream {
            continue;
        }
        let plan = &limit.plan;
        let Some(key) = key(client, stream, exchange, place, plan) else { continue };
        let shard = plan.state.shards.of(client.worker.index);
        let answer = plan.ask(key, client.now);
        let is_over = !matches!(answer, LimitAnswer::Pass { .. });
        match answer {
            LimitAnswer::Pass { wait_ns: 0 } => shard.passed.increment(),
            LimitAnswer::Pass { .. } if plan.config.dry_run => shard.excess.increment(),
            LimitAnswer::Pass { wait_ns } => {
                shard.delayed.increment();
                if wait_ns > longest_ns {
                    longest_ns = wait_ns;
                    exchange.limited.by = Some(RuleInForce::Limit(Arc::clone(plan)));
                }
            }
            _ if plan.config.dry_run => {
                shard.excess.increment();
                note(client, stream, exchange, place, plan, key);
            }
            refusal => {
                shard.refused.increment();
                note(client, stream, exchange, place, plan, key);
                return Err(refuse(exchange, limits, plan, refusal));
            }
        }
        if plan.is_held() {
            let has_place = plan.config.concurrent.is_some() && !is_over;
            exchange.limited.holds.push(LimitHold { plan: Arc::clone(plan), key, has_place });
        }
        if !is_over {
            exchange.limited.asked.push((index, key));
            if plan.tells() {
                exchange.limited.told.push((Arc::clone(plan), key));
            }
        }
        if plan.is_pacing() {
            pacing.push((Arc::clone(plan), key));
        }
    }
    if !pacing.is_empty() {
        exchange.response_relay.set_pace(BodyPace::new(pacing));
    }
    Ok(longest_ns)
}

/// The hash of what a limit counts the request by; `None`: nothing of it is there, so the limit does not hold.
#[inline]
fn key(
    client: &Client,
    stream: &impl ClientEnd,
    exchange: &mut Exchange,
    place: KeyPlace<'_>,
    plan: &LimitPlan,
) -> Option<u64> {
    if plan.config.is_by_address() {
        return Some(plan.hash_address(forwarded::client_address(client, exchange, place.listener)));
    }
    let mut text = std::mem::take(&mut exchange.limited.text);
    let has_value = write_key(client, stream, exchange, place, plan, (&mut text, false));
    let key = has_value.then(|| plan.hash(&text));
    exchange.limited.text = text;
    key
}

/// Bytes of a secret, such as a token, that operators see: enough to know which it is.
const SHOWN_OF_SECRETS: usize = 4;

/// Writes the text of a key; whether there is any. Where it is shown, secrets are cut.
fn write_key(
    client: &Client,
    stream: &impl ClientEnd,
    exchange: &Exchange,
    place: KeyPlace<'_>,
    plan: &LimitPlan,
    (out, is_shown): (&mut Vec<u8>, bool),
) -> bool {
    out.clear();
    let values = TemplateValues::of_request(client, stream, exchange, place.listener, place.route);
    let mut has_value = plan.config.key.literal().is_some();
    for part in plan.config.key.parts() {
        match part {
            TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
            TemplatePart::Value(value) => {
                let start = out.len();
                match value {
                    TemplateValue::ClientAddress => {
                        let address = forwarded::client_address(client, exchange, place.listener);
                        digits::address(out, plan.config.prefixes.network(address));
                    }
                    value => values.write_one(value, out),
                }
                has_value |= out.len() > start;
                if is_shown && value.is_secret() && out.len() > start + SHOWN_OF_SECRETS {
                    out.truncate(start + SHOWN_OF_SECRETS);
                    out.extend_from_slice(b"...");
                }
                // No value can end like another and begin like the next.
                out.push(0);
            }
        }
    }
    has_value
}

/// Keeps the text of a key that was refused, for operators.
#[cold]
fn note(
    client: &Client,
    stream: &impl ClientEnd,
    exchange: &mut Exchange,
    place: KeyPlace<'_>,
    plan: &LimitPlan,
    key: u64,
) {
    let mut text = std::mem::take(&mut exchange.limited.text);
    write_key(client, stream, exchange, place, plan, (&mut text, true));
    text.retain(|byte| *byte != 0);
    plan.note_refusal(client.worker.index, key, &text, client.now);
    exchange.limited.text = text;
}

/// The failure of a request that a limit refuses; gives back what the limits before it have taken.
#[cold]
fn refuse(
    exchange: &mut Exchange,
    limits: &[LimitInUse],
    plan: &Arc<LimitPlan>,
    refusal: LimitAnswer,
) -> Failure {
    for (index, key) in exchange.limited.asked.drain(..) {
        limits[index].plan.give_back_token(key);
    }
    let cause = match refusal {
        LimitAnswer::OverRate { retry_ns } => {
            let seconds = Duration::from_nanos(retry_ns).as_millis().div_ceil(1_000).max(1);
            exchange.retry_after = Some(u32::try_from(seconds).unwrap_or(u32::MAX));
            Cause::RateLimited
        }
        _ => Cause::ConcurrencyLimited,
    };
    exchange.limited.told.clear();
    // A limit by responses must not count its own refusals: a client that waits for the end of it would never see it.
    exchange.limited.holds.clear();
    // The upstream has not seen the request.
    exchange.record.upstream = None;
    exchange.limited.by = Some(RuleInForce::Limit(Arc::clone(plan)));
    exchange.limited.refusal = Some(refusal);
    Failure::weir(Phase::Route, cause)
}

/// Waits for the turn of the request.
///
/// # Errors
/// When too many wait, or the client leaves meanwhile.
pub(super) async fn wait(
    client: &mut Client,
    stream: &mut impl ClientEnd,
    exchange: &mut Exchange,
    limits: &[LimitInUse],
    wait_ns: u64,
) -> Result<(), Ended> {
    let Some(RuleInForce::Limit(plan)) = exchange.limited.by.clone() else { return Ok(()) };
    let Some(_turn) = plan.wait() else {
        plan.state.shards.of(client.worker.index).refused.increment();
        let refusal = LimitAnswer::OverRate { retry_ns: wait_ns };
        return Err(refuse(exchange, limits, &plan, refusal).into());
    };
    pause::hold(client, stream, exchange, Duration::from_nanos(wait_ns)).await?;
    client.now = clock::now();
    exchange.record.spend(Phase::Queue, client.now);
    Ok(())
}
