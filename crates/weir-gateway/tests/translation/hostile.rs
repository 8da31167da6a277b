//! What a tenant writes to hurt others is refused by the status of its object, and nothing else changes.

use weir_gateway::{KubernetesObject, ObjectKind, ObjectStatus};

use crate::objects::{NOW, translated};

const APP: &str = "kind: GatewayClass
metadata: {name: weir}
spec: {controllerName: weir.dev/gateway}
---
kind: Gateway
metadata: {namespace: app, name: edge}
spec: {gatewayClassName: weir, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Service
metadata: {namespace: app, name: web}
spec: {ports: [{port: 80}]}
---
kind: HTTPRoute
metadata: {namespace: app, name: honest, generation: 1}
spec: {parentRefs: [{name: edge}], hostnames: [a.test], rules: [{backendRefs: [{name: web, port: 80}]}]}
";

/// A regular expression of a megabyte, and short ones that become large when they are compiled.
#[test]
fn large_regular_expressions_are_refused_before_they_are_compiled() {
    let megabyte = "a|".repeat(512 * 1024);
    for (value, cause) in [
        (megabyte.as_str(), "4096"),
        ("(a{1000}){1000}", "size"),
        (r"(\\w{1000}){1000}", "size"),
        ("((((a{50}){50}){50}){50}){50}", "size"),
    ] {
        let (mut translator, before) = translated(APP);
        let route = format!(
            r#"{{"metadata":{{"namespace":"app","name":"hostile","generation":1}},"spec":{{"parentRefs":[{{"name":"edge"}}],"hostnames":["a.test"],
            "rules":[{{"matches":[{{"path":{{"type":"RegularExpression","value":"{value}"}}}}],"backendRefs":[{{"name":"web","port":80}}]}}]}}}}"#
        );
        let route = KubernetesObject::from_json(ObjectKind::HttpRoute, route.as_bytes()).unwrap();
        translator.upsert(&route);
        let translation = translator.translate(NOW);
        let statuses: Vec<_> =
            translation.statuses.iter().filter(|update| *update.key.name == *"hostile").collect();
        let [update] = statuses[..] else { panic!("it is told once: {statuses:?}") };
        let ObjectStatus::Route(status) = &update.status else { panic!("it is a route") };
        let accepted = &status.parents[0].conditions[0];
        let said = (&*accepted.r#type, &*accepted.status, &*accepted.reason);
        assert_eq!(said, ("Accepted", "False", "UnsupportedValue"), "{cause} {}", accepted.message);
        assert!(accepted.message.contains(cause) && accepted.message.len() <= 512, "{}", accepted.message);
        // The route of others is the same as before.
        let (before, after) = (before.config.unwrap(), translation.config.unwrap());
        assert_eq!(before.listeners, after.listeners);
    }
}
