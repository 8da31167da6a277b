//! A source against an API server of the tests' own: what is applied, when, and which statuses are written.

#[expect(dead_code, reason = "the tests of the controller need more of it")]
mod api_server;

use std::cell::Cell;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use api_server::ApiServer;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use weir_config::Config;
use weir_kubernetes::{
    ChangeRefusal, ElectionSettings, GatewaySettings, KubernetesChange, KubernetesSource, KubernetesUpdate,
    ObjectKey, SourceSettings, UpdateSender,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A source whose updates the test takes in the place of a proxy.
struct Following {
    source: KubernetesSource,
    updates: Receiver<KubernetesUpdate>,
    _folder: TempDir,
}

fn follow(server: &ApiServer, identity: &str) -> Following {
    let folder = TempDir::new().expect("a folder can be made");
    let (sender, updates) = channel();
    let settings = SourceSettings {
        gateway: GatewaySettings::default(),
        gateways: true,
        addresses: vec!["192.0.2.1".into()],
        kubeconfig: Some(server.kubeconfig(folder.path())),
        namespaces: Vec::new(),
        secrets_namespaces: Vec::new(),
        election: Some(ElectionSettings {
            lease: ObjectKey::new("infra", "weir"),
            identity: identity.into(),
        }),
    };
    let source =
        KubernetesSource::start(settings, UpdateSender::new(move |update| sender.send(update).is_ok()));
    Following { source: source.expect("a thread can be started"), updates, _folder: folder }
}

type Outcome = oneshot::Sender<Result<(), ChangeRefusal>>;

impl Following {
    fn next(&self) -> (KubernetesChange, Outcome) {
        loop {
            let update = self.updates.recv_timeout(PATIENCE).expect("there is an update");
            if !matches!(update.change, KubernetesChange::Report(_)) {
                return (update.change, update.outcome);
            }
        }
    }

    /// Applies updates until one is a configuration like this.
    fn apply_until(&self, check: impl Fn(&Config) -> bool) -> Config {
        loop {
            let (change, outcome) = self.next();
            outcome.send(Ok(())).expect("it is waited for");
            match change {
                KubernetesChange::Config { config, .. } if check(&config) => return *config,
                _ => {}
            }
        }
    }

    fn wait_for_report(&self, check: impl Fn(&weir_kubernetes::ClusterReport) -> bool) {
        for _ in 0..6000 {
            if check(&self.source.state().report()) {
                return;
            }
            let _nothing = self
                .updates
                .recv_timeout(Duration::from_millis(10))
                .map(|update| update.outcome.send(Ok(())));
        }
        panic!("{:?}", self.source.state().report());
    }
}

fn object(kind: &str, namespace: &str, name: &str, spec: &Value) -> Value {
    let group = match kind {
        "Service" => "v1",
        _ => "gateway.networking.k8s.io/v1",
    };
    json!({
        "apiVersion": group, "kind": kind, "spec": spec,
        "metadata": {
            "name": name, "namespace": namespace, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{ "manager": "test", "operation": "Update" }],
        },
    })
}

fn route(name: &str) -> Value {
    let spec = json!({
        "parentRefs": [{ "name": "web" }],
        "rules": [{
            "matches": [{ "path": { "type": "PathPrefix", "value": format!("/{name}") } }],
            "backendRefs": [{ "name": "app", "port": 80 }],
        }],
    });
    object("HTTPRoute", "infra", name, &spec)
}

fn slice(addresses: &[&str]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|it| json!({ "addresses": [it], "conditions": { "ready": true } })).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": "app-1", "namespace": "infra", "labels": { "kubernetes.io/service-name": "app" } },
        "endpoints": endpoints, "ports": [{ "name": "http", "port": 8080 }],
    })
}

/// A cluster with a Gateway, a route, and a service with one endpoint.
fn cluster() -> ApiServer {
    let server = ApiServer::start();
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "infra" } });
    server.apply("namespaces", namespace);
    let mut class = object("GatewayClass", "", "weir", &json!({ "controllerName": "weir.dev/gateway" }));
    class["metadata"].as_object_mut().expect("it is one").remove("namespace");
    server.apply("gatewayclasses", class);
    let listeners = json!([{ "name": "http", "port": 8000, "protocol": "HTTP" }]);
    let spec = json!({ "gatewayClassName": "weir", "listeners": listeners });
    server.apply("gateways", object("Gateway", "infra", "web", &spec));
    let ports = json!({ "ports": [{ "name": "http", "port": 80 }] });
    server.apply("services", object("Service", "infra", "app", &ports));
    server.apply("endpointslices", slice(&["10.0.0.1"]));
    server.apply("httproutes", route("one"));
    server
}

fn has_route(config: &Config, name: &str) -> bool {
    let mut routes = config.listeners.iter().flat_map(|listener| &listener.routes);
    routes.any(|route| route.name.contains(&format!("/{name}/")))
}

fn condition<'a>(conditions: &'a Value, kind: &str) -> &'a Value {
    let found = conditions.as_array().and_then(|all| all.iter().find(|one| one["type"] == kind));
    found.unwrap_or(&Value::Null)
}

fn is_programmed(gateway: &Value) -> bool {
    condition(&gateway["status"]["conditions"], "Programmed")["status"] == "True"
}

#[test]
fn nothing_is_applied_before_every_kind_was_listed() {
    let server = cluster();
    server.set_held("endpointslices", true);
    server.set_absent("tcproutes", true);
    let following = follow(&server, "one");
    server.wait_for_lists(13);
    assert!(!following.source.state().report().is_synchronised);
    // It may have told what state it is in.
    let told = following.updates.try_iter().map(|update| update.change);
    assert_eq!(told.filter(|change| !matches!(change, KubernetesChange::Report(_))).count(), 0);
    server.set_held("endpointslices", false);
    let config = following.apply_until(|_| true);
    assert!(has_route(&config, "one") && server.listed().contains("endpointslices"));
    let upstream =
        config.upstreams.iter().find(|it| &*it.name == "infra.app.80").expect("it has the upstream");
    assert_eq!(upstream.servers.len(), 1);
    assert_eq!(upstream.servers[0].address.to_string(), "10.0.0.1:8080");
    let report = following.source.state().report();
    assert!(report.absent[0].contains("`TCPRoute`"), "{report:?}");
    assert_eq!(report.problem, None);
}

/// Definitions of v1.4 and before: grants are read in their older version, and the class says which kinds there are not.
#[test]
fn a_cluster_with_older_definitions_is_served_and_told() {
    let server = cluster();
    server.forget_version("/v1/referencegrants");
    server.set_absent("tcproutes", true);
    server.set_absent("tlsroutes", true);
    let from = json!([{ "group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "infra" }]);
    let mut grant = object(
        "ReferenceGrant",
        "other",
        "permit",
        &json!({ "from": from, "to": [{ "group": "", "kind": "Service" }] }),
    );
    grant["apiVersion"] = json!("gateway.networking.k8s.io/v1beta1");
    server.apply("referencegrants", grant);
    server.apply(
        "services",
        object("Service", "other", "app", &json!({ "ports": [{ "name": "http", "port": 80 }] })),
    );
    let mut route = route("far");
    route["spec"]["rules"][0]["backendRefs"][0]["namespace"] = json!("other");
    server.apply("httproutes", route);
    let following = follow(&server, "one");
    let config = following.apply_until(|config| has_route(config, "far"));
    assert!(config.upstreams.iter().any(|upstream| &*upstream.name == "other.app.80"), "{config:?}");
    server.wait_for("gatewayclasses", "", "weir", |class| {
        let conditions = &class["status"]["conditions"];
        if !conditions.is_array() {
            return false;
        }
        let version = condition(conditions, "SupportedVersion");
        let message = version["message"].as_str().unwrap_or_default();
        (&version["status"], &version["reason"]) == (&json!("False"), &json!("UnsupportedVersion"))
            && message.contains("there is no TCPRoute, TLSRoute;")
    });
    let report = following.source.state().report();
    assert!(report.absent.iter().all(|why| !why.contains("ReferenceGrant")), "{report:?}");
    // The definitions are replaced by newer ones.
    server.set_absent("tcproutes", false);
    server.set_absent("tlsroutes", false);
    following.wait_for_report(|report| report.absent.is_empty());
    server.wait_for("gatewayclasses", "", "weir", |class| {
        condition(&class["status"]["conditions"], "SupportedVersion")["status"] == "True"
    });
}

/// Neither a list nor a watch ends with an object that cannot be read: it alone is told that, and is well when it can be.
#[test]
fn an_object_that_cannot_be_read_stops_no_other() {
    let unreadable = |name: &str| {
        let mut bad = route(name);
        bad["spec"]["rules"][0]["retry"] = json!({ "attempts": 5_000_000_000_i64 });
        bad
    };
    let is_refused = |route: &Value| {
        let accepted = condition(&route["status"]["parents"][0]["conditions"], "Accepted");
        accepted["status"] == "False"
            && accepted["message"].as_str().is_some_and(|why| why.contains("spec.rules"))
    };
    let server = cluster();
    server.apply("httproutes", unreadable("listed"));
    let mut bad_slice = slice(&["10.0.0.9"]);
    bad_slice["metadata"]["name"] = json!("app-2");
    bad_slice["ports"][0]["port"] = json!(5_000_000_000_i64);
    server.apply("endpointslices", bad_slice);
    let following = follow(&server, "one");
    let config = following.apply_until(|config| has_route(config, "one"));
    assert!(!has_route(&config, "listed"));
    let upstream = config.upstreams.iter().find(|it| &*it.name == "infra.app.80").expect("it is there");
    assert_eq!(upstream.servers.len(), 1);
    server.wait_for("httproutes", "infra", "listed", is_refused);
    server.apply("httproutes", unreadable("one"));
    server.apply("httproutes", route("two"));
    following.apply_until(|config| has_route(config, "two") && !has_route(config, "one"));
    server.wait_for("httproutes", "infra", "one", is_refused);
    assert_eq!(following.source.state().report().problem, None);
    server.apply("httproutes", route("one"));
    following.apply_until(|config| has_route(config, "one"));
}

#[test]
fn endpoints_change_servers_and_no_route() {
    let server = cluster();
    let following = follow(&server, "one");
    following.apply_until(|_| true);
    server.apply("endpointslices", slice(&["10.0.0.1", "10.0.0.2"]));
    let (change, outcome) = following.next();
    outcome.send(Ok(())).expect("it is waited for");
    let KubernetesChange::Servers(sets) = change else { panic!("it is a whole configuration") };
    assert_eq!(sets.len(), 1);
    assert_eq!((&*sets[0].0, sets[0].1.len()), ("infra.app.80", 2));
    // The next configuration has them, too.
    server.apply("httproutes", route("two"));
    let config = following.apply_until(|config| has_route(config, "two"));
    let upstream =
        config.upstreams.iter().find(|it| &*it.name == "infra.app.80").expect("it has the upstream");
    assert_eq!(upstream.servers.len(), 2);
}

#[test]
fn changes_that_come_together_are_applied_together() {
    let server = cluster();
    let following = follow(&server, "one");
    let (_first, outcome) = following.next();
    for number in 0..60 {
        server.apply("httproutes", route(&format!("many-{number}")));
    }
    outcome.send(Ok(())).expect("it is waited for");
    let mut updates = 1;
    loop {
        let (change, outcome) = following.next();
        outcome.send(Ok(())).expect("it is waited for");
        let KubernetesChange::Config { config, .. } = change else { continue };
        if (0..60).all(|number| has_route(&config, &format!("many-{number}"))) {
            break;
        }
        updates += 1;
    }
    assert!(updates < 30, "{updates} updates for 60 changes");
}

#[test]
fn an_outage_changes_nothing_and_what_was_missed_follows() {
    let server = cluster();
    let following = follow(&server, "one");
    following.apply_until(|config| has_route(config, "one"));
    for forgets in [false, true] {
        server.set_down(true);
        following.wait_for_report(|report| report.problem.is_some());
        let (gone, come) = if forgets { ("two", "three") } else { ("one", "two") };
        server.apply("httproutes", route(come));
        server.delete("httproutes", "infra", gone);
        if forgets {
            server.forget_events();
        }
        server.set_down(false);
        following.apply_until(|config| has_route(config, come) && !has_route(config, gone));
        following.wait_for_report(|report| report.problem.is_none());
    }
}

#[test]
fn the_leader_writes_its_own_entries_once() {
    let server = cluster();
    let mut of_another = route("one");
    let entry = json!({
        "controllerName": "example.com/other", "parentRef": { "name": "other" },
        "conditions": [{ "type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" }],
    });
    of_another["status"] = json!({ "parents": [entry] });
    server.apply("httproutes", of_another);
    server.refuse_writes(3);
    let following = follow(&server, "one");
    let (_change, outcome) = following.next();
    // Nothing is programmed as long as the workers do not have it.
    server.wait_for("leases", "infra", "weir", |lease| lease["spec"]["holderIdentity"] == "one");
    assert!(server.writes("/status").is_empty(), "{:?}", server.writes("/status"));
    outcome.send(Ok(())).expect("it is waited for");
    server.wait_for("gateways", "infra", "web", is_programmed);
    server.wait_for("gatewayclasses", "", "weir", |class| {
        condition(&class["status"]["conditions"], "Accepted")["status"] == "True"
    });
    server.wait_for("httproutes", "infra", "one", |route| {
        let parents = &route["status"]["parents"];
        parents.as_array().is_some_and(|all| all.len() == 2)
            && parents[0] == entry
            && condition(&parents[1]["conditions"], "Accepted")["status"] == "True"
    });
    // What is written comes back as an event, and is not written again: the status of a later route is the next write.
    let before = server.writes("/status").len();
    server.apply("httproutes", route("two"));
    following.apply_until(|config| has_route(config, "two"));
    server.wait_for("httproutes", "infra", "two", |route| !route["status"].is_null());
    let after: Vec<_> = server.writes("/status").split_off(before);
    assert!(
        after
            .iter()
            .all(|(path, code)| *code == 409 || path.contains("/two/") || path.contains("/gateways/web/")),
        "{after:?}"
    );
    let conflicts = server.writes("/status").iter().filter(|(_, code)| *code == 409).count();
    assert!(conflicts >= 3, "{conflicts}");
}

#[test]
fn a_configuration_that_is_refused_is_not_programmed() {
    let server = cluster();
    let following = follow(&server, "one");
    let (_change, outcome) = following.next();
    outcome.send(Err(ChangeRefusal::new("port 8000 is taken"))).expect("it is waited for");
    // What is left of it is applied at once.
    following.apply_until(|config| config.listeners.is_empty());
    server.wait_for("gateways", "infra", "web", |gateway| {
        let programmed = condition(&gateway["status"]["conditions"], "Programmed");
        programmed["status"] == "False"
            && programmed["reason"] == "Pending"
            && programmed["message"].as_str().is_some_and(|why| why.contains("port 8000 is taken"))
    });
    let report = following.source.state().report();
    let held: Vec<_> = report.held_back.iter().map(|(owner, why)| (&**owner, &**why)).collect();
    assert_eq!((held, report.refusal), (vec![("Gateway infra/web, port 8000", "port 8000 is taken")], None));
    // It is tried again by itself.
    following.apply_until(|config| !config.listeners.is_empty());
    server.wait_for("gateways", "infra", "web", is_programmed);
    following.wait_for_report(|report| report.held_back.is_empty());
}

/// A Gateway of another tenant, on a port of its own.
fn other_gateway(port: u16) -> Value {
    let listeners = json!([{ "name": "http", "port": port, "protocol": "HTTP" }]);
    object("Gateway", "infra", "other", &json!({ "gatewayClassName": "weir", "listeners": listeners }))
}

fn has_listener(config: &Config, name: &str) -> bool {
    config.listeners.iter().any(|listener| *listener.name == *name)
}

/// Whether the refusal names its cause or not, only that Gateway keeps what it had.
#[test]
fn a_gateway_that_is_refused_holds_back_no_other() {
    for names_cause in [true, false] {
        let server = cluster();
        let following = follow(&server, "one");
        server.apply("gateways", other_gateway(8001));
        let is_taken = |config: &Config| has_listener(config, "infra.other.8002");
        let refused = Cell::new(false);
        // The proxy of this test cannot have port 8002.
        let apply_next = || {
            let (change, outcome) = following.next();
            match change {
                KubernetesChange::Config { config, .. } if is_taken(&config) => {
                    let listener = names_cause.then(|| "infra.other.8002".into());
                    let refusal = ChangeRefusal { why: "port 8002 is taken".to_owned(), listener };
                    outcome.send(Err(refusal)).expect("it is waited for");
                    refused.set(true);
                    None
                }
                change => {
                    outcome.send(Ok(())).expect("it is waited for");
                    if let KubernetesChange::Config { config, .. } = change { Some(*config) } else { None }
                }
            }
        };
        let apply_until = |check: &dyn Fn(&Config) -> bool| {
            loop {
                if let Some(config) = apply_next().filter(|config| check(config)) {
                    return config;
                }
            }
        };
        apply_until(&|config| has_listener(config, "infra.other.8001"));
        // Both change while another change is under way: the route of one takes effect, the other keeps its port.
        server.apply("httproutes", route("first"));
        let under_way = loop {
            let (change, outcome) = following.next();
            if matches!(&change, KubernetesChange::Config { config, .. } if has_route(config, "first")) {
                break outcome;
            }
            outcome.send(Ok(())).expect("it is waited for");
        };
        server.apply("gateways", other_gateway(8002));
        server.apply("httproutes", route("more"));
        under_way.send(Ok(())).expect("it is waited for");
        let config = apply_until(&|config| has_route(config, "more"));
        assert!(has_listener(&config, "infra.other.8001"), "{names_cause}");
        // The route may have come before the port.
        while !refused.get() {
            apply_next();
        }
        following.wait_for_report(
            |report| matches!(&report.held_back[..], [(owner, _)] if **owner == *"Gateway infra/other, port 8002"),
        );
        // While it is held back, others go on without being tried twice.
        server.apply("httproutes", route("last"));
        let config = apply_until(&|config| has_route(config, "last"));
        assert!(has_listener(&config, "infra.other.8001"), "{names_cause}");
        let programmed =
            |gateway: &Value| condition(&gateway["status"]["conditions"], "Programmed")["status"].clone();
        server.wait_for("gateways", "infra", "other", |gateway| {
            let message = condition(&gateway["status"]["conditions"], "Programmed")["message"].as_str();
            programmed(gateway) == "False" && message.is_some_and(|why| why.contains("port 8002 is taken"))
        });
        server.wait_for("gateways", "infra", "web", is_programmed);
        // What is right again takes effect.
        server.apply("gateways", other_gateway(8003));
        apply_until(&|config| has_listener(config, "infra.other.8003"));
        following.wait_for_report(|report| report.held_back.is_empty());
    }
}

#[test]
fn another_process_leads_when_the_leader_stops() {
    let server = cluster();
    let first = follow(&server, "first");
    first.apply_until(|_| true);
    server.wait_for("gateways", "infra", "web", is_programmed);
    let second = follow(&server, "second");
    second.apply_until(|_| true);
    assert_eq!(
        server.object("leases", "infra", "weir").expect("there is one")["spec"]["holderIdentity"],
        "first"
    );
    drop(first);
    server.wait_for("leases", "infra", "weir", |lease| lease["spec"]["holderIdentity"] == "second");
    // A status that was lost meanwhile is written anew.
    let mut gateway = server.object("gateways", "infra", "web").expect("there is one");
    gateway.as_object_mut().expect("it is one").remove("status");
    server.apply("gateways", gateway);
    server.wait_for("gateways", "infra", "web", is_programmed);
}
