//! The table of annotations, in the order of the documentation.

use super::{IngressAnnotation, access, canary, limits, messages, paths, servers};

/// All of its rows.
pub(crate) fn table() -> impl Iterator<Item = &'static IngressAnnotation> {
    let groups = [
        paths::ROWS,
        access::ROWS,
        limits::ROWS,
        servers::ROWS,
        messages::ROWS,
        canary::ROWS,
        REFUSED,
        LEFT_OUT,
    ];
    groups.into_iter().flatten()
}

const SNIPPET: &str = "Weir has no configuration of nginx, and a snippet may deny access; use another annotation, or a config of Weir";

const WAF: &str = "Weir has no web application firewall; put one behind or in front of it";

const CLIENT_CERTIFICATES: &str = "certificates of clients are asked for by port, not by host: use a Gateway with \
     `tls.frontend`, or `listener.NAME.tls.client_certificates`";

const SHARED_LIMIT: &str =
    "limits of an Ingress are those of each process; `limit.NAME.shared` of a config is for several";

/// What would be unsafe, or do something else, without it.
const REFUSED: &[IngressAnnotation] = &[
    IngressAnnotation::refused("configuration-snippet", "directives of nginx for each location", SNIPPET),
    IngressAnnotation::refused("server-snippet", "directives of nginx for the server", SNIPPET),
    IngressAnnotation::refused("stream-snippet", "directives of nginx for TCP", SNIPPET),
    IngressAnnotation::refused("auth-snippet", "directives of nginx for `auth-url`", SNIPPET),
    IngressAnnotation::refused("modsecurity-snippet", "rules of ModSecurity", WAF),
    IngressAnnotation::refused("enable-modsecurity", "whether ModSecurity looks at requests", WAF),
    IngressAnnotation::refused("enable-owasp-core-rules", "whether the OWASP core rules apply", WAF),
    IngressAnnotation::refused(
        "auth-tls-secret",
        "the authority of the certificates of clients",
        CLIENT_CERTIFICATES,
    ),
    IngressAnnotation::refused(
        "auth-tls-verify-client",
        "whether clients need a certificate",
        CLIENT_CERTIFICATES,
    ),
    IngressAnnotation::refused(
        "auth-tls-match-cn",
        "the name in the certificate of a client",
        CLIENT_CERTIFICATES,
    ),
    IngressAnnotation::refused(
        "ssl-passthrough",
        "TLS passes to the servers as it is",
        "port 443 ends TLS for all hosts: use a Gateway with a TLSRoute",
    ),
    IngressAnnotation::refused("global-rate-limit", "requests for all replicas together", SHARED_LIMIT),
    IngressAnnotation::refused("global-rate-limit-window", "the time of `global-rate-limit`", SHARED_LIMIT),
    IngressAnnotation::refused("global-rate-limit-key", "what `global-rate-limit` counts by", SHARED_LIMIT),
    IngressAnnotation::refused(
        "global-rate-limit-ignored-cidrs",
        "networks without that limit",
        SHARED_LIMIT,
    ),
];

/// What an Ingress is served without.
const LEFT_OUT: &[IngressAnnotation] = &[
    IngressAnnotation::left_out(
        "auth-tls-verify-depth",
        "the length of chains of certificates of clients",
        "it says something about `auth-tls-secret` alone",
    ),
    IngressAnnotation::left_out(
        "auth-tls-error-page",
        "where clients without a certificate are sent",
        "it says something about `auth-tls-secret` alone",
    ),
    IngressAnnotation::left_out(
        "auth-tls-pass-certificate-to-upstream",
        "whether servers get the certificate of a client",
        "it says something about `auth-tls-secret` alone",
    ),
    IngressAnnotation::left_out(
        "custom-http-errors",
        "statuses whose pages come from the default backend",
        "`error_pages` of a config, which Ingresses cannot set",
    ),
    IngressAnnotation::left_out(
        "default-backend",
        "the Service for requests without a server",
        "`error_pages` of a config, which Ingresses cannot set",
    ),
    IngressAnnotation::left_out(
        "disable-proxy-intercept-errors",
        "see `custom-http-errors`",
        "see `custom-http-errors`",
    ),
    IngressAnnotation::left_out(
        "service-upstream",
        "requests go to the address of the Service",
        "requests go to the endpoints of a Service, in any case",
    ),
    IngressAnnotation::left_out(
        "ssl-ciphers",
        "cipher suites of a host",
        "`cipher_suites` belongs to a listener, not to a host",
    ),
    IngressAnnotation::needless(
        "ssl-prefer-server-ciphers",
        "the order of the cipher suites",
        "the order of the server counts",
    ),
    IngressAnnotation::left_out(
        "proxy-cookie-domain",
        "another `Domain` in cookies",
        "`Set-Cookie` is forwarded as it is: have the application set it",
    ),
    IngressAnnotation::left_out(
        "proxy-cookie-path",
        "another `Path` in cookies",
        "`Set-Cookie` is forwarded as it is: have the application set it",
    ),
    IngressAnnotation::left_out(
        "proxy-redirect-from",
        "what is replaced in `Location`",
        "`Location` is forwarded as it is: servers get the host of the client",
    ),
    IngressAnnotation::left_out("proxy-redirect-to", "by what it is replaced", "see `proxy-redirect-from`"),
    IngressAnnotation::left_out(
        "fastcgi-index",
        "the index of FastCGI",
        "servers of FastCGI are for a config: `upstream.NAME.protocol`",
    ),
    IngressAnnotation::left_out(
        "fastcgi-params-configmap",
        "parameters of FastCGI",
        "servers of FastCGI are for a config: `upstream.NAME.protocol`",
    ),
    IngressAnnotation::left_out(
        "enable-opentracing",
        "traces by OpenTracing",
        "`traces` of the config, for all routes",
    ),
    IngressAnnotation::left_out(
        "opentracing-trust-incoming-span",
        "whether spans of clients count",
        "`traces` of the config, for all routes",
    ),
    IngressAnnotation::left_out(
        "enable-opentelemetry",
        "traces by OpenTelemetry",
        "`traces` of the config, for all routes",
    ),
    IngressAnnotation::left_out(
        "opentelemetry-trust-incoming-span",
        "whether spans of clients count",
        "`traces` of the config, for all routes",
    ),
    IngressAnnotation::left_out(
        "opentelemetry-operation-name",
        "the name of spans",
        "spans have the name of the route",
    ),
    IngressAnnotation::left_out(
        "enable-rewrite-log",
        "rewrites in the log",
        "`weir why ID` shows the rewrite of a request",
    ),
    IngressAnnotation::left_out(
        "modsecurity-transaction-id",
        "the id of ModSecurity",
        "it says something about `enable-modsecurity` alone",
    ),
];
