//! Which objects of a Gateway are left when it changes its class, over what the controller knows.

use serde_json::{Value, json};

use super::*;
use crate::controller::request::{MANAGER, MANAGER_LABEL};

const OWN: &str = "weir.dev/gateway";

fn cluster() -> KnownCluster {
    let pods = GatewayPods {
        controller_name: OWN.into(),
        image: "weir:test".into(),
        pull_secrets: Vec::new(),
        namespace_role: "weir-gateway-namespace".into(),
        has_all_secrets: false,
        has_network_policies: true,
    };
    let mut cluster = KnownCluster::new(&pods);
    for (name, controller) in [("weir", OWN), ("fast", OWN), ("other", "example.net/gateway")] {
        let class = json!({ "metadata": { "name": name }, "spec": { "controllerName": controller } });
        cluster.take(ClusterEvent::Class(Arc::new(serde_json::from_value(class).expect("a class"))));
    }
    cluster
}

fn take_gateway(cluster: &mut KnownCluster, class: &str, uid: &str, is_ending: bool) {
    let gateway = json!({ "metadata": { "namespace": "shop", "name": "front" }, "spec": { "gatewayClassName": class } });
    let gateway: Arc<Gateway> = Arc::new(serde_json::from_value(gateway).expect("a Gateway"));
    let known = KnownGateway { gateway, uid: uid.to_owned(), is_ending };
    cluster.take(ClusterEvent::Gateway(ObjectKey::new("shop", "front"), known));
}

fn metadata(name: &str, controller: Option<&str>, owner: &Value) -> ObjectMeta {
    let annotations = controller.map(|name| json!({ CONTROLLER_ANNOTATION: name }));
    serde_json::from_value(json!({
        "namespace": "shop", "name": name, "labels": { MANAGER_LABEL: MANAGER },
        "annotations": annotations, "ownerReferences": [owner],
    }))
    .expect("metadata")
}

fn owner(uid: &str) -> Value {
    json!({ "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "name": "front", "uid": uid, "controller": true })
}

fn take_object(cluster: &mut KnownCluster, kind: OwnedKind, meta: &ObjectMeta) {
    let key = ObjectKey::new("shop", meta.name.as_deref().unwrap_or_default());
    cluster.take(ClusterEvent::Owned(kind, key, OwnedMark::new(meta)));
}

fn left(cluster: &KnownCluster) -> Vec<(OwnedKind, String)> {
    let left = cluster.left(&ObjectKey::new("shop", "front"));
    left.into_iter().map(|(kind, key)| (kind, key.name.to_string())).collect()
}

#[test]
fn objects_are_left_when_the_class_is_another_one() {
    let mut cluster = cluster();
    for kind in OwnedKind::ALL {
        take_object(&mut cluster, kind, &metadata("front-weir", Some(OWN), &owner("u-1")));
    }
    // Those that the other controller has made, and those of a version that has not said who it is.
    let others = Some("example.net/gateway");
    take_object(&mut cluster, OwnedKind::Deployment, &metadata("front-other", others, &owner("u-1")));
    take_object(&mut cluster, OwnedKind::Deployment, &metadata("front-old", None, &owner("u-1")));
    assert_eq!(left(&cluster), [], "its Gateway is not known");
    for (class, uid, is_ending, count) in [
        ("weir", "u-1", false, 0),
        ("other", "u-1", false, 7),
        ("fast", "u-1", false, 7),
        ("unheard-of", "u-1", false, 7),
        ("other", "u-1", true, 0),
        ("other", "u-2", false, 0),
    ] {
        take_gateway(&mut cluster, class, uid, is_ending);
        let left = left(&cluster);
        assert_eq!(left.len(), count, "{class} {uid} {is_ending}: {left:?}");
        assert!(left.iter().all(|(_, name)| name == "front-weir"), "{left:?}");
        let kinds: Vec<OwnedKind> = left.iter().map(|(kind, _)| *kind).collect();
        assert!(kinds.is_sorted_by(|a, b| a > b), "pods first, their account last: {kinds:?}");
    }
}

#[test]
fn a_class_that_has_gone_may_come_back_and_one_of_another_controller_does_not() {
    let mut cluster = cluster();
    take_gateway(&mut cluster, "weir", "u-1", false);
    take_object(&mut cluster, OwnedKind::Service, &metadata("front-weir", Some(OWN), &owner("u-1")));
    cluster.take(ClusterEvent::ClassGone(ObjectKey::new("", "weir")));
    assert_eq!(left(&cluster), []);
    let class =
        json!({ "metadata": { "name": "weir" }, "spec": { "controllerName": "example.net/gateway" } });
    cluster.take(ClusterEvent::Class(Arc::new(serde_json::from_value(class).expect("a class"))));
    assert_eq!(left(&cluster), [(OwnedKind::Service, "front-weir".to_owned())]);
    // The other controller has taken it over.
    let others = metadata("front-weir", Some("example.net/gateway"), &owner("u-1"));
    take_object(&mut cluster, OwnedKind::Service, &others);
    assert_eq!(left(&cluster), []);
}

#[test]
fn objects_that_the_gateway_does_not_own_are_not_left() {
    let mut cluster = cluster();
    take_gateway(&mut cluster, "other", "u-1", false);
    let mut not_controlled = owner("u-1");
    not_controlled["controller"] = json!(false);
    let mut of_other_kind = owner("u-1");
    of_other_kind["kind"] = json!("Deployment");
    for owner in [not_controlled, of_other_kind, owner("u-2")] {
        take_object(&mut cluster, OwnedKind::ConfigMap, &metadata("front-weir", Some(OWN), &owner));
        assert_eq!(left(&cluster), []);
    }
}
