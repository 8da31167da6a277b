//! Bodies that are rewritten: which ones, what their heads say then, and when each piece goes out.

use std::fs;

use super::compression::{decode, gzip, text_of};
use crate::harness::http2::server::Http2Server;
use crate::harness::http2::{H2C, start_with_tls};
use crate::harness::origin::Connection;
use crate::harness::watchdog::{Gate, eventually};
use crate::harness::{Client, Http2Client, Origin, Response, Weir, config_with, temporary_folder};

const RULES: &str = "rules = [\
    { text = \"http://a.internal\", to = \"https://{host}\" }, \
    { text = \"</head>\", to = \"<x>{header.x-name}</x></head>\", once = true }]";

/// Some 16 KiB that name the server in each line.
fn page(host: &str) -> String {
    (0..400).map(|line| format!("<p>line {line} of <a href=\"{host}/{line}\">{line}</a></p>\n")).collect()
}

fn internal() -> String {
    page("http://a.internal")
}

fn answer(conn: &mut Connection, head: &str, method: &str, body: &[u8]) -> Option<()> {
    conn.send(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {}\r\n\r\n", body.len()))?;
    if method == "HEAD" { Some(()) } else { conn.send(body) }
}

/// Answers by the path, and with what it was asked for in fields.
fn origin() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let method = request.method().to_owned();
            let asked: String = ["accept-encoding", "range", "if-range"]
                .into_iter()
                .filter_map(|name| Some(format!("{name}: {};", request.field(name)?)))
                .collect();
            let mut send =
                |head: &str, body: &[u8]| answer(conn, &format!("X-Asked: {asked}\r\n{head}"), &method, body);
            match request.target() {
                "/page" if request.field("if-none-match").is_some() => conn.send(
                    "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nContent-Length: 9999\r\n\r\n",
                )?,
                "/page" => send(
                    "Content-Type: text/html; charset=utf-8\r\nETag: \"v1\"\r\nAccept-Ranges: bytes\r\n\
                     Content-MD5: abc\r\nRepr-Digest: sha-256=:abc:\r\nX-Other: kept\r\nCache-Control: max-age=60\r\n",
                    internal().as_bytes(),
                )?,
                "/gzipped-short" => send(
                    "Content-Type: text/html\r\nContent-Encoding: gzip\r\n",
                    &gzip(&"a".repeat(5_000)),
                )?,
                "/gzipped" => send(
                    "Content-Type: text/html\r\nContent-Encoding: gzip\r\nETag: W/\"z\"\r\nCache-Control: max-age=60\r\n",
                    &gzip(&internal()),
                )?,
                "/deflated" => {
                    send("Content-Type: text/html\r\nContent-Encoding: deflate\r\n", internal().as_bytes())?;
                }
                "/css" => send("Content-Type: text/css\r\nETag: \"c\"\r\n", internal().as_bytes())?,
                "/fixed" => {
                    send("Content-Type: text/html\r\nCache-Control: no-transform\r\n", internal().as_bytes())?;
                }
                "/part" => conn.send(
                    "HTTP/1.1 206 Partial Content\r\nContent-Type: text/html\r\nContent-Range: bytes 0-16/99\r\n\
                     Content-Length: 17\r\n\r\nhttp://a.internal",
                )?,
                "/head" => {
                    let head = "Content-Type: text/html\r\nCache-Control: max-age=60\r\n";
                    send(head, b"<head></head></head>")?;
                }
                "/slow" => {
                    conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                    for byte in internal().bytes().take(600) {
                        conn.send([b"1\r\n", &[byte][..], b"\r\n"].concat())?;
                    }
                    conn.send("0\r\nServer-Timing: a\r\nContent-MD5: x\r\n\r\n")?;
                }
                "/cut" => {
                    conn.send(format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 999999\r\n\r\n{}",
                        internal()
                    ))?;
                    return None;
                }
                _ => send("Content-Type: text/plain\r\n", b"not found")?,
            }
        }
    })
}

fn start(origin: &Origin, keys: &str, settings: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1\nlistener.web.route = [{{ path = \"/\", upstream = \"app\", rewrite_body = {{ {RULES} }}, {keys} }}]\n\
             access_log.format = '{{target}} {{status}} {{reason}}'\naccess_log.output = \"file:{{dir}}/access.log\"\n{settings}"
        ),
    ))
}

fn fetch_with(weir: &Weir, method: &str, target: &str, fields: &str) -> Response {
    Client::exchange(
        weir.web(),
        &format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{fields}Connection: close\r\n\r\n"),
    )
}

fn fetch(weir: &Weir, target: &str) -> Response {
    fetch_with(weir, "GET", target, "")
}

#[test]
fn a_body_is_rewritten_and_its_head_says_so() {
    let origin = origin();
    let weir = start(&origin, "", "");
    for method in ["GET", "HEAD"] {
        let fields = "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\nIf-Range: \"v1\"\r\n";
        let response = fetch_with(&weir, method, "/page", fields);
        for (name, value) in [
            ("x-asked", Some("")),
            ("content-type", Some("text/html; charset=utf-8")),
            ("content-length", None),
            ("content-encoding", None),
            ("etag", Some("W/\"v1\"")),
            ("vary", None),
            ("accept-ranges", None),
            ("content-md5", None),
            ("repr-digest", None),
            ("x-other", Some("kept")),
        ] {
            assert_eq!(response.field(name), value, "{method} {name}");
        }
        assert_eq!(response.status, 200);
        assert_eq!(response.text(), if method == "GET" { page("https://a.test") } else { String::new() });
    }
    // A client that has the page is told so by the tag that it got.
    let response = fetch_with(&weir, "GET", "/page", "If-None-Match: W/\"v1\"\r\n");
    assert_eq!((response.status, response.field("etag")), (304, Some("W/\"v1\"")));
    assert_eq!((response.field("vary"), response.field("content-length")), (None, None));
}

#[test]
fn what_passes_as_it_is() {
    let origin = origin();
    let weir = start(&origin, "", "");
    for target in ["/css", "/fixed", "/deflated"] {
        let response = fetch(&weir, target);
        assert_eq!(response.text(), internal(), "{target}");
        assert_eq!(response.field("content-length"), Some(internal().len().to_string().as_str()));
    }
    assert_eq!(fetch(&weir, "/css").field("etag"), Some("\"c\""));
    let part = fetch(&weir, "/part");
    assert_eq!((part.status, part.text()), (206, "http://a.internal".to_owned()));
    let counted = || weir.metrics().sum("weir_worker_bodies_not_rewritten_total", &["reason=\"encoded\""]);
    eventually("what could not be decoded is counted", || counted() == 1.0);
}

#[test]
fn what_a_server_has_compressed_is_rewritten() {
    let origin = origin();
    for (keys, accepts, coding) in [
        ("", "gzip", None),
        ("compression = true", "br", Some("br")),
        ("compression = true", "gzip, br;q=0.5", Some("gzip")),
        ("compression = true", "", None),
    ] {
        let weir = start(&origin, keys, "");
        for target in ["/gzipped", "/page"] {
            let response = fetch_with(&weir, "GET", target, &format!("Accept-Encoding: {accepts}\r\n"));
            assert_eq!(response.field("content-encoding"), coding, "{target} {keys} {accepts}");
            assert_eq!(
                response.field("vary"),
                (!keys.is_empty()).then_some("Accept-Encoding"),
                "{target} {keys}"
            );
            assert!(response.field("etag").is_some_and(|etag| etag.starts_with("W/\"")), "{target}");
            assert_eq!(text_of(&response), page("https://a.test"), "{target} {keys} {accepts}");
            let head = fetch_with(&weir, "HEAD", target, &format!("Accept-Encoding: {accepts}\r\n"));
            assert_eq!((head.field("content-encoding"), head.field("content-length")), (coding, None));
        }
    }
}

#[test]
fn values_are_escaped_and_a_rule_may_count_once() {
    let origin = origin();
    let weir = start(&origin, "", "");
    let response = fetch_with(&weir, "GET", "/head", "X-Name: <b>&\r\n");
    assert_eq!(response.text(), "<head><x>&lt;b&gt;&amp;</x></head></head>");
}

#[test]
fn bytes_that_come_one_by_one_and_trailers() {
    let origin = origin();
    let weir = start(&origin, "", "");
    let response = fetch(&weir, "/slow");
    let expected = internal()[..600].replace("http://a.internal", "https://a.test");
    assert_eq!(response.text(), expected);
    assert_eq!(response.body.trailers.one("server-timing"), Some("a"));
    assert_eq!(response.body.trailers.one("content-md5"), None);
}

#[test]
fn a_piece_goes_out_as_soon_as_it_cannot_be_part_of_a_match() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nd\r\ndata 1 http:/\r\n",
            )?;
            gate_wait(&opened);
            conn.send("b\r\n/a.internal\r\n0\r\n\r\n")?;
        }
    });
    fn gate_wait(gate: &Gate) {
        gate.wait("the client has the first piece");
    }
    let weir = start(&origin, "", "");
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    client.head();
    assert_eq!(client.take(7), b"data 1 ");
    gate.open();
    assert_eq!(client.take_to_end().0, b"https://a.test");
}

#[test]
fn stored_responses_are_those_of_the_server() {
    let origin = origin();
    let weir = start(
        &origin,
        "cache = \"pages\", compression = true",
        "cache.pages.memory = \"16MiB\"\nadmin.changes = true",
    );
    for target in ["/page", "/gzipped"] {
        for name in ["x", "y", "z"] {
            let response =
                fetch_with(&weir, "GET", target, &format!("X-Name: {name}\r\nRange: bytes=0-9\r\n"));
            assert_eq!((response.status, response.text()), (200, page("https://a.test")), "{target}");
            assert_eq!(response.field("content-range"), None);
        }
        // What is put in is of each request, and not of that which has fetched it.
        for name in ["x", "y", "z"] {
            let response = fetch_with(&weir, "GET", "/head", &format!("X-Name: {name}\r\n"));
            assert_eq!(response.text(), format!("<head><x>{name}</x></head></head>"));
        }
        // What a server has compressed is another variant for requests that say what they accept.
        fetch_with(&weir, "GET", target, "Accept-Encoding: gzip\r\n");
        let response = fetch_with(&weir, "GET", target, "Accept-Encoding: gzip\r\n");
        assert_eq!(response.field("content-encoding"), Some("gzip"));
        assert_eq!(text_of(&response), page("https://a.test"));
        assert!(response.field("cache-status").is_some_and(|status| status.contains("hit")), "{target}");
    }
    let known = fetch_with(&weir, "GET", "/page", "If-None-Match: W/\"v1\"\r\n");
    assert_eq!((known.status, known.field("etag")), (304, Some("W/\"v1\"")));
}

#[test]
fn files_and_answers_of_weir_are_rewritten() {
    let folder = temporary_folder();
    fs::create_dir(folder.path().join("site")).expect("the folder takes another one");
    fs::write(folder.path().join("site/a.html"), internal()).expect("the folder takes files");
    fs::write(folder.path().join("site/a.css"), internal()).expect("the folder takes files");
    let weir = Weir::start_in(
        folder,
        &config_with(
            &["'127.0.0.1:1'".to_owned()],
            &format!(
                "[[listener.web.route]]\npath = \"/files\"\nstrip_prefix = true\nfiles = {{ root = \"site\" }}\nrewrite_body = {{ {RULES} }}\n\
                 [[listener.web.route]]\npath = \"/\"\nrewrite_body = {{ {RULES} }}\n\
                 respond = {{ body = \"at http://a.internal/\", content_type = \"text/html\" }}\n"
            ),
        ),
    );
    for (target, host) in [("/files/a.html", "https://a.test"), ("/files/a.css", "http://a.internal")] {
        let response = fetch_with(&weir, "GET", target, "Range: bytes=0-9\r\n");
        assert_eq!((response.status, response.text()), (200, page(host)), "{target}");
        assert_eq!(response.field("accept-ranges"), None, "{target}");
        let etag = response.field("etag").expect("files have tags").to_owned();
        assert_eq!(etag.starts_with("W/"), target.ends_with("html"), "{etag}");
        let known = fetch_with(&weir, "GET", target, &format!("If-None-Match: {etag}\r\n"));
        assert_eq!((known.status, known.field("etag")), (304, Some(&*etag)), "{target}");
    }
    assert_eq!(fetch(&weir, "/").text(), "at https://a.test/");
}

#[test]
fn over_http2_on_both_sides() {
    let origin = origin();
    let settings = format!(
        "listener.web.rewrite_body = {{ {RULES} }}\nlistener.web.compression = {{ algorithms = [\"gzip\"] }}"
    );
    let (authority, weir) = start_with_tls(&origin, &settings);
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let host = "https://a.test";
    for (target, accepts, coding) in
        [("/page", "gzip", Some("gzip")), ("/page", "br", None), ("/gzipped", "br", None)]
    {
        let stream = client.get_with(target, &[("accept-encoding", accepts), ("range", "bytes=0-9")]);
        let response = client.response(stream);
        assert_eq!((response.status, response.field("content-encoding")), (200, coding), "{target}");
        assert_eq!(response.field("content-length"), None);
        match coding {
            None => assert_eq!(response.text(), page(host)),
            Some(coding) => assert_eq!(decode(coding, &response.body), (page(host), true)),
        }
    }
    let stream = client.get("/slow");
    assert_eq!(client.response(stream).text(), internal()[..600].replace("http://a.internal", host));
    let stream = client.get("/cut");
    assert_ne!(client.wait_for_reset(stream), 0, "no end without an error");
}

#[test]
fn a_server_of_http2() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            assert!(asked.fields.one("accept-encoding").or(asked.fields.one("range")).is_none());
            let head = [(":status", "200"), ("content-type", "text/html")];
            server.send_head(asked.stream, &head, false)?;
            server.send_data(asked.stream, internal().as_bytes(), true)?;
        }
    });
    let weir = start(&origin, "", "upstream.app.protocol = \"h2c\"");
    let response = fetch_with(&weir, "GET", "/", "Accept-Encoding: gzip\r\nRange: bytes=0-9\r\n");
    assert_eq!((response.status, response.text()), (200, page("https://a.test")));
}

#[test]
fn a_body_that_is_cut_has_no_end_and_a_client_that_leaves_leaves_nothing_behind() {
    let origin = origin();
    let weir = start(&origin, "", "");
    let mut client = Client::connect(weir.web());
    client.send("GET /cut HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.head().fields.one("transfer-encoding"), Some("chunked"));
    assert!(!client.take_to_end().0.ends_with(b"0\r\n\r\n"), "no last chunk");
    assert_eq!(weir.access_log(1), ["/cut 200 response-incomplete"]);
    let open = || weir.metrics().sum("weir_worker_compressions_open", &[]);
    for _ in 0..3 {
        let mut client = Client::connect(weir.web());
        client.send("GET /gzipped HTTP/1.1\r\nHost: a.test\r\n\r\n");
        client.reset();
    }
    eventually("decoders are given back", || open() == 0.0);
    assert_eq!(fetch(&weir, "/page").text(), page("https://a.test"));
}

#[test]
fn a_reload_changes_the_rules_of_the_next_response() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\none")?;
            opened.wait("the rules are others");
            conn.send("one")?;
        }
    });
    let config = |to: &str| {
        config_with(
            &[origin.named("a")],
            &format!(
                "listener.web.rewrite_body = {{ rules = [{{ regex = \"(o)n[e]\", to = \"{to}{{1}}\" }}] }}"
            ),
        )
    };
    let weir = Weir::start(&config("1"));
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    client.head();
    weir.reload(&config("2"));
    gate.open();
    assert_eq!(client.take_to_end().0, b"1o1o");
    assert_eq!(fetch(&weir, "/").text(), "2o2o");
}

/// A server that names itself in redirects and cookies.
fn naming_origin() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let fields = match request.target() {
                "/moved" => "Location: http://shop.internal:8080/next?q=http://shop.internal:8080/",
                "/other" => "Location: http://shop.internal:8080.evil.test/",
                "/regex" => "Location: https://b.internal/x/y",
                "/path" => "Location: /old/x",
                "/refresh" => "Refresh: 5; url=\"http://shop.internal:8080/next\"",
                "/stored" => "Location: http://shop.internal:8080/next\r\nCache-Control: max-age=60",
                _ => {
                    "Set-Cookie: session=1; Path=/; Domain=shop.internal; SameSite=None\r\n\
                     Set-Cookie: wp_a=2; path=/old/\r\nSet-Cookie: c=\"3\"; Expires=Thu, 01 Jan 2026 00:00:00 GMT"
                }
            };
            conn.send(format!(
                "HTTP/1.1 302 Found\r\n{fields}\r\nX-Other: kept\r\nContent-Length: 0\r\n\r\n"
            ))?;
        }
    })
}

const FIELDS: &str = "cache.pages.memory = \"16MiB\"\n\
    [[listener.web.route]]\npath = \"/shop\"\nupstream = \"app\"\nstrip_prefix = true\nforward_host = \"shop.internal:8080\"\ncache = { name = \"pages\", key = \"{path}\" }\n\
    rewrite_location = [\n  { server = true },\n  { from = \"/old/\", to = \"/new/\" },\n\
      { regex = \"^https://([a-z]+)[.]internal/\", to = \"{scheme}://{1}.test/{header.x-name}/\" },\n]\n\
    rewrite_cookies = [\n  { domain = { from = \".SHOP.internal\", to = \"{host}\" }, path = { from = \"/\", to = \"/shop/\" } },\n\
      { name = \"session\", secure = true, http_only = true, same_site = \"lax\" },\n\
      { name = \"wp_*\", path = { to = \"/{header.x-name}\" } },\n]\n";

#[test]
fn places_and_cookies_are_rewritten() {
    let origin = naming_origin();
    let weir = Weir::start(&config_with(&[origin.named("a")], FIELDS));
    let fields = "X-Name: a;b\"c d\r\n";
    for (target, name, expected) in [
        ("/moved", "location", "http://a.test/shop/next?q=http://shop.internal:8080/"),
        ("/other", "location", "http://shop.internal:8080.evil.test/"),
        ("/regex", "location", "http://b.test/a;b%22c%20d/x/y"),
        ("/path", "location", "/new/x"),
        ("/refresh", "refresh", "5; url=\"http://a.test/shop/next\""),
    ] {
        let response = fetch_with(&weir, "GET", &format!("/shop{target}"), fields);
        assert_eq!((response.status, response.field(name)), (302, Some(expected)), "{target}");
        assert_eq!(response.field("x-other"), Some("kept"));
    }
    let response = fetch_with(&weir, "GET", "/shop/cookies", fields);
    let cookies = response.fields().all("set-cookie");
    assert_eq!(
        cookies,
        [
            "session=1; Path=/shop/; Domain=a.test; Secure; HttpOnly; SameSite=Lax",
            "wp_a=2; path=/ab\"cd",
            "c=\"3\"; Expires=Thu, 01 Jan 2026 00:00:00 GMT",
        ]
    );
}

#[test]
fn a_stored_redirect_is_of_the_client_that_gets_it() {
    let origin = naming_origin();
    let weir = Weir::start(&config_with(&[origin.named("a")], FIELDS));
    for (host, hit) in [("a.test", false), ("a.test", true), ("a.test:81", true)] {
        let response = Client::exchange(
            weir.web(),
            &format!("GET /shop/stored HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"),
        );
        assert_eq!(response.field("location"), Some(&*format!("http://{host}/shop/next")), "{host}");
        let status = response.field("cache-status").unwrap_or_default();
        assert_eq!(status.contains("hit"), hit, "{host}: {status}");
    }
}

#[test]
fn places_and_cookies_over_http2_and_with_affinity() {
    let origin = naming_origin();
    let settings = format!(
        "{FIELDS}\n[[listener.web.route]]\npath = \"/app\"\nupstream = \"app\"\n\
         rewrite_cookies = [{{ secure = true, same_site = \"strict\" }}]\n[upstream.app.affinity]\ncookie = \"weir\"\n"
    );
    let (authority, weir) = start_with_tls(&origin, &settings);
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let stream = client.get("/shop/moved");
    let response = client.response(stream);
    let location = response.field("location").expect("it is a redirect").to_owned();
    assert!(location.starts_with("https://a.test") && location.contains("/shop/next?q="), "{location}");
    let stream = client.get("/app");
    let response = client.response(stream);
    let cookies = response.fields.all("set-cookie");
    let (own, of_server): (Vec<&str>, Vec<&str>) =
        cookies.into_iter().partition(|cookie| cookie.starts_with("weir="));
    assert_eq!(of_server[1], "wp_a=2; path=/old/; Secure; SameSite=Strict");
    assert_eq!((own.len(), of_server.len()), (1, 3));
    assert!(!own[0].contains("Strict"), "{}", own[0]);
}

/// The length of a body that the server has compressed says nothing of how much there is to compress.
#[test]
fn a_body_that_was_compressed_is_compressed_again_however_short_it_was() {
    let origin = origin();
    let weir = start(&origin, "compression = true", "");
    let response = fetch_with(&weir, "GET", "/gzipped-short", "Accept-Encoding: gzip\r\n");
    assert_eq!(
        (response.field("content-encoding"), response.field("vary")),
        (Some("gzip"), Some("Accept-Encoding"))
    );
    assert_eq!(text_of(&response), "a".repeat(5_000));
    let response = fetch_with(&weir, "GET", "/gzipped-short", "Accept-Encoding: identity\r\n");
    assert_eq!((response.field("content-encoding"), response.field("vary")), (None, Some("Accept-Encoding")));
    assert_eq!(response.text(), "a".repeat(5_000));
}

#[test]
fn attributes_of_cookies_by_regular_expressions() {
    let origin = naming_origin();
    let settings = "[[listener.web.route]]\npath = \"/x\"\nupstream = \"app\"\nrewrite_cookies = [\n\
        { domain = { regex = '^([a-z]+)\\.INTERNAL$', to = \"{1}.{host}\" } },\n\
        { path = { regex = '^/(old)?/?$', to = \"/{1}new{header.x-name}\" } },\n]\n";
    let (authority, weir) = start_with_tls(&origin, settings);
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let stream = client.get_with("/x", &[("x-name", "; Secure")]);
    let response = client.response(stream);
    assert_eq!(
        response.fields.all("set-cookie"),
        [
            "session=1; Path=/newSecure; Domain=shop.a.test; SameSite=None",
            "wp_a=2; path=/oldnewSecure",
            "c=\"3\"; Expires=Thu, 01 Jan 2026 00:00:00 GMT",
        ]
    );
}

/// Redirects of Weir, and those of servers that a rule has made a path, name the host that the client has asked for; those that pass do not.
#[test]
fn redirects_to_a_path_name_the_host_where_that_is_wanted() {
    let origin = naming_origin();
    let folder = temporary_folder();
    fs::create_dir(folder.path().join("sub")).expect("the folder is writable");
    let routes = format!(
        "[[listener.web.route]]\npath = \"/shop\"\nupstream = \"app\"\nstrip_prefix = true\n\
         rewrite_location = [{{ from = \"http://shop.internal:8080/\", to = \"/shop/\" }}]\n\
         [[listener.web.route]]\npath = \"/moved\"\nredirect.to = \"/next?x=1\"\n\
         [[listener.web.route]]\npath = \"/away\"\nredirect.to = \"https://b.test/\"\n\
         [[listener.web.route]]\npath = \"/sub\"\nfiles.root = \"{}\"\n",
        folder.path().display()
    );
    let rows = [
        ("/shop/moved", "location", "/shop/next?q=http://shop.internal:8080/"),
        ("/shop/refresh", "refresh", "5; url=\"/shop/next\""),
        ("/shop/path", "location", "/old/x"),
        ("/moved", "location", "/next?x=1"),
        ("/away", "location", "https://b.test/"),
        ("/sub", "location", "/sub/"),
    ];
    for is_wanted in [false, true] {
        let settings = format!("{H2C}listener.web.absolute_redirect = {is_wanted}\n{routes}");
        let weir = Weir::start(&config_with(&[origin.named("a")], &settings));
        let mut client = Http2Client::connect(weir.web());
        for (target, name, path) in rows {
            let is_absolute =
                is_wanted && name == "location" && !path.contains("https://") && path != "/old/x";
            let expected = if is_absolute { format!("http://a.test:81{path}") } else { path.to_owned() };
            let request = format!("GET {target} HTTP/1.1\r\nHost: A.test:81\r\nConnection: close\r\n\r\n");
            let response = Client::exchange(weir.web(), &request);
            assert_eq!(response.field(name), Some(&*expected), "{target}");
            let by_http2 = client.fetch(target);
            let location = by_http2.field(name).unwrap_or_default();
            assert!(location.ends_with(path) && (location == path) != is_absolute, "{target}: {location}");
        }
        // Without a host, there is none to name.
        let response = Client::exchange(weir.web(), "GET /moved HTTP/1.0\r\n\r\n");
        assert_eq!(response.field("location"), Some("/next?x=1"));
    }
}

/// `*` is for bodies without a media type, too.
#[test]
fn bodies_without_a_media_type() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nfoo")?;
        }
    });
    for (types, expected) in [("\"*\"", "bar"), ("\"text/*\"", "foo")] {
        let settings = format!(
            "[[listener.web.route]]\npath = \"/x\"\nupstream = \"app\"\ncompression = true\n\
             rewrite_body = {{ types = [{types}], rules = [{{ text = \"foo\", to = \"bar\" }}] }}\n"
        );
        let weir = Weir::start(&config_with(&[origin.named("a")], &settings));
        let response = fetch_with(&weir, "GET", "/x", "Accept-Encoding: gzip\r\n");
        assert_eq!(
            (response.text().as_str(), response.field("content-encoding")),
            (expected, None),
            "{types}"
        );
    }
}
