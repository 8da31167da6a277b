//! `[[listener.NAME.route]]` in the text.

use ipnet::IpNet;
use weir_traffic::route::{HostPattern, MethodMatch};

use super::access_log::RouteAccessLogText;
use super::cache::RouteCacheChoice;
use super::compression::CompressionSwitch;
use super::cors::CorsText;
use super::error_page::ErrorPagesText;
use super::expires::ExpiresText;
use super::fastcgi::FastcgiText;
use super::files::FilesText;
use super::header_rules::HeadersText;
use super::hsts::HstsText;
use super::matching::{ExactPath, PathBeginning, PathPrefix, RegexPattern, ValueRule};
use super::mirror::MirrorText;
use super::redirect_target::RedirectTarget;
use super::rewrite::RewriteText;
use super::rewriting::{BodyRewriteText, CookieRuleText, LocationRuleText};
use crate::config::{
    AccelField, ForwardHost, QueuePriority, REFUSAL_STATUSES, RequestBuffering, ResponseBuffering,
    RouteTimeouts, Satisfy,
};
use crate::key::{Map, NonEmpty, OneOrMany, Spanned, SpannedTable, TextFormat, section, text_values};
use crate::text::admission::basic::BasicText;
use crate::text::admission::forward_auth::ForwardAuthText;
use crate::text::admission::jwt::JwtText;
use crate::value::{
    HeaderTemplate, HeaderValue, Size, Template, Token, ValueError, WhenCondition, ascii_help,
};

section! {
    /// A rule: the requests that it matches, and its action. A request takes the most specific matching route, regardless of the order (but see
    /// `route_order` of the listener):
    /// host (exact, then the longest wildcard, then any), path (exact, then regular expression, then the longest prefix, then any; a longest prefix with
    /// `before_regex` goes before regular expressions), a rule
    /// on the method, more rules on headers, more on the query, the longest network of `source`, a condition (`when`), the higher `priority`. Two
    /// routes that are equal in all of this and can match the same request are an error, unless their conditions differ: then the first that
    /// holds counts.
    #[derive(Debug, Clone)]
    pub(crate) struct RouteText at "listener.NAME.route" {
        /// Blocks whose keys hold here where they are not set beside it.
        r#use: OneOrMany<Box<str>> = optional, like "nginx `include` (of a part), HAProxy `defaults NAME`, `from`";
        /// The name in logs and metrics. Without it, host and path.
        name: Spanned<Box<str>> = optional;
        /// One of these hosts.
        host: OneOrMany<HostPattern> = optional, like "nginx `server_name`, HAProxy `hdr(host)`";
        /// This path and everything below it.
        path: Spanned<PathPrefix> = optional, like "nginx `location /path/`";
        /// Every path whose text begins so, `/apix` for `/api` included; as specific as `path`, which goes before where both have the same text.
        path_begins: Spanned<PathBeginning> = optional, like "nginx `location /path`, HAProxy `path_beg`, Traefik `PathPrefix`";
        /// This path only.
        path_exact: ExactPath = optional, like "nginx `location =`, HAProxy `path`";
        /// Every path that contains a match.
        path_regex: RegexPattern = optional, like "nginx `location ~`, HAProxy `path_reg`";
        /// Whether `path` or `path_begins` goes before every `path_regex` of its host, where it is the longest prefix that matches.
        before_regex: bool = false, like "nginx `location ^~`";
        /// One of these methods.
        method: OneOrMany<MethodMatch> = optional, like "HAProxy `method`";
        /// All of these headers: a table of names and rules. Of a header in several lines, one that matches is enough.
        header: Map<ValueRule> = {}, like "HAProxy `req.hdr`";
        /// All of these query parameters: a table of names and rules. Names and values are compared once percent-encoding and `+` are
        /// decoded; of several with one name, one that matches is enough.
        query: Map<ValueRule> = {}, like "HAProxy `url_param`";
        /// One of these server names, as sent by a TLS client (SNI, RFC 6066 section 3): only with `protocol = "tcp"`, whether TLS passes
        /// through to the server or ends at the listener (`tls`).
        sni: OneOrMany<HostPattern> = optional, like "nginx `ssl_preread`, HAProxy `req.ssl_sni`, Traefik `HostSNI`";
        /// Whether TLS passes through to the server undisturbed although the listener has `tls`: with `protocol = "tcp"`, so that one port
        /// serves names whose TLS ends here and names whose TLS ends at their servers.
        tls_passthrough: bool = false, like "Traefik `tls.passthrough` (of a TCP router)";
        /// A client in one of these networks.
        source: OneOrMany<IpNet> = optional, like "HAProxy `src`";
        /// A condition on the request, its connection and its client: see [Conditions](#conditions).
        when: Spanned<WhenCondition> = optional, like "nginx `if`, HAProxy `acl`, Envoy `match` (CEL)";
        /// Decides between routes that are otherwise equally specific; the higher value wins.
        priority: u32 = 0, in 0..=1_000_000;

        /// Whether only requests that come from inside of the listener take this route: by `rewrite`, `then`, `try_files` or `error_pages`. A client that asks for
        /// it is answered 404. Without anything that it matches by, it is reached by its `name` alone.
        internal: bool = false, like "nginx `internal`, `location @name`";
        /// Rewrites of path and query before anything else on the route. Unless one says `break` or redirects, a request that any has changed takes the
        /// route that its new path has.
        rewrite: Vec<SpannedTable<RewriteText>> = [], like "nginx `rewrite`, Apache httpd `RewriteRule`";

        /// Action: the request takes the route of this `name`, as if it had matched that. All but what this route matches by, and its `rewrite`, is
        /// that of the other one.
        then: Spanned<Box<str>> = optional, like "nginx `try_files /dev/null @name`, HAProxy `use_backend`, Caddy `invoke`";
        /// Action: the request goes to a server of this upstream.
        upstream: Spanned<Box<str>> = optional, like "nginx `proxy_pass`, HAProxy `use_backend`";
        /// Action: the request goes to one of these upstreams, chosen at random by weight, or by `split_by`.
        split: NonEmpty<SpannedTable<SplitText>> = optional, like "nginx `split_clients`, Envoy `weighted_clusters`";
        /// Chooses the target of `split` by its name instead of at random: a text with placeholders, such as `"{map.backend}"` or `"{header.x-tenant}"`, whose
        /// value is the name of the upstream. Requests go to the upstreams that `split` names and to no others, whatever the value is. For any other value, the
        /// target with `respond` has the request; without one it is answered 502 (`unknown-upstream`).
        split_by: Spanned<Template> = optional, like "nginx `proxy_pass http://$upstream`, HAProxy `use_backend %[...]`, Envoy `cluster_header`";
        /// Action: the response is a redirect.
        redirect: SpannedTable<RedirectText> = optional, like "nginx `return 308`, HAProxy `http-request redirect`";
        /// Action: the response comes from the config.
        respond: SpannedTable<RespondText> = optional, like "nginx `return 200`, HAProxy `http-request return`";
        /// Action: the response is a file of a folder; with `upstream` beside it, requests for which there is none go there.
        files: SpannedTable<FilesText> = optional, like "nginx `root`, Caddy `file_server`, Apache httpd `DocumentRoot`";

        /// How requests go to an upstream with `protocol = "fastcgi"`.
        fastcgi: SpannedTable<FastcgiText> = optional, like "nginx `fastcgi_param`, HAProxy `fcgi-app`, Caddy `php_fastcgi`";
        /// Whether `path` is removed before the request goes to the server: with `path = "/api"`, `/api/x` becomes `/x`.
        strip_prefix: bool = false, like "Traefik `StripPrefix`";
        /// The replacement of `path`: with `path = "/api"` and `"/v2"`, `/api/x` becomes `/v2/x`.
        replace_prefix: PathPrefix = optional, like "nginx `proxy_pass` with a path, HAProxy `http-request replace-path`";
        /// Replaces the first match in the path.
        replace_regex: SpannedTable<RegexReplacement> = optional, like "nginx `rewrite`, HAProxy `http-request replace-path`";
        /// Access lists of the route: one name of `[list.NAME]` or several. Those of the listener apply as well.
        lists: OneOrMany<Spanned<Box<str>>> = optional;
        /// Limits on requests of the route: one name of `[limit.NAME]` or several. Those of the listener apply as well.
        limited_by: OneOrMany<Spanned<Box<str>>> = optional, like "nginx `limit_req`, Envoy `rate_limits`";
        /// The status of requests of this route that a limit refuses, whichever it is. Without it, that of the limit.
        limit_status: u16 = optional, in REFUSAL_STATUSES, like "nginx `limit_req_status`, `limit_conn_status` (of a `location`)";
        /// Tables that count the requests of the route: one name of `[table.NAME]` or several. Those of the listener do as well.
        track: OneOrMany<Spanned<Box<str>>> = optional, like "HAProxy `http-request track-sc0`";
        /// Variables: names of your own for texts with [placeholders](#placeholders), as `{vars.NAME}` on this route; in place of those of the
        /// listener of the same name.
        vars: Map<Spanned<Template>> = {}, like "nginx `set`, HAProxy `http-request set-var`";
        /// Changes to the headers of the request to the server.
        request_headers: HeadersText = {}, like "nginx `proxy_set_header`, HAProxy `http-request set-header`";
        /// Changes to the headers of the response to the client.
        response_headers: HeadersText = {}, like "nginx `add_header`, HAProxy `http-response set-header`";
        /// How long clients may keep responses (`Cache-Control` and `Expires`): a time for all, such as `"1h"`; a table of media types, such as
        /// `{ "text/html" = "epoch", "image/*" = "30d", default = "1h" }`; or a list of rules. See [Expiry](#expiry).
        expires: ExpiresText = optional, like "nginx `expires`, Apache httpd `ExpiresActive`, `ExpiresByType`";
        /// `Strict-Transport-Security` (RFC 6797), in place of that of the listener: for a host of its own. Needs `tls` of the listener.
        hsts: SpannedTable<HstsText> = optional, like "nginx `add_header Strict-Transport-Security`, Traefik `stsSeconds`";
        /// What scripts of other origins may do in a browser.
        cors: SpannedTable<CorsText> = optional;
        /// HTTP Basic authentication. Requests without valid credentials are answered 401.
        basic: SpannedTable<BasicText> = optional, like "nginx `auth_basic`, HAProxy `http-request auth`, Traefik `basicAuth`";
        /// A signed token: requests without one are answered 401.
        jwt: SpannedTable<JwtText> = optional, like "nginx `auth_jwt`, HAProxy `jwt_verify`, Envoy `jwt_authn`";
        /// Another upstream decides about each request.
        forward_auth: SpannedTable<ForwardAuthText> = optional, like "nginx `auth_request`, Traefik `forwardAuth`, Envoy `ext_authz`";
        /// What a request has to satisfy that comes under `lists` and under authentication. With `"any"`, it passes if a list with
        /// `action = "allow"` has it, without authentication, or else if `basic`, `jwt` or `forward_auth` admits it, though a list refuses its address.
        /// Lists by the user are asked in any case.
        satisfy: Satisfy = "all", like "nginx `satisfy`, Apache httpd `RequireAny`";
        /// Responses are stored and used again: the name of a cache, or a table.
        cache: RouteCacheChoice = optional, like "nginx `proxy_cache`, HAProxy `http-request cache-use`";
        /// How many ranges a request may ask for of a file or of a stored response; one with more gets the whole. 0: there are no ranges, and
        /// `Accept-Ranges` is not sent. Requests that go to a server as they are have the answer of that server.
        max_ranges: u32 = 32, in 0..=1000, like "nginx `max_ranges`, Apache httpd `MaxRanges`";
        /// Compression of responses: `true` with the defaults, `false`, or a table. Without it, that of the listener.
        compression: CompressionSwitch = optional, like "nginx `gzip`, HAProxy `filter compression`, Traefik `compress`, Envoy `compressor`";
        /// Rewriting of the bodies of responses, in place of that of the listener.
        rewrite_body: SpannedTable<BodyRewriteText> = optional, like "nginx `sub_filter`, Apache httpd `mod_substitute`";
        /// Rewriting of URLs in `Location` and `Refresh` of servers, in place of that of the listener: the first rule that is for a URL counts.
        rewrite_location: Vec<SpannedTable<LocationRuleText>> = optional, like "nginx `proxy_redirect`, Apache httpd `ProxyPassReverse`";
        /// Changes of cookies that servers set, in place of those of the listener.
        rewrite_cookies: Vec<SpannedTable<CookieRuleText>> = optional, like "nginx `proxy_cookie_domain` `proxy_cookie_path` `proxy_cookie_flags`";
        /// Which fields by which a server asks the proxy in front of it for something count: `"redirect"` (`X-Accel-Redirect`), `"expires"`, `"buffering"`,
        /// `"limit_rate"`. No client ever gets any of them, whether they count or not, but with `["pass"]`: see [What servers ask for](x-accel.md).
        x_accel: Vec<AccelField> = [], like "nginx `proxy_ignore_headers`, `proxy_pass_header`";
        /// The `name` of a route with `files`: a server may answer with a file below its folder by naming the absolute path in `X-Sendfile`.
        x_sendfile: Spanned<Box<str>> = optional, like "Apache httpd `XSendFile`, `XSendFilePath`, lighttpd `x-sendfile-docroot`";
        /// Pages in place of Weir's own; the first that is for the status counts.
        error_pages: ErrorPagesText = optional, like "nginx `error_page`, Traefik `errors`, Caddy `handle_errors`";
        /// The `Host` of the request to the server.
        forward_host: ForwardHost = "keep", like "nginx `proxy_set_header Host`, Apache httpd `ProxyPreserveHost`";
        /// Whether servers get the header fields that the client has sent. With `false`, a request has those of Weir and of `request_headers` alone, and
        /// `Host` by `forward_host`.
        forward_headers: bool = true, like "nginx `proxy_pass_request_headers`, `fastcgi_pass_request_headers`";
        /// Copies of requests for another upstream, whose responses no client gets.
        mirror: OneOrMany<SpannedTable<MirrorText>> = optional, like "nginx `mirror`, Envoy `request_mirror_policies`, Traefik `mirroring`";
        /// Request buffering: the whole body is received before a server is chosen, so slow clients do not occupy servers.
        buffer_requests: SpannedTable<RequestBuffering> = optional, like "nginx `proxy_request_buffering`, HAProxy `option http-buffer-request`, Traefik `buffering`";
        /// Response buffering: the response is received as fast as the server sends it, so slow clients do not occupy servers.
        buffer_responses: SpannedTable<ResponseBuffering> = optional, like "nginx `proxy_buffering`";
        /// The priority in the queue of the upstream when its servers are all full.
        queue_priority: QueuePriority = "normal", like "HAProxy `http-request set-priority-class`";
        /// Whether `CONNECT` is forwarded (RFC 9110 section 9.3.6); otherwise it is answered 501.
        allow_connect: bool = false;
        /// Whether calls of gRPC-Web are translated to gRPC, which their servers then need not know. The upstream needs HTTP/2 (`protocol`).
        grpc_web: bool = false, like "Envoy `envoy.filters.http.grpc_web`, Traefik `grpcWeb`";
        /// Protocols that a client may upgrade to. For any other, the request is forwarded without its `Upgrade`.
        upgrades: Vec<Spanned<Token>> = ["websocket"];
        /// Whether requests have a line in the access log of the listener (failures have one all the same); or a table: an access log of its
        /// own, in place of that of the listener. It needs a `format`.
        access_log: RouteAccessLogText = true, like "nginx `access_log`, `access_log off`, HAProxy `http-request set-log-level silent`, Traefik `observability.accessLogs`";
        /// Time limits of the exchange.
        timeouts: SpannedTable<RouteTimeouts> = {};
        /// Limits on the request.
        limits: RouteLimits = {};
    }
}

section! {
    /// Limits on the requests of a route.
    #[derive(Debug, Clone)]
    pub(crate) struct RouteLimits at "listener.NAME.route.limits" {
        /// The request body; a larger one is answered 413. Without it, the listener's limit.
        body_size: Option<Size> = optional, like "nginx `client_max_body_size`";
    }
}

section! {
    /// A target of a split.
    #[derive(Debug, Clone)]
    pub(crate) struct SplitText at "listener.NAME.route.split" {
        /// The upstream.
        upstream: Spanned<Box<str>> = optional;
        /// In place of an upstream: the status with which Weir answers these requests itself.
        respond: u16 = optional, in 200..=599;
        /// The share of the requests, relative to the sum of all weights. Required, unless there is `split_by`.
        weight: u32 = optional, in 0..=1_000_000;
        /// Changes to the headers of these requests to the server, after those of the route.
        request_headers: HeadersText = {}, like "Envoy `weighted_clusters.clusters.request_headers_to_add`";
        /// Changes to the headers of the responses to the client, after those of the route.
        response_headers: HeadersText = {}, like "Envoy `weighted_clusters.clusters.response_headers_to_add`";
        /// The `Host` of these requests to the server. Without it, that of the route.
        forward_host: ForwardHost = optional, like "Envoy `weighted_clusters.clusters.host_rewrite_literal`";
        /// Copies of these requests for another upstream, beside those that the route makes.
        mirror: OneOrMany<SpannedTable<MirrorText>> = optional;
    }
}

section! {
    /// A redirect to another URL.
    #[derive(Debug, Clone)]
    pub(crate) struct RedirectText at "listener.NAME.route.redirect" {
        /// The target; where its placeholders come to nothing at all, the request is answered 404. `{path}` is the path as `strip_prefix`, `replace_prefix` or `replace_regex` of the route leave it.
        to: Spanned<RedirectTarget> = required;
        /// 301, 302, 303, 307 or 308. With 307 and 308 the method stays the same; 301 and 308 are cached by clients permanently.
        status: u16 = 308, in 301..=308;
    }
}

section! {
    /// A response from the config.
    #[derive(Debug, Clone)]
    pub(crate) struct RespondText at "listener.NAME.route.respond" {
        /// The status code.
        status: u16 = 200, in 200..=599;
        /// The body, with [placeholders](#placeholders), whose values are escaped where the type is HTML or JSON; braces around anything else
        /// are text, and so are braces behind a `$`.
        body: Box<str> = "";
        /// The `Content-Type` of a body that is not empty.
        content_type: HeaderValue = "text/plain; charset=utf-8";
        /// Further headers.
        headers: Map<HeaderTemplate> = {};
    }
}

section! {
    /// A replacement in the path: of the first match of `pattern`; without a match the path stays unchanged.
    #[derive(Debug, Clone)]
    pub(crate) struct RegexReplacement at "listener.NAME.route.replace_regex" {
        /// The pattern to replace.
        pattern: RegexPattern = required;
        /// The replacement. `$1` and `$name` refer to groups of the pattern. As `${...}` is an environment variable, a group in braces is
        /// written `$${1}`. A `?` begins a query, to which that of the request is appended.
        replacement: Spanned<Box<str>> = required;
    }
}

text_values! {
    ForwardHost, parse_forward_host, print_forward_host, TextFormat {
        name: "forwarded host",
        article: "`\"keep\"`, `\"server\"` or a host",
        examples: &["keep", "server", "app.internal"],
        pattern: r"^[A-Za-z0-9._:\[\]-]+$",
        about: "`keep` is the host that the client sent, `server` the address of the server as the config has it, anything else is sent as it \
                stands.",
    };
}

fn parse_forward_host(text: &str) -> Result<ForwardHost, ValueError> {
    match text {
        "keep" => Ok(ForwardHost::Keep),
        "server" => Ok(ForwardHost::Server),
        _ => {
            if is_host_with_port(text) {
                return Ok(ForwardHost::Literal(text.into()));
            }
            Err(ValueError::new(format!("`{text}` is not a host"))
                .help("write `keep`, `server`, or a host with or without port")
                .help_if(ascii_help(text)))
        }
    }
}

/// Whether a text is a host, with or without a port, as in `Host`.
pub(crate) fn is_host_with_port(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port_is_valid = port.is_none_or(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'));
    port_is_valid && !host.contains('*') && HostPattern::parse(host).is_ok()
}

fn print_forward_host(host: &ForwardHost) -> String {
    match host {
        ForwardHost::Keep => "keep".to_owned(),
        ForwardHost::Server => "server".to_owned(),
        ForwardHost::Literal(host) => host.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_hosts_are_read_and_printed() {
        for text in ["keep", "server", "app.internal", "app.internal:8080", "[::1]", "[::1]:80"] {
            assert_eq!(print_forward_host(&parse_forward_host(text).unwrap()), text);
        }
        for text in ["", "*.a", "a b", "a:b", "a:99999", "a\r\n"] {
            assert!(parse_forward_host(text).is_err(), "{text:?}");
        }
    }
}
