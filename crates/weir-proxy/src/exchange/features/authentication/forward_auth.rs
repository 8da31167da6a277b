//! Forward auth: a server of another upstream decides about a request before it goes to its own.
//!
//! A request of Weir's own ([`crate::exchange::features::subrequests::subrequest`]) that the exchange waits for, without a body, for the same client. Must not admit a request without
//! an answer, unless the config says so.

use std::io;
use std::task::{self, Poll};
use std::time::Duration;

use weir_config::{ForwardAuth, HeaderName, HeaderTemplate, Satisfy};
use weir_http::{Field, FieldName, FieldSet, ResponseHead, TargetForm};
use weir_observe::access_log::AuthRecord;
use weir_observe::{Cause, Failure, Party, Phase};

use super::kept_answers;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::authorization::Authorization;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::cors;
use crate::exchange::features::subrequests::subrequest::{self, ResponseTaker};
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::responder::Answer;
use crate::state::routes::access::{AccessPlan, AuthDecision, AuthDecisions, CredentialDigest};
use crate::state::routes::stripped_fields::is_given_by;
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;

/// Fields of a client's request that the question never has, beside those of the connection: about the body, conditions that would change the
/// status, and names by which servers are told of the request.
const LEFT_OUT: [&str; 17] = [
    "expect",
    "grpc-timeout",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "trailer",
    "x-auth-request-redirect",
    "x-forwarded-method",
    "x-forwarded-uri",
    "x-http-method-override",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
];

/// An answer that the client gets instead of one to its request.
pub(in crate::exchange) struct Denial {
    status: u16,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Denial {
    pub(in crate::exchange) fn status(&self) -> u16 {
        self.status
    }

    pub(in crate::exchange) fn answer(&self) -> Answer<'_> {
        let fields = self.fields.iter().map(|(name, value)| (&name[..], value.into()));
        Answer { fields: fields.collect(), body: (&self.body).into(), ..Answer::new(self.status) }
    }
}

/// Whether the request of the exchange may pass, by what the server has said about such requests before, or by the plan of the way to it; `None` when it
/// may.
///
/// # Errors
/// When there is no answer, or the client leaves meanwhile.
pub(in crate::exchange) async fn admit(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    access: &AccessPlan,
    (route, forward): (&RoutePlan, &ForwardAuth),
) -> Result<Option<Denial>, Ended> {
    let Some(decisions) = access.decisions.as_deref() else {
        return ask(context, route, forward, None).await;
    };
    let Some(digest) = kept_answers::digest(context, forward, decisions) else {
        return ask(context, route, forward, None).await;
    };
    if let Some(known) = decisions.get(digest, clock::now()) {
        return Ok(settle(context, forward, (*known).clone(), 0));
    }
    ask(context, route, forward, Some((decisions, digest))).await
}

/// Asks about the request of the exchange, and keeps the answer where that is wanted.
async fn ask(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    route: &RoutePlan,
    forward: &ForwardAuth,
    kept: Option<(&AuthDecisions, CredentialDigest)>,
) -> Result<Option<Denial>, Ended> {
    let began = clock::now();
    context.client.now = began;
    context.exchange.record.spend(Phase::Route, began);
    let further = further_fields(context, forward);
    let mut inner = inner_exchange(context, (forward, &further))?;
    let plans = Plans::new(context.config, route, forward.upstream.0);
    let mut answer = AuthAnswer::none(forward);
    let before = context.client.deadline.narrow(forward.timeout.map(|limit| began + limit));
    let outcome = subrequest::run(&mut context.beside(&mut inner), plans, &[], &mut answer).await;
    let is_own_limit = context.client.deadline.lift(before);
    let outcome = outcome.map_err(|ended| match ended {
        Ended::Failed(failure) if is_own_limit && failure.cause == Cause::ExchangeTimedOut => {
            Failure::server(failure.phase, Cause::TimedOut).into()
        }
        ended => ended,
    });
    let now = clock::now();
    context.client.now = now;
    context.exchange.record.spend(Phase::Route, now);
    let micros = clock::micros(now - began);
    match outcome {
        Ok(()) => {
            if let Some((kept, time)) = kept.zip(answer.kept_max) {
                kept_answers::keep(&answer.decision, kept, now, time);
            }
            Ok(settle(context, forward, answer.decision, micros))
        }
        Err(ended) => {
            let Ended::Failed(failure) = ended else { return Err(ended) };
            let granted = context.exchange.authorization.get_or_insert_default();
            granted.auth = Some(AuthRecord { status: None, reason: Some(failure.reason()), micros });
            match without_answer(failure) {
                Missing::OfServer(_) if fails_open(context, forward) => Ok(None),
                Missing::OfServer(failure) | Missing::OfExchange(failure) => Err(failure.into()),
            }
        }
    }
}

/// Whether a request passes without an answer: not where something has to admit it.
fn fails_open<U>(context: &Context<'_, impl ClientStream, U>, forward: &ForwardAuth) -> bool {
    let of_route = context.route().and_then(|route| route.config.access.as_ref());
    forward.fail_open && of_route.is_none_or(|access| access.satisfy == Satisfy::All)
}

/// Does what the server has said of the request: what the client gets instead of an answer to it, or `None` when it may pass.
fn settle<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    forward: &ForwardAuth,
    decision: AuthDecision,
    micros: u32,
) -> Option<Denial> {
    let fails_open = fails_open(context, forward);
    // Fields of credentials, which the request has kept until now.
    context.exchange.withhold(|name| is_given_by(forward, name));
    let AuthDecision { status, fields, body } = decision;
    let granted = context.exchange.authorization.get_or_insert_default();
    granted.auth = Some(AuthRecord { status: Some(status), reason: None, micros });
    if (200..300).contains(&status) {
        granted.fields = fields;
        return None;
    }
    if fails_open && status >= 500 {
        return None;
    }
    let has_cors = context.route().is_some_and(|route| route.config.cors.is_some());
    // On a route with CORS, Weir alone speaks of that.
    let is_kept = |name: &[u8]| !has_cors || !cors::is_of_protocol(name);
    let fields = fields.into_iter().filter(|(name, _)| is_kept(name)).collect();
    Some(Denial { status, fields, body })
}

/// Why there is no answer.
enum Missing {
    /// The server, or the way to it.
    OfServer(Failure),
    /// The exchange itself has come to its end.
    OfExchange(Failure),
}

fn without_answer(failure: Failure) -> Missing {
    let of_exchange = matches!(failure.cause, Cause::ExchangeTimedOut | Cause::Killed | Cause::MemoryLimit);
    if failure.party == Party::Client || of_exchange {
        return Missing::OfExchange(Failure { phase: Phase::Route, ..failure });
    }
    let cause = match failure.log_status() {
        503 => Cause::AuthUnavailable,
        504 => Cause::AuthTimedOut,
        _ => Cause::AuthFailed,
    };
    Missing::OfServer(Failure::server(Phase::Route, cause))
}

/// The fields that the config adds to the question.
fn further_fields<'a, U>(
    context: &Context<'_, impl ClientStream, U>,
    forward: &'a ForwardAuth,
) -> QuestionFields<'a> {
    if forward.headers.is_empty() {
        return Vec::new();
    }
    let values = TemplateValues::new(context, context.route());
    let written = |(name, template): &'a (HeaderName, HeaderTemplate)| {
        let mut value = Vec::new();
        values.write(template, &mut value).then_some((name.as_bytes(), value))
    };
    forward.headers.iter().filter_map(written).collect()
}

/// Names and values of fields that the question has besides those of the request.
type QuestionFields<'a> = Vec<(&'a [u8], Vec<u8>)>;

/// The exchange of the question: a GET with what is known of the request.
fn inner_exchange<S, U>(
    context: &Context<'_, S, U>,
    (forward, further): (&ForwardAuth, &QuestionFields<'_>),
) -> Result<Box<Exchange>, Ended> {
    let mut inner = subrequest::exchange_beside(context.exchange, forward.upstream.0, context.client);
    inner.record.trace = context.exchange.record.trace;
    let (request, text) = (&context.exchange.request, &context.exchange.request_text[..]);
    let others = request.connection().others();
    let goes = |field: &&Field| {
        let name = field.name.of(text);
        let is_wanted = |wanted: &Vec<HeaderName>| wanted.iter().any(|one| is_named(one, name));
        let is_dropped = FieldSet::REQUEST_HOP.contains(field.known)
            || (others && request.is_named_by_connection(text, field))
            || is_left_out(name)
            || forward.response_headers.iter().any(|given| is_named(given, name))
            || forward.headers.iter().any(|(own, _)| is_named(own, name));
        !is_dropped
            && (forward.request_headers.as_ref().is_none_or(is_wanted) || is_forwarded(context, field))
    };
    let mut uri = Vec::new();
    match request.target_form() {
        TargetForm::Origin | TargetForm::Absolute => {
            // As servers get it and routes compare it: another spelling must not mislead the server that decides.
            uri.extend_from_slice(request.normal_path(text));
            if let Some(query) = request.query() {
                uri.push(b'?');
                uri.extend_from_slice(query.of(text));
            }
        }
        TargetForm::Authority | TargetForm::Asterisk => uri.extend_from_slice(request.target().of(text)),
    }
    let fields =
        request.fields().iter().filter(goes).map(|field| (field.name.of(text), field.value.of(text)));
    let method = request.method_span().of(text).to_vec();
    let mut told = vec![(b"X-Forwarded-Method".to_vec(), method), (b"X-Forwarded-Uri".to_vec(), uri)];
    told.extend(further.iter().map(|(name, value)| (name.to_vec(), value.clone())));
    inner.authorization = Some(Box::new(Authorization { fields: told, ..Authorization::default() }));
    let host = request.authority().of(text);
    let composed =
        inner.request.compose_get(&mut inner.request_text, forward.path.exposed().as_bytes(), host, fields);
    composed.map_err(|rule| Failure::client(Phase::Route, Cause::Rule(rule)))?;
    Ok(inner)
}

/// Whether a trusted proxy says in it of its client what the listener tells servers: without that, the proxy would count as the client.
fn is_forwarded<S, U>(context: &Context<'_, S, U>, field: &Field) -> bool {
    let forwarded = &context.listener.config.forwarded;
    let is_told = match field.known {
        FieldName::XForwardedFor
        | FieldName::XForwardedProto
        | FieldName::XForwardedHost
        | FieldName::XForwardedPort => forwarded.x_forwarded,
        FieldName::Forwarded => forwarded.rfc7239,
        _ => false,
    };
    is_told && context.listener.trusts(context.client.peer)
}

fn is_named(name: &HeaderName, other: &[u8]) -> bool {
    name.as_bytes().eq_ignore_ascii_case(other)
}

/// Whether the question never has a field of this name.
fn is_left_out(name: &[u8]) -> bool {
    let begins =
        |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    begins(b"content-")
        || begins(b"sec-websocket-")
        || LEFT_OUT.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name))
}

/// What the server has said.
struct AuthAnswer<'a> {
    forward: &'a ForwardAuth,
    decision: AuthDecision,
    /// How long it may be kept at most; `None`: not at all. Known where answers are kept.
    kept_max: Option<Duration>,
    /// Whether the body is longer than it may be.
    is_over: bool,
}

impl<'a> AuthAnswer<'a> {
    fn none(forward: &'a ForwardAuth) -> Self {
        let decision = AuthDecision { status: 0, fields: Vec::new(), body: Vec::new() };
        Self { forward, decision, kept_max: None, is_over: false }
    }

    fn is_granted(&self) -> bool {
        (200..300).contains(&self.decision.status)
    }
}

impl ResponseTaker for AuthAnswer<'_> {
    fn begin(&mut self, response: &ResponseHead, text: &[u8]) {
        self.decision.status = response.status();
        if let Some(cache) = self.forward.cache.as_deref() {
            self.kept_max = kept_answers::time_max(cache, (response, text));
        }
        let others = response.connection().others();
        let hop = FieldSet::RESPONSE_HOP.with(FieldSet::new(&[FieldName::Date]));
        let is_of_use = |field: &&Field| match self.is_granted() {
            true => self.forward.response_headers.iter().any(|name| is_named(name, field.name.of(text))),
            false => !(hop.contains(field.known) || others && response.is_named_by_connection(text, field)),
        };
        let fields = response.fields().iter().filter(is_of_use);
        self.decision.fields =
            fields.map(|field| (field.name.of(text).to_vec(), field.value.of(text).to_vec())).collect();
    }

    fn is_enough(&self) -> Result<(), Failure> {
        // Of a request that passes, the body of the answer is of no use.
        let excess = Failure::server(Phase::Relay, Cause::ResponseExcess);
        if self.is_granted() { Ok(()) } else { Err(excess) }
    }
}

impl Sink for AuthAnswer<'_> {
    fn has_room(&self) -> bool {
        !self.is_over
    }

    fn is_waiting(&self) -> bool {
        self.is_over
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        let limit = usize::try_from(self.forward.body_size.bytes()).unwrap_or(usize::MAX);
        if self.decision.body.len() + data.len() <= limit {
            self.decision.body.extend_from_slice(data);
        } else {
            self.is_over = true;
        }
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {}

    fn poll_write(&mut self, _cx: &mut task::Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Ready(Err(RelayError::Write(io::ErrorKind::FileTooLarge.into())))
    }
}
