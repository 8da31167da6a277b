//! What servers ask for in fields of their responses (`x_accel`, `x_sendfile`): that the client gets the response of another route of the listener in
//! place of theirs, or theirs no faster than so.
//!
//! A server chooses among the routes of the listener that its route lies in, and nothing else: no host, no file by a path of its own. The fields
//! themselves reach no client, whatever is decided here ([`FieldSet::FOR_PROXY`](weir_http::FieldSet::FOR_PROXY)).

use std::future::poll_fn;
use std::os::unix::ffi::OsStrExt as _;
use std::rc::Rc;
use std::task::{self, Poll};

use weir_config::{AccelField, DotSegments, Feature, Stage, clean_path};
use weir_http::{FieldName, Fields, Method, digits};
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::acting;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::header_changes::HeadChanges;
use crate::exchange::exchange_state::outcome::RespondingServer;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::rerouting::NextStep;
use crate::exchange::exchange_state::response::kept_fields::KeptResponse;
use crate::exchange::exchange_state::response::rewritten_fields;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::cache;
use crate::exchange::features::error_pages::{intercept, lead_on};
use crate::exchange::features::headers::response;
use crate::exchange::features::{affinity, mirror};
use crate::net::buffer::MEMORY_KEPT_MAX;
use crate::net::clock;
use crate::relay::Relay;
use crate::relay::failure::of_request_body;
use crate::relay::memory::NullSink;
use crate::state::connections::activity::Activity;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::upstream::stream::{ServerStream, Servers};

/// Does what the server asks for in its response, as far as the route lets it; the response, if that is what the client gets.
///
/// # Errors
/// When the request goes on elsewhere, or the server has named a place where it cannot.
pub(in crate::exchange) async fn obey<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    responding: RespondingServer<U::Stream>,
) -> Result<RespondingServer<U::Stream>, Ended> {
    let exchange = &*context.exchange;
    let (route, fields, head) = (plans.route, exchange.response.fields(), responding.server.head());
    // A call of gRPC has its own response, and CONNECT asks for a tunnel.
    if exchange.grpc.is_some() || exchange.request.method() == Method::Connect {
        return Ok(responding);
    }
    let rate = rate_of(route, fields, head);
    let next = next_step(context.listener, route, (fields, head));
    if rate.is_some() || next.is_some() {
        acting::note(Stage::ResponseHead, Feature::Accel);
    }
    if let Some(rate) = rate {
        context.exchange.response_relay.limit_rate(rate);
    }
    let Some(next) = next else { return Ok(responding) };
    // As in nginx, a page in place of the response goes first.
    if intercept::is_wanted(context, plans, (responding.slot.server, responding.server.head())) {
        return Ok(responding);
    }
    leave(context, plans, (responding, rate, next.is_ok())).await;
    let Ok(next) = next else {
        return Err(Failure::server(Phase::Response, Cause::BadAccelTarget).into());
    };
    take_request(context, &next).await?;
    context.exchange.rerouting_mut().next = Some(next);
    Err(Ended::Rerouted)
}

/// Whether the server does not want its response to be buffered.
pub(in crate::exchange) fn forbids_buffering(exchange: &Exchange, route: &RoutePlan, head: &[u8]) -> bool {
    route.config.x_accel.contains(&AccelField::Buffering)
        && value(exchange.response.fields(), head, FieldName::XAccelBuffering)
            .is_some_and(|value| value.eq_ignore_ascii_case(b"no"))
}

fn value<'a>(fields: &Fields, head: &'a [u8], name: FieldName) -> Option<&'a [u8]> {
    fields.first(name).map(|field| field.value.of(head))
}

/// The bytes per second that the server wants the client to get at most; 0 and what is no number say nothing.
fn rate_of(route: &RoutePlan, fields: &Fields, head: &[u8]) -> Option<u64> {
    let counts = route.config.x_accel.contains(&AccelField::LimitRate);
    let value = value(fields, head, FieldName::XAccelLimitRate).filter(|_| counts)?;
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let number = is_number.then(|| str::from_utf8(value).ok()?.parse().ok())?;
    number.filter(|rate| *rate > 0)
}

/// Where the server wants the request to go on; an error for what is no place in the listener.
fn next_step(
    listener: &ListenerPlan,
    route: &RoutePlan,
    (fields, head): (&Fields, &[u8]),
) -> Option<Result<NextStep, ()>> {
    let obeys_redirects = route.config.x_accel.contains(&AccelField::Redirect);
    if let Some(target) = value(fields, head, FieldName::XAccelRedirect).filter(|_| obeys_redirects) {
        return Some(match target {
            [b'@', name @ ..] => str::from_utf8(name)
                .ok()
                .and_then(|name| listener.route_named(name))
                .map(NextStep::Route)
                .ok_or(()),
            [b'/', ..] if stays_inside(target) => {
                let target = clean_path(target).map_err(|DotSegments| ());
                let is_short = |target: &Vec<u8>| target.len() <= listener.head_limits.target_bytes_max;
                target.and_then(|target| is_short(&target).then_some(NextStep::Target(target)).ok_or(()))
            }
            _ => Err(()),
        });
    }
    let name = route.config.x_sendfile.as_ref()?;
    let path = value(fields, head, FieldName::XSendfile)?;
    let place = listener.route_named(name);
    let target = place.and_then(|place| target_of_file(&listener.route_plans[place], path));
    Some(place.zip(target).map(|(place, target)| NextStep::TargetOn(place, target)).ok_or(()))
}

/// Whether the path of a target names nothing above where it begins, however it is written.
fn stays_inside(target: &[u8]) -> bool {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let path = decoded(path);
    !path.contains(&0) && path.split(|byte| matches!(byte, b'/' | b'\\')).all(|segment| segment != b"..")
}

/// The target on a route with files for which that sends the file of this absolute path.
fn target_of_file(route: &RoutePlan, path: &[u8]) -> Option<Vec<u8>> {
    let files = route.files.as_ref()?;
    if path.first() != Some(&b'/') || !stays_inside(path) {
        return None;
    }
    let path = decoded(path);
    let root = files.place.as_os_str().as_bytes();
    let below = path.strip_prefix(root.strip_suffix(b"/").unwrap_or(root))?;
    if below.first() != Some(&b'/') {
        return None;
    }
    let mut written = Vec::with_capacity(below.len());
    for byte in below {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => written.push(*byte),
            byte if byte.is_ascii_alphanumeric() => written.push(*byte),
            byte => digits::percent_encoded(&mut written, *byte),
        }
    }
    match files.config.alias.as_ref().or(route.config.rewrite.as_ref()) {
        Some(prefix) => prefix.undo(&written),
        None => Some(written),
    }
}

/// A path without percent-encoding; what is none of that stays.
fn decoded(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((byte, behind)) = rest.split_first() {
        let pair = behind.get(..2).filter(|pair| *byte == b'%' && pair.iter().all(u8::is_ascii_hexdigit));
        let value = pair.and_then(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
        out.push(value.unwrap_or(*byte));
        rest = if value.is_some() { &behind[2..] } else { behind };
    }
    out
}

/// Lets go of the response of the server: what stays of it goes with that of the other route.
async fn leave<U: Servers>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    (responding, rate, goes_on): (RespondingServer<U::Stream>, Option<u64>, bool),
) {
    context.exchange.note_tried();
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Response, now);
    let server = responding.slot.server;
    let status = context.exchange.response.status();
    plans.server(server.index()).shard.responses.record(status);
    if plans.upstream.affinity.is_some() {
        affinity::learn(context, plans, server, responding.server.head());
        affinity::count(context.exchange, plans, server);
    }
    cache::response::leave(context, plans, &responding).await;
    if context.exchange.mirror.is_some() {
        mirror::note_head(context, plans, responding.server.head());
        mirror::send(context, plans);
    }
    if goes_on {
        let kept = keep(context, plans, (&responding, rate));
        context.exchange.rerouting_mut().kept = Some(Rc::new(kept));
    }
    intercept::drop_response(context, plans, responding).await;
}

/// What stays of the response.
fn keep<T: ServerStream, U>(
    context: &mut Context<'_, impl ClientStream, U>,
    plans: Plans<'_>,
    (responding, rate): (&RespondingServer<T>, Option<u64>),
) -> KeptResponse {
    let earlier = context.exchange.rerouting().and_then(|rerouting| rerouting.kept.as_deref());
    let mut kept = earlier.map(KeptResponse::of_earlier).unwrap_or_default();
    kept.rate = rate.or(kept.rate);
    let rewrites_cookies = !plans.route.config.rewrite_cookies.is_empty();
    if rewrites_cookies {
        response::prepare_rewritten(context, plans, responding);
        rewritten_fields::write(&mut kept, &context.exchange.rewritten_fields, HeadChanges::NONE);
    }
    let (exchange, head, server) = (&*context.exchange, responding.server.head(), responding.slot.server);
    let marking = plans.upstream.affinity.as_ref().filter(|affinity| affinity.changes_responses());
    let others = exchange.response.connection().others();
    for field in exchange.response.fields() {
        match (field.known, marking) {
            _ if others && exchange.response.is_named_by_connection(head, field) => {}
            (FieldName::SetCookie, _) if rewrites_cookies => {}
            (FieldName::SetCookie, Some(affinity)) => {
                affinity::write_set_cookie(&mut kept, affinity, server, head, field);
            }
            _ => kept.keep(field.name.of(head), field.value.of(head)),
        }
    }
    affinity::write_affinity_cookie(&mut kept, exchange.affinity, plans, (server, HeadChanges::NONE));
    kept
}

/// Prepares the request for the other route: to a path it goes on as GET or HEAD, without its body; to a route by name as it is, if all of its body can
/// be sent again.
///
/// # Errors
/// When the client does not send the rest of its body.
async fn take_request<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    next: &NextStep,
) -> Result<(), Ended> {
    let is_named = matches!(next, NextStep::Route(_));
    if is_named && context.exchange.replay_buffer.is_whole() {
        lead_on::take_body(context, true);
        return Ok(());
    }
    await_body(context).await?;
    let exchange = &mut *context.exchange;
    exchange.replay_buffer.reset(MEMORY_KEPT_MAX);
    exchange.request.drop_body(&mut exchange.request_text);
    exchange.rewind();
    Ok(())
}

/// Takes what is still to come of the body, which no server gets any more: what follows on the connection is the next request.
async fn await_body<U>(context: &mut Context<'_, impl ClientStream, U>) -> Result<(), Ended> {
    if context.stream.discard_body(context.client) {
        return Ok(());
    }
    if context.exchange.request.expects_continue() && !context.exchange.body_was_asked_for {
        // It may never come.
        context.stream.close_after();
        return Ok(());
    }
    let mut relay = Relay::new();
    poll_fn(|cx| poll_body(cx, context, &mut relay)).await.map_err(Ended::Failed)
}

fn poll_body<U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, impl ClientStream, U>,
    relay: &mut Relay,
) -> Poll<Result<(), Failure>> {
    let polled = relay.poll(cx, &mut context.stream.body(context.client), &mut NullSink);
    match polled {
        Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|error| of_request_body(&error))),
        Poll::Pending => {
            let received = context.stream.body_received();
            context.report(Activity::RequestBody);
            context.poll_over(Activity::RequestBody, received).map(Err)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_target_leads_above_its_beginning() {
        for (target, expected) in [
            ("/a/b", true),
            ("/a/b?x=/../y", true),
            ("/a/..b/b..", true),
            ("/a/%252e%252e/b", true),
            ("/", true),
            ("/a/../b", false),
            ("/a/..", false),
            ("/a/%2e%2e/b", false),
            ("/a/.%2E/b", false),
            ("/a%2f..%2fb", false),
            ("/a\\..\\b", false),
            ("/a%5c..%5cb", false),
            ("/a%00", false),
        ] {
            assert_eq!(stays_inside(target.as_bytes()), expected, "{target}");
        }
    }

    #[test]
    fn percent_signs_of_no_byte_stay() {
        for (path, expected) in [("/a%20b", "/a b"), ("/100%", "/100%"), ("/%4", "/%4"), ("/%zz%41", "/%zzA")]
        {
            assert_eq!(decoded(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }
}
