//! Stage response fields: the head of a response of a server is staged for the client.

use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::conditions;
use crate::exchange::features::headers::response;
use crate::exchange::phases::end::End;
use crate::exchange::phases::upgrade;
use crate::upstream::stream::ServerStream;

pub(in crate::exchange) use response::begin;

/// Stages the head of a response that switches protocols, and turns the exchange into a tunnel.
///
/// # Errors
/// When the client does not take the head.
pub(in crate::exchange) async fn switch<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    mut responding: RespondingServer<T>,
) -> Result<End, Ended> {
    response::begin_tunnel(context, plans, &mut responding);
    // A tunnel keeps its record and little else: whether it has a line is decided as it begins.
    conditions::ask_at_end(context);
    upgrade::run(context, plans, responding).await
}
