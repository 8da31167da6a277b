//! Which route a request takes by Ingresses, and what a change of one of them changes.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{Config, RouteAction};
use weir_gateway::{ObjectKey, ObjectKind};
use weir_traffic::route::RouteRequest;

use crate::objects::{NOW, read, translated};

const BASE: &str = "kind: IngressClass
metadata: {name: weir, annotations: {ingressclass.kubernetes.io/is-default-class: \"true\"}}
spec: {controller: weir.dev/ingress}
---
kind: Service
metadata: {namespace: app, name: web}
spec: {ports: [{port: 80}]}
---
kind: Service
metadata: {namespace: app, name: new}
spec: {ports: [{port: 80}]}
---
";

/// A request.
struct Asked<'a> {
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
}

impl RouteRequest for Asked<'_> {
    fn host(&self) -> &[u8] {
        b"a.example"
    }

    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn query(&self) -> &[u8] {
        b""
    }

    fn method(&self) -> &[u8] {
        b"GET"
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_bytes())
    }

    fn source(&self) -> IpAddr {
        IpAddr::from([192, 0, 2, 1])
    }
}

fn ingress(name: &str, annotations: &str, service: &str, paths: &[(&str, &str)]) -> String {
    let paths: Vec<String> = paths
        .iter()
        .map(|(path, kind)| {
            format!("{{path: '{path}', pathType: {kind}, backend: {{service: {{name: {service}, port: {{number: 80}}}}}}}}")
        })
        .collect();
    format!(
        "kind: Ingress\nmetadata: {{namespace: app, name: {name}, annotations: {{{annotations}}}}}\nspec: {{rules: [{{host: a.example, http: {{paths: [{}]}}}}]}}\n---\n",
        paths.join(", ")
    )
}

/// Where a request goes: an upstream, or the status of an answer.
fn goes(config: &Config, path: &str, headers: &[(&str, &str)]) -> String {
    let listener = &config.listeners[0];
    let found = listener.route_table().unwrap().lookup(&Asked { path, headers });
    match &listener.routes[found.expect("each host has a last route").index()].action {
        RouteAction::Upstream(index) => config.upstream(*index).name.to_string(),
        RouteAction::Respond(fixed) => fixed.status.to_string(),
        RouteAction::Split(parts) => format!("split of {}", parts.len()),
        other => format!("{other:?}"),
    }
}

#[test]
fn prefixes_end_at_slashes_and_longer_ones_precede() {
    let objects = format!(
        "{BASE}{}{}",
        ingress("one", "", "web", &[("/foo", "Prefix"), ("/foo/exact", "Exact")]),
        ingress("two", "", "new", &[("/foo/bar/", "Prefix"), ("/impl", "ImplementationSpecific")])
    );
    let config = translated(&objects).1.config.unwrap();
    for (path, expected) in [
        ("/foo", "app.web.80"),
        ("/foo/x", "app.web.80"),
        ("/foobar", "404"),
        ("/FOO", "404"),
        ("/foo/bar", "app.new.80"),
        ("/foo/bar/x", "app.new.80"),
        ("/foo/exact", "app.web.80"),
        ("/impl/x", "app.new.80"),
        ("/", "404"),
    ] {
        assert_eq!(goes(&config, path, &[]), expected, "{path}");
    }
}

#[test]
fn one_annotation_turns_a_host_to_case_insensitive_beginnings() {
    let objects = format!(
        "{BASE}{}{}",
        ingress(
            "one",
            "nginx.ingress.kubernetes.io/use-regex: 'true'",
            "web",
            &[("/[a-z]{3}$", "ImplementationSpecific")]
        ),
        ingress("two", "", "new", &[("/header", "Exact"), ("/header/long/path", "Prefix")])
    );
    let config = translated(&objects).1.config.unwrap();
    for (path, expected) in [
        ("/abc", "app.web.80"),
        ("/ABC", "app.web.80"),
        ("/abcd", "404"),
        ("/header", "app.new.80"),
        ("/HEADERS/x", "app.new.80"),
        ("/header/long/path/x", "app.new.80"),
    ] {
        assert_eq!(goes(&config, path, &[]), expected, "{path}");
    }
}

#[test]
fn headers_decide_about_a_canary_before_cookies_and_shares() {
    let canary = "nginx.ingress.kubernetes.io/canary: 'true', nginx.ingress.kubernetes.io/canary-weight: '30', \
                  nginx.ingress.kubernetes.io/canary-by-header: X-Canary, nginx.ingress.kubernetes.io/canary-by-cookie: try";
    for regex in ["", "nginx.ingress.kubernetes.io/use-regex: 'true'"] {
        let objects = format!(
            "{BASE}{}{}",
            ingress("one", regex, "web", &[("/", "Prefix"), ("/longer/path", "Prefix")]),
            ingress("two", canary, "new", &[("/", "Prefix")])
        );
        let config = translated(&objects).1.config.unwrap();
        for (path, headers, expected) in [
            ("/", &[][..], "split of 2"),
            ("/", &[("x-canary", "always")], "app.new.80"),
            ("/", &[("x-canary", "never")], "app.web.80"),
            ("/", &[("x-canary", "other")], "split of 2"),
            ("/", &[("cookie", "a=b; try=always")], "app.new.80"),
            ("/", &[("cookie", "try=never; a=b")], "app.web.80"),
            ("/", &[("cookie", "retry=always")], "split of 2"),
            ("/", &[("cookie", "try=always"), ("x-canary", "never")], "app.web.80"),
            ("/longer/path", &[("x-canary", "always")], "app.web.80"),
        ] {
            assert_eq!(goes(&config, path, headers), expected, "{regex} {path} {headers:?}");
        }
    }
}

#[test]
fn what_has_not_changed_is_the_same_object() {
    let one = ingress("one", "", "web", &[("/one", "Prefix")]);
    let (mut translator, first) = translated(&format!("{BASE}{one}"));
    let first = first.config.unwrap();
    let two = ingress("two", "nginx.ingress.kubernetes.io/limit-rps: 'x'", "new", &[("/two", "Prefix")]);
    read(&two).iter().for_each(|object| translator.upsert(object));
    let second = translator.translate(NOW);
    assert_eq!(second.ingress_reports.len(), 1, "{:?}", second.ingress_reports);
    let second = second.config.unwrap();
    assert!(Arc::ptr_eq(&first.listeners[0].routes[0], &second.listeners[0].routes[0]));
    assert_eq!(goes(&second, "/two", &[]), "503", "an Ingress that cannot be limited is not served");
    // An echo of the status translates nothing; what is repaired is told once.
    read(&two).iter().for_each(|object| translator.upsert(object));
    let echo = translator.translate(NOW);
    assert!(echo.config.is_none() && echo.ingress_reports.is_empty());
    let repaired = ingress("two", "", "new", &[("/two", "Prefix")]);
    read(&repaired).iter().for_each(|object| translator.upsert(object));
    let third = translator.translate(NOW);
    assert!(third.ingress_reports[0].problems.is_empty());
    assert_eq!(goes(&third.config.unwrap(), "/two", &[]), "app.new.80");
    translator.delete(ObjectKind::Ingress, &ObjectKey::new("app", "one"));
    translator.delete(ObjectKind::Ingress, &ObjectKey::new("app", "two"));
    let last = translator.translate(NOW).config.unwrap();
    assert!(last.listeners.is_empty() && last.upstreams.is_empty());
}
