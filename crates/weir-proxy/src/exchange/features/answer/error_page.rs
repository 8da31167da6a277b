//! Pages of the config for failures.

use weir_config::{ErrorPage, PageText, WhenCondition};
use weir_http::FieldName;
use weir_observe::{Failure, ReplyFormat, choose_format};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::placeholders::TemplateValues;
use crate::responder::Answer;
use crate::responder::error_page::{FetchedPage, PageValues, page_of, render};
use crate::state::snapshot::RoutePlan;

/// The page of the config that a failure has, in place of `page`: that which was `fetched`, or one of a file; its fields stay.
pub(in crate::exchange) fn instead_of_own<'a, U>(
    context: &Context<'_, impl ClientEnd, U>,
    (failure, page): (Failure, Answer<'a>),
    fetched: Option<FetchedPage>,
) -> Answer<'a> {
    let route = context.route();
    let pages = route.map_or(&context.listener.config.error_pages, |route| &route.config.error_pages);
    let of_status = page.status;
    let values = TemplateValues { status: of_status, ..TemplateValues::new(context, route) };
    let found = find_page(pages, &values);
    let page = with_new_status(found, page);
    if let Some(fetched) = fetched {
        return fetched.instead_of(page);
    }
    let format = format_for(context.exchange);
    let Some(text) = found.and_then(|found| page_of(found, format)) else { return page };
    let values = PageValues { status: of_status, detail: failure.client_text(), reason: failure.reason() };
    let body = body(context, route, (text, format, values));
    Answer { body: body.into(), ..page }
}

/// A fixed response without a body, with the page of the config for its status: that which was `fetched`, or one of a file.
#[cold]
pub(in crate::exchange) fn for_fixed<'a, U>(
    context: &Context<'_, impl ClientEnd, U>,
    route: &RoutePlan,
    (answer, fetched): (Answer<'a>, Option<FetchedPage>),
) -> Answer<'a> {
    let of_status = answer.status;
    let values = TemplateValues { status: of_status, ..TemplateValues::new(context, Some(route)) };
    let found = find_page(&route.config.error_pages, &values);
    let answer = with_new_status(found, answer);
    if let Some(fetched) = fetched {
        return fetched.instead_of(answer);
    }
    let format = format_for(context.exchange);
    let Some(text) = found.and_then(|found| page_of(found, format)) else { return answer };
    let values = PageValues { status: of_status, detail: "", reason: "" };
    let body = body(context, Some(route), (text, format, values));
    let has_type = answer.field(b"Content-Type").is_some();
    let answer = Answer { body: body.into(), ..answer };
    if has_type { answer } else { answer.with(b"Content-Type", format.content_type().as_bytes()) }
}

/// The answer with the status that its page gives it in place of its own, unless that is a redirect.
pub(in crate::exchange) fn with_new_status<'a>(page: Option<&ErrorPage>, answer: Answer<'a>) -> Answer<'a> {
    match page.filter(|page| page.then.is_none()).and_then(|page| page.new_status) {
        Some(status) => Answer { status, ..answer },
        None => answer,
    }
}

/// The first entry for a status whose condition holds.
pub(in crate::exchange) fn find_page<'a>(
    pages: &'a [ErrorPage],
    values: &TemplateValues<'_>,
) -> Option<&'a ErrorPage> {
    let holds = |condition: &WhenCondition| condition.holds(values);
    pages.iter().find(|page| page.is_for(values.status) && page.when.as_ref().is_none_or(holds))
}

/// The format that the client prefers.
pub(in crate::exchange) fn format_for(exchange: &Exchange) -> ReplyFormat {
    let accept = exchange.request.fields().first(FieldName::Accept);
    choose_format(accept.map(|field| field.value.of(&exchange.request_text)))
}

pub(in crate::exchange) fn body<U>(
    context: &Context<'_, impl ClientEnd, U>,
    route: Option<&RoutePlan>,
    (page, format, values): (&PageText, ReplyFormat, PageValues<'_>),
) -> Vec<u8> {
    let of_exchange = TemplateValues::new(context, route);
    let of_exchange = TemplateValues { status: values.status, ..of_exchange };
    render(page, Some(format), values, |value, out| of_exchange.write_one(value, out))
}
