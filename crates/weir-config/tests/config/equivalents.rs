//! Words of nginx, HAProxy, Envoy, Traefik and Caddy, written where people write them: each is reported with its name in Weir, or
//! that Weir does not have it.

use weir_config::DiagnosticKind;

use crate::diagnostics::diagnostics;

/// The messages about a line in a table of a whole config.
fn said(table: &str, line: &str) -> (DiagnosticKind, String) {
    let tables = ["", "[process]", "[listener.web]", "[[listener.web.route]]", "[upstream.app]"];
    assert!(tables.contains(&table), "{table}");
    let mut text = String::new();
    for known in tables {
        text.push_str(match known {
            "[listener.web]" => "[listener.web]\naddress = \":80\"\n",
            "[[listener.web.route]]" => "[[listener.web.route]]\nupstream = \"app\"\n",
            "[upstream.app]" => "[upstream.app]\nservers = [\"10.0.0.1:80\"]\n",
            other => other,
        });
        text.push('\n');
        if known == table {
            text.push_str(line);
            text.push('\n');
        }
    }
    let diagnostics = diagnostics(&text);
    let mut all = diagnostics.iter();
    let (Some(only), None) = (all.next(), all.next()) else { panic!("{table} {line}: {diagnostics}") };
    (only.kind, format!("{}: {}", only.message, only.help.as_deref().unwrap_or_default()))
}

#[track_caller]
fn assert_said(table: &str, line: &str, expected_kind: DiagnosticKind, expected: &str) {
    let (kind, said) = said(table, line);
    assert_eq!(kind, expected_kind, "{line}: {said}");
    assert!(said.contains(expected), "{line}: {said}");
}

#[test]
fn keys_of_other_products_are_explained() {
    for (table, line, expected) in [
        ("[listener.web]", "limit_conn = 10", "`listener.NAME.connections_per_client_max`"),
        ("[listener.web]", "limit_req = 10", "`listener.NAME.limited_by`"),
        ("[[listener.web.route]]", "rateLimit = {}", "`[limit.NAME]`"),
        ("", "stick-table = {}", "`limit`"),
        ("[listener.web]", "maxconn = 10", "`listener.NAME.connections_max`"),
        ("[listener.web]", "send_timeout = \"3s\"", "`listener.NAME.timeouts.send`"),
        ("[listener.web]", "ssl_certificate = \"a.pem\"", "`tls"),
        ("[[listener.web.route]]", "replace_path = \"a b\"", "`listener.NAME.route.replace_regex`"),
        ("[[listener.web.route]]", "return = 404", "`listener.NAME.route.respond`"),
        ("[[listener.web.route]]", "proxy_read_timeout = \"3s\"", "`upstream.NAME.timeouts."),
        ("[[listener.web.route]]", "deny = \"all\"", "`source`"),
        ("[[listener.web.route]]", "add_header = \"a\"", "`listener.NAME.route.response_headers`"),
        ("[upstream.app]", "least_conn = true", "`upstream.NAME.balance`"),
        ("[upstream.app]", "timeout.server = \"3s\"", "`timeouts`"),
        ("[upstream.app]", "\"timeout connect\" = \"3s\"", "`upstream.NAME.timeouts.connect`"),
        ("[upstream.app]", "option.httpchk = \"GET /\"", "`upstream.NAME.health.kind`"),
        ("[upstream.app]", "ip_hash = true", "`upstream.NAME.hash_key`"),
        ("[upstream.app]", "slowstart = \"3s\"", "`slow_start`"),
        ("[upstream.app]", "healthCheck = {}", "`upstream.NAME.health`"),
        ("[upstream.app]", "proxy_http_version = \"2\"", "`upstream.NAME.protocol`"),
        ("[upstream.app]", "proto = \"h2\"", "`upstream.NAME.protocol`"),
        ("[upstream.app]", "alpn = \"h2\"", "`upstream.NAME.protocol`"),
        ("[listener.web]", "alpn = \"h2\"", "`listener.NAME.http2.enabled`"),
        ("[upstream.app]", "grpc = true", "`protocol = \"h2\"` or `\"h2c\"`"),
        ("[[listener.web.route]]", "grpc_pass = \"app\"", "`upstream.NAME.protocol`"),
        ("[[listener.web.route]]", "basicAuth = {}", "`listener.NAME.route.basic`"),
        ("[listener.web]", "gzip = \"on\"", "`listener.NAME.compression`"),
        ("[[listener.web.route]]", "gzip_types = []", "`listener.NAME.route.compression.types`"),
        ("[[listener.web.route]]", "encode = \"gzip\"", "`compression = true` of a listener or a route"),
        ("[[listener.web.route]]", "root = \"/srv\"", "`listener.NAME.route.files`"),
        ("[[listener.web.route]]", "alias = \"/srv\"", "`files = { root = "),
        ("[listener.web]", "proxy_buffering = true", "`buffer_responses = {}`"),
        ("[listener.web]", "proxy_request_buffering = true", "`buffer_requests = {}`"),
        ("[[listener.web.route]]", "geo = {}", "`network` of `[map.NAME]`"),
        ("", "worker_processes = 4", "`workers` in `[process]`"),
        ("", "maxconn = 4", "`connections_max`"),
        ("[process]", "nbthread = 4", "`process.workers`"),
    ] {
        assert_said(table, line, DiagnosticKind::UnknownKey, expected);
    }
}

#[test]
fn missing_features_are_reported() {
    for (table, line) in [
        ("[listener.web]", "digest_auth = \"x\""),
        ("[[listener.web.route]]", "digestAuth = {}"),
        ("[[listener.web.route]]", "uwsgi_pass = \"a\""),
        ("[[listener.web.route]]", "slice = \"1m\""),
    ] {
        assert_said(table, line, DiagnosticKind::NotSupported, "this version of Weir does not have ");
    }
}

#[test]
fn values_of_other_products_are_explained() {
    for (table, line, expected) in [
        ("[upstream.app]", "balance = \"leastconn\"", "that is `least-requests` here"),
        ("[upstream.app]", "balance = \"least_conn\"", "that is `least-requests` here"),
        ("[upstream.app]", "balance = \"roundrobin\"", "that is `round-robin` here"),
        ("[upstream.app]", "balance = \"ip_hash\"", "`hash_key = \"client-address\"`"),
        ("[upstream.app]", "balance = \"source\"", "`hash_key = \"client-address\"`"),
        ("[upstream.app]", "balance = \"uri\"", "`hash_key = \"path\"`"),
        ("[upstream.app]", "balance = \"first\"", "`backup = true`"),
        ("[listener.web]", "protocol = \"http2\"", "`http2` of the listener"),
        ("[listener.web]", "protocol = \"https\"", "`protocol` is `http`, and the listener has `tls`"),
        ("[listener.web]", "protocol = \"grpc\"", "`http2` of the listener"),
        ("[upstream.app]", "protocol = \"https\"", "the upstream has `tls`"),
        ("[upstream.app]", "protocol = \"http2\"", "that is `h2` here, or `h2c` without TLS"),
        ("[upstream.app]", "protocol = \"fcgi\"", "that is `fastcgi` here"),
        ("[upstream.app]", "protocol = \"http/1.1\"", "that is `http1` here"),
        ("[upstream.app]", "protocol = \"grpc\"", "`h2` with `tls`, `h2c` without"),
    ] {
        assert_said(table, line, DiagnosticKind::BadValue, expected);
    }
}

#[test]
fn variables_in_values_are_doubtful() {
    for (table, line, expected) in [
        (
            "[[listener.web.route]]",
            "request_headers.set.x-ip = \"$remote_addr\"",
            "`$remote_addr` is sent as plain text",
        ),
        (
            "[[listener.web.route]]",
            "response_headers.set.x-ip = \"%[src]\"",
            "`%[src]` is sent as plain text",
        ),
        (
            "[listener.web]",
            "access_log.format = '$remote_addr {status}'",
            "`$remote_addr` is sent as plain text",
        ),
    ] {
        assert_said(table, line, DiagnosticKind::Suspicious, expected);
    }
}
