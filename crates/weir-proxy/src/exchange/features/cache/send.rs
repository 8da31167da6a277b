//! A stored response on its way to a client: the whole of it, parts, or the word that the client has it already.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use weir_config::{Feature, ResponseOrigin, Stage};

use weir_cache::rules::{CacheOutcome, ForwardReason, Lifetime, is_not_modified, write_cache_status};
use weir_cache::store::{BodyReader, StoredResponse};
use weir_cache::{CacheTime, HeadView, StoredHead};
use weir_http::{
    ByteRange, FieldName, FieldSet, FieldWriter, Framing, Method, RangeSelection, Validators, parse_date,
    select_ranges,
};
use weir_observe::{CacheResult, Failure, Phase, status_text};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::cache_use::STATUS;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::header_changes::has_values;
use crate::exchange::exchange_state::response::body_coding::BodyCoding;
use crate::exchange::exchange_state::response::kept_fields::KeptFields;
use crate::exchange::exchange_state::response::response_outline::{ReceivedFields, ResponseOutline};
use crate::exchange::exchange_state::response::rewritten_fields;
use crate::exchange::exchange_state::stream::{ClientStream, Content, FinalHead, Status};
use crate::exchange::features::error_pages::stored as page_of_stored;
use crate::exchange::features::headers::fields;
use crate::exchange::features::headers::rewriting;
use crate::exchange::features::headers::rules::IncomingFacts;
use crate::exchange::features::{compression, cors};
use crate::exchange::phases::end::End;
use crate::exchange::phases::pacing;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::relay::WaitingFor;
use crate::relay::ends::Source;
use crate::relay::failure::of_response_body;
use crate::relay::memory::MemoryBody;
use crate::relay::stored::{StoredBody, StoredParts};
use crate::responder::ranges::{RangeBody, multipart_type, select};
use crate::state::caching::cache::cache_now;
use crate::state::connections::activity::Activity;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::upstream::stream::Servers;

/// A stored response that a client gets, and how that came about.
pub(in crate::exchange) struct StoredAnswer {
    pub(in crate::exchange) stored: Arc<StoredResponse>,
    /// Reads its body from the beginning.
    pub(in crate::exchange) reader: BodyReader,
    /// Its fields, when they are others than those that are stored.
    pub(in crate::exchange) other_head: Option<(StoredHead, Lifetime)>,
    pub(in crate::exchange) result: CacheResult,
    /// Why a server was asked, and what it said if that is not what is sent.
    pub(in crate::exchange) forwarded: Option<(ForwardReason, Option<u16>)>,
    /// Whether it has been stored by this request.
    pub(in crate::exchange) is_new: bool,
}

impl StoredAnswer {
    /// `None` when its body can no longer be read from the beginning.
    pub(in crate::exchange) fn new(stored: Arc<StoredResponse>, result: CacheResult) -> Option<Self> {
        let reader = stored.read_from(0)?;
        Some(Self { stored, reader, other_head: None, result, forwarded: None, is_new: false })
    }

    fn head(&self) -> HeadView<'_> {
        self.other_head.as_ref().map_or_else(|| self.stored.head().view(), |(head, _)| head.view())
    }

    fn lifetime(&self) -> Lifetime {
        self.other_head.as_ref().map_or_else(|| self.stored.lifetime(), |(_, lifetime)| *lifetime)
    }
}

/// What of it the client gets.
struct Selected {
    /// Reads the one part of a body that is still coming.
    growing: Option<(ByteRange, BodyReader)>,
    status: u16,
    body: RangeBody,
    content_range: Option<Vec<u8>>,
    /// The `Content-Type` of several parts.
    content_type: Option<Vec<u8>>,
}

/// Sends it, or what the error pages of the route have in place of it.
///
/// # Errors
/// When the request goes on elsewhere, and as [`stored`].
pub(in crate::exchange) async fn stored_or_page(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    route: &RoutePlan,
    answer: StoredAnswer,
) -> Result<End, Ended> {
    if route.config.error_pages.iter().any(|page| page.of_servers) {
        let response = (answer.stored.status(), answer.head());
        if let Some(end) = Box::pin(page_of_stored::replace(context, route, response)).await? {
            return Ok(end);
        }
    }
    stored(context, answer).await.map_err(Ended::Failed)?;
    Ok(End::Done)
}

/// Sends it.
///
/// # Errors
/// When the client does not take it, or the server behind a body that is still coming fails.
pub(in crate::exchange) async fn stored<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    mut answer: StoredAnswer,
) -> Result<(), Failure> {
    if !context.stream.discard_body(context.client) {
        context.stream.close_after();
    }
    let Some(route) = context.route() else { return Ok(()) };
    let selected = select_part(context.exchange, route, &answer, context.client.worker.random());
    stage_head(context, route, &answer, &selected);
    let (stored, reader) = (&answer.stored, &mut answer.reader);
    match selected.body {
        RangeBody::None => send_body(context, stored, MemoryBody(b"")).await,
        _ if context.exchange.request.method() == Method::Head => {
            send_body(context, stored, MemoryBody(b"")).await
        }
        RangeBody::Whole => send_body(context, stored, StoredBody::new(reader)).await,
        RangeBody::Parts(pieces, _) => {
            let parts = match selected.growing {
                Some((range, part_reader)) => {
                    // The one at the beginning would keep what is before the part.
                    drop(answer.reader);
                    StoredParts::one(stored, range, part_reader)
                }
                None => StoredParts::new(stored, pieces),
            };
            send_body(context, stored, parts).await
        }
    }?;
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Relay, now);
    if let Some(cache) = &route.cache {
        cache
            .plan
            .state
            .shards
            .of(context.client.worker.index)
            .bytes_sent
            .add(context.exchange.response_relay.taken());
    }
    Ok(())
}

/// What the request asks for of it (RFC 9111 section 4.3.2, RFC 9110 section 14).
fn select_part(exchange: &Exchange, route: &RoutePlan, answer: &StoredAnswer, boundary: u64) -> Selected {
    let whole = |status| Selected {
        growing: None,
        status,
        body: RangeBody::Whole,
        content_range: None,
        content_type: None,
    };
    let (stored, head, request) = (&answer.stored, answer.head(), exchange.request_for_cache());
    // In place of an error page, all of it is for the failure.
    let shown = exchange.status_of_answer(stored.status());
    if shown != stored.status() || stored.status() != 200 {
        return whole(shown);
    }
    if is_not_modified(200, head, answer.lifetime().received, request) {
        return Selected { body: RangeBody::None, ..whole(304) };
    }
    let range = request.first("range").filter(|_| exchange.request.method() == Method::Get);
    // A body that is rewritten has no parts: which bytes they would be is known behind it only.
    let range = range.filter(|_| route.config.rewrite_body.is_none() && route.config.max_ranges > 0);
    let Some((range, len)) = range.zip(stored.body_len()) else { return whole(200) };
    let modified = head.first("last-modified").and_then(parse_date);
    let etag = head.first("etag").unwrap_or_default();
    let validators = Validators { etag, modified: modified.unwrap_or(u64::MAX) };
    if !validators.allow_range(request.fields, request.text) {
        return whole(200);
    }
    let ranges = select_ranges(range, len, route.config.max_ranges);
    let mut growing = None;
    if stored.body().len().is_none() {
        // Of a body that is still coming, one part is waited for; of several, what was before the last may be gone.
        match &ranges {
            RangeSelection::One(range) => match stored.read_from(range.start) {
                Some(reader) => growing = Some((*range, reader)),
                None => return whole(200),
            },
            RangeSelection::Several(_) => return whole(200),
            RangeSelection::Whole | RangeSelection::Unsatisfiable => {}
        }
    }
    let media_type = head.first("content-type").unwrap_or(b"application/octet-stream");
    let (status, body, content_range) = select(len, media_type, &ranges, boundary);
    let is_multipart = matches!(ranges, RangeSelection::Several(_));
    let content_type = is_multipart.then(|| multipart_type(boundary));
    Selected { growing, status, body, content_range, content_type }
}

fn stage_head<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    route: &RoutePlan,
    answer: &StoredAnswer,
    selected: &Selected,
) {
    let (head, status, now) = (answer.head(), selected.status, cache_now());
    let (framed, length) = body_length(context.exchange.request.method(), answer, selected);
    context.exchange.response_relay.restart();
    context.exchange.body_coding = BodyCoding::AsItIs;
    context.exchange.limit_rate_as_kept();
    let content_type = selected.content_type.as_deref().or_else(|| head.first("content-type"));
    let kept = context.exchange.kept_fields(status, content_type);
    let stored_fields = ReceivedFields { fields: head.fields, text: head.text, kept };
    let (framed, length) = match rewriting::body::is_wanted(route) {
        false => (framed, length),
        true => {
            let outline = ResponseOutline::new(status, context.exchange.request.method(), framed, length);
            let coding =
                rewriting::body::begin(context, (&context.config.snapshot, route), outline, &stored_fields);
            (coding.framing_for(framed), length.filter(|_| !coding.replaces_length()))
        }
    };
    let changes = &route.config.response_headers;
    if has_values(changes) {
        let mut rendered = std::mem::take(&mut context.exchange.rendered_headers);
        let values = TemplateValues::new(context, Some(route));
        let values = TemplateValues { response: Some((head.fields, head.text)), status, ..values };
        let origin = match answer.result {
            CacheResult::Miss => ResponseOrigin::Server,
            _ => ResponseOrigin::Cache,
        };
        // The `Content-Type` of parts says nothing of what they are parts of.
        let (fields, age) = (&stored_fields, age_of(answer, now));
        rendered.render(changes, &IncomingFacts { values, origin, fields, media_type: None, age });
        context.exchange.rendered_headers = rendered;
    }
    if rewritten_fields::is_wanted(route) {
        rewriting::fields::prepare(context, route, (status, head.fields, head.text), |_, _| false);
    }
    let response = FinalHead {
        status: Status { code: status, reason: status_text(status).as_bytes() },
        content: Content::Body(framed, length),
        is_early: false,
        text: b"",
    };
    context.stream.respond(context.client, context.exchange, &response, |out| {
        copy_fields(out, (context.exchange, context.listener, route), (head, &stored_fields.kept), selected);
        let changes = fields::changes_of_response(context.exchange, route);
        if !head.contains("date") && changes.leave(b"Date") {
            out.field(b"Date", &context.client.worker.date(clock::now()));
        }
        fields::write_id(out, context.exchange, context.listener, changes);
        context.exchange.limits.write_levels(out, changes);
        stored_fields.kept.write(out, changes);
        if rewritten_fields::is_wanted(route) {
            rewritten_fields::write(out, &context.exchange.rewritten_fields, changes);
        }
        compression::write(out, context.exchange, &stored_fields, changes);
        if let Some(cors) = &route.config.cors {
            cors::write(out, cors, context.exchange);
        }
        write_age_and_status(out, context.exchange, route, answer, now);
        fields::write_changes_of_response(out, changes, |_| true);
    });
    context.exchange.record.is_own_answer = true;
    context.exchange.record.status = status;
    context.exchange.answered = true;
    context.exchange.waits.begin(&context.listener.client_wait_limits());
}

/// How the body is delimited as it is sent, and the length that the head tells.
fn body_length(method: Method, answer: &StoredAnswer, selected: &Selected) -> (Framing, Option<u64>) {
    let (framing, len) = match &selected.body {
        RangeBody::None => (Framing::None, (selected.status == 416).then_some(0)),
        RangeBody::Whole if matches!(selected.status, 204 | 205 | 304) => (Framing::None, None),
        RangeBody::Whole => match answer.stored.body_len() {
            Some(len) => (Framing::Length(len), Some(len)),
            None => (Framing::Delimited, None),
        },
        RangeBody::Parts(_, len) => (Framing::Length(*len), Some(*len)),
    };
    (framing.in_response(method, selected.status), len)
}

/// Fields about a body, which a head without one does not have (RFC 9110 section 15.4.5).
const OF_BODY: FieldSet =
    FieldSet::new(&[FieldName::ContentType, FieldName::ContentEncoding, FieldName::LastModified]);

/// Copies the fields that are stored.
fn copy_fields(
    out: &mut impl FieldWriter,
    (exchange, listener, route): (&Exchange, &ListenerPlan, &RoutePlan),
    (head, kept): (HeadView<'_>, &KeptFields),
    selected: &Selected,
) {
    let changes = fields::changes_of_response(exchange, route);
    let id = listener.id_of_responses();
    let has_etag = head.contains("etag");
    let rewrites = rewritten_fields::is_wanted(route);
    let is_rewritten = |name: &[u8]| rewrites && rewritten_fields::is_rewritten(route, name);
    for field in head.fields {
        let name = field.name.of(head.text);
        let is_left_out = match selected.status {
            304 => OF_BODY.contains(field.known) && (has_etag || field.known != FieldName::LastModified),
            416 => field.known == FieldName::ContentType,
            _ => field.known == FieldName::ContentType && selected.content_type.is_some(),
        };
        let is_left_out =
            is_left_out || route.config.max_ranges == 0 && name.eq_ignore_ascii_case(b"accept-ranges");
        // Files of former versions may have what is for the proxy.
        let passes = !is_left_out
            && !FieldSet::FOR_PROXY.contains(field.known)
            && !kept.replaces(name)
            && !changes.is_changed_away(name)
            && !compression::is_replaced(exchange.body_coding, name)
            && !id.is_some_and(|id| name.eq_ignore_ascii_case(id))
            && !is_rewritten(name)
            && (route.config.cors.is_none() || !cors::is_of_protocol(name));
        if passes {
            out.field(name, field.value.of(head.text));
        }
    }
    if let Some(content_type) = &selected.content_type {
        out.field(b"Content-Type", content_type);
    }
    if let Some(content_range) = &selected.content_range {
        out.field(b"Content-Range", content_range);
    }
}

/// The `Age` that clients get; `None` for a response that has come from the server just now.
fn shown_age(answer: &StoredAnswer, now: CacheTime) -> Option<u64> {
    let lifetime = answer.lifetime();
    let is_from_server = answer.is_new && lifetime.initial_age_ms < 1_000;
    (!is_from_server).then(|| lifetime.age(now))
}

/// How old the response is to clients.
fn age_of(answer: &StoredAnswer, now: CacheTime) -> Duration {
    Duration::from_secs(shown_age(answer, now).unwrap_or(0))
}

/// `Age` (RFC 9111 section 5.1) and `Cache-Status` (RFC 9211).
fn write_age_and_status(
    out: &mut impl FieldWriter,
    exchange: &Exchange,
    route: &RoutePlan,
    answer: &StoredAnswer,
    now: CacheTime,
) {
    let (changes, lifetime) = (fields::changes_of_response(exchange, route), answer.lifetime());
    acting::note(Stage::ResponseFields, Feature::Cache);
    if let Some(age) = shown_age(answer, now).filter(|_| changes.leave(b"Age")) {
        out.decimal_field(b"Age", age);
    }
    if !changes.leave(STATUS) {
        return;
    }
    let outcome = CacheOutcome {
        forwarded: answer.forwarded.map(|(reason, _)| reason),
        forward_status: answer.forwarded.and_then(|(_, status)| status),
        ttl: Some(lifetime.ttl(now)),
        is_stored: answer.is_new,
        is_collapsed: answer.result == CacheResult::Collapsed,
        detail: exchange.record.cache_detail,
        ..CacheOutcome::default()
    };
    out.field_with(STATUS, |value| write_cache_status(value, &outcome));
}

async fn send_body<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    stored: &StoredResponse,
    mut source: impl Source,
) -> Result<(), Failure> {
    poll_fn(|cx| {
        match context.exchange.response_relay.poll(cx, &mut source, &mut context.stream.reply()) {
            Poll::Ready(outcome) => return Poll::Ready(outcome.map_err(|error| of_response_body(&error))),
            Poll::Pending => {}
        }
        let (awaited, moved) = match context.exchange.response_relay.waiting {
            WaitingFor::Turn => return pacing::poll_turn(cx, context).map(Err),
            WaitingFor::Sink => (Activity::ClientTakes, context.stream.taken()),
            WaitingFor::Source => {
                if let Some(cause) = context.stream.poll_reset(cx, context.client) {
                    return Poll::Ready(Err(Failure::client(Phase::Relay, cause)));
                }
                // While a part is waited for, what comes before it is progress, too.
                (Activity::ResponseBody, context.exchange.response_relay.taken() + stored.body().grown())
            }
        };
        context.report(awaited);
        context.poll_over(awaited, moved).map(Err)
    })
    .await
}
