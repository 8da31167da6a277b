//! Certificates are renewed before they end, and no client notices.

use super::{Authority, PebbleSettings, SHORT_VALIDITY_S, config, has_pebble, usual};
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
fn a_certificate_is_renewed_in_the_window_that_the_authority_suggests() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let text = config(&origin, &authority.keys(store.path(), "hosts = [\"a.example.test\"]"));
    let weir = Weir::start(&text);
    let pebble = authority.start(&usual(&weir));
    let certificate = pebble.wait_for(weir.web(), "a.example.test");
    let window = [20_000, 20_010];
    let before = unix_seconds();
    pebble.suggest(&certificate, window);
    let after = unix_seconds();
    // The authority is asked again after a start.
    drop(weir);
    let weir = Weir::start(&text);
    eventually("the renewal is due in the window", || {
        let due = weir.admin_json("/api/certificates")[0]["next_attempt_s"].as_u64();
        due.is_some_and(|due| (before + 20_000 - 1..=after + 20_010 + 1).contains(&due))
    });
    assert_eq!(pebble.orders(), 1, "nothing is ordered before");
}

#[test]
fn certificates_are_of_the_profile_that_the_config_names() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = "hosts = [\"a.example.test\"]\nprofile = \"short\"";
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), keys)));
    let pebble = authority.start(&PebbleSettings { has_short_profile: true, ..usual(&weir) });
    pebble.wait_for(weir.web(), "a.example.test");
    let ends = || weir.admin_json("/api/certificates")[0]["not_after_s"].as_u64();
    eventually("the certificate is shown", || ends().is_some());
    let left = ends().expect("it was just there").saturating_sub(unix_seconds());
    assert!((1..=SHORT_VALIDITY_S + 5).contains(&left), "{left}");

    // One that the authority does not offer is quoted.
    weir.reload(&config(
        &origin,
        &authority.keys(store.path(), &keys.replace("short", "long").replace("a.ex", "b.ex")),
    ));
    weir.line(&["no certificate could be obtained", "b.example.test", "profile"]);
}

fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    now.expect("it is after 1970").as_secs()
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
