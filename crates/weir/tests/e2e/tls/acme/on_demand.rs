//! Hosts on demand: what the config names decides, and a name that is none leaves nothing behind.

use super::config;
use super::scripted::{Misbehaviour, ScriptedAuthority};
use crate::harness::origin::{ok, status};
use crate::harness::tls::{connect, try_connect};
use crate::harness::{Origin, Weir, eventually, temporary_folder};

/// Before the certificate is ordered, the client has proven its address; the order of `a.test` would be that of one that has not.
#[cfg(feature = "http3")]
#[test]
fn a_handshake_of_http3_waits_for_its_certificate() {
    use crate::harness::http3::{HeldHandshakes, Http3Client};
    use crate::harness::{CertificateAuthority, Gate};

    let (origin, authority, store) =
        (Origin::serving("hello"), ScriptedAuthority::start(Misbehaviour::default()), temporary_folder());
    let gate = Gate::new();
    let asked = {
        let gate = gate.clone();
        Origin::start(move |connection| {
            loop {
                let is_good = connection.request()?.target().ends_with("good.shops.test");
                gate.wait("the host is permitted");
                connection.send(if is_good { ok("yes") } else { status(404) })?;
            }
        })
    };
    let keys = format!(
        "on_demand = [\"*.shops.test\", \"a.test\"]\nwait = \"10s\"\non_demand_ask = \"http://{}/\"",
        asked.address()
    );
    let text =
        format!("{}\nlistener.web.http3 = {{}}\n", config(&origin, &authority.keys(store.path(), &keys)));
    let weir = Weir::start(&text);
    let _unproven = HeldHandshakes::begin(weir.web(), &CertificateAuthority::new(), 3);
    eventually("their packets have come", || {
        weir.metrics().sum("weir_worker_datagrams_total", &["direction=\"in\""]) > 2.5
    });
    let (to, tls) = (weir.web(), authority.client());
    let client = std::thread::spawn(move || {
        let mut client =
            Http3Client::try_connect_as(to, tls, "good.shops.test").expect("it has a certificate");
        let request = http::Request::builder().uri("https://good.shops.test/");
        let pending = client.send_with(request, b"");
        client.response(pending).text()
    });
    asked.wait_for_requests(1);
    gate.open();
    assert_eq!(client.join().expect("the client got its response"), "hello");
    assert_eq!(authority.ordered(), ["good.shops.test"]);
    let refused = |name| Http3Client::try_connect_as(weir.web(), authority.client(), name).is_err();
    assert!(refused("bad.shops.test") && refused("b.example.test"));
    weir.line(&["a client of HTTP/3 was rejected", "bad.shops.test"]);
    for reason in ["tls-certificate-pending", "tls-unrecognized-name"] {
        eventually("the refusals are counted", || {
            weir.metrics().sum("weir_listener_failures_total", &[&format!("reason=\"{reason}\"")]) > 0.5
        });
    }
    assert_eq!(asked.targets(), ["/?domain=good.shops.test", "/?domain=bad.shops.test"]);
}

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
