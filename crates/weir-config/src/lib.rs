//! From `weir.toml` to a [`Config`] that holds no contradiction: the text is read with its positions, every mistake in it
//! is reported at once, and what comes out needs no further check.
//!
//! Three stages, each with types of its own: what the text may say (`text`), the checked [`Config`], and the snapshot of ready-made
//! objects that the data path builds from it. Nothing here opens a socket or starts a thread; files are read only by [`Config::load`],
//! `include`, and where a certificate or a key is named.

#![forbid(unsafe_code)]

// A file, read and read again; two configurations side by side.
mod config_file;
mod difference;
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
mod mistake;
mod source_map;

pub use certificate::{
    Authorities, Certificate, CertificateError, CertificateFiles, Identity, OcspResponse, RevocationLists,
};
pub use config::{
    AccessLog, AccessLogFormat, AccessLogOutput, Action, Admin, BodyRule, Buckets, CipherSuite,
    ClientCertificateHeaders, ClientCertificates, ClientVerification, Collector, CollectorHeaders,
    CollectorUrl, Config, ConnectionLimit, CookieMode, CookiePersistence, Credentials, Dialogue, Dns,
    Ejection, EncodedSlash, Fixed, ForwardHost, Forwarded, HeaderChanges, HealthCheck, HttpProbe,
    IdleConnections, KeyExchangeGroup, Leniency, Listener, ListenerCertificate, ListenerLimits,
    ListenerTimeouts, ListenerTls, Log, LogFormat, LogLevel, Metrics, OnDown, PathForm, Paths, Probe,
    Process, Protocol, ProxyProtocol, ProxyVersion, Queue, QueuePriority, Recorder, Redirect, RedirectPart,
    ReloadTrigger, RequestId, Retry, Route, RouteSettings, RouteTimeouts, Secret, Server, ServerLeniency,
    ShownConfig, Split, TlsVersion, Traces, Trust, TrustedProxies, Upstream, UpstreamIndex, UpstreamLimits,
    UpstreamSettings, UpstreamTimeouts, UpstreamTls, WorkerCount,
};
pub use config_file::ConfigFile;
pub use difference::{Change, Difference, Effect, KeyChange, Part, RESTART_KEYS, What};
pub use load::Checked;
pub use mistake::{Colour, Mistake, MistakeKind, Mistakes, Place};
pub use reference::{elsewhere_markdown, json_schema, reference_markdown};
pub use value::{
    FileMode, HeaderName, HeaderValue, ListenAddress, Percent, Progress, Rate, ServerAddress, Share, Size,
    StatusRange, Token, ValueError, parse_duration, print_duration,
};
