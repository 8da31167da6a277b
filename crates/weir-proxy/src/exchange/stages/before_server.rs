//! Stages route, after authentication and before a server: what a route has for a request that it takes, before a server gets it.
//!
//! Walks the rows of the route. Most act at once; the rest of the walk is a future of its own from the first row on that has to wait.

use std::pin::Pin;
use std::sync::Arc;

use weir_config::{AccessList, Feature, RowSet, Stage};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::plans::MatchedRoute;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::access_lists::ListVerdict;
use crate::exchange::features::answer;
use crate::exchange::features::error_pages::{lead_on, remote_page};
use crate::exchange::features::{access_lists, authentication, cache, files, limits, mirror, tables};
use crate::exchange::phases::end::{EarlyEnd, End};
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;

/// What a request waits for.
enum RowWait<'a> {
    /// Its refusal by this list is put off.
    Tarpit(&'a Arc<AccessList>),
    /// It is ahead of the rate of a limit by so many nanoseconds.
    Rate(u64),
    /// The work of this feature.
    Work(Feature),
}

/// Passes the rows that act at once. What is left of the walk, when one has to wait: the end of the exchange when one of these has the answer.
///
/// What waits is on the heap, since it is large and most routes have none of it.
///
/// # Errors
/// When the request is refused.
#[inline(never)]
pub(in crate::exchange) fn pass<'a>(
    context: &'a mut Context<'_, impl ClientStream, impl Servers>,
    matched: MatchedRoute<'a>,
) -> Result<Option<Pin<Box<impl Future<Output = EarlyEnd>>>>, Ended> {
    let mut rows = matched.route.ahead;
    let wait = advance(context, matched, &mut rows)?;
    Ok(wait.map(|wait| Box::pin(walk(context, matched, rows, wait))))
}

/// Passes the rows up to a stage, for a request that goes no further.
///
/// # Errors
/// When the request is refused, or the client leaves meanwhile.
pub(in crate::exchange) async fn pass_until(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    matched: MatchedRoute<'_>,
    last: Stage,
) -> EarlyEnd {
    let mut rows = matched.route.ahead.and(RowSet::between(Stage::Route, last));
    match advance(context, matched, &mut rows)? {
        Some(wait) => walk(context, matched, rows, wait).await,
        None => Ok(None),
    }
}

/// Walks on from a row that waits.
///
/// # Errors
/// When the request is refused, or the client leaves meanwhile.
async fn walk<'a>(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    matched: MatchedRoute<'a>,
    mut rows: RowSet,
    mut wait: RowWait<'a>,
) -> EarlyEnd {
    loop {
        let end = match wait {
            RowWait::Tarpit(list) => return Err(Box::pin(access_lists::put_off(context, list)).await),
            RowWait::Rate(ns) => Box::pin(limits::wait(context, matched.route, ns)).await.map(|()| None),
            RowWait::Work(Feature::Authentication) => {
                Box::pin(authentication::admit(context, matched.route)).await
            }
            RowWait::Work(Feature::Files) => Box::pin(files::answer(context, matched.route)).await,
            RowWait::Work(Feature::Cache) => Box::pin(cache::lookup::pass(context, matched)).await,
            RowWait::Work(_) => Ok(None),
        };
        if let Some(end) = end? {
            return Ok(Some(end));
        }
        match advance(context, matched, &mut rows)? {
            Some(next) => wait = next,
            None => return Ok(None),
        }
    }
}

/// Passes the rows that act at once, up to one that has to wait.
///
/// # Errors
/// When the request is refused.
fn advance<'a, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    matched: MatchedRoute<'a>,
    rows: &mut RowSet,
) -> Result<Option<RowWait<'a>>, Ended> {
    while let Some(row) = rows.take_first() {
        match row.feature {
            Feature::Headers => {
                if let Some(stripped) =
                    context.listener.stripped_trailers_on(matched.target, context.client.peer)
                {
                    context.stream.strip_trailers(stripped);
                    acting::note(Stage::Route, Feature::Headers);
                }
            }
            Feature::Tables => {
                if let Some(rules) = &matched.route.rules {
                    tables::track(context, (Some(matched.route), rules), row.stage);
                }
            }
            Feature::AccessLists => match access_lists::ask(context, matched.route, row.stage)? {
                ListVerdict::Open => {}
                ListVerdict::Allowed => *rows = rows.without(RowSet::row(row.stage, Feature::Limits)),
                ListVerdict::Tarpit(list) => return Ok(Some(RowWait::Tarpit(list))),
            },
            Feature::Limits => match limits::ask(context, matched.route, row.stage)? {
                0 => {}
                ns => return Ok(Some(RowWait::Rate(ns))),
            },
            Feature::Mirror => mirror::begin(context, matched.target),
            feature => return Ok(Some(RowWait::Work(feature))),
        }
    }
    Ok(None)
}

/// The same for a connection of TCP, which has tables, lists and limits alone.
///
/// # Errors
/// When it is refused, or the client leaves meanwhile.
pub(in crate::exchange) async fn pass_connection<U>(
    context: &mut Context<'_, impl ClientEnd, U>,
    route: &RoutePlan,
) -> Result<(), Ended> {
    if let Some(rules) = route.rules.as_ref().filter(|rules| !rules.tables.is_empty()) {
        tables::track(context, (Some(route), rules), Stage::Route);
    }
    match access_lists::ask(context, route, Stage::Route)? {
        ListVerdict::Allowed => return Ok(()),
        ListVerdict::Tarpit(list) => return Err(Box::pin(access_lists::put_off(context, list)).await),
        ListVerdict::Open => {}
    }
    match limits::ask(context, route, Stage::Route)? {
        0 => Ok(()),
        ns => Box::pin(limits::wait(context, route, ns)).await,
    }
}

/// Answers a request whose route has no upstream: with the page of its status, where another server has one.
///
/// # Errors
/// The failure of the client, or a refusal.
pub(in crate::exchange) async fn answer(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    route: &RoutePlan,
) -> Result<End, Ended> {
    let status = answer::status_with_page(context.exchange, route);
    if let Some(status) = status
        && let Some((page, step)) =
            lead_on::step_for(context, (Some(route), &route.config.error_pages), status)
        && lead_on::is_possible(context, step)
    {
        lead_on::begin(context, (context.route(), page, step), (status, None));
        return Err(Ended::Rerouted);
    }
    let fetched = match status {
        Some(status) => Box::pin(remote_page::for_fixed(context, (route, status))).await,
        None => None,
    };
    answer::without_server(context, (route, fetched)).await
}
