//! Features that Weir does not have in this version, with the terms of other products for them.

/// A feature that Weir does not have in this version.
pub(super) struct UnsupportedFeature {
    /// Its name, as the subject of a sentence.
    pub(super) feature: &'static str,
    /// Its names in other products.
    pub(super) words: &'static [&'static str],
    /// The workaround; may be empty.
    pub(super) instead: &'static str,
}

const fn unsupported(
    feature: &'static str,
    words: &'static [&'static str],
    instead: &'static str,
) -> UnsupportedFeature {
    UnsupportedFeature { feature, words, instead }
}

pub(super) const UNSUPPORTED: &[UnsupportedFeature] = &[
    unsupported(
        "HTTP Digest",
        &["digest_auth"],
        "a route asks for passwords with `basic`, for tokens with `jwt`, and another server with `forward_auth`",
    ),
    unsupported(
        "uwsgi and SCGI",
        &["uwsgi_pass", "uwsgi_param", "scgi_pass", "memcached_pass"],
        "have the program speak HTTP or FastCGI (`protocol = \"fastcgi\"` of the upstream)",
    ),
    unsupported(
        "Scripts",
        &[
            "lua",
            "lua_load",
            "js_import",
            "js_content",
            "perl",
            "wasm",
            "http_filters",
            "plugins",
            "middlewares",
            "template",
        ],
        "`[map.NAME]` has values by networks and by other texts, `vars` names of your own; there are no scripts",
    ),
    unsupported(
        "Other bodies for requests, and files around responses",
        &["add_before_body", "add_after_body", "proxy_set_body"],
        "`rewrite_body` of a route puts text into responses",
    ),
    unsupported(
        "Parts of responses in a cache, and pages put together",
        &["slice", "esi", "ssi"],
        "pages are put together by their server, or by scripts of the page; requests with `Range` get their part while the whole is fetched, and go to the server where it is not stored",
    ),
    unsupported(
        "Recoding of text from one charset to another",
        &["charset_map", "source_charset", "override_charset", "charset_source_enc"],
        "files and responses are sent as they are; `charset` of `files` says in which one its texts are",
    ),
    unsupported(
        "Compression and decompression of request bodies",
        &[
            "algo_req",
            "type_req",
            "minsize_req",
            "compression_direction",
            "set_input_filter",
            "request_decompression",
        ],
        "a body goes to its server as the client has sent it, `Content-Encoding` included",
    ),
    unsupported(
        "Limits on the speed of request bodies",
        &["bwlim_in"],
        "responses have `bandwidth` of `[limit.NAME]`; tunnels and TCP connections have `upload_rate` in `limits` of a listener",
    ),
    unsupported("UDP", &["udp", "dgram_bind", "proxy_responses", "udp_listener_config"], ""),
    unsupported(
        "Service discovery by Docker, listeners and routes by xDS",
        &["lds_config", "rds", "docker", "kubernetes", "providers", "dynamic_resources", "service_discovery"],
        "servers are followed in files, DNS, Consul, etcd and a control plane (xDS): set `discovery` of an upstream",
    ),
    unsupported(
        "Commands as probes, mails about servers",
        &["external_check", "email_alert"],
        "a script answers as an agent (`health.agent`) or on a port of its own (`health.port`); alerts are made from `/metrics`",
    ),
    unsupported(
        "Shared state of several balancers, but for limits, tables and affinity",
        &["peers", "zone_sync", "cluster_peers"],
        "`affinity` by cookie needs none; limits, tables and keys are shared by `shared` of `[limit.NAME]`, `[table.NAME]` and `affinity`, and a Redis in `[store.NAME]`",
    ),
];
