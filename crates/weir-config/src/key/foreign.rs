//! Keys that Weir does not have: words of other products, and features of later versions.
//!
//! A key is only declared once something uses it; until then, writing it is a mistake that says so.

/// A key that a later version will have.
pub(super) struct Later {
    /// The path of its section.
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    /// What to do until then.
    pub(super) instead: &'static str,
}

const fn later(section: &'static str, key: &'static str, instead: &'static str) -> Later {
    Later { section, key, instead }
}

const LATER: &[Later] = &[
    later("listener.NAME", "compression", "let the servers compress"),
    later("listener.NAME.route", "files", "serve files from a server of an upstream"),
    later("", "metrics", "metrics are served by the admin listener: see `admin.address`"),
];

/// The key of a section that a later version will have.
pub(super) fn find_later(section: &str, key: &str) -> Option<&'static Later> {
    LATER.iter().find(|later| later.section == section && later.key == key)
}

/// What a word of another product is called here.
pub(super) fn foreign_hint(key: &str) -> Option<String> {
    let plain = key.to_lowercase().replace('-', "_");
    let instead = match plain.as_str() {
        "frontend" | "frontends" | "entrypoints" | "listen" | "bind" | "http" => {
            "a place where clients connect is a `[listener.NAME]` with an `address`"
        }
        "backend" | "backends" | "cluster" | "clusters" | "services" | "pool" => {
            "a set of servers is an `[upstream.NAME]` with a list `servers`"
        }
        "mode" | "stream" | "tcp" => "a listener that passes any TCP connection on has `protocol = \"tcp\"`",
        "location" | "routes" | "routers" | "rule" | "rules" => {
            "a rule for requests is a `[[listener.NAME.route]]`"
        }
        "proxy_pass" | "default_backend" | "use_backend" | "to" => {
            "where requests go is `upstream = \"NAME\"`"
        }
        "server_name" | "hostname" | "hosts" | "domain" => {
            "a route takes requests for a host by `host = \"example.com\"`"
        }
        "worker_processes" | "nbthread" | "nbproc" | "threads" => {
            "the number of workers is `workers` in `[process]`"
        }
        "worker_connections" | "maxconn" | "max_conns" | "max_connections" => {
            "connections are limited by `connections_max`, requests per server by `max_requests`"
        }
        "lb_policy" | "load_balancing" | "algorithm" | "strategy" => "how a server is chosen is `balance`",
        "max_fails" | "fail_timeout" => {
            "they belong to the upstream: `ejection = { max_fails = 1, fail_timeout = \"10s\" }`"
        }
        "outlier_detection" | "circuit_breaker" | "observe" | "error_limit" | "on_error"
        | "passive_health" => "servers on which requests fail are ejected by `ejection` of an upstream",
        "base_ejection_time"
        | "max_ejection_time"
        | "max_ejection"
        | "max_ejection_percent"
        | "consecutive_5xx" => {
            "`ejection` has `consecutive_failures`, `error_rate`, `time`, `time_max` and `servers_max`"
        }
        "healthy_panic_threshold" => "it is `panic_threshold` of an upstream",
        "keepalive" => "connections are kept by default; see `idle` of an upstream",
        "client_max_body_size" => "the size of a body is limited by `body_size` in `limits`",
        "proxy_set_header" | "add_header" | "headers" => {
            "headers are changed by `request_headers` and `response_headers` of a route"
        }
        "error_page" | "root" | "gzip" => "this version of Weir forwards requests and does not serve files",
        "check" | "healthcheck" | "health_check" | "health_checks" | "httpchk" => {
            "servers are probed by `health` of an upstream: `health = { path = \"/healthz\" }`"
        }
        "inter" | "uri" | "passes" | "fails" | "fastinter" | "expect" | "expected_statuses" => {
            "a health check has `path`, `status`, `interval`, `interval_changing`, `rise` and `fall`"
        }
        "sticky" | "cookie" => "a client stays on its server with `persistence` of an upstream",
        "proxy_ssl_verify"
        | "proxy_ssl_name"
        | "proxy_ssl_server_name"
        | "proxy_ssl_trusted_certificate"
        | "ca_file"
        | "verifyhost"
        | "sni" => "TLS with servers is `tls` of an upstream, with `ca`, `server_name` and `verify`",
        "ssl" | "crt" | "cert" | "ssl_certificate" | "ssl_certificate_key" => {
            "TLS of a listener is `tls = { certificates = [{ certificate = \"site.pem\", key = \"site.key\" }] }`"
        }
        "ssl_verify_client" | "ssl_client_certificate" | "ssl_crl" | "crl_file" | "client_auth" => {
            "certificates of clients are `client_certificates = { ca = \"clients.pem\", crl = \"revoked.pem\" }` of `tls`"
        }
        _ => return None,
    };
    Some(instead.to_owned())
}

/// The word, of those that can stand there, for what OpenSSL and others call otherwise.
pub(super) fn foreign_word<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let other_name = match word {
        "P-256" | "prime256v1" => "secp256r1",
        "P-384" => "secp384r1",
        "TLSv1.2" => "1.2",
        "TLSv1.3" => "1.3",
        _ => "",
    };
    // `ECDHE-RSA-AES128-GCM-SHA256` is `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`.
    let bare = |name: &str| name.replace(['-', '_'], "").replace("WITH", "");
    let suite = word.starts_with("ECDHE-").then(|| format!("TLS{}", bare(word)));
    let is_meant = |name: &&&str| {
        **name == other_name || suite.as_ref().is_some_and(|suite| bare(name).starts_with(suite))
    };
    known.iter().find(is_meant).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_openssl_are_known() {
        let known = [
            "1.2",
            "1.3",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_AES_128_GCM_SHA256",
            "secp256r1",
        ];
        for (word, expected) in [
            ("ECDHE-RSA-CHACHA20-POLY1305", Some("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256")),
            ("ECDHE-ECDSA-CHACHA20-POLY1305", None),
            ("TLSv1.3", Some("1.3")),
            ("P-256", Some("secp256r1")),
            ("P-384", None),
            ("", None),
        ] {
            assert_eq!(foreign_word(word, &known), expected, "{word}");
        }
    }
    use crate::reference::sections;

    #[test]
    fn no_key_is_both_declared_and_for_later() {
        for later in LATER {
            let section = sections().into_iter().find(|section| section.path == later.section);
            let section = section.unwrap_or_else(|| panic!("there is no table `{}`", later.section));
            assert!(section.key(later.key).is_none(), "`{}` is declared", later.key);
        }
    }
}
