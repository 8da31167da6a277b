//! The checked configuration: plain data, from which the data path builds its snapshot.
//!
//! A value of these types is free of errors: every index is in range, every name is known, every combination is allowed. The `Default` of
//! each type is the default of the product; the meaning of each key is in the reference (`docs/configuration.md`).

mod dump;
mod interning;
mod credentials;
mod metrics;
mod traces;
mod listener;
mod cache_partition;
mod withheld;
mod route;
mod access_log;
mod mirror;
mod static_files;
mod fastcgi;
mod error_page;
mod cors;
mod access;
mod destination;
mod compression;
mod cache;
mod limit;
mod store;
mod rule_order;
mod list;
mod upstream;
mod discovery;
mod routes_from;
mod upstream_http2;
mod grpc_status;
mod process;
mod identity;
mod ejection;
mod health;
mod affinity;
mod token;
mod upstream_tls;
mod tls;
mod internal;
mod acme;
mod client_certificates;

use std::path::Path;
use std::sync::Arc;

pub use access::{
    Access, BasicAuth, ForwardAuth, JwtAuth, RemoteKeys, TokenAlgorithm, TokenKeys, TokenSource,
};
pub use access_log::{AccessLog, AccessLogFormat, AccessLogOutput};
pub use acme::{
    AccountSecret, Acme, AcmeChallenge, AcmeIssuer, DnsHook, DnsRecords, DnsUpdate, ExternalAccount,
    TsigAlgorithm, TsigKey,
};
pub use affinity::{AffinitySettings, CookieMode, CookieSecret};
pub use cache::{CacheDisk, CacheStore, CacheTtl, PartitionName, RouteCache};
pub(crate) use cache_partition::{own_partitions, partitions};
pub use client_certificates::{ClientCertificateHeaders, ClientCertificates, ClientVerification};
pub use compression::{Compression, MediaPattern, is_event_stream};
pub(crate) use cors::split_origin;
pub use cors::{Cors, CorsOrigin};
pub use credentials::Credentials;
pub use destination::ForwardHost;
pub use discovery::{
    ConsulAgent, ConsulService, DiscoverySettings, EtcdCluster, ServerSource, SourceSecret, SourceTls,
    SourceUrl, XdsControlPlane, XdsNode,
};
pub use dump::ConfigDump;
pub use ejection::OutlierEjection;
pub use error_page::{ErrorPage, PagePart, PageText, RemotePage};
pub use fastcgi::FastcgiSettings;
pub use grpc_status::GrpcStatusName;
pub use health::{BodyRule, Dialogue, GrpcProbe, HealthCheck, HealthProbe, HttpProbe};
pub use identity::{ProcessAccount, ProcessIdentity};
pub use internal::{INTERNAL_DOMAINS, INTERNAL_NETWORKS, InternalAuthority};
pub(crate) use internal::{is_internal_address, is_internal_name};
pub use interning::Interner;
pub use limit::{KeyLimit, LimitBandwidth, LimitRate};
pub(crate) use list::is_client_address;
pub use list::{AccessList, ListAction, ListEntries, NetworkEntry};
pub use listener::{
    AcceptFrom, EncodedSlashAction, ForwardedHeaders, Leniency, Listener, ListenerHttp2, ListenerLimits,
    ListenerProtocol, ListenerTimeouts, PathForm, PathSettings, PriorKnowledge, ProxyProtocol, RequestId,
    TiedRoutes, TrustedProxies,
};
pub use metrics::{HistogramBuckets, Metrics};
pub use mirror::{Mirror, MirrorPart};
pub use process::{
    Admin, Bird, ConnectionsMax, Dns, FailBack, Keepalived, LogLevel, LogLineFormat, LogSettings, MemoryMax,
    Process, RecorderSettings, ReloadTrigger, SandboxMode, WorkerCount,
};
pub use route::{
    FixedResponse, HeaderChanges, LimitUse, QueuePriority, Redirect, RequestBuffering, ResponseBuffering,
    Route, RouteAccessLog, RouteAction, RouteSettings, RouteTimeouts, SplitAction, SplitTarget,
};
pub use routes_from::{RouteSource, RouteStore};
pub use rule_order::RuleOrder;
pub use static_files::{FileEncoding, StaticFiles, SymlinkRule};
pub use store::{LimitStore, MonitoredMaster, Sentinel, StoreLogin, StorePlace, StoreTls};
pub use tls::{CertificateSource, CipherSuite, InternalSource, KeyExchangeGroup, ListenerTls, TlsVersion};
pub use traces::{Collector, CollectorHeaders, CollectorUrl, TraceSettings};
pub use upstream::{
    OnDown, PoolSettings, ProxyVersion, QueueSettings, RetrySettings, Server, ServerDescription,
    ServerLeniency, Upstream, UpstreamIndex, UpstreamLimits, UpstreamSettings, UpstreamTimeouts,
};
pub use upstream_http2::{ServerProtocol, UpstreamHttp2};
pub use upstream_tls::UpstreamTls;
pub use withheld::WithheldHeaders;

/// A whole configuration without errors. Cheap to clone: its large parts are shared.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The settings of the process as a whole.
    pub process: Process,
    /// What the process becomes when everything is open.
    pub identity: ProcessIdentity,
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
    /// The lists of addresses and other keys, in the order of the text; names are unique.
    pub lists: Vec<Arc<AccessList>>,
    /// The limits by key, in the order of the text; names are unique.
    pub limits: Vec<Arc<KeyLimit>>,
    /// The caches, in the order of the text; names are unique.
    pub caches: Vec<Arc<CacheStore>>,
    /// The listeners, at least one, in the order of the text; names are unique.
    pub listeners: Vec<Arc<Listener>>,
    /// The upstreams in the order of the text; names are unique. [`UpstreamIndex`] points here.
    pub upstreams: Vec<Arc<Upstream>>,
}

impl Config {
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
