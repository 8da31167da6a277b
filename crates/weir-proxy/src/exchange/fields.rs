//! Which fields pass, which stop here, and which Weir adds (RFC 9110 section 7.6).
//!
//! Heads are written anew from the parsed spans: runs of lines that pass are copied as they stand, everything about
//! framing and connection is Weir's own. Must not read or write a socket.

use weir_config::{ForwardHost, HeaderChanges};
use weir_http::{
    Expectation, Field, FieldName, FieldSet, Fields, Method, RequestBody, ResponseBody, TargetForm, Version,
    write,
};

use weir_traffic::ServerId;

use super::attempt::Plans;
use super::{Exchange, choose, forwarded, persistence, trace};
use crate::downstream::session::Session;
use crate::relay::reframe::Framing;
use crate::state::pool::ServerConnection;
use crate::state::snapshot::{ListenerPlan, RoutePlan};

/// What decides whether a field line passes.
struct Filter<'a> {
    drop: FieldSet,
    /// Asked for every field; costs more than the set, so absent when there is nothing to ask.
    also_drop: Option<&'a dyn Fn(&Field) -> bool>,
    /// Those that pass in other words.
    replace: Option<Replacement<'a>>,
}

/// A field that is not copied but written anew.
#[derive(Clone, Copy)]
struct Replacement<'a> {
    name: FieldName,
    write: &'a dyn Fn(&mut Vec<u8>, &Field),
}

/// Appends the field lines of `text` that pass, neighbours in one copy.
fn copy_fields(out: &mut Vec<u8>, text: &[u8], fields: &Fields, filter: &Filter<'_>) {
    let replaced = filter.replace.map_or(FieldSet::EMPTY, |replacement| FieldSet::of(&[replacement.name]));
    let not_copied = filter.drop.with(replaced);
    let is_dropped =
        |field: &Field| filter.drop.contains(field.known) || filter.also_drop.is_some_and(|drop| drop(field));
    let mut run_start = None;
    for field in fields.as_slice() {
        let passes =
            !not_copied.contains(field.known) && filter.also_drop.is_none_or(|also_drop| !also_drop(field));
        match (passes, run_start) {
            (true, None) => run_start = Some(field.name.start as usize),
            (false, Some(start)) => {
                out.extend_from_slice(&text[start..field.name.start as usize]);
                run_start = None;
            }
            _ => {}
        }
        if replaced.contains(field.known)
            && let Some(replacement) = filter.replace
            && !is_dropped(field)
        {
            (replacement.write)(out, field);
        }
    }
    if let Some(start) = run_start {
        // Everything up to the empty line that ends the head.
        out.extend_from_slice(&text[start..text.len() - b"\r\n".len()]);
    }
}

/// Whether the changes of a route take this field out.
fn is_changed_away(changes: &HeaderChanges, name: &[u8]) -> bool {
    let named = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    changes.remove.iter().any(|other| named(other)) || changes.set.iter().any(|(other, _)| named(other))
}

/// Whether the changes of a route leave a line of this name that Weir itself writes.
#[inline]
pub(super) fn leave(changes: &HeaderChanges, name: &[u8]) -> bool {
    changes.is_empty() || !is_changed_away(changes, name)
}

/// Appends what a route sets and adds.
pub(crate) fn write_changes(out: &mut Vec<u8>, changes: &HeaderChanges) {
    for (name, value) in changes.set.iter().chain(&changes.add) {
        write::field(out, name.as_bytes(), value.as_bytes());
    }
}

/// Stages the head of the request as `server` gets it on `connection`.
pub(crate) fn write_request(
    session: &Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    server: ServerId,
    connection: &ServerConnection,
) {
    let Plans { listener, route, upstream, .. } = plans;
    let server_host = &upstream.config.servers[server.index()].name;
    let close = upstream.pool_limits.kept_max == 0 && !connection.is_private;
    let changes = &route.config.request_headers;
    let mut out = std::mem::take(&mut exchange.to_server.staged);
    write_request_line(&mut out, exchange);
    write_host(&mut out, exchange, &route.config.forward_host, server_host);
    copy_request_fields(&mut out, session, exchange, plans);
    forwarded::write(&mut out, session, exchange, listener, changes);
    forwarded::write_certificate(&mut out, session, listener);
    trace::write(&mut out, exchange, changes);
    write_request_framing(&mut out, exchange);
    if let Some(left) = exchange.request.max_forwards(&exchange.request_text)
        && leave(changes, b"Max-Forwards")
    {
        write::decimal_field(&mut out, b"Max-Forwards", left.saturating_sub(1));
    }
    write_request_connection(&mut out, exchange, route, close);
    write_changes(&mut out, changes);
    out.extend_from_slice(b"\r\n");
    exchange.to_server.staged = out;
}

fn write_request_line(out: &mut Vec<u8>, exchange: &Exchange) {
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    out.extend_from_slice(request.method_span().of(text));
    out.push(b' ');
    if !exchange.rewritten.is_empty() {
        out.extend_from_slice(&exchange.rewritten);
    } else if asks_about_server(exchange) {
        // RFC 9112 section 3.2.4: OPTIONS of an absolute target without a path becomes the asterisk form.
        out.push(b'*');
    } else if request.target_form() == TargetForm::Absolute {
        // A server is not a proxy: it gets the origin form (RFC 9112 section 3.2.1).
        out.extend_from_slice(request.path().of(text));
        if let Some(query) = request.query() {
            out.push(b'?');
            out.extend_from_slice(query.of(text));
        }
    } else {
        out.extend_from_slice(request.target().of(text));
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// `OPTIONS http://host`: a question about the server, not about its root.
fn asks_about_server(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    request.method() == Method::Options
        && request.target_form() == TargetForm::Absolute
        && request.target().end() == request.authority().end()
}

fn write_host(out: &mut Vec<u8>, exchange: &Exchange, policy: &ForwardHost, server_host: &str) {
    if exchange.request.target_form() == TargetForm::Authority {
        return write::field(out, b"Host", exchange.request.authority().of(&exchange.request_text));
    }
    let kept = exchange.request.authority().of(&exchange.request_text);
    let host = match policy {
        ForwardHost::Literal(host) => host.as_bytes(),
        ForwardHost::Server => server_host.as_bytes(),
        // An HTTP/1.0 client may have named no host, but an HTTP/1.1 request must.
        ForwardHost::Keep if kept.is_empty() && exchange.request.version() == Version::Http10 => {
            server_host.as_bytes()
        }
        ForwardHost::Keep => kept,
    };
    out.extend_from_slice(b"Host: ");
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\n");
}

fn copy_request_fields(out: &mut Vec<u8>, session: &Session, exchange: &Exchange, plans: Plans<'_>) {
    let Plans { listener, route, upstream, .. } = plans;
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let mut drop = listener.request_drop.with(exchange.record.trace.stripped);
    if !listener.trusts(session.peer) {
        drop = drop.with(FieldSet::REQUEST_ORIGIN);
    }
    // A client that announces a body of no bytes and asks all the same may wait for the answer; the server gives it or not.
    let announces_body =
        request.body() != RequestBody::None || request.fields().contains(FieldName::ContentLength);
    if request.expectation() != Expectation::Continue || !announces_body {
        drop = drop.with(FieldSet::of(&[FieldName::Expect]));
    }
    if request.max_forwards(text).is_some() {
        drop = drop.with(FieldSet::of(&[FieldName::MaxForwards]));
    }
    let changes = &route.config.request_headers;
    let others = request.connection().others();
    // Most heads have an underscore somewhere, in a cookie or in the target: only then each name is looked at.
    let underscores = !listener.config.allow.underscore_names && memchr::memchr(b'_', text).is_some();
    let own_id = listener.own_id_header();
    let stripped = listener.stripped(session.peer);
    let also_drop = |field: &Field| {
        let name = field.name.of(text);
        (underscores && name.contains(&b'_'))
            || (others && request.is_named_by_connection(text, field))
            || own_id.is_some_and(|id| name.eq_ignore_ascii_case(id))
            || stripped.is_some_and(|stripped| stripped.covers(name))
            || is_changed_away(changes, name)
    };
    let ask = underscores || others || own_id.is_some() || stripped.is_some() || !changes.is_empty();
    let changing = upstream.persistence.as_ref().filter(|persistence| persistence.changes_requests());
    let write_cookie = |out: &mut Vec<u8>, field: &Field| {
        if let Some(persistence) = changing {
            persistence::write_cookie(out, persistence, text, field);
        }
    };
    let replace = changing.map(|_| Replacement { name: FieldName::Cookie, write: &write_cookie });
    copy_fields(out, text, request.fields(), &Filter { drop, also_drop: ask.then_some(&also_drop), replace });
}

fn write_request_framing(out: &mut Vec<u8>, exchange: &Exchange) {
    match exchange.request.body() {
        RequestBody::Length(len) => write::decimal_field(out, b"Content-Length", len),
        RequestBody::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        RequestBody::None if exchange.request.fields().contains(FieldName::ContentLength) => {
            out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        RequestBody::None => {}
    }
}

fn write_request_connection(out: &mut Vec<u8>, exchange: &Exchange, route: &RoutePlan, close: bool) {
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    if let Some(protocol) = choose::upgrade_wanted(request, text, route) {
        write::field(out, b"Connection", b"Upgrade");
        write::field(out, b"Upgrade", protocol);
        return;
    }
    // RFC 9110 section 10.1.4: of TE only `trailers` may be passed on, and Connection has to name it.
    let trailers = request.fields().all(FieldName::Te).any(|field| {
        let value = field.value.of(text);
        value.split(|&byte| byte == b',').any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
    });
    if trailers {
        out.extend_from_slice(b"TE: trailers\r\n");
    }
    match (trailers, close) {
        (true, true) => out.extend_from_slice(b"Connection: TE, close\r\n"),
        (true, false) => out.extend_from_slice(b"Connection: TE\r\n"),
        (false, true) => out.extend_from_slice(b"Connection: close\r\n"),
        (false, false) => {}
    }
}

/// The status that asks for another protocol.
const UPGRADE_REQUIRED: u16 = 426;

/// Stages the head of an interim response (1xx but 101) as the client gets it.
pub(crate) fn write_interim(exchange: &mut Exchange, text: &[u8]) {
    let response = &exchange.response;
    let out = &mut exchange.to_client.staged;
    write::status_line(out, Version::Http11, response.status(), response.reason().of(text));
    let also_drop = |field: &Field| response.is_named_by_connection(text, field);
    let ask = response.connection().others();
    let filter = Filter { drop: FieldSet::RESPONSE_HOP, also_drop: ask.then_some(&also_drop), replace: None };
    copy_fields(out, text, response.fields(), &filter);
    out.extend_from_slice(b"\r\n");
}

/// Stages the head of the final response, of which `text` is the received head, and decides how its body is framed.
pub(crate) fn write_response(
    session: &Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    server: ServerId,
    text: &[u8],
) {
    let body = exchange.response.body(exchange.request.method());
    let http11 = exchange.request.version() == Version::Http11;
    let delimited = http11 || matches!(body, ResponseBody::None | ResponseBody::Length(_));
    exchange.keep_alive &= delimited;
    exchange.to_client.framing = match body {
        ResponseBody::Chunked | ResponseBody::UntilClose if http11 => Framing::Chunked,
        _ => Framing::Plain,
    };
    let mut out = std::mem::take(&mut exchange.to_client.staged);
    let response = &exchange.response;
    let changes = &plans.route.config.response_headers;
    write::status_line(&mut out, Version::Http11, response.status(), response.reason().of(text));
    copy_response_fields(&mut out, exchange, plans, server, text);
    if !response.fields().contains(FieldName::Date) && leave(changes, b"Date") {
        write::field(&mut out, b"Date", &session.worker.date());
    }
    write_response_framing(&mut out, exchange, body);
    if response.status() == UPGRADE_REQUIRED && http11 {
        write_offered_protocols(&mut out, exchange, text);
    } else {
        write_connection(&mut out, exchange);
    }
    write_id(&mut out, exchange, plans.listener, changes);
    persistence::write_bond(&mut out, exchange, plans, server);
    write_changes(&mut out, changes);
    out.extend_from_slice(b"\r\n");
    exchange.to_client.staged = out;
}

/// 426 has to name the protocols that the server wants to hear (RFC 9110 section 15.5.22), and `Connection` that it does.
#[cold]
fn write_offered_protocols(out: &mut Vec<u8>, exchange: &Exchange, text: &[u8]) {
    for field in exchange.response.fields().all(FieldName::Upgrade) {
        write::field(out, b"Upgrade", field.value.of(text));
    }
    let options: &[u8] = if exchange.keep_alive { b"Upgrade" } else { b"Upgrade, close" };
    write::field(out, b"Connection", options);
}

/// Stages the head of a 101: the fields pass, `Upgrade` included.
pub(crate) fn write_switching(exchange: &mut Exchange, plans: Plans<'_>, server: ServerId, text: &[u8]) {
    let mut out = std::mem::take(&mut exchange.to_client.staged);
    let response = &exchange.response;
    let changes = &plans.route.config.response_headers;
    write::status_line(&mut out, Version::Http11, response.status(), response.reason().of(text));
    copy_response_fields(&mut out, exchange, plans, server, text);
    if response.status() == 101 {
        out.extend_from_slice(b"Connection: Upgrade\r\n");
        if let Some(field) = response.fields().first(FieldName::Upgrade) {
            write::field(&mut out, b"Upgrade", field.value.of(text));
        }
    }
    write_id(&mut out, exchange, plans.listener, changes);
    persistence::write_bond(&mut out, exchange, plans, server);
    write_changes(&mut out, changes);
    out.extend_from_slice(b"\r\n");
    exchange.to_client.staged = out;
}

fn copy_response_fields(
    out: &mut Vec<u8>,
    exchange: &Exchange,
    plans: Plans<'_>,
    server: ServerId,
    text: &[u8],
) {
    let response = &exchange.response;
    let changes = &plans.route.config.response_headers;
    let others = response.connection().others();
    let id = plans.listener.id_of_responses();
    let also_drop = |field: &Field| {
        let name = field.name.of(text);
        (others && response.is_named_by_connection(text, field))
            || id.is_some_and(|id| name.eq_ignore_ascii_case(id))
            || is_changed_away(changes, name)
    };
    let ask = others || id.is_some() || !changes.is_empty();
    let marking = plans.upstream.persistence.as_ref().filter(|persistence| persistence.changes_responses());
    let write_set_cookie = |out: &mut Vec<u8>, field: &Field| {
        if let Some(persistence) = marking {
            persistence::write_set_cookie(out, persistence, server, text, field);
        }
    };
    let replace = marking.map(|_| Replacement { name: FieldName::SetCookie, write: &write_set_cookie });
    let filter = Filter { drop: FieldSet::RESPONSE_HOP, also_drop: ask.then_some(&also_drop), replace };
    copy_fields(out, text, response.fields(), &filter);
}

fn write_response_framing(out: &mut Vec<u8>, exchange: &Exchange, body: ResponseBody) {
    match body {
        ResponseBody::Length(len) => write::decimal_field(out, b"Content-Length", len),
        ResponseBody::None => {
            // What GET would have brought (HEAD, 304), or an empty body; none of the two has 204.
            let status = exchange.response.status();
            if let Some(len) = exchange.response.content_length().filter(|_| status != 204) {
                write::decimal_field(out, b"Content-Length", len);
            }
        }
        ResponseBody::Chunked | ResponseBody::UntilClose => {
            if exchange.to_client.framing == Framing::Chunked {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            }
        }
    }
}

/// The id of the request, for clients that are to have it.
pub(crate) fn write_id(
    out: &mut Vec<u8>,
    exchange: &Exchange,
    listener: &ListenerPlan,
    changes: &HeaderChanges,
) {
    let id = &exchange.record.request_id;
    if let Some(header) = listener.id_of_responses().filter(|header| !id.is_empty() && leave(changes, header))
    {
        write::field(out, header, id);
    }
}

/// What the client is told about its connection (RFC 9112 section 9.3).
pub(crate) fn write_connection(out: &mut Vec<u8>, exchange: &Exchange) {
    if !exchange.keep_alive {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if exchange.request.version() == Version::Http10 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
}
