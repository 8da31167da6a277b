//! Limits that two nodes share through a real Redis: within the bound, without it, with a wrong password, and with one that hangs.

use rustix::process::Signal;

use super::limit_store::{ask, exchanged, limits, metric, node, passed, redis, shares, status, wait_for};
use crate::harness::foreign_program::free_address;
use crate::harness::scripts::echo;
use crate::harness::{Client, Weir, eventually};

#[test]
fn two_nodes_have_one_limit() {
    let (origin, store) = (echo(), free_address());
    let _redis = redis(store, &[]);
    let [one, other] = [(); 2].map(|()| node(&origin, store, "rate = \"10/h\"", ""));
    wait_for([&one, &other]);
    let before = metric(&one, "exchanged_keys_total");
    assert_eq!([(); 6].map(|()| status(&one, "ann")), [200; 6]);
    eventually("six are in the store", || {
        let keys = ask(store, &["--raw", "KEYS", "weir:one:*"]);
        let key = keys.lines().find(|key| !key.ends_with("hash-key")).unwrap_or_default().to_owned();
        // Six times 360 s, less what has passed.
        let left_ms = ask(store, &["--raw", "PTTL", &key]).parse::<u64>().unwrap_or(0);
        (5 * 360_000..=6 * 360_000).contains(&left_ms)
    });
    exchanged(&one, before);
    // The other node learns of them by its first exchange of this key: its own burst at most comes before.
    let before = metric(&other, "exchanged_keys_total");
    assert_eq!(status(&other, "ann"), 200);
    exchanged(&other, before);
    assert_eq!(passed(&other, "ann"), 3, "ten in all");
    // Another key is not concerned; nodes that know nothing of each other admit a burst each, and no more.
    let blind = passed(&one, "bob") + passed(&other, "bob");
    assert!((10..=20).contains(&blind), "{blind}");
    for user in ["ann", "bob"] {
        eventually("both nodes refuse", || [&one, &other].iter().all(|node| status(node, user) == 429));
    }
    // Neither names nor secrets are in the store.
    let keys = ask(store, &["--raw", "KEYS", "*"]);
    assert!(!keys.contains("ann") && keys.lines().all(|key| key.starts_with("weir:one:")), "{keys}");
    let shown = limits(&one);
    assert!(shown.contains("shared    in nodes, all nodes together"), "{shown}");
    assert!(Client::get_by_address(one.address("admin"), "/").text().contains("shared in"));
}

#[test]
fn without_the_store_each_node_has_its_limit() {
    let (origin, store) = (echo(), free_address());
    let first = redis(store, &[]);
    let [one, other] = [(); 2].map(|()| node(&origin, store, "rate = \"10/h\"", ""));
    wait_for([&one, &other]);
    drop(first);
    for node in [&one, &other] {
        eventually("the node is on its own", || !shares(node));
        node.line(&["limits are not shared any more", "store=\"nodes\""]);
        assert_eq!(passed(node, "ann"), 10);
        assert!(metric(node, "exchange_failures_total") >= 1.0);
    }
    let shown = limits(&one);
    assert!(shown.contains("this node alone: "), "{shown}");
    // An empty store comes back, and learns what both know: neither has anything left, and a third node finds that.
    let _second = redis(store, &[]);
    wait_for([&one, &other]);
    one.line(&["limits are shared by nodes again"]);
    let third = node(&origin, store, "rate = \"10/h\"", "");
    eventually("the third node shares the limit", || shares(&third));
    let before = metric(&third, "exchanged_keys_total");
    assert_eq!(status(&third, "ann"), 200);
    exchanged(&third, before);
    assert_eq!(status(&third, "ann"), 429);
    for node in [&one, &other] {
        assert_eq!((status(node, "ann"), status(node, "bob")), (429, 200));
    }
}

/// The next process begins with the table and the hash key of the one before, and goes on in the store: what a key has used counts once, and
/// the other node's share of it is known.
#[test]
fn an_upgraded_node_goes_on_with_the_shared_limit() {
    let (origin, store) = (echo(), free_address());
    let _redis = redis(store, &[]);
    let [mut one, other] = [(); 2].map(|()| node(&origin, store, "rate = \"10/h\"", ""));
    wait_for([&one, &other]);
    let before = metric(&other, "exchanged_keys_total");
    assert_eq!([(); 4].map(|()| status(&other, "ann")), [200; 4]);
    exchanged(&other, before);
    let before = metric(&one, "exchanged_keys_total");
    assert_eq!(status(&one, "ann"), 200);
    exchanged(&one, before);
    one.upgrade();
    let ended = one.wait_for_exit_of_the_first();
    assert!(ended.success(), "{ended}: {}", one.stderr());
    eventually("the next process shares the limit", || shares(&one));
    assert_eq!(passed(&one, "ann"), 5, "ten in all, of which both nodes had five before the upgrade");
    eventually("the other node learns of them", || status(&other, "ann") == 429);
    assert_eq!(status(&one, "bob"), 200, "another key is not concerned");
}

#[test]
fn a_block_holds_on_all_nodes() {
    let (origin, store) = (echo(), free_address());
    let _redis = redis(store, &[]);
    let limit = "rate = \"2/m\", block = \"1h\", count_status = \"404\"";
    let [one, other] = [(); 2].map(|()| {
        node(&origin, store, limit, "[[listener.web.route]]\npath = \"/gone\"\nrespond = { status = 404 }\n")
    });
    wait_for([&one, &other]);
    let gone = |node: &Weir| {
        Client::exchange(node.web(), "GET /gone HTTP/1.1\r\nHost: a.test\r\nX-User: ann\r\n\r\n").status
    };
    let before = metric(&one, "exchanged_keys_total");
    eventually("one node blocks the key", || gone(&one) == 429);
    exchanged(&one, before);
    eventually("so does the other", || gone(&other) == 429);
    assert_eq!((status(&one, "ann"), status(&other, "ann")), (429, 429));
    assert_eq!((status(&one, "bob"), status(&other, "bob")), (200, 200));
}

/// A node that waits for a store for up to a minute answers at once; one that has waited long enough has its limit for itself.
#[test]
fn a_store_that_hangs_delays_no_request() {
    let (origin, store) = (echo(), free_address());
    let redis = redis(store, &[]);
    let start = |timeout: &str| {
        node(&origin, store, "rate = \"10/h\"", &format!("store.nodes.timeout = \"{timeout}\"\n"))
    };
    let (patient, other) = (start("1m"), start("100ms"));
    wait_for([&patient, &other]);
    redis.signal(Signal::STOP);
    for number in 0..30 {
        assert_eq!(status(&patient, &format!("user-{number}")), 200);
        assert_eq!(status(&other, &format!("user-{number}")), 200);
    }
    eventually("one node is on its own", || !shares(&other));
    other.line(&["limits are not shared any more", "has not answered within 100ms"]);
    assert_eq!((passed(&patient, "ann"), passed(&other, "bob")), (10, 10));
    assert!(shares(&patient), "it still waits");
    // What was sent before is carried out now, and counted once.
    redis.signal(Signal::CONT);
    wait_for([&patient, &other]);
    for (knows, learns, user) in [(&patient, &other, "ann"), (&other, &patient, "bob")] {
        eventually("the other node learns of it", || {
            status(learns, user);
            status(learns, user) == 429
        });
        assert_eq!(status(knows, user), 429);
    }
}

#[test]
fn a_password_is_needed_and_never_shown() {
    let (origin, store) = (echo(), free_address());
    let _redis = redis(store, &["--requirepass", "open-sesame"]);
    let start = |password: &str| {
        node(&origin, store, "rate = \"10/h\"", &format!("store.nodes.password = \"{password}\"\n"))
    };
    let wrong = start("hush-hush");
    wrong.line(&["limits are not shared any more", "WRONGPASS", "correct `user` and `password`"]);
    assert_eq!(passed(&wrong, "ann"), 10);
    assert!(!shares(&wrong));
    let without = node(&origin, store, "rate = \"10/h\"", "");
    without.line(&["limits are not shared any more", "NOAUTH"]);
    let right = start("open-sesame");
    eventually("the right password opens the store", || shares(&right));
    let shown = Client::get_by_address(right.address("admin"), "/api/config").text();
    assert!(!shown.contains("open-sesame") && !right.stderr().contains("open-sesame"), "{shown}");
    // It is right after a reload as well.
    let text = std::fs::read_to_string(wrong.folder().join("weir.toml")).expect("the config is there");
    wrong.reload(&text.replace("hush-hush", "open-sesame"));
    eventually("the other node shares the limit", || shares(&wrong));
}
