//! Values of other products and what they are called here.

/// What to write for a value of another product, if `known` has it: the values, the word of Weir, and what goes with it.
pub(super) const VALUES: &[(&[&str], &str, &str)] = &[
    (&["least_conn", "leastconn", "least_connections", "least_conns", "least_request"], "least-requests", ""),
    (&["roundrobin", "rr", "wrr", "static-rr", "weighted_round_robin"], "round-robin", ""),
    (
        &["ip_hash", "ip", "source", "client_ip_hash", "ring_hash", "maglev", "hash"],
        "consistent-hash",
        ", with `hash_key = \"client-address\"`",
    ),
    (&["uri", "uri_hash"], "consistent-hash", ", with `hash_key = \"path\"`"),
    (&["url_param", "query"], "consistent-hash", ", with `hash_key = \"query:NAME\"`"),
    (&["hdr", "header"], "consistent-hash", ", with `hash_key = \"header:NAME\"`"),
    (&["cookie"], "consistent-hash", ", with `hash_key = \"cookie:NAME\"`; for sessions see `affinity`"),
    (&["random_two", "random two", "random(2)", "random_choose", "p2c"], "power-of-two", ""),
    (&["least_time", "ewma", "latency", "peakewma"], "peak-ewma", ""),
    (&["maint", "down", "disabled"], "maintenance", ""),
    (&["drain"], "draining", ""),
    (&["up", "ready", "enabled"], "serving", ""),
    (&["warning", "alert"], "warn", ""),
    (&["notice"], "info", ""),
    (&["crit", "emerg", "err"], "error", ""),
    (&["P-256", "prime256v1"], "secp256r1", ""),
    (&["P-384"], "secp384r1", ""),
    (&["TLSv1.2"], "1.2", ""),
    (&["TLSv1.3"], "1.3", ""),
];

/// What to say of a value of another product that has no equivalent, if it was meant for a choice that has `beside`.
pub(super) const NO_VALUES: &[(&[&str], &str, &str)] = &[
    (
        &["first"],
        "least-requests",
        "no policy fills one server after the other; a server with `backup = true` is used when the others are gone",
    ),
    (
        &["sticky"],
        "least-requests",
        "clients stay on their server with `affinity` of the upstream, under any policy",
    ),
    (&["https", "ssl", "tls"], "tcp", "`protocol` is `http`, and the listener has `tls`"),
    (
        &["http2", "h2", "h2c", "grpc", "http3", "quic"],
        "tcp",
        "this version of Weir does not have HTTP/2, HTTP/3 and gRPC; `tcp` passes them on",
    ),
    (&["udp"], "tcp", "this version of Weir does not have UDP"),
    (
        &["TLSv1", "TLSv1.0", "TLSv1.1", "1.0", "1.1", "SSLv3"],
        "1.2",
        "it is broken: Weir has TLS 1.2 and 1.3",
    ),
];
