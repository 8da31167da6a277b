//! Panics in the tasks that follow the API server, which a test orders: routes stay, and what changes meanwhile takes effect.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{cluster, object, overview, route, serve_with, status_at};
use crate::harness::reserved_address::ReservedAddress;
use crate::harness::{Client, Origin, eventually};
use crate::upstream::source_panics::{strike, was_begun_anew};

fn another_route() -> Value {
    let backends = json!([{ "name": "app", "port": 80 }]);
    let matches = json!([{ "path": { "type": "PathPrefix", "value": "/other" } }]);
    let rules = json!([{ "matches": matches, "backendRefs": backends }]);
    object("HTTPRoute", "other", &json!({ "parentRefs": [{ "name": "web" }], "rules": rules }))
}

/// `/` is always served, as strikes need it, and `/other` comes and goes. The second round proves that each task went on after its first panic.
#[test]
fn routes_stay_and_are_followed_again() {
    let origin = Origin::serving("app");
    let (web, admin) = (ReservedAddress::new(), ReservedAddress::new());
    let api = cluster(web.address().port(), &origin);
    let mut weir = serve_with(&api, admin.address(), &["--kubernetes=infra/web"], &[("WEIR_FAULTS", "1")]);
    let is_accepted = |route: &Value| route["status"]["parents"].is_array();
    api.wait_for("httproutes", "infra", "app", is_accepted);
    let mut count = 0;
    let mut panic_of = |task: &str, wake: &dyn Fn()| {
        count += 1;
        strike(&weir, web.address(), task, wake);
        assert_eq!(Client::connect(web.address()).fetch("/").text(), "app", "the routes stay");
        was_begun_anew(&weir, task, count);
    };
    let problem = || overview(admin.address())["routes_from"][0]["problem"].clone();
    let has_other = |is_there: bool| {
        let status = if is_there { 200 } else { 404 };
        eventually("it takes effect", || status_at(web.address(), "/other") == status);
    };
    // Only what is asked for has this path: `/` is a prefix of all.
    let mut only = route("/");
    only["spec"]["rules"][0]["matches"][0]["path"]["type"] = json!("Exact");
    api.apply("httproutes", only);
    has_other(false);
    for _ in 0..2 {
        panic_of("a watch of the API server", &|| api.apply("httproutes", another_route()));
        has_other(true);
        api.wait_for("httproutes", "infra", "other", is_accepted);
        panic_of("the objects of Kubernetes", &|| api.delete("httproutes", "infra", "other"));
        has_other(false);
        eventually("all is well", || problem().is_null());
        panic_of("the writer of statuses", &|| api.apply("httproutes", another_route()));
        api.wait_for("httproutes", "infra", "other", is_accepted);
        api.delete("httproutes", "infra", "other");
        has_other(false);
        panic_of("the write of a status", &|| api.apply("httproutes", another_route()));
        api.wait_for("httproutes", "infra", "other", is_accepted);
        panic_of("the election of a leader", &|| {});
        api.delete("httproutes", "infra", "other");
        has_other(false);
        api.apply("httproutes", another_route());
        api.wait_for("httproutes", "infra", "other", is_accepted);
        api.delete("httproutes", "infra", "other");
        has_other(false);
    }
    // In the middle of its work: the objects are taken in, and nothing is applied yet.
    strike(&weir, web.address(), "a translation of objects", || api.apply("httproutes", another_route()));
    has_other(true);
    api.wait_for("httproutes", "infra", "other", is_accepted);
    weir.line(&["the task that watches them has ended by a defect of Weir"]);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    let lease = api.object("leases", "default", "weir-web").expect("there was a leader");
    assert!(lease["spec"]["holderIdentity"].is_null(), "{lease}");
}
