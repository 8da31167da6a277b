//! What the listener and the route say of who makes a request: the lists that it is in.
//!
//! Asked twice where some of them are by the user: those whose keys are known from the request before anything is asked of the client, which bounds
//! what failed logins cost, the others once it is authenticated. Must not answer: a refusal is a failure like any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use weir_config::{AccessList, Feature, ListAction, ListEntries, Satisfy, Stage, WhenCondition};
use weir_observe::{Cause, Failure, Phase};

use super::limits;
use super::limits::KeyPlace;
use super::limits::rule_key::RuleKey;
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::exchange_limits::{ListOpinion, RuleInForce};
use crate::exchange::features::conditions;
use crate::exchange::phases::pause;
use crate::exchange::placeholders::TemplateValues;
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
    let place = KeyPlace { route: Some(route), stage };
    if route.config.access.as_ref().is_some_and(|access| access.satisfy == Satisfy::Any) {
        return ask_for_opinion(context, place, &rules.lists);
    }
    match decide(context, place, &rules.lists, Stage::RequestHead) {
        Some(list) if list.action == ListAction::Allow => Ok(ListVerdict::Allowed),
        Some(list) if list.action == ListAction::Tarpit => Ok(ListVerdict::Tarpit(list)),
        Some(list) => Err(refuse(context.exchange, list).into()),
        None => Ok(ListVerdict::Open),
    }
}

/// The same where authentication is the alternative: a refusal before it is an opinion, which [`admits`] and [`tarpit_of`] ask for. Lists by the user
/// are asked behind it, and refuse in any case.
///
/// # Errors
/// When it is refused at once.
#[cold]
fn ask_for_opinion<'a, U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    place: KeyPlace<'_>,
    lists: &'a [ListInUse],
) -> Result<ListVerdict<'a>, Ended> {
    let is_before = place.stage < Stage::Identity;
    let decisive = if is_before { Stage::RequestHead } else { Stage::Identity };
    let list = decide(context, place, lists, decisive);
    if is_before {
        let is_allowed = list.is_some_and(|list| list.action == ListAction::Allow);
        let route = context.exchange.record.route;
        context.exchange.limits.alternative = route.map(|route| {
            let refused_by = list.filter(|_| !is_allowed).cloned();
            ListOpinion { route, is_allowed, refused_by }
        });
        return Ok(if is_allowed { ListVerdict::Allowed } else { ListVerdict::Open });
    }
    match list {
        Some(list) if list.action == ListAction::Allow => Ok(ListVerdict::Allowed),
        Some(list) if list.action == ListAction::Tarpit => Ok(ListVerdict::Tarpit(list)),
        Some(list) => Err(refuse(context.exchange, list).into()),
        None if admits(context.exchange) => Ok(ListVerdict::Allowed),
        None => Ok(ListVerdict::Open),
    }
}

/// Whether a list of the route of a request lets it in without authentication.
pub(in crate::exchange) fn admits(exchange: &Exchange) -> bool {
    let opinion = exchange.limits.alternative.as_ref();
    opinion.is_some_and(|opinion| opinion.is_allowed && Some(opinion.route) == exchange.record.route)
}

/// The list that has put off the refusal of a request which authentication has refused as well.
pub(in crate::exchange) fn tarpit_of(exchange: &Exchange) -> Option<Arc<AccessList>> {
    let list = exchange.limits.alternative.as_ref()?.refused_by.clone()?;
    (list.action == ListAction::Tarpit).then_some(list)
}

/// Authentication has admitted the request: what its lists have said against it is over.
pub(in crate::exchange) fn overrule(exchange: &mut Exchange) {
    if exchange.limits.is_asked()
        && let Some(opinion) = &mut exchange.limits.alternative
    {
        opinion.refused_by = None;
    }
}

/// Waits as long as a list puts its refusals off, unless the request has waited already, on its way to an error page: why the exchange has ended
/// meanwhile.
pub(in crate::exchange) async fn delay<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    list: &AccessList,
) -> Result<(), Ended> {
    if std::mem::replace(&mut context.exchange.limits.is_put_off, true) {
        return Ok(());
    }
    match Tarpitted::enter() {
        Some(_place) => pause::hold(context, list.delay).await,
        None => Ok(()),
    }
}

/// Puts a refusal off: why the exchange ends then, or has ended meanwhile.
pub(in crate::exchange) async fn put_off<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    list: &Arc<AccessList>,
) -> Ended {
    match delay(context, list).await {
        Ok(()) => refuse(context.exchange, list).into(),
        Err(ended) => ended,
    }
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
    match decide(context, at_last, &rules.lists, Stage::RequestHead) {
        Some(list) if list.action == ListAction::Allow => Ok(()),
        Some(list) => Err(refuse(context.exchange, list)),
        None => limits::ask_all(context, place, &rules.limits).map(|_wait_ns| ()),
    }
}

/// The list that decides about a request, of those asked at `decisive` or later: that with the most specific entry, of equal ones the first. Notes the tag of the first that has one.
///
/// A refusal is left open as long as a list of a later stage may have an entry that goes before it and allows the request.
fn decide<'a, U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    place: KeyPlace<'_>,
    lists: &'a [ListInUse],
    decisive: Stage,
) -> Option<&'a Arc<AccessList>> {
    context.exchange.limits.is_asked = true;
    acting::note(place.stage, Feature::AccessLists);
    context.exchange.limits.tag.clear();
    let mut decides: Option<(u8, usize)> = None;
    // Those that tag come first, wherever they stand: others may ask for the tag.
    let in_order = [true, false].into_iter().flat_map(|tags| {
        let lists = lists.iter().enumerate();
        lists.filter(move |(_, one)| (one.list.action == ListAction::Tag) == tags)
    });
    for (at, ListInUse { list, stage }) in in_order.filter(|(_, one)| one.stage <= place.stage) {
        if list.when.as_ref().is_some_and(|condition| !holds(context, place, (list.action, condition))) {
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
                _ if *stage < decisive => {}
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

/// Whether the condition of a list holds. Of a request with more texts of a map or a variable than are looked at, one that refuses does, and others do not.
fn holds<U>(
    context: &Context<'_, impl ClientEnd, U>,
    place: KeyPlace<'_>,
    (action, condition): (ListAction, &WhenCondition),
) -> bool {
    let values = TemplateValues::new(context, place.route);
    match conditions::has_too_many(&values, condition) {
        true => action.refuses(),
        false => condition.holds(&values),
    }
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
        return list.action.refuses().then_some((AccessList::WHOLE_KEY_BITS, ""));
    }
    let mut found = (0..key.count()).map(|place| {
        key.write(place, text);
        list.find_text(text)
    });
    match list.action {
        ListAction::Allow => found.try_fold(None, |_, one| one.map(Some)).flatten(),
        ListAction::Deny | ListAction::Tarpit | ListAction::Close | ListAction::Tag => {
            found.find_map(|one| one)
        }
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
