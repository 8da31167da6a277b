//! Caddy's configuration, a Caddyfile.
//!
//! Tuned by the pages of its documentation about `reverse_proxy` and global options. Its package comes with a file server; as
//! shipped is the one line that its quick start shows, and every other value is its default.

use super::description::{GO_ON_ONE_CPU, go_on_one_cpu};
use super::{Description, HEALTH_PATH, Rendered, TargetCertificate};
use crate::topology::product::ProductLacks;
use crate::topology::upstream::{BalancePolicy, CLIENT_HEADER};

pub(super) fn render(description: &Description<'_>) -> Result<Rendered, ProductLacks> {
    if description.is_tcp() {
        return Err(ProductLacks("passes no plain TCP: that is a plugin which its releases lack"));
    }
    let Description { listen, dir, .. } = description;
    let scheme = if description.certificate.is_some() { "https" } else { "http" };
    let tls =
        description.certificate.map_or_else(String::new, |TargetCertificate { certificate, key, .. }| {
            // TLS 1.2 and 1.3 and tickets are the defaults.
            format!("\ttls {} {}\n", certificate.display(), key.display())
        });
    let cpu = if description.is_tuned() { GO_ON_ONE_CPU } else { "" };
    let text = format!(
        "{cpu}{{
\t# Several may run on one machine: neither the port of its API nor 80 for redirects.
\tadmin off
\tauto_https disable_redirects
\t# Its files lie in the folder of this run.
\tstorage file_system {}
{}}}

{scheme}://:{} {{
\tbind {}
{tls}{}}}
",
        dir.join("storage").display(),
        servers_options(description),
        listen.port(),
        listen.ip(),
        proxy(description)
    );
    let path = dir.join("Caddyfile");
    let args = ["run", "--adapter", "caddyfile", "--config", &path.display().to_string()];
    let mut env: Vec<(&'static str, String)> =
        ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"].map(|name| (name, dir.display().to_string())).to_vec();
    if description.is_tuned() {
        env.push(go_on_one_cpu());
    }
    Ok(Rendered {
        file: "Caddyfile",
        text,
        args: args.map(str::to_owned).to_vec(),
        env,
        ..Rendered::default()
    })
}

/// No access log and no metrics are the defaults, and idle clients stay for five minutes.
fn servers_options(description: &Description<'_>) -> String {
    let mut text = String::new();
    if description.is_h2c() {
        text.push_str("\t\t# By default there is no HTTP/2 without TLS.\n\t\tprotocols h1 h2c\n");
    } else if description.is_tuned()
        && description.certificate.is_some()
        && !description.traffic.is_http2
        && !description.traffic.is_http3
    {
        text.push_str(
            "\t\t# The clients speak HTTP/1.1; by default there would be UDP sockets for HTTP/3 as well.\n\t\tprotocols h1\n",
        );
    }
    if let Some(limit) = description.handshake_timeout() {
        text.push_str(&format!(
            "\t\ttimeouts {{\n\t\t\t# Holds for the handshake as well.\n\t\t\tread_header {}ms\n\t\t}}\n",
            limit.as_millis()
        ));
    }
    if text.is_empty() { text } else { format!("\tservers {{\n{text}\t}}\n") }
}

fn proxy(description: &Description<'_>) -> String {
    let servers: Vec<String> = description.servers.iter().map(ToString::to_string).collect();
    let servers = servers.join(" ");
    let block = [balance(description), health(description), transport(description)].concat();
    if block.is_empty() {
        format!("\treverse_proxy {servers}\n")
    } else {
        format!("\treverse_proxy {servers} {{\n{block}\t}}\n")
    }
}

/// How a server is chosen, at random by default, and the retry when it cannot take the request.
fn balance(description: &Description<'_>) -> String {
    let upstream = description.upstream;
    let mut text = String::new();
    if description.has_persistence_cookie() {
        text.push_str("\t\tlb_policy cookie SRV\n");
    } else {
        match description.balance() {
            Some(BalancePolicy::LeastRequests) => text.push_str("\t\tlb_policy least_conn\n"),
            Some(BalancePolicy::RoundRobin) => text.push_str("\t\tlb_policy round_robin\n"),
            Some(BalancePolicy::ConsistentHash) => {
                text.push_str(&format!("\t\tlb_policy header {CLIENT_HEADER}\n"));
            }
            None => {}
        }
    }
    if let Some(max) = description.max_requests() {
        text.push_str(&format!(
            "\t\t# A server with this many requests takes no more; a request that finds no other server retries in intervals.
\t\tunhealthy_request_count {max}
\t\t# Versions before 2.7 take a server for unhealthy that has no more failures than this, and 0 is their default.
\t\tmax_fails 1
"
        ));
    }
    if let Some(limit) = upstream.queue_timeout.filter(|_| description.max_requests().is_some()) {
        text.push_str(&format!("\t\tlb_try_duration {}ms\n", limit.as_millis()));
        if description.is_tuned() {
            text.push_str("\t\t# 250 ms by default.\n\t\tlb_try_interval 1ms\n");
        }
    } else if upstream.retry {
        text.push_str(
            "\t\t# Once more, at another server: by default never. Of what may have reached a server it repeats GET alone.
\t\tlb_retries 3
\t\t# Servers that failed are passed over for so long; by default they are not.
\t\tfail_duration 1s
",
        );
    }
    text
}

fn health(description: &Description<'_>) -> String {
    description.upstream.health.map_or_else(String::new, |health| {
        format!(
            "\t\t# One probe decides: versions before 2.8 count none.
\t\thealth_uri {HEALTH_PATH}
\t\thealth_interval {}ms
\t\thealth_timeout {}ms
",
            health.interval.as_millis(),
            health.timeout.as_millis()
        )
    })
}

/// How it speaks with servers.
fn transport(description: &Description<'_>) -> String {
    let mut text = String::new();
    if description.is_http2_to_servers() {
        text.push_str("\t\t\t# HTTP/1.1 by default.\n\t\t\tversions h2c\n");
    } else if !description.reuses() {
        text.push_str("\t\t\t# The variant without reuse of server connections.\n\t\t\tkeepalive off\n");
    } else if description.is_tuned() {
        text.push_str(
            "\t\t\t# 32 by default; what is more is closed after its request, and each request of many clients opens one.
\t\t\tkeepalive_idle_conns_per_host 4096
",
        );
    }
    if let Some(limit) = description.upstream.response_timeout {
        text.push_str(&format!("\t\t\tresponse_header_timeout {}ms\n", limit.as_millis()));
    }
    if text.is_empty() { text } else { format!("\t\ttransport http {{\n{text}\t\t}}\n") }
}
