//! Names of servers, resolved in the background and again when their TTL is over.
//!
//! The data path reads the addresses of a server from an atomic pointer and never waits for DNS. When a name cannot be
//! resolved any more, the last known addresses stay in use. Must not judge servers: a dead address is found by
//! connecting to it.

use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::lookup_ip::LookupIp;
use hickory_resolver::net::NetError;
use tokio::sync::Notify;
use weir_config::{Dns, ServerAddress};
use weir_discovery::{SYSTEM_FILE, dns_resolver};
use weir_sort::CompactSort as _;

use crate::start_error::UnresolvedName;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::endpoint::Endpoint;
use weir_proxy::state::servers::plan_inputs::millis_between;
use weir_proxy::state::snapshot::{LiveServer, UpstreamPlan};

/// The resolver that the config asks for: made when a name is first asked for, and tried again as long as it cannot be made. The file of the system
/// may not be there yet.
pub(crate) struct NameResolver {
    dns: Dns,
    system_file: Box<Path>,
    made: OnceLock<TokioResolver>,
    /// Told when a name has other addresses.
    changed: Arc<Notify>,
}

/// A resolver for one question.
///
/// # Errors
/// When the file of the system cannot be read, or names no resolver.
pub(crate) fn new_resolver(dns: &Dns) -> Result<TokioResolver, NetError> {
    dns_resolver(dns, Path::new(SYSTEM_FILE), |_| {})
}

impl NameResolver {
    /// `changed` is notified when a name has other addresses.
    pub(crate) fn new(dns: Dns, changed: Arc<Notify>) -> Self {
        Self { dns, system_file: Path::new(SYSTEM_FILE).into(), made: OnceLock::new(), changed }
    }

    pub(crate) fn dns(&self) -> &Dns {
        &self.dns
    }

    /// # Errors
    /// When the file of the system cannot be read, or names no resolver.
    fn ready(&self) -> Result<&TokioResolver, NetError> {
        match self.made.get() {
            Some(made) => Ok(made),
            None => {
                let made = dns_resolver(&self.dns, &self.system_file, |_| {})?;
                Ok(self.made.get_or_init(|| made))
            }
        }
    }

    /// # Errors
    /// When there is no answer, or none with an address.
    pub(crate) async fn lookup(&self, host: &str) -> Result<LookupIp, NetError> {
        self.ready()?.lookup_ip(host).await
    }
}

/// The name of one server.
#[derive(Clone)]
pub(crate) struct Name {
    upstream: Box<str>,
    place: Arc<LiveServer>,
    /// Zero of the clock of the place.
    epoch: Instant,
    host: Box<str>,
    port: u16,
}

impl Name {
    /// That of a server, if it is known by a name; not one that requests give, whose addresses are checked before they are known.
    pub(crate) fn new(plan: &UpstreamPlan, server: usize) -> Option<Self> {
        if plan.is_dynamic() {
            return None;
        }
        let ServerAddress::Name { host, port } = &plan.config.servers[server].address else { return None };
        Some(Self {
            upstream: plan.config.name.clone(),
            place: Arc::clone(&plan.live[server]),
            epoch: plan.at_millis(0),
            host: host.clone(),
            port: *port,
        })
    }

    /// Resolves it once.
    ///
    /// # Errors
    /// When it cannot be resolved, or has no address.
    pub(crate) async fn resolve(&self, resolver: &NameResolver) -> Result<(), UnresolvedName> {
        let error = match resolver.lookup(&self.host).await {
            Ok(answer) => {
                self.take_answer(&answer, &resolver.changed);
                return Ok(());
            }
            Err(error) => error.to_string(),
        };
        let address = ServerAddress::Name { host: self.host.clone(), port: self.port };
        Err(UnresolvedName { upstream: self.upstream.clone(), address, error })
    }

    fn take_answer(&self, answer: &LookupIp, changed: &Notify) {
        if self.publish(answer.iter().map(|ip| Endpoint::Inet((ip, self.port).into())).collect()) {
            changed.notify_one();
        }
    }

    /// Says once why there is no answer.
    fn tell_failing(&self, error: &NetError) {
        let (upstream, name) = (&*self.upstream, &*self.host);
        if self.place.endpoints.load().is_empty() {
            tracing::warn!(
                upstream, name, %error,
                "the name of a server cannot be resolved, and no address of it is known: requests cannot reach it until it is"
            );
        } else {
            tracing::warn!(
                upstream, name, %error,
                "the name of a server cannot be resolved; its last known addresses stay in use"
            );
        }
    }

    /// Resolves it, then keeps the answer fresh until the task is dropped. Drops `asked` when it has been answered or refused for
    /// the first time.
    pub(crate) async fn keep_resolved(self, resolver: Arc<NameResolver>, mut asked: Option<Sender<()>>) {
        let (ttl_min, ttl_max) = (resolver.dns.ttl_min, resolver.dns.ttl_max);
        let mut failing = false;
        loop {
            let wait = match resolver.lookup(&self.host).await {
                Ok(answer) => {
                    failing = false;
                    self.take_answer(&answer, &resolver.changed);
                    clock::until(answer.valid_until())
                }
                Err(error) => {
                    if !failing {
                        self.tell_failing(&error);
                    }
                    failing = true;
                    Duration::ZERO
                }
            };
            drop(asked.take());
            tokio::time::sleep(wait.clamp(ttl_min, ttl_max)).await;
        }
    }

    /// Puts new addresses in use, if they are new; whether they are.
    fn publish(&self, mut endpoints: Vec<Endpoint>) -> bool {
        endpoints.sort_compact_by_key(ToString::to_string);
        endpoints.dedup();
        if endpoints.is_empty() {
            return false;
        }
        if self.place.confirm_endpoints() {
            self.place.last_change.record("its name is resolved");
        }
        let addresses: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
        let moved = self.place.move_to(endpoints, millis_between(self.epoch, clock::now()));
        if moved {
            let upstream = &*self.upstream;
            tracing::info!(
                upstream,
                name = &*self.host,
                ?addresses,
                "the name of a server has new addresses"
            );
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_of_the_system_that_comes_later_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let system_file: Box<Path> = folder.path().join("resolv.conf").into();
        let mut dns = Dns::default();
        dns.timeout = Duration::from_millis(100);
        let resolver = NameResolver {
            dns,
            system_file: system_file.clone(),
            made: OnceLock::new(),
            changed: Arc::default(),
        };
        let failure = async || resolver.lookup("app.test").await.map(drop).unwrap_err().to_string();
        assert!(failure().await.contains("No such file"));
        // Nothing listens there, which is another failure.
        std::fs::write(&system_file, "nameserver 127.255.255.254\n").unwrap();
        let failed = failure().await;
        assert!(!failed.contains("No such file"), "{failed}");
        // Once made, it stays.
        std::fs::remove_file(&system_file).unwrap();
        assert!(resolver.ready().is_ok());
    }
}
