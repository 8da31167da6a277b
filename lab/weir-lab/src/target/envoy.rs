//! Envoy's configuration: a static one, without admin and control plane.
//!
//! Tuned by the pages of its documentation about benchmarking, circuit breaking, edge proxies, load balancing and health
//! checking. It has no package with a configuration of its own: as shipped is the listener and the cluster that its quick start
//! shows, and every other value is its default.

use std::time::Duration;

use super::{Description, HEALTH_PATH, Rendered, TargetCertificate};
use crate::topology::upstream::{BalancePolicy, CLIENT_HEADER};

/// Where the types of its extensions are named.
const TYPE: &str = "\"@type\": type.googleapis.com/envoy.extensions";

pub(super) fn render(description: &Description<'_>) -> Rendered {
    let workers = if description.is_tuned() {
        "# One worker for the one CPU of the target, as the others have, stands on the command line, as its page about benchmarking\n\
         # asks for; by default it has one for each CPU.\n"
    } else {
        ""
    };
    let text = format!(
        "{workers}static_resources:\n  listeners:\n{}  clusters:\n{}",
        listener(description),
        cluster(description)
    );
    let path = description.dir.join("envoy.yaml");
    let mut args = vec!["-c".to_owned(), path.display().to_string()];
    // Its hot restart claims a name that all instances of the machine share.
    args.push("--disable-hot-restart".to_owned());
    if description.is_tuned() {
        args.extend(["--concurrency", "1"].map(str::to_owned));
    }
    Rendered { file: "envoy.yaml", text, args, ..Rendered::default() }
}

fn listener(description: &Description<'_>) -> String {
    let (ip, port) = (description.listen.ip(), description.listen.port());
    let tls = tls(description);
    let filter = if description.is_tcp() { tcp_proxy() } else { connection_manager(description, "") };
    let quic = if description.traffic.is_http3 { quic(description) } else { String::new() };
    format!(
        "  - name: bench
    address:
      socket_address: {{ address: {ip}, port_value: {port} }}
    filter_chains:
    - filters:
{filter}{tls}{quic}"
    )
}

/// The listener of HTTP/3 beside the one of TLS, as its page about HTTP/3 has it.
fn quic(description: &Description<'_>) -> String {
    let Some(TargetCertificate { certificate, key, .. }) = description.certificate else {
        return String::new();
    };
    let (ip, port) = (description.listen.ip(), description.listen.port());
    let tuned = if description.is_tuned() {
        "      # Its page about HTTP/3: many packets in one call.
      downstream_socket_config: { prefer_gro: true }
"
    } else {
        ""
    };
    let filter = connection_manager(description, "          codec_type: HTTP3\n");
    format!(
        "  - name: bench-quic
    address:
      socket_address: {{ protocol: UDP, address: {ip}, port_value: {port} }}
    udp_listener_config:
      quic_options: {{}}
{tuned}    filter_chains:
    - filters:
{filter}      transport_socket:
        name: envoy.transport_sockets.quic
        typed_config:
          {TYPE}.transport_sockets.quic.v3.QuicDownstreamTransport
          downstream_tls_context:
            common_tls_context:
              tls_certificates:
              - certificate_chain: {{ filename: {} }}
                private_key: {{ filename: {} }}
",
        certificate.display(),
        key.display()
    )
}

/// Bytes in both directions, not parsed.
fn tcp_proxy() -> String {
    format!(
        "      - name: envoy.filters.network.tcp_proxy
        typed_config:
          {TYPE}.filters.network.tcp_proxy.v3.TcpProxy
          stat_prefix: bench
          cluster: origin
"
    )
}

/// `codec`: a line that names the version of HTTP; by default it is found out.
fn connection_manager(description: &Description<'_>, codec: &str) -> String {
    let tuned = if description.is_tuned() {
        "          # Its page about edge proxies: the client's address reaches the server, as the other targets pass it on.
          use_remote_address: true
          # Its page about benchmarking: no ID for each request.
          generate_request_id: false
"
    } else {
        ""
    };
    let old = if description.traffic.is_http_1_0 {
        "          # Otherwise it answers clients of HTTP/1.0 with 426, and one of the tools is one.
          http_protocol_options: { accept_http_10: true }
"
    } else {
        ""
    };
    let upgrades = if description.traffic.upgrades {
        "          # What its page about upgrades asks for.
          upgrade_configs:
          - upgrade_type: websocket
"
    } else {
        ""
    };
    let (routes, cookie) = (routes(description), cookie(description));
    let router = if description.is_tuned() {
        "              # Its page about benchmarking: none of the statistics that are made up from each request.
              dynamic_stats: false
"
    } else {
        ""
    };
    format!(
        "      - name: envoy.filters.network.http_connection_manager
        typed_config:
          {TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
{codec}{tuned}{old}{upgrades}          route_config:
            virtual_hosts:
            - name: bench
              domains: [\"*\"]
              routes:
{routes}          http_filters:
{cookie}          - name: envoy.filters.http.router
            typed_config:
              {TYPE}.filters.http.router.v3.Router
{router}"
    )
}

/// One route for everything, or one more for requests that must not be repeated.
fn routes(description: &Description<'_>) -> String {
    let entry = |matches: &str, repeats: &str| {
        format!(
            "              - match: {{ prefix: \"/\"{matches} }}
                route:
                  cluster: origin
{}",
            route(description, repeats)
        )
    };
    if !description.upstream.retry {
        return entry("", "");
    }
    let post = ", headers: [{ name: \":method\", string_match: { exact: POST } }]";
    // POST must not be repeated, unless it has not been sent.
    entry(post, "connect-failure") + &entry("", "connect-failure,refused-stream,reset")
}

/// Time limits, when a request is repeated, and the key of a hash.
fn route(description: &Description<'_>, repeats: &str) -> String {
    let upstream = description.upstream;
    let mut text = String::new();
    if description.is_tuned() {
        text.push_str(
            "                  # 15 s by default, from the request to the end of the response, time in its queue included.
                  timeout: 300s
",
        );
    }
    if description.balance() == Some(BalancePolicy::ConsistentHash) {
        text.push_str(&format!(
            "                  hash_policy:\n                  - header: {{ header_name: {CLIENT_HEADER} }}\n"
        ));
    }
    let per_try = upstream.response_timeout.map_or_else(String::new, |limit| {
        format!("                    per_try_timeout: {}\n", seconds(limit))
    });
    if upstream.retry {
        text.push_str(&format!(
            "                  retry_policy:
                    retry_on: {repeats}
                    num_retries: 3
{per_try}                    # At another server: by default it may be the same one.
                    host_selection_retry_max_attempts: 5
                    retry_host_predicate:
                    - name: envoy.retry_host_predicates.previous_hosts
                      typed_config:
                        {TYPE}.retry.host.previous_hosts.v3.PreviousHostsPredicate
"
        ));
    } else if !per_try.is_empty() {
        text.push_str(&format!(
            "                  # For the first and only attempt.
                  retry_policy:
                    num_retries: 0
{per_try}"
        ));
    }
    text
}

/// A cookie that holds the server's address.
fn cookie(description: &Description<'_>) -> String {
    if !description.has_persistence_cookie() {
        return String::new();
    }
    format!(
        "          # What its page about sticky sessions offers.
          - name: envoy.filters.http.stateful_session
            typed_config:
              {TYPE}.filters.http.stateful_session.v3.StatefulSession
              session_state:
                name: envoy.http.stateful_session.cookie
                typed_config:
                  {TYPE}.http.stateful_session.cookie.v3.CookieBasedSessionState
                  cookie: {{ name: SRV, path: / }}
"
    )
}

/// TLS 1.2 and 1.3 and tickets are the defaults.
fn tls(description: &Description<'_>) -> String {
    let Some(TargetCertificate { certificate, key, .. }) = description.certificate else {
        return String::new();
    };
    let limit = description.handshake_timeout().map_or_else(String::new, |limit| {
        format!("      transport_socket_connect_timeout: {}\n", seconds(limit))
    });
    format!(
        "{limit}      transport_socket:
        name: envoy.transport_sockets.tls
        typed_config:
          {TYPE}.transport_sockets.tls.v3.DownstreamTlsContext
          common_tls_context:
            tls_certificates:
            - certificate_chain: {{ filename: {} }}
              private_key: {{ filename: {} }}
",
        certificate.display(),
        key.display()
    )
}

fn cluster(description: &Description<'_>) -> String {
    let (balance, breakers) = (balance(description), breakers(description));
    let (health, reuse) = (health(description), reuse(description));
    let servers: String = description
        .servers
        .iter()
        .map(|addr| {
            format!(
                "        - endpoint: {{ address: {{ socket_address: {{ address: {}, port_value: {} }} }} }}\n",
                addr.ip(),
                addr.port()
            )
        })
        .collect();
    format!(
        "  - name: origin
    type: STATIC
{balance}{breakers}{health}{reuse}    load_assignment:
      cluster_name: origin
      endpoints:
      - lb_endpoints:
{servers}"
    )
}

/// How a server is chosen; in turn by default.
fn balance(description: &Description<'_>) -> String {
    match description.balance() {
        // Not without the limit: a server that is gone has the fewest requests, and each retry would find it again.
        Some(BalancePolicy::LeastRequests) if description.is_tuned() && description.max_requests().is_some() => format!(
            "    # All servers are compared, so that none waits while another is free; by default two, drawn at random.
    load_balancing_policy:
      policies:
      - typed_extension_config:
          name: envoy.load_balancing_policies.least_request
          typed_config:
            {TYPE}.load_balancing_policies.least_request.v3.LeastRequest
            selection_method: FULL_SCAN
"
        ),
        Some(BalancePolicy::LeastRequests) => "    lb_policy: LEAST_REQUEST\n".to_owned(),
        Some(BalancePolicy::RoundRobin) => "    lb_policy: ROUND_ROBIN\n".to_owned(),
        Some(BalancePolicy::ConsistentHash) => "    lb_policy: RING_HASH\n".to_owned(),
        None => String::new(),
    }
}

/// Limits. It has none for how long a request may wait but that of the route.
fn breakers(description: &Description<'_>) -> String {
    let mut thresholds = String::new();
    if description.is_tuned() {
        thresholds.push_str(
            "      # Its page about benchmarking: none of these limits. 1024 connections, waiting requests and requests at once, and
      # 3 retries are the defaults; what is more fails.
      thresholds:
      - max_connections: 1000000000
        max_pending_requests: 1000000000
        max_requests: 1000000000
        max_retries: 1000000000
",
        );
    }
    if let Some(max) = description.max_requests() {
        thresholds.push_str(&format!(
            "      # HTTP/1.1: so many connections to a server are so many requests; the others wait.
      per_host_thresholds:
      - max_connections: {max}
"
        ));
    }
    if thresholds.is_empty() { thresholds } else { format!("    circuit_breakers:\n{thresholds}") }
}

fn health(description: &Description<'_>) -> String {
    let Some(health) = description.upstream.health else { return String::new() };
    let (interval, timeout) = (seconds(health.interval), seconds(health.timeout));
    format!(
        "    health_checks:
    - interval: {interval}
      # 60 s by default for servers without requests.
      no_traffic_interval: {interval}
      # While a server is down.
      unhealthy_interval: {timeout}
      timeout: {timeout}
      unhealthy_threshold: {}
      healthy_threshold: {}
      http_health_check: {{ path: {HEALTH_PATH} }}
",
        health.fall, health.rise
    )
}

fn reuse(description: &Description<'_>) -> String {
    if description.is_http2_to_servers() {
        return "    # HTTP/1.1 by default.
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: { http2_protocol_options: {} }
"
        .to_owned();
    }
    if description.reuses() || description.is_tcp() {
        return String::new();
    }
    "    # The variant without reuse of server connections.
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        common_http_protocol_options: { max_requests_per_connection: 1 }
        explicit_http_config: { http_protocol_options: {} }
"
    .to_owned()
}

/// As its configuration has lengths of time.
fn seconds(length: Duration) -> String {
    format!("{}s", length.as_secs_f64())
}
