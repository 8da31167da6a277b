//! Outlier ejection: a failing server gets no requests for a while, then one trial, then its share again when that succeeds.

use std::time::Duration;

use crate::harness::metrics::of_server;
use crate::harness::origin::{ok, status};
use crate::harness::scripts::{gated, probed};
use crate::harness::watchdog::work;
use crate::harness::{
    CLOSED_PORT, Client, Connection, FailureSwitch, Gate, Origin, Weir, config_with, eventually, of_upstream,
};

/// One listener `web` in front of `servers`, given as entries of the list, in turn, with more lines about the upstream.
fn config(servers: &[String], more: &str) -> String {
    let keys = of_upstream(&format!("balance = \"round-robin\"\n{more}"));
    config_with(servers, &format!("admin.changes = true\n{keys}"))
}

fn answering(code: u16) -> impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static {
    move |conn| conn.send(status(code))
}

fn is_ejected(weir: &Weir, server: &str) -> bool {
    weir.metrics().sum("weir_server_ejected", &[&of_server(server)]) == 1.0
}

fn ejections(weir: &Weir, server: &str, reason: &str) -> f64 {
    // A server that had no request yet has no sample.
    weir.metrics()
        .all("weir_server_ejections_total", &[&of_server(server), &format!("reason=\"{reason}\"")])
        .iter()
        .sum()
}

/// Whatever a server does wrong, clients of requests that can be repeated see nothing of it, and soon it gets no more of them. When it is well
/// again it gets its share.
#[test]
fn one_of_three_servers_is_ill() {
    type Deed = fn(&mut Connection) -> Option<()>;
    let deeds: [(&str, Deed); 5] = [
        ("response-unexpected-status 503", |conn| conn.send(status(503))),
        ("response-reset", |conn| {
            conn.reset();
            None
        }),
        ("response-closed", |_| None),
        ("response-bad-status-line", |conn| {
            conn.send("SSH-2.0-OpenSSH\r\n")?;
            None
        }),
        ("response-timeout", |conn| {
            conn.wait_for_end();
            None
        }),
    ];
    for (reason, deed) in deeds {
        let is_ill = FailureSwitch::new(true);
        let a = is_ill.origin("a", deed);
        let (b, c) = (Origin::serving("b"), Origin::serving("c"));
        // Short only where the server is to run into it: on a busy machine the others could.
        let timeout = if reason == "response-timeout" { "2s" } else { "30s" };
        let more = format!(
            "retry.on_status = [503]\nretry.on_timeout = true\ntimeouts.response = \"{timeout}\"\nejection = {{ consecutive_failures = 2, base_time = \"100ms\" }}"
        );
        let weir = Weir::start(&config(&[a.named("a"), b.named("b"), c.named("c")], &more));
        let mut client = Client::connect(weir.web());
        let mut ask = || {
            let response = client.fetch("/");
            assert_eq!(response.status, 200, "{reason}: {response:?}");
            response.text()
        };
        eventually("the server is ejected", || {
            ask();
            ejections(&weir, "a", "consecutive-failures") > 0.0
        });
        let ejected =
            weir.line(&["the server is ejected for 0.1s: 2 requests failed in a row", "server=\"a\""]);
        for part in ["WARN", "upstream=\"app\"", "times=1", "servers_usable=2", "servers=3", reason, " now"] {
            assert!(ejected.contains(part), "{part}: {ejected}");
        }
        eventually("it is tried again, and is still ill", || {
            ask();
            ejections(&weir, "a", "trial") > 0.0
        });
        is_ill.set(false);
        eventually("it is back", || ask() == "a" && !is_ejected(&weir, "a"));
        weir.line(&["INFO", "the server may have one request to try", "server=\"a\""]);
        weir.line(&[
            "INFO",
            "the server is back: the request that it was tried with succeeded",
            "servers_usable=3",
        ]);
        for server in ["b", "c"] {
            assert_eq!(
                weir.metrics().sum("weir_server_ejections_total", &[&of_server(server)]),
                0.0,
                "{reason}"
            );
            assert_eq!(
                weir.metrics().sum("weir_server_outlier_failures_total", &[&of_server(server)]),
                0.0,
                "{reason}"
            );
        }
    }
}

/// A server that refuses connections is ejected as one that answers badly, also by requests that cannot be repeated.
#[test]
fn a_server_that_is_not_there() {
    let entry = format!("{{ name = \"gone\", address = \"{CLOSED_PORT}\" }}");
    let b = Origin::serving("b");
    let weir = Weir::start(&config(
        &[entry, b.named("b")],
        "ejection.base_time = \"1h\"\nejection.max_time = \"1h\"",
    ));
    for _ in 0..20 {
        let response =
            Client::exchange(weir.web(), "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(response.text(), "b", "it never left Weir: {response:?}");
    }
    let ejected = weir.line(&["the server is ejected for 3600.0s: 5 requests failed in a row"]);
    assert!(ejected.contains("connect-refused"), "{ejected}");
    assert!(is_ejected(&weir, "gone"));
    assert_eq!(
        weir.metrics().sum("weir_server_attempts_total", &[&of_server("gone")]),
        5.0,
        "and not once more"
    );
}

/// While it is ejected it gets nothing, and the time is noticed without traffic.
#[test]
fn an_ejected_server_gets_no_requests() {
    let is_ill = FailureSwitch::new(true);
    let a = is_ill.origin("a", answering(502));
    let b = Origin::serving("b");
    let servers = [a.named("a"), b.named("b")];
    let weir = Weir::start(&config(
        &servers,
        "ejection = { consecutive_failures = 3, base_time = \"1h\", max_time = \"1h\" }",
    ));
    let mut statuses = Vec::new();
    for _ in 0..100 {
        statuses.push(Client::get(weir.web(), "/").status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 3, "{statuses:?}");
    assert_eq!(a.requests().len(), 3);

    let weir =
        Weir::start(&config(&servers, "ejection = { consecutive_failures = 1, base_time = \"50ms\" }"));
    while !is_ejected(&weir, "a") {
        Client::get(weir.web(), "/");
    }
    eventually("its time is up", || !is_ejected(&weir, "a"));
    weir.line(&["the server may have one request to try"]);
}

/// When all fail, half of them stay, and what they answer is what clients get.
#[test]
fn all_servers_are_ill() {
    let is_ill = FailureSwitch::new(true);
    let origins = ["a", "b", "c"].map(|name| is_ill.origin(name, answering(503)));
    let servers: Vec<String> =
        ["a", "b", "c"].iter().zip(&origins).map(|(name, origin)| origin.named(name)).collect();
    let weir = Weir::start(&config(
        &servers,
        "ejection = { consecutive_failures = 2, base_time = \"1h\", max_time = \"1h\" }",
    ));
    for _ in 0..60 {
        let response = Client::get(weir.web(), "/");
        assert_eq!((response.status, response.reason()), (503, None), "{response:?}");
    }
    let out = ["a", "b", "c"].into_iter().filter(|server| is_ejected(&weir, server)).count();
    assert_eq!(out, 1);
    is_ill.set(false);
    for _ in 0..10 {
        assert_eq!(Client::get(weir.web(), "/").status, 200);
    }
}

/// Ejected for long, but then the operator takes the other server away: one that fails is better than none.
#[test]
fn the_last_that_is_left_comes_back_at_once() {
    let is_ill = FailureSwitch::new(true);
    let a = is_ill.origin("a", answering(503));
    let b = Origin::serving("b");
    let more = "ejection = { consecutive_failures = 1, base_time = \"1h\", max_time = \"1h\" }";
    let weir = Weir::start(&config(&[a.named("a"), b.named("b")], more));
    while !is_ejected(&weir, "a") {
        Client::get(weir.web(), "/");
    }
    is_ill.set(false);
    let table = || Client::get_by_address(weir.address("admin"), "/servers").text();
    assert!(table().contains("app\ta\tserving\tejected\t"), "{}", table());
    weir.set_mode("b", "maintenance");
    assert_eq!(Client::get(weir.web(), "/").text(), "a");
    assert!(table().contains("app\ta\tserving\tup\t"), "{}", table());
    weir.line(&["the server is back: no other is left", "server=\"a\""]);
}

/// A 500 says that something is wrong with a request, a client that leaves says nothing, and a kept connection that the server closed is no failure.
#[test]
fn what_is_no_failure() {
    let closing = Gate::new();
    let gate = closing.clone();
    let a = Origin::start(move |conn| {
        loop {
            match conn.request()?.target() {
                "/error" => conn.send(status(500))?,
                "/slow" => {
                    gate.open();
                    conn.wait_for_end();
                    return None;
                }
                "/last" => {
                    conn.send(ok("a"))?;
                    // The next request finds the connection dead only after it was sent.
                    conn.head()?;
                    conn.reset();
                    return None;
                }
                _ => conn.send(ok("a"))?,
            }
        }
    });
    let b = Origin::serving("b");
    let backup = format!("{{ name = \"b\", address = \"{}\", backup = true }}", b.address());
    let more = "ejection = { consecutive_failures = 1, error_rate = \"1%\", requests_min = 1, interval = \"100ms\" }";
    let weir = Weir::start(&config(&[a.named("a"), backup], more));
    for _ in 0..3 {
        assert_eq!(Client::get(weir.web(), "/error").status, 500);
    }
    let mut leaving = Client::connect(weir.web());
    leaving.send_get("/slow");
    closing.wait("the request has reached the server");
    leaving.reset();
    for _ in 0..3 {
        assert_eq!(Client::get(weir.web(), "/last").text(), "a");
        assert_eq!(Client::get(weir.web(), "/").text(), "a");
    }
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_server_outlier_failures_total", &[]), 0.0);
    assert_eq!(metrics.sum("weir_server_ejections_total", &[]), 0.0);
}

#[test]
fn a_server_may_be_exempt_and_all_may_be() {
    let is_ill = FailureSwitch::new(true);
    let a = is_ill.origin("a", answering(503));
    let b = Origin::serving("b");
    let exempt = a.named("a").replace(" }", ", ejection = false }");
    for (a, more) in [(exempt, "ejection.consecutive_failures = 1"), (a.named("a"), "ejection = \"off\"")] {
        let weir = Weir::start(&config(&[a, b.named("b")], more));
        let answers: Vec<u16> = (0..20).map(|_| Client::get(weir.web(), "/").status).collect();
        assert_eq!(answers.iter().filter(|status| **status == 503).count(), 10, "{more}: {answers:?}");
        assert!(!is_ejected(&weir, "a"));
        assert!(weir.metrics().all("weir_server_ejections_total", &[&of_server("a")]).is_empty());
    }
}

/// Every other request fails: never two in a row, and more than on the others.
#[test]
fn a_server_that_fails_more_often_than_the_others() {
    let a = Origin::start(|conn| {
        for turn in 0.. {
            conn.request()?;
            conn.send(if (turn + conn.index) % 2 == 0 { ok("a") } else { status(503) })?;
        }
        Some(())
    });
    let (b, c) = (Origin::serving("b"), Origin::serving("c"));
    let more = "ejection = { error_rate = \"30%\", requests_min = 10, interval = \"200ms\", base_time = \"1h\", max_time = \"1h\" }";
    let weir = Weir::start(&config(&[a.named("a"), b.named("b"), c.named("c")], more));
    let mut client = Client::connect(weir.web());
    eventually("the server is ejected", || {
        (0..30).for_each(|_| {
            client.fetch("/");
        });
        ejections(&weir, "a", "error-rate") == 1.0
    });
    let ejected = weir.line(&["the server is ejected", "server=\"a\"", "reason=\"error-rate\""]);
    assert!(ejected.contains("% of its requests failed, 0% of those of the others"), "{ejected}");
    assert!(ejected.contains("response-unexpected-status 503"), "{ejected}");
}

/// A server that takes many times as long as the others, asked to be ejected for it; without being asked, it stays.
#[test]
fn a_server_that_is_slower_than_the_others() {
    for (latency, goes) in [("latency_factor = 3, latency_difference_min = \"20ms\", ", true), ("", false)] {
        let a = Origin::start(|conn| {
            loop {
                conn.request()?;
                work(Duration::from_millis(80));
                conn.send(ok("a"))?;
            }
        });
        let (b, c) = (Origin::serving("b"), Origin::serving("c"));
        let more = format!(
            "ejection = {{ {latency}requests_min = 2, interval = \"500ms\", base_time = \"1h\", max_time = \"1h\" }}"
        );
        let weir = Weir::start(&config(&[a.named("a"), b.named("b"), c.named("c")], &more));
        let mut client = Client::connect(weir.web());
        let mut ask = || client.fetch("/").text();
        if goes {
            eventually("the slow server is ejected", || {
                (0..9).for_each(|_| drop(ask()));
                ejections(&weir, "a", "latency") == 1.0
            });
            assert!((0..9).all(|_| ask() != "a"));
            let ejected = weir.line(&["the server is ejected", "reason=\"latency\""]);
            assert!(ejected.contains("half of its answers took longer than"), "{ejected}");
        } else {
            let from_a = (0..30).filter(|_| ask() == "a").count();
            assert_eq!((from_a, ejections(&weir, "a", "latency")), (10, 0.0));
        }
    }
}

/// nginx's rules: a success in between takes no failure back, all may go, and one trial decides.
#[test]
fn as_nginx_does_it() {
    let script = |name: &'static str| {
        Origin::start(move |conn| {
            loop {
                let response = if conn.request()?.target() == "/fail" { status(503) } else { ok(name) };
                conn.send(response)?;
            }
        })
    };
    let (a, b) = (script("a"), script("b"));
    let servers = [a.named("a"), b.named("b")];
    let more = |timeout: &str| {
        format!("ejection = {{ max_fails = 2, fail_timeout = \"{timeout}\", on_status = [503] }}")
    };
    let weir = Weir::start(&config(&servers, &more("1h")));
    let ask = |target: &str| Client::get(weir.web(), target);
    // Both in turn, twice, with successes in between.
    for target in ["/fail", "/fail", "/", "/", "/fail", "/fail"] {
        assert_eq!(ask(target).status, if target == "/" { 200 } else { 503 });
    }
    let response = ask("/");
    assert_eq!((response.status, response.reason()), (503, Some("no-server")), "{response:?}");
    assert_eq!((ejections(&weir, "a", "max-fails"), ejections(&weir, "b", "max-fails")), (1.0, 1.0));

    // Not the only one.
    let weir = Weir::start(&config(&servers[..1], "ejection = { max_fails = 1, on_status = [503] }"));
    for _ in 0..5 {
        assert_eq!(Client::get(weir.web(), "/fail").reason(), None);
    }
    // The status codes of `on_status` are those of retries, and there are none.
    let weir = Weir::start(&config(&servers, "ejection = { max_fails = 1, fail_timeout = \"1h\" }"));
    for _ in 0..6 {
        assert_eq!(Client::get(weir.web(), "/fail").reason(), None);
    }

    let weir = Weir::start(&config(&servers, &more("100ms")));
    while !(is_ejected(&weir, "a") && is_ejected(&weir, "b")) {
        Client::get(weir.web(), "/fail");
    }
    eventually("both are back", || {
        let answers = ["/", "/"].map(|target| Client::get(weir.web(), target).text());
        answers.contains(&"a".to_owned()) && answers.contains(&"b".to_owned())
    });
    weir.line(&["the server is back", "server=\"a\""]);
    weir.line(&["the server is back", "server=\"b\""]);
}

/// Two of three are down by their health checks; with a panic threshold above a third, all get requests.
#[test]
fn in_panic_all_get_requests() {
    let is_ill = FailureSwitch::new(true);
    let (a, b, c) = (probed("a", &is_ill), probed("b", &is_ill), Origin::serving("c"));
    let servers = [a.named("a"), b.named("b"), c.named("c")];
    for (threshold, panics) in [("34%", true), ("33%", false), ("off", false)] {
        is_ill.set(true);
        let more = format!(
            "panic_threshold = \"{threshold}\"\nhealth = {{ path = \"/healthz\", interval = \"30ms\", timeout = \"15s\" }}"
        );
        let weir = Weir::start(&config(&servers, &more));
        for server in ["a", "b"] {
            eventually("it is down", || weir.metrics().sum("weir_server_up", &[&of_server(server)]) == 0.0);
        }
        let panic = || weir.metrics().sum("weir_upstream_panic", &[]) == 1.0;
        assert_eq!(panic(), panics, "{threshold}");
        let mut answers: Vec<String> = (0..12).map(|_| Client::get(weir.web(), "/").text()).collect();
        answers.sort_unstable();
        answers.dedup();
        assert_eq!(answers, if panics { vec!["a", "b", "c"] } else { vec!["c"] }, "{threshold}");
        if panics {
            weir.line(&[
                "ERROR",
                "too few servers are usable: all get requests",
                "servers_usable=1",
                "servers=3",
            ]);
            is_ill.set(false);
            eventually("it is over", || !panic());
            weir.line(&["INFO", "enough servers are usable again"]);
        }
    }
}

/// Requests in the queue get the server whose ejection ends, and not only when the busy one is done.
#[test]
fn a_server_whose_ejection_ends_serves_waiting_requests() {
    let gate = Gate::new();
    let a = gated(&gate, "/slow", "a");
    let is_ill = FailureSwitch::new(true);
    let b = is_ill.origin("b", answering(503));
    let more = "max_requests = 1\nejection = { consecutive_failures = 1, base_time = \"1500ms\" }";
    let weir = Weir::start(&config(&[a.named("a"), b.named("b")], more));
    while !is_ejected(&weir, "b") {
        Client::get(weir.web(), "/");
    }
    is_ill.set(false);
    let mut first = Client::connect(weir.web());
    first.send_get("/slow");
    eventually("the slow request is under way", || a.targets().contains(&"/slow".to_owned()));
    let mut second = Client::connect(weir.web());
    assert_eq!(second.fetch("/quick").text(), "b");
    gate.open();
    assert_eq!(first.response().text(), "a");
    assert_eq!(weir.metrics().sum("weir_upstream_queued_total", &[]), 1.0, "it did wait");
}

/// Half of the requests are a server's share; one that comes back from an ejection gets next to none.
#[test]
fn a_server_that_comes_back_starts_slowly() {
    let is_ill = FailureSwitch::new(true);
    let a = is_ill.origin("a", answering(503));
    let b = Origin::serving("b");
    let more = "slow_start = \"1h\"\nejection = { consecutive_failures = 1, base_time = \"50ms\" }";
    let weir = Weir::start(&config(&[a.named("a"), b.named("b")], more));
    while !is_ejected(&weir, "a") {
        Client::get(weir.web(), "/");
    }
    is_ill.set(false);
    eventually("the trial succeeds", || Client::get(weir.web(), "/").text() == "a");
    weir.line(&["the server is back"]);
    let from_a = (0..100).filter(|_| Client::get(weir.web(), "/").text() == "a").count();
    assert!(from_a < 5, "{from_a} of 100 requests, one of 256 is due");
}
