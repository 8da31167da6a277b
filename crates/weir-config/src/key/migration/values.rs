//! Values of other products and their equivalents.

/// Equivalents of values of other products: the values, Weir's value, and settings that go with it.
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
    (
        &["cookie"],
        "consistent-hash",
        ", with `hash_key = \"cookie:NAME\"`; for session affinity see `affinity`",
    ),
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
    (&["http", "h1", "http/1.1", "1.1"], "http1", ""),
    (&["fcgi", "php", "php-fpm"], "fastcgi", ""),
    (&["http2", "http/2", "2", "2.0"], "h2", ", or `h2c` without TLS"),
];

/// Values of other products without an equivalent: the values, a value of the choice they were meant for, and the message.
pub(super) const NO_VALUES: &[(&[&str], &str, &str)] = &[
    (
        &["first"],
        "least-requests",
        "no policy fills servers one after the other; a server with `backup = true` is used when the others are unavailable",
    ),
    (
        &["deflate", "raw-deflate", "raw_deflate", "zlib"],
        "gzip",
        "clients read `deflate` in two ways (with and without the frame of zlib), and all that know it know `gzip`",
    ),
    (&["sticky"], "least-requests", "session affinity is `affinity` of the upstream, with any policy"),
    (
        &["https", "ssl", "tls"],
        "http1",
        "the upstream has `tls`, and `protocol` says which HTTP is spoken over it",
    ),
    (&["http3", "h3", "quic"], "h2c", "Weir does not speak HTTP/3 with servers"),
    (&["grpc", "grpcs"], "h2c", "gRPC is HTTP/2: `h2` with `tls`, `h2c` without"),
    (&["https", "ssl", "tls"], "tcp", "`protocol` is `http`, and the listener has `tls`"),
    (
        &["http2", "h2", "h2c"],
        "tcp",
        "`protocol` is `http`, and `http2` of the listener says what is spoken without TLS",
    ),
    (
        &["grpc", "grpcs"],
        "tcp",
        "gRPC is HTTP/2: `protocol` is `http`, and `http2` of the listener says what is spoken without TLS",
    ),
    (&["http3", "quic"], "tcp", "`protocol` is `http`, and `http3` of the listener switches HTTP/3 on"),
    (&["udp"], "tcp", "this version of Weir does not have UDP"),
    (
        &["TLSv1", "TLSv1.0", "TLSv1.1", "1.0", "1.1", "SSLv3"],
        "1.2",
        "it is insecure: Weir has TLS 1.2 and 1.3",
    ),
];
