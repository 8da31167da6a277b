//! `dns-01` where `_acme-challenge.HOST` is a CNAME into another zone: by updates at Knot DNS, by a program, and what cannot be followed.

use super::dns_update::{SECRET, has_knot, knot_with, records, update_keys, write_key};
use super::{Authority, PebbleSettings, config_asking, dns_command, has_pebble, tell_place, usual};
use crate::harness::{CommandResult, Origin, Weir, eventually, temporary_folder};

/// A zone that nothing may change: one host is delegated by way of a second CNAME, one is in a circle.
const EXAMPLE: &str = "_acme-challenge CNAME example.challenges.test.\n\
                       _acme-challenge.circle CNAME around.circle\naround.circle CNAME _acme-challenge.circle\n";

/// The zone of the challenges.
const CHALLENGES: &str = "example CNAME shared.of\n";

/// Every name that is not there is that of a website.
const WILDCARD: &str = "* CNAME www.example.test.\n";

#[test]
fn updates_go_to_the_zone_that_a_cname_leads_to() {
    if !has_pebble() || !has_knot() {
        return;
    }
    let (origin, authority, folder) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let zones = [
        ("example.test", EXAMPLE, false),
        ("challenges.test", CHALLENGES, true),
        ("wild.test", WILDCARD, true),
    ];
    let (knot, server) = knot_with("hmac-sha256", "", &zones);
    write_key(folder.path(), "hmac-sha256", SECRET);
    let of = |hosts: &str, more: &str| {
        let keys = format!("hosts = [{hosts}]\n{more}{}", update_keys(folder.path(), server, ""));
        let store = folder.path().join(format!("store-{}", hosts.len()));
        config_asking(server, &origin, &authority.keys(&store, &keys))
    };
    let weir = Weir::start(&of("\"*.example.test\", \"example.test\"", ""));
    let pebble = authority.start(&PebbleSettings { name_server: Some(server), ..usual(&weir) });
    pebble.wait_for(weir.web(), "any.example.test");
    pebble.wait_for(weir.web(), "example.test");
    weir.line(&[
        "the record of a challenge belongs where its CNAME leads",
        "target=\"shared.of.challenges.test.\"",
    ]);
    eventually("the records are gone", || records(server, "shared.of.challenges.test", 16) == Some(0));
    assert!(!weir.stderr().contains("could not be removed"), "{}\n{}", weir.stderr(), knot.output());

    // A wildcard is no delegation: the record takes its place.
    weir.reload(&of("\"a.wild.test\"", ""));
    pebble.wait_for(weir.web(), "a.wild.test");
    // The zone itself is not to be changed, as the server says.
    weir.reload(&of("\"www.example.test\", \"example.test\"", "dns_follow_cname = false\n"));
    weir.line(&["no certificate could be obtained", "refuses the update of the zone `example.test.`"]);
    weir.reload(&of("\"circle.example.test\"", ""));
    weir.line(&[
        "no certificate could be obtained",
        "`_acme-challenge.circle.example.test.` -> `around.circle.example.test.` -> `_acme-challenge.circle.example.test.`: they \
         lead in a circle",
    ]);
}

#[test]
fn a_program_is_told_where_a_cname_leads() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, folder) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = dns_command(folder.path());
    let keys = authority.keys(&folder.path().join("store"), &format!("hosts = [\"a.example.test\"]\n{keys}"));
    let weir = Weir::start(&config_asking(authority.dns, &origin, &keys));
    // Before there is an authority, nothing is looked up.
    let pebble = authority.start_with(&usual(&weir), |records| {
        let cname = "{\"host\":\"_acme-challenge.a.example.test.\",\"target\":\"a.challenges.test.\"}";
        let mut command = crate::harness::foreign_program::foreign_command("curl");
        command.args(["-sf", "-d", cname, &format!("http://{records}/set-cname")]);
        assert_eq!(CommandResult::of(&mut command).code, Some(0), "the name server takes a CNAME");
    });
    tell_place(folder.path(), &pebble);
    pebble.wait_for(weir.web(), "a.example.test");
    let log = std::fs::read_to_string(folder.path().join("log")).expect("the program has run");
    let last: Vec<&str> = log.lines().rev().take(2).collect();
    for (line, action) in last.iter().zip(["cleanup", "present"]) {
        assert!(line.starts_with(&format!("{action} a.challenges.test. ")), "{log}");
        assert!(line.ends_with(" for _acme-challenge.a.example.test."), "{log}");
    }
}

/// Without an answer, what is known is used, and the log says what is not.
#[test]
fn a_resolver_that_does_not_answer_stops_no_order() {
    if !has_pebble() {
        return;
    }
    let (origin, authority, folder) = (Origin::serving("hello"), Authority::new(), temporary_folder());
    let keys = dns_command(folder.path());
    let keys = authority.keys(&folder.path().join("store"), &format!("hosts = [\"a.example.test\"]\n{keys}"));
    let nothing = "127.0.0.1:1".parse().expect("it is an address");
    let weir = Weir::start(&config_asking(nothing, &origin, &keys));
    let pebble = authority.start(&usual(&weir));
    tell_place(folder.path(), &pebble);
    pebble.wait_for(weir.web(), "a.example.test");
    weir.line(&["whether the record of a challenge is a CNAME is not known: it is taken for none"]);
}
