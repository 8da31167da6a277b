//! The server's end of a tunnel, whatever the protocol that the tunnel was agreed on with.

use std::sync::Arc;
use std::task::Context;

use weir_observe::ServerShard;

use crate::relay::tunnel::end::TunnelEnd;
use crate::state::servers::pool::ServerConnection;

/// The server's end of a tunnel. What it holds of its server, a place among its connections above all, is given back when it is dropped.
pub(crate) enum ServerEnd {
    /// A connection of its own: the usual kind, of which nothing is called through a table.
    Connection(Box<ServerConnection>),
    /// A stream on a connection that others share.
    Stream {
        end: Box<dyn TunnelEnd>,
        /// What this worker counts of the server.
        shard: Arc<ServerShard>,
    },
}

impl ServerEnd {
    /// What is counted of its server by this worker.
    pub(crate) fn shard(&self) -> &ServerShard {
        match self {
            Self::Connection(server) => server.shard(),
            Self::Stream { shard, .. } => shard,
        }
    }

    /// Ends our direction, as far as there is room for that now.
    pub(crate) fn end_now(&mut self) {
        let _full = self.end_mut().poll_end(&mut Context::from_waker(std::task::Waker::noop()));
    }

    /// Has the drop of this end tell the server that the tunnel is incomplete.
    pub(crate) fn abort(&mut self) {
        self.end_mut().abort();
    }

    /// The end itself, for what happens once in its life.
    pub(crate) fn end(&self) -> &dyn TunnelEnd {
        match self {
            Self::Connection(server) => &server.connection,
            Self::Stream { end, .. } => &**end,
        }
    }

    fn end_mut(&mut self) -> &mut dyn TunnelEnd {
        match self {
            Self::Connection(server) => &mut server.connection,
            Self::Stream { end, .. } => &mut **end,
        }
    }
}
