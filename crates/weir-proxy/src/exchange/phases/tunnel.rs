//! Phase Relay of an exchange that has become a tunnel: a WebSocket, a CONNECT, or a TCP connection from its start.
//!
//! A tunnel may live for days beside a hundred thousand others, so it leaves the carrier of its exchange and keeps what it
//! needs: the server's end, its slot, and what the log will want to know. Must not know how it came about, nor the protocol of
//! either end.

use std::sync::Arc;
use std::task::{self, Poll, ready};
use std::time::Duration;

use weir_observe::{Cause, Failure, ListenerShard, Party, Phase, WorkerShard};

use super::finish;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::exchange_limits::ExchangeHolds;
use crate::exchange::exchange_state::lingering;
use crate::exchange::exchange_state::lingering::FAREWELL_TIME;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::record::Record;
use crate::exchange::telemetry::{log, recording};
use crate::net::clock::{self, Instant};
use crate::net::failure::of_io;
use crate::net::failure::of_server;
use crate::relay::throttle::Throttle;
use crate::relay::tunnel::end::TunnelEnd;
use crate::relay::tunnel::{BrokenSide, Side, Tunnel};
use crate::state::connections::activity::Activity;
use crate::state::tracing::recorder::TunnelTrace;
use crate::upstream::slot::Slot;
use crate::upstream::tunnel::ServerEnd;

/// How much earlier than the process a tunnel ends, so that its last bytes and the end itself still reach both sides.
const DRAIN_LEAD: Duration = Duration::from_millis(500);

/// How often silence is measured in the longest that it may last: it may then last longer by that part.
const LOOKS: u32 = 8;

/// The shortest time from one look to the next.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// How long the end that is left may be silent while it takes what was received from the one that failed.
const DELIVERY_SILENCE: Duration = Duration::from_secs(30);

/// An exchange that has become a tunnel.
pub(crate) struct Tunnelled {
    server: ServerEnd,
    slot: Slot,
    tunnel: Tunnel,
    /// How long both sides may be silent.
    idle: Option<Duration>,
    /// The last check at which bytes had moved.
    active_at: Instant,
    /// When the tunnel ends although it is in use.
    ends_at: Option<Instant>,
    /// Whether it ends sooner, because Weir stops or the config does not name its server any more.
    is_draining: bool,
    is_stopping: bool,
    /// Whether an end has failed and the other takes what was received from it.
    is_delivering: bool,
    /// Whether it is a WebSocket on a stream: some browsers never end theirs when the server has.
    is_websocket_stream: bool,
    /// Whether the server has ended such a one, and the client is to follow.
    is_leaving: bool,
    /// The snapshot that it was last adapted to.
    revision: u64,
    moved: u64,
    record: Record,
    is_logged: bool,
    /// The request and its response, if the log may show them.
    logged: Option<Box<Exchange>>,
    /// What limits by key and tables hold for it, if any does.
    holds: Option<Box<ExchangeHolds>>,
    /// What the recorder and the collector of traces will want to know of the beginning.
    tunnel_trace: Option<Box<TunnelTrace>>,
    _counted: OpenTunnelCount,
}

/// Counts a tunnel as open until it is dropped: for its listener, which a reload may remove, and for its worker.
struct OpenTunnelCount {
    listener: Arc<ListenerShard>,
    worker: Arc<WorkerShard>,
}

impl OpenTunnelCount {
    fn new(client: &Client) -> Self {
        let (listener, worker) = (&client.listener.shard, &client.worker.shard);
        listener.tunnels.increment();
        listener.tunnels_open.increment();
        worker.tunnels_open.increment();
        Self { listener: Arc::clone(listener), worker: Arc::clone(worker) }
    }
}

impl Drop for OpenTunnelCount {
    fn drop(&mut self) {
        self.listener.tunnels_open.decrement();
        self.worker.tunnels_open.decrement();
    }
}

impl Tunnelled {
    /// Turns an exchange into a tunnel to `server` that ends at `ends_at` at the latest; the exchange is reset.
    pub(in crate::exchange) fn new<U>(
        context: &mut Context<'_, impl ClientEnd, U>,
        plans: Plans<'_>,
        server: ServerEnd,
        slot: Slot,
        ends_at: Option<Instant>,
    ) -> Box<Self> {
        let (client, exchange) = (&mut *context.client, &mut *context.exchange);
        let now = clock::now();
        client.now = now;
        client.deadline.set_ceiling(None);
        let limits = &context.listener.config.limits;
        let throttle = |rate: Option<weir_config::ByteRate>| {
            rate.map(|rate| Throttle::new(rate.bytes_per_second(), now))
        };
        let is_logged = log::is_on(client, &exchange.record, context.config);
        let is_traced = client.worker.recorder.is_some() || exchange.record.trace.sampled().is_some();
        exchange.record.update(context.stream);
        let holds = exchange.limits.take_holds();
        let tunnel_trace = is_traced.then(|| recording::tunnel_trace(client, exchange, plans.config));
        Box::new(Self {
            server,
            slot,
            tunnel: Tunnel::new(throttle(limits.upload_rate), throttle(limits.download_rate)),
            idle: plans.upstream.config.timeouts.tunnel,
            active_at: now,
            ends_at,
            is_draining: false,
            is_stopping: false,
            is_delivering: false,
            is_websocket_stream: exchange.request.protocol().is_some(),
            is_leaving: false,
            revision: plans.config.snapshot.revision,
            moved: 0,
            record: std::mem::replace(&mut exchange.record, Record::new()),
            is_logged,
            logged: is_logged.then(|| Box::new(std::mem::replace(exchange, Exchange::new()))),
            holds,
            tunnel_trace,
            _counted: OpenTunnelCount::new(client),
        })
    }

    /// Relays until both sides have ended, or one fails, or the time is up; then counts and logs it.
    ///
    /// # Errors
    /// The failure that has ended it.
    pub(crate) async fn run(&mut self, owner: &mut impl TunnelClient) -> Result<(), Failure> {
        let (client, _) = owner.split();
        client.deadline.set_ceiling(self.ends_at);
        client.deadline.set_at(self.idle.map(|idle| self.active_at + idle / LOOKS));
        let outcome = std::future::poll_fn(|cx| {
            let (client, end) = owner.split();
            self.poll(cx, client, end)
        })
        .await;
        let (client, end) = owner.split();
        let now = clock::now();
        client.now = now;
        let mut exchange = self.lend_exchange();
        exchange.limits.give_back_holds(self.holds.take());
        let record = &mut exchange.record;
        record.spend(Phase::Relay, now);
        record.bytes_in += self.tunnel.moved().0;
        record.failure = outcome.err();
        record.ended_by = match outcome {
            Ok(()) => self.tunnel.first_end().map(Side::party),
            Err(failure) => Some(failure.party),
        };
        let config = exchange.record.begin_config(client);
        finish::record(&mut Context::new(client, end, &mut (), &mut exchange, &config));
        if outcome.is_err_and(|failure| failure.cause == Cause::Drained) {
            // A complete end must not be confused with that of a truncated stream.
            client.worker.shard.tunnels_drained.increment();
            self.server.end_now();
            let _full = end.poll_end(&mut task::Context::from_waker(task::Waker::noop()));
        }
        outcome
    }

    /// Aborts the server's end of a tunnel that `party` has broken off. What was received from a client that has failed is delivered before.
    pub(crate) async fn abort_server(mut self: Box<Self>, client: &mut Client, party: Party) {
        if party == Party::Client {
            let end = self.server.end();
            end.push();
            lingering::wait(client, || end.undelivered()).await;
        }
        self.server.abort();
    }

    /// Its exchange, with the figures up to now.
    fn lend_exchange(&mut self) -> Box<Exchange> {
        let (up, down) = self.tunnel.moved();
        let mut exchange = self.logged.take().unwrap_or_else(|| Box::new(Exchange::new()));
        exchange.record = std::mem::replace(&mut self.record, Record::new());
        let bytes = exchange.record.tunnelled.get_or_insert_default();
        let (up_before, down_before) = std::mem::replace(&mut bytes.moved, (up, down));
        exchange.record.sent_to_server += up - up_before;
        exchange.record.bytes_out += down - down_before;
        exchange.response_relay.moved = down;
        exchange.tunnel_trace = self.tunnel_trace.take();
        exchange
    }

    /// Answers a query, if there is one.
    fn report(&mut self, client: &mut Client) {
        if !client.has_open_query() {
            return;
        }
        let mut exchange = self.lend_exchange();
        client.answer(Activity::Tunnel, Some(&exchange));
        self.record = std::mem::replace(&mut exchange.record, Record::new());
        self.tunnel_trace = exchange.tunnel_trace.take();
        self.logged = self.is_logged.then_some(exchange);
    }

    fn poll<E: TunnelEnd>(
        &mut self,
        cx: &mut task::Context<'_>,
        client: &mut Client,
        end: &mut E,
    ) -> Poll<Result<(), Failure>> {
        let mut resume_at = None;
        let (stock, resume) = (&client.worker.stock, &mut resume_at);
        let polled = match &mut self.server {
            ServerEnd::Connection(server) => self.tunnel.poll(cx, end, &mut server.connection, stock, resume),
            ServerEnd::Stream { end: server, .. } => self.tunnel.poll(cx, end, &mut **server, stock, resume),
        };
        self.credit();
        if let Poll::Ready(outcome) = polled {
            return Poll::Ready(outcome.map_err(|broken| of_broken(&broken)));
        }
        if self.tunnel.is_broken() && !self.is_delivering {
            self.is_delivering = true;
            self.limit_silence(client, DELIVERY_SILENCE);
        }
        if self.is_websocket_stream && !self.is_leaving && self.tunnel.first_end() == Some(Side::Server) {
            self.is_leaving = true;
            self.limit_silence(client, FAREWELL_TIME);
        }
        self.follow_reload(client);
        if client.worker.is_stopping() && !self.is_stopping {
            (self.is_stopping, self.is_draining) = (true, true);
            let grace = client.worker.stop_grace();
            let drained_at = clock::now() + grace.saturating_sub(DRAIN_LEAD);
            let ends_at = self.ends_at.map_or(drained_at, |end| end.min(drained_at));
            client.deadline.set_ceiling(Some(ends_at));
        }
        if let Some(at) = resume_at {
            client.deadline.look_again(at);
        }
        client.worker.connection_list.note_wait(Activity::Tunnel);
        self.report(client);
        loop {
            ready!(client.deadline.poll_passed());
            if let Some(failure) = client.deadline.cut_failure(Phase::Relay) {
                return Poll::Ready(Err(failure));
            }
            match self.over(client) {
                Some(Cause::TunnelIdle) if self.is_leaving && !self.is_delivering => {
                    return Poll::Ready(Ok(()));
                }
                Some(cause) => return Poll::Ready(Err(Failure::weir(Phase::Relay, cause))),
                None => {}
            }
        }
    }

    /// Ends it after so much silence from now on.
    fn limit_silence(&mut self, client: &mut Client, time: Duration) {
        (self.active_at, self.moved) = (clock::now(), 0);
        let idle = self.idle.map_or(time, |idle| idle.min(time));
        self.idle = Some(idle);
        client.deadline.set_at(Some(self.active_at + idle / LOOKS));
    }

    /// Counts the bytes moved since the last call: the figures of a connection that lasts for days must not wait for its end.
    fn credit(&mut self) {
        let moved = self.tunnel.moved();
        let bytes = self.record.tunnelled.get_or_insert_default();
        let before = std::mem::replace(&mut bytes.credited, moved);
        let shard = self.server.shard();
        shard.bytes_out.add(moved.0 - before.0);
        shard.bytes_in.add(moved.1 - before.1);
    }

    /// Applies a newer config, if there is one: it may set an end of the tunnel.
    fn follow_reload(&mut self, client: &mut Client) {
        let present = client.worker.config.borrow();
        if present.snapshot.revision == self.revision || self.is_stopping {
            return;
        }
        self.revision = present.snapshot.revision;
        let server_ends_at = self.slot.follow(&present);
        let ends_at = [client.listener.ends_at(), server_ends_at].into_iter().flatten().min();
        if ends_at.is_none() {
            let (config, listener) = client.listener.config_for_exchange(&present);
            self.record.settle_on(&config, listener);
        }
        if ends_at.is_some() || self.is_draining {
            self.is_draining = ends_at.is_some();
            client.deadline.set_ceiling([self.ends_at, ends_at].into_iter().flatten().min());
        }
    }

    /// Why its time is up, if it is. Silence is measured only here, a few times in the longest that it may last: bytes move
    /// without a look at the clock.
    fn over(&mut self, client: &mut Client) -> Option<Cause> {
        if client.deadline.ends_with_ceiling() {
            return Some(if self.is_draining { Cause::Drained } else { Cause::ConnectionMaxAge });
        }
        let idle = self.idle?;
        let now = clock::now();
        let (up, down) = self.tunnel.moved();
        if std::mem::replace(&mut self.moved, up + down) != up + down {
            self.active_at = now;
        } else if now >= self.active_at + idle {
            return Some(Cause::TunnelIdle);
        }
        client.deadline.set_at(Some((now + idle / LOOKS).max(now + LOOK_MIN)));
        None
    }
}

/// The owner of the client's end of a tunnel.
pub(crate) trait TunnelClient {
    /// The client's end: a connection, or a stream on one.
    type End: TunnelEnd + ClientEnd;

    /// The client, and the end whose raw bytes are relayed.
    fn split(&mut self) -> (&mut Client, &mut Self::End);
}

fn of_broken(broken: &BrokenSide) -> Failure {
    match broken.side {
        Side::Client => of_io(Phase::Relay, Party::Client, &broken.error),
        Side::Server => of_server(Phase::Relay, &broken.error),
    }
}

impl Side {
    fn party(self) -> Party {
        match self {
            Side::Client => Party::Client,
            Side::Server => Party::Server,
        }
    }
}
