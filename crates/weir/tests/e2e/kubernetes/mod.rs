//! `weir serve --kubernetes`: real traffic by the objects of an API server that the test scripts.

#[path = "../../../../weir-kubernetes/tests/api_server/mod.rs"]
#[expect(dead_code, reason = "the tests of weir-kubernetes need more of it")]
mod api_server;

use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::{Value, json};

use self::api_server::ApiServer;
use crate::harness::reserved_address::ReservedAddress;
use crate::harness::{Client, Origin, Weir, eventually, temporary_folder};

/// How many kinds are watched.
const KINDS: usize = 13;

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    let version = if kind == "Service" { "v1" } else { "gateway.networking.k8s.io/v1" };
    json!({
        "apiVersion": version, "kind": kind, "spec": spec,
        "metadata": { "name": name, "namespace": "infra", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z" },
    })
}

fn route(path: &str) -> Value {
    let matches = json!([{ "path": { "type": "PathPrefix", "value": path } }]);
    let rules = json!([{ "matches": matches, "backendRefs": [{ "name": "app", "port": 80 }] }]);
    object("HTTPRoute", "app", &json!({ "parentRefs": [{ "name": "web" }], "rules": rules }))
}

fn slice(server: SocketAddr) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": "app-1", "namespace": "infra", "labels": { "kubernetes.io/service-name": "app" } },
        "endpoints": [{ "addresses": [server.ip().to_string()], "conditions": { "ready": true } }],
        "ports": [{ "name": "http", "port": server.port() }],
    })
}

/// A cluster with one Gateway on this port, and one route to the origin.
fn cluster(port: u16, origin: &Origin) -> ApiServer {
    let api = ApiServer::start();
    api.apply(
        "namespaces",
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "infra" } }),
    );
    let class = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": { "name": "weir" },
        "spec": { "controllerName": "weir.dev/gateway" },
    });
    api.apply("gatewayclasses", class);
    let listeners = json!([{ "name": "http", "port": port, "protocol": "HTTP" }]);
    api.apply(
        "gateways",
        object("Gateway", "web", &json!({ "gatewayClassName": "weir", "listeners": listeners })),
    );
    api.apply("services", object("Service", "app", &json!({ "ports": [{ "name": "http", "port": 80 }] })));
    api.apply("endpointslices", slice(origin.address()));
    api.apply("httproutes", route("/"));
    api
}

fn status_at(address: SocketAddr, target: &str) -> u16 {
    Client::connect(address).fetch(target).status
}

#[test]
fn objects_of_a_cluster_are_served() {
    let (first, second) = (Origin::serving("first"), Origin::serving("second"));
    let (web, admin) = (ReservedAddress::new(), ReservedAddress::new());
    let api = cluster(web.address().port(), &first);
    api.set_held("httproutes", true);
    let admin_address = admin.address();
    let releasing = {
        let api = api.clone();
        std::thread::spawn(move || {
            api.wait_for_lists(KINDS);
            let response = Client::connect(admin_address).fetch("/ready");
            api.set_held("httproutes", false);
            (response.status, response.text())
        })
    };
    let folder = temporary_folder();
    let kubeconfig = api.kubeconfig(folder.path());
    let base = folder.path().join("base.toml");
    std::fs::write(&base, format!("admin.address = \"{admin_address}\"\n"))
        .expect("the folder can be written");
    let arguments = [
        "serve",
        "--kubernetes=infra/web",
        "--kubeconfig",
        kubeconfig.to_str().expect("temporary paths are UTF-8"),
        "--bind",
        "127.0.0.1",
        "--gateway-address",
        "192.0.2.1",
        base.to_str().expect("temporary paths are UTF-8"),
    ];
    let mut weir = Weir::start_with(folder, &arguments, "--kubernetes");
    let before = releasing.join().expect("it does not panic");
    assert_eq!(before, (503, "no routes yet: what names them has not answered\n".to_owned()));
    assert_eq!(status_at(admin_address, "/ready"), 200);
    assert_eq!(Client::connect(web.address()).fetch("/").text(), "first");
    api.wait_for("gateways", "infra", "web", |gateway| {
        let conditions = gateway["status"]["conditions"].as_array();
        conditions
            .is_some_and(|all| all.iter().any(|it| it["type"] == "Programmed" && it["status"] == "True"))
    });
    // Other servers, then another route.
    api.apply("endpointslices", slice(second.address()));
    eventually("the endpoint takes effect", || Client::connect(web.address()).fetch("/").text() == "second");
    api.apply("httproutes", route("/only"));
    eventually("the route takes effect", || status_at(web.address(), "/") == 404);
    // An outage changes nothing; afterwards, what was missed follows.
    api.set_down(true);
    assert_eq!(Client::connect(web.address()).fetch("/only").text(), "second");
    assert_eq!(status_at(admin_address, "/ready"), 200);
    api.delete("httproutes", "infra", "app");
    api.forget_events();
    api.set_down(false);
    eventually("the route is gone", || status_at(web.address(), "/only") == 404);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    let lease = api.object("leases", "default", "weir-web").expect("there was a leader");
    assert!(lease["spec"]["holderIdentity"].is_null(), "{lease}");
}

#[test]
fn listeners_have_no_place_in_the_base() {
    let folder = temporary_folder();
    let base = folder.path().join("base.toml");
    std::fs::write(&base, "[upstream.app]\nservers = [\"127.0.0.1:1\"]\n")
        .expect("the folder can be written");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--kubernetes"])
        .arg(&base)
        .output()
        .expect("the program was built with this test");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("`upstream` has no place in the config of `weir serve --kubernetes`"), "{text}");
}
