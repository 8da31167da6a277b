//! What Weir allows itself: hosts on demand leave orders to those of the config, and each attempt proves the host in another way.

use super::{Authority, PebbleSettings, config, has_pebble, usual};
use crate::harness::tls::{connect, try_connect};
use crate::harness::{Origin, Weir, temporary_folder};

#[test]
fn hosts_on_demand_cannot_use_up_the_orders_of_the_config() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let with = |hosts: &str| {
        let keys =
            "on_demand = [\"*.shops.test\"]\norders_max = 5\nwait = \"60s\"\nchallenges = [\"tls-alpn-01\"]";
        config(&origin, &authority.keys(store.path(), &format!("hosts = [{hosts}]\n{keys}")))
    };
    let weir = Weir::start(&with("\"a.example.test\""));
    let pebble = authority.start(&PebbleSettings { nonces_refused: 0, ..usual(&weir) });
    pebble.wait_for(weir.web(), "a.example.test");
    for name in ["one.shops.test", "two.shops.test", "three.shops.test"] {
        assert_eq!(connect(weir.web(), pebble.client(), name).fetch("/").text(), "hello");
    }
    let refused =
        try_connect(weir.web(), pebble.client(), "four.shops.test").map(|_| ()).expect_err("a limit");
    assert!(refused.to_string().contains("InternalError"), "{refused}");
    weir.line(&["four.shops.test", "the limit of orders", "three fifths"]);
    weir.reload(&with("\"a.example.test\", \"b.example.test\""));
    pebble.wait_for(weir.web(), "b.example.test");
    assert_eq!(pebble.orders(), 5, "{}", pebble.program.output());
}

#[test]
fn the_attempt_after_a_refusal_proves_the_host_in_another_way() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let text = config(&origin, &authority.keys(store.path(), "hosts = [\"a.example.test\"]"));
    // Port 443 leads nowhere, as behind a balancer that ends TLS.
    let by_http_only = |weir: &Weir| PebbleSettings {
        ports: [weir.address("plain").port(), 1],
        nonces_refused: 0,
        ..usual(weir)
    };
    let weir = Weir::start(&text);
    let pebble = authority.start(&by_http_only(&weir));
    weir.line(&["no certificate could be obtained", "tls-alpn-01"]);
    assert_eq!(pebble.orders(), 1);
    drop((weir, pebble));
    // A start is a request to try again at once; which ways have failed is stored.
    let weir = Weir::start(&text);
    let pebble = authority.start(&by_http_only(&weir));
    pebble.wait_for(weir.web(), "a.example.test");
    assert_eq!(pebble.orders(), 1, "{}", weir.stderr());
}
