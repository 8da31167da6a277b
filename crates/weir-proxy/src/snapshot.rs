//! The config made ready for the data path: what every worker reads and none writes.
//!
//! Made once per config; an exchange keeps the snapshot it began with. What changes while it is in use (load, health,
//! addresses, the queue) changes through atomics or behind a lock that is taken only when all servers are full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use weir_config::{
    Action, Config, Dns, Listener, Process, Progress, Protocol, Route, ServerAddress, Upstream,
};
use weir_http::{ChunkedLimits, FieldName, HeadLimits, Lenient};
use weir_observe::ProbeShard;
use weir_traffic::admission::Admission;
use weir_traffic::balance::{Balancer, Patience};
use weir_traffic::persistence::Persistence;
use weir_traffic::queue::DelayTarget;
use weir_traffic::retry::{RetryBudget, RetryPolicy};
use weir_traffic::rewrite::Rewrite;
use weir_traffic::route::{Method, RouteTable};
use weir_traffic::split::Split;

use crate::clock;
use crate::control::health;
use crate::control::slow_start::Ascents;
use crate::downstream::session::Peer;
use crate::exchange::fields::{NameSet, REQUEST_OWN};
use crate::exchange::patience::WaitLimits;
use crate::exchange::retry::MethodSet;
use crate::exchange::withheld::Withheld;
use crate::relay::pace::PaceLimit;
use crate::tls::clients::lines_without;
use crate::tls::terms::{Terms, Unusable};
use crate::tls::trust::Trust;
use crate::upstream::admission::Waiter;
use crate::upstream::connect::Endpoint;
use crate::upstream::ejection::Ejector;
use crate::upstream::idle::{IdleLimits, SharedIdle};

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
#[error("TLS of {place} cannot be used: {error}")]
pub struct TlsError {
    /// The table of the config, such as ``listener `web` ``.
    place: String,
    error: Unusable,
}

/// Everything a worker needs to know of the config.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) process: Process,
    pub(crate) dns: Dns,
    pub(crate) listeners: Vec<ListenerPlan>,
    pub(crate) upstreams: Vec<Arc<UpstreamPlan>>,
    /// When it was made: where clocks begin that all workers share.
    pub(crate) epoch: Instant,
}

/// A listener, its rules in the form the data path uses.
#[derive(Debug)]
pub(crate) struct ListenerPlan {
    pub(crate) config: Listener,
    pub(crate) head_limits: HeadLimits,
    pub(crate) chunked_limits: ChunkedLimits,
    /// What the clients of a listener with TLS are offered.
    pub(crate) tls: Option<Terms>,
    pub(crate) routes: RouteTable,
    /// Whether a route of a TCP listener depends on the server name of TLS.
    pub(crate) asks_for_sni: bool,
    pub(crate) route_plans: Vec<RoutePlan>,
    /// Known request fields that are not copied, whoever sends them.
    pub(crate) request_drop: NameSet,
    /// Fields that only Weir may send to servers.
    withheld: Option<Arc<Withheld>>,
    /// What servers are told of a client without a certificate; `None` where nobody is asked for one.
    pub(crate) lines_without_certificate: Option<Box<[u8]>>,
    /// What Weir calls itself in `Via`.
    pub(crate) via_name: Box<str>,
    pub(crate) logs_response_fields: bool,
    trusts_nobody: bool,
    /// The request-id field when it is not the usual one, which is among the known names.
    own_id_header: Option<Box<[u8]>>,
}

/// A route, ready for use.
#[derive(Debug)]
pub(crate) struct RoutePlan {
    pub(crate) config: Route,
    pub(crate) split: Option<Split>,
    pub(crate) rewrite: Option<Rewrite>,
    pub(crate) body_bytes_max: u64,
}

/// An upstream: its balancer, addresses and queue, shared by all workers.
#[derive(Debug)]
pub(crate) struct UpstreamPlan {
    pub(crate) config: Upstream,
    /// How servers are spoken to with TLS.
    pub(crate) trust: Option<Trust>,
    /// The balancer and the queue.
    pub(crate) admission: Admission<Waiter>,
    /// What keeps clients on their servers.
    pub(crate) persistence: Option<Persistence>,
    /// Whether requests that belong to a server wait for it when it is full.
    pub(crate) patience: Patience,
    /// The addresses of each server; empty until its name is resolved.
    pub(crate) endpoints: Box<[ArcSwap<Vec<Endpoint>>]>,
    /// When an address of each server last went away, by [`UpstreamPlan::millis`]; 0 for never.
    address_gone_ms: Box<[AtomicU64]>,
    pub(crate) head_limits: HeadLimits,
    pub(crate) chunked_limits: ChunkedLimits,
    pub(crate) idle: IdleLimits,
    /// The idle connections of each server that has a limit on its requests.
    pub(crate) shared_idle: Box<[Option<SharedIdle>]>,
    pub(crate) retry: RetryPolicy,
    pub(crate) retry_budget: RetryBudget,
    /// Methods of requests that may be sent again after a server may have acted on them.
    pub(crate) retry_methods: MethodSet,
    /// Bytes of a request body that are kept to be sent again.
    pub(crate) retry_body_max: usize,
    /// What is counted of the probes of each server; `None` where there are none.
    pub(crate) probes: Box<[Option<Arc<ProbeShard>>]>,
    /// Who is ejected.
    pub(crate) ejector: Ejector,
    /// Servers that work their way up.
    pub(crate) ascents: Ascents,
    epoch: Instant,
}

impl Snapshot {
    /// Makes a checked config ready; `seed` decides with which server each balancer begins.
    ///
    /// # Errors
    /// The listener or upstream whose TLS cannot be made ready.
    pub(crate) fn new(config: &Config, via_name: &str, seed: u64) -> Result<Self, TlsError> {
        let told = config.client_certificate_headers();
        Ok(Self {
            epoch: clock::now(),
            process: config.process.clone(),
            dns: config.dns.clone(),
            listeners: config
                .listeners
                .iter()
                .map(|listener| ListenerPlan::new(listener, via_name, &told))
                .collect::<Result<_, _>>()?,
            upstreams: config
                .upstreams
                .iter()
                .map(|upstream| UpstreamPlan::new(upstream, seed).map(Arc::new))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl ListenerPlan {
    /// `told`: headers by which some listener tells servers about certificates.
    fn new(config: &Listener, via_name: &str, told: &[Box<str>]) -> Result<Self, TlsError> {
        let clients = config.tls.as_ref().and_then(|tls| tls.client_certificates.as_ref());
        let mut withheld = told.to_vec();
        withheld.extend(clients.iter().flat_map(|clients| clients.headers.withheld()));
        let tls = config.tls.as_ref().map(|tls| Terms::new(tls, config.protocol)).transpose();
        let tls = tls.map_err(|error| TlsError { place: format!("listener `{}`", config.name), error })?;
        let limits = &config.limits;
        let usual_id = FieldName::XRequestId.as_str();
        let id = config.request_id.header.as_deref();
        let own_id = id.filter(|name| !name.eq_ignore_ascii_case(usual_id));
        let mut replaced = Vec::new();
        if config.forwarded.via {
            replaced.push(FieldName::Via);
        }
        if config.forwarded.x_forwarded {
            replaced.push(FieldName::XForwardedFor);
        }
        if config.forwarded.rfc7239 {
            replaced.push(FieldName::Forwarded);
        }
        if id.is_some() && own_id.is_none() {
            replaced.push(FieldName::XRequestId);
        }
        if !config.allow.underscore_names {
            replaced.push(FieldName::Underscored);
        }
        Ok(Self {
            tls,
            head_limits: head_limits(config),
            chunked_limits: ChunkedLimits {
                extension_bytes_max: limits.chunk_extension_size.as_usize(),
                trailer_bytes_max: limits.trailer_size.as_usize(),
                trailer_fields_max: limits.headers,
            },
            route_plans: config.routes.iter().map(RoutePlan::new).collect(),
            routes: config.route_table(),
            asks_for_sni: config.protocol == Protocol::Tcp
                && config.routes.iter().any(|route| !route.matches.hosts.is_empty()),
            request_drop: REQUEST_OWN.with(NameSet::of(&replaced)),
            withheld: Withheld::new(withheld).map(Arc::new),
            lines_without_certificate: clients.map(|clients| lines_without(&clients.headers)),
            via_name: via_name.into(),
            logs_response_fields: config
                .access_log
                .format
                .as_ref()
                .is_some_and(|format| format.format().response_fields().next().is_some()),
            trusts_nobody: config.trusted_proxies.networks.is_empty() && !config.trusted_proxies.unix,
            own_id_header: own_id.map(|name| name.as_bytes().into()),
            config: config.clone(),
        })
    }

    /// Whether the word of this peer on the origin of a request is believed.
    pub(crate) fn trusts(&self, peer: Peer) -> bool {
        !self.trusts_nobody && self.config.trusted_proxies.contains(peer.ip())
    }

    /// Fields that this peer may not send. Where Weir asks for certificates itself, it knows better than a trusted proxy.
    pub(crate) fn withheld(&self, peer: Peer) -> Option<&Arc<Withheld>> {
        self.withheld.as_ref().filter(|_| self.lines_without_certificate.is_some() || !self.trusts(peer))
    }

    /// The request-id field when it is not `X-Request-Id`.
    pub(crate) fn own_id_header(&self) -> Option<&[u8]> {
        self.own_id_header.as_deref()
    }

    /// How long each party may keep an exchange waiting that goes to `upstream`.
    pub(crate) fn wait_limits(&self, upstream: &UpstreamPlan) -> WaitLimits {
        let timeouts = &upstream.config.timeouts;
        WaitLimits {
            request_body: self.config.timeouts.request_body.map(pace),
            send: timeouts.send.map(pace),
            response: timeouts.response,
            relay: timeouts.relay.map(pace),
            client_send: self.config.timeouts.send.map(pace),
        }
    }

    /// How long the client may take for an answer that Weir gives itself.
    pub(crate) fn client_wait_limits(&self) -> WaitLimits {
        WaitLimits { client_send: self.config.timeouts.send.map(pace), ..WaitLimits::default() }
    }
}

/// What a listener allows the head of a request to be.
pub fn head_limits(listener: &Listener) -> HeadLimits {
    let (limits, allow) = (&listener.limits, &listener.allow);
    HeadLimits {
        head_bytes_max: limits.head_size.as_usize(),
        target_bytes_max: limits.target_size.as_usize(),
        fields_max: limits.headers,
        lenient: Lenient {
            bare_lf: allow.bare_lf,
            obs_fold: allow.obs_fold,
            unsafe_target: allow.unsafe_target,
            repeated_equal_length: allow.repeated_length,
            padded_length: allow.padded_length,
        },
        refuse_encoded_nul: !allow.encoded_nul,
    }
}

fn pace(progress: Progress) -> PaceLimit {
    PaceLimit {
        credit_max: progress.credit,
        rate_bytes_min: progress.rate_min.map_or(0, weir_config::Rate::bytes_per_second),
    }
}

impl RoutePlan {
    fn new(config: &Route) -> Self {
        let split = match &config.action {
            Action::Split(parts) => {
                let weights: Vec<u32> = parts.iter().map(|part| part.weight).collect();
                Some(Split::new(&weights).expect("the config check has seen the weights"))
            }
            Action::Upstream(_) | Action::Redirect(_) | Action::Respond(_) => None,
        };
        Self {
            split,
            rewrite: config.rewrite.clone(),
            body_bytes_max: config.body_size.map_or(u64::MAX, weir_config::Size::bytes),
            config: config.clone(),
        }
    }
}

impl UpstreamPlan {
    fn new(config: &Upstream, seed: u64) -> Result<Self, TlsError> {
        let limits = &config.limits;
        let balancer = config.balancer(seed);
        let trust = config.tls.as_ref().map(Trust::new).transpose();
        let trust = trust.map_err(|error| TlsError {
            place: format!("upstream `{}`", config.name),
            error: error.into(),
        })?;
        Ok(Self {
            trust,
            ejector: Ejector::new(config, &balancer),
            admission: Admission::new(balancer, config.queue.length_max, delay_target(config)),
            persistence: config.persistence(),
            patience: match config.queue.own_server {
                Some(_) => Patience::ForOwn,
                None => Patience::None,
            },
            endpoints: config
                .servers
                .iter()
                .map(|server| ArcSwap::from_pointee(known(&server.address)))
                .collect(),
            address_gone_ms: config.servers.iter().map(|_| AtomicU64::new(0)).collect(),
            head_limits: HeadLimits {
                head_bytes_max: limits.head_size.as_usize(),
                fields_max: limits.headers,
                ..HeadLimits::default()
            },
            chunked_limits: ChunkedLimits {
                extension_bytes_max: limits.chunk_extension_size.as_usize(),
                trailer_bytes_max: limits.trailer_size.as_usize(),
                trailer_fields_max: limits.headers,
            },
            idle: IdleLimits {
                connections_max: config.idle.connections_max,
                idle_max: Some(config.timeouts.idle),
                age_max: config.idle.age_max,
                requests_max: config.idle.requests_max.unwrap_or(u64::MAX),
            },
            shared_idle: config
                .servers
                .iter()
                .map(|server| server.max_requests.map(|_| SharedIdle::default()))
                .collect(),
            retry: config.retry.policy(),
            retry_budget: config.retry.new_budget(),
            retry_methods: MethodSet::new(config.retry.methods.iter().map(Method::as_str)),
            retry_body_max: config.retry.body_size.as_usize(),
            probes: health::shards(config),
            ascents: Ascents::new(config.servers.len()),
            epoch: clock::now(),
            config: config.clone(),
        })
    }

    /// Who chooses among the servers.
    #[inline]
    pub(crate) fn balancer(&self) -> &Balancer {
        self.admission.balancer()
    }

    /// Milliseconds since this upstream was made: the clock of its queue, its retry budget and its ejections.
    pub(crate) fn millis(&self, now: Instant) -> u64 {
        let since: Duration = now.saturating_duration_since(self.epoch);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// The first moment of a millisecond of [`UpstreamPlan::millis`].
    pub(crate) fn at_millis(&self, millis: u64) -> Instant {
        self.epoch + Duration::from_millis(millis)
    }

    /// Takes over the addresses of a server; whether they are other than before.
    pub(crate) fn move_server(&self, server: usize, endpoints: Vec<Endpoint>) -> bool {
        let place = &self.endpoints[server];
        let before = place.load_full();
        if *before == endpoints {
            return false;
        }
        let gone = before.iter().any(|endpoint| !endpoints.contains(endpoint));
        place.store(Arc::new(endpoints));
        if gone {
            self.address_gone_ms[server].store(self.millis(clock::now()), Ordering::Release);
        }
        true
    }

    /// Whether a connection to a server may lead to an address that is none of its any more.
    ///
    /// Every one that was opened before an address went away, wherever it leads: to open a few anew costs less than to
    /// know of each.
    pub(crate) fn has_moved(&self, server: usize, opened_at: Instant) -> bool {
        let gone_ms = self.address_gone_ms[server].load(Ordering::Acquire);
        gone_ms != 0 && self.millis(opened_at) <= gone_ms
    }
}

fn delay_target(config: &Upstream) -> Option<DelayTarget> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let interval_ms = millis(config.queue.delay_interval);
    config.queue.delay_target.map(|target| DelayTarget { target_ms: millis(target), interval_ms })
}

/// The addresses that are known without asking anybody.
fn known(address: &ServerAddress) -> Vec<Endpoint> {
    match address {
        ServerAddress::Ip(addr) => vec![Endpoint::Inet(*addr)],
        ServerAddress::Unix(path) => vec![Endpoint::Unix(path.clone())],
        ServerAddress::Name { .. } => Vec::new(),
    }
}
