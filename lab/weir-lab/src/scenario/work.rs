//! Works on an upstream of several servers: the requests of the clients, and the events on the servers meanwhile.

use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::length;
use crate::topology::listener::ListenerSetup;
use crate::topology::upstream::{BalancePolicy, UpstreamSetup};

/// Clients in a closed loop on servers that work on few requests at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueueWork {
    /// Numbers of clients; each is a case.
    pub clients: Vec<usize>,
    /// How long a server works on a request.
    #[serde(with = "length")]
    pub service: Duration,
}

/// An event on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerOutage {
    /// Its process gets SIGKILL.
    Kill,
    /// It takes connections and requests, and answers none.
    Hang,
}

/// A constant rate of requests during which something happens to the last server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OutageWork {
    /// The event.
    pub event: ServerOutage,
    /// Requests per second.
    pub rate: f64,
    /// Clients that take turns.
    pub clients: usize,
    /// How long a server works on a request.
    #[serde(with = "length")]
    pub service: Duration,
    /// Bytes of request body, 0 for GET; each is a case.
    pub bodies: Vec<usize>,
    /// Time before the load in which there are only probes, whose cost and regularity are measured.
    #[serde(default, with = "length::optional", skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Duration>,
    /// When it happens, after the start of the window.
    #[serde(with = "length")]
    pub after: Duration,
    /// For how long.
    #[serde(with = "length")]
    pub length: Duration,
}

/// More requests than the servers can take, then few again. The window is the overload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OverloadWork {
    /// Offered load relative to the capacity of the servers.
    pub times: f64,
    /// The same afterwards.
    pub then: f64,
    /// How long that lasts. Requests that begin before the queue can be empty are not judged.
    #[serde(with = "length")]
    pub after: Duration,
    /// How long a server works on a request.
    #[serde(with = "length")]
    pub service: Duration,
    /// An answer that takes longer is worth nothing, and the client leaves.
    #[serde(with = "length")]
    pub patience: Duration,
}

/// A constant rate of requests of which a few take long, and the same without these.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SlowWork {
    /// Requests per second.
    pub rate: f64,
    /// Clients that take turns.
    pub clients: usize,
    /// How long a server works on a request.
    #[serde(with = "length")]
    pub service: Duration,
    /// How long it works on a slow one.
    #[serde(with = "length")]
    pub slow: Duration,
    /// One request in this many is slow, drawn from a fixed seed.
    pub one_in: usize,
}

/// Probes and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProbesWork {
    /// The stretch of time of which the fullest is sought.
    #[serde(with = "length")]
    pub bin: Duration,
}

/// Clients that belong to servers, of which the last is removed and returned. How they are known again, the upstream says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PersistenceWork {
    /// Clients, each of which has a name.
    pub clients: usize,
    /// Requests of each, over the whole window.
    pub requests: usize,
    /// When the server is removed, after the start of the window.
    #[serde(with = "length")]
    pub after: Duration,
    /// For how long.
    #[serde(with = "length")]
    pub length: Duration,
    /// How long a target may take to notice either.
    #[serde(with = "length")]
    pub settle: Duration,
}

/// Connections whose TLS handshake never ends, and one client that sends requests meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnfinishedWork {
    /// Numbers of such connections at which memory is read; the figure is the slope over them.
    pub clients: Vec<usize>,
    /// Rest before each reading.
    #[serde(with = "length")]
    pub settle: Duration,
    /// Requests per second of the other client, each on a connection of its own.
    pub rate: f64,
}

impl UnfinishedWork {
    pub(super) fn check(&self, listener: &ListenerSetup) -> anyhow::Result<()> {
        let rising = self.clients.windows(2).all(|pair| pair[0] < pair[1]);
        ensure!(self.clients.len() >= 2 && rising, "unfinished clients: two numbers or more, rising");
        ensure!(self.rate > 0.0, "the rate is not positive");
        ensure!(
            listener.tls.is_some_and(|tls| tls.handshake_timeout > Some(self.settle)),
            "without `handshake-timeout` of the listener, longer than `settle`, nothing ends unfinished handshakes"
        );
        Ok(())
    }
}

impl QueueWork {
    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(self.clients.iter().all(|clients| *clients > 0) && !self.clients.is_empty(), "no clients");
        check_service(self.service, upstream)
    }
}

impl OutageWork {
    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(self.rate > 0.0 && self.clients > 0 && !self.bodies.is_empty(), "no rate, clients or bodies");
        ensure!(!self.service.is_zero() && !self.length.is_zero(), "a length of time is missing");
        ensure!(upstream.servers > 1 && !upstream.one_process, "the other servers have to be there");
        ensure!(
            self.quiet.is_none() || upstream.health.is_some(),
            "`quiet` is about probes, and there are none"
        );
        Ok(())
    }
}

impl OverloadWork {
    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(self.times > 0.0 && self.then > 0.0, "no load");
        ensure!(
            upstream.queue_timeout.is_some(),
            "without `queue-timeout` of the upstream waits have no limit"
        );
        check_service(self.service, upstream)
    }
}

impl SlowWork {
    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(self.rate > 0.0 && self.clients > 0 && self.one_in > 1, "no rate, clients or others");
        ensure!(self.slow > self.service, "slow is slower than the others");
        check_service(self.service, upstream)
    }
}

impl ProbesWork {
    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(!self.bin.is_zero(), "a bin has a length");
        ensure!(upstream.health.is_some(), "the upstream has no `health`");
        Ok(())
    }
}

impl PersistenceWork {
    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(self.clients > 0 && self.requests > 0, "no clients or requests");
        ensure!(upstream.servers > 1 && !upstream.one_process, "the other servers have to be there");
        ensure!(
            upstream.persistence_cookie || upstream.balance == Some(BalancePolicy::ConsistentHash),
            "nothing binds clients to servers: neither `persistence-cookie` nor `consistent-hash`"
        );
        Ok(())
    }
}

/// Capacity is slots and the time each is taken.
fn check_service(service: Duration, upstream: &UpstreamSetup) -> anyhow::Result<()> {
    ensure!(!service.is_zero(), "a request takes some time of its server");
    ensure!(upstream.slots.is_some(), "without `slots` of the upstream its capacity has no limit");
    Ok(())
}
