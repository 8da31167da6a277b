//! The head of a request on its way to a server, with what the features of the route make of it.

use std::sync::Arc;

use weir_http::fastcgi::Params;
use weir_http::{FieldName, FieldWriter, Framing};
use weir_traffic::ServerId;

use super::rules::OutgoingFacts;
use super::{cgi, fields};
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::header_changes::has_values;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::features::{forwarded, grpc};
use crate::exchange::phases::attempt::features::AttemptFeatures;
use crate::exchange::phases::choose;
use crate::exchange::placeholders::TemplateValues;
use crate::state::servers::upstream::outliers::AttemptOutcome;
use crate::upstream::stream::{OutgoingFields, RequestLine, ServerStream};

/// All features, at the stage at which a server was chosen.
pub(in crate::exchange) struct AllFeatures;

impl AttemptFeatures for AllFeatures {
    fn begin_body(exchange: &mut Exchange) {
        grpc::web::begin_request_body(exchange);
    }

    #[inline(always)]
    fn write_request<U>(
        server: &mut impl ServerStream,
        context: &mut Context<'_, impl ClientEnd, U>,
        plans: Plans<'_>,
        id: ServerId,
    ) {
        write_request(server, context, plans, id);
    }

    fn write_interim(out: &mut impl FieldWriter, exchange: &Exchange, text: &[u8]) {
        fields::write_interim(out, exchange, text);
    }

    fn outcome_of_call(
        exchange: &mut Exchange,
        plans: Plans<'_>,
        server: &impl ServerStream,
    ) -> Option<AttemptOutcome> {
        grpc::outcome_of_head(exchange, plans, server)
    }
}

/// Stages the head of the request as the server gets it.
fn write_request<U>(
    server: &mut impl ServerStream,
    context: &mut Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
    id: ServerId,
) {
    if plans.route.changes_requests() && has_values(&plans.route.config.request_headers) {
        render_headers(context, plans, id);
    }
    forwarded::prepare(context, plans.config.snapshot.generation, plans.route.changes_requests());
    let exchange = &*context.exchange;
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let upgrade = choose::upgrade_wanted(request, text, plans.route);
    let key = upgrade.and_then(|_| request.fields().first(FieldName::SecWebsocketKey));
    let is_web = exchange.grpc.as_ref().is_some_and(|call| call.web.is_some());
    // A body that changes on its way has another length.
    let body = if exchange.request_relay.has_filter() { Framing::Delimited } else { request.body() };
    let head = RequestLine {
        method: request.method_span().of(text),
        target: fields::target(exchange),
        host: fields::host(exchange, plans, id),
        body,
        upgrade,
        needs_key: request.protocol().is_some() && key.is_none(),
        key: key.map(|key| key.value.of(text)),
        takes_trailers: is_web || fields::takes_trailers(exchange),
        close: plans.upstream.pool_limits.kept_max == 0,
        id: &exchange.record.request_id,
    };
    server.send(&head, &RequestFields { context, plans });
}

/// Makes the values of the headers that the server gets in addition.
#[cold]
fn render_headers<U>(context: &mut Context<'_, impl ClientEnd, U>, plans: Plans<'_>, server: ServerId) {
    let mut rendered = std::mem::take(&mut context.exchange.rendered_headers);
    let values = TemplateValues::for_attempt(context, plans, server);
    rendered.render(&plans.route.config.request_headers, &OutgoingFacts(values));
    context.exchange.rendered_headers = rendered;
}

/// The fields of the request as the server gets them.
struct RequestFields<'a, 'c, S, U> {
    context: &'a Context<'c, S, U>,
    plans: Plans<'a>,
}

impl<S: ClientEnd, U> OutgoingFields for RequestFields<'_, '_, S, U> {
    #[inline(always)]
    fn write(&self, out: &mut impl FieldWriter) {
        fields::write_request(out, self.context, self.plans);
    }

    fn write_params(&self, params: &mut Params) {
        cgi::write_params(params, self.context, self.plans);
    }

    fn caught(&self) -> Option<&Arc<[Box<str>]>> {
        self.plans.route.config.fastcgi.as_ref()?.caught.as_ref()
    }
}
