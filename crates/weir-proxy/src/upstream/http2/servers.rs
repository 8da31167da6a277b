//! Streams to servers for the exchanges of a worker: from a connection that has room, or from one that is opened for them.

use std::future::Future;
use std::rc::Rc;

use weir_observe::{Cause, Failure, Party, Phase};

use super::opening::Opener;
use super::pool::{Http2Pool, Opened, StreamTicket};
use super::stream::Http2ServerStream;
use super::task;
use crate::net::clock::Instant;
use crate::net::connection::Connection;
use crate::state::worker::Worker;
use crate::state::worker_config::LocalServer;
use crate::upstream::stream::Destination;

/// Streams of HTTP/2 to servers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Http2Servers;

/// What opening a connection has given.
pub(crate) enum Http2Opened {
    Stream(StreamTicket),
    /// The server has chosen HTTP/1, and the connection is for one exchange.
    Http1(Box<Connection>),
    /// The server chooses HTTP/1: a connection has to be opened for this exchange alone.
    Http1Elsewhere,
}

impl Http2Servers {
    /// A stream on a connection that is open already.
    #[inline]
    pub(crate) fn take(self, to: Destination<'_>) -> Option<Http2ServerStream> {
        let local = to.local;
        let link = pool(local).link_with_room(to)?;
        Some(Http2ServerStream::begin(&link, &local.shard))
    }

    /// Whether requests go over HTTP/1: the server has chosen that the last time that it could choose, or has required it lately.
    pub(crate) fn uses_http1(self, to: Destination<'_>, now: Instant) -> bool {
        pool(to.local).uses_http1(now)
    }

    /// Waits for a stream, or for the outcome of a connection that is opened.
    pub(crate) fn open(
        self,
        to: Destination<'_>,
        worker: &Rc<Worker>,
    ) -> impl Future<Output = Result<Http2Opened, Failure>> + use<> {
        let pool = Rc::clone(pool(to.local));
        let opener = Opener::new(to, worker);
        async move {
            Ok(match pool.wait(opener).await? {
                Opened::Stream(ticket) => Http2Opened::Stream(ticket),
                Opened::Connection(connection) => Http2Opened::Http1(connection),
                Opened::Alone => Http2Opened::Http1Elsewhere,
            })
        }
    }

    /// The stream that was promised.
    pub(crate) fn begin(self, ticket: &StreamTicket, to: Destination<'_>) -> Http2ServerStream {
        Http2ServerStream::begin(&ticket.link, &to.local.shard)
    }

    /// Why a stream has not come in time.
    pub(crate) fn lateness(self, to: Destination<'_>) -> Failure {
        let is_full = pool(to.local).is_full();
        let (party, cause) =
            if is_full { (Party::Weir, Cause::NoFreeStream) } else { (Party::Server, Cause::TimedOut) };
        Failure { phase: Phase::Connect, party, cause }
    }
}

/// The pool of a server.
#[inline]
fn pool(local: &LocalServer) -> &Rc<Http2Pool> {
    Http2Pool::from_local_server(local, task::spawn)
}
