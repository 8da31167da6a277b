//! What makes streams of the bytes of a connection: chosen here, and nowhere else.
//!
//! The listener, what TLS has agreed on (ALPN) and the first bytes of the client decide. Must not read anything.

use weir_config::{ListenerProtocol, PriorKnowledge};

use crate::exchange::exchange_state::client::Client;

/// The drivers over a connection of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteDriver {
    /// One stream after the other.
    Http1,
    /// Many streams at once.
    Http2,
    /// The connection itself is the only stream.
    Tcp,
}

/// What is known before the first byte of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Agreed<'a> {
    /// TLS, and the protocol that both sides have agreed on.
    Tls(Option<&'a [u8]>),
    /// Nothing, without TLS.
    Nothing,
    /// There is no TLS although there should be: the client is told so.
    Refused,
}

impl ByteDriver {
    /// The one that a connection begins with.
    pub(crate) fn choose(client: &Client, agreed: Agreed<'_>) -> Self {
        match (client.protocol, agreed) {
            (ListenerProtocol::Tcp, _) => Self::Tcp,
            (ListenerProtocol::Http, Agreed::Tls(Some(b"h2"))) => Self::Http2,
            (ListenerProtocol::Http, Agreed::Nothing) if knows(client) == PriorKnowledge::Only => Self::Http2,
            (ListenerProtocol::Http, Agreed::Tls(_) | Agreed::Nothing | Agreed::Refused) => Self::Http1,
        }
    }

    /// Whether [`ByteDriver::Http2`] takes over when the first request is its preface: a client may begin with that where it knows beforehand
    /// (RFC 9113 section 3.3). With TLS, it has to agree on it.
    #[cold]
    pub(crate) fn may_begin_with_preface(client: &Client) -> bool {
        client.requests == 0 && !client.is_tls && knows(client) != PriorKnowledge::Off
    }
}

/// What clients may know beforehand.
fn knows(client: &Client) -> PriorKnowledge {
    client.listener.plan().config.http2.prior_knowledge
}
