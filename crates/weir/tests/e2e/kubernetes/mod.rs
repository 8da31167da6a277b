//! `weir serve --kubernetes`: real traffic by the objects of an API server that the test scripts.

#[path = "../../../../weir-kubernetes/tests/api_server/mod.rs"]
#[expect(dead_code, reason = "the tests of weir-kubernetes need more of it")]
mod api_server;
mod certificates;
#[cfg(debug_assertions)]
mod panics;

use std::net::SocketAddr;

use rustix::process::Signal;
use serde_json::{Value, json};

use self::api_server::ApiServer;
use crate::harness::reserved_address::ReservedAddress;
use crate::harness::{Client, Origin, Response, Weir, eventually, temporary_folder};

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
    slice_of("app", server)
}

fn slice_of(service: &str, server: SocketAddr) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": { "name": format!("{service}-1"), "namespace": "infra", "labels": { "kubernetes.io/service-name": service } },
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

#[test]
fn a_restricted_config_names_no_files() {
    let folder = temporary_folder();
    let base = folder.path().join("base.toml");
    let text = "[traces]\nendpoint = \"http://127.0.0.1:4318/v1/traces\"\nheader_files = { x-stolen = \"/proc/self/environ\" }\n";
    std::fs::write(&base, text).expect("the folder can be written");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "--kubernetes=infra/web", "--restricted-config"])
        .arg(&base)
        .output()
        .expect("the program was built with this test");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("`traces.header_files` has no place here"), "{text}");
}

/// `weir serve --kubernetes` on what a scripted API server has, with an admin listener and more arguments.
fn serve(api: &ApiServer, admin: SocketAddr, more: &[&str]) -> Weir {
    serve_with(api, admin, more, &[])
}

/// The same with more environment variables.
fn serve_with(api: &ApiServer, admin: SocketAddr, more: &[&str], variables: &[(&str, &str)]) -> Weir {
    let folder = temporary_folder();
    let kubeconfig = api.kubeconfig(folder.path());
    let base = folder.path().join("base.toml");
    std::fs::write(&base, format!("admin.address = \"{admin}\"\n")).expect("the folder can be written");
    let path = |path: &std::path::Path| path.to_str().expect("temporary paths are UTF-8").to_owned();
    let (kubeconfig, base) = (path(&kubeconfig), path(&base));
    let mut arguments = vec!["serve", "--kubeconfig", &kubeconfig, "--bind", "127.0.0.1"];
    arguments.extend(["--gateway-address", "192.0.2.1"]);
    arguments.extend(more);
    arguments.push(&base);
    Weir::start_with_environment(folder, &arguments, "--kubernetes", variables)
}

fn overview(admin: SocketAddr) -> Value {
    serde_json::from_str(&Client::get_by_address(admin, "/api/overview").text()).expect("it is JSON")
}

/// The port of one Gateway is taken by another program: its status says so, all others are served, and it is opened as soon as the port is free.
#[test]
fn a_gateway_that_cannot_be_opened_holds_back_no_other() {
    let origin = Origin::serving("app");
    let (web, admin) = (ReservedAddress::new(), ReservedAddress::new());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it is bound").port();
    let api = cluster(web.address().port(), &origin);
    let listeners = json!([{ "name": "http", "port": port, "protocol": "HTTP" }]);
    let other = json!({ "gatewayClassName": "weir", "listeners": listeners });
    api.apply("gateways", object("Gateway", "other", &other));
    let weir = serve(&api, admin.address(), &["--kubernetes"]);
    eventually("the other Gateway is served", || status_at(admin.address(), "/ready") == 200);
    assert_eq!(Client::connect(web.address()).fetch("/").text(), "app");
    let refused = |gateway: &Value| {
        let conditions = gateway["status"]["conditions"].as_array();
        conditions.is_some_and(|all| {
            all.iter().any(|it| {
                it["type"] == "Programmed"
                    && it["status"] == "False"
                    && it["message"].as_str().is_some_and(|why| why.contains("cannot use"))
            })
        })
    };
    api.wait_for("gateways", "infra", "other", refused);
    api.wait_for("gateways", "infra", "web", |gateway| gateway["status"].is_object() && !refused(gateway));
    eventually("reports say so", || {
        let source = &overview(admin.address())["routes_from"][0];
        source["refused"][0]["key"] == format!("Gateway infra/other, port {port}")
            && source["name"] == "kubernetes"
    });
    weir.line(&["routes of Kubernetes are held back", "Gateway infra/other", "cannot use"]);
    // The others change meanwhile.
    api.apply("httproutes", route("/only"));
    eventually("the route takes effect", || status_at(web.address(), "/") == 404);
    drop(taken);
    let freed = SocketAddr::from(([127, 0, 0, 1], port));
    eventually("the port is used", || std::net::TcpStream::connect(freed).is_ok());
    assert_eq!(status_at(freed, "/"), 404);
    // An outage is told where sources of servers are.
    api.set_down(true);
    eventually("the outage is told", || {
        let source = &overview(admin.address())["routes_from"][0];
        source["lost_at_ms"].is_u64() && source["problem"].is_string()
    });
    let metrics = Client::get_by_address(admin.address(), "/metrics").text();
    assert!(metrics.contains("weir_config_route_stores_stale 1"), "{metrics}");
    assert!(metrics.contains("weir_config_route_stores_lost_timestamp_seconds 1"), "{metrics}");
    api.set_down(false);
    eventually("its end, too", || overview(admin.address())["routes_from"][0]["lost_at_ms"].is_null());
}

/// Without any port that could be bound, no load balancer is to send connections here.
#[test]
fn a_process_without_an_open_port_is_not_ready() {
    let origin = Origin::serving("app");
    let admin = ReservedAddress::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = taken.local_addr().expect("it is bound").port();
    let api = cluster(port, &origin);
    let _weir = serve(&api, admin.address(), &["--kubernetes"]);
    eventually("the port is not open", || {
        let response = Client::connect(admin.address()).fetch("/ready");
        (response.status, response.text())
            == (503, "no listener is open: none of the ports could be bound\n".to_owned())
    });
    drop(taken);
    eventually("the port is bound", || status_at(admin.address(), "/ready") == 200);
    assert_eq!(Client::connect(SocketAddr::from(([127, 0, 0, 1], port))).fetch("/").text(), "app");
}

fn ingress(name: &str, host: &str, (path, service): (&str, &str), annotations: &[(&str, &str)]) -> Value {
    let annotations: serde_json::Map<String, Value> = (annotations.iter())
        .map(|(name, value)| (format!("nginx.ingress.kubernetes.io/{name}"), json!(value)))
        .collect();
    let backend = json!({ "service": { "name": service, "port": { "number": 80 } } });
    let paths = json!([{ "path": path, "pathType": "ImplementationSpecific", "backend": backend }]);
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": { "name": name, "namespace": "infra", "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "ingressClassName": "weir", "rules": [{ "host": host, "http": { "paths": paths } }] },
    })
}

fn response_to(address: SocketAddr, host: &str, target: &str, fields: &str) -> Response {
    Client::exchange(address, &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"))
}

const INGRESS_MANIFEST: &str = include_str!("../../../../../packaging/kubernetes/ingress.yaml");

/// The arguments of the packaged Deployment for Ingresses, behind `serve`.
fn packaged_arguments() -> Vec<String> {
    let (_before, arguments) = INGRESS_MANIFEST.split_once("            - serve\n").expect("it serves");
    let arguments =
        arguments.lines().map_while(|line| line.strip_prefix("            - ")).map(str::to_owned);
    arguments.collect()
}

/// With the arguments and the rights of the packaged Deployment: annotations of ingress-nginx, from the object to the request that a server gets.
#[test]
fn ingresses_are_served_as_by_ingress_nginx() {
    let (app, new) = (Origin::serving("app"), Origin::serving("new"));
    let (web, admin) = (ReservedAddress::new(), ReservedAddress::new());
    let api = ApiServer::start();
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "infra" } });
    api.apply("namespaces", namespace);
    let class = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": { "name": "weir" },
        "spec": { "controller": "weir.dev/ingress" },
    });
    api.apply("ingressclasses", class);
    for (service, origin) in [("app", &app), ("new", &new)] {
        let ports = json!({ "ports": [{ "name": "http", "port": 80 }] });
        api.apply("services", object("Service", service, &ports));
        api.apply("endpointslices", slice_of(service, origin.address()));
    }
    // `ann` with the password `secret`.
    let users = "ann:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n";
    let data = json!({ "auth": data_encoding::BASE64.encode(users.as_bytes()) });
    api.apply("secrets", json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": { "name": "users", "namespace": "infra" }, "data": data }));
    let canary = [("canary", "true"), ("canary-by-header", "x-canary")];
    let auth = [("auth-type", "basic"), ("auth-secret", "users"), ("auth-realm", "staff")];
    let limits = [("limit-rps", "1"), ("limit-burst-multiplier", "2")];
    for ingress in [
        ingress("rewrite", "a.test", ("/api(/|$)(.*)", "app"), &[("rewrite-target", "/$2")]),
        ingress("main", "b.test", ("/", "app"), &[]),
        ingress("canary", "b.test", ("/", "new"), &canary),
        ingress("auth", "c.test", ("/", "app"), &auth),
        ingress("limits", "d.test", ("/", "app"), &limits),
        ingress("closed", "e.test", ("/admin", "app"), &[("denylist-source-range", "127.0.0.0/8")]),
        ingress("open", "e.test", ("/", "app"), &[("server-alias", "e.test., A.test.")]),
        ingress("asks", "f.test", ("/", "app"), &[("auth-url", "http://new.infra.svc.cluster.local/check")]),
    ] {
        api.apply("ingresses", ingress);
    }
    let port = web.address().port().to_string();
    let packaged = packaged_arguments();
    let mut arguments: Vec<&str> = packaged.iter().map(|argument| &**argument).collect();
    arguments.extend(["--ingress-http-port", &port]);
    let _weir = serve(&api, admin.address(), &arguments);
    eventually("it is ready", || status_at(admin.address(), "/ready") == 200);
    // The rights of the packaged account are those for all that is read.
    let readable: Vec<&str> = (INGRESS_MANIFEST.split("\n  - apiGroups: "))
        .filter(|rule| rule.contains("verbs: [get, list, watch]"))
        .flat_map(|rule| rule.split_once("resources: [").expect("each rule has some").1.split(']').next())
        .flat_map(|resources| resources.split(", "))
        .collect();
    let listed = api.listed();
    assert!(
        listed.len() >= 6 && listed.iter().all(|kind| readable.contains(&&**kind)),
        "{listed:?} {readable:?}"
    );
    assert!(readable.iter().all(|kind| listed.contains(*kind)), "{listed:?} {readable:?}");
    let web = web.address();

    assert_eq!(response_to(web, "a.test", "/API/v1/users?x=1", "").status, 200);
    assert_eq!(app.last_request().target(), "/v1/users?x=1");
    assert_eq!(response_to(web, "a.test", "/other", "").status, 404);
    assert_eq!(response_to(web, "elsewhere.test", "/", "").status, 404);

    assert_eq!(response_to(web, "b.test", "/", "").text(), "app");
    assert_eq!(response_to(web, "b.test", "/", "X-Canary: always\r\n").text(), "new");
    assert_eq!(response_to(web, "b.test", "/", "X-Canary: never\r\n").text(), "app");

    let refused = response_to(web, "c.test", "/", "");
    assert_eq!(refused.status, 401);
    assert!(refused.field("www-authenticate").is_some_and(|value| value.contains("staff")), "{refused:?}");
    let basic =
        |user: &str| format!("Authorization: Basic {}\r\n", data_encoding::BASE64.encode(user.as_bytes()));
    assert_eq!(response_to(web, "c.test", "/", &basic("ann:wrong")).status, 401);
    assert_eq!(response_to(web, "c.test", "/", &basic("ann:secret")).status, 200);

    // What authentik, Authelia and oauth2-proxy read, and what a client sends by these names.
    let forged = "X-Original-URL: http://f.test/public\r\nX-Real-IP: 192.0.2.9\r\nX-Scheme: https\r\nX-Auth-Request-Redirect: /evil\r\n";
    assert_eq!(response_to(web, "f.test", "/secret/./x?y=1", forged).status, 200);
    let question = new.last_request();
    assert_eq!(question.target(), "/check");
    for (name, value) in [
        ("host", "new.infra.svc.cluster.local"),
        ("x-original-url", "http://f.test/secret/x?y=1"),
        ("x-original-uri", "/secret/x?y=1"),
        ("x-original-method", "GET"),
        ("x-real-ip", "127.0.0.1"),
        ("x-auth-request-redirect", "/secret/x?y=1"),
        ("x-forwarded-host", "f.test"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-for", "127.0.0.1"),
    ] {
        assert_eq!(question.fields().all(name), [value], "{name}");
    }
    let served = app.last_request();
    for (name, value) in [("x-real-ip", "127.0.0.1"), ("x-scheme", "http"), ("x-forwarded-scheme", "http")] {
        assert_eq!(served.fields().all(name), [value], "{name}");
    }

    let statuses: Vec<u16> = (0..40).map(|_| response_to(web, "d.test", "/", "").status).collect();
    assert!(statuses.contains(&429) && statuses[0] == 200, "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");

    // Rules see a slash where the server may see one; it gets what came.
    for target in ["/admin/x", "/admin%2fx", "/x%2F..%2fadmin", "/ADMIN/../admin"] {
        assert_eq!(response_to(web, "e.test", target, "").status, 403, "{target}");
    }
    for (target, forwarded) in [("/group%2fproject?a%2fb", "/group%2Fproject?a%2fb"), ("/x/../y", "/y")] {
        assert_eq!(response_to(web, "e.test", target, "").status, 200, "{target}");
        assert_eq!(app.last_request().target(), forwarded);
    }

    // What changes takes effect, and what is gone is not served.
    api.apply("ingresses", ingress("main", "b.test", ("/", "new"), &[]));
    eventually("the other service is used", || response_to(web, "b.test", "/", "").text() == "new");
    api.delete("ingresses", "infra", "auth");
    eventually("it is gone", || response_to(web, "c.test", "/", "").status == 404);
}
