//! A request of Weir's own to a server, for an exchange or beside one: with a slot, attempts and time limits like any other, but without a client
//! that gets the response.
//!
//! The caller composes its head in an exchange of its own ([`exchange_beside`]), and takes the response ([`ResponseTaker`]). It is counted for the upstream and
//! its servers, not for the listener, and has no line in the access log. Must not know what it is for.

use std::net::SocketAddr;
use std::task::{self, Poll};

use weir_http::grpc::GrpcStatus;
use weir_http::{FieldRun, FieldWriter, ResponseHead};
use weir_observe::{Cause, Failure, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::outcome::{AttemptHistory, RespondingServer};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::{ClientStream, FinalHead, Status};
use crate::exchange::features::affinity::by_name;
use crate::exchange::features::grpc;
use crate::exchange::features::headers::request::AllFeatures;
use crate::exchange::features::retries;
use crate::exchange::phases::{attempt, finish, pause, queue, retry};
use crate::net::clock;
use crate::net::tls::facts::TlsFacts;
use crate::relay::ends::{RelayError, Sink};
use crate::relay::failure::of_response_body;
use crate::relay::memory::{HeldBody, NullSink};
use crate::state::connections::activity::Activity;
use crate::state::snapshot::ListenerPlan;
use crate::upstream::stream::{ServerStream, Servers};

/// Takes a response. When it wants no more of a body, it fails a write.
pub(in crate::exchange) trait ResponseTaker: Sink {
    /// The head, of which `text` is what was received.
    fn begin(&mut self, response: &ResponseHead, text: &[u8]);

    /// The response is whole, and it was that of a call of gRPC.
    fn end_call(&mut self, _status: GrpcStatus) {}

    /// It has failed a write: whether what it has is all that it wants.
    ///
    /// # Errors
    /// The failure of the response that is too much.
    fn is_enough(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// An exchange for a request that `outer` gives rise to, for the same client, on the same config. Its head is still to be composed.
pub(in crate::exchange) fn exchange_beside(
    outer: &Exchange,
    upstream: usize,
    client: &Client,
) -> Box<Exchange> {
    let mut inner = Box::new(Exchange::new());
    inner.record.began = client.now;
    inner.record.accounted = client.now;
    inner.record.begin_with(&outer.record);
    inner.record.route = outer.record.route;
    inner.record.upstream = Some(upstream);
    inner.record.request_id.extend_from_slice(&outer.record.request_id);
    if !outer.limits.tag.is_empty() {
        inner.limits.tag.extend_from_slice(&outer.limits.tag);
    }
    // Its path may be another one than came, which applications are told as well.
    if let Some(way) = outer.rerouting().filter(|way| way.received_target.is_some()) {
        let of_inner = inner.rerouting_mut();
        of_inner.received_target.clone_from(&way.received_target);
        of_inner.received_uri.clone_from(&way.received_uri);
        of_inner.matched_path.clone_from(&way.matched_path);
    }
    // It waits for no consent of a server: the body is here.
    inner.body_was_asked_for = true;
    inner
}

/// Sends the request of the exchange, with `body` behind its head, to a server of the upstream and gives the response to `taker`.
///
/// # Errors
/// When there is no response, or none that is whole, or the client is gone.
pub(in crate::exchange) async fn run(
    context: &mut Context<'_, impl ClientEnd, impl Servers>,
    plans: Plans<'_>,
    body: &[u8],
    taker: &mut impl ResponseTaker,
) -> Result<(), Ended> {
    let mut sender = Sender { end: context.stream, body, taken: 0 };
    let (config, servers) = (context.config, &mut *context.servers);
    let known_client_address = context.known_client_address;
    let context = Context::new(context.client, &mut sender, servers, context.exchange, config);
    let context = &mut Context { known_client_address, ..context };
    context.exchange.waits.begin(&plans.wait_limits(context.listener));
    if context.exchange.grpc.is_some() {
        grpc::begin(context.exchange, context.listener, plans.upstream);
    }
    if plans.upstream.is_dynamic() {
        Box::pin(by_name::bind(context, plans)).await?;
    }
    retry::begin(context, plans);
    let outcome = carry(context, plans, taker).await;
    count(context.exchange, outcome);
    outcome
}

async fn carry<E: ClientEnd>(
    context: &mut Context<'_, Sender<'_, E>, impl Servers>,
    plans: Plans<'_>,
    taker: &mut impl ResponseTaker,
) -> Result<(), Ended> {
    let mut history = AttemptHistory::new();
    let (location, mut response) = loop {
        pause::before_retry(context, &mut history).await?;
        let slot = queue::admit(context, plans, &mut history)?.slot().await?;
        let location = slot.location();
        let plans = plans.on(&location.0, location.1);
        match attempt::run::<AllFeatures, _, _>(context, &plans, slot, &history).await {
            Ok(response) if retries::after_handshake(context, plans, &mut history, &response) => {
                context.stream.taken = 0;
                context.servers.drop_stream(response.server);
            }
            Ok(response) => break (location, response),
            Err(failed) => {
                // Its body begins anew.
                context.stream.taken = 0;
                retries::again(context, plans, &mut history, failed)?;
            }
        }
    };
    let plans = plans.on(&location.0, location.1);
    begin_response(context, plans, &mut response, taker);
    let read = std::future::poll_fn(|cx| poll_body(cx, context, &mut response.server, taker));
    match read.await {
        Ok(Taken::Whole) => {
            grpc::finish(context.exchange, plans, &response);
            if let Some(status) = context.exchange.grpc.and_then(|call| call.status) {
                taker.end_call(status);
            }
            finish::run(context, plans, response);
            Ok(())
        }
        other => {
            if let Err(failure) = other {
                grpc::break_off(context.exchange, plans, &response, failure.into());
            }
            context.exchange.record.sent_to_server += response.server.sent();
            context.servers.drop_stream(response.server);
            other?;
            Ok(taker.is_enough()?)
        }
    }
}

/// Accounts for the head of the response and shows it.
fn begin_response<T: ServerStream, S, U>(
    context: &mut Context<'_, S, U>,
    plans: Plans<'_>,
    response: &mut RespondingServer<T>,
    taker: &mut impl ResponseTaker,
) {
    let (client, exchange) = (&mut *context.client, &mut *context.exchange);
    let now = clock::now();
    client.now = now;
    exchange.record.spend(Phase::Response, now);
    exchange.record.status = exchange.response.status();
    exchange.replay_buffer.end();
    let shard = &plans.server(response.slot.server.index()).shard;
    shard.responses.record(exchange.record.status);
    shard.response_time.record(u64::from(exchange.record.times[Phase::Response]));
    let method = exchange.request.method();
    let _length = response.server.begin_body(&exchange.response, method, plans.upstream.chunked_limits);
    taker.begin(&exchange.response, response.server.head());
    response.server.take_head();
}

/// How much of a body was taken.
enum Taken {
    Whole,
    /// The taker wants no more.
    Enough,
}

fn poll_body<E: ClientEnd, U>(
    cx: &mut task::Context<'_>,
    context: &mut Context<'_, Sender<'_, E>, U>,
    server: &mut impl ServerStream,
    taker: &mut impl ResponseTaker,
) -> Poll<Result<Taken, Failure>> {
    let stock = &context.client.worker.stock;
    match server.poll_response(cx, &mut context.exchange.response_relay, taker, stock) {
        Poll::Ready(Ok(())) => return Poll::Ready(Ok(Taken::Whole)),
        Poll::Ready(Err(RelayError::Write(_))) => return Poll::Ready(Ok(Taken::Enough)),
        Poll::Ready(Err(error)) => return Poll::Ready(Err(of_response_body(&error))),
        Poll::Pending => {}
    }
    if let Some(cause) = context.stream.end.poll_gone(cx, context.client) {
        return Poll::Ready(Err(Failure::client(Phase::Relay, cause)));
    }
    context.report(Activity::ResponseBody);
    let moved = context.exchange.response_relay.moved;
    context.poll_over(Activity::ResponseBody, moved).map(Err)
}

/// Counts it for its upstream and the server that it came to.
fn count(exchange: &Exchange, outcome: Result<(), Ended>) {
    let record = &exchange.record;
    let (Some(index), Some(served)) = (record.upstream, record.served()) else { return };
    let upstream = served.upstream_shard(index);
    upstream.requests.increment();
    match outcome {
        Ok(()) => {
            upstream.responses.record(record.status);
            upstream.exchange_time.record(record.times.between(Phase::Request, Phase::Finish));
        }
        Err(Ended::Failed(failure)) => upstream.failures.record(failure),
        Err(Ended::Closed | Ended::Rerouted) => {}
    }
    if let Some(server) = record.server {
        let shard = &served.server(index, server).shard;
        shard.bytes_in.add(exchange.response_relay.moved);
        shard.bytes_out.add(record.sent_to_server);
    }
}

/// The client as the request has it: the body is in memory, nothing goes back, but it may leave.
struct Sender<'a, E> {
    end: &'a mut E,
    body: &'a [u8],
    /// Bytes of the body that were taken.
    taken: usize,
}

impl<E: ClientEnd> ClientEnd for Sender<'_, E> {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.end.tls()
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.end.local_address()
    }

    fn came_early(&self) -> bool {
        self.end.came_early()
    }

    fn is_early(&self) -> bool {
        self.end.is_early()
    }

    fn poll_confirmed(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        self.end.poll_confirmed(cx)
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, cx: &mut task::Context<'_>, client: &mut Client) -> Option<Cause> {
        self.end.poll_gone(cx, client)
    }

    fn body_received(&self) -> u64 {
        self.end.body_received()
    }

    fn sent(&self) -> u64 {
        self.end.sent()
    }

    fn stays_open(&self) -> bool {
        self.end.stays_open()
    }
}

impl<E: ClientEnd> ClientStream for Sender<'_, E> {
    type Body<'b>
        = HeldBody<'b>
    where
        Self: 'b;

    type Reply<'b>
        = NullSink
    where
        Self: 'b;

    type Fields<'b>
        = NullFields
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

    fn body<'b>(&'b mut self, _client: &'b Client) -> HeldBody<'b> {
        HeldBody { bytes: self.body, taken: &mut self.taken }
    }

    fn body_announced(&self) -> Option<u64> {
        None
    }

    fn limit_body(&mut self, _bytes_max: u64) {}

    fn reply(&mut self) -> NullSink {
        NullSink
    }

    fn interim(&mut self, _: &Exchange, _: Status<'_>, _: impl FnOnce(&mut NullFields)) {}

    fn respond(&mut self, _: &Client, _: &Exchange, _: &FinalHead<'_>, _: impl FnOnce(&mut NullFields)) {}

    fn take_back(&mut self) -> bool {
        false
    }

    fn close_after(&mut self) {}

    fn poll_reset(&mut self, cx: &mut task::Context<'_>, client: &mut Client) -> Option<Cause> {
        self.end.poll_gone(cx, client)
    }
}

/// The fields of a head that goes nowhere.
struct NullFields;

impl FieldWriter for NullFields {
    fn field(&mut self, _name: &[u8], _value: &[u8]) {}

    fn field_with(&mut self, _name: &[u8], _write: impl FnOnce(&mut Vec<u8>)) {}

    fn field_unless_empty(&mut self, _name: &[u8], _write: impl FnOnce(&mut Vec<u8>)) {}

    fn decimal_field(&mut self, _name: &[u8], _value: u64) {}

    fn copy(&mut self, _run: FieldRun<'_>) {}
}
