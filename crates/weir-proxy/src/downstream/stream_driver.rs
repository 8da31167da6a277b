//! What makes many streams of a connection, as the loop of such connections sees it: [`StreamDriver`], and the streams that it yields.
//!
//! HTTP/2 is one, over bytes. Nothing here says how streams share a connection, nor what a message looks like.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::Rule;
use weir_observe::{Cause, Failure, ListenerShard};

use super::transport::Transport;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::net::buffer::BufferStock;
use crate::net::clock::Instant;
use crate::relay::tunnel::end::TunnelEnd;
use crate::state::budgets::inbox_budget::InboxBudget;
use crate::state::snapshot::ListenerPlan;

/// Streams and frames of one connection, without its transport.
///
/// A turn of the loop calls, in this order: `begin_turn`, `poll_receive`, `account`, `count`, `begin_streams`, `poll_send`, `standing`. Streams that
/// have something to send, or are over, wake the task that was seen last by `begin_turn`.
pub(crate) trait StreamDriver: Sized {
    type Transport: Transport;
    type Stream: DrivenStream;
    /// Counts the connection as one of its protocol until it is dropped.
    type Count;

    /// A connection at its beginning.
    fn open(transport: &mut Self::Transport, listener: &ListenerPlan) -> Self;

    fn count_open(shard: &Arc<ListenerShard>) -> Self::Count;

    /// A turn begins, at a time that counts from the beginning of the connection.
    fn begin_turn(&mut self, cx: &Context<'_>, now: Duration);

    /// Takes in what has arrived, as much as one turn may; ready when nothing more is to come.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut Self::Transport,
        stock: &Rc<BufferStock>,
        listener: &ListenerPlan,
    ) -> Poll<ConnectionEnd>;

    /// Accounts for what the connection holds, and for the memory there is.
    fn account(&mut self, budget: &InboxBudget);

    /// The connection is over: it holds nothing.
    fn close_account(&mut self, budget: &InboxBudget);

    /// Counts what has happened since this was called last.
    fn count(&mut self, shard: &ListenerShard);

    /// Gives the streams that have begun in this turn to `start`; some may be over already.
    fn begin_streams(&mut self, start: impl FnMut(Self::Stream));

    /// Writes what waits; ready when all of it is written.
    fn poll_send(&mut self, cx: &mut Context<'_>, transport: &mut Self::Transport) -> Poll<io::Result<()>>;

    /// How it stands.
    fn standing(&self, transport: &Self::Transport) -> Standing;

    /// Tells the client that it is to open no further streams; those that are on their way are still taken.
    fn announce_end(&mut self);

    /// Tells the client that no further streams are taken: what comes now is not served.
    fn end(&mut self, reason: EndReason);

    /// Receives nothing more and gives up all streams; what waits to be sent still is.
    fn give_up(&mut self, cause: Cause);

    /// The same where nothing can be sent any more.
    fn close(&mut self, cause: Cause);

    /// Receives nothing more; the streams go on.
    fn stop_reading(&mut self);

    /// Gives back what a connection does not need that has had no new stream for a while.
    fn release_heads(&mut self);

    /// Gives back all memory that an idle connection does not need.
    fn release_memory(&mut self);
}

/// One stream of several, whose exchange runs in a task of its own. Dropped before its end, it is cut short.
pub(crate) trait DrivenStream: ClientStream + TunnelEnd + Sized + 'static {
    /// The task of `cx` runs the stream from now on.
    fn enter(&self, cx: &Context<'_>);

    /// Why the client does not want the response any more, or cannot get it.
    fn gone(&self) -> Option<Cause>;

    /// Has the exchange end with this failure instead of being served.
    fn refuse(&mut self, failure: Failure);

    /// The exchange is over.
    fn finish(&mut self, end: StreamEnd);
}

/// How the exchange of a stream has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// Its response is whole.
    Done,
    /// There is no response, or it is not whole.
    CutShort,
    /// The client has failed, or an operator has ended it.
    Aborted,
}

/// Why a client is told that no further streams are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// It has done nothing wrong.
    Regular,
    /// It has not acknowledged how we begin.
    Unacknowledged,
}

/// Why nothing more is taken from a client.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// It has ended its direction, or failed.
    Closed(io::Result<()>),
    /// It has broken a rule, and was told so.
    Fault(ClientFault),
}

/// A fault of a client that ends its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientFault {
    pub(crate) rule: Rule,
    /// Whether it was too much of something, so that nothing more is taken from it.
    pub(crate) is_flood: bool,
}

/// How a connection stands behind a turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// Streams whose exchange is not over.
    pub(crate) streams: usize,
    /// Streams that the client has opened so far.
    pub(crate) opened: u64,
    /// Whether the client has to send more of something: how it begins, or the rest of a head.
    pub(crate) is_partial: bool,
    /// Whether the client has acknowledged how we begin, or does not have to.
    pub(crate) is_acknowledged: bool,
    /// Whether it knows that no further streams are taken.
    pub(crate) is_told: bool,
    /// Bytes that were written in all, if some wait.
    pub(crate) unwritten: Option<u64>,
    /// When the driver needs a turn although nothing happens, as for packets that are lost.
    pub(crate) turn_at: Option<Instant>,
}
