//! HAProxy's configuration, run in the foreground.
//!
//! Tuned by its configuration manual; as shipped follows Debian's `haproxy.cfg`.

use std::net::SocketAddr;

use super::{Description, HEALTH_PATH, PathBranch, Rendered, Traffic};
use crate::topology::target::TargetVariant;
use crate::topology::upstream::{BalancePolicy, CLIENT_HEADER};

pub(super) fn render(description: &Description<'_>) -> Rendered {
    let text = match (description.is_tuned(), description.is_tcp()) {
        (true, true) => tcp(description),
        (true, false) => tuned(description),
        (false, _) => as_shipped(description),
    };
    let path = description.dir.join("haproxy.cfg");
    let mut args = vec!["-db".to_owned(), "-f".to_owned(), path.display().to_string()];
    if description.traffic.is_reloaded {
        // A master process that starts new workers beside the old ones, as its package has it.
        args.insert(0, "-W".to_owned());
    }
    Rendered { file: "haproxy.cfg", text, args, ..Rendered::default() }
}

/// The manual's settings for large bodies.
const BULK: &str = "    # The manual's offer for large answers: the kernel moves them without a copy. By default they are copied, and what
    # `splice-auto` thinks worth while was copied here as well.
    option splice-response
";

fn tuned(description: &Description<'_>) -> String {
    let Description { listen, .. } = description;
    let (connections, global) = (connections(description), global(description));
    let (backend, servers) = (backend(description), servers(description));
    let (rules, branches) = branches(description);
    let spread = match description.upstream.health {
        Some(_) => {
            "    # The manual suggests 2 to 5 so that checks do not come in waves.\n    spread-checks 5\n"
        }
        None => "",
    };
    let reuse = if description.reuses() {
        "    # By default the first request of each client connection opens a new one to the server; the manual allows
    # `always` where servers keep idle connections long, as this one does. Without it, short client connections
    # would never find an idle server connection.
    http-reuse always"
    } else {
        "    # The variant without reuse of server connections.
    http-reuse never
    option http-server-close"
    };
    let (traffic, quic) = (traffic(description), quic(description));
    let client = match description.handshake_timeout() {
        // This version has no other limit for handshakes.
        Some(limit) => format!("    timeout client {}ms\n", limit.as_millis()),
        None => "    timeout client 300s\n".to_owned(),
    };
    // TLS 1.2 and 1.3, tickets and a cache of 20 000 sessions are the defaults.
    let tls = description
        .certificate
        .map_or_else(String::new, |certificate| format!(" ssl crt {}", certificate.both.display()));
    let http2 = match (description.traffic.is_http2, description.certificate.is_some()) {
        (false, _) => "",
        (true, false) => " proto h2",
        (true, true) => " alpn h2",
    };
    format!(
        "{global}{spread}
defaults
    mode http
    maxconn {connections}
    # Keep-alive on both sides, no log and no checks are the defaults. Idle clients must not be closed while they
    # are counted, hence the long times.
    timeout connect 5s
{client}    timeout server 300s
    timeout http-keep-alive 300s
    timeout http-request 20s
{traffic}{reuse}
    # The client's address reaches the server, as the other targets pass it on.
    option forwardfor

frontend bench
    # The kernel's limit, so that a crowd that arrives at once is queued, not dropped.
    bind {listen}{tls}{http2} backlog 4096
{quic}{rules}    default_backend origin

backend origin
{backend}{servers}{branches}"
    )
}

/// HTTP/3 beside TLS on the same port.
fn quic(description: &Description<'_>) -> String {
    let certificate = description.certificate.filter(|_| description.traffic.is_http3);
    let family = if description.listen.is_ipv4() { "quic4" } else { "quic6" };
    certificate.map_or_else(String::new, |certificate| {
        format!("    bind {family}@{} ssl crt {} alpn h3\n", description.listen, certificate.both.display())
    })
}

/// Paths with servers of their own: the rules that choose them, and their backends.
fn branches(description: &Description<'_>) -> (String, String) {
    let (mut rules, mut backends) = (String::new(), String::new());
    for PathBranch { path, name, servers } in &description.extra.branches {
        rules.push_str(&format!("    use_backend {name} if {{ path_beg {path} }}\n"));
        backends.push_str(&format!("\nbackend {name}\n"));
        for (number, addr) in (1..).zip(servers) {
            backends.push_str(&format!("    server {name}-{number} {addr}\n"));
        }
    }
    (rules, backends)
}

/// Connections of clients that it takes; those to servers are not counted.
fn connections(description: &Description<'_>) -> u64 {
    description.room.clients + 64
}

fn global(description: &Description<'_>) -> String {
    let connections = connections(description);
    format!(
        "global
    # One thread for the one CPU of the target, as the others have.
    nbthread 1
    # Room for the clients of the scenario; by default as many as descriptors allow, both sides counted.
    maxconn {connections}
    # Shares of its descriptors, in percent, from which on it keeps fewer idle server connections: 20 and 25 by default, which is for
    # servers that have room for many more clients than come.
    tune.pool-low-fd-ratio 100
    tune.pool-high-fd-ratio 100
"
    )
}

/// The manual's settings for this traffic.
fn traffic(description: &Description<'_>) -> &'static str {
    let Traffic { is_bulk, is_http3, upgrades, .. } = description.traffic;
    match (upgrades, is_bulk) {
        (true, _) => "    # Tunnels must not be closed between two heartbeats.\n    timeout tunnel 300s\n",
        // What is encrypted in the program passes through it.
        (_, true) if description.variant != TargetVariant::Copying && !is_http3 => BULK,
        _ => "",
    }
}

/// Bytes in both directions, not parsed.
fn tcp(description: &Description<'_>) -> String {
    let Description { listen, .. } = description;
    let (connections, global) = (connections(description), global(description));
    let servers = servers(description);
    format!(
        "{global}
defaults
    mode tcp
    maxconn {connections}
    # Idle clients must not be closed while they are counted, hence the long times.
    timeout connect 5s
    timeout client 300s
    timeout server 300s

frontend bench
    # The kernel's limit, so that a crowd that arrives at once is queued, not dropped.
    bind {listen} backlog 4096
    default_backend origin

backend origin
{servers}"
    )
}

/// The settings for the servers.
fn backend(description: &Description<'_>) -> String {
    let upstream = description.upstream;
    let mut text = match description.balance() {
        Some(BalancePolicy::LeastRequests) => "    balance leastconn\n".to_owned(),
        Some(BalancePolicy::RoundRobin) => "    balance roundrobin\n".to_owned(),
        Some(BalancePolicy::ConsistentHash) => format!(
            "    # The manual: with `consistent`, few keys move when a server comes or goes; avalanche for keys that are much alike.\n    \
             balance hdr({CLIENT_HEADER})\n    hash-type consistent sdbm avalanche\n"
        ),
        None => String::new(),
    };
    if description.has_persistence_cookie() {
        text.push_str(
            "    # The manual's pair for `insert`: servers do not see the cookie, and no cache keeps what gives it out.
    cookie SRV insert indirect nocache
",
        );
    }
    if let Some(limit) = upstream.queue_timeout {
        text.push_str(&format!("    timeout queue {}ms\n", limit.as_millis()));
    }
    if let Some(limit) = upstream.response_timeout {
        text.push_str(&format!("    timeout server {}ms\n", limit.as_millis()));
    }
    if upstream.retry {
        text.push_str(
            "    # Once more, at another server; by default only what could not connect, at the same one at first.
    option redispatch 1
    retries 3
    retry-on conn-failure empty-response response-timeout
    # POST must not be repeated, as the manual warns.
    http-request disable-l7-retry if METH_POST
",
        );
    }
    if let Some(health) = upstream.health {
        text.push_str(&format!(
            "    option httpchk GET {HEALTH_PATH}\n    timeout check {}ms\n",
            health.timeout.as_millis()
        ));
    }
    text
}

/// The servers, one a line.
fn servers(description: &Description<'_>) -> String {
    let mut options = if description.is_http2_to_servers() { " proto h2" } else { "" }.to_owned();
    if let Some(max) = description.max_requests() {
        options.push_str(&format!(" maxconn {max}"));
    }
    if let Some(health) = description.upstream.health {
        options.push_str(&format!(
            " check inter {}ms fastinter {}ms fall {} rise {}",
            health.interval.as_millis(),
            health.timeout.as_millis(),
            health.fall,
            health.rise
        ));
    }
    let is_one = description.servers.len() == 1;
    let line = |(number, (addr, weight)): (usize, (&SocketAddr, Option<u32>))| {
        let name = if is_one { "origin".to_owned() } else { format!("origin-{number}") };
        let cookie =
            if description.has_persistence_cookie() { format!(" cookie {name}") } else { String::new() };
        let weight = weight.map_or_else(String::new, |weight| format!(" weight {weight}"));
        format!("    server {name} {addr}{cookie}{options}{weight}\n")
    };
    (1..).zip(description.weighted()).map(line).collect()
}

fn as_shipped(description: &Description<'_>) -> String {
    let Description { listen, .. } = description;
    let (backend, servers) = (backend(description), servers(description));
    let (rules, branches) = branches(description);
    let client = description.handshake_timeout().map_or(50_000, |limit| limit.as_millis());
    let mode = if description.is_tcp() { "tcp" } else { "http" };
    let quic = quic(description);
    let (options, tls) = description.certificate.map_or_else(Default::default, |certificate| {
        (SHIPPED_TLS, format!(" ssl crt {}", certificate.both.display()))
    });
    format!(
        "# Debian's haproxy.cfg, without what needs the system (syslog, chroot, user, admin socket, daemon), with a
# frontend and a backend.
global
{options}
defaults
    mode {mode}
    option dontlognull
    timeout connect 5000
    timeout client {client}
    timeout server 50000

frontend bench
    bind {listen}{tls}
{quic}{rules}    default_backend origin

backend origin
{backend}{servers}{branches}"
    )
}

/// The settings of Debian's file for TLS.
const SHIPPED_TLS: &str =
    "    ssl-default-bind-ciphers ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:\
ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:\
ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets
";
