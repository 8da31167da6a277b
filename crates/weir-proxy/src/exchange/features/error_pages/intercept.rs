//! Pages of the config in place of responses of servers, where that is wanted of their status.

use std::future::poll_fn;
use std::task::Poll;

use weir_config::{ErrorPage, PageText};
use weir_observe::status_text;

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::phases::end::End;
use crate::exchange::phases::error_page::{body, format_for};
use crate::exchange::phases::{answer, finish, respond};
use crate::relay::Relay;
use crate::relay::memory::NullSink;
use crate::responder::Answer;
use crate::responder::error_page::{FetchedPage, PageValues, page_of};
use crate::upstream::stream::{ServerStream, Servers};

/// Fields of a server that a client needs to understand its status (RFC 9110 sections 11.6.1, 10.2.3 and 10.2.1).
const KEPT: [&str; 3] = ["WWW-Authenticate", "Retry-After", "Allow"];

/// Whether the response of the server has a status for which there are pages, and is to be replaced.
pub(in crate::exchange) fn is_wanted(exchange: &Exchange, plans: Plans<'_>) -> bool {
    let pages = &plans.route.config.error_pages;
    let is_for = |page: &ErrorPage| page.of_servers && page.is_for(exchange.response.status());
    // What a call of gRPC fails with is a matter of its own.
    !pages.is_empty() && exchange.grpc.is_none() && pages.iter().any(is_for)
}

/// The page of a file that is sent in place of the response of the server; `None` when there is none in this format.
pub(in crate::exchange) fn page<'a>(exchange: &Exchange, plans: Plans<'a>) -> Option<&'a PageText> {
    page_of(&plans.route.config.error_pages, exchange.response.status(), format_for(exchange))
}

/// A page in place of a response.
pub(in crate::exchange) enum InterceptPage<'a> {
    /// Of a file.
    Text(&'a PageText),
    /// Of another server.
    Fetched(FetchedPage),
}

/// Sends a page in place of the response of the server, of which the status and what explains it stay.
pub(in crate::exchange) async fn run<U: Servers>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut U,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    (mut serving, page): (RespondingServer<U::Stream>, InterceptPage<'_>),
) -> Result<End, Ended> {
    respond::account(client, exchange, plans, &serving);
    let status = exchange.response.status();
    let (fields, text) = (exchange.response.fields(), serving.server.head());
    let kept = KEPT.map(|name| fields.get_by_name(text, name).map(|field| field.value.of(text).to_vec()));
    let mut answer = Answer::new(status).with(b"Cache-Control", &b"no-store"[..]);
    answer = match page {
        InterceptPage::Fetched(page) => page.instead_of(answer),
        InterceptPage::Text(page) => {
            let format = format_for(exchange);
            let values = PageValues { status, detail: status_text(status), reason: "" };
            let place = (plans.listener, Some(plans.route));
            answer.body = body(client, stream, exchange, place, (page, format, values)).into();
            answer.with(b"Content-Type", format.content_type().as_bytes())
        }
    };
    for (name, value) in KEPT.iter().zip(kept) {
        if let Some(value) = value {
            answer = answer.with(name.as_bytes(), value);
        }
    }
    let is_read = read_out(client, exchange, plans, &mut serving).await;
    if is_read && exchange.request_relay.is_done() {
        finish::run(client, servers, exchange, plans, serving);
    } else {
        exchange.record.sent_to_server += serving.server.sent();
        servers.drop_stream(serving.server);
    }
    if !stream.discard_body(client) {
        stream.close_after();
    }
    answer::send(client, stream, exchange, &answer).await.map_err(Ended::Failed)?;
    Ok(End::Done)
}

/// Takes what is here of a body that the client does not get; whether that was all.
pub(in crate::exchange) async fn read_out<T: ServerStream>(
    client: &Client,
    exchange: &Exchange,
    plans: Plans<'_>,
    serving: &mut RespondingServer<T>,
) -> bool {
    let method = exchange.request.method();
    serving.server.begin_body(&exchange.response, method, plans.upstream.chunked_limits);
    serving.server.take_head();
    let (mut relay, stock) = (Relay::new(), &client.worker.stock);
    poll_fn(|cx| {
        let polled = serving.server.poll_response(cx, &mut relay, &mut NullSink, stock);
        Poll::Ready(matches!(polled, Poll::Ready(Ok(()))))
    })
    .await
}
