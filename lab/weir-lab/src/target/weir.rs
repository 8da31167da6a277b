//! Weir's configuration: `weir serve FILE`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{Description, HEALTH_PATH, PathBranch, Rendered, TargetCertificate};
use crate::topology::target::TargetVariant;
use crate::topology::upstream::{BalancePolicy, CLIENT_HEADER};

/// Connections beside those of the scenario's clients, such as the one that checks whether it works.
const CLIENTS_MORE: u64 = 64;

pub(super) fn render(description: &Description<'_>) -> Rendered {
    let mut text = String::new();
    if description.is_tuned() {
        text.push_str(&format!(
            "[process]\n\
             # One worker for the one CPU of the target, as the others have.\n\
             workers = 1\n\
             # Room for the clients of the scenario; by default half of what descriptors allow, as each may need a server connection.\n\
             connections_max = {}\n\n\
             [access_log]\n\
             # Off for all targets; metrics stay on.\n\
             format = \"off\"\n\n",
            description.room.clients + CLIENTS_MORE
        ));
    }
    match description.variant {
        TargetVariant::Blind => {
            text.push_str(
                "[recorder]\n# Nothing is kept of requests that are over.\nexchanges = 0\nfailures = 0\n\n",
            );
        }
        TargetVariant::Watched => {
            text.push_str(&format!(
                "[admin]\nsocket = \"unix:{}\"\n\n",
                admin_socket(description.dir).display()
            ));
        }
        _ => {}
    }
    let protocol = if description.is_tcp() { "protocol = \"tcp\"\n" } else { "" };
    text.push_str(&format!(
        "[listener.bench]\naddress = \"{}\"\n{protocol}upstream = \"origin\"\n\n",
        description.listen
    ));
    if description.is_h2c() {
        text.push_str("[listener.bench.http2]\nprior_knowledge = \"allowed\"\n\n");
    }
    text.push_str(&secure(description));
    for PathBranch { path, name, .. } in &description.extra.branches {
        text.push_str(&format!("[[listener.bench.route]]\npath = \"{path}\"\nupstream = \"{name}\"\n\n"));
    }
    if let Some(admin) = description.extra.admin {
        text.push_str(&format!(
            "[listener.bench.request_id]\n# What went wrong is asked for by the ids of the clients.\naccept = \"always\"\n\n\
             [admin]\naddress = \"{admin}\"\n\n"
        ));
    }
    if let Some(limit) = description.handshake_timeout() {
        text.push_str(&format!("[listener.bench.timeouts]\ntls = \"{}ms\"\n\n", limit.as_millis()));
    }
    text.push_str(&upstream(description));
    if !description.reuses() {
        text.push_str(
            "\n[upstream.origin.pool]\n# The variant without reuse of server connections.\nidle_max = 0\n",
        );
    }
    for PathBranch { name, servers, .. } in &description.extra.branches {
        let servers: Vec<String> = servers.iter().map(|addr| format!("\"{addr}\"")).collect();
        text.push_str(&format!("\n[upstream.{name}]\nservers = [{}]\n", servers.join(", ")));
    }
    let path = description.dir.join("weir.toml");
    let args = vec!["serve".to_owned(), path.display().to_string()];
    Rendered { file: "weir.toml", text, args, ..Rendered::default() }
}

/// TLS, and HTTP/3 beside it.
fn secure(description: &Description<'_>) -> String {
    let Some(TargetCertificate { certificate, key, .. }) = description.certificate else {
        return String::new();
    };
    let http3 = if description.traffic.is_http3 { "[listener.bench.http3]\n\n" } else { "" };
    format!(
        "[listener.bench.tls]\ncertificates = [{{ certificate = \"{}\", key = \"{}\" }}]\n\n{http3}",
        certificate.display(),
        key.display()
    )
}

/// The socket of Weir's reports, in the folder of its files.
pub fn admin_socket(dir: &Path) -> PathBuf {
    dir.join("admin.sock")
}

/// The servers and their settings. Retries are on by default.
fn upstream(description: &Description<'_>) -> String {
    let server = |(addr, weight): (&SocketAddr, Option<u32>)| match weight {
        Some(weight) => format!("{{ address = \"{addr}\", weight = {weight} }}"),
        None => format!("\"{addr}\""),
    };
    let servers: Vec<String> = description.weighted().map(server).collect();
    let protocol = if description.is_http2_to_servers() { "protocol = \"h2c\"\n" } else { "" };
    let mut text = format!("[upstream.origin]\nservers = [{}]\n{protocol}", servers.join(", "));
    match description.balance() {
        Some(BalancePolicy::LeastRequests) => text.push_str("balance = \"least-requests\"\n"),
        Some(BalancePolicy::RoundRobin) => text.push_str("balance = \"round-robin\"\n"),
        Some(BalancePolicy::ConsistentHash) => text.push_str(&format!(
            "balance = \"consistent-hash\"\nhash_key = \"header:{}\"\n\
             # As the others: a client stays where it belongs, however busy that server is.\n\
             hash_load_factor = \"off\"\n",
            CLIENT_HEADER.to_ascii_lowercase()
        )),
        None => {}
    }
    if description.has_persistence_cookie() {
        text.push_str("affinity = { mode = \"insert\" }\n");
    }
    if let Some(max) = description.max_requests() {
        text.push_str(&format!("max_requests = {max}\n"));
    }
    let upstream = description.upstream;
    if let Some(limit) = upstream.queue_timeout {
        text.push_str(&format!("timeouts.queue = \"{}ms\"\n", limit.as_millis()));
    }
    if let Some(limit) = upstream.response_timeout {
        text.push_str(&format!("timeouts.response = \"{}ms\"\n", limit.as_millis()));
    }
    if let Some(health) = upstream.health {
        text.push_str(&format!(
            "\n[upstream.origin.health]\npath = \"{HEALTH_PATH}\"\ninterval = \"{}ms\"\n\
             fast_interval = \"{timeout}ms\"\ntimeout = \"{timeout}ms\"\nfall = {}\nrise = {}\n",
            health.interval.as_millis(),
            health.fall,
            health.rise,
            timeout = health.timeout.as_millis(),
        ));
        if description.variant == TargetVariant::NewProbes {
            text.push_str("connection_age = \"off\"\n");
        }
    }
    text
}
