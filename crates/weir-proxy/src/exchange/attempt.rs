//! Phases Connect, Send and Response: one attempt of an exchange on one server.
//!
//! It ends with a response head that can be relayed, or with a failure that says whether the request may have had an
//! effect. While it waits for the head it passes on interim responses and the rest of the request body.

use std::future::Future as _;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_http::{FieldName, HeadProgress, RequestBody};
use weir_observe::{Cause, Failure, Party, Phase};
use weir_traffic::{ServerId, retry};

use super::client::Client;
use super::outcome::{Failed, Kind, Serving, Tried};
use super::plans::Plans;
use super::stream::{ClientEnd, ClientStream, Status};
use super::{Exchange, choose, fields, private};
use crate::net::clock::{self, Instant};
use crate::net::connection::Connection;
use crate::net::descriptors::{self, ServerPlace};
use crate::net::failure::{of_io, of_server};
use crate::net::socket::Behind;
use crate::relay::failure::of_request_body;
use crate::relay::http1::{Framing, Writer};
use crate::relay::replay::Replay;
use crate::relay::{Relay, RelayError, Sink as _, Waiting};
use crate::state::activity::Activity;
use crate::state::pool::ServerConnection;
use crate::state::snapshot::UpstreamPlan;
use crate::state::upstream::outliers::Outcome;
use crate::state::view::LocalServer;
use crate::upstream::handshake::{self, Opening};
use crate::upstream::slot::Slot;
use crate::upstream::{http1, proxy_header};

/// Interim responses that one exchange passes on; more is a server gone wrong.
const INTERIM_RESPONSES_MAX: u32 = 32;

/// Sends the request to the server of `slot` and waits for the head of its response. The balancer hears how long it
/// took, if it wants to.
pub(crate) async fn run<S: ClientStream>(
    client: &mut Client,
    stream: &mut S,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    slot: Slot,
    tried: &Tried,
) -> Result<Serving, Failed> {
    let began = client.now;
    let index = slot.server.index();
    let local = begin(exchange, plans, slot.server, began);
    let mut attempt = Attempt::new(slot);
    let connected = attempt.connect(client, stream, exchange, plans, local, tried).await;
    let mut server = connected.inspect_err(|failed| {
        tell_latency(plans, index, began, Some(failed.failure));
        tell_outcome(plans, local, failed.server, judge_failure(failed), began);
    })?;
    attempt.reused = server.requests > 0;
    exchange.record.reused = attempt.reused;
    exchange.story.connected(server.opened_at, server.requests);
    server.requests += 1;

    server.is_private |= private::has_credentials(exchange);
    let close = plans.upstream.pool_limits.kept_max == 0 && !server.is_private;
    write_request(client, stream, exchange, plans, attempt.slot.server, close);
    exchange.to_server.framing = match exchange.request.body() {
        RequestBody::Chunked => Framing::Chunked,
        RequestBody::None | RequestBody::Length(_) => Framing::Plain,
    };
    exchange.waits.begin_attempt(client.now);
    let sent_before = exchange.to_server.sent;
    let mut send_failed = None;
    let outcome = std::future::poll_fn(|cx| {
        attempt.poll_response(cx, client, stream, exchange, &mut server, plans, &mut send_failed)
    })
    .await;
    attempt.sent_any = exchange.to_server.sent > sent_before;
    tell_latency(plans, index, began, outcome.as_ref().err().map(|(failure, _)| *failure));
    match outcome {
        Ok(head_len) => {
            local.shard.requests.increment();
            let judged = plans.upstream.ejector.judge(exchange.response.status());
            tell_outcome(plans, local, attempt.slot.server, judged, began);
            let Attempt { slot, sent_any, .. } = attempt;
            Ok(Serving { server, slot, head_len, sent_any, send_failed: send_failed.is_some() })
        }
        Err((failure, kind)) => {
            let failed = attempt.failed(failure, kind);
            tell_outcome(plans, local, failed.server, judge_failure(&failed), began);
            Err(failed)
        }
    }
}

/// Opens a connection to the server of `slot` for a tunnel: it carries nothing else before or after.
pub(crate) async fn connect<S: ClientEnd>(
    client: &mut Client,
    stream: &mut S,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    slot: Slot,
) -> Result<(ServerConnection, Slot), Failed> {
    let began = client.now;
    let index = slot.server.index();
    let local = begin(exchange, plans, slot.server, began);
    let mut attempt = Attempt::new(slot);
    let connected = attempt.connect_anew(client, stream, exchange, plans, local).await;
    tell_latency(plans, index, began, connected.as_ref().err().map(|failed| failed.failure));
    match connected {
        Ok(server) => {
            exchange.story.connected(server.opened_at, 0);
            local.shard.requests.increment();
            tell_outcome(plans, local, attempt.slot.server, Outcome::Success, began);
            Ok((server, attempt.slot))
        }
        Err(failed) => {
            tell_outcome(plans, local, failed.server, judge_failure(&failed), began);
            Err(failed)
        }
    }
}

/// Counts an attempt on a server.
fn begin<'a>(exchange: &mut Exchange, plans: Plans<'a>, server: ServerId, began: Instant) -> &'a LocalServer {
    exchange.story.begin(plans.upstream.balancer().states(), server, began);
    let local = plans.server(server.index());
    exchange.record.server = Some(server.index());
    exchange.record.attempts += 1;
    exchange.record.reused = false;
    local.shard.attempts.increment();
    plans.upstream.begin(server);
    local
}

/// What a failed attempt says of its server.
fn judge_failure(failed: &Failed) -> Outcome {
    // A client that holds back its body can have the server switch too early as often as it likes.
    let by_client = failed.failure.party != Party::Server || failed.failure.cause == Cause::PrematureUpgrade;
    if by_client || failed.is_stale() {
        return Outcome::Unknown;
    }
    Outcome::Failure(failed.failure.into())
}

/// Tells the rules of ejection how an attempt ended that `began` then.
#[inline]
fn tell_outcome(plans: Plans<'_>, local: &LocalServer, server: ServerId, outcome: Outcome, began: Instant) {
    if matches!(outcome, Outcome::Failure(_)) {
        local.shard.outlier_failures.increment();
    }
    plans.upstream.hear(server, outcome, began);
}

/// Tells the balancer how long an attempt took that `began` then, if it wants to know.
fn tell_latency(plans: Plans<'_>, server: usize, began: Instant, failure: Option<Failure>) {
    // What fails at once is not fast.
    let shows_latency = failure.is_none_or(|failure| failure.cause == Cause::TimedOut);
    if shows_latency && plans.upstream.balancer().measures_latency() {
        let now = clock::now();
        let state = &plans.upstream.balancer().states()[server];
        state.observe_latency(clock::micros(now - began), plans.upstream.millis(now));
    }
}

/// The state of one attempt.
struct Attempt {
    slot: Slot,
    sent_any: bool,
    received_any: bool,
    reused: bool,
    interim: u32,
}

type AttemptError = (Failure, Kind);

impl Attempt {
    fn new(slot: Slot) -> Self {
        Self { slot, sent_any: false, received_any: false, reused: false, interim: 0 }
    }

    fn failed(self, failure: Failure, kind: Kind) -> Failed {
        let (sent_any, received_any, reused) = (self.sent_any, self.received_any, self.reused);
        let server = self.slot.server;
        let mut failed = Failed { failure, server, kind, sent_any, received_any, reused, slot: None };
        failed.slot = Some(self.slot).filter(|_| failed.is_stale());
        failed
    }

    /// An idle connection that is quiet and open, or a new one.
    async fn connect<S: ClientEnd>(
        &mut self,
        client: &mut Client,
        stream: &mut S,
        exchange: &mut Exchange,
        plans: Plans<'_>,
        local: &LocalServer,
        tried: &Tried,
    ) -> Result<ServerConnection, Failed> {
        // A request that cannot be sent twice gets the more careful check.
        let careful = !plans.upstream.may_repeat(exchange) || exchange.request.body() != RequestBody::None;
        let index = self.slot.server.index();
        if tried.fresh {
            plans.upstream.shared_pool[index].iter().for_each(|shared| shared.clear());
            client.pinned.clear(plans.server(index));
        } else if let Some(server) = take_pooled(client, plans, index, careful) {
            local.shard.reuses.increment();
            return Ok(server);
        }
        self.connect_anew(client, stream, exchange, plans, local).await
    }

    /// A new connection.
    async fn connect_anew<S: ClientEnd>(
        &mut self,
        client: &mut Client,
        stream: &mut S,
        exchange: &mut Exchange,
        plans: Plans<'_>,
        local: &LocalServer,
    ) -> Result<ServerConnection, Failed> {
        let index = self.slot.server.index();
        if ServerPlace::are_used_up() {
            client.worker.free_descriptors();
        }
        let place = ServerPlace::take();
        let mut outcome = open(client, stream, exchange, plans, index).await;
        if let Err((failure, _)) = &outcome
            && failure.cause == Cause::DescriptorLimit
            && client.worker.free_descriptors()
        {
            outcome = open(client, stream, exchange, plans, index).await;
        }
        drop(place);
        let now = clock::now();
        let micros = u64::from(clock::micros(now.saturating_duration_since(client.now)));
        exchange.record.spend(Phase::Connect, now);
        client.now = now;
        local.shard.connects.increment();
        match outcome {
            Ok(connection) => {
                local.shard.connect_time.record(micros);
                if let Some(tls) = &connection.tls {
                    local.shard.tls_handshakes.increment();
                    local.shard.tls_resumptions.add(u64::from(tls.is_resumed()));
                }
                Ok(ServerConnection::new(connection, now, Arc::clone(&local.shard)))
            }
            Err((failure, kind)) => {
                if descriptors::is_local(failure) {
                    client.worker.count_wanting(failure);
                } else {
                    local.shard.connect_errors.increment();
                }
                Err(Failed {
                    failure,
                    server: self.slot.server,
                    kind,
                    sent_any: false,
                    received_any: false,
                    reused: false,
                    slot: None,
                })
            }
        }
    }

    /// Sends what is left of the request and reads until the head of the final response is complete; gives its length.
    fn poll_response<S: ClientStream>(
        &mut self,
        cx: &mut Context<'_>,
        client: &mut Client,
        stream: &mut S,
        exchange: &mut Exchange,
        server: &mut ServerConnection,
        plans: Plans<'_>,
        send_failed: &mut Option<Failure>,
    ) -> Poll<Result<usize, AttemptError>> {
        flush_interim(cx, stream)?;
        if send_failed.is_none() {
            poll_send(cx, client, stream, exchange, &mut server.connection, send_failed)?;
        }
        loop {
            match server.connection.poll_fill(cx, &client.worker.stock) {
                Poll::Ready(Ok(len)) if len > 0 => self.received_any = true,
                Poll::Ready(outcome) => {
                    let failure = self.server_closed(outcome, *send_failed);
                    return Poll::Ready(Err((failure, Kind::Server(retry::RetryCause::ConnectionError))));
                }
                Poll::Pending => {
                    return poll_wait(cx, client, stream, exchange, send_failed.is_some()).map(Err);
                }
            }
            while let Some(len) = parse_head(exchange, &mut server.connection, plans.upstream)? {
                if !is_interim(exchange.response.status()) {
                    check_final(exchange, plans)?;
                    return Poll::Ready(Ok(len));
                }
                self.pass_interim(stream, exchange, &mut server.connection, len)?;
                flush_interim(cx, stream)?;
            }
        }
    }

    /// The server closed or reset the connection before the head of its response was complete.
    fn server_closed(&self, outcome: std::io::Result<usize>, send_failed: Option<Failure>) -> Failure {
        match outcome {
            Ok(_) if self.received_any => Failure::server(Phase::Response, Cause::ResponseIncomplete),
            // A send that failed says more than the silence that followed.
            Ok(_) => send_failed.unwrap_or(Failure::server(Phase::Response, Cause::Closed)),
            Err(error) => of_server(Phase::Response, &error),
        }
    }

    /// Stages an interim response for a client that understands it (RFC 9110 section 15.2).
    fn pass_interim<S: ClientStream>(
        &mut self,
        stream: &mut S,
        exchange: &mut Exchange,
        server: &mut Connection,
        head_len: usize,
    ) -> Result<(), AttemptError> {
        self.interim += 1;
        if self.interim > INTERIM_RESPONSES_MAX {
            let failure = Failure::server(Phase::Response, Cause::TooManyInterimResponses);
            return Err((failure, Kind::Other));
        }
        let normal = exchange.response.take_normal_text();
        let received = &server.received()[..head_len];
        let head = if normal.is_empty() { received } else { &normal };
        let status = Status { code: exchange.response.status(), reason: exchange.response.reason().of(head) };
        stream.interim(exchange, status, |out| fields::write_interim(out, exchange, head));
        server.consume(head_len);
        exchange.response.reset();
        Ok(())
    }
}

const fn is_interim(status: u16) -> bool {
    status < 200 && status != 101
}

/// Moves the request towards the server. A server that stops reading may have answered already, so a failed write is
/// only remembered.
fn poll_send<S: ClientStream>(
    cx: &mut Context<'_>,
    client: &Client,
    stream: &mut S,
    exchange: &mut Exchange,
    server: &mut Connection,
    send_failed: &mut Option<Failure>,
) -> Result<(), AttemptError> {
    let mut source = Replay { kept: &mut exchange.request_kept, body: stream.body(client) };
    let mut sink = Writer { connection: server, outgoing: &mut exchange.to_server };
    match exchange.request_relay.poll(cx, &mut source, &mut sink) {
        Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        Poll::Ready(Err(error @ RelayError::Write(_))) => {
            *send_failed = Some(of_request_body(&error));
            Ok(())
        }
        Poll::Ready(Err(error)) => Err((of_request_body(&error), Kind::Other)),
    }
}

/// Nobody moves: waits for whoever is next, within that party's time.
fn poll_wait<S: ClientStream>(
    cx: &mut Context<'_>,
    client: &mut Client,
    stream: &mut S,
    exchange: &mut Exchange,
    send_failed: bool,
) -> Poll<AttemptError> {
    let relay = &exchange.request_relay;
    let (awaited, moved) = match (relay.is_done() || send_failed, relay.waiting) {
        (true, _) => {
            if let Some(cause) = stream.poll_gone(cx, client) {
                return Poll::Ready((Failure::client(Phase::Response, cause), Kind::Other));
            }
            (Activity::ResponseHead, relay.moved)
        }
        (false, Waiting::Source) => (Activity::RequestBody, relay.moved),
        (false, Waiting::Sink) => (Activity::ServerTakes, exchange.to_server.sent),
    };
    client.report(awaited, stream, exchange);
    let over = exchange.waits.poll_over(&mut client.deadline, awaited, moved);
    over.map(|failure| {
        let kind = match (failure.party, failure.cause) {
            // As if it had closed the connection, which it cannot do any more.
            (_, Cause::ServerDown) => Kind::Server(retry::RetryCause::ConnectionError),
            (Party::Server, _) => Kind::Server(retry::RetryCause::Timeout),
            _ => Kind::Other,
        };
        (failure, kind)
    })
}

/// Parses what the server sent; the length of the head when it is complete.
fn parse_head(
    exchange: &mut Exchange,
    server: &mut Connection,
    plan: &UpstreamPlan,
) -> Result<Option<usize>, AttemptError> {
    let received = server.received();
    if received.is_empty() {
        return Ok(None);
    }
    match exchange.response.parse(received, &plan.head_limits) {
        Ok(HeadProgress::Complete { len }) => Ok(Some(len)),
        Ok(HeadProgress::Incomplete) => {
            if let Some(input) = server.input.as_mut().filter(|input| input.is_full()) {
                let size = (input.len() * 2).min(plan.head_limits.head_bytes_max + 1).max(input.len() + 1);
                input.grow(size);
            }
            Ok(None)
        }
        Err(rule) => Err((
            Failure::server(Phase::Response, Cause::Rule(rule)),
            Kind::Server(retry::RetryCause::ConnectionError),
        )),
    }
}

/// What makes a well-formed final response unfit to be relayed.
fn check_final(exchange: &Exchange, plans: Plans<'_>) -> Result<(), AttemptError> {
    let status = exchange.response.status();
    let asked = choose::upgrade_wanted(&exchange.request, &exchange.request_text, plans.route).is_some();
    if status == 101 && !asked {
        return Err((Failure::server(Phase::Response, Cause::UnexpectedUpgrade), Kind::Other));
    }
    if exchange.switches_protocols() && !exchange.request_relay.is_done() {
        return Err((Failure::server(Phase::Response, Cause::PrematureUpgrade), Kind::Other));
    }
    Ok(())
}

/// Writes staged interim responses as far as the client takes them now; the rest goes out with the final response.
fn flush_interim<S: ClientStream>(cx: &mut Context<'_>, stream: &mut S) -> Result<(), AttemptError> {
    let mut sink = stream.reply();
    while sink.is_waiting() {
        match sink.poll_write(cx, &[]) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(RelayError::Write(error))) => {
                return Err((of_io(Phase::Response, Party::Client, &error), Kind::Other));
            }
            Poll::Ready(Err(_)) | Poll::Pending => break,
        }
    }
    Ok(())
}

/// An idle connection to a server that this client may use: its own, or one that belongs to no client.
fn take_pooled(
    client: &mut Client,
    plans: Plans<'_>,
    server: usize,
    careful: bool,
) -> Option<ServerConnection> {
    let own = client.pinned.take(plans.server(server), client.now, careful);
    let own = own.filter(|own| !plans.upstream.has_moved(server, own.opened_at));
    if own.is_some() || plans.upstream.config.proxy_protocol.is_some() {
        return own;
    }
    plans.view.take_pooled(plans.upstream_index, server, client.now, careful)
}

/// Stages the head of the request as `server` gets it; `close`: its connection is not used again.
fn write_request(
    client: &Client,
    stream: &impl ClientEnd,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    server: ServerId,
    close: bool,
) {
    let mut staged = std::mem::take(&mut exchange.to_server.staged);
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let head = http1::RequestLine {
        method: request.method_span().of(text),
        target: fields::target(exchange),
        host: fields::host(exchange, plans, server),
        body: request.body(),
        announces_length: request.fields().contains(FieldName::ContentLength),
        upgrade: choose::upgrade_wanted(request, text, plans.route),
        takes_trailers: fields::takes_trailers(exchange),
        close,
    };
    http1::write_request(&mut staged, &head, |out| {
        fields::write_request(out, client, stream, exchange, plans);
    });
    exchange.to_server.staged = staged;
}

/// The PROXY protocol header for a connection that is opened for this exchange; `None` when the upstream wants none.
fn introduce(
    client: &Client,
    stream: &impl ClientEnd,
    exchange: &Exchange,
    plan: &UpstreamPlan,
) -> Option<proxy_header::Header> {
    let version = plan.config.proxy_protocol?;
    let asked_for = std::str::from_utf8(&exchange.server_name).ok().filter(|name| !name.is_empty());
    let told = client.arrival.as_ref().and_then(|arrival| arrival.authority.as_deref());
    let introduced = proxy_header::Introduced {
        peer: client.peer,
        destination: client.known_destination().or_else(|| stream.local_address()),
        authority: asked_for.or(told),
        tls: stream.tls(),
        unique_id: Some(&*exchange.record.request_id).filter(|id| !id.is_empty()),
    };
    Some(proxy_header::of_client(version, &introduced))
}

/// Opens a connection to a server within the time limit of the phase.
async fn open<S: ClientEnd>(
    client: &mut Client,
    stream: &mut S,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    server: usize,
) -> Result<Connection, AttemptError> {
    let endpoints = plans.upstream.live[server].endpoints.load_full();
    // Who connects to a port of TCP may wait for the server to speak first.
    let behind = if stream.sends_at_once() { Behind::More } else { Behind::Unknown };
    let header = introduce(client, stream, exchange, plans.upstream);
    let introduction = plans.upstream.trust.as_ref().map(|trust| trust.for_traffic(server));
    let worker = Rc::clone(&client.worker);
    let timers = Some(&worker.timers);
    let opening = Opening { header: header.as_ref(), introduction: introduction.as_ref(), behind, timers };
    let (first, stock) = (client.worker.random() as usize, Rc::clone(&client.worker.stock));
    // On the heap, since it is rare and would make every session larger.
    let mut connecting = Box::pin(handshake::open(opening, &endpoints, first, &stock));
    client.deadline.set(clock::now(), Some(plans.upstream.config.timeouts.connect));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(outcome) = connecting.as_mut().poll(cx) {
            // Of ports there may be some left for another server, of anything else there is none.
            let is_final = |failure| descriptors::is_local(failure) && failure.cause != Cause::PortsExhausted;
            let kind = |failure| {
                if is_final(failure) { Kind::Other } else { Kind::Server(retry::RetryCause::Connect) }
            };
            return Poll::Ready(outcome.map_err(|failure| (failure, kind(failure))));
        }
        if let Some(cause) = stream.poll_gone(cx, client) {
            return Poll::Ready(Err((Failure::client(Phase::Connect, cause), Kind::Other)));
        }
        client.report(Activity::Connecting, stream, exchange);
        client.deadline.poll_passed().map(|()| {
            if let Some(failure) = client.deadline.cut_failure(Phase::Connect) {
                let server = failure.party == Party::Server;
                return Err((
                    failure,
                    if server { Kind::Server(retry::RetryCause::Connect) } else { Kind::Other },
                ));
            }
            if client.deadline.ends_with_ceiling() {
                // Another server would have no time either.
                return Err((Failure::weir(Phase::Connect, Cause::ExchangeTimedOut), Kind::Other));
            }
            Err((Failure::server(Phase::Connect, Cause::TimedOut), Kind::Server(retry::RetryCause::Connect)))
        })
    })
    .await
}

impl Exchange {
    /// Takes the request back to its beginning, for another attempt.
    pub(crate) fn rewind(&mut self) {
        let sent = self.to_server.sent;
        self.to_server.reset(super::MEMORY_KEPT_MAX);
        self.to_server.sent = sent;
        self.request_relay = Relay::new();
        self.request_kept.rewind();
        self.response.reset();
    }
}
