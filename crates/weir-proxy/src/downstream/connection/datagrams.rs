//! The life of a connection of datagrams: its handshake, which is that of TLS, then its streams.

use std::task::{Context, Poll};

use quinn_proto::{ConnectionError, Event};
use rustls::pki_types::{CertificateDer, UnixTime};
use weir_observe::{Cause, Failure, Phase};

use super::ClientConnection;
use super::certificate_hold::{CertificateHold, HoldStep};
use super::streams::StreamLoop;
use crate::downstream::http3::Http3Driver;
use crate::downstream::transport::DatagramTransport;
use crate::exchange::phases::finish;
use crate::net::clock;
use crate::net::quic::tls::HandshakeFacts;
use crate::net::tls::client_certificates::ClientCertificate;
use crate::net::tls::facts::{OwnedTlsFacts, TlsFacts};
use crate::net::tls::failure::of_rustls;
use crate::net::tls::server_config::{TlsServerConfig, suite_name};
use crate::state::connections::activity::Activity;
use crate::state::snapshot::ListenerPlan;

/// A client connection without a socket of its own.
pub(crate) type DatagramConnection = ClientConnection<DatagramTransport>;

impl DatagramConnection {
    /// Serves the connection to its end.
    pub(crate) async fn run(mut self: Box<Self>) {
        self.enter().await;
        self.transport.link.set_number(self.client.number);
        // On the heap, since it is short and would make every connection larger.
        match Box::pin(self.shake()).await {
            Ok(()) => StreamLoop::<Http3Driver>::run(self).await,
            Err(failure) => {
                self.count_failure(failure);
                finish::log_connection_failure(&self.client, &self.transport, failure);
                self.transport.link.close(0);
                self.transport.link.send(clock::now());
            }
        }
    }

    /// Does the handshake, within the time limit of the phase.
    async fn shake(&mut self) -> Result<(), Failure> {
        let plan = std::sync::Arc::clone(&self.client.listener.plan());
        let began = self.client.now;
        self.client.deadline.set(began, Some(plan.config.timeouts.tls));
        let mut hold = plan.tls.as_ref().and_then(|tls| CertificateHold::new(&tls.certificates));
        let shaken = std::future::poll_fn(|cx| self.poll_shaken(cx, &plan, hold.as_mut())).await;
        self.client.deadline.set_at(None);
        self.client.now = clock::now();
        shaken?;
        let facts = self.facts();
        let tls = TlsFacts {
            is_early: false,
            round_trip_micros: None,
            handshake_micros: clock::micros(self.client.now.saturating_duration_since(began)),
            is_version_13: true,
            is_resumed: facts.is_resumed,
            cipher_suite: facts.cipher_suite.map_or("", suite_name),
            server_name: &facts.server_name,
            client_certificate: None,
        };
        let certificate = match &plan.tls {
            Some(server_config) => self.client_certificate(server_config)?,
            None => None,
        };
        self.client.listener.shard.tls_handshakes[1][usize::from(tls.is_resumed)].increment();
        self.transport.tls = Some(OwnedTlsFacts::new(&tls, certificate));
        Ok(())
    }

    /// Takes a turn of the handshake.
    fn poll_shaken(
        &mut self,
        cx: &mut Context<'_>,
        plan: &ListenerPlan,
        mut hold: Option<&mut CertificateHold<'_>>,
    ) -> Poll<Result<(), Failure>> {
        let now = clock::now();
        let link = &self.transport.link;
        link.watch(cx);
        link.advance(now);
        let mut end = None;
        while end.is_none()
            && let Some(event) = link.next_event()
        {
            end = match event {
                Event::Connected => Some(Ok(())),
                Event::ConnectionLost { reason } => Some(Err(reason)),
                _ => None,
            };
        }
        if end.is_none() && link.takes_early_data() {
            // Requests come with the first packets, and responses leave before the handshake is over.
            end = Some(Ok(()));
        }
        if let Some(hold) = hold.as_mut().filter(|_| end.is_none()) {
            match hold.poll(cx, link, || self.facts())? {
                HoldStep::Same => {}
                HoldStep::Began => self.client.deadline.set(now, Some(hold.limit())),
                HoldStep::Ended => self.client.deadline.set(now, Some(plan.config.timeouts.tls)),
            }
            if hold.has_ended() && self.facts().error.is_some() {
                return Poll::Ready(Err(self.refusal(&ConnectionError::LocallyClosed)));
            }
        }
        self.transport.link.send(now);
        if let Some(end) = end {
            return Poll::Ready(end.map_err(|reason| self.refusal(&reason)));
        }
        if self.is_stopped() {
            return Poll::Ready(Err(Failure::weir(Phase::Tls, Cause::Drained)));
        }
        if let Some(at) = self.transport.link.due() {
            self.client.deadline.look_again(at);
        }
        self.client.report_idle(Activity::Handshake);
        let passed = self.client.deadline.poll_passed();
        passed.map(|()| {
            let timed_out = match hold.filter(|hold| hold.is_waiting()) {
                Some(hold) => hold.missing(),
                None => Failure::client(Phase::Tls, Cause::TimedOut),
            };
            Err(self.client.deadline.failure(Phase::Tls, timed_out))
        })
    }

    fn facts(&self) -> HandshakeFacts {
        let known = self.transport.link.with(|connection| connection.crypto_session().handshake_data());
        let known = known.and_then(|facts| facts.downcast::<HandshakeFacts>().ok());
        known.map_or_else(HandshakeFacts::default, |facts| *facts)
    }

    /// The certificate that the client presented, if one was requested.
    fn client_certificate(
        &self,
        server_config: &TlsServerConfig,
    ) -> Result<Option<Box<ClientCertificate>>, Failure> {
        let plan = self.client.listener.plan();
        let tls = plan.config.tls.as_ref();
        let Some(clients) = tls.and_then(|tls| tls.client_certificates.as_ref()) else { return Ok(None) };
        let identity = self.transport.link.with(|connection| connection.crypto_session().peer_identity());
        let chain = identity.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
        let Some(chain) = chain.filter(|chain| !chain.is_empty()) else { return Ok(None) };
        let now = clock::date();
        let at = UnixTime::since_unix_epoch(now.duration());
        if server_config.client_verifier().is_some_and(|verifier| !verifier.is_valid(&chain, at)) {
            return Ok(Some(ClientCertificate::invalid(&clients.headers)));
        }
        let rejected = |cause| Failure::client(Phase::Tls, cause);
        let read = ClientCertificate::read(&chain[0], &clients.headers);
        let read = read.ok_or_else(|| rejected(Cause::TlsCertificateRejected))?;
        // In a handshake that resumes an earlier session, no verifier runs.
        if read.identity.as_ref().is_some_and(|identity| identity.not_after < now) {
            return Err(rejected(Cause::TlsCertificateExpired));
        }
        Ok(Some(read))
    }

    /// Why there is no connection.
    fn refusal(&self, reason: &ConnectionError) -> Failure {
        let cause = match (reason, self.facts().error) {
            (_, Some(error)) => match of_rustls(&error) {
                // The fault is in the revocation lists, not in the client.
                cause @ Cause::TlsRevocationUnknown => return Failure::weir(Phase::Tls, cause),
                cause => cause,
            },
            (ConnectionError::ConnectionClosed(_), None) => Cause::TlsAlert,
            (ConnectionError::TimedOut, None) => Cause::TimedOut,
            (ConnectionError::Reset | ConnectionError::ApplicationClosed(_), None) => Cause::Closed,
            (_, None) => Cause::TlsHandshakeFailed,
        };
        tracing::debug!(
            listener = &*self.client.listener.plan().config.name,
            peer = ?self.client.peer,
            %reason,
            "no QUIC with a client"
        );
        Failure::client(Phase::Tls, cause)
    }
}
