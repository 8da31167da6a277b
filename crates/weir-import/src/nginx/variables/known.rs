//! The variables of nginx's own modules, each with its placeholder, what differs, or why there is none.

use super::TemplateUse;

/// What a variable is in Weir.
pub(super) enum KnownVariable {
    /// This, for every request.
    Same(String),
    /// This; what it is there follows the name in a sentence.
    Nearly(String, &'static str),
    /// Nothing; what to do instead.
    Nothing(&'static str),
}

pub(super) fn known(name: &str, usage: TemplateUse) -> KnownVariable {
    if usage == TemplateUse::Log
        && let Some((_, placeholder)) = SAME_IN_LOGS.iter().find(|(known, _)| *known == name)
    {
        return KnownVariable::Same((*placeholder).to_owned());
    }
    if let Some((_, placeholder)) = SAME.iter().find(|(known, _)| *known == name) {
        return KnownVariable::Same((*placeholder).to_owned());
    }
    if let Some((_, text, difference)) = NEARLY.iter().find(|(known, ..)| *known == name) {
        return KnownVariable::Nearly((*text).to_owned(), difference);
    }
    if usage == TemplateUse::Log
        && let Some(found) = of_log(name)
    {
        return found;
    }
    if usage == TemplateUse::Response && name == "request_time" {
        let difference = "ends where the head of the response begins, and has microseconds";
        return KnownVariable::Nearly("{duration.seconds}".to_owned(), difference);
    }
    if let Some(advice) = nothing(name) {
        return KnownVariable::Nothing(advice);
    }
    by_prefix(name)
        .unwrap_or(KnownVariable::Nothing("the import knows no such variable; is the file complete?"))
}

/// Equal in the access log.
const SAME_IN_LOGS: [(&str, &str); 9] = [
    ("body_bytes_sent", "{body_bytes_out}"),
    ("bytes_received", "{bytes_in}"),
    ("bytes_sent", "{bytes_out}"),
    ("gzip_ratio", "{compression.ratio}"),
    ("remote_user", "{user}"),
    ("request", "{request_line}"),
    ("request_length", "{bytes_in}"),
    // In UTC, as the page on differences says.
    ("time_local", "{time.clf}"),
    ("ssl_server_name", "{tls.server_name}"),
];

/// Equal, everywhere.
const SAME: [(&str, &str); 43] = [
    ("args", "{args}"),
    ("binary_remote_addr", "{client_address}"),
    ("connection_requests", "{connection_requests}"),
    ("content_length", "{content_length}"),
    ("content_type", "{header.content-type}"),
    ("document_uri", "{path}"),
    ("host", "{host}"),
    ("http_host", "{authority}"),
    ("http_referer", "{referer}"),
    ("http_user_agent", "{user_agent}"),
    ("proxy_add_x_forwarded_for", "{client_address}"),
    ("proxy_protocol_addr", "{proxy.source_address}"),
    ("proxy_protocol_port", "{proxy.source_port}"),
    ("proxy_protocol_server_addr", "{proxy.destination_address}"),
    ("proxy_protocol_server_port", "{proxy.destination_port}"),
    ("proxy_protocol_tlv_alpn", "{proxy.alpn}"),
    ("proxy_protocol_tlv_authority", "{proxy.authority}"),
    ("proxy_protocol_tlv_aws_vpce_id", "{proxy.aws.vpc_endpoint}"),
    ("proxy_protocol_tlv_unique_id", "{proxy.unique_id}"),
    ("query_string", "{args}"),
    ("realip_remote_addr", "{peer_address}"),
    ("realip_remote_port", "{peer_port}"),
    ("remote_addr", "{client_address}"),
    ("remote_port", "{client_port}"),
    ("request_id", "{request_id}"),
    ("request_method", "{method}"),
    ("request_uri", "{target}"),
    ("scheme", "{scheme}"),
    ("server_addr", "{local_address}"),
    ("server_port", "{local_port}"),
    ("ssl_preread_server_name", "{tls.server_name}"),
    // Where nothing speaks HTTP/3; no early data is taken.
    ("http3", ""),
    ("quic", ""),
    ("ssl_early_data", ""),
    // What is fetched is not cut.
    ("slice_range", ""),
    ("ssl_server_name", "{tls.server_name}"),
    ("status", "{status}"),
    ("server_protocol", "{version}"),
    ("upstream_addr", "{servers}"),
    ("upstream_cache_status", "{cache.status}"),
    ("upstream_response_time", "{servers.seconds}"),
    ("upstream_status", "{servers.status}"),
    ("uri", "{path}"),
];

/// Nearly equal, everywhere.
const NEARLY: [(&str, &str, &str); 9] = [
    ("remote_user", "{user}", "is there only where the route has `auth_basic`, and proved then"),
    ("request", "{method} {target} {version}", "is put together anew, with single spaces"),
    ("msec", "{time.seconds}", "is when the request began, with microseconds"),
    ("time_iso8601", "{time}", "is when the request began, in UTC and with microseconds"),
    ("ssl_protocol", "TLSv{tls.version}", "has no value without TLS; here `TLSv` is left"),
    ("ssl_cipher", "{tls.cipher_suite}", "has the IANA name of the suite"),
    ("ssl_client_s_dn", "{tls.client.subject}", "escapes characters beyond ASCII"),
    ("ssl_session_reused", "{tls.session}", "is `new` or `resumed` for nginx's `.` and `r`"),
    ("gzip_ratio", "{compression.ratio}", "is known in the access log only"),
];

/// Known when the exchange is over.
fn of_log(name: &str) -> Option<KnownVariable> {
    let nearly = |text: &str, difference| Some(KnownVariable::Nearly(text.to_owned(), difference));
    match name {
        "request_time" | "session_time" => nearly("{duration.seconds}", "has microseconds"),
        "upstream_header_time" => {
            nearly("{timer.Tr}", "is in milliseconds, from the connection to the head of the response")
        }
        "upstream_connect_time" => nearly("{timer.Tc}", "is in milliseconds"),
        "upstream_response_length" => nearly("{body_bytes_out}", "is what the client got"),
        "upstream_bytes_sent" => nearly("{bytes_in}", "is what the client has sent"),
        "upstream_bytes_received" => nearly("{bytes_out}", "is what the client got"),
        "pipe" => nearly(".", "is always `.`"),
        "connection" | "connection_time" | "pid" | "request_completion" | "upstream_trailer" => {
            nearly("-", "is always `-`: Weir has no such number")
        }
        "protocol" => nearly("TCP", "is always TCP"),
        "limit_req_status" | "limit_conn_status" => {
            nearly("{limit}", "is the name of the limit that has refused the request")
        }
        "hostname" | "nginx_version" => nearly("-", "is always `-`: write it into the format"),
        "request_body" | "request_body_file" => nearly("-", "is always `-`: bodies are not logged"),
        "sent_http_connection" | "http_connection" => {
            nearly("-", "is always `-`: it is about one connection")
        }
        _ => None,
    }
}

/// Those with a name of their own, or of a family, for which there is nothing.
fn nothing(name: &str) -> Option<&'static str> {
    let exact = match name {
        "body_bytes_sent" | "bytes_sent" | "bytes_received" | "request_length" | "request_time"
        | "time_local" => "it is known in the access log only",
        "connection" | "connection_time" | "pipe" | "pid" | "hostname" | "nginx_version" => {
            "write the value itself; Weir has no placeholder for it"
        }
        "request_body" | "request_body_file" | "request_completion" => {
            "Weir does not look into bodies of requests"
        }
        "request_filename" => "Weir does not name files to servers; say the folder and `{path}`",
        "limit_rate" => "use a limit with `bandwidth`",
        "fastcgi_script_name" | "fastcgi_path_info" => {
            "Weir finds the script itself (`fastcgi` of the route)"
        }
        "invalid_referer" => "use a condition on `referer`",
        "proxy_host" | "proxy_port" | "proxy_internal_body_length" => {
            "write the host itself (`forward_host`)"
        }
        "ssl_client_verify"
        | "ssl_client_cert"
        | "ssl_client_raw_cert"
        | "ssl_client_escaped_cert"
        | "ssl_client_i_dn"
        | "ssl_client_serial"
        | "ssl_client_fingerprint" => {
            "servers get it in the field that `tls.client_certificates.headers` of the listener names"
        }
        "msie6" | "modern_browser" | "ancient_browser" => "use a condition on `user_agent`",
        "secure_link" | "secure_link_expires" => "Weir verifies signed tokens (`jwt`), not links",
        "memcached_key" => "Weir does not have this module",
        _ => "",
    };
    if !exact.is_empty() {
        return Some(exact);
    }
    let families = [
        ("geoip", "make a map with `database` and `field` (MaxMind DB)"),
        ("tcpinfo_", "Weir does not read the state of the kernel's connections"),
        ("ssl_", "Weir has no placeholder for it"),
        ("uid_", "use `affinity` with a cookie"),
        ("date_", "Weir has no server-side includes"),
        ("sent_trailer_", "Weir has no placeholder for trailers"),
        ("upstream_trailer_", "Weir has no placeholder for trailers"),
        ("upstream_cookie_", "Weir has no placeholder for cookies of responses"),
        ("otel_", "Weir sends `traceparent` itself (`[traces]`)"),
        ("perl_", "Weir has no scripts"),
    ];
    families.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, advice)| advice)
}

/// `$http_x_y` and its like.
fn by_prefix(name: &str) -> Option<KnownVariable> {
    let field = |rest: &str| rest.replace('_', "-");
    let same = |text: String| Some(KnownVariable::Same(text));
    if let Some(rest) = name.strip_prefix("http_") {
        return same(format!("{{header.{}}}", field(rest)));
    }
    if let Some(rest) = name.strip_prefix("upstream_http_") {
        return same(format!("{{response.header.{}}}", field(rest)));
    }
    if let Some(rest) = name.strip_prefix("sent_http_") {
        let difference = "is the field as the server has sent it, without what is added here";
        return Some(KnownVariable::Nearly(format!("{{response.header.{}}}", field(rest)), difference));
    }
    if let Some(rest) = name.strip_prefix("cookie_") {
        return same(format!("{{cookie.{rest}}}"));
    }
    if let Some(rest) = name.strip_prefix("arg_") {
        return same(format!("{{query.{rest}}}"));
    }
    if let Some(rest) = name.strip_prefix("jwt_claim_") {
        return same(format!("{{jwt.{rest}}}"));
    }
    if let Some(rest) = name.strip_prefix("proxy_protocol_tlv_") {
        return same(format!("{{proxy.tlv.{rest}}}"));
    }
    None
}
