//! What the controller makes for Gateways, against an API server of the tests' own: what others change, and what is left when a Gateway leaves.

#[expect(dead_code, reason = "the tests of what follows the API server need more of it")]
mod api_server;

use std::thread::JoinHandle;

use api_server::ApiServer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use weir_kubernetes::controller::{self, ControllerError, ControllerSettings, GatewayPods};

const CONTROLLER_NAME: &str = "weir.dev/gateway";

/// A controller that works alone, until it is stopped.
struct RunningController {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), ControllerError>>,
    _folder: TempDir,
}

impl RunningController {
    fn start(server: &ApiServer) -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let settings = ControllerSettings {
            pods: GatewayPods {
                controller_name: CONTROLLER_NAME.into(),
                image: "weir:test".into(),
                pull_secrets: Vec::new(),
                namespace_role: "weir-gateway-namespace".into(),
                has_all_secrets: false,
                has_network_policies: true,
            },
            accounts_binding: "weir-gateway".into(),
            kubeconfig: Some(server.kubeconfig(folder.path())),
            election: None,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let stopped = async { drop(stopped.await) };
            runtime.expect("there are descriptors").block_on(controller::run(settings, stopped))
        });
        Self { stop, thread, _folder: folder }
    }

    fn stop(self) {
        self.stop.send(()).expect("it runs");
        let outcome = self.thread.join().expect("it does not panic");
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

fn apply_class(server: &ApiServer, name: &str, controller: &str) {
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": name },
        "spec": { "controllerName": controller },
    });
    server.apply("gatewayclasses", class);
}

fn apply_gateway(server: &ApiServer, name: &str, class: &str) {
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": { "namespace": "shop", "name": name, "uid": format!("uid-of-{name}") },
        "spec": { "gatewayClassName": class, "listeners": [{ "name": "http", "port": 80, "protocol": "HTTP" }] },
    });
    server.apply("gateways", gateway);
}

fn apply_binding(server: &ApiServer) {
    server.apply("clusterrolebindings", json!({ "metadata": { "name": "weir-gateway" } }));
}

fn has_account(binding: &Value, name: &str) -> bool {
    let subjects = binding["subjects"].as_array();
    subjects.is_some_and(|subjects| subjects.iter().any(|subject| subject["name"] == name))
}

#[test]
fn accounts_that_another_hand_has_removed_are_bound_again() {
    let server = ApiServer::start();
    apply_binding(&server);
    apply_class(&server, "weir", CONTROLLER_NAME);
    apply_gateway(&server, "front", "weir");
    let running = RunningController::start(&server);
    let is_bound = |binding: &Value| has_account(binding, "front-weir");
    server.wait_for("clusterrolebindings", "", "weir-gateway", is_bound);
    server.wait_for("deployments", "shop", "front-weir", |_| true);
    apply_binding(&server);
    server.wait_for("clusterrolebindings", "", "weir-gateway", is_bound);
    server.delete("clusterrolebindings", "", "weir-gateway");
    apply_binding(&server);
    server.wait_for("clusterrolebindings", "", "weir-gateway", is_bound);
    running.stop();
}

/// The kinds that are made for a Gateway.
const KINDS: [&str; 7] = [
    "serviceaccounts",
    "configmaps",
    "rolebindings",
    "networkpolicies",
    "services",
    "poddisruptionbudgets",
    "deployments",
];

fn present(server: &ApiServer, name: &str) -> Vec<&'static str> {
    { KINDS.into_iter() }.filter(|kind| server.object(kind, "shop", name).is_some()).collect()
}

/// A server with a Gateway for which a controller has made everything; the controller has ended.
fn server_with_gateway() -> ApiServer {
    let server = ApiServer::start();
    apply_binding(&server);
    apply_class(&server, "weir", CONTROLLER_NAME);
    apply_class(&server, "fast", CONTROLLER_NAME);
    apply_class(&server, "other", "example.net/gateway");
    apply_gateway(&server, "front", "weir");
    apply_gateway(&server, "stays", "weir");
    let running = RunningController::start(&server);
    for name in ["front-weir", "stays-weir"] {
        server.wait_for("deployments", "shop", name, |_| true);
    }
    running.stop();
    server
}

#[test]
fn what_was_made_for_a_gateway_is_removed_when_it_leaves() {
    let server = server_with_gateway();
    assert_eq!(present(&server, "front-weir"), KINDS);
    // One that the Gateway does not own, one without the label, one of another controller.
    let mut other = server.object("configmaps", "shop", "front-weir").expect("it was made");
    other["metadata"]["name"] = json!("not-owned");
    let mut unlabelled = other.clone();
    other["metadata"]["ownerReferences"] = json!([]);
    unlabelled["metadata"]["name"] = json!("not-labelled");
    unlabelled["metadata"]["labels"] = json!({});
    let mut others = unlabelled.clone();
    others["metadata"]["name"] = json!("of-another");
    others["metadata"]["labels"] = other["metadata"]["labels"].clone();
    others["metadata"]["annotations"] = json!({ "weir.dev/controller-name": "example.net/gateway" });
    for object in [other, unlabelled, others] {
        server.apply("configmaps", object);
    }
    // A controller that begins when the Gateway has left need not wait for its pods.
    apply_gateway(&server, "front", "other");
    let running = RunningController::start(&server);
    server.wait_for_absence("serviceaccounts", "shop", "front-weir");
    running.stop();
    assert_eq!(present(&server, "front-weir"), Vec::<&str>::new());
    assert_eq!(present(&server, "stays-weir"), KINDS);
    for name in ["not-owned", "not-labelled", "of-another"] {
        assert_eq!(present(&server, name), ["configmaps"], "{name}");
    }
}

#[test]
fn what_was_made_for_the_class_of_before_serves_until_other_pods_do() {
    let server = server_with_gateway();
    apply_gateway(&server, "front", "fast");
    let running = RunningController::start(&server);
    server.wait_for("deployments", "shop", "front-fast", |_| true);
    // A change that is carried out later than what is left would be.
    apply_class(&server, "later", CONTROLLER_NAME);
    server.wait_for("gatewayclasses", "", "later", |class| {
        class["status"]["conditions"][0]["status"] == "True"
    });
    assert_eq!(present(&server, "front-weir"), KINDS);
    let mut deployment = server.object("deployments", "shop", "front-fast").expect("it was made");
    deployment["status"] = json!({ "availableReplicas": 1 });
    server.apply("deployments", deployment);
    server.wait_for_absence("serviceaccounts", "shop", "front-weir");
    running.stop();
    assert_eq!(present(&server, "front-weir"), Vec::<&str>::new());
    assert_eq!(present(&server, "front-fast"), KINDS);
}

#[test]
fn an_object_that_is_changed_before_it_is_removed_is_judged_again() {
    let server = server_with_gateway();
    apply_gateway(&server, "front", "other");
    server.refuse_deletions(2);
    let running = RunningController::start(&server);
    server.wait_for_absence("serviceaccounts", "shop", "front-weir");
    running.stop();
    let refused = server.writes("/front-weir").iter().filter(|(_, code)| *code == 409).count();
    assert_eq!(refused, 2);
}
