//! Listeners of Gateways whose Secret is damaged or gone: they keep their certificate, and never leave their hosts to other listeners.

use std::net::IpAddr;

use weir_config::{Config, RouteAction};
use weir_gateway::{ObjectKey, ObjectKind, ObjectStatus, Translation, Translator};
use weir_traffic::route::RouteRequest;

use crate::objects::{NOW, read, settings};

const BASE: &str = "kind: GatewayClass
metadata: {name: weir}
spec: {controllerName: weir.dev/gateway}
---
kind: Gateway
metadata: {namespace: infra, name: edge}
spec:
  gatewayClassName: weir
  listeners:
  - {name: wide, port: 443, protocol: HTTPS, hostname: '*.corp.test', tls: {certificateRefs: [{name: wide}]}}
  - {name: shop, port: 443, protocol: HTTPS, hostname: shop.corp.test, tls: {certificateRefs: [{name: shop, namespace: keys}]}}
---
kind: ReferenceGrant
metadata: {namespace: keys, name: permit}
spec: {from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: infra}], to: [{group: '', kind: Secret}]}
---
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: infra, name: wide}
data: {certificate: '*.corp.test'}
---
kind: Service
metadata: {namespace: infra, name: wide}
spec: {ports: [{port: 80}]}
---
kind: Service
metadata: {namespace: infra, name: shop}
spec: {ports: [{port: 80}]}
---
kind: HTTPRoute
metadata: {namespace: infra, name: wide}
spec: {parentRefs: [{name: edge, sectionName: wide}], rules: [{backendRefs: [{name: wide, port: 80}]}]}
---
kind: HTTPRoute
metadata: {namespace: infra, name: shop}
spec: {parentRefs: [{name: edge, sectionName: shop}], hostnames: [shop.corp.test], rules: [{backendRefs: [{name: shop, port: 80}]}]}
---
kind: HTTPRoute
metadata: {namespace: infra, name: both}
spec: {parentRefs: [{name: edge, sectionName: wide}], hostnames: [shop.corp.test], rules: [{matches: [{path: {value: /wide}}], backendRefs: [{name: wide, port: 80}]}]}
";

const SHOP: &str = "kind: Secret
type: kubernetes.io/tls
metadata: {namespace: keys, name: shop}
data: {certificate: shop.corp.test}
";

const DAMAGED: &str = "kind: Secret
type: kubernetes.io/tls
metadata: {namespace: keys, name: shop}
data: {tls.crt: AAAA, tls.key: AAAA}
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

fn goes(config: &Config, host: &str, path: &str) -> String {
    let listener = &config.listeners[0];
    let found = listener.route_table().unwrap().lookup(&Asked(host, path)).unwrap();
    match &listener.routes[found.index()].action {
        RouteAction::Upstream(index) => config.upstream(*index).name.to_string(),
        RouteAction::Respond(fixed) => fixed.status.to_string(),
        other => format!("{other:?}"),
    }
}

/// The names for which certificates are shown.
fn shown(config: &Config) -> Vec<String> {
    let tls = config.listeners[0].tls.as_ref().unwrap();
    let names = tls.certificates().flat_map(|one| one.certificate.names.iter().map(ToString::to_string));
    names.collect()
}

/// `Programmed` and `ResolvedRefs` of the listener for the shop, and the message of the latter.
fn told(translation: &Translation) -> (String, String, String) {
    let status = translation.statuses.iter().find_map(|update| match &update.status {
        ObjectStatus::Gateway(status) => Some(status),
        _ => None,
    });
    let listener = status.unwrap().listeners.iter().find(|one| &*one.name == "shop").unwrap();
    let find = |kind: &str| listener.conditions.iter().find(|one| &*one.r#type == kind).unwrap();
    let (programmed, resolved) = (find("Programmed"), find("ResolvedRefs"));
    (programmed.status.to_string(), resolved.status.to_string(), resolved.message.to_string())
}

fn start(objects: &[&str]) -> (Translator, Translation) {
    let mut translator = Translator::new(settings());
    objects.iter().flat_map(|text| read(text)).for_each(|object| translator.upsert(&object));
    let translation = translator.translate(NOW);
    (translator, translation)
}

#[test]
fn a_listener_keeps_its_certificate_while_its_secret_has_none() {
    let key = ObjectKey::new("keys", "shop");
    for is_deleted in [false, true] {
        let (mut translator, first) = start(&[BASE, SHOP]);
        let before = first.config.unwrap();
        assert_eq!(goes(&before, "shop.corp.test", "/"), "infra.shop.80");
        match is_deleted {
            true => translator.delete(ObjectKind::Secret, &key),
            false => read(DAMAGED).iter().for_each(|object| translator.upsert(object)),
        }
        for turn in 0..2 {
            let next = translator.translate(NOW);
            let config = next.config.as_ref().unwrap();
            assert_eq!(
                (goes(config, "shop.corp.test", "/"), shown(config)),
                ("infra.shop.80".into(), shown(&before))
            );
            let (programmed, resolved, why) = told(&next);
            assert_eq!((&*programmed, &*resolved), ("False", "False"), "{turn}");
            assert!(why.ends_with("; the certificate that it had last stays in use"), "{why}");
            // A change of something else.
            read(BASE.split("---\n").nth(3).unwrap()).iter().for_each(|object| translator.upsert(object));
            translator.renew_statuses();
        }
        // Nothing that is not permitted any more stays.
        translator.delete(ObjectKind::ReferenceGrant, &ObjectKey::new("keys", "permit"));
        let last = translator.translate(NOW);
        let (programmed, _, why) = told(&last);
        assert!(&*programmed == "False" && why.contains("no ReferenceGrant"), "{why}");
        let config = last.config.unwrap();
        assert_eq!((&*goes(&config, "shop.corp.test", "/"), shown(&config).len()), ("404", 2));
    }
}

/// A restart while the Secret is damaged: the listener stays closed, and its hosts are those of no other listener of the port.
#[test]
fn the_hosts_of_a_closed_listener_stay_its_own() {
    for objects in [&[BASE][..], &[BASE, DAMAGED]] {
        let (_, translation) = start(objects);
        let (programmed, resolved, _) = told(&translation);
        assert_eq!((&*programmed, &*resolved), ("False", "False"));
        let config = translation.config.unwrap();
        for (host, path, expected) in [
            ("shop.corp.test", "/", "404"),
            ("shop.corp.test", "/wide", "404"),
            ("a.corp.test", "/", "infra.wide.80"),
            ("a.corp.test", "/wide", "infra.wide.80"),
        ] {
            assert_eq!(goes(&config, host, path), expected, "{host}{path}");
        }
    }
}
