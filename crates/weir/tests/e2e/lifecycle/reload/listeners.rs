//! Listeners over a reload: those that stay, come, go and change their names.

use std::net::TcpStream;

use super::config;
use crate::harness::scripts::named;
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel};
use crate::harness::{Client, End, Gate, Origin, ReservedAddress, Weir, eventually};

fn two(origin: &Origin, settings: &str) -> String {
    let more = format!("listener.more = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n{settings}");
    config(&[("a", origin)], &more)
}

#[test]
fn a_new_listener_takes_connections_at_once() {
    let origin = Origin::serving("x");
    let weir = Weir::start(&config(&[("a", &origin)], ""));
    let mut before = Client::connect(weir.web());
    weir.reload(&two(&origin, ""));
    assert_eq!(Client::get(weir.new_address("more"), "/").text(), "x");
    assert_eq!(before.fetch("/").text(), "x");
    assert_eq!(weir.metrics().sum("weir_listener_connections_total", &["listener=\"more\""]), 1.0);
}

#[test]
fn a_removed_listener_answers_open_requests_and_accepts_no_connection() {
    let gate = Gate::new();
    let origin = named("x", &gate);
    let weir = Weir::start(&two(&origin, ""));
    let more = weir.address("more");
    let (mut idle, mut busy) = (Client::connect(more), Client::connect(more));
    assert_eq!(idle.fetch("/").status, 200);
    busy.send_get("/held");
    eventually("the request is there", || origin.requests().len() == 2);
    weir.reload(&config(&[("a", &origin)], ""));
    eventually("no connection is accepted", || TcpStream::connect(more).is_err());
    let last = idle.fetch("/");
    assert!(last.status == 200 && last.closes(), "{last:?}");
    idle.assert_closed();
    gate.open();
    assert_eq!(busy.response().text(), "x");
    assert_eq!(Client::get(weir.web(), "/").text(), "x");
    eventually("nothing is left of the old config", || {
        weir.metrics().sum("weir_config_snapshots", &[]) == 1.0
    });
}

#[test]
fn idle_connections_and_tunnels_of_a_removed_listener_end_in_time() {
    let origin = named("x", &Gate::new());
    let grace = "process.reload_grace = \"300ms\"";
    let weir = Weir::start(&two(&origin, grace));
    let mut stays = open_tunnel(weir.web());
    let mut idle = Client::connect(weir.address("more"));
    assert_eq!(idle.fetch("/").status, 200);
    let mut tunnel = open_tunnel(weir.address("more"));
    weir.reload(&config(&[("a", &origin)], grace));
    idle.assert_closed();
    assert_eq!(tunnel.take_to_end().1, End::Closed);
    assert_byte_comes_back(&mut stays);
}

#[test]
fn a_listener_that_has_another_name_keeps_its_socket() {
    let origin = Origin::serving("x");
    let place = ReservedAddress::new();
    let free = place.address();
    let text = |name: &str| {
        format!(
            "process.workers = 1\nadmin.address = \"127.0.0.1:0\"\nlistener.{name} = {{ address = \"{free}\", upstream = \"app\" }}\n\
             upstream.app.servers = [\"{}\"]\n",
            origin.address()
        )
    };
    let weir = Weir::start(&text("old"));
    let mut before = Client::connect(free);
    assert_eq!(before.fetch("/").status, 200);
    weir.reload(&text("new"));
    assert_eq!(Client::get(free, "/").status, 200);
    assert_eq!(weir.metrics().sum("weir_listener_connections_total", &["listener=\"new\""]), 1.0);
    let last = before.fetch("/");
    assert!(last.status == 200 && last.closes(), "{last:?}");
}
