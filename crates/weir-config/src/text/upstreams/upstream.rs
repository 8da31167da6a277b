//! `[upstream.NAME]` in the text.

use std::time::Duration;

use weir_traffic::Mode;
use weir_traffic::balance::{AddressPrefixes, HashKey};

use super::upstream_tls::TlsServerName;
use crate::config::{
    OnDown, OnFull, PANIC_THRESHOLD, PORT, PoolSettings, ProxyVersion, QueueSettings, REQUESTS_MAX,
    RetrySettings, ServerLeniency, ServerProtocol, UpstreamHttp2, UpstreamLimits, UpstreamTimeouts, WEIGHT,
};
use crate::key::{
    Bounds, ConfigSection, ConfigValue, NonEmpty, OneOrMany, Spanned, SpannedTable, TextFormat, TreeReader,
    ValueKind, choice, section, text_values,
};
use crate::source::{Tree, TreeNode};
use crate::text::{
    AffinityText, DynamicText, EjectionText, HealthText, UpstreamDiscoveryText, UpstreamTlsText,
};
use crate::value::{HeaderName, Percent, ServerAddress, SourceAddress, Template, Token, ValueError};

section! {
    /// A named set of servers with one balancer.
    #[derive(Debug, Clone)]
    pub(crate) struct UpstreamText at "upstream.NAME" {
        /// Blocks whose keys hold here where they are not set beside it.
        r#use: OneOrMany<Box<str>> = optional, like "nginx `include` (of a part), HAProxy `defaults NAME`, `from`";
        /// The servers: addresses, or tables for those with settings of their own. Required, unless `discovery` names a source of servers; beside
        /// one, all of them must be backups.
        servers: NonEmpty<Spanned<ServerText>> = optional, like "nginx `server` (in `upstream`), HAProxy `server`";
        /// A source of servers, which is followed: a file, DNS, Consul, etcd or a control plane (xDS).
        discovery: SpannedTable<UpstreamDiscoveryText> = optional;
        /// The server that each request names, in place of `servers`: resolved when it is asked for. See [docs/dynamic.md](dynamic.md).
        dynamic: SpannedTable<DynamicText> = optional, like "nginx `proxy_pass` with variables and `resolver`; HAProxy `do-resolve`, `set-dst`; Envoy dynamic forward proxy";
        /// The policy that chooses a server.
        balance: BalanceText = "least-requests",
            like "nginx `least_conn`, `random two`, `hash`, `hash consistent`, `ip_hash`; HAProxy `balance`, `hash-type`";
        /// The part of a request that is hashed under `balance = "consistent-hash"` and `"map-based-hash"`: requests with the same key go to the same server.
        hash_key: HashKeyText = optional, like "nginx `hash`, `ip_hash`; HAProxy `balance source`, `hdr()`, `url_param`";
        /// The load relative to the average that a server may have under `balance = "consistent-hash"` before another server takes over,
        /// the same one for each key. Off: a key stays on its server regardless of the load. Without it, `"125%"`.
        hash_load_factor: Option<Percent> = optional, in 100..=10_000, like "HAProxy `hash-balance-factor`";
        /// Concurrent requests per server, for servers without a value of their own. More wait in the queue.
        max_requests: Option<u32> = "off", in REQUESTS_MAX, like "nginx `max_conns`, HAProxy `maxconn` (of `server`)";
        /// Where a request goes while all servers that may take it, other than backups, have `max_requests`.
        when_full: OnFull = "queue", like "nginx `max_conns=` (with `backup`), HAProxy `connslots` (in `use_backend`)";
        /// The time over which a server that comes back reaches its full weight, linearly from almost zero. Servers present at start have
        /// their full weight at once, and so have all servers when a reload turns it off.
        slow_start: Option<Duration> = "off", like "nginx `slow_start=`, HAProxy `slowstart`";
        /// TLS with the servers. Without it, plain connections.
        tls: SpannedTable<UpstreamTlsText> = optional, like "nginx `proxy_pass https:`, HAProxy `ssl` (of `server`)";
        /// The protocol that the servers speak.
        protocol: ServerProtocol = "http1",
            like "nginx `proxy_http_version`, `grpc_pass`, `fastcgi_pass`; HAProxy `server proto`, `server alpn`, `use-fcgi-app`; Traefik `h2c://`; Envoy `http2_protocol_options`, `auto_config`";
        /// HTTP/2 with the servers.
        http2: SpannedTable<UpstreamHttp2> = {};
        /// Time limits on the server side.
        timeouts: SpannedTable<UpstreamTimeouts> = {};
        /// Limits on responses.
        limits: UpstreamLimits = {};
        /// Rules of HTTP/1 that servers may break.
        lenient: SpannedTable<ServerLeniency> = {};
        /// Server connections that are kept for further requests. With `protocol = "fastcgi"`, none are unless `idle_max` is a number: a worker of
        /// PHP-FPM serves one connection, and would wait for its next request.
        pool: SpannedTable<PoolSettings> = {};
        /// The version of the PROXY protocol header with the client address that servers get. Such a connection belongs to one client: it
        /// is reused only for further requests on the same client connection. Probes state that they are Weir's own (LOCAL, in version 1
        /// UNKNOWN), unless they go to another port.
        proxy_protocol: Option<ProxyVersion> = "off", like "HAProxy `send-proxy`, `send-proxy-v2`; nginx `proxy_protocol`";
        /// The address that connections to the servers come from: one of this machine, or that of the client (`"{client_address}"`), which
        /// needs a privilege and routes, see [source-address.md](source-address.md). Connections from a client's address are reused only
        /// for further requests of that client, on the same client connection. Probes come from the address of this machine.
        source_address: Option<SourceAddress> = "off",
            like "nginx `proxy_bind`, HAProxy `source`, `usesrc`; Envoy `upstream_bind_config`";
        /// Limits on its requests, by their names in `[limit.NAME]`: one or a list.
        limited_by: OneOrMany<Spanned<Box<str>>> = optional;
        /// Requests that wait for a server.
        queue: SpannedTable<QueueSettings> = {};
        /// Failed attempts that are repeated on another server.
        retry: SpannedTable<RetrySettings> = {};
        /// Session affinity: the requests of one client stay on one server.
        affinity: SpannedTable<AffinityText> = optional, like "nginx `sticky`, HAProxy `cookie`, Traefik `sticky`";
        /// Probes that test whether a server responds.
        health: SpannedTable<HealthText> = optional, like "nginx `health_check`, HAProxy `check`";
        /// How connections are treated whose server goes down by its probes: TCP connections, WebSockets, and requests in progress, which
        /// are retried where `retry` allows it.
        on_down: OnDown = "keep", like "HAProxy `on-marked-down shutdown-sessions`";
        /// Ejection of servers on which requests fail: they get none for a while. On by default; `"off"` disables it.
        ejection: Option<SpannedTable<EjectionText>> = {}, like "nginx `max_fails=`, HAProxy `observe layer7`, Envoy `outlier_detection`";
        /// The share of available servers below which all servers get requests, regardless of health checks and ejection: so few would be
        /// overloaded, and wrong checks are the more likely cause. Available backups prevent it.
        panic_threshold: Option<Percent> = "off", in PANIC_THRESHOLD, like "Envoy `healthy_panic_threshold`";
    }
}

/// One entry of `servers`: an address alone or a table.
#[derive(Debug, Clone)]
pub(crate) enum ServerText {
    Address(ServerAddress),
    Table(Box<SpannedTable<ServerTable>>),
}

section! {
    /// A server with settings of its own.
    #[derive(Debug, Clone)]
    pub(crate) struct ServerTable at "upstream.NAME.servers" {
        /// Blocks whose keys hold here where they are not set beside it.
        r#use: OneOrMany<Box<str>> = optional, like "nginx `include` (of a part), HAProxy `defaults NAME`, `from`";
        /// The address.
        address: Spanned<ServerAddress> = required;
        /// The name in logs and metrics, and the position in consistent hashing. Without it, the address.
        name: Spanned<Box<str>> = optional;
        /// The share of requests, relative to the weights of the others. With 0 it gets no new requests.
        weight: u16 = 1, in WEIGHT, like "nginx `weight=`, HAProxy `weight`";
        /// Concurrent requests, over all workers; more wait in the queue. Without it, the upstream's value.
        max_requests: Option<u32> = optional, in REQUESTS_MAX, like "nginx `max_conns=`, HAProxy `maxconn`";
        /// Whether it gets requests only when no other server can take them.
        backup: bool = false, like "nginx `backup`, HAProxy `backup`";
        /// The address that connections come from. Without it, the upstream's value.
        source_address: Option<SourceAddress> = optional, like "HAProxy `source` (of `server`)";
        /// The mode. It can be changed at runtime, see `admin.changes`.
        mode: ServerMode = "serving", like "nginx `down`, `drain`; HAProxy `disabled`, `set server state`";
        /// Whether it is probed, if the upstream has `health`. Without probes, a server is up.
        health: bool = true, like "HAProxy `no-check`";
        /// Whether it may be ejected, if the upstream ejects servers.
        ejection: bool = true, like "nginx `max_fails=0`";
        /// The name sent in the TLS handshake (SNI), which the certificate has to match. Without it, that of the upstream's `tls`.
        server_name: TlsServerName = optional, like "HAProxy `sni`, `verifyhost`";
        /// The port for probes. Without it, that of the upstream's `health`.
        health_port: u16 = optional, in PORT, like "HAProxy `port`";
        /// The port of its agent. Without it, that of the upstream's `health.agent`; off: it has none.
        agent_port: Option<u16> = optional, in PORT, like "HAProxy `agent-port`, `no-agent-check`";
    }
}

choice! {
    /// The mode of a server, as set by the operator.
    pub(crate) enum ServerMode {
        /// takes requests
        #[default]
        Serving = Mode::Serving.name(),
        /// takes only requests with affinity to it by a cookie
        Draining = Mode::Draining.name(),
        /// takes no requests
        Maintenance = Mode::Maintenance.name(),
    }
}

impl ServerText {
    /// The table; `None` when there is an address alone.
    pub(crate) fn table(&self) -> Option<&SpannedTable<ServerTable>> {
        match self {
            Self::Address(_) => None,
            Self::Table(table) => Some(table),
        }
    }
}

impl ConfigValue for ServerText {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![ServerAddress::kind(bounds), ServerTable::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Text(_) => ServerAddress::read(node, bounds, reader).map(Self::Address),
            Tree::Table(_) => SpannedTable::read(node, bounds, reader).map(Box::new).map(Self::Table),
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Address(address) => address.write(),
            Self::Table(table) => table.value.inline(),
        }
    }
}

choice! {
    /// The name of a policy: those of [`weir_traffic::balance::Policy::NAMES`], in that order.
    pub(crate) enum BalanceText {
        /// the server with the fewest requests in progress relative to its weight, over all workers
        #[default]
        LeastRequests = "least-requests",
        /// in turn, smooth weighted round robin
        RoundRobin = "round-robin",
        /// the server with the least latency times requests under way for its weight, where a slow response counts at once and is forgotten
        /// slowly: for servers that are not equally fast
        PeakEwma = "peak-ewma",
        /// the less loaded of two servers chosen at random by weight
        PowerOfTwo = "power-of-two",
        /// a server chosen at random by weight
        Random = "random",
        /// the server that `hash_key` maps to; when a server goes away, only its keys move
        ConsistentHash = "consistent-hash",
        /// the server that `hash_key` maps to by the remainder of its hash, `client-address` so that networks next to each other go to servers in
        /// turn: while a server is down, its keys alone go elsewhere, but when one is added, removed or has another weight, nearly all keys move
        MapBasedHash = "map-based-hash",
    }
}

/// What is hashed: a part of the request, or a text with values of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HashKeyText {
    Part(HashKey),
    Template(Template),
}

text_values! {
    HashKeyText, parse_hash_key_text, print_hash_key_text, TextFormat {
        name: "hash key",
        article: "a hash key",
        examples: &["client-address", "client-address/24,56", "header:x-user", "cookie:session", "query:id", "path", "{map.tenant}"],
        pattern: r"^(client-address(/[0-9]+(,[0-9]+)?)?|path|header:.+|cookie:.+|query:.+|.*[{].+[}].*)$",
        about: "`client-address`, `path`, or `header:NAME`, `cookie:NAME`, `query:NAME`, or a text with placeholders such as `{map.tenant}` or `{host}{path}`. A request without the header, cookie or parameter, \
                or with an empty one, or for which all placeholders are empty, goes to the server with the least load. `client-address/24,56` uses the first 24 bits of an IPv4 address and the first 56 of \
                an IPv6 address; without prefix lengths at 32 and 64, since an IPv6 client can choose the rest.",
    };
}

fn parse_hash_key_text(text: &str) -> Result<HashKeyText, ValueError> {
    match text.contains('{') {
        true => text.parse().map(HashKeyText::Template),
        false => parse_hash_key(text).map(HashKeyText::Part),
    }
}

fn print_hash_key_text(key: &HashKeyText) -> String {
    match key {
        HashKeyText::Part(key) => print_hash_key(key),
        HashKeyText::Template(template) => template.to_string(),
    }
}

fn parse_hash_key(text: &str) -> Result<HashKey, ValueError> {
    let shift = |prefix: &str, error: ValueError| {
        let range = error.range.clone().map(|range| prefix.len() + range.start..prefix.len() + range.end);
        ValueError { range, ..error }
    };
    if let Some(name) = text.strip_prefix("header:") {
        let name: HeaderName = name.parse().map_err(|error| shift("header:", error))?;
        return Ok(HashKey::Header(name.to_string()));
    }
    if let Some(name) = text.strip_prefix("cookie:") {
        let name: Token = name.parse().map_err(|error| shift("cookie:", error))?;
        return Ok(HashKey::Cookie(name.to_string()));
    }
    if let Some(prefixes) = text.strip_prefix("client-address/") {
        return parse_prefixes(prefixes).map(HashKey::ClientAddress).ok_or_else(|| {
            ValueError::new(format!("`{prefixes}` is not a pair of prefix lengths"))
                .help("write the prefix length for IPv4, 1 to 32, and optionally the one for IPv6, 1 to 128: `client-address/24,56`")
        });
    }
    match (text, text.strip_prefix("query:")) {
        (_, Some(name)) if !name.is_empty() && !name.contains(['&', '=', '#', ' ']) => {
            Ok(HashKey::Query(name.to_owned()))
        }
        ("client-address", _) => Ok(HashKey::ClientAddress(AddressPrefixes::default())),
        ("path", _) => Ok(HashKey::Path),
        _ => Err(ValueError::new(format!("`{text}` is not a hash key"))
            .help("write `client-address`, `path`, `header:NAME`, `cookie:NAME` or `query:NAME`")),
    }
}

fn parse_prefixes(text: &str) -> Option<AddressPrefixes> {
    let (ipv4, ipv6) = match text.split_once(',') {
        Some((ipv4, ipv6)) => (ipv4, Some(ipv6)),
        None => (text, None),
    };
    let ipv6 = ipv6.map_or(Some(AddressPrefixes::default().ipv6()), |ipv6| ipv6.parse().ok());
    AddressPrefixes::new(ipv4.parse().ok()?, ipv6?)
}

fn print_hash_key(key: &HashKey) -> String {
    match key {
        HashKey::ClientAddress(prefixes) if *prefixes == AddressPrefixes::default() => {
            "client-address".to_owned()
        }
        HashKey::ClientAddress(prefixes) | HashKey::ClientNetwork(prefixes) => {
            format!("client-address/{},{}", prefixes.ipv4(), prefixes.ipv6())
        }
        HashKey::Path => "path".to_owned(),
        HashKey::Header(name) => format!("header:{name}"),
        HashKey::Cookie(name) => format!("cookie:{name}"),
        HashKey::Query(name) => format!("query:{name}"),
        HashKey::Made => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use weir_traffic::balance::Policy;

    use super::*;

    #[test]
    fn the_words_are_those_of_the_policies() {
        let words: Vec<&str> = BalanceText::WORDS.iter().map(|word| word.name).collect();
        assert_eq!(words, Policy::NAMES);
    }

    #[test]
    fn hash_keys_are_read_and_printed() {
        for text in [
            "client-address",
            "client-address/24,56",
            "path",
            "header:x-user",
            "cookie:Session",
            "query:id[]",
        ] {
            assert_eq!(print_hash_key(&parse_hash_key(text).unwrap()), text);
        }
        for text in [
            "",
            "header:",
            "header:a b",
            "cookie:",
            "query:",
            "query:a&b",
            "ip",
            "Path",
            "client-address/",
            "client-address/33",
            "client-address/8,129",
            "client-address/0",
        ] {
            assert!(parse_hash_key(text).is_err(), "{text}");
        }
    }
}
