//! A handshake of QUIC that waits for its certificate, where Weir obtains certificates by itself.
//!
//! The hello waits in the session, from which it goes on with a packet of the client: that one is asked for. A certificate is ordered only for a client
//! that is at its address. Must not decide what is ordered.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use tokio::sync::futures::Notified;
use weir_observe::{Cause, Failure, Phase};

use crate::net::quic::held_hello::HeldHello;
use crate::net::quic::link::QuicLink;
use crate::net::quic::tls::HandshakeFacts;
use crate::net::tls::certificates::Certificates;
use crate::net::tls::issued::{ListenerIssued, NamedCertificate};

/// How far it has come.
pub(super) enum HoldStep {
    /// Nothing has changed.
    Same,
    /// From now on, it waits for its certificate.
    Began,
    /// It goes on.
    Ended,
}

/// The wait of one handshake.
pub(super) struct CertificateHold<'a> {
    issued: &'a ListenerIssued,
    held: Option<Arc<HeldHello>>,
    changed: Option<Pin<Box<Notified<'a>>>>,
    is_asked: bool,
}

impl<'a> CertificateHold<'a> {
    /// `None` where no handshake waits.
    pub(super) fn new(certificates: &'a Certificates) -> Option<Self> {
        let issued = certificates.issued().filter(|issued| issued.may_wait())?;
        Some(Self { issued, held: None, changed: None, is_asked: false })
    }

    /// How long it may wait.
    pub(super) const fn limit(&self) -> Duration {
        self.issued.wait()
    }

    /// Whether it waits for its certificate.
    pub(super) fn is_waiting(&self) -> bool {
        self.changed.is_some()
    }

    /// Looks how it stands; `facts` are those of the session.
    ///
    /// # Errors
    /// When there will be no certificate soon.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        link: &QuicLink,
        facts: impl FnOnce() -> HandshakeFacts,
    ) -> Result<HoldStep, Failure> {
        if self.held.is_none() {
            self.held = facts().held;
        }
        let Some(held) = self.held.as_ref().filter(|held| !held.is_released()) else {
            return Ok(HoldStep::Same);
        };
        if !link.is_reached() {
            if !std::mem::replace(&mut self.is_asked, true) {
                link.prompt();
            }
            return Ok(HoldStep::Same);
        }
        let began = self.changed.is_none();
        loop {
            let changed = self.changed.get_or_insert_with(|| Box::pin(self.issued.changed()));
            // From here on no change is missed.
            changed.as_mut().enable();
            match self.issued.look(&held.name) {
                // Without one for the name, the handshake finds out what there is.
                NamedCertificate::There | NamedCertificate::Unknown => {
                    held.release();
                    link.prompt();
                    self.changed = None;
                    return Ok(HoldStep::Ended);
                }
                NamedCertificate::Missing => return Err(self.missing()),
                NamedCertificate::Coming => {}
            }
            if changed.as_mut().poll(cx).is_pending() {
                return Ok(if began { HoldStep::Began } else { HoldStep::Same });
            }
            self.changed = None;
        }
    }

    /// That there is no certificate, which the log says once in a while for each host.
    pub(super) fn missing(&self) -> Failure {
        let host = self.held.as_ref().map_or("", |held| &*held.name);
        if let Some(reason) = self.issued.to_tell(host) {
            tracing::warn!(
                host,
                reason = &*reason,
                "a client of HTTP/3 was rejected: there is no certificate for the host yet"
            );
        }
        Failure::weir(Phase::Tls, Cause::TlsCertificatePending)
    }

    /// Whether it has gone on.
    pub(super) fn has_ended(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.is_released())
    }
}
