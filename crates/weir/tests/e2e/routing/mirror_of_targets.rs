//! Copies of the requests for one of several targets of a split: nothing else is copied, mirrors of the route get theirs beside them, and what is
//! known of a mirror goes on over a reload.

use crate::harness::{Client, Origin, Weir, config_with, eventually};

/// Requests that are sent: with equal weights, none for one of the targets would be a miracle.
const REQUESTS: usize = 60;

/// Two targets, the one named `app` with a mirror.
struct SplitServers {
    app: Origin,
    canary: Origin,
    copied: Origin,
    every: Origin,
}

impl SplitServers {
    fn start() -> Self {
        let [app, canary] = ["app", "canary"].map(Origin::serving);
        let [copied, every] = ["copied", "every"].map(Origin::serving);
        Self { app, canary, copied, every }
    }

    fn config(&self, route: &str, app: &str, canary: &str) -> String {
        config_with(
            &[self.app.named("a")],
            &format!(
                "process.workers = 1
                 upstream.canary.servers = [{}]
                 upstream.copied.servers = [{}]
                 upstream.every.servers = [{}]
                 [[listener.web.route]]
                 path = \"/\"
                 name = \"all\"
                 split = [{{ upstream = \"app\", weight = 1{app} }}, {{ upstream = \"canary\", weight = 1{canary} }}]
                 {route}",
                self.canary.entry(),
                self.copied.entry(),
                self.every.entry(),
            ),
        )
    }
}

/// Sends requests to both targets.
fn send(weir: &Weir) {
    let mut client = Client::connect(weir.web());
    for number in 0..REQUESTS {
        let text = client.fetch(&format!("/{number}")).text();
        assert!(["app", "canary"].contains(&&*text), "{text}");
    }
}

fn sorted(origin: &Origin) -> Vec<String> {
    let mut targets = origin.targets();
    targets.sort();
    targets
}

#[test]
fn only_requests_for_the_target_are_copied() {
    let servers = SplitServers::start();
    let mirror = ", mirror = { upstream = \"copied\" }, request_headers.set = { x-target = \"app\" }";
    let weir = Weir::start(&servers.config("", mirror, ""));
    send(&weir);
    let real = sorted(&servers.app);
    assert!((1..REQUESTS).contains(&real.len()), "both targets get requests: {}", real.len());
    assert_eq!(real.len() + servers.canary.requests().len(), REQUESTS);
    eventually("the copies are there", || sorted(&servers.copied) == real);
    let marked = |field: &str| servers.copied.requests().iter().all(|copy| copy.field(field).is_some());
    assert!(marked("x-weir-mirror") && marked("x-target"), "they are changed as requests for the target are");
    let copies = weir.metrics().sum("weir_route_mirror_requests_total", &["route=\"all\""]);
    assert_eq!(copies, real.len() as f64, "they count for the route");
}

#[test]
fn mirrors_of_the_route_get_all_requests_beside_them() {
    let servers = SplitServers::start();
    let weir = Weir::start(&servers.config(
        "mirror = { upstream = \"every\" }",
        ", mirror = [{ upstream = \"copied\" }, { upstream = \"canary\", share = \"0%\" }]",
        ", request_headers.set = { x-target = \"canary\" }",
    ));
    send(&weir);
    eventually("each request has a copy", || servers.every.requests().len() == REQUESTS);
    eventually("and those for the target another one", || sorted(&servers.copied) == sorted(&servers.app));
    let mirrors = weir.admin_json("/api/mirrors");
    let shown = |place: usize| {
        let one = &mirrors[place];
        (one["copied_upstream"].as_str(), one["upstream"].as_str(), one["share"].as_u64())
    };
    assert_eq!(shown(0), (None, Some("every"), Some(100)));
    assert_eq!(shown(1), (Some("app"), Some("copied"), Some(100)));
    assert_eq!(shown(2), (Some("app"), Some("canary"), Some(0)));
    assert!(mirrors[3].is_null(), "{mirrors}");
    let action = weir.admin_json("/api/overview")["listeners"][0]["routes"][0]["action"].clone();
    assert_eq!(
        action,
        "split: app 1 (100% copied to copied) (0% copied to canary), canary 1, 100% copied to every"
    );
}

#[test]
fn differences_of_a_target_are_kept_over_a_reload() {
    let servers = SplitServers::start();
    let mirror = |share: &str| {
        format!(", mirror = {{ upstream = \"copied\", compare = [\"body\"], share = \"{share}\" }}")
    };
    let weir = Weir::start(&servers.config("", &mirror("100%"), ""));
    send(&weir);
    let found = |weir: &Weir| {
        let mirrors = weir.admin_json("/api/mirrors");
        let own = mirrors.as_array().into_iter().flatten().find(|one| one["copied_upstream"] == "app");
        own.and_then(|own| own["last_differences"].as_array().map(Vec::len)).unwrap_or_default()
    };
    let expected = servers.app.requests().len();
    eventually("every copy differs", || found(&weir) == expected);
    // The route has a mirror of its own now, so that the one of the target has another place.
    weir.reload(&servers.config("mirror = { upstream = \"every\" }", &mirror("0%"), ""));
    assert_eq!(found(&weir), expected);
    let sent = servers.copied.requests().len();
    send(&weir);
    eventually("the route is copied", || servers.every.requests().len() == REQUESTS);
    assert_eq!(servers.copied.requests().len(), sent);
}
