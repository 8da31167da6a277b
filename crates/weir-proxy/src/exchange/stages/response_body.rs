//! Stages response body and finish: the response is on its way to the client, and then the exchange is over.

use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::grpc;
use crate::exchange::features::{headers, mirror};
use crate::exchange::phases::end::End;
use crate::exchange::phases::{finish, respond};
use crate::upstream::stream::{ServerStream, Servers};

/// Relays the response as it comes, and has its body observed for a mirror.
///
/// # Errors
/// The failure that broke it off; part of the response may have reached the client.
pub(in crate::exchange) async fn relay<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    mut response: RespondingServer<U::Stream>,
) -> Result<End, Ended> {
    headers::response::begin(context, plans, &mut response);
    mirror::observe_bodies(context, plans);
    let relayed = respond::run(context, plans, &mut response).await;
    finish(context, plans, response, relayed)
}

/// Ends an exchange whose response was relayed, or broke off meanwhile.
///
/// # Errors
/// What broke it off.
#[inline(always)]
pub(in crate::exchange) fn finish<S, U: Servers>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    response: RespondingServer<U::Stream>,
    relayed: Result<(), Ended>,
) -> Result<End, Ended> {
    if let Err(ended) = relayed {
        grpc::break_off(context.exchange, plans, &response, ended);
        context.exchange.record.sent_to_server += response.server.sent();
        context.servers.drop_stream(response.server);
        return Err(ended);
    }
    if context.exchange.grpc.is_some() {
        grpc::finish(context.exchange, plans, &response);
    }
    finish::run(context, plans, response);
    Ok(End::Done)
}
