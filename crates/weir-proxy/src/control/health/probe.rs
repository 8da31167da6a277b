//! One probe: a connection of the probes' own, a request if there is one, and what the response is worth.
//!
//! Bounded in time by the time limit of the config, in memory by the head that the upstream may send and the part of the
//! body that is looked at. Must not know what a failure leads to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_config::{HealthCheck, Server};
use weir_observe::{Cause, Failure, Party, Phase};

use super::request::{Kept, write_request};
use super::response::Expected;
use crate::clock;
use crate::exchange::failure::{self, Fault};
use crate::snapshot::UpstreamPlan;
use crate::socket::{Behind, Socket};
use crate::upstream::connect::Endpoint;
use crate::upstream::proxy_header::{self, Header};

/// How one server is probed.
#[derive(Debug)]
pub(super) struct Probe {
    timeout: Duration,
    /// What is asked and expected; `None`: the connection is enough.
    http: Option<(Box<[u8]>, Expected)>,
    /// What each connection begins with; `None`: nothing.
    header: Option<Header>,
    /// How long one connection carries probes; `None`: one probe each.
    connection_age: Option<Duration>,
    connection: Option<Connection>,
    /// The port that is probed; `None`: that of the traffic.
    port: Option<u16>,
}

/// A connection that has carried a probe and can carry another.
#[derive(Debug)]
struct Connection {
    socket: Socket,
    opened_at: Instant,
    /// Where the server was when it was opened.
    endpoints: Arc<Vec<Endpoint>>,
}

impl Probe {
    pub(super) fn new(check: &HealthCheck, server: &Server, plan: &UpstreamPlan) -> Self {
        // A server that takes so many and no more may count connections: an idle one must not have a place of its own.
        let connection_age = check.connection_age.filter(|_| server.max_requests.is_none());
        let kept = if connection_age.is_some() { Kept::Yes } else { Kept::No };
        let http = match &check.probe {
            weir_config::Probe::Tcp => None,
            weir_config::Probe::Http(probe) => {
                Some((write_request(probe, &server.address, kept), Expected::new(probe, plan)))
            }
        };
        // Another port is another service, which need not speak the PROXY protocol.
        let port = server.health_port.or(check.port);
        let behind = if http.is_some() { Behind::More } else { Behind::Unknown };
        let version = plan.config.proxy_protocol.filter(|_| port.is_none());
        let header = version.map(|version| proxy_header::of_weir(version, behind));
        Self { timeout: check.timeout, http, header, connection_age, connection: None, port }
    }

    /// Probes the server that gets its traffic at `endpoints`, beginning with any of them.
    ///
    /// # Errors
    /// Why the server is not well.
    pub(super) async fn run(&mut self, endpoints: Arc<Vec<Endpoint>>, first: usize) -> Result<(), Fault> {
        let mut phase = Phase::Connect;
        let timeout = self.timeout;
        let outcome = tokio::time::timeout(timeout, self.ask(endpoints, first, &mut phase)).await;
        outcome.unwrap_or_else(|_| Err(Failure::server(phase, Cause::TimedOut).into()))
    }

    /// `phase` is where the probe stands, for whoever ends it.
    async fn ask(
        &mut self,
        endpoints: Arc<Vec<Endpoint>>,
        first: usize,
        phase: &mut Phase,
    ) -> Result<(), Fault> {
        let age_max = self.connection_age.unwrap_or_default();
        let now = clock::now();
        let is_there =
            |kept: &Connection| Arc::ptr_eq(&kept.endpoints, &endpoints) || kept.endpoints == endpoints;
        let usable = |kept: &Connection| is_there(kept) && now - kept.opened_at < age_max;
        if let (Some(mut kept), Some((request, expected))) =
            (self.connection.take().filter(usable), &self.http)
        {
            match exchange(&mut kept.socket, request, expected, Kept::Yes, phase).await {
                Ok(end) => {
                    self.connection = Some(kept).filter(|_| end == Kept::Yes);
                    return Ok(());
                }
                // The server closed it meanwhile, as it may: that says nothing about how well it is.
                Err(Fault { failure, .. }) if is_stale(failure) => {}
                Err(failure) => return Err(failure),
            }
        }
        *phase = Phase::Connect;
        let connected = match self.port {
            None => proxy_header::connect(self.header.as_ref(), &endpoints, first).await,
            Some(port) => {
                proxy_header::connect(self.header.as_ref(), &on_port(&endpoints, port), first).await
            }
        };
        let mut socket = connected.map_err(|error| failure::of_connect(&error))?;
        let Some((request, expected)) = &self.http else { return Ok(()) };
        let kept = if self.connection_age.is_some() { Kept::Yes } else { Kept::No };
        let end = exchange(&mut socket, request, expected, kept, phase).await?;
        self.connection =
            (end == Kept::Yes).then(|| Connection { socket, opened_at: clock::now(), endpoints });
        Ok(())
    }
}

/// The same hosts on another port.
fn on_port(endpoints: &[Endpoint], port: u16) -> Vec<Endpoint> {
    let mut endpoints = endpoints.to_vec();
    for endpoint in &mut endpoints {
        if let Endpoint::Inet(addr) = endpoint {
            addr.set_port(port);
        }
    }
    endpoints
}

/// One request and its response.
async fn exchange(
    socket: &mut Socket,
    request: &[u8],
    expected: &Expected,
    kept: Kept,
    phase: &mut Phase,
) -> Result<Kept, Fault> {
    *phase = Phase::Send;
    send(socket, request).await?;
    expected.receive(socket, kept, phase).await
}

/// Whether a connection that was kept ended before the server said anything on it.
fn is_stale(failure: Failure) -> bool {
    matches!(failure.phase, Phase::Send | Phase::Response)
        && matches!(failure.cause, Cause::Closed | Cause::Reset)
}

async fn send(socket: &mut Socket, mut bytes: &[u8]) -> Result<(), Failure> {
    while !bytes.is_empty() {
        let sent = std::future::poll_fn(|cx| socket.poll_write(cx, bytes, Behind::Unknown)).await;
        let len = sent.map_err(|error| failure::of_io(Phase::Send, Party::Server, &error))?;
        bytes = &bytes[len..];
    }
    Ok(())
}
