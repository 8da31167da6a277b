//! Stage response head: a server has begun its response, and the client has nothing of it. It passes, goes again to another server, or is taken.

use weir_config::{Feature, RowSet, Stage};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::outcome::{AttemptFailure, AttemptHistory, RespondingServer};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::error_pages::intercept::Replacement;
use crate::exchange::features::error_pages::{intercept, lead_on};
use crate::exchange::features::retries;
use crate::exchange::features::{buffering, cache, mirror};
use crate::exchange::phases::attempt_response::AttemptResponse;
use crate::exchange::phases::end::End;
use crate::exchange::rerouting::accel;
use crate::state::crashes::faults;
use crate::state::crashes::faults::FaultPoint;
use crate::upstream::stream::{ServerStream, Servers};

use super::response_body;

/// What an attempt has come to.
#[inline(always)]
pub(in crate::exchange) fn judge<S: ClientEnd, U: Servers>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    attempted: Result<RespondingServer<U::Stream>, AttemptFailure>,
) -> AttemptResponse<U::Stream> {
    match attempted {
        Ok(response) if goes_again(context, plans, history, &response) => {
            context.exchange.record.sent_to_server += response.server.sent();
            context.servers.drop_stream(response.server);
            AttemptResponse::GoesAgain
        }
        Ok(response) => AttemptResponse::Passes(response),
        Err(failed) => AttemptResponse::BrokenOff(failed),
    }
}

/// Whether the request goes to a server again in place of the response at hand.
#[inline(always)]
fn goes_again<T: ServerStream, S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    response: &RespondingServer<T>,
) -> bool {
    let exchange = &context.exchange;
    faults::strike(
        &context.client.worker.crash,
        &exchange.request,
        &exchange.request_text,
        FaultPoint::Response,
    );
    retries::after_handshake(context, plans, history, response)
        || retries::instead(context, plans, history, response)
        || context.exchange.cache_use.is_some()
            && (cache::response::wants_part_instead(context, plans, response)
                || cache::response::confirms_other_version(context, plans, response))
}

/// Takes the response, as far as the route wants that: to store it, to send a page instead, to free its server early, to compare it with that of
/// a mirror.
///
/// # Errors
/// The failure that broke it off.
pub(in crate::exchange) async fn take<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    outcome: AttemptResponse<U::Stream>,
) -> Result<AttemptResponse<U::Stream>, Ended> {
    let mut response = match outcome {
        AttemptResponse::Passes(response) if !context.exchange.switches_protocols() => response,
        outcome => return Ok(outcome),
    };
    let mut rows = plans.route.rows.and(const { RowSet::at(Stage::ResponseHead) });
    while let Some(row) = rows.take_first() {
        match row.feature {
            Feature::Accel => response = Box::pin(accel::obey(context, plans, response)).await?,
            Feature::Cache if context.exchange.cache_use.is_some() => {
                context.exchange.mirror = None;
                match cache::response::take(context, plans, response).await? {
                    AttemptResponse::Passes(passed) => response = passed,
                    other => return Ok(other),
                }
            }
            Feature::Mirror => mirror::note_head(context, plans, response.server.head()),
            // It is in place of a page already.
            Feature::ErrorPages if context.exchange.failed_page().is_some() => {}
            Feature::ErrorPages => match intercept::find(context, plans, &response).await {
                Replacement::None => {}
                Replacement::GoesOn(page, step) => {
                    let status = context.exchange.response.status();
                    if context.exchange.mirror.is_some() {
                        mirror::send(context, plans);
                    }
                    intercept::keep_explanation(context.exchange, step, response.server.head());
                    intercept::drop_response(context, plans, response).await;
                    lead_on::begin(context, (Some(plans.route), page, step), (status, None));
                    return Err(Ended::Rerouted);
                }
                Replacement::Missing => break,
                Replacement::Page(page) => {
                    let end = intercept::run(context, plans, (response, page)).await?;
                    return done(context, plans, end);
                }
            },
            Feature::Buffering
                if buffering::response::is_wanted(context.exchange, plans.route)
                    && !accel::forbids_buffering(context.exchange, plans.route, response.server.head()) =>
            {
                let end = buffering::response::run(context, plans, response).await?;
                return done(context, plans, end);
            }
            _ => {}
        }
    }
    if context.exchange.mirror.is_none() {
        return Ok(AttemptResponse::Passes(response));
    }
    let end = response_body::relay(context, plans, response).await?;
    done(context, plans, end)
}

/// The client has the response: copies of the request are sent.
fn done<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    end: End,
) -> Result<AttemptResponse<U::Stream>, Ended> {
    if context.exchange.mirror.is_some() {
        mirror::send(context, plans);
    }
    Ok(AttemptResponse::Done(end))
}
