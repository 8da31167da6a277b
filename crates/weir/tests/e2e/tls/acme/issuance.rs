//! A certificate is obtained by each kind of challenge, stored for the owner alone, and used again after a restart.

use std::os::unix::fs::PermissionsExt as _;

use super::{Authority, PebbleSettings, config, config_asking, dns_command, has_pebble, tell_place, usual};
use crate::harness::tls::connect;
use crate::harness::{Client, Origin, Weir, temporary_folder};

fn is_obtained_by(challenge: &str) {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys =
        format!("hosts = [\"a.example.test\"]\nemail = \"ops@example.test\"\nchallenges = [\"{challenge}\"]");
    let text = config(&origin, &authority.keys(store.path(), &keys));
    let weir = Weir::start(&text);
    // Nothing answers there yet, and the order comes when something does.
    weir.line(&["no certificate could be obtained", "a.example.test", "cannot be reached"]);
    let pebble = authority.start(&usual(&weir));
    pebble.wait_for(weir.web(), "a.example.test");
    let mut client = connect(weir.web(), pebble.client(), "a.example.test");
    assert_eq!(client.fetch("/").text(), "hello");
    let listed: Vec<_> = ["certificates/a.example.test.pem", "certificates/a.example.test.json"].into();
    for file in listed {
        let metadata = std::fs::metadata(store.path().join(file)).expect(file);
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
    }
    let left = std::fs::read_dir(store.path().join("challenges")).expect("the folder is there").count();
    assert_eq!(left, 0, "the answer to the challenge is gone");
    let (orders, client) = (pebble.orders(), pebble.client());
    assert!(orders >= 1);
    drop(weir);

    // The authority is not needed for what is there.
    drop(pebble);
    let weir = Weir::start(&text);
    assert_eq!(connect(weir.web(), client, "a.example.test").fetch("/").text(), "hello");
    assert!(!weir.stderr().contains("a certificate was obtained"), "{}", weir.stderr());
}

#[test]
fn by_tls_alpn_01() {
    is_obtained_by("tls-alpn-01");
}

#[test]
fn by_http_01_before_a_redirect_to_https() {
    is_obtained_by("http-01");
}

#[test]
fn a_wildcard_by_dns_01() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, folder) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = dns_command(folder.path());
    let keys = authority.keys(&folder.path().join("store"), &format!("hosts = [\"*.example.test\"]\n{keys}"));
    let weir = Weir::start(&config_asking(authority.dns, &origin, &keys));
    let pebble = authority.start(&usual(&weir));
    tell_place(folder.path(), &pebble);
    pebble.wait_for(weir.web(), "any.example.test");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("the program has run");
    let last: Vec<&str> = log.lines().rev().take(2).collect();
    assert!(last[0].starts_with("cleanup _acme-challenge.example.test. "), "{log}");
    assert!(last[1].starts_with("present _acme-challenge.example.test. "), "{log}");
    // One label, and not the domain itself.
    assert!(pebble.shown(weir.web(), "a.any.example.test").is_none());
}

#[test]
fn another_node_answers_the_challenge() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let of = |host: &str| {
        let keys = format!("hosts = [\"{host}\"]\nchallenges = [\"http-01\"]");
        Weir::start(&config(&origin, &authority.keys(store.path(), &keys)))
    };
    let (orders, answers) = (of("a.example.test"), of("b.example.test"));
    let ports = [answers.address("plain").port(), 1];
    let pebble = authority.start(&PebbleSettings { ports, ..usual(&orders) });
    pebble.wait_for(orders.web(), "a.example.test");
    // A token that no node has is like any other path.
    let response = Client::get(answers.address("plain"), "/.well-known/acme-challenge/unknown");
    assert_eq!(response.status, 308, "{}", response.text());
}

#[test]
fn nodes_that_share_the_folder_order_once() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = "hosts = [\"a.example.test\"]\nchallenges = [\"http-01\"]";
    let start = || Weir::start(&config(&origin, &authority.keys(store.path(), keys)));
    let (one, other) = (start(), start());
    let pebble = authority.start(&PebbleSettings { nonces_refused: 0, ..usual(&one) });
    let shown = pebble.wait_for(one.web(), "a.example.test");
    assert_eq!(pebble.wait_for(other.web(), "a.example.test"), shown);
    assert_eq!(pebble.orders(), 1, "{}", pebble.program.output());
}
