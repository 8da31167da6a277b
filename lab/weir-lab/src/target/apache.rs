//! The configuration of Apache's HTTP server, run in the foreground with files of its own.
//!
//! Tuned by the pages of its documentation about `mpm_event`, `mod_proxy`, `mod_proxy_balancer`, `mod_proxy_hcheck`, `mod_ssl` and
//! `core`; as shipped follows Debian's `apache2.conf` with what it enables that has a part in every request.

use super::{Description, HEALTH_PATH, PathBranch, ReloadableParts, Rendered, TargetCertificate};
use crate::topology::product::ProductLacks;
use crate::topology::upstream::BalancePolicy;

/// Threads of its default configuration altogether: 16 processes of 25.
const THREADS: u64 = 400;

pub(super) fn render(description: &Description<'_>) -> Result<Rendered, ProductLacks> {
    if description.is_tcp() {
        return Err(ProductLacks("passes no plain TCP"));
    }
    if description.balance() == Some(BalancePolicy::ConsistentHash) {
        return Err(ProductLacks("has no hash among its ways to choose a server"));
    }
    if description.traffic.is_http2 || description.is_http2_to_servers() {
        return Err(ProductLacks("is not configured for HTTP/2 here"));
    }
    let text = [
        process(description),
        modules(description),
        if description.is_tuned() { tuned(description) } else { as_shipped(description) },
        tls(description),
        branches(description),
        proxy(description),
    ]
    .concat();
    let (dir, path) = (description.dir.display(), description.dir.join("apache.conf"));
    let args = ["-d", &dir.to_string(), "-f", &path.display().to_string(), "-DFOREGROUND"];
    Ok(Rendered { file: "apache.conf", text, args: args.map(str::to_owned).to_vec(), ..Rendered::default() })
}

/// Files in the folder of this run.
fn process(description: &Description<'_>) -> String {
    let dir = description.dir.display();
    let user = if description.is_root {
        "# An unprivileged user; as root it refuses to serve.\nUser #65534\nGroup #65534\n"
    } else {
        ""
    };
    format!(
        "ServerName weir-lab.test
DefaultRuntimeDir {dir}
PidFile {dir}/apache.pid
ErrorLog {dir}/error.log
"
    ) + user
}

/// The modules that the other lines need, unless they are part of the program.
fn modules(description: &Description<'_>) -> String {
    let upstream = description.upstream;
    let with = |is: bool, names: &'static [&'static str]| if is { names } else { &[] };
    let names: [&[&str]; 9] = [
        &["mpm_event", "unixd", "authz_core", "log_config", "proxy", "proxy_http"],
        with(!description.is_tuned(), &["env", "filter", "deflate", "reqtimeout", "setenvif", "status"]),
        with(description.certificate.is_some(), &["socache_shmcb", "ssl"]),
        with(description.handshake_timeout().is_some() && description.is_tuned(), &["reqtimeout"]),
        with(description.traffic.upgrades, &["proxy_wstunnel"]),
        with(has_balancer(description), &["slotmem_shm", "proxy_balancer"]),
        with(has_balancer(description), balancer(description).1),
        with(upstream.health.is_some(), &["watchdog", "proxy_hcheck"]),
        with(description.has_persistence_cookie(), &["headers"]),
    ];
    let Some(folder) = description.module_folder else { return String::new() };
    let folder = folder.display();
    let line = |name: &&str| {
        format!(
            "<IfModule !{name}_module>\n    LoadModule {name}_module {folder}/mod_{name}.so\n</IfModule>\n"
        )
    };
    names.into_iter().flatten().map(line).collect()
}

fn tuned(description: &Description<'_>) -> String {
    let Description { listen, room, .. } = description;
    // A request holds a thread until it is answered, and a tunnel until its end.
    let threads = if description.traffic.upgrades { room.clients.clamp(THREADS, 20_000) } else { THREADS };
    let factor = room.clients.div_ceil(threads) + 1;
    let bulk = if description.traffic.is_bulk {
        "# 8 KiB by default; so much more that a read and a write are worth their call.\nProxyIOBufferSize 65536\n"
    } else {
        ""
    };
    let processes = if description.traffic.is_reloaded {
        "# Its page: processes that end gracefully take room beside the one that works.\nServerLimit 32\n"
    } else {
        "ServerLimit 1\n"
    };
    format!(
        "# One process for the one CPU of the target, with the threads that its default of 16 processes has in all, or one for each
# tunnel: connections to servers are kept for each process.
{processes}\
StartServers 1
ThreadLimit {threads}
ThreadsPerChild {threads}
MaxRequestWorkers {threads}
MinSpareThreads 1
MaxSpareThreads {threads}
# Connections it takes for each idle thread, so that there is room for the clients of the scenario; 2 by default.
AsyncRequestWorkerFactor {factor}
# The kernel's limit instead of 511, so that a crowd that arrives at once is queued, not dropped.
ListenBacklog 4096
Listen {listen}
# 100 by default, after which clients would have to reconnect.
MaxKeepAliveRequests 0
# 5 s by default; idle clients must not be closed while they are counted.
KeepAliveTimeout 300
# The Host field reaches the server as the client sent it, as with the other targets.
ProxyPreserveHost On
{bulk}"
    )
}

fn as_shipped(description: &Description<'_>) -> String {
    let Description { listen, dir, .. } = description;
    let dir = dir.display();
    format!(
        "# Debian's apache2.conf and mpm_event.conf, with paths of this run.
Timeout 300
KeepAlive On
MaxKeepAliveRequests 100
KeepAliveTimeout 5
HostnameLookups Off
StartServers 2
MinSpareThreads 25
MaxSpareThreads 75
ThreadLimit 64
ThreadsPerChild 25
MaxRequestWorkers 150
MaxConnectionsPerChild 0
Listen {listen}
LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{{Referer}}i\\\" \\\"%{{User-Agent}}i\\\"\" combined
CustomLog {dir}/access.log combined
# Of the modules that Debian enables, those with a part in every request.
RequestReadTimeout header=20-40,minrate=500
RequestReadTimeout body=10,minrate=500
ExtendedStatus On
AddOutputFilterByType DEFLATE text/html text/plain text/xml text/css text/javascript
BrowserMatch \"MSIE 4\\.0b2;\" nokeepalive downgrade-1.0 force-response-1.0
BrowserMatch \"Mozilla/2\" nokeepalive
"
    )
}

fn tls(description: &Description<'_>) -> String {
    let Some(TargetCertificate { certificate, key, .. }) = description.certificate else {
        return String::new();
    };
    let dir = description.dir.display();
    let options = if description.is_tuned() {
        // TLS 1.2 and 1.3 and tickets are the defaults of the program.
        format!(
            "# A cache of sessions spares handshakes; none by default. Tickets are on.\nSSLSessionCache shmcb:{dir}/sessions(10485760)\n"
        )
    } else {
        format!(
            "# Debian's ssl.conf.
SSLSessionCache shmcb:{dir}/sessions(512000)
SSLSessionCacheTimeout 300
SSLCipherSuite HIGH:!aNULL
SSLProtocol all -SSLv3
SSLSessionTickets off
"
        )
    };
    let limit = description.handshake_timeout().map_or_else(String::new, |limit| {
        // In whole seconds.
        format!("RequestReadTimeout handshake={}\n", limit.as_millis().div_ceil(1000))
    });
    format!(
        "{options}{limit}SSLEngine on
SSLCertificateFile {}
SSLCertificateKeyFile {}
",
        certificate.display(),
        key.display()
    )
}

/// Whether its balancer is needed: a single server of which nothing is said does without.
fn has_balancer(description: &Description<'_>) -> bool {
    description.servers.len() > 1
        || description.balance().is_some()
        || description.upstream.health.is_some()
        || description.has_persistence_cookie()
        || *description.extra != ReloadableParts::default()
}

/// How a server is chosen: its word for it, and the module.
fn balancer(description: &Description<'_>) -> (&'static str, &'static [&'static str]) {
    match description.balance() {
        Some(BalancePolicy::LeastRequests) => ("bybusyness", &["lbmethod_bybusyness"]),
        // Its default as well.
        _ => ("byrequests", &["lbmethod_byrequests"]),
    }
}

/// Paths with servers of their own. The first line that fits wins, so they come before the one for everything.
fn branches(description: &Description<'_>) -> String {
    let options = if description.traffic.upgrades { " upgrade=websocket" } else { "" };
    let line = |PathBranch { path, name, servers }: &PathBranch| {
        let member = |addr| format!("    BalancerMember \"http://{addr}\"{options}\n");
        let members: String = servers.iter().map(member).collect();
        let (method, _) = balancer(description);
        format!(
            "<Proxy \"balancer://{name}\">\n{members}    ProxySet lbmethod={method}\n</Proxy>\nProxyPass \"{path}\" \"balancer://{name}{path}\"\n"
        )
    };
    description.extra.branches.iter().map(line).collect()
}

fn proxy(description: &Description<'_>) -> String {
    let options = options(description);
    if let (false, [only, ..]) = (has_balancer(description), description.servers) {
        return format!("ProxyPass \"/\" \"http://{only}/\"{options}\n");
    }
    let mut members = String::new();
    for (number, (addr, weight)) in (1..).zip(description.weighted()) {
        let weight = weight.map_or_else(String::new, |weight| format!(" loadfactor={weight}"));
        let route = if description.has_persistence_cookie() {
            format!(" route=origin-{number}")
        } else {
            String::new()
        };
        members.push_str(&format!("    BalancerMember \"http://{addr}\"{options}{route}{weight}\n"));
    }
    let (method, _) = balancer(description);
    let sticky = if description.has_persistence_cookie() { " stickysession=SRV" } else { "" };
    let cookie = if description.has_persistence_cookie() {
        "# The line of its page about load balancers.
Header add Set-Cookie \"SRV=.%{BALANCER_WORKER_ROUTE}e; path=/\" env=BALANCER_ROUTE_CHANGED
"
    } else {
        ""
    };
    let probes = if description.upstream.health.is_some() {
        "# `retry`: after a failed connection it would not look at a server for 60 s by default, whatever the probes say.\n"
    } else {
        ""
    };
    format!(
        "{probes}{cookie}<Proxy \"balancer://origin\">
{members}    ProxySet lbmethod={method}{sticky}
</Proxy>
ProxyPass \"/\" \"balancer://origin/\"
"
    )
}

/// The lines about each server. Requests that could not be sent go to another one by default.
fn options(description: &Description<'_>) -> String {
    let upstream = description.upstream;
    let mut text = String::new();
    if !description.reuses() {
        text.push_str(" disablereuse=On");
    }
    if description.traffic.upgrades {
        text.push_str(" upgrade=websocket");
    }
    if let Some(max) = description.max_requests() {
        text.push_str(&format!(" max={max}"));
        if let Some(limit) = upstream.queue_timeout {
            text.push_str(&format!(" acquire={}", limit.as_millis()));
        }
    }
    if let Some(limit) = upstream.response_timeout {
        // It counts whole seconds.
        text.push_str(&format!(" timeout={}", limit.as_millis().div_ceil(1000)));
    }
    if let Some(health) = upstream.health {
        text.push_str(&format!(
            " hcmethod=GET hcuri={HEALTH_PATH} hcinterval={}ms hcfails={} hcpasses={} retry=1",
            health.interval.as_millis(),
            health.fall,
            health.rise
        ));
    }
    text
}
