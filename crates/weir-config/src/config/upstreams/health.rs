//! `[upstream.NAME.health]`: how servers are probed, and which responses are expected.

use std::net::IpAddr;
use std::time::Duration;

use rustls_pki_types::ServerName;
use weir_traffic::health::{ProbeTiming, Thresholds};
use weir_traffic::route::RouteRegex;

use crate::config::ServerProtocol;
use crate::config::UpstreamFault;
use crate::masked_text::MaskedText;
use crate::value::{HeaderName, HeaderValue, Percent, Size, StatusRange};

/// How the servers of an upstream are probed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthCheck {
    /// The kind of probe.
    pub probe: HealthProbe,
    /// The dialogue on the connection, with [`HealthProbe::Tcp`] and [`HealthProbe::Tls`]; `None`: none.
    pub dialogue: Option<Dialogue>,
    /// Whether it uses TLS; always with [`HealthProbe::Tls`], never with [`HealthProbe::Tcp`].
    pub tls: bool,
    /// The server name (SNI) of probes in an upstream without TLS; `None`: none.
    pub server_name: Option<ServerName<'static>>,
    /// The time between two probes of a server.
    pub interval: Duration,
    /// The random delay of a probe, as a share of the interval; at most 50 %.
    pub jitter: Percent,
    /// The time between two probes while the state of the server is changing; not longer than `interval`.
    pub fast_interval: Duration,
    /// The time limit of a probe.
    pub timeout: Duration,
    /// Consecutive successes that mark a server that is down as up; at least 1.
    pub rise: u32,
    /// Consecutive failures that mark a server that is up as down; at least 1.
    pub fall: u32,
    /// How long one connection carries probes; `None`: a new one for each.
    pub connection_age: Option<Duration>,
    /// The port that is probed, of servers that do not say; `None`: the one that gets the traffic.
    pub port: Option<u16>,
    /// The agents that are asked; `None`: none.
    pub agent: Option<AgentCheck>,
}

/// How the agents of servers are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentCheck {
    /// The port, of servers that do not say; `None`: then they have no agent.
    pub port: Option<u16>,
    /// The address of all; `None`: that of each server.
    pub address: Option<IpAddr>,
    /// What is sent first; may be empty.
    pub send: Box<[u8]>,
    /// The time between an answer and the next question.
    pub interval: Duration,
    /// The time limit of a question.
    pub timeout: Duration,
}

/// The kind of probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthProbe {
    /// A connection that is opened and closed again.
    Tcp,
    /// A TLS handshake.
    Tls,
    /// A request.
    Http(Box<HttpProbe>),
    /// A call of `grpc.health.v1.Health/Check`.
    Grpc(Box<GrpcProbe>),
}

/// What a probe of the gRPC health protocol asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrpcProbe {
    /// The service; empty: the server as a whole.
    pub service: Box<str>,
    /// The authority; `None`: the address of the server.
    pub host: Option<Box<str>>,
    /// More fields of the request, none of which is `Host` or concerns the framing.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// The conversation of a probe on a connection that is not HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dialogue {
    /// As the config has it.
    Script {
        /// The bytes sent first; may be empty.
        send: Box<[u8]>,
        /// The bytes that the server's answer has to contain; not empty.
        expect: Box<[u8]>,
        /// The bytes sent before the end; may be empty.
        quit: Box<[u8]>,
    },
    /// Redis and compatible servers.
    Redis,
    /// PostgreSQL; with a user, up to the question for the password.
    Postgresql {
        /// Without NUL, not empty.
        user: Option<Box<str>>,
    },
    /// MySQL and MariaDB.
    Mysql {
        /// Without NUL, not empty.
        user: Box<str>,
    },
    /// A mail server.
    Smtp,
}

impl Dialogue {
    /// The name in sentences.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Script { .. } => "an answer to `send`",
            Self::Redis => "a `PING` to Redis",
            Self::Postgresql { .. } => "a greeting of PostgreSQL",
            Self::Mysql { .. } => "a login to MySQL",
            Self::Smtp => "an `EHLO` of SMTP",
        }
    }
}

/// The request of a probe, and the response that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpProbe {
    /// The method; not `CONNECT`.
    pub method: Box<str>,
    /// The target: an absolute path, with or without a query.
    pub path: MaskedText,
    /// The `Host`; `None`: the address of the server.
    pub host: Option<Box<str>>,
    /// More fields of the request, none of which is `Host` or concerns the framing.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The status has to be in one of these; at least one.
    pub status: Vec<StatusRange>,
    /// The condition on the body; `None`: it is not read.
    pub body: Option<BodyRule>,
    /// How much of the body is read.
    pub body_size: Size,
}

impl HttpProbe {
    /// A request for this path, whose response has any status.
    pub fn new(method: &str, path: impl Into<MaskedText>) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            host: None,
            headers: Vec::new(),
            status: Vec::new(),
            body: None,
            body_size: Size::from_kib(64),
        }
    }
}

/// The condition on a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyRule {
    /// It holds this text, which is not empty.
    Contains(Box<str>),
    /// The regular expression is found in it.
    Regex(RouteRegex),
}

impl HealthCheck {
    /// What may not hold of it, for servers of this protocol.
    pub(crate) fn faults(&self, protocol: ServerProtocol) -> impl Iterator<Item = UpstreamFault> {
        let (fast, usual) = (self.fast_interval, self.interval);
        let intervals = (fast > usual).then_some(UpstreamFault::ProbeIntervals { fast, usual });
        let probe = match &self.probe {
            HealthProbe::Http(probe) if *probe.method == *"CONNECT" => Some(UpstreamFault::TunnelAsProbe),
            HealthProbe::Grpc(_) if !protocol.may_be_http2() => Some(match protocol {
                ServerProtocol::Fastcgi => UpstreamFault::GrpcProbeOverFastcgi,
                _ => UpstreamFault::GrpcProbeOverHttp1,
            }),
            HealthProbe::Http(_) | HealthProbe::Grpc(_) | HealthProbe::Tcp | HealthProbe::Tls => None,
        };
        intervals.into_iter().chain(probe)
    }

    /// How often a server is probed.
    pub fn pace(&self) -> ProbeTiming {
        ProbeTiming {
            interval: self.interval,
            fast_interval: self.fast_interval,
            jitter_percent: self.jitter.percent(),
        }
    }

    /// How many probes in a row it takes to change the state of a server.
    pub fn thresholds(&self) -> Thresholds {
        Thresholds { rise: self.rise, fall: self.fall }
    }
}
