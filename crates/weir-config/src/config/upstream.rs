//! `[upstream.NAME]`: a named set of servers, and how long each step towards them may take.

use std::time::Duration;

use crate::{Progress, ServerAddress, Size};

/// A named set of servers with one balancer.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// The servers; at least one, names unique, not all of weight 0.
    pub servers: Vec<Server>,
    /// Time limits of each step towards a server.
    pub timeouts: UpstreamTimeouts,
    /// Size and count limits on what a server sends.
    pub limits: UpstreamLimits,
    /// Server connections kept for the next request.
    pub idle: IdleConnections,
    /// Requests that wait for a server.
    pub queue: Queue,
}

impl Upstream {
    /// An upstream with the defaults of the product.
    pub fn new(name: &str, servers: Vec<Server>) -> Self {
        Self {
            name: name.into(),
            servers,
            timeouts: UpstreamTimeouts::default(),
            limits: UpstreamLimits::default(),
            idle: IdleConnections::default(),
            queue: Queue::default(),
        }
    }
}

/// One endpoint of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The name in logs and metrics; unique in its upstream. Default: the address as written.
    pub name: Box<str>,
    /// Where it is.
    pub address: ServerAddress,
    /// Its share, relative to the weights of the others; 0 to 256. With 0 it gets no new requests. Default 1.
    pub weight: u16,
    /// Requests that it works on at the same time, over all workers; more wait in the queue. Default: `None`.
    pub max_requests: Option<u32>,
    /// Whether it only gets requests when no other server can take them. Default: no.
    pub backup: bool,
}

impl Server {
    /// A server with the defaults of the product, named as its address.
    pub fn new(name: &str, address: ServerAddress) -> Self {
        Self { name: name.into(), address, weight: 1, max_requests: None, backup: false }
    }
}

/// `timeouts` of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamTimeouts {
    /// Waiting for a server that may take one more request. Default 10 s: who waits longer has gone away.
    pub queue: Duration,
    /// Reaching a server: from the first packet to an open connection. Default 5 s: two lost packets (1 + 2 s) still make it.
    pub connect: Duration,
    /// The request on its way to the server, by progress, counted only while bytes wait for the server. Default 30 s of credit.
    pub send: Option<Progress>,
    /// From the end of the request to the end of the response head. Default 60 s.
    pub response: Option<Duration>,
    /// The response body, by progress, counted only while Weir waits for the server. Default 60 s of credit.
    pub relay: Option<Progress>,
    /// Silence in both directions of a tunnel (WebSocket). Default 1 h.
    pub tunnel: Option<Duration>,
    /// A connection kept without a request. Default 30 s; servers that say `Keep-Alive: timeout=` get that, less one second.
    pub idle: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            queue: Duration::from_secs(10),
            connect: Duration::from_secs(5),
            send: Some(Progress::standstill(Duration::from_secs(30))),
            response: Some(Duration::from_secs(60)),
            relay: Some(Progress::standstill(Duration::from_secs(60))),
            tunnel: Some(Duration::from_secs(3600)),
            idle: Duration::from_secs(30),
        }
    }
}

/// `limits` of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamLimits {
    /// Status line and headers together. Default 32 KiB; 4 KiB elsewhere is a well-known trap.
    pub head_size: Size,
    /// Header lines of a response. Default 100.
    pub headers: usize,
    /// The trailer section of a chunked body. Default 8 KiB.
    pub trailer_size: Size,
    /// The chunk extensions of one body together. Default 16 KiB.
    pub chunk_extension_size: Size,
}

impl Default for UpstreamLimits {
    fn default() -> Self {
        Self {
            head_size: Size::from_kib(32),
            headers: 100,
            trailer_size: Size::from_kib(8),
            chunk_extension_size: Size::from_kib(16),
        }
    }
}

/// `idle`: server connections kept for the next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleConnections {
    /// Kept per server and worker; 0 keeps none. Default 1024: no more than one turn of the event loop can set free,
    /// so that a busy worker never closes what it needs again at once.
    pub connections_max: usize,
    /// Age at which a connection is not used again. Default: `None`.
    pub age_max: Option<Duration>,
    /// Requests after which a connection is not used again. Default: `None`.
    pub requests_max: Option<u64>,
}

impl Default for IdleConnections {
    fn default() -> Self {
        Self { connections_max: 1024, age_max: None, requests_max: None }
    }
}

/// `queue`: requests that wait for a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Requests that may wait, over all workers; more are answered 503 at once. Default 10 000.
    pub length_max: usize,
}

impl Default for Queue {
    fn default() -> Self {
        Self { length_max: 10_000 }
    }
}
