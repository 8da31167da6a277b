//! `[upstream.NAME]`: a named set of servers, and how long each step towards them may take.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;
use weir_traffic::affinity::CookieAffinity;
use weir_traffic::balance::{Balancer, BalancerMember, Policy};
use weir_traffic::retry::{RetryBudget, RetryPolicy};
use weir_traffic::route::MethodMatch;
use weir_traffic::{Mode, ServerState};

use super::{ConnectionsMax, CookiePersistence, HealthCheck, OutlierEjection, UpstreamTls};
use crate::key::{choice, section};
use crate::value::{Percent, ProgressLimit, ServerAddress, Size};

/// A named set of servers with one balancer.
#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// The servers; at least one, names unique, not all of weight 0.
    pub servers: Vec<Server>,
    /// How servers are spoken to in private; `None`: they are not.
    pub tls: Option<Box<UpstreamTls>>,
    /// The rest, which upstreams that say the same have in common: its fields are read and set as if they stood here.
    pub settings: Arc<UpstreamSettings>,
}

/// What an upstream says besides what its servers are and how they prove it.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamSettings {
    /// How a server is chosen.
    pub balance: Policy,
    /// The time in which a server that comes back works its way up; `None`: it has its whole weight at once.
    pub slow_start: Option<Duration>,
    /// Time limits of each step towards a server.
    pub timeouts: UpstreamTimeouts,
    /// Size and count limits on what a server sends.
    pub limits: UpstreamLimits,
    /// Rules of HTTP/1 that are not enforced here.
    pub allow: ServerLeniency,
    /// Server connections kept for the next request.
    pub idle: PoolSettings,
    /// How servers are told whose connection it is; `None`: they are not.
    pub proxy_protocol: Option<ProxyVersion>,
    /// Requests that wait for a server.
    pub queue: QueueSettings,
    /// Failed attempts that go to another server.
    pub retry: RetrySettings,
    /// How the requests of a client stay on one server; `None`: they do not.
    pub persistence: Option<CookiePersistence>,
    /// How servers are probed; `None`: they are not.
    pub health: Option<HealthCheck>,
    /// What becomes of the connections through a server that goes down.
    pub on_down: OnDown,
    /// What becomes of servers on which requests fail; `None`: nothing.
    pub ejection: Option<OutlierEjection>,
    /// The share of the servers below which all get requests; `None`: those that are usable only, however few.
    pub panic_threshold: Option<Percent>,
}

impl Deref for Upstream {
    type Target = UpstreamSettings;

    fn deref(&self) -> &UpstreamSettings {
        &self.settings
    }
}

impl DerefMut for Upstream {
    fn deref_mut(&mut self) -> &mut UpstreamSettings {
        Arc::make_mut(&mut self.settings)
    }
}

impl Default for UpstreamSettings {
    fn default() -> Self {
        Self {
            balance: Policy::default(),
            slow_start: None,
            timeouts: UpstreamTimeouts::default(),
            limits: UpstreamLimits::default(),
            allow: ServerLeniency::default(),
            idle: PoolSettings::default(),
            proxy_protocol: None,
            queue: QueueSettings::default(),
            retry: RetrySettings::default(),
            persistence: None,
            health: None,
            on_down: OnDown::default(),
            ejection: Some(OutlierEjection::default()),
            panic_threshold: None,
        }
    }
}

impl Upstream {
    /// Whether the health checks of the upstream probe one of its servers.
    pub fn probes(&self, server: &Server) -> bool {
        self.health.is_some() && server.health
    }

    /// An upstream with the defaults of the product.
    pub fn new(name: &str, servers: Vec<Server>) -> Self {
        Self { name: name.into(), servers, tls: None, settings: Arc::default() }
    }

    /// What keeps clients on their servers, ready for use.
    pub fn persistence(&self) -> Option<CookieAffinity> {
        let names: Vec<&str> = self.servers.iter().map(|server| &*server.name).collect();
        self.persistence.as_ref().map(|persistence| persistence.build(&self.name, &names))
    }

    /// The servers, up and without load, with the balancer that chooses among them; `seed` decides with which it begins.
    pub fn balancer(&self, seed: u64) -> Balancer {
        let members = self.servers.iter().map(|server| {
            let state = ServerState::new(u32::from(server.weight), server.max_requests.unwrap_or(0));
            state.set_mode(server.mode);
            let member = BalancerMember::new(&server.name, Arc::new(state));
            if server.backup { member.as_backup() } else { member }
        });
        Balancer::new(&self.balance, members.collect(), seed)
    }
}

choice! {
    /// What becomes of the connections through a server that its probes find down.
    pub enum OnDown {
        /// they go on: the server may still be at work on them
        #[default]
        Keep = "keep",
        /// tunnels are closed at once, and requests under way end as when the server closes its connection
        Close = "close",
    }
}

choice! {
    /// A version of the PROXY protocol.
    pub enum ProxyVersion {
        /// a line of text with the addresses
        V1 = "v1",
        /// binary, with the id of the request that opened the connection and what else is known
        #[default]
        V2 = "v2",
    }
}

/// One endpoint of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The name in logs and metrics, and what consistent hashing places it by; unique in its upstream. Default: the address.
    pub name: Box<str>,
    /// Where it is.
    pub address: ServerAddress,
    /// Its share, relative to the weights of the others; 0 to 256. With 0 it gets no new requests. Default 1.
    pub weight: u16,
    /// Requests that it works on at the same time, over all workers; more wait in the queue. Default: `None`.
    pub max_requests: Option<u32>,
    /// Whether it only gets requests when no other server can take them. Default: no.
    pub backup: bool,
    /// What is wanted of it at the start. Default: serving.
    pub mode: Mode,
    /// Whether it is probed if its upstream is. Default: yes.
    pub health: bool,
    /// Whether it may be ejected if its upstream does that. Default: yes.
    pub ejection: bool,
    /// The port that is probed. Default: what the upstream says.
    pub health_port: Option<u16>,
}

impl Server {
    /// A server with the defaults of the product, named as its address.
    pub fn new(address: ServerAddress) -> Self {
        Self {
            name: address.to_string().into(),
            address,
            weight: 1,
            max_requests: None,
            backup: false,
            mode: Mode::Serving,
            health: true,
            ejection: true,
            health_port: None,
        }
    }

    /// Who its certificate has to be for, by its address. What has no name is taken for this machine, which is never asked for by SNI.
    pub fn tls_name(&self) -> ServerName<'static> {
        let localhost = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
        match &self.address {
            ServerAddress::Ip(addr) => ServerName::IpAddress(addr.ip().into()),
            ServerAddress::Name { host, .. } => ServerName::try_from(host.to_string()).unwrap_or(localhost),
            ServerAddress::Unix(_) => localhost,
        }
    }
}

section! {
    /// Time limits towards servers, each named after the phase that it ends.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UpstreamTimeouts at "upstream.NAME.timeouts" {
        /// Waiting for a server that may take one more request. Who has waited longer has gone away.
        queue: Duration = "10s", like "HAProxy `timeout queue`";
        /// From the first packet to an open connection. With the default, two lost packets (1 + 2 s) still make it.
        connect: Duration = "5s", like "nginx `proxy_connect_timeout`, HAProxy `timeout connect`";
        /// The request on its way to the server, by progress, counted only while bytes wait for the server.
        send: Option<ProgressLimit> = { credit = "30s" }, like "nginx `proxy_send_timeout`, HAProxy `timeout server`";
        /// From the end of the request to the end of the response head.
        response: Option<Duration> = "60s", like "nginx `proxy_read_timeout`, HAProxy `timeout server`";
        /// The response body, by progress, counted only while Weir waits for the server.
        relay: Option<ProgressLimit> = { credit = "60s" }, like "nginx `proxy_read_timeout`, HAProxy `timeout server`";
        /// Silence in both directions of a tunnel such as a WebSocket.
        tunnel: Option<Duration> = "1h", like "nginx `proxy_read_timeout`, HAProxy `timeout tunnel`";
        /// How long a connection is kept without a request. What a server says in `Keep-Alive: timeout=` holds when it is
        /// shorter.
        idle: Duration = "30s", like "nginx `keepalive_timeout` (in `upstream`), HAProxy `pool-purge-delay`";
    }
}

section! {
    /// Limits on what a server sends.
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
    /// Rules of HTTP/1 that a server may break, each by its name. What has one meaning is allowed unless it says otherwise here; what two
    /// programs may read in two ways is answered 502. What breaks a rule and is allowed is written anew: no client sees it as it came.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ServerLeniency at "upstream.NAME.allow" {
        /// A line of the head may end with LF alone (RFC 9112 section 2.2).
        bare_lf: bool = false, like "HAProxy `option accept-unsafe-violations-in-http-response`";
        /// A header may go on in a second line (RFC 9112 section 5.2), except those that frame the response.
        obs_fold: bool = false;
        /// Up to four empty lines may stand before the status line.
        empty_lines: bool = true;
        /// The status may be 600 to 999. It is passed on as it is, and counts as 5xx.
        high_status: bool = true;
        /// Control bytes in headers and in the reason phrase are dropped. NUL and a CR alone are never allowed, nor is any of them in headers that
        /// frame the response.
        control_bytes: bool = true;
        /// `Content-Length` may be repeated with one and the same value (RFC 9110 section 8.6).
        repeated_length: bool = true;
        /// `Content-Length` may begin with zeros.
        padded_length: bool = true;
        /// `Transfer-Encoding: chunked` may stand there twice; the body is taken to be chunked once.
        repeated_chunked: bool = false;
        /// White space may stand behind the size of a chunk, and any number of zeros before it.
        padded_chunk_size: bool = true;
        /// A chunk extension may be empty: `5;` and the end of the line.
        empty_chunk_extension: bool = true;
    }
}

section! {
    /// Server connections that are kept for the next request.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PoolSettings at "upstream.NAME.idle" {
        /// Kept per server and worker; 0 keeps none. `"auto"` has no limit for a single server. In any case, a worker that has more connections
        /// to servers open, in use or idle, than its share of half of the files that may be open closes an idle one for each that it would keep.
        /// Servers with `max_requests` have no more idle connections than that, over all workers.
        connections_max: ConnectionsMax = "auto", in 0..=1_000_000, like "nginx `keepalive` (in `upstream`), HAProxy `pool-max-conn`";
        /// The age at which a connection is not used again.
        age_max: Option<Duration> = "off", like "nginx `keepalive_time`";
        /// Requests after which a connection is not used again.
        requests_max: Option<u64> = "off", in 1..=1_000_000_000, like "nginx `keepalive_requests`, HAProxy `max-reuse`";
    }
}

impl PoolSettings {
    /// Whether any connection is kept.
    pub fn keeps_any(&self) -> bool {
        self.connections_max != ConnectionsMax::Exactly(0)
    }
}

section! {
    /// Requests that wait because every server has its `max_requests`. Those of a higher `queue_priority` leave first, those of
    /// one priority in the order in which they came. An answer 503 from here says in `Retry-After` how long the queue takes
    /// at the pace of the last ten seconds.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct QueueSettings at "upstream.NAME.queue" {
        /// Requests that may wait, over all workers; more are answered 503 at once. 0 lets none wait. The default is ten seconds of 1000
        /// requests/s.
        length_max: usize = 10_000, in 0..=10_000_000, like "HAProxy `maxqueue`";
        /// Whether clients take turns within a priority: a client (an IPv4 address, an IPv6 network of 64 bits) with a thousand requests
        /// does not hold up one with a single one, and gives up its last place to that one when the queue is full.
        fair_share: bool = false;
        /// A wait that is acceptable for good. When for `delay_interval` no request was served sooner, those that have waited longer are
        /// answered 503, until waits are well below it again: what is served is then served in time. Without it, requests wait
        /// until `timeouts.queue`.
        delay_target: Option<Duration> = "off";
        /// How long waits must have been above `delay_target`. Shorter bursts wait.
        delay_interval: Duration = "1s";
        /// How long a request that belongs to one server, by its cookie (`persistence`) or its key (`consistent-hash`), waits for a slot on
        /// that one before it takes any. Off: not at all; with no less than `timeouts.queue` it never goes elsewhere.
        own_server: Option<Duration> = "5s", like "HAProxy `timeout queue` with `option redispatch`";
    }
}

section! {
    /// Failed attempts that go to another server. A request that may have had an effect is only repeated if `methods` says so and its
    /// body is still at hand; one that never left Weir always may be.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct RetrySettings at "upstream.NAME.retry" {
        /// Attempts of one request, the first included; 1 means no retries.
        attempts_max: u32 = 2, in 1..=100, like "nginx `proxy_next_upstream_tries`, HAProxy `retries`";
        /// No retry begins later than this after the first attempt began. The default leaves time for one after an attempt that ran into
        /// `timeouts.response`, where `on_timeout` allows it.
        elapsed_max: Duration = "90s", like "nginx `proxy_next_upstream_timeout`";
        /// Methods that may be done twice. Without being told, Weir trusts those whose definition says so, the idempotent ones (RFC 9110 section
        /// 9.2.2). With `POST` in the list, a server that dies while it works makes another one do the work again.
        methods: Vec<MethodMatch> = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"],
            like "nginx `proxy_next_upstream non_idempotent`, HAProxy `http-request disable-l7-retry`";
        /// How much of a request body is kept until the response begins, so that it can be sent again; a request with a longer
        /// one is not repeated once its body has begun. 0 keeps nothing.
        body_size: Size = "64KiB", in 0..=16_777_216, like "nginx `proxy_request_buffering`, HAProxy `tune.bufsize`";
        /// Whether such a request goes again when the connection broke or the answer was malformed.
        on_broken: bool = true, like "nginx `proxy_next_upstream error`, HAProxy `retry-on empty-response junk-response`";
        /// Whether such a request goes again when no answer came in time. Off, since a server that takes long may be at work: a client
        /// may poll with a request that is answered when there is news, and a slow report would be made twice. A connection that is not there in
        /// time (`timeouts.connect`) is another matter: such a request always goes again.
        on_timeout: bool = false, like "nginx `proxy_next_upstream timeout`, HAProxy `retry-on response-timeout`";
        /// Status codes for which such a request goes again. When it cannot, the client gets the response as it stands.
        on_status: Vec<u16> = [], in 400..=599, like "nginx `proxy_next_upstream http_503`, HAProxy `retry-on 503`";
        /// Retries as a share of the requests of the last ten seconds, so that retries do not feed an outage. A request that reached no
        /// server, as when the connection was refused, goes again in any case: that is no more load than without the failure.
        budget: Percent = "20%", in 0..=1000, like "Envoy `retry_budget`";
        /// Retries per second that the budget allows in any case, for upstreams with little traffic.
        budget_per_second: u32 = 10, in 0..=1_000_000, like "Envoy `min_retry_concurrency`";
    }
}

impl RetrySettings {
    /// The rules by which an attempt is judged.
    pub fn policy(&self) -> RetryPolicy {
        let mut on_status = self.on_status.clone();
        on_status.sort_unstable();
        RetryPolicy {
            attempts_max: self.attempts_max,
            elapsed_max: self.elapsed_max,
            on_broken: self.on_broken,
            on_timeout: self.on_timeout,
            on_status,
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
        assert_eq!(RetrySettings::default().budget_per_second, RetryBudget::ALLOWANCE_PER_SECOND_DEFAULT);
    }
}
