//! One probe: a connection of its own, a request if there is one, and what the response is worth.
//!
//! Bounded in time by the time limit of the config, in memory by the head that the upstream may send and the part of the
//! body that is looked at. Must not know what a failure leads to.

use std::time::Duration;

use weir_config::{HealthCheck, Server};
use weir_observe::{Cause, Failure, Party, Phase};

use super::request::write_request;
use super::response::Expected;
use crate::exchange::failure::{self, Fault};
use crate::snapshot::UpstreamPlan;
use crate::socket::{Behind, Socket};
use crate::upstream::connect::{self, Endpoint};

/// How one server is probed.
#[derive(Debug)]
pub(super) struct Probe {
    timeout: Duration,
    /// What is asked and expected; `None`: the connection is enough.
    http: Option<(Box<[u8]>, Expected)>,
}

impl Probe {
    pub(super) fn new(check: &HealthCheck, server: &Server, plan: &UpstreamPlan) -> Self {
        let http = match &check.probe {
            weir_config::Probe::Tcp => None,
            weir_config::Probe::Http(probe) => {
                Some((write_request(probe, &server.address), Expected::new(probe, plan)))
            }
        };
        Self { timeout: check.timeout, http }
    }

    /// Probes the server at `endpoints`, beginning with any of them.
    ///
    /// # Errors
    /// Why the server is not well.
    pub(super) async fn run(&self, endpoints: &[Endpoint], first: usize) -> Result<(), Fault> {
        let mut phase = Phase::Connect;
        let outcome = tokio::time::timeout(self.timeout, self.ask(endpoints, first, &mut phase)).await;
        outcome.unwrap_or_else(|_| Err(Failure::server(phase, Cause::TimedOut).into()))
    }

    /// `phase` is where the probe stands, for whoever ends it.
    async fn ask(&self, endpoints: &[Endpoint], first: usize, phase: &mut Phase) -> Result<(), Fault> {
        let connected = connect::connect(endpoints, first).await;
        let mut socket = connected.map_err(|error| failure::of_connect(&error))?;
        let Some((request, expected)) = &self.http else { return Ok(()) };
        *phase = Phase::Send;
        send(&mut socket, request).await?;
        expected.receive(&mut socket, phase).await
    }
}

async fn send(socket: &mut Socket, mut bytes: &[u8]) -> Result<(), Failure> {
    while !bytes.is_empty() {
        let sent = std::future::poll_fn(|cx| socket.poll_write(cx, bytes, Behind::Unknown)).await;
        let len = sent.map_err(|error| failure::of_io(Phase::Send, Party::Server, &error))?;
        bytes = &bytes[len..];
    }
    Ok(())
}
