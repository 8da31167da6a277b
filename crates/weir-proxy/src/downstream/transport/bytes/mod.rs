//! The transport of bytes: one socket of TCP or a Unix socket for each connection, with TLS records on it where the listener has TLS.

mod ending;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::Context;

use weir_observe::{Cause, Failure};

use super::{Close, Transport, TransportFacts};
use crate::downstream::byte_driver::ByteDriver;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::net::connection::Connection;
use crate::net::peer::Peer;
use crate::net::socket::Socket;
use crate::net::tls::facts::{OwnedTlsFacts, TlsFacts};
use crate::net::tls::records::Records;
use crate::state::snapshot::ListenerPlan;

/// A connection whose client has a socket of its own.
pub(crate) struct ByteTransport {
    pub(crate) connection: Connection,
    /// The failure for which the client is not served, until it has been reported to the client.
    pub(crate) refused: Option<Failure>,
    /// Whether the first check for an abort, the one without the event loop, was made.
    pub(crate) looked: bool,
    /// What makes streams of the bytes, once that is known.
    pub(crate) driver: ByteDriver,
}

impl Transport for ByteTransport {
    type Carrier = OwnedFd;

    fn open(carrier: OwnedFd) -> Self {
        let connection = Connection::new(Socket::new(carrier));
        Self { connection, refused: None, looked: false, driver: ByteDriver::Http1 }
    }

    /// Decided by the address of the peer, never by the bytes.
    fn names_client(listener: &ListenerPlan, peer: Peer) -> bool {
        listener.config.proxy_protocol.as_ref().is_some_and(|config| config.from.contains(peer.ip()))
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.connection.socket.local_address()
    }

    fn take_facts(&mut self) -> TransportFacts {
        let tls = self.connection.tls.as_mut().map(|records| {
            let certificate = records.client_certificate.take();
            OwnedTlsFacts::new(&records.facts(), certificate)
        });
        TransportFacts::new(tls, self.local_address())
    }

    fn end(&self) -> &impl ClientEnd {
        &self.connection
    }

    fn is_quiet(&mut self) -> bool {
        self.connection.is_quiet(true)
    }

    async fn close(&mut self, client: &mut Client, how: Close) {
        match how {
            Close::Now => {}
            Close::Ended => self.end_writing(client).await,
            Close::Lingering => {
                self.end_writing(client).await;
                self.linger(client).await;
            }
        }
    }
}

/// A connection that carries nothing but a tunnel.
impl ClientEnd for Connection {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.tls.as_deref().map(Records::facts)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_address()
    }

    fn unread(&self) -> &[u8] {
        &[]
    }

    fn sends_at_once(&self) -> bool {
        self.has_input()
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
