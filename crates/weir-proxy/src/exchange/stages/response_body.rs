//! Phase Relay on routes where more happens to a response than that it is relayed: a page in its place, a response that is taken in, a copy of the
//! request for a mirror.

use weir_config::{PageText, RemotePage};

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::buffering::response;
use crate::exchange::features::error_pages::intercept;
use crate::exchange::features::error_pages::intercept::InterceptPage;
use crate::exchange::features::error_pages::remote_page;
use crate::exchange::features::error_pages::remote_page::PageScope;
use crate::exchange::features::mirror;
use crate::exchange::heads::grpc;
use crate::exchange::phases::end::End;
use crate::exchange::phases::{finish, respond};
use crate::upstream::stream::{ServerStream, Servers};

/// What happens to a response.
pub(in crate::exchange) enum ResponseAction<'a> {
    /// The client gets this page.
    Page(&'a PageText),
    /// The client gets this page of another server, if it can be fetched.
    RemotePage(&'a RemotePage),
    /// It is taken in as fast as it comes.
    Buffered,
    /// It is relayed, and its request copied.
    ExchangeMirror,
}

/// What happens to the response at hand; `None`: nothing but that it is relayed.
pub(in crate::exchange) fn wanted<'a>(exchange: &Exchange, plans: Plans<'a>) -> Option<ResponseAction<'a>> {
    if intercept::is_wanted(exchange, plans)
        && let Some(page) = page(exchange, plans)
    {
        return Some(page);
    }
    if response::is_wanted(exchange, plans.route) {
        return Some(ResponseAction::Buffered);
    }
    exchange.mirrored.is_some().then_some(ResponseAction::ExchangeMirror)
}

/// The page in place of the response.
#[cold]
fn page<'a>(exchange: &Exchange, plans: Plans<'a>) -> Option<ResponseAction<'a>> {
    let Plans { config, listener, route, .. } = plans;
    let scope = PageScope { config, listener, route: Some(route) };
    match scope.remote(exchange.response.status()) {
        Some(remote) => Some(ResponseAction::RemotePage(remote)),
        None => intercept::page(exchange, plans).map(ResponseAction::Page),
    }
}

/// Relays the response that `serving` has begun.
///
/// # Errors
/// The failure that broke it off; part of the response may have reached the client.
pub(in crate::exchange) async fn run<U: Servers>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut U,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    (serving, holding): (RespondingServer<U::Stream>, ResponseAction<'_>),
) -> Result<End, Ended> {
    if exchange.mirrored.is_some() {
        mirror::note_head(exchange, plans, serving.server.head());
    }
    let end = match holding {
        ResponseAction::Page(page) => {
            let page = InterceptPage::Text(page);
            intercept::run(client, stream, servers, exchange, plans, (serving, page)).await?
        }
        ResponseAction::RemotePage(remote) => {
            let Plans { config, listener, route, .. } = plans;
            let scope = PageScope { config, listener, route: Some(route) };
            let wanted = (remote, exchange.response.status());
            let fetched =
                Box::pin(remote_page::fetch(client, stream, servers, exchange, scope, wanted)).await;
            let page = match fetched {
                Some(page) => Some(InterceptPage::Fetched(page)),
                None => intercept::page(exchange, plans).map(InterceptPage::Text),
            };
            match page {
                Some(page) => {
                    intercept::run(client, stream, servers, exchange, plans, (serving, page)).await?
                }
                None => relay(client, stream, servers, exchange, plans, serving).await?,
            }
        }
        ResponseAction::Buffered => response::run(client, stream, servers, exchange, plans, serving).await?,
        ResponseAction::ExchangeMirror => relay(client, stream, servers, exchange, plans, serving).await?,
    };
    if exchange.mirrored.is_some() {
        mirror::send(client, stream, servers, exchange, plans);
    }
    Ok(end)
}

/// Relays it as it comes.
async fn relay<U: Servers>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut U,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    mut serving: RespondingServer<U::Stream>,
) -> Result<End, Ended> {
    respond::begin(client, stream, exchange, plans, &mut serving);
    mirror::observe_bodies(exchange, plans);
    let relayed = respond::relay(client, stream, exchange, plans, &mut serving).await;
    finish(client, servers, exchange, plans, serving, relayed)
}

/// Ends an exchange whose response was relayed, or broke off meanwhile.
///
/// # Errors
/// What broke it off.
#[inline(always)]
pub(in crate::exchange) fn finish<U: Servers>(
    client: &mut Client,
    servers: &mut U,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    serving: RespondingServer<U::Stream>,
    relayed: Result<(), Ended>,
) -> Result<End, Ended> {
    if let Err(ended) = relayed {
        grpc::break_off(exchange, plans, &serving, ended);
        exchange.record.sent_to_server += serving.server.sent();
        servers.drop_stream(serving.server);
        return Err(ended);
    }
    if exchange.grpc.is_some() {
        grpc::finish(exchange, plans, &serving);
    }
    finish::run(client, servers, exchange, plans, serving);
    Ok(End::Done)
}
