//! Objects that leave the classes of the controller: what it has told of them goes, what others have told stays.

use std::fmt::Write as _;

use weir_gateway::{ObjectKind, StatusUpdate, Translator};

use crate::objects::{NOW, read, settings};

const CLASSES: &str = "kind: GatewayClass
metadata: {name: weir}
spec: {controllerName: weir.dev/gateway}
---
kind: GatewayClass
metadata: {name: other}
spec: {controllerName: other.test/gateway}
---
kind: IngressClass
metadata: {name: weir}
spec: {controller: weir.dev/ingress}
---
kind: IngressClass
metadata: {name: other}
spec: {controller: other.test/ingress}
---
";

/// Which fields of a status a writer has.
fn owners(entries: &[(&str, &[&str])]) -> String {
    let mut text = String::new();
    for (manager, fields) in entries {
        let fields: Vec<String> = fields.iter().map(|field| format!("\"f:{field}\": {{}}")).collect();
        write!(
            text,
            "{{manager: {manager}, subresource: status, fieldsV1: {{\"f:status\": {{{}}}}}}}, ",
            fields.join(", ")
        )
        .unwrap();
    }
    format!("[{text}{{manager: kubectl, fieldsV1: {{\"f:spec\": {{}}}}}}]")
}

const GATEWAY_FIELDS: &[&str] = &["addresses", "conditions", "listeners", "attachedListenerSets"];

fn gateway(class: &str, owners: &str) -> String {
    format!(
        "kind: Gateway
metadata: {{namespace: app, name: edge, managedFields: {owners}}}
spec: {{gatewayClassName: {class}, allowedListeners: {{namespaces: {{from: Same}}}}, listeners: [{{name: http, port: 80, protocol: HTTP}}]}}
status:
  addresses: [{{type: IPAddress, value: 192.0.2.1}}]
  attachedListenerSets: 1
  conditions: [{{type: Accepted, status: \"True\", reason: Accepted, message: \"\", lastTransitionTime: \"{NOW}\"}}]
  listeners: [{{name: http, attachedRoutes: 1}}]
---
"
    )
}

fn set(owners: &str) -> String {
    format!(
        "kind: ListenerSet
metadata: {{namespace: app, name: more, managedFields: {owners}}}
spec: {{parentRef: {{name: edge}}, listeners: [{{name: more, port: 81, protocol: HTTP}}]}}
status:
  conditions: [{{type: Accepted, status: \"True\", reason: Accepted, message: \"\", lastTransitionTime: \"{NOW}\"}}]
  listeners: [{{name: more, attachedRoutes: 0}}]
---
"
    )
}

fn ingress(class: &str, owners: &str) -> String {
    format!(
        "kind: Ingress
metadata: {{namespace: app, name: web, managedFields: {owners}}}
spec: {{{class}}}
status: {{loadBalancer: {{ingress: [{{ip: 192.0.2.1}}]}}}}
---
"
    )
}

/// The statuses of these kinds of objects after a start with these objects, as they are written.
fn told(kinds: &[ObjectKind], objects: &str) -> Vec<String> {
    let mut translator = Translator::new(settings());
    read(&format!("{CLASSES}{objects}")).iter().for_each(|object| translator.upsert(object));
    let statuses = translator.translate(NOW).statuses;
    let text = |update: &StatusUpdate| format!("{} {}", update.manager, update.status.patch());
    statuses.iter().filter(|update| kinds.contains(&update.kind)).map(text).collect()
}

const NOTHING: &str = r#"{"addresses":null,"attachedListenerSets":null,"conditions":null,"listeners":null}"#;

#[test]
fn a_gateway_that_leaves_loses_what_it_was_told() {
    let ours = owners(&[("weir.dev/gateway", GATEWAY_FIELDS)]);
    for class in ["other", "absent"] {
        assert_eq!(
            told(&[ObjectKind::Gateway], &gateway(class, &ours)),
            [format!("weir.dev/gateway {NOTHING}")],
            "{class}"
        );
    }
    let kept = told(&[ObjectKind::Gateway], &gateway("weir", &ours));
    assert!(kept.len() == 1 && kept[0].contains("192.0.2.1"), "{kept:?}");
}

#[test]
fn what_another_controller_has_told_of_a_gateway_stays() {
    for writers in [
        owners(&[("other.test", GATEWAY_FIELDS)]),
        owners(&[("weir.dev/gateway", GATEWAY_FIELDS), ("other.test", GATEWAY_FIELDS)]),
        owners(&[]),
    ] {
        assert_eq!(told(&[ObjectKind::Gateway], &gateway("other", &writers)), [""; 0], "{writers}");
    }
    // It has no address yet: that of before leads to Weir.
    let both = owners(&[("weir.dev/gateway", &["addresses"]), ("other.test", &["conditions", "listeners"])]);
    let told = told(&[ObjectKind::Gateway], &gateway("other", &both));
    assert!(told.len() == 1 && told[0].contains("\"addresses\":null"), "{told:?}");
    assert!(told[0].contains("\"reason\":\"Accepted\"") && told[0].contains("\"name\":\"http\""), "{told:?}");
}

/// As the API server has it once its conditions are gone: they have a default, which counts as written by the writer who removed them.
#[test]
fn a_gateway_that_waits_for_a_controller_is_told_nothing() {
    let ours = owners(&[("weir.dev/gateway", &["conditions"])]);
    let waiting = gateway("other", &ours)
        .replace("status: \"True\", reason: Accepted", "status: Unknown, reason: Pending")
        .replace("  addresses: [{type: IPAddress, value: 192.0.2.1}]\n", "");
    assert_eq!(told(&[ObjectKind::Gateway], &waiting), [""; 0]);
}

#[test]
fn a_process_of_one_gateway_takes_back_what_was_told_of_that_alone() {
    let ours = owners(&[("weir.dev/gateway", GATEWAY_FIELDS)]);
    let objects = read(&format!("{CLASSES}{}", gateway("other", &ours)));
    for (served, count) in [("edge", 1), ("elsewhere", 0)] {
        let served = Some(weir_gateway::ObjectKey::new("app", served));
        let mut translator = Translator::new(weir_gateway::GatewaySettings { served, ..settings() });
        objects.iter().for_each(|object| translator.upsert(object));
        let statuses = translator.translate(NOW).statuses;
        assert_eq!(statuses.iter().filter(|update| update.kind == ObjectKind::Gateway).count(), count);
    }
}

#[test]
fn a_set_of_a_gateway_that_leaves_loses_what_it_was_told() {
    let fields: &[&str] = &["conditions", "listeners"];
    let ours = owners(&[("weir.dev/gateway", fields)]);
    let of = |class: &str, owners: &str| {
        told(&[ObjectKind::ListenerSet], &format!("{}{}", gateway(class, "[]"), set(owners)))
    };
    assert_eq!(of("other", &ours), [r#"weir.dev/gateway {"conditions":null,"listeners":null}"#]);
    assert_eq!(of("other", &owners(&[("other.test", fields)])), [""; 0]);
    // Whose Gateway is not known may be another process's.
    assert_eq!(told(&[ObjectKind::ListenerSet], &set(&ours)), [""; 0]);
}

#[test]
fn an_ingress_that_leaves_loses_its_addresses() {
    let ours = owners(&[("weir.dev/ingress", &["loadBalancer"])]);
    let kinds = [ObjectKind::Ingress];
    for class in ["ingressClassName: other", "ingressClassName: absent", ""] {
        assert_eq!(
            told(&kinds, &ingress(class, &ours)),
            [r#"weir.dev/ingress {"loadBalancer":{"ingress":[]}}"#],
            "{class}"
        );
    }
    assert_eq!(told(&kinds, &ingress("ingressClassName: weir", &ours)), [""; 0], "it has what it is to have");
    let theirs: &[&[(&str, &[&str])]] = &[
        &[("other.test", &["loadBalancer"])],
        // Both have written the same address.
        &[("weir.dev/ingress", &["loadBalancer"]), ("other.test", &["loadBalancer"])],
    ];
    for writers in theirs {
        assert_eq!(told(&kinds, &ingress("ingressClassName: other", &owners(writers))), [""; 0]);
    }
}
