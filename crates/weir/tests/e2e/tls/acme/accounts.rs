//! Accounts: one that binds another, the next authority when the first is away, and an authority that forgets its accounts.

use super::{Authority, PebbleSettings, config, has_pebble, usual};
use crate::harness::{Origin, Weir, eventually, temporary_folder};

/// 32 bytes, base64url as an authority gives it.
const KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

#[test]
fn an_account_is_bound_to_another() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let key = store.path().join("key");
    std::fs::write(&key, format!("{KEY}\n")).expect("the folder takes a file");
    let account = format!("external_account = [{{ key_id = \"kid-1\", key_file = \"{}\" }}]", key.display());
    let keys = format!("hosts = [\"a.example.test\"]\n{account}");
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), &keys)));
    let pebble = authority.start(&PebbleSettings { account: Some(["kid-1", KEY]), ..usual(&weir) });
    pebble.wait_for(weir.web(), "a.example.test");
}

#[test]
fn without_the_account_the_authority_is_quoted() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), "hosts = [\"a.example.test\"]")));
    let _pebble = authority.start(&PebbleSettings { account: Some(["kid-1", KEY]), ..usual(&weir) });
    weir.line(&["no certificate could be obtained", "externalAccountRequired"]);
}

#[test]
fn the_second_authority_is_asked_when_the_first_is_away() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = authority.keys(store.path(), "hosts = [\"a.example.test\"]");
    let both = keys.replace("ca = [", "ca = [\"https://127.0.0.1:1/dir\", ");
    let weir = Weir::start(&config(&origin, &both));
    let pebble = authority.start(&usual(&weir));
    pebble.wait_for(weir.web(), "a.example.test");
    // A handshake may have the certificate before it is shown.
    let shown = || weir.admin_json("/api/certificates")[0].clone();
    eventually("the certificate is shown", || shown()["state"] == "valid");
    assert_eq!(shown()["ca"].as_str(), Some(&*authority.url()));
}

#[test]
fn an_authority_that_forgot_the_account_gets_a_new_one() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let with = |hosts: &str| config(&origin, &authority.keys(store.path(), &format!("hosts = [{hosts}]")));
    let weir = Weir::start(&with("\"a.example.test\""));
    let pebble = authority.start(&usual(&weir));
    pebble.wait_for(weir.web(), "a.example.test");
    drop(pebble);
    // Pebble keeps accounts in memory only.
    let pebble = authority.start(&usual(&weir));
    weir.reload(&with("\"a.example.test\", \"b.example.test\""));
    pebble.wait_for(weir.web(), "b.example.test");
    weir.line(&["does not know the account any more"]);
}

#[test]
fn a_host_that_cannot_be_proved_is_tried_again_later_only() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, store) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = "hosts = [\"a.example.test\"]\nchallenges = [\"tls-alpn-01\"]";
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), keys)));
    // Where nothing listens.
    let pebble = authority.start(&PebbleSettings { ports: [1, 1], nonces_refused: 0, ..usual(&weir) });
    let line = weir.line(&["no certificate could be obtained", "Failed to connect", "tls-alpn-01"]);
    let shown = &weir.admin_json("/api/certificates")[0];
    assert_eq!(shown["state"], "failed");
    assert!(shown["next_attempt_s"].is_u64(), "{shown}");
    let pause = line.split("next_in_s=").nth(1).and_then(|rest| rest.trim().parse::<u64>().ok());
    assert!(pause.is_some_and(|pause| pause > 20), "{line}");
    assert_eq!(pebble.orders(), 1);
}
