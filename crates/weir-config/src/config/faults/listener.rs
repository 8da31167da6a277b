//! What may not hold of a listener.

use std::fmt;
use std::time::Duration;

use weir_traffic::limit::RateError;

use crate::value::print_duration;

/// A rule about listeners that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListenerFault {
    NoAddress,
    AddressTwice(String),
    NotWholeSeconds {
        key: &'static str,
        value: Duration,
    },
    /// Of connections per client.
    Rate(RateError),
    /// Connections of TCP have no response of Weir's own.
    OnlyToUpstreams,
    /// A route leads to one of this name.
    NoSuchRoute(String),
    /// `then` leads back to the route of this name.
    ThenCircle(String),
    NoProxyPeer,
    /// The list of this name says nothing of peers alone.
    NoListOfPeers(String),
    NoTlsVersion,
    /// Of this version of TLS.
    NoSuite(&'static str),
    TicketsAndClientCertificates,
    /// HTTP/3 cannot be spoken, for this reason.
    NoHttp3(&'static str),
    EarlyDataAndClientCertificates,
}

impl fmt::Display for ListenerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("it has no address"),
            Self::AddressTwice(address) => write!(f, "`{address}` is bound twice"),
            Self::NotWholeSeconds { key, value } => {
                write!(f, "`{key}` is in whole seconds; this is {}", print_duration(*value))
            }
            Self::Rate(error) => error.fmt(f),
            Self::OnlyToUpstreams => {
                f.write_str("connections of a listener for TCP can only go to an upstream")
            }
            Self::NoSuchRoute(name) => write!(f, "the listener has no route with the name `{name}`"),
            Self::ThenCircle(name) => write!(f, "`then` leads back to the route `{name}`"),
            Self::NoProxyPeer => f.write_str("`from` is empty: no connection would begin with a header"),
            Self::NoListOfPeers(name) => write!(
                f,
                "the list `{name}` is not one of networks alone: peers are looked up before there is a request"
            ),
            Self::NoTlsVersion => f.write_str("`versions` is an empty list"),
            Self::NoSuite(version) => {
                write!(f, "no suite of `cipher_suites` is for TLS {version}")
            }
            Self::NoHttp3(reason) => {
                write!(f, "HTTP/3 needs TLS 1.3 on a port of an address: {reason}")
            }
            Self::EarlyDataAndClientCertificates => {
                f.write_str("`early_data` does not go with `client_certificates`: a certificate is proved by the handshake")
            }
            Self::TicketsAndClientCertificates => {
                f.write_str("`ticket_keys` does not go with `client_certificates`")
            }
        }
    }
}
