//! Phase Relay of an exchange that has become a tunnel: a WebSocket, a CONNECT, or a TCP connection from its start.
//!
//! A tunnel may live for days beside a hundred thousand others, so it leaves the carrier of its exchange and keeps what it
//! needs: the server's connection, its slot, and what the log will want to know. Must not know how it came about.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use weir_observe::{Cause, Failure, ListenerShard, Party, Phase, WorkerShard};

use super::attempt::Plans;
use super::record::Record;
use super::{After, Exchange, finish, recording};
use crate::downstream::session::Session;
use crate::net::clock::{self, Instant};
use crate::net::failure::of_io;
use crate::net::failure::of_server;
use crate::relay::throttle::Throttle;
use crate::relay::tunnel::{Broken, Side, Tunnel};
use crate::state::activity::Activity;
use crate::state::pool::ServerConnection;
use crate::state::recorder::TunnelTrace;
use crate::upstream::admission::Slot;

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
    server: ServerConnection,
    slot: Slot,
    tunnel: Tunnel,
    /// How long both sides may be silent.
    idle: Option<Duration>,
    /// When it was last looked at and bytes had moved.
    active_at: Instant,
    /// When the tunnel ends although it is in use.
    ends_at: Option<Instant>,
    /// Whether it ends sooner, because Weir stops or the config does not name its server any more.
    is_draining: bool,
    is_stopping: bool,
    /// Whether an end has failed and the other takes what was received from it.
    is_delivering: bool,
    /// The config that it was last adapted to.
    generation: u64,
    moved: u64,
    record: Record,
    /// Bytes to the server and to the client before the tunnel began.
    sent_before: (u64, u64),
    is_logged: bool,
    /// The request and its response, if the log may show them.
    logged: Option<Box<Exchange>>,
    /// What the recorder and the collector of traces will want to know of the beginning.
    told: Option<Box<TunnelTrace>>,
    _counted: CountedOpen,
}

/// Counts a tunnel as open until it is dropped: for its listener, which a reload may remove, and for its worker.
struct CountedOpen {
    listener: Arc<ListenerShard>,
    worker: Arc<WorkerShard>,
}

impl CountedOpen {
    fn new(session: &Session) -> Self {
        let (listener, worker) = (&session.listener.shard, &session.worker.shard);
        listener.tunnels.increment();
        listener.tunnels_open.increment();
        worker.tunnels_open.increment();
        Self { listener: Arc::clone(listener), worker: Arc::clone(worker) }
    }
}

impl Drop for CountedOpen {
    fn drop(&mut self) {
        self.listener.tunnels_open.decrement();
        self.worker.tunnels_open.decrement();
    }
}

impl Tunnelled {
    /// Turns an exchange into a tunnel to `server` that ends at `ends_at` at the latest; the exchange is left as good as new.
    pub(crate) fn new(
        session: &mut Session,
        exchange: &mut Exchange,
        plans: Plans<'_>,
        server: ServerConnection,
        slot: Slot,
        ends_at: Option<Instant>,
    ) -> Box<Self> {
        let now = clock::now();
        session.now = now;
        session.deadline.set_ceiling(None);
        let limits = &plans.listener.config.limits;
        let throttle = |rate: Option<weir_config::ByteRate>| {
            rate.map(|rate| Throttle::new(rate.bytes_per_second(), now))
        };
        let is_logged = session.listener.log().is_some();
        let is_told = session.worker.recorder.is_some() || exchange.record.trace.sampled().is_some();
        let told = is_told.then(|| recording::tunnel_trace(session, exchange, plans.view));
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
            generation: plans.view.snapshot.generation,
            moved: 0,
            record: std::mem::replace(&mut exchange.record, Record::new()),
            sent_before: (exchange.to_server.sent, exchange.to_client.sent),
            is_logged,
            logged: is_logged.then(|| Box::new(std::mem::replace(exchange, Exchange::new()))),
            told,
            _counted: CountedOpen::new(session),
        })
    }

    /// Relays until both sides have ended, or one fails, or the time is up; then counts and logs it.
    pub(crate) async fn run(mut self: Box<Self>, session: &mut Session) -> After {
        session.deadline.set_ceiling(self.ends_at);
        session.deadline.set_at(self.idle.map(|idle| self.active_at + idle / LOOKS));
        let outcome = std::future::poll_fn(|cx| self.poll(cx, session)).await;
        let now = clock::now();
        session.now = now;
        let mut exchange = self.lend_exchange();
        let record = &mut exchange.record;
        record.spend(Phase::Relay, now);
        record.bytes_in += self.tunnel.moved().0;
        record.failure = outcome.err();
        record.ended_by = match outcome {
            Ok(()) => self.tunnel.first_end().map(Side::party),
            Err(failure) => Some(failure.party),
        };
        finish::record(session, &mut exchange);
        match outcome {
            Ok(()) => After::Close,
            // Its proper end must not be taken for that of what was cut.
            Err(failure) if failure.cause == Cause::Drained => {
                session.worker.shard.tunnels_drained.increment();
                self.tell_end(session);
                After::Close
            }
            Err(failure) => {
                drop(exchange);
                // On the heap, since it would make every session larger.
                Box::pin(self.break_off(session, failure.party)).await
            }
        }
    }

    /// Ends a tunnel of which an end has failed, or whose time is up. What was received from the client is delivered before the
    /// server sees the reset. A client gets an end instead of a reset: many systems forget what was received and not yet
    /// read when a reset comes behind it.
    async fn break_off(self: Box<Self>, session: &mut Session, party: Party) -> After {
        let server = &self.server.connection.socket;
        if party == Party::Client {
            server.push();
            session.wait_for_delivery(Some(server)).await;
        }
        server.abort_on_close();
        if party == Party::Server { After::CutShort } else { After::Abort }
    }

    /// Ends our direction to both sides, as far as their sockets have room for the word of TLS now.
    fn tell_end(&mut self, session: &mut Session) {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let _full = self.server.connection.poll_shutdown_write(&mut cx);
        let _full = session.client.poll_shutdown_write(&mut cx);
    }

    /// The exchange that it is, with all that is known of it by now.
    fn lend_exchange(&mut self) -> Box<Exchange> {
        let (up, down) = self.tunnel.moved();
        let mut exchange = self.logged.take().unwrap_or_else(|| Box::new(Exchange::new()));
        exchange.record = std::mem::replace(&mut self.record, Record::new());
        exchange.record.tunnelled = Some((up, down));
        exchange.to_server.sent = self.sent_before.0 + up;
        exchange.to_client.sent = self.sent_before.1 + down;
        exchange.response_relay.moved = down;
        exchange.told = self.told.take();
        exchange
    }

    /// Tells what it does, if somebody asks.
    fn tell(&mut self, session: &mut Session) {
        if !session.is_called() {
            return;
        }
        let mut exchange = self.lend_exchange();
        session.tell(Activity::Tunnel, Some(&exchange));
        self.record = std::mem::replace(&mut exchange.record, Record::new());
        self.told = exchange.told.take();
        self.logged = self.is_logged.then_some(exchange);
    }

    fn poll(&mut self, cx: &mut Context<'_>, session: &mut Session) -> Poll<Result<(), Failure>> {
        let mut resume_at = None;
        let (client, server) = (&mut session.client, &mut self.server.connection);
        let stock = Rc::clone(&session.worker.stock);
        let polled = self.tunnel.poll(cx, client, server, &stock, &mut resume_at);
        self.credit();
        if let Poll::Ready(outcome) = polled {
            return Poll::Ready(outcome.map_err(|broken| of_broken(&broken)));
        }
        if self.tunnel.is_broken() && !self.is_delivering {
            self.is_delivering = true;
            (self.active_at, self.moved) = (clock::now(), 0);
            let idle = self.idle.map_or(DELIVERY_SILENCE, |idle| idle.min(DELIVERY_SILENCE));
            self.idle = Some(idle);
            session.deadline.set_at(Some(self.active_at + idle / LOOKS));
        }
        self.follow_reload(session);
        if session.worker.is_stopping() && !self.is_stopping {
            (self.is_stopping, self.is_draining) = (true, true);
            let grace = session.worker.view.borrow().snapshot.process.stop_grace;
            let drained_at = clock::now() + grace.saturating_sub(DRAIN_LEAD);
            let ends_at = self.ends_at.map_or(drained_at, |end| end.min(drained_at));
            session.deadline.set_ceiling(Some(ends_at));
        }
        if let Some(at) = resume_at {
            session.deadline.look_again(at);
        }
        self.tell(session);
        loop {
            ready!(session.deadline.poll_passed());
            if let Some(failure) = session.deadline.cut_failure(Phase::Relay) {
                return Poll::Ready(Err(failure));
            }
            if let Some(cause) = self.over(session) {
                return Poll::Ready(Err(Failure::weir(Phase::Relay, cause)));
            }
        }
    }

    /// Counts what has moved since the last time: the figures of a connection that lasts for days must not wait for its end.
    fn credit(&mut self) {
        let moved = self.tunnel.moved();
        let before = std::mem::replace(&mut self.record.credited, moved);
        let shard = self.server.shard();
        shard.bytes_out.add(moved.0 - before.0);
        shard.bytes_in.add(moved.1 - before.1);
    }

    /// Goes by the newest config, if there is another one than before: it may say when the tunnel ends.
    fn follow_reload(&mut self, session: &mut Session) {
        let present = session.worker.view.borrow();
        if present.snapshot.generation == self.generation || self.is_stopping {
            return;
        }
        self.generation = present.snapshot.generation;
        let server_ends_at = self.slot.follow(&present);
        let ends_at = [session.listener.ends_at(), server_ends_at].into_iter().flatten().min();
        if ends_at.is_none() {
            let (view, listener) = session.listener.ground(&present);
            self.record.settle_on(&view, listener);
        }
        if ends_at.is_some() || self.is_draining {
            self.is_draining = ends_at.is_some();
            session.deadline.set_ceiling([self.ends_at, ends_at].into_iter().flatten().min());
        }
    }

    /// Why its time is up, if it is. Silence is measured only here, a few times in the longest that it may last: bytes move
    /// without a look at the clock.
    fn over(&mut self, session: &mut Session) -> Option<Cause> {
        if session.deadline.ends_with_ceiling() {
            return Some(if self.is_draining { Cause::Drained } else { Cause::SessionTooOld });
        }
        let idle = self.idle?;
        let now = clock::now();
        let (up, down) = self.tunnel.moved();
        if std::mem::replace(&mut self.moved, up + down) != up + down {
            self.active_at = now;
        } else if now >= self.active_at + idle {
            return Some(Cause::TunnelIdle);
        }
        session.deadline.set_at(Some((now + idle / LOOKS).max(now + LOOK_MIN)));
        None
    }
}

fn of_broken(broken: &Broken) -> Failure {
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
