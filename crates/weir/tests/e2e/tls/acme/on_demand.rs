//! Hosts on demand: what the config names decides, and a name that is none leaves nothing behind.

use super::config;
use super::scripted::{Misbehaviour, ScriptedAuthority};
use crate::harness::origin::{ok, status};
use crate::harness::tls::{connect, try_connect};
use crate::harness::{Origin, Weir, eventually, temporary_folder};

#[test]
fn no_certificate_is_ordered_for_what_the_application_does_not_know() {
    let (origin, authority, store) =
        (Origin::serving("hello"), ScriptedAuthority::start(Misbehaviour::default()), temporary_folder());
    let asked = Origin::start(|connection| {
        loop {
            let request = connection.request()?;
            let answer = match request.target() {
                "/allowed?zone=eu&domain=good.shops.test" => ok("yes"),
                "/allowed?zone=eu&domain=away.shops.test" => status(503),
                _ => status(404),
            };
            connection.send(answer)?;
        }
    });
    let keys = format!(
        "hosts = [\"a.example.test\"]\non_demand = [\"*.shops.test\"]\nwait = \"10s\"\n\
         on_demand_ask = \"http://{}/allowed?zone=eu\"",
        asked.address()
    );
    let weir = Weir::start(&config(&origin, &authority.keys(store.path(), &keys)));
    assert_eq!(connect(weir.web(), authority.client(), "good.shops.test").fetch("/").text(), "hello");
    for (name, reason) in
        [("bad.shops.test", "permits no certificate"), ("away.shops.test", "its status is 503")]
    {
        assert!(try_connect(weir.web(), authority.client(), name).is_err(), "{name}");
        weir.line(&["no certificate could be obtained", name, reason]);
    }
    eventually("the host of the config has its certificate", || authority.ordered().len() == 2);
    let mut ordered = authority.ordered();
    ordered.sort();
    assert_eq!(ordered, ["a.example.test", "good.shops.test"]);
    assert!(asked.targets().iter().all(|target| !target.contains("a.example.test")), "it is in the config");
}
