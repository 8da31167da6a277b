//! What servers ask for in fields of their responses (`x_accel`, `x_sendfile`): what comes of it, and that no client gets any of the fields, whichever
//! way a response takes.

use std::fs;
use std::time::Duration;

use crate::harness::http2::H2C;
use crate::harness::http2::server::{Http2Server, http2_echo};
use crate::harness::message::Fields;
use crate::harness::origin::ok;
use crate::harness::scripts::pattern;
use crate::harness::watchdog::now;
use crate::harness::websocket::{HANDSHAKE, SWITCH};
use crate::harness::{Client, Http2Client, Origin, Weir, config_with, fastcgi, temporary_folder};

/// All fields for the proxy, as lines.
const ALL: &str = "X-Accel-Redirect: /files/a.txt\r\nx-accel-expires: 60\r\nX-ACCEL-BUFFERING: no\r\nX-Accel-Limit-Rate: 9999999\r\n\
                   X-Accel-Charset: utf-8\r\nX-Sendfile: /files/a.txt\r\n";

const NAMES: [&str; 6] = [
    "x-accel-redirect",
    "x-accel-expires",
    "x-accel-buffering",
    "x-accel-limit-rate",
    "x-accel-charset",
    "x-sendfile",
];

/// Answers with the fields that the request asks for in `X-Reply`, and a body that names the request.
fn app() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let fields = request.field("x-reply").unwrap_or_default();
            let lines: String =
                fields.split('|').filter(|line| !line.is_empty()).map(|line| format!("{line}\r\n")).collect();
            let status = request.field("x-status").unwrap_or("200 OK");
            let body = format!("{} {} {}", request.method(), request.target(), request.text());
            let body =
                if status.starts_with("304") || request.method() == "HEAD" { String::new() } else { body };
            let length = if status.starts_with("304") {
                String::new()
            } else {
                format!("Content-Length: {}\r\n", body.len())
            };
            conn.send(format!("HTTP/1.1 {status}\r\n{lines}{length}\r\n{body}"))?;
        }
    })
}

fn start(origin: &Origin, settings: &str) -> Weir {
    let folder = temporary_folder();
    for path in ["site/deep", "secret"] {
        fs::create_dir_all(folder.path().join(path)).expect("the folder takes folders");
    }
    for (path, content) in [
        ("site/a.txt", "0123456789"),
        ("site/deep/b c?.txt", "deep"),
        ("site/100%.txt", "percent"),
        ("site/.hidden", "hidden"),
        ("secret/key", "key"),
    ] {
        fs::write(folder.path().join(path), content).expect("the folder takes files");
    }
    Weir::start_in(folder, &config_with(&[origin.named("a")], &format!("{H2C}{settings}")))
}

const SETTINGS: &str = r#"
cache.pages.memory = "16MiB"
[[listener.web.route]]
path = "/app"
upstream = "app"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/plain"
upstream = "app"
[[listener.web.route]]
path = "/files"
internal = true
strip_prefix = true
files.root = "{dir}/site"
[[listener.web.route]]
path = "/more"
upstream = "app"
[[listener.web.route]]
name = "named"
internal = true
upstream = "app"
"#;

/// A response by either version: its status, its body and its fields.
struct Both {
    status: u16,
    body: String,
    fields: Vec<(String, String)>,
}

impl Both {
    fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value.as_str()).collect()
    }
}

/// Sends a request by HTTP/1 and by HTTP/2, which get the same; none of the fields for the proxy is in it.
fn both(weir: &Weir, method: &str, target: &str, fields: &[(&str, &str)]) -> Both {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut client = Client::connect(weir.web());
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"));
    let first = client.response_to(method);
    let mut client = Http2Client::connect(weir.web());
    let sent = [client.request(method, target), fields.to_vec()].concat();
    let stream = client.open(&sent, true);
    let second = client.response(stream);
    assert_eq!(first.status, second.status, "{method} {target} {fields:?}");
    // Pages of failures have the id of their request, and parts a boundary of any length.
    let is_of_parts = first.field("content-type").is_some_and(|value| value.starts_with("multipart/"));
    let is_same = first.text() == second.text();
    assert!(is_of_parts || first.status >= 400 || is_same, "{method} {target} {fields:?}");
    let of = |fields: &Fields| -> Vec<(String, String)> {
        let mut listed: Vec<_> = fields
            .0
            .iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .filter(|(name, _)| !["date", "connection", "age", "cache-status"].contains(&name.as_str()))
            .filter(|(name, value)| {
                !is_of_parts || name != "content-length" && !value.starts_with("multipart/")
            })
            .collect();
        listed.sort();
        listed
    };
    let (one, other) = (of(first.fields()), of(&second.fields));
    assert_eq!(one, other, "{method} {target} {fields:?}");
    for name in NAMES {
        assert!(one.iter().all(|(known, _)| known != name), "{name} is for the proxy: {one:?}");
    }
    Both { status: first.status, body: first.text(), fields: one }
}

#[test]
fn the_client_gets_the_file_that_the_server_names() {
    let origin = app();
    let weir = start(&origin, SETTINGS);
    let ask = |method: &str, reply: &str, more: &[(&str, &str)]| {
        both(&weir, method, "/app/x", &[&[("x-reply", reply)], more].concat())
    };
    let file = ask("GET", "X-Accel-Redirect: /files/a.txt", &[]);
    assert_eq!((file.status, file.body.as_str()), (200, "0123456789"));
    let etag = file.field("etag").expect("files have one").to_owned();
    let encoded = ask("GET", "X-Accel-Redirect: /files/deep/b%20c%3F.txt", &[]);
    assert_eq!((encoded.status, encoded.body.as_str()), (200, "deep"));
    // Conditions and ranges are about what the client gets.
    assert_eq!(ask("GET", "X-Accel-Redirect: /files/a.txt", &[("if-none-match", &etag)]).status, 304);
    let part = ask("GET", "X-Accel-Redirect: /files/a.txt", &[("range", "bytes=2-4")]);
    assert_eq!((part.status, part.body.as_str()), (206, "234"));
    assert_eq!(ask("GET", "X-Accel-Redirect: /files/a.txt", &[("range", "bytes=20-")]).status, 416);
    let head = ask("HEAD", "X-Accel-Redirect: /files/a.txt", &[]);
    assert_eq!((head.status, head.field("content-length")), (200, Some("10")));
    // The method of the client, and the status of the server, are about its response.
    for status in ["201 Created", "204 No Content", "302 Found", "404 Not Found", "503 Bad"] {
        let file = ask("GET", "X-Accel-Redirect: /files/a.txt", &[("x-status", status)]);
        assert_eq!((file.status, file.body.as_str()), (200, "0123456789"), "{status}");
    }
    assert_eq!(ask("DELETE", "X-Accel-Redirect: /files/a.txt", &[]).body, "0123456789");
    // Routes of servers are such places, too, and so are those by name, which get the method.
    assert_eq!(ask("DELETE", "X-Accel-Redirect: /more/y?z=1", &[]).body, "GET /more/y?z=1 ");
    assert_eq!(ask("DELETE", "X-Accel-Redirect: @named", &[]).body, "DELETE /app/x ");
    // No client comes there by itself, and none is asked what the server would have said.
    assert_eq!(both(&weir, "GET", "/files/a.txt", &[]).status, 404);
    let sent = both(
        &weir,
        "GET",
        "/app/x",
        &[
            ("x-accel-redirect", "/files/a.txt"),
            ("x-sendfile-type", "X-Accel-Redirect"),
            ("x-accel-mapping", "/=/files/"),
        ],
    );
    assert_eq!((sent.status, sent.body.as_str()), (200, "GET /app/x "));
    for name in ["x-accel-redirect", "x-sendfile-type", "x-accel-mapping"] {
        assert_eq!(origin.last_request().field(name), None, "the server does not learn it from a client");
    }
    both(&weir, "GET", "/plain", &[("x-sendfile-type", "X-Sendfile")]);
    assert_eq!(origin.last_request().field("x-sendfile-type"), Some("X-Sendfile"));
}

#[test]
fn a_server_leads_nowhere_else() {
    let origin = app();
    let weir = start(&origin, SETTINGS);
    for target in [
        "/files/../../secret/key",
        "/files/%2e%2e/secret/key",
        "/files/..%2f..%2fsecret%2fkey",
        "/files/..",
        "http://other.test/a",
        "https://other.test/files/a.txt",
        "files/a.txt",
        "@none",
        "@",
        "",
        "a\tb",
        "/files/none",
        "/files/.hidden",
        "/files/a%00.txt",
        "//other.test/a",
        "/nowhere",
    ] {
        let reply = format!("X-Accel-Redirect: {target}");
        let answer = both(&weir, "GET", "/app/x", &[("x-reply", reply.trim_end())]);
        // A path that is well-formed may be that of the route of all else.
        let is_other = ["//other.test/a", "/nowhere"].contains(&target);
        assert_eq!(answer.status, if is_other { 200 } else { 404 }, "{target:?}: {}", answer.body);
        assert!(!answer.body.contains("key") && !answer.body.contains("hidden"), "{target:?}");
    }
    // Round in a circle, but not for ever.
    let answer = both(&weir, "GET", "/app/x", &[("x-reply", "X-Accel-Redirect: /app/x")]);
    assert_eq!(answer.status, 500);
    assert_eq!(
        both(&weir, "GET", "/plain", &[("x-reply", "X-Accel-Redirect: /files/a.txt")]).body,
        "GET /plain "
    );
}

#[test]
fn what_the_server_says_of_the_file_goes_with_it() {
    let origin = app();
    let settings = r#"
[[listener.web.route]]
path = "/files/set"
internal = true
files.alias = "{dir}/site"
response_headers.set = { cache-control = "no-store", x-own = "1" }
expires = [{ time = "1h" }]
"#;
    let weir = start(&origin, &format!("{SETTINGS}{settings}"));
    let kept = "Content-Type: application/pdf|Content-Disposition: attachment|Cache-Control: private|Expires: 0|Accept-Ranges: none\
                |Set-Cookie: a=1|Set-Cookie: b=2|ETag: \"app\"|Last-Modified: x|X-Other: y|Location: /z|Content-Language: de";
    let ask = |target: &str, more: &[(&str, &str)]| {
        let reply = format!("X-Accel-Redirect: {target}|{kept}");
        both(&weir, "GET", "/app/x", &[&[("x-reply", reply.as_str())], more].concat())
    };
    let file = ask("/files/a.txt", &[]);
    assert_eq!((file.status, file.body.as_str()), (200, "0123456789"));
    for (name, expected) in [
        ("content-type", &["application/pdf"][..]),
        ("content-disposition", &["attachment"]),
        ("cache-control", &["private"]),
        ("expires", &["0"]),
        ("accept-ranges", &["none"]),
        ("set-cookie", &["a=1", "b=2"]),
        ("x-other", &[]),
        ("location", &[]),
        ("content-language", &[]),
    ] {
        assert_eq!(file.all(name), expected, "{name}");
    }
    assert_ne!(file.field("etag"), Some("\"app\""), "the tag is that of the file");
    let etag = file.field("etag").unwrap_or_default().to_owned();
    let known = ask("/files/a.txt", &[("if-none-match", &etag)]);
    assert_eq!(
        (known.status, known.field("cache-control"), known.field("content-type")),
        (304, Some("private"), None)
    );
    let parts = ask("/files/a.txt", &[("range", "bytes=0-1,4-5")]);
    assert_eq!((parts.status, parts.field("content-type")), (206, None), "the type is that of parts");
    assert!(parts.body.contains("Content-Range: bytes 4-5/10\r\n\r\n45\r\n"), "{}", parts.body);
    // What it says of a file is not said of a failure; the cookies are about the client.
    let missing = ask("/files/none", &[]);
    assert_eq!((missing.status, missing.field("content-disposition")), (404, None));
    assert_ne!(missing.field("content-type"), Some("application/pdf"));
    assert_eq!(missing.all("set-cookie"), ["a=1", "b=2"]);
    // What the other route sets counts.
    let set = ask("/files/set/a.txt", &[]);
    assert_eq!((set.all("cache-control"), set.field("x-own")), (vec!["no-store"], Some("1")));
    // From another server, too, which here says the same again.
    let more = ask("/more", &[]);
    assert_eq!(more.all("set-cookie"), ["a=1", "a=1", "b=2", "b=2"], "each server has its cookies");
    assert_eq!(
        (more.all("content-type"), more.all("cache-control")),
        (vec!["application/pdf"], vec!["private"])
    );
}

#[test]
fn a_file_by_its_path_lies_below_the_folder_of_the_route() {
    let origin = app();
    let settings = r#"
[[listener.web.route]]
path = "/app"
upstream = "app"
x_sendfile = "downloads"
[[listener.web.route]]
name = "downloads"
path = "/downloads"
internal = true
files.alias = "{dir}/site"
[[listener.web.route]]
path = "/by-root"
upstream = "app"
x_sendfile = "rooted"
[[listener.web.route]]
name = "rooted"
internal = true
files.root = "{dir}/site"
"#;
    let weir = start(&origin, settings);
    let root = weir.folder().join("site");
    let root = root.to_str().expect("it is text");
    for (path, expected) in [
        (format!("{root}/a.txt"), Some("0123456789")),
        (format!("{root}/deep/b c?.txt"), Some("deep")),
        (format!("{root}/deep/b%20c%3f.txt"), Some("deep")),
        (format!("{root}/100%.txt"), Some("percent")),
        (format!("{root}//a.txt"), Some("0123456789")),
        (format!("{root}/../secret/key"), None),
        (format!("{root}/%2e%2e/secret/key"), None),
        (format!("{root}/.hidden"), None),
        (format!("{root}.other/a.txt"), None),
        (format!("{root}/none"), None),
        (root.replace("site", "secret/key"), None),
        ("a.txt".to_owned(), None),
        ("/etc/passwd".to_owned(), None),
    ] {
        let reply = format!("X-Sendfile: {path}|Content-Type: image/x");
        for target in ["/app/x", "/by-root/x"] {
            let answer = both(&weir, "GET", target, &[("x-reply", &reply)]);
            assert_eq!(answer.status, if expected.is_some() { 200 } else { 404 }, "{path}");
            if let Some(expected) = expected {
                assert_eq!(
                    (answer.body.as_str(), answer.field("content-type")),
                    (expected, Some("image/x")),
                    "{path}"
                );
            }
        }
    }
    let redirected = both(&weir, "GET", "/app/x", &[("x-reply", "X-Accel-Redirect: /downloads/a.txt")]);
    assert_eq!(redirected.body, "GET /app/x ", "that is another key");
}

/// Each way that a response takes to a client.
#[test]
fn no_client_gets_what_is_for_the_proxy() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            match request.target() {
                "/interim" => conn.send(format!("HTTP/1.1 103 Early Hints\r\n{ALL}Link: </a>\r\n\r\n{}", ok("x")))?,
                "/trailers" => conn.send(format!("HTTP/1.1 200 OK\r\nTrailer: x-accel-redirect\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n{ALL}X-Kept: 1\r\n\r\n"))?,
                "/socket" => {
                    conn.send(SWITCH.replacen("\r\n", &format!("\r\n{ALL}"), 1))?;
                    conn.wait_for_end();
                    return None;
                }
                "/missing" => conn.send(format!("HTTP/1.1 404 No\r\n{ALL}Content-Length: 0\r\n\r\n"))?,
                _ if request.field("if-none-match").is_some() => {
                    conn.send(format!("HTTP/1.1 304 Not Modified\r\n{ALL}ETag: \"a\"\r\nCache-Control: max-age=0, stale-if-error=60\r\n\r\n"))?;
                }
                target => {
                    let age = if target.starts_with("/stale") { 0 } else { 60 };
                    conn.send(format!("HTTP/1.1 200 OK\r\n{ALL}ETag: \"a\"\r\nCache-Control: max-age={age}, stale-if-error=60\r\nContent-Length: 1\r\n\r\nx"))?;
                }
            }
        }
    });
    let pages = r#"
cache.pages.memory = "16MiB"
[[listener.web.route]]
path = "/cached"
upstream = "app"
cache = "pages"
[[listener.web.route]]
path = "/stale"
upstream = "app"
cache = "pages"
[[listener.web.route]]
path = "/missing"
upstream = "app"
error_pages = [{ status = 404, html = "{dir}/site/a.txt", of_servers = true }]
[[listener.web.route]]
path = "/packed"
upstream = "app"
compression = { min_length = "1B", types = ["*"] }
buffer_responses = {}
[[listener.web.route]]
path = "/changed"
upstream = "app"
response_headers.set = { x-a = "1" }
rewrite_cookies = [{ secure = true }]
"#;
    let weir = start(&origin, pages);
    for target in ["/", "/cached", "/cached", "/stale", "/stale", "/missing", "/packed", "/changed"] {
        for method in ["GET", "HEAD"] {
            both(&weir, method, target, &[]);
        }
        both(&weir, "GET", target, &[("if-none-match", "\"a\"")]);
    }
    let mut client = Client::connect(weir.web());
    client.send("GET /interim HTTP/1.1\r\nHost: a\r\n\r\n");
    let hints = client.head();
    assert_eq!(hints.status(), Ok(103));
    assert!(NAMES.iter().all(|name| hints.fields.one(name).is_none()), "{hints:?}");
    assert_eq!(client.response().text(), "x");
    client.send("GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: te\r\n\r\n");
    let trailed = client.response();
    let sent = format!("{trailed:?}").to_ascii_lowercase();
    assert!(sent.contains("x-kept") && !sent.contains("/files/a.txt"), "{sent}");
    client.send(HANDSHAKE);
    let switched = client.head();
    assert_eq!(switched.status(), Ok(101), "{switched:?}");
    assert!(NAMES.iter().all(|name| switched.fields.one(name).is_none()), "{switched:?}");
}

/// A proxy in front acts on them, where the config says that there is one.
#[test]
fn the_proxy_in_front_gets_them_where_the_config_says_so() {
    let origin = app();
    let weir = start(&origin, &SETTINGS.replace("[\"redirect\"]", "[\"pass\"]"));
    let response = Client::exchange(
        weir.web(),
        "GET /app/x HTTP/1.1\r\nHost: a\r\nX-Reply: X-Accel-Redirect: /files/a.txt|x-sendfile: /b\r\n\r\n",
    );
    assert_eq!(
        (response.field("x-accel-redirect"), response.field("x-sendfile")),
        (Some("/files/a.txt"), Some("/b"))
    );
    assert_eq!(response.text(), "GET /app/x ");
}

#[test]
fn servers_of_other_protocols_are_obeyed_too() {
    let scripts = Origin::start(|conn| {
        fastcgi::FastcgiRequest::read(conn)?;
        conn.send(fastcgi::response(
            "X-Accel-Redirect: /files/a.txt\r\nContent-Type: text/x\r\nSet-Cookie: c=1\r\n\r\nhidden",
        ))
    });
    let modern = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let fields = [(":status", "200"), ("x-accel-redirect", "/echo/y"), ("set-cookie", "d=1")];
            server.send_head(asked.stream, &fields, false)?;
            server.send_data(asked.stream, b"hidden", true)?;
        }
    });
    let echo = http2_echo();
    let settings = format!(
        r#"
[[listener.web.route]]
path = "/php"
upstream = "php"
fastcgi = {{ root = "/srv", script = "/front.php" }}
x_accel = ["redirect"]
[[listener.web.route]]
path = "/h2"
upstream = "h2"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/echo"
internal = true
upstream = "echo"
[upstream.php]
protocol = "fastcgi"
servers = [{}]
[upstream.h2]
protocol = "h2c"
servers = [{}]
[upstream.echo]
protocol = "h2c"
servers = [{}]
"#,
        scripts.entry(),
        modern.entry(),
        echo.entry()
    );
    let origin = app();
    let weir = start(&origin, &format!("{SETTINGS}{settings}"));
    let file = both(&weir, "GET", "/php/x", &[]);
    assert_eq!(
        (file.body.as_str(), file.field("content-type"), file.all("set-cookie")),
        ("0123456789", Some("text/x"), vec!["c=1"])
    );
    let answer = both(&weir, "GET", "/h2/x", &[]);
    assert_eq!((answer.body.as_str(), answer.all("set-cookie")), ("GET /echo/y ", vec!["d=1"]));
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..3 {
        assert_eq!(client.fetch_by_post("/h2/x", b"a body that no other server gets").text(), "GET /echo/y ");
    }
}

/// The rules of the other route are asked, and those of the first one were.
#[test]
fn the_other_route_decides_about_the_request() {
    let origin = app();
    let settings = r#"
[list.none]
action = "deny"
entries = ["127.0.0.0/8"]
[[listener.web.route]]
path = "/denied"
internal = true
lists = "none"
files.root = "{dir}/site"
[[listener.web.route]]
path = "/paged"
upstream = "app"
x_accel = ["redirect"]
error_pages = [{ status = 503, html = "{dir}/site/a.txt", of_servers = true }, { status = 404, then = "/files/a.txt" }]
"#;
    let weir = start(&origin, &format!("upstream.app.retry.attempts_max = 1\n{SETTINGS}{settings}"));
    let denied = both(&weir, "GET", "/app/x", &[("x-reply", "X-Accel-Redirect: /denied/a.txt")]);
    assert_eq!(denied.status, 403);
    let paged = [("x-reply", "X-Accel-Redirect: /more"), ("x-status", "503 Bad"), ("accept", "text/html")];
    let page = both(&weir, "GET", "/paged", &paged);
    assert_eq!((page.status, page.body.as_str()), (503, "0123456789"), "a page goes first");
    // Of what the server may not name, there is a page, too; of what the other route has not, it is that of the other route.
    let refused = both(&weir, "GET", "/paged", &[("x-reply", "X-Accel-Redirect: nowhere|Set-Cookie: a=1")]);
    assert_eq!((refused.status, refused.body.as_str()), (404, "0123456789"));
}

#[test]
fn a_response_that_leads_on_is_not_stored_and_the_other_one_is() {
    let origin = app();
    let settings = r#"
[[listener.web.route]]
path = "/app/cached"
upstream = "app"
cache = "pages"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/store"
internal = true
upstream = "app"
cache = "pages"
response_headers.set = { x-cache = "{cache}" }
"#;
    let weir = start(&origin, &format!("{SETTINGS}{settings}"));
    let reply = "X-Accel-Redirect: /store/y|Cache-Control: max-age=60|Set-Cookie: a=1";
    let mut states = Vec::new();
    for turn in 0..3 {
        let response = Client::exchange(
            weir.web(),
            &format!("GET /app/cached HTTP/1.1\r\nHost: a\r\nX-Reply: {reply}\r\n\r\n"),
        );
        // The second server answers what the first one does: its field is not obeyed there, and its response says how long it is fresh.
        assert_eq!(response.text(), "GET /store/y ", "{turn}");
        states.push(response.field("x-cache").unwrap_or_default().to_owned());
    }
    let firsts = origin.targets().iter().filter(|target| *target == "/app/cached").count();
    assert_eq!(firsts, 3, "each request asks the first server: {:?}", origin.targets());
    assert!(states.iter().all(|state| state == "miss"), "a cookie keeps it from the store: {states:?}");
    let reply = "X-Accel-Redirect: /store/z|Cache-Control: max-age=60";
    let states: Vec<String> = (0..3)
        .map(|_| {
            let request = format!("GET /app/cached HTTP/1.1\r\nHost: a\r\nX-Reply: {reply}\r\n\r\n");
            let response = Client::exchange(weir.web(), &request);
            assert_eq!(response.text(), "GET /store/z ");
            response.field("x-cache").unwrap_or_default().to_owned()
        })
        .collect();
    assert_eq!(states, ["miss", "hit", "hit"]);
    assert_eq!(origin.targets().iter().filter(|target| *target == "/store/z").count(), 1);
}

#[test]
fn a_server_says_how_long_this_cache_keeps_its_response() {
    let origin = app();
    let settings = r#"
cache.pages.memory = "16MiB"
[[listener.web.route]]
path = "/obeyed"
upstream = "app"
cache = "pages"
x_accel = ["expires"]
response_headers.set = { x-cache = "{cache}" }
[[listener.web.route]]
path = "/ignored"
upstream = "app"
cache = "pages"
response_headers.set = { x-cache = "{cache}" }
"#;
    let weir = start(&origin, settings);
    let twice = |target: &str, reply: &str| -> Vec<String> {
        let ask = || {
            let response = Client::exchange(
                weir.web(),
                &format!("GET {target} HTTP/1.1\r\nHost: a\r\nX-Reply: {reply}\r\n\r\n"),
            );
            assert_eq!(response.field("x-accel-expires"), None);
            format!(
                "{} {}",
                response.field("x-cache").unwrap_or_default(),
                response.field("cache-control").unwrap_or_default()
            )
        };
        vec![ask(), ask()]
    };
    let far = "@99999999999";
    assert_eq!(
        twice("/obeyed/1", "X-Accel-Expires: 60|Cache-Control: no-store"),
        ["miss no-store", "hit no-store"]
    );
    assert_eq!(twice("/obeyed/2", &format!("X-Accel-Expires: {far}")), ["miss ", "hit "]);
    assert_eq!(twice("/obeyed/3", "X-Accel-Expires: 0|Cache-Control: max-age=60"), ["miss max-age=60"; 2]);
    assert_eq!(
        twice("/obeyed/4", "X-Accel-Expires: off|Cache-Control: max-age=60"),
        ["miss max-age=60", "hit max-age=60"]
    );
    assert_eq!(twice("/obeyed/5", "X-Accel-Expires: 60|Set-Cookie: a=1"), ["miss "; 2]);
    assert_eq!(twice("/ignored/1", "X-Accel-Expires: 60|Cache-Control: no-store"), ["miss no-store"; 2]);
    assert_eq!(
        twice("/ignored/2", "X-Accel-Expires: 0|Cache-Control: max-age=60"),
        ["miss max-age=60", "hit max-age=60"]
    );
}

/// With `no`, a slow client holds the server up, as if nothing were buffered.
#[test]
fn a_server_turns_buffering_off() {
    let origin = app();
    let settings = r#"
[[listener.web.route]]
path = "/"
upstream = "app"
buffer_responses = {}
x_accel = ["buffering"]
"#;
    let weir = start(&origin, settings);
    let buffered = || weir.metrics().sum("weir_worker_response_bodies_buffered_total", &[]);
    for (reply, expected) in [
        ("", 1.0),
        ("X-Accel-Buffering: no", 1.0),
        ("X-Accel-Buffering: yes", 2.0),
        ("X-Accel-Buffering: NO", 2.0),
    ] {
        let request = format!("GET /x HTTP/1.1\r\nHost: a\r\nX-Reply: {reply}\r\n\r\n");
        assert_eq!(Client::exchange(weir.web(), &request).text(), "GET /x ");
        assert!((buffered() - expected).abs() < 0.5, "{reply}: {}", buffered());
    }
}

/// The rate holds for the response at hand, and for the one that it leads to.
#[test]
fn a_server_slows_its_response_down() {
    const LEN: usize = 40_000;
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let body = pattern(LEN);
            let rate = request
                .field("x-rate")
                .map(|rate| format!("X-Accel-Limit-Rate: {rate}\r\n"))
                .unwrap_or_default();
            let to =
                request.field("x-to").map(|to| format!("X-Accel-Redirect: {to}\r\n")).unwrap_or_default();
            conn.send(format!("HTTP/1.1 200 OK\r\n{rate}{to}Content-Length: {LEN}\r\n\r\n"))?;
            conn.send(body)?;
        }
    });
    let settings = r#"
[[listener.web.route]]
path = "/app"
upstream = "app"
x_accel = ["limit_rate", "redirect"]
[[listener.web.route]]
path = "/files"
internal = true
files.alias = "{dir}/site"
[[listener.web.route]]
path = "/more"
internal = true
upstream = "app"
[[listener.web.route]]
path = "/kept"
upstream = "app"
cache = "pages"
x_accel = ["limit_rate"]
[cache.pages]
memory = "16MiB"
"#;
    let weir = start(&origin, settings);
    fs::write(weir.folder().join("site/long"), pattern(LEN)).expect("the folder takes files");
    let time = |target: &str, fields: &str, is_modern: bool| {
        let began = now();
        if is_modern {
            let mut client = Http2Client::connect(weir.web());
            let pairs: Vec<(&str, &str)> = fields.lines().filter_map(|line| line.split_once(": ")).collect();
            let stream = client.get_with(target, &pairs);
            assert_eq!(client.response(stream).body.len(), LEN);
        } else {
            let response =
                Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            assert_eq!(response.body.bytes.len(), LEN);
        }
        began.elapsed()
    };
    let (slow, quick) = (Duration::from_millis(800), Duration::from_millis(700));
    for is_modern in [false, true] {
        for (target, fields) in [
            ("/app", "x-rate: 40000\r\n"),
            ("/app", "x-rate: 40000\r\nx-to: /files/long\r\n"),
            ("/app", "x-rate: 40000\r\nx-to: /more\r\n"),
            ("/kept", "x-rate: 40000\r\n"),
        ] {
            let target = if target == "/kept" { format!("/kept/{is_modern}") } else { target.to_owned() };
            let took = time(&target, fields, is_modern);
            assert!(took >= slow, "{target} {fields}: {took:?}");
        }
    }
    for fields in ["", "x-rate: 0\r\n", "x-rate: off\r\n", "x-rate: 400000000\r\n"] {
        let took = time("/app", fields, false);
        assert!(took < quick, "{fields}: {took:?}");
    }
    let took = time("/other", "x-rate: 40000\r\n", false);
    assert!(took < quick, "it does not count there: {took:?}");
}
