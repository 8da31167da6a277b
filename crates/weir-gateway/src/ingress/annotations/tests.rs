//! Each annotation with values it takes and values it refuses; the whole table is covered.

use std::collections::BTreeSet;

use super::*;

/// Each annotation with a value that can be used, and one that cannot; empty: there is none.
const VALUES: &[(&str, &str, &str)] = &[
    ("rewrite-target", "/$2", "/$request_uri"),
    ("use-regex", "true", "maybe"),
    ("app-root", "/app", "app"),
    ("permanent-redirect", "https://a.example$request_uri", "https://a.example/$1"),
    ("permanent-redirect-code", "308", "200"),
    ("temporal-redirect", "https://a.example", "a.example"),
    ("temporal-redirect-code", "307", "x"),
    ("ssl-redirect", "false", "no"),
    ("force-ssl-redirect", "true", "yes"),
    ("preserve-trailing-slash", "true", ""),
    ("from-to-www-redirect", "true", "www"),
    ("server-alias", "b.example, *.c.example", "~^c"),
    ("relative-redirects", "true", ""),
    ("whitelist-source-range", "10.0.0.0/8, 192.0.2.1", "10.0.0.0/99"),
    ("allowlist-source-range", "2001:db8::/32", ","),
    ("denylist-source-range", "192.0.2.0/24", "all"),
    ("auth-type", "basic", "digest"),
    ("auth-secret", "users", "other/users"),
    ("auth-secret-type", "auth-file", "auth-map"),
    ("auth-realm", "Staff only", "a\"b"),
    ("auth-url", "http://auth.app.svc/x", ""),
    ("auth-method", "GET", "POST"),
    ("auth-response-headers", "X-User, X-Groups", "X User"),
    ("auth-signin", "", "https://a.example/"),
    ("auth-signin-redirect-param", "", "rd"),
    ("auth-request-redirect", "", "https://a.example/"),
    ("auth-proxy-set-headers", "", "app/headers"),
    ("auth-cache-key", "", "$cookie_a"),
    ("auth-cache-duration", "", "200 5m"),
    ("auth-always-set-cookie", "false", "true"),
    ("auth-keepalive", "10", ""),
    ("auth-keepalive-requests", "10", ""),
    ("auth-keepalive-timeout", "10", ""),
    ("auth-keepalive-share-vars", "true", ""),
    ("enable-global-auth", "false", ""),
    ("satisfy", "all", "any"),
    ("limit-rps", "10", "0"),
    ("limit-rpm", "100", "-1"),
    ("limit-connections", "5", "few"),
    ("limit-burst-multiplier", "3", "0"),
    ("limit-whitelist", "10.0.0.0/8", "x"),
    ("limit-allowlist", "10.0.0.0/8", "x"),
    ("limit-rate", "", "100"),
    ("limit-rate-after", "", "100"),
    ("backend-protocol", "grpcs", "FCGI"),
    ("proxy-ssl-secret", "app/tls", "tls/"),
    ("proxy-ssl-verify", "off", "true"),
    ("proxy-ssl-name", "a.example", "a b"),
    ("proxy-ssl-server-name", "on", ""),
    ("proxy-ssl-verify-depth", "", "2"),
    ("proxy-ssl-protocols", "", "TLSv1"),
    ("proxy-ssl-ciphers", "", "HIGH"),
    ("proxy-connect-timeout", "3", "0"),
    ("proxy-send-timeout", "30s", "x"),
    ("proxy-read-timeout", "120", "-3"),
    ("proxy-next-upstream", "error timeout http_503", "http_200"),
    ("proxy-next-upstream-tries", "3", "x"),
    ("proxy-next-upstream-timeout", "0", "x"),
    ("load-balance", "ewma", "ip_hash"),
    ("upstream-hash-by", "$binary_remote_addr", "$ssl_session_id"),
    ("upstream-hash-by-subset", "false", "true"),
    ("upstream-hash-by-subset-size", "", "3"),
    ("affinity", "cookie", "ip"),
    ("affinity-mode", "persistent", ""),
    ("session-cookie-name", "route", "a b"),
    ("session-cookie-path", "/a", "/a;b"),
    ("session-cookie-domain", "a.example", ""),
    ("session-cookie-expires", "3600", "x"),
    ("session-cookie-max-age", "3600", "x"),
    ("session-cookie-secure", "true", "x"),
    ("session-cookie-samesite", "Strict", "x"),
    ("session-cookie-conditional-samesite-none", "false", "true"),
    ("session-cookie-change-on-failure", "true", ""),
    ("proxy-buffer-size", "64k", "x"),
    ("proxy-http-version", "1.1", "1.0"),
    ("proxy-body-size", "8m", "8 MB"),
    ("proxy-buffering", "on", "true"),
    ("proxy-buffers-number", "4", ""),
    ("proxy-busy-buffers-size", "16k", ""),
    ("proxy-max-temp-file-size", "1g", "x"),
    ("proxy-request-buffering", "off", "x"),
    ("client-body-buffer-size", "1M", "x"),
    ("upstream-vhost", "a.example", "a b"),
    ("x-forwarded-prefix", "/a", "/$1"),
    ("connection-proxy-header", "", "keep-alive"),
    ("custom-headers", "app/headers", "infra/headers"),
    ("proxy-set-headers", "headers", "infra/headers"),
    ("mirror-target", "http://copy.app.svc$request_uri", ""),
    ("mirror-host", "a.example", ""),
    ("mirror-request-body", "off", "no"),
    ("enable-cors", "true", "x"),
    ("cors-allow-origin", "https://a.example, https://*.b.example", "a.example"),
    ("cors-allow-methods", "GET, POST", "G T"),
    ("cors-allow-headers", "X-A, X-B", "X A"),
    ("cors-expose-headers", "*", "X A"),
    ("cors-allow-credentials", "false", "x"),
    ("cors-max-age", "600", "x"),
    ("enable-access-log", "false", "x"),
    ("http2-push-preload", "true", ""),
    ("ssl-prefer-server-ciphers", "true", ""),
    ("canary", "true", "x"),
    ("canary-weight", "30", "x"),
    ("canary-weight-total", "1000", "0"),
    ("canary-by-header", "X-Canary", "X Canary"),
    ("canary-by-header-value", "yes", ""),
    ("canary-by-header-pattern", "^a", "("),
    ("canary-by-cookie", "canary", "a b"),
    ("affinity-canary-behavior", "", "legacy"),
];

fn of(pairs: &[(&str, &str)]) -> Annotations {
    let full =
        |name: &str| if name.contains('/') { name.to_owned() } else { format!("{NGINX_PREFIX}{name}") };
    pairs.iter().map(|(name, value)| (full(name).into(), (*value).into())).collect()
}

fn problems(pairs: &[(&str, &str)]) -> Vec<IngressProblem> {
    read("app", &of(pairs)).1
}

#[test]
fn every_annotation_has_values_that_can_be_used_and_that_cannot() {
    let known: BTreeSet<&str> = VALUES.iter().map(|(name, ..)| *name).collect();
    for row in table() {
        let is_plain = matches!(row.handling, AnnotationHandling::Refused | AnnotationHandling::LeftOut);
        assert!(known.contains(row.name) || is_plain, "{} is not in the table of the test", row.name);
    }
    for (name, good, bad) in VALUES {
        let row = table().find(|row| row.name == *name).unwrap_or_else(|| panic!("{name} is not known"));
        let is_about_it = |problem: &&IngressProblem| *problem.annotation == *format!("{NGINX_PREFIX}{name}");
        let read = |value: &str| {
            let mut draft = IngressDraft::new("app");
            (row.read)(&mut draft, value)
        };
        assert_eq!(read(good), Ok(()), "{name}: {good}");
        if bad.is_empty() {
            continue;
        }
        let found = problems(&[(name, bad)]);
        let found = found.iter().find(is_about_it).unwrap_or_else(|| panic!("{name}: {bad} is used"));
        assert_eq!(found.refuses, row.closes(), "{name}: {bad}");
        assert!(!found.message.is_empty() && !found.message.ends_with('.'), "{name}: {}", found.message);
    }
}

#[test]
fn what_is_refused_or_left_out_says_so_unless_it_asks_for_nothing() {
    for row in table()
        .filter(|row| matches!(row.handling, AnnotationHandling::Refused | AnnotationHandling::LeftOut))
    {
        let found = problems(&[(row.name, "something")]);
        assert_eq!(found.len(), 1, "{}", row.name);
        assert_eq!(found[0].refuses, row.handling == AnnotationHandling::Refused, "{}", row.name);
        assert_eq!(problems(&[(row.name, "false")]), [], "{}", row.name);
    }
}

#[test]
fn names_are_unique_and_sentences_are_fragments() {
    let mut names = BTreeSet::new();
    for row in table() {
        assert!(names.insert(row.name), "{} is there twice", row.name);
        assert!(!row.meaning.is_empty() && !row.weir.is_empty(), "{}", row.name);
        assert!(
            !row.meaning.ends_with('.') && !row.weir.ends_with('.') && !row.weir.contains("  "),
            "{}",
            row.name
        );
        assert!(!row.weir.contains('|') && !row.meaning.contains('|'), "{}: cells of a table", row.name);
    }
    assert!(names.len() > 110, "{}", names.len());
}

#[test]
fn what_restricts_access_is_not_served_without() {
    for (pairs, refuses) in [
        (&[("auth-type", "basic")][..], true),
        (&[("auth-secret", "users")], true),
        (&[("auth-type", "basic"), ("auth-secret", "users")], false),
        (&[("configuration-snippet", "deny all;")], true),
        (&[("configuration-snippet", "deny all;"), (WITHOUT_ANNOTATION, "configuration-snippet")], false),
        (&[("whitelist-source-range", "10.0.0.0")], false),
        (&[("whitelist-source-range", "10.0.0")], true),
        (&[("whitelist-source-rnage", "10.0.0.0")], true),
        (&[("proxy-body-sise", "8m")], false),
        (&[("of-another-controller", "8m")], false),
        (&[("proxy-ssl-verify", "on")], true),
        (&[("ssl-passthrough", "true")], true),
        (&[("ssl-passthrough", "false")], false),
        (&[("limit-rps", "many")], true),
    ] {
        let found = problems(pairs);
        assert_eq!(found.iter().any(|problem| problem.refuses), refuses, "{pairs:?}: {found:?}");
    }
}

#[test]
fn nothing_is_ignored_in_silence() {
    let unknown = problems(&[("whitelist-source-rnage", "10.0.0.0")]);
    assert_eq!(
        unknown[0].sentence(),
        "nginx.ingress.kubernetes.io/whitelist-source-rnage: ingress-nginx has no such annotation; did you mean `whitelist-source-range`?"
    );
    let without = problems(&[("server-snippet", "x"), (WITHOUT_ANNOTATION, "server-snippet, auth-snippet")]);
    let sentences: Vec<String> = without.iter().map(IngressProblem::sentence).collect();
    assert_eq!(
        sentences,
        [
            "weir.dev/serve-without: it names `auth-snippet`, which this Ingress does not have",
            "nginx.ingress.kubernetes.io/server-snippet: served without it, as weir.dev/serve-without asks",
        ]
    );
    assert!(problems(&[("weir.dev/other", "x")])[0].message.contains("no such annotation"));
}

#[test]
fn annotations_about_one_thing_make_one_setting() {
    let pairs = [
        ("affinity", "cookie"),
        ("session-cookie-name", "route"),
        ("session-cookie-max-age", "60"),
        ("session-cookie-expires", "90"),
        ("enable-cors", "true"),
        ("cors-allow-origin", "https://a.example"),
        ("proxy-request-buffering", "on"),
        ("client-body-buffer-size", "1m"),
        ("canary-weight", "200"),
        ("canary", "true"),
    ];
    let (draft, problems) = read("app", &of(&pairs));
    let affinity = draft.upstream.affinity.expect("there is a cookie");
    assert_eq!(&*affinity.cookie, "route");
    let cors = draft.route.cors.expect("there is CORS");
    assert!(cors.credentials && cors.headers.is_some_and(|headers| headers.len() == 9));
    assert_eq!(
        draft.route.buffer_requests.expect("bodies are taken in").memory,
        weir_config::Size::from_kib(1024)
    );
    assert_eq!(draft.canary.weight, 100);
    assert_eq!(problems.len(), 1, "{problems:?}");
}
