//! Names of servers, resolved in the background and again when their TTL is over.
//!
//! The data path reads the addresses of a server from an atomic pointer and never waits for DNS. When a name cannot be
//! resolved any more, the last known addresses stay in use. Must not judge servers: a dead address is found by
//! connecting to it.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::{Resolver, TokioResolver};
use weir_config::{Dns, ServerAddress};

use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::endpoint::Endpoint;
use weir_proxy::state::plan_inputs::millis_between;
use weir_proxy::state::snapshot::{LiveServer, UpstreamPlan};

/// The resolver that the config asks for; without one, the log says why.
pub(super) fn resolver(dns: &Dns) -> Option<Arc<TokioResolver>> {
    let resolver = new_resolver(dns);
    let log_error =
        |error: &_| tracing::error!(%error, "names of servers cannot be resolved: see the [dns] section");
    resolver.inspect_err(log_error).ok().map(Arc::new)
}

/// The same, for one question.
///
/// # Errors
/// When the resolvers of the system cannot be read.
pub(super) fn new_resolver(dns: &Dns) -> Result<TokioResolver, hickory_resolver::net::NetError> {
    let provider = TokioRuntimeProvider::default();
    let mut builder = if dns.resolvers.is_empty() {
        TokioResolver::builder(provider)?
    } else {
        let servers = dns.resolvers.iter().map(|addr| {
            let mut protocols = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
            for protocol in &mut protocols {
                protocol.port = addr.port();
            }
            NameServerConfig::new(addr.ip(), true, protocols.to_vec())
        });
        let config = ResolverConfig::from_parts(None, Vec::new(), servers.collect());
        Resolver::builder_with_config(config, provider)
    };
    builder.options_mut().timeout = dns.timeout;
    // The TTL is kept here, between the limits of the config.
    builder.options_mut().cache_size = 0;
    builder.build()
}

/// The name of one server.
#[derive(Clone)]
pub(super) struct Name {
    upstream: Box<str>,
    place: Arc<LiveServer>,
    /// Zero of the clock of the place.
    epoch: Instant,
    host: Box<str>,
    port: u16,
}

impl Name {
    /// That of a server, if it is known by a name.
    pub(super) fn of(plan: &UpstreamPlan, server: usize) -> Option<Self> {
        let ServerAddress::Name { host, port } = &plan.config.servers[server].address else { return None };
        Some(Self {
            upstream: plan.config.name.clone(),
            place: Arc::clone(&plan.live[server]),
            epoch: plan.at_millis(0),
            host: host.clone(),
            port: *port,
        })
    }

    /// Resolves it, then keeps the answer fresh until the task is dropped. Drops `asked` when it has been answered or refused for
    /// the first time.
    pub(super) async fn keep_resolved(
        self,
        resolver: Arc<TokioResolver>,
        dns: Dns,
        mut asked: Option<Sender<()>>,
    ) {
        let mut failing = false;
        loop {
            let wait = match resolver.lookup_ip(&*self.host).await {
                Ok(answer) => {
                    failing = false;
                    self.publish(answer.iter().map(|ip| Endpoint::Inet((ip, self.port).into())).collect());
                    clock::until(answer.valid_until())
                }
                Err(error) => {
                    if !failing {
                        tracing::warn!(
                            upstream = &*self.upstream, name = &*self.host, %error,
                            "the name of a server cannot be resolved; its last known addresses stay in use"
                        );
                    }
                    failing = true;
                    Duration::ZERO
                }
            };
            drop(asked.take());
            tokio::time::sleep(wait.clamp(dns.ttl_min, dns.ttl_max)).await;
        }
    }

    /// Puts new addresses in use, if they are new.
    fn publish(&self, mut endpoints: Vec<Endpoint>) {
        endpoints.sort_by_key(ToString::to_string);
        endpoints.dedup();
        if endpoints.is_empty() {
            return;
        }
        let addresses: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        if self.place.move_to(endpoints, millis_between(self.epoch, clock::now())) {
            let upstream = &*self.upstream;
            tracing::info!(
                upstream,
                name = &*self.host,
                ?addresses,
                "the name of a server has new addresses"
            );
        }
    }
}
