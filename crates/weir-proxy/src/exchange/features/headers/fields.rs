//! Which fields pass, which stop here, and which Weir adds (RFC 9110 section 7.6).
//!
//! Decided once, for every protocol: what is about framing and the connection is the matter of the stream that writes the
//! head. Runs of fields that pass are copied as they are. Must not read or write a socket.

use weir_config::{AccelField, Feature, ForwardHost, Stage};
use weir_http::{
    DATE_BYTES, Expectation, Field, FieldName, FieldRun, FieldSet, FieldWriter, Fields, Framing, Method,
    TargetForm, Version,
};

use weir_traffic::ServerId;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::response::body_coding::BodyCoding;
use crate::exchange::exchange_state::response::kept_fields::KeptFields;
use crate::exchange::exchange_state::response::response_outline::ReceivedFields;
use crate::exchange::exchange_state::response::rewritten_fields;
use crate::exchange::exchange_state::{authorization, cache_use};
use crate::exchange::features::{affinity, compression, cors, forwarded, grpc};
use crate::exchange::telemetry::trace;
use crate::state::routes::stripped_fields::is_taken_for;
use crate::state::snapshot::{ListenerPlan, RoutePlan};

/// What decides whether a field passes.
struct Filter<'a> {
    drop: FieldSet,
    /// Called for every field; costs more than the set, so absent where the set is enough.
    also_drop: Option<&'a dyn Fn(&Field) -> bool>,
    /// A field that passes with another value.
    replace: Option<FieldName>,
}

/// Adds the fields of a head that pass, neighbours as one run. `replace` adds a field that passes with another value.
#[inline(always)]
fn copy_fields<W: FieldWriter>(
    out: &mut W,
    text: &[u8],
    fields: &Fields,
    filter: &Filter<'_>,
    replace: impl Fn(&mut W, &Field),
) {
    let replaced = match filter.replace {
        Some(name) => FieldSet::new(&[name]),
        None => FieldSet::EMPTY,
    };
    let not_copied = filter.drop.with(replaced);
    let is_dropped =
        |field: &Field| filter.drop.contains(field.known) || filter.also_drop.is_some_and(|drop| drop(field));
    let fields = fields.as_slice();
    let mut run_start = None;
    for (at, field) in fields.iter().enumerate() {
        let passes =
            !not_copied.contains(field.known) && filter.also_drop.is_none_or(|also_drop| !also_drop(field));
        match (passes, run_start) {
            (true, None) => run_start = Some(at),
            (false, Some(start)) => {
                out.copy(FieldRun { text, fields: &fields[start..at], end: field.name.start as usize });
                run_start = None;
            }
            _ => {}
        }
        if replaced.contains(field.known) && !is_dropped(field) {
            replace(out, field);
        }
    }
    if let Some(start) = run_start {
        // Everything up to the empty line that ends the head.
        out.copy(FieldRun { text, fields: &fields[start..], end: text.len() - b"\r\n".len() });
    }
}

/// The target that the server gets.
pub(crate) fn target(exchange: &Exchange) -> &[u8] {
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    if !exchange.rewritten.is_empty() {
        return &exchange.rewritten;
    }
    if request.target_form() != TargetForm::Absolute {
        return request.target().of(text);
    }
    // A server is not a proxy: it gets the origin form (RFC 9112 section 3.2.1).
    match request.query() {
        // RFC 9112 section 3.2.4: OPTIONS of an absolute target without a path becomes the asterisk form.
        _ if asks_about_server(exchange) => b"*",
        Some(query) => &text[request.path().start as usize..query.end()],
        None => request.path().of(text),
    }
}

/// `OPTIONS http://host`: a question about the server, not about its root.
fn asks_about_server(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    request.method() == Method::Options
        && request.target_form() == TargetForm::Absolute
        && request.target().end() == request.authority().end()
}

/// The authority that the server gets.
#[inline(always)]
pub(crate) fn host<'a>(exchange: &'a Exchange, plans: Plans<'a>, server: ServerId) -> &'a [u8] {
    let kept = exchange.request.authority().of(&exchange.request_text);
    let server_host = || plans.upstream.config.servers[server.index()].name.as_bytes();
    if exchange.request.target_form() == TargetForm::Authority {
        return kept;
    }
    match &plans.route.config.forward_host {
        ForwardHost::Literal(host) => host.as_bytes(),
        ForwardHost::Server => server_host(),
        // An HTTP/1.0 client may have named no host, but an HTTP/1.1 request must.
        ForwardHost::Keep if kept.is_empty() && exchange.request.version() == Version::Http10 => {
            server_host()
        }
        ForwardHost::Keep => kept,
    }
}

/// Whether the client takes trailers of the response (RFC 9110 section 10.1.4: of TE only `trailers` may be passed on).
pub(crate) fn takes_trailers(exchange: &Exchange) -> bool {
    exchange.request.fields().all(FieldName::Te).any(|field| {
        let value = field.value.of(&exchange.request_text);
        value.split(|&byte| byte == b',').any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"trailers"))
    })
}

/// Adds the fields of the request as the server gets them.
pub(in crate::exchange) fn write_request<U>(
    out: &mut impl FieldWriter,
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
) {
    copy_request_fields(out, context, plans);
    forwarded::write(out, context, changes_of_request(context.exchange, plans));
    write_own_request_fields(out, context, plans);
}

/// The same for a server of FastCGI, to which Weir is the web server and no proxy: programs take what proxies say for a sign of one.
pub(in crate::exchange) fn write_cgi_request<U>(
    out: &mut impl FieldWriter,
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
) {
    copy_request_fields(out, context, plans);
    let changes = changes_of_request(context.exchange, plans);
    forwarded::write_request_id(out, context.exchange, context.listener, changes);
    write_own_request_fields(out, context, plans);
}

/// Adds what is Weir's own beside the fields about proxies.
#[inline(always)]
fn write_own_request_fields<U>(
    out: &mut impl FieldWriter,
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
) {
    let (client, exchange) = (&*context.client, &*context.exchange);
    let changes = changes_of_request(exchange, plans);
    forwarded::write_certificate(out, &*context.stream, context.listener);
    forwarded::write_early_data(out, context, changes);
    trace::write(out, exchange, changes);
    if exchange.grpc.is_some() {
        grpc::fields::write_request(out, exchange, client.now, changes);
    }
    if let Some(left) = exchange.request.max_forwards(&exchange.request_text)
        && changes.leave(b"Max-Forwards")
    {
        out.decimal_field(b"Max-Forwards", left.saturating_sub(1));
    }
    if let Some(cached) = &exchange.cache_use {
        cached.write_request(out);
    }
    if let Some(granted) = &exchange.authorization
        && plans.route.config.access.is_some()
    {
        authorization::write_fields(out, granted, changes);
    }
    if !changes.is_empty() {
        acting::note(Stage::Server, Feature::Headers);
        changes.write(out, |_| true);
    }
}

/// The changes that the route makes to the head of a request.
#[inline(always)]
fn changes_of_request<'a>(exchange: &'a Exchange, plans: Plans<'a>) -> HeadChanges<'a> {
    let (acts, changes) = (plans.route.changes_requests(), &plans.route.config.request_headers);
    HeadChanges::new(acts, changes, &exchange.rendered_headers)
}

/// The changes that the route makes to the head of a response.
#[inline(always)]
pub(in crate::exchange) fn changes_of_response<'a>(
    exchange: &'a Exchange,
    route: &'a RoutePlan,
) -> HeadChanges<'a> {
    HeadChanges::new(route.changes_responses(), &route.config.response_headers, &exchange.rendered_headers)
}

#[inline(always)]
fn copy_request_fields<W: FieldWriter, S, U>(out: &mut W, context: &Context<'_, S, U>, plans: Plans<'_>) {
    let Plans { route, upstream, .. } = plans;
    let (client, exchange, listener) = (&*context.client, &*context.exchange, context.listener);
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let mut drop = listener.request_drop.with(exchange.record.trace.stripped);
    if !listener.trusts(client.peer) {
        drop = drop.with(FieldSet::REQUEST_ORIGIN);
    }
    // A client that announces an empty body and sends `Expect` may wait for 100; it is up to the server to send it.
    let announces_body = request.body() != Framing::None;
    if request.expectation() != Expectation::Continue || !announces_body || exchange.body_was_asked_for {
        drop = drop.with(FieldSet::new(&[FieldName::Expect]));
    }
    if request.max_forwards(text).is_some() {
        drop = drop.with(FieldSet::new(&[FieldName::MaxForwards]));
    }
    if let Some(access) = route.config.access.as_deref() {
        drop = drop.with(authorization::withheld(access, exchange.authorization.as_deref()));
    }
    let others = request.connection().others();
    // Many heads have an underscore somewhere, in a cookie or in the target: only then each name is examined.
    let underscores = request.fields().has_unknown_names()
        && !listener.config.lenient.underscore_names
        && memchr::memchr(b'_', text).is_some();
    let own_id = listener.own_id_header();
    // The same as in trailers.
    let (stripped, by_route) = (listener.stripped(client.peer), route.stripped.as_deref());
    let call = exchange.grpc.as_ref();
    let cached = exchange.cache_use.as_deref();
    let changes = changes_of_request(exchange, plans);
    let by_rule = changes.has_rules();
    let also_drop = |field: &Field| {
        let name = field.name.of(text);
        (underscores && name.contains(&b'_'))
            || (others && request.is_named_by_connection(text, field))
            || own_id.is_some_and(|id| name.eq_ignore_ascii_case(id))
            || stripped.is_some_and(|stripped| stripped.covers(name))
            || call.is_some_and(|call| grpc::fields::replaces_in_request(call, name))
            || by_route.is_some_and(|stripped| stripped.covers(name))
            || by_rule && changes.is_taken_by_rule(|other| is_taken_for(other, name))
            || cached.is_some_and(|cached| !cached.passes(name))
    };
    let ask = underscores
        || others
        || own_id.is_some()
        || stripped.is_some()
        || call.is_some()
        || by_route.is_some()
        || by_rule
        || cached.is_some();
    let changing = upstream.affinity.as_ref().filter(|affinity| affinity.changes_requests());
    // A route of a mirror has a field of its own, so that this costs others nothing.
    let copied = by_route.and_then(|_| affinity::of_copied(exchange, plans));
    let filter = Filter {
        drop,
        also_drop: if ask { Some(&also_drop) } else { None },
        replace: changing.or(copied).map(|_| FieldName::Cookie),
    };
    copy_fields(out, text, request.fields(), &filter, |out, field| {
        affinity::write_cookie(out, [copied, changing], text, field);
    });
}

/// Adds the fields of an interim response (1xx but 101), of which `text` is the received head.
pub(crate) fn write_interim(out: &mut impl FieldWriter, exchange: &Exchange, text: &[u8]) {
    let response = &exchange.response;
    let also_drop = |field: &Field| response.is_named_by_connection(text, field);
    let ask = response.connection().others();
    let filter = Filter {
        drop: FieldSet::RESPONSE_HOP,
        also_drop: if ask { Some(&also_drop) } else { None },
        replace: None,
    };
    copy_fields(out, text, response.fields(), &filter, |_, _| {});
}

/// Adds the fields of the final response of `server`, of which `text` is the received head.
pub(crate) fn write_response(
    out: &mut impl FieldWriter,
    (client, exchange, listener): (&Client, &Exchange, &ListenerPlan),
    plans: Plans<'_>,
    server: ServerId,
    text: &[u8],
) {
    let changes = changes_of_response(exchange, plans.route);
    let web_type = match exchange.grpc {
        None => None,
        Some(_) => grpc::fields::web_response_type(exchange, text),
    };
    let drop = match web_type {
        None => FieldSet::RESPONSE_HOP,
        Some(_) => FieldSet::RESPONSE_HOP.with(FieldSet::new(&[FieldName::ContentType])),
    };
    copy_response_fields(out, (exchange, listener), plans, server, text, drop);
    if let Some(content_type) = web_type.filter(|_| changes.leave(b"content-type")) {
        out.field_with(b"content-type", |value| content_type.write(value));
        acting::note(Stage::ResponseFields, Feature::Grpc);
    }
    let is_final = exchange.response.status() >= 200 && !exchange.switches_protocols();
    if is_final && !exchange.response.fields().contains(FieldName::Date) && changes.leave(b"Date") {
        write_date(out, &client.worker.date(client.now));
    }
    write_id(out, exchange, listener, changes);
    if plans.route.acts_on_response_fields() || plans.upstream.affinity.is_some() {
        write_response_features(out, exchange, plans, server, text);
    }
}

/// The fields of an earlier server that go with a response with these.
pub(in crate::exchange) fn kept_with(
    exchange: &Exchange,
    status: u16,
    (fields, text): (&Fields, &[u8]),
) -> KeptFields {
    let content_type = fields.first(FieldName::ContentType).map(|field| field.value.of(text));
    exchange.kept_fields(status, content_type)
}

/// Adds what is for the proxy in front of this one.
#[cold]
fn write_for_proxy(out: &mut impl FieldWriter, fields: &Fields, text: &[u8]) {
    for field in fields.iter().filter(|field| FieldSet::FOR_PROXY.contains(field.known)) {
        out.field(field.name.of(text), field.value.of(text));
    }
}

/// Adds `Date`. Where fields are lines, each part has a length that the compiler knows, so that none takes a call.
#[inline]
fn write_date(out: &mut impl FieldWriter, date: &[u8; DATE_BYTES]) {
    let Some(lines) = out.as_lines() else { return out.field(b"Date", date) };
    lines.extend_from_slice(b"Date: ");
    lines.extend_from_slice(date);
    lines.extend_from_slice(b"\r\n");
}

/// Adds what the features of the route and the upstream have for the response.
fn write_response_features(
    out: &mut impl FieldWriter,
    exchange: &Exchange,
    plans: Plans<'_>,
    server: ServerId,
    text: &[u8],
) {
    let changes = changes_of_response(exchange, plans.route);
    exchange.limits.write_levels(out, changes);
    let status = exchange.response.status();
    kept_with(exchange, status, (exchange.response.fields(), text)).write(out, changes);
    if plans.route.config.x_accel.contains(&AccelField::Pass) {
        write_for_proxy(out, exchange.response.fields(), text);
    }
    if rewritten_fields::is_wanted(plans.route) {
        rewritten_fields::write(out, &exchange.rewritten_fields, changes);
    }
    if exchange.body_coding != BodyCoding::AsItIs {
        let kept = KeptFields::default();
        let fields = ReceivedFields { fields: exchange.response.fields(), text, kept };
        compression::write(out, exchange, &fields, changes);
    }
    if let Some(cors) = &plans.route.config.cors {
        cors::write(out, cors, exchange);
    }
    affinity::write_affinity_cookie(out, exchange.affinity, plans, (server, changes));
    if let Some(used) = &exchange.cache_use {
        cache_use::write_status(out, used, exchange.record.cache_detail, changes);
    }
    write_changes_of_response(out, changes, |_| true);
}

/// Adds what the route sets and adds in a response, of the headers that `passes`.
#[inline]
pub(in crate::exchange) fn write_changes_of_response(
    out: &mut impl FieldWriter,
    changes: HeadChanges<'_>,
    passes: impl Fn(&[u8]) -> bool,
) {
    if !changes.is_empty() {
        acting::note(Stage::ResponseFields, Feature::Headers);
        changes.write(out, passes);
    }
}

fn copy_response_fields<W: FieldWriter>(
    out: &mut W,
    (exchange, listener): (&Exchange, &ListenerPlan),
    plans: Plans<'_>,
    server: ServerId,
    text: &[u8],
    drop: FieldSet,
) {
    let response = &exchange.response;
    let changes = changes_of_response(exchange, plans.route);
    let others = response.connection().others();
    let id = listener.id_of_responses();
    let decides_cors = plans.route.config.cors.is_some();
    let acts = plans.route.acts_on_response_fields();
    let rewrites = acts && rewritten_fields::is_wanted(plans.route);
    let coding = exchange.body_coding;
    let kept = match acts {
        true => kept_with(exchange, response.status(), (response.fields(), text)),
        false => KeptFields::default(),
    };
    let also_drop = |field: &Field| {
        let name = field.name.of(text);
        (others && response.is_named_by_connection(text, field))
            || id.is_some_and(|id| name.eq_ignore_ascii_case(id))
            || decides_cors && cors::is_of_protocol(name)
            || rewrites && rewritten_fields::is_rewritten(plans.route, name)
            || compression::is_replaced(coding, name)
            || changes.is_changed_away(name)
            || kept.replaces(name)
    };
    let ask = others || id.is_some() || acts;
    let marking = plans.upstream.affinity.as_ref().filter(|affinity| affinity.changes_responses());
    let filter = Filter {
        drop,
        also_drop: if ask { Some(&also_drop) } else { None },
        replace: marking.map(|_| FieldName::SetCookie),
    };
    copy_fields(out, text, response.fields(), &filter, |out, field| {
        if let Some(affinity) = marking {
            affinity::write_set_cookie(out, affinity, server, text, field);
        }
    });
}

/// Adds the id of the request, where responses contain it.
pub(crate) fn write_id(
    out: &mut impl FieldWriter,
    exchange: &Exchange,
    listener: &ListenerPlan,
    changes: HeadChanges<'_>,
) {
    let id = &exchange.record.request_id;
    if let Some(header) = listener.id_of_responses().filter(|header| !id.is_empty() && changes.leave(header))
    {
        out.field(header, id);
        acting::note(Stage::ResponseFields, Feature::Forwarded);
    }
}
