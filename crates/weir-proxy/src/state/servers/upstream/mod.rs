//! An upstream of the config made ready: its balancer, addresses and queue, shared by all workers, and handed on to the plan of the next
//! config.

mod carry_over;
mod server_slots;
mod live_source;
pub(crate) mod queue;
pub(crate) mod outliers;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use weir_config::{
    ConnectionsMax, DynamicServers, Server, ServerAddress, ServerProtocol, Upstream, UpstreamTls,
};
use weir_http::{ChunkedLimits, HeadLimits, Lenient, LenientChunks};
use weir_observe::{PerWorker, ProbeShard, ServerShard, UpstreamShard};
use weir_traffic::admission::Admission;
use weir_traffic::affinity::Affinity;
use weir_traffic::balance::{Balancer, WhenFull};
use weir_traffic::health::AgentReport;
use weir_traffic::queue::DelayTarget;
use weir_traffic::retry::{RetryBudget, RetryPolicy};
use weir_traffic::route::MethodMatch;
use weir_traffic::{Mode, RAMP_FULL, ServerId};

use super::last_change::LastChange;
use super::method_set::MethodSet;
use super::plan_inputs::{PlanInputs, TlsError, millis_between};
use super::pool::{PoolLimits, SharedPool};
use super::ramp::Ramp;
use super::requested_names::NamedPlan;
use crate::net::clock::{self, Instant};
use crate::net::descriptors::ServerPermit;
use crate::net::endpoint::Endpoint;
use crate::net::tls::client_config::TlsClientConfig;
use crate::state::limits::affinity_sharing::AffinitySharing;
use crate::state::limits::key_hasher::KeyHasher;
use carry_over::CarryOver;
pub use live_source::{LiveSource, SourceStatement};
use outliers::OutlierDetector;
use queue::Waiter;
use server_slots::ServerSlots;

/// An upstream, its rules in the form the data path uses.
#[derive(Debug)]
pub struct UpstreamPlan {
    /// The upstream in the config.
    pub(in crate::state) declared: Arc<Upstream>,
    /// The same with a place for every server, also for those that leave.
    pub config: Arc<Upstream>,
    /// Of servers that the config does not name any more: when their last tunnels end.
    pub leaves_at: Box<[Option<Instant>]>,
    /// When the last tunnels end, once the config does not name the upstream any more.
    removed: OnceLock<Instant>,
    /// The TLS of connections to its servers.
    pub tls: Option<Arc<TlsClientConfig>>,
    /// The balancer and the queue.
    pub(crate) admission: Admission<Waiter>,
    /// What binds a request to one server.
    pub(crate) binding: Option<Binding>,
    /// The names that requests give of its servers, where they do.
    pub named: Option<Box<NamedPlan>>,
    /// Session affinity.
    pub affinity: Option<Affinity>,
    /// What other nodes learn of it, where the config says so.
    pub affinity_sharing: Option<Arc<AffinitySharing>>,
    /// Whether requests that belong to a server wait for it when it is full.
    pub(crate) when_full: WhenFull,
    /// The live state of each server.
    pub live: Box<[Arc<LiveServer>]>,
    /// Limits for response heads.
    pub head_limits: HeadLimits,
    /// Limits for chunked response bodies.
    pub chunked_limits: ChunkedLimits,
    pub(crate) pool_limits: PoolLimits,
    /// Whether idle connections of the plan before this one may be used, by server.
    pub(crate) keeps_pool: Box<[bool]>,
    /// Whether a connection is for the client that it was opened for, and no pool has it: it comes from the address of that client, or begins
    /// with a PROXY header that names it.
    pub(crate) is_for_one_client: bool,
    /// The idle connections of each server that has a limit on its requests.
    pub shared_pool: Box<[Option<Arc<SharedPool>>]>,
    pub(crate) retry: RetryPolicy,
    pub(crate) retry_budget: Arc<RetryBudget>,
    /// Methods of requests that may be sent again after a server may have acted on them.
    pub(crate) retry_methods: MethodSet,
    /// Bytes of a request body that are kept to be sent again.
    pub(crate) retry_body_max: usize,
    /// What is counted of the probes of each server; `None` where there are none.
    pub probes: Box<[Option<Arc<ProbeShard>>]>,
    /// Outlier detection.
    pub outlier_detector: OutlierDetector,
    /// What the source of its servers has said.
    pub source: Arc<LiveSource>,
    /// What each worker counts of the upstream.
    pub shards: PerWorker<UpstreamShard>,
    /// What each worker counts of each server. Where there is something, there is something of the upstream too.
    pub server_shards: Box<[PerWorker<ServerShard>]>,
    epoch: Instant,
}

/// What binds the requests of an upstream to one server each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Cookies, or a key.
    Affinity,
    /// The name that they give.
    Name,
}

impl Binding {
    fn new(config: &Upstream) -> Option<Self> {
        match (&config.dynamic, &config.affinity) {
            (Some(_), _) => Some(Self::Name),
            (None, Some(_)) => Some(Self::Affinity),
            (None, None) => None,
        }
    }
}

/// What changes of a server while it runs and is read rarely: its addresses, its slow start, its last change of state.
#[derive(Debug)]
pub struct LiveServer {
    /// Empty until the name is resolved.
    pub endpoints: ArcSwap<Vec<Endpoint>>,
    /// Connections that were opened up to this moment, by [`UpstreamPlan::millis`], are not used again: an address went away, or the files changed by
    /// which the server was verified. 0 for never.
    outdated_ms: AtomicU64,
    /// Whether the endpoints are those that an earlier process has stored, of a name that was not resolved since.
    are_stored: AtomicBool,
    /// Its slow start, when it has come back.
    pub ramp: Ramp,
    /// When its state last changed, and why.
    pub last_change: LastChange,
    /// What its agent has said.
    agent: ArcSwap<AgentReport>,
}

impl LiveServer {
    pub(in crate::state) fn new(address: &ServerAddress) -> Self {
        Self {
            endpoints: ArcSwap::from_pointee(literal_endpoints(address)),
            outdated_ms: AtomicU64::new(0),
            are_stored: AtomicBool::new(false),
            ramp: Ramp::default(),
            last_change: LastChange::default(),
            agent: ArcSwap::default(),
        }
    }

    /// What its agent has said by now.
    pub fn agent_report(&self) -> Arc<AgentReport> {
        self.agent.load_full()
    }

    /// Its agent says this; [`UpstreamPlan::apply_agent`] makes it hold.
    pub fn set_agent_report(&self, report: AgentReport) {
        self.agent.store(Arc::new(report));
    }

    /// Whether the endpoints are those that an earlier process has stored: its name was not resolved since.
    pub fn has_stored_endpoints(&self) -> bool {
        self.are_stored.load(Ordering::Relaxed)
    }

    /// The endpoints are such.
    pub fn note_stored_endpoints(&self) {
        self.are_stored.store(true, Ordering::Relaxed);
    }

    /// Its name is resolved; whether the endpoints were such.
    pub fn confirm_endpoints(&self) -> bool {
        self.are_stored.swap(false, Ordering::Relaxed)
    }

    /// Takes over new addresses at `now_ms`; whether they are other than before.
    pub fn move_to(&self, endpoints: Vec<Endpoint>, now_ms: u64) -> bool {
        let before = self.endpoints.load_full();
        if *before == endpoints {
            return false;
        }
        let gone = before.iter().any(|endpoint| !endpoints.contains(endpoint));
        self.endpoints.store(Arc::new(endpoints));
        if gone {
            self.outdated_ms.store(now_ms, Ordering::Release);
        }
        true
    }
}

impl UpstreamPlan {
    /// # Errors
    /// When TLS with its servers cannot be made ready.
    pub(in crate::state) fn new(config: &Arc<Upstream>, inputs: &PlanInputs) -> Result<Self, TlsError> {
        Self::make(config, ServerSlots::first(config), inputs, None)
    }

    /// The plan of the next config. Servers that leave now have until `grace_ends`.
    ///
    /// # Errors
    /// As [`UpstreamPlan::new`].
    pub(in crate::state) fn succeeded_by(
        &self,
        config: &Arc<Upstream>,
        inputs: &PlanInputs,
        grace_ends: Instant,
    ) -> Result<Self, TlsError> {
        Self::make(config, ServerSlots::after(self, config, grace_ends), inputs, Some(self))
    }

    fn make(
        declared: &Arc<Upstream>,
        slots: ServerSlots,
        inputs: &PlanInputs,
        before: Option<&Self>,
    ) -> Result<Self, TlsError> {
        let ServerSlots { servers, leaves_at, is_known } = slots;
        let names = tls_names(declared, &servers, before);
        let has_same_names = declared.tls.as_ref().is_none_or(|tls| tls.names == names);
        let config = if servers == declared.servers && has_same_names {
            Arc::clone(declared)
        } else {
            Arc::new(declared.with_named_servers(servers, names))
        };
        let config = &config;
        let carry_over = CarryOver { config, leaves_at: &leaves_at, is_known: &is_known, before };
        let (outlier_detector, admission) = carry_over.balancing(inputs);
        let keeps_pool = carry_over.keeps_pool();
        Ok(Self {
            tls: client_config(config, before)?,
            outlier_detector,
            admission,
            binding: Binding::new(config),
            named: NamedPlan::new(config, &leaves_at, before.and_then(|before| before.named.as_deref())),
            affinity: affinity(config, &leaves_at, &is_known, before),
            affinity_sharing: affinity_sharing(config, before),
            when_full: when_full(config),
            live: carry_over.live(),
            head_limits: head_limits(config),
            chunked_limits: chunked_limits(config),
            pool_limits: pool_limits(config, inputs.workers),
            shared_pool: carry_over.shared_pool(&keeps_pool),
            keeps_pool,
            is_for_one_client: config.proxy_protocol.is_some() || config.connects_as_clients(),
            retry: config.retry.policy(),
            retry_budget: retry_budget(config, before),
            retry_methods: MethodSet::new(config.retry.methods.iter().map(MethodMatch::as_str)),
            retry_body_max: config.retry.body_size.as_usize(),
            probes: carry_over.probes(),
            source: before.map_or_else(Arc::default, |before| Arc::clone(&before.source)),
            shards: before.map_or_else(|| PerWorker::new(inputs.workers), |before| before.shards.clone()),
            server_shards: carry_over.server_shards(inputs.workers),
            epoch: before.map_or_else(clock::now, |before| before.epoch),
            removed: OnceLock::new(),
            leaves_at: leaves_at.into(),
            declared: Arc::clone(declared),
            config: Arc::clone(config),
        })
    }

    /// The upstream as the config, or the source of its servers, has it: without servers that leave.
    pub fn declared(&self) -> &Arc<Upstream> {
        &self.declared
    }

    /// The place of the server that the config has by this name.
    pub fn in_service(&self, name: &str) -> Option<usize> {
        let mut servers = self.config.servers.iter().zip(&self.leaves_at);
        servers.position(|(server, leaves_at)| *server.name == *name && leaves_at.is_none())
    }

    /// The seconds of the clock by which learned cookies are forgotten.
    pub fn seconds(&self, now: Instant) -> u32 {
        u32::try_from(self.millis(now) / 1000).unwrap_or(u32::MAX)
    }

    /// What runs on the servers of this name: on that of the config, and on those that had it before.
    pub fn in_flight_of(&self, name: &str) -> u32 {
        let servers = self.config.servers.iter().zip(self.balancer().states());
        servers.filter(|(server, _)| *server.name == *name).map(|(_, state)| state.in_flight()).sum()
    }

    /// Whether a connection to a server that this plan has opened is as one that a plan with this config would open.
    pub(in crate::state) fn opens_same_connections(&self, config: &Upstream, server: usize) -> bool {
        let way = |config: &Upstream| {
            let tls = config.tls.as_ref().map(|tls| (tls.names[server].clone(), without_names(tls)));
            let source = config.servers[server].source_address;
            (tls, source, config.proxy_protocol, config.protocol, config.http2.clone())
        };
        way(&self.config) == way(config)
    }

    /// Makes room for its servers in what it shares with the plan before it.
    pub(in crate::state) fn prepare(&self) {
        self.outlier_detector.change(self);
        if let (Some(client_config), Some(tls)) = (&self.tls, &self.config.tls) {
            client_config.follow_names(&tls.names);
        }
        if let (Some(named), Some(settings)) = (&self.named, &self.config.dynamic) {
            named.prepare(settings);
            self.drop_addresses(settings);
        }
    }

    /// Drops addresses of servers that requests name which are not allowed any more, and all of servers that leave: they come back with those of their time.
    #[cold]
    fn drop_addresses(&self, settings: &DynamicServers) {
        let now_ms = self.millis(clock::now());
        for (index, live) in self.live.iter().enumerate() {
            let is_allowed = |endpoint: &&Endpoint| match endpoint {
                Endpoint::Inet(addr) => settings.allow.allows_address(addr.ip(), addr.port()),
                Endpoint::Unix(_) => false,
            };
            let stays = |endpoint: &&Endpoint| self.leaves_at[index].is_none() && is_allowed(endpoint);
            let left = live.endpoints.load().iter().filter(stays).cloned().collect();
            live.move_to(left, now_ms);
        }
    }

    /// Has servers that requests name at the addresses of their names, or nowhere if those are none.
    pub fn move_named(&self, addresses: &HashMap<&str, &[IpAddr]>) {
        let (Some(named), Some(settings)) = (&self.named, &self.config.dynamic) else { return };
        let now_ms = self.millis(clock::now());
        for (name, place) in named.places() {
            let Some(port) = self.config.servers[place].address.port() else { continue };
            let known = addresses.get(name).copied().unwrap_or_default();
            let allowed = known.iter().filter(|ip| settings.allow.allows_address(**ip, port));
            let endpoints = allowed.map(|ip| Endpoint::Inet(SocketAddr::new(*ip, port)));
            self.live[place].move_to(endpoints.collect(), now_ms);
        }
    }

    /// Whether requests run on the server of this name.
    pub fn is_busy(&self, name: &str) -> bool {
        let place = self.named.as_ref().and_then(|named| named.place(name));
        place.is_some_and(|place| self.balancer().states()[place].in_flight() > 0)
    }

    /// Whether the names of its servers are resolved by what requests ask for, not one for each server of the config.
    pub fn is_dynamic(&self) -> bool {
        self.named.is_some()
    }

    /// Gives servers that come, or come back, their modes: one in the place of another of its name that which an operator wanted of the
    /// other, unless the config has changed it, since commands of operators use names. One that comes back gets requests from
    /// a worker that has applied the config; for other workers it still leaves.
    pub(in crate::state) fn settle_modes(&self, before: &UpstreamPlan) {
        let states = before.balancer().states();
        for (index, server) in self.config.servers.iter().enumerate() {
            let state = &self.balancer().states()[index];
            let was_there = states.get(index).is_some_and(|known| Arc::ptr_eq(known, state));
            if self.leaves_at[index].is_some() || was_there && before.leaves_at[index].is_none() {
                continue;
            }
            let says_the_same = |known: &usize| before.config.servers[*known].mode == server.mode;
            let wanted = before.in_service(&server.name).filter(says_the_same);
            let wanted = wanted.map_or(server.mode, |known| states[known].mode());
            state.set_mode(wanted);
            if wanted != server.mode {
                self.live[index].last_change.record(format!("an operator set the mode to {}", wanted.name()));
            } else if was_there {
                self.live[index].last_change.record(format!("the config says {}", wanted.name()));
            }
        }
    }

    /// Makes its settings hold for what it shares with the plan before it. What an operator has changed while Weir runs stays, unless
    /// the config says something new about it.
    pub(in crate::state) fn take_effect(&self, before: &UpstreamPlan) {
        for (index, (state, server)) in self.balancer().states().iter().zip(&self.config.servers).enumerate()
        {
            let known = before.balancer().states().get(index).filter(|known| Arc::ptr_eq(known, state));
            let known = known.map(|_| &before.config.servers[index]);
            if self.leaves_at[index].is_some() {
                state.set_mode(Mode::Maintenance);
                if before.leaves_at.get(index).is_some_and(Option::is_none) {
                    self.live[index].last_change.record("the config does not name it any more");
                }
                continue;
            }
            let Some(known) = known else { continue };
            if known.weight != server.weight {
                state.set_weight(u32::from(server.weight));
            }
            if known.max_requests != server.max_requests {
                state.set_max_requests(server.max_requests.unwrap_or(0));
            }
            if known.mode != server.mode && before.leaves_at[index].is_none() {
                state.set_mode(server.mode);
                self.live[index].last_change.record(format!("the config says {}", server.mode.name()));
            }
            if known.health && !server.health
                || before.config.health.is_some() && self.config.health.is_none()
            {
                // Without health checks the state is that of the start.
                if state.health() == weir_traffic::Health::Down {
                    self.skip_ramp(index);
                }
                state.set_health(weir_traffic::Health::Up);
            }
            if self.config.slow_start.is_none() {
                self.skip_ramp(index);
            }
            self.settle_agent(index);
        }
        self.admission.take_over(self.config.queue.length_max, delay_target(&self.config));
        self.settle_ejections();
        self.serve_queue();
    }

    /// Makes hold what the agent of a server has said. One that the config does not name any more has said nothing.
    fn settle_agent(&self, index: usize) {
        let live = &self.live[index];
        let has_agent = self.config.agent(&self.config.servers[index]).is_some();
        if *live.agent_report() != AgentReport::default() {
            if !has_agent {
                live.set_agent_report(AgentReport::default());
            }
            self.apply_agent(index);
        }
    }

    /// Makes hold what the agent of a server has said: on the weight and the limit of the config, and beside the mode of the operator and the
    /// verdict of the probes.
    pub fn apply_agent(&self, index: usize) {
        let (report, server) = (self.live[index].agent_report(), &self.config.servers[index]);
        let state = &self.balancer().states()[index];
        let (weight, part) = report.weight(u32::from(server.weight));
        state.set_weight_part(weight, part);
        state.set_max_requests(report.max_requests.or(server.max_requests).unwrap_or(0));
        state.set_agent(report.mode, report.is_down());
    }

    /// The config does not name the upstream any more; what runs on it has until `grace_ends`.
    pub(in crate::state) fn remove(&self, grace_ends: Instant) {
        let _removed_before = self.removed.set(grace_ends);
    }

    /// When tunnels to a server end, because the config does not name it or its upstream any more.
    pub(crate) fn ends_at(&self, server: ServerId) -> Option<Instant> {
        self.leaves_at[server.index()].or_else(|| self.removed.get().copied())
    }

    /// Gives a server its whole share at once, however far its slow start has come.
    pub fn skip_ramp(&self, index: usize) {
        self.live[index].ramp.replace(None);
        self.balancer().state(ServerId(index as u32)).set_ramp(RAMP_FULL);
    }

    /// Whether a place is left to a server that is gone.
    pub fn is_vacant(&self, server: usize) -> bool {
        self.leaves_at[server].is_some() && self.balancer().states()[server].in_flight() == 0
    }

    /// The balancer.
    #[inline]
    pub fn balancer(&self) -> &Balancer {
        self.admission.balancer()
    }

    /// Milliseconds since this upstream was made: the clock of its queue, its retry budget and its ejections.
    pub fn millis(&self, now: Instant) -> u64 {
        millis_between(self.epoch, now)
    }

    /// The first moment of a millisecond of [`UpstreamPlan::millis`].
    pub fn at_millis(&self, millis: u64) -> Instant {
        self.epoch + std::time::Duration::from_millis(millis)
    }

    /// Whether several requests at once share a connection to a server, or may do so if the server agrees.
    #[inline]
    pub(crate) fn shares_connections(&self) -> bool {
        self.config.protocol.may_be_http2()
    }

    /// Whether its servers speak FastCGI.
    #[inline]
    pub(crate) fn speaks_fastcgi(&self) -> bool {
        self.config.protocol == ServerProtocol::Fastcgi
    }

    /// Whether a connection to a server may lead to an address that is none of its any more, or to a server that would not be trusted now.
    ///
    /// Every one that was opened before an address went away or the trust changed, wherever it leads: to open a few anew costs less than to
    /// know of each.
    pub(crate) fn is_outdated(&self, server: usize, opened_at: Instant) -> bool {
        let until_ms = self.outdated_ms(server);
        until_ms != 0 && self.millis(opened_at) <= until_ms
    }

    /// Up to when connections to a server were opened that are not used again; 0: there are none.
    #[inline]
    pub(crate) fn outdated_ms(&self, server: usize) -> u64 {
        self.live[server].outdated_ms.load(Ordering::Acquire)
    }

    /// The files of TLS have changed: no connection that is open now serves another request.
    pub fn end_connections(&self, now: Instant) {
        let now_ms = self.millis(now).max(1);
        for server in &*self.live {
            server.outdated_ms.fetch_max(now_ms, Ordering::AcqRel);
        }
    }
}

fn head_limits(config: &Upstream) -> HeadLimits {
    let allow = &config.lenient;
    HeadLimits {
        head_bytes_max: config.limits.head_size.as_usize(),
        fields_max: config.limits.headers,
        lenient: Lenient {
            bare_lf: allow.bare_lf,
            obs_fold: allow.obs_fold,
            repeated_equal_length: allow.repeated_length,
            padded_length: allow.padded_length,
            repeated_chunked: allow.repeated_chunked,
            control_bytes: allow.control_bytes,
            empty_lines: allow.empty_lines,
            high_status: allow.high_status,
            ..Lenient::default()
        },
        ..HeadLimits::default()
    }
}

fn chunked_limits(config: &Upstream) -> ChunkedLimits {
    ChunkedLimits {
        extension_bytes_max: config.limits.chunk_extension_size.as_usize(),
        trailer_bytes_max: config.limits.trailer_size.as_usize(),
        trailer_fields_max: config.limits.headers,
        lenient: LenientChunks {
            padded_size: config.lenient.padded_chunk_size,
            empty_extension: config.lenient.empty_chunk_extension,
        },
    }
}

fn pool_limits(config: &Upstream, workers: usize) -> PoolLimits {
    PoolLimits {
        kept_max: match config.pool.idle_max {
            ConnectionsMax::Auto => usize::MAX,
            ConnectionsMax::Exactly(connections) => connections as usize,
        },
        open_max: (ServerPermit::count_max() as usize / workers).max(1),
        idle_max: Some(config.timeouts.idle),
        age_max: config.pool.age_max,
        requests_max: config.pool.requests_max.unwrap_or(u64::MAX),
    }
}

fn without_names(tls: &UpstreamTls) -> UpstreamTls {
    tls.with_names(Vec::new())
}

/// What the certificate of each server has to be for, by its name; of several of one name, the first counts.
fn names_in(config: &Upstream) -> HashMap<&str, &rustls::pki_types::ServerName<'static>> {
    let names = config.tls.as_ref().map_or(&[][..], |tls| &tls.names).iter();
    config.servers.iter().map(|server| &*server.name).zip(names).rev().collect()
}

/// What the certificate of each server has to be for, by their places. Those that leave are not in the config any more.
fn tls_names(
    declared: &Upstream,
    servers: &[Server],
    before: Option<&UpstreamPlan>,
) -> Vec<rustls::pki_types::ServerName<'static>> {
    let (declared, before) = (names_in(declared), before.map(|before| names_in(&before.config)));
    let name = |server: &Server| {
        let before = || before.as_ref().and_then(|before| before.get(&*server.name));
        declared.get(&*server.name).or_else(before).map_or_else(|| server.tls_name(), |name| (*name).clone())
    };
    servers.iter().map(name).collect()
}

/// The TLS of connections to servers; that of before, with its sessions, as long as its config has not changed. It learns the names of
/// servers that come in [`UpstreamPlan::prepare`].
fn client_config(
    config: &Upstream,
    before: Option<&UpstreamPlan>,
) -> Result<Option<Arc<TlsClientConfig>>, TlsError> {
    let Some(tls) = &config.tls else { return Ok(None) };
    let unchanged = before.filter(|before| {
        before.config.tls.as_deref().map(without_names) == Some(without_names(tls))
            && before.config.protocol == config.protocol
    });
    if let Some(client_config) = unchanged.and_then(|before| before.tls.clone()) {
        return Ok(Some(client_config));
    }
    let client_config = TlsClientConfig::new(tls, application_protocols(config.protocol));
    let client_config =
        client_config.map_err(|error| TlsError { place: format!("upstream `{}`", config.name), error })?;
    Ok(Some(Arc::new(client_config)))
}

/// What servers are offered by ALPN; none for one that may know only HTTP/1.
fn application_protocols(protocol: ServerProtocol) -> &'static [&'static [u8]] {
    match protocol {
        ServerProtocol::Http1 | ServerProtocol::H2c | ServerProtocol::Fastcgi => &[],
        ServerProtocol::H2 => &[b"h2"],
        ServerProtocol::Auto => &[b"h2", b"http/1.1"],
    }
}

/// Session affinity, with the cookies learned before. Of servers of one name, the one that stays is meant.
fn affinity(
    config: &Upstream,
    leaves_at: &[Option<Instant>],
    is_known: &[bool],
    before: Option<&UpstreamPlan>,
) -> Option<Affinity> {
    let stay = (0..).zip(leaves_at).filter(|(_, leaves_at)| leaves_at.is_none());
    let settings = config.affinity.as_ref()?;
    let new = config.affinity(KeyHasher::new().key())?.preferring(stay.map(|(id, _)| ServerId(id)));
    let learns_as = |before: &&UpstreamPlan| {
        before.config.affinity.as_ref().is_some_and(|known| known.learns_as(settings))
    };
    let Some(before) = before.filter(learns_as) else { return Some(new) };
    let Some(learned) = &before.affinity else { return Some(new) };
    let affinity = new.remembering(learned);
    // What was learned of the servers that had these places before holds for no other ones.
    let places = before.config.servers.len().min(is_known.len());
    if is_known[..places].contains(&false) {
        affinity.lose(|server| is_known[..places].get(server.index()) == Some(&false));
    }
    Some(affinity)
}

fn affinity_sharing(config: &Upstream, before: Option<&UpstreamPlan>) -> Option<Arc<AffinitySharing>> {
    config.affinity.as_ref()?.shared.as_ref()?;
    Some(before.and_then(|before| before.affinity_sharing.clone()).unwrap_or_default())
}

/// What becomes of requests whose server is full, or cannot have them.
fn when_full(config: &Upstream) -> WhenFull {
    match (&config.affinity, config.queue.affinity_wait) {
        _ if config.dynamic.is_some() => WhenFull::Never,
        (Some(affinity), _) if affinity.strict => WhenFull::Never,
        (_, Some(_)) => WhenFull::Queue,
        (_, None) => WhenFull::Spill,
    }
}

fn retry_budget(config: &Upstream, before: Option<&UpstreamPlan>) -> Arc<RetryBudget> {
    let allows = |config: &Upstream| (config.retry.budget, config.retry.budget_per_second);
    match before.filter(|before| allows(&before.config) == allows(config)) {
        Some(before) => Arc::clone(&before.retry_budget),
        None => Arc::new(config.retry.new_budget()),
    }
}

pub(in crate::state) fn delay_target(config: &Upstream) -> Option<DelayTarget> {
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let interval_ms = millis(config.queue.delay_interval);
    config.queue.delay_target.map(|target| DelayTarget { target_ms: millis(target), interval_ms })
}

/// The addresses that are known without a DNS query.
fn literal_endpoints(address: &ServerAddress) -> Vec<Endpoint> {
    match address {
        ServerAddress::Ip(addr) => vec![Endpoint::Inet(*addr)],
        ServerAddress::Unix(path) => vec![Endpoint::Unix(path.clone())],
        ServerAddress::Name { .. } => Vec::new(),
    }
}
