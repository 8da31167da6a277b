//! An authority that is broken or means harm: no number of its own ends a task, and it gets no more orders than the documentation says.

use std::fs;

use serde_json::{Value, json};

use super::config;
use super::scripted::{Misbehaviour, ScriptedAuthority};
use crate::harness::{Origin, Weir, WrittenConfig, eventually, run, temporary_folder};

/// Waits that an authority may ask for, up to what no type can hold.
const WAITS: [&str; 24] = [
    "18446744073709551615",
    "18446744073709551614",
    "9223372036854775808",
    "9223372036854775807",
    "9223372036854775806",
    "9007199254740993",
    "292277026596",
    "253402300800",
    "4294967296",
    "4294967295",
    "2147483648",
    "2147483647",
    "1",
    "0",
    "-1",
    "+1",
    "1.5",
    "1e308",
    "99999999999999999999999999999999",
    "Thu, 01 Jan 1970 00:00:00 GMT",
    "Wed, 31 Dec 1969 23:59:59 GMT",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "soon",
    "",
];

/// Moments of windows.
const MOMENTS: [&str; 8] = [
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "1970-01-01T00:00:00Z",
    "2038-01-19T03:14:08Z",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:59",
    "soon",
];

fn hosts(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|number| format!("\"h{number}.example.test\"")).collect();
    format!("hosts = [{}]", names.join(", "))
}

fn start(authority: &ScriptedAuthority, store: &std::path::Path, more: &str) -> Weir {
    Weir::start(&config(&Origin::serving("hello"), &authority.keys(store, more)))
}

fn certificate(weir: &Weir) -> Value {
    weir.admin_json("/api/certificates")[0].clone()
}

fn assert_no_panic(weir: &Weir) {
    assert!(!weir.stderr().contains("panic"), "{}", weir.stderr());
    let panics = weir.metrics().sum("weir_process_panics_total", &[]);
    assert!(panics < 0.5, "{panics}");
}

#[test]
fn no_number_of_an_authority_ends_a_task() {
    let windows = MOMENTS.into_iter().flat_map(|start| MOMENTS.map(|end| [start, end].map(str::to_owned)));
    let extremes = Misbehaviour {
        retry_after: WAITS.map(str::to_owned).to_vec(),
        windows: windows.collect(),
        ..Misbehaviour::default()
    };
    let (authority, store) = (ScriptedAuthority::start(extremes.clone()), temporary_folder());
    let weir = start(&authority, store.path(), &hosts(40));
    let has = |state: &str, count: usize| {
        let certificates = weir.admin_json("/api/certificates");
        let hosts = certificates.as_array().expect("they are a list").iter();
        hosts.filter(|host| host["state"] == state).count() >= count
    };
    eventually("all hosts have a certificate", || has("valid", 40));
    assert_no_panic(&weir);
    assert_eq!(authority.ordered().len(), 40, "each host once");
    drop(weir);

    // The same with every resource that may fail, and each of the waits behind it.
    for resource in
        ["dir", "nonce", "account", "new-order", "order", "authorization", "finalize", "certificate"]
    {
        for status in [429, 503] {
            let store = temporary_folder();
            let before = authority.ordered().len();
            authority.set(Misbehaviour { refused: Some((resource, status)), ..extremes.clone() });
            let answered = authority.answered();
            let weir = start(&authority, store.path(), &hosts(8));
            eventually("all hosts have failed", || has_all_failed(&weir, 8));
            assert!(authority.answered() > answered);
            assert_no_panic(&weir);
            let ordered = authority.ordered().split_off(before);
            assert!(ordered.len() <= 24, "{resource} {status}: {} orders for 8 hosts", ordered.len());
        }
    }
}

fn has_all_failed(weir: &Weir, count: usize) -> bool {
    let certificates = weir.admin_json("/api/certificates");
    let hosts = certificates.as_array().expect("they are a list").iter();
    hosts.filter(|host| host["failed"].as_u64() > Some(0) || !host["last_error"].is_null()).count() == count
}

#[test]
fn a_directory_that_names_no_urls_is_an_error_in_the_log() {
    for url in ["", "https://", "https://a b/", "https://[::1", "\u{7f}", "no url \" at all", "http://["] {
        let broken = Misbehaviour { directory: vec![("newNonce", json!(url))], ..Misbehaviour::default() };
        let (authority, store) = (ScriptedAuthority::start(broken), temporary_folder());
        let weir = start(&authority, store.path(), &hosts(1));
        weir.line(&["no certificate could be obtained", "h0.example.test", "URL"]);
        assert_no_panic(&weir);
    }
}

#[test]
fn no_url_of_an_authority_that_the_config_takes_ends_a_task() {
    let urls = [
        "https://127.0.0.1:1",
        "https://127.0.0.1:1/",
        "https://127.0.0.1:1?x",
        "https://127.0.0.1:1/dir?x=1&y",
        "https://[::1]:1/dir",
        "https://127.0.0.1:1/%zz",
        "https://127.0.0.1:1//..;/",
        "https://[::1/dir",
        "https://::1/dir",
        "https://a b/",
        "https://127.0.0.1:99999/dir",
        "https://127.0.0.1:/dir",
        "https://127.0.0.1:1/<x>",
        "https://127.0.0.1:1/a\\\\b",
        "https://127.0.0.1:1/a^b",
        "https://127.0.0.1:1/`",
        "https://127.0.0.1:1/{x}",
        "https://127.0.0.1:1/|",
        "https://127.0.0.1:1/\u{fc}",
        "https://ann@127.0.0.1:1/dir",
        "https:///dir",
        "https://:1/dir",
        "https://a_b.test:1/dir",
    ];
    let (origin, store) = (Origin::serving("hello"), temporary_folder());
    let with = |urls: &[&str]| {
        let list: Vec<String> = urls.iter().map(|url| format!("\"{url}\"")).collect();
        let keys = format!(
            "listener.web.tls.acme.ca = [{}]\nlistener.web.tls.acme.directory = \"{}\"\nlistener.web.tls.acme.{}\n",
            list.join(", "),
            store.path().display(),
            hosts(1)
        );
        config(&origin, &keys)
    };
    let is_taken = |url: &&str| {
        let checked = run(&["check", WrittenConfig::new(&with(&[*url])).path()]);
        assert!(matches!(checked.code, Some(0 | 2)), "{url}: {}", checked.text());
        checked.code == Some(0)
    };
    let taken: Vec<&str> = urls.into_iter().filter(is_taken).collect();
    assert!(taken.len() >= 5 && taken.len() <= urls.len() - 14, "{taken:?}");
    let weir = Weir::start(&with(&taken));
    weir.line(&["no certificate could be obtained", "h0.example.test"]);
    assert_no_panic(&weir);
}

#[test]
fn a_certificate_that_is_issued_late_is_not_ordered_again_at_once() {
    let day = 86_400;
    for (validity, windows) in [
        // Beyond two thirds of its life, and one whose window is over.
        ([-80 * day, 10 * day], Vec::new()),
        ([-89 * day, day], Vec::new()),
        ([-10 * day, 80 * day], vec![["1970-01-01T00:00:00Z", "1970-01-02T00:00:00Z"].map(str::to_owned)]),
    ] {
        let late = Misbehaviour { validity: Some(validity), windows, ..Misbehaviour::default() };
        let (authority, store) = (ScriptedAuthority::start(late), temporary_folder());
        let weir = start(&authority, store.path(), &hosts(1));
        let began = unix_seconds();
        eventually("there is a certificate, and the next order is due", || {
            let next = certificate(&weir)["next_attempt_s"].as_u64().unwrap_or(0);
            certificate(&weir)["state"] == "valid" && next >= began + 3_590
        });
        assert_eq!(authority.ordered().len(), 1, "{}", weir.stderr());
        // Neither a restart nor another node orders it again.
        drop(weir);
        let weir = start(&authority, store.path(), &hosts(1));
        eventually("the certificate is used", || {
            certificate(&weir)["next_attempt_s"].as_u64().is_some_and(|next| next >= began + 3_590)
        });
        assert_eq!(authority.ordered().len(), 1, "{}", weir.stderr());
    }
}

#[test]
fn a_reason_of_any_length_is_kept_and_logged_in_part() {
    let reason: &'static str = "because ".repeat(100_000).leak();
    let verbose = Misbehaviour { refused: Some(("new-order", 503)), reason, ..Misbehaviour::default() };
    let (authority, store) = (ScriptedAuthority::start(verbose), temporary_folder());
    let weir = start(&authority, store.path(), &hosts(1));
    let line = weir.line(&["no certificate could be obtained", "because because"]);
    assert!(line.len() < 4_096, "{}", line.len());
    let shown = certificate(&weir)["last_error"].as_str().map(str::len);
    assert!(shown < Some(4_096), "{shown:?}");
}

#[test]
fn an_authority_that_has_lost_an_account_gets_one_new_account() {
    let (authority, store) = (ScriptedAuthority::start(Misbehaviour::default()), temporary_folder());
    let origin = Origin::serving("hello");
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), &hosts(1))));
    eventually("there is a certificate", || certificate(&weir)["state"] == "valid");
    authority.set(Misbehaviour { unknown_accounts: 1, ..Misbehaviour::default() });
    // Several orders begin with the account that is lost. Those that learn it late do not give up the new one.
    weir.reload(&config(&origin, &authority.keys(store.path(), &hosts(8))));
    eventually("all hosts have a certificate", || {
        let certificates = weir.admin_json("/api/certificates");
        let hosts = certificates.as_array().expect("they are a list");
        hosts.len() == 8 && hosts.iter().all(|host| host["state"] == "valid")
    });
    assert_eq!(authority.accounts(), 2, "{}", weir.stderr());
}

#[test]
fn an_authority_that_knows_no_account_does_not_get_one_for_each_order() {
    let forgetful = Misbehaviour { unknown_accounts: usize::MAX, ..Misbehaviour::default() };
    let (authority, store) = (ScriptedAuthority::start(forgetful), temporary_folder());
    for _ in 0..2 {
        // A restart does not begin the limit anew.
        let weir = start(&authority, store.path(), &hosts(8));
        eventually("all hosts have failed", || has_all_failed(&weir, 8));
        weir.line(&["no certificate could be obtained", "several were made within an hour"]);
        assert_eq!(authority.accounts(), 3, "{}", weir.stderr());
        assert_no_panic(&weir);
    }
}

#[test]
fn an_order_that_is_begun_once_more_counts_as_one_more() {
    // It does not say that orders are replacements, so that each renewal is ordered again without that. Due at once, after the least interval.
    let odd = Misbehaviour {
        validity: Some([-35, 5]),
        windows: vec![["1970-01-01T00:00:00Z"; 2].map(str::to_owned)],
        ..Misbehaviour::default()
    };
    let (authority, store) = (ScriptedAuthority::start(odd), temporary_folder());
    let weir = start(&authority, store.path(), &hosts(1));
    eventually("it was renewed", || certificate(&weir)["obtained"].as_u64() >= Some(2));
    let account = fs::read_dir(store.path().join("accounts")).expect("there is one").flatten().next();
    let log = fs::read(account.expect("there is one").path().join("orders.json")).expect("it is there");
    let log: Value = serde_json::from_slice(&log).expect("it is JSON");
    let noted = log["orders"].as_array().map(Vec::len);
    assert!(noted >= Some(authority.ordered().len()), "{log} {:?}", authority.ordered());
    assert!(authority.ordered().len() >= 3, "{:?}", authority.ordered());
}

#[test]
fn a_certificate_that_clients_would_refuse_is_not_used() {
    let day = 86_400;
    let other = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    for (misbehaviour, reason) in [
        (
            Misbehaviour { names: other(&["other.example.test"]), ..Misbehaviour::default() },
            "other.example.test",
        ),
        (
            Misbehaviour { names: other(&["*.h0.example.test"]), ..Misbehaviour::default() },
            "*.h0.example.test",
        ),
        (Misbehaviour { validity: Some([-20 * day, -10 * day]), ..Misbehaviour::default() }, "expired"),
        (Misbehaviour { validity: Some([20 * day, 30 * day]), ..Misbehaviour::default() }, "not valid yet"),
        (Misbehaviour { proofs: Some(1_000), ..Misbehaviour::default() }, "1000 proofs"),
        (Misbehaviour { more_certificates: 10, ..Misbehaviour::default() }, "its chain has 11 certificates"),
        (
            Misbehaviour { more_certificates: 999, ..Misbehaviour::default() },
            "its chain has 1000 certificates",
        ),
    ] {
        let (authority, store) = (ScriptedAuthority::start(misbehaviour), temporary_folder());
        let weir = start(&authority, store.path(), &hosts(1));
        weir.line(&["no certificate could be obtained", "h0.example.test", reason]);
        let shown = certificate(&weir);
        assert_eq!(shown["state"], "failed", "{shown}");
        assert!(shown["not_after_s"].is_null(), "{shown}");
        assert!(!store.path().join("certificates/h0.example.test.pem").exists());
        assert_eq!(authority.ordered().len(), 1, "{}", weir.stderr());
        assert_no_panic(&weir);
    }
}

#[test]
fn a_chain_of_ten_certificates_is_used() {
    let long = Misbehaviour { more_certificates: 9, ..Misbehaviour::default() };
    let (authority, store) = (ScriptedAuthority::start(long), temporary_folder());
    let weir = start(&authority, store.path(), &hosts(1));
    eventually("there is a certificate", || certificate(&weir)["state"] == "valid");
}

#[test]
fn what_a_file_has_for_another_name_is_not_used() {
    let (authority, store) = (ScriptedAuthority::start(Misbehaviour::default()), temporary_folder());
    let weir = start(&authority, store.path(), &hosts(1));
    eventually("there is a certificate", || certificate(&weir)["state"] == "valid");
    drop(weir);
    let folder = store.path().join("certificates");
    fs::rename(folder.join("h0.example.test.pem"), folder.join("h1.example.test.pem")).expect("it is there");
    let weir = start(&authority, store.path(), "hosts = [\"h1.example.test\"]");
    weir.line(&["has one for other names", "h1.example.test"]);
    eventually("there is one of its own", || certificate(&weir)["state"] == "valid");
    assert_eq!(authority.ordered(), ["h0.example.test", "h1.example.test"]);
}

#[test]
fn an_attempt_that_has_ended_in_a_crash_is_followed_by_a_pause() {
    let (authority, store) = (ScriptedAuthority::start(Misbehaviour::default()), temporary_folder());
    let folder = store.path().join("certificates");
    fs::create_dir_all(&folder).expect("the folder takes one");
    let record = json!({ "begun_at": unix_seconds(), "is_open": true }).to_string();
    fs::write(folder.join("h0.example.test.json"), record).expect("the folder takes a file");
    let weir = start(&authority, store.path(), &hosts(1));
    weir.line(&["no certificate could be obtained", "ended without an outcome"]);
    assert_eq!(authority.ordered().len(), 0, "{}", weir.stderr());
    let next = certificate(&weir)["next_attempt_s"].as_u64().expect("there is a next one");
    assert!(next >= unix_seconds() + 30, "{next}");
}

fn unix_seconds() -> u64 {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed();
    now.expect("it is after 1970").as_secs()
}
