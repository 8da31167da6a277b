//! The directives.

/// Why a directive says nothing that Weir needs; with `true`, because Weir does it anyway.
pub(super) fn reason(name: &str) -> Option<(bool, &'static str)> {
    let found = DEFAULT.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| (true, *why));
    found
        .or_else(|| MEANINGLESS.iter().find(|(names, _)| names.contains(&name)).map(|(_, why)| (false, *why)))
}

type Reasons = [(&'static [&'static str], &'static str)];

/// What Weir does anyway.
const DEFAULT: &Reasons = &[
    (&["server_tokens"], "Weir sends no `Server` of its own, and no version"),
    (
        &["etag", "if_modified_since"],
        "files have `ETag` and `Last-Modified`, and conditions on them are answered",
    ),
    (
        &[
            "sendfile",
            "sendfile_max_chunk",
            "aio",
            "aio_write",
            "directio",
            "directio_alignment",
            "read_ahead",
            "output_buffers",
            "thread_pool",
        ],
        "files are sent by the kernel, or read off the workers",
    ),
    (&["tcp_nopush", "postpone_output"], "head and body go out together"),
    (&["gzip_disable"], "clients that name gzip in `Accept-Encoding` understand it"),
    (&["gzip_http_version"], "clients that accept a coding get it"),
    (
        &["keepalive_disable", "msie_padding", "msie_refresh", "keepalive_min_timeout"],
        "old browsers are treated like all others",
    ),
    (
        &["server_name_in_redirect", "port_in_redirect"],
        "redirects that are made by Weir itself name paths, which clients complete",
    ),
    (
        &["proxy_socket_keepalive", "fastcgi_socket_keepalive", "grpc_socket_keepalive"],
        "the kernel probes idle connections",
    ),
    (&["chunked_transfer_encoding"], "bodies of unknown length are sent in chunks by HTTP/1.1"),
    (
        &["lingering_close", "lingering_time", "lingering_timeout", "reset_timedout_connection"],
        "Weir closes connections so that clients can read the last response",
    ),
    (&["quic_retry"], "clients prove their address first where many handshakes are under way"),
    (&["quic_bpf"], "packets go to the worker that has the connection"),
    (&["slice"], "requests with `Range` get their part while the whole is fetched"),
    (
        &[
            "http2_recv_timeout",
            "http2_idle_timeout",
            "http2_max_requests",
            "http2_max_field_size",
            "http2_max_header_size",
            "http2_body_preread_size",
            "http2_chunk_size",
            "http2_push",
            "http2_push_preload",
            "http2_recv_buffer_size",
            "http2_max_concurrent_pushes",
        ],
        "HTTP/2 has the time limits and sizes of the listener, and no push",
    ),
];

/// What Weir does although the file turns it off.
pub(super) fn switched_off(name: &str, value: &str) -> Option<&'static str> {
    match (name, value) {
        ("etag", "off") => Some("files have `ETag` all the same; remove it with `response_headers`"),
        ("if_modified_since", "off") => Some("files that a client has already are answered 304"),
        ("chunked_transfer_encoding", "off") => {
            Some("bodies of unknown length are sent in chunks by HTTP/1.1")
        }
        ("proxy_store", "on") => Some("responses are not written to files"),
        ("server_tokens", "on" | "build") => Some("Weir sends no `Server` of its own"),
        ("http3_hq", "on") => Some("HTTP/0.9 over QUIC, which is for tests of programs, is not spoken"),
        ("gzip_http_version", "1.0") => Some("clients of HTTP/1.0 get no compressed responses"),
        _ => None,
    }
}

/// What is about the insides of nginx.
const MEANINGLESS: &Reasons = &[
    (&["http3"], "no server here has an address of HTTP/3"),
    (&["http3_hq"], "HTTP/0.9 over QUIC, which is for tests of programs, is not spoken"),
    (
        &["http3_max_concurrent_streams"],
        "the default server of an address of HTTP/3 decides, and this is none",
    ),
    (
        &["quic_gso", "quic_active_connection_id_limit", "quic_host_key", "http3_stream_buffer_size"],
        "it is about packets and buffers of nginx: clients get the same answers",
    ),
    (
        &[
            "daemon",
            "master_process",
            "debug_points",
            "worker_priority",
            "worker_rlimit_core",
            "working_directory",
            "timer_resolution",
            "lock_file",
            "pcre_jit",
            "ssl_engine",
            "worker_rlimit_nofile",
            "worker_rlimit_sigpending",
        ],
        "it is about the processes of nginx; the service manager starts Weir and sets its limits",
    ),
    (
        &[
            "types_hash_max_size",
            "types_hash_bucket_size",
            "server_names_hash_bucket_size",
            "server_names_hash_max_size",
            "map_hash_bucket_size",
            "map_hash_max_size",
            "variables_hash_max_size",
            "variables_hash_bucket_size",
            "proxy_headers_hash_max_size",
            "proxy_headers_hash_bucket_size",
            "fastcgi_headers_hash_max_size",
            "uwsgi_headers_hash_max_size",
            "referer_hash_bucket_size",
            "referer_hash_max_size",
        ],
        "tables of Weir have the size that they need",
    ),
    (
        &[
            "client_header_buffer_size",
            "connection_pool_size",
            "request_pool_size",
            "client_body_in_file_only",
            "client_body_in_single_buffer",
            "subrequest_output_buffer_size",
            "gzip_buffers",
            "brotli_buffers",
            "gunzip_buffers",
            "gzip_window",
            "gzip_hash",
            "gzip_no_buffer",
            "brotli_window",
            "ssl_buffer_size",
        ],
        "buffers of Weir are shared, and have one size (`process.buffer_size`)",
    ),
    (
        &[
            "proxy_buffers",
            "proxy_busy_buffers_size",
            "fastcgi_buffers",
            "fastcgi_busy_buffers_size",
            "grpc_buffer_size",
            "uwsgi_buffers",
            "uwsgi_busy_buffers_size",
            "scgi_buffers",
            "scgi_busy_buffers_size",
            "uwsgi_buffer_size",
            "scgi_buffer_size",
            "proxy_buffer_size",
            "fastcgi_buffer_size",
        ],
        "responses pass as they come, in buffers that all exchanges share",
    ),
    (
        &[
            "proxy_temp_path",
            "fastcgi_temp_path",
            "uwsgi_temp_path",
            "scgi_temp_path",
            "client_body_temp_path",
            "proxy_temp_file_write_size",
            "fastcgi_temp_file_write_size",
            "proxy_max_temp_file_size",
            "fastcgi_max_temp_file_size",
            "uwsgi_max_temp_file_size",
            "uwsgi_temp_file_write_size",
            "proxy_store",
            "proxy_store_access",
        ],
        "files for what is taken in are in the folder for temporary files (`TMPDIR`)",
    ),
    (
        &["client_body_buffer_size"],
        "bodies of requests pass as they come; with `buffer_requests`, 64 KiB are in memory",
    ),
    (
        &[
            "log_not_found",
            "log_subrequest",
            "rewrite_log",
            "uninitialized_variable_warn",
            "open_log_file_cache",
        ],
        "Weir's log has changes of state, and the access log has each failure with its reason",
    ),
    (
        &["open_file_cache_min_uses", "open_file_cache_errors", "open_file_cache", "open_file_cache_valid"],
        "what was looked up is known for a second, and files stay open while they are used",
    ),
    (
        &[
            "charset_types",
            "ssi_types",
            "ssi_silent_errors",
            "ssi_min_file_chunk",
            "ssi_last_modified",
            "ssi_value_length",
        ],
        "it says what another directive is about",
    ),
    (
        &[
            "min_delete_depth",
            "create_full_put_path",
            "mp4_buffer_size",
            "mp4_max_buffer_size",
            "image_filter_buffer",
            "image_filter_jpeg_quality",
        ],
        "it is about a module that Weir does not have",
    ),
    (
        &["vhost_traffic_status_zone", "status_zone", "server_traffic_status_zone"],
        "metrics of Weir have listeners, routes and upstreams by themselves",
    ),
];

/// What Weir does not do, and what to do instead.
pub(super) fn advice(name: &str) -> Option<&'static str> {
    ADVICE.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}

const ADVICE: &Reasons = &[
    (
        &["uwsgi_pass", "uwsgi_param", "scgi_pass", "scgi_param", "memcached_pass"],
        "have the program speak HTTP or FastCGI",
    ),
    (&["ssi"], "put pages together on the server: Weir has no server-side includes"),
    (
        &["charset_map", "source_charset", "override_charset"],
        "files and responses are sent as they are; recode the files",
    ),
    (
        &["add_before_body", "add_after_body", "addition_types"],
        "`rewrite_body` of the route puts text into responses",
    ),
    (
        &["dav_methods", "dav_access", "dav_ext_methods"],
        "Weir writes no files: have a server of WebDAV, and forward requests to it",
    ),
    (
        &[
            "hls",
            "f4f",
            "image_filter",
            "xslt_stylesheet",
            "empty_gif",
            "random_index",
            "browser",
            "ancient_browser",
            "modern_browser",
            "userid",
            "secure_link",
            "secure_link_md5",
            "secure_link_secret",
            "session_log",
            "session_log_zone",
            "perl",
            "perl_set",
            "perl_require",
            "perl_modules",
            "js_content",
            "js_import",
            "js_set",
            "js_include",
            "js_path",
        ],
        "Weir does not have this module; have a server do it",
    ),
    (
        &[
            "lua_package_path",
            "lua_shared_dict",
            "init_by_lua",
            "init_by_lua_block",
            "init_by_lua_file",
            "init_worker_by_lua_block",
            "set_by_lua",
            "set_by_lua_block",
            "rewrite_by_lua",
            "rewrite_by_lua_block",
            "rewrite_by_lua_file",
            "access_by_lua",
            "access_by_lua_block",
            "access_by_lua_file",
            "content_by_lua",
            "content_by_lua_block",
            "content_by_lua_file",
            "header_filter_by_lua_block",
            "body_filter_by_lua_block",
            "log_by_lua_block",
            "balancer_by_lua_block",
        ],
        "Weir has no scripts; conditions, maps and `forward_auth` decide",
    ),
    (
        &[
            "geoip_country",
            "geoip_city",
            "geoip_org",
            "geoip_proxy",
            "geoip_proxy_recursive",
            "geoip2",
            "geoip2_proxy",
            "geoip2_proxy_recursive",
        ],
        "make a map with `database` and `field` (MaxMind DB)",
    ),
    (
        &["more_set_headers", "more_clear_headers", "more_set_input_headers", "more_clear_input_headers"],
        "use `response_headers` and `request_headers` of the route",
    ),
    (&["mail"], "Weir forwards mail as TCP (`protocol = \"tcp\"`)"),
    (&["referer"], "use a condition on `referer`"),
];

/// What says how something is done, by whole names.
const USERS: &Reasons = &[
    (
        &["proxy_cache_path", "fastcgi_cache_path", "uwsgi_cache_path", "scgi_cache_path"],
        "no place uses this cache",
    ),
    (&["limit_req_zone", "limit_conn_zone", "limit_conn", "limit_req"], "no place uses this limit"),
    (&["log_format"], "no access log uses this format"),
    (&["upstream"], "no place uses this upstream"),
    (
        &[
            "root",
            "index",
            "autoindex",
            "default_type",
            "types",
            "charset",
            "try_files",
            "autoindex_exact_size",
            "autoindex_localtime",
            "autoindex_format",
            "disable_symlinks",
            "gzip_static",
            "brotli_static",
            "zstd_static",
            "alias",
        ],
        "no files are sent here",
    ),
    (&["auth_basic_user_file"], "no place here asks for passwords"),
    (
        &[
            "keepalive_timeout",
            "keepalive_requests",
            "keepalive_time",
            "client_body_timeout",
            "client_header_timeout",
            "send_timeout",
            "large_client_header_buffers",
            "underscores_in_headers",
            "ignore_invalid_headers",
            "merge_slashes",
            "tcp_nodelay",
            "set_real_ip_from",
            "http2",
        ],
        "no server here uses it",
    ),
    (&["proxy_pass", "fastcgi_pass", "grpc_pass"], "no request comes as far as this"),
    (&["satisfy"], "there are not two kinds of access here"),
    (&["real_ip_header", "real_ip_recursive"], "no proxy is trusted here (`set_real_ip_from`)"),
    (
        &["sub_filter_once", "sub_filter_types", "sub_filter_last_modified"],
        "no text is replaced here (`sub_filter`)",
    ),
    (
        &[
            "client_max_body_size",
            "add_header",
            "expires",
            "access_log",
            "allow",
            "deny",
            "auth_basic",
            "limit_rate",
            "limit_rate_after",
            "max_ranges",
            "sub_filter",
            "mirror",
            "add_trailer",
            "auth_request",
            "auth_request_set",
            "gzip",
            "brotli",
            "zstd",
            "gunzip",
            "more_set_headers",
            "more_clear_headers",
        ],
        "every place below has its own, or there is none",
    ),
    (
        &[
            "limit_req_status",
            "limit_conn_status",
            "limit_req_log_level",
            "limit_conn_log_level",
            "limit_req_dry_run",
            "limit_conn_dry_run",
        ],
        "no request is limited here",
    ),
];

/// What nginx may have for a location, and Weir for a listener.
pub(super) fn is_of_listener(name: &str) -> bool {
    let names = [
        "keepalive_timeout",
        "keepalive_requests",
        "keepalive_time",
        "client_body_timeout",
        "send_timeout",
        "tcp_nodelay",
        "set_real_ip_from",
        "real_ip_header",
        "real_ip_recursive",
    ];
    names.contains(&name)
}

/// For directives that say how something is done: that nothing does it here.
pub(super) fn user(name: &str) -> Option<&'static str> {
    if let Some((_, why)) = USERS.iter().find(|(names, _)| names.contains(&name)) {
        return Some(why);
    }
    let families = [
        ("proxy_cache_", "no response is stored here"),
        ("fastcgi_cache_", "no response is stored here"),
        ("proxy_no_cache", "no response is stored here"),
        ("fastcgi_no_cache", "no response is stored here"),
        ("proxy_cache", "no response of a server of HTTP is stored here"),
        ("proxy_ssl_", "no server here is asked over TLS"),
        ("grpc_ssl_", "no server here is asked over TLS"),
        ("proxy_", "no place here uses `proxy_pass`, or each has its own"),
        ("fastcgi_", "no place here uses `fastcgi_pass`, or each has its own"),
        ("grpc_", "no place here uses `grpc_pass`, or each has its own"),
        ("uwsgi_", "no place here uses `uwsgi_pass`"),
        ("scgi_", "no place here uses `scgi_pass`"),
        ("memcached_", "no place here uses `memcached_pass`"),
        ("gzip_", "no response is compressed here"),
        ("brotli_", "no response is compressed here"),
        ("zstd_", "no response is compressed here"),
        ("ssl_", "no server here has TLS"),
        ("http2_", "it is about HTTP/2, which no server here speaks"),
    ];
    families.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, why)| why)
}
