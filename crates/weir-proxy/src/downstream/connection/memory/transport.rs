//! A transport that carries streams and no bytes.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Context;

use weir_observe::Cause;

use super::wire::Wire;
use crate::downstream::transport::{Close, Transport, TransportFacts};
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::net::tls::facts::{OwnedTlsFacts, TlsFacts};
use crate::state::tracing::recorder::ClientTransport;

/// The address that clients have connected to.
pub(super) const LOCAL: ([u8; 4], u16) = ([192, 0, 2, 100], 443);

/// What the handshake of every such connection has agreed on: as in QUIC, there is none without TLS.
const TLS: TlsFacts<'static> = TlsFacts {
    is_early: false,
    round_trip_micros: None,
    handshake_micros: 700,
    is_version_13: true,
    is_resumed: false,
    cipher_suite: "TLS_AES_128_GCM_SHA256",
    server_name: "a.test",
    client_certificate: None,
};

/// Weir's end of a connection in memory.
pub(super) struct MemoryTransport {
    pub(super) wire: Rc<Wire>,
}

impl Transport for MemoryTransport {
    type Carrier = Rc<Wire>;

    const AT_FIRST: ClientTransport = ClientTransport::Tls;

    fn open(carrier: Rc<Wire>) -> Self {
        Self { wire: carrier }
    }

    fn local_address(&self) -> Option<SocketAddr> {
        Some(LOCAL.into())
    }

    fn take_facts(&mut self) -> TransportFacts {
        TransportFacts::new(Some(OwnedTlsFacts::new(&TLS, None)), Transport::local_address(self))
    }

    fn end(&self) -> &impl ClientEnd {
        self
    }

    fn is_quiet(&mut self) -> bool {
        self.wire.opened.borrow().is_empty() && self.wire.left.get().is_none()
    }

    async fn close(&mut self, _client: &mut Client, how: Close) {
        self.wire.closed.set(Some(how));
    }
}

impl Drop for MemoryTransport {
    fn drop(&mut self) {
        self.wire.is_dropped.set(true);
    }
}

impl ClientEnd for MemoryTransport {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        Some(TLS)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        Transport::local_address(self)
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        true
    }

    fn poll_gone(&mut self, _cx: &mut Context<'_>, _client: &mut Client) -> Option<Cause> {
        None
    }

    fn body_received(&self) -> u64 {
        0
    }

    fn sent(&self) -> u64 {
        0
    }

    fn stays_open(&self) -> bool {
        false
    }
}
