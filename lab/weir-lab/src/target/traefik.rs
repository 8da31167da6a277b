//! Traefik's configuration, in two files as it wants it: static settings, and those of its file provider.
//!
//! Tuned by the reference pages of entry points, servers transports, services and middlewares. It comes without a
//! configuration: as shipped is an entry point, a router and a service, and every other value is its default.

use std::net::SocketAddr;

use super::description::{GO_ON_ONE_CPU, go_on_one_cpu};
use super::{Description, HEALTH_PATH, PathBranch, Rendered, TargetCertificate};
use crate::topology::product::ProductLacks;
use crate::topology::upstream::BalancePolicy;

pub(super) fn render(description: &Description<'_>) -> Result<Rendered, ProductLacks> {
    if description.balance() == Some(BalancePolicy::ConsistentHash) {
        return Err(ProductLacks("hashes the address of a client only, and nothing that a client says"));
    }
    if description.max_requests().is_some() {
        return Err(ProductLacks("has no limit of requests for each server and no queue"));
    }
    let path = description.dir.join("traefik.yaml");
    Ok(Rendered {
        file: "traefik.yaml",
        text: fixed(description),
        second: Some(("routing.yaml", routing(description))),
        args: vec![format!("--configFile={}", path.display())],
        env: if description.is_tuned() { vec![go_on_one_cpu()] } else { Vec::new() },
    })
}

fn fixed(description: &Description<'_>) -> String {
    let Description { listen, dir, .. } = description;
    let mut limits = String::new();
    if let Some(limit) = description.handshake_timeout() {
        limits.push_str(&format!(
            "        # Holds for the handshake as well; 60 s by default.\n        readTimeout: {}ms\n",
            limit.as_millis()
        ));
    }
    if description.is_tuned() {
        limits.push_str(
            "        # 180 s by default; idle clients must not be closed while they are counted.\n        idleTimeout: 300s\n",
        );
    }
    if !limits.is_empty() {
        limits.insert_str(0, "    transport:\n      respondingTimeouts:\n");
    }
    let cpu = if description.is_tuned() { GO_ON_ONE_CPU } else { "" };
    let http3 = if description.traffic.is_http3 { "    http3: {}\n" } else { "" };
    let throttle = if description.is_tuned() && description.traffic.is_reloaded {
        "  # 2 s by default, in which it puts off what follows a change; and one change of a file can be two to it.
  providersThrottleDuration: 100ms
"
    } else {
        ""
    };
    format!(
        "{cpu}global:
  # Nothing leaves this machine; the first is on by default.
  checkNewVersion: false
  sendAnonymousUsage: false

# No access log, no metrics and no traces are the defaults.
entryPoints:
  bench:
    address: \"{listen}\"
{http3}{limits}
providers:
{throttle}  file:
    filename: {}
",
        dir.join("routing.yaml").display()
    )
}

fn routing(description: &Description<'_>) -> String {
    if description.is_tcp() {
        return tcp(description);
    }
    let secure = if description.certificate.is_some() { "      tls: {}\n" } else { "" };
    let retry = description.upstream.retry;
    let (idempotent, middlewares) = if retry {
        (
            format!(
                "    idempotent:
      # POST must not be repeated.
      rule: \"Method(`GET`)\"
      entryPoints: [bench]
      service: origin
      middlewares: [retry]
{secure}"
            ),
            "  middlewares:
    retry:
      retry:
        attempts: 4
",
        )
    } else {
        (String::new(), "")
    };
    let (service, transport, tls) = (service(description), transport(description), tls(description));
    let (routers, branches) = branches(description);
    format!(
        "http:
  routers:
    bench:
      rule: \"PathPrefix(`/`)\"
      entryPoints: [bench]
      service: origin
{secure}{idempotent}{routers}{middlewares}{service}{branches}{transport}{tls}"
    )
}

/// Paths with servers of their own: their routers and their services. The longest rule goes first.
fn branches(description: &Description<'_>) -> (String, String) {
    let (mut routers, mut services) = (String::new(), String::new());
    let transport = if has_transport(description) { "        serversTransport: origin\n" } else { "" };
    for PathBranch { path, name, servers } in &description.extra.branches {
        routers.push_str(&format!(
            "    {name}:\n      rule: \"PathPrefix(`{path}`)\"\n      entryPoints: [bench]\n      service: {name}\n"
        ));
        let servers: String =
            servers.iter().map(|addr| format!("        - url: \"http://{addr}\"\n")).collect();
        services
            .push_str(&format!("    {name}:\n      loadBalancer:\n{transport}        servers:\n{servers}"));
    }
    (routers, services)
}

/// Bytes in both directions, not parsed.
fn tcp(description: &Description<'_>) -> String {
    let servers: String =
        description.servers.iter().map(|addr| format!("        - address: \"{addr}\"\n")).collect();
    format!(
        "tcp:
  routers:
    bench:
      rule: \"HostSNI(`*`)\"
      entryPoints: [bench]
      service: origin
  services:
    origin:
      loadBalancer:
        servers:
{servers}"
    )
}

fn service(description: &Description<'_>) -> String {
    let scheme = if description.is_http2_to_servers() { "h2c" } else { "http" };
    let server = |(addr, weight): (&SocketAddr, Option<u32>)| {
        let weight = weight.map_or_else(String::new, |weight| format!("          weight: {weight}\n"));
        format!("        - url: \"{scheme}://{addr}\"\n{weight}")
    };
    let servers: String = description.weighted().map(server).collect();
    let strategy = match description.balance() {
        Some(BalancePolicy::LeastRequests) => {
            "        # The less busy one of two that are drawn at random; it never looks at all of them.\n        strategy: p2c\n"
        }
        Some(BalancePolicy::RoundRobin) => "        strategy: wrr\n",
        Some(BalancePolicy::ConsistentHash) | None => "",
    };
    let cookie = if description.has_persistence_cookie() {
        "        sticky:\n          cookie:\n            name: SRV\n"
    } else {
        ""
    };
    let health = description.upstream.health.map_or_else(String::new, |health| {
        format!(
            "        # One probe decides: it counts none. While a server is down, as often as the others look then.
        healthCheck:
          path: {HEALTH_PATH}
          interval: {}ms
          unhealthyInterval: {timeout}ms
          timeout: {timeout}ms
",
            health.interval.as_millis(),
            timeout = health.timeout.as_millis()
        )
    });
    let transport = if has_transport(description) { "        serversTransport: origin\n" } else { "" };
    format!(
        "  services:
    origin:
      loadBalancer:
{strategy}{cookie}{health}{transport}        servers:
{servers}"
    )
}

fn has_transport(description: &Description<'_>) -> bool {
    description.is_tuned() || !description.reuses() || description.upstream.response_timeout.is_some()
}

/// How it speaks with servers.
fn transport(description: &Description<'_>) -> String {
    if !has_transport(description) {
        return String::new();
    }
    let idle = if !description.reuses() {
        "      # The variant without reuse of server connections.
      maxIdleConnsPerHost: -1
"
    } else if description.is_tuned() {
        "      # 200 by default; what is more is closed after its request.
      maxIdleConnsPerHost: 4096
"
    } else {
        ""
    };
    let limit = description.upstream.response_timeout.map_or_else(String::new, |limit| {
        format!("      forwardingTimeouts:\n        responseHeaderTimeout: {}ms\n", limit.as_millis())
    });
    format!("  serversTransports:\n    origin:\n{idle}{limit}")
}

/// TLS 1.2 and 1.3 and tickets are the defaults.
fn tls(description: &Description<'_>) -> String {
    let Some(TargetCertificate { certificate, key, .. }) = description.certificate else {
        return String::new();
    };
    format!(
        "tls:
  certificates:
  - certFile: {}
    keyFile: {}
",
        certificate.display(),
        key.display()
    )
}
