//! The transport of datagrams: one connection of QUIC, which shares a socket with others.

use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Context;

use weir_observe::Cause;

use super::{Close, Transport, TransportFacts};
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::net::clock;
use crate::net::quic::link::QuicLink;
use crate::net::quic::trace::TracedEnd;
use crate::net::tls::facts::{OwnedTlsFacts, TlsFacts};
use crate::state::tracing::recorder::ClientTransport;

/// A connection whose client shares the socket with others. What it knows of TLS it gets when the handshake is over.
pub(crate) struct DatagramTransport {
    pub(crate) link: Rc<QuicLink>,
    pub(crate) tls: Option<OwnedTlsFacts>,
    /// With which code of the protocol of its streams it closes.
    pub(crate) close_code: u64,
}

impl Transport for DatagramTransport {
    type Carrier = Rc<QuicLink>;

    const AT_FIRST: ClientTransport = ClientTransport::Quic;

    fn open(carrier: Rc<QuicLink>) -> Self {
        Self { link: carrier, tls: None, close_code: 0 }
    }

    fn local_address(&self) -> Option<SocketAddr> {
        Some(self.link.local())
    }

    fn take_facts(&mut self) -> TransportFacts {
        TransportFacts::new(self.tls.take(), Some(self.link.local()))
    }

    fn end(&self) -> &impl ClientEnd {
        self
    }

    /// What has come is taken in at once: nothing waits in a socket of its own.
    fn is_quiet(&mut self) -> bool {
        true
    }

    /// What was sent has been acknowledged by then, or will not be.
    async fn close(&mut self, client: &mut Client, _how: Close) {
        self.link.close(self.close_code);
        if self.link.is_traced() {
            self.link.end_trace(Some(TracedEnd::Closed(self.close_code, None)));
        }
        self.link.tell_end(&client.worker.timers).await;
        self.link.stay_for_end(&client.worker.timers);
        let path = self.link.with(|connection| connection.stats().path);
        let shard = &client.listener.shard;
        shard.http3_packets.add(path.sent_packets);
        shard.http3_packets_lost.add(path.lost_packets);
        shard.http3_round_trips[0].increment();
        shard.http3_round_trips[1].add(clock::micros(path.rtt).into());
    }
}

impl Drop for DatagramTransport {
    fn drop(&mut self) {
        self.link.forget();
    }
}

impl ClientEnd for DatagramTransport {
    fn tls(&self) -> Option<TlsFacts<'_>> {
        self.tls.as_ref().map(OwnedTlsFacts::get)
    }

    fn local_address(&self) -> Option<SocketAddr> {
        Some(self.link.local())
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
