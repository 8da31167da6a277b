//! Copies of requests for another upstream: which ones, and when they are sent. How their responses compare is in [`taker`].
//!
//! A copy is a request in the background ([`crate::exchange::features::subrequests::background`]), made when the response of the exchange has been relayed whole: it takes nothing from
//! the exchange but the memory of its request body. Must not delay or fail it.

use std::sync::Arc;

use weir_config::{DotSegments, Feature, Mirror, MirrorPart, Stage, WhenCondition, clean_path};
use weir_http::{ContentCoding, FieldName, Framing, Method, ResponseHead};
use weir_observe::MirrorShard;

mod taker;
mod compared;

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::authorization::Authorization;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::exchange_mirror::{Copied, ExchangeMirror};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::features::subrequests::background;
use crate::exchange::features::subrequests::background::{BackgroundRequest, BackgroundRoute};
use crate::exchange::features::subrequests::subrequest;
use crate::exchange::features::{affinity, compression, grpc};
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::relay::filter::BodyFilter;
use crate::relay::filter::digest::RunningDigest;
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;
use compared::compared_fields;
use taker::{CopyBegin, CopyTaker, RealResponse};

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
    context.exchange.mirror = Some(Box::new(ExchangeMirror { status: 0, coding: None, kept_max, copies }));
    acting::note(Stage::BeforeServer, Feature::Mirror);
}

/// Remembers what is compared of the head of the response, of which `text` is what was received.
pub(in crate::exchange) fn note_head<S, U>(context: &mut Context<'_, S, U>, plans: Plans<'_>, text: &[u8]) {
    let (exchange, listener) = (&mut *context.exchange, context.listener);
    let Some(mirrored) = &mut exchange.mirror else { return };
    mirrored.status = exchange.response.status();
    mirrored.coding = coding_of(&exchange.response, text);
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
pub(in crate::exchange) fn observe_bodies<S, U>(context: &mut Context<'_, S, U>, plans: Plans<'_>) {
    let Some(mirrored) = &context.exchange.mirror else { return };
    let mirrors = || mirrored.copies.iter().filter_map(|copied| plans.route.config.mirrors.get(copied.place));
    let is_compared = mirrors().any(Mirror::compares_bodies);
    let is_decoded = mirrors().any(|mirror| mirror.compares(MirrorPart::DecodedBody));
    let (coding, kept_max) = (mirrored.coding.filter(|_| is_decoded), mirrored.kept_max);
    if !context.exchange.request_relay.is_done() {
        context.exchange.replay_buffer.begin(kept_max);
    }
    if is_compared {
        acting::note(Stage::ResponseBody, Feature::Mirror);
        let limits = compression::limits(context.client, &context.config.snapshot);
        let digest = match coding {
            Some(coding) => {
                RunningDigest::decoding(context.client.worker.codecs.decoder(coding, limits).ok())
            }
            None => RunningDigest::new(),
        };
        context.exchange.response_relay.observe(BodyFilter::Digest(digest));
    }
}

/// The only content coding of a response, if it is one that can be decoded.
fn coding_of(response: &ResponseHead, text: &[u8]) -> Option<ContentCoding> {
    let mut codings = response.fields().all(FieldName::ContentEncoding).map(|field| field.value.of(text));
    let coding = codings.next().and_then(ContentCoding::from_name);
    coding.filter(|_| codings.next().is_none())
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
    let relay = &context.exchange.response_relay;
    let digest = match (settings.compares(MirrorPart::DecodedBody), settings.compares(MirrorPart::Body)) {
        (true, _) => relay.decoded_digest(),
        (false, true) => relay.digest(),
        (false, false) => None,
    };
    let call = context.exchange.grpc.and_then(|call| call.status);
    let real = RealResponse { status, call, digest, fields: copied.fields };
    let taker = CopyTaker::new(context, plans, CopyBegin { settings, state: Arc::clone(&plan.state), real });
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
