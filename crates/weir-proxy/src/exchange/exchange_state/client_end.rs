//! The end of a client: what is known of its connection and its bytes, whatever they carry.

use std::net::SocketAddr;
use std::task::{Context, Poll};

use weir_observe::Cause;

use super::client::Client;
use crate::net::tls::facts::TlsFacts;

/// The client's end of a stream or a tunnel.
pub(crate) trait ClientEnd {
    /// The TLS of the connection, if it has any.
    fn tls(&self) -> Option<TlsFacts<'_>>;

    /// How long the TLS handshake took, in microseconds; 0 without TLS.
    fn tls_micros(&self) -> u32 {
        self.tls().map_or(0, |tls| tls.handshake_micros)
    }

    /// The address that the client connected to.
    fn local_address(&self) -> Option<SocketAddr>;

    /// Whether the request came before the handshake of its connection was over (0-RTT).
    fn came_early(&self) -> bool {
        false
    }

    /// Whether it came so, and the handshake is not over yet: the request may be a repetition of another's.
    fn is_early(&self) -> bool {
        false
    }

    /// Waits until it is not; registers `cx` for that.
    fn poll_confirmed(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }

    /// Received bytes that nothing has read: the beginning of a head that could not be parsed.
    fn unread(&self) -> &[u8];

    /// Whether the request follows at once when a connection to a server is open.
    fn sends_at_once(&self) -> bool;

    /// Why the client has aborted its request; registers `cx` for the next event.
    fn poll_gone(&mut self, cx: &mut Context<'_>, client: &mut Client) -> Option<Cause>;

    /// Bytes of the request body that were received, without framing.
    fn body_received(&self) -> u64;

    /// Bytes that were sent to the client, with framing.
    fn sent(&self) -> u64;

    /// What the client has taken, as far as that says how fast it takes the response.
    fn taken(&self) -> u64 {
        self.sent()
    }

    /// Whether the client's connection goes on after this exchange, as far as is known.
    fn stays_open(&self) -> bool;
}
