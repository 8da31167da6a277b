//! `rewrite`, `then` and `internal`: what later stages see, which route's rules count, circles, redirects; over both versions of HTTP.

use crate::harness::http2::H2C;
use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Response, Weir, WrittenConfig, config_with, run};

/// A password of `ann`, as `users` has it; the hash of `secret`.
const BASIC: &str =
    r#"basic = { users = { ann = "$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm" } }"#;

fn start(origin: &Origin, settings: &str) -> Weir {
    Weir::start(&config_with(&[origin.named("a")], &format!("{H2C}{settings}")))
}

/// What a client of each version gets: status, `Location` and reason.
fn both(weir: &Weir, method: &str, target: &str, fields: &[(&str, &str)]) -> (u16, String, String) {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let first: Response =
        Client::exchange(weir.web(), &format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
    let mut client = Http2Client::connect(weir.web());
    let fields = [client.request(method, target), fields.to_vec()].concat();
    let stream = client.open(&fields, true);
    let second = client.response(stream);
    assert_eq!(first.status, second.status, "{target}");
    // The page of a failure has the id of its request.
    assert!(first.status >= 400 || first.text() == second.text(), "{target}");
    assert_eq!(first.field("location"), second.field("location"), "{target}");
    (
        first.status,
        first.field("location").unwrap_or_default().to_owned(),
        first.reason().unwrap_or_default().to_owned(),
    )
}

const REWRITES: &str = r#"
[[listener.web.route]]
path = "/last"
rewrite = [{ pattern = '^/last/(.*)$', replacement = "/api/$1", flag = "last" }]
respond.status = 299
[[listener.web.route]]
path = "/break"
rewrite = [
  { pattern = '^/break/a/(?<rest>.*)$', replacement = "/b/$rest", flag = "break" },
  { pattern = '^/', replacement = "/never" , flag = "break"},
]
upstream = "app"
[[listener.web.route]]
path = "/chain"
rewrite = [
  { pattern = '^/chain/(.*)$', replacement = "/one/$1" },
  { pattern = '^/one/(.*)$', replacement = "/two/$1?a=1" },
  { pattern = '^/nothing$', replacement = "/x" },
]
respond.status = 299
[[listener.web.route]]
path = "/drop"
rewrite = [{ pattern = '^/drop$', replacement = "/api?own={method}?", flag = "last" }]
respond.status = 299
[[listener.web.route]]
path = "/redirect"
rewrite = [
  { pattern = '^/redirect/local(.*)$', replacement = "$1", flag = "redirect" },
  { pattern = '^/redirect/go/(.*)$', replacement = "$1", flag = "redirect" },
  { pattern = '^/redirect/url/(.*)$', replacement = "https://{host}:8443/$1", flag = "permanent" },
]
respond.status = 299
[[listener.web.route]]
path = "/two"
upstream = "app"
strip_prefix = true
[[listener.web.route]]
path = "/api"
upstream = "app"
request_headers.set = { x-path = "{path}", x-target = "{target}", x-args = "{args}", x-port = "{port}" }
"#;

#[test]
fn a_rewrite_changes_what_all_later_stages_see() {
    let origin = echo();
    let weir = start(&origin, REWRITES);
    let sent = |target: &str| {
        both(&weir, "GET", target, &[]);
        let requests = origin.requests();
        let [.., first, second] = &requests[..] else { panic!("two requests") };
        assert_eq!(first.target(), second.target(), "{target}");
        second.clone()
    };
    let request = sent("/last/users?x=1");
    assert_eq!(request.target(), "/api/users?x=1");
    assert_eq!(request.field("x-path"), Some("/api/users"));
    assert_eq!(request.field("x-target"), Some("/last/users?x=1"));
    assert_eq!((request.field("x-args"), request.field("x-port")), (Some("x=1"), Some("80")));
    for (target, expected) in [
        ("/break/a/c%20d", "/b/c%20d"),
        ("/break/x", "/never"),
        ("/chain/y", "/y?a=1"),
        ("/chain/y?b", "/y?a=1&b"),
        ("/drop?gone", "/api?own=GET"),
        // The normal form of what has come out.
        ("/last/../last/a/%2e%2e/b", "/api/b"),
        ("/last/%2e%2e%2fx", "/api/..%2Fx"),
    ] {
        assert_eq!(sent(target).target(), expected, "{target}");
    }
    // A pattern that does not match leaves the request on its route.
    assert_eq!(both(&weir, "GET", "/last", &[]).0, 299);
}

#[test]
fn redirects_are_relative_or_to_a_host_and_never_to_another_one() {
    let origin = echo();
    let weir = start(&origin, REWRITES);
    for (target, status, location) in [
        ("/redirect/local/x", 302, "/x"),
        ("/redirect/local/x?a=b", 302, "/x?a=b"),
        ("/redirect/local/%0d%0aSet-Cookie:%20a", 302, "/%0D%0ASet-Cookie:%20a"),
        ("/redirect/local//evil.test", 302, "/evil.test"),
        ("/redirect/local/%5cevil.test", 302, "/%5Cevil.test"),
        ("/redirect/localx", 302, "/x"),
        ("/redirect/go/http://evil.test/", 302, "/http:/evil.test/"),
        ("/redirect/go/https://evil.test/?a=b", 302, "/https:/evil.test/?a=b"),
        ("/redirect/go/HTTP://evil.test/", 302, "/HTTP:/evil.test/"),
        ("/redirect/url/a?b", 301, "https://a.test:8443/a?b"),
    ] {
        assert_eq!(both(&weir, "GET", target, &[]), (status, location.to_owned(), String::new()), "{target}");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn circles_end_after_ten_rounds() {
    let origin = echo();
    let weir = start(
        &origin,
        r#"
[[listener.web.route]]
path = "/a"
rewrite = [{ pattern = '^/a(.*)$', replacement = "/b$1", flag = "last" }]
upstream = "app"
[[listener.web.route]]
path = "/b"
rewrite = [{ pattern = '^/b(.*)$', replacement = "/a$1" }]
upstream = "app"
[[listener.web.route]]
path = "/ten"
rewrite = [{ pattern = '^/ten/(x*)x$', replacement = "/ten/$1", flag = "last" }]
upstream = "app"
"#,
    );
    for target in ["/a", "/b/x", "/ten/xxxxxxxxxxx"] {
        let (status, _, reason) = both(&weir, "GET", target, &[]);
        assert_eq!((status, reason.as_str()), (500, "too-many-reroutings"), "{target}");
    }
    assert_eq!(both(&weir, "GET", "/ten/xxxxxxxxxx", &[]).0, 200);
    assert_eq!(origin.last_request().target(), "/ten/");
}

#[test]
fn the_rules_of_the_route_that_is_finally_taken_count() {
    let origin = echo();
    let settings = format!(
        r#"
list.none = {{ action = "deny", entries = ["127.0.0.0/8"] }}
limit.few = {{ rate = "1/h", burst = 1 }}
[[listener.web.route]]
path = "/to-basic"
rewrite = [{{ pattern = '.*', replacement = "/basic", flag = "last" }}]
upstream = "app"
[[listener.web.route]]
path = "/basic"
{BASIC}
upstream = "app"
[[listener.web.route]]
path = "/to-list"
then = "denied"
[[listener.web.route]]
name = "denied"
internal = true
lists = "none"
upstream = "app"
[[listener.web.route]]
path = "/break-in-basic"
rewrite = [{{ pattern = '.*', replacement = "/open", flag = "break" }}]
{BASIC}
upstream = "app"
[[listener.web.route]]
path = "/redirect-in-basic"
rewrite = [{{ pattern = '.*', replacement = "/secret", flag = "redirect" }}]
{BASIC}
upstream = "app"
[[listener.web.route]]
path = "/open"
upstream = "app"
[[listener.web.route]]
path = "/to-limit"
rewrite = [{{ pattern = '.*', replacement = "/limited", flag = "last" }}]
upstream = "app"
[[listener.web.route]]
path = "/limited"
limited_by = "few"
respond = {{}}
"#
    );
    let weir = start(&origin, &settings);
    let good = [("authorization", "Basic YW5uOnNlY3JldA==")];
    for (target, fields, status) in [
        ("/to-basic", &[][..], 401),
        ("/basic", &[], 401),
        ("/to-list", &[], 403),
        ("/to-list", &good, 403),
        ("/break-in-basic", &[], 401),
        ("/redirect-in-basic", &[], 401),
        ("/open", &[], 200),
    ] {
        assert_eq!(both(&weir, "GET", target, fields).0, status, "{target}");
    }
    let get = |target: &str| {
        Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).status
    };
    assert_eq!((get("/to-limit"), get("/to-limit"), get("/limited")), (200, 429, 429));
}

const INTERNAL: &str = r#"
[[listener.web.route]]
path = "/internal"
internal = true
upstream = "app"
request_headers.set.x-route = "{route}"
[[listener.web.route]]
name = "named"
internal = true
upstream = "app"
request_headers.set.x-route = "{route}"
[[listener.web.route]]
path = "/in"
rewrite = [{ pattern = '^/in(/.*)$', replacement = "/internal$1", flag = "last" }]
respond.status = 299
[[listener.web.route]]
path = "/then"
method = ["GET", "POST"]
then = "named"
[[listener.web.route]]
path = "/twice"
then = "once"
[[listener.web.route]]
name = "once"
path = "/once"
then = "named"
"#;

#[test]
fn internal_routes_are_for_requests_from_inside() {
    let origin = echo();
    let weir = start(&origin, INTERNAL);
    for target in ["/internal", "/internal/x", "//internal/./x", "/%69nternal"] {
        let (status, _, reason) = both(&weir, "GET", target, &[]);
        assert_eq!((status, reason.as_str()), (404, "internal-route"), "{target}");
    }
    assert_eq!(origin.connections(), 0);
    for (target, route, sent) in [
        ("/in/x", "/internal", "/internal/x"),
        ("/then/y?z", "named", "/then/y?z"),
        ("/twice", "named", "/twice"),
        ("/once/a", "named", "/once/a"),
    ] {
        assert_eq!(both(&weir, "GET", target, &[]).0, 200, "{target}");
        let request = origin.last_request();
        assert_eq!((request.field("x-route"), request.target()), (Some(route), sent), "{target}");
    }
    // What nothing else takes goes to the upstream of the listener, not to the internal route without a path.
    assert_eq!(both(&weir, "GET", "/other", &[]).0, 200);
    assert_eq!(origin.last_request().field("x-route"), None);
    // The body goes where the request goes.
    let response =
        Client::exchange(weir.web(), "POST /then HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((response.status, origin.last_request().text().as_str()), (200, "hello"));
    weir.reload(&config_with(
        &[origin.named("a")],
        &format!("{H2C}{}", INTERNAL.replace("internal = true\n", ""))
            .replace("name = \"named\"", "name = \"named\"\npath = \"/named\""),
    ));
    assert_eq!(both(&weir, "GET", "/internal/x", &[]).0, 200);
}

#[test]
fn rewrites_of_the_listener_come_before_routes() {
    let origin = echo();
    let weir = start(
        &origin,
        r#"
listener.web.rewrite = [
  { pattern = '^/secure/(.*)$', replacement = "https://{host}/$1", flag = "permanent" },
  { pattern = '^/v1/(.*)$', replacement = "/v2/$1", flag = "last" },
  { pattern = '^/v2/old/(.*)$', replacement = "/v2/new/$1" },
]
[[listener.web.route]]
path = "/v2"
upstream = "app"
[[listener.web.route]]
path = "/v2/internal"
internal = true
upstream = "app"
"#,
    );
    for (target, sent) in [("/v1/old/x", "/v2/old/x"), ("/v2/old/x?y", "/v2/new/x?y"), ("/v3", "/v3")] {
        assert_eq!(both(&weir, "GET", target, &[]).0, 200);
        assert_eq!(origin.last_request().target(), sent, "{target}");
    }
    // The rewrite of a listener is no way into internal routes.
    assert_eq!(both(&weir, "GET", "/v1/internal", &[]).0, 404);
    assert_eq!(both(&weir, "GET", "/secure/x", &[]), (301, "https://a.test/x".to_owned(), String::new()));
}

#[test]
fn a_cache_stores_by_what_a_rewrite_has_made() {
    let origin =
        Origin::answering("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok");
    let weir = start(
        &origin,
        r#"
cache.pages = {}
[[listener.web.route]]
path = "/old"
rewrite = [{ pattern = '^/old/(.*)$', replacement = "/new/$1", flag = "last" }]
respond.status = 299
[[listener.web.route]]
path = "/new"
cache = "pages"
upstream = "app"
"#,
    );
    for target in ["/old/a?x=1", "/new/a?x=1", "/old/a?x=1", "/new/a?x=2"] {
        assert_eq!(both(&weir, "GET", target, &[]).0, 200);
    }
    assert_eq!(origin.targets(), ["/new/a?x=1", "/new/a?x=2"]);
}

#[test]
fn the_log_has_both_paths_and_explain_shows_each_step() {
    let origin = echo();
    let settings = format!(
        "access_log.format = \"{{target}} {{path}} {{route}} {{status}}\"\n\
         access_log.output = \"file:{{dir}}/access.log\"\n{REWRITES}{INTERNAL}"
    );
    let weir = start(&origin, &settings);
    assert_eq!(both(&weir, "GET", "/last/x?y", &[]).0, 200);
    assert_eq!(weir.access_log(2), ["/last/x?y /api/x /api 200", "/last/x?y /api/x /api 200"]);
    let settings = format!("{REWRITES}{INTERNAL}");
    let file = WrittenConfig::new(&config_with(&[origin.named("a")], &settings));
    let shown = |target: &str| run(&["explain", file.path(), &format!("http://a.test{target}")]).stdout;
    let text = shown("/chain/y?b");
    for line in [
        "steps      route /chain: `^/chain/(.*)$` makes /one/y?b (continue)",
        "           route /chain: `^/one/(.*)$` makes /two/y?a=1&b (continue)",
        "route      /two: takes the request",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let text = shown("/twice");
    for line in [
        "route /twice: goes on as the route once",
        "route once: goes on as the route named",
        "route      named: takes the request by its name",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    assert!(shown("/internal").contains("404 internal-route"));
    assert!(shown("/redirect/url/a").contains("https://a.test:8443/a"));
}
