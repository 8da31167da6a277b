//! Opening a connection for exchanges that wait for a stream: up to the end of the TLS handshake.

use std::rc::Rc;
use std::sync::Arc;

use weir_config::ServerProtocol;
use weir_observe::{Cause, Failure, Phase};

use crate::net::connection::Connection;
use crate::net::socket::Behind;
use crate::net::source::BoundSource;
use crate::state::snapshot::UpstreamPlan;
use crate::state::worker::Worker;
use crate::state::worker_config::{LocalServer, WorkerConfig};
use crate::upstream::handshake::{self, ConnectionSetup};
use crate::upstream::proxy_header::ConnectionIdentity;
use crate::upstream::stream::Destination;

/// The name of HTTP/2 over TLS (RFC 9113 section 3.2).
const H2: &[u8] = b"h2";

/// Where a connection leads, and what it is opened with.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) worker: Rc<Worker>,
    config: Rc<WorkerConfig>,
    upstream: usize,
    pub(super) server: usize,
}

/// A connection whose handshake is over.
pub(super) enum Shaken {
    Http2(Connection),
    Http1(Connection),
}

impl Opener {
    pub(super) fn new(to: Destination<'_>, worker: &Rc<Worker>) -> Self {
        let Destination { config, upstream, server, .. } = to;
        Self { worker: Rc::clone(worker), config: Rc::clone(config), upstream, server }
    }

    pub(super) fn plan(&self) -> &Arc<UpstreamPlan> {
        self.config.upstream_plan(self.upstream)
    }

    pub(super) fn local(&self) -> &Rc<LocalServer> {
        self.config.server(self.upstream, self.server)
    }

    /// Connects, and finds out what the server speaks.
    pub(super) async fn connect(&self) -> Result<Shaken, Failure> {
        let plan = self.plan();
        let endpoints = plan.live[self.server].endpoints.load_full();
        let handshake_config = plan.tls.as_ref().map(|config| config.for_traffic(self.server));
        let source = BoundSource::of_several(&plan.config.servers[self.server])?;
        let setup = ConnectionSetup {
            identity: &ConnectionIdentity { header: None, source },
            handshake: handshake_config.as_ref(),
            behind: Behind::More,
            timers: Some(&self.worker.timers),
        };
        let first = self.worker.random() as usize;
        let connection = handshake::open(setup, &endpoints, first, &self.worker.stock).await?;
        let Some(tls) = &connection.tls else { return Ok(Shaken::Http2(connection)) };
        let shard = &self.local().shard;
        shard.tls_handshakes.increment();
        shard.tls_resumptions.add(u64::from(tls.is_resumed()));
        match plan.config.protocol {
            _ if connection.application_protocol() == Some(H2) => Ok(Shaken::Http2(connection)),
            ServerProtocol::Auto => Ok(Shaken::Http1(connection)),
            ServerProtocol::Http1 | ServerProtocol::H2 | ServerProtocol::H2c | ServerProtocol::Fastcgi => {
                Err(Failure::server(Phase::Connect, Cause::NotHttp2))
            }
        }
    }
}
