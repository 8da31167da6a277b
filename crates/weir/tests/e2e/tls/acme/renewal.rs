//! Certificates are renewed before they end, and no client notices.

use super::{Authority, PebbleSettings, config, has_pebble, usual};
use crate::harness::tls::{connect, try_connect};
use crate::harness::watchdog::{now, pause};
use crate::harness::{Origin, Weir, eventually, temporary_folder};

#[test]
fn renewals_lose_no_handshake_and_order_nothing_else() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = "hosts = [\"a.example.test\", \"b.example.test\"]";
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), keys)));
    let pebble = authority.start(&PebbleSettings { validity_s: 30, nonces_refused: 0, ..usual(&weir) });
    let first = pebble.wait_for(weir.web(), "a.example.test");
    pebble.wait_for(weir.web(), "b.example.test");
    let mut held = connect(weir.web(), pebble.client(), "a.example.test");
    let mut handshakes = 0;
    let began = now();
    // The window that Pebble suggests is the whole life time: longer than the usual patience of a test.
    while pebble.shown(weir.web(), "a.example.test").expect("there is always one that is valid") == first {
        handshakes += 1;
        assert!(began.elapsed().as_secs() < 60, "the certificate is renewed");
        pause();
    }
    assert!(handshakes > 1);
    held.assert_alive();
    let obtained = weir.stderr().matches("a certificate was obtained").count();
    assert!(obtained >= 3, "{obtained} for two hosts and a renewal\n{}", weir.stderr());
    let under_way = pebble.orders() - obtained;
    assert!(under_way <= 1, "no order is in vain\n{}", weir.stderr());
    let renewed = weir.metrics().sum("weir_acme_orders_total", &["outcome=\"obtained\""]);
    assert!(renewed > 2.5, "{renewed}");
}

#[test]
fn a_failed_renewal_keeps_the_old_certificate_and_raises_the_alarm() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = "hosts = [\"a.example.test\"]";
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), keys)));
    let pebble = authority.start(&PebbleSettings { validity_s: 12, nonces_refused: 0, ..usual(&weir) });
    pebble.wait_for(weir.web(), "a.example.test");
    let client = pebble.client();
    drop(pebble);
    let began = now();
    weir.line(&["a certificate could not be renewed", "a.example.test"]);
    weir.line(&["has expired", "a.example.test"]);
    assert!(began.elapsed().as_secs() < 60);
    // Clients decide: it is shown all the same.
    eventually("clients see that it has expired", || {
        let refused = try_connect(weir.web(), client.clone(), "a.example.test").map(|_| ()).err();
        refused.is_some_and(|error| error.to_string().contains("xpired"))
    });
    assert_eq!(weir.admin_json("/api/certificates")[0]["state"], "expired");
    assert!(weir.metrics().sum("weir_acme_hosts", &["state=\"expired\""]) > 0.5);
}
