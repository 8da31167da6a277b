//! What features have to do in an attempt: handed in by those who make one, so that an attempt names no feature.

use weir_http::FieldWriter;
use weir_traffic::ServerId;

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::plans::Plans;
use crate::state::servers::upstream::outliers::AttemptOutcome;
use crate::upstream::stream::ServerStream;

/// Stage server chosen.
pub(in crate::exchange) trait AttemptFeatures {
    /// Prepares for the body of a call, from its first byte.
    fn begin_body(exchange: &mut Exchange);

    /// Stages the head of the request as the server `id` gets it.
    fn write_request<U>(
        server: &mut impl ServerStream,
        context: &mut Context<'_, impl ClientEnd, U>,
        plans: Plans<'_>,
        id: ServerId,
    );

    /// Adds the fields of an interim response (1xx but 101), of which `text` is the received head.
    fn write_interim(out: &mut impl FieldWriter, exchange: &Exchange, text: &[u8]);

    /// What the head of the response to a call says of the server; `None` when that is told at the end of the call.
    fn outcome_of_call(
        exchange: &mut Exchange,
        plans: Plans<'_>,
        server: &impl ServerStream,
    ) -> Option<AttemptOutcome>;
}
