//! Phases Send and Response: one attempt of an exchange on one server, once it is connected ([`connect`]).
//!
//! It ends with a response head that can be relayed, or with a failure that says whether the request may have had an
//! effect. While it waits for the head it passes on interim responses and the rest of the request body.

pub(in crate::exchange) mod features;
pub(in crate::exchange) mod unread;
pub(in crate::exchange) mod connect;
pub(in crate::exchange) mod private;

use std::future::Future;
use std::task::{self, Poll};

use weir_observe::{Cause, Failure, Party, Phase};
use weir_traffic::{ServerId, retry};

use self::features::AttemptFeatures;
use super::choose;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::outcome::{
    AttemptError, AttemptFailure, AttemptHistory, FailureOrigin, RespondingServer,
};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::{ClientStream, Status};
use crate::net::clock::{self, Instant};
use crate::net::failure::{of_io, of_server};
use crate::relay::WaitingFor;
use crate::relay::ends::{RelayError, Sink as _};
use crate::relay::failure::of_request_body;
use crate::relay::replay::Replay;
use crate::state::connections::activity::Activity;
use crate::state::crashes::faults;
use crate::state::crashes::faults::FaultPoint;
use crate::state::servers::upstream::outliers::AttemptOutcome;
use crate::state::worker_config::LocalServer;
use crate::upstream::slot::Slot;
use crate::upstream::stream::{HeadError, ServerStream, Servers, Unprocessed, UnreadRequest};
use crate::upstream::tunnel::ServerEnd;

/// Interim responses that one exchange passes on; more is a server gone wrong.
const INTERIM_RESPONSES_MAX: u32 = 32;

/// Sends the request to the server of `slot` and waits for the head of its response. Reports the latency to balancers that
/// measure it.
///
/// Not an `async fn`: it would have room for each of its arguments twice.
pub(in crate::exchange) fn run<F: AttemptFeatures, C: ClientStream, U: Servers>(
    context: &mut Context<'_, C, U>,
    plans: &Plans<'_>,
    slot: Slot,
    history: &AttemptHistory,
) -> impl Future<Output = Result<RespondingServer<U::Stream>, AttemptFailure>> {
    let began = context.client.now;
    let mut attempt = Attempt::new(slot);
    async move {
        faults::strike(
            &context.client.worker.crash,
            &context.exchange.request,
            &context.exchange.request_text,
            FaultPoint::Queue,
        );
        let local = begin(context.exchange, *plans, attempt.slot.server, began);
        let index = attempt.slot.server.index();
        if let Some(call) = &mut context.exchange.grpc {
            call.begin_attempt(began);
            F::begin_body(context.exchange);
        }
        let mut server = match connect::take_kept(context, *plans, attempt.slot.server, history) {
            Some(kept) => kept,
            // On the heap, since it would make every exchange larger.
            None => Box::pin(open(context, *plans, attempt.slot.server, history, local)).await?,
        };
        let (opened_at, carried) = server.history();
        attempt.reused = carried > 0;
        context.exchange.record.reused = attempt.reused;
        context.exchange.attempt_trace.connected(opened_at, carried);

        if private::has_credentials(context.exchange) {
            server.set_private();
        }
        F::write_request(&mut server, context, *plans, attempt.slot.server);
        context.exchange.waits.begin_attempt(context.client.now);
        let outcome =
            std::future::poll_fn(|cx| attempt.poll_response::<F, _, _, _>(cx, context, &mut server, *plans))
                .await;
        attempt.sent_any = server.sent() > 0;
        attempt.received_any = server.received_any();
        record_latency(*plans, index, began, outcome.as_ref().err().map(|(failure, _)| *failure));
        match outcome {
            Ok(()) => {
                local.shard.requests.increment();
                if let Some(outcome) = response_outcome::<F>(context.exchange, *plans, &server) {
                    record_outcome(*plans, local, attempt.slot.server, outcome, began);
                }
                let Attempt { slot, sent_any, send_failed, .. } = attempt;
                Ok(RespondingServer { server, slot, sent_any, send_failed: send_failed.is_some() })
            }
            Err((failure, origin)) => {
                context.exchange.record.sent_to_server += server.sent();
                if attempt.reused && server.unread() != UnreadRequest::Unknown {
                    // On the heap, since it is rare and would make every exchange larger.
                    attempt.unread = Box::pin(unread::is_certain(context.client, &server)).await;
                }
                context.servers.drop_stream(server);
                let failed = attempt.failed(failure, origin);
                record_outcome(*plans, local, failed.server, classify_failure(&failed), began);
                Err(failed)
            }
        }
    }
}

/// A stream on a new connection; a failure counts as the outcome of the attempt.
async fn open<C: ClientStream, U: Servers>(
    context: &mut Context<'_, C, U>,
    plans: Plans<'_>,
    server: ServerId,
    history: &AttemptHistory,
    local: &LocalServer,
) -> Result<U::Stream, AttemptFailure> {
    let began = context.client.now;
    let opened = connect::connect(context, plans, server, Some(history)).await;
    opened.inspect_err(|failed| {
        record_latency(plans, server.index(), began, Some(failed.failure));
        record_outcome(plans, local, failed.server, classify_failure(failed), began);
    })
}

/// What a response says of its server, for outlier detection; `None` when that is told at the end of the call.
#[inline(always)]
fn response_outcome<F: AttemptFeatures>(
    exchange: &mut Exchange,
    plans: Plans<'_>,
    server: &impl ServerStream,
) -> Option<AttemptOutcome> {
    match exchange.grpc {
        None => Some(plans.upstream.outlier_detector.classify_status(exchange.response.status())),
        Some(_) => F::outcome_of_call(exchange, plans, server),
    }
}

/// Opens a connection to the server of `slot` for a tunnel: it carries nothing else before or after.
pub(in crate::exchange) async fn connect<C: ClientEnd, U: Servers>(
    context: &mut Context<'_, C, U>,
    plans: Plans<'_>,
    slot: Slot,
) -> Result<(ServerEnd, Slot), AttemptFailure> {
    let began = context.client.now;
    let index = slot.server.index();
    let local = begin(context.exchange, plans, slot.server, began);
    let attempt = Attempt::new(slot);
    let server = attempt.slot.server;
    let connecting = connect::connect(context, plans, server, None);
    let connected = Box::pin(connecting).await;
    record_latency(plans, index, began, connected.as_ref().err().map(|failed| failed.failure));
    match connected {
        Ok(server) => {
            context.exchange.attempt_trace.connected(server.history().0, 0);
            local.shard.requests.increment();
            record_outcome(plans, local, attempt.slot.server, AttemptOutcome::Success, began);
            Ok((server.into_tunnel(), attempt.slot))
        }
        Err(failed) => {
            record_outcome(plans, local, failed.server, classify_failure(&failed), began);
            Err(failed)
        }
    }
}

/// Counts an attempt on a server.
fn begin<'a>(exchange: &mut Exchange, plans: Plans<'a>, server: ServerId, began: Instant) -> &'a LocalServer {
    exchange.attempt_trace.begin(plans.upstream.balancer().states(), server, began);
    let local = plans.server(server.index());
    exchange.record.server = Some(server.index());
    exchange.record.attempts += 1;
    exchange.record.reused = false;
    local.shard.attempts.increment();
    plans.upstream.begin(server);
    local
}

/// The outcome of a failed attempt, for outlier detection.
fn classify_failure(failed: &AttemptFailure) -> AttemptOutcome {
    // A client can provoke these failures at will: by a body that it holds back, by the choice of what it asks for.
    let by_request = [Cause::PrematureUpgrade, Cause::WebsocketNotSupported, Cause::Http1Required]
        .contains(&failed.failure.cause);
    let by_client = failed.failure.party != Party::Server || by_request;
    if by_client || failed.is_stale() || failed.is_unprocessed() {
        return AttemptOutcome::Unknown;
    }
    AttemptOutcome::Failure(failed.failure.into())
}

/// Reports the outcome of an attempt that began at `began` to outlier detection.
#[inline]
fn record_outcome(
    plans: Plans<'_>,
    local: &LocalServer,
    server: ServerId,
    outcome: AttemptOutcome,
    began: Instant,
) {
    if matches!(outcome, AttemptOutcome::Failure(_)) {
        local.shard.outlier_failures.increment();
    }
    plans.upstream.record_outcome(server, outcome, began);
}

/// Reports the latency of an attempt that began at `began`, for balancers that measure it.
fn record_latency(plans: Plans<'_>, server: usize, began: Instant, failure: Option<Failure>) {
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
    unread: bool,
    reused: bool,
    /// Why the request could not be sent whole.
    send_failed: Option<Failure>,
}

impl Attempt {
    fn new(slot: Slot) -> Self {
        Self { slot, sent_any: false, received_any: false, unread: false, reused: false, send_failed: None }
    }

    fn failed(self, failure: Failure, origin: FailureOrigin) -> AttemptFailure {
        let Self { sent_any, received_any, unread, reused, .. } = self;
        let server = self.slot.server;
        let mut failed =
            AttemptFailure { failure, server, origin, sent_any, received_any, unread, reused, slot: None };
        failed.slot = Some(self.slot).filter(|_| failed.is_of_connection());
        failed
    }

    /// Sends what is left of the request and reads until the head of the final response is complete.
    fn poll_response<F: AttemptFeatures, C: ClientStream, T: ServerStream, U>(
        &mut self,
        cx: &mut task::Context<'_>,
        context: &mut Context<'_, C, U>,
        server: &mut T,
        plans: Plans<'_>,
    ) -> Poll<Result<(), AttemptError>> {
        if context.exchange.interim > 0 {
            flush_interim(cx, context.stream)?;
        }
        if self.send_failed.is_none() && !context.exchange.request_relay.is_done() {
            poll_send(cx, context, server, &mut self.send_failed)?;
        }
        loop {
            let (stock, limits) = (&context.client.worker.stock, &plans.upstream.head_limits);
            match server.poll_head(cx, stock, &mut context.exchange.response, limits) {
                Poll::Ready(Ok(())) if is_interim(context.exchange.response.status()) => {
                    pass_interim::<F>(context.stream, context.exchange, server)?;
                    flush_interim(cx, context.stream)?;
                }
                Poll::Ready(Ok(())) => return Poll::Ready(check_final(context.exchange, server, plans)),
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(Err(of_head(error, server.received_any(), self.send_failed)));
                }
                Poll::Pending => {
                    let sent = server.sent();
                    return poll_wait(cx, context, sent, self.send_failed.is_some()).map(Err);
                }
            }
        }
    }
}

/// Stages an interim response for a client that understands it (RFC 9110 section 15.2).
fn pass_interim<F: AttemptFeatures>(
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    server: &mut impl ServerStream,
) -> Result<(), AttemptError> {
    exchange.interim += 1;
    if exchange.interim > INTERIM_RESPONSES_MAX {
        return Err((Failure::server(Phase::Response, Cause::TooManyInterimResponses), FailureOrigin::Other));
    }
    let head = server.head();
    let status = Status::received(&exchange.response, head);
    stream.interim(exchange, status, |out| F::write_interim(out, exchange, head));
    server.take_head();
    exchange.response.reset();
    Ok(())
}

/// Why there is no head of a response: the server closed or reset the connection before it was complete, broke a rule, or did not take the
/// request.
#[cold]
fn of_head(error: HeadError, received_any: bool, send_failed: Option<Failure>) -> AttemptError {
    let failed = |cause| Failure::server(Phase::Response, cause);
    let (failure, cause) = match error {
        HeadError::Unable(cause) => return (failed(cause), FailureOrigin::Other),
        HeadError::Unprocessed(Unprocessed::Refused) => {
            (failed(Cause::StreamRefused), retry::RetryCause::StreamRefused)
        }
        HeadError::Unprocessed(Unprocessed::Overloaded) => {
            (failed(Cause::FastcgiOverloaded), retry::RetryCause::StreamRefused)
        }
        HeadError::Unprocessed(Unprocessed::GoAway) => (failed(Cause::GoAway), retry::RetryCause::GoAway),
        HeadError::Unprocessed(Unprocessed::Http1Required) => {
            (failed(Cause::Http1Required), retry::RetryCause::Http1Required)
        }
        HeadError::Closed if received_any => {
            (failed(Cause::ResponseIncomplete), retry::RetryCause::ConnectionError)
        }
        // A send that failed says more than the silence that followed.
        HeadError::Closed => {
            (send_failed.unwrap_or(failed(Cause::Closed)), retry::RetryCause::ConnectionError)
        }
        HeadError::Lost(cause) => (failed(cause), retry::RetryCause::ConnectionError),
        HeadError::Io(error) => (of_server(Phase::Response, &error), retry::RetryCause::ConnectionError),
        HeadError::Broken(rule) => (failed(Cause::Rule(rule)), retry::RetryCause::ConnectionError),
    };
    (failure, FailureOrigin::Server(cause))
}

const fn is_interim(status: u16) -> bool {
    status < 200 && status != 101
}

/// Moves the request towards the server. A server that stops reading may have answered already, so a failed write is
/// only remembered.
fn poll_send<C: ClientStream, T: ServerStream, U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, C, U>,
    server: &mut T,
    send_failed: &mut Option<Failure>,
) -> Result<(), AttemptError> {
    let mut source =
        Replay { kept: &mut context.exchange.replay_buffer, body: context.stream.body(context.client) };
    match server.poll_request(cx, &mut context.exchange.request_relay, &mut source) {
        Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        Poll::Ready(Err(error @ RelayError::Write(_))) => {
            *send_failed = Some(of_request_body(&error));
            Ok(())
        }
        Poll::Ready(Err(error)) => Err((of_request_body(&error), FailureOrigin::Other)),
    }
}

/// Neither side makes progress: waits for the party that has to act next, within its time limit.
fn poll_wait<S: ClientStream, U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, S, U>,
    sent: u64,
    send_failed: bool,
) -> Poll<AttemptError> {
    let relay = &context.exchange.request_relay;
    let (awaited, moved) = match (relay.is_done() || send_failed, relay.waiting) {
        (true, _) => {
            if let Some(cause) = context.stream.poll_gone(cx, context.client) {
                return Poll::Ready((Failure::client(Phase::Response, cause), FailureOrigin::Other));
            }
            (Activity::ResponseHead, relay.moved)
        }
        (false, WaitingFor::Source | WaitingFor::Turn) => (Activity::RequestBody, relay.moved),
        (false, WaitingFor::Sink) => (Activity::ServerTakes, sent),
    };
    context.report(awaited);
    let over = context.poll_over(awaited, moved);
    over.map(|failure| {
        let origin = match (failure.party, failure.cause) {
            // As if it had closed the connection, which it cannot do any more.
            (_, Cause::ServerDown) => FailureOrigin::Server(retry::RetryCause::ConnectionError),
            (Party::Server, _) => FailureOrigin::Server(retry::RetryCause::Timeout),
            _ => FailureOrigin::Other,
        };
        (failure, origin)
    })
}

/// What makes a well-formed final response unfit to be relayed.
fn check_final(
    exchange: &Exchange,
    server: &impl ServerStream,
    plans: Plans<'_>,
) -> Result<(), AttemptError> {
    if exchange.response.status() == 101 {
        check_switch(exchange, server, plans)?;
    }
    if exchange.request.protocol().is_some() && (200..300).contains(&exchange.response.status()) {
        return Err((Failure::server(Phase::Response, Cause::UpgradeIgnored), FailureOrigin::Other));
    }
    if exchange.switches_protocols() && !exchange.request_relay.is_done() {
        return Err((Failure::server(Phase::Response, Cause::PrematureUpgrade), FailureOrigin::Other));
    }
    Ok(())
}

/// What is wrong with a switch of protocols.
#[cold]
fn check_switch(
    exchange: &Exchange,
    server: &impl ServerStream,
    plans: Plans<'_>,
) -> Result<(), AttemptError> {
    let asked = choose::upgrade_wanted(&exchange.request, &exchange.request_text, plans.route).is_some();
    let checked = if asked { server.check_switch(&exchange.response) } else { Err(Cause::UnexpectedUpgrade) };
    checked.map_err(|cause| (Failure::server(Phase::Response, cause), FailureOrigin::Other))
}

/// Writes staged interim responses as far as the client takes them now; the rest goes out with the final response.
fn flush_interim<S: ClientStream>(cx: &mut task::Context<'_>, stream: &mut S) -> Result<(), AttemptError> {
    let mut sink = stream.reply();
    while sink.is_waiting() {
        match sink.poll_write(cx, &[]) {
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(RelayError::Write(error))) => {
                return Err((of_io(Phase::Response, Party::Client, &error), FailureOrigin::Other));
            }
            Poll::Ready(Err(_)) | Poll::Pending => break,
        }
    }
    Ok(())
}

impl Exchange {
    /// Takes the request back to its beginning, for another attempt.
    pub(crate) fn rewind(&mut self) {
        self.request_relay.reset();
        self.replay_buffer.rewind();
        self.response.reset();
    }
}
