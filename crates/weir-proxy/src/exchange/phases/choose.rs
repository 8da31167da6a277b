//! Phase Route: which rule takes the request, and which upstream it names.

use std::net::IpAddr;

use weir_config::{PathForm, RouteAction, SplitTarget, Template};
use weir_http::{FieldName, Method, RequestHead, TargetForm};
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::route::{RouteId, RouteRequest};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::plans::MatchedRoute;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::placeholders::{TemplateValues, write_path};
use crate::state::routes::stripped_fields::is_given_by;
use crate::state::snapshot::{ListenerPlan, RoutePlan, SplitPlan};

/// A request as the routes and the hash keys see it.
pub(crate) struct RoutableRequest<'a> {
    pub(crate) request: &'a RequestHead,
    pub(crate) text: &'a [u8],
    pub(crate) source: IpAddr,
}

impl RouteRequest for RoutableRequest<'_> {
    fn host(&self) -> &[u8] {
        self.request.host().of(self.text)
    }

    fn path(&self) -> &[u8] {
        match self.request.target_form() {
            // A request about the server as a whole (RFC 9112 section 3.2.4) names no path: it takes the route of the root.
            TargetForm::Asterisk | TargetForm::Authority => b"/",
            TargetForm::Origin | TargetForm::Absolute => self.request.normal_path(self.text),
        }
    }

    fn query(&self) -> &[u8] {
        self.request.query().map_or(&[], |query| query.of(self.text))
    }

    fn method(&self) -> &[u8] {
        self.request.method_span().of(self.text)
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.request.fields().get_by_name(self.text, name).map(|field| field.value.of(self.text))
    }

    fn header_lines(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.request.fields().all_by_name(self.text, name).map(|field| field.value.of(self.text))
    }

    fn source(&self) -> IpAddr {
        self.source
    }
}

impl<S, U> Context<'_, S, U> {
    /// The request as routes and hash keys see it.
    pub(in crate::exchange) fn routable(&self) -> RoutableRequest<'_> {
        let Exchange { request, request_text, .. } = &*self.exchange;
        RoutableRequest { request, text: request_text, source: self.client_address() }
    }
}

/// The most specific route that matches, as `find` has it; `None` without one.
///
/// # Errors
/// When the request is not for this connection.
#[inline(always)]
pub(in crate::exchange) fn route<'a, S: ClientStream, U>(
    context: &mut Context<'a, S, U>,
    find: impl FnOnce(&mut Context<'a, S, U>) -> Result<Option<RouteId>, Ended>,
) -> Result<Option<&'a RoutePlan>, Ended> {
    let listener = context.listener;
    let Some(id) = find(context)? else {
        if context.exchange.request.upgrade().is_some() {
            context.stream.close_after();
        }
        return Ok(None);
    };
    context.exchange.record.route = Some(id.index());
    if !listener.config.isolated_names.is_empty() {
        check_isolation(context.stream, context.exchange, listener)?;
    }
    Ok(Some(&listener.route_plans[id.index()]))
}

/// Whether the route takes the request.
///
/// # Errors
/// When it does not.
#[inline(always)]
pub(in crate::exchange) fn admit<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    route: &RoutePlan,
) -> Result<(), Ended> {
    let (stream, exchange, listener) = (&mut *context.stream, &mut *context.exchange, context.listener);
    if let Some(seconds) = listener.state.maintenance() {
        exchange.retry_after = Some(seconds);
        return Err(Failure::weir(Phase::Route, Cause::Maintenance).into());
    }
    let connects = exchange.request.method() == Method::Connect;
    if connects && !route.config.allow_connect {
        return Err(Failure::client(Phase::Route, Cause::ConnectNotAllowed).into());
    }
    if exchange.request.upgrade().is_some() {
        check_upgrade(stream, exchange, route)?;
    }
    limit_body(stream, route)?;
    if route.access.is_some() || exchange.rerouting().is_some() {
        admit_apart(exchange, route)?;
    }
    rewrite(exchange, listener, route);
    Ok(())
}

/// On a listener that stands for several, a connection is for one of them: that of its server name (RFC 9110 section 15.5.20).
#[cold]
fn check_isolation(
    stream: &impl ClientStream,
    exchange: &Exchange,
    listener: &ListenerPlan,
) -> Result<(), Failure> {
    let Some(tls) = stream.tls().filter(|tls| !tls.server_name.is_empty()) else { return Ok(()) };
    let host = exchange.request.host().of(&exchange.request_text);
    match listener.config.is_misdirected(tls.server_name.as_bytes(), host) {
        true => Err(Failure::client(Phase::Route, Cause::Misdirected)),
        false => Ok(()),
    }
}

/// What it means that a client asks for another protocol.
#[cold]
fn check_upgrade(
    stream: &mut impl ClientStream,
    exchange: &Exchange,
    route: &RoutePlan,
) -> Result<(), Failure> {
    let is_wanted = upgrade_wanted(&exchange.request, &exchange.request_text, route).is_some();
    if is_wanted {
        // A client that requests a tunnel may send into it before it learns that there is none: what follows its request is never
        // parsed as another request (RFC 9931).
        stream.close_after();
    }
    let has_servers = match &route.config.action {
        RouteAction::Upstream(_) | RouteAction::Split(_) => true,
        RouteAction::Files(files) => files.otherwise.is_some(),
        RouteAction::Redirect(_) | RouteAction::Respond(_) | RouteAction::Then(_) => false,
    };
    // A client of HTTP/2 would take every success for a tunnel.
    let has_no_way_back = exchange.request.protocol().is_some();
    match has_no_way_back && !(is_wanted && has_servers) {
        true => Err(Failure::client(Phase::Route, Cause::UpgradeNotAllowed)),
        false => Ok(()),
    }
}

/// The most specific route that matches a TCP connection.
pub(in crate::exchange) fn connection_route<'a, S, U>(
    context: &mut Context<'a, S, U>,
) -> Result<&'a RoutePlan, Ended> {
    let (listener, server_name) = (context.listener, &context.exchange.server_name);
    let Some(id) = route_of_connection(context.client, listener, server_name) else {
        return Err(Failure::weir(Phase::Route, Cause::NoRoute).into());
    };
    context.exchange.record.route = Some(id.index());
    Ok(&listener.route_plans[id.index()])
}

/// The route of connections for this server name.
pub(crate) fn route_of_connection(
    client: &Client,
    listener: &ListenerPlan,
    server_name: &[u8],
) -> Option<RouteId> {
    listener.routes.lookup(&RoutableConnection { server_name, source: client.peer.ip_or_local() })
}

/// Where a request of this route goes: another plan than that of the route counts from here on only for targets of splits with settings of their own.
#[inline(always)]
pub(in crate::exchange) fn target<'a, S: ClientEnd, U>(
    context: &mut Context<'a, S, U>,
    route: &'a RoutePlan,
) -> MatchedRoute<'a> {
    let (upstream, target) = match &route.config.action {
        RouteAction::Upstream(index) => (Some(index.0), route),
        _ => other_target(context, route),
    };
    context.exchange.record.upstream = upstream;
    MatchedRoute { route, target, upstream }
}

/// The same for a route that does not go to one upstream.
#[inline(never)]
fn other_target<'a, S: ClientEnd, U>(
    context: &mut Context<'a, S, U>,
    route: &'a RoutePlan,
) -> (Option<usize>, &'a RoutePlan) {
    match &route.config.action {
        RouteAction::Upstream(index) => (Some(index.0), route),
        RouteAction::Split(parts) => match &route.split {
            Some(split) => draw(context, route, (parts, split)),
            None => (None, route),
        },
        RouteAction::Files(files) => (files.otherwise.map(|upstream| upstream.0), route),
        RouteAction::Redirect(_) | RouteAction::Respond(_) | RouteAction::Then(_) => (None, route),
    }
}

/// Draws the target of a split, or takes the one that the request names.
fn draw<'a, S: ClientEnd, U>(
    context: &mut Context<'a, S, U>,
    route: &'a RoutePlan,
    (parts, split): (&[SplitTarget], &'a SplitPlan),
) -> (Option<usize>, &'a RoutePlan) {
    let place = match &route.config.split_by {
        None => split.weights.choose(context.client.worker.random()),
        Some(template) => match named_target(context, route, (parts, template)) {
            Some(place) => place,
            // The request is answered: no server gets it.
            None => return (None, route),
        },
    };
    let upstream = parts[place].upstream().map(|upstream| upstream.0);
    let Some(target) = split.targets.get(place).and_then(Option::as_ref) else { return (upstream, route) };
    if target.rewrite != route.rewrite {
        context.exchange.rewritten.clear();
        rewrite(context.exchange, context.listener, target);
    }
    (upstream, target)
}

/// What few requests need on their way to a route.
///
/// # Errors
/// When what was read of the body for a route before is more than this one takes.
#[cold]
fn admit_apart(exchange: &mut Exchange, route: &RoutePlan) -> Result<(), Ended> {
    if exchange.rerouting().is_some() && exchange.replay_buffer.len() > route.body_bytes_max {
        return Err(Failure::client(Phase::Route, Cause::BodyTooLarge).into());
    }
    // What the server says that decides about requests, no client says; but passwords and tokens are asked for before.
    if let Some(access) = &route.config.access
        && let Some(forward) = access.forward.as_ref().filter(|forward| !forward.response_headers.is_empty())
    {
        exchange.withhold(|name| is_given_by(forward, name) && !access.reads_credentials_of(name));
    }
    Ok(())
}

/// The target of a split that the request names: that of the upstream of this name, or the answer to requests that name none.
fn named_target<S, U>(
    context: &Context<'_, S, U>,
    route: &RoutePlan,
    (parts, template): (&[SplitTarget], &Template),
) -> Option<usize>
where
    S: ClientEnd,
{
    let mut name = Vec::new();
    TemplateValues::new(context, Some(route)).write_own_key(template, &mut name);
    let upstreams = &context.config.snapshot.upstreams;
    let is_named = |part: &SplitTarget| {
        part.upstream().is_some_and(|upstream| upstreams[upstream.0].config.name.as_bytes() == name)
    };
    let answers = |part: &SplitTarget| part.upstream().is_none();
    parts.iter().position(is_named).or_else(|| parts.iter().position(answers))
}

/// The limit on the length of the body, which depends on the route.
fn limit_body(stream: &mut impl ClientStream, route: &RoutePlan) -> Result<(), Ended> {
    if let Some(len) = stream.body_announced()
        && len > route.body_bytes_max
    {
        return Err(Failure::client(Phase::Route, Cause::BodyTooLarge).into());
    }
    stream.limit_body(route.body_bytes_max);
    Ok(())
}

/// Makes the target that the server gets, when it is not the one that came.
#[inline(always)]
fn rewrite(exchange: &mut Exchange, listener: &ListenerPlan, route: &RoutePlan) {
    let keeps_path =
        exchange.request.is_path_normal() || listener.config.paths.forward == PathForm::AsReceived;
    if !keeps_path || route.rewrite.is_some() || is_path_apart(exchange) {
        write_target(exchange, listener, route);
    }
}

#[inline(never)]
fn write_target(exchange: &mut Exchange, listener: &ListenerPlan, route: &RoutePlan) {
    if matches!(exchange.request.target_form(), TargetForm::Authority | TargetForm::Asterisk) {
        return;
    }
    let text = &exchange.request_text[..];
    let path = exchange.request.normal_path(text);
    let query = exchange.request.query().map(|query| query.of(text));
    let Some(rewrite) = &route.rewrite else {
        write_path(&mut exchange.rewritten, &exchange.request, text, &listener.config);
        if let Some(query) = query {
            exchange.rewritten.push(b'?');
            exchange.rewritten.extend_from_slice(query);
        }
        return;
    };
    rewrite.apply(path, query, &mut exchange.rewritten);
}

/// Whether an absolute target has a query without a path before it (`http://host?query`): then it is put together anew.
pub(in crate::exchange) fn is_path_apart(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    request.target_form() == TargetForm::Absolute
        && request.query().is_some_and(|query| query.start as usize != request.path().end() + 1)
}

/// The protocol of `Upgrade` that the client requests, if the route allows it.
#[inline]
pub(crate) fn upgrade_wanted<'a>(
    request: &RequestHead,
    text: &'a [u8],
    route: &RoutePlan,
) -> Option<&'a [u8]> {
    let asked = request.upgrade()?.of(text);
    // One protocol at a time: with a list, the protocol of the tunnel would be undecided.
    let allowed = route.config.upgrades.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(asked));
    let plain = !request.fields().contains(FieldName::Http2Settings);
    (allowed && plain).then_some(asked)
}

/// A connection as the routes see it: a client that may have named a server.
pub(crate) struct RoutableConnection<'a> {
    /// The server name of the client's SNI; empty without one.
    pub(crate) server_name: &'a [u8],
    pub(crate) source: std::net::IpAddr,
}

impl RouteRequest for RoutableConnection<'_> {
    fn host(&self) -> &[u8] {
        self.server_name
    }

    fn path(&self) -> &[u8] {
        b"/"
    }

    fn query(&self) -> &[u8] {
        b""
    }

    fn method(&self) -> &[u8] {
        b""
    }

    fn header(&self, _name: &str) -> Option<&[u8]> {
        None
    }

    fn source(&self) -> std::net::IpAddr {
        self.source
    }
}
