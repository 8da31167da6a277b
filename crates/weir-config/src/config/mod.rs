//! The checked configuration: plain data, read by the data path to build its snapshot.
//!
//! Whatever can be wrong has been found before a value of these types exists: every index is in range, every name is
//! known, every combination is allowed. The `Default` of each type is the default of the product; what each key means is in
//! the reference (`docs/configuration.md`).

mod process;
mod access_log;
mod alike;
mod client_certificates;
mod credentials;
mod ejection;
mod health;
mod listener;
mod metrics;
mod persistence;
mod route;
mod tls;
mod token;
mod traces;
mod upstream;
mod upstream_tls;

use std::sync::Arc;

use crate::shown::ShownConfig;

pub use access_log::{AccessLog, AccessLogFormat, AccessLogOutput};
pub(crate) use alike::Alike;
pub use client_certificates::{ClientCertificateHeaders, ClientCertificates, ClientVerification};
pub use credentials::Credentials;
pub use ejection::Ejection;
pub use health::{BodyRule, Dialogue, HealthCheck, HttpProbe, Probe};
pub use listener::{
    EncodedSlash, Forwarded, Leniency, Listener, ListenerLimits, ListenerTimeouts, PathForm, Paths, Protocol,
    ProxyProtocol, RequestId, Trust, TrustedProxies,
};
pub use metrics::{Buckets, Metrics};
pub use persistence::{CookieMode, CookiePersistence, Secret};
pub use process::{
    Admin, ConnectionLimit, Dns, Log, LogFormat, LogLevel, Process, Recorder, ReloadTrigger, WorkerCount,
};
pub use route::{
    Action, Fixed, ForwardHost, HeaderChanges, QueuePriority, Redirect, RedirectPart, Route, RouteSettings,
    RouteTimeouts, Split, UpstreamIndex,
};
pub use tls::{CipherSuite, KeyExchangeGroup, ListenerCertificate, ListenerTls, TlsVersion};
pub use traces::{Collector, CollectorHeaders, CollectorUrl, Traces};
pub use upstream::{
    IdleConnections, OnDown, ProxyVersion, Queue, Retry, Server, ServerLeniency, Upstream, UpstreamLimits,
    UpstreamSettings, UpstreamTimeouts,
};
pub use upstream_tls::UpstreamTls;

/// A whole configuration without a mistake. Cheap to clone: its large parts are shared.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// What concerns the process as a whole.
    pub process: Process,
    /// Weir's own log: start-up, reload, trouble. Not the access log.
    pub log: Log,
    /// How names of servers are resolved.
    pub dns: Dns,
    /// The admin listener.
    pub admin: Admin,
    /// Who may come in there.
    pub credentials: Credentials,
    /// Every key with the value that holds, as TOML; secrets are left out.
    pub shown: ShownConfig,
    /// What is kept of exchanges that are over.
    pub recorder: Recorder,
    /// How the metrics are written.
    pub metrics: Metrics,
    /// What is traced; `None`: nothing.
    pub traces: Option<Traces>,
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
}
