//! The loop of a client connection with many streams: what it waits for, how it ends, and a task for each stream.
//!
//! Limits on the connection, its drain, its idle time and its place are decided here, for every driver and every transport. Must not know how
//! streams share the connection.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_observe::{Cause, Failure, Party, Phase};

use super::ClientConnection;
use super::exchange_pool::{ExchangePool, StreamUser};
use super::lease::Lease;
use super::stream_client::StreamClient;
use crate::downstream::abort::gives_up_on_close;
use crate::downstream::stream_driver::{
    ClientFault, ConnectionEnd, DrivenStream as _, EndReason, Standing, StreamDriver, StreamEnd,
};
use crate::downstream::transport::{Close, Transport as _};
use crate::exchange::End;
use crate::exchange::phases::finish;
use crate::exchange::phases::tunnel::Tunnelled;
use crate::net::clock::{self, Instant};
use crate::net::timing::pace::Pace;
use crate::state::connections::activity::Activity;

/// How long a client may take to acknowledge how we begin.
const ACKNOWLEDGEMENT_TIME: Duration = Duration::from_secs(10);

/// How long a client that is told of the end may take to say that it knows.
const GOODBYE_TIME: Duration = Duration::from_secs(2);

/// How long a connection without streams keeps its memory: most clients that go on do so before. One that has had no more than so many
/// streams keeps none: many clients come once, and the memory of thousands of them would lie between what stays.
const MEMORY_TIME: Duration = Duration::from_secs(1);
const STREAMS_FEW: u64 = 4;

/// How a connection comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Not yet.
    None,
    /// Told so; streams that are on their way are still taken.
    Announced { at: Instant },
    /// Nothing more is taken: it ends behind the streams that there are.
    Final,
    /// The client has ended its direction: what there is goes to its end.
    Closed,
    /// Nothing reaches the client any more.
    Gone,
    /// Given up for a fault of the client, from which nothing more is taken if that was too much of something.
    Fault { is_flood: bool },
}

/// The streams of one connection, and what its task keeps between two turns.
pub(super) struct StreamLoop<D: StreamDriver> {
    conn: Box<ClientConnection<D::Transport>>,
    driver: D,
    ending: Ending,
    opened_at: Instant,
    /// The streams that it has had, whether any is open, and since when that has been so.
    seen: (u64, bool),
    seen_since: Instant,
    /// Since when the client has been expected to go on with something.
    partial_since: Option<Instant>,
    pace: Option<Pace>,
    /// Whether an idle connection still has memory.
    has_memory: bool,
}

impl<D: StreamDriver<Stream: StreamUser>> StreamLoop<D> {
    /// Serves the streams of a connection to its end.
    pub(super) async fn run(mut conn: Box<ClientConnection<D::Transport>>) {
        let driver = D::open(&mut conn.transport, &conn.client.listener.plan());
        let _counted = D::count_open(&conn.client.listener.shard);
        let opened_at = clock::now();
        let mut serving = Self {
            conn,
            driver,
            ending: Ending::None,
            opened_at,
            seen: (0, false),
            seen_since: opened_at,
            partial_since: None,
            pace: None,
            has_memory: true,
        };
        std::future::poll_fn(|cx| serving.poll_turn(cx)).await;
        serving.driver.close_account(&serving.conn.client.worker.inbox);
        drop(serving.driver);
        let how = match serving.ending {
            Ending::Fault { is_flood: true } => Close::Now,
            Ending::Closed | Ending::Gone => Close::Ended,
            Ending::None | Ending::Announced { .. } | Ending::Final | Ending::Fault { .. } => {
                Close::Lingering
            }
        };
        let ClientConnection { client, transport, .. } = &mut *serving.conn;
        transport.close(client, how).await;
    }

    /// One turn; ready when the connection is over and no stream is left.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = clock::now();
        self.conn.client.now = now;
        self.driver.begin_turn(cx, now.saturating_duration_since(self.opened_at));
        let received = {
            let plan = self.conn.client.listener.plan();
            self.driver.poll_receive(cx, &mut self.conn.transport, &self.conn.client.worker.stock, &plan)
        };
        if let Poll::Ready(end) = received {
            self.stop_receiving(end);
        }
        self.driver.account(&self.conn.client.worker.inbox);
        self.driver.count(&self.conn.client.listener.shard);
        self.begin_streams(matches!(self.ending, Ending::Fault { .. }));
        self.say_goodbye(now);
        if self.ending != Ending::Gone
            && let Poll::Ready(Err(_)) = self.driver.poll_send(cx, &mut self.conn.transport)
        {
            self.driver.close(Cause::Reset);
            self.ending = Ending::Gone;
        }
        let standing = self.driver.standing(&self.conn.transport);
        self.conn.client.requests = standing.opened;
        if is_over(self.ending, &standing) {
            return Poll::Ready(());
        }
        self.wait(cx, &standing)
    }

    /// The client sends nothing more, or nothing that could be taken.
    #[cold]
    fn stop_receiving(&mut self, end: ConnectionEnd) {
        match end {
            ConnectionEnd::Fault(ClientFault { rule, is_flood }) => {
                let failure = Failure::client(Phase::Request, Cause::Rule(rule));
                self.conn.count_failure(failure);
                finish::log_connection_failure(&self.conn.client, self.conn.transport.end(), failure);
                self.driver.give_up(Cause::Rule(rule));
                self.ending = Ending::Fault { is_flood };
            }
            ConnectionEnd::Closed(outcome) => {
                let is_reset = outcome.is_err_and(|error| error.kind() != io::ErrorKind::UnexpectedEof);
                self.ending = Ending::Closed;
                if is_reset {
                    self.driver.close(Cause::Reset);
                    self.ending = Ending::Gone;
                } else if gives_up_on_close(&self.conn.client) {
                    self.driver.give_up(Cause::Closed);
                } else {
                    self.driver.stop_reading();
                }
            }
        }
    }

    /// Starts a task for each stream that has begun and is not over.
    fn begin_streams(&mut self, is_lost: bool) {
        self.driver.begin_streams(|stream| {
            if let Some(cause) = stream.gone() {
                // It is released when it is dropped here. A reset is counted elsewhere, a fault of the connection once.
                if matches!(cause, Cause::Rule(_)) && !is_lost {
                    self.conn.count_failure(Failure::client(Phase::Request, cause));
                }
                return;
            }
            let client = StreamClient::new(&self.conn.client, stream);
            self.conn.client.requests += 1;
            self.conn.client.listener.shard.streams.increment();
            tokio::task::spawn_local(run_stream(Rc::clone(&self.conn.exchanges), client));
        });
    }

    /// Tells the client of the end where there is a reason for it: Weir stops, the listener is gone, or a limit is reached.
    fn say_goodbye(&mut self, now: Instant) {
        match self.ending {
            Ending::None if self.has_to_end(now) || self.gives_place() => {
                self.driver.announce_end();
                self.ending = Ending::Announced { at: now };
            }
            Ending::Announced { at }
                if self.driver.standing(&self.conn.transport).is_told || now >= at + GOODBYE_TIME =>
            {
                self.driver.end(EndReason::Regular);
                self.ending = Ending::Final;
            }
            _ => {}
        }
    }

    fn has_to_end(&self, now: Instant) -> bool {
        let limits = &self.conn.client.listener.plan().config.limits;
        let used_up = limits.requests_per_connection.is_some_and(|max| self.conn.client.requests >= max);
        used_up || self.conn.client.is_ending() || self.conn.client.ends_at().is_some_and(|end| end <= now)
    }

    /// Whether its last stream has just ended and another connection waits for its place. While streams run, it stays: the client would need
    /// another one for its next requests. One that has been idle before goes by its turn among those.
    #[inline]
    fn gives_place(&self) -> bool {
        self.conn.client.worker.shared.places.ends.is_awaited() && self.gives_place_awaited()
    }

    #[cold]
    fn gives_place_awaited(&self) -> bool {
        let standing = self.driver.standing(&self.conn.transport);
        let has_ended = standing.streams == 0 && self.seen != (standing.opened, false);
        has_ended && standing.opened > 0 && !standing.is_partial && self.conn.client.give_place()
    }

    /// Sets the deadline of the wait and looks whether it has passed.
    fn wait(&mut self, cx: &mut Context<'_>, standing: &Standing) -> Poll<()> {
        let now = self.conn.client.now;
        let waits = self.waits(standing, now);
        let first = waits.iter().flatten().min_by_key(|(at, _)| *at).copied();
        self.conn.client.deadline.set_at(first.map(|(at, _)| at));
        let look_at = [self.release_memory(standing), standing.turn_at].into_iter().flatten().min();
        if let Some(at) = look_at {
            self.conn.client.deadline.look_again(at);
        }
        self.conn.client.report_idle(if standing.streams == 0 { Activity::Idle } else { Activity::Streams });
        if self.is_evicted(self.seen_since, standing) {
            // The client has to know that no stream of it was taken. There is no time to wait until it takes that.
            self.driver.end(EndReason::Regular);
            let _ = self.driver.poll_send(cx, &mut self.conn.transport);
            self.ending = Ending::Final;
            return Poll::Ready(());
        }
        // A limit by progress that is used up ends now, at every turn anew: its deadline would never be in the past.
        let is_used_up = first.is_some_and(|(at, _)| at <= now);
        let has_passed = is_used_up || self.conn.client.deadline.poll_passed().is_ready();
        if has_passed && self.ending != Ending::Gone {
            self.pass(first.map(|(_, wait)| wait));
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Gives back what an idle connection does not need, once it has been idle for a moment; gives that moment.
    fn release_memory(&mut self, standing: &Standing) -> Option<Instant> {
        let at = self.seen_since + MEMORY_TIME;
        if standing.streams > 0 {
            return self.release_heads(at);
        }
        if standing.unwritten.is_some() || !self.has_memory {
            return None;
        }
        if standing.opened > STREAMS_FEW && self.conn.client.now < at {
            return Some(at);
        }
        self.driver.release_memory();
        self.has_memory = false;
        None
    }

    /// Gives back the memory of the heads of streams, once no further one has come for a moment: those of long requests wait for their
    /// responses.
    fn release_heads(&mut self, at: Instant) -> Option<Instant> {
        if self.conn.client.now < at {
            return Some(at);
        }
        self.driver.release_heads();
        None
    }

    /// When each wait ends, and what it means then.
    fn waits(&mut self, standing: &Standing, now: Instant) -> [Option<(Instant, Wait)>; 6] {
        let plan = self.conn.client.listener.plan();
        let timeouts = &plan.config.timeouts;
        self.partial_since = standing.is_partial.then(|| self.partial_since.unwrap_or(now));
        let seen = (standing.opened, standing.streams > 0);
        if self.seen != seen {
            (self.seen, self.seen_since) = (seen, now);
        }
        self.has_memory |= seen.1;
        let idle_since = (!seen.1).then_some(self.seen_since);
        let unsent = standing.unwritten.map(|written| (written, timeouts.send));
        let unsent = match (unsent, &mut self.pace) {
            (Some((written, Some(limit))), pace) => {
                Some(pace.get_or_insert_with(|| Pace::new(limit)).wait(now, written))
            }
            (_, pace) => {
                *pace = None;
                None
            }
        };
        let is_open = self.ending == Ending::None;
        let is_read = matches!(self.ending, Ending::None | Ending::Announced { .. } | Ending::Final);
        let is_unacknowledged = is_read && !standing.is_acknowledged;
        [
            self.partial_since.filter(|_| is_read).map(|since| (since + timeouts.request, Wait::Request)),
            unsent.map(|at| (at, Wait::Send)),
            is_unacknowledged.then(|| (self.opened_at + ACKNOWLEDGEMENT_TIME, Wait::Acknowledgement)),
            idle_since.filter(|_| is_open).map(|since| (since + timeouts.idle, Wait::Idle)),
            self.conn.client.ends_at().filter(|_| is_open).map(|at| (at, Wait::Age)),
            match self.ending {
                Ending::Announced { at } => Some((at + GOODBYE_TIME, Wait::Goodbye)),
                _ => None,
            },
        ]
    }

    /// Whether the connection is idle and makes room for another one.
    fn is_evicted(&mut self, since: Instant, standing: &Standing) -> bool {
        if standing.streams > 0 {
            self.conn.client.deadline.end_idle();
            return false;
        }
        if !self.conn.client.begin_idle(since, standing.opened == 0) {
            return false;
        }
        self.conn.client.deadline.end_idle();
        let is_quiet = self.conn.transport.is_quiet();
        if is_quiet {
            self.conn.client.note_evicted();
        }
        is_quiet
    }

    /// A wait is over, or an operator ends the connection.
    #[cold]
    fn pass(&mut self, wait: Option<Wait>) {
        if let Some(cause) = self.conn.client.deadline.cut_cause() {
            self.conn.count_failure(Failure::weir(Phase::Request, cause));
            if cause == Cause::SlowHeadAtLimit {
                // What it may have sent meanwhile was not taken, and the client gets to know that.
                self.driver.end(EndReason::Regular);
                self.ending = Ending::Fault { is_flood: false };
                return;
            }
            self.driver.close(Cause::Reset);
            self.ending = Ending::Gone;
            return;
        }
        match wait {
            Some(Wait::Idle | Wait::Age) => {
                self.driver.announce_end();
                self.ending = Ending::Announced { at: self.conn.client.now };
            }
            Some(Wait::Send) => {
                self.conn.count_failure(Failure::client(Phase::Relay, Cause::TimedOut));
                self.driver.close(Cause::TimedOut);
                self.ending = Ending::Gone;
            }
            Some(wait @ (Wait::Request | Wait::Acknowledgement)) => {
                self.conn.count_failure(Failure::client(Phase::Request, Cause::TimedOut));
                match wait {
                    Wait::Acknowledgement => self.driver.end(EndReason::Unacknowledged),
                    _ => self.driver.end(EndReason::Regular),
                }
                self.driver.give_up(Cause::TimedOut);
                self.ending = Ending::Fault { is_flood: false };
            }
            // The next turn goes on with that.
            Some(Wait::Goodbye) | None => {}
        }
    }
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The rest of a head, or how the client begins.
    Request,
    /// The client, to take what is sent.
    Send,
    /// The acknowledgement of how we begin.
    Acknowledgement,
    /// The next stream.
    Idle,
    /// The end of the time that a connection may last.
    Age,
    /// The client, to say that it knows of the end.
    Goodbye,
}

/// Whether nothing is left to be done.
fn is_over(ending: Ending, standing: &Standing) -> bool {
    let is_through = match ending {
        Ending::None | Ending::Announced { .. } => false,
        Ending::Final | Ending::Closed => standing.unwritten.is_none(),
        Ending::Gone | Ending::Fault { .. } => true,
    };
    is_through && standing.streams == 0
}

/// The task of one stream.
async fn run_stream<S: StreamUser>(exchanges: Rc<ExchangePool>, mut client: Box<StreamClient<S>>) {
    std::future::poll_fn(|cx| {
        client.enter(cx);
        Poll::Ready(())
    })
    .await;
    let mut lease = Lease::take_for_stream(exchanges, &mut client).await;
    let (mut client, end) = lease.run(client).await;
    drop(lease);
    let end = match end {
        End::Done => StreamEnd::Done,
        End::CutShort => StreamEnd::CutShort,
        End::Closed | End::Aborted => StreamEnd::Aborted,
        // On the heap, since it would make every stream larger.
        End::Tunnel(tunnel) => Box::pin(run_tunnel(&mut client, tunnel)).await,
    };
    client.stream.finish(end);
}

/// Relays raw bytes between a stream and a server.
async fn run_tunnel<S: StreamUser>(client: &mut StreamClient<S>, mut tunnel: Box<Tunnelled>) -> StreamEnd {
    match tunnel.run(client).await {
        Ok(()) => StreamEnd::Done,
        Err(failure) if failure.cause == Cause::Drained => StreamEnd::Done,
        Err(failure) => {
            tunnel.abort_server(&mut client.client, failure.party).await;
            if failure.party == Party::Server { StreamEnd::CutShort } else { StreamEnd::Aborted }
        }
    }
}
