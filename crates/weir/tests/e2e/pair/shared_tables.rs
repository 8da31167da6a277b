//! Tables of counters that two nodes share through a real Redis: exact sums, rules that hold on both, and each node for itself without the store.

use std::net::SocketAddr;

use rustix::process::Signal;

use super::limit_store::{ask, redis};
use crate::harness::foreign_program::free_address;
use crate::harness::http2::H2C;
use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Weir, config_with, eventually};

const COUNTERS: &str = "store = [\"http_req_cnt\", \"http_req_rate(1d)\", \"http_err_cnt\", \"gpc0\"]";

/// A node that counts requests by `X-User`, but for those to `/read`, shows what it knows, and refuses the eleventh.
fn config(origin: &Origin, store: SocketAddr, table: &str, more: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}process.workers = 2\nadmin.socket = \"unix:{{dir}}/weir.sock\"\nlistener.web.track = \"seen\"\n\
             table.seen = {{ {table}, key = \"{{header.x-user}}\", when = 'path != \"/read\"', shared = \"nodes\" }}\n\
             listener.web.lists = \"fast\"\n\
             list.fast = {{ action = \"deny\", when = 'table.seen.http_req_rate > 10', status = 429 }}\n\
             listener.web.response_headers.set.x-count = \"{{table.seen.http_req_cnt}} {{table.seen.gpc0}}\"\n\
             store.nodes.address = \"redis://{store}\"\nstore.nodes.interval = \"20ms\"\n{more}"
        ),
    )
}

fn node(origin: &Origin, store: SocketAddr) -> Weir {
    Weir::start(&config(origin, store, COUNTERS, ""))
}

fn status(weir: &Weir, user: &str) -> u16 {
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-User: {user}\r\n\r\n")).status
}

/// What a node knows of a user: requests and the general purpose counter.
fn known(weir: &Weir, user: &str) -> String {
    let request = format!("GET /read HTTP/1.1\r\nHost: a.test\r\nX-User: {user}\r\n\r\n");
    Client::exchange(weir.web(), &request).field("x-count").unwrap_or_default().to_owned()
}

fn metric(weir: &Weir, name: &str) -> f64 {
    weir.metrics().sum(&format!("weir_table_{name}"), &["table=\"seen\""])
}

fn wait_for(nodes: &[&Weir]) {
    eventually("the nodes share the table", || nodes.iter().all(|node| metric(node, "shared") == 1.0));
}

/// Waits until all nodes know the same.
fn agree(nodes: &[&Weir], user: &str, expected: &str) {
    eventually(&format!("all nodes know {expected} of {user}"), || {
        nodes.iter().all(|node| known(node, user) == expected)
    });
}

#[test]
fn nodes_count_together_over_both_protocols_and_all_workers() {
    let (origin, store) = (echo(), free_address());
    let _redis = redis(store, &[]);
    let [one, other] = [(); 2].map(|()| node(&origin, store));
    wait_for(&[&one, &other]);
    let long = "a".repeat(4_000);
    for user in ["ann", &long] {
        assert_eq!([(); 3].map(|()| status(&one, user)), [200; 3]);
        for _ in 0..4 {
            let mut client = Http2Client::connect(other.web());
            let stream = client.get_with("/", &[("x-user", user)]);
            assert_eq!(client.response(stream).status, 200);
        }
        agree(&[&one, &other], user, "7 0");
        assert_eq!([status(&one, user), status(&one, user)], [200; 2]);
        agree(&[&one, &other], user, "9 0");
        assert_eq!([status(&other, user), status(&other, user)], [200, 429]);
        agree(&[&one, &other], user, "11 0");
        assert_eq!(status(&one, user), 429, "the rule holds on both");
    }
    assert_eq!(known(&other, "bob"), "0 0");
    // Neither names nor secrets are in the store, and a node that has counted nothing of a key shows it without its text.
    let keys = ask(store, &["--raw", "KEYS", "*"]);
    assert!(!keys.contains("ann") && keys.lines().all(|key| key.starts_with("weir:table:seen:")), "{keys}");
    assert_eq!(status(&one, "carl"), 200);
    agree(&[&one, &other], "carl", "1 0");
    assert!(one.ask_socket("show table seen").contains("key=carl "));
    assert!(!other.ask_socket("show table seen").contains("key=carl "));
    let page = Client::get_by_address(one.address("admin"), "/").text();
    assert!(page.contains("shared in"), "{page}");
}

#[test]
fn what_operators_change_holds_on_all_nodes() {
    let (origin, store) = (echo(), free_address());
    let _redis = redis(store, &[]);
    let [one, other] = [(); 2].map(|()| node(&origin, store));
    wait_for(&[&one, &other]);
    assert_eq!([status(&one, "ann"), status(&other, "ann")], [200; 2]);
    agree(&[&one, &other], "ann", "2 0");
    assert_eq!(other.ask_socket("set table seen key ann data.gpc0 5"), "\n");
    agree(&[&one, &other], "ann", "2 5");
    assert_eq!(one.ask_socket("clear table seen key ann"), "\n");
    agree(&[&one, &other], "ann", "0 0");
    assert_eq!(status(&other, "ann"), 200);
    agree(&[&one, &other], "ann", "1 0");
}

#[test]
fn without_the_store_each_node_counts_for_itself() {
    let (origin, store) = (echo(), free_address());
    let first = redis(store, &[]);
    let [one, other] = [(); 2].map(|()| node(&origin, store));
    wait_for(&[&one, &other]);
    assert_eq!([status(&one, "ann"), status(&other, "ann")], [200; 2]);
    agree(&[&one, &other], "ann", "2 0");
    drop(first);
    for node in [&one, &other] {
        eventually("the node is on its own", || metric(node, "shared") == 0.0);
        node.line(&["tables are not shared any more", "store=\"nodes\"", "each node has them for itself"]);
        assert!(metric(node, "exchange_failures_total") >= 1.0);
    }
    assert_eq!([(); 4].map(|()| status(&one, "ann")), [200; 4]);
    assert_eq!(status(&other, "ann"), 200);
    assert_eq!([known(&one, "ann"), known(&other, "ann")], ["6 0", "3 0"]);
    let page = Client::get_by_address(one.address("admin"), "/").text();
    assert!(page.contains("of this node alone: "), "{page}");
    // An empty store comes back: the larger number counts, and nothing that both had told before counts twice.
    let _second = redis(store, &[]);
    wait_for(&[&one, &other]);
    one.line(&["tables are shared by nodes again"]);
    agree(&[&one, &other], "ann", "6 0");
    assert_eq!([status(&one, "ann"), status(&other, "ann")], [200; 2]);
    agree(&[&one, &other], "ann", "8 0");
}

#[test]
fn a_store_that_hangs_delays_no_request_and_what_was_sent_counts_once() {
    let (origin, store) = (echo(), free_address());
    let redis = redis(store, &[]);
    let start = |timeout: &str| {
        Weir::start(&config(&origin, store, COUNTERS, &format!("store.nodes.timeout = \"{timeout}\"\n")))
    };
    let (patient, other) = (start("1m"), start("100ms"));
    wait_for(&[&patient, &other]);
    redis.signal(Signal::STOP);
    for _ in 0..3 {
        assert_eq!([status(&patient, "ann"), status(&other, "bob")], [200; 2]);
    }
    eventually("one node is on its own", || metric(&other, "shared") == 0.0);
    other.line(&["tables are not shared any more", "has not answered within 100ms"]);
    assert_eq!([known(&patient, "ann"), known(&other, "bob")], ["3 0", "3 0"]);
    redis.signal(Signal::CONT);
    wait_for(&[&patient, &other]);
    agree(&[&patient, &other], "ann", "3 0");
    agree(&[&patient, &other], "bob", "3 0");
}

/// A reload and an upgrade go on with the counts, and tell none of them twice.
#[test]
fn reloads_and_upgrades_go_on_with_the_shared_table() {
    let (origin, store) = (echo(), free_address());
    let _redis = redis(store, &[]);
    let [mut one, other] = [(); 2].map(|()| node(&origin, store));
    wait_for(&[&one, &other]);
    assert_eq!([status(&one, "ann"), status(&other, "ann")], [200; 2]);
    agree(&[&one, &other], "ann", "2 0");
    one.reload(&config(&origin, store, COUNTERS, "log.level = \"debug\"\n"));
    agree(&[&one, &other], "ann", "2 0");
    // Another interval is another connection.
    let changed = config(&origin, store, COUNTERS, "").replace("\"20ms\"", "\"30ms\"");
    one.reload(&changed);
    wait_for(&[&one, &other]);
    assert_eq!([status(&one, "ann"), status(&other, "ann")], [200; 2]);
    agree(&[&one, &other], "ann", "4 0");
    one.upgrade();
    let ended = one.wait_for_exit_of_the_first();
    assert!(ended.success(), "{ended}: {}", one.stderr());
    wait_for(&[&one, &other]);
    assert_eq!([status(&one, "ann"), status(&other, "ann")], [200; 2]);
    agree(&[&one, &other], "ann", "6 0");
}

/// A key that has made room for another one comes back with its counts, since the store has them: a client does not lose them by a flood of others.
#[test]
fn a_table_that_is_full_finds_its_keys_again_in_the_store() {
    let (origin, store) = (echo(), free_address());
    let _redis = redis(store, &[]);
    let small = Weir::start(&config(&origin, store, &format!("{COUNTERS}, keys_max = 1"), ""));
    wait_for(&[&small]);
    assert_eq!([(); 5].map(|()| status(&small, "ann")), [200; 5]);
    agree(&[&small], "ann", "5 0");
    for user in ["bob", "carl", "dora"] {
        assert_eq!(status(&small, user), 200);
        agree(&[&small], user, "1 0");
    }
    assert!(metric(&small, "evictions_total") >= 3.0);
    agree(&[&small], "ann", "5 0");
}
