//! Seam 3: what carries a client connection, as far as the rest of `downstream` needs it.
//!
//! A transport has addresses, the facts of TLS, and a way to close; a driver makes streams of what it carries. Bytes of a socket of its own are the
//! one; datagrams of a shared one are the other. Must not know a protocol of requests, nor how many streams there are.

mod bytes;
#[cfg(feature = "http3")]
mod datagrams;
mod facts;

use std::net::SocketAddr;

use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::net::peer::Peer;
use crate::state::snapshot::ListenerPlan;
use crate::state::tracing::recorder::ClientTransport;
pub(crate) use bytes::ByteTransport;
#[cfg(feature = "http3")]
pub(crate) use datagrams::DatagramTransport;
pub(crate) use facts::TransportFacts;

/// What carries one client connection.
pub(crate) trait Transport: Sized + 'static {
    /// What the worker that accepts a connection gets of it.
    type Carrier;

    /// What it is when the connection is accepted.
    const AT_FIRST: ClientTransport = ClientTransport::Tcp;

    fn open(carrier: Self::Carrier) -> Self;

    /// Whether the connection names its client before anything else, as a PROXY header does: the client counts towards its limits once it is known.
    fn names_client(_listener: &ListenerPlan, _peer: Peer) -> bool {
        false
    }

    /// The address that the client has connected to.
    fn local_address(&self) -> Option<SocketAddr>;

    /// What streams know of their connection, which they do not hold. To be taken once.
    fn take_facts(&mut self) -> TransportFacts;

    /// The connection as the end of a client without a stream, for the log.
    fn end(&self) -> &impl ClientEnd;

    /// Whether the client has sent nothing that was not taken in, and has not closed. Looks for what the event loop has not reported yet.
    fn is_quiet(&mut self) -> bool;

    /// Closes it behind its last stream.
    fn close(&mut self, client: &mut Client, how: Close) -> impl Future<Output = ()>;
}

/// How a connection closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// At once: the client has sent too much of something.
    Now,
    /// Behind what was sent: the client has ended its direction, or is gone.
    Ended,
    /// The same, but what the client still sends is taken in for a moment, so that it reads the end of its responses.
    Lingering,
}
