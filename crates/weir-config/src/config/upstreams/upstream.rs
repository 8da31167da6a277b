//! `[upstream.NAME]`: a named set of servers, with time limits for each step.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;
use weir_traffic::affinity::Affinity;
use weir_traffic::balance::{Balancer, BalancerMember, Policy};
use weir_traffic::retry::{RetryBudget, RetryPolicy};
use weir_traffic::route::MethodMatch;
use weir_traffic::{Mode, ServerState, ServerTier};

use crate::config::UpstreamFault;
use crate::config::{
    AffinitySettings, AgentCheck, Checked, CheckedParts, ConnectionsMax, DynamicServers, FoundFaults,
    GrpcStatusName, HealthCheck, OutlierEjection, ServerProtocol, ServerSource, UpstreamHttp2, UpstreamTls,
};
use crate::key::{choice, section};
use crate::value::{Percent, ProgressLimit, ServerAddress, Size, SourceAddress, Template, WhenCondition};

/// Index of an upstream in [`ConfigParts::upstreams`](crate::ConfigParts::upstreams).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamIndex(pub usize);

/// A named set of servers with one balancer.
pub type Upstream = Checked<UpstreamParts>;

/// What makes up an [`Upstream`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UpstreamParts {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// The servers, their names unique; those of the text are at least one unless there is `discovery`, and not all of weight 0.
    pub servers: Vec<Server>,
    /// Where further servers come from; `None`: there are no others.
    pub discovery: Option<Arc<ServerSource>>,
    /// TLS with the servers; `None`: plain connections.
    pub tls: Option<Box<UpstreamTls>>,
    /// The rest, shared between upstreams with equal settings: its fields are read and set as if they were here.
    pub settings: Arc<UpstreamSettings>,
}

/// The settings of an upstream other than its servers and its TLS.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct UpstreamSettings {
    /// The server that each request names; `None`: servers are those of the config or its source.
    pub dynamic: Option<DynamicServers>,
    /// The policy that chooses a server.
    pub balance: Policy,
    /// What the key of consistent hashing is made of, where that is [`HashKey::Made`](weir_traffic::balance::HashKey::Made).
    pub hash_template: Option<Template>,
    /// Concurrent requests on servers that a source names; `None`: any number. Servers of the config have their own value.
    pub max_requests: Option<u32>,
    /// Where requests go while all primary servers are full.
    pub when_full: OnFull,
    /// The time over which a server that comes back reaches its full weight; `None`: it has its full weight at once.
    pub slow_start: Option<Duration>,
    /// The HTTP version that the servers speak.
    pub protocol: ServerProtocol,
    /// HTTP/2 with the servers.
    pub http2: UpstreamHttp2,
    /// Time limits of each step towards a server.
    pub timeouts: UpstreamTimeouts,
    /// Size and count limits on messages of a server.
    pub limits: UpstreamLimits,
    /// Rules of HTTP/1 that are not enforced here.
    pub lenient: ServerLeniency,
    /// Server connections that are kept for further requests.
    pub pool: PoolSettings,
    /// The version of the PROXY protocol header that servers get; `None`: no header.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Where connections come from to servers that a source names; `None`: the system chooses. Servers of the config have their own value.
    pub source_address: Option<SourceAddress>,
    /// The names of limits on its requests: routes have them resolved. Default: none.
    pub limited_by: Vec<Box<str>>,
    /// Requests that wait for a server.
    pub queue: QueueSettings,
    /// Failed attempts that go to another server.
    pub retry: RetrySettings,
    /// How the requests of a client stay on one server; `None`: they do not.
    pub affinity: Option<AffinitySettings>,
    /// How servers are probed; `None`: they are not.
    pub health: Option<HealthCheck>,
    /// How connections through a server that goes down are treated.
    pub on_down: OnDown,
    /// When servers on which requests fail are ejected; `None`: never.
    pub ejection: Option<OutlierEjection>,
    /// The share of available servers below which all get requests; `None`: requests go to available servers only.
    pub panic_threshold: Option<Percent>,
}

impl Deref for UpstreamParts {
    type Target = UpstreamSettings;

    fn deref(&self) -> &UpstreamSettings {
        &self.settings
    }
}

impl DerefMut for UpstreamParts {
    fn deref_mut(&mut self) -> &mut UpstreamSettings {
        Arc::make_mut(&mut self.settings)
    }
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            dynamic: None,
            balance: Policy::default(),
            hash_template: None,
            max_requests: None,
            when_full: OnFull::default(),
            slow_start: None,
            protocol: ServerProtocol::default(),
            http2: UpstreamHttp2::default(),
            timeouts: UpstreamTimeouts::default(),
            limits: UpstreamLimits::default(),
            lenient: ServerLeniency::default(),
            pool: PoolSettings::default(),
            proxy_protocol: None,
            source_address: None,
            limited_by: Vec::new(),
            queue: QueueSettings::default(),
            retry: RetrySettings::default(),
            affinity: None,
            health: None,
            on_down: OnDown::default(),
            ejection: Some(OutlierEjection::default()),
            panic_threshold: None,
        }
    }
}

impl CheckedParts for UpstreamParts {
    fn place(&self) -> String {
        format!("upstream `{}`", self.name)
    }

    fn check(&self, faults: &mut FoundFaults) {
        faults.extend(server_faults(&self.servers).into_iter().map(|(_, fault)| fault));
        faults.extend(weight_fault(&self.name, &self.servers));
        for server in &self.servers {
            faults.check_key("weight", &server.weight, WEIGHT);
            faults.check_key("max_requests", &server.max_requests, REQUESTS_MAX);
            faults.check_key("health_port", &server.health_port, PORT);
        }
        faults.extend(protocol_faults(self.protocol, self.tls.is_some(), self.proxy_protocol.is_some()));
        faults.extend(client_source_fault(self.protocol, self.connects_as_clients()));
        if let Some(tls) = &self.tls {
            faults.extend(tls.faults());
        }
        self.settings.check(faults);
    }
}

impl UpstreamSettings {
    fn check(&self, faults: &mut FoundFaults) {
        faults.extend(self.retry.fault());
        faults.extend(self.ejection.as_ref().and_then(OutlierEjection::fault));
        faults.extend(self.health.iter().flat_map(|health| health.faults(self.protocol)));
        faults.check_section(&self.http2);
        faults.check_section(&self.timeouts);
        faults.check_section(&self.limits);
        faults.check_section(&self.pool);
        faults.check_section(&self.queue);
        faults.check_section(&self.retry);
        faults.check_key("max_requests", &self.max_requests, REQUESTS_MAX);
        faults.check_key("panic_threshold", &self.panic_threshold, PANIC_THRESHOLD);
    }
}

/// Requests at once on a server.
pub(crate) const REQUESTS_MAX: RangeInclusive<u64> = 1..=10_000_000;
/// A share of servers, in percent.
pub(crate) const PANIC_THRESHOLD: RangeInclusive<u64> = 1..=100;
/// The weight of a server.
pub(crate) const WEIGHT: RangeInclusive<u64> = 0..=256;
/// A port.
pub(crate) const PORT: RangeInclusive<u64> = 1..=65_535;

/// What may not hold of several servers, with the place of the earlier and that of the later server.
pub(crate) fn server_faults(servers: &[Server]) -> Vec<([usize; 2], UpstreamFault)> {
    let (mut by_address, mut by_name) = (HashMap::new(), HashMap::new());
    let fault = |(place, server): (usize, &Server)| {
        let same_address = *by_address.entry(server.address.clone()).or_insert(place);
        let same_name = *by_name.entry(server.name.clone()).or_insert(place);
        if same_address < place {
            Some(([same_address, place], UpstreamFault::ServerTwice(server.address.to_string())))
        } else if same_name < place {
            Some(([same_name, place], UpstreamFault::ServerNameTwice(server.name.clone())))
        } else {
            None
        }
    };
    servers.iter().enumerate().filter_map(fault).collect()
}

/// What may not hold of the weights of the servers of an upstream.
pub(crate) fn weight_fault(upstream: &str, servers: &[Server]) -> Option<UpstreamFault> {
    let is_idle = !servers.is_empty() && servers.iter().all(|server| server.weight == 0);
    is_idle.then(|| UpstreamFault::NoWeight(upstream.into()))
}

/// What the protocol of servers needs, and what it excludes.
pub(crate) fn protocol_faults(
    protocol: ServerProtocol,
    has_tls: bool,
    has_proxy_header: bool,
) -> impl Iterator<Item = UpstreamFault> {
    let tls = match protocol {
        ServerProtocol::H2 | ServerProtocol::Auto if !has_tls => {
            Some(UpstreamFault::WithoutTls(protocol.name()))
        }
        ServerProtocol::H2c if has_tls => Some(UpstreamFault::H2cWithTls),
        ServerProtocol::H2
        | ServerProtocol::Auto
        | ServerProtocol::H2c
        | ServerProtocol::Http1
        | ServerProtocol::Fastcgi => None,
    };
    let proxy_header = match protocol {
        ServerProtocol::Fastcgi => Some(UpstreamFault::ProxyHeaderForFastcgi),
        ServerProtocol::H2 | ServerProtocol::Auto | ServerProtocol::H2c => {
            Some(UpstreamFault::ProxyHeaderForHttp2(protocol.name()))
        }
        ServerProtocol::Http1 => None,
    };
    tls.into_iter().chain(proxy_header.filter(|_| has_proxy_header))
}

/// Why connections may not come from the addresses of clients.
pub(crate) fn client_source_fault(protocol: ServerProtocol, is_wanted: bool) -> Option<UpstreamFault> {
    (is_wanted && protocol.may_be_http2()).then(|| UpstreamFault::ClientSourceForHttp2(protocol.name()))
}

impl Upstream {
    /// An upstream without servers, which come from elsewhere, with the defaults of the product.
    pub fn without_servers(name: &str) -> Self {
        Self::assume(UpstreamParts::new(name, Vec::new()))
    }

    /// The same upstream with the settings of an equal one.
    pub(crate) fn with_settings(&self, settings: Arc<UpstreamSettings>) -> Self {
        Self::assume(UpstreamParts { settings, ..self.to_parts() })
    }

    /// The same upstream with other servers. One that it has already keeps the name that its certificate has to match.
    #[must_use]
    pub fn with_servers(&self, servers: Vec<Server>) -> Self {
        let names = self.tls.as_ref().map(|tls| {
            let known: HashMap<_, _> = self.servers.iter().map(Server::key).zip(&tls.names).collect();
            let name = |server: &Server| match known.get(&server.key()) {
                Some(name) => (*name).clone(),
                None => tls.server_name.clone().unwrap_or_else(|| server.tls_name()),
            };
            servers.iter().map(name).collect()
        });
        self.with_named_servers(servers, names.unwrap_or_default())
    }

    /// The same upstream with other servers, and the name that the certificate of each has to match. A server may be there twice, as one that leaves
    /// and one that has come.
    #[must_use]
    pub fn with_named_servers(&self, servers: Vec<Server>, names: Vec<ServerName<'static>>) -> Self {
        let tls = self.tls.as_deref().map(|tls| Box::new(tls.with_names(names)));
        Self::assume(UpstreamParts {
            name: self.name.clone(),
            servers,
            discovery: self.discovery.clone(),
            tls,
            settings: Arc::clone(&self.settings),
        })
    }
}

impl UpstreamParts {
    /// Those of an upstream with the defaults of the product.
    pub fn new(name: &str, servers: Vec<Server>) -> Self {
        Self { name: name.into(), servers, discovery: None, tls: None, settings: Arc::default() }
    }

    /// Whether connections to any of its servers, or to those that a source names, come from the addresses of clients.
    pub fn connects_as_clients(&self) -> bool {
        let of_source = self.discovery.as_ref().and(self.source_address);
        let mut sources = self.servers.iter().map(|server| server.source_address).chain([of_source]);
        sources.any(|source| source == Some(SourceAddress::Client))
    }

    /// Whether the health checks of the upstream probe one of its servers.
    pub fn probes(&self, server: &Server) -> bool {
        self.health.is_some() && server.health
    }

    /// How the agent of a server is asked; `None`: it has none.
    pub fn agent(&self, server: &Server) -> Option<&AgentCheck> {
        let agent = self.health.as_ref()?.agent.as_ref()?;
        server.port_of(agent).map(|_| agent)
    }

    /// Whether concurrent requests on a server may have a limit: that of the config, or one that its agent says.
    pub fn may_limit(&self, server: &Server) -> bool {
        server.max_requests.is_some() || self.agent(server).is_some()
    }

    /// The affinity of clients to servers, ready for use; `hash_key` is random.
    pub fn affinity(&self, hash_key: [u64; 2]) -> Option<Affinity> {
        let names: Vec<&str> = self.servers.iter().map(|server| &*server.name).collect();
        self.affinity.as_ref().map(|affinity| affinity.build(&self.name, &names, hash_key))
    }

    /// The servers, up and without load, with their balancer; `seed` decides with which server it begins.
    pub fn balancer(&self, seed: u64) -> Balancer {
        let members = self.servers.iter().map(|server| {
            let state = ServerState::new(u32::from(server.weight), server.max_requests.unwrap_or(0));
            state.set_mode(server.mode);
            let member = BalancerMember::new(&server.name, Arc::new(state));
            member.in_tier(server.tier)
        });
        Balancer::new(&self.balance, members.collect(), seed).overflowing(self.when_full == OnFull::Backup)
    }
}

choice! {
    /// Where a request goes while all servers that may take it, other than backups, are full.
    pub enum OnFull {
        /// it waits for one of them
        #[default]
        Queue = "queue",
        /// to a server with `backup` that is not full; it waits only when there is none
        Backup = "backup",
    }
}

choice! {
    /// How connections are treated whose server goes down by its probes.
    pub enum OnDown {
        /// they continue: the server may still work on them
        #[default]
        Keep = "keep",
        /// tunnels are closed at once, and requests in progress end as when the server closes its connection
        Close = "close",
    }
}

choice! {
    /// A version of the PROXY protocol.
    pub enum ProxyVersion {
        /// a line of text with the addresses
        V1 = "v1",
        /// binary, with the id of the request that opened the connection and further details
        #[default]
        V2 = "v2",
    }
}

/// One endpoint of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Server {
    /// The name in logs and metrics, and what consistent hashing places it by; unique in its upstream. Default: the address.
    pub name: Box<str>,
    /// The address.
    pub address: ServerAddress,
    /// Its share, relative to the weights of the others; 0 to 256. With 0 it gets no new requests. Default 1.
    pub weight: u16,
    /// Concurrent requests, over all workers; more wait in the queue. Default: `None`.
    pub max_requests: Option<u32>,
    /// Whether it gets requests only when no other server can take them. Default: no, it is a primary one.
    pub tier: ServerTier,
    /// Where connections to it come from; `None`: the system chooses. Default: `None`.
    pub source_address: Option<SourceAddress>,
    /// The mode at start. Default: serving.
    pub mode: Mode,
    /// Whether it is probed if its upstream is. Default: yes.
    pub health: bool,
    /// Whether it may be ejected if its upstream ejects servers. Default: yes.
    pub ejection: bool,
    /// The port that is probed. Default: what the upstream says.
    pub health_port: Option<u16>,
    /// The port of its agent; `Some(None)`: it has none. Default: what the upstream says.
    pub agent_port: Option<Option<u16>>,
    /// What its source says of it beside that; `None`: nothing, or the config names it.
    pub description: Option<Arc<ServerDescription>>,
}

/// What a source of servers says of one for operators; it decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerDescription {
    /// Where it is.
    pub zone: Option<Box<str>>,
    /// Further values by key.
    pub metadata: BTreeMap<Box<str>, Box<str>>,
}

impl Server {
    /// A server with the defaults of the product, named after its address.
    pub fn new(address: ServerAddress) -> Self {
        Self {
            name: address.to_string().into(),
            address,
            weight: 1,
            max_requests: None,
            source_address: None,
            tier: ServerTier::Primary,
            mode: Mode::Serving,
            health: true,
            ejection: true,
            health_port: None,
            agent_port: None,
            description: None,
        }
    }

    /// The port of its agent; `None`: it has none.
    pub fn port_of(&self, agent: &AgentCheck) -> Option<u16> {
        let is_asked =
            self.health && (agent.address.is_some() || !matches!(self.address, ServerAddress::Unix(_)));
        self.agent_port.unwrap_or(agent.port).filter(|_| is_asked)
    }

    /// What makes it the same server in two configs: its name and its address.
    fn key(&self) -> (&str, &ServerAddress) {
        (&self.name, &self.address)
    }

    /// The name that its certificate has to match, by its address. A Unix socket counts as localhost, for which there is no SNI.
    pub fn tls_name(&self) -> ServerName<'static> {
        self.address.tls_name()
    }
}

section! {
    /// Time limits on the server side, each named after the phase that it limits.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UpstreamTimeouts at "upstream.NAME.timeouts" {
        /// Waiting for a free server, or for a descriptor for a connection to it. On timeout the request is answered 503: by then its client
        /// has usually given up.
        queue: Duration = "10s", like "HAProxy `timeout queue`";
        /// From the first packet to an open connection. The default tolerates two lost packets (1 + 2 s).
        connect: Duration = "5s", like "nginx `proxy_connect_timeout`, HAProxy `timeout connect`";
        /// Sending the request to the server, by progress, counted only while bytes wait for the server.
        send: Option<ProgressLimit> = { credit = "30s" }, like "nginx `proxy_send_timeout`, HAProxy `timeout server`";
        /// From the end of the request to the end of the response head.
        response: Option<Duration> = "60s", like "nginx `proxy_read_timeout`, HAProxy `timeout server`";
        /// The response body, by progress, counted only while Weir waits for the server.
        relay: Option<ProgressLimit> = { credit = "60s" }, like "nginx `proxy_read_timeout`, HAProxy `timeout server`";
        /// Silence in both directions of a tunnel such as a WebSocket.
        tunnel: Option<Duration> = "1h", like "nginx `proxy_read_timeout`, HAProxy `timeout tunnel`";
        /// How long a connection is kept without a request. A shorter time in the `Keep-Alive: timeout=` of the server takes precedence.
        idle: Duration = "30s", like "nginx `keepalive_timeout` (in `upstream`), HAProxy `pool-purge-delay`";
    }
}

section! {
    /// Limits on responses.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UpstreamLimits at "upstream.NAME.limits" {
        /// Status line and headers together; more is answered 502.
        head_size: Size = "32KiB", in 1024..=1_048_576, like "nginx `proxy_buffer_size`, HAProxy `tune.bufsize`";
        /// Header lines of a response; more is answered 502.
        headers: usize = 100, in 1..=10_000, like "HAProxy `tune.http.maxhdr`";
        /// The trailer section of a chunked body.
        trailer_size: Size = "8KiB", in 0..=1_048_576;
        /// The chunk extensions of one body together.
        chunk_extension_size: Size = "16KiB", in 0..=1_048_576;
    }
}

section! {
    /// Rules of HTTP/1 that a server may break, each by its name. Violations with only one interpretation are allowed by default; ambiguous
    /// ones are answered 502. Messages that break an allowed rule are normalised: no client receives the original form.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ServerLeniency at "upstream.NAME.lenient" {
        /// A line of the head may end with LF alone (RFC 9112 section 2.2).
        bare_lf: bool = false, like "HAProxy `option accept-unsafe-violations-in-http-response`";
        /// A header may continue on a second line (RFC 9112 section 5.2), except those that frame the response.
        obs_fold: bool = false;
        /// Up to four empty lines may precede the status line.
        empty_lines: bool = true;
        /// The status may be 600 to 999. It is forwarded unchanged, and counts as 5xx.
        high_status: bool = true;
        /// Control bytes in headers and in the reason phrase are dropped. NUL and a lone CR are never allowed, nor any control byte in
        /// headers that frame the response.
        control_bytes: bool = true;
        /// `Content-Length` may be repeated with the same value (RFC 9110 section 8.6).
        repeated_length: bool = true;
        /// `Content-Length` may begin with zeros.
        padded_length: bool = true;
        /// `Transfer-Encoding: chunked` may be stated twice; the body is read as chunked once.
        repeated_chunked: bool = false;
        /// White space may follow the size of a chunk, and any number of zeros may precede it.
        padded_chunk_size: bool = true;
        /// A chunk extension may be empty: `5;` and the end of the line.
        empty_chunk_extension: bool = true;
    }
}

section! {
    /// The pool: server connections that are kept for further requests.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PoolSettings at "upstream.NAME.pool" {
        /// Idle connections per server and worker; 0 keeps none. `"auto"` has no limit for a single server. In any case, a worker with more
        /// server connections, in use or idle, than its share of half of the open files allowed closes an idle one for each that it would
        /// keep. Servers with `max_requests` have no more idle connections than that, over all workers.
        idle_max: ConnectionsMax = "auto", in 0..=1_000_000, like "nginx `keepalive` (in `upstream`), HAProxy `pool-max-conn`";
        /// The age at which a connection is no longer reused.
        age_max: Option<Duration> = "off", like "nginx `keepalive_time`";
        /// The number of requests after which a connection is no longer reused.
        requests_max: Option<u64> = "off", in 1..=1_000_000_000, like "nginx `keepalive_requests`, HAProxy `max-reuse`";
    }
}

impl PoolSettings {
    /// Whether any connection is kept.
    pub fn keeps_any(&self) -> bool {
        self.idle_max != ConnectionsMax::Exactly(0)
    }
}

section! {
    /// Requests that wait because every server has its `max_requests`. Those with a higher `queue_priority` leave first, those with the
    /// same priority in order of arrival. A response 503 from the queue states in `Retry-After` how long the queue takes at the rate of the
    /// last ten seconds.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct QueueSettings at "upstream.NAME.queue" {
        /// Requests that may wait, over all workers; further ones are answered 503 at once. 0: no request waits. The default is ten seconds
        /// of 1000 requests/s.
        length_max: usize = 10_000, in 0..=10_000_000, like "HAProxy `maxqueue`";
        /// Whether clients take turns within a priority: a client (an IPv4 address, an IPv6 network of 64 bits) with a thousand requests
        /// does not delay one with a single request. When the queue is full, the client with most requests makes room either way.
        fair_share: bool = false;
        /// The acceptable delay (CoDel). When no request has waited less for `delay_interval`, requests that have waited longer are
        /// answered 503, until delays are well below the target again: those that are served are served in time. Off: requests wait until
        /// `timeouts.queue`.
        delay_target: Option<Duration> = "off";
        /// How long delays must have exceeded `delay_target`. Shorter bursts wait.
        delay_interval: Duration = "1s";
        /// How long a request with affinity to a server, by its cookie or its key (`affinity`, `consistent-hash`), waits for that server
        /// before it takes any. Off: not at all; a value of at least `timeouts.queue` never lets it go to another server.
        affinity_wait: Option<Duration> = "5s", like "HAProxy `timeout queue` with `option redispatch`";
    }
}

section! {
    /// Failed attempts that are repeated on another server. A request that may have had an effect is repeated only if `methods` allows it
    /// and its body is still buffered; one that never left Weir can always be repeated.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RetrySettings at "upstream.NAME.retry" {
        /// Attempts of one request, the first included; 1 means no retries. A server that refuses the connection is passed over without using up
        /// an attempt while another one is left, and so are up to three that cannot be reached otherwise.
        attempts_max: u32 = 2, in 1..=100, like "nginx `proxy_next_upstream_tries`, HAProxy `retries`";
        /// A condition on the request: only requests for which it holds are repeated after a failure. What never left Weir, and a connection of
        /// the pool that turns out to be closed, is repeated regardless. See [Conditions](#conditions).
        when: WhenCondition = optional, like "HAProxy `http-request disable-l7-retry if`, Envoy `x-envoy-retry-on`";
        /// The time after the first attempt began within which a retry may begin. The default leaves time for one after an attempt that ran
        /// into `timeouts.response`, where `on_timeout` allows it.
        elapsed_max: Duration = "90s", like "nginx `proxy_next_upstream_timeout`";
        /// Methods that may be repeated. The default is the idempotent ones (RFC 9110 section 9.2.2). With `POST` in the list, a request on
        /// which a server fails is executed again by another.
        methods: Vec<MethodMatch> = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"],
            like "nginx `proxy_next_upstream non_idempotent`, HAProxy `http-request disable-l7-retry`";
        /// How much of a request body is buffered until the response begins, so that it can be sent again; a request with a longer body is
        /// not repeated once sending the body has begun. 0 buffers nothing.
        body_size: Size = "64KiB", in 0..=16_777_216, like "nginx `proxy_request_buffering`, HAProxy `tune.bufsize`";
        /// Whether such a request is repeated after the connection failed or the response was malformed.
        on_connection_error: bool = true, like "nginx `proxy_next_upstream error`, HAProxy `retry-on empty-response junk-response`";
        /// Whether such a request is repeated after `timeouts.response`. Off, since a slow server may still be working: a client may be
        /// long polling, and an expensive report would be computed twice. After `timeouts.connect` a request is always repeated.
        on_timeout: bool = false, like "nginx `proxy_next_upstream timeout`, HAProxy `retry-on response-timeout`";
        /// Status codes after which such a request is repeated. When it cannot be, the client gets the response unchanged.
        on_status: Vec<u16> = [], in 400..=599, like "nginx `proxy_next_upstream http_503`, HAProxy `retry-on 503`, Envoy `retriable-status-codes`";
        /// Statuses of gRPC (`grpc-status`) after which a call is repeated, whatever `methods` says: a call whose response is such a status
        /// and nothing else (Trailers-Only). A server that answers with `grpc-retry-pushback-ms` decides when, or that it is not.
        on_grpc_status: Vec<GrpcStatusName> = [], like "Envoy `x-envoy-retry-grpc-on`";
        /// Whether a request that ran into a timeout, or got a status of `on_status`, goes to the same server again when no other can take
        /// it. Without this, such a request is repeated on other servers only.
        same_server: bool = false;
        /// The wait before a retry. It doubles with each further one, up to eight times. A connection of the pool that turns out to be closed
        /// is replaced at once.
        backoff: Option<Duration> = "off", in 1..=60_000, like "Envoy `retry_back_off`";
        /// Retries as a share of the requests of the last ten seconds, so that retries do not amplify an outage. A request that reached no
        /// server, as after a refused connection, is repeated regardless: it adds no load.
        budget: Percent = "20%", in 0..=1000, like "Envoy `retry_budget`";
        /// Retries per second that the budget allows at least, for upstreams with little traffic: the larger of this and the share counts. It holds
        /// for each node, so set it to 0 where many nodes have few requests each.
        budget_per_second: u32 = 3, in 0..=1_000_000, like "Envoy `min_retry_concurrency`";
    }
}

impl RetrySettings {
    /// What may not hold of it.
    pub(crate) fn fault(&self) -> Option<UpstreamFault> {
        self.on_grpc_status.contains(&GrpcStatusName::Ok).then_some(UpstreamFault::RetryAfterSuccess)
    }

    /// The policy that decides about retries.
    pub fn policy(&self) -> RetryPolicy {
        let mut on_status = self.on_status.clone();
        on_status.sort_unstable();
        let mut on_grpc_status: Vec<u8> = self.on_grpc_status.iter().map(|status| status.code()).collect();
        on_grpc_status.sort_unstable();
        RetryPolicy {
            attempts_max: self.attempts_max,
            elapsed_max: self.elapsed_max,
            on_connection_error: self.on_connection_error,
            on_timeout: self.on_timeout,
            on_status,
            on_grpc_status,
            same_server: self.same_server,
            backoff: self.backoff.unwrap_or_default(),
        }
    }

    /// A budget that nothing has been taken from.
    pub fn new_budget(&self) -> RetryBudget {
        RetryBudget::new(self.budget.percent(), self.budget_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_of_retries_are_those_of_the_rules() {
        assert_eq!(RetrySettings::default().policy(), RetryPolicy::default());
        assert!(UpstreamTimeouts::default().response < Some(RetrySettings::default().elapsed_max));
        assert_eq!(RetrySettings::default().budget.percent(), RetryBudget::SHARE_PERCENT_DEFAULT);
        assert_eq!(RetrySettings::default().budget_per_second, RetryBudget::LEAST_PER_SECOND_DEFAULT);
    }
}
