//! Terms of other products whose equivalent needs a sentence.

/// The equivalent of terms of other products, as a sentence.
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
        "sockets for clients are declared as `[listener.NAME]` with an `address`",
    ),
    advice(
        &["backend", "backends", "cluster", "clusters", "services", "pool", "upstreams"],
        "a set of servers is declared as `[upstream.NAME]` with a list `servers`",
    ),
    advice(
        &["compress", "compressor", "encode", "brotli", "zstd", "deflate"],
        "responses are compressed with `compression = true` of a listener or a route",
    ),
    advice(
        &[
            "proxy_cache",
            "proxy_cache_path",
            "proxy_cache_valid",
            "proxy_cache_key",
            "proxy_store",
            "caches",
            "cache_use",
            "cache_store",
        ],
        "a store of responses is declared as `[cache.NAME]`, and used by a route with `cache = \"NAME\"`",
    ),
    advice(
        &[
            "certresolver",
            "certificates_resolvers",
            "letsencrypt",
            "on_demand_tls",
            "auto_https",
            "acme_issuer",
            "acme_certificate",
            "acme_ca",
        ],
        "Weir obtains certificates by itself with `acme = {}` in `tls` of a listener",
    ),
    advice(
        &["self_signed", "mkcert", "dev_certs"],
        "certificates for development are made by Weir with `tls = \"internal\"` of a listener",
    ),
    advice(
        &["nsupdate", "tsig_key", "rfc2136"],
        "records of `dns-01` are set at a name server by `dns_update` in `tls.acme` of a listener",
    ),
    advice(
        &["alias", "static", "document_root"],
        "a route serves files with `files = { root = \"/path\" }`; `strip_prefix` removes its `path` first",
    ),
    advice(
        &["fastcgi_pass", "php_fastcgi", "fcgi_app", "use_fcgi_app", "fastcgi_keep_conn", "php", "phpfpm"],
        "PHP runs in servers of an upstream with `protocol = \"fastcgi\"`; `fastcgi` of a route says which script",
    ),
    advice(
        &["gzip_vary"],
        "with `compression = true`, `Vary: Accept-Encoding` is set wherever the response depends on it",
    ),
    advice(
        &["gzip_proxied"],
        "with `compression = true`, responses to requests of other proxies are compressed as any other",
    ),
    advice(
        &["log_not_found"],
        "files that are not there are requests with status 404 in the `access_log`; Weir's own log does not name them",
    ),
    advice(
        &["proxy_hide_header", "fastcgi_hide_header", "hide_headers"],
        "headers of responses are removed with `response_headers = { remove = [\"X-Powered-By\"] }` of the route",
    ),
    advice(&["satisfy"], "`satisfy = \"any\"` of a route: one of its lists, or one kind of authentication"),
    advice(
        &["internal"],
        "no path is for internal requests alone: pages for failures are `error_pages`, and `respond = { status = 404 }` of a route hides a path",
    ),
    advice(
        &["option", "options"],
        "there are no options: `option httpchk` of HAProxy is `health` of an upstream, `option httplog` is `access_log`, `option forwardfor` is `forwarded` of a listener",
    ),
    advice(
        &["monitor-uri", "monitor", "monitor_fail", "health_check_path"],
        "`/ready` and `/live` are on the listener of `admin`; on another listener, a route answers with `respond = { status = 200 }` and `access_log = false`, and one with `when = 'upstream.app.usable < 1'` with `respond = { status = 503 }`",
    ),
    advice(
        &["default-server", "server-template"],
        "what holds for all servers is a key of the upstream: `health`, `pool`, `timeouts`, `tls`, `slow_start`",
    ),
    advice(
        &["fastcgi_read_timeout", "fastcgi_send_timeout"],
        "write it in the upstream: `timeouts = { response = \"60s\" }` until the response begins, `relay` for its body",
    ),
    advice(&["directory_listing"], "folders are listed with `listing = true` in `files` of a route"),
    advice(
        &["open_file_cache"],
        "open files are kept by default: `open_file_cache_max` and `open_file_cache_inactive` of `process` say how many and how long, `valid` in `files` of a route when they are looked at again",
    ),
    advice(
        &["expires"],
        "`expires` of a route says how long clients may keep responses, by media type and status",
    ),
    advice(
        &["errorfiles", "errorloc", "http_errors"],
        "pages for failures are `error_pages` of a listener or a route, each with `status` and a file `html` or `json`, or the `upstream` that has them",
    ),
    advice(&["mode", "stream", "tcp"], "a listener for any TCP protocol has `protocol = \"tcp\"`"),
    advice(
        &["location", "routes", "routers", "rule", "rules", "handle"],
        "a rule for requests is declared as `[[listener.NAME.route]]`",
    ),
    advice(
        &["proxy_pass", "reverse_proxy", "default_backend", "use_backend", "to"],
        "the destination of requests is `upstream = \"NAME\"`",
    ),
    advice(
        &["server_name", "hostname", "hosts", "domain"],
        "a route matches a host with `host = \"example.com\"`",
    ),
    advice(
        &["worker_processes", "nbthread", "nbproc", "threads"],
        "the number of workers is `workers` in `[process]`",
    ),
    advice(
        &["worker_connections", "maxconn", "max_conns", "max_connections"],
        "`connections_max` limits connections, `max_requests` the requests per server",
    ),
    advice(
        &["worker_rlimit_nofile", "ulimit-n"],
        "the limit of open files is set outside the config: `LimitNOFILE=` in systemd, `ulimit -n`",
    ),
    advice(
        &["mirroring", "request_mirror_policies", "proxy_request_mirror", "spoe-mirror"],
        "copies of requests are `mirror` of a route: `mirror = { upstream = \"new\" }`",
    ),
    advice(&["lb_policy", "load_balancing", "algorithm", "strategy"], "the balancing policy is `balance`"),
    advice(
        &["least_conn", "random"],
        "that is a value of `balance` in `[upstream.NAME]`: `least-requests`, `random`",
    ),
    advice(&["roundrobin", "static-rr"], "that is a value: `balance = \"round-robin\"` in `[upstream.NAME]`"),
    advice(
        &["ip_hash", "hash"],
        "write `balance = \"consistent-hash\"` with `hash_key = \"client-address\"` in `[upstream.NAME]`",
    ),
    advice(
        &["timeout", "timeouts"],
        "time limits are `timeouts` of a listener, of a route and of an upstream",
    ),
    advice(&["proxy_timeout", "timeout_tunnel"], "write `timeouts = { tunnel = \"1h\" }` in the upstream"),
    advice(
        &["max_fails", "fail_timeout"],
        "write it in the upstream: `ejection = { max_fails = 1, fail_timeout = \"10s\" }`",
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
        "outlier ejection is `ejection` of an upstream",
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
    advice(&["healthy_panic_threshold"], "use `panic_threshold` of an upstream"),
    advice(&["keepalive"], "connections are kept by default; see `pool` of an upstream"),
    advice(&["client_max_body_size"], "`body_size` in `limits` limits the size of a body"),
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
        "`request_headers` and `response_headers` of a route change headers",
    ),
    advice(
        &["check", "healthcheck", "health_checks", "httpchk", "http-check"],
        "health checks are `health` of an upstream: `health = { path = \"/healthz\" }`",
    ),
    advice(
        &["inter", "uri", "passes", "fails", "fastinter", "expect", "expected_statuses"],
        "a health check has `path`, `status`, `interval`, `fast_interval`, `rise` and `fall`",
    ),
    advice(&["sticky", "cookie", "stick", "appsession"], "session affinity is `affinity` of an upstream"),
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
        "client certificates are `client_certificates = { ca = \"clients.pem\", crl = \"revoked.pem\" }` of `tls`",
    ),
    advice(&["http_basic_auth"], "a route asks for passwords with `basic = { users_file = \"htpasswd\" }`"),
    advice(
        &["auth_jwt_key_request", "remote_jwks", "jwks_uri", "jwks_url"],
        "keys of tokens are fetched from an upstream with `remote_keys = { upstream = \"NAME\", path = \"/jwks.json\" }` of `jwt`",
    ),
    advice(
        &["auth_jwt_key_file", "local_jwks", "jwks_file"],
        "keys of tokens are in a file with `jwt = { keys_file = \"jwks.json\" }` of a route",
    ),
    advice(&["return", "respond"], "a route responds without a server with `respond` or `redirect`"),
    advice(
        &["redirect", "redir"],
        "a route redirects with `redirect = { to = \"https://{host}{path}{query}\" }`",
    ),
    advice(
        &["rewrite", "replace_path", "uri_rewrite"],
        "a route changes the path with `strip_prefix`, `replace_prefix` or `replace_regex`, and redirects with `redirect`",
    ),
    advice(
        &["host_header", "pass_host_header", "preserve_host"],
        "`forward_host` of a route sets the `Host` for servers",
    ),
    advice(
        &[
            "limit_req",
            "limit_req_zone",
            "limit_conn_zone",
            "rate_limit",
            "rate_limits",
            "stick_table",
            "local_ratelimit",
            "http_req_rate",
            "sc_http_req_rate",
            "in_flight_req",
            "track_sc0",
        ],
        "a limit is declared as `[limit.NAME]` with a `rate` or `concurrent`, and named in `limited_by` of a listener, a route or an upstream",
    ),
    advice(
        &["redis", "rate_limit_service", "global_ratelimit"],
        "nodes share a limit by `shared = \"NAME\"` of `[limit.NAME]` and a Redis, declared as `[store.NAME]` with `address = \"redis://10.0.0.5\"`, `rediss://` for TLS",
    ),
    advice(
        &["limit_except"],
        "routes match requests by `method`; another one with `respond = { status = 403 }` rejects the rest",
    ),
    advice(
        &["allow", "deny", "ip_whitelist", "ip_allow_list", "access_rules"],
        "clients are allowed and denied by `[list.NAME]`, named in `lists` of a listener or a route; `source` of a route takes the requests of a network",
    ),
    advice(
        &["geo"],
        "values by networks are in `network` of `[map.NAME]`, with the address of the client as its `source`",
    ),
    advice(
        &["var", "set_var", "variable", "variables"],
        "variables are in `vars` of a listener or a route; `{vars.NAME}` is their value",
    ),
    advice(
        &["acl", "if", "unless", "match", "matchers"],
        "conditions are `when` of a route, a list, a limit, header rules and others; the usual ones are keys of a route: `host`, `path`, `method`, `header`, `query`, `source`",
    ),
    advice(
        &["real_ip_header", "real_ip_recursive"],
        "`client_address_header` of a listener names the header in which its `trusted_proxies` name the client",
    ),
    advice(
        &["accept_proxy"],
        "`proxy_protocol` of a listener lists the balancers that send PROXY protocol headers",
    ),
    advice(
        &["upgrade", "websocket", "websockets"],
        "WebSocket works by default; other protocols are listed in `upgrades` of a route",
    ),
    advice(
        &["grpc", "grpcs"],
        "gRPC is HTTP/2: the servers have `protocol = \"h2\"` or `\"h2c\"` of an upstream, the clients `http2` of a listener",
    ),
    advice(
        &["proxy_request_buffering", "http_buffer_request", "client_body_buffer_size"],
        "bodies of requests are streamed; `buffer_requests = {}` of a route takes them in before a server is chosen",
    ),
    advice(
        &["proxy_buffering", "proxy_buffers", "proxy_busy_buffers_size", "fastcgi_buffering"],
        "responses are streamed; `buffer_responses = {}` of a route takes them in as fast as the server gives them",
    ),
    advice(
        &["events", "use", "multi_accept", "sendfile", "tcp_nopush", "daemon", "global", "defaults"],
        "there is no such setting: keys of the whole process are in `[process]`",
    ),
    advice(
        &["pid", "pidfile", "user", "group", "chroot"],
        "user, group, root folder and pid file are `user`, `group`, `chroot` and `pid_file` in `[process]`",
    ),
    advice(&["server_tokens", "server_header"], "Weir adds no `Server` field and does not name its version"),
    advice(
        &["ssl_prefer_server_ciphers", "ssl_dhparam", "ssl_session_timeout"],
        "there is no such setting: the order of `cipher_suites` takes precedence, and there are no finite-field groups",
    ),
    advice(
        &["stats", "status", "stub_status", "dashboard", "api"],
        "the status page, metrics and JSON are at `address` of `[admin]`",
    ),
];
