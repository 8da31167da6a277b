//! The content of a config file, table by table, before any comparison between keys.
//!
//! These types differ from the checked ones in that references are names and alternatives are all present.

mod document;
mod listener;
mod proxy_protocol;
mod certificates;
mod traces;
mod trusted_peers;
mod upstreams;
mod routing;
mod admission;
mod condition;

pub use admission::basic::Realm;
pub(crate) use admission::basic::{BasicText, PasswordHashText};
pub(crate) use admission::forward_auth::{ForwardAuthCacheText, ForwardAuthText};
pub(crate) use admission::jwt::{JwtText, RemoteKeysText};
pub(crate) use admission::limit::LimitText;
pub(crate) use admission::list::ListText;
pub(crate) use admission::table::TableText;
pub(crate) use certificates::acme::{AcmeText, AskUrl, ExternalAccountText, URL_BYTES_MAX};
pub(crate) use certificates::client_certificates::ClientCertificatesText;
pub(crate) use certificates::dns_update::DnsUpdateText;
pub(crate) use certificates::internal::InternalText;
pub(crate) use certificates::tls::{CertificateText, ListenerTlsText, TlsChoice};
pub(crate) use condition::ConditionText;
pub(crate) use document::Document;
pub(crate) use listener::ListenerText;
pub(crate) use proxy_protocol::ProxyProtocolText;
pub(crate) use routing::access_log::RouteAccessLogText;
pub(crate) use routing::cache::{CacheText, RouteCacheText};
pub(crate) use routing::compression::CompressionSwitch;
pub(crate) use routing::cors::CorsText;
pub(crate) use routing::error_page::{ErrorPageText, ErrorPagesText, value_error};
pub(crate) use routing::expires::{ExpiresRuleText, ExpiresText};
pub(crate) use routing::fastcgi::FastcgiText;
pub(crate) use routing::files::FilesText;
pub(crate) use routing::header_rules::{HeaderChangesText, HeadersText, RuleStatus};
pub(crate) use routing::hsts::HstsText;
pub(crate) use routing::map::MapText;
pub(crate) use routing::matching::ValueRule;
pub(crate) use routing::mirror::MirrorText;
pub(crate) use routing::redirect_target::own_target_error;
pub(crate) use routing::rewrite::RewriteText;
pub(crate) use routing::rewriting::{
    AttributeText, BodyRewriteText, BodyRuleText, CookieRuleText, CookieSameSite, LocationRuleText,
};
pub(crate) use routing::route::{
    RedirectText, RegexReplacement, RespondText, RouteText, SplitText, is_host_with_port,
};
pub(crate) use traces::TracesText;
pub(crate) use trusted_peers::TrustedPeersText;
pub(crate) use upstreams::affinity::{
    AffinityMode, AffinityText, CookieSecretText, SameSiteWord, is_cookie_domain,
};
pub(crate) use upstreams::discovery::{DiscoveryText, UpstreamDiscoveryText, XdsText};
pub(crate) use upstreams::dynamic::DynamicText;
pub(crate) use upstreams::ejection::EjectionText;
pub(crate) use upstreams::health::{AgentText, HealthText, ProbeBytes, ProbeKind, ProbePreset};
pub(crate) use upstreams::routes_from::RoutesFromText;
pub(crate) use upstreams::store::{StorePasswordText, StoreText};
pub(crate) use upstreams::upstream::{
    BalanceText, HashKeyText, ServerMode, ServerTable, ServerText, UpstreamText,
};
pub(crate) use upstreams::upstream_tls::{TlsServerName, UpstreamTlsText};
