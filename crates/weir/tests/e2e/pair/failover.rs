//! Two nodes with keepalived, as in examples/pair: clients reach one address, whatever becomes of a node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use super::node::{EXAMPLES, Node, SHARED, example, load_rules, responding_at, wait_until_serves};
use super::steady_client::go_on_until;
use crate::harness::namespace::Network;
use crate::harness::run;

#[test]
fn the_examples_are_valid() {
    for example in ["pair/weir.toml", "anycast/weir.toml"] {
        let checked = run(&["check", &format!("{EXAMPLES}/../{example}")]);
        assert!(checked.code == Some(0) && !checked.text().contains("warning"), "{checked:?}");
    }
}

#[test]
fn the_other_node_takes_over_when_one_is_killed_frozen_cut_off_or_stopped() {
    let Some(network) = Network::new(3) else { return };
    let [first, second, client] = &network.machines[..] else { unreachable!("there are three") };
    let (of_a, of_b) = example();
    let mut a = Node::start("a", first, &of_a);
    let _b = Node::start("b", second, &of_b);
    wait_until_serves(client, "a");

    a.weir.kill();
    wait_until_serves(client, "b");
    a.restart(first);
    wait_until_serves(client, "a");

    a.weir.pause();
    wait_until_serves(client, "b");
    a.weir.signal(Signal::CONT);
    wait_until_serves(client, "a");

    network.cut(0);
    wait_until_serves(client, "b");
    network.mend(0);
    wait_until_serves(client, "a");

    a.weir.signal(Signal::TERM);
    wait_until_serves(client, "b");
    assert_eq!(a.weir.wait_for_exit().code(), Some(0), "{}", a.weir.stderr());
    assert_eq!(responding_at(SHARED, client).as_deref(), Some("b"));
}

#[test]
fn a_planned_change_and_the_way_back_lose_nothing() {
    let Some(network) = Network::new(3) else { return };
    let [first, second, client] = &network.machines[..] else { unreachable!("there are three") };
    let (of_a, of_b) = example();
    load_rules("192.0.2.2", &[], first);
    load_rules("192.0.2.1", &[], second);
    let a = Node::start("a", first, &of_a);
    let b = Node::start("b", second, &of_b);
    wait_until_serves(client, "a");
    let ends = &AtomicBool::new(false);
    thread::scope(|threads| {
        let clients =
            [true, true, false].map(|keeps| threads.spawn(move || go_on_until(ends, SHARED, client, keeps)));
        a.ctl("hand-over");
        wait_until_serves(client, "b");
        // The way back is a hand-over of the other node.
        b.ctl("hand-over");
        wait_until_serves(client, "a");
        a.ctl("take-back");
        b.ctl("take-back");
        wait_until_serves(client, "a");
        ends.store(true, Ordering::SeqCst);
        for client in clients {
            let outcome = client.join().expect("no request has failed");
            assert_eq!(
                outcome.repeated, 0,
                "the address has moved twice, and the other node had every connection"
            );
        }
    });
}
