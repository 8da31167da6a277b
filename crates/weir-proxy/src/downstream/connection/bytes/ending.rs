//! What becomes of a connection of bytes behind its last exchange, or behind a tunnel.
//!
//! Must not decide how an exchange ended.

use weir_observe::{Cause, Failure, Party};

use super::ByteConnection;
use crate::downstream::http1::AfterStream;
use crate::exchange::phases::tunnel::Tunnelled;

impl ByteConnection {
    /// Ends our direction behind all that was sent.
    pub(super) fn end_writing(&mut self) -> impl Future<Output = ()> {
        self.transport.end_writing(&mut self.client)
    }

    /// Ends the connection of an exchange after which nothing else comes, or of a tunnel.
    pub(super) async fn end(mut self: Box<Self>, after: AfterStream) {
        let Self { client, transport, .. } = &mut *self;
        match after {
            AfterStream::Linger => {
                transport.end_writing(client).await;
                transport.linger(client).await;
            }
            AfterStream::CutShort => {
                transport.cut_short(client).await;
                transport.linger(client).await;
            }
            AfterStream::Reset => transport.reset_delivered(client).await,
            AfterStream::Abort => transport.abort(),
            // A tunnel has ended both directions itself.
            AfterStream::Close | AfterStream::KeepAlive | AfterStream::Http2 | AfterStream::Tunnel(_) => {}
        }
    }

    /// Ends the connection of a tunnel that is over. A client gets an end instead of a reset where the server has failed: many systems
    /// discard received bytes that are not yet read when a reset follows.
    pub(super) async fn end_tunnel(
        mut self: Box<Self>,
        tunnel: Box<Tunnelled>,
        outcome: Result<(), Failure>,
    ) {
        let party = match outcome {
            Ok(()) => return,
            Err(failure) if failure.cause == Cause::Drained => return,
            Err(failure) => failure.party,
        };
        tunnel.abort_server(&mut self.client, party).await;
        self.end(if party == Party::Server { AfterStream::CutShort } else { AfterStream::Abort }).await;
    }
}
