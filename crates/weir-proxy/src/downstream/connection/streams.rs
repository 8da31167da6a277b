//! A client connection with many streams: what it waits for, how it ends, and a task for each stream.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_observe::{Cause, Failure, ListenerShard, Party, Phase};

use super::ClientConnection;
use super::lease::Lease;
use super::stream_client::StreamClient;
use crate::downstream::abort::gives_up_on_close;
use crate::downstream::http1::AfterStream;
use crate::downstream::http2::{ClientFault, ConnectionEnd, Http2Connection, Standing, StreamEnd};
use crate::exchange::End;
use crate::exchange::phases::finish;
use crate::exchange::phases::tunnel::Tunnelled;
use crate::net::clock::{self, Instant};
use crate::net::pace::Pace;
use crate::state::connections::activity::Activity;

/// How long a client may take to acknowledge our settings.
const SETTINGS_TIME: Duration = Duration::from_secs(10);

/// How long a client that is told of the end may take to say that it knows.
const GOODBYE_TIME: Duration = Duration::from_secs(2);

/// How long a connection without streams keeps its memory: most clients that go on do so before. One that has had no more than so many
/// streams keeps none: many clients come once, and the memory of thousands of them would lie between what stays.
const MEMORY_TIME: Duration = Duration::from_secs(1);
const STREAMS_FEW: u32 = 4;

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

/// What the task of a connection keeps between two turns.
struct ConnectionProgress {
    ending: Ending,
    opened_at: Instant,
    /// The streams that it has had, whether any is open, and since when that has been so.
    seen: (u32, bool),
    seen_since: Instant,
    /// Since when the client has been expected to go on with something.
    partial_since: Option<Instant>,
    pace: Option<Pace>,
    /// Whether an idle connection still has memory.
    has_memory: bool,
}

impl ClientConnection {
    /// Serves the streams of HTTP/2 to the end of the connection.
    pub(super) async fn serve_streams(mut self: Box<Self>) {
        let mut http2 = Http2Connection::new(&mut self.connection, &self.client.listener.plan());
        let _counted = Http2ConnectionCount::new(&self.client.listener.shard);
        let opened_at = clock::now();
        let mut progress = ConnectionProgress {
            ending: Ending::None,
            opened_at,
            seen: (0, false),
            seen_since: opened_at,
            partial_since: None,
            pace: None,
            has_memory: true,
        };
        std::future::poll_fn(|cx| self.poll_streams(cx, &mut http2, &mut progress)).await;
        http2.close_account(&self.client.worker.inbox);
        drop(http2);
        match progress.ending {
            Ending::Fault { is_flood: true } => self.end(AfterStream::Close).await,
            Ending::Closed | Ending::Gone => self.end_writing().await,
            _ => self.end(AfterStream::Linger).await,
        }
    }

    /// One turn; ready when the connection is over and no stream is left.
    fn poll_streams(
        &mut self,
        cx: &mut Context<'_>,
        http2: &mut Http2Connection,
        progress: &mut ConnectionProgress,
    ) -> Poll<()> {
        let now = clock::now();
        self.client.now = now;
        http2.begin_turn(cx, now.saturating_duration_since(progress.opened_at));
        let received = {
            let plan = self.client.listener.plan();
            http2.poll_receive(cx, &mut self.connection, &self.client.worker.stock, &plan)
        };
        if let Poll::Ready(end) = received {
            self.stop_receiving(http2, progress, end);
        }
        http2.account(&self.client.worker.inbox);
        http2.count(&self.client.listener.shard);
        self.begin_streams(http2, matches!(progress.ending, Ending::Fault { .. }));
        self.say_goodbye(http2, progress, now);
        if progress.ending != Ending::Gone
            && let Poll::Ready(Err(_)) = http2.poll_send(cx, &mut self.connection)
        {
            http2.close(Cause::Reset);
            progress.ending = Ending::Gone;
        }
        let standing = http2.standing(&self.connection);
        self.client.requests = standing.opened.into();
        if is_over(progress, &standing) {
            return Poll::Ready(());
        }
        self.wait(cx, http2, progress, &standing)
    }

    /// The client sends nothing more, or nothing that could be taken.
    #[cold]
    fn stop_receiving(
        &mut self,
        http2: &mut Http2Connection,
        progress: &mut ConnectionProgress,
        end: ConnectionEnd,
    ) {
        match end {
            ConnectionEnd::Fault(ClientFault { rule, is_flood }) => {
                let failure = Failure::client(Phase::Request, Cause::Rule(rule));
                self.count_failure(failure);
                finish::log_connection_failure(&self.client, &self.connection, failure);
                http2.give_up(Cause::Rule(rule));
                progress.ending = Ending::Fault { is_flood };
            }
            ConnectionEnd::Closed(outcome) => {
                let is_reset = outcome.is_err_and(|error| error.kind() != io::ErrorKind::UnexpectedEof);
                progress.ending = Ending::Closed;
                if is_reset {
                    http2.close(Cause::Reset);
                    progress.ending = Ending::Gone;
                } else if gives_up_on_close(&self.client) {
                    http2.give_up(Cause::Closed);
                } else {
                    http2.stop_reading();
                }
            }
        }
    }

    /// Starts a task for each stream that has begun and is not over.
    fn begin_streams(&mut self, http2: &mut Http2Connection, is_lost: bool) {
        http2.begin_streams(|stream| {
            if let Some(cause) = stream.gone() {
                // It is released when it is dropped here. A reset is counted elsewhere, a fault of the connection once.
                if matches!(cause, Cause::Rule(_)) && !is_lost {
                    self.count_failure(Failure::client(Phase::Request, cause));
                }
                return;
            }
            let client = StreamClient::new(&self.client, stream);
            self.client.requests += 1;
            self.client.listener.shard.streams.increment();
            tokio::task::spawn_local(run_stream(Rc::clone(&self.exchanges), client));
        });
    }

    /// Tells the client of the end where there is a reason for it: Weir stops, the listener is gone, or a limit is reached.
    fn say_goodbye(&mut self, http2: &mut Http2Connection, progress: &mut ConnectionProgress, now: Instant) {
        match progress.ending {
            Ending::None if self.has_to_end(now) || self.gives_place(http2, progress) => {
                http2.announce_end();
                progress.ending = Ending::Announced { at: now };
            }
            Ending::Announced { at }
                if http2.standing(&self.connection).is_told || now >= at + GOODBYE_TIME =>
            {
                http2.end();
                progress.ending = Ending::Final;
            }
            _ => {}
        }
    }

    fn has_to_end(&self, now: Instant) -> bool {
        let limits = &self.client.listener.plan().config.limits;
        let used_up = limits.requests_per_connection.is_some_and(|max| self.client.requests >= max);
        used_up || self.client.is_ending() || self.client.ends_at().is_some_and(|end| end <= now)
    }

    /// Whether its last stream has just ended and another connection waits for its place. While streams run, it stays: the client would need
    /// another one for its next requests. One that has been idle before goes by its turn among those.
    #[inline]
    fn gives_place(&self, http2: &Http2Connection, progress: &ConnectionProgress) -> bool {
        self.client.worker.shared.places.ends.is_awaited() && self.gives_place_awaited(http2, progress)
    }

    #[cold]
    fn gives_place_awaited(&self, http2: &Http2Connection, progress: &ConnectionProgress) -> bool {
        let standing = http2.standing(&self.connection);
        let has_ended = standing.streams == 0 && progress.seen != (standing.opened, false);
        has_ended && standing.opened > 0 && !standing.is_partial && self.client.give_place()
    }

    /// Sets the deadline of the wait and looks whether it has passed.
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        http2: &mut Http2Connection,
        progress: &mut ConnectionProgress,
        standing: &Standing,
    ) -> Poll<()> {
        let now = self.client.now;
        let waits = self.waits(progress, standing, now);
        let first = waits.iter().flatten().min_by_key(|(at, _)| *at).copied();
        self.client.deadline.set_at(first.map(|(at, _)| at));
        self.release_memory(http2, progress, standing);
        self.client.report_idle(if standing.streams == 0 { Activity::Idle } else { Activity::Streams });
        if self.is_evicted(progress.seen_since, standing) {
            // The client has to know that no stream of it was taken. There is no time to wait until it takes that.
            http2.end();
            let _ = http2.poll_send(cx, &mut self.connection);
            progress.ending = Ending::Final;
            return Poll::Ready(());
        }
        // A limit by progress that is used up ends now, at every turn anew: its deadline would never be in the past.
        let is_used_up = first.is_some_and(|(at, _)| at <= now);
        let has_passed = is_used_up || self.client.deadline.poll_passed().is_ready();
        if has_passed && progress.ending != Ending::Gone {
            self.pass(http2, progress, first.map(|(_, wait)| wait));
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Gives back what an idle connection does not need, once it has been idle for a moment.
    fn release_memory(
        &mut self,
        http2: &mut Http2Connection,
        progress: &mut ConnectionProgress,
        standing: &Standing,
    ) {
        if standing.streams > 0 {
            return self.release_heads(http2, progress);
        }
        if standing.unwritten.is_some() || !progress.has_memory {
            return;
        }
        let at = progress.seen_since + MEMORY_TIME;
        if standing.opened <= STREAMS_FEW || self.client.now >= at {
            http2.release_memory();
            progress.has_memory = false;
        } else {
            self.client.deadline.look_again(at);
        }
    }

    /// Gives back the memory of the heads of streams, once no further one has come for a moment: those of long requests wait for their
    /// responses.
    fn release_heads(&mut self, http2: &mut Http2Connection, progress: &ConnectionProgress) {
        let at = progress.seen_since + MEMORY_TIME;
        if self.client.now >= at {
            http2.release_heads();
        } else {
            self.client.deadline.look_again(at);
        }
    }

    /// When each wait ends, and what it means then.
    fn waits(
        &self,
        progress: &mut ConnectionProgress,
        standing: &Standing,
        now: Instant,
    ) -> [Option<(Instant, Wait)>; 6] {
        let plan = self.client.listener.plan();
        let timeouts = &plan.config.timeouts;
        progress.partial_since = standing.is_partial.then(|| progress.partial_since.unwrap_or(now));
        let seen = (standing.opened, standing.streams > 0);
        if progress.seen != seen {
            (progress.seen, progress.seen_since) = (seen, now);
        }
        progress.has_memory |= seen.1;
        let idle_since = (!seen.1).then_some(progress.seen_since);
        let unsent = standing.unwritten.map(|written| (written, timeouts.send));
        let unsent = match (unsent, &mut progress.pace) {
            (Some((written, Some(limit))), pace) => {
                Some(pace.get_or_insert_with(|| Pace::new(limit)).wait(now, written))
            }
            (_, pace) => {
                *pace = None;
                None
            }
        };
        let is_open = progress.ending == Ending::None;
        let is_read = matches!(progress.ending, Ending::None | Ending::Announced { .. } | Ending::Final);
        let is_unacknowledged = is_read && !standing.is_acknowledged;
        [
            progress.partial_since.filter(|_| is_read).map(|since| (since + timeouts.request, Wait::Request)),
            unsent.map(|at| (at, Wait::Send)),
            is_unacknowledged.then(|| (progress.opened_at + SETTINGS_TIME, Wait::Settings)),
            idle_since.filter(|_| is_open).map(|since| (since + timeouts.idle, Wait::Idle)),
            self.client.ends_at().filter(|_| is_open).map(|at| (at, Wait::Age)),
            match progress.ending {
                Ending::Announced { at } => Some((at + GOODBYE_TIME, Wait::Goodbye)),
                _ => None,
            },
        ]
    }

    /// Whether the connection is idle and makes room for another one.
    fn is_evicted(&mut self, since: Instant, standing: &Standing) -> bool {
        if standing.streams > 0 {
            self.client.deadline.end_idle();
            return false;
        }
        if !self.client.begin_idle(since, standing.opened == 0) {
            return false;
        }
        self.client.deadline.end_idle();
        let is_quiet = self.connection.is_quiet(true);
        if is_quiet {
            self.client.note_evicted();
        }
        is_quiet
    }

    /// A wait is over, or an operator ends the connection.
    #[cold]
    fn pass(&mut self, http2: &mut Http2Connection, progress: &mut ConnectionProgress, wait: Option<Wait>) {
        if let Some(cause) = self.client.deadline.cut_cause() {
            self.count_failure(Failure::weir(Phase::Request, cause));
            if cause == Cause::SlowHeadAtLimit {
                // What it may have sent meanwhile was not taken, and the client gets to know that.
                http2.end();
                progress.ending = Ending::Fault { is_flood: false };
                return;
            }
            http2.close(Cause::Reset);
            progress.ending = Ending::Gone;
            return;
        }
        match wait {
            Some(Wait::Idle | Wait::Age) => {
                http2.announce_end();
                progress.ending = Ending::Announced { at: self.client.now };
            }
            Some(Wait::Send) => {
                self.count_failure(Failure::client(Phase::Relay, Cause::TimedOut));
                http2.close(Cause::TimedOut);
                progress.ending = Ending::Gone;
            }
            Some(wait @ (Wait::Request | Wait::Settings)) => {
                self.count_failure(Failure::client(Phase::Request, Cause::TimedOut));
                match wait {
                    Wait::Settings => http2.end_unacknowledged(),
                    _ => http2.end(),
                }
                http2.give_up(Cause::TimedOut);
                progress.ending = Ending::Fault { is_flood: false };
            }
            // The next turn goes on with that.
            Some(Wait::Goodbye) | None => {}
        }
    }
}

/// Counts a connection as one of HTTP/2.
struct Http2ConnectionCount(Arc<ListenerShard>);

impl Http2ConnectionCount {
    fn new(shard: &Arc<ListenerShard>) -> Self {
        shard.http2_connections.increment();
        shard.http2_connections_open.increment();
        Self(Arc::clone(shard))
    }
}

impl Drop for Http2ConnectionCount {
    fn drop(&mut self) {
        self.0.http2_connections_open.decrement();
    }
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The rest of a head, or the first frames.
    Request,
    /// The client, to take what is sent.
    Send,
    /// The acknowledgement of our settings.
    Settings,
    /// The next stream.
    Idle,
    /// The end of the time that a connection may last.
    Age,
    /// The client, to say that it knows of the end.
    Goodbye,
}

/// Whether nothing is left to be done.
fn is_over(progress: &ConnectionProgress, standing: &Standing) -> bool {
    let is_through = match progress.ending {
        Ending::None | Ending::Announced { .. } => false,
        Ending::Final | Ending::Closed => standing.unwritten.is_none(),
        Ending::Gone | Ending::Fault { .. } => true,
    };
    is_through && standing.streams == 0
}

/// The task of one stream.
async fn run_stream(exchanges: Rc<super::exchange_pool::ExchangePool>, mut client: Box<StreamClient>) {
    std::future::poll_fn(|cx| {
        client.enter(cx);
        Poll::Ready(())
    })
    .await;
    let mut lease = Lease::take_for_stream(exchanges, &mut client).await;
    let (mut client, end) = lease.run_stream(client).await;
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
async fn run_tunnel(client: &mut StreamClient, mut tunnel: Box<Tunnelled>) -> StreamEnd {
    match tunnel.run(client).await {
        Ok(()) => StreamEnd::Done,
        Err(failure) if failure.cause == Cause::Drained => StreamEnd::Done,
        Err(failure) => {
            tunnel.abort_server(&mut client.client, failure.party).await;
            if failure.party == Party::Server { StreamEnd::CutShort } else { StreamEnd::Aborted }
        }
    }
}
