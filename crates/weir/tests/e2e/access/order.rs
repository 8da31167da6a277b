//! When lists and limits are asked: by what the request says before its client is authenticated, by the user afterwards.

use data_encoding::BASE64;

use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Response, Weir, config_with};

/// Of `s3cret`.
const BCRYPT: &str = "$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm";

/// Weir with the route `/` for the users `ann` and `bob`, and `/open` for all.
fn start(origin: &Origin, keys: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1
             listener.web.trusted_proxies = [\"127.0.0.1\"]
             listener.web.http2.prior_knowledge = \"allowed\"
             listener.web.response_headers.set.x-tag = \"{{tag}}\"
             {keys}
             [[listener.web.route]]
             path = \"/open\"
             upstream = \"app\"
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             cors = {{ origins = [\"https://app.test\"] }}
             [listener.web.route.basic]
             users = {{ ann = \"{BCRYPT}\", bob = \"{BCRYPT}\" }}"
        ),
    ))
}

fn credentials(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64.encode(format!("{user}:{password}").as_bytes()))
}

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// A request of a client at 192.0.2.1 with this password.
fn login(weir: &Weir, user: &str, password: &str) -> Response {
    let credentials = credentials(user, password);
    get(weir, "/", &format!("X-Forwarded-For: 192.0.2.1\r\nAuthorization: {credentials}\r\n"))
}

#[test]
fn a_list_by_user_holds_for_users_that_are_authenticated() {
    let origin = echo();
    let weir = start(
        &origin,
        "listener.web.lists = [\"team\", \"marked\"]
         list.team = { action = \"deny\", key = \"{user}\", entries = [\"ann\"] }
         list.marked = { action = \"tag\", key = \"{user}\", entries = [\"bob night shift\"] }",
    );
    let denied = login(&weir, "ann", "s3cret");
    assert_eq!((denied.status, denied.reason()), (403, Some("access-denied")));
    assert_eq!(login(&weir, "ann", "wrong").status, 401, "a name that is not proved is in no list");
    let passed = login(&weir, "bob", "s3cret");
    assert_eq!((passed.status, passed.field("x-tag")), (200, Some("night shift")));
    // Without a user there is nothing to look up.
    assert_eq!(get(&weir, "/open", "").status, 200);
    assert_eq!(get(&weir, "/", "").status, 401);
    assert_eq!(origin.requests().len(), 2);
    let mut client = Http2Client::connect(weir.web());
    for (user, status) in [("ann", 403), ("bob", 200)] {
        let stream = client.get_with("/", &[("authorization", &credentials(user, "s3cret"))]);
        assert_eq!(client.response(stream).status, status, "{user}");
    }
}

/// An `allow` by user opens what a less specific list has closed, and nothing else does.
#[test]
fn a_refusal_waits_for_a_list_by_user_that_may_allow() {
    let origin = echo();
    let weir = start(
        &origin,
        "listener.web.lists = [\"all\", \"team\"]
         list.all = { action = \"deny\", entries = [\"0.0.0.0/0\", \"::/0\"] }
         list.team = { action = \"allow\", key = \"{user}\", entries = [\"ann\"] }",
    );
    assert_eq!(login(&weir, "ann", "s3cret").status, 200);
    assert_eq!(login(&weir, "bob", "s3cret").status, 403);
    assert_eq!(login(&weir, "ann", "wrong").status, 401);
    assert_eq!(get(&weir, "/open", "").status, 403, "no client is authenticated there");
    let preflight = "Origin: https://app.test\r\nAccess-Control-Request-Method: PUT\r\n";
    let response =
        Client::exchange(weir.web(), &format!("OPTIONS / HTTP/1.1\r\nHost: a.test\r\n{preflight}\r\n"));
    assert_eq!(response.status, 403);
    assert_eq!(origin.requests().len(), 1);
}

/// Each user has a limit of its own, wherever it comes from; a request that it refuses costs no other limit anything.
#[test]
fn a_limit_by_user_counts_users() {
    let origin = echo();
    let weir = start(
        &origin,
        "listener.web.limited_by = [\"address\", \"user\"]
         limit.address = { rate = \"4/h\" }
         limit.user = { rate = \"2/h\", key = \"{user}\" }",
    );
    let statuses = |user: &str, password: &str| login(&weir, user, password).status;
    assert_eq!([0; 4].map(|_| statuses("ann", "s3cret")), [200, 200, 429, 429]);
    // What the user's limit has refused, the limit by address has back: two are left.
    assert_eq!([0; 3].map(|_| statuses("bob", "s3cret")), [200, 200, 429]);
    assert_eq!(
        weir.metrics().sum("weir_limit_requests_total", &["limit=\"user\"", "outcome=\"refused\""]),
        2.0
    );
    assert_eq!(origin.requests().len(), 4);
}

/// What fails to log in is bounded by the limits that need no user, and counts for no user.
#[test]
fn failed_logins_stay_bounded() {
    let origin = echo();
    let weir = start(
        &origin,
        "listener.web.limited_by = [\"address\", \"failures\", \"user\"]
         limit.address = { rate = \"9/h\" }
         limit.failures = { rate = \"3/h\", count_status = 401, key = \"failures {client_address}\" }
         limit.user = { rate = \"1/h\", key = \"{user}\" }",
    );
    assert_eq!([0; 5].map(|_| login(&weir, "ann", "wrong").status), [401, 401, 401, 429, 429]);
    let from_elsewhere = format!("Authorization: {}\r\n", credentials("ann", "s3cret"));
    assert_eq!(get(&weir, "/", &from_elsewhere).status, 200, "the user had its request left");
    assert_eq!(get(&weir, "/", &from_elsewhere).status, 429);
    assert_eq!(origin.requests().len(), 1);
}

/// A limit by the tag of a list by user, one on requests at once, and one on bandwidth: all of the later stage.
#[test]
fn all_that_hangs_on_the_user_comes_later() {
    let origin = echo();
    let weir = start(
        &origin,
        "listener.web.lists = \"marked\"
         listener.web.limited_by = [\"tagged\", \"once\", \"slow\"]
         list.marked = { action = \"tag\", key = \"{user}\", entries = [\"ann guest\"] }
         limit.tagged = { rate = \"1/h\", key = \"{tag}\" }
         limit.once = { concurrent = 1, key = \"{user}\" }
         limit.slow = { bandwidth = \"1MB/s\", key = \"{user}\" }",
    );
    assert_eq!([0; 2].map(|_| login(&weir, "ann", "s3cret").status), [200, 429]);
    assert_eq!([0; 3].map(|_| login(&weir, "bob", "s3cret").status), [200; 3], "places are given back");
    assert_eq!(get(&weir, "/open", "").status, 200);
}

/// Without a route there is no authentication that could open what a list has closed.
#[test]
fn a_request_without_a_route_stays_refused() {
    let origin = echo();
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"
         listener.web.lists = [\"all\", \"team\"]
         listener.web.limited_by = \"user\"
         list.all = {{ action = \"deny\", entries = [\"0.0.0.0/0\"] }}
         list.team = {{ action = \"allow\", key = \"{{user}}\", entries = [\"ann\"] }}
         limit.user = {{ rate = \"1/h\", key = \"{{user}}\" }}
         upstream.app.servers = [{}]
         [[listener.web.route]]
         host = \"only.test\"
         upstream = \"app\"
         [listener.web.route.basic]
         users = {{ ann = \"{BCRYPT}\" }}",
        origin.entry()
    ));
    assert_eq!([0; 2].map(|_| get(&weir, "/", "").status), [403; 2]);
    let named = format!(
        "GET / HTTP/1.1\r\nHost: only.test\r\nAuthorization: {}\r\n\r\n",
        credentials("ann", "s3cret")
    );
    assert_eq!(Client::exchange(weir.web(), &named).status, 200);
}
