//! Which responses of Ingresses have `Strict-Transport-Security`, and how the ConfigMap of ingress-nginx decides about it.

use std::net::IpAddr;

use weir_config::Config;
use weir_gateway::{GatewaySettings, IngressSettings, ObjectKey, ObjectKind, Translation, Translator};
use weir_traffic::route::RouteRequest;

use crate::objects::{NOW, read, settings};

/// What ingress-nginx sends by default.
const DEFAULT: &str = "max-age=31536000; includeSubDomains";

const OBJECTS: &str = "kind: IngressClass
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
type: kubernetes.io/tls
metadata: {namespace: infra, name: default}
data: {certificate: infra.test}
---
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: app, name: own}
data: {certificate: own.test}
---
kind: Secret
type: kubernetes.io/tls
metadata: {namespace: more, name: plain}
data: {certificate: plain.test}
---
kind: ConfigMap
metadata: {namespace: app, name: headers}
data: {Strict-Transport-Security: max-age=60}
---
kind: Ingress
metadata: {namespace: app, name: own, creationTimestamp: '2021-01-01T00:00:00Z', annotations: {nginx.ingress.kubernetes.io/app-root: /start}}
spec:
  tls: [{hosts: [own.test], secretName: own}]
  rules: [{host: own.test, http: {paths: [{path: /start, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
kind: Ingress
metadata: {namespace: app, name: default, creationTimestamp: '2021-01-01T00:00:00Z', annotations: {nginx.ingress.kubernetes.io/ssl-redirect: 'false'}}
spec:
  tls: [{hosts: [default.test]}]
  rules: [{host: default.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
kind: Ingress
metadata: {namespace: app, name: mine, creationTimestamp: '2021-01-01T00:00:00Z', annotations: {nginx.ingress.kubernetes.io/custom-headers: headers}}
spec:
  tls: [{hosts: [mine.test]}]
  rules: [{host: mine.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
kind: Ingress
metadata: {namespace: app, name: closed, creationTimestamp: '2021-01-01T00:00:00Z', annotations: {nginx.ingress.kubernetes.io/server-snippet: deny all}}
spec:
  tls: [{hosts: [closed.test]}]
  rules: [{host: closed.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
kind: Ingress
metadata: {namespace: app, name: plain, creationTimestamp: '2021-01-01T00:00:00Z'}
spec:
  rules: [{host: plain.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
# It asks for TLS for a host of another namespace.
kind: Ingress
metadata: {namespace: more, name: foreign, creationTimestamp: '2022-01-01T00:00:00Z'}
spec:
  tls: [{hosts: [plain.test], secretName: plain}]
  rules: [{host: plain.test, http: {paths: [{path: /foreign, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
# Every host, and a certificate for all of them.
kind: Ingress
metadata: {namespace: app, name: all, creationTimestamp: '2021-01-01T00:00:00Z'}
spec:
  tls: [{}]
  defaultBackend: {service: {name: web, port: {number: 80}}}
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

/// The header of a response at one of the two listeners.
fn sent(config: &Config, listener: &str, host: &str, path: &str) -> Option<String> {
    let listener = config.listeners.iter().find(|one| &*one.name == listener).expect("it is there");
    let found =
        listener.route_table().unwrap().lookup(&Asked(host, path)).expect("each host has a last route");
    let headers = &listener.routes[found.index()].settings.response_headers;
    assert!(headers.add.is_empty());
    let mut values = headers.set.iter().filter(|(name, _)| &**name == "strict-transport-security");
    let value = values.next().map(|(_, value)| value.to_string());
    assert!(values.next().is_none(), "{host}{path}: twice");
    value
}

fn translator(config_map: Option<&str>) -> Translator {
    let infra = |name: &str| Some(ObjectKey::new("infra", name));
    let ingress = IngressSettings {
        default_certificate: infra("default"),
        config_map: config_map.and_then(infra),
        ..IngressSettings::default()
    };
    let mut translator = Translator::new(GatewaySettings { ingress: Some(ingress), ..settings() });
    read(OBJECTS).iter().for_each(|object| translator.upsert(object));
    translator
}

#[test]
fn hosts_with_a_certificate_have_it_over_tls() {
    let config = translator(None).translate(NOW).config.unwrap();
    for (host, path, expected) in [
        ("own.test", "/start", Some(DEFAULT)),
        // A redirect, and where no path is.
        ("own.test", "/", Some(DEFAULT)),
        ("own.test", "/none", Some(DEFAULT)),
        ("default.test", "/", Some(DEFAULT)),
        ("closed.test", "/", Some(DEFAULT)),
        // Its own word precedes.
        ("mine.test", "/", Some("max-age=60")),
        // Nothing asks for TLS there that may.
        ("plain.test", "/", None),
        ("plain.test", "/foreign", None),
        // Which hosts these are is not known.
        ("other.test", "/", None),
    ] {
        assert_eq!(sent(&config, "ingress-https", host, path).as_deref(), expected, "{host}{path}");
        let plain = sent(&config, "ingress-http", host, path);
        assert!(plain.is_none() || host == "mine.test", "{host}{path}: {plain:?}");
    }
}

#[test]
fn the_config_map_decides_for_all() {
    let mut translator = translator(Some("settings"));
    let mut current = None;
    let mut turn = |translator: &mut Translator| {
        let Translation { config, ingress_config_map_problem, .. } = translator.translate(NOW);
        current = config.or(current.take());
        let config = current.as_ref().expect("there was one");
        let [own, bare] = ["/start", "/none"].map(|path| sent(config, "ingress-https", "own.test", path));
        assert_eq!(own, bare);
        assert_eq!(sent(config, "ingress-https", "mine.test", "/").as_deref(), Some("max-age=60"));
        (own, ingress_config_map_problem.unwrap_or_default())
    };
    let missing =
        "infra/settings: it does not exist; Strict-Transport-Security is not sent as long as that is so";
    assert_eq!(turn(&mut translator), (None, missing.into()));
    for (data, expected, problem) in [
        ("{}", Some(DEFAULT), ""),
        ("{hsts: 'false'}", None, ""),
        ("{hsts: 'true', hsts-max-age: '300', hsts-include-subdomains: 'false'}", Some("max-age=300"), ""),
        ("{hsts-preload: 'true'}", Some("max-age=31536000; includeSubDomains; preload"), ""),
        (
            "{hsts: 'perhaps'}",
            None,
            "infra/settings: `hsts`: `perhaps` is neither \"true\" nor \"false\"; Strict-Transport-Security is not sent as long as that is so",
        ),
        ("{use-gzip: 'true'}", Some(DEFAULT), "infra/settings: keys without an effect: `use-gzip`"),
    ] {
        let map = format!("kind: ConfigMap\nmetadata: {{namespace: infra, name: settings}}\ndata: {data}\n");
        read(&map).iter().for_each(|object| translator.upsert(object));
        assert_eq!(turn(&mut translator), (expected.map(str::to_owned), problem.into()), "{data}");
    }
    translator.delete(ObjectKind::ConfigMap, &ObjectKey::new("infra", "settings"));
    assert_eq!(turn(&mut translator), (None, missing.into()));
    // A ConfigMap that is another's changes nothing.
    let other = "kind: ConfigMap\nmetadata: {namespace: infra, name: other}\ndata: {hsts: 'true'}\n";
    read(other).iter().for_each(|object| translator.upsert(object));
    assert_eq!(turn(&mut translator), (None, missing.into()));
}
