//! `[listener.NAME]` in the text.

use std::sync::Arc;
use std::time::Duration;

use super::routing::error_page::ErrorPagesText;
use super::{
    BodyRewriteText, CompressionSwitch, CookieRuleText, HeadersText, HstsText, LocationRuleText,
    ProxyProtocolText, RewriteText, RouteText, TlsChoice, TrustedPeersText,
};
use crate::config::{
    AccessLog, ClientAddressHeader, ForwardedHeaders, HeaderChanges, Leniency, ListenerHttp2, ListenerHttp3,
    ListenerLimits, ListenerParts, ListenerProtocol, ListenerTimeouts, PathSettings, RequestId, Route,
    RouteOrder, TrustedProxies,
};
use crate::key::{Map, OneOrMany, Spanned, SpannedTable, section};
use crate::value::{ListenAddress, RequestFrequency, Template};

section! {
    /// Where clients connect, what they may send, and the routes of their requests.
    #[derive(Debug, Clone)]
    pub(crate) struct ListenerText at "listener.NAME" {
        /// Blocks whose keys hold here where they are not set beside it.
        r#use: OneOrMany<Box<str>> = optional, like "nginx `include` (of a part), HAProxy `defaults NAME`, `from`";
        /// The addresses on which it accepts connections: one or a list. An address may be more specific than another one, as
        /// `127.0.0.1:80` is than `:80`: then it gets the connections to it, and the other one the rest.
        address: OneOrMany<Spanned<ListenAddress>> = required, like "nginx `listen`, HAProxy `bind`";
        /// What clients speak. With `"tcp"`, each connection is forwarded to a server as it is, and counts there as one request for its
        /// whole duration.
        protocol: ListenerProtocol = "http", like "HAProxy `mode`, nginx `stream`";
        /// The upstream of all requests: short for a single route that matches everything.
        upstream: Spanned<Box<str>> = optional, like "nginx `proxy_pass`, HAProxy `default_backend`";
        /// The rules that choose an upstream or another action, written as `[[listener.NAME.route]]`. The most specific match wins,
        /// regardless of the order.
        route: Vec<SpannedTable<RouteText>> = [], like "nginx `location`, HAProxy `use_backend`";
        /// Connections that the kernel queues until a worker accepts them, per worker and address. The kernel caps it at
        /// `net.core.somaxconn`. The default is the maximum, since a full backlog costs a client seconds.
        backlog: u32 = 65_535, in 1..=65_535, like "nginx `listen backlog=`, HAProxy `backlog`";
        /// Whether small writes are sent at once (`TCP_NODELAY`).
        tcp_nodelay: bool = true, like "nginx `tcp_nodelay`";
        /// Silence after which the kernel probes the connection (`SO_KEEPALIVE`), in whole seconds.
        tcp_keepalive: Option<Duration> = "60s", in 1000..=32_767_000,
            like "nginx `listen so_keepalive=`, HAProxy `option clitcpka`";
        /// How long the kernel holds a connection until its first byte arrives (`TCP_DEFER_ACCEPT`), in whole seconds. Off: a connection is
        /// accepted at once.
        defer_accept: Option<Duration> = "off", in 1000..=60_000, like "nginx `listen deferred`, HAProxy `bind defer-accept`";
        /// The length of the kernel's queue of connections whose request came with the first packet (`TCP_FASTOPEN`). The kernel has to
        /// permit it (`net.ipv4.tcp_fastopen` with bit 2 set); if it does not, Weir logs that at start and continues without.
        fast_open: Option<u32> = "off", in 1..=65_535, like "nginx `listen fastopen=`, HAProxy `bind tfo`";
        /// The maximum number of client connections of this listener; further ones wait in the backlog. `connections_max` of the process
        /// applies as well.
        connections_max: Option<u32> = "off", in 1..=100_000_000, like "HAProxy `maxconn` (in `frontend`)";
        /// The maximum number of connections from one client: an IPv4 address or an IPv6 network of 64 bits. Connections from
        /// `trusted_proxies` do not count, since they carry many clients. Off by default, since a whole office may share one address.
        connections_per_client_max: Option<u32> = "off", in 1..=100_000_000, like "nginx `limit_conn`, HAProxy `src_conn_cur`";
        /// New connections that one client may open in a time, as many at once after a pause: an IPv4 address or an IPv6 network of 64 bits.
        /// Further ones are closed as soon as they are accepted. Connections from `trusted_proxies` do not count.
        connections_per_client_rate: Option<Spanned<RequestFrequency>> = "off", like "HAProxy `src_conn_rate`";
        /// Lists of networks, by their names in `[list.NAME]`, whose clients `connections_per_client_max` and `connections_per_client_rate` do
        /// not hold for. That is decided as a connection is accepted, and behind a PROXY header by the client that it names.
        connections_exempt: OneOrMany<Spanned<Box<str>>> = optional, like "nginx `limit_conn` with an empty key of `geo`, HAProxy `tcp-request connection accept if`";
        /// Lists of clients and other keys that requests are looked up in, by their names in `[list.NAME]`: one or a list.
        lists: OneOrMany<Spanned<Box<str>>> = optional, like "nginx `allow`, `deny`; HAProxy `http-request deny`";
        /// Limits on all of its requests, by their names in `[limit.NAME]`: one or a list. Requests that no route takes count as well.
        limited_by: OneOrMany<Spanned<Box<str>>> = optional, like "nginx `limit_req`, HAProxy `http-request track-sc0`";
        /// Tables that count all of its requests, or its connections of TCP: one name of `[table.NAME]` or several. Requests that no route takes count as well.
        track: OneOrMany<Spanned<Box<str>>> = optional, like "HAProxy `tcp-request content track-sc0`";
        /// Whether a request is cancelled when its client closes the connection or its half of it (FIN, `close_notify`) before the response
        /// has begun: it leaves the queue, or its server connection is closed; the log says 499. With `false`, clients that half-close on
        /// purpose (`nc -N`, some scripts) get their response, but requests of clients that have disconnected are still served.
        abort_on_close: bool = true, like "nginx `proxy_ignore_client_abort`, HAProxy `option abortonclose`";
        /// Variables: names of your own for texts with [placeholders](#placeholders), as `{vars.NAME}` on all routes. Those of a route of the same
        /// name come in their place.
        vars: Map<Spanned<Template>> = {}, like "nginx `set`, HAProxy `http-request set-var`";
        /// TLS with the clients.
        tls: TlsChoice = optional, like "nginx `listen ssl`, HAProxy `bind ssl`";
        /// Which of several routes that match takes a request.
        route_order: RouteOrder = "most-specific", like "nginx `location`; HAProxy `use_backend`, Caddy `route`";
        /// Rewrites of path and query of every request, before its route is looked for. `last` and `break` both end the list.
        rewrite: Vec<SpannedTable<RewriteText>> = [], like "nginx `rewrite` (in `server`), HAProxy `http-request set-path`";
        /// Time limits on the client side.
        timeouts: SpannedTable<ListenerTimeouts> = {};
        /// Limits on requests.
        limits: SpannedTable<ListenerLimits> = {};
        /// HTTP/2 with the clients.
        http2: ListenerHttp2 = {};
        /// HTTP/3 with the clients, beside TLS on the same ports.
        http3: SpannedTable<ListenerHttp3> = optional, like "nginx `listen quic`, HAProxy `bind quic4@`, Caddy `protocols h3`";
        /// Rules of HTTP/1 that legacy clients may break.
        lenient: Leniency = {};
        /// The form in which rules and servers see a path.
        paths: PathSettings = {};
        /// Peers whose `X-Forwarded-*`, `Forwarded` and `X-Real-Ip` headers are trusted and extended; those of other peers, of any name that
        /// begins with `X-Forwarded-`, are dropped or replaced. Networks, addresses, `"list.NAME"` for the networks of a list, and `"unix"` for
        /// every peer on a Unix socket.
        trusted_proxies: TrustedPeersText = [], like "nginx `set_real_ip_from`";
        /// The header in which `trusted_proxies` name the client: `x-forwarded-for` or `forwarded`, which are read from the back up to the first
        /// address that is not trusted; another one, such as `x-real-ip`, `cf-connecting-ip` or `true-client-ip`, which has one address; or
        /// `off`: the peer is the client. A request whose header cannot be read, or comes in several lines where it has one address, is answered
        /// 400. No other peer can send a header that is named here on any listener.
        client_address_header: ClientAddressHeader = "x-forwarded-for", like "nginx `real_ip_header`, HAProxy `http-request set-src`, Caddy `client_ip_headers`, Traefik `ipStrategy`";
        /// Whether `x-forwarded-for` and `forwarded` are read from the back beyond addresses that are trusted themselves. With `false`, the client is the
        /// last address, whatever it is: that of the peer of the proxy in front, for one proxy and no more.
        client_address_recursive: bool = true, like "nginx `real_ip_recursive` (off by default there)";
        /// Balancers in front that send PROXY protocol headers.
        proxy_protocol: SpannedTable<ProxyProtocolText> = optional, like "nginx `listen proxy_protocol`, HAProxy `bind accept-proxy`";
        /// Headers that describe the client to servers.
        forwarded: ForwardedHeaders = {};
        /// The id of a request, in logs and headers.
        request_id: SpannedTable<RequestId> = {};
        /// Changes to the headers of requests to servers, on all routes; those of a route are applied after them.
        request_headers: HeadersText = {}, like "nginx `proxy_set_header`, HAProxy `http-request set-header`";
        /// Changes to the headers of responses, on all routes; those of a route are applied after them. Responses that Weir generates have
        /// them as well.
        response_headers: HeadersText = {}, like "nginx `add_header ... always`, HAProxy `http-after-response set-header`";
        /// `Strict-Transport-Security` (RFC 6797), on all routes that have none of their own: browsers use TLS for this host from then on,
        /// whatever link they follow. Needs `tls`.
        hsts: SpannedTable<HstsText> = optional, like "Traefik `stsSeconds`";
        /// Compression of responses, on all routes that have no `compression` of their own: `true` with the defaults, `false`, or a table. Off
        /// by default: a page that shows a secret beside text of the request can be read through TLS when it is compressed (BREACH).
        compression: CompressionSwitch = false, like "nginx `gzip`, HAProxy `filter compression`, Traefik `compress`, Envoy `compressor`";
        /// Rewriting of the bodies of responses, on all routes that have no `rewrite_body` of their own.
        rewrite_body: SpannedTable<BodyRewriteText> = optional, like "nginx `sub_filter`, Apache httpd `mod_substitute`";
        /// Rewriting of URLs in `Location` and `Refresh` of servers, on all routes that have no `rewrite_location` of their own: the first rule that is for a URL counts.
        rewrite_location: Vec<SpannedTable<LocationRuleText>> = [], like "nginx `proxy_redirect`, Apache httpd `ProxyPassReverse`";
        /// Whether a redirect to a path names the host that the client has asked for, with scheme and port: those of Weir itself, of files and of pages,
        /// and the `Location` of a server that a rule of `rewrite_location` has made a path. `Refresh` stays as it is. Without it, they are paths,
        /// which RFC 9110 section 10.2.2 allows: clients need no port or scheme that Weir cannot know behind another proxy.
        absolute_redirect: bool = false, like "nginx `absolute_redirect` (on by default there)";
        /// Changes of cookies that servers set, on all routes that have no `rewrite_cookies` of their own.
        rewrite_cookies: Vec<SpannedTable<CookieRuleText>> = [], like "nginx `proxy_cookie_domain` `proxy_cookie_path` `proxy_cookie_flags`";
        /// Pages in place of Weir's own, on all routes; those of a route come first.
        error_pages: ErrorPagesText = optional, like "nginx `error_page`, HAProxy `errorfile`";
        /// The access log of this listener, in place of the global one.
        access_log: SpannedTable<AccessLog> = optional, like "nginx `access_log`";
    }
}

impl ListenerText {
    /// The part that needs no check against anything else; name, addresses, PROXY protocol, lists, TLS and routes are left empty.
    pub(crate) fn into_listener(self, access_log: AccessLog) -> ListenerParts {
        ListenerParts {
            name: Box::default(),
            addresses: Vec::new(),
            protocol: self.protocol,
            backlog: self.backlog,
            tcp_nodelay: self.tcp_nodelay,
            tcp_keepalive: self.tcp_keepalive,
            defer_accept: self.defer_accept,
            fast_open: self.fast_open,
            connections_max: self.connections_max,
            connections_per_client_max: self.connections_per_client_max,
            connections_per_client_rate: self.connections_per_client_rate.map(|rate| rate.value),
            connections_exempt: Vec::new(),
            lists: Vec::new(),
            limited_by: Vec::new(),
            tracked: Vec::new(),
            vars: self.vars.0.into_iter().map(|(name, text)| (name.value, text.value)).collect(),
            abort_on_close: self.abort_on_close,
            route_order: self.route_order,
            rewrites: Vec::new(),
            tls: None,
            timeouts: self.timeouts.value,
            limits: self.limits.value,
            http2: self.http2,
            http3: self.http3.map(|http3| http3.value),
            lenient: self.lenient,
            paths: self.paths,
            trusted_proxies: TrustedProxies::default(),
            client_address_header: self.client_address_header,
            client_address_recursive: self.client_address_recursive,
            proxy_protocol: None,
            forwarded: self.forwarded,
            request_id: self.request_id.value,
            absolute_redirect: self.absolute_redirect,
            response_headers: HeaderChanges::default(),
            isolated_names: Vec::new(),
            forwards_encoded_slashes: false,
            error_pages: Vec::new(),
            access_log: self.access_log.map_or(access_log, |own| own.value),
            routes: Vec::new(),
        }
    }
}

impl ListenerParts {
    /// Those of a listener with the defaults of the product.
    pub fn new(name: &str, addresses: Vec<ListenAddress>, routes: Vec<Arc<Route>>) -> Self {
        Self {
            name: name.into(),
            addresses,
            routes,
            ..ListenerText::default().into_listener(AccessLog::default())
        }
    }
}
