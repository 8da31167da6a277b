//! Copies of requests for another upstream: which ones, when they are sent, and how their responses compare.
//!
//! A copy is a request in the background ([`crate::exchange::features::subrequests::background`]), made when the response of the exchange has been relayed whole: it takes nothing from
//! the exchange but the memory of its request body. Must not delay or fail it.

use std::sync::Arc;
use std::task::{self, Poll};

use weir_config::{DotSegments, Feature, Mirror, MirrorPart, Stage, WhenCondition, clean_path};
use weir_http::grpc::GrpcStatus;
use weir_http::{Framing, Method, ResponseHead};
use weir_observe::{Failure, MirrorShard, RouteShard};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::authorization::Authorization;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::exchange_mirror::{ComparedField, Copied, ExchangeMirror};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::features::subrequests::background;
use crate::exchange::features::subrequests::background::{
    BackgroundRequest, BackgroundRoute, BackgroundTaker,
};
use crate::exchange::features::subrequests::subrequest;
use crate::exchange::features::subrequests::subrequest::ResponseTaker;
use crate::exchange::features::{affinity, grpc};
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::filter::BodyFilter;
use crate::relay::filter::digest::RunningDigest;
use crate::state::routes::mirror::{BodyDigest, MirrorDifference, MirrorState};
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::upstream::stream::Servers;

/// Headers that differ by nature: of time, of the connection, of the server itself, and those that the comparison of bodies covers.
const NOT_COMPARED: [&str; 15] = [
    "age",
    "alt-svc",
    "connection",
    "content-length",
    "date",
    "expires",
    "keep-alive",
    "proxy-connection",
    "server",
    "set-cookie",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-request-id",
];

/// Names of headers that one difference lists.
const NAMES_MAX: usize = 16;

/// Bytes of a target that one difference keeps.
const TARGET_KEPT_MAX: usize = 1024;

/// Decides whether the request is copied, once it has passed everything that stands before a server.
pub(in crate::exchange) fn begin<U>(context: &mut Context<'_, impl ClientEnd, U>, route: &RoutePlan) {
    if route.mirrors.is_empty() {
        return;
    }
    let (request, text) = (&context.exchange.request, &context.exchange.request_text[..]);
    let opens_tunnel = request.method() == Method::Connect
        || request.protocol().is_some()
        || request.upgrade().is_some_and(|asked| !asked.of(text).is_empty());
    if opens_tunnel {
        return;
    }
    let mut copies = Vec::new();
    let mut kept_max = 0;
    for (place, (plan, settings)) in route.mirrors.iter().zip(&route.config.mirrors).enumerate() {
        let is_meant = plan.methods.contains(request.method(), request.method_span().of(text));
        let holds = |condition: &WhenCondition| condition.holds(&TemplateValues::new(context, Some(route)));
        let is_meant = is_meant && settings.when.as_ref().is_none_or(holds);
        if !is_meant || !settings.share.has(context.client.worker.random()) {
            continue;
        }
        let bytes_max = settings.body_max.as_usize();
        if matches!(request.body(), Framing::Length(len) if len > bytes_max as u64) {
            mirror_shard(route, context.client).too_long.increment();
            continue;
        }
        kept_max = kept_max.max(bytes_max);
        copies.push(Copied { place, fields: Vec::new() });
    }
    if copies.is_empty() {
        return;
    }
    if !request.body().is_empty() {
        context.exchange.replay_buffer.begin(kept_max);
    }
    context.exchange.mirror = Some(Box::new(ExchangeMirror { status: 0, kept_max, copies }));
    acting::note(Stage::BeforeServer, Feature::Mirror);
}

/// Remembers what is compared of the head of the response, of which `text` is what was received.
pub(in crate::exchange) fn note_head<S, U>(context: &mut Context<'_, S, U>, plans: Plans<'_>, text: &[u8]) {
    let (exchange, listener) = (&mut *context.exchange, context.listener);
    let Some(mirrored) = &mut exchange.mirror else { return };
    mirrored.status = exchange.response.status();
    acting::note(Stage::ResponseHead, Feature::Mirror);
    for copied in &mut mirrored.copies {
        let Some(settings) = plans.route.config.mirrors.get(copied.place) else { continue };
        if settings.compares(MirrorPart::Headers) {
            let own_id = listener.config.request_id.header.as_deref().unwrap_or_default();
            copied.fields = compared_fields(settings, own_id, &exchange.response, text);
        }
    }
}

/// The response begins to pass: has the digest of its body made, as the server sends it, and keeps what is still to come of the request (which
/// is no longer kept for retries).
pub(in crate::exchange) fn observe_bodies(exchange: &mut Exchange, plans: Plans<'_>) {
    let Some(mirrored) = &exchange.mirror else { return };
    let mirrors = || mirrored.copies.iter().filter_map(|copied| plans.route.config.mirrors.get(copied.place));
    let is_compared = mirrors().any(|mirror| mirror.compares(MirrorPart::Body));
    if !exchange.request_relay.is_done() {
        exchange.replay_buffer.begin(mirrored.kept_max);
    }
    if is_compared {
        acting::note(Stage::ResponseBody, Feature::Mirror);
        exchange.response_relay.observe(BodyFilter::Digest(RunningDigest::new()));
    }
}

/// Sends the copies: the response has been relayed whole.
pub(in crate::exchange) fn send(context: &mut Context<'_, impl ClientEnd, impl Servers>, plans: Plans<'_>) {
    let Some(mirrored) = context.exchange.mirror.take() else { return };
    let ExchangeMirror { status, copies, .. } = *mirrored;
    acting::note(Stage::Finish, Feature::Mirror);
    for copied in copies {
        send_one(context, plans, (status, copied));
    }
}

fn send_one(
    context: &Context<'_, impl ClientEnd, impl Servers>,
    plans: Plans<'_>,
    (status, copied): (u16, Copied),
) {
    let place = copied.place;
    let settings = plans.route.config.mirrors.get(place);
    let (Some(plan), Some(settings)) = (plans.route.mirrors.get(place), settings) else { return };
    let shard = mirror_shard(plans.route, context.client);
    let body = match context.exchange.request.body() {
        framing if framing.is_empty() => &[],
        _ => {
            let whole = context
                .exchange
                .replay_buffer
                .in_memory()
                .filter(|_| context.exchange.request_relay.is_done());
            let Some(body) = whole.filter(|body| body.len() <= settings.body_max.as_usize()) else {
                shard.too_long.increment();
                return;
            };
            body
        }
    };
    let Ok(path) = path_of(context, plans, settings) else {
        shard.failures.increment();
        return;
    };
    if !plan.state.try_begin(settings.concurrent_max) {
        shard.busy.increment();
        return;
    }
    let body = body.to_vec();
    let real_call = context.exchange.grpc.and_then(|call| call.status);
    let taker = CopyTaker {
        request: CopiedRequest::new(context.exchange),
        digest: context.exchange.response_relay.digest().filter(|_| settings.compares(MirrorPart::Body)),
        real: RealResponse { status, call: real_call, fields: copied.fields },
        status: 0,
        call: None,
        fields: Vec::new(),
        body: RunningDigest::new(),
        route: MirroredRoute::new(context.listener, plans, settings),
        shards: Arc::clone(plans.route.shards.of(context.client.worker.index)),
        permit: CopyPermit(Arc::clone(&plan.state)),
    };
    let whole = context.exchange.record.route.and_then(|route| context.listener.route_plans.get(route));
    let target = whole.and_then(|whole| whole.place_of_target(plans.route));
    let mut copy = copy_of(context, settings);
    if let Some(path) = path {
        copy.rewritten = path;
    }
    copy.copied_from = Some(plans.upstream_index);
    // The client of a call gives the copy as long as it gave the call.
    let given = context.exchange.grpc.and_then(|_| grpc::time_given(context.exchange));
    let timeout = given.map_or(settings.timeout, |given| given.min(settings.timeout));
    copy.grpc = context.exchange.grpc.map(|call| call.anew(given.map(|_| clock::now() + timeout)));
    let copy =
        BackgroundRequest { exchange: copy, route: BackgroundRoute::Mirror { target, place }, body, timeout };
    let counter = match background::begin(context, copy, taker) {
        true => &shard.requests,
        false => &shard.busy,
    };
    counter.increment();
}

fn mirror_shard<'a>(route: &'a RoutePlan, client: &Client) -> &'a MirrorShard {
    &route.shards.of(client.worker.index).mirror
}

/// The same request for the mirror.
fn copy_of<S, U>(context: &Context<'_, S, U>, settings: &Mirror) -> Box<Exchange> {
    let mut copy = subrequest::exchange_beside(context.exchange, settings.upstream.0, context.client);
    copy.request.clone_from(&context.exchange.request);
    copy.request_text.clone_from(&context.exchange.request_text);
    copy.rewritten.clone_from(&context.exchange.rewritten);
    copy.record.trace.stripped = context.exchange.record.trace.stripped;
    copy.waits_for_slot = false;
    let known = |granted: &Authorization| {
        Box::new(Authorization {
            user: granted.user.clone(),
            token: granted.token.clone(),
            auth: None,
            fields: granted.fields.clone(),
            is_proven: granted.is_proven,
        })
    };
    copy.authorization = context.exchange.authorization.as_deref().map(known);
    let upstream =
        context.exchange.record.config().map(|config| &*config.snapshot.upstreams[settings.upstream.0]);
    if let Some(upstream) = upstream {
        affinity::begin_by_cookies(&mut copy, upstream, context.client.now);
    }
    copy
}

/// The path of the copy, where it has one of its own.
///
/// # Errors
/// When that leads elsewhere than the config says, or is one that clients may not send.
fn path_of<U>(
    context: &Context<'_, impl ClientEnd, U>,
    plans: Plans<'_>,
    settings: &Mirror,
) -> Result<Option<Vec<u8>>, DotSegments> {
    let Some(template) = settings.path.as_ref().filter(|_| context.exchange.has_path()) else {
        return Ok(None);
    };
    let mut path = Vec::new();
    TemplateValues::new(context, Some(plans.route)).write_url(template, &mut path);
    let path = clean_path(&path)?;
    let limits = &context.listener.head_limits;
    // What no request may have for its target, no copy gets by a value of it: an encoded NUL, or a way up by slashes that are decoded.
    let (mut head, mut text) = (context.exchange.request.clone(), context.exchange.request_text.clone());
    let is_target = head.replace_target(&mut text, &path, limits).is_ok();
    if is_target && path.len() <= limits.target_bytes_max { Ok(Some(path)) } else { Err(DotSegments) }
}

/// The fields that are compared, sorted.
fn compared_fields(
    settings: &Mirror,
    own_id: &str,
    response: &ResponseHead,
    text: &[u8],
) -> Vec<ComparedField> {
    let is_compared = |name: &[u8]| {
        let is_one = |other: &str| other.as_bytes().eq_ignore_ascii_case(name);
        !NOT_COMPARED.iter().any(|other| is_one(other))
            && !settings.ignore_headers.iter().any(|other| is_one(other))
            && !is_one(own_id)
    };
    let fields = response.fields().iter();
    let fields = fields.map(|field| (field.name.of(text), field.value.of(text)));
    let compared = fields.filter(|(name, _)| is_compared(name));
    let mut compared: Vec<ComparedField> =
        compared.map(|(name, value)| (name.to_ascii_lowercase().into(), value.into())).collect();
    compared.sort_by(|(one, _), (other, _)| one.cmp(other));
    compared
}

/// The names of fields that only one side has, or that have other values there.
fn different_names(one: &[ComparedField], other: &[ComparedField]) -> Vec<Box<str>> {
    let of = |fields: &[ComparedField], name: &[u8]| -> Vec<Box<[u8]>> {
        fields.iter().filter(|(own, _)| **own == *name).map(|(_, value)| value.clone()).collect()
    };
    let mut names: Vec<&[u8]> = one.iter().chain(other).map(|(name, _)| &**name).collect();
    names.sort_unstable();
    names.dedup();
    let differ = names.into_iter().filter(|name| of(one, name) != of(other, name));
    differ.take(NAMES_MAX).map(|name| String::from_utf8_lossy(name).into()).collect()
}

/// What a difference tells of the request.
struct CopiedRequest {
    method: Box<str>,
    target: Box<str>,
    id: Box<str>,
}

impl CopiedRequest {
    fn new(exchange: &Exchange) -> Self {
        let text = &exchange.request_text[..];
        let target = exchange.request.target().of(text);
        let kept = &target[..target.len().min(TARGET_KEPT_MAX)];
        Self {
            method: String::from_utf8_lossy(exchange.request.method_span().of(text)).into(),
            target: String::from_utf8_lossy(kept).into(),
            id: String::from_utf8_lossy(&exchange.record.request_id).into(),
        }
    }
}

/// Where the request came, and what is compared.
struct MirroredRoute {
    listener: Box<str>,
    route: Arc<str>,
    settings: Mirror,
    own_id: Box<str>,
}

impl MirroredRoute {
    fn new(listener: &ListenerPlan, plans: Plans<'_>, settings: &Mirror) -> Self {
        Self {
            listener: listener.config.name.clone(),
            route: plans.route.config.name.clone(),
            settings: settings.clone(),
            own_id: listener.config.request_id.header.as_deref().unwrap_or_default().into(),
        }
    }
}

/// What the client got, the body apart.
struct RealResponse {
    status: u16,
    /// How the call has ended, if it was one of gRPC.
    call: Option<GrpcStatus>,
    fields: Vec<ComparedField>,
}

/// The place of a copy among those of its route.
struct CopyPermit(Arc<MirrorState>);

impl Drop for CopyPermit {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Takes the response to a copy.
struct CopyTaker {
    request: CopiedRequest,
    route: MirroredRoute,
    /// What the client got; the body as far as it was compared.
    real: RealResponse,
    digest: Option<(u64, u128)>,
    status: u16,
    call: Option<GrpcStatus>,
    fields: Vec<ComparedField>,
    body: RunningDigest,
    shards: Arc<RouteShard>,
    permit: CopyPermit,
}

impl CopyTaker {
    /// Counts how the responses compare; the difference, if there is one.
    fn compare(self) -> Option<MirrorDifference> {
        let (settings, shard) = (&self.route.settings, &self.shards.mirror);
        if settings.compare.is_empty() {
            return None;
        }
        let calls = self.real.call.zip(self.call).filter(|(one, other)| one != other);
        let calls = calls.filter(|_| settings.compares(MirrorPart::Status));
        let status_differs =
            settings.compares(MirrorPart::Status) && self.status != self.real.status || calls.is_some();
        let headers = match settings.compares(MirrorPart::Headers) {
            true => different_names(&self.real.fields, &self.fields),
            false => Vec::new(),
        };
        let digest = |(len, hash)| BodyDigest { len, hash };
        let bodies = self.digest.map(|real| [digest(real), digest(self.body.value())]);
        let bodies = bodies.filter(|[one, other]| one != other);
        shard.compared.increment();
        let differ = [status_differs, !headers.is_empty(), bodies.is_some()];
        for (counter, differs) in shard.differences.iter().zip(differ) {
            counter.add(differs.into());
        }
        differ.contains(&true).then(|| MirrorDifference {
            at: clock::unix_now().as_secs(),
            method: self.request.method,
            target: self.request.target,
            request_id: self.request.id,
            status: self.real.status,
            mirror_status: self.status,
            calls: calls.map(|(one, other)| [one, other]),
            headers,
            bodies,
        })
    }
}

impl BackgroundTaker for CopyTaker {
    fn end(self, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            self.shards.mirror.failures.increment();
            tracing::debug!(
                listener = &*self.route.listener,
                route = &*self.route.route,
                reason = failure.reason(),
                "a copy for the mirror has no response"
            );
            return;
        }
        let (listener, route) = (self.route.listener.clone(), self.route.route.clone());
        let state = Arc::clone(&self.permit.0);
        let Some(difference) = self.compare() else { return };
        let MirrorDifference { method, target, status, mirror_status, calls, headers, .. } =
            difference.clone();
        let [call, mirror_call] = calls.map_or([None; 2], |calls| calls.map(|call| Some(call.name())));
        let body_differs = difference.bodies.is_some();
        if let Some(differences) = state.note(difference) {
            tracing::warn!(
                listener = &*listener,
                route = &*route,
                differences,
                method = &*method,
                target = &*target,
                status,
                mirror_status,
                grpc_status = call,
                mirror_grpc_status = mirror_call,
                headers = headers.join(", "),
                body_differs,
                "the mirror has answered in another way"
            );
        }
    }
}

impl ResponseTaker for CopyTaker {
    fn begin(&mut self, response: &ResponseHead, text: &[u8]) {
        self.status = response.status();
        if self.route.settings.compares(MirrorPart::Headers) {
            self.fields = compared_fields(&self.route.settings, &self.route.own_id, response, text);
        }
    }

    fn end_call(&mut self, status: GrpcStatus) {
        self.call = Some(status);
    }
}

impl Sink for CopyTaker {
    fn has_room(&self) -> bool {
        true
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if self.digest.is_some() {
            self.body.add(data);
        }
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {}

    fn poll_write(&mut self, _cx: &mut task::Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Ready(Ok(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_differ_by_presence_and_by_value() {
        let fields = |list: &[(&str, &str)]| -> Vec<ComparedField> {
            list.iter().map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect()
        };
        let one = fields(&[("a", "1"), ("b", "1"), ("b", "2"), ("c", "x")]);
        assert!(different_names(&one, &one).is_empty());
        let other = fields(&[("a", "2"), ("b", "1"), ("d", "x")]);
        assert_eq!(different_names(&one, &other), ["a", "b", "c", "d"].map(Box::from));
        let order = fields(&[("a", "1"), ("b", "2"), ("b", "1"), ("c", "x")]);
        assert_eq!(different_names(&one, &order), ["b"].map(Box::from));
    }
}
