//! Annotations about how servers are reached and which of them gets a request.

use std::time::Duration;

use rustls_pki_types::ServerName;
use weir_config::{AffinitySettings, CookieMode, ProgressLimit, Size};
use weir_traffic::affinity::{CookieAttributes, SameSite};
use weir_traffic::balance::{AddressPrefixes, HashKey, LoadFactor, Policy};
use weir_traffic::route::{FieldMatch, MethodMatch, ValueMatch};

use super::draft::AffinityDraft;
use super::values::{Parsed, boolean, number, on_off, own_object, positive, size, time};
use super::{BackendProtocol, IngressAnnotation, IngressDraft, IngressProblem};
use crate::api::NGINX_PREFIX;
use crate::refusal::excerpt;

pub(super) const ROWS: &[IngressAnnotation] = &[
    IngressAnnotation::guard(
        "backend-protocol",
        "what servers speak",
        "`upstream.NAME.protocol` and `tls`: `HTTP`, `HTTPS`, `GRPC`, `GRPCS`. `AUTO_HTTP` and `FCGI` are refused. Without it, \
         `appProtocol` of the Service counts",
        |draft, value| {
            draft.servers.protocol = match value.to_ascii_uppercase().as_str() {
                "HTTP" => BackendProtocol::Http,
                "HTTPS" => BackendProtocol::Https,
                "GRPC" => BackendProtocol::Grpc,
                "GRPCS" => BackendProtocol::Grpcs,
                _ => {
                    return Err(format!("`{}` is not supported: HTTP, HTTPS, GRPC or GRPCS", excerpt(value)));
                }
            };
            Ok(())
        },
    ),
    IngressAnnotation::guard(
        "proxy-ssl-secret",
        "the Secret with the certificate for servers, and with their authority",
        "`upstream.NAME.tls`: `tls.crt` and `tls.key` are shown to servers, `ca.crt` is what `proxy-ssl-verify` verifies by; \
         the Secret is in the same namespace, of the type `Opaque` or `kubernetes.io/tls`",
        |draft, value| {
            draft.servers.tls_secret = Some(own_object(value, &draft.namespace)?);
            Ok(())
        },
    ),
    IngressAnnotation::guard(
        "proxy-ssl-verify",
        "whether the certificates of servers are verified",
        "`upstream.NAME.tls.ca`; `on` needs `proxy-ssl-secret` and `proxy-ssl-name`",
        |draft, value| {
            draft.servers.tls_verified = on_off(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::guard(
        "proxy-ssl-name",
        "the name in the certificates of servers",
        "`upstream.NAME.tls.server_name`, which is the server name (SNI), too",
        |draft, value| {
            ServerName::try_from(value).map_err(|_| format!("`{}` is not a host name", excerpt(value)))?;
            draft.servers.tls_name = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::needless(
        "proxy-ssl-server-name",
        "whether servers get a server name",
        "they get `proxy-ssl-name`",
    ),
    IngressAnnotation::left_out(
        "proxy-ssl-verify-depth",
        "the length of chains",
        "chains are limited by the verifier",
    ),
    IngressAnnotation::left_out("proxy-ssl-protocols", "versions of TLS", "TLS 1.2 and 1.3"),
    IngressAnnotation::left_out(
        "proxy-ssl-ciphers",
        "cipher suites",
        "those of TLS 1.3, and of TLS 1.2 with ECDHE and AEAD",
    ),
    IngressAnnotation::translated(
        "proxy-connect-timeout",
        "the time for a connection to a server",
        "`upstream.NAME.timeouts.connect`",
        |draft, value| {
            draft.upstream.timeouts.connect = time(value)?;
            draft.servers.is_changed = true;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "proxy-send-timeout",
        "the time between two writes to a server",
        "`upstream.NAME.timeouts.send`",
        |draft, value| {
            draft.upstream.timeouts.send = Some(ProgressLimit::standstill(time(value)?));
            draft.servers.is_changed = true;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "proxy-read-timeout",
        "the time between two reads from a server",
        "`response`, `relay` and `tunnel` of `upstream.NAME.timeouts`",
        |draft, value| {
            let time = time(value)?;
            let timeouts = &mut draft.upstream.timeouts;
            timeouts.response = Some(time);
            timeouts.relay = Some(ProgressLimit::standstill(time));
            timeouts.tunnel = Some(time);
            draft.servers.is_changed = true;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "proxy-next-upstream",
        "failures after which another server is tried",
        "`upstream.NAME.retry`: `error`, `invalid_header`, `timeout`, `http_500` to `http_504`, `http_403`, `http_404`, `http_429`, \
         `non_idempotent`, `off`",
        next_upstream,
    ),
    IngressAnnotation::translated(
        "proxy-next-upstream-tries",
        "attempts in all",
        "`upstream.NAME.retry.attempts_max`",
        |draft, value| {
            draft.upstream.retry.attempts_max = match number(value)? {
                0 => 100,
                tries => tries.min(100),
            };
            draft.servers.is_changed = true;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "proxy-next-upstream-timeout",
        "the time in which another server may be tried",
        "`upstream.NAME.retry.elapsed_max`",
        |draft, value| {
            if number(value) != Ok(0) {
                draft.upstream.retry.elapsed_max = time(value)?;
                draft.servers.is_changed = true;
            }
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "load-balance",
        "the choice of a server",
        "`upstream.NAME.balance`: `round_robin`, `least_conn` as `least-requests`, `ewma` as `peak-ewma`. The default is \
         `least-requests`, that of ingress-nginx `round_robin`",
        |draft, value| {
            draft.upstream.balance = match value {
                "round_robin" => Policy::RoundRobin,
                "least_conn" => Policy::LeastRequests,
                "ewma" => Policy::PeakEwma,
                other => {
                    return Err(format!(
                        "`{}` is not supported: round_robin, least_conn or ewma",
                        excerpt(other)
                    ));
                }
            };
            draft.servers.is_changed = true;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "upstream-hash-by",
        "the value whose hash chooses a server",
        "`upstream.NAME.balance = \"consistent-hash\"` with `hash_key`: `$binary_remote_addr`, `$remote_addr`, `$uri`, `$request_uri` \
         (the path without the query), `$http_NAME`, `$cookie_NAME`, `$arg_NAME`",
        |draft, value| {
            draft.upstream.balance =
                Policy::ConsistentHash { key: hash_key(value)?, load_factor: LoadFactor::default() };
            draft.servers.is_changed = true;
            Ok(())
        },
    ),
    IngressAnnotation::left_out(
        "upstream-hash-by-subset",
        "several servers for each hash",
        "one server for each hash",
    ),
    IngressAnnotation::left_out("upstream-hash-by-subset-size", "how many", "one server for each hash"),
    IngressAnnotation::translated(
        "affinity",
        "`cookie`: the requests of a client stay on one server",
        "`upstream.NAME.affinity` with `mode = \"insert\"`",
        |draft, value| match value {
            "cookie" => {
                draft.servers.affinity = Some(AffinityDraft::default());
                Ok(())
            }
            other => Err(format!("`{}` is not supported, only `cookie`", excerpt(other))),
        },
    ),
    IngressAnnotation::needless(
        "affinity-mode",
        "`balanced` or `persistent`: whether sessions move to new servers",
        "sessions stay with their server as long as it serves",
    ),
    IngressAnnotation::translated(
        "session-cookie-name",
        "its name, `INGRESSCOOKIE`",
        "`affinity.cookie`",
        |draft, value| {
            FieldMatch::new(value, ValueMatch::Present)
                .map_err(|_| format!("`{}` is not the name of a cookie", excerpt(value)))?;
            draft.servers.session.name = Some(value.into());
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "session-cookie-path",
        "its path, `/`",
        "`affinity.path`",
        |draft, value| {
            draft.servers.session.path = Some(attribute(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "session-cookie-domain",
        "its domain",
        "`affinity.domain`",
        |draft, value| {
            draft.servers.session.domain = Some(attribute(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "session-cookie-expires",
        "its lifetime in seconds",
        "`affinity.max_age`",
        |draft, value| {
            let seconds = positive(value)?;
            draft.servers.session.seconds.get_or_insert(u64::from(seconds));
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "session-cookie-max-age",
        "its lifetime in seconds",
        "`affinity.max_age`",
        |draft, value| {
            draft.servers.session.seconds = Some(u64::from(positive(value)?));
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "session-cookie-secure",
        "over TLS only",
        "`affinity.secure`",
        |draft, value| {
            draft.servers.session.secure = boolean(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "session-cookie-samesite",
        "its `SameSite`",
        "`affinity.same_site`",
        |draft, value| {
            draft.servers.session.same_site = Some(match value.to_ascii_lowercase().as_str() {
                "strict" => SameSite::Strict,
                "lax" => SameSite::Lax,
                "none" => SameSite::None,
                _ => return Err(format!("`{}` is none of None, Lax and Strict", excerpt(value))),
            });
            Ok(())
        },
    ),
    IngressAnnotation::left_out(
        "session-cookie-conditional-samesite-none",
        "no `SameSite=None` for old browsers",
        "browsers before 2020 have no exception",
    ),
    IngressAnnotation::needless(
        "session-cookie-change-on-failure",
        "another server when that of the session fails",
        "a session moves when its server is down or fails before the request has an effect",
    ),
    IngressAnnotation::translated(
        "proxy-buffer-size",
        "the head of a response",
        "`upstream.NAME.limits.head_size`, 32 KiB at least",
        |draft, value| {
            let wanted = size(value)?.bytes().min(1 << 20);
            let head = &mut draft.upstream.limits.head_size;
            if wanted > head.bytes() {
                *head = Size::from_bytes(wanted);
                draft.servers.is_changed = true;
            }
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "proxy-http-version",
        "the version of HTTP that servers get",
        "HTTP/1.1; `1.0` is not supported",
        |_, value| match value {
            "1.1" => Ok(()),
            other => Err(format!("`{}` is not supported: servers get HTTP/1.1", excerpt(other))),
        },
    ),
];

/// The value of an attribute of a cookie.
fn attribute(value: &str) -> Parsed<Box<str>> {
    let is_good = |c: char| c.is_ascii_graphic() && c != ';' && c != ',';
    match !value.is_empty() && value.chars().all(is_good) {
        true => Ok(value.into()),
        false => Err(format!("`{}` cannot be in a cookie", excerpt(value))),
    }
}

fn next_upstream(draft: &mut IngressDraft, value: &str) -> Result<(), String> {
    let retry = &mut draft.upstream.retry;
    let mut wanted = retry.clone();
    (wanted.on_connection_error, wanted.on_timeout, wanted.on_status) = (false, false, Vec::new());
    for word in value.split_whitespace() {
        match word {
            "error" | "invalid_header" => wanted.on_connection_error = true,
            "timeout" => wanted.on_timeout = true,
            "http_500" | "http_502" | "http_503" | "http_504" | "http_403" | "http_404" | "http_429" => {
                wanted.on_status.push(word[5..].parse().expect("they are numbers"));
            }
            "non_idempotent" => {
                let more = ["POST", "PATCH"].map(|name| MethodMatch::parse(name).expect("it is a method"));
                wanted.methods.extend(more);
            }
            "off" => wanted.attempts_max = 1,
            other => return Err(format!("`{}` is not known", excerpt(other))),
        }
    }
    *retry = wanted;
    draft.servers.is_changed = true;
    Ok(())
}

fn hash_key(value: &str) -> Parsed<HashKey> {
    let name = value.strip_prefix('$').unwrap_or(value);
    let name = name.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(name);
    let wrong = || format!("`{}` has no equivalent", excerpt(value));
    match name {
        _ if !value.starts_with('$') => Err(wrong()),
        "binary_remote_addr" | "remote_addr" => Ok(HashKey::ClientAddress(AddressPrefixes::default())),
        "uri" | "request_uri" => Ok(HashKey::Path),
        "host" | "http_host" => HashKey::header("host").map_err(|_| wrong()),
        name => {
            let field = |name: &str| HashKey::header(&name.replace('_', "-"));
            let key =
                match (name.strip_prefix("http_"), name.strip_prefix("cookie_"), name.strip_prefix("arg_")) {
                    (Some(name), ..) => field(name),
                    (_, Some(name), _) => HashKey::cookie(name),
                    (.., Some(name)) => HashKey::query(name),
                    _ => return Err(wrong()),
                };
            key.map_err(|_| wrong())
        }
    }
}

impl IngressDraft {
    pub(super) fn finish_servers(&mut self, problems: &mut Vec<IngressProblem>) {
        let name = |short: &str| format!("{NGINX_PREFIX}{short}");
        if self.servers.tls_verified && (self.servers.tls_secret.is_none() || self.servers.tls_name.is_none())
        {
            let message = "`on` needs `proxy-ssl-secret` with `ca.crt`, and `proxy-ssl-name`";
            problems.push(IngressProblem::new(&name("proxy-ssl-verify"), true, message));
        }
        if self.servers.affinity.is_none() {
            return;
        }
        let session = &self.servers.session;
        if matches!(session.same_site, Some(SameSite::None)) && !session.secure {
            let message = "`None` needs `session-cookie-secure: \"true\"`: browsers drop the cookie";
            problems.push(IngressProblem::new(&name("session-cookie-samesite"), false, message));
        }
        let attributes = CookieAttributes {
            lifetime: session.seconds.map(Duration::from_secs),
            path: session.path.clone().unwrap_or_else(|| "/".into()),
            domain: session.domain.clone(),
            secure: session.secure,
            http_only: true,
            same_site: session.same_site.unwrap_or_default(),
        };
        let cookie = session.name.as_deref().unwrap_or("INGRESSCOOKIE");
        let mode = CookieMode::Insert { secret: None, attributes };
        self.upstream.affinity = Some(AffinitySettings::new(cookie, mode));
        self.servers.is_changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_nginx_are_keys() {
        assert_eq!(hash_key("$request_uri"), Ok(HashKey::Path));
        assert_eq!(hash_key("${http_x_user}"), Ok(HashKey::Header("x-user".to_owned())));
        assert_eq!(hash_key("$cookie_a"), Ok(HashKey::Cookie("a".to_owned())));
        assert_eq!(hash_key("$arg_q"), Ok(HashKey::Query("q".to_owned())));
        for wrong in ["request_uri", "$request_uri$host", "$server_name", "", "$http_"] {
            assert!(hash_key(wrong).is_err(), "{wrong}");
        }
    }
}
