//! What is known of a connection and does not change once it carries streams.

use std::net::SocketAddr;

use weir_observe::{Cause, Failure, Phase};

use crate::exchange::Exchange;
use crate::net::tls::facts::{OwnedTlsFacts, TlsFacts};
use crate::state::snapshot::ListenerPlan;

/// What the streams of a connection know of it.
#[derive(Debug)]
pub(crate) struct TransportFacts {
    tls: Option<OwnedTlsFacts>,
    local_address: Option<SocketAddr>,
}

impl TransportFacts {
    pub(crate) fn new(tls: Option<OwnedTlsFacts>, local_address: Option<SocketAddr>) -> Self {
        Self { tls, local_address }
    }

    /// The TLS of the connection, if it has any.
    pub(crate) fn tls(&self) -> Option<TlsFacts<'_>> {
        self.tls.as_ref().map(OwnedTlsFacts::get)
    }

    /// The address that the client has connected to.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.local_address
    }

    /// Whether the request of a stream may be on this connection: a client may send requests for several hosts on one, as far as the certificate
    /// that it was shown is for them (RFC 9113 section 9.1.1, RFC 9114 section 3.3).
    ///
    /// # Errors
    /// The failure for which the client has to open another connection.
    pub(crate) fn check_host(&self, exchange: &Exchange, listener: &ListenerPlan) -> Result<(), Failure> {
        let (Some(facts), Some(tls)) = (self.tls(), &listener.tls) else { return Ok(()) };
        let (asked, host) = (facts.server_name, exchange.request.host().of(&exchange.request_text));
        if asked.is_empty() || asked.as_bytes().eq_ignore_ascii_case(host) {
            return Ok(());
        }
        match std::str::from_utf8(host) {
            Ok(host) if tls.certificates.are_others(asked, host) => {
                Err(Failure::client(Phase::Request, Cause::Misdirected))
            }
            _ => Ok(()),
        }
    }
}
