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
