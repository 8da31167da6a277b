//! State that outlives a reload: connections, queue, health, drains, cookies, counters.

use super::config;
use crate::harness::scripts::{named, probed};
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel};
use crate::harness::{Client, FailureSwitch, Gate, Origin, Weir, eventually};

/// Another value of something that changes the plan of the upstream, and nothing else about it.
fn changed(number: u32) -> String {
    format!("upstream.app.timeouts.connect = \"{}ms\"", 5000 + number)
}

#[test]
fn idle_server_connections_are_used_again() {
    let origin = Origin::serving("x");
    let weir = Weir::start(&config(&[("a", &origin)], "process.workers = 1"));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/").status, 200);
    for number in 1..=5 {
        weir.reload(&config(&[("a", &origin)], &format!("process.workers = 1\n{}", changed(number))));
        assert_eq!(client.fetch("/").status, 200);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn tunnels_go_on() {
    let origin = named("a", &Gate::new());
    let other = Origin::serving("b");
    let weir = Weir::start(&config(&[("a", &origin)], ""));
    let mut open = open_tunnel(weir.web());
    for number in 1..=5 {
        // The route changes its name, and the server its neighbours.
        let route =
            format!("[[listener.web.route]]\npath = \"/socket\"\nname = \"r{number}\"\nupstream = \"app\"");
        let servers = [("b", &other), ("a", &origin)];
        weir.reload(&config(
            &servers[usize::from(number % 2 == 0)..],
            &format!("{}\n{route}", changed(number)),
        ));
        assert_byte_comes_back(&mut open);
    }
}

#[test]
fn a_server_that_is_down_stays_down_and_is_not_probed_at_once() {
    let (ill, well) = (FailureSwitch::new(true), FailureSwitch::new(false));
    let (a, b) = (probed("a", &ill), probed("b", &well));
    let text = |number: u32| {
        let health = "upstream.app.health = { path = \"/healthz\", interval = \"1s\" }";
        config(&[("a", &a), ("b", &b)], &format!("{health}\n{}", changed(number)))
    };
    let weir = Weir::start(&text(0));
    let up = || weir.metrics().sum("weir_server_up", &["server=\"a\""]);
    eventually("the ill one is down", || up() == 0.0);
    let probes = |origin: &Origin| origin.requests().iter().filter(|it| it.target() == "/healthz").count();
    let before = probes(&b);
    for number in 1..=10 {
        weir.reload(&text(number));
        assert_eq!(up(), 0.0);
        assert_eq!(Client::get(weir.web(), "/").text(), "b");
    }
    assert!(probes(&b) - before < 10, "one probe a second at most");
    ill.set(false);
    eventually("it is found well again", || up() == 1.0);
}

#[test]
fn another_check_begins_with_what_is_known() {
    let ill = FailureSwitch::new(true);
    let (a, b) = (probed("a", &ill), Origin::serving("b"));
    let text = |health: &str| {
        config(&[("a", &a), ("b", &b)], &format!("upstream.app.health = {{ path = \"/healthz\", {health} }}"))
    };
    let weir = Weir::start(&text("interval = \"100ms\""));
    let up = || weir.metrics().sum("weir_server_up", &["server=\"a\""]);
    eventually("the ill one is down", || up() == 0.0);
    weir.reload(&text("interval = \"1h\""));
    assert_eq!(up(), 0.0);
    ill.set(false);
    weir.reload(&text("interval = \"50ms\""));
    eventually("it is found well again", || up() == 1.0);
}

#[test]
fn a_drain_goes_on() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let weir = Weir::start(&config(&[("a", &a), ("b", &b)], ""));
    weir.set_mode("a", "maintenance");
    weir.reload(&config(&[("a", &a), ("b", &b)], &changed(1)));
    for _ in 0..4 {
        assert_eq!(Client::get(weir.web(), "/").text(), "b");
    }
    assert_eq!(weir.metrics().sum("weir_server_mode", &["server=\"a\"", "mode=\"maintenance\""]), 1.0);
}

#[test]
fn waiting_requests_keep_their_places() {
    let gate = Gate::new();
    let origin = named("a", &gate);
    let text = |number: u32| {
        format!(
            "admin.address = \"127.0.0.1:0\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
             upstream.app.servers = [{{ name = \"a\", address = \"{}\", max_requests = 1 }}]\n{}\n",
            origin.address(),
            changed(number)
        )
    };
    let weir = Weir::start(&text(0));
    let queued = || weir.metrics().sum("weir_upstream_queued_total", &[]);
    let mut clients = Vec::new();
    let mut enter = |target: String| {
        let mut client = Client::connect(weir.web());
        client.send_get(&target);
        clients.push(client);
    };
    enter("/held".to_owned());
    eventually("the only slot is taken", || origin.requests().len() == 1);
    for number in 1..=6_u32 {
        enter(format!("/{number}"));
        eventually("it waits", || queued() == f64::from(number));
        weir.reload(&text(number));
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    let targets: Vec<String> = origin.requests().iter().map(|request| request.target().to_owned()).collect();
    assert_eq!(targets, ["/held", "/1", "/2", "/3", "/4", "/5", "/6"]);
}

#[test]
fn waiting_requests_get_new_servers() {
    let gate = Gate::new();
    let (old, new) = (named("old", &gate), Origin::serving("new"));
    let text = |origin: &Origin, name: &str| {
        format!(
            "admin.address = \"127.0.0.1:0\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
             upstream.app.servers = [{{ name = \"{name}\", address = \"{}\", max_requests = 1 }}]\n",
            origin.address()
        )
    };
    let weir = Weir::start(&text(&old, "old"));
    let mut held = Client::connect(weir.web());
    held.send_get("/held");
    eventually("the only slot is taken", || old.requests().len() == 1);
    let mut waiting = Client::connect(weir.web());
    waiting.send_get("/waits");
    eventually("it waits", || weir.metrics().sum("weir_upstream_queued_total", &[]) == 1.0);
    weir.reload(&text(&new, "new"));
    assert_eq!(waiting.response().text(), "new");
    gate.open();
    assert_eq!(held.response().text(), "old");
}

#[test]
fn cookies_and_counters_go_on() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let text = |number: u32| {
        let affinity = "upstream.app.affinity = { mode = \"learn\", cookie = \"s\" }";
        config(&[("a", &a), ("b", &b)], &format!("{affinity}\n{}", changed(number)))
    };
    let giving =
        Origin::answering("HTTP/1.1 200 OK\r\nSet-Cookie: s=mine\r\nContent-Length: 6\r\n\r\ngiving");
    let weir = Weir::start(&text(0).replace(&a.address().to_string(), &giving.address().to_string()));
    let mut sent = 0.0;
    eventually("the cookie is given out", || {
        let _any = Client::get(weir.web(), "/");
        sent += 1.0;
        !giving.requests().is_empty()
    });
    let requests = || weir.metrics().sum("weir_upstream_requests_total", &["upstream=\"app\""]);
    for number in 1..=3 {
        weir.reload(&text(number).replace(&a.address().to_string(), &giving.address().to_string()));
        let request = "GET / HTTP/1.1\r\nHost: a\r\nCookie: s=mine\r\n\r\n";
        for _ in 0..3 {
            assert_eq!(Client::exchange(weir.web(), request).text(), "giving");
            sent += 1.0;
        }
        eventually("all are counted, since the start", || requests() == sent);
    }
}
