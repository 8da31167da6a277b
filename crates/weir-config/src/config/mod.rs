//! The checked configuration: plain data, from which the data path builds its snapshot.
//!
//! A value of these types is free of errors: every index is in range, every name is known, every combination is allowed. The `Default` of
//! each type is the default of the product; the meaning of each key is in the reference (`docs/configuration.md`).

#[cfg(test)]
mod tests;
mod validate;
mod dump;
mod interning;
mod credentials;
mod metrics;
mod traces;
mod listener;
mod withheld;
mod routing;
mod admission;
mod upstreams;
mod destination;
mod grpc_status;
mod process;
mod identity;
mod certificates;
mod checked;
mod faults;

use std::path::Path;
use std::sync::Arc;

use crate::certificate::Http3Key;
use crate::value::OwnValue;

pub use admission::access::{
    Access, BasicAuth, ForwardAuth, ForwardAuthCache, JwtAuth, RemoteKeys, Satisfy, TokenAlgorithm,
    TokenKeys, TokenSource,
};
pub(crate) use admission::limit::{BANDWIDTH, BURST, CONCURRENT, KEYS_MAX};
pub use admission::limit::{KeyLimit, KeyLimitParts, LimitBandwidth, LimitRate, LimitRateParts};
pub use admission::list::{AccessList, AccessListParts, ListAction, ListEntries, NetworkTable};
pub(crate) use admission::list::{REFUSAL_STATUSES, TARPIT_DELAY, is_client_address};
pub use admission::rule_order::RuleOrder;
pub(crate) use admission::table::EXPIRE;
pub use admission::table::TrackedTable;
pub use admission::trust::{ClientAddressHeader, TrustedProxies, is_in};
pub use certificates::acme::{
    AccountSecret, Acme, AcmeChallenge, AcmeIssuer, DnsHook, DnsRecords, DnsUpdate, ExternalAccount,
    TsigAlgorithm, TsigKey,
};
pub use certificates::client_certificates::{
    ClientCertificateHeaders, ClientCertificates, ClientVerification,
};
pub use certificates::internal::{INTERNAL_DOMAINS, INTERNAL_NETWORKS, InternalAuthority};
pub(crate) use certificates::internal::{is_internal_address, is_internal_name};
pub(crate) use certificates::tls::versions_without_suite;
pub use certificates::tls::{
    CertificateSource, CipherSuite, InternalSource, KeyExchangeGroup, ListenerTls, TlsVersion, UnknownNames,
};
pub(crate) use checked::FoundFaults;
pub use checked::{Checked, CheckedParts};
pub use credentials::Credentials;
pub use destination::ForwardHost;
pub use dump::ConfigDump;
pub use faults::ConfigFault;
pub(crate) use faults::{ListenerFault, RouteFault, RuleFault, UpstreamFault, ValueFault};
pub use grpc_status::GrpcStatusName;
pub use identity::{ProcessAccount, ProcessIdentity};
pub use interning::Interner;
pub use listener::{
    AcceptFrom, EncodedSlashAction, ForwardedHeaders, Leniency, Listener, ListenerHttp2, ListenerHttp3,
    ListenerLimits, ListenerParts, ListenerProtocol, ListenerTimeouts, PathForm, PathSettings,
    PriorKnowledge, ProxyProtocol, RequestId, RouteOrder, TiedRoutes,
};
pub use metrics::{HistogramBuckets, Metrics};
pub use process::{
    Admin, Bird, ConnectionsMax, Dns, FailBack, Keepalived, LogLevel, LogLineFormat, LogSettings, MemoryMax,
    Process, RecorderSettings, ReloadTrigger, SandboxMode, WorkerCount,
};
pub use routing::accel::AccelField;
pub use routing::access_log::{AccessLog, AccessLogFormat, AccessLogOutput};
pub(crate) use routing::cache::cache_faults;
pub use routing::cache::{
    CacheDisk, CacheStore, CacheStoreParts, CacheTtl, IgnoredVaryField, PartitionName, RouteCache,
};
pub use routing::cache_partition::trail_name;
pub(crate) use routing::cache_partition::{own_partitions, partitions};
pub use routing::compression::{Compression, MediaPattern, is_event_stream};
pub(crate) use routing::cors::split_origin;
pub use routing::cors::{Cors, CorsOrigin};
pub use routing::error_page::{ErrorPage, ErrorStep, PagePart, PageText, RemotePage};
pub use routing::expires::{Expires, ExpiresTime};
pub use routing::fastcgi::FastcgiSettings;
pub(crate) use routing::header_changes::{CACHED_RULES_MAX, RULES_MAX};
pub use routing::header_changes::{HeaderChanges, HeaderRule, ResponseOrigin};
pub use routing::mirror::{Mirror, MirrorPart};
pub(crate) use routing::rewrite::is_url;
pub use routing::rewrite::{
    DotSegments, FilesFallback, REROUTINGS_MAX, RewriteFlag, RewriteRule, RouteTarget, clean_path,
    keep_in_place,
};
pub use routing::rewriting::{AttributeRewrite, BodyPart, BodyRewrite, CookieRewrite, LocationRewrite};
pub use routing::route::{
    FixedResponse, LimitUse, QueuePriority, Redirect, RequestBuffering, ResponseBuffering, Route,
    RouteAccessLog, RouteAction, RouteParts, RouteSettings, RouteTimeouts, SplitAction, SplitTarget,
};
pub(crate) use routing::route::{late_values, split_fault, upgrade_fault};
pub use routing::static_files::{FileEncoding, StaticFiles, SymlinkRule};
pub use traces::{Collector, CollectorHeaders, CollectorUrl, TraceSettings};
pub use upstreams::affinity::{AffinitySettings, CookieMode, CookieSecret};
pub use upstreams::allowed_servers::{AllowedServer, AllowedServers};
pub use upstreams::discovery::{
    ConsulAgent, ConsulService, DiscoverySettings, EtcdCluster, ServerSource, SourceSecret, SourceTls,
    SourceUrl, XdsControlPlane, XdsNode,
};
pub use upstreams::dynamic::DynamicServers;
pub use upstreams::ejection::OutlierEjection;
pub use upstreams::health::{AgentCheck, BodyRule, Dialogue, GrpcProbe, HealthCheck, HealthProbe, HttpProbe};
pub use upstreams::routes_from::{RouteSource, RouteStore};
pub use upstreams::store::{LimitStore, MonitoredMaster, Sentinel, StoreLogin, StorePlace, StoreTls};
pub use upstreams::upstream::{
    OnDown, OnFull, PoolSettings, ProxyVersion, QueueSettings, RetrySettings, Server, ServerDescription,
    ServerLeniency, Upstream, UpstreamIndex, UpstreamLimits, UpstreamParts, UpstreamSettings,
    UpstreamTimeouts,
};
pub(crate) use upstreams::upstream::{
    PANIC_THRESHOLD, PORT, REQUESTS_MAX, WEIGHT, client_source_fault, protocol_faults, server_faults,
    weight_fault,
};
pub use upstreams::upstream_http2::{ServerProtocol, UpstreamHttp2};
pub use upstreams::upstream_tls::UpstreamTls;
pub use withheld::WithheldHeaders;

/// A whole configuration without errors. Cheap to clone: its large parts are shared.
pub type Config = Checked<ConfigParts>;

/// What makes up a [`Config`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ConfigParts {
    /// The settings of the process as a whole.
    pub process: Process,
    /// What the process becomes when everything is open.
    pub identity: ProcessIdentity,
    /// The keys of HTTP/3 that the process shares with others, the one in use first; with none, it has its own.
    pub http3_keys: Vec<Arc<Http3Key>>,
    /// Weir's own log: start-up, reload, trouble. Not the access log.
    pub log: LogSettings,
    /// How names of servers are resolved.
    pub dns: Dns,
    /// What the sources of servers share.
    pub discovery: DiscoverySettings,
    /// The stores whose keys hold routes and upstreams, in the order of the text; names are unique.
    pub route_sources: Vec<RouteSource>,
    /// The admin listener.
    pub admin: Admin,
    /// Its credentials.
    pub credentials: Credentials,
    /// Every key with the value that holds, as TOML; secrets are left out.
    pub dump: ConfigDump,
    /// The settings of the recorder of finished exchanges.
    pub recorder: RecorderSettings,
    /// How the metrics are written.
    pub metrics: Metrics,
    /// The settings of traces; `None`: off.
    pub traces: Option<TraceSettings>,
    /// The maps, in the order of the text; names are unique.
    pub maps: Vec<OwnValue>,
    /// The lists of addresses and other keys, in the order of the text; names are unique.
    pub lists: Vec<Arc<AccessList>>,
    /// The limits by key, in the order of the text; names are unique.
    pub limits: Vec<Arc<KeyLimit>>,
    /// The tables of counters, in the order of the text; names are unique.
    pub tables: Vec<Arc<TrackedTable>>,
    /// The caches, in the order of the text; names are unique.
    pub caches: Vec<Arc<CacheStore>>,
    /// The stores in which nodes share affinity, by the upstreams that name them.
    pub affinity_stores: Vec<(Box<str>, Arc<LimitStore>)>,
    /// The listeners, at least one, in the order of the text; names are unique.
    pub listeners: Vec<Arc<Listener>>,
    /// The upstreams in the order of the text; names are unique. [`UpstreamIndex`] points here.
    pub upstreams: Vec<Arc<Upstream>>,
}

impl Default for Config {
    /// The defaults of the product, without a listener.
    fn default() -> Self {
        Self::assume(ConfigParts::default())
    }
}

impl Config {
    /// Gives upstreams other servers: those for which there are some.
    pub fn set_servers(&mut self, mut servers: impl FnMut(&Upstream) -> Option<Vec<Server>>) {
        self.replace_upstreams(|upstream| match servers(upstream) {
            Some(servers) => Arc::new(upstream.with_servers(servers)),
            None => Arc::clone(upstream),
        });
    }

    /// Replaces the upstream in this place by another one of its name; one of another name is not taken.
    pub fn replace_upstream(&mut self, place: UpstreamIndex, other: Arc<Upstream>) {
        let upstream = self.parts_mut().upstreams.get_mut(place.0);
        if let Some(upstream) = upstream.filter(|upstream| upstream.name == other.name) {
            *upstream = other;
        }
    }

    /// Replaces upstreams by others of the same names; what has another name is not taken.
    pub fn replace_upstreams(&mut self, mut other: impl FnMut(&Arc<Upstream>) -> Arc<Upstream>) {
        for upstream in &mut self.parts_mut().upstreams {
            let other = other(upstream);
            if other.name == upstream.name {
                *upstream = other;
            }
        }
    }
}

impl ConfigParts {
    /// The upstream that a route names.
    pub fn upstream(&self, index: UpstreamIndex) -> &Upstream {
        &self.upstreams[index.0]
    }

    /// The files that get the secrets of TLS connections, of listeners and of upstreams.
    pub fn key_logs(&self) -> impl Iterator<Item = &Path> {
        let of_listeners =
            self.listeners.iter().filter_map(|listener| listener.tls.as_ref()?.key_log.as_deref());
        let of_upstreams =
            self.upstreams.iter().filter_map(|upstream| upstream.tls.as_ref()?.key_log.as_deref());
        of_listeners.chain(of_upstreams)
    }

    /// The access logs that have lines: of listeners, and of routes that have their own.
    pub fn access_logs(&self) -> impl Iterator<Item = &AccessLog> {
        self.listeners.iter().flat_map(|listener| {
            let own = listener.routes.iter().filter_map(|route| route.access_log.own());
            std::iter::once(&listener.access_log).chain(own).filter(|log| log.format.is_some())
        })
    }
}
