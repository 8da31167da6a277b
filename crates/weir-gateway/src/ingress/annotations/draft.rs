//! What the annotations of one Ingress ask for, before its rules and the objects that it refers to are looked at.

use std::collections::BTreeSet;

use ipnet::IpNet;
use weir_config::{HeaderName, HeaderTemplate, Realm, RouteSettings, Size, Template, UpstreamSettings};
use weir_traffic::affinity::SameSite;

use crate::api::SharedText;
use crate::store::ObjectKey;

/// What annotations ask for.
#[derive(Debug, Clone)]
pub(crate) struct IngressDraft {
    /// The namespace of the Ingress.
    pub(crate) namespace: Box<str>,
    /// Settings of routes that a value alone decides.
    pub(crate) route: RouteSettings,
    /// Settings of upstreams that a value alone decides.
    pub(crate) upstream: UpstreamSettings,
    pub(crate) paths: PathDraft,
    pub(crate) access: AccessDraft,
    pub(crate) limits: LimitDraft,
    pub(crate) servers: ServerDraft,
    pub(crate) messages: MessageDraft,
    pub(crate) canary: CanaryDraft,
}

/// Paths, hosts and redirects.
#[derive(Debug, Clone)]
pub(crate) struct PathDraft {
    pub(crate) use_regex: bool,
    pub(crate) rewrite_target: Option<Box<str>>,
    pub(crate) app_root: Option<Template>,
    pub(crate) permanent: Option<Template>,
    pub(crate) permanent_code: u16,
    pub(crate) temporal: Option<Template>,
    pub(crate) temporal_code: u16,
    pub(crate) aliases: BTreeSet<SharedText>,
    pub(crate) www_redirect: bool,
    /// Whether hosts with a certificate are served over TLS only.
    pub(crate) tls_redirect: bool,
    /// The same of hosts without.
    pub(crate) tls_redirect_forced: bool,
}

/// Who may send requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccessDraft {
    pub(crate) allowed: Vec<IpNet>,
    pub(crate) denied: Vec<IpNet>,
    /// `auth-type`.
    pub(crate) basic: bool,
    pub(crate) secret: Option<ObjectKey>,
    pub(crate) realm: Option<Realm>,
    /// `auth-url`.
    pub(crate) forward: Option<Box<str>>,
    pub(crate) forward_headers: Vec<HeaderName>,
    /// `auth-request-redirect`.
    pub(crate) redirect: Option<HeaderTemplate>,
}

/// How many requests a client may make.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitDraft {
    pub(crate) per_second: Option<u32>,
    pub(crate) per_minute: Option<u32>,
    pub(crate) concurrent: Option<u32>,
    pub(crate) burst_multiplier: Option<u32>,
    pub(crate) exempt: Vec<IpNet>,
}

/// What servers speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum BackendProtocol {
    /// What the port of the Service says.
    #[default]
    OfService,
    Http,
    Https,
    Grpc,
    Grpcs,
}

/// How servers are reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerDraft {
    pub(crate) protocol: BackendProtocol,
    pub(crate) tls_secret: Option<ObjectKey>,
    pub(crate) tls_verified: bool,
    pub(crate) tls_name: Option<Box<str>>,
    pub(crate) affinity: Option<AffinityDraft>,
    pub(crate) session: AffinityDraft,
    /// Whether `upstream` differs from the defaults.
    pub(crate) is_changed: bool,
}

/// The cookie of `affinity`.
#[derive(Debug, Clone, Default)]
pub(crate) struct AffinityDraft {
    pub(crate) name: Option<Box<str>>,
    pub(crate) path: Option<Box<str>>,
    pub(crate) domain: Option<Box<str>>,
    pub(crate) seconds: Option<u64>,
    pub(crate) same_site: Option<SameSite>,
    pub(crate) secure: bool,
}

/// Headers, copies, CORS.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageDraft {
    pub(crate) cors: bool,
    pub(crate) cors_origins: Option<Box<str>>,
    pub(crate) cors_methods: Option<Box<str>>,
    pub(crate) cors_headers: Option<Box<str>>,
    pub(crate) cors_expose: Option<Vec<HeaderName>>,
    pub(crate) cors_without_credentials: bool,
    pub(crate) cors_seconds: Option<u64>,
    /// ConfigMaps.
    pub(crate) response_headers: Option<ObjectKey>,
    pub(crate) request_headers: Option<ObjectKey>,
    pub(crate) mirror: Option<Box<str>>,
    pub(crate) mirror_host: Option<Box<str>>,
    pub(crate) mirror_bodiless: bool,
    pub(crate) body_memory: Option<Size>,
    pub(crate) response_file: Option<Size>,
}

/// Which requests of another Ingress go to the servers of this one.
#[derive(Debug, Clone)]
pub(crate) struct CanaryDraft {
    pub(crate) is_canary: bool,
    pub(crate) weight: u32,
    pub(crate) weight_total: u32,
    pub(crate) header: Option<Box<str>>,
    pub(crate) header_value: Option<SharedText>,
    /// The regular expression for it, where there is no value.
    pub(crate) header_pattern: Option<SharedText>,
    pub(crate) cookie: Option<Box<str>>,
}

impl IngressDraft {
    /// Without annotations.
    pub(crate) fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.into(),
            route: RouteSettings::default(),
            upstream: UpstreamSettings::default(),
            paths: PathDraft {
                use_regex: false,
                rewrite_target: None,
                app_root: None,
                permanent: None,
                permanent_code: 301,
                temporal: None,
                temporal_code: 302,
                aliases: BTreeSet::new(),
                www_redirect: false,
                tls_redirect: true,
                tls_redirect_forced: false,
            },
            access: AccessDraft::default(),
            limits: LimitDraft::default(),
            servers: ServerDraft::default(),
            messages: MessageDraft::default(),
            canary: CanaryDraft {
                is_canary: false,
                weight: 0,
                weight_total: 100,
                header: None,
                header_value: None,
                header_pattern: None,
                cookie: None,
            },
        }
    }
}
