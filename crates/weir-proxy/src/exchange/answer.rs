//! Answers that Weir gives itself: failures, redirects and fixed responses.
//!
//! What the client reads says what it can do; what the log says is for the operator. Both name the same reason code.

use std::task::Poll;

use weir_config::{FixedResponse, HeaderChanges, Redirect, RedirectPart, RouteAction};
use weir_http::{FieldName, Method, ResponseBody, Version, write};
use weir_observe::{Cause, Failure, Page, Party, Phase, choose_format, status_text};

use super::fields::leave;
use super::{After, Ended, Exchange, fields, forwarded, trace};
use crate::downstream::session::Session;
use crate::relay::reframe::{Framing, Reader, Writer};
use crate::relay::{Sink as _, Source as _};
use crate::state::activity::Activity;
use crate::state::snapshot::RoutePlan;

/// What becomes of the fields of an answer that no route has a say in.
static UNCHANGED: HeaderChanges = HeaderChanges { remove: Vec::new(), set: Vec::new(), add: Vec::new() };

/// Answers with the page of a failure, or breaks the connection when that is all that is left to do.
pub(crate) async fn failure(session: &mut Session, exchange: &mut Exchange, failure: Failure) -> After {
    exchange.record.failure = Some(failure);
    session.deadline.set_ceiling(None);
    let mut told = failure;
    if exchange.answered {
        let broken = failure.party == Party::Server && matches!(failure.cause, Cause::Rule(_));
        if exchange.to_client.sent > 0 || !broken {
            return break_off(session, exchange, failure);
        }
        // The body broke a rule before any of its head has left: to the client, that is no different from a bad head.
        exchange.to_client.reset(super::MEMORY_KEPT_MAX);
        told.phase = Phase::Response;
    }
    if exchange.record.request_id.is_empty() {
        // Whoever is refused before the head could be read may ask why, too.
        let view = exchange.record.view(session);
        let listener = &view.snapshot.listeners[exchange.record.listener()];
        forwarded::make_late_request_id(session, exchange, listener);
        trace::begin_late(session, exchange, &view, failure.phase);
    }
    let Some(page) = Page::for_failure(told, &exchange.record.request_id) else {
        return After::Close;
    };
    let text = &exchange.request_text[..];
    let accept = exchange.request.fields().first(FieldName::Accept).map(|field| field.value.of(text));
    let format = choose_format(accept);
    let mut body = Vec::new();
    page.render(format, &mut body);
    let status = page.status;
    let ends = session.is_ending() || session.deadline.is_cut();
    if failure.party == Party::Client || !take_buffered_body(session, exchange) || ends {
        // What a client got wrong once leaves doubt about where its next request begins.
        exchange.keep_alive = false;
    }
    let mut out = std::mem::take(&mut exchange.to_client.staged);
    write_head(&mut out, session, exchange, status, &UNCHANGED);
    write::field(&mut out, b"Content-Type", format.content_type().as_bytes());
    write::field(&mut out, b"Cache-Control", b"no-store");
    write::field(&mut out, b"weir-reason", failure.reason().as_bytes());
    if let Some(seconds) = exchange.retry_after {
        write::decimal_field(&mut out, b"Retry-After", seconds.into());
    }
    write_body(&mut out, exchange, status, &body);
    exchange.to_client.staged = out;
    send(session, exchange, status).await.unwrap_or(After::Close)
}

/// Ends a response that is not whole: the client has what was received of it, and must not take that for the whole.
fn break_off(session: &Session, exchange: &Exchange, failure: Failure) -> After {
    if failure.party == Party::Client || session.deadline.is_cut() {
        return After::Abort;
    }
    let has_length = matches!(
        exchange.response.body(exchange.request.method()),
        ResponseBody::Length(_) | ResponseBody::None
    );
    let is_framed = has_length || exchange.to_client.framing == Framing::Chunked;
    if is_framed || session.client.tls.is_some() { After::CutShort } else { After::Reset }
}

/// Answers with what the route says: a redirect or a fixed response.
///
/// # Errors
/// When the client does not take the answer.
pub(crate) async fn from_config(
    session: &mut Session,
    exchange: &mut Exchange,
    route: &RoutePlan,
) -> Result<After, Ended> {
    if !take_buffered_body(session, exchange) {
        exchange.keep_alive = false;
    }
    let changes = &route.config.response_headers;
    let mut out = std::mem::take(&mut exchange.to_client.staged);
    let status = match &route.config.action {
        RouteAction::Redirect(redirect) => {
            write_head(&mut out, session, exchange, redirect.status, changes);
            if leave(changes, b"Location") {
                write_location(&mut out, exchange, redirect);
            }
            fields::write_changes(&mut out, changes);
            write_body(&mut out, exchange, redirect.status, b"");
            redirect.status
        }
        RouteAction::Respond(fixed) => {
            write_head(&mut out, session, exchange, fixed.status, changes);
            write_fixed(&mut out, fixed, changes);
            fields::write_changes(&mut out, changes);
            write_body(&mut out, exchange, fixed.status, fixed.body.as_bytes());
            fixed.status
        }
        RouteAction::Upstream(_) | RouteAction::Split(_) => {
            unreachable!("only routes without an upstream come here")
        }
    };
    exchange.to_client.staged = out;
    send(session, exchange, status).await.map_err(Ended::Failed)
}

/// Answers a TRACE or OPTIONS that may go no further (RFC 9110 section 7.6.2). TRACE is not reflected: it would show
/// what proxies before this one added.
///
/// # Errors
/// When the client does not take the answer.
pub(crate) async fn as_last_hop(session: &mut Session, exchange: &mut Exchange) -> Result<After, Ended> {
    if !take_buffered_body(session, exchange) {
        exchange.keep_alive = false;
    }
    let status = if exchange.request.method() == Method::Options { 200 } else { 405 };
    let mut out = std::mem::take(&mut exchange.to_client.staged);
    write_head(&mut out, session, exchange, status, &UNCHANGED);
    write::field(&mut out, b"Allow", b"GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
    write_body(&mut out, exchange, status, b"");
    exchange.to_client.staged = out;
    send(session, exchange, status).await.map_err(Ended::Failed)
}

/// Drops the part of the request body that is here already; `false` when more of it is still to come.
fn take_buffered_body(session: &mut Session, exchange: &mut Exchange) -> bool {
    let stock = &session.worker.stock;
    let mut source = Reader { connection: &mut session.client, incoming: &mut exchange.request_body, stock };
    loop {
        if source.decode().is_err() {
            return false;
        }
        let len = source.data().len();
        if len == 0 {
            return source.is_finished();
        }
        source.take(len);
    }
}

fn write_head(
    out: &mut Vec<u8>,
    session: &Session,
    exchange: &mut Exchange,
    status: u16,
    changes: &HeaderChanges,
) {
    write::status_line(out, Version::Http11, status, status_text(status).as_bytes());
    if leave(changes, b"Date") {
        write::field(out, b"Date", &session.worker.date());
    }
    fields::write_connection(out, exchange);
    let view = exchange.record.view(session);
    fields::write_id(out, exchange, &view.snapshot.listeners[exchange.record.listener()], changes);
}

fn write_location(out: &mut Vec<u8>, exchange: &Exchange, redirect: &Redirect) {
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    out.extend_from_slice(b"Location: ");
    for part in &redirect.to {
        match part {
            RedirectPart::Literal(literal) => out.extend_from_slice(literal.as_bytes()),
            RedirectPart::Host => out.extend_from_slice(request.host().of(text)),
            RedirectPart::Path => out.extend_from_slice(request.normal_path(text)),
            RedirectPart::Query => {
                if let Some(query) = request.query() {
                    out.push(b'?');
                    out.extend_from_slice(query.of(text));
                }
            }
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn write_fixed(out: &mut Vec<u8>, fixed: &FixedResponse, changes: &HeaderChanges) {
    if !fixed.body.is_empty() && leave(changes, b"Content-Type") {
        write::field(out, b"Content-Type", fixed.content_type.as_bytes());
    }
    for (name, value) in fixed.headers.iter().filter(|(name, _)| leave(changes, name.as_bytes())) {
        write::field(out, name.as_bytes(), value.as_bytes());
    }
}

/// Ends the head and appends the body, as far as status and method allow one (RFC 9110 section 6.4.1).
fn write_body(out: &mut Vec<u8>, exchange: &mut Exchange, status: u16, body: &[u8]) {
    exchange.record.own_body = Some(0);
    if status == 204 || status == 304 {
        return out.extend_from_slice(b"\r\n");
    }
    write::decimal_field(out, b"Content-Length", body.len() as u64);
    out.extend_from_slice(b"\r\n");
    if exchange.request.method() != Method::Head {
        out.extend_from_slice(body);
        exchange.record.own_body = Some(body.len() as u64);
    }
}

/// Sends what is staged.
async fn send(session: &mut Session, exchange: &mut Exchange, status: u16) -> Result<After, Failure> {
    exchange.record.status = status;
    exchange.answered = true;
    exchange.to_client.end(!exchange.keep_alive);
    let view = exchange.record.view(session);
    let listener = &view.snapshot.listeners[exchange.record.listener()];
    exchange.waits.begin(&listener.client_wait_limits());
    std::future::poll_fn(|cx| {
        loop {
            let mut sink = Writer { connection: &mut session.client, outgoing: &mut exchange.to_client };
            if !sink.is_waiting() {
                return Poll::Ready(Ok(()));
            }
            match sink.poll_write(cx, &[]) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(crate::relay::failure::of_response_body(&error)));
                }
                Poll::Pending => {
                    let sent = exchange.to_client.sent;
                    session.tell(Activity::ClientTakes, Some(exchange));
                    let over = exchange.waits.poll_over(&mut session.deadline, Activity::ClientTakes, sent);
                    return over.map(Err);
                }
            }
        }
    })
    .await?;
    Ok(if exchange.keep_alive { After::KeepAlive } else { After::Linger })
}
