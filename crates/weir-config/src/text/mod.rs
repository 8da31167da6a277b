//! The content of a config file, table by table, before any comparison between keys.
//!
//! These types differ from the checked ones in that references are names and alternatives are all present.

mod document;
mod listener;
mod proxy_protocol;
mod tls;
mod internal;
mod acme;
mod dns_update;
mod client_certificates;
mod traces;
mod upstream;
mod discovery;
mod routes_from;
mod store;
mod upstream_tls;
mod ejection;
mod health;
mod affinity;
mod route;
mod hsts;
mod cors;
mod jwt;
mod forward_auth;
mod mirror;
mod basic;
mod compression;
mod access_log;
mod cache;
mod limit;
mod list;
mod files;
mod fastcgi;
mod error_page;
mod matching;

pub(crate) use access_log::RouteAccessLogText;
pub(crate) use acme::{AcmeText, AskUrl, ExternalAccountText, URL_BYTES_MAX};
pub(crate) use affinity::{AffinityMode, AffinityText, CookieSecretText, SameSiteWord, is_cookie_domain};
pub(crate) use basic::{BasicText, PasswordHashText};
pub(crate) use cache::{CacheText, RouteCacheText};
pub(crate) use client_certificates::ClientCertificatesText;
pub(crate) use compression::CompressionSwitch;
pub(crate) use cors::CorsText;
pub(crate) use discovery::{DiscoveryText, UpstreamDiscoveryText, XdsText};
pub(crate) use dns_update::DnsUpdateText;
pub(crate) use document::Document;
pub(crate) use ejection::EjectionText;
pub(crate) use error_page::{ErrorPageText, ErrorPagesText};
pub(crate) use fastcgi::FastcgiText;
pub(crate) use files::FilesText;
pub(crate) use forward_auth::ForwardAuthText;
pub(crate) use health::{HealthText, ProbeBytes, ProbeKind, ProbePreset};
pub(crate) use hsts::HstsText;
pub(crate) use internal::InternalText;
pub(crate) use jwt::{JwtText, RemoteKeysText};
pub(crate) use limit::LimitText;
pub(crate) use list::ListText;
pub(crate) use listener::ListenerText;
pub(crate) use matching::ValueRule;
pub(crate) use mirror::MirrorText;
pub(crate) use proxy_protocol::ProxyProtocolText;
pub(crate) use route::{
    HeaderChangesText, RedirectText, RegexReplacement, RespondText, RouteText, SplitText, is_host_with_port,
};
pub(crate) use routes_from::RoutesFromText;
pub(crate) use store::{StorePasswordText, StoreText};
pub(crate) use tls::{CertificateText, ListenerTlsText, TlsChoice};
pub(crate) use traces::TracesText;
pub(crate) use upstream::{ServerMode, ServerTable, ServerText, UpstreamText};
pub(crate) use upstream_tls::{TlsServerName, UpstreamTlsText};
