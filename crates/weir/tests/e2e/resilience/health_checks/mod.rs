//! Servers that are probed: taken out when they do not answer as expected, brought back when they do.

mod connections;
mod conversations;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::metrics::of_server;
use crate::harness::origin::{ok, status};
use crate::harness::scripts::{gated, probed};
use crate::harness::{
    Client, End, FailureSwitch, Gate, Metrics, Origin, Weir, config_with, eventually, latin1,
    temporary_folder,
};

/// Quick probes with time for a busy machine: nothing here hangs unless a test means it to.
const QUICK: &str = "path = \"/healthz\", interval = \"30ms\", timeout = \"15s\"";

/// One listener `web` in front of `servers`, given as entries of the list, probed as `health` says.
fn config(servers: &[String], health: &str) -> String {
    config_with(servers, &format!("log.level = \"debug\"\nupstream.app.health = {{ {health} }}\n"))
}

/// An origin whose probes are answered by `health`, and everything else by its name.
fn origin(name: &'static str, health: impl Fn() -> String + Send + Sync + 'static) -> Origin {
    Origin::start(move |conn| {
        loop {
            let is_probe = conn.request()?.target() == "/healthz";
            conn.send(if is_probe { health() } else { ok(name) })?;
        }
    })
}

fn probes(metrics: &Metrics, server: &str, result: &str) -> f64 {
    metrics.sum("weir_server_probes_total", &[&of_server(server), &format!("result=\"{result}\"")])
}

fn wait_until(weir: &Weir, server: &str, up: bool) {
    eventually(&format!("{server} is up: {up}"), || weir.is_up(server) == up);
}

/// Waits until `server` has been probed `count` more times, each with `result`.
fn wait_for_probes(weir: &Weir, server: &str, result: &str, count: f64) {
    let before = probes(&weir.metrics(), server, result);
    eventually(&format!("{server} is probed"), || probes(&weir.metrics(), server, result) >= before + count);
}

#[test]
fn a_server_that_answers_500_is_taken_out_and_comes_back() {
    let is_ill = FailureSwitch::new(false);
    let a = probed("a", &is_ill);
    let b = origin("b", || status(204));
    let weir = Weir::start(&config(&[a.named("a"), b.named("b")], &format!("{QUICK}, fall = 3, rise = 2")));
    let mut client = Client::connect(weir.web());
    let mut ask = || {
        let response = client.fetch("/");
        assert_eq!(response.status, 200, "{response:?}");
        response.text()
    };
    wait_for_probes(&weir, "a", "passed", 1.0);
    eventually("both servers get requests", || ask() == "a");
    eventually("both servers get requests", || ask() == "b");

    is_ill.set(true);
    wait_until(&weir, "a", false);
    for _ in 0..30 {
        assert_eq!(ask(), "b");
    }
    let down = weir.line(&["the server is down", "server=\"a\""]);
    assert!(down.contains("3 of 3 probes failed"), "{down}");
    for part in ["upstream=\"app\"", "reason=\"response-unexpected-status 500\"", "servers_up=1", "servers=2"]
    {
        assert!(down.contains(part), "{part}: {down}");
    }
    let history = "response-unexpected-status 500 0.";
    assert!(down.contains("passed ") && down.contains(history) && down.contains("500 now"), "{down}");
    weir.line(&["a probe failed", "response-unexpected-status 500"]);

    is_ill.set(false);
    wait_until(&weir, "a", true);
    eventually("it gets requests again", || ask() == "a");
    let up = weir.line(&["the server is up again"]);
    assert!(up.contains("2 of 2 probes passed") && up.contains("servers_up=2"), "{up}");
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_server_health_changes_total", &[&of_server("a")]), 2.0);
    assert_eq!(metrics.sum("weir_server_health_changes_total", &[&of_server("b")]), 0.0);
    let failures =
        metrics.sum("weir_server_probe_failures_total", &["reason=\"response-unexpected-status\""]);
    assert!(failures >= 3.0 && failures == probes(&metrics, "a", "failed"), "{failures}");
    assert_eq!(probes(&metrics, "b", "failed"), 0.0);
    assert!(metrics.sum("weir_server_probe_time_seconds", &[&of_server("b")]) > 0.0);
}

/// Takes connections, and after its first probe never answers again. Found out by `fall` probes that run into their time
/// limit, one after the other.
#[test]
fn a_server_that_hangs_is_found_out() {
    let hung = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&hung);
    let a = Origin::start(move |conn| {
        conn.request()?;
        if conn.index == 0 {
            return conn.send(status(200));
        }
        counted.fetch_add(1, Ordering::SeqCst);
        conn.wait_for_end();
        Some(())
    });
    let b = origin("b", || status(200));
    let health = "path = \"/healthz\", interval = \"300ms\", timeout = \"1s\", fall = 2";
    let weir = Weir::start(&config(&[a.named("a"), b.named("b")], health));
    // The traffic has not been through `a`, or connection 0 might not have been a probe.
    let down = weir.line(&["the server is down", "server=\"a\""]);
    assert!(down.contains("2 of 2 probes failed") && down.contains("reason=\"response-timeout\""), "{down}");
    assert!(!weir.is_up("a"));
    for _ in 0..10 {
        assert_eq!(Client::get(weir.web(), "/").text(), "b");
    }
    // They go on, one at a time: each begins after the end of the last.
    eventually("probes go on", || hung.load(Ordering::SeqCst) >= 4);
    for index in 1..4 {
        assert_eq!(a.wait_for_end(index), End::Closed);
    }
}

/// The server does not listen at the start: the first probe decides, also about the last server. Then it listens.
#[test]
fn without_any_server_that_is_up_there_is_a_503() {
    let folder = temporary_folder();
    let path = folder.path().join("app.sock");
    let weir =
        Weir::start(&config(&[format!("{{ name = \"a\", address = \"unix:{}\" }}", path.display())], QUICK));
    let down = weir.line(&["the server is down"]);
    assert!(
        down.contains("1 of 1 probes failed") && down.contains("reason=\"connect-socket-missing\""),
        "{down}"
    );
    weir.line(&["ERROR", "no server of the upstream is up", "upstream=\"app\""]);
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.reason()), (503, Some("no-server")), "{response:?}");

    let _a = Origin::start_unix(&path, |conn| {
        loop {
            conn.request()?;
            conn.send(ok("fine"))?;
        }
    });
    eventually("the server comes back", || Client::get(weir.web(), "/").status == 200);
    weir.line(&["the server is up again", "2 of 2 probes passed"]);
}

/// A client whose request for `/slow` has the only slot, on `a`, and one that waits behind it.
fn slow_and_waiting(weir: &Weir, a: &Origin) -> [Client; 2] {
    let mut first = Client::connect(weir.web());
    first.send_get("/slow");
    eventually("the slow request is under way", || a.targets().contains(&"/slow".to_owned()));
    let mut second = Client::connect(weir.web());
    second.send_get("/quick");
    eventually("the second waits", || weir.queue_length() == 1);
    [first, second]
}

/// Requests in the queue get the server that comes back, and not only when the busy one is done.
#[test]
fn a_server_that_comes_back_serves_waiting_requests() {
    let gate = Gate::new();
    let a = gated(&gate, "/slow", "a");
    let is_ill = FailureSwitch::new(true);
    let b = probed("b", &is_ill);
    let servers = [a.named("a"), b.named("b")];
    let weir = Weir::start(&format!("{}upstream.app.max_requests = 1\n", config(&servers, QUICK)));
    wait_until(&weir, "b", false);
    let [mut first, mut second] = slow_and_waiting(&weir, &a);
    is_ill.set(false);
    assert_eq!(second.response().text(), "b");
    gate.open();
    assert_eq!(first.response().text(), "a");
}

/// Requests on the last server go on; requests in the queue fail at once with `no-server`, as new ones do.
#[test]
fn no_request_waits_when_all_servers_are_down() {
    let gate = Gate::new();
    let slow = gate.clone();
    let is_ill = FailureSwitch::new(false);
    let ill = is_ill.clone();
    let a = Origin::start(move |conn| {
        loop {
            if conn.request()?.target() == "/healthz" {
                conn.send(status(if ill.is_on() { 503 } else { 200 }))?;
            } else {
                slow.wait("the others have been sent away");
                conn.send(ok("a"))?;
            }
        }
    });
    let weir = Weir::start(&format!("{}upstream.app.max_requests = 1\n", config(&[a.named("a")], QUICK)));
    let [mut first, mut second] = slow_and_waiting(&weir, &a);
    is_ill.set(true);
    let sent_away = second.response();
    assert_eq!((sent_away.status, sent_away.reason()), (503, Some("no-server")));
    let refused = Client::get(weir.web(), "/late");
    assert_eq!((refused.status, refused.reason()), (503, Some("no-server")));
    gate.open();
    assert_eq!(first.response().text(), "a");
}

/// Bodies in every framing, and every way in which one can be wrong.
#[test]
fn the_body_decides() {
    let long = format!("{}ready 7", "x".repeat(40));
    let cases: Vec<(&str, String, Option<&str>)> = vec![
        ("length", ok("all ready 5 now"), None),
        (
            "chunked",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n rea\r\n5;a=b\r\ndy 12\r\n0\r\n\r\n"
                .into(),
            None,
        ),
        ("until-close", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nready 1".into(), None),
        ("interim", format!("HTTP/1.1 103 Early Hints\r\n\r\n{}", ok("ready 3")), None),
        ("http-1.0", "HTTP/1.0 200 OK\r\n\r\nready 1".into(), None),
        ("wrong", ok("starting"), Some("response-unexpected-body")),
        ("empty", ok(""), Some("response-unexpected-body")),
        ("no-content", "HTTP/1.1 204 No Content\r\n\r\n".into(), Some("response-unexpected-body")),
        ("too-late", ok(&long), Some("response-unexpected-body")),
        ("cut", "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nready 1".into(), Some("response-incomplete")),
        ("cut-head", "HTTP/1.1 200 OK\r\nContent-Le".into(), Some("response-head-incomplete")),
        (
            "bad-chunk",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".into(),
            Some("response-bad-chunk-size"),
        ),
        ("no-http", "SSH-2.0-OpenSSH\r\n".into(), Some("response-bad-status-line")),
        ("silent", String::new(), Some("response-closed")),
        (
            "switch",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n".into(),
            Some("response-unexpected-upgrade"),
        ),
        (
            "not-found",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nready 1".into(),
            Some("response-unexpected-status 404"),
        ),
    ];
    let origins: Vec<Origin> = cases
        .iter()
        .map(|(_, response, _)| {
            let response = response.clone();
            Origin::start(move |conn| {
                conn.request()?;
                conn.send(&response)
            })
        })
        .collect();
    let servers: Vec<String> =
        cases.iter().zip(&origins).map(|((name, ..), origin)| origin.named(name)).collect();
    let health = format!("{QUICK}, body_regex = '^.*ready \\d', body_size = \"40B\"");
    let weir = Weir::start(&config(&servers, &health));
    for (name, _, failure) in &cases {
        match failure {
            Some(reason) => {
                let down = weir.line(&["the server is down", &format!("server=\"{name}\"")]);
                assert!(down.contains(&format!("reason=\"{reason}\"")), "{name}: {down}");
                assert!(!weir.is_up(name), "{name}");
            }
            None => {
                wait_for_probes(&weir, name, "passed", 2.0);
                assert!(weir.is_up(name), "{name}");
                assert_eq!(probes(&weir.metrics(), name, "failed"), 0.0, "{name}");
            }
        }
    }
}

#[test]
fn a_text_in_the_body_is_enough() {
    let (a, b) = (origin("a", || ok("{\"status\":\"UP\"}")), origin("b", || ok("{\"status\":\"DOWN\"}")));
    let health = format!("{QUICK}, body_contains = '\"status\":\"UP\"'");
    let weir = Weir::start(&config(&[a.named("a"), b.named("b")], &health));
    wait_until(&weir, "b", false);
    wait_for_probes(&weir, "a", "passed", 2.0);
    assert!(weir.is_up("a"));
}

/// A connection is enough, and nothing is sent over it.
#[test]
fn tcp_probes_only_connect() {
    let a = Origin::start(|conn| {
        conn.wait_for_end();
        Some(())
    });
    let servers = [a.named("a"), "{ name = \"b\", address = \"unix:{dir}/none.sock\" }".to_owned()];
    let weir = Weir::start(&config(&servers, "interval = \"30ms\", timeout = \"15s\""));
    wait_until(&weir, "b", false);
    a.wait_for_connections(3);
    for index in 0..2 {
        assert_eq!(a.wait_for_end(index), End::Closed);
        assert_eq!(latin1(&a.connection(index).received), "");
    }
    assert!(weir.is_up("a"));
    assert_eq!(probes(&weir.metrics(), "a", "failed"), 0.0);
}

/// Every byte of a probe is as configured, and each has a connection of its own, which ends in order.
#[test]
fn probes_ask_what_the_config_says() {
    let a = Origin::start(|conn| {
        conn.request()?;
        conn.send(status(418))?;
        conn.wait_for_end();
        Some(())
    });
    let health = "path = \"/status?full=1\", method = \"POST\", host = \"app.test:81\", status = [200, \"410-419\"], \
                  headers = { x-probe = \"weir one\", user-agent = \"check\" }, interval = \"30ms\", timeout = \"15s\", connection_age = \"off\"";
    let weir = Weir::start(&config(&[a.named("a")], health));
    a.wait_for_connections(3);
    for index in 0..2 {
        assert_eq!(a.wait_for_end(index), End::Closed);
        assert_eq!(
            latin1(&a.connection(index).received),
            "POST /status?full=1 HTTP/1.1\r\nHost: app.test:81\r\nx-probe: weir one\r\nuser-agent: check\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    assert!(weir.is_up("a"));
    wait_for_probes(&weir, "a", "passed", 1.0);
}

#[test]
fn a_probe_has_the_server_as_host_by_default() {
    let a = origin("a", || status(200));
    let weir = Weir::start(&config(&[a.named("a")], &format!("{QUICK}, method = \"HEAD\"")));
    let probe = a.wait_for_requests(1).remove(0);
    assert_eq!((probe.method(), probe.target()), ("HEAD", "/healthz"));
    assert_eq!(probe.field("host"), Some(a.address().to_string().as_str()));
    let agent = probe.field("user-agent").unwrap_or_default();
    assert!(agent.starts_with("weir-health/"), "{agent}");
    assert_eq!(probe.field("connection"), None, "it is kept for the next probe");
    assert!(probe.field("via").is_none() && probe.field("x-forwarded-for").is_none(), "{probe:?}");
    wait_for_probes(&weir, "a", "passed", 1.0);
}

/// The port of the probes is that of the server, or else that of the upstream, or else that of the traffic; and a server may
/// do without.
#[test]
fn other_ports_and_no_probes() {
    let traffic: Vec<Origin> = ["own", "shared", "none"].map(Origin::serving).into();
    let (well, ill) = (origin("", || status(200)), origin("", || status(500)));
    let server = |name: &str, origin: &Origin, more: &str| {
        format!("{{ name = \"{name}\", address = \"{}\", {more} }}", origin.address())
    };
    let servers = [
        server("own", &traffic[0], &format!("health_port = {}", well.address().port())),
        server("shared", &traffic[1], ""),
        server("none", &traffic[2], "health = false"),
    ]
    .map(|server| server.replace(",  }", " }"));
    let health = format!("{QUICK}, port = {}", ill.address().port());
    let weir = Weir::start(&config(&servers, &health));
    wait_until(&weir, "shared", false);
    wait_for_probes(&weir, "own", "passed", 2.0);
    assert!(weir.is_up("own") && weir.is_up("none"));
    assert!(traffic.iter().all(|origin| origin.connections() == 0), "the port of the traffic is not probed");
    assert!(weir.metrics().all("weir_server_probes_total", &[&of_server("none")]).is_empty());
    for _ in 0..20 {
        let text = Client::get(weir.web(), "/").text();
        assert!(["own", "none"].contains(&text.as_str()), "{text}");
    }
}

/// A server whose name is not known yet when the process starts is not taken for dead, and a name that has no address is.
#[test]
fn servers_with_names_are_probed_where_they_are() {
    let a = origin("a", || status(200));
    let servers = [
        format!("{{ name = \"a\", address = \"localhost:{}\" }}", a.address().port()),
        "{ name = \"b\", address = \"no-such-host.invalid:80\" }".to_owned(),
    ];
    let weir = Weir::start(&config(&servers, QUICK));
    let down = weir.line(&["the server is down"]);
    assert!(down.contains("server=\"b\"") && down.contains("connect-name-unresolved"), "{down}");
    wait_for_probes(&weir, "a", "passed", 2.0);
    let metrics = weir.metrics();
    assert_eq!(probes(&metrics, "a", "failed"), 0.0);
    assert_eq!(metrics.sum("weir_server_health_changes_total", &[&of_server("a")]), 0.0);
}

/// Which of 100 requests come from `b`, whose half they are.
fn from_b(client: &mut Client) -> usize {
    let mut from_b = 0;
    for _ in 0..100 {
        from_b += usize::from(client.fetch("/").text() == "b");
    }
    from_b
}

/// Half of the requests are a server's share; one that has just come back gets next to none, and its half in the end.
#[test]
fn a_server_that_comes_back_starts_slowly() {
    for (slow_start, is_slow) in [("1h", true), ("300ms", false), ("off", false)] {
        let is_ill = FailureSwitch::new(true);
        let a = origin("a", || status(200));
        let b = probed("b", &is_ill);
        let config = config(&[a.named("a"), b.named("b")], QUICK);
        let weir = Weir::start(&format!("{config}upstream.app.slow_start = \"{slow_start}\"\n"));
        wait_until(&weir, "b", false);
        is_ill.set(false);
        wait_until(&weir, "b", true);
        let mut client = Client::connect(weir.web());
        if is_slow {
            let from_b = from_b(&mut client);
            assert!(from_b < 5, "{from_b} of 100 requests, one of 256 is due");
        } else {
            eventually("b has its share", || from_b(&mut client) >= 45);
        }
    }
}

/// A server on its way up, or down again before it was there, has its whole share under a config without slow
/// start, or without health checks.
#[test]
fn a_slow_start_ends_when_the_config_drops_it() {
    for (is_down, keeps) in [(false, "health"), (true, "health"), (true, "slow_start")] {
        let is_ill = FailureSwitch::new(true);
        let a = origin("a", || status(200));
        let b = probed("b", &is_ill);
        let config = config(&[a.named("a"), b.named("b")], QUICK);
        let before = format!("{config}upstream.app.slow_start = \"1h\"\n");
        let weir = Weir::start(&before);
        wait_until(&weir, "b", false);
        is_ill.set(false);
        wait_until(&weir, "b", true);
        if is_down {
            is_ill.set(true);
            wait_until(&weir, "b", false);
        }
        let is_kept =
            |line: &&str| line.contains(keeps) || !line.contains("health") && !line.contains("slow_start");
        weir.reload(&before.lines().filter(is_kept).map(|line| format!("{line}\n")).collect::<String>());
        is_ill.set(false);
        let mut client = Client::connect(weir.web());
        eventually("b has its share", || from_b(&mut client) >= 45);
    }
}
