//! The task of a connection to a server: it opens the connection, then reads and writes for all of its streams until the last is over.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_config::ServerProtocol;
use weir_http::h2::{ConnectionLimits, ErrorCode, Settings};
use weir_observe::{Cause, Failure, Phase};

use super::link::ServerLink;
use super::opening::{Opener, Shaken};
use super::pool::{Http2Pool, Opening};
use super::receive::{ServerFacts, ServerStreams, ToServers};
use crate::net::clock::{self, Instant};
use crate::net::connection::Connection;
use crate::net::descriptors::{self, ServerPermit};
use crate::net::failure::of_server;
use crate::net::timing::timers::Sleep;
use crate::relay::http2::multiplexer::{Multiplexer, ReceiveEnd};
use crate::relay::http2::shared::MessageLimits;
use crate::state::servers::pool::ServerConnection;
use crate::state::snapshot::UpstreamPlan;
use crate::state::worker::Worker;

/// The window of a connection: as large as it can be, so that a body which is not read holds up no other (RFC 9113 section 6.9.1).
const CONNECTION_WINDOW: u32 = i32::MAX as u32;

/// The payload of the ping that asks for a sign of life.
const ALIVE: [u8; 8] = *b"alive???";

/// Pings that a server gets at `ping_interval` while it is silent; further ones come at this distance. Servers of gRPC take more for an attack
/// (`too_many_pings`).
const PINGS_AT_ONCE: u32 = 2;
const PING_DISTANCE: Duration = Duration::from_secs(330);

/// How long a server may take to read that its connection ends.
const FAREWELL_TIME: Duration = Duration::from_secs(2);

/// Opens a connection in a task of its own: it is of use also when the exchange that asked for it is gone.
pub(super) fn spawn(opening: Opening, opener: Opener) {
    tokio::task::spawn_local(run(opening, opener));
}

async fn run(opening: Opening, opener: Opener) {
    let began = clock::now();
    let permit = ServerPermit::take();
    let opened = open(&opener).await;
    drop(permit);
    let shard = &opener.local().shard;
    shard.connects.increment();
    match opened {
        Err(failure) => {
            if !descriptors::is_local(failure) {
                shard.connect_errors.increment();
            }
            opening.failed(failure);
        }
        Ok(opened) => {
            let micros = clock::micros(clock::now().saturating_duration_since(began));
            shard.connect_time.record(u64::from(micros));
            match opened {
                Open::Http1(connection) => opening.chose_http1(connection),
                Open::Http2(mut task) => {
                    task.pool = Some(opening.done(&task.link));
                    drop(opener);
                    poll_fn(|cx| task.poll_turn(cx)).await;
                }
            }
        }
    }
}

enum Open {
    Http1(Connection),
    Http2(Box<ConnectionTask>),
}

/// Opens a connection up to the settings of the server, which say how many streams it takes and whether it speaks HTTP/2 at all: until
/// then nothing of a request has been sent.
async fn open(opener: &Opener) -> Result<Open, Failure> {
    let limit = opener.plan().config.timeouts.connect;
    let mut late = pin!(opener.worker.timers.sleep(limit));
    let mut connecting = pin!(async {
        match opener.connect().await? {
            Shaken::Http1(connection) => Ok(Open::Http1(connection)),
            Shaken::Http2(connection) => {
                let mut task = Box::new(ConnectionTask::new(connection, opener));
                poll_fn(|cx| task.poll_settings(cx)).await?;
                Ok(Open::Http2(task))
            }
        }
    });
    poll_fn(|cx| {
        if let Poll::Ready(opened) = connecting.as_mut().poll(cx) {
            return Poll::Ready(opened);
        }
        late.as_mut().poll(cx).map(|()| Err(Failure::server(Phase::Connect, Cause::TimedOut)))
    })
    .await
}

/// A connection to a server, and what its task keeps from one turn to the next.
struct ConnectionTask {
    worker: Rc<Worker>,
    /// The place of the server in its upstream.
    index: usize,
    /// The pool that it is in, once it takes requests.
    pool: Option<Rc<Http2Pool>>,
    link: Rc<ServerLink>,
    frames: Multiplexer<ToServers>,
    server: Box<ServerConnection>,
    /// Nothing reaches the server any more, or nothing comes from it.
    is_lost: bool,
    /// The server was told of the end, and has until then to take that.
    ends_by: Option<Instant>,
    /// When it takes no more requests for its age.
    retires_at: Option<Instant>,
    idle_since: Option<Instant>,
    /// Whether an idle connection still has memory.
    has_memory: bool,
    life: SignsOfLife,
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// When the server was last heard of.
struct SignsOfLife {
    received: u64,
    messages: u64,
    heard_at: Instant,
    /// A ping that was not answered.
    pinged_at: Option<Instant>,
    /// When the last ping left, and how many since the server sent more than answers to them.
    last_ping: Instant,
    pings: u32,
}

impl ConnectionTask {
    fn new(connection: Connection, opener: &Opener) -> Self {
        let now = clock::now();
        let plan = opener.plan();
        let limits =
            ConnectionLimits { block_bytes_max: plan.head_limits.head_bytes_max, held_bytes_max: u32::MAX };
        let settings = Settings {
            enable_push: false,
            max_header_list_size: u32::try_from(plan.head_limits.head_bytes_max).unwrap_or(u32::MAX),
            ..Settings::default()
        };
        let facts = ServerFacts {
            scheme: if connection.tls.is_some() { b"https" } else { b"http" },
            may_use_http1: plan.config.protocol == ServerProtocol::Auto,
        };
        let mut frames = Multiplexer::new(settings, limits, ServerStreams::default(), facts);
        frames.grow_connection_window(CONNECTION_WINDOW);
        Self {
            worker: Rc::clone(&opener.worker),
            index: opener.server,
            pool: None,
            link: ServerLink::new(&frames.shared, now, plan),
            frames,
            server: ServerConnection::new(connection, now, Arc::clone(&opener.local().shard)),
            is_lost: false,
            ends_by: None,
            retires_at: plan.pool_limits.age_max.map(|age| now + shortened(age, opener.worker.random())),
            idle_since: None,
            has_memory: true,
            life: SignsOfLife {
                received: 0,
                messages: 0,
                heard_at: now,
                pinged_at: None,
                last_ping: now,
                pings: 0,
            },
            sleep: None,
        }
    }

    /// Sends our settings and waits for those of the server.
    fn poll_settings(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.frames.begin_turn(cx, Duration::ZERO);
        let end = self.poll_receive(cx);
        if let Poll::Ready(Err(error)) = self.frames.poll_send(cx, &mut self.server.connection) {
            return Poll::Ready(Err(of_server(Phase::Connect, &error)));
        }
        if self.frames.shared.state.borrow().codec.has_begun() {
            return Poll::Ready(Ok(()));
        }
        end.map(|end| {
            Err(match end {
                ReceiveEnd::Closed(Err(error)) => of_server(Phase::Connect, &error),
                ReceiveEnd::Closed(Ok(())) | ReceiveEnd::Fault(_) => {
                    Failure::server(Phase::Connect, Cause::NotHttp2)
                }
            })
        })
    }

    /// One turn; ready when the connection is over.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = clock::now();
        self.frames.begin_turn(cx, now.saturating_duration_since(self.link.opened_at));
        if let Poll::Ready(end) = self.poll_receive(cx) {
            self.stop_receiving(end);
        }
        self.frames.account(&self.worker.inbox);
        let wait = self.go_on(now);
        if !self.is_lost
            && let Poll::Ready(Err(_)) = self.frames.poll_send(cx, &mut self.server.connection)
        {
            self.lose(Cause::Reset);
        }
        if let Some(pool) = &self.pool {
            pool.settle();
        }
        if self.is_over() {
            return Poll::Ready(());
        }
        self.wait_until(cx, wait);
        Poll::Pending
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<ReceiveEnd> {
        let plan = self.link.plan();
        let limits = MessageLimits { head: &plan.head_limits, trailers: &plan.chunked_limits };
        self.frames.poll_receive(cx, &mut self.server.connection, &self.worker.stock, limits)
    }

    /// The server sends nothing more, or nothing that could be taken: its streams end here, and no others.
    #[cold]
    fn stop_receiving(&mut self, end: ReceiveEnd) {
        match end {
            ReceiveEnd::Closed(Ok(())) => self.lose(Cause::Closed),
            ReceiveEnd::Closed(Err(error)) => self.lose(of_server(Phase::Response, &error).cause),
            ReceiveEnd::Fault(fault) => {
                let rule = fault.rule.name();
                tracing::debug!(rule, "a server has broken a rule of HTTP/2: its connection ends");
                self.frames.go_away(0, fault.code);
                self.frames.give_up(Cause::Rule(fault.rule));
                self.link.retire();
                self.ends_by = Some(clock::now() + FAREWELL_TIME);
            }
        }
    }

    /// Nothing reaches the server any more.
    #[cold]
    fn lose(&mut self, cause: Cause) {
        self.frames.close(cause);
        self.link.retire();
        self.is_lost = true;
    }

    /// Asks for a sign of life, or comes to an end, where it is time for that; until when there is nothing to do.
    fn go_on(&mut self, now: Instant) -> Option<Instant> {
        if let Some(ends_by) = self.ends_by {
            if now >= ends_by {
                self.lose(Cause::TimedOut);
            }
            return Some(ends_by);
        }
        let plan = self.link.plan();
        // Once it has passed, there is nothing to wake up for.
        let retires_at = self.retires_at.filter(|at| now < *at);
        if self.is_used_up(&plan, now) {
            self.retire(&plan, now);
        }
        if !self.link.is_idle() {
            (self.idle_since, self.has_memory) = (None, true);
            return [self.ask_for_life(&plan, now), retires_at].into_iter().flatten().min();
        }
        self.life.pinged_at = None;
        let since = *self.idle_since.get_or_insert(now);
        let ends_at = since + plan.config.timeouts.idle;
        if self.link.is_retired() || plan.pool_limits.kept_max == 0 || now >= ends_at {
            self.end(now);
            return self.ends_by;
        }
        if std::mem::take(&mut self.has_memory) {
            self.frames.release_memory();
        }
        [Some(ends_at), retires_at].into_iter().flatten().min()
    }

    /// Whether a limit on its use is reached, or the server wants no more requests on it.
    fn is_used_up(&self, plan: &UpstreamPlan, now: Instant) -> bool {
        let state = self.frames.shared.state.borrow();
        state.side.is_going_away
            || state.side.requires_http1
            || self.retires_at.is_some_and(|at| now >= at)
            || u64::from(state.codec.streams_opened()) >= plan.pool_limits.requests_max
    }

    /// Takes no more requests. A server that requires HTTP/1.1 gets them all that way from now on, where the upstream allows it.
    #[cold]
    fn retire(&mut self, plan: &UpstreamPlan, now: Instant) {
        let shared = &self.frames.shared;
        let requires_http1 = std::mem::take(&mut shared.state.borrow_mut().side.requires_http1);
        if requires_http1 && !shared.facts.may_use_http1 && !shared.state.borrow().side.is_going_away {
            // The request that it was about has failed; for others the connection is as good as before.
            return;
        }
        self.link.retire();
        if requires_http1
            && shared.facts.may_use_http1
            && let Some(pool) = &self.pool
        {
            let (upstream, server) = (&plan.config.name, &plan.config.servers[self.index].name);
            tracing::info!(%upstream, %server, "a server requires HTTP/1.1: it gets no requests over HTTP/2 for ten minutes");
            pool.require_http1(now);
        }
    }

    /// Tells the server that this is the end.
    fn end(&mut self, now: Instant) {
        self.ends_by = Some(now + FAREWELL_TIME);
        self.link.retire();
        self.frames.go_away(0, ErrorCode::NO_ERROR);
    }

    /// Pings a server that is silent while it has requests; when there is more to do about that.
    fn ask_for_life(&mut self, plan: &UpstreamPlan, now: Instant) -> Option<Instant> {
        let config = &plan.config.http2;
        let interval = config.ping_interval?;
        let messages = self.frames.shared.state.borrow().side.messages;
        let life = &mut self.life;
        if life.received != self.frames.received {
            (life.received, life.heard_at, life.pinged_at) = (self.frames.received, now, None);
        }
        if life.messages != messages {
            (life.messages, life.pings) = (messages, 0);
        }
        if let Some(pinged_at) = life.pinged_at {
            let dead_at = pinged_at + config.ping_timeout;
            if now >= dead_at {
                self.lose(Cause::PingTimedOut);
            }
            return Some(dead_at);
        }
        let due = match life.pings {
            0..PINGS_AT_ONCE => life.heard_at + interval,
            _ => (life.last_ping + PING_DISTANCE).max(life.heard_at + interval),
        };
        if now < due {
            return Some(due);
        }
        (life.pinged_at, life.last_ping, life.pings) = (Some(now), now, life.pings + 1);
        self.frames.ping(ALIVE);
        Some(now + config.ping_timeout)
    }

    /// Has the task polled at `at`, if nothing happens before.
    fn wait_until(&mut self, cx: &mut Context<'_>, at: Option<Instant>) {
        let Some(at) = at else { return };
        if self.sleep.as_ref().is_none_or(|(until, _)| at < *until) {
            let length = at.saturating_duration_since(clock::now());
            self.sleep = Some((at, Box::pin(self.worker.timers.sleep(length))));
        }
        if let Some((_, sleep)) = &mut self.sleep
            && sleep.as_mut().poll(cx).is_ready()
        {
            self.sleep = None;
            cx.waker().wake_by_ref();
        }
    }

    /// Whether nothing is left to be done.
    fn is_over(&self) -> bool {
        self.is_lost || self.ends_by.is_some() && self.frames.unwritten(&self.server.connection).is_none()
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.worker.shard.panics.increment();
        }
        self.frames.close(Cause::Closed);
        self.frames.close_account(&self.worker.inbox);
        self.link.retire();
        if let Some(pool) = &self.pool {
            pool.remove(&self.link);
        }
    }
}

/// An age that is up to a tenth lower: connections that were opened together do not end together.
fn shortened(age: Duration, random: u64) -> Duration {
    let tenth = age / 10;
    age - tenth.mul_f64((random % 1024) as f64 / 1024.0)
}
