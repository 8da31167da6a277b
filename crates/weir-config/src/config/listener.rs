//! `[listener.NAME]`: where clients connect, what they may do and how long they may take.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;

use crate::{AccessLog, ListenAddress, Progress, Rate, Route, Size};

/// One listener: its sockets, its rules for clients, its routes.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// Where it accepts connections; at least one, no two the same.
    pub addresses: Vec<ListenAddress>,
    /// Connections that the kernel holds until a worker accepts them, per socket. The kernel lowers it to
    /// `net.core.somaxconn`. Default 65 535: as many as the kernel gives, since a full backlog costs a client seconds.
    pub backlog: u32,
    /// Whether small writes leave at once (`TCP_NODELAY`). Default: yes.
    pub tcp_nodelay: bool,
    /// Silence after which the kernel asks whether a client is still there (`SO_KEEPALIVE`). Default 60 s; `None` never.
    pub tcp_keepalive: Option<Duration>,
    /// How long the kernel keeps a connection to itself until its first byte is here (`TCP_DEFER_ACCEPT`, whole seconds).
    /// Default: `None`, a connection is accepted at once.
    pub defer_accept: Option<Duration>,
    /// Connections whose request may come with the first packet (`TCP_FASTOPEN` queue). Default: `None`, not offered.
    pub fast_open: Option<u32>,
    /// Client connections of this listener. Default: `None`, the limit of the process alone.
    pub connections_max: Option<u32>,
    /// Client connections from one address. Default: `None`, since a whole office may share one.
    pub connections_per_client_max: Option<u32>,
    /// Time limits on the side of the client.
    pub timeouts: ListenerTimeouts,
    /// Size and count limits on what a client sends.
    pub limits: ListenerLimits,
    /// Rules of HTTP/1 that are not enforced here. Default: all are.
    pub allow: Leniency,
    /// Whose word on the client's address is taken. Default: nobody's.
    pub trusted_proxies: TrustedProxies,
    /// What servers are told about the client.
    pub forwarded: Forwarded,
    /// The id that follows a request through the systems.
    pub request_id: RequestId,
    /// One line per exchange.
    pub access_log: AccessLog,
    /// The routes in the order of the text; at least one, no two equally specific for one request.
    pub routes: Vec<Route>,
}

impl Listener {
    /// A listener with the defaults of the product.
    pub fn new(name: &str, addresses: Vec<ListenAddress>, routes: Vec<Route>) -> Self {
        Self {
            name: name.into(),
            addresses,
            backlog: 65_535,
            tcp_nodelay: true,
            tcp_keepalive: Some(Duration::from_secs(60)),
            defer_accept: None,
            fast_open: None,
            connections_max: None,
            connections_per_client_max: None,
            timeouts: ListenerTimeouts::default(),
            limits: ListenerLimits::default(),
            allow: Leniency::default(),
            trusted_proxies: TrustedProxies::default(),
            forwarded: Forwarded::default(),
            request_id: RequestId::default(),
            access_log: AccessLog::default(),
            routes,
        }
    }
}

/// `timeouts` of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTimeouts {
    /// From the first byte of a request to the end of its head. Default 20 s: four lost packets in a row (1 + 2 + 4 + 8 s)
    /// still make it, a client that sends a byte now and then does not.
    pub request: Duration,
    /// The request body, by progress. Default 30 s of credit, 500 B/s.
    pub request_body: Option<Progress>,
    /// The response on its way to the client, by progress, counted only while bytes wait for the client.
    /// Default 60 s of credit, 500 B/s.
    pub send: Option<Progress>,
    /// A connection without a request under way, also before its first. Default 75 s: longer than the 60 s of the
    /// balancers and gateways that may stand in front, so that they close first.
    pub idle: Duration,
    /// Age at which a connection ends, after the exchange under way. Default: `None`, never.
    pub session: Option<Duration>,
}

impl Default for ListenerTimeouts {
    fn default() -> Self {
        let rate_min = Rate::from_bytes_per_second(500);
        Self {
            request: Duration::from_secs(20),
            request_body: Some(Progress::with_rate(Duration::from_secs(30), rate_min)),
            send: Some(Progress::with_rate(Duration::from_secs(60), rate_min)),
            idle: Duration::from_secs(75),
            session: None,
        }
    }
}

/// `limits` of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerLimits {
    /// Request line and headers together. Default 32 KiB, as nginx has it.
    pub head_size: Size,
    /// The request target. Default 8 KiB: RFC 9112 section 3 asks for 8000 bytes.
    pub target_size: Size,
    /// Header lines of a request. Default 100, as Apache httpd and Envoy have it.
    pub headers: usize,
    /// The trailer section of a chunked body. Default 8 KiB.
    pub trailer_size: Size,
    /// The chunk extensions of one body together. Default 16 KiB: nobody uses them but attackers.
    pub chunk_extension_size: Size,
    /// The request body. Default: `None`, since Weir never holds a whole body.
    pub body_size: Option<Size>,
    /// Requests on one connection. Default: `None`.
    pub requests_per_session: Option<u64>,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            head_size: Size::from_kib(32),
            target_size: Size::from_kib(8),
            headers: 100,
            trailer_size: Size::from_kib(8),
            chunk_extension_size: Size::from_kib(16),
            body_size: None,
            requests_per_session: None,
        }
    }
}

/// `allow`: rules of HTTP/1 that a legacy client may break, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leniency {
    /// A line may end with LF alone (RFC 9112 section 2.2); written anew with CR LF.
    pub bare_lf: bool,
    /// A header may go on in a second line (RFC 9112 section 5.2); written anew in one.
    pub obs_fold: bool,
    /// A target may hold `"`, `<`, `>`, `\`, `^`, `` ` ``, `{`, `|`, `}` and bytes over 0x7F; they are percent-encoded.
    pub unsafe_target: bool,
    /// `Content-Length` may be repeated with one and the same value (RFC 9110 section 8.6); written anew once.
    pub repeated_length: bool,
    /// Header names may hold `_`; otherwise such headers are dropped, since CGI-style servers take `_` for `-`.
    pub underscore_names: bool,
}

/// `trusted_proxies`: peers whose `X-Forwarded-*` and `Forwarded` are believed and added to. What others send is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedProxies {
    /// Networks of trusted peers.
    pub networks: Vec<IpNet>,
    /// Whether peers on a Unix socket are trusted.
    pub unix: bool,
}

impl TrustedProxies {
    /// Whether a peer is trusted; `None` stands for a peer on a Unix socket.
    pub fn contains(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            Some(addr) => self.networks.iter().any(|network| network.contains(&addr.to_canonical())),
            None => self.unix,
        }
    }
}

/// `forwarded`: what servers are told about the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarded {
    /// `X-Forwarded-For`, `-Proto`, `-Host` and `-Port`. Default: yes.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239). Default: no.
    pub rfc7239: bool,
    /// `Via` (RFC 9110 section 7.6.3), by which loops are found. Default: yes.
    pub via: bool,
}

impl Default for Forwarded {
    fn default() -> Self {
        Self { x_forwarded: true, rfc7239: false, via: true }
    }
}

/// `request_id`: the id that follows a request through the systems.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId {
    /// The header that carries the id to the server, in lower case; `None` when there is no id. Default `x-request-id`.
    pub header: Option<Box<str>>,
    /// Whose id is taken over; for all others a new one is made. Default: that of trusted proxies.
    pub accept: Trust,
}

impl Default for RequestId {
    fn default() -> Self {
        Self { header: Some("x-request-id".into()), accept: Trust::TrustedProxies }
    }
}

/// Whose word is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Nobody's.
    Never,
    /// That of peers in `trusted_proxies`.
    #[default]
    TrustedProxies,
    /// Everybody's.
    Always,
}
