//! Two nodes that both work, as in examples/pair/keepalived-both.conf: each has an address, and takes that of the other one.
//!
//! What becomes of one address is nothing to clients of the other one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use super::forwarding_pair::{Pair, RST, answer_to_unknown, forwards};
use super::node::{SECOND, SHARED, responding_at};
use super::steady_client::{SteadyOutcome, go_on_until};
use crate::harness::websocket::assert_byte_comes_back;
use crate::harness::{Client, End, eventually};

/// Connections at the address of the second node, which loses nothing in these tests.
struct Undisturbed {
    tunnel: Client,
    kept: Client,
}

impl Undisturbed {
    fn at_second(pair: &Pair) -> Undisturbed {
        eventually("the second node has its address", || has(pair, SECOND, "b"));
        let mut kept = pair.connect_to(SECOND);
        assert_eq!(kept.fetch("/").text(), "b");
        Undisturbed { tunnel: pair.tunnel_at(SECOND), kept }
    }

    fn assert_goes_on(&mut self) {
        assert_byte_comes_back(&mut self.tunnel);
        let response = self.kept.fetch("/");
        assert!(response.text() == "b" && !response.closes(), "{response:?}");
    }
}

fn has(pair: &Pair, address: &str, node: &str) -> bool {
    responding_at(address, pair.client()).as_deref() == Some(node)
}

/// The second node resets connections of the first, which has failed.
fn assert_tells_clients(pair: &Pair) {
    assert_eq!(answer_to_unknown(SHARED, pair.client()), Some(RST));
    assert!(!forwards("192.0.2.10", &pair.network.machines[1]), "packets go to a node that has failed");
}

/// The first node has lost its address without a plan: clients of its connections are told, those of the second one notice nothing.
fn assert_taken_over(pair: &Pair, mut of_a: Client, other: &mut Undisturbed) {
    pair.wait_until_serves("b");
    of_a.send("x");
    assert_eq!(of_a.take_to_end(), (Vec::new(), End::Reset));
    assert_tells_clients(pair);
    other.assert_goes_on();
}

/// The first node has its address again; the connection there that the second one has accepted meanwhile lives on.
fn assert_returned(pair: &Pair, mut of_b: Client, other: &mut Undisturbed) {
    pair.wait_until_serves("a");
    eventually("the first node knows that the second one lives", || {
        forwards("192.0.2.10", &pair.network.machines[0])
    });
    assert_byte_comes_back(&mut of_b);
    eventually("the second node has its address", || has(pair, SECOND, "b"));
    other.assert_goes_on();
}

#[test]
fn tunnels_and_running_requests_of_the_address_that_moves_live_on_and_those_of_the_other_notice_nothing() {
    let Some(pair) = Pair::active_active() else { return };
    let mut other = Undisturbed::at_second(&pair);
    let mut of_a = pair.tunnel_at(SHARED);
    let mut running = pair.connect_to(SHARED);
    running.send_get("/app/");
    pair.hand_over();
    assert_byte_comes_back(&mut of_a);
    pair.answers.open();
    let response = running.response();
    assert!(response.text() == "late" && response.closes(), "{response:?}");
    running.assert_closed();
    other.assert_goes_on();

    let mut of_b = pair.tunnel_at(SHARED);
    pair.take_back();
    assert_byte_comes_back(&mut of_a);
    assert_byte_comes_back(&mut of_b);
    other.assert_goes_on();
    assert!(!forwards("192.0.2.11", &pair.network.machines[0]), "that address has not moved");
}

#[test]
fn a_planned_change_and_the_way_back_lose_no_request_at_either_address() {
    let Some(pair) = Pair::active_active() else { return };
    eventually("the second node has its address", || has(&pair, SECOND, "b"));
    let ends = AtomicBool::new(false);
    let machine = pair.client();
    let client = |address, keeps| go_on_until(&ends, address, machine, keeps);
    thread::scope(|threads| {
        let moved = [true, false].map(|keeps| threads.spawn(move || client(SHARED, keeps)));
        let other = [true, false].map(|keeps| threads.spawn(move || client(SECOND, keeps)));
        pair.hand_over();
        pair.take_back();
        ends.store(true, Ordering::SeqCst);
        for client in moved {
            assert_eq!(client.join().expect("no request has failed").repeated, 0);
        }
        for client in other {
            assert_eq!(client.join().expect("no request has failed"), SteadyOutcome::default());
        }
    });
}

#[test]
fn the_way_back_by_a_hand_over_of_the_second_node_leaves_it_its_address() {
    let Some(pair) = Pair::active_active() else { return };
    let mut other = Undisturbed::at_second(&pair);
    pair.hand_over();
    // Connections of both addresses end with their next response, tunnels go on.
    pair.b.ctl("hand-over");
    pair.wait_until_serves("a");
    assert!(has(&pair, SECOND, "b"));
    pair.b.ctl("take-back");
    pair.take_back();
    assert_byte_comes_back(&mut other.tunnel);
    assert!(has(&pair, SHARED, "a") && has(&pair, SECOND, "b"));
}

#[test]
fn the_other_node_takes_the_address_of_one_that_is_killed() {
    let Some(mut pair) = Pair::active_active() else { return };
    let mut other = Undisturbed::at_second(&pair);
    pair.a.weir.kill();
    pair.wait_until_serves("b");
    assert_tells_clients(&pair);
    other.assert_goes_on();
    let of_b = pair.tunnel_at(SHARED);
    pair.a.restart(&pair.network.machines[0]);
    assert_returned(&pair, of_b, &mut other);
}

#[test]
fn the_other_node_takes_the_address_of_one_that_is_frozen() {
    let Some(pair) = Pair::active_active() else { return };
    let mut other = Undisturbed::at_second(&pair);
    let of_a = pair.tunnel_at(SHARED);
    pair.a.weir.pause();
    assert_taken_over(&pair, of_a, &mut other);
    let of_b = pair.tunnel_at(SHARED);
    pair.a.weir.signal(Signal::CONT);
    assert_returned(&pair, of_b, &mut other);
}

#[test]
fn the_other_node_takes_the_address_of_one_that_is_cut_off() {
    let Some(pair) = Pair::active_active() else { return };
    let mut other = Undisturbed::at_second(&pair);
    let of_a = pair.tunnel_at(SHARED);
    pair.network.cut(0);
    assert_taken_over(&pair, of_a, &mut other);
    // Both nodes have both addresses now, and only the second one is reached.
    let of_b = pair.tunnel_at(SHARED);
    pair.network.mend(0);
    assert_returned(&pair, of_b, &mut other);
}
