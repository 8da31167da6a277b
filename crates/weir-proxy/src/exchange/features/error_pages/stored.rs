//! Pages of the config in place of stored responses: what is stored is the response of the server, and each client that it is for gets the page of
//! its own request.

use weir_cache::HeadView;
use weir_config::{ErrorPage, ErrorStep, Feature, Stage};

use super::intercept::{InterceptPage, answer_of, explaining_fields, keep_explaining};
use super::remote_page::PageScope;
use super::{lead_on, remote_page};
use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Ended;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer;
use crate::exchange::features::answer::error_page::{find_page, format_for};
use crate::exchange::phases::end::End;
use crate::exchange::placeholders::TemplateValues;
use crate::responder::error_page::page_of;
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;

/// The entry for a stored response, if such responses of servers are replaced. What is in place of a page already is not.
fn wanted_page<'a, U>(
    context: &Context<'_, impl ClientEnd, U>,
    route: &'a RoutePlan,
    (status, head): (u16, HeadView<'_>),
) -> Option<&'a ErrorPage> {
    let pages = &route.config.error_pages;
    if !pages.iter().any(|page| page.of_servers && page.is_for(status))
        || context.exchange.failed_page().is_some()
    {
        return None;
    }
    let values = TemplateValues::new(context, Some(route));
    find_page(pages, &TemplateValues { response: Some((head.fields, head.text)), status, ..values })
}

/// Whether there is something in place of a stored response.
pub(in crate::exchange) fn is_wanted<U>(
    context: &Context<'_, impl ClientEnd, U>,
    route: &RoutePlan,
    response: (u16, HeadView<'_>),
) -> bool {
    wanted_page(context, route, response).is_some()
}

/// Sends what is wanted in place of a stored response; `None`: the response passes.
///
/// # Errors
/// When the request goes on elsewhere, or the client does not take the page.
pub(in crate::exchange) async fn replace(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    route: &RoutePlan,
    (status, head): (u16, HeadView<'_>),
) -> Result<Option<End>, Ended> {
    let Some(entry) = wanted_page(context, route, (status, head)) else { return Ok(None) };
    acting::note(Stage::ResponseHead, Feature::ErrorPages);
    let explaining = explaining_fields(head.fields, head.text);
    if let Some(step) = &entry.then {
        // A request that is answered from the store has no body.
        if !lead_on::is_possible(context, step) {
            return Ok(None);
        }
        return go_on(context, route, (entry, step, status), &explaining).map(Some);
    }
    let text = page_of(entry, format_for(context.exchange)).map(InterceptPage::Text);
    let fetched = match &entry.remote {
        None => None,
        Some(remote) => {
            let scope = PageScope { config: context.config, listener: context.listener, route: Some(route) };
            Box::pin(remote_page::fetch(context, scope, (remote, status))).await
        }
    };
    let Some(page) = fetched.map(InterceptPage::Fetched).or(text) else { return Ok(None) };
    let answer = answer_of(context, route, (Some(entry), page, status), explaining);
    if !context.stream.discard_body(context.client) {
        context.stream.close_after();
    }
    answer::send(context, &answer).await.map_err(Ended::Failed)?;
    Ok(Some(End::Done))
}

/// The request goes on elsewhere.
fn go_on<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    route: &RoutePlan,
    (entry, step, status): (&ErrorPage, &ErrorStep, u16),
    explaining: &[(&'static [u8], Vec<u8>)],
) -> Result<End, Ended> {
    keep_explaining(context.exchange, step, explaining);
    lead_on::begin(context, (Some(route), entry, step), (status, None));
    Err(Ended::Rerouted)
}
