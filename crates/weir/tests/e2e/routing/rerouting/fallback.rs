//! `fallback` and `alias` of files: what follows when there is no file, which file a path is, and nothing outside of the folder.

use std::fs;

use crate::harness::http2::H2C;
use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Weir, config_with, temporary_folder};

fn start(origin: &Origin, settings: &str) -> Weir {
    let folder = temporary_folder();
    for path in ["site/sub", "pictures/deep", "pictures2"] {
        fs::create_dir_all(folder.path().join(path)).expect("the folder takes folders");
    }
    for (path, content) in [
        ("site/index.html", "start"),
        ("site/a.txt", "a"),
        ("site/404.html", "<p>none</p>"),
        ("pictures/a.png", "picture"),
        ("pictures/deep/b.png", "deep"),
        ("pictures2/secret", "secret"),
        ("secret", "secret"),
        ("one.ico", "icon"),
    ] {
        fs::write(folder.path().join(path), content).expect("the folder takes files");
    }
    Weir::start_in(folder, &config_with(&[origin.named("a")], &format!("{H2C}{settings}")))
}

/// Status and body that a client of each version gets.
fn both(weir: &Weir, method: &str, target: &str) -> (u16, String) {
    let first = Client::exchange(
        weir.web(),
        &format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n"),
    );
    let mut client = Http2Client::connect(weir.web());
    let fields = client.request(method, target);
    let stream = client.open(&fields, true);
    let second = client.response(stream);
    assert_eq!(first.status, second.status, "{method} {target}");
    assert!(first.status >= 400 || first.text() == second.text(), "{method} {target}");
    (first.status, first.text())
}

const FALLBACKS: &str = r#"
[[listener.web.route]]
path = "/to-path"
strip_prefix = true
files = { root = "site", fallback = "/front?page={path}&{args}" }
[[listener.web.route]]
path = "/to-route"
strip_prefix = true
files = { root = "site", fallback = "named" }
[[listener.web.route]]
path = "/to-404"
strip_prefix = true
files = { root = "site", fallback = "=404" }
error_pages = [{ status = 404, html = "site/404.html" }]
[[listener.web.route]]
path = "/to-410"
strip_prefix = true
files = { root = "site", fallback = "=410" }
[[listener.web.route]]
path = "/front"
internal = true
upstream = "app"
[[listener.web.route]]
name = "named"
internal = true
upstream = "app"
request_headers.set.x-route = "{route}"
[[listener.web.route]]
path = "/circle"
files = { root = "site", fallback = "/circle/{path}" }
[[listener.web.route]]
path_regex = '^(.+)\.[0-9]+\.(js|css)$'
priority = 1
files = { root = "site", fallback = "{match.1}.{match.2}{query}" }
[[listener.web.route]]
path_regex = '^/group/(.+)$'
priority = 2
files = { root = "site", fallback = "{match.1}" }
[[listener.web.route]]
path = "/page"
files = { root = "site", fallback = "{path}.html" }
[[listener.web.route]]
path = "/single"
files = { root = "site", fallback = "/single/index.html{query}" }
[[listener.web.route]]
path_regex = '\.js$|^/[a-z]+\.html$|^/of-group$'
upstream = "app"
"#;

#[test]
fn what_is_no_file_goes_on() {
    let origin = echo();
    let weir = start(&origin, FALLBACKS);
    for prefix in ["/to-path", "/to-route", "/to-404", "/to-410"] {
        assert_eq!(both(&weir, "GET", &format!("{prefix}/a.txt")), (200, "a".to_owned()), "{prefix}");
    }
    assert_eq!(origin.connections(), 0);
    for (method, target, expected) in [
        ("GET", "/to-path/none?x=1", "/front?page=/to-path/none&x=1"),
        ("GET", "/to-path/%0d%0aX:%20y", "/front?page=/to-path/%0D%0AX:%20y&"),
        ("POST", "/to-path/a.txt", "/front?page=/to-path/a.txt&"),
        ("GET", "/to-route/none?x", "/to-route/none?x"),
        ("DELETE", "/to-route/none", "/to-route/none"),
    ] {
        assert_eq!(both(&weir, method, target), (200, expected.to_owned()), "{method} {target}");
        let request = origin.last_request();
        assert_eq!((request.method(), request.target()), (method, expected));
        assert_eq!(request.field("x-route").is_some(), target.starts_with("/to-route"), "{target}");
    }
    let (status, page) = both(&weir, "GET", "/to-404/none");
    assert_eq!((status, page.as_str()), (404, "<p>none</p>"));
    assert_eq!(both(&weir, "GET", "/to-410/none").0, 410);
    assert_eq!(both(&weir, "POST", "/to-404/a.txt").0, 405);
    assert_eq!(both(&weir, "GET", "/circle/x").0, 500);
    // The page of an application is a file of the same route, for which other methods are refused.
    for target in ["/single/x", "/single/x?y", "/single/index.html", "/single/index.html?y"] {
        assert_eq!(both(&weir, "POST", target).0, 405, "{target}");
    }
    for (target, expected) in
        [("/a/b.123.js?v=1", "/a/b.js?v=1"), ("/page", "/page.html"), ("/group/of-group", "/of-group")]
    {
        assert_eq!(both(&weir, "GET", target), (200, expected.to_owned()), "{target}");
    }
    // The front is not there for clients.
    assert_eq!(both(&weir, "GET", "/front?page=1").0, 404);
    // A body goes where its request goes.
    let response = Client::exchange(
        weir.web(),
        "POST /to-route/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    assert_eq!((response.status, response.text().as_str()), (200, "/to-route/xhello"));
}

#[test]
fn a_fallback_is_asked_for_what_its_route_asks() {
    let origin = echo();
    let weir = start(
        &origin,
        r#"
list.none = { action = "deny", entries = ["127.0.0.0/8"] }
limit.two = { rate = "1/h", burst = 2 }
listener.web.limited_by = "two"
[[listener.web.route]]
path = "/denied"
files = { root = "site", fallback = "refusing" }
[[listener.web.route]]
name = "refusing"
internal = true
lists = "none"
upstream = "app"
[[listener.web.route]]
path = "/counted"
files = { root = "site", fallback = "open" }
[[listener.web.route]]
name = "open"
internal = true
respond = {}
"#,
    );
    let get = |target: &str| {
        Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).status
    };
    assert_eq!(get("/denied"), 403);
    // The limit of the listener counts a request once, whatever it goes through.
    assert_eq!((get("/counted"), get("/counted")), (200, 429));
    assert_eq!(origin.connections(), 0);
}

const ALIASES: &str = r#"
[[listener.web.route]]
path = "/img"
files = { alias = "pictures" }
[[listener.web.route]]
path = "/slash/"
files = { alias = "pictures/" }
[[listener.web.route]]
path_exact = "/favicon.ico"
files = { alias = "one.ico" }
[[listener.web.route]]
path = "/both"
files = { alias = "pictures" }
upstream = "app"
[[listener.web.route]]
path = "/"
respond.status = 299
"#;

#[test]
fn an_alias_stands_for_the_path_of_its_route() {
    let origin = echo();
    let weir = start(&origin, ALIASES);
    for (target, status, body) in [
        ("/img/a.png", 200, "picture"),
        ("/img/deep/b.png", 200, "deep"),
        ("/slash/a.png", 200, "picture"),
        ("/favicon.ico", 200, "icon"),
        ("/both/a.png", 200, "picture"),
        ("/both/none?x", 200, "/both/none?x"),
        ("/img", 301, ""),
        ("/favicon.ico/x", 299, ""),
    ] {
        let found = both(&weir, "GET", target);
        assert_eq!(found.0, status, "{target}");
        assert!(status >= 400 || found.1 == body, "{target}: {}", found.1);
    }
    // nginx's `location /img { alias /srv/pictures/; }` sends /srv/secret for /img../secret.
    for target in [
        "/img../secret",
        "/img2/secret",
        "/img/../secret",
        "/img/..%2fsecret",
        "/img/%2e%2e/secret",
        "/img/%2e%2e%2fpictures2/secret",
        "/img//../../secret",
        "/slash/../secret",
        "/slash/..%2f..%2fsecret",
        "/slash..%2fsecret",
        "/both/..%2fsecret",
    ] {
        assert_ne!(both(&weir, "GET", target).1, "secret", "{target}");
    }
}
