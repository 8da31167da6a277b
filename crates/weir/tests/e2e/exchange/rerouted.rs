//! Requests that go on elsewhere, with all that a request may have: bodies that were sent, kept or are still coming, upgrades, calls of gRPC, copies,
//! retries and limits. No server gets half a body, and the connection of the client stays in step.

use std::fs;
use std::time::Duration;

use crate::harness::http2::H2C;
use crate::harness::http2::server::Http2Server;
use crate::harness::origin::ok;
use crate::harness::scripts::pattern;
use crate::harness::watchdog::now;
use crate::harness::websocket::{HANDSHAKE, assert_byte_comes_back, switch_and_return_bytes, switch_for};
use crate::harness::{
    CLOSED_PORT, Client, Gate, Http2Client, Origin, Weir, config_with, eventually, temporary_folder,
};

const SETTINGS: &str = r#"
[[listener.web.route]]
path = "/to-path"
upstream = "app"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/to-name"
upstream = "app"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/kept"
upstream = "app"
x_accel = ["redirect"]
buffer_requests = {}
[[listener.web.route]]
path = "/echo"
internal = true
upstream = "app"
[[listener.web.route]]
name = "echo"
internal = true
upstream = "app"
"#;

/// Sends requests for `/to-...` on, and answers all else, and what comes for the second time, with what it has got.
fn leading() -> Origin {
    Origin::start(|conn| {
        let mut sent_on = false;
        loop {
            let request = conn.request()?;
            let to = match request.target() {
                "/to-path" => Some("/echo/x"),
                "/to-name" | "/kept" if !sent_on => Some("@echo"),
                _ => None,
            };
            sent_on = to.is_some();
            match to {
                Some(to) => conn.send(format!(
                    "HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\nContent-Length: 6\r\n\r\nhidden"
                ))?,
                None => conn.send(ok(&format!(
                    "{} {} {}",
                    request.method(),
                    request.target(),
                    request.body.bytes.len()
                )))?,
            }
        }
    })
}

fn start(origin: &Origin, settings: &str) -> Weir {
    let folder = temporary_folder();
    fs::create_dir(folder.path().join("site")).expect("the folder takes folders");
    fs::write(folder.path().join("site/a.txt"), "a").expect("the folder takes files");
    // One worker: a script tells requests of its connection apart.
    let settings = format!("{H2C}process.workers = 1\n{settings}");
    Weir::start_in(folder, &config_with(&[origin.named("a")], &settings))
}

#[test]
fn a_body_goes_to_one_server_or_whole_to_both() {
    let origin = leading();
    let weir = start(&origin, SETTINGS);
    let mut client = Client::connect(weir.web());
    let mut modern = Http2Client::connect(weir.web());
    for (target, len, expected) in [
        ("/to-path", 5, "GET /echo/x 0"),
        ("/to-path", 300_000, "GET /echo/x 0"),
        ("/to-name", 5, "POST /to-name 5"),
        // More than is kept: the method does not fit any more.
        ("/to-name", 300_000, "GET /to-name 0"),
        ("/kept", 5, "POST /kept 5"),
        ("/kept", 300_000, "POST /kept 300000"),
    ] {
        let body = pattern(len);
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\nContent-Type: x/y\r\n\r\n"
        ));
        client.send(&body);
        assert_eq!(client.response().text(), expected, "{target} {len}");
        let chunk = [format!("{len:x}\r\n").as_bytes(), &body, b"\r\n0\r\nX-Trailer: 1\r\n\r\n"].concat();
        client.send(format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
        client.send(chunk);
        assert_eq!(client.response().text(), expected, "{target} {len} in chunks");
        assert_eq!(modern.fetch_by_post(target, &body).text(), expected, "{target} {len} by HTTP/2");
    }
    assert_eq!(client.fetch("/after").text(), "GET /after 0");
    assert_eq!(modern.fetch("/after").text(), "GET /after 0");
    let types = origin.requests().into_iter().filter(|request| request.target() == "/echo/x");
    assert!(
        types.clone().count() > 0 && types.clone().all(|request| request.field("content-type").is_none())
    );
}

/// The server answers while the body is on its way: what is still to come is no matter of the other server, nor the next request.
#[test]
fn the_rest_of_a_body_is_no_request() {
    let origin = Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            if head.word(1) == "/to-path" {
                conn.send("HTTP/1.1 200 OK\r\nX-Accel-Redirect: /echo/x\r\nContent-Length: 0\r\n\r\n")?;
                conn.request_body(head)?;
                continue;
            }
            let request = conn.request_body(head)?;
            conn.send(ok(&format!(
                "{} {} {}",
                request.method(),
                request.target(),
                request.body.bytes.len()
            )))?;
        }
    });
    let weir = start(&origin, SETTINGS);
    let led_on = || {
        let before = weir.metrics().all("weir_server_responses_total", &[]).iter().sum::<f64>();
        move |weir: &Weir| {
            eventually("the server has led on", || {
                weir.metrics().all("weir_server_responses_total", &[]).iter().sum::<f64>() > before + 0.5
            });
        }
    };
    let mut client = Client::connect(weir.web());
    let wait = led_on();
    client.send("POST /to-path HTTP/1.1\r\nHost: a\r\nContent-Length: 26\r\n\r\nGET /");
    wait(&weir);
    client.send("smuggled HTTP/1.1\r\n\r\n");
    assert_eq!(client.response().text(), "GET /echo/x 0");
    let wait = led_on();
    client.send("POST /to-path HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n");
    wait(&weir);
    client.send("a\r\n0123456789\r\n0\r\n\r\n");
    assert_eq!(client.response().text(), "GET /echo/x 0");
    assert_eq!(client.fetch("/after").text(), "GET /after 0");
    let mut modern = Http2Client::connect(weir.web());
    let wait = led_on();
    let stream = modern.post("/to-path", &[]);
    modern.data(stream, "first", false);
    wait(&weir);
    modern.data(stream, "second", true);
    assert_eq!(modern.response(stream).text(), "GET /echo/x 0");
    assert_eq!(modern.fetch("/after").text(), "GET /after 0");
    assert!(
        origin.targets().iter().all(|target| ["/echo/x", "/after"].contains(&target.as_str())),
        "{:?}",
        origin.targets()
    );
    // A client that waits to be asked for its body is not asked any more.
    let mut client = Client::connect(weir.web());
    client.send("POST /to-path HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, "GET /echo/x 0"));
    client.assert_closed();
    // One that leaves in between is no failure of a server.
    let mut client = Client::connect(weir.web());
    client.send("POST /to-path HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\nhello");
    drop(client);
    assert_eq!(Client::get(weir.web(), "/after").text(), "GET /after 0");
}

/// An error page that is another route, for a server that answers early: it gets the whole body or none of the rest, but never one with a gap.
#[test]
fn no_gap_is_in_a_body_whose_response_cannot_be_replaced() {
    let (gate, answered) = (Gate::new(), Gate::new());
    let (open, told) = (gate.clone(), answered.clone());
    let origin = Origin::start(move |conn| {
        let head = conn.head()?;
        if head.word(0) != "POST" {
            let request = conn.request_body(head)?;
            conn.send(ok(request.target()))?;
            return None;
        }
        open.wait("the client has sent more than the server has read");
        conn.send("HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nmissing")?;
        told.wait("the rest of the body is on its way");
        let request = conn.request_body(head)?;
        assert_eq!(request.body.bytes, pattern(4_000_000), "the body has no gap");
        None
    });
    let settings = r#"
[[listener.web.route]]
path = "/app"
upstream = "app"
error_pages = [{ status = 404, then = "/page", of_servers = true }]
"#;
    let weir = start(&origin, settings);
    let body = pattern(4_000_000);
    let mut client = Client::connect(weir.web());
    client.send("POST /app HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = |bytes: &[u8]| [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let mut sender = client.duplicate();
    origin.wait_for_connections(1);
    let sending = std::thread::spawn(move || {
        let _ = sender.send_what_is_taken(chunk(&body[..3_000_000]));
        answered.open();
        let _ = sender.send_what_is_taken([chunk(&body[3_000_000..]), b"0\r\n\r\n".to_vec()].concat());
    });
    // What fits the buffers is taken; the rest waits for the server to read.
    std::thread::yield_now();
    gate.open();
    let response = client.response();
    assert!(
        [(404, "missing".to_owned()), (404, "/page".to_owned())]
            .contains(&(response.status, response.text())),
        "{response:?}"
    );
    sending.join().expect("the client sends all of it");
}

#[test]
fn upgrades_go_on_too() {
    let origin = Origin::start(|conn| {
        loop {
            let head = conn.head()?;
            match head.fields.one("upgrade") {
                Some(_) if head.word(1).starts_with("/socket") => {
                    conn.send(switch_for(&head))?;
                    loop {
                        let byte = conn.take(1)?;
                        conn.send(byte)?;
                    }
                }
                Some(_) => {
                    conn.send("HTTP/1.1 200 OK\r\nX-Accel-Redirect: /socket/x\r\nContent-Length: 0\r\n\r\n")?;
                }
                None => conn.send(ok(head.word(1)))?,
            }
        }
    });
    let settings = format!(
        r#"
upstream.down.servers = ["{CLOSED_PORT}"]
listener.web.rewrite = [{{ pattern = '^/old', replacement = "/socket/old", flag = "last" }}]
[[listener.web.route]]
path = "/named"
then = "socket"
rewrite = [{{ pattern = '^/named', replacement = "/socket/named", flag = "break" }}]
[[listener.web.route]]
path = "/socket"
name = "socket"
upstream = "app"
[[listener.web.route]]
path = "/fallback"
files = {{ root = "{{dir}}/site", fallback = "/socket/fallback" }}
[[listener.web.route]]
path = "/obeyed"
upstream = "app"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/down"
upstream = "down"
error_pages = [{{ status = 502, then = "/page", status_of_target = true }}]
[[listener.web.route]]
path = "/page"
respond = {{ status = 200, body = "page" }}
"#
    );
    let weir = start(&origin, &settings);
    for target in ["/old", "/named", "/fallback", "/obeyed", "/socket"] {
        let mut client = Client::connect(weir.web());
        client.send(HANDSHAKE.replacen("/socket", target, 1));
        let head = client.head();
        assert_eq!(head.status(), Ok(101), "{target}: {head:?}");
        assert_byte_comes_back(&mut client);
    }
    let ask = |modern: &mut Http2Client, target: &str| {
        let fields = [
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":scheme", "http"),
            (":authority", "a.test"),
            (":path", target),
            ("sec-websocket-version", "13"),
        ];
        modern.open(&fields, false)
    };
    let mut modern = Http2Client::connect(weir.web());
    for target in ["/old", "/named", "/socket"] {
        let stream = ask(&mut modern, target);
        let head = modern.head(stream);
        assert_eq!((head.status, head.is_over()), (200, false), "{target}: {head:?}");
        modern.data(stream, "x", false);
        assert_eq!(modern.body(stream, 1), b"x", "{target}");
    }
    // A tunnel that was asked for is none where another response is given: no status of a page opens it.
    for target in ["/down", "/obeyed", "/page"] {
        let stream = ask(&mut modern, target);
        let outcome = modern.outcome(stream);
        assert!(!(200..300).contains(&outcome.status) || outcome.is_over(), "{target}: {outcome:?}");
    }
    assert_eq!(modern.fetch("/page").text(), "page");
}

#[test]
fn calls_of_grpc_go_on_by_routes_alone() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let head = [
                (":status", "200"),
                ("content-type", "application/grpc"),
                ("x-accel-redirect", "/files/a.txt"),
                ("x-at", asked.path()),
            ];
            server.send_head(asked.stream, &head, false)?;
            server.send_data(asked.stream, &asked.body, false)?;
            server.send_head(asked.stream, &[("grpc-status", "0"), ("x-accel-redirect", "/a")], true)?;
        }
    });
    let settings = r#"
upstream.app.protocol = "h2c"
[[listener.web.route]]
path = "/old.Service"
rewrite = [{ pattern = '^/old\.Service/(.*)$', replacement = "/new.Service/$1", flag = "last" }]
respond.status = 404
[[listener.web.route]]
path = "/then.Service"
then = "calls"
[[listener.web.route]]
path = "/new.Service"
name = "calls"
upstream = "app"
x_accel = ["redirect", "limit_rate"]
[[listener.web.route]]
path = "/files"
internal = true
files.alias = "{dir}/site"
"#;
    let weir = start(&origin, settings);
    let mut client = Http2Client::connect(weir.web());
    for (target, at) in [
        ("/old.Service/Do", "/new.Service/Do"),
        ("/then.Service/Do", "/then.Service/Do"),
        ("/new.Service/Do", "/new.Service/Do"),
    ] {
        let stream = client.post(target, &[("content-type", "application/grpc"), ("te", "trailers")]);
        client.data(stream, b"\0\0\0\0\x02hi", true);
        let response = client.response(stream);
        assert_eq!(
            (response.status, response.body.as_slice()),
            (200, &b"\0\0\0\0\x02hi"[..]),
            "{target}: {response:?}"
        );
        assert_eq!(response.field("x-at"), Some(at), "{target}");
        let trailers = response.trailers.as_ref().expect("a call ends with trailers");
        assert_eq!((trailers.one("grpc-status"), trailers.one("x-accel-redirect")), (Some("0"), None));
        assert_eq!(response.field("x-accel-redirect"), None);
    }
}

/// The mirror of the first route gets what its server got.
#[test]
fn a_request_that_is_sent_on_is_copied() {
    let origin = leading();
    let mirror = Origin::serving("copied");
    let settings = format!(
        r#"
upstream.new.servers = [{}]
[[listener.web.route]]
path = "/to-path"
upstream = "app"
x_accel = ["redirect"]
mirror = {{ upstream = "new", methods = ["GET", "POST"], compare = ["status", "headers", "body"] }}
[[listener.web.route]]
path = "/echo"
internal = true
upstream = "app"
[[listener.web.route]]
path = "/missing"
upstream = "app"
mirror = {{ upstream = "new" }}
error_pages = [{{ status = 200, then = "/echo/page", of_servers = true }}]
"#,
        mirror.entry()
    );
    let settings = settings.replace("status = 200, then", "status = 404, then");
    let weir = start(&origin, &settings);
    let response =
        Client::exchange(weir.web(), "POST /to-path HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(response.text(), "GET /echo/x 0");
    let copies = mirror.wait_for_requests(1);
    assert_eq!(
        (copies[0].method(), copies[0].target(), copies[0].text().as_str()),
        ("POST", "/to-path", "hello")
    );
    eventually("the copy is counted", || {
        weir.metrics().all("weir_route_mirror_requests_total", &[]).iter().sum::<f64>() > 0.5
    });
}

/// Each route has all of the attempts that its upstream allows, and a copy of the body for them.
#[test]
fn each_route_has_its_own_attempts() {
    let origin = Origin::start(|conn| {
        loop {
            let to = if conn.request()?.target() == "/to-path" { "/echo/x" } else { "@echo" };
            conn.send(format!("HTTP/1.1 200 OK\r\nX-Accel-Redirect: {to}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let (failing, good) = (
        Origin::start(|conn| {
            loop {
                conn.request()?;
                conn.send("HTTP/1.1 503 Bad\r\nContent-Length: 0\r\n\r\n")?;
            }
        }),
        Origin::start(|conn| {
            loop {
                let request = conn.request()?;
                conn.send(ok(&format!("{} {}", request.method(), request.body.bytes.len())))?;
            }
        }),
    );
    let settings = format!(
        r#"
[[listener.web.route]]
path = "/to-path"
upstream = "app"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/to-name"
upstream = "app"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/echo"
internal = true
upstream = "two"
[[listener.web.route]]
name = "echo"
internal = true
upstream = "two"
[upstream.two]
balance = "round-robin"
servers = [{}, {}]
retry = {{ attempts_max = 2, on_status = [503], methods = ["GET", "POST"], budget_per_second = 1000 }}
"#,
        failing.entry(),
        good.entry()
    );
    let weir = start(&origin, &settings);
    for _ in 0..4 {
        assert_eq!(Client::get(weir.web(), "/to-path").text(), "GET 0");
        let post = "POST /to-name HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(Client::exchange(weir.web(), post).text(), "POST 5");
    }
    assert!(!failing.requests().is_empty(), "the first attempt fails");
}

/// A limit on bandwidth that both routes have holds for the response that the client gets.
#[test]
fn a_limit_on_bandwidth_holds_wherever_a_request_goes() {
    const LEN: usize = 60_000;
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /long\r\nContent-Length: {LEN}\r\n\r\n"
            ))?;
            conn.send(pattern(LEN))?;
        }
    });
    let settings = r#"
limit.slow = { key = "{target}", bandwidth = "50kB/s", bandwidth_burst = "4KiB" }
listener.web.limited_by = "slow"
[[listener.web.route]]
path = "/fallback"
files = { root = "{dir}/site", fallback = "/plain" }
[[listener.web.route]]
path = "/obeyed"
upstream = "app"
x_accel = ["redirect"]
[[listener.web.route]]
path = "/page"
files.root = "{dir}/site"
error_pages = [{ status = 404, then = "/long" }]
[[listener.web.route]]
path_exact = "/long"
files = { root = "{dir}/site" }
"#;
    let weir = start(&origin, settings);
    fs::write(weir.folder().join("site/long"), pattern(LEN)).expect("the folder takes files");
    for target in ["/plain", "/fallback", "/obeyed", "/page"] {
        let began = now();
        assert_eq!(Client::get(weir.web(), target).body.bytes.len(), LEN, "{target}");
        let took = began.elapsed();
        assert!(took > Duration::from_millis(900), "{target}: {took:?}");
    }
}

#[test]
fn a_tunnel_by_name_is_a_tunnel() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        switch_and_return_bytes(conn)
    });
    let settings = r#"
[[listener.web.route]]
path = "/socket"
then = "named"
[[listener.web.route]]
name = "named"
internal = true
upstream = "app"
"#;
    let weir = start(&origin, settings);
    let mut client = Client::connect(weir.web());
    client.send(HANDSHAKE);
    assert_eq!(client.head().status(), Ok(101));
    assert_byte_comes_back(&mut client);
}
