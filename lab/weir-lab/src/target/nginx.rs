//! nginx's configuration, run in the foreground with a prefix of its own.
//!
//! Tuned by its documentation (ngx_core, ngx_http_core, ngx_http_upstream, ngx_http_proxy and ngx_stream modules, and its page
//! about WebSocket); as shipped follows Debian's `nginx.conf`.

use super::{Description, PathBranch, Rendered, TargetCertificate, Traffic};
use crate::topology::product::ProductLacks;
use crate::topology::upstream::{BalancePolicy, CLIENT_HEADER, OriginProtocol};

pub(super) fn render(description: &Description<'_>) -> Result<Rendered, ProductLacks> {
    if description.has_persistence_cookie() {
        return Err(ProductLacks(
            "binds clients by a cookie in its commercial version, and since 1.29.6, only",
        ));
    }
    if description.upstream.protocol == OriginProtocol::Http2 {
        return Err(ProductLacks("speaks HTTP/2 with servers for gRPC, and since 1.29.4, only"));
    }
    let dir = description.dir.display();
    let text = match (description.is_tuned(), description.is_tcp()) {
        (true, true) => stream(description),
        (true, false) => tuned(description),
        (false, true) => as_shipped(description, &stream_as_shipped(description)),
        (false, false) => as_shipped(description, &http_as_shipped(description)),
    };
    let args = [
        "-p",
        &format!("{dir}/"),
        "-c",
        &format!("{dir}/nginx.conf"),
        "-e",
        &format!("{dir}/error.log"),
        "-g",
        "daemon off;",
    ];
    Ok(Rendered { file: "nginx.conf", text, args: args.map(str::to_owned).to_vec(), ..Rendered::default() })
}

/// Folders that nginx would otherwise look for where its package put them.
const OWN_FOLDERS: &str = "    # Its files lie under the prefix of this run.
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
";

/// How requests go to servers.
const PROXY_PASS: &str = "proxy_pass http://";

/// How calls of gRPC go to servers.
const GRPC_PASS: &str = "grpc_pass grpc://";

/// Calls of gRPC.
const GRPC: &str = "            # Streams must not be closed between two messages; 60 s by default.
            grpc_read_timeout 300s;
            grpc_send_timeout 300s;
";

/// Connections to servers, log files, listeners.
const RESERVE: u64 = 512;

/// Idle connections that it keeps to servers; more where more clients than that may have a request at once.
const KEPT_MIN: u64 = 256;

fn tuned(description: &Description<'_>) -> String {
    let Description { listen, .. } = description;
    let (servers, limits, map) = (servers(description), limits(description), map(description));
    let process = process(description);
    let ssl = description.certificate.map_or("", |_| " ssl");
    let (tls, quic) = (tls(description), quic(description));
    let reuse = if description.reuses() {
        // Connections of tunnels are never idle.
        let busy = if description.traffic.upgrades { 0 } else { description.room.servers };
        let kept = busy.max(KEPT_MIN);
        format!(
            "        # Idle connections kept to the servers; none by default in this version, and the most effective line of all.
        keepalive {kept};
        # 1000 by default, after which a connection is closed: a reconnect every few milliseconds at this rate.
        keepalive_requests 1000000000;
"
        )
    } else {
        "        # The variant without reuse of server connections: its default in this version.\n".to_owned()
    };
    let has_limit = description.upstream.response_timeout.is_some();
    let (own, others) = match description.reuses() {
        true => (to_server(description, has_limit), to_server(description, false)),
        false => Default::default(),
    };
    let is_grpc = description.upstream.protocol == OriginProtocol::Grpc;
    let (pass, set) = if is_grpc { (GRPC_PASS, "grpc") } else { (PROXY_PASS, "proxy") };
    let own = if is_grpc { GRPC.to_owned() } else { own };
    // Clients of HTTP/3 send no Host, and there is no variable for what they send in its place.
    let host = if description.traffic.is_http3 { "$host:$server_port" } else { "$http_host" };
    let named = format!(
        "            # Host and client address reach the server, as the other targets pass them on.
            {set}_set_header Host {host};
            {set}_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
"
    );
    let http2 = if description.traffic.is_http2 { " http2" } else { "" };
    let (upstreams, locations) = branches(description, &reuse, &format!("{others}{named}"));
    format!(
        "{process}
http {{
{OWN_FOLDERS}{map}    # Off for all targets.
    access_log off;
    # 1000 by default, after which clients would have to reconnect.
    keepalive_requests 1000000000;
    # 75 s by default; idle clients must not be closed while they are counted.
    keepalive_timeout 300s;

    upstream origin {{
{servers}{reuse}    }}

{upstreams}    server {{
        # The kernel's limit instead of 511, so that a crowd that arrives at once is queued, not dropped.
        listen {listen}{ssl}{http2} backlog=4096;
{quic}{tls}        location / {{
            {pass}origin;
{limits}{own}{named}        }}
{locations}    }}
}}
"
    )
}

/// HTTP/3 by its page about QUIC, beside TLS on the same port.
fn quic(description: &Description<'_>) -> String {
    if !description.traffic.is_http3 {
        return String::new();
    }
    format!(
        "        listen {} quic reuseport;
        # Its page about QUIC: many packets in one call. Off by default.
        quic_gso on;
",
        description.listen
    )
}

/// Paths with servers of their own: their upstreams, with the lines on `reuse`, and their locations, with those on how they are spoken to.
fn branches(description: &Description<'_>, reuse: &str, to_server: &str) -> (String, String) {
    let (mut upstreams, mut locations) = (String::new(), String::new());
    for PathBranch { path, name, servers } in &description.extra.branches {
        let servers: String = servers.iter().map(|addr| format!("        server {addr};\n")).collect();
        upstreams.push_str(&format!("    upstream {name} {{\n{servers}{reuse}    }}\n\n"));
        locations.push_str(&format!(
            "\n        location {path} {{\n            proxy_pass http://{name};\n{to_server}        }}\n"
        ));
    }
    (upstreams, locations)
}

/// The lines before the protocol: the worker and its limits.
fn process(description: &Description<'_>) -> String {
    let user = user_line(description);
    // Connections to servers count as well.
    let connections = description.room.clients + description.room.servers;
    // It closes idle clients when fewer than a sixteenth of its connections are free.
    let connections = connections + connections.div_ceil(15) + RESERVE;
    let descriptors = connections + RESERVE;
    format!(
        "{user}# One worker for the one CPU of the target, as the others have.
worker_processes 1;
pid nginx.pid;
error_log error.log error;
# Room for the clients of the scenario and the connections to the server; 512 by default.
worker_rlimit_nofile {descriptors};

events {{
    worker_connections {connections};
}}
"
    )
}

/// What requests to kept connections need, and what its documentation says about this traffic. `has_limit`: the time that a server
/// may take is said already; tunnels have the same one.
fn to_server(description: &Description<'_>, has_limit: bool) -> String {
    let Traffic { is_bulk, is_upload, upgrades, .. } = description.traffic;
    match (upgrades, is_bulk) {
        (true, _) => {
            let read = if has_limit { "" } else { "            proxy_read_timeout 300s;\n" };
            format!(
                "            # The lines of its page about WebSocket proxying; HTTP/1.1 is needed for kept connections as well.
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_upgrade;
            # Tunnels must not be closed between two heartbeats; 60 s by default.
{read}            proxy_send_timeout 300s;
"
            )
        }
        (_, true) if is_upload => UPLOAD.to_owned(),
        (_, true) => BULK.to_owned(),
        _ => {
            "            # Both needed for kept connections to servers; the defaults are HTTP/1.0 and `close`.
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
"
            .to_owned()
        }
    }
}

/// TLS by its page about HTTPS servers.
fn tls(description: &Description<'_>) -> String {
    let Some(TargetCertificate { certificate, key, .. }) = description.certificate else {
        return String::new();
    };
    let handshake = handshake(description);
    format!(
        "{handshake}        ssl_certificate {};
        ssl_certificate_key {};
        # TLS 1.3 is not among the defaults of this version.
        ssl_protocols TLSv1.2 TLSv1.3;
        # Its page about HTTPS servers: a cache of sessions spares handshakes. None by default; tickets are on.
        ssl_session_cache shared:sessions:10m;
",
        certificate.display(),
        key.display()
    )
}

fn handshake(description: &Description<'_>) -> String {
    description.handshake_timeout().map_or_else(String::new, |limit| {
        format!(
            "        # Holds for the handshake as well; 60 s by default.\n        client_header_timeout {}ms;\n",
            limit.as_millis()
        )
    })
}

/// What an upgrade makes of `Connection`; without one, server connections are kept.
fn map(description: &Description<'_>) -> &'static str {
    if !description.traffic.upgrades {
        return "";
    }
    "    # The map of its page about WebSocket proxying, without `close` where nothing is upgraded.
    map $http_upgrade $connection_upgrade {
        default upgrade;
        '' '';
    }

"
}

/// Large bodies.
const BULK: &str = "            # Both needed for kept connections to servers; the defaults are HTTP/1.0 and `close`.
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            # Buffering stays on, as by default: the server is free as soon as nginx has the body. But never in a file,
            # where by default goes what the client is too slow to take.
            proxy_max_temp_file_size 0;
            # Eight pages by default; so many more that a read and a write are worth their call.
            proxy_buffers 16 64k;
            proxy_busy_buffers_size 256k;
";

/// Large bodies of requests.
const UPLOAD: &str =
    "            # Both needed for kept connections to servers; the defaults are HTTP/1.0 and `close`.
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
            # 1 MiB by default; a larger body is answered 413.
            client_max_body_size 0;
            # On by default: a body would go into a file before the server gets its first byte.
            proxy_request_buffering off;
            # Two pages by default; so many more that a read and a write are worth their call.
            client_body_buffer_size 256k;
";

/// Bytes in both directions, not parsed.
fn stream(description: &Description<'_>) -> String {
    let Description { listen, .. } = description;
    let (process, servers) = (process(description), servers(description));
    let module = load_module(description);
    format!(
        "{module}{process}
stream {{
    # No access log is the default here.
    upstream origin {{
{servers}    }}

    server {{
        # The kernel's limit instead of 511, so that a crowd that arrives at once is queued, not dropped.
        listen {listen} backlog=4096;
        # Ten minutes of silence and TCP_NODELAY are the defaults.
        proxy_pass origin;
    }}
}}
"
    )
}

/// The servers, one a line, and how one is chosen. It has no active checks and no queue.
fn servers(description: &Description<'_>) -> String {
    let mut text = match description.balance() {
        Some(BalancePolicy::LeastRequests) => "        least_conn;\n".to_owned(),
        Some(BalancePolicy::ConsistentHash) => format!(
            "        # Ketama: few keys move when a server comes or goes.\n        hash $http_{} consistent;\n",
            CLIENT_HEADER.to_ascii_lowercase().replace('-', "_")
        ),
        Some(BalancePolicy::RoundRobin) | None => String::new(),
    };
    let limit = description.max_requests().map_or_else(String::new, |max| format!(" max_conns={max}"));
    for (addr, weight) in description.weighted() {
        let weight = weight.map_or_else(String::new, |weight| format!(" weight={weight}"));
        text.push_str(&format!("        server {addr}{limit}{weight};\n"));
    }
    text
}

/// Time limits and retries. Requests that are not idempotent are not repeated by default.
fn limits(description: &Description<'_>) -> String {
    description.upstream.response_timeout.map_or_else(String::new, |limit| {
        format!("            proxy_read_timeout {}ms;\n", limit.as_millis())
    })
}

fn as_shipped(description: &Description<'_>, protocol: &str) -> String {
    let (module, user) = (load_module(description), user_line(description));
    format!(
        "# Debian's nginx.conf (1.30), with paths of this run and a server that proxies; without `worker_cpu_affinity`, which would
# leave the CPU of this run.
{module}{user}worker_processes auto;
pid nginx.pid;
error_log error.log;

events {{
    worker_connections 768;
}}

{protocol}"
    )
}

fn http_as_shipped(description: &Description<'_>) -> String {
    let Description { listen, servers: addrs, .. } = description;
    let secure = description.certificate.map_or("", |_| " ssl");
    let http2 = if description.traffic.is_http2 { " http2" } else { "" };
    let pass = match description.upstream.protocol {
        OriginProtocol::Grpc => GRPC_PASS,
        OriginProtocol::Http1 | OriginProtocol::Http2 => PROXY_PASS,
    };
    let certificate =
        description.certificate.map_or_else(String::new, |TargetCertificate { certificate, key, .. }| {
            format!(
                "        ssl_certificate {};\n        ssl_certificate_key {};\n",
                certificate.display(),
                key.display()
            )
        });
    // One server without an upstream, as its user guide begins.
    let (origin, upstream) = match addrs {
        [only] if description.balance().is_none() && description.max_requests().is_none() => {
            (only.to_string(), String::new())
        }
        _ => ("origin".to_owned(), format!("    upstream origin {{\n{}    }}\n\n", servers(description))),
    };
    let (limits, handshake) = (limits(description), handshake(description));
    let quic =
        if description.traffic.is_http3 { format!("        listen {listen} quic;\n") } else { String::new() };
    let has_limit = description.upstream.response_timeout.is_some();
    let (map, upgrade, others) = match description.traffic.upgrades {
        true => (map(description), to_server(description, has_limit), to_server(description, false)),
        false => Default::default(),
    };
    let (upstreams, locations) = branches(description, "", &others);
    format!(
        "http {{
{OWN_FOLDERS}    sendfile on;
    tcp_nopush on;
    types_hash_max_size 2048;
    server_tokens off;
    default_type application/octet-stream;
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_prefer_server_ciphers off;
    access_log access.log;
    gzip on;

{map}{upstream}{upstreams}    server {{
        listen {listen}{secure}{http2};
{quic}{certificate}{handshake}        location / {{
            {pass}{origin};
{limits}{upgrade}        }}
{locations}    }}
}}
"
    )
}

fn stream_as_shipped(description: &Description<'_>) -> String {
    let (listen, servers) = (description.listen, servers(description));
    format!(
        "stream {{
    upstream origin {{
{servers}    }}

    server {{
        listen {listen};
        proxy_pass origin;
    }}
}}
"
    )
}

/// The stream module, where it is needed and not part of the program.
fn load_module(description: &Description<'_>) -> String {
    description.stream_module.filter(|_| description.is_tcp()).map_or_else(String::new, |file| {
        format!("# Not part of the program as it was built.\nload_module {};\n", file.display())
    })
}

/// Started by root, workers would switch to a user that cannot reach the folder of the run.
fn user_line(description: &Description<'_>) -> &'static str {
    if description.is_root { "# The folder of this run belongs to root.\nuser root;\n" } else { "" }
}
