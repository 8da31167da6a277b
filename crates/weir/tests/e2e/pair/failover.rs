//! Two nodes with keepalived, as in examples/pair: clients reach one address, whatever becomes of a node.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;

use super::node::{EXAMPLES, Node, PATIENCE, SHARED, example, forward_to, responding_at, wait_until_serves};
use crate::harness::namespace::{Namespace, Network};
use crate::harness::stream::{Address, Stream};
use crate::harness::watchdog::pause;
use crate::harness::{Client, End, eventually, run};

#[test]
fn the_examples_are_valid() {
    for example in ["pair/weir.toml", "anycast/weir.toml"] {
        let checked = run(&["check", &format!("{EXAMPLES}/../{example}")]);
        assert!(checked.code == Some(0) && !checked.text().contains("warning"), "{checked:?}");
    }
}

#[test]
fn the_other_node_takes_over_when_one_is_killed_frozen_cut_off_or_stopped() {
    let Some(network) = Network::of(3) else { return };
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

/// Requests one after the other over one connection as long as it lasts, and over the next one then; every connection ends as announced.
///
/// Without the rules for nftables, a request that is on its way at the very moment at which the address moves meets a node that does not know its
/// connection: a client repeats it. Returns how often that was.
fn go_on_until(client: &Namespace, ends: &AtomicBool, keeps: bool) -> usize {
    client.inside(|| {
        let address = Address::Tcp(SHARED.parse().expect("it is an address"));
        let (mut kept, mut repeated) = (None, 0);
        while !ends.load(Ordering::SeqCst) {
            let mut connection = match kept.take() {
                Some(connection) => connection,
                None => match Stream::connect(&address) {
                    Ok(stream) => Client::on(stream),
                    // The last packet of the handshake has met the other node.
                    Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                        repeated += 1;
                        continue;
                    }
                    Err(error) => panic!("no connection: {error}"),
                },
            };
            connection.limit_reads(PATIENCE * 5);
            let sent = connection.send_what_is_taken("GET / HTTP/1.1\r\nHost: pair\r\n\r\n");
            match sent.and_then(|()| connection.try_response_to("GET")) {
                Ok(response) => {
                    assert_eq!(response.status, 200, "{response:?}");
                    kept = Some(connection).filter(|_| keeps && !response.closes());
                }
                Err(End::Reset | End::Silence) => repeated += 1,
                Err(end) => panic!("a request has failed: {end}"),
            }
            pause();
        }
        repeated
    })
}

#[test]
fn a_planned_change_and_the_way_back_lose_nothing() {
    let Some(network) = Network::of(3) else { return };
    let [first, second, client] = &network.machines[..] else { unreachable!("there are three") };
    let (of_a, of_b) = example();
    forward_to("192.0.2.2", first);
    forward_to("192.0.2.1", second);
    let a = Node::start("a", first, &of_a);
    let b = Node::start("b", second, &of_b);
    wait_until_serves(client, "a");
    let ends = Arc::new(AtomicBool::new(false));
    thread::scope(|threads| {
        let clients = [true, true, false].map(|keeps| {
            let ends = Arc::clone(&ends);
            threads.spawn(move || go_on_until(client, &ends, keeps))
        });
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
            let repeated = client.join().expect("no request has failed");
            assert_eq!(repeated, 0, "the address has moved twice, and the other node had every connection");
        }
    });
}

#[test]
fn each_node_has_an_address_and_takes_that_of_the_other() {
    let Some(network) = Network::of(3) else { return };
    let [first, second, client] = &network.machines[..] else { unreachable!("there are three") };
    let text = std::fs::read_to_string(format!("{EXAMPLES}/keepalived-both.conf")).expect("it is there");
    let swapped = text.replace("priority 150", "priority X").replace("priority 100", "priority 150");
    let mut a = Node::start("a", first, &text);
    let _b = Node::start("b", second, &swapped.replace("priority X", "priority 100"));
    let both = || ["192.0.2.10:80", "192.0.2.11:80"].map(|at| responding_at(at, client).unwrap_or_default());
    eventually("each has its own", || both() == ["a", "b"]);
    a.weir.kill();
    eventually("one has both", || both() == ["b", "b"]);
    a.restart(first);
    eventually("each has its own again", || both() == ["a", "b"]);
}
