//! Words of other products that take a sentence: where the name of a key alone would not say what to write.

/// What to write for a word of another product, where the name of a key alone would not say it.
pub(super) struct Advice {
    pub(super) words: &'static [&'static str],
    pub(super) instead: &'static str,
}

const fn advice(words: &'static [&'static str], instead: &'static str) -> Advice {
    Advice { words, instead }
}

pub(super) const ADVICE: &[Advice] = &[
    advice(
        &["frontend", "frontends", "entrypoints", "listen", "bind", "http", "listeners"],
        "a place where clients connect is a `[listener.NAME]` with an `address`",
    ),
    advice(
        &["backend", "backends", "cluster", "clusters", "services", "pool", "upstreams"],
        "a set of servers is an `[upstream.NAME]` with a list `servers`",
    ),
    advice(
        &["mode", "stream", "tcp"],
        "a listener that passes any TCP connection on has `protocol = \"tcp\"`",
    ),
    advice(
        &["location", "routes", "routers", "rule", "rules", "handle"],
        "a rule for requests is a `[[listener.NAME.route]]`",
    ),
    advice(
        &["proxy_pass", "reverse_proxy", "default_backend", "use_backend", "to"],
        "where requests go is `upstream = \"NAME\"`",
    ),
    advice(
        &["server_name", "hostname", "hosts", "domain"],
        "a route takes requests for a host by `host = \"example.com\"`",
    ),
    advice(
        &["worker_processes", "nbthread", "nbproc", "threads"],
        "the number of workers is `workers` in `[process]`",
    ),
    advice(
        &["worker_connections", "maxconn", "max_conns", "max_connections"],
        "connections are limited by `connections_max`, requests per server by `max_requests`",
    ),
    advice(
        &["worker_rlimit_nofile", "ulimit-n"],
        "the limit of open files is set outside: `LimitNOFILE=` in systemd, `ulimit -n`",
    ),
    advice(&["lb_policy", "load_balancing", "algorithm", "strategy"], "how a server is chosen is `balance`"),
    advice(
        &["least_conn", "random"],
        "that is a value of `balance` in `[upstream.NAME]`: `least-requests`, `random`",
    ),
    advice(
        &["roundrobin", "static-rr"],
        "that is a value here: `balance = \"round-robin\"` in `[upstream.NAME]`",
    ),
    advice(
        &["ip_hash", "hash"],
        "write `balance = \"consistent-hash\"` with `hash_key = \"client-address\"` in `[upstream.NAME]`",
    ),
    advice(
        &["timeout", "timeouts"],
        "time limits are `timeouts` of a listener, of a route and of an upstream",
    ),
    advice(&["proxy_timeout", "timeout_tunnel"], "that is `timeouts = { tunnel = \"1h\" }` of an upstream"),
    advice(
        &["max_fails", "fail_timeout"],
        "they belong to the upstream: `ejection = { max_fails = 1, fail_timeout = \"10s\" }`",
    ),
    advice(
        &[
            "outlier_detection",
            "circuit_breaker",
            "circuit_breakers",
            "observe",
            "error_limit",
            "on_error",
            "passive_health",
        ],
        "servers on which requests fail are ejected by `ejection` of an upstream",
    ),
    advice(
        &[
            "base_ejection_time",
            "max_ejection_time",
            "max_ejection",
            "max_ejection_percent",
            "consecutive_5xx",
        ],
        "`ejection` has `consecutive_failures`, `error_rate`, `base_time`, `max_time` and `servers_max`",
    ),
    advice(&["healthy_panic_threshold"], "it is `panic_threshold` of an upstream"),
    advice(&["keepalive"], "connections are kept by default; see `pool` of an upstream"),
    advice(&["client_max_body_size"], "the size of a body is limited by `body_size` in `limits`"),
    advice(
        &[
            "proxy_set_header",
            "add_header",
            "headers",
            "header_up",
            "header_down",
            "http-request",
            "http-response",
        ],
        "headers are changed by `request_headers` and `response_headers` of a route",
    ),
    advice(
        &["check", "healthcheck", "health_checks", "httpchk", "http-check"],
        "servers are probed by `health` of an upstream: `health = { path = \"/healthz\" }`",
    ),
    advice(
        &["inter", "uri", "passes", "fails", "fastinter", "expect", "expected_statuses"],
        "a health check has `path`, `status`, `interval`, `fast_interval`, `rise` and `fall`",
    ),
    advice(
        &["sticky", "cookie", "stick", "appsession"],
        "a client stays on its server with `affinity` of an upstream",
    ),
    advice(
        &[
            "proxy_ssl_verify",
            "proxy_ssl_name",
            "proxy_ssl_server_name",
            "proxy_ssl_trusted_certificate",
            "ca_file",
            "verifyhost",
            "sni",
            "insecure_skip_verify",
            "servers_transport",
        ],
        "TLS with servers is `tls` of an upstream, with `ca`, `server_name` and `verify`",
    ),
    advice(
        &["ssl", "crt", "cert", "ssl_certificate", "ssl_certificate_key"],
        "TLS of a listener is `tls = { certificates = [{ certificate = \"site.pem\", key = \"site.key\" }] }`",
    ),
    advice(
        &["ssl_verify_client", "ssl_client_certificate", "ssl_crl", "crl_file", "client_auth"],
        "certificates of clients are `client_certificates = { ca = \"clients.pem\", crl = \"revoked.pem\" }` of `tls`",
    ),
    advice(&["return", "respond"], "a route answers by itself with `respond` or `redirect`"),
    advice(
        &["redirect", "redir"],
        "a route sends clients elsewhere with `redirect = { to = \"https://{host}{path}{query}\" }`",
    ),
    advice(
        &["rewrite", "replace_path", "uri_rewrite"],
        "a route changes the path with `strip_prefix`, `replace_prefix` or `replace_regex`, and sends clients elsewhere with `redirect`",
    ),
    advice(
        &["host_header", "pass_host_header", "preserve_host"],
        "the `Host` that servers get is `forward_host` of a route",
    ),
    advice(
        &["allow", "deny", "ip_whitelist", "ip_allow_list", "limit_except"],
        "a route takes clients by `source` and requests by `method`; one with `respond = { status = 403 }` refuses the rest",
    ),
    advice(
        &["acl", "if", "unless", "match", "matchers"],
        "conditions are keys of a route: `host`, `path`, `method`, `header`, `query`, `source`",
    ),
    advice(
        &["real_ip_header", "real_ip_recursive"],
        "peers whose `X-Forwarded-For` is believed are `trusted_proxies` of a listener",
    ),
    advice(
        &["accept_proxy"],
        "balancers in front that speak the PROXY protocol are `proxy_protocol` of a listener",
    ),
    advice(
        &["upgrade", "websocket", "websockets", "proxy_http_version"],
        "WebSocket passes by default; other protocols are `upgrades` of a route. Servers are spoken to in HTTP/1.1",
    ),
    advice(
        &["proxy_buffering", "proxy_buffers", "proxy_request_buffering"],
        "a body is passed on as it comes and is never gathered: there is nothing to set",
    ),
    advice(
        &[
            "events",
            "use",
            "multi_accept",
            "sendfile",
            "tcp_nopush",
            "daemon",
            "pid",
            "pidfile",
            "user",
            "group",
            "chroot",
            "global",
            "defaults",
        ],
        "there is no such thing to set: keys of the whole process are in `[process]`",
    ),
    advice(&["server_tokens", "server_header"], "Weir adds no `Server` field and does not name its version"),
    advice(
        &["ssl_prefer_server_ciphers", "ssl_dhparam", "ssl_session_timeout"],
        "there is nothing to set: Weir prefers its own order of suites and has no finite-field groups",
    ),
    advice(
        &["stats", "status", "stub_status", "dashboard", "api"],
        "the status page, metrics and JSON are at `address` of `[admin]`",
    ),
];
