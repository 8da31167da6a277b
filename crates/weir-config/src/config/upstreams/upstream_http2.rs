//! The protocol that servers speak, and HTTP/2 with them.
//!
//! Says nothing of TLS and the PROXY protocol, which exclude some versions: the check of an upstream does.

use std::time::Duration;

use crate::key::{choice, section};

choice! {
    /// The protocol that the servers of an upstream speak.
    pub enum ServerProtocol {
        /// HTTP/1.1
        #[default]
        Http1 = "http1",
        /// HTTP/2 over TLS; a server has to agree on `h2` by ALPN
        H2 = "h2",
        /// HTTP/2 without TLS, by prior knowledge (RFC 9113 section 3.3)
        H2c = "h2c",
        /// HTTP/2 over TLS if the server agrees on it by ALPN, otherwise HTTP/1.1
        Auto = "auto",
        /// FastCGI 1.0, as PHP-FPM speaks it
        Fastcgi = "fastcgi",
    }
}

impl ServerProtocol {
    /// Whether servers may speak HTTP/2.
    pub const fn may_be_http2(self) -> bool {
        !matches!(self, Self::Http1 | Self::Fastcgi)
    }
}

section! {
    /// HTTP/2 with the servers. Requests of all clients of a worker share connections, each on a stream of its own. One that a server leaves
    /// unprocessed (a refused stream, or GOAWAY) is sent again, whatever its method, up to five times and regardless of `retry.budget`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UpstreamHttp2 at "upstream.NAME.http2" {
        /// Concurrent requests on one connection to a server. A lower limit of the server (SETTINGS_MAX_CONCURRENT_STREAMS) takes precedence.
        streams_max: u32 = 100, in 1..=10_000, like "HAProxy `tune.h2.be.max-concurrent-streams`, Envoy `max_concurrent_streams`";
        /// Connections per server and worker. When all streams on them are in use, further requests wait for one, for at most
        /// `timeouts.connect`, and are then answered 503 (`connect-no-free-stream`).
        connections_max: u32 = 100, in 1..=10_000;
        /// The silence of a server with open streams after which it gets a PING. Since servers of gRPC reject frequent ones, the third and
        /// later ones in one silence are at least 330 s apart. Off: no server gets one.
        ping_interval: Option<Duration> = "10s", like "HAProxy `idle-ping` (of `server`), Envoy `connection_keepalive`";
        /// The time within which a server has to answer a PING. After it, the connection counts as dead: its requests fail, or are
        /// repeated as after any other failure of a connection.
        ping_timeout: Duration = "5s", like "Envoy `connection_keepalive`";
    }
}
