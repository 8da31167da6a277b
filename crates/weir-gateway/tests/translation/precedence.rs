//! What is decided between objects that want the same: routes of two kinds, ports, and conditions of other writers.

use weir_gateway::api::Condition;
use weir_gateway::{KubernetesObject, ObjectKey, ObjectKind, ObjectStatus, StatusUpdate, Translation};

use crate::objects::{NOW, read, translated};

const CLASS: &str = "kind: GatewayClass
metadata: {name: weir}
spec: {controllerName: weir.dev/gateway}
---
kind: Gateway
metadata: {namespace: app, name: edge, creationTimestamp: \"2026-01-01T00:00:00Z\"}
spec: {gatewayClassName: weir, listeners: [{name: one, port: 80, protocol: HTTP}, {name: two, port: 81, protocol: HTTP}]}
---
kind: Service
metadata: {namespace: app, name: web}
spec: {ports: [{port: 80}]}
";

/// A route of a listener, as old as a month of the year.
fn route(kind: &str, name: &str, month: u8, listener: &str, hosts: &str) -> String {
    format!(
        "kind: {kind}\nmetadata: {{namespace: app, name: {name}, creationTimestamp: \"2026-{month:02}-01T00:00:00Z\"}}\n\
         spec: {{parentRefs: [{{name: edge, sectionName: {listener}}}], hostnames: [{hosts}], rules: [{{backendRefs: [{{name: web, port: 80}}]}}]}}\n"
    )
}

/// Status and reason of `Accepted` of a route, if it is told.
fn accepted(translation: &Translation, name: &str) -> Option<(String, String)> {
    let of_it = |update: &&StatusUpdate| *update.key.name == *name;
    let update = translation.statuses.iter().find(of_it)?;
    let ObjectStatus::Route(status) = &update.status else { return None };
    let condition = status.parents[0].conditions.iter().find(|one| *one.r#type == *"Accepted")?;
    Some((condition.status.to_string(), condition.reason.to_string()))
}

fn serves(translation: &Translation, name: &str) -> bool {
    let listeners = translation.config.iter().flat_map(|config| &config.listeners);
    listeners.flat_map(|listener| &listener.routes).any(|route| route.name.contains(&format!("/{name}/")))
}

/// Of an HTTPRoute and a GRPCRoute with hosts in common on a listener, exactly one is accepted.
#[test]
fn one_host_of_a_listener_has_routes_of_http_or_of_grpc() {
    let yes = || Some(("True".to_owned(), "Accepted".to_owned()));
    let no = || Some(("False".to_owned(), "HostnameConflict".to_owned()));
    for (what, http, grpc, wanted) in [
        ("the older stays", (1, "one", "a.test"), (2, "one", "a.test"), (yes(), no())),
        ("of either kind", (2, "one", "a.test"), (1, "one", "a.test"), (no(), yes())),
        ("the first by name, of one age", (1, "one", "a.test"), (1, "one", "a.test"), (no(), yes())),
        ("every host", (1, "one", ""), (2, "one", "b.test"), (yes(), no())),
        ("a wildcard", (1, "one", "x.a.test"), (2, "one", "'*.test'"), (yes(), no())),
        ("other hosts", (1, "one", "a.test"), (2, "one", "b.test"), (yes(), yes())),
        ("other listeners", (1, "one", "a.test"), (2, "two", "a.test"), (yes(), yes())),
    ] {
        let of_http = route("HTTPRoute", "web-http", http.0, http.1, http.2);
        let of_grpc = route("GRPCRoute", "calls-grpc", grpc.0, grpc.1, grpc.2);
        let (mut translator, translation) = translated(&format!("{CLASS}---\n{of_http}---\n{of_grpc}"));
        let found = (accepted(&translation, "web-http"), accepted(&translation, "calls-grpc"));
        assert_eq!(found, wanted, "{what}");
        let served = (serves(&translation, "web-http"), serves(&translation, "calls-grpc"));
        assert_eq!(served, (wanted.0 == yes(), wanted.1 == yes()), "{what}");
        // One comes back when the other is gone.
        translator.delete(ObjectKind::HttpRoute, &ObjectKey::new("app", "web-http"));
        let after = translator.translate(NOW);
        assert!(serves(&after, "calls-grpc"), "{what}");
        if wanted.1 == no() {
            assert_eq!(accepted(&after, "calls-grpc"), yes(), "{what}");
        }
    }
}

/// A Gateway that cannot be served has no ports.
#[test]
fn a_gateway_that_is_refused_keeps_no_port() {
    let refused = CLASS.replace("spec: {gatewayClassName", "spec: {defaultScope: All, gatewayClassName");
    let younger = "kind: Gateway
metadata: {namespace: app, name: young, creationTimestamp: \"2026-02-01T00:00:00Z\"}
spec: {gatewayClassName: weir, listeners: [{name: one, port: 80, protocol: HTTP}]}
";
    for (older, open) in [(refused.as_str(), "app.young.80"), (CLASS, "app.edge.80")] {
        let (_, translation) = translated(&format!("{older}---\n{younger}"));
        let config = translation.config.unwrap();
        let of_port = config.listeners.iter().filter(|listener| listener.name.ends_with(".80"));
        assert_eq!(of_port.map(|listener| &*listener.name).collect::<Vec<_>>(), [open]);
    }
}

/// Conditions of types that are not Weir's belong to others, and stay where they are.
#[test]
fn conditions_of_other_writers_stay() {
    let foreign = |number: usize| {
        format!(
            "{{type: special.io/Foo{number}, status: 'True', reason: Foo, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}}"
        )
    };
    for (count, kept) in [(1, 1), (9, 6)] {
        let conditions: Vec<String> = (0..count).map(foreign).collect();
        let status = format!("status: {{conditions: [{}]}}\n", conditions.join(", "));
        let gateway = |status: &str| {
            format!(
                "kind: Gateway\nmetadata: {{namespace: app, name: edge}}\nspec: {{gatewayClassName: weir, listeners: [{{name: one, port: 80, protocol: HTTP}}]}}\n{status}"
            )
        };
        let (mut translator, _) = translated(&format!("{CLASS}---\n{}", gateway("")));
        read(&gateway(&status)).iter().for_each(|object| translator.upsert(object));
        let translation = translator.translate(NOW);
        let update = translation.statuses.iter().find(|update| update.kind == ObjectKind::Gateway);
        let ObjectStatus::Gateway(status) = &update.unwrap().status else { panic!("it is a Gateway") };
        let is_foreign = |one: &&Condition| one.r#type.starts_with("special.io/");
        assert_eq!(status.conditions.iter().filter(is_foreign).count(), kept);
        assert!(is_foreign(&&status.conditions[0]), "it keeps its place");
        let types: Vec<&str> = status.conditions.iter().map(|one| &*one.r#type).collect();
        assert!(types.contains(&"Accepted") && types.contains(&"Programmed"), "{types:?}");
        // What was written is as it should be: it is not written again.
        let written = serde_json::to_value(&update.unwrap().status).unwrap();
        let object = serde_json::json!({
            "metadata": { "namespace": "app", "name": "edge" }, "status": written,
            "spec": { "gatewayClassName": "weir", "listeners": [{ "name": "one", "port": 80, "protocol": "HTTP" }] },
        });
        let object = KubernetesObject::from_json(ObjectKind::Gateway, object.to_string().as_bytes());
        translator.upsert(&object.unwrap());
        let again = translator.translate(NOW).statuses;
        assert!(!again.iter().any(|update| update.kind == ObjectKind::Gateway), "{again:?}");
    }
}
