//! `[listener.NAME]`: sockets for clients, with limits and time limits.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_traffic::route::HostPattern;
use weir_traffic::route::{RouteId, RouteTable};

use super::faults::ListenerFault;
use super::{
    AccessList, AccessLog, Checked, CheckedParts, ClientAddressHeader, ErrorPage, FoundFaults, HeaderChanges,
    LimitUse, ListenerTls, RewriteRule, Route, RouteAction, TlsVersion, TrackedTable, TrustedProxies,
};
use crate::key::{choice, section};
use crate::value::{
    ByteRate, HeaderName, ListenAddress, ProgressLimit, RequestFrequency, Size, Template, WhenCondition,
};

/// One listener: its sockets, its rules for clients, its routes.
pub type Listener = Checked<ListenerParts>;

/// What makes up a [`Listener`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ListenerParts {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// Where it accepts connections; at least one, no two the same.
    pub addresses: Vec<ListenAddress>,
    /// The protocol of the clients.
    pub protocol: ListenerProtocol,
    /// Connections that the kernel holds until a worker accepts them, per worker and address.
    pub backlog: u32,
    /// Whether small writes leave at once (`TCP_NODELAY`).
    pub tcp_nodelay: bool,
    /// Silence after which the kernel probes the connection (`SO_KEEPALIVE`), in whole seconds.
    pub tcp_keepalive: Option<Duration>,
    /// How long the kernel holds a connection until its first byte arrives (`TCP_DEFER_ACCEPT`), in whole seconds.
    pub defer_accept: Option<Duration>,
    /// The kernel's queue of connections whose request came with the first packet (`TCP_FASTOPEN`).
    pub fast_open: Option<u32>,
    /// Client connections of this listener; `None` leaves the limit of the process alone.
    pub connections_max: Option<u32>,
    /// Client connections from one client: one IPv4 address or one IPv6 network of 64 bits. Those of trusted proxies do not count.
    pub connections_per_client_max: Option<u32>,
    /// New connections that one client may open in a time; `None`: any number.
    pub connections_per_client_rate: Option<RequestFrequency>,
    /// Lists of networks whose clients neither of these holds for. Default: none.
    pub connections_exempt: Vec<Arc<AccessList>>,
    /// The lists that its requests are looked up in; routes have them, too. Default: none.
    pub lists: Vec<Arc<AccessList>>,
    /// The limits on all of its requests; routes have them, too. Default: none.
    pub limited_by: Vec<LimitUse>,
    /// The tables that count all of its requests; routes have them, too. Default: none.
    pub tracked: Vec<Arc<TrackedTable>>,
    /// What `{vars.NAME}` stands for where a request has no route, by name; routes have them, too. Default: none.
    pub vars: Vec<(Box<str>, Template)>,
    /// Whether a client that closes its half of the connection cancels a request whose response has not begun.
    pub abort_on_close: bool,
    /// Which of several routes that match takes a request.
    pub route_order: RouteOrder,
    /// Rewrites of every request before its route is looked for. Default: none.
    pub rewrites: Vec<RewriteRule>,
    /// TLS with the clients; `None` for plain connections.
    pub tls: Option<ListenerTls>,
    /// Time limits on the side of the client.
    pub timeouts: ListenerTimeouts,
    /// Size and count limits on messages of clients.
    pub limits: ListenerLimits,
    /// HTTP/2 with the clients.
    pub http2: ListenerHttp2,
    /// HTTP/3 with the clients; `None`: clients speak it not.
    pub http3: Option<ListenerHttp3>,
    /// Rules of HTTP/1 that are not enforced here.
    pub lenient: Leniency,
    /// The form of a path for rules and servers.
    pub paths: PathSettings,
    /// Peers whose forwarding headers are trusted.
    pub trusted_proxies: TrustedProxies,
    /// Where they name the client. Default: in `X-Forwarded-For`.
    pub client_address_header: ClientAddressHeader,
    /// Whether addresses that are trusted themselves are passed over there. Default: they are.
    pub client_address_recursive: bool,
    /// Peers that send a PROXY protocol header; `None`: no peer.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Headers that describe the client to servers.
    pub forwarded: ForwardedHeaders,
    /// The id of a request, in logs and headers.
    pub request_id: RequestId,
    /// Whether redirects to a path name the host that the client has asked for.
    pub absolute_redirect: bool,
    /// Hosts that each count as a listener of their own, the most specific first: a request on a TLS connection whose server name belongs to
    /// another one than its host is answered 421. Empty: no host does. The text has no key for it: there, listeners of one port are one.
    pub isolated_names: Vec<HostPattern>,
    /// Whether servers get `%2F` in a path as it came although `paths.encoded_slash` has it decoded for rules, as nginx does. The text has no
    /// key for it: a cache would store by the decoded path.
    pub forwards_encoded_slashes: bool,
    /// Changes to the headers of responses that have no route; those of routes have them already.
    pub response_headers: HeaderChanges,
    /// Pages of failures without a route; those of routes have them already.
    pub error_pages: Vec<ErrorPage>,
    /// One line per exchange.
    pub access_log: AccessLog,
    /// The routes in the order of the text; at least one, no two of them tied.
    pub routes: Vec<Arc<Route>>,
}

impl CheckedParts for ListenerParts {
    fn place(&self) -> String {
        format!("listener `{}`", self.name)
    }

    fn check(&self, faults: &mut FoundFaults) {
        faults.extend(self.addresses.is_empty().then_some(ListenerFault::NoAddress));
        let mut known = HashSet::new();
        let twice = self.addresses.iter().filter(|address| !known.insert(*address));
        faults.extend(twice.map(|address| ListenerFault::AddressTwice(address.to_string())));
        faults.check_unique("route", self.routes.iter().map(|route| &*route.name));
        if self.protocol == ListenerProtocol::Tcp {
            for route in self.routes.iter().filter(|route| !route.action.leads_on()) {
                let place = format!("route `{}` of listener `{}`", route.name, self.name);
                faults.add_at(place, ListenerFault::OnlyToUpstreams);
            }
        }
        self.check_targets(faults);
        faults.extend(whole_seconds_fault("tcp_keepalive", self.tcp_keepalive));
        faults.extend(whole_seconds_fault("defer_accept", self.defer_accept));
        let rate = self.connections_per_client_rate.and_then(|rate| rate.tokens().err());
        faults.extend(rate.map(ListenerFault::Rate));
        faults.extend(self.proxy_protocol.as_ref().and_then(ProxyProtocol::fault));
        let of_peers = self.proxy_protocol.iter().flat_map(|one| &one.from.lists);
        let of_peers = of_peers.chain(&self.trusted_proxies.lists).chain(&self.connections_exempt);
        let others = of_peers.filter(|list| !list.says_who_a_peer_is());
        faults.extend(others.map(|list| ListenerFault::NoListOfPeers(list.name.to_string())));
        faults.extend(self.tls.iter().flat_map(ListenerTls::faults));
        faults.extend(self.response_headers.faults());
        faults.check_section(&self.timeouts);
        faults.check_section(&self.limits);
        faults.check_section(&self.http2);
        if let Some(http3) = &self.http3 {
            faults.check_section(http3);
            faults.extend(self.http3_fault());
        }
        faults.check_section(&self.request_id);
    }
}

/// Of a time that the kernel takes in whole seconds.
fn whole_seconds_fault(key: &'static str, value: Option<Duration>) -> Option<ListenerFault> {
    let value = value.filter(|value| value.subsec_nanos() != 0)?;
    Some(ListenerFault::NotWholeSeconds { key, value })
}

impl ListenerParts {
    /// Why clients cannot speak HTTP/3, which is there over TLS 1.3 and UDP alone (RFC 9001 section 4.2).
    fn http3_fault(&self) -> Option<ListenerFault> {
        let is_unix = |address: &ListenAddress| matches!(address, ListenAddress::Unix(_));
        let has_13 = |tls: &ListenerTls| tls.versions.contains(&TlsVersion::Tls13);
        let reason = match &self.tls {
            _ if self.protocol == ListenerProtocol::Tcp => "the listener speaks `tcp`",
            None => "the listener has no `tls`",
            Some(tls) if !has_13(tls) => "`tls.versions` leaves out TLS 1.3",
            Some(_) if self.addresses.iter().all(is_unix) => "the listener has no address with a port",
            Some(tls) if self.takes_early_data() && tls.client_certificates.is_some() => {
                return Some(ListenerFault::EarlyDataAndClientCertificates);
            }
            Some(_) => return None,
        };
        Some(ListenerFault::NoHttp3(reason))
    }

    /// Whether requests may come before the handshake is over.
    fn takes_early_data(&self) -> bool {
        self.http3.as_ref().is_some_and(|http3| http3.early_data)
    }

    /// Whether a request for this host is none for the connection of this server name: they belong to different isolated names.
    pub fn is_misdirected(&self, server_name: &[u8], host: &[u8]) -> bool {
        let place = |host: &[u8]| self.isolated_names.iter().position(|name| name.matches(host));
        place(server_name) != place(host)
    }

    /// Names of routes that lead to others: each is there, and no `then` leads back to its own route.
    fn check_targets(&self, faults: &mut FoundFaults) {
        let named: HashMap<&str, &Arc<Route>> =
            self.routes.iter().map(|route| (&*route.name, route)).collect();
        let place = |route: &Route| format!("route `{}` of listener `{}`", route.name, self.name);
        let of_pages = self.error_pages.iter().filter_map(ErrorPage::target_route);
        for target in of_pages.filter(|target| !named.contains_key(&***target)) {
            faults.extend([ListenerFault::NoSuchRoute(target.to_string())]);
        }
        for route in &self.routes {
            for target in route.targets().filter(|target| !named.contains_key(&***target)) {
                faults.add_at(place(route), ListenerFault::NoSuchRoute(target.to_string()));
            }
            let next = |at: &&Arc<Route>| match &at.action {
                RouteAction::Then(name) => named.get(&**name).copied(),
                _ => None,
            };
            let mut steps = std::iter::successors(Some(route), next).skip(1).take(self.routes.len());
            if steps.any(|one| one.name == route.name) {
                faults.add_at(place(route), ListenerFault::ThenCircle(route.name.to_string()));
            }
        }
    }

    /// Whether a route is looked up in another way than by what it matches alone, so that the plain lookup does not do.
    pub fn looks_up_apart(&self) -> bool {
        let is_apart = |route: &Arc<Route>| {
            route.condition.is_some()
                || route.internal
                || !route.rewrites.is_empty()
                || matches!(route.action, RouteAction::Then(_))
        };
        self.route_order == RouteOrder::File || !self.rewrites.is_empty() || self.routes.iter().any(is_apart)
    }

    /// The routes as a table that finds the one for a request; an id is the index in `routes`. Those that are reached by name alone are not in it.
    ///
    /// # Errors
    /// Two routes are tied. The check of a text has found that already; a config that was made in another way has had no such check.
    pub fn route_table(&self) -> Result<RouteTable, TiedRoutes> {
        let routes = (0..).map(RouteId).zip(&self.routes).filter(|(_, route)| !route.is_only_named());
        let rules = routes.map(|(id, route)| (Arc::clone(&route.matches), id));
        let rules = rules.collect();
        let needs = |id: RouteId| {
            let condition = self.routes.get(id.index()).and_then(|route| route.condition.as_ref());
            condition.map(WhenCondition::needed_texts).unwrap_or_default()
        };
        if self.route_order == RouteOrder::File {
            return Ok(RouteTable::in_order(rules).with_conditions(needs));
        }
        let table = RouteTable::new(rules).map_err(|ties| {
            let name = |id: Option<RouteId>| {
                let route = id.and_then(|id| self.routes.get(id.index()));
                route.map_or_else(|| "".into(), |route| route.name.clone())
            };
            let tie = ties.first();
            TiedRoutes {
                listener: self.name.clone(),
                first: name(tie.map(|tie| tie.first)),
                second: name(tie.map(|tie| tie.second)),
            }
        })?;
        Ok(table.with_filters().with_conditions(needs))
    }
}

/// Two routes of a listener, of which none precedes the other for some request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TiedRoutes {
    /// The name of the listener.
    pub listener: Box<str>,
    /// The route that comes first.
    pub first: Arc<str>,
    /// The other one.
    pub second: Arc<str>,
}

impl fmt::Display for TiedRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listener, first, second } = self;
        write!(
            f,
            "listener `{listener}`: the routes `{first}` and `{second}` are equally specific and can match the same request"
        )
    }
}

impl std::error::Error for TiedRoutes {}

choice! {
    /// The protocol of the clients of a listener.
    pub enum ListenerProtocol {
        /// HTTP/1 and HTTP/2: each request is routed on its own.
        #[default]
        Http = "http",
        /// Anything over TCP: each connection is routed once.
        Tcp = "tcp",
    }
}

choice! {
    /// Which of several routes that match takes a request.
    pub enum RouteOrder {
        /// The most specific one, wherever it is written.
        #[default]
        MostSpecific = "most-specific",
        /// The first one in the file. A listener's own `upstream` comes last.
        File = "file",
    }
}

impl ListenerProtocol {
    /// Whether each request is routed on its own; otherwise, each connection is routed once, whatever it carries.
    pub const fn routes_requests(self) -> bool {
        match self {
            Self::Http => true,
            Self::Tcp => false,
        }
    }
}

section! {
    /// Time limits on the client side, each named after the phase that it limits.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ListenerTimeouts at "listener.NAME.timeouts" {
        /// From the first byte of a request to the end of its head. The default tolerates four lost packets in a row (1 + 2 + 4 + 8 s), but
        /// not a client that sends a byte now and then.
        request: Duration = "20s", like "nginx `client_header_timeout`, HAProxy `timeout http-request`";
        /// The request body, by progress.
        request_body: Option<ProgressLimit> = { credit = "30s", rate_min = "500B/s" },
            like "nginx `client_body_timeout`, HAProxy `timeout client`, Apache httpd `RequestReadTimeout`";
        /// Sending the response to the client, by progress, counted only while bytes wait for the client.
        send: Option<ProgressLimit> = { credit = "60s", rate_min = "500B/s" },
            like "nginx `send_timeout`, HAProxy `timeout client`";
        /// The TLS handshake, from the start of the connection; where TLS passes through and routes match on `sni`, from the first byte to
        /// the server name.
        tls: Duration = "10s", like "nginx `preread_timeout`, HAProxy `timeout client-hs`, `tcp-request inspect-delay`";
        /// A connection without a request in progress, also before its first. It is longer than the 60 s that balancers and gateways in
        /// front commonly use, so that they close first.
        idle: Duration = "75s", like "nginx `keepalive_timeout`, HAProxy `timeout http-keep-alive`";
        /// The age at which a connection ends: after the exchange in progress, or, with `protocol = "tcp"`, at once.
        connection_age: Option<Duration> = "off", like "nginx `keepalive_time`";
    }
}

section! {
    /// Limits on requests.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ListenerLimits at "listener.NAME.limits" {
        /// Request line and headers together; more is answered 431.
        head_size: Size = "32KiB", in 1024..=1_048_576, like "nginx `large_client_header_buffers`, HAProxy `tune.bufsize`";
        /// The request target; a longer one is answered 414. RFC 9112 section 3 recommends 8000 bytes.
        target_size: Size = "8KiB", in 256..=1_048_576, like "nginx `large_client_header_buffers`";
        /// Header lines of a request; more is answered 431.
        headers: usize = 100, in 1..=10_000, like "HAProxy `tune.http.maxhdr`, Apache httpd `LimitRequestFields`";
        /// The trailer section of a chunked body.
        trailer_size: Size = "8KiB", in 0..=1_048_576;
        /// The chunk extensions of one body together. In practice, only attacks send any.
        chunk_extension_size: Size = "16KiB", in 0..=1_048_576;
        /// The request body; a larger one is answered 413. Off by default, since bodies pass as they come. A route can set its own
        /// limit.
        body_size: Option<Size> = "off", like "nginx `client_max_body_size`";
        /// Requests on one connection, which is closed after the last.
        requests_per_connection: Option<u64> = "off", in 1..=1_000_000_000, like "nginx `keepalive_requests`";
        /// The rate at which one client may send through a tunnel: an upgrade such as a WebSocket, or a connection with `protocol = "tcp"`.
        upload_rate: Option<ByteRate> = "off", like "nginx `proxy_upload_rate`";
        /// The rate at which one client may receive through a tunnel.
        download_rate: Option<ByteRate> = "off", like "nginx `proxy_download_rate`";
    }
}

choice! {
    /// Whether clients without TLS speak HTTP/2.
    pub enum PriorKnowledge {
        /// They speak HTTP/1 only.
        #[default]
        Off = "off",
        /// They speak either; the first bytes tell.
        Allowed = "allowed",
        /// They speak HTTP/2 only.
        Only = "only",
    }
}

section! {
    /// HTTP/2 with the clients.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ListenerHttp2 at "listener.NAME.http2" {
        /// Whether clients with TLS may agree on HTTP/2 (ALPN `h2`). Without TLS, see `prior_knowledge`.
        enabled: bool = true, like "nginx `http2`, HAProxy `bind alpn`";
        /// HTTP/2 without TLS (h2c), with which a client begins because it knows beforehand that it may: gRPC clients do, browsers never.
        /// `Upgrade: h2c` is ignored.
        prior_knowledge: PriorKnowledge = "off", like "nginx `http2` without `ssl`, HAProxy `bind proto h2`";
        /// Streams that a client may have open at once on one connection; a further one is refused, and the client may repeat it.
        streams_max: u32 = 128, in 1..=10_000, like "nginx `http2_max_concurrent_streams`, HAProxy `tune.h2.fe.max-concurrent-streams`";
    }
}

section! {
    /// HTTP/3 with the clients: over UDP, on the same addresses and ports, with the same certificates. The table alone switches it on.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ListenerHttp3 at "listener.NAME.http3" {
        /// Requests that a client may have open at once on one connection; further ones wait at the client.
        streams_max: u32 = 128, in 1..=10_000, like "nginx `http3_max_concurrent_streams`";
        /// How long clients remember that HTTP/3 is here: `ma` of `Alt-Svc`, which every response of the listener has (RFC 7838 section 3).
        /// `"0s"`: no response has it, and only clients that know by themselves speak HTTP/3.
        alt_svc_max_age: Duration = "1d", in 0..=31_536_000_000, like "nginx `add_header Alt-Svc`, HAProxy `http-response set-header alt-svc`";
        /// Whether clients that come again may send requests with their first packet (0-RTT, RFC 8470): those of safe methods are served at
        /// once, if a token of an earlier connection proves the address of the client, others when the handshake is over. Servers are told by `Early-Data: 1`, and get the request again after the handshake
        /// when they answer 425. Not with client certificates.
        early_data: bool = false, like "nginx `ssl_early_data`, HAProxy `allow-0rtt`";
    }
}

section! {
    /// Rules of HTTP/1 that a legacy client may break, each by its name. Messages that break an allowed rule are normalised: no server
    /// receives the original form.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Leniency at "listener.NAME.lenient" {
        /// A line of the head may end with LF alone (RFC 9112 section 2.2).
        bare_lf: bool = false, like "HAProxy `option accept-unsafe-violations-in-http-request`";
        /// A header may continue on a second line (RFC 9112 section 5.2), except `Host`, `Content-Length` and `Transfer-Encoding`.
        obs_fold: bool = false;
        /// A target may contain quotes, `<`, `>`, ``\``, `^`, backquotes, braces, `|` and bytes over 0x7F, as browsers and scripts send
        /// them unencoded; they are percent-encoded for routes and servers alike.
        unencoded_target: bool = true;
        /// The same, and spaces, `#`, DEL and `%` without digits, which other parsers may interpret differently.
        unsafe_target: bool = false, like "HAProxy `option accept-unsafe-violations-in-http-request`";
        /// A target may have a fragment (`#` and what follows), which is cut off for routes and servers alike.
        target_fragment: bool = false, like "nginx (always)";
        /// `Content-Length` may be repeated with the same value (RFC 9110 section 8.6).
        repeated_length: bool = false;
        /// `Content-Length` may begin with zeros.
        padded_length: bool = true;
        /// White space may follow the size of a chunk, and any number of zeros may precede it.
        padded_chunk_size: bool = false;
        /// A chunk extension may be empty: `5;` and the end of the line.
        empty_chunk_extension: bool = true;
        /// A path may contain `%00`, which is forwarded as received.
        encoded_nul: bool = true;
        /// Header names may contain `_`. If not, such headers are dropped, since CGI-style servers do not distinguish `_` and `-`.
        underscore_names: bool = false, like "nginx `underscores_in_headers`";
    }
}

section! {
    /// The form in which rules and servers see a path. Routes, hash keys and rewrites always use the normal form: dot segments are
    /// resolved, doubled slashes are merged, and only bytes that need it are percent-encoded (RFC 3986 section 6.2.2). So a route for
    /// `/admin` also matches `//admin`, `/x/../admin` and `/%61dmin`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PathSettings at "listener.NAME.paths" {
        /// The form that servers receive of a path that is not in its normal form.
        forward: PathForm = "normalised", like "nginx `proxy_pass` with a path, HAProxy `http-request normalize-uri`, Envoy `normalize_path`";
        /// How `%2F` in a path is treated.
        encoded_slash: EncodedSlashAction = "keep", like "Envoy `path_with_escaped_slashes_action`, Apache httpd `AllowEncodedSlashes`";
    }
}

choice! {
    /// A form of a path.
    pub enum PathForm {
        /// the form that rules were matched on
        #[default]
        Normalised = "normalised",
        /// the form that was received; servers then have to resolve it as Weir does
        AsReceived = "as-received",
        /// none: the request is answered 400
        Refused = "refused",
    }
}

choice! {
    /// How an encoded slash is treated.
    pub enum EncodedSlashAction {
        /// as a byte of its segment, forwarded encoded
        #[default]
        Keep = "keep",
        /// as a slash
        Decode = "decode",
        /// as an error: the request is answered 400
        Refuse = "refuse",
    }
}

/// `proxy_protocol`: peers whose connections begin with a PROXY protocol header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyProtocol {
    /// The peers; at least one.
    pub from: TrustedProxies,
    /// From the beginning of the connection to the end of the header.
    pub timeout: Duration,
    /// The largest header of version 2.
    pub header_size: Size,
    /// Whether connections keep what headers say besides addresses: `{proxy.NAME}` stands somewhere.
    pub keeps_values: bool,
}

impl ProxyProtocol {
    /// What may not hold of it.
    pub(crate) fn fault(&self) -> Option<ListenerFault> {
        self.from.is_empty().then_some(ListenerFault::NoProxyPeer)
    }
}

section! {
    /// Headers that describe the client to servers. What the client itself sends in them is replaced, unless it is one of
    /// `trusted_proxies`: then it is trusted and extended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ForwardedHeaders at "listener.NAME.forwarded" {
        /// `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Forwarded-Port`.
        x_forwarded: bool = true, like "HAProxy `option forwardfor`";
        /// `Forwarded` (RFC 7239).
        rfc7239: bool = false, like "HAProxy `option forwarded`";
        /// `Via`, which RFC 9110 section 7.6.3 requires and which detects loops; the listener is named in a comment, so that one listener may proxy to
        /// another. An nginx behind Weir does not compress responses to
        /// requests with it, unless its `gzip_proxied` permits that.
        via: bool = true, like "Apache httpd `ProxyVia`";
    }
}

section! {
    /// The id of a request, in the access log and in the request to the server; `weir why ID` explains that request.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RequestId at "listener.NAME.request_id" {
        /// The header that carries the id. Off: no id.
        header: Option<HeaderName> = "x-request-id", like "HAProxy `unique-id-header`";
        /// The peers whose id is kept; requests of all others get a new one.
        accept: AcceptFrom = "trusted-proxies";
        /// Whether the response to the client carries the id too, in the same header, replacing one from the server. The error pages
        /// contain it in any case.
        in_response: bool = false, like "nginx `add_header X-Request-ID $request_id always`";
    }
}

choice! {
    /// Peers whose value is accepted.
    pub enum AcceptFrom {
        /// none
        Never = "never",
        /// peers in `trusted_proxies`
        #[default]
        TrustedProxies = "trusted-proxies",
        /// all
        Always = "always",
    }
}

#[cfg(test)]
mod tests {
    use weir_traffic::route::RouteMatch;

    use super::*;
    use crate::config::{RouteAction, RouteParts, UpstreamIndex};

    /// The cases of the conformance suite of the Gateway API.
    #[test]
    fn a_request_belongs_to_the_most_specific_isolated_name() {
        let mut listener = ListenerParts::new("web", Vec::new(), Vec::new());
        assert!(!listener.is_misdirected(b"a.test", b"b.test"), "no host is isolated");
        let names = ["second.test", "fourth.wildcard.test", "*.wildcard.test"];
        listener.isolated_names = names.map(|name| HostPattern::parse(name).unwrap()).into();
        listener.isolated_names.push(HostPattern::ANY);
        for (server_name, host, is_misdirected) in [
            ("first.test", "first.test", false),
            ("first.test", "second.test", true),
            ("first.test", "unknown.test", false),
            ("second.test", "second.test", false),
            ("second.test", "unknown.test", true),
            ("third.wildcard.test", "fifth.wildcard.test", false),
            ("third.wildcard.test", "fourth.wildcard.test", true),
            ("fourth.wildcard.test", "fifth.wildcard.test", true),
        ] {
            let found = listener.is_misdirected(server_name.as_bytes(), host.as_bytes());
            assert_eq!(found, is_misdirected, "{host} on a connection for {server_name}");
        }
    }

    #[test]
    fn tied_routes_are_named() {
        let route = |name: &str, host: &str| {
            let hosts = vec![HostPattern::parse(host).unwrap()];
            let matches = Arc::new(RouteMatch { hosts, ..RouteMatch::default() });
            let parts = RouteParts::new(name, matches, RouteAction::Upstream(UpstreamIndex(0)));
            Arc::new(Route::from_parts(parts).unwrap())
        };
        let routes = vec![route("one", "a.test"), route("two", "b.test"), route("three", "A.test.")];
        let listener = ListenerParts::new("web", Vec::new(), routes);
        let tied = listener.route_table().unwrap_err();
        let named = (&*tied.listener, &*tied.first, &*tied.second);
        assert_eq!(named, ("web", "one", "three"));
    }
}
