//! Handshakes before there is a certificate: they wait for a while, and what does not come is said.

use std::thread;

use super::{Authority, config, has_pebble, usual};
use crate::harness::tls::{connect, try_connect};
use crate::harness::{CertificateAuthority, Origin, Weir, eventually, temporary_folder};

#[test]
fn the_first_request_waits_for_its_certificate() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = "hosts = [\"a.example.test\"]\nwait = \"100s\"";
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), keys)));
    let pebble = authority.start(&usual(&weir));
    // Until the first attempt has failed or succeeded, clients wait.
    let (to, client) = (weir.web(), pebble.client());
    eventually("a request is answered over TLS", || {
        try_connect(to, client.clone(), "a.example.test")
            .is_ok_and(|mut client| client.fetch("/").text() == "hello")
    });
}

#[test]
fn clients_without_a_certificate_get_an_alert_and_the_log_names_the_host() {
    let (origin, authority, store) = (Origin::serving("x"), Authority::new(), temporary_folder());
    let keys = "hosts = [\"a.example.test\"]\nwait = \"100ms\"";
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), keys)));
    let refused = |name: &str| {
        let client = CertificateAuthority::new().client();
        try_connect(weir.web(), client, name).map(|_| ()).expect_err("there is no certificate").to_string()
    };
    assert!(refused("a.example.test").contains("InternalError"), "{}", refused("a.example.test"));
    assert!(refused("b.example.test").contains("UnrecognisedName"), "{}", refused("b.example.test"));
    weir.line(&["a client was rejected", "a.example.test"]);
    for reason in ["tls-certificate-pending", "tls-unrecognized-name"] {
        eventually("the refusals are counted", || {
            weir.metrics().sum("weir_listener_failures_total", &[&format!("reason=\"{reason}\"")]) > 0.5
        });
    }
    // How it stands is shown.
    let shown = &weir.admin_json("/api/certificates")[0];
    assert_eq!(shown["host"], "a.example.test");
    eventually("the failure is shown", || {
        let shown = &weir.admin_json("/api/certificates")[0];
        shown["state"] == "failed"
            && shown["last_error"].as_str().is_some_and(|why| why.contains("cannot be reached"))
    });
}

#[test]
fn hosts_on_demand_are_those_of_the_rule() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys =
        "on_demand = [\"*.shops.test\"]\non_demand_max = 2\nwait = \"100s\"\nchallenges = [\"tls-alpn-01\"]";
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), keys)));
    let pebble = authority.start(&usual(&weir));
    let ask = |name: &str| try_connect(weir.web(), pebble.client(), name);
    let clients = ["one.shops.test", "two.shops.test"].map(|name| {
        let (to, config) = (weir.web(), pebble.client());
        thread::spawn(move || connect(to, config, name).fetch("/").text())
    });
    for client in clients {
        assert_eq!(client.join().expect("the client got its response"), "hello");
    }
    // More than are allowed, beyond the rule, or no name of a host.
    for name in ["three.shops.test", "one.example.test", "shops.test"] {
        let error = ask(name).map(|_| ()).expect_err(name).to_string();
        assert!(error.contains("UnrecognisedName") || error.contains("NotValidForName"), "{name}: {error}");
    }
    assert_eq!(weir.admin_json("/api/certificates").as_array().map(Vec::len), Some(2));
}
