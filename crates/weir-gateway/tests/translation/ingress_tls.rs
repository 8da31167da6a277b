//! What an Ingress asks TLS for is never served without it, whatever becomes of its Secrets.

use std::collections::HashSet;
use std::net::IpAddr;

use data_encoding::BASE64;
use rcgen::{CertificateParams, KeyPair};
use weir_config::{Config, RouteAction};
use weir_gateway::{GatewaySettings, IngressSettings, ObjectKey, ObjectKind, Translation, Translator};
use weir_traffic::route::RouteRequest;

use crate::objects::{NOW, read, settings};

const BASE: &str = "kind: IngressClass
metadata: {name: weir, annotations: {ingressclass.kubernetes.io/is-default-class: \"true\"}}
spec: {controller: weir.dev/ingress}
---
kind: Service
metadata: {namespace: app, name: web}
spec: {ports: [{port: 80}]}
---
kind: Service
metadata: {namespace: more, name: web}
spec: {ports: [{port: 80}]}
---
kind: Secret
type: Opaque
metadata: {namespace: app, name: users}
data: {auth: dTokYXByMSRpN0puYTgzWiQ2Q2VTYVFKZGw4SFJuRVJVMmhPUGcx}
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

/// A translator, and the last configuration that came out of it.
struct Cluster {
    translator: Translator,
    config: Config,
    said: Vec<String>,
}

impl Cluster {
    fn new(objects: &[String], has_default: bool) -> Self {
        let default_certificate = has_default.then(|| ObjectKey::new("infra", "default"));
        let ingress = IngressSettings { default_certificate, ..IngressSettings::default() };
        let translator = Translator::new(GatewaySettings { ingress: Some(ingress), ..settings() });
        let mut cluster = Self { translator, config: Config::default(), said: Vec::new() };
        cluster.upsert(BASE);
        if has_default {
            cluster.upsert(&secret("infra", "default", &["*.infra.test"]));
        }
        objects.iter().for_each(|object| cluster.upsert(object));
        cluster.turn();
        cluster
    }

    fn upsert(&mut self, objects: &str) {
        read(objects).iter().for_each(|object| self.translator.upsert(object));
    }

    fn turn(&mut self) {
        let Translation { config, ingress_reports, .. } = self.translator.translate(NOW);
        if let Some(config) = config {
            self.config = config;
        }
        for report in ingress_reports {
            self.said = report.problems.iter().map(weir_gateway::IngressProblem::sentence).collect();
        }
    }

    /// What becomes of a request without TLS.
    fn plain(&self, host: &str, path: &str) -> String {
        let listener = self.config.listeners.iter().find(|one| &*one.name == "ingress-http").unwrap();
        let found = listener.route_table().unwrap().lookup(&Asked(host, path));
        let Some(found) = found else { return "nothing".to_owned() };
        match &listener.routes[found.index()].action {
            RouteAction::Upstream(index) => self.config.upstream(*index).name.to_string(),
            RouteAction::Respond(fixed) => fixed.status.to_string(),
            RouteAction::Redirect(redirect) => redirect.status.to_string(),
            other => format!("{other:?}"),
        }
    }

    /// The names of the certificates that are shown, with the first bytes of each one's chain.
    fn shown(&self) -> Vec<(Vec<String>, Vec<u8>)> {
        let listener = self.config.listeners.iter().find(|one| &*one.name == "ingress-https");
        let tls = listener.and_then(|listener| listener.tls.as_ref());
        let all = tls.into_iter().flat_map(|tls| tls.certificates());
        all.map(|one| {
            let names = one.certificate.names.iter().map(ToString::to_string).collect();
            (names, one.certificate.chain[0].to_vec())
        })
        .collect()
    }
}

fn pems(names: &[&str]) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap().pem();
    (certificate, key.serialize_pem())
}

fn written_secret(namespace: &str, name: &str, kind: &str, (chain, key): (&str, &str)) -> String {
    format!(
        "kind: Secret\ntype: {kind}\nmetadata: {{namespace: {namespace}, name: {name}}}\ndata: {{tls.crt: '{}', tls.key: '{}'}}",
        BASE64.encode(chain.as_bytes()),
        BASE64.encode(key.as_bytes())
    )
}

fn secret(namespace: &str, name: &str, names: &[&str]) -> String {
    let (chain, key) = pems(names);
    written_secret(namespace, name, "kubernetes.io/tls", (&chain, &key))
}

/// An Ingress with a password, and the rules of these hosts.
fn ingress(namespace: &str, annotations: &str, tls: &str, hosts: &[&str]) -> String {
    let year = if namespace == "app" { 2020 } else { 2021 };
    let rule = |host: &&str| {
        let host = if host.is_empty() { String::new() } else { format!("host: '{host}', ") };
        format!(
            "{{{host}http: {{paths: [{{path: /{}, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}}}",
            if namespace == "app" { "" } else { "more" }
        )
    };
    let rules: Vec<String> = hosts.iter().map(rule).collect();
    let password = if namespace == "app" {
        "nginx.ingress.kubernetes.io/auth-type: basic, nginx.ingress.kubernetes.io/auth-secret: users, "
    } else {
        ""
    };
    format!(
        "kind: Ingress\nmetadata: {{namespace: {namespace}, name: one, creationTimestamp: '{year}-01-01T00:00:00Z', annotations: {{{password}{annotations}}}}}\n\
         spec: {{tls: [{tls}], rules: [{}]}}",
        rules.join(", ")
    )
}

/// Ways in which a Secret has no certificate for `a.test` any more.
const DAMAGES: [&str; 8] = [
    "deleted",
    "not listed",
    "emptied",
    "damaged certificate",
    "damaged key",
    "the key of another",
    "another type",
    "other names",
];

fn damage(cluster: &mut Cluster, how: &str) {
    let key = ObjectKey::new("app", "own");
    let (chain, private) = pems(&["a.test"]);
    let (_, other) = pems(&["a.test"]);
    let tls = "kubernetes.io/tls";
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    match how {
        "deleted" => cluster.translator.delete(ObjectKind::Secret, &key),
        "not listed" => {
            let listed = HashSet::from([ObjectKey::new("infra", "default")]);
            cluster.translator.retain_listed(ObjectKind::Secret, None, &listed);
        }
        "emptied" => cluster
            .upsert("kind: Secret\ntype: kubernetes.io/tls\nmetadata: {namespace: app, name: own}\ndata: {}"),
        "damaged certificate" => cluster.upsert(&written_secret("app", "own", tls, (broken, &private))),
        "damaged key" => cluster.upsert(&written_secret("app", "own", tls, (&chain, "no key"))),
        "the key of another" => cluster.upsert(&written_secret("app", "own", tls, (&chain, &other))),
        "another type" => {
            cluster.translator.delete(ObjectKind::Secret, &key);
            cluster.upsert(&written_secret("app", "own", "Opaque", ("", "")));
        }
        "other names" => cluster.upsert(&secret("app", "own", &["other.test"])),
        other => panic!("{other}"),
    }
}

const NAMED: &str = "{hosts: [a.test], secretName: own}";

#[test]
fn a_host_keeps_its_certificate_whatever_becomes_of_the_secret() {
    for (how, has_default) in DAMAGES.into_iter().flat_map(|how| [(how, false), (how, true)]) {
        let objects = [ingress("app", "", NAMED, &["a.test"]), secret("app", "own", &["a.test"])];
        let mut cluster = Cluster::new(&objects, has_default);
        let before = cluster.shown();
        assert_eq!(
            (cluster.plain("a.test", "/"), before.len()),
            ("308".into(), 1 + usize::from(has_default))
        );
        damage(&mut cluster, how);
        cluster.turn();
        assert_eq!(cluster.plain("a.test", "/"), "308", "{how}");
        assert_eq!(cluster.shown(), before, "{how}");
        let said = &cluster.said;
        let is_told = |one: &String| one.ends_with("host `a.test` keeps the certificate that it had last");
        assert!(said.len() == 1 && said.iter().all(is_told), "{how}: {said:?}");
        // Other changes meanwhile, and the Ingress itself.
        cluster.upsert(&ingress("app", "", NAMED, &["a.test", "b.test"]));
        cluster.upsert(&ingress("more", "", "", &["m.test"]));
        cluster.turn();
        assert_eq!((cluster.plain("a.test", "/"), cluster.shown()), ("308".into(), before.clone()), "{how}");
        cluster.translator.delete(ObjectKind::OpaqueSecret, &ObjectKey::new("app", "own"));
        cluster.upsert(&secret("app", "own", &["a.test"]));
        cluster.turn();
        assert_ne!(cluster.shown(), before, "{how}: a certificate that can be used takes its place");
        assert!(cluster.said.is_empty(), "{how}: {:?}", cluster.said);
        // An Ingress that is gone leaves nothing behind.
        cluster.translator.delete(ObjectKind::Ingress, &ObjectKey::new("app", "one"));
        damage(&mut cluster, how);
        cluster.turn();
        cluster.upsert(&ingress("app", "", NAMED, &["a.test"]));
        cluster.turn();
        assert_eq!(cluster.plain("a.test", "/"), "308", "{how}");
        assert_eq!(cluster.shown().len(), usize::from(has_default), "{how}");
    }
}

#[test]
fn a_secret_may_go_together_with_anything_else() {
    let objects = [
        ingress("app", "", NAMED, &["a.test"]),
        ingress("more", "", "", &["m.test"]),
        secret("app", "own", &["a.test"]),
    ];
    let mut cluster = Cluster::new(&objects, false);
    let before = cluster.shown();
    cluster.translator.delete(ObjectKind::Secret, &ObjectKey::new("app", "own"));
    cluster.translator.delete(ObjectKind::Ingress, &ObjectKey::new("more", "one"));
    cluster.translator.delete(ObjectKind::Service, &ObjectKey::new("app", "web"));
    cluster.upsert(&ingress("app", "", NAMED, &["a.test", "c.test"]));
    cluster.turn();
    assert_eq!((cluster.plain("a.test", "/"), cluster.shown()), ("308".into(), before));
}

/// After a panic, all objects are listed anew; one may be damaged by then.
#[test]
fn certificates_stay_when_all_is_listed_anew() {
    let objects = [ingress("app", "", NAMED, &["a.test"]), secret("app", "own", &["a.test"])];
    let mut cluster = Cluster::new(&objects, true);
    let before = cluster.shown();
    let ingress = IngressSettings {
        default_certificate: Some(ObjectKey::new("infra", "default")),
        ..IngressSettings::default()
    };
    cluster.translator.begin_anew(GatewaySettings { ingress: Some(ingress), ..settings() });
    cluster.upsert(BASE);
    cluster.upsert(&objects[0]);
    cluster.turn();
    assert_eq!((cluster.plain("a.test", "/"), cluster.shown()), ("308".into(), before));
}

/// A Secret that this process has never seen whole: after a restart, or before a certificate is issued.
#[test]
fn a_host_without_any_certificate_is_not_served_without_tls() {
    for how in DAMAGES {
        for has_default in [false, true] {
            let mut cluster = Cluster::new(&[ingress("app", "", NAMED, &["a.test"])], has_default);
            damage(&mut cluster, how);
            cluster.turn();
            assert_eq!(cluster.plain("a.test", "/"), "308", "{how}");
            assert_eq!(cluster.plain("a.test", "/.well-known/acme-challenge/x"), "308", "{how}");
            let names: Vec<Vec<String>> = cluster.shown().into_iter().map(|(names, _)| names).collect();
            let of_default = has_default.then(|| vec!["*.infra.test".to_owned()]);
            assert_eq!(names, Vec::from_iter(of_default), "{how}");
            let off = "nginx.ingress.kubernetes.io/ssl-redirect: 'false'";
            cluster.upsert(&ingress("app", off, NAMED, &["a.test"]));
            cluster.turn();
            assert_eq!(cluster.plain("a.test", "/"), "app.web.80", "{how}: as the Ingress says");
        }
    }
}

/// All ways in which `tls` is about a host: what becomes of a request without TLS with a certificate, when the Secret is damaged, and after a restart.
#[test]
fn tls_is_asked_for_in_every_way_that_names_a_host() {
    let alias = "nginx.ingress.kubernetes.io/server-alias: x.test";
    for (what, annotations, tls, hosts, asked, expected) in [
        (
            "by name",
            "",
            "{hosts: [a.test, x.test], secretName: own}",
            &["a.test", "x.test"][..],
            "x.test",
            ["308"; 3],
        ),
        ("no host at all", "", "{secretName: own}", &["a.test", "x.test"], "x.test", ["308"; 3]),
        (
            "a wildcard",
            "",
            "{hosts: ['*.test'], secretName: own}",
            &["a.test", "x.test"],
            "x.test",
            ["308"; 3],
        ),
        ("names of the certificate", "", NAMED, &["a.test", "x.test"], "x.test", ["308", "308", "307"]),
        ("another one", "", NAMED, &["a.test", "z.test"], "z.test", ["app.web.80", "app.web.80", "307"]),
        ("an alias", alias, NAMED, &["a.test"], "x.test", ["308"; 3]),
        ("a host of a wildcard", "", NAMED, &["*.test"], "a.test", ["308"; 3]),
        ("a host of all", "", NAMED, &[""], "a.test", ["308"; 3]),
        ("no certificate named", "", "{hosts: [x.test]}", &["x.test"], "x.test", ["308"; 3]),
        ("no tls", "", "", &["a.test"], "a.test", ["app.web.80"; 3]),
    ] {
        let objects = [ingress("app", annotations, tls, hosts), secret("app", "own", &["a.test", "x.test"])];
        let mut cluster = Cluster::new(&objects, false);
        let mut found = vec![cluster.plain(asked, "/")];
        damage(&mut cluster, "damaged certificate");
        cluster.turn();
        found.push(cluster.plain(asked, "/"));
        let mut restarted = Cluster::new(&objects[..1], false);
        damage(&mut restarted, "damaged certificate");
        restarted.turn();
        found.push(restarted.plain(asked, "/"));
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_default_backend_is_not_served_without_tls_either() {
    let whole = |tls: &str| {
        format!(
            "kind: Ingress\nmetadata: {{namespace: app, name: one}}\n\
             spec: {{tls: [{tls}], defaultBackend: {{service: {{name: web, port: {{number: 80}}}}}}}}"
        )
    };
    for (tls, expected) in [("{secretName: own}", "308"), (NAMED, "308"), ("", "app.web.80")] {
        let mut cluster = Cluster::new(&[whole(tls), secret("app", "own", &["a.test"])], false);
        assert_eq!(cluster.plain("a.test", "/"), expected, "{tls}");
        damage(&mut cluster, "deleted");
        cluster.turn();
        assert_eq!(cluster.plain("a.test", "/"), expected, "{tls}");
    }
}

/// A path that another namespace adds to a host: its own Ingress decides, and says nothing about the paths of the owner.
#[test]
fn paths_of_others_have_tls_if_their_ingress_asks() {
    let tls = "{hosts: [a.test], secretName: own}";
    let mut cluster =
        Cluster::new(&[ingress("app", "", "", &["a.test"]), ingress("more", "", tls, &["a.test"])], false);
    assert_eq!((&*cluster.plain("a.test", "/"), &*cluster.plain("a.test", "/more")), ("app.web.80", "308"));
    cluster.upsert(&ingress("app", "", NAMED, &["a.test"]));
    cluster.upsert(&ingress("more", "", "", &["a.test"]));
    cluster.turn();
    assert_eq!((&*cluster.plain("a.test", "/"), &*cluster.plain("a.test", "/more")), ("308", "308"));
}

#[test]
fn of_two_secrets_the_one_that_can_be_used_is_shown() {
    let younger = "kind: Ingress\nmetadata: {namespace: app, name: two, creationTimestamp: '2022-01-01T00:00:00Z'}\n\
                   spec: {tls: [{hosts: [a.test], secretName: second}], rules: [{host: a.test, http: {paths: [{path: /two, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}";
    let objects = [
        ingress("app", "", NAMED, &["a.test"]),
        younger.to_owned(),
        secret("app", "own", &["a.test"]),
        secret("app", "second", &["a.test"]),
    ];
    let mut cluster = Cluster::new(&objects, false);
    let first = cluster.shown();
    damage(&mut cluster, "deleted");
    cluster.turn();
    let second = cluster.shown();
    assert!(first != second && second.len() == 1, "{second:?}");
    assert!(
        cluster.said[0].ends_with("host `a.test` has the certificate of another Secret"),
        "{:?}",
        cluster.said
    );
    cluster.translator.delete(ObjectKind::Secret, &ObjectKey::new("app", "second"));
    cluster.turn();
    assert_eq!(cluster.shown(), first, "the oldest Ingress precedes");
}

#[test]
fn the_default_certificate_stays_until_there_is_another() {
    let mut cluster = Cluster::new(&[ingress("app", "", "{hosts: [a.test]}", &["a.test"])], true);
    let before = cluster.shown();
    assert_eq!(before.len(), 1);
    cluster.translator.delete(ObjectKind::Secret, &ObjectKey::new("infra", "default"));
    let gone = cluster.translator.translate(NOW);
    let problem = gone.default_certificate_problem.unwrap();
    assert!(problem.ends_with("does not exist; the certificate that it had last stays in use"), "{problem}");
    cluster.upsert(&ingress("app", "", "{hosts: [a.test]}", &["a.test", "b.test"]));
    cluster.turn();
    assert_eq!((cluster.plain("a.test", "/"), cluster.shown()), ("308".into(), before.clone()));
    cluster.upsert(&secret("infra", "default", &["*.infra.test"]));
    cluster.turn();
    assert!(cluster.shown().len() == 1 && cluster.shown() != before);
}
