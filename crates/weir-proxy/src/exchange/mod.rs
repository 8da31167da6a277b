//! One request and its response, phase by phase.
//!
//! [`run`] names every phase in the order in which they happen; each has a file of its own. An exchange is
//! reused from one request to the next, so that a warm worker allocates nothing. Must not know how bytes travel.

mod report;
mod admit;
mod held;
mod cache_response;
mod intercept;
mod response_buffering;
mod cache_fill;
mod respond;
mod upgrade;
mod gates;
pub(crate) mod mirror;
mod files;
mod cache_lookup;
mod cache_refresh;
pub(crate) mod key_fetch;
mod proof;
mod basic_auth;
mod jwt_auth;
mod forward_auth;
mod remote_page;
mod background;
mod subrequest;
pub(crate) mod tcp;
mod queue;
mod request_buffering;
pub(crate) mod attempt;
mod unread;
mod connect;
mod choose;
pub(crate) mod retry;
mod private;
mod access;
mod limits;
mod pause;
mod cache_files;
mod cache_send;
mod grpc;
mod grpc_web;
pub(crate) mod tunnelled;
pub(crate) mod delivery;
mod acme_challenge;
mod answer;
mod pacing;
mod error_pages;
mod cgi;
mod template;
pub(crate) mod fields;
mod cors;
mod compression;
mod affinity;
pub(crate) mod finish;
mod plans;
mod outcome;
pub(crate) mod trace;
mod log;
pub(crate) mod recording;
pub(crate) mod forwarded;
mod record;
pub(crate) mod stream;
pub(crate) mod client;
mod cache_use;
mod body_coding;
mod grpc_fields;
pub(crate) mod granted;
mod grpc_call;
mod limited;
mod header_changes;
pub(crate) mod waits;

#[cfg(test)]
pub(crate) mod simulation;

use std::future::Future;
use std::pin::pin;

use weir_config::ListenerProtocol;
use weir_http::{RequestHead, ResponseHead};
use weir_observe::{Failure, Phase};
use weir_traffic::affinity::RequestAffinity;

use crate::relay::Relay;
use crate::relay::replay::ReplayBuffer;
use crate::state::faults::{self, FaultPoint};
use crate::state::recorder::{AttemptTrace, TunnelTrace};
use crate::state::snapshot::Snapshot;
use crate::upstream::stream::{ServerStream, Servers};
use body_coding::BodyCoding;
use cache_response::Answering;
use cache_use::CacheUse;
use cgi::Script;
use client::Client;
use granted::Granted;
use grpc_call::GrpcCall;
use header_changes::RenderedHeaders;
use limited::Limited;
use mirror::Mirrored;
use outcome::{AttemptHistory, RespondingServer};
use plans::Plans;
use record::Record;
use stream::{ClientEnd, ClientStream};
use tunnelled::Tunnelled;
use waits::Waits;

/// Bytes of the first line of a head that could not be read, as far as they are kept.
const FIRST_LINE_MAX: usize = 256;

/// Memory that each buffer of an exchange keeps from one request to the next; more goes back to the allocator.
pub(crate) const MEMORY_KEPT_MAX: usize = 8 * 1024;

/// Runs one exchange: from the request of the client to its response.
#[expect(clippy::manual_async_fn, reason = "an `async fn` has room for each of its arguments twice")]
pub(crate) fn run(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
) -> impl Future<Output = End> {
    async move {
        // Pinned, since awaiting it otherwise moves its whole state once more.
        let carried = {
            let carried = pin!(carry(client, stream, servers, exchange));
            carried.await
        };
        let end = match carried {
            Ok(tunnel @ End::Tunnel(_)) => return tunnel,
            Ok(end) => end,
            Err(Ended::Quietly) => return End::Closed,
            // On the heap, since it would make every exchange larger.
            Err(Ended::Failed(failure)) => Box::pin(fail(client, stream, servers, exchange, failure)).await,
        };
        finish::record(client, stream, exchange);
        end
    }
}

/// Answers with the page of a failure, or with what is stored for that case.
#[cold]
async fn fail(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    failure: Failure,
) -> End {
    let failure = match cache_response::instead_of_failure(client, stream, exchange, failure).await {
        Some(Ok(end)) => return end,
        Some(Err(failure)) => failure,
        None => failure,
    };
    let fetched = remote_page::of_failure(client, stream, servers, exchange, failure).await;
    answer::failure(client, stream, exchange, (failure, fetched)).await
}

/// The phases in their order. An early end is an [`Ended`]; what it means for the client is decided in [`run`].
#[expect(clippy::manual_async_fn, reason = "an `async fn` has room for each of its arguments twice")]
fn carry(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
) -> impl Future<Output = Result<End, Ended>> {
    async move {
        let config = exchange.record.begin_config(client);
        let listener = &*config.snapshot.listeners[exchange.record.listener()];

        // Request: the head, whole and well-formed.
        stream.receive(client, exchange, listener).await?;
        trace::begin(client, exchange, listener, &config);
        admit::request(client, stream, exchange, listener)?;
        if needs_no_route(exchange, &config.snapshot)
            && let Some(end) =
                Box::pin(answer_without_route(client, stream, exchange, &config.snapshot)).await?
        {
            return Ok(end);
        }

        // Route: the most specific rule that matches, and what it says.
        let route = choose::route(client, stream, exchange, listener)?;
        grpc::limit_time(client, exchange, route);
        let (chosen, way) = choose::upstream(client, exchange, listener, route);
        if route.has_gates()
            && let Some(end) =
                gates::pass(client, stream, servers, exchange, (&config, listener, route), way).await?
        {
            return Ok(end);
        }
        let Some(upstream_index) = chosen else {
            return answer::without_server(client, stream, exchange, way).await;
        };
        let (route, upstream) = (way, &*config.snapshot.upstreams[upstream_index]);
        let plans = Plans { config: &config, listener, route, upstream, upstream_index };
        begin_attempts(client, exchange, plans);
        if request_buffering::is_wanted(exchange, route) {
            Box::pin(request_buffering::take_request(client, stream, exchange, plans)).await?;
        }
        let mut history = AttemptHistory::new();
        let mut kept = None;
        let (location, mut serving) = loop {
            pause::before_retry(client, stream, exchange, &mut history).await?;
            // Queue: a slot on a server, now or as soon as one is free. After a reload it is one of the new config.
            let slot = match kept.take() {
                Some(slot) => slot,
                None => queue::admit(client, stream, exchange, plans, &history.excluded)
                    .await
                    .map_err(|ended| history.or_last(ended))?,
            };
            let location = slot.location();
            let plans = plans.on(&location.0, location.1);
            // Connect, Send, Response: one attempt on that server.
            let answering = {
                let attempted = {
                    let attempt =
                        pin!(attempt::run(client, stream, servers, exchange, &plans, slot, &history));
                    attempt.await
                };
                match attempted {
                    Ok(serving) if goes_again(client, exchange, plans, &mut history, &serving) => {
                        exchange.record.sent_to_server += serving.server.sent();
                        servers.drop_stream(serving.server);
                        continue;
                    }
                    attempted => Answering::of(attempted),
                }
            };
            let answering = match route.holds_responses && !exchange.switches_protocols() {
                true => Box::pin(hold_response(client, stream, servers, exchange, plans, answering)).await?,
                false => answering,
            };
            kept = match answering {
                Answering::Done(end) => return Ok(end),
                Answering::Passes(serving) => break (location, serving),
                Answering::BrokenOff(failed) => retry::again(client, exchange, plans, &mut history, failed)?,
            };
        };
        let plans = plans.on(&location.0, location.1);

        // Relay: the response on its way to the client, and what is left of the request on its way to the server.
        if exchange.switches_protocols() {
            return Box::pin(upgrade::run(client, stream, exchange, plans, serving)).await;
        }
        if let Err(ended) = respond::run(client, stream, exchange, plans, &mut serving).await {
            grpc::break_off(exchange, plans, &serving, ended);
            exchange.record.sent_to_server += serving.server.sent();
            servers.drop_stream(serving.server);
            return Err(ended);
        }

        // Finish: the connection to the server goes back to its pool.
        if exchange.grpc.is_some() {
            grpc::finish(exchange, plans, &serving);
        }
        finish::run(client, servers, exchange, plans, serving);
        Ok(End::Done)
    }
}

/// Whether the request may be one that is answered before any route is chosen: one that may go no further, or the challenge of an authority.
#[inline(always)]
fn needs_no_route(exchange: &Exchange, snapshot: &Snapshot) -> bool {
    exchange.request.max_forwards(&exchange.request_text) == Some(0)
        || snapshot.issuers.is_some() && acme_challenge::is_one(exchange)
}

/// Answers such a request, if it is one.
async fn answer_without_route(
    client: &mut Client,
    stream: &mut impl ClientStream,
    exchange: &mut Exchange,
    snapshot: &Snapshot,
) -> Result<Option<End>, Ended> {
    if exchange.request.max_forwards(&exchange.request_text) == Some(0) {
        return answer::as_last_hop(client, stream, exchange).await.map(Some);
    }
    match &snapshot.issuers {
        Some(issuers) => acme_challenge::pass(client, stream, exchange, issuers).await,
        None => Ok(None),
    }
}

/// Takes the response whole before the client gets any of it, as far as the route wants that: to store it, or to free its server early.
async fn hold_response<S: Servers>(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut S,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    answering: Answering<S::Stream>,
) -> Result<Answering<S::Stream>, Ended> {
    let Answering::Passes(mut serving) = answering else { return Ok(answering) };
    if exchange.cached.is_some() {
        exchange.mirrored = None;
        match cache_response::take(client, stream, servers, exchange, plans, serving).await? {
            Answering::Passes(response) => serving = response,
            other => return Ok(other),
        }
    }
    match held::wanted(exchange, plans) {
        Some(holding) => {
            let held = held::run(client, stream, servers, exchange, plans, (serving, holding));
            held.await.map(Answering::Done)
        }
        None => Ok(Answering::Passes(serving)),
    }
}

/// Whether the request goes to a server again in place of the response at hand.
#[inline(always)]
fn goes_again<T: ServerStream>(
    client: &mut Client,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    history: &mut AttemptHistory,
    serving: &RespondingServer<T>,
) -> bool {
    faults::strike(&client.worker.crash, &exchange.request, &exchange.request_text, FaultPoint::Response);
    retry::instead(client, exchange, plans, history, serving)
        || exchange.cached.is_some()
            && (cache_response::wants_part_instead(client, exchange, plans, serving)
                || cache_response::confirms_other_version(client, exchange, plans, serving))
}

/// Prepares for attempts on servers of the upstream.
#[inline(always)]
fn begin_attempts(client: &mut Client, exchange: &mut Exchange, plans: Plans<'_>) {
    let Plans { listener, upstream, .. } = plans;
    faults::strike(&client.worker.crash, &exchange.request, &exchange.request_text, FaultPoint::Route);
    exchange.waits.begin(&plans.wait_limits());
    if exchange.grpc.is_some() {
        grpc::begin(exchange, listener, upstream);
    }
    affinity::begin(exchange, upstream, client.now);
    retry::begin(client, exchange, plans);
}

/// How an exchange ended, for its stream.
pub(crate) enum End {
    /// There was no request, or nothing can be answered: the connection closes.
    Closed,
    /// The response has been sent whole.
    Done,
    /// The response is not whole, and the client has to see that.
    CutShort,
    /// The client has failed, or an operator has ended the connection.
    Aborted,
    /// Raw bytes follow.
    Tunnel(Box<Tunnelled>),
}

/// Why an exchange ended before its response was relayed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    /// There was no request.
    Quietly,
    Failed(Failure),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Ended::Failed(failure)
    }
}

/// The state of one exchange; part of its carrier and reused with it.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: RequestHead,
    /// The bytes that the spans of `request` refer to.
    pub(crate) request_text: Vec<u8>,
    /// The server name of the SNI of a TCP listener's client; empty without one.
    pub(crate) server_name: Vec<u8>,
    /// The beginning of the first line of a head that could not be read.
    pub(crate) first_line: Box<[u8]>,
    /// The path and query that the server gets, when a rewrite changed them.
    pub(crate) rewritten: Vec<u8>,
    pub(crate) request_relay: Relay,
    /// What was taken of the request body, as long as it may have to be sent again.
    pub(crate) replay_buffer: ReplayBuffer,

    /// Whether Weir has told the client to send the body.
    pub(crate) body_was_asked_for: bool,
    /// Interim responses that were passed on, in all attempts.
    pub(crate) interim: u32,
    pub(crate) response: ResponseHead,
    /// The head of the response as received; kept only when the access log asks for its fields.
    pub(crate) response_text: Vec<u8>,
    pub(crate) response_relay: Relay,
    /// What becomes of the body of the response.
    pub(crate) body_coding: BodyCoding,
    /// Whether a final response head was staged for the client: no other answer can be given any more.
    pub(crate) answered: bool,
    /// The server that the request belongs to by its cookies.
    pub(crate) affinity: RequestAffinity,
    /// Values of headers that the route sets and adds, for the head that is written next.
    pub(crate) rendered_headers: RenderedHeaders,
    /// The value of `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u32>,
    /// What limits by key have to do with it.
    pub(crate) limited: Limited,
    /// What the cache has to do with a request that goes to a server.
    cached: Option<Box<CacheUse>>,
    /// The gRPC call that the request is.
    pub(crate) grpc: Option<GrpcCall>,
    /// The script that it names, for a server of FastCGI.
    pub(crate) script: Option<Box<Script>>,
    /// What is known of the client, on a route that asks for that.
    pub(crate) granted: Option<Box<Granted>>,
    /// That its request will be copied for a mirror.
    pub(crate) mirrored: Option<Box<Mirrored>>,
    /// Whether it waits when all servers are full; only requests of Weir's own may not.
    pub(crate) waits_for_slot: bool,

    pub(crate) waits: Waits,
    pub(crate) record: Record,
    /// Its attempts, for the recorder.
    pub(crate) attempt_trace: AttemptTrace,
    /// The beginning of a tunnel that is now over.
    pub(crate) tunnel_trace: Option<Box<TunnelTrace>>,
}

impl Exchange {
    pub(crate) fn new() -> Self {
        Self {
            request: RequestHead::new(),
            request_text: Vec::new(),
            server_name: Vec::new(),
            first_line: Box::default(),
            rewritten: Vec::new(),
            request_relay: Relay::new(),
            replay_buffer: ReplayBuffer::default(),
            body_was_asked_for: false,
            interim: 0,
            response: ResponseHead::new(),
            response_text: Vec::new(),
            response_relay: Relay::new(),
            body_coding: BodyCoding::AsItIs,
            answered: false,
            affinity: RequestAffinity::default(),
            rendered_headers: RenderedHeaders::default(),
            retry_after: None,
            limited: Limited::default(),
            cached: None,
            grpc: None,
            script: None,
            granted: None,
            mirrored: None,
            waits_for_slot: true,
            waits: Waits::new(),
            record: Record::new(),
            attempt_trace: AttemptTrace::new(),
            tunnel_trace: None,
        }
    }

    /// Forgets the request and the response; keeps the memory.
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        self.request.reset();
        self.first_line = Box::default();
        for text in [&mut self.request_text, &mut self.rewritten, &mut self.response_text] {
            text.clear();
            text.shrink_to(MEMORY_KEPT_MAX);
        }
        self.request_relay = Relay::new();
        self.replay_buffer.reset(MEMORY_KEPT_MAX);
        self.body_was_asked_for = false;
        self.interim = 0;
        self.response.reset();
        self.response_relay = Relay::new();
        self.body_coding = BodyCoding::AsItIs;
        self.answered = false;
        self.affinity = RequestAffinity::default();
        self.retry_after = None;
        self.limited.reset();
        self.cached = None;
        self.grpc = None;
        self.script = None;
        self.granted = None;
        self.mirrored = None;
        self.record.reset();
        self.attempt_trace.reset();
        self.tunnel_trace = None;
    }

    /// Keeps the beginning of what the client sent in place of a head, for the recorder.
    #[cold]
    fn keep_first_line(&mut self, client: &Client, stream: &impl ClientEnd) {
        // What is not HTTP at all is not recorded, nor what the client of a TCP listener sends.
        let is_head = client.protocol == ListenerProtocol::Http
            && self.record.failure.is_some_and(|failure| failure.phase == Phase::Request);
        if is_head {
            let line = stream.unread().split(|byte| matches!(byte, b'\r' | b'\n' | b'?')).next();
            let line = line.unwrap_or_default();
            self.first_line = line[..line.len().min(FIRST_LINE_MAX)].into();
        }
    }
}
