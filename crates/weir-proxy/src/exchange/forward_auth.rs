//! Forward auth: a server of another upstream decides about a request before it goes to its own.
//!
//! A small exchange of its own, with a slot, connection and time limits as any other, but without a body, for the same client. Must not admit a
//! request without an answer, unless the config says so.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_config::{ForwardAuth, HeaderName};
use weir_http::{Field, FieldName, FieldSet, Method, TargetForm};
use weir_observe::access_log::AuthRecord;
use weir_observe::{Cause, Failure, Party, Phase};

use super::client::Client;
use super::outcome::{AttemptHistory, RespondingServer};
use super::plans::Plans;
use super::stream::{ClientEnd, ClientStream, FinalHead, Status};
use super::{Ended, Exchange, attempt, cors, finish, queue, retry};
use crate::net::clock;
use crate::net::tls::facts::TlsFacts;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::failure::of_response_body;
use crate::relay::memory::MemoryBody;
use crate::responder::Answer;
use crate::state::activity::Activity;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::state::worker_config::WorkerConfig;
use crate::upstream::stream::{ServerStream, Servers};

/// Fields of a client's request that the question never has, beside those of the connection: about the body, conditions that would change the
/// status, and names by which servers are told of the request.
const LEFT_OUT: [&str; 16] = [
    "expect",
    "grpc-timeout",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "trailer",
    "x-forwarded-method",
    "x-forwarded-uri",
    "x-http-method-override",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
];

/// What is asked, and where.
#[derive(Clone, Copy)]
pub(super) struct AuthQuestion<'a> {
    pub(super) config: &'a Rc<WorkerConfig>,
    pub(super) listener: &'a ListenerPlan,
    /// The way to the server that decides.
    pub(super) route: &'a RoutePlan,
    pub(super) forward: &'a ForwardAuth,
}

/// An answer that the client gets instead of one to its request.
pub(super) struct Denial {
    status: u16,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Denial {
    pub(super) fn answer(&self) -> Answer<'_> {
        let fields = self.fields.iter().map(|(name, value)| (&name[..], value.into()));
        Answer { status: self.status, fields: fields.collect(), body: (&self.body).into() }
    }
}

/// Asks about the request of the exchange; `None` when it may pass.
///
/// # Errors
/// When there is no answer, or the client leaves meanwhile.
pub(super) async fn ask<C: ClientStream, U: Servers>(
    client: &mut Client,
    stream: &mut C,
    servers: &mut U,
    exchange: &mut Exchange,
    question: AuthQuestion<'_>,
) -> Result<Option<Denial>, Ended> {
    let forward = question.forward;
    let began = clock::now();
    client.now = began;
    exchange.record.spend(Phase::Route, began);
    let mut inner = inner_exchange(client, exchange, forward)?;
    let outcome = converse(client, &mut Asking { outer: stream }, servers, &mut inner, question).await;
    let now = clock::now();
    client.now = now;
    exchange.record.spend(Phase::Route, now);
    let micros = clock::micros(now - began);
    let granted = exchange.granted.get_or_insert_default();
    match outcome {
        Ok(AuthAnswer { status, fields, body }) => {
            granted.auth = Some(AuthRecord { status: Some(status), reason: None, micros });
            if (200..300).contains(&status) {
                granted.fields = fields;
                return Ok(None);
            }
            if forward.fail_open && status >= 500 {
                return Ok(None);
            }
            let is_kept = |name: &[u8]| question_allows(exchange, question.listener, name);
            let fields = fields.into_iter().filter(|(name, _)| is_kept(name)).collect();
            Ok(Some(Denial { status, fields, body }))
        }
        Err(ended) => {
            let Ended::Failed(failure) = ended else { return Err(ended) };
            granted.auth = Some(AuthRecord { status: None, reason: Some(failure.reason()), micros });
            match without_answer(failure) {
                Missing::OfServer(_) if forward.fail_open => Ok(None),
                Missing::OfServer(failure) | Missing::OfExchange(failure) => Err(failure.into()),
            }
        }
    }
}

/// Whether a field of an answer goes to the client: on a route with CORS, Weir alone speaks of that.
fn question_allows(exchange: &Exchange, listener: &ListenerPlan, name: &[u8]) -> bool {
    let route = exchange.record.route.map(|index| &listener.route_plans[index]);
    route.is_none_or(|route| route.config.cors.is_none()) || !cors::is_of_protocol(name)
}

/// Why there is no answer.
enum Missing {
    /// The server, or the way to it.
    OfServer(Failure),
    /// The exchange itself has come to its end.
    OfExchange(Failure),
}

fn without_answer(failure: Failure) -> Missing {
    let of_exchange = matches!(failure.cause, Cause::ExchangeTimedOut | Cause::Killed);
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

/// The exchange of the question: a GET with what is known of the request.
fn inner_exchange(
    client: &Client,
    exchange: &Exchange,
    forward: &ForwardAuth,
) -> Result<Box<Exchange>, Ended> {
    let mut inner = Box::new(Exchange::new());
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let others = request.connection().others();
    let goes = |field: &&Field| {
        let name = field.name.of(text);
        let is_wanted = |wanted: &Vec<HeaderName>| wanted.iter().any(|one| is_named(one, name));
        let is_dropped = FieldSet::REQUEST_HOP.contains(field.known)
            || (others && request.is_named_by_connection(text, field))
            || is_left_out(name)
            || forward.response_headers.iter().any(|given| is_named(given, name));
        !is_dropped && forward.request_headers.as_ref().is_none_or(is_wanted)
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
    let told = [(&b"X-Forwarded-Method"[..], request.method_span().of(text)), (b"X-Forwarded-Uri", &uri)];
    let host = request.authority().of(text);
    let composed =
        inner.request.compose_get(&mut inner.request_text, forward.path.as_bytes(), host, fields.chain(told));
    composed.map_err(|rule| Failure::client(Phase::Route, Cause::Rule(rule)))?;
    inner.record.began = client.now;
    inner.record.accounted = client.now;
    inner.record.begin_config(client);
    inner.record.route = exchange.record.route;
    inner.record.upstream = Some(forward.upstream.0);
    inner.record.request_id.extend_from_slice(&exchange.record.request_id);
    inner.record.trace = exchange.record.trace;
    Ok(inner)
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
struct AuthAnswer {
    status: u16,
    /// Of one with 2xx, those that the request gets; of others, those that the client gets.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

/// Sends the question to a server and reads its answer.
async fn converse<C: ClientStream, U: Servers>(
    client: &mut Client,
    stream: &mut Asking<'_, C>,
    servers: &mut U,
    inner: &mut Exchange,
    question: AuthQuestion<'_>,
) -> Result<AuthAnswer, Ended> {
    let AuthQuestion { config, listener, route, forward } = question;
    let upstream_index = forward.upstream.0;
    let upstream = &*config.snapshot.upstreams[upstream_index];
    let plans = Plans { config, listener, route, upstream, upstream_index };
    inner.waits.begin(&listener.wait_limits(upstream));
    retry::begin(client, inner, plans);
    let outcome = respond(client, stream, servers, inner, plans, forward).await;
    let shard = plans.upstream_shard();
    shard.requests.increment();
    match &outcome {
        Ok(verdict) => shard.responses.record(verdict.status),
        Err(Ended::Failed(failure)) => shard.failures.record(*failure),
        Err(Ended::Quietly) => {}
    }
    outcome
}

async fn respond<C: ClientStream, U: Servers>(
    client: &mut Client,
    stream: &mut Asking<'_, C>,
    servers: &mut U,
    inner: &mut Exchange,
    plans: Plans<'_>,
    forward: &ForwardAuth,
) -> Result<AuthAnswer, Ended> {
    let mut history = AttemptHistory::new();
    let mut kept = None;
    let (location, mut serving) = loop {
        let slot = match kept.take() {
            Some(slot) => slot,
            None => queue::admit(client, stream, inner, plans, &history.excluded)
                .await
                .map_err(|ended| history.or_last(ended))?,
        };
        let location = slot.location();
        let plans = plans.on(&location.0, location.1);
        match attempt::run(client, stream, servers, inner, plans, slot, &history).await {
            Ok(serving) => break (location, serving),
            Err(failed) => kept = retry::again(client, inner, plans, &mut history, failed)?,
        }
    };
    let plans = plans.on(&location.0, location.1);
    let status = inner.response.status();
    let is_granted = (200..300).contains(&status);
    let fields = begin_answer(client, inner, plans, &mut serving, forward, is_granted);
    let limit = usize::try_from(forward.body_size.bytes()).unwrap_or(usize::MAX);
    let mut body = Collected { bytes: Vec::new(), limit, is_over: false };
    let read =
        std::future::poll_fn(|cx| poll_body(cx, client, stream, inner, &mut serving.server, &mut body));
    match read.await {
        Ok(()) => finish::run(client, servers, inner, plans, serving),
        Err(failure) => {
            inner.record.sent_to_server += serving.server.sent();
            servers.drop_stream(serving.server);
            // Of a request that passes, the body of the answer is of no use.
            if !(is_granted && body.is_over) {
                return Err(failure.into());
            }
        }
    }
    Ok(AuthAnswer { status, fields, body: body.bytes })
}

/// Accounts for the head of the answer; its fields that are of use.
fn begin_answer<T: ServerStream>(
    client: &mut Client,
    inner: &mut Exchange,
    plans: Plans<'_>,
    serving: &mut RespondingServer<T>,
    forward: &ForwardAuth,
    is_granted: bool,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    let now = clock::now();
    client.now = now;
    inner.record.spend(Phase::Response, now);
    let shard = &plans.server(serving.slot.server.index()).shard;
    shard.responses.record(inner.response.status());
    shard.response_time.record(u64::from(inner.record.times[Phase::Response]));
    let _length = serving.server.begin_body(&inner.response, Method::Get, plans.upstream.chunked_limits);
    let (response, text) = (&inner.response, serving.server.head());
    let others = response.connection().others();
    let hop = FieldSet::RESPONSE_HOP.with(FieldSet::of(&[FieldName::Date]));
    let is_of_use = |field: &&Field| match is_granted {
        true => forward.response_headers.iter().any(|name| is_named(name, field.name.of(text))),
        false => !(hop.contains(field.known) || others && response.is_named_by_connection(text, field)),
    };
    let fields = response.fields().iter().filter(is_of_use);
    let fields = fields.map(|field| (field.name.of(text).to_vec(), field.value.of(text).to_vec())).collect();
    serving.server.take_head();
    fields
}

fn poll_body<C: ClientStream>(
    cx: &mut Context<'_>,
    client: &mut Client,
    stream: &mut Asking<'_, C>,
    inner: &mut Exchange,
    server: &mut impl ServerStream,
    body: &mut Collected,
) -> Poll<Result<(), Failure>> {
    let polled = server.poll_response(cx, &mut inner.response_relay, body, &client.worker.stock);
    if body.is_over {
        return Poll::Ready(Err(Failure::server(Phase::Relay, Cause::ResponseExcess)));
    }
    if let Poll::Ready(outcome) = polled {
        return Poll::Ready(outcome.map_err(|error| of_response_body(&error)));
    }
    if let Some(cause) = stream.poll_gone(cx, client) {
        return Poll::Ready(Err(Failure::client(Phase::Route, cause)));
    }
    client.report(Activity::ResponseBody, stream, inner);
    let moved = inner.response_relay.moved;
    inner.waits.poll_over(&mut client.deadline, Activity::ResponseBody, moved).map(Err)
}

/// A body that is gathered, up to a limit.
struct Collected {
    bytes: Vec<u8>,
    limit: usize,
    is_over: bool,
}

impl Sink for Collected {
    fn has_room(&self) -> bool {
        true
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if self.bytes.len() + data.len() <= self.limit {
            self.bytes.extend_from_slice(data);
        } else {
            self.is_over = true;
        }
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {}

    fn poll_write(&mut self, _cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Ready(Ok(0))
    }
}

/// The client as the question sees it: it sends no body and gets nothing, but may leave.
struct Asking<'a, C> {
    outer: &'a mut C,
}

impl<C: ClientStream> ClientEnd for Asking<'_, C> {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.outer.tls()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.outer.local_address()
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>, client: &mut Client) -> Option<Cause> {
        self.outer.poll_gone(cx, client)
    }

    fn body_received(&self) -> u64 {
        self.outer.body_received()
    }

    fn sent(&self) -> u64 {
        self.outer.sent()
    }

    fn stays_open(&self) -> bool {
        self.outer.stays_open()
    }
}

impl<C: ClientStream> ClientStream for Asking<'_, C> {
    type Body<'b>
        = MemoryBody<'b>
    where
        Self: 'b;

    type Reply<'b>
        = C::Reply<'b>
    where
        Self: 'b;

    type Fields<'b>
        = C::Fields<'b>
    where
        Self: 'b;

    async fn receive(
        &mut self,
        _client: &mut Client,
        _exchange: &mut Exchange,
        _listener: &ListenerPlan,
    ) -> Result<(), Ended> {
        Ok(())
    }

    fn begin_body(&mut self, _client: &Client, _exchange: &Exchange, _listener: &ListenerPlan) {}

    fn body<'b>(&'b mut self, _client: &'b Client) -> MemoryBody<'b> {
        MemoryBody(&[])
    }

    fn body_announced(&self) -> Option<u64> {
        None
    }

    fn limit_body(&mut self, _bytes_max: u64) {}

    fn reply(&mut self) -> C::Reply<'_> {
        self.outer.reply()
    }

    fn interim(
        &mut self,
        _exchange: &Exchange,
        _status: Status<'_>,
        _fields: impl FnOnce(&mut C::Fields<'_>),
    ) {
    }

    fn respond(
        &mut self,
        _client: &Client,
        _exchange: &Exchange,
        _response: &FinalHead<'_>,
        _fields: impl FnOnce(&mut C::Fields<'_>),
    ) {
    }

    fn take_back(&mut self) -> bool {
        false
    }

    fn close_after(&mut self) {}

    fn poll_reset(&mut self, cx: &mut Context<'_>, client: &mut Client) -> Option<Cause> {
        self.outer.poll_reset(cx, client)
    }
}
