//! Copies of requests for another upstream: what they are, what they never do to the exchange, and how responses compare.

use std::sync::Arc;

use rustix::process::Signal;

use crate::harness::origin::{ok, status};
use crate::harness::{
    CLOSED_PORT, Client, Gate, Http2Client, Metrics, Origin, Response, Weir, config_with, eventually,
};

fn config(origin: &Origin, mirrors: &str, keys: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1
             listener.web.access_log.format = \"{{status}} {{reason}} {{upstream}}\"
             listener.web.access_log.output = \"file:{{dir}}/access.log\"
             admin.socket = \"unix:{{dir}}/weir.sock\"
             listener.web.http2.prior_knowledge = \"allowed\"
             upstream.new.servers = [{mirrors}]
             [[listener.web.route]]
             path = \"/\"
             name = \"all\"
             upstream = \"app\"
             request_headers.set = {{ x-target = \"{{path}}\" }}
             [listener.web.route.mirror]
             upstream = \"new\"
             {keys}"
        ),
    )
}

fn start(origin: &Origin, mirror: &Origin, keys: &str) -> Weir {
    Weir::start(&config(origin, &mirror.entry(), keys))
}

/// What is counted of the mirror of the route; 0 before there is anything to count.
fn count(metrics: &Metrics, name: &str, label: &str) -> f64 {
    total(metrics, &format!("weir_route_mirror_{name}_total"), &["route=\"all\"", label])
}

fn total(metrics: &Metrics, name: &str, labels: &[&str]) -> f64 {
    metrics.all(name, labels).iter().sum()
}

fn wait_for(weir: &Weir, name: &str, label: &str, expected: f64) {
    eventually(&format!("{name} {label} is {expected}"), || {
        (count(&weir.metrics(), name, label) - expected).abs() < 0.5
    });
}

fn send(weir: &Weir, request: &str) -> Response {
    Client::exchange(weir.web(), request)
}

#[test]
fn a_copy_has_the_path_that_the_mirror_says() {
    for (path, target, expected) in [
        ("/mirror{path}{query}", "/a%20b?x=1", "/mirror/a%20b?x=1"),
        ("{path}?copy={header.x-name}", "/a?x=1", "/a?copy=n%20/../?%23"),
    ] {
        let (origin, mirror) = (Origin::serving("real"), Origin::serving("copied"));
        let weir = start(&origin, &mirror, &format!("path = \"{path}\""));
        let head = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nX-Name: n /../?#\r\n\r\n");
        assert_eq!(send(&weir, &head).text(), "real");
        eventually("the copy has come", || mirror.requests().len() == 1);
        assert_eq!(mirror.requests()[0].target(), expected, "{path}");
        assert_eq!(origin.requests()[0].target(), target, "the request itself keeps its path");
        let mut client = Http2Client::connect(weir.web());
        assert_eq!(client.fetch_by_post("/a", b"").text(), "real", "of other methods there are no copies");
    }
    // One that leads out of the root is none.
    let (origin, mirror) = (Origin::serving("real"), Origin::serving("copied"));
    let weir = start(&origin, &mirror, "path = \"/m/{header.x-climb}\"");
    for climb in ["../../..", "..", "%2e%2e/x", "b/../c", "a"] {
        let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Climb: {climb}\r\n\r\n");
        assert_eq!(send(&weir, &head).text(), "real");
    }
    eventually("the last copy has come", || {
        mirror.requests().iter().any(|request| request.target() == "/m/a")
    });
    let targets: Vec<String> = mirror.requests().iter().map(|request| request.target().to_owned()).collect();
    assert_eq!(targets, ["/m/a"]);
    wait_for(&weir, "failures", "", 4.0);
}

/// Where slashes are decoded and NUL is refused, values of a copy's path bring neither there.
#[test]
fn a_copy_has_no_path_that_its_listener_refuses() {
    let (origin, mirror) = (Origin::serving("real"), Origin::serving("copied"));
    let text = config(&origin, &mirror.entry(), "path = \"/m/{header.x-climb}\"");
    let strict = "listener.web.paths.encoded_slash = \"decode\"\nlistener.web.lenient.encoded_nul = false\nadmin.socket";
    let weir = Weir::start(&text.replace("admin.socket", strict));
    for climb in ["..%2fx", "b%2F%2e%2e%2Fc", "c%00", "a"] {
        let head = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Climb: {climb}\r\n\r\n");
        assert_eq!(send(&weir, &head).text(), "real");
    }
    wait_for(&weir, "failures", "", 3.0);
    eventually("the last copy has come", || !mirror.requests().is_empty());
    let targets: Vec<String> = mirror.requests().iter().map(|request| request.target().to_owned()).collect();
    assert_eq!(targets, ["/m/a"]);
}

#[test]
fn a_copy_is_the_request_as_a_server_gets_it_with_a_mark() {
    let (origin, mirror) = (Origin::serving("real"), Origin::serving("copied"));
    let weir = start(&origin, &mirror, "methods = [\"GET\", \"POST\"]");
    let fields =
        "X-A: 1\r\nConnection: x-b\r\nX-B: 2\r\nExpect: 100-continue\r\nX-Forwarded-For: 192.0.2.1\r\n";
    let bodies = [
        ("Content-Length: 5\r\n\r\nhello", "hello"),
        ("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "abcde"),
        ("\r\n", ""),
    ];
    for (number, (body, text)) in bodies.into_iter().enumerate() {
        let mut client = Client::connect(weir.web());
        client.send(format!("POST /a/../b?c=d HTTP/1.1\r\nHost: a.test\r\n{fields}{body}"));
        assert_eq!(client.final_response().text(), "real");
        let copy = mirror.wait_for_requests(number + 1).remove(number);
        assert_eq!(copy.text(), text);
        let real = origin.last_request();
        assert_eq!(copy.head.start_line, real.head.start_line);
        for name in
            ["host", "x-a", "x-b", "x-forwarded-for", "x-forwarded-proto", "x-target", "content-length"]
        {
            assert_eq!(copy.fields().all(name), real.fields().all(name), "{name}");
        }
        assert_eq!((copy.field("x-weir-mirror"), real.field("x-weir-mirror")), (Some("1"), None));
        assert_eq!(copy.field("expect"), None);
    }
    wait_for(&weir, "requests", "", 3.0);
    let metrics = weir.metrics();
    assert_eq!(
        total(&metrics, "weir_listener_requests_total", &["listener=\"web\""]),
        3.0,
        "they are no client's"
    );
    assert_eq!(weir.access_log(3), ["200 - app"; 3]);
    eventually("they count for their upstream", || {
        total(&weir.metrics(), "weir_upstream_requests_total", &["upstream=\"new\""]) > 2.5
    });
}

#[test]
fn methods_that_may_change_something_are_left_alone() {
    let (origin, mirror) = (Origin::serving("real"), Origin::serving("copied"));
    let weir = start(&origin, &mirror, "");
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "GET"] {
        let request = format!("{method} /{method} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(send(&weir, &request).status, 200);
    }
    mirror.wait_for_requests(2);
    wait_for(&weir, "requests", "", 2.0);
    let mut targets = mirror.targets();
    targets.sort();
    assert_eq!(targets, ["/GET", "/OPTIONS"]);
}

#[test]
fn streams_of_http2_are_copied() {
    let (origin, mirror) = (Origin::serving("real"), Origin::serving("real"));
    let weir = start(&origin, &mirror, "compare = [\"status\", \"headers\", \"body\"]");
    let mut client = Http2Client::connect(weir.web());
    let streams: Vec<u32> = (0..10).map(|_| client.get_with("/x", &[("x-a", "1")])).collect();
    for stream in streams {
        assert_eq!(client.response(stream).status, 200);
    }
    wait_for(&weir, "compared", "", 10.0);
    assert_eq!(count(&weir.metrics(), "differences", ""), 0.0);
    assert!(mirror.requests().iter().all(|copy| copy.field("x-a") == Some("1")));
}

#[test]
fn responses_differ_in_status_headers_and_body() {
    let answer = |target: &str, is_mirror: bool| {
        match (target, is_mirror) {
        ("/status", true) => status(404),
        ("/status", false) => status(410),
        ("/headers", true) => "HTTP/1.1 200 OK\r\nX-A: 2\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ("/headers", false) => "HTTP/1.1 200 OK\r\nX-A: 1\r\nX-Gone: 1\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ("/body", true) => ok("one"),
        ("/body", false) => ok("two"),
        ("/framing", true) => "HTTP/1.1 200 OK\r\nDate: x\r\nServer: new\r\nSet-Cookie: a=1\r\nX-Own: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n".to_owned(),
        _ => ok("one"),
    }
    };
    let serve = |is_mirror| {
        Origin::start(move |conn| {
            loop {
                let request = conn.request()?;
                conn.send(answer(request.target(), is_mirror))?;
            }
        })
    };
    let (origin, mirror) = (serve(false), serve(true));
    let weir = start(
        &origin,
        &mirror,
        "compare = [\"status\", \"headers\", \"body\"]\nignore_headers = [\"X-Own\"]",
    );
    for (number, target) in ["/status", "/headers", "/body", "/framing", "/same"].into_iter().enumerate() {
        Client::get(weir.web(), target);
        wait_for(&weir, "compared", "", (number + 1) as f64);
    }
    for what in ["status", "headers", "body"] {
        wait_for(&weir, "differences", &format!("what=\"{what}\""), 1.0);
    }
    let mirror = &weir.admin_json("/api/mirrors")[0];
    assert_eq!((&mirror["route"], &mirror["upstream"]), (&"all".into(), &"new".into()));
    let found = mirror["last_differences"].as_array().expect("there are some");
    let by_target = |target: &str| found.iter().find(|one| one["target"] == target).expect("it is listed");
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        (&by_target("/status")["status"], &by_target("/status")["mirror_status"]),
        (&410.into(), &404.into())
    );
    assert_eq!(by_target("/headers")["headers"], serde_json::json!(["x-a", "x-gone"]));
    assert_eq!(by_target("/body")["body"][0], 3);
    let shown = weir.run_over_socket(&["ctl", "mirrors", "all", "--last", "1"]).stdout;
    for part in ["all of web: 100% to new", "copies    5 sent, 0 failed", "GET /body [", "]: body 3 B "] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(!shown.contains("/headers"), "{shown}");
    let line = weir.line(&["answered in another way"]);
    for part in ["/status", "410", "404"] {
        assert!(line.contains(part), "{line}");
    }
}

/// `hello` in gzip; the last byte of the head names the system of the program.
fn gzip_of_hello(system: u8) -> Vec<u8> {
    let head = [31, 139, 8, 0, 0, 0, 0, 0, 0, system];
    let (body, end) = ([203, 72, 205, 201, 201, 7, 0], [134, 166, 16, 54, 5, 0, 0, 0]);
    [&head[..], &body, &end].concat()
}

#[test]
fn bodies_are_compared_without_their_coding_and_differences_counted_by_the_route_of_the_mirror() {
    let answer = |target: &str, is_mirror: bool| {
        let (coding, body) = match (target, is_mirror) {
            ("/plain", true) => ("", b"hello".to_vec()),
            ("/other", true) => ("", b"others".to_vec()),
            ("/broken", true) => ("Content-Encoding: gzip\r\n", b"junk".to_vec()),
            (_, is_mirror) => ("Content-Encoding: gzip\r\n", gzip_of_hello(if is_mirror { 3 } else { 255 })),
        };
        let route = if is_mirror { "X-Route: one\r\n" } else { "" };
        let head = format!("HTTP/1.1 200 OK\r\n{coding}{route}Content-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), &body].concat()
    };
    let serve = |is_mirror| {
        Origin::start(move |conn| {
            loop {
                let request = conn.request()?;
                conn.send(answer(request.target(), is_mirror))?;
            }
        })
    };
    let (origin, copied) = (serve(false), serve(true));
    let weir = start(&origin, &copied, "compare = [\"decoded-body\"]\nroute_header = \"X-Route\"");
    for (number, target) in ["/gzip", "/plain", "/other", "/broken"].into_iter().enumerate() {
        let response = Client::get(weir.web(), target);
        assert_eq!(response.field("content-encoding"), Some("gzip"), "clients get it as it is sent");
        wait_for(&weir, "compared", "", (number + 1) as f64);
    }
    wait_for(&weir, "differences", "what=\"body\"", 1.0);
    let mirror = &weir.admin_json("/api/mirrors")[0];
    assert_eq!(mirror["routes"], serde_json::json!([{ "route": "one", "differences": [0, 0, 1] }]));
    let found = &mirror["last_differences"][0];
    assert_eq!((&found["target"], &found["answered_by"]), (&"/other".into(), &"one".into()));
    assert_eq!((&found["body"][0], &found["mirror_body"][0]), (&5.into(), &6.into()), "{found:#}");
    let shown = weir.run_over_socket(&["ctl", "mirrors"]).stdout;
    assert!(shown.contains("  by one: status 0, headers 0, body 1\n"), "{shown}");

    // The header itself is no difference.
    let weir = start(&origin, &copied, "compare = [\"headers\"]\nroute_header = \"X-Route\"");
    Client::get(weir.web(), "/gzip");
    wait_for(&weir, "compared", "", 1.0);
    assert_eq!(count(&weir.metrics(), "differences", ""), 0.0);
}

#[test]
fn a_mirror_that_is_dead_or_silent_does_nothing_to_the_exchange() {
    let origin = Origin::serving("real");
    let weir = Weir::start(&config(&origin, &format!("\"{CLOSED_PORT}\""), "compare = [\"body\"]"));
    for _ in 0..5 {
        assert_eq!(Client::get(weir.web(), "/").text(), "real");
    }
    wait_for(&weir, "failures", "", 5.0);
    assert_eq!(weir.access_log(5), ["200 - app"; 5]);

    let gate = Arc::new(Gate::new());
    let opened = Arc::clone(&gate);
    let silent = Origin::start(move |conn| {
        conn.request()?;
        gate.wait("the end");
        None
    });
    let weir = start(&origin, &silent, "concurrent_max = 2\ntimeout = \"200ms\"");
    for _ in 0..5 {
        assert_eq!(Client::get(weir.web(), "/").text(), "real");
    }
    let metrics = weir.metrics();
    let sent = count(&metrics, "requests", "");
    assert!((1.5..5.5).contains(&sent), "{sent} copies");
    wait_for(&weir, "failures", "", sent);
    opened.open();
}

#[test]
fn a_copy_waits_in_no_queue() {
    let (origin, gate) = (Origin::serving("real"), Arc::new(Gate::new()));
    let opened = Arc::clone(&gate);
    let mirror = Origin::start(move |conn| {
        loop {
            conn.request()?;
            gate.wait("the second copy");
            conn.send(ok("late"))?;
        }
    });
    let entry = format!("{{ address = \"{}\", max_requests = 1 }}", mirror.address());
    let weir = Weir::start(&config(&origin, &entry, ""));
    Client::get(weir.web(), "/1");
    mirror.wait_for_requests(1);
    Client::get(weir.web(), "/2");
    wait_for(&weir, "failures", "", 1.0);
    opened.open();
    eventually("the first copy has its response", || {
        total(&weir.metrics(), "weir_upstream_responses_total", &["upstream=\"new\"", "class=\"2xx\""]) > 0.5
    });
    assert_eq!(mirror.targets(), ["/1"]);
}

#[test]
fn a_body_that_is_too_long_is_not_copied() {
    let (origin, mirror) = (Origin::serving("real"), Origin::serving("copied"));
    let weir = start(&origin, &mirror, "methods = [\"POST\"]\nbody_max = \"4B\"");
    let chunked = |body: &str| {
        format!(
            "POST /{body} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        )
    };
    let sized = |body: &str| {
        format!("POST /{body} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    for request in [chunked("abcde"), sized("abcde"), chunked("abcd"), sized("abcd")] {
        assert_eq!(send(&weir, &request).text(), "real");
    }
    wait_for(&weir, "skipped", "reason=\"body-too-long\"", 2.0);
    wait_for(&weir, "requests", "", 2.0);
    assert!(mirror.wait_for_requests(2).iter().all(|copy| copy.text() == "abcd"));
}

#[test]
fn an_exchange_that_its_client_breaks_off_is_not_copied() {
    let (mirror, gate) = (Origin::serving("copied"), Arc::new(Gate::new()));
    let opened = Arc::clone(&gate);
    let origin = Origin::start(move |conn| {
        loop {
            if conn.request()?.target() == "/slow" {
                gate.wait("the client");
            }
            conn.send(ok("real"))?;
        }
    });
    let weir = start(&origin, &mirror, "");
    let mut client = Client::connect(weir.web());
    client.send_get("/slow");
    origin.wait_for_requests(1);
    client.reset();
    eventually("Weir notices", || total(&weir.metrics(), "weir_listener_failures_total", &[]) > 0.5);
    opened.open();
    assert_eq!(Client::get(weir.web(), "/next").text(), "real");
    mirror.wait_for_requests(1);
    assert_eq!(mirror.targets(), ["/next"]);
}

#[test]
fn a_share_of_nothing_is_nothing_and_a_reload_changes_it() {
    let (origin, gate) = (Origin::serving("real"), Arc::new(Gate::new()));
    let opened = Arc::clone(&gate);
    let mirror = Origin::start(move |conn| {
        loop {
            conn.request()?;
            gate.wait("the reload");
            conn.send(ok("other"))?;
        }
    });
    let weir = start(&origin, &mirror, "share = \"0%\"");
    for _ in 0..20 {
        Client::get(weir.web(), "/none");
    }
    weir.reload(&config(&origin, &mirror.entry(), "compare = [\"body\"]"));
    Client::get(weir.web(), "/copied");
    mirror.wait_for_requests(1);
    // Its route is gone when the copy has its response.
    weir.reload(&config_with(&[origin.named("a")], ""));
    opened.open();
    eventually("the copy is over", || {
        total(&weir.metrics(), "weir_worker_background_requests_open", &[]) < 0.5
    });
    assert_eq!(mirror.targets(), ["/copied"]);
    assert_eq!(Client::get(weir.web(), "/").text(), "real");
}

#[test]
fn a_copy_that_runs_does_not_keep_weir_from_stopping() {
    let (origin, gate) = (Origin::serving("real"), Arc::new(Gate::new()));
    let opened = Arc::clone(&gate);
    let mirror = Origin::start(move |conn| {
        conn.request()?;
        gate.wait("the end");
        None
    });
    let mut weir = start(&origin, &mirror, "");
    Client::get(weir.web(), "/");
    mirror.wait_for_requests(1);
    assert!(weir.run_over_socket(&["ctl", "connections"]).stdout.contains("new"), "it is listed");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    opened.open();
}

/// Each mirror has its own methods, share and limits, and its own comparison.
#[test]
fn several_mirrors_each_get_their_copies() {
    let origin = Origin::serving("real");
    let mirrors = [Origin::serving("real"), Origin::serving("other"), Origin::serving("never")];
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1\nupstream.same.servers = [{}]\nupstream.new.servers = [{}]\nupstream.off.servers = [{}]\n\
             [[listener.web.route]]\npath = \"/\"\nname = \"all\"\nupstream = \"app\"\n\
             [[listener.web.route.mirror]]\nupstream = \"same\"\nmethods = [\"GET\", \"POST\"]\ncompare = [\"body\"]\n\
             [[listener.web.route.mirror]]\nupstream = \"new\"\ncompare = [\"status\", \"body\"]\n\
             [[listener.web.route.mirror]]\nupstream = \"off\"\nshare = \"0%\"\n",
            mirrors[0].entry(),
            mirrors[1].entry(),
            mirrors[2].entry(),
        ),
    ));
    let mut client = Client::connect(weir.web());
    client.send("POST /first HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().text(), "real");
    assert_eq!(mirrors[0].wait_for_requests(1).remove(0).text(), "hello");
    assert_eq!(client.fetch("/second").text(), "real");
    mirrors[0].wait_for_requests(2);
    mirrors[1].wait_for_requests(1);
    wait_for(&weir, "requests", "", 3.0);
    wait_for(&weir, "compared", "", 3.0);
    wait_for(&weir, "differences", "what=\"body\"", 1.0);
    assert_eq!(mirrors[1].targets(), ["/second"]);
    assert_eq!(mirrors[2].requests().len(), 0);
}

/// A client cannot pass its request off as a copy, and the mirror does not get what binds a client to a server of the route.
#[test]
fn marks_and_affinity_cookies_are_not_of_clients() {
    let (origin, mirror) = (Origin::serving("real"), Origin::serving("copied"));
    let keys = "mark_header = \"x-copy\"";
    let weir = Weir::start(&format!(
        "{}\n[upstream.app.affinity]\ncookie = \"srv\"\n",
        config(&origin, &mirror.entry(), keys)
    ));
    let cookie = Client::get(weir.web(), "/").field("set-cookie").expect("it binds the client").to_owned();
    let pair = cookie.split(';').next().expect("it has a pair");
    let mut client = Http2Client::connect(weir.web());
    let cookies = format!("a=b; {pair}; c=d");
    let fields = [("cookie", &*cookies), ("x-copy", "1"), ("x_copy", "1")];
    let stream = client.get_with("/bound", &fields);
    assert_eq!(client.response(stream).text(), "real");
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    assert_eq!(send(&weir, &format!("GET /bound HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n")).text(), "real");
    let bound =
        |of: &Origin| of.requests().into_iter().filter(|one| one.target() == "/bound").collect::<Vec<_>>();
    eventually("both are copied", || bound(&mirror).len() == 2);
    for (requests, marks) in [(bound(&origin), vec![]), (bound(&mirror), vec!["1"])] {
        for request in requests {
            assert_eq!(
                (request.field("cookie"), request.fields().all("x-copy")),
                (Some("a=b; c=d"), marks.clone())
            );
            assert_eq!(request.fields().all("x_copy"), [""; 0]);
        }
    }
}
