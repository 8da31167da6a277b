//! The servers behind a target, and the target's settings for them, in no product's words.
//!
//! Omitted settings are left as each product has them. The work of a scenario decides about events on the servers.

use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::length;

/// The header field that names the client of a signed request; a consistent hash is over it.
pub const CLIENT_HEADER: &str = "X-Client";

/// How a server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BalancePolicy {
    /// The one with the fewest requests.
    LeastRequests,
    /// Each in turn.
    RoundRobin,
    /// By the number that the client sends; when a server goes, only its clients move.
    ConsistentHash,
}

/// The kind of the servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum OriginKind {
    /// The lab's own, which can be asked for anything.
    #[default]
    Own,
    /// nginx, with the page as a file.
    Nginx,
    /// Apache, with the page as a file.
    Apache,
}

impl OriginKind {
    fn is_own(&self) -> bool {
        *self == Self::Own
    }
}

/// The protocol of a target with the servers, and with it their kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OriginProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 without TLS, by prior knowledge; the servers are nghttpd or, as `origin`, nginx, with the page as a file.
    Http2,
    /// gRPC on the same; the servers are the benchmark server of grpc-go.
    Grpc,
}

impl OriginProtocol {
    fn is_http1(&self) -> bool {
        *self == Self::Http1
    }
}

/// Probes that find out whether servers answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HealthProbes {
    /// From one probe of a server to the next.
    #[serde(with = "length")]
    pub interval: Duration,
    /// Time limit of a probe, and the interval while the last one contradicts the server's state.
    #[serde(with = "length")]
    pub timeout: Duration,
    /// Failed ones in a row until a server is down.
    pub fall: u32,
    /// Passed ones in a row until it is up.
    pub rise: u32,
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UpstreamSetup {
    /// How many servers, each a process of its own.
    #[serde(default = "one")]
    pub servers: u32,
    /// Their kind.
    #[serde(default, skip_serializing_if = "OriginKind::is_own")]
    pub origin: OriginKind,
    /// How they are spoken to.
    #[serde(default, skip_serializing_if = "OriginProtocol::is_http1")]
    pub protocol: OriginProtocol,
    /// One process plays all of them, with an address for each.
    #[serde(default)]
    pub one_process: bool,
    /// Requests that a server works on at once; others wait inside it. Without it, as many as come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<usize>,
    /// CPU time that a server spends on every answer; the lab's own spends next to none.
    #[serde(default, with = "length::optional", skip_serializing_if = "Option::is_none")]
    pub burn: Option<Duration>,
    /// The second to last server answers this many percent of its requests with 500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u8>,
    /// How a server is chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<BalancePolicy>,
    /// The requests of a client stay on one server, by a cookie that the target gives it and keeps from the servers.
    #[serde(default)]
    pub persistence_cookie: bool,
    /// Requests that a target may have at one server; the others wait in the target, if it has a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    /// How long they may wait.
    #[serde(default, with = "length::optional", skip_serializing_if = "Option::is_none")]
    pub queue_timeout: Option<Duration>,
    /// How long a server may take for its answer, before the request goes to another one.
    #[serde(default, with = "length::optional", skip_serializing_if = "Option::is_none")]
    pub response_timeout: Option<Duration>,
    /// Whether requests that failed at one server go to another one, if they may be repeated.
    #[serde(default)]
    pub retry: bool,
    /// Probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthProbes>,
}

fn one() -> u32 {
    1
}

/// One server of which nothing is said.
impl Default for UpstreamSetup {
    fn default() -> Self {
        Self {
            servers: one(),
            origin: OriginKind::Own,
            protocol: OriginProtocol::Http1,
            one_process: false,
            slots: None,
            burn: None,
            errors: None,
            balance: None,
            persistence_cookie: false,
            max_requests: None,
            queue_timeout: None,
            response_timeout: None,
            retry: false,
            health: None,
        }
    }
}

impl UpstreamSetup {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.servers > 0, "an upstream has servers");
        ensure!(
            self.origin == OriginKind::Own
                || (self.slots.is_none() && self.burn.is_none() && !self.one_process),
            "a web server as origin has neither slots nor the other settings of the lab's own origin"
        );
        let Self { servers, protocol, origin, .. } = *self;
        let is_usual = Self { servers, protocol, origin, ..Self::default() } == *self;
        let is_there = match (protocol, origin) {
            (OriginProtocol::Http1, _) | (_, OriginKind::Own) => true,
            (OriginProtocol::Http2, origin) => origin == OriginKind::Nginx,
            (OriginProtocol::Grpc, _) => false,
        };
        ensure!(
            protocol.is_http1() || (is_usual && is_there),
            "servers of HTTP/2 and gRPC are programs of their own, of which nothing else can be said; the `origin` of HTTP/2 may be nginx"
        );
        ensure!(
            self.errors
                .is_none_or(|errors| (1..=100).contains(&errors) && self.servers >= 2 && !self.one_process),
            "`errors` are a percentage of the answers of one of several servers, each a process"
        );
        ensure!(self.slots != Some(0) && self.max_requests != Some(0), "a server takes at least one request");
        if let Some(health) = self.health {
            ensure!(
                health.timeout <= health.interval && !health.timeout.is_zero(),
                "a probe takes some time, at most an interval"
            );
            ensure!(health.fall > 0 && health.rise > 0, "probes have to be counted");
        }
        Ok(())
    }
}
