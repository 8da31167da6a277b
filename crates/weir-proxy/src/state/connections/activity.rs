//! The wait of a client connection.

use weir_observe::Phase;

/// What a client connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The PROXY header in front of everything.
    ProxyHeader,
    /// The handshake of TLS.
    Handshake,
    /// The first message of TLS that passes through.
    Hello,
    /// The next request, or the first one.
    Idle,
    /// The streams of the connection, which wait for themselves.
    Streams,
    /// Buffers for an exchange: all are in use.
    Memory,
    /// The rest of a request head.
    Head,
    /// The verdict about the credentials of the request.
    Credentials,
    /// The response that another request fetches.
    Cache,
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
    /// The disk that a file is on.
    Disk,
    /// The turn of a response under a limit on bandwidth.
    Bandwidth,
    /// The client, to take what is sent.
    ClientTakes,
    /// Either side of a tunnel.
    Tunnel,
    /// The client, to take the last bytes and the end.
    Ending,
}

impl Activity {
    /// The phase that it belongs to, none between two exchanges. From the response on everything is relay.
    pub(crate) const fn phase(self, answered: bool) -> Option<Phase> {
        Some(match self {
            Activity::Idle | Activity::Streams => return None,
            Activity::ProxyHeader => Phase::Accept,
            Activity::Handshake | Activity::Hello => Phase::Tls,
            Activity::Memory | Activity::Head => Phase::Request,
            Activity::Credentials | Activity::Cache => Phase::Route,
            Activity::Queue => Phase::Queue,
            Activity::Connecting => Phase::Connect,
            Activity::RequestBody | Activity::ServerTakes if !answered => Phase::Send,
            Activity::Disk if !answered => Phase::Response,
            Activity::ResponseHead => Phase::Response,
            Activity::RequestBody
            | Activity::ServerTakes
            | Activity::ResponseBody
            | Activity::Disk
            | Activity::Bandwidth
            | Activity::ClientTakes
            | Activity::Tunnel => Phase::Relay,
            Activity::Ending => Phase::Finish,
        })
    }

    /// Whether it is part of an attempt on a server that has not answered.
    pub(crate) const fn is_attempt(self) -> bool {
        matches!(
            self,
            Activity::Connecting | Activity::RequestBody | Activity::ServerTakes | Activity::ResponseHead
        )
    }

    /// Whether it is a body that does not move.
    pub(crate) const fn is_body(self) -> bool {
        matches!(
            self,
            Activity::RequestBody | Activity::ServerTakes | Activity::ResponseBody | Activity::ClientTakes
        )
    }

    /// What is waited for, as the end of a sentence.
    pub const fn awaited(self) -> &'static str {
        match self {
            Activity::ProxyHeader => "the PROXY header of the connection",
            Activity::Handshake => "the TLS handshake",
            Activity::Hello => "the first TLS message of the client",
            Activity::Idle => "a request",
            Activity::Streams => "its streams",
            Activity::Memory => "a buffer of Weir to become free",
            Activity::Head => "the rest of the request head",
            Activity::Credentials => "the verdict about the credentials of the request",
            Activity::Cache => "the response that another request fetches",
            Activity::Queue => "a server with a free slot",
            Activity::Connecting => "the connection to the server",
            Activity::Disk => "the disk that the file is on",
            Activity::RequestBody => "the client to send more of the request body",
            Activity::ServerTakes => "the server to take more of the request",
            Activity::ResponseHead => "the head of the server's response",
            Activity::ResponseBody => "the server to send more of the response body",
            Activity::Bandwidth => "its turn under a limit on bandwidth",
            Activity::ClientTakes => "the client to take more of the response",
            Activity::Tunnel => "either side of the tunnel to send or take more",
            Activity::Ending => "the client to take the last bytes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_response_on_everything_is_relay() {
        for (doing, before, after) in [
            (Activity::RequestBody, Phase::Send, Phase::Relay),
            (Activity::ServerTakes, Phase::Send, Phase::Relay),
            (Activity::ResponseHead, Phase::Response, Phase::Response),
            (Activity::ClientTakes, Phase::Relay, Phase::Relay),
        ] {
            assert_eq!((doing.phase(false), doing.phase(true)), (Some(before), Some(after)), "{doing:?}");
        }
        assert_eq!(Activity::Idle.phase(false), None);
    }
}
