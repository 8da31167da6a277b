//! Servers and upstreams that the config does not name any more: they get no new requests, and open ones have time to end.

use super::config;
use crate::harness::scripts::named;
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel};
use crate::harness::{Client, End, Gate, Weir, eventually};

#[test]
fn a_removed_server_finishes_what_it_has() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = Weir::start(&config(&[("a", &a)], ""));
    let mut held = Client::connect(weir.web());
    held.send_get("/held");
    eventually("the request is there", || a.requests().len() == 1);
    let mut open = open_tunnel(weir.web());
    weir.reload(&config(&[("b", &b)], ""));
    for _ in 0..5 {
        assert_eq!(Client::get(weir.web(), "/").text(), "b");
    }
    assert_byte_comes_back(&mut open);
    assert_eq!(weir.metrics().sum("weir_server_mode", &["server=\"a\"", "mode=\"leaving\""]), 1.0);
    gate.open();
    assert_eq!(held.response().text(), "a");
    assert_eq!(held.fetch("/").text(), "b", "the connection goes on");
    assert_byte_comes_back(&mut open);
    drop(open);
    eventually("it is gone", || weir.metrics().all("weir_server_mode", &["server=\"a\""]).is_empty());
    eventually("nothing is left of the old config", || {
        weir.metrics().sum("weir_config_snapshots", &[]) == 1.0
    });
}

#[test]
fn a_tunnel_to_a_removed_server_ends_in_time() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let grace = "process.reload_grace = \"300ms\"";
    let weir = Weir::start(&config(&[("a", &a)], grace));
    let mut open = open_tunnel(weir.web());
    weir.reload(&config(&[("b", &b)], grace));
    assert_eq!(open.take_to_end().1, End::Closed);
    let failures = weir.metrics().sum("weir_listener_failures_total", &["reason=\"relay-draining\""]);
    assert_eq!(failures, 1.0);
}

#[test]
fn a_server_that_comes_back_keeps_its_tunnels() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let grace = "process.reload_grace = \"1s\"";
    let weir = Weir::start(&config(&[("a", &a)], grace));
    let mut open = open_tunnel(weir.web());
    weir.reload(&config(&[("b", &b)], grace));
    weir.reload(&config(&[("a", &a), ("b", &b)], grace));
    crate::harness::watchdog::work(std::time::Duration::from_millis(1500));
    assert_byte_comes_back(&mut open);
    assert_eq!(weir.metrics().sum("weir_server_mode", &["server=\"a\"", "mode=\"serving\""]), 1.0);
}

#[test]
fn a_server_that_comes_back_is_asked_on_kept_connections() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let one = "process.workers = 1";
    let weir = Weir::start(&config(&[("a", &a)], one));
    // As long as it has this tunnel, it leaves.
    let mut open = open_tunnel(weir.web());
    weir.reload(&config(&[("b", &b)], one));
    weir.reload(&config(&[("a", &a)], one));
    let mut client = Client::connect(weir.web());
    for _ in 0..5 {
        assert_eq!(client.fetch("/").text(), "a");
    }
    assert_eq!(a.connections(), 2, "one of the tunnel, one of the requests");
    assert_byte_comes_back(&mut open);
}

fn is_in_mode(weir: &Weir, server: &str, mode: &str) -> bool {
    let labels = [format!("server=\"{server}\""), format!("mode=\"{mode}\"")];
    !weir.metrics().all("weir_server_mode", &[&labels[0], &labels[1]]).is_empty()
}

#[test]
fn a_drain_ends_with_the_reload_that_removes_its_server() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = Weir::start(&config(&[("a", &a), ("b", &b)], ""));
    weir.set_mode("a", "draining&deadline=400ms");
    weir.reload(&config(&[("b", &b)], ""));
    weir.reload(&config(&[("a", &a), ("b", &b)], ""));
    // This deadline is after that one.
    weir.set_mode("b", "draining&deadline=400ms");
    eventually("the later deadline is over", || is_in_mode(&weir, "b", "maintenance"));
    assert!(is_in_mode(&weir, "a", "serving"));
    assert_eq!(Client::get(weir.web(), "/").text(), "a");
}

#[test]
fn a_drain_ends_with_the_reload_that_says_something_else_of_its_server() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let serving = config(&[("a", &a), ("b", &b)], "");
    let weir = Weir::start(&serving);
    weir.set_mode("a", "draining&deadline=400ms");
    weir.reload(&serving.replace("name = \"a\"", "name = \"a\", mode = \"maintenance\""));
    assert!(is_in_mode(&weir, "a", "maintenance"));
    weir.reload(&serving);
    weir.set_mode("b", "draining&deadline=400ms");
    eventually("the later deadline is over", || is_in_mode(&weir, "b", "maintenance"));
    assert!(is_in_mode(&weir, "a", "serving"));
    let table = Client::get_by_address(weir.address("admin"), "/servers").text();
    let row = table.lines().find(|row| row.contains("\ta\t")).expect("it is there");
    assert!(row.ends_with("\t-\t-"), "nothing is left of the drain: {row}");
}

#[test]
fn a_drain_without_a_deadline_is_over_when_its_server_is_gone() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let weir = Weir::start(&config(&[("a", &a)], ""));
    let mut held = Client::connect(weir.web());
    held.send_get("/held");
    eventually("the request is there", || a.requests().len() == 1);
    weir.set_mode("a", "draining");
    weir.reload(&config(&[("b", &b)], ""));
    gate.open();
    assert_eq!(held.response().text(), "a");
    weir.line(&["nothing is left on the server", "server=\"a\""]);
}

#[test]
fn a_server_keeps_its_mode_when_the_file_gives_it_another_address() {
    let gate = Gate::new();
    let (a, b, c) = (named("a", &gate), named("b", &gate), named("c", &gate));
    let weir = Weir::start(&config(&[("a", &a), ("b", &b)], ""));
    weir.set_mode("a", "maintenance");
    weir.reload(&config(&[("a", &c), ("b", &b)], ""));
    assert!(is_in_mode(&weir, "a", "maintenance"));
    assert_eq!(Client::get(weir.web(), "/").text(), "b");
    // It is the name that a drain with its deadline is about as well.
    weir.set_mode("a", "draining&deadline=400ms");
    weir.reload(&config(&[("a", &a), ("b", &b)], ""));
    eventually("the deadline is over", || is_in_mode(&weir, "a", "maintenance"));
    weir.set_mode("a", "serving");
    eventually("it is back", || Client::get(weir.web(), "/").text() == "a");
}

#[test]
fn a_removed_upstream_ends_its_tunnels_in_time() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let grace = "process.reload_grace = \"300ms\"";
    let weir = Weir::start(&config(&[("a", &a)], grace));
    let mut open = open_tunnel(weir.web());
    let other = format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"other\" }}\n\
         upstream.other.servers = [\"{}\"]\n{grace}\n",
        b.address()
    );
    weir.reload(&other);
    assert_eq!(Client::get(weir.web(), "/").text(), "b");
    assert_eq!(open.take_to_end().1, End::Closed);
}

#[test]
fn old_configs_are_freed() {
    let gate = Gate::new();
    let origin = named("a", &gate);
    let text =
        |number: u32| config(&[("a", &origin)], &format!("listener.web.limits.headers = {}", 50 + number));
    let weir = Weir::start(&text(0));
    let snapshots = || weir.metrics().sum("weir_config_snapshots", &[]);
    let mut held = Client::connect(weir.web());
    held.send_get("/held");
    let mut open = open_tunnel(weir.web());
    let mut idle = Client::connect(weir.web());
    assert_eq!(idle.fetch("/").status, 200);
    eventually("the request is there", || origin.requests().len() == 3);
    for number in 1..=5 {
        weir.reload(&text(number));
    }
    eventually("one exchange holds one old config", || snapshots() == 2.0);
    gate.open();
    assert_eq!(held.response().text(), "a");
    eventually("none is left", || snapshots() == 1.0);
    assert_byte_comes_back(&mut open);
    assert_eq!(idle.fetch("/").status, 200);
}
