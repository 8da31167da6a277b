//! Hosts of Ingresses that several namespaces have, and hosts that have no certificate of their own: what the owner has stays as it is.

use std::net::IpAddr;

use weir_config::{Config, Listener, RouteAction};
use weir_gateway::{GatewaySettings, IngressSettings, ObjectKey, Translation, Translator};
use weir_traffic::route::RouteRequest;

use crate::objects::{NOW, read, settings};

const BASE: &str = "kind: IngressClass
metadata: {name: weir, annotations: {ingressclass.kubernetes.io/is-default-class: \"true\"}}
spec: {controller: weir.dev/ingress}
---
kind: Service
metadata: {namespace: alice, name: web}
spec: {ports: [{port: 80}]}
---
kind: Service
metadata: {namespace: mallory, name: web}
spec: {ports: [{port: 80}]}
---
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: infra, name: default}
data: {certificate: '*.infra.test'}
---
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: mallory, name: wild}
data: {certificate: '*.a.test'}
---
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: alice, name: other}
data: {certificate: other.test}
---
";

struct Asked<'a>(&'a str, &'a str);

impl RouteRequest for Asked<'_> {
    fn host(&self) -> &[u8] {
        self.0.as_bytes()
    }

    fn path(&self) -> &[u8] {
        self.1.as_bytes()
    }

    fn query(&self) -> &[u8] {
        b""
    }

    fn method(&self) -> &[u8] {
        b"GET"
    }

    fn header(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn source(&self) -> IpAddr {
        IpAddr::from([192, 0, 2, 1])
    }
}

/// An Ingress of alice is older than one of mallory. `spec` comes before the rules.
fn ingress(namespace: &str, annotations: &str, spec: &str, host: &str, paths: &[(&str, &str)]) -> String {
    let year = if namespace == "alice" { 2020 } else { 2021 };
    let annotations: Vec<String> = annotations
        .split("; ")
        .filter(|one| !one.is_empty())
        .map(|one| format!("nginx.ingress.kubernetes.io/{one}"))
        .collect();
    let paths: Vec<String> = paths
        .iter()
        .map(|(path, kind)| format!("{{path: '{path}', pathType: {kind}, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}"))
        .collect();
    format!(
        "kind: Ingress\nmetadata: {{namespace: {namespace}, name: i-{host}-{}, creationTimestamp: '{year}-01-01T00:00:00Z', annotations: {{{}}}}}\n\
         spec: {{{spec}rules: [{{{}http: {{paths: [{}]}}}}]}}\n---\n",
        paths.len(),
        annotations.join(", "),
        if host.is_empty() { String::new() } else { format!("host: '{host}', ") },
        paths.join(", ")
    )
    .replace("name: i--", "name: any-")
    .replace("name: i-*", "name: i-wild")
}

fn translated(objects: &str, default: Option<&str>) -> Translation {
    let ingress = IngressSettings {
        default_certificate: default.map(|name| ObjectKey::new("infra", name)),
        ..IngressSettings::default()
    };
    let mut translator = Translator::new(GatewaySettings { ingress: Some(ingress), ..settings() });
    read(&format!("{BASE}{objects}")).iter().for_each(|object| translator.upsert(object));
    translator.translate(NOW)
}

fn listener<'c>(config: &'c Config, name: &str) -> &'c Listener {
    config.listeners.iter().find(|one| *one.name == *name).unwrap()
}

fn goes(config: &Config, host: &str, path: &str) -> String {
    let listener = listener(config, "ingress-http");
    let Some(found) = listener.route_table().unwrap().lookup(&Asked(host, path)) else { return "404".into() };
    match &listener.routes[found.index()].action {
        RouteAction::Upstream(index) => config.upstream(*index).name.to_string(),
        RouteAction::Respond(fixed) => fixed.status.to_string(),
        RouteAction::Redirect(redirect) => redirect.status.to_string(),
        other => format!("{other:?}"),
    }
}

fn said(translation: &Translation) -> Vec<String> {
    let problems = translation.ingress_reports.iter().flat_map(|report| {
        report.problems.iter().map(move |problem| format!("{}: {}", report.key.namespace, problem.sentence()))
    });
    problems.collect()
}

/// One host has one spelling: another one would be a second route for the same requests.
#[test]
fn other_spellings_of_a_host_tie_no_routes() {
    let root: &[(&str, &str)] = &[("/", "Prefix")];
    for (what, alias, host, others, problem) in [
        ("a dot at the end", "m.test.", "m.test", String::new(), "`m.test` is a host of another"),
        ("both", "\"n.test,N.test.,n.test.\"", "m.test", String::new(), ""),
        (
            "capitals and a dot",
            "\"OTHER.test.\"",
            "m.test",
            ingress("alice", "", "", "other.test", root),
            "`other.test` is a host of another",
        ),
        ("every host", "\"*\"", "m.test", ingress("alice", "", "", "", root), "`*` is every host"),
        (
            "every host with a dot",
            "\"*.\"",
            "m.test",
            ingress("alice", "", "", "", root),
            "the host is empty",
        ),
        ("every host and no other", "\"*\"", "m.test", String::new(), "`*` is every host"),
        (
            "a wildcard",
            "\"*.W.test.\"",
            "m.test",
            ingress("alice", "", "", "*.w.test", root),
            "`*.w.test` is a host of another",
        ),
    ] {
        let one = ingress("mallory", &format!("server-alias: {alias}"), "", host, root);
        let translation = translated(&format!("{one}{others}"), Some("default"));
        let config = translation.config.as_ref().unwrap();
        for listener in &config.listeners {
            assert!(listener.route_table().is_ok(), "{what}: {:?}", listener.route_table().err());
        }
        assert_eq!(goes(config, "m.test", "/"), "mallory.web.80", "{what}");
        if !others.is_empty() {
            assert_eq!(
                goes(config, "other.test", "/"),
                if what.starts_with("a wildcard") { "404" } else { "alice.web.80" },
                "{what}"
            );
        }
        let said = said(&translation);
        match problem {
            "" => assert!(said.is_empty(), "{what}: {said:?}"),
            problem => assert!(said.iter().any(|one| one.contains(problem)), "{what}: {said:?}"),
        }
    }
}

/// Regular expressions of a host are those of its owner; paths of others are what they say.
#[test]
fn regular_expressions_of_others_are_not_applied() {
    let alice = ingress(
        "alice",
        "rewrite-target: /$2",
        "",
        "rx.test",
        &[("/api(/|$)(.*)", "ImplementationSpecific")],
    );
    let catch_all: &[(&str, &str)] = &[("/(.*)(.*)(.*)(.*)(.*)", "ImplementationSpecific")];
    for annotations in ["", "use-regex: 'true'", "rewrite-target: /$1"] {
        let mallory = ingress("mallory", annotations, "", "rx.test", catch_all);
        let translation = translated(&format!("{alice}{mallory}"), None);
        let config = translation.config.as_ref().unwrap();
        for path in ["/api", "/api/x", "/API/x"] {
            assert_eq!(goes(config, "rx.test", path), "alice.web.80", "{annotations} {path}");
        }
        assert_eq!(goes(config, "rx.test", "/x"), "404", "{annotations}");
        let said = said(&translation);
        assert_eq!(!said.is_empty(), !annotations.is_empty(), "{annotations}: {said:?}");
        assert!(said.iter().all(|one| one.contains("belongs to the namespace `alice`")), "{said:?}");
    }
    let paths: &[(&str, &str)] = &[("/o.th/", "Prefix"), ("/one", "Exact"), ("/ap(i*)", "Prefix")];
    let translation = translated(&format!("{alice}{}", ingress("mallory", "", "", "rx.test", paths)), None);
    let config = translation.config.as_ref().unwrap();
    for (path, expected) in [
        ("/o.th", "mallory.web.80"),
        ("/o.th/x", "mallory.web.80"),
        ("/o.thx", "404"),
        ("/oxth", "404"),
        ("/O.TH", "404"),
        ("/one", "mallory.web.80"),
        ("/one/x", "404"),
        ("/api/x", "alice.web.80"),
        ("/ap(i*)/x", "mallory.web.80"),
    ] {
        assert_eq!(goes(config, "rx.test", path), expected, "{path}");
    }
}

/// `/` of a host, and the redirect from its name with `www.`, are its owner's.
#[test]
fn roots_and_redirects_of_others_are_not_applied() {
    let alice = ingress("alice", "", "", "shop.test", &[("/", "Prefix")]);
    let mallory = ingress(
        "mallory",
        "app-root: /own/phish; from-to-www-redirect: 'true'",
        "",
        "shop.test",
        &[("/own", "Prefix")],
    );
    let translation = translated(&format!("{alice}{mallory}"), None);
    let config = translation.config.as_ref().unwrap();
    assert_eq!(goes(config, "shop.test", "/"), "alice.web.80");
    assert_eq!(goes(config, "shop.test", "/own"), "mallory.web.80");
    assert_eq!(goes(config, "www.shop.test", "/"), "404");
    let said = said(&translation);
    for annotation in ["app-root", "from-to-www-redirect"] {
        let expected = format!(
            "mallory: nginx.ingress.kubernetes.io/{annotation}: host `shop.test` belongs to the namespace `alice`"
        );
        assert!(said.contains(&expected), "{said:?}");
    }
    let own = ingress("alice", "app-root: /in", "", "shop.test", &[("/", "Prefix")]);
    assert_eq!(goes(translated(&own, None).config.as_ref().unwrap(), "shop.test", "/"), "302");
}

/// A host of `tls` has the default certificate where it has none of its own; without one, too, it is not served without TLS.
#[test]
fn hosts_on_the_default_certificate_are_redirected() {
    let root: &[(&str, &str)] = &[("/", "Prefix")];
    for (what, spec, default, status, problem) in [
        ("no Secret named", "tls: [{hosts: [h.test]}], ", Some("default"), "308", ""),
        ("no host named", "tls: [{}], ", Some("default"), "308", ""),
        ("the host of another rule", "tls: [{hosts: [x.test]}], ", Some("default"), "alice.web.80", ""),
        (
            "no such Secret",
            "tls: [{hosts: [h.test], secretName: nope}], ",
            Some("default"),
            "308",
            "does not exist; host `h.test` has the default certificate, the Secret infra/default",
        ),
        (
            "another name",
            "tls: [{hosts: [h.test], secretName: other}], ",
            Some("default"),
            "308",
            "is not for `h.test`; host `h.test` has the default certificate",
        ),
        (
            "no default",
            "tls: [{hosts: [h.test]}], ",
            None,
            "308",
            "host `h.test` has no certificate: there is no default certificate",
        ),
        (
            "a default that is not there",
            "tls: [{hosts: [h.test]}], ",
            Some("nope"),
            "308",
            "the default certificate cannot be used, the Secret infra/nope does not exist",
        ),
        ("no tls", "", Some("default"), "alice.web.80", ""),
    ] {
        let translation = translated(&ingress("alice", "", spec, "h.test", root), default);
        let config = translation.config.as_ref().unwrap();
        assert_eq!(goes(config, "h.test", "/"), status, "{what}");
        let said = said(&translation);
        match problem {
            "" => assert!(said.is_empty(), "{what}: {said:?}"),
            problem => assert!(said.len() == 1 && said[0].contains(problem), "{what}: {said:?}"),
        }
        let is_missing = default == Some("nope");
        assert_eq!(translation.default_certificate_problem.is_some(), is_missing, "{what}");
        let off = translated(&ingress("alice", "ssl-redirect: 'false'", spec, "h.test", root), default);
        assert_eq!(goes(off.config.as_ref().unwrap(), "h.test", "/"), "alice.web.80", "{what}");
    }
}

/// A wildcard certificate is for hosts of its namespace that have no other; those of other namespaces have the default one.
#[test]
fn wildcard_certificates_are_not_shown_for_hosts_of_others() {
    let root: &[(&str, &str)] = &[("/", "Prefix")];
    let wild = ingress("mallory", "", "tls: [{hosts: ['*.a.test'], secretName: wild}], ", "*.a.test", root);
    for (what, owner, host, spec, annotations, name) in [
        ("with tls", "alice", "x.a.test", "tls: [{hosts: [x.a.test]}], ", "", Some("x.a.test")),
        ("without tls", "alice", "x.a.test", "", "", Some("x.a.test")),
        ("a redirect", "alice", "x.a.test", "", "from-to-www-redirect: 'true'", Some("x.a.test")),
        ("an alias", "alice", "b.test", "", "server-alias: y.a.test", Some("y.a.test")),
        ("of the same namespace", "mallory", "x.a.test", "", "", None),
        ("no name of it", "alice", "x.b.a.test", "", "", None),
    ] {
        let translation =
            translated(&format!("{wild}{}", ingress(owner, annotations, spec, host, root)), Some("default"));
        let config = translation.config.as_ref().unwrap();
        let tls = listener(config, "ingress-https").tls.as_ref().unwrap();
        let names: Vec<Vec<&str>> = tls
            .certificates()
            .map(|one| one.certificate.names.iter().map(|name| &**name).collect())
            .collect();
        let of_default: Vec<&str> = ["*.infra.test"].into_iter().chain(name).collect();
        assert_eq!(names, [of_default, vec!["*.a.test"]], "{what}");
    }
}
