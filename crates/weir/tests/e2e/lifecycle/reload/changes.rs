//! Changes by a reload: routes, servers, weights, limits, settings of listeners; they apply to the next request.

use super::config;
use crate::harness::scripts::named;
use crate::harness::{Client, Gate, Origin, Weir};

#[test]
fn the_next_request_of_a_connection_uses_the_new_routes() {
    let origin = Origin::serving("old");
    let other = Origin::serving("new");
    let before = config(&[("a", &origin)], "");
    let weir = Weir::start(&before);
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/x").text(), "old");
    weir.reload(&format!(
        "{before}upstream.other.servers = [\"{}\"]\n[[listener.web.route]]\npath = \"/x\"\nupstream = \"other\"\n",
        other.address()
    ));
    assert_eq!(client.fetch("/x").text(), "new");
    assert_eq!(client.fetch("/y").text(), "old");
    weir.reload(&before);
    assert_eq!(client.fetch("/x").text(), "old");
}

#[test]
fn a_new_server_gets_its_share() {
    let (a, b) = (Origin::serving("a"), Origin::serving("b"));
    let weir = Weir::start(&config(&[("a", &a)], "upstream.app.balance = \"round-robin\""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/").text(), "a");
    weir.reload(&config(&[("a", &a), ("b", &b)], "upstream.app.balance = \"round-robin\""));
    let answers: Vec<String> = (0..10).map(|_| client.fetch("/").text()).collect();
    let of_b = answers.iter().filter(|answer| *answer == "b").count();
    assert!((4..=6).contains(&of_b), "{answers:?}");
}

#[test]
fn weights_and_policies_hold_for_servers_that_stay() {
    let gate = Gate::new();
    let (a, b) = (named("a", &gate), named("b", &gate));
    let servers = |weight: u32, balance: &str| {
        format!(
            "admin.address = \"127.0.0.1:0\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
             [upstream.app]\nbalance = \"{balance}\"\nservers = [{{ name = \"a\", address = \"{}\", weight = {weight} }}, \
             {{ name = \"b\", address = \"{}\" }}]\n",
            a.address(),
            b.address()
        )
    };
    let weir = Weir::start(&servers(1, "round-robin"));
    let mut client = Client::connect(weir.web());
    weir.reload(&servers(0, "round-robin"));
    for _ in 0..5 {
        assert_eq!(client.fetch("/").text(), "b");
    }
    weir.reload(&servers(3, "least-requests"));
    let answers: Vec<String> = (0..16).map(|_| client.fetch("/").text()).collect();
    let of_a = answers.iter().filter(|answer| *answer == "a").count();
    assert!((11..=13).contains(&of_a), "{answers:?}");
}

#[test]
fn settings_of_a_listener_hold_without_a_new_socket() {
    let origin = Origin::serving("x");
    let weir = Weir::start(&config(&[("a", &origin)], ""));
    let long = format!("/{}", "a".repeat(1000));
    assert_eq!(Client::get(weir.web(), &long).status, 200);
    weir.reload(&config(
        &[("a", &origin)],
        "listener.web.limits.target_size = \"256B\"\nlistener.web.backlog = 77",
    ));
    assert_eq!(Client::get(weir.web(), &long).status, 414);
    assert_eq!(Client::get(weir.web(), "/").status, 200);
}

#[test]
fn what_needs_a_restart_is_said_and_the_rest_holds() {
    let origin = Origin::serving("x");
    let weir = Weir::start(&config(&[("a", &origin)], "process.workers = 1"));
    weir.reload(&config(
        &[("a", &origin)],
        "process.workers = 2\nlistener.web.limits.target_size = \"256B\"",
    ));
    weir.line(&["WARN", "holds only after a restart", "process.workers"]);
    assert_eq!(Client::get(weir.web(), &format!("/{}", "a".repeat(500))).status, 414);
}
