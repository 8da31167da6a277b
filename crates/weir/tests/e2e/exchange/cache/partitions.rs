//! `cache`: no response crosses the rules of a route, a listener or an upstream, nor what a client has proven, unless routes share it by name.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{get, status};
use crate::harness::{Client, Gate, Origin, Response, Weir, config_with, eventually};

/// Answers with these fields, and `name` with the role of the request and its number as the body.
fn named(name: &'static str, fields: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let body = format!("{name} {} {number}", request.field("x-role").unwrap_or("-"));
            conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()))?;
        }
    })
}

const FRESH: &str = "Cache-Control: max-age=600\r\n";

/// A Weir with these routes, each of which begins with its rules, before one origin.
fn start(origin: &Origin, more: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "admin.socket = \"unix:{{dir}}/weir.sock\"\ncache.pages = {{ memory = \"4MiB\", response_max = \"1MiB\" }}\n{more}"
        ),
    ))
}

/// Routes for everything: one for all, and one with these rules besides.
fn two_routes(rules: &str, cache: &str) -> String {
    format!(
        "listener.web.trusted_proxies = [\"127.0.0.0/8\"]
         listener.web.route = [
           {{ name = \"all\", path = \"/\", upstream = \"app\", cache = {cache} }},
           {{ name = \"some\", path = \"/\", {rules}, upstream = \"app\", cache = {cache} }},
         ]"
    )
}

const RULES: [(&str, &str); 4] = [
    ("header = { x-role = \"admin\" }", "X-Role: admin\r\n"),
    ("source = [\"10.0.0.0/8\"]", "X-Forwarded-For: 10.1.1.1\r\n"),
    ("when = \"header['x-role'] == 'admin'\"", "X-Role: admin\r\n"),
    ("header = { x-role = { regex = \"^(admin|root)$\" } }, method = \"GET\"", "X-Role: root\r\n"),
];

#[test]
fn a_response_stays_behind_the_rules_of_its_route() {
    for (rules, inside) in RULES {
        for inside_first in [true, false] {
            let origin = named("app", FRESH);
            let weir = start(&origin, &two_routes(rules, "\"pages\""));
            let order = if inside_first { [inside, ""] } else { ["", inside] };
            let first = get(&weir, "/", order[0]).text();
            let second = get(&weir, "/", order[1]);
            assert!(status(&second).contains("fwd=uri-miss"), "{rules}: {}", status(&second));
            assert_ne!(first, second.text(), "{rules}");
            // Each has its own, as often as it is asked for.
            for (fields, text) in order.iter().zip([&first, &second.text()]) {
                let hit = get(&weir, "/", fields);
                assert_eq!(hit.text(), **text, "{rules}");
                assert!(status(&hit).starts_with("weir; hit"), "{rules}: {}", status(&hit));
            }
        }
    }
}

#[test]
fn a_listener_and_an_upstream_have_responses_of_their_own() {
    let (app, other) = (named("app", FRESH), named("other", FRESH));
    let weir = start(
        &app,
        &format!(
            "upstream.other.servers = [{}]
             listener.web.route = [{{ path = \"/\", upstream = \"app\", cache = \"pages\" }}]
             listener.second = {{ address = \"127.0.0.1:0\", route = [{{ path = \"/\", upstream = \"other\", cache = \"pages\" }}] }}
             listener.third = {{ address = \"127.0.0.1:0\", route = [{{ path = \"/\", upstream = \"app\", cache = \"pages\" }}] }}",
            other.named("b")
        ),
    );
    let fetch = |listener: &str| {
        Client::exchange(weir.address(listener), "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").text()
    };
    for _ in 0..2 {
        assert_eq!(["web", "second", "third"].map(fetch), ["app - 1", "other - 1", "app - 2"]);
    }
    // A change through one listener is seen in what another has of the same upstream.
    Client::exchange(weir.address("third"), "DELETE / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(["web", "second", "third"].map(fetch), ["app - 4", "other - 1", "app - 5"]);
}

#[test]
fn targets_of_a_split_have_responses_of_their_own() {
    let origin = named("app", "Cache-Control: max-age=1, stale-while-revalidate=600\r\nX-Own: 1\r\n");
    let weir = start(
        &origin,
        &format!(
            "process.workers = 1
             upstream.other.servers = [{}]
             listener.web.route = [{{ path = \"/\", cache = \"pages\", split = [
               {{ upstream = \"app\", weight = 1, request_headers.set = {{ x-role = \"old\" }} }},
               {{ upstream = \"other\", weight = 1, request_headers.set = {{ x-role = \"new\" }} }},
             ] }}]",
            origin.named("b")
        ),
    );
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    eventually("stale responses were refreshed by the way that they came", || {
        let text = get(&weir, "/", "").text();
        let role = text.split(' ').nth(1).expect("a role").to_owned();
        *seen.entry(role).or_default() += 1;
        origin.requests().len() >= 6
    });
    // What is asked in the background has the role of the response that it replaces: both go on.
    let roles: Vec<String> =
        origin.requests().iter().map(|request| request.field("x-role").unwrap_or("-").to_owned()).collect();
    assert!(seen.len() == 2 && roles.iter().all(|role| role != "-"), "{seen:?} {roles:?}");
    for role in ["old", "new"] {
        assert!(roles.iter().filter(|one| *one == role).count() > 1, "{roles:?}");
    }
}

#[test]
fn routes_share_by_name_alone() {
    let origin = named("app", FRESH);
    let shared = "{ name = \"pages\", share = \"all\" }";
    let weir = start(
        &origin,
        &format!(
            "{}\nlistener.second = {{ address = \"127.0.0.1:0\", trusted_proxies = [\"127.0.0.0/8\"], route = [{{ path = \"/\", upstream = \"app\", cache = {shared} }}] }}",
            two_routes(RULES[0].0, shared)
        ),
    );
    let first = get(&weir, "/", RULES[0].1).text();
    let hit = get(&weir, "/", "");
    assert_eq!((hit.text(), origin.requests().len()), (first.clone(), 1));
    let elsewhere = Client::exchange(weir.address("second"), "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(elsewhere.text(), first);
}

#[test]
fn purges_and_changes_reach_all_routes_of_a_key() {
    let origin = named("app", FRESH);
    let weir = start(&origin, &two_routes(RULES[0].0, "\"pages\""));
    let texts = || ["", RULES[0].1].map(|fields| get(&weir, "/n", fields).text());
    assert_eq!(texts(), ["app - 1", "app admin 2"]);
    let purged = weir.run_over_socket(&["ctl", "purge", "pages", "--key", "http://a.test/n"]);
    assert_eq!(purged.stdout, "pages: 2 responses removed\n");
    assert_eq!(texts(), ["app - 3", "app admin 4"]);
    let purged = weir.run_over_socket(&["ctl", "purge", "pages", "--prefix", "http://a.test/"]);
    assert_eq!(purged.stdout, "pages: 2 responses removed\n");
    assert_eq!(texts(), ["app - 5", "app admin 6"]);
    Client::exchange(
        weir.web(),
        "POST /n HTTP/1.1\r\nHost: a.test\r\nX-Role: admin\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(texts(), ["app - 8", "app admin 9"]);
}

#[test]
fn other_rules_after_a_reload_find_nothing_of_those_before() {
    let origin = named("app", FRESH);
    let text = |rules: &str| {
        config_with(
            &[origin.named("a")],
            &format!(
                "cache.pages = {{ memory = \"4MiB\", response_max = \"1MiB\" }}
                 listener.web.route = [{{ name = \"some\", path = \"/\", {rules} upstream = \"app\", cache = \"pages\" }}]"
            ),
        )
    };
    let weir = Weir::start(&text("header = { x-role = \"admin\" },"));
    assert_eq!(get(&weir, "/", "X-Role: admin\r\n").text(), "app admin 1");
    weir.reload(&text(""));
    assert_eq!(get(&weir, "/", "").text(), "app - 2");
    assert_eq!(get(&weir, "/", "X-Role: admin\r\n").text(), "app - 2");
    // Those of before are still there.
    weir.reload(&text("header = { x-role = \"admin\" },"));
    assert_eq!(get(&weir, "/", "X-Role: admin\r\n").text(), "app admin 1");
}

#[test]
fn what_depends_on_a_field_that_weir_writes_is_not_stored() {
    for (field, vary, is_stored) in [
        ("x-seen = \"{client_address}\"", "X-Seen", false),
        ("x-seen = \"{header.x-other}\"", "x-seen", false),
        ("x-seen = \"constant\"", "X-Seen", true),
        ("x-seen = \"{scheme}\"", "X-Seen", true),
        ("x-seen = \"{client_address}\"", "X-Other", true),
        ("x-other = \"1\"", "X-Forwarded-For", false),
    ] {
        let fields = format!("Cache-Control: max-age=600\r\nVary: {vary}\r\n");
        let origin = named("app", Box::leak(fields.into_boxed_str()));
        let weir = start(
            &origin,
            &format!(
                "listener.web.route = [{{ path = \"/\", upstream = \"app\", cache = \"pages\", request_headers.set = {{ {field} }} }}]"
            ),
        );
        get(&weir, "/", "");
        let second = get(&weir, "/", "").text();
        assert_eq!(second == "app - 1", is_stored, "{field} {vary}: {second}");
    }
}

#[test]
fn a_path_that_the_server_gets_in_another_form_is_not_that_of_the_key() {
    let origin = named("app", FRESH);
    let weir = start(
        &origin,
        "listener.web.paths.forward = \"as-received\"
         listener.web.route = [{ path = \"/\", upstream = \"app\", cache = \"pages\" }]",
    );
    let odd = get(&weir, "/a/..//b", "");
    assert!(status(&odd).contains("fwd=bypass"), "{}", status(&odd));
    assert_eq!(origin.targets(), ["/a/..//b"]);
    assert_eq!(get(&weir, "/b", "").text(), "app - 2");
    assert_eq!(get(&weir, "/b", "").text(), "app - 2");
}

/// What a trusted proxy says of its clients is said to the server, and a client cannot say it.
#[test]
fn what_a_proxy_says_of_the_scheme_has_responses_of_its_own() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let body = format!("{} {number}", request.field("x-forwarded-proto").unwrap_or("-"));
            conn.send(format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {}\r\n\r\n{body}", body.len()))?;
        }
    });
    for (trusted, expected) in [
        (true, ["http 1", "http 2", "https 3", "https 3", "http 2"]),
        (false, ["http 4", "http 4", "http 4", "http 4", "http 4"]),
    ] {
        let peers = if trusted { "127.0.0.0/8" } else { "192.0.2.0/24" };
        let weir = start(
            &origin,
            &format!(
                "listener.web.trusted_proxies = [\"{peers}\"]
                 listener.web.route = [{{ path = \"/\", upstream = \"app\", cache = \"pages\" }}]"
            ),
        );
        let said = [
            "",
            "X-Forwarded-Proto: http\r\n",
            "X-Forwarded-Proto: https\r\n",
            "X-Forwarded-Proto: HTTPS\r\n",
            "X-Forwarded-Proto: http\r\n",
        ];
        assert_eq!(said.map(|fields| get(&weir, "/", fields).text()), expected);
    }
}

/// A server that lets every request pass with a cookie, and is told of the user by it.
fn judge() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let user = request.field("cookie").and_then(|cookie| cookie.strip_prefix("user="));
            conn.send(match user {
                Some(user) => format!("HTTP/1.1 200 OK\r\nX-Role: {user}\r\nContent-Length: 0\r\n\r\n"),
                None => "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
            })?;
        }
    })
}

fn behind_judge(origin: &Origin, judge: &Origin, keys: &str) -> Weir {
    start(
        origin,
        &format!(
            "upstream.auth.servers = [{}]
             listener.web.route = [{{ path = \"/\", upstream = \"app\", cache = {{ name = \"pages\" {keys} }}, forward_auth = {{ upstream = \"auth\", response_headers = [\"x-role\"] }} }}]",
            judge.entry()
        ),
    )
}

fn as_user(weir: &Weir, user: &str) -> Response {
    get(weir, "/", &format!("Cookie: user={user}\r\n"))
}

#[test]
fn what_a_user_gets_who_was_let_in_is_for_that_user() {
    let ttl = ", ttl = [{ status = 200, time = \"1h\" }]";
    let overrides = ", override_ttl = true, ttl = [{ status = 200, time = \"1h\" }]";
    for (fields, keys, is_shared) in [
        (FRESH, "", false),
        ("", ttl, false),
        ("Cache-Control: public\r\n", overrides, false),
        ("ETag: \"a\"\r\n", "", false),
        ("Cache-Control: public, max-age=600\r\n", "", true),
        ("Cache-Control: s-maxage=600\r\n", "", true),
        ("Cache-Control: public, max-age=600\r\nVary: X-Role\r\n", "", false),
    ] {
        let (origin, judge) = (named("app", fields), judge());
        let weir = behind_judge(&origin, &judge, keys);
        assert_eq!(as_user(&weir, "ann").text(), "app ann 1", "{fields}{keys}");
        let second = as_user(&weir, "bob");
        let expected = if is_shared { "app ann 1" } else { "app bob 2" };
        assert_eq!(second.text(), expected, "{fields}{keys}");
        if keys == ttl {
            assert!(status(&second).contains("not-stored-before"), "{}", status(&second));
        }
        // Who is not let in has no part in it.
        assert_eq!(get(&weir, "/", "").status, 401);
    }
}

#[test]
fn a_user_who_waits_for_another_gets_a_response_of_its_own() {
    let gate = Gate::new();
    let (opening, judge) = (gate.clone(), judge());
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let user = request.field("x-role").unwrap_or("-").to_owned();
            if user == "ann" {
                gate.wait("both were let in");
            }
            conn.send(format!("HTTP/1.1 200 OK\r\n{FRESH}Content-Length: {}\r\n\r\n{user}", user.len()))?;
        }
    });
    let weir = behind_judge(&origin, &judge, "");
    let mut ann = Client::connect(weir.web());
    ann.send("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: user=ann\r\n\r\n");
    origin.wait_for_requests(1);
    let mut bob = Client::connect(weir.web());
    bob.send("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: user=bob\r\n\r\n");
    eventually("both were let in", || judge.requests().len() == 2);
    opening.open();
    assert_eq!((ann.response().text(), bob.response().text()), ("ann".to_owned(), "bob".to_owned()));
}

#[test]
fn a_coding_that_a_client_does_not_accept_is_no_answer_to_others() {
    for fields in ["Vary: Accept-Encoding\r\n", ""] {
        let count = AtomicUsize::new(0);
        let origin = Origin::start(move |conn| {
            loop {
                let request = conn.request()?;
                let accepts = request.field("accept-encoding").unwrap_or_default().to_owned();
                let number = count.fetch_add(1, Ordering::Relaxed) + 1;
                // A word in the field is enough for this server.
                let coding = if accepts.contains("gzip") { "Content-Encoding: gzip\r\n" } else { "" };
                conn.send(format!(
                    "HTTP/1.1 200 OK\r\n{FRESH}{fields}{coding}Content-Length: 1\r\n\r\n{number}"
                ))?;
            }
        });
        let weir =
            start(&origin, "listener.web.route = [{ path = \"/\", upstream = \"app\", cache = \"pages\" }]");
        let fetch = |accepts: &str| {
            let response = get(&weir, "/", &format!("Accept-Encoding: {accepts}\r\n"));
            (response.text(), response.field("content-encoding").map(str::to_owned))
        };
        let gzip = Some("gzip".to_owned());
        let refused = get(&weir, "/", "Accept-Encoding: gzip;q=0\r\n");
        assert!(status(&refused).contains("coding-not-accepted"), "{}", status(&refused));
        assert_eq!(fetch("identity"), ("2".to_owned(), None), "{fields}");
        assert_eq!(fetch("identity"), ("2".to_owned(), None), "{fields}");
        if !fields.is_empty() {
            assert_eq!(fetch("gzip"), ("3".to_owned(), gzip.clone()));
            assert_eq!(fetch("gzip"), ("3".to_owned(), gzip));
            assert_eq!(fetch("br"), ("4".to_owned(), None));
        }
    }
}

#[test]
fn a_coded_response_without_vary_is_for_those_who_can_decode_it() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let coding = request.field("accept-encoding").map_or("", |_| "Content-Encoding: gzip\r\n");
            conn.send(format!("HTTP/1.1 200 OK\r\n{FRESH}{coding}Content-Length: 1\r\n\r\n{number}"))?;
        }
    });
    let weir =
        start(&origin, "listener.web.route = [{ path = \"/\", upstream = \"app\", cache = \"pages\" }]");
    assert_eq!(get(&weir, "/", "Accept-Encoding: gzip\r\n").text(), "1");
    assert_eq!(get(&weir, "/", "Accept-Encoding: gzip\r\n").text(), "1");
    let plain = get(&weir, "/", "");
    assert_eq!((plain.text(), plain.field("content-encoding")), ("2".to_owned(), None));
}
