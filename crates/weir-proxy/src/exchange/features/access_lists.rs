//! What the listener and the route say of who makes a request: the lists that it is in.
//!
//! Asked twice where some of them are by the user: those whose keys are known from the request before anything is asked of the client, which bounds
//! what failed logins cost, the others once it is authenticated. Must not answer: a refusal is a failure like any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_config::{AccessList, Feature, ListAction, ListEntries, Stage, WhenCondition};
use weir_observe::{Cause, Failure, Phase};

use super::limits;
use super::limits::KeyPlace;
use super::limits::rule_key::RuleKey;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::exchange_limits::RuleInForce;
use crate::exchange::features::headers::placeholders::TemplateValues;
use crate::exchange::phases::pause;
use crate::state::snapshot::{ListInUse, RequestRules, RoutePlan};

/// Requests that wait for a refusal that is put off, in all workers.
const TARPITTED_MAX: u32 = 1_000;

static TARPITTED: AtomicU32 = AtomicU32::new(0);

/// Texts of the key of one list at most: combinations of headers, cookies or parameters that a request has several times.
const KEY_TEXTS_MAX: usize = 256;

/// What lists say of a request.
pub(in crate::exchange) enum ListVerdict<'a> {
    /// Nothing, or nothing yet.
    Open,
    /// It passes, and limits do not hold for it.
    Allowed,
    /// Its refusal by this list is put off.
    Tarpit(&'a Arc<AccessList>),
}

/// Looks a request up in the lists whose keys are known at a stage.
///
/// # Errors
/// When it is refused at once.
pub(in crate::exchange) fn ask<'a, U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    route: &'a RoutePlan,
    stage: Stage,
) -> Result<ListVerdict<'a>, Ended> {
    let Some(rules) = &route.rules else { return Ok(ListVerdict::Open) };
    match decide(context, KeyPlace { route: Some(route), stage }, &rules.lists) {
        Some(list) if list.action == ListAction::Allow => Ok(ListVerdict::Allowed),
        Some(list) if list.action == ListAction::Tarpit => Ok(ListVerdict::Tarpit(list)),
        Some(list) => Err(refuse(context.exchange, list).into()),
        None => Ok(ListVerdict::Open),
    }
}

/// Puts a refusal off: why the exchange ends then, or has ended meanwhile.
pub(in crate::exchange) async fn put_off<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    list: &Arc<AccessList>,
) -> Ended {
    if let Some(_place) = Tarpitted::enter()
        && let Err(ended) = pause::hold(context, list.delay).await
    {
        return ended;
    }
    refuse(context.exchange, list).into()
}

/// The same for a request that no route takes, without waiting.
///
/// # Errors
/// When it is refused.
#[cold]
pub(in crate::exchange) fn pass_without_route<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    rules: &RequestRules,
) -> Result<(), Failure> {
    let place = KeyPlace { route: None, stage: Stage::Route };
    // Its client will never be authenticated: no list of a later stage can allow it.
    let at_last = KeyPlace { stage: rules.last, ..place };
    match decide(context, at_last, &rules.lists) {
        Some(list) if list.action == ListAction::Allow => Ok(()),
        Some(list) => Err(refuse(context.exchange, list)),
        None => limits::ask_all(context, place, &rules.limits).map(|_wait_ns| ()),
    }
}

/// The list that decides about a request: that with the most specific entry, of equal ones the first. Notes the tag of the first that has one.
///
/// A refusal is left open as long as a list of a later stage may have an entry that goes before it and allows the request.
fn decide<'a, U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    place: KeyPlace<'_>,
    lists: &'a [ListInUse],
) -> Option<&'a Arc<AccessList>> {
    context.exchange.limits.is_asked = true;
    acting::note(place.stage, Feature::AccessLists);
    context.exchange.limits.tag.clear();
    let mut decides: Option<(u8, usize)> = None;
    for (at, ListInUse { list, .. }) in lists.iter().enumerate().filter(|(_, one)| one.stage <= place.stage) {
        let holds = |condition: &WhenCondition| condition.holds(&TemplateValues::new(context, place.route));
        if list.when.as_ref().is_some_and(|condition| !holds(condition)) {
            continue;
        }
        let mut text = std::mem::take(&mut context.exchange.limits.text);
        let found = match list.entries {
            ListEntries::Networks(_) => list.find_address(context.client_address()),
            ListEntries::All => list.find_text(b""),
            ListEntries::Texts(_) => {
                let values = TemplateValues::new(context, place.route);
                find_text(list, &values, &mut text)
            }
        };
        if let Some((bits, tag)) = found {
            match list.action {
                ListAction::Tag if context.exchange.limits.tag.is_empty() => {
                    context.exchange.limits.tag.extend_from_slice(tag.as_bytes());
                }
                ListAction::Tag => {}
                _ if decides.is_none_or(|(known, _)| bits > known) => decides = Some((bits, at)),
                _ => {}
            }
        }
        context.exchange.limits.text = text;
    }
    let (bits, at) = decides?;
    let list = &lists[at].list;
    let may_allow = |(later, one): (usize, &ListInUse)| {
        one.stage > place.stage
            && one.list.action == ListAction::Allow
            && (bits < AccessList::WHOLE_KEY_BITS || later < at)
    };
    let is_open = list.action != ListAction::Allow && lists.iter().enumerate().any(may_allow);
    (!is_open).then_some(list)
}

/// The entry of a request in a list of texts. Of a key with several texts, since a header came in several lines, one is enough for a refusal, and an
/// `allow` wants all of them: no line hides another. A request with more of them than are looked up is refused where it may be in the list.
fn find_text<'a>(
    list: &'a AccessList,
    values: &TemplateValues<'_>,
    text: &mut Vec<u8>,
) -> Option<(u8, &'a str)> {
    let key = RuleKey::new(values, &list.key);
    if key.count() > KEY_TEXTS_MAX {
        let refuses = matches!(list.action, ListAction::Deny | ListAction::Tarpit);
        return refuses.then_some((AccessList::WHOLE_KEY_BITS, ""));
    }
    let mut found = (0..key.count()).map(|place| {
        key.write(place, text);
        list.find_text(text)
    });
    match list.action {
        ListAction::Allow => found.try_fold(None, |_, one| one.map(Some)).flatten(),
        ListAction::Deny | ListAction::Tarpit | ListAction::Tag => found.find_map(|one| one),
    }
}

#[cold]
fn refuse(exchange: &mut Exchange, list: &Arc<AccessList>) -> Failure {
    // The upstream has not seen the request.
    exchange.record.upstream = None;
    exchange.limits.by = Some(RuleInForce::List(Arc::clone(list)));
    Failure::weir(Phase::Route, Cause::AccessDenied)
}

/// A request whose refusal is put off, until this is dropped.
struct Tarpitted;

impl Tarpitted {
    /// `None`: there are as many as there may be.
    fn enter() -> Option<Self> {
        let more = |count: u32| (count < TARPITTED_MAX).then_some(count + 1);
        TARPITTED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Tarpitted {
    fn drop(&mut self) {
        TARPITTED.fetch_sub(1, Ordering::Relaxed);
    }
}
