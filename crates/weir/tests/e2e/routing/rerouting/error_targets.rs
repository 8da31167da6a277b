//! Error pages that are another route, a redirect, or have another status: what goes on, once, and with what of the request.

use crate::harness::http2::H2C;
use crate::harness::scripts::echo;
use crate::harness::{CLOSED_PORT, Client, Http2Client, Origin, Weir, config_with, temporary_folder};

const BASIC: &str =
    r#"basic = { users = { ann = "$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm" } }"#;

fn start(origin: &Origin, settings: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::create_dir(folder.path().join("site")).expect("the folder takes folders");
    for (path, content) in [("site/404.html", "no page"), ("site/a.txt", "a"), ("page.html", "page {status}")]
    {
        std::fs::write(folder.path().join(path), content).expect("the folder takes files");
    }
    Weir::start_in(folder, &config_with(&[origin.named("a")], &format!("{H2C}{settings}")))
}

/// Status, body, `Location` and `WWW-Authenticate` that a client of each version gets.
fn both(weir: &Weir, method: &str, target: &str, fields: &[(&str, &str)]) -> (u16, String, String, String) {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let first =
        Client::exchange(weir.web(), &format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
    let mut client = Http2Client::connect(weir.web());
    let sent = [client.request(method, target), fields.to_vec()].concat();
    let stream = client.open(&sent, true);
    let second = client.response(stream);
    let field = |name: &str| first.field(name).unwrap_or_default().to_owned();
    assert_eq!((first.status, first.text().len()), (second.status, second.text().len()), "{target}");
    for name in ["location", "www-authenticate", "content-type"] {
        assert_eq!(first.field(name), second.field(name), "{target}: {name}");
    }
    (first.status, first.text(), field("location"), field("www-authenticate"))
}

fn settings() -> String {
    format!(
        r#"
list.none = {{ action = "deny", entries = ["127.0.0.0/8"] }}
limit.one = {{ rate = "1/h", burst = 1 }}
upstream.down.servers = ["{CLOSED_PORT}"]
listener.web.error_pages = [
  {{ status = 404, then = "/errors/404.html" }},
  {{ status = 403, redirect = "/login?from={{path}}&status={{status}}" }},
  {{ status = 502, then = "maintenance" }},
  {{ status = 410, html = "page.html", new_status = 200 }},
  {{ status = 401, then = "login" }},
  {{ status = 429, then = "maintenance", new_status = 503 }},
]
[[listener.web.route]]
path = "/errors"
internal = true
strip_prefix = true
files.root = "site"
[[listener.web.route]]
name = "maintenance"
internal = true
respond = {{ status = 200, body = "later" }}
[[listener.web.route]]
name = "login"
internal = true
respond = {{ status = 200, body = "log in" }}
[[listener.web.route]]
path = "/files"
strip_prefix = true
files.root = "site"
[[listener.web.route]]
path = "/denied"
lists = "none"
upstream = "app"
[[listener.web.route]]
path = "/down"
upstream = "down"
[[listener.web.route]]
path = "/gone"
respond.status = 410
[[listener.web.route]]
path = "/secret"
{BASIC}
upstream = "app"
[[listener.web.route]]
path = "/limited"
limited_by = "one"
respond = {{}}
[[listener.web.route]]
path = "/answered"
error_pages = [{{ status = 404, then = "/echo?was={{status}}", status_of_target = true }}]
files.root = "site"
[[listener.web.route]]
path = "/echo"
internal = true
upstream = "app"
[[listener.web.route]]
path = "/named"
error_pages = [{{ status = 404, then = "app" }}]
files.root = "site"
[[listener.web.route]]
name = "app"
internal = true
upstream = "app"
[[listener.web.route]]
path = "/circle"
error_pages = [{{ status = 404, then = "/circle/again" }}]
files.root = "site"
"#
    )
}

#[test]
fn a_failure_goes_on_with_another_route() {
    let origin = echo();
    let weir = start(&origin, &settings());
    let page = |target: &str, fields: &[(&str, &str)]| {
        let (status, body, ..) = both(&weir, "GET", target, fields);
        (status, body)
    };
    assert_eq!(page("/files/a.txt", &[]), (200, "a".to_owned()));
    assert_eq!(page("/files/none", &[]), (404, "no page".to_owned()));
    // Conditions and ranges were meant for what is not there.
    assert_eq!(
        page("/files/none", &[("range", "bytes=0-1"), ("if-none-match", "*")]),
        (404, "no page".to_owned())
    );
    assert_eq!(page("/errors/404.html", &[]), (404, "no page".to_owned()));
    assert_eq!(page("/down/x", &[]), (502, "later".to_owned()));
    assert_eq!(page("/gone", &[("accept", "text/html")]), (200, "page 410".to_owned()));
    let (status, _, location, _) = both(&weir, "GET", "/denied/x", &[]);
    assert_eq!((status, location.as_str()), (302, "/login?from=/denied/x&status=403"));
    let (status, body, _, challenge) = both(&weir, "GET", "/secret", &[]);
    assert_eq!((status, body.as_str()), (401, "log in"));
    assert!(challenge.starts_with("Basic realm="), "{challenge}");
    let limited: Vec<(u16, String)> = (0..2)
        .map(|_| Client::exchange(weir.web(), "GET /limited HTTP/1.1\r\nHost: a\r\n\r\n"))
        .map(|response| (response.status, response.text()))
        .collect();
    assert_eq!(limited, [(200, String::new()), (503, "later".to_owned())]);
    let head = Client::exchange(weir.web(), "HEAD /files/none HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status, head.field("content-length")), (404, Some("7")));
}

#[test]
fn the_method_and_the_body_go_with_a_name_and_not_with_a_path() {
    let origin = echo();
    let weir = start(&origin, &settings());
    let (status, body, ..) = both(&weir, "GET", "/answered/x", &[]);
    assert_eq!((status, body.as_str()), (200, "/echo?was=404"));
    let (status, body, ..) = both(&weir, "GET", "/named/x?y", &[]);
    assert_eq!((status, body.as_str()), (404, "/named/x?y"));
    // In place of a page that fails itself there is the page of the first failure.
    assert_eq!(both(&weir, "GET", "/circle/x", &[]).0, 404);
    let settings = settings()
        .replace("status = 404, then = \"app\"", "status = 405, then = \"app\", status_of_target = true");
    weir.reload(&config_with(&[origin.named("a")], &format!("{H2C}{settings}")));
    let response =
        Client::exchange(weir.web(), "POST /named/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((response.status, response.text().as_str()), (200, "/named/xhello"));
}

#[test]
fn responses_of_servers_go_on_too() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = if request.target().starts_with("/bad") { "503 Bad" } else { "200 OK" };
            let body = format!("{} {} {}", request.method(), request.target(), request.text());
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))?;
        }
    });
    let weir = start(
        &origin,
        r#"
upstream.app.retry.attempts_max = 1
[[listener.web.route]]
path = "/bad"
upstream = "app"
error_pages = [{ status = 503, of_servers = true, then = "/page/{status}" }]
[[listener.web.route]]
path = "/bad/own"
upstream = "app"
error_pages = [{ status = 503, of_servers = true, then = "/page/{status}", status_of_target = true }]
[[listener.web.route]]
path = "/page"
upstream = "app"
"#,
    );
    let (status, body, ..) = both(&weir, "GET", "/bad/x", &[]);
    assert_eq!((status, body.as_str()), (503, "GET /page/503 "));
    assert_eq!(both(&weir, "GET", "/bad/own", &[]).0, 200);
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        client.send("POST /bad/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        let response = client.response();
        assert_eq!((response.status, response.text().as_str()), (503, "GET /page/503 "));
    }
}

/// A client needs `WWW-Authenticate` for a 401 and `Allow` for a 405 (RFC 9110 sections 15.5.2 and 15.5.6), whichever route has the page.
#[test]
fn what_explains_the_status_of_a_server_goes_with_the_page() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let head = match request.target() {
                "/page" => "200 OK\r\nAllow: PUT\r\nCache-Control: max-age=600",
                target if target.ends_with("/405") => "405 No\r\nAllow: GET\r\nX-Own: 1",
                _ => "401 No\r\nWWW-Authenticate: Basic realm=\"a\"\r\nwww-authenticate: Bearer\r\nX-Own: 1",
            };
            conn.send(format!("HTTP/1.1 {head}\r\nContent-Length: 4\r\n\r\nbody"))?;
        }
    });
    let weir = start(
        &origin,
        r#"
cache.pages.memory = "16MiB"
[[listener.web.route]]
path = "/own"
upstream = "app"
error_pages = [{ status = [401, 405], of_servers = true, then = "log-in" }]
[[listener.web.route]]
path = "/server"
upstream = "app"
error_pages = [{ status = [401, 405], of_servers = true, then = "/page" }]
[[listener.web.route]]
path = "/stored"
upstream = "app"
error_pages = [{ status = [401, 405], of_servers = true, then = "stored" }]
[[listener.web.route]]
path = "/file"
upstream = "app"
error_pages = [{ status = [401, 405], of_servers = true, html = "page.html" }]
[[listener.web.route]]
path = "/other"
upstream = "app"
error_pages = [{ status = [401, 405], of_servers = true, then = "log-in", status_of_target = true }]
[[listener.web.route]]
path = "/failed"
upstream = "app"
error_pages = [{ status = [401, 405], of_servers = true, then = "down" }]
[[listener.web.route]]
name = "log-in"
internal = true
respond = { body = "log in", headers = { allow = "PUT" } }
[[listener.web.route]]
path_exact = "/page"
upstream = "app"
[[listener.web.route]]
name = "stored"
internal = true
upstream = "app"
cache = "pages"
replace_regex = { pattern = "^.*$", replacement = "/page" }
[[listener.web.route]]
name = "down"
internal = true
upstream = "down"
[upstream.down]
servers = ["127.0.0.1:1"]
"#,
    );
    let of = |target: &str, name: &str| -> (u16, Vec<String>) {
        let response = Client::exchange(
            weir.web(),
            &format!("GET {target} HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n"),
        );
        let values = response.fields().all(name).into_iter().map(str::to_owned);
        (response.status, values.collect())
    };
    let challenges = vec!["Basic realm=\"a\"".to_owned(), "Bearer".to_owned()];
    for _ in 0..2 {
        for route in ["/own", "/server", "/stored", "/file"] {
            assert_eq!(of(&format!("{route}/401"), "www-authenticate"), (401, challenges.clone()), "{route}");
            assert_eq!(of(&format!("{route}/405"), "allow"), (405, vec!["GET".to_owned()]), "{route}");
            assert_eq!(of(&format!("{route}/405"), "x-own").1, [""; 0], "{route}");
        }
        let mut client = Http2Client::connect(weir.web());
        for route in ["/own", "/server", "/stored"] {
            let page = client.fetch(&format!("{route}/405"));
            assert_eq!((page.status, page.field("allow")), (405, Some("GET")), "{route}");
        }
        assert_eq!(
            of("/other/401", "www-authenticate"),
            (200, vec![]),
            "another status needs no explanation"
        );
        assert_eq!(of("/failed/401", "www-authenticate"), (502, vec![]), "nor does a failure");
        assert_eq!(of("/page", "allow"), (200, vec!["PUT".to_owned()]));
    }
}

/// The status in the store is that of the page; what failed is not that.
#[test]
fn a_stored_page_has_the_status_of_the_failure() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\npage",
    );
    let weir = start(
        &origin,
        r#"
cache.pages.memory = "16MiB"
listener.web.error_pages = [{ status = 404, then = "/page" }, { status = 410, then = "/page", new_status = 203 }]
[[listener.web.route]]
path = "/page"
upstream = "app"
cache = "pages"
[[listener.web.route]]
path = "/files"
files.root = "site"
[[listener.web.route]]
path = "/gone"
respond.status = 410
[[listener.web.route]]
path = "/own"
error_pages = [{ status = 404, then = "/page", status_of_target = true }]
files.root = "site"
"#,
    );
    for _ in 0..2 {
        for (target, fields) in
            [("/files/none", &[][..]), ("/files/none", &[("if-none-match", "\"a\""), ("range", "bytes=0-1")])]
        {
            let (status, body, ..) = both(&weir, "GET", target, fields);
            assert_eq!((status, body.as_str()), (404, "page"), "{fields:?}");
        }
        assert_eq!(both(&weir, "HEAD", "/files/none", &[]).0, 404);
        assert_eq!(both(&weir, "GET", "/gone", &[]).0, 203);
        assert_eq!(both(&weir, "GET", "/own/none", &[]).0, 200);
        assert_eq!(both(&weir, "GET", "/page", &[]).0, 200);
        assert_eq!(both(&weir, "GET", "/page", &[("if-none-match", "\"a\"")]).0, 304);
    }
    assert_eq!(origin.requests().len(), 1, "one request has stored the page for all");
}
