//! Limits by key: requests per time and at once, delays, errors that count, refusals as clients and operators see them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::http2::H2C;
use crate::harness::message::Fields;
use crate::harness::scripts::{echo, echo_gated};
use crate::harness::watchdog::now;
use crate::harness::websocket::{open_tunnel, switch_and_return_bytes};
use crate::harness::{Client, Gate, Http2Client, Origin, Response, Weir, config_with, eventually, run};

/// A config in which every request is under the limit `one` with these keys.
fn config(origin: &Origin, limit: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!("listener.web.limited_by = \"one\"\nlimit.one = {{ {limit} }}\nprocess.workers = 2"),
    )
}

fn start(origin: &Origin, limit: &str) -> Weir {
    Weir::start(&config(origin, limit))
}

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

fn count(weir: &Weir, outcome: &str) -> f64 {
    weir.metrics().sum("weir_limit_requests_total", &["limit=\"one\"", &format!("outcome=\"{outcome}\"")])
}

/// One limit, with the status that each route wants for it; of gRPC nothing changes.
#[test]
fn a_route_has_a_status_of_its_own_for_refusals() {
    let origin = echo();
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        "listener.web.limited_by = \"one\"
         listener.web.http2.prior_knowledge = \"allowed\"
         limit.one = { rate = \"1/h\", status = 420 }
         [[listener.web.route]]
         path = \"/api\"
         upstream = \"app\"
         limit_status = 503
         [[listener.web.route]]
         path = \"/web\"
         upstream = \"app\"",
    ));
    assert_eq!(get(&weir, "/api", "").status, 200);
    let statuses = ["/api", "/web", "/", "/api/b"].map(|target| get(&weir, target, "").status);
    assert_eq!(statuses, [503, 420, 420, 503]);
    let mut second = Http2Client::connect(weir.web());
    for (target, status) in [("/web", 420), ("/api", 503)] {
        let stream = second.get(target);
        let refused = second.response(stream);
        assert_eq!((refused.status, refused.reason()), (status, Some("rate-limited")), "{target}");
    }
}

/// As many requests as the burst pass; the next is refused and learns when to come again, on a connection that stays open.
#[test]
fn requests_over_the_rate_are_refused() {
    let origin = echo();
    let weir = start(&origin, "rate = \"1/h\", burst = 3");
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        assert_eq!(client.fetch("/a").status, 200);
    }
    let refused = client.fetch("/a");
    assert_eq!((refused.status, refused.reason()), (429, Some("rate-limited")));
    let seconds = |value: Option<&str>| value.and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
    let wait = seconds(refused.field("retry-after"));
    assert!((3_590..=3_600).contains(&wait), "{wait}");
    assert_eq!(refused.field("ratelimit-policy"), Some("\"one\";q=3;w=10800"));
    let rest = refused.field("ratelimit").and_then(|value| value.strip_prefix("\"one\";r=0;t="));
    assert_eq!(seconds(rest), wait);
    assert_eq!(client.fetch("/b").status, 429, "the connection is still open");
    assert_eq!(origin.requests().len(), 3);
    eventually("both refusals are counted", || count(&weir, "refused") == 2.0);
    assert_eq!((count(&weir, "passed"), weir.metrics().sum("weir_limit_keys", &[])), (3.0, 1.0));
}

/// Responses that no limit has refused tell what is left, beside what the server says of its own limits, and whether Weir or a server has made them.
#[test]
fn responses_tell_what_is_left() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            let fields = "RateLimit-Policy: \"own\";q=9\r\nRateLimit: \"own\";r=8;t=7\r\n";
            conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n"))?;
        }
    });
    let weir = Weir::start(&format!(
        "{H2C}{}\
         limit.two = {{ rate = \"2/m\", fields_in_responses = true, key = \"{{header.x-user}}\" }}\n\
         limit.silent = {{ rate = \"9/m\" }}\nlimit.dry = {{ rate = \"1/m\", fields_in_responses = true, dry_run = true }}\n\
         [[listener.web.route]]\npath = \"/both\"\nupstream = \"app\"\nlimited_by = [\"silent\", \"two\", \"dry\"]\n\
         [[listener.web.route]]\npath = \"/fixed\"\nrespond = {{ status = 204 }}\n\
         [[listener.web.route]]\npath = \"/removed\"\nupstream = \"app\"\n\
         response_headers.remove = [\"RateLimit\", \"RateLimit-Policy\"]\n",
        config(&origin, "rate = \"1/h\", burst = 6, fields_in_responses = true")
    ));
    let told_by =
        |fields: &Fields| ["ratelimit-policy", "ratelimit"].map(|name| fields.all(name).join(" | "));
    let told = |response: &Response| told_by(response.fields());
    let first = get(&weir, "/", "");
    assert_eq!(told(&first), ["\"own\";q=9 | \"one\";q=6;w=21600", "\"own\";r=8;t=7 | \"one\";r=5;t=3600"]);
    let [policy, left] = told(&get(&weir, "/both", "X-User: a\r\n"));
    assert_eq!(policy, "\"own\";q=9 | \"one\";q=6;w=21600, \"two\";q=2;w=60");
    assert!(left.contains("\"one\";r=4;t=") && left.contains(", \"two\";r=1;t=30"), "{left}");
    let [policy, left] = told(&get(&weir, "/both", ""));
    assert_eq!(policy, "\"own\";q=9 | \"one\";q=6;w=21600", "no key, no limit");
    assert!(left.contains("\"one\";r=3;t=") && !left.contains("two"), "{left}");
    let fixed = Http2Client::connect(weir.web()).fetch("/fixed");
    assert_eq!((fixed.status, told_by(&fixed.fields)[0].as_str()), (204, "\"one\";q=6;w=21600"));
    assert_eq!(told(&get(&weir, "/removed", "")), ["", ""]);
    assert!(told(&get(&weir, "/", ""))[1].contains("\"one\";r=0;t="));
    let refused = get(&weir, "/both", "X-User: a\r\n");
    assert_eq!((refused.status, told(&refused)[0].as_str()), (429, "\"one\";q=6;w=21600"));
}

#[test]
fn each_key_has_a_limit_of_its_own() {
    let origin = echo();
    let weir = start(&origin, "rate = \"1/h\", key = \"{header.x-user} {path}\"");
    for (target, fields, expected) in [
        ("/a", "X-User: ann\r\n", 200),
        ("/a", "X-User: ann\r\n", 429),
        ("/b", "X-User: ann\r\n", 200),
        ("/a", "X-User: bob\r\n", 200),
        ("/a", "X-User: bob\r\n", 429),
        // The path alone is a key, too.
        ("/c", "", 200),
        ("/c", "", 429),
    ] {
        assert_eq!(get(&weir, target, fields).status, expected, "{target} {fields:?}");
    }
    let weir = start(&origin, "rate = \"1/h\", key = \"{header.x-user}\"");
    for _ in 0..3 {
        assert_eq!(get(&weir, "/", "").status, 200, "a request without the header is not limited");
    }
    let weir = start(&origin, "rate = \"1/h\", key = \"all\"");
    assert_eq!([0; 2].map(|_| get(&weir, "/", "").status), [200, 429]);
}

#[test]
fn networks_count_as_one_client() {
    let origin = echo();
    let proxies = "listener.web.trusted_proxies = [\"127.0.0.1\"]";
    let config = config(&origin, "rate = \"1/h\", prefix = { ipv4 = 24 }");
    let weir = Weir::start(&format!("{config}\n{proxies}\n"));
    for (client, expected) in [
        ("192.0.2.1", 200),
        ("192.0.2.77", 429),
        ("192.0.3.1", 200),
        ("2001:db8::1", 200),
        ("2001:db8::ffff:2", 429),
        ("2001:db8:0:1::1", 200),
    ] {
        assert_eq!(get(&weir, "/", &format!("X-Forwarded-For: {client}\r\n")).status, expected, "{client}");
    }
}

#[test]
fn requests_of_a_burst_wait_for_their_turn() {
    let origin = echo();
    let weir = start(&origin, "rate = \"10/s\", burst = 3, delay = \"1s\"");
    let mut clients = [0; 4].map(|_| Client::connect(weir.web()));
    let began = now();
    clients.iter_mut().for_each(|client| client.send_get("/a"));
    let mut statuses = clients.map(|mut client| client.response().status);
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 429]);
    assert!(began.elapsed() >= Duration::from_millis(190), "the third had to wait for two turns");
    eventually("they are counted", || count(&weir, "refused") == 1.0);
    assert_eq!((count(&weir, "passed"), count(&weir, "delayed")), (1.0, 2.0));
    assert_eq!(weir.metrics().sum("weir_limit_waiting", &[]), 0.0);
}

#[test]
fn a_client_that_leaves_does_not_wait_on() {
    let origin = echo();
    let weir = start(&origin, "rate = \"1/m\", burst = 2, delay = \"5m\"");
    assert_eq!(get(&weir, "/", "").status, 200);
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    eventually("it waits", || weir.metrics().sum("weir_limit_waiting", &[]) == 1.0);
    client.reset();
    eventually("it waits no more", || weir.metrics().sum("weir_limit_waiting", &[]) == 0.0);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_key_over_its_rate_may_be_blocked() {
    let origin = echo();
    let weir = start(&origin, "rate = \"1000/s\", burst = 1, block = \"10m\", status = 503, fields = false");
    let mut client = Client::connect(weir.web());
    client.send("GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(8));
    let statuses: Vec<u16> = (0..8).map(|_| client.response().status).collect();
    assert!(statuses.contains(&503), "{statuses:?}");
    let refused = client.fetch("/a");
    assert_eq!((refused.status, refused.reason()), (503, Some("rate-limited")));
    assert!(refused.text().contains("503") && refused.field("ratelimit").is_none());
    assert!(matches!(refused.field("retry-after").map(str::parse::<u32>), Some(Ok(590..=600))));
}

#[test]
fn requests_at_once() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start(&origin, "concurrent = 2");
    let mut held = [0; 2].map(|_| Client::connect(weir.web()));
    held.iter_mut().for_each(|client| client.send_get("/held"));
    origin.wait_for_requests(2);
    let refused = get(&weir, "/a", "");
    assert_eq!((refused.status, refused.reason()), (429, Some("concurrency-limited")));
    let [first, mut second] = held;
    // A place is free again when a client leaves, and when a response is over.
    first.reset();
    eventually("the place of the client that has left is free", || get(&weir, "/a", "").status == 200);
    gate.open();
    assert_eq!(second.response().status, 200);
    eventually("no key has a request", || weir.metrics().sum("weir_limit_keys", &[]) == 0.0);
    for _ in 0..5 {
        assert_eq!(second.fetch("/a").status, 200);
    }
}

#[test]
fn a_tunnel_has_its_place_until_it_ends() {
    for log in ["", "access_log.output = \"file:{dir}/access.log\"\n"] {
        let origin = Origin::start(|conn| {
            conn.request()?;
            switch_and_return_bytes(conn)
        });
        let weir = Weir::start(&format!("{log}{}", config(&origin, "concurrent = 1")));
        let tunnel = open_tunnel(weir.web());
        assert_eq!(get(&weir, "/a", "").status, 429);
        assert_eq!(weir.metrics().sum("weir_limit_keys", &[]), 1.0);
        tunnel.finish();
        eventually("its place is free", || weir.metrics().sum("weir_limit_keys", &[]) == 0.0);
    }
}

/// As with HAProxy's `http_err_rate`: what counts is known only when the server has answered.
#[test]
fn a_client_with_too_many_errors_is_refused_everything() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = if request.target().starts_with("/missing") { "404 Not Found" } else { "200 OK" };
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let weir = start(&origin, "rate = \"3/h\", count_status = [\"400-403\", 404], key = \"{header.x-user}\"");
    let ann = "X-User: ann\r\n";
    for step in 0..3 {
        assert_eq!(get(&weir, "/fine", ann).status, 200, "{step}");
        assert_eq!(get(&weir, "/missing", ann).status, 404, "{step}");
    }
    eventually("the last error is counted", || get(&weir, "/fine", ann).status == 429);
    assert_eq!(get(&weir, "/fine", "X-User: bob\r\n").status, 200);
}

/// A redirect to a login page, or a page of another route, does not hide the failure that it is in place of.
#[test]
fn a_failure_counts_as_one_whatever_page_takes_its_place() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = if request.target().starts_with("/page") { "200 OK" } else { "401 No" };
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    for (page, shown) in [
        ("redirect = \"/login\"", 302),
        ("then = \"/page\"", 401),
        ("then = \"/page\", status_of_target = true", 200),
        ("then = \"/page\", new_status = 404", 404),
    ] {
        let weir = Weir::start(&config_with(
            &[origin.named("a")],
            &format!(
                "process.workers = 1
                 limit.one = {{ rate = \"3/h\", count_status = 401, key = \"{{client_address}}\" }}
                 listener.web.route = [{{ path = \"/\", upstream = \"app\", limited_by = \"one\",
                                          error_pages = [{{ status = 401, of_servers = true, {page} }}] }}]"
            ),
        ));
        for step in 0..3 {
            assert_eq!(get(&weir, "/", "").status, shown, "{page} {step}");
        }
        eventually("the last failure is counted", || get(&weir, "/", "").status == 429);
    }
}

#[test]
fn a_dry_run_only_counts() {
    let origin = echo();
    let weir = start(&origin, "rate = \"1/h\", dry_run = true");
    for _ in 0..4 {
        assert_eq!(get(&weir, "/", "").status, 200);
    }
    assert_eq!((count(&weir, "passed"), count(&weir, "excess"), count(&weir, "refused")), (1.0, 3.0, 0.0));
}

/// Limits of a listener, a route and an upstream hold together; a request that one refuses costs nothing of the others.
#[test]
fn limits_are_named_where_they_hold() {
    let origin = echo();
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"
         process.workers = 1
         access_log = {{ format = '{{target}} {{status}} {{limit}} {{reason}}', output = \"file:{{dir}}/access.log\" }}
         limit.all = {{ rate = \"6/h\" }}
         limit.route = {{ rate = \"1/h\" }}
         limit.app = {{ rate = \"2/h\" }}
         [listener.web]
         address = \"127.0.0.1:0\"
         limited_by = \"all\"
         [[listener.web.route]]
         path = \"/a\"
         upstream = \"app\"
         limited_by = [\"route\"]
         [[listener.web.route]]
         path = \"/b\"
         upstream = \"app\"
         [[listener.web.route]]
         path = \"/c\"
         respond = {{ body = \"c\" }}
         [upstream.app]
         servers = [{}]
         limited_by = \"app\"",
        origin.entry()
    ));
    let mut expected = Vec::new();
    for (target, status, rest) in [
        ("/a", 200, "-"),
        ("/a", 429, "route rate-limited"),
        ("/a", 429, "route rate-limited"),
        ("/b", 200, "-"),
        ("/b", 429, "app rate-limited"),
        ("/none", 404, "-"),
        ("/c", 200, "-"),
        ("/c", 200, "-"),
        ("/c", 200, "-"),
        ("/c", 429, "all rate-limited"),
        ("/none", 429, "all rate-limited"),
    ] {
        assert_eq!(get(&weir, target, "").status, status, "{target} after {expected:?}");
        expected.push(match (target, rest) {
            ("/none", "-") => format!("{target} {status} - no-route"),
            (_, "-") => format!("{target} {status} - -"),
            _ => format!("{target} {status} {rest}"),
        });
    }
    assert_eq!(weir.access_log(expected.len()), expected);
}

#[test]
fn what_was_used_is_remembered_over_a_reload() {
    let origin = echo();
    let weir = start(&origin, "rate = \"2/h\"");
    assert_eq!([0; 3].map(|_| get(&weir, "/", "").status), [200, 200, 429]);
    weir.reload(&config(&origin, "rate = \"2/h\", status = 420"));
    assert_eq!(get(&weir, "/", "").status, 420, "the same table, and the new status");
    weir.reload(&config(&origin, "rate = \"3/h\""));
    assert_eq!([0; 4].map(|_| get(&weir, "/", "").status), [200, 200, 200, 429], "another rate begins anew");
}

#[test]
fn over_http2_and_as_a_grpc_call() {
    let origin = echo();
    let weir = Weir::start(&format!("{H2C}{}", config(&origin, "rate = \"1/h\"")));
    let mut client = Http2Client::connect(weir.web());
    let statuses = [0; 2].map(|_| {
        let stream = client.get("/a");
        client.response(stream).status
    });
    assert_eq!(statuses, [200, 429]);
    let stream = client.post("/service/Method", &[("content-type", "application/grpc"), ("te", "trailers")]);
    let call = client.response(stream);
    assert_eq!(
        (call.status, call.field("grpc-status"), call.reason()),
        (200, Some("14"), Some("rate-limited"))
    );
    let pushback = call.field("grpc-retry-pushback-ms").and_then(|value| value.parse::<u32>().ok());
    assert!(matches!(pushback, Some(3_500_000..=3_600_000)), "{pushback:?}");
}

#[test]
fn operators_see_the_keys_that_are_refused() {
    let origin = echo();
    let weir = start(&origin, "rate = \"1/h\", key = \"{header.x-user}@{host}\", burst = 1");
    for (user, requests) in [("ann", 5), ("bob", 2), ("eve", 1)] {
        for _ in 0..requests {
            get(&weir, "/", &format!("X-User: {user}\r\n"));
        }
    }
    let limit = &weir.admin_json("/api/limits")[0];
    assert_eq!(limit["refused"], weir.admin_json("/api/overview")["limits"][0]["refused"]);
    for (name, value) in [("passed", 3), ("refused", 5), ("keys", 3), ("keys_max", 100_000), ("evictions", 0)]
    {
        assert_eq!(limit[name], value, "{name}");
    }
    let top: Vec<_> = limit["top"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| (key["key"].as_str().unwrap(), key["count"].as_u64().unwrap()))
        .collect();
    assert_eq!(top, [("ann@a.test", 4), ("bob@a.test", 1)]);
    let admin = weir.address("admin").to_string();
    let shown = run(&["ctl", "limits", "--admin", &admin]);
    let expected = "one: 1/h, burst 1 by {header.x-user}@{host}\n  requests  3 passed, 0 delayed, 5 refused\n  keys      3 of 100000\n  refused   4 times";
    assert!(shown.stdout.starts_with(expected) && shown.stdout.contains("ann@a.test"), "{shown:?}");
    assert_eq!(run(&["ctl", "limits", "none", "--admin", &admin]).code, Some(2));
    let page = Client::get_by_address(weir.address("admin"), "/").text();
    assert!(page.contains("ann@a.test") && page.contains("1/h, burst 1"), "{page}");
    let refused = get(&weir, "/", "X-User: ann\r\nAccept: application/json\r\n");
    let id = serde_json::from_str::<serde_json::Value>(&refused.text()).unwrap()["request_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let why = run(&["why", &id, "--admin", &admin]);
    assert!(why.stdout.contains("stopped by") && why.stdout.contains("limit `one`"), "{why:?}");
}

#[test]
fn secrets_in_keys_are_not_shown() {
    let origin = echo();
    let weir = start(&origin, "rate = \"1/h\", key = \"{header.x-api-key} {cookie.s} {header.x-user}\"");
    for _ in 0..2 {
        get(&weir, "/", "X-Api-Key: abcdefghij\r\nCookie: s=1234567\r\nX-User: eve-the-first\r\n");
    }
    let top = &weir.admin_json("/api/limits")[0]["top"];
    assert_eq!(top[0]["key"], "abcd... 1234... eve-the-first");
}

/// A connection of a TCP listener counts as a request: by rate, and at once until it ends.
#[test]
fn connections_of_a_tcp_listener() {
    let origin = echo();
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        "listener.web.protocol = \"tcp\"
         listener.web.limited_by = [\"one\", \"two\"]
         listener.web.lists = \"all\"
         list.all = { action = \"tag\", entries = [\"127.0.0.0/8 here\"] }
         limit.one = { rate = \"5/h\", key = \"{client_address} {tag}\" }
         limit.two.concurrent = 2
         process.workers = 2",
    ));
    let is_served = |client: &mut Client| {
        let sent = client.send_what_is_taken("GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n");
        sent.is_ok() && client.try_response_to("GET").is_ok()
    };
    let refused = |reason: &str| {
        let labels = [&*format!("reason=\"{reason}\"")];
        weir.metrics().all("weir_listener_failures_total", &labels).iter().sum::<f64>()
    };
    let [mut first, mut second] = [0; 2].map(|_| Client::connect(weir.web()));
    assert!(is_served(&mut first) && is_served(&mut second));
    Client::connect(weir.web()).assert_closed();
    eventually("it is counted", || refused("concurrency-limited") == 1.0);
    drop((first, second));
    eventually("a place is free again", || is_served(&mut Client::connect(weir.web())));
    // Those that had no place have given their tokens back.
    eventually("the rate is used up", || {
        let _served = is_served(&mut Client::connect(weir.web()));
        refused("rate-limited") > 0.0
    });
    assert_eq!(weir.admin_json("/api/limits")[0]["top"][0]["key"], "127.0.0.1 here");
    let tunnels = weir.metrics().sum("weir_listener_tunnels_total", &[]);
    assert_eq!(tunnels, 5.0, "as many as the rate allows");
}

/// As many connections as the rate are served; the next is closed without a response, on every kind of listener.
#[test]
fn connections_in_a_time() {
    let origin = echo();
    for protocol in ["http", "tcp"] {
        let keys = format!(
            "listener.web.connections_per_client_rate = \"3/h\"\nlistener.web.protocol = \"{protocol}\"\nprocess.workers = 2"
        );
        let weir = Weir::start(&config_with(&[origin.named("a")], &keys));
        let mut served = [0; 3].map(|_| Client::connect(weir.web()));
        assert!(served.iter_mut().all(|client| client.fetch("/a").status == 200));
        let mut refused = Client::connect(weir.web());
        refused.assert_closed();
        eventually("it is counted", || {
            weir.metrics().all("weir_listener_failures_total", &["reason=\"client-connection-rate\""])
                == [1.0]
        });
        assert_eq!(served[0].fetch("/b").status, 200, "open connections go on");
    }
}

/// Two workers, and requests for the same keys on both: together they pass what the limit says, and no token twice. `LIMIT_KEYS` and
/// `LIMIT_SECONDS` make it larger.
#[test]
fn workers_share_the_rate_of_a_key() {
    const BATCH: usize = 25;
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<usize>().ok());
    let (keys, seconds) = (number("LIMIT_KEYS").unwrap_or(20), number("LIMIT_SECONDS").unwrap_or(2));
    let origin = echo();
    let weir = start(&origin, "rate = \"10/s\", burst = 10, key = \"{path}\"");
    let passed: Vec<AtomicUsize> = (0..keys).map(|_| AtomicUsize::new(0)).collect();
    let began = now();
    let lasts = Duration::from_secs(seconds as u64);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            // So many connections that both workers have some.
            let mut clients = [0; 6].map(|_| Client::connect(weir.web()));
            let passed = &passed;
            scope.spawn(move || {
                let mut next = thread * keys / 4;
                while began.elapsed() < lasts {
                    let batches = [0; 6].map(|_| {
                        next = (next + BATCH) % keys;
                        (0..BATCH).map(|number| (next + number) % keys).collect::<Vec<_>>()
                    });
                    for (client, batch) in clients.iter_mut().zip(&batches) {
                        let requests =
                            batch.iter().map(|key| format!("GET /{key} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
                        client.send(requests.collect::<String>());
                    }
                    for (client, batch) in clients.iter_mut().zip(&batches) {
                        for key in batch {
                            if client.response().status == 200 {
                                passed[*key].fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                }
            });
        }
    });
    let most = 10.0 + 10.0 * began.elapsed().as_secs_f64();
    let least = (10.0 + 10.0 * lasts.as_secs_f64()) * 0.95;
    let passed: Vec<f64> = passed.iter().map(|passed| passed.load(Ordering::Relaxed) as f64).collect();
    let bounds =
        (passed.iter().copied().fold(f64::MAX, f64::min), passed.iter().copied().fold(0.0, f64::max));
    assert!(least.floor() <= bounds.0 && bounds.1 <= most, "{bounds:?} of {least} to {most}");
    let by_worker = weir.metrics().all("weir_worker_exchanges_total", &[]);
    assert!(by_worker.iter().filter(|count| **count > 50.0).count() == 2, "{by_worker:?}");
}
