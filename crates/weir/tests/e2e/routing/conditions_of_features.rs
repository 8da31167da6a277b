//! `when` beside routes: header rules, lists, limits, the cache, mirrors, error pages, retries and the access log, over both versions of HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::http2::H2C;
use crate::harness::origin::ok;
use crate::harness::scripts::echo;
use crate::harness::{
    Client, Http2Client, Origin, Response, Weir, WrittenConfig, config_with, eventually, run,
};

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// The value of a field of the response over HTTP/1 and over HTTP/2, which are the same; `-` without one.
fn field_over_both(weir: &Weir, target: &str, fields: &[(&str, &str)], name: &str) -> String {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let first = get(weir, target, &lines).field(name).unwrap_or("-").to_owned();
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get_with(target, fields);
    let second = client.response(stream).field(name).unwrap_or("-").to_owned();
    assert_eq!(first, second, "{target} {fields:?}");
    first
}

/// Answers with the status that the path names, and a field `X-Own`.
fn statuses() -> Origin {
    Origin::start(|conn| {
        loop {
            let status = conn.request()?.target()[1..4].to_owned();
            conn.send(format!(
                "HTTP/1.1 {status} x\r\nX-Own: 1\r\nX-Kind: {status}\r\nContent-Length: 0\r\n\r\n"
            ))?;
        }
    })
}

#[test]
fn header_rules_by_condition_status_and_origin() {
    let origin = statuses();
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}[[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             response_headers = [
               {{ set = {{ x-all = \"{{status}}\" }} }},
               {{ status = \"success\", set = {{ x-success = \"1\" }} }},
               {{ status = [404, \"5xx\"], set = {{ x-failed = \"1\" }} }},
               {{ from = \"weir\", set = {{ x-from = \"weir\" }} }},
               {{ from = [\"server\", \"cache\"], set = {{ x-from = \"{{server}}\" }} }},
               {{ when = 'header[\"x-a\"] == \"1\" && response.header[\"x-kind\"] != \"\"', remove = [\"x-own\"], set = {{ x-all = \"a\" }} }},
               {{ when = 'response.status == 404', add = {{ x-all = \"more\" }} }},
             ]
             [[listener.web.route]]
             path = \"/own\"
             respond = {{ status = 201 }}
             response_headers = {{ from = \"weir\", status = \"2xx\", set = {{ x-from = \"weir\" }} }}"
        ),
    ));
    for (target, fields, name, expected) in [
        ("/200", &[][..], "x-all", "200"),
        ("/200", &[("x-a", "1")], "x-all", "a"),
        ("/200", &[("x-a", "2")], "x-all", "200"),
        ("/200", &[], "x-own", "1"),
        ("/200", &[("x-a", "1")], "x-own", "-"),
        ("/200", &[], "x-success", "1"),
        ("/304", &[], "x-success", "1"),
        ("/202", &[], "x-success", "-"),
        ("/500", &[], "x-success", "-"),
        ("/200", &[], "x-failed", "-"),
        ("/404", &[], "x-failed", "1"),
        ("/503", &[], "x-failed", "1"),
        ("/200", &[], "x-from", "a"),
        ("/own", &[], "x-from", "weir"),
    ] {
        assert_eq!(field_over_both(&weir, target, fields, name), expected, "{target} {fields:?} {name}");
    }
    let both = get(&weir, "/404", "");
    assert_eq!(both.fields().all("x-all"), ["404", "more"]);
}

#[test]
fn freshness_never_goes_to_failures_unless_asked_for() {
    let origin = statuses();
    for (rule, on_success, on_failure) in [
        ("{ set = { cache-control = \"max-age=60\" } }", "max-age=60", "-"),
        ("{ status = \"always\", set = { cache-control = \"max-age=60\" } }", "max-age=60", "max-age=60"),
        ("{ status = \"4xx\", set = { cache-control = \"max-age=60\" } }", "-", "max-age=60"),
        ("{ set = { cache-control = \"no-store\" } }", "no-store", "no-store"),
        ("{ add = { cache-control = \"public\" } }", "public", "-"),
    ] {
        let weir = Weir::start(&config_with(
            &[origin.named("a")],
            &format!(
                "{H2C}listener.web.route = [{{ path = \"/\", upstream = \"app\", response_headers = {rule} }}]"
            ),
        ));
        let cache_control = |target| field_over_both(&weir, target, &[], "cache-control");
        assert_eq!(cache_control("/200"), on_success, "{rule}");
        assert_eq!(cache_control("/404"), on_failure, "{rule}");
    }
}

#[test]
fn request_header_rules_by_condition() {
    let origin = echo();
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}[[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             request_headers = [
               {{ set = {{ x-kind = \"plain\" }} }},
               {{ when = 'header[\"x-beta\"] == \"1\"', set = {{ x-kind = \"beta\" }}, remove = [\"x-secret\"] }},
               {{ when = 'server == \"a\" && method == \"GET\"', add = {{ x-server = \"{{server}}\" }} }},
             ]"
        ),
    ));
    let sent = |fields: &str| {
        assert_eq!(get(&weir, "/", fields).status, 200);
        let request = origin.last_request();
        ["x-kind", "x-secret", "x-server"].map(|name| request.field(name).unwrap_or("-").to_owned())
    };
    assert_eq!(sent("X-Secret: s\r\n"), ["plain", "s", "a"]);
    assert_eq!(sent("X-Secret: s\r\nX-Beta: 1\r\n"), ["beta", "-", "a"]);
    // A server may take it for the same name.
    assert_eq!(sent("X.Secret: s\r\nX-Beta: 1\r\n")[1], "-");
    assert!(origin.last_request().field("x.secret").is_none());
}

#[test]
fn lists_and_limits_by_condition() {
    let origin = echo();
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}
             list.bots = {{ action = \"deny\", when = 'header[\"user-agent\"].contains(\"bot\")' }}
             list.local = {{ action = \"deny\", entries = [\"127.0.0.0/8\"], when = 'path.startsWith(\"/admin\")', status = 404 }}
             list.friends = {{ action = \"allow\", when = 'header[\"x-friend\"] == \"1\"' }}
             limit.writes = {{ key = \"all\", rate = \"1/h\", when = 'method != \"GET\" || content_length > 10' }}
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             lists = [\"friends\", \"bots\", \"local\"]
             limited_by = \"writes\""
        ),
    ));
    let status = |method: &str, target: &str, fields: &str| {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
        Client::exchange(weir.web(), &request).status
    };
    for (target, fields, expected) in [
        ("/", "", 200),
        ("/", "User-Agent: a bot\r\n", 403),
        ("/", "User-Agent: a bot\r\nX-Friend: 1\r\n", 200),
        ("/admin", "", 404),
    ] {
        assert_eq!(status("GET", target, fields), expected, "{target} {fields}");
    }
    let writes: Vec<u16> = (0..3).map(|_| status("DELETE", "/", "")).collect();
    assert_eq!(writes, [200, 429, 429]);
    assert_eq!([status("GET", "/", ""), status("GET", "/", "")], [200, 200]);
    let announced = "Content-Length: 11\r\n\r\n0123456789a";
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{announced}");
    let mut client = Client::connect(weir.web());
    client.send(&request);
    assert_eq!(client.response().status, 429);
}

/// Answers with the number of the request.
fn counting() -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |conn| {
        loop {
            let kind = conn.request()?.field("x-kind").unwrap_or("-").to_owned();
            let body = format!("{kind}{}", count.fetch_add(1, Ordering::Relaxed) + 1);
            let length = body.len();
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {length}\r\n\r\n{body}"
            ))?;
        }
    })
}

fn caching(origin: &Origin, keys: &str, route: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}cache.pages.memory = \"4MiB\"
             cache.pages.response_max = \"1MiB\"
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             cache = {{ name = \"pages\" {keys} }}
             {route}"
        ),
    ))
}

#[test]
fn the_cache_by_condition() {
    let origin = counting();
    let weir = caching(&origin, ", when = '!has(cookie.session)'", "");
    let texts = |fields: &[&str]| fields.iter().map(|one| get(&weir, "/", one).text()).collect::<Vec<_>>();
    assert_eq!(
        texts(&["", "", "Cookie: session=1\r\n", "Cookie: session=1\r\n", ""]),
        ["-1", "-1", "-2", "-3", "-1"]
    );

    let weir = caching(&origin, ", refresh_when = 'header[\"x-refresh\"] == \"1\"'", "");
    let texts = |fields: &[&str]| fields.iter().map(|one| get(&weir, "/", one).text()).collect::<Vec<_>>();
    assert_eq!(texts(&["", "", "X-Refresh: 1\r\n", ""]), ["-4", "-4", "-5", "-5"]);

    let weir = caching(&origin, ", store_when = 'status == 200 && header[\"x-a\"] == \"\"'", "");
    let texts = |fields: &[&str]| fields.iter().map(|one| get(&weir, "/", one).text()).collect::<Vec<_>>();
    assert_eq!(texts(&["X-A: 1\r\n", "X-A: 1\r\n", "", "", "X-A: 1\r\n"]), ["-6", "-7", "-8", "-8", "-8"]);
}

/// What a rule changes in a request makes another response: none of them is used for a request that the rule does not change.
#[test]
fn responses_to_requests_that_rules_change_are_kept_apart() {
    let origin = counting();
    let rules = "request_headers = [
         { when = 'header[\"x-beta\"] == \"1\"', set = { x-kind = \"beta\" } },
         { when = 'cookie.team == \"x\"', set = { x-kind = \"team\" } },
         { when = 'server == \"a\"', set = { x-server = \"a\" } },
       ]
       response_headers = { when = 'header[\"x-beta\"] == \"1\"', set = { x-shown = \"beta\" } }";
    let weir = caching(&origin, "", rules);
    let shown = |fields: &str| {
        let response = get(&weir, "/", fields);
        format!("{} {}", response.text(), response.field("x-shown").unwrap_or("-"))
    };
    let asked = ["", "X-Beta: 1\r\n", "Cookie: team=x\r\n", "X-Beta: 1\r\nCookie: team=x\r\n"];
    let first: Vec<String> = asked.iter().map(|fields| shown(fields)).collect();
    assert_eq!(first, ["-1 -", "beta2 beta", "team3 -", "team4 beta"]);
    let second: Vec<String> = asked.iter().map(|fields| shown(fields)).collect();
    assert_eq!(first, second, "each has its own");
    assert_eq!(origin.requests().len(), 4);
    // What changes the URL is seen by all of them.
    let request = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(Client::exchange(weir.web(), request).status, 200);
    let third: Vec<String> = asked.iter().map(|fields| shown(fields)).collect();
    assert_eq!(third, ["-6 -", "beta7 beta", "team8 -", "team9 beta"]);
}

#[test]
fn mirrors_error_pages_and_retries_by_condition() {
    let origin = echo();
    let mirror = echo();
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}upstream.new.servers = [{}]
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             mirror = {{ upstream = \"new\", when = 'query.copy == \"1\"' }}",
            mirror.entry()
        ),
    ));
    assert_eq!(get(&weir, "/a", "").status, 200);
    assert_eq!(get(&weir, "/b?copy=1", "").status, 200);
    mirror.wait_for_requests(1);
    assert_eq!(mirror.targets(), ["/b?copy=1"]);
}

#[test]
fn error_pages_by_condition() {
    let folder = crate::harness::temporary_folder();
    std::fs::write(folder.path().join("a.html"), "page a").expect("the folder is writable");
    std::fs::write(folder.path().join("b.html"), "page b").expect("the folder is writable");
    let origin = statuses();
    let text = config_with(
        &[origin.named("a")],
        "[[listener.web.route]]
         path = \"/\"
         upstream = \"app\"
         error_pages = [
           { status = [404, \"5xx\"], of_servers = true, when = 'header.x == \"a\" && response.header[\"x-kind\"] == \"404\"', html = \"a.html\" },
           { status = [404, \"5xx\"], of_servers = true, when = 'response.status == 503 || path.startsWith(\"/404/b\")', html = \"b.html\" },
         ]
         [[listener.web.route]]
         path = \"/own\"
         respond = { status = 410 }
         error_pages = [{ status = 410, when = 'header.x == \"a\"', html = \"a.html\" }]",
    );
    let weir = Weir::start_in(folder, &text);
    let page =
        |target: &str, fields: &str| get(&weir, target, &format!("Accept: text/html\r\n{fields}")).text();
    for (target, fields, expected) in [
        ("/404", "X: a\r\n", "page a"),
        ("/404", "X: b\r\n", ""),
        ("/404/b", "X: b\r\n", "page b"),
        ("/503", "", "page b"),
        ("/500", "X: a\r\n", ""),
        ("/own", "X: a\r\n", "page a"),
        ("/own", "", ""),
    ] {
        assert_eq!(page(target, fields), expected, "{target} {fields}");
    }
}

#[test]
fn retries_by_condition() {
    let failed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failed);
    let bad = Origin::start(move |conn| {
        loop {
            conn.request()?;
            counted.fetch_add(1, Ordering::SeqCst);
            conn.send("HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n")?;
        }
    });
    let good = Origin::answering(ok("fine"));
    let weir = Weir::start(&config_with(
        &[bad.named("a"), format!("{{ name = \"b\", address = \"{}\", backup = true }}", good.address())],
        "upstream.app.retry = { on_status = [503], budget_per_second = 100, when = 'header[\"x-once\"] == \"\"' }",
    ));
    assert_eq!(get(&weir, "/", "").status, 200);
    assert_eq!(get(&weir, "/", "X-Once: 1\r\n").status, 503);
    assert_eq!(failed.load(Ordering::SeqCst), 2);
}

#[test]
fn the_access_log_by_condition() {
    let origin = statuses();
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}access_log.format = \"{{target}} {{status}} {{content_length}}\"
             access_log.output = \"file:{{dir}}/access.log\"
             access_log.when = 'status >= 400 || response.header[\"x-kind\"] == \"203\" || content_length > 3'"
        ),
    ));
    for target in ["/200/a", "/203/b", "/404/c", "/200/d"] {
        get(&weir, target, "");
    }
    let mut client = Client::connect(weir.web());
    client.send("GET /200/e HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nabcd");
    assert_eq!(client.response().status, 200);
    // A head that cannot be read has its line, whatever the condition.
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n bad\r\n\r\n");
    assert_eq!(client.response().status, 400);
    let lines = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    eventually("the log has a line of each", || lines().lines().count() >= 4);
    let whole = lines();
    let mut shown: Vec<&str> = whole.lines().collect();
    shown.sort_unstable();
    assert_eq!(shown, ["- 400 -", "/200/e 200 4", "/203/b 203 -", "/404/c 404 -"]);
}

#[test]
fn servers_that_can_be_used_are_counted() {
    let origin = Origin::serving("up");
    let spare = Origin::serving("spare");
    let weir = Weir::start(&config_with(
        &[format!("{{ name = \"a\", address = \"{}\", mode = \"maintenance\" }}", origin.address())],
        &format!(
            "upstream.spare-servers.servers = [\"{}\"]
             listener.web.route = [
               {{ path = \"/\", when = 'upstream.app.usable == 0 && upstream[\"spare-servers\"].usable == 1', upstream = \"spare-servers\" }},
             ]",
            spare.address()
        ),
    ));
    assert_eq!(get(&weir, "/", "").text(), "spare");
}

#[test]
fn explain_shows_what_each_condition_comes_to() {
    let origin = echo();
    let file = WrittenConfig::new(&config_with(
        &[origin.named("a")],
        "list.bots = { action = \"deny\", when = 'header[\"user-agent\"].contains(\"bot\")' }
         [[listener.web.route]]
         path = \"/\"
         upstream = \"app\"
         lists = \"bots\"
         request_headers = { when = 'client_address in [\"10.0.0.0/8\"]', set = { x-a = \"1\" } }
         response_headers = { when = 'path == \"/a\" && status == 404', set = { x-b = \"1\" } }
         expires = [{ time = \"1h\", when = 'cookie.session == \"\"' }]",
    ));
    let explained = |format: &str| {
        let arguments =
            ["explain", file.path(), "http://a.test/a", "--from", "10.1.2.3", "-H", "User-Agent: a bot"];
        let done = run(&[&arguments[..], &["--format", format]].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout
    };
    let text = explained("text");
    for line in [
        "list bots: holds: `header[\"user-agent\"].contains(\"bot\")` is true (header.user-agent is \"a bot\")",
        "request header x-a: 1: holds: `client_address in [\"10.0.0.0/8\"]` is true (client_address is \"10.1.2.3\")",
        "expires 1h: holds: `cookie.session == \"\"` is true (there is no cookie.session)",
        "response header x-b: 1: depends on `status`; `path == \"/a\"` is true (path is \"/a\")",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(explained("json").contains("\"conditions\""), "{text}");
}
