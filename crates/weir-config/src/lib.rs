//! From `weir.toml` to a [`Config`] that holds no contradiction: the text is read with its positions, every mistake in it
//! is reported at once, and what comes out needs no further check.
//!
//! Three stages, each with types of its own: what the text may say (`text`), the checked [`Config`], and the snapshot of ready-made
//! objects that the data path builds from it. Nothing here opens a socket or starts a thread; files are read only by [`Config::load`],
//! `include`, and where a certificate or a key is named.

#![forbid(unsafe_code)]

// A file, read and read again; two configurations side by side.
mod config_file;
mod diff;
mod load;

// Back to text: the reference and the schema, the effective configuration.
mod reference;

// Tree to configuration.
mod check;
mod print;
mod text;
mod config;

// The files of certificates and keys.
mod certificate;

// Which keys exist and how values are written.
mod key;

// Text to tree: files, variables, include.
mod source;
mod value;

// What is wrong, and where.
mod diagnostic;
mod source_map;

pub use certificate::{
    Authorities, CertificateError, CertificateFiles, Identity, LoadedCertificate, OcspResponse,
    RevocationLists,
};
pub use config::{
    AcceptFrom, AccessLog, AccessLogFormat, AccessLogOutput, Admin, AffinitySettings, BodyRule, CipherSuite,
    ClientCertificateHeaders, ClientCertificates, ClientVerification, Collector, CollectorHeaders,
    CollectorUrl, Config, ConfigDump, ConnectionsMax, CookieMode, CookieSecret, Credentials, Dialogue, Dns,
    EncodedSlashAction, FixedResponse, ForwardHost, ForwardedHeaders, HeaderChanges, HealthCheck,
    HealthProbe, HistogramBuckets, HttpProbe, KeyExchangeGroup, Leniency, Listener, ListenerCertificate,
    ListenerLimits, ListenerProtocol, ListenerTimeouts, ListenerTls, LogLevel, LogLineFormat, LogSettings,
    Metrics, OnDown, OutlierEjection, PathForm, PathSettings, PoolSettings, Process, ProxyProtocol,
    ProxyVersion, QueuePriority, QueueSettings, RecorderSettings, Redirect, RedirectPart, ReloadTrigger,
    RequestId, RetrySettings, Route, RouteAction, RouteSettings, RouteTimeouts, Server, ServerLeniency,
    SplitTarget, TlsVersion, TraceSettings, TrustedProxies, Upstream, UpstreamIndex, UpstreamLimits,
    UpstreamSettings, UpstreamTimeouts, UpstreamTls, WorkerCount,
};
pub use config_file::ConfigFile;
pub use diagnostic::{Colour, Diagnostic, DiagnosticKind, Diagnostics, Location};
pub use diff::{ChangeKind, ConfigChange, ConfigDiff, ConfigPart, Effect, KeyChange, RESTART_KEYS};
pub use load::CheckedConfig;
pub use reference::{equivalents_markdown, json_schema, reference_markdown};
pub use value::{
    ByteRate, FileMode, Fraction, HeaderName, HeaderValue, ListenAddress, Percent, ProgressLimit,
    ServerAddress, Size, StatusRange, Token, ValueError, parse_duration, print_duration,
};
