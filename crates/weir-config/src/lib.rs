//! From `weir.toml` to a consistent [`Config`]: the text is read with its positions, all errors in it are reported at once, and the result
//! needs no further check.
//!
//! Three stages, each with its own types: the text (`text`, types with the suffix `Text`), the checked [`Config`], and the snapshot that
//! the data path builds from it. Opens no socket and starts no thread; reads files only in [`Config::load`], for `include`, and where a
//! certificate or a key is named.

#![forbid(unsafe_code)]

// What to consider about a sound configuration.
mod advice;

// A file, read and read again; two configurations side by side.
mod config_file;
mod fragments;
mod diff;
mod load;
mod restricted;

// Back to text: the reference and the schema, the effective configuration.
mod reference;

// Tree to configuration.
mod check;
mod print;
mod text;
mod config;

// The files of certificates and keys, of users and their passwords, of entries of maps.
mod certificate;
mod watched_files;

// Which keys exist and how values are written.
mod key;

// Text to tree: files, variables, include.
mod source;
mod value;

// What acts on an exchange, in which order, and what is known by then.
mod order;

// Diagnostics, and their places.
mod diagnostic;
mod masked_text;

// Files, up to a size.
mod text_file;

pub use advice::{ConfigAdvice, advice, upload_advice};
pub use certificate::{
    Authorities, CertificateDirectory, CertificateError, CertificateFiles, DirectoryFiles, Http3Key,
    Identity, ListenerCertificate, LoadedCertificate, OcspResponse, RevocationLists, TicketKey,
    UnusableCertificate, has_uri,
};
pub use config::ResponseOrigin;
pub use config::{
    AccelField, AcceptFrom, Access, AccessList, AccessListParts, AccessLog, AccessLogFormat, AccessLogOutput,
    AccountSecret, Acme, AcmeChallenge, AcmeIssuer, Admin, AffinitySettings, AgentCheck, AllowedServer,
    AllowedServers, BasicAuth, Bird, BodyRule, CacheDisk, CacheStore, CacheStoreParts, CacheTtl,
    CertificateSource, Checked, CheckedParts, CipherSuite, ClientAddressHeader, ClientCertificateHeaders,
    ClientCertificates, ClientVerification, Collector, CollectorHeaders, CollectorUrl, Config, ConfigDump,
    ConfigFault, ConfigParts, ConnectionsMax, ConsulAgent, ConsulService, CookieMode, CookieSecret, Cors,
    CorsOrigin, Credentials, Dialogue, DiscoverySettings, Dns, DnsHook, DnsRecords, DnsUpdate, DotSegments,
    DynamicServers, EncodedSlashAction, ErrorPage, ErrorStep, EtcdCluster, Expires, ExpiresTime,
    ExternalAccount, FailBack, FastcgiSettings, FileEncoding, FilesFallback, FixedResponse, ForwardAuth,
    ForwardAuthCache, ForwardHost, ForwardedHeaders, GrpcProbe, GrpcStatusName, HeaderChanges, HeaderRule,
    HealthCheck, HealthProbe, HistogramBuckets, HttpProbe, INTERNAL_DOMAINS, INTERNAL_NETWORKS,
    IgnoredVaryField, InternalAuthority, InternalSource, Interner, JwtAuth, Keepalived, KeyExchangeGroup,
    KeyLimit, KeyLimitParts, Leniency, LimitBandwidth, LimitRate, LimitRateParts, LimitStore, LimitUse,
    ListAction, ListEntries, Listener, ListenerHttp2, ListenerHttp3, ListenerLimits, ListenerParts,
    ListenerProtocol, ListenerTimeouts, ListenerTls, LogLevel, LogLineFormat, LogSettings, MemoryMax,
    Metrics, Mirror, MirrorPart, MonitoredMaster, NetworkTable, OnDown, OnFull, OutlierEjection, PagePart,
    PageText, PartitionName, PathForm, PathSettings, PoolSettings, PriorKnowledge, Process, ProcessAccount,
    ProcessIdentity, ProxyProtocol, ProxyVersion, QueuePriority, QueueSettings, REROUTINGS_MAX,
    RecorderSettings, Redirect, ReloadTrigger, RemoteKeys, RemotePage, RequestBuffering, RequestId,
    ResponseBuffering, RetrySettings, RewriteFlag, RewriteRule, Route, RouteAccessLog, RouteAction,
    RouteCache, RouteOrder, RouteParts, RouteSettings, RouteSource, RouteStore, RouteTarget, RouteTimeouts,
    RuleOrder, SandboxMode, Satisfy, Sentinel, Server, ServerDescription, ServerLeniency, ServerProtocol,
    ServerSource, SourceSecret, SourceTls, SourceUrl, SplitAction, SplitTarget, StaticFiles, StoreLogin,
    StorePlace, StoreTls, SymlinkRule, TiedRoutes, TlsVersion, TokenAlgorithm, TokenKeys, TokenSource,
    TraceSettings, TrackedTable, TrustedProxies, TsigAlgorithm, TsigKey, UnknownNames, Upstream,
    UpstreamHttp2, UpstreamIndex, UpstreamLimits, UpstreamParts, UpstreamSettings, UpstreamTimeouts,
    UpstreamTls, WithheldHeaders, WorkerCount, XdsControlPlane, XdsNode, clean_path, is_in, keep_in_place,
    trail_name,
};
pub use config::{AttributeRewrite, BodyPart, BodyRewrite, CookieRewrite, LocationRewrite};
pub use config::{Compression, MediaPattern, is_event_stream};
pub use config_file::ConfigFile;
pub use diagnostic::{Colour, Diagnostic, DiagnosticKind, Diagnostics, Location};
pub use diff::{ChangeKind, ConfigChange, ConfigDiff, ConfigPart, Effect, KeyChange, RESTART_KEYS};
pub use fragments::{FragmentReport, FragmentTexts, OfferedFragments};
pub use load::CheckedConfig;
pub use masked_text::MaskedText;
pub use order::{ASKED, DECISIONS, Fact, Feature, KeyStage, ORDER, Row, RowSet, Stage, order_markdown};
pub use print::shown_conditions;
pub use reference::{equivalents_markdown, json_schema, reference_markdown};
pub use source::{ConfigTranslation, ConfigTranslator, OriginalPlace, TranslationFinding, is_toml};
pub use text::Realm;
pub use text_file::MapFileMark;
pub use value::{
    ByteRate, CertificateName, FileMode, Fraction, GroupPiece, GroupTemplate, HeaderName, HeaderTemplate,
    HeaderValue, ListenAddress, LiveMap, MapDefinition, MapLookups, MapTable, OwnValue, Percent,
    ProgressLimit, ProxyValue, ReadMap, RequestFrequency, ServerAddress, ShareFraction, Size, SourceAddress,
    StatusRange, TableDefinition, Template, TemplateFacts, TemplatePart, TemplateValue, Token, ValueError,
    WhenCondition, is_normal_path, parse_duration, print_duration,
};
pub use watched_files::{doubt_about_users, load_keys, load_map, load_users, map_marks};
