//! The controller of Gateways against an API server of the tests' own: a panic of one of its tasks ends nothing.
#![cfg(debug_assertions)]

#[expect(dead_code, reason = "the tests of what follows the API server need more of it")]
mod api_server;

use std::sync::Mutex;

use api_server::ApiServer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use weir_kubernetes::controller::{self, ControllerSettings, GatewayPods};
use weir_kubernetes::{ElectionSettings, ObjectKey};

/// The task whose next turn panics.
static ORDERED: Mutex<Option<&str>> = Mutex::new(None);

fn strike(task: &'static str) {
    let is_ordered =
        ORDERED.lock().expect("no thread panics with it").take_if(|ordered| *ordered == task).is_some();
    assert!(!is_ordered, "a panic of the test");
}

fn apply_class(server: &ApiServer, name: &str) {
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": name },
        "spec": { "controllerName": "weir.dev/gateway" },
    });
    server.apply("gatewayclasses", class);
}

fn is_accepted(class: &Value) -> bool {
    class["status"]["conditions"][0]["status"] == "True"
}

fn settings(server: &ApiServer, folder: &TempDir) -> ControllerSettings {
    ControllerSettings {
        pods: GatewayPods {
            controller_name: "weir.dev/gateway".into(),
            image: "weir:test".into(),
            pull_secrets: Vec::new(),
            namespace_role: "weir-gateway-namespace".into(),
            has_all_secrets: false,
            has_network_policies: true,
        },
        accounts_binding: "weir-gateway".into(),
        kubeconfig: Some(server.kubeconfig(folder.path())),
        election: Some(ElectionSettings {
            lease: ObjectKey::new("infra", "weir-controller"),
            identity: "one".into(),
        }),
    }
}

#[test]
fn its_tasks_go_on_after_panics() {
    weir_tasks::strike_tasks_by(strike);
    let server = ApiServer::start();
    let folder = TempDir::new().expect("a folder can be made");
    server.apply("clusterrolebindings", json!({ "metadata": { "name": "weir-gateway" } }));
    let (stop, stopped) = oneshot::channel::<()>();
    let settings = settings(&server, &folder);
    let running = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let stopped = async { drop(stopped.await) };
        runtime.expect("there are descriptors").block_on(controller::run(settings, stopped))
    });
    apply_class(&server, "first");
    server.wait_for("gatewayclasses", "", "first", is_accepted);
    let before = weir_tasks::restarts();
    for (count, task, class) in
        [(1, "the objects of Gateways", "second"), (2, "the election of a leader", "third")]
    {
        *ORDERED.lock().expect("no thread panics with it") = Some(task);
        apply_class(&server, class);
        server.wait_for("gatewayclasses", "", class, is_accepted);
        // The election has a turn every two seconds.
        while weir_tasks::restarts() < before + count {
            std::thread::yield_now();
        }
    }
    apply_class(&server, "fourth");
    server.wait_for("gatewayclasses", "", "fourth", is_accepted);
    stop.send(()).expect("it runs");
    let outcome = running.join().expect("a panic does not end it");
    assert!(outcome.is_ok(), "{outcome:?}");
    let lease = server.object("leases", "infra", "weir-controller").expect("there was a leader");
    assert!(lease["spec"]["holderIdentity"].is_null(), "{lease}");
}
