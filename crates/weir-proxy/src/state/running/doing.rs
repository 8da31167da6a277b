//! What a session can be doing: for whom or what it waits.

use weir_observe::Phase;

use crate::exchange::patience::Awaited;

/// For whom or what a session waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The PROXY header in front of everything.
    ProxyHeader,
    /// The handshake of TLS.
    Handshake,
    /// The first message of TLS that passes through.
    Hello,
    /// The next request, or the first one.
    Idle,
    /// Buffers for an exchange: all are in use.
    Memory,
    /// The rest of a request head.
    Head,
    /// A slot on a server.
    Queue,
    /// A connection to a server.
    Connecting,
    /// The client's request body.
    RequestBody,
    /// The server, to take what is sent.
    ServerTakes,
    /// The head of the response.
    ResponseHead,
    /// The server's response body.
    ResponseBody,
    /// The client, to take what is sent.
    ClientTakes,
    /// Either side of a tunnel.
    Tunnel,
    /// The client, to take the last bytes and the end.
    Ending,
}

impl From<Awaited> for Doing {
    fn from(awaited: Awaited) -> Self {
        match awaited {
            Awaited::RequestBody => Doing::RequestBody,
            Awaited::ServerTakes => Doing::ServerTakes,
            Awaited::ResponseHead => Doing::ResponseHead,
            Awaited::ResponseBody => Doing::ResponseBody,
            Awaited::ClientTakes => Doing::ClientTakes,
        }
    }
}

impl Doing {
    /// The phase that it belongs to, none between two exchanges. From the response on everything is relay.
    pub(crate) const fn phase(self, answered: bool) -> Option<Phase> {
        Some(match self {
            Doing::Idle => return None,
            Doing::ProxyHeader => Phase::Accept,
            Doing::Handshake | Doing::Hello => Phase::Tls,
            Doing::Memory | Doing::Head => Phase::Request,
            Doing::Queue => Phase::Queue,
            Doing::Connecting => Phase::Connect,
            Doing::RequestBody | Doing::ServerTakes if !answered => Phase::Send,
            Doing::ResponseHead => Phase::Response,
            Doing::RequestBody
            | Doing::ServerTakes
            | Doing::ResponseBody
            | Doing::ClientTakes
            | Doing::Tunnel => Phase::Relay,
            Doing::Ending => Phase::Finish,
        })
    }

    /// Whether it is part of an attempt on a server that has not answered.
    pub(super) const fn is_attempt(self) -> bool {
        matches!(self, Doing::Connecting | Doing::RequestBody | Doing::ServerTakes | Doing::ResponseHead)
    }

    /// Whether it is a body that does not move.
    pub(super) const fn is_body(self) -> bool {
        matches!(self, Doing::RequestBody | Doing::ServerTakes | Doing::ResponseBody | Doing::ClientTakes)
    }

    /// What is waited for, as the end of a sentence.
    pub(crate) const fn awaited(self) -> &'static str {
        match self {
            Doing::ProxyHeader => "the PROXY header of the connection",
            Doing::Handshake => "the TLS handshake",
            Doing::Hello => "the first TLS message of the client",
            Doing::Idle => "a request",
            Doing::Memory => "a buffer of Weir to become free",
            Doing::Head => "the rest of the request head",
            Doing::Queue => "a server with a free slot",
            Doing::Connecting => "the connection to the server",
            Doing::RequestBody => "the client to send more of the request body",
            Doing::ServerTakes => "the server to take more of the request",
            Doing::ResponseHead => "the head of the server's response",
            Doing::ResponseBody => "the server to send more of the response body",
            Doing::ClientTakes => "the client to take more of the response",
            Doing::Tunnel => "either side of the tunnel to send or take more",
            Doing::Ending => "the client to take the last bytes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_response_on_everything_is_relay() {
        for (doing, before, after) in [
            (Doing::RequestBody, Phase::Send, Phase::Relay),
            (Doing::ServerTakes, Phase::Send, Phase::Relay),
            (Doing::ResponseHead, Phase::Response, Phase::Response),
            (Doing::ClientTakes, Phase::Relay, Phase::Relay),
        ] {
            assert_eq!((doing.phase(false), doing.phase(true)), (Some(before), Some(after)), "{doing:?}");
        }
        assert_eq!(Doing::Idle.phase(false), None);
    }
}
