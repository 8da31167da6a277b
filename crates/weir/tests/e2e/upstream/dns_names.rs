//! Servers named by DNS, whose addresses appear, disappear or cannot be resolved; and IPv6.

use std::net::{IpAddr, TcpListener};

use crate::harness::origin::ok;
use crate::harness::{BackgroundTraffic, Client, DnsAnswer, NameServer, Origin, Weir, eventually};

fn config(listen: &str, server: &str) -> String {
    format!(
        "listener.web.address = \"{listen}\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{server}\"]\n"
    )
}

#[test]
fn localhost() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&config("127.0.0.1:0", &format!("localhost:{}", origin.address().port())));
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        let response = client.fetch("/");
        assert_eq!((response.status, response.text()), (200, "fine".to_owned()), "{response:?}");
    }
}

#[test]
fn ipv6_on_both_sides() {
    let Ok(listener) = TcpListener::bind("[::1]:0") else {
        // A machine without IPv6 has nothing to show here; the IPv4 tests stand for it.
        return;
    };
    let origin = Origin::listen(listener, |conn| {
        loop {
            conn.request()?;
            conn.send(ok("six"))?;
        }
    });
    let weir = Weir::start(&config("[::1]:0", &origin.address().to_string()));
    assert_eq!(Client::get(weir.web(), "/").text(), "six");
    assert_eq!(origin.last_request().field("x-forwarded-for"), Some("::1"));
}

/// RFC 6761 section 6.4: `invalid` never has an address; only the requests to it fail.
#[test]
fn a_name_without_address() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.other.address = \"127.0.0.1:0\"\n\
         listener.web.upstream = \"lost\"\nlistener.other.upstream = \"app\"\n\
         upstream.lost.servers = [\"no-such-host.invalid:80\"]\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    let response = Client::get(weir.web(), "/");
    assert!([502, 503].contains(&response.status), "{response:?}");
    assert!(response.reason().is_some(), "{response:?}");
    assert_eq!(Client::get(weir.address("other"), "/").text(), "fine");
}

/// An origin that answers every request with `body`.
pub(super) fn serving(listener: TcpListener, body: &'static str) -> Origin {
    Origin::listen(listener, move |conn| {
        loop {
            conn.request()?;
            conn.send(ok(body))?;
        }
    })
}

/// Listeners on the same port of several addresses; `None` when this machine lacks one of the addresses.
pub(super) fn same_port<const N: usize>(ips: [&str; N]) -> Option<[TcpListener; N]> {
    let ips = ips.map(|ip| ip.parse::<IpAddr>().expect("the test gives IP addresses"));
    for ip in ips {
        TcpListener::bind((ip, 0)).ok()?;
    }
    let mut found = None;
    eventually("a port is free on every address", || {
        let mut port = 0;
        let listeners = ips.map(|ip| {
            let listener = TcpListener::bind((ip, port)).ok()?;
            port = listener.local_addr().ok()?.port();
            Some(listener)
        });
        let complete = listeners.iter().all(Option::is_some);
        found = complete.then(|| listeners.map(|listener| listener.expect("all are there")));
        complete
    });
    found
}

fn named(names: &NameServer, origin: &Origin, settings: &str) -> Weir {
    let port = origin.address().port();
    Weir::start(&format!(
        "{}{}{settings}\n",
        config("127.0.0.1:0", &format!("app.test:{port}")),
        names.setting()
    ))
}

fn ask(client: &mut Client) -> String {
    let response = client.fetch("/");
    assert_eq!(response.status, 200, "{response:?}");
    response.text()
}

/// The client never pauses, so the server connection is never idle for long: what moves it is the new address alone.
/// Servers with a limit on their requests keep their idle connections elsewhere.
#[test]
fn traffic_follows_the_name() {
    for settings in ["", "upstream.app.max_requests = 4"] {
        let [old, new] = same_port(["127.0.0.1", "127.0.0.2"]).expect("every 127.0.0.0/8 address is local");
        let (old, new) = (serving(old, "old"), serving(new, "new"));
        let names = NameServer::start(&["127.0.0.1"]);
        let weir = named(&names, &old, settings);
        let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(weir.web())).collect();
        for client in &mut clients {
            assert_eq!(ask(client), "old");
        }
        names.move_to(&["127.0.0.2"]);
        for client in &mut clients {
            eventually("traffic moves", || ask(client) == "new");
        }
        let before = old.requests().len();
        for client in &mut clients {
            assert_eq!(ask(client), "new");
        }
        assert_eq!(old.requests().len(), before, "nothing goes back");
        assert!(new.connections() <= clients.len() + 1, "connections to the new address are kept");
    }
}

/// An address that only comes in addition is no reason to close connections.
#[test]
fn connections_to_an_address_that_stays_are_kept() {
    let [one, two] = same_port(["127.0.0.1", "127.0.0.2"]).expect("every 127.0.0.0/8 address is local");
    let (one, _two) = (serving(one, "one"), serving(two, "two"));
    let names = NameServer::start(&["127.0.0.1"]);
    let weir = named(&names, &one, "");
    let mut client = Client::connect(weir.web());
    assert_eq!(ask(&mut client), "one");
    names.move_to(&["127.0.0.1", "127.0.0.2"]);
    // Both families are asked for; by the second pair the first has been taken over.
    names.wait_for_questions(4);
    eventually("the new address is in use", || weir.stderr().contains("127.0.0.2"));
    assert_eq!(ask(&mut client), "one");
    assert_eq!(one.connections(), 1);
}

#[test]
fn addresses_outlive_a_failing_name_server() {
    let [old, new] = same_port(["127.0.0.1", "127.0.0.2"]).expect("every 127.0.0.0/8 address is local");
    let (old, _new) = (serving(old, "old"), serving(new, "new"));
    let names = NameServer::start(&["127.0.0.1"]);
    // Every request needs a new connection, and with it the address.
    let weir = named(&names, &old, "upstream.app.pool.idle_max = 0");
    let mut client = Client::connect(weir.web());
    assert_eq!(ask(&mut client), "old");
    for failure in [DnsAnswer::ServerFailure, DnsAnswer::NoSuchName, DnsAnswer::Addresses(Vec::new())] {
        let what = format!("{failure:?}");
        names.answer(failure);
        names.wait_for_questions(4);
        assert_eq!(ask(&mut client), "old", "{what}");
    }
    names.move_to(&["127.0.0.2"]);
    eventually("the new addresses are used", || ask(&mut client) == "new");
}

#[test]
fn both_families_are_used() {
    let Some([four, six]) = same_port(["127.0.0.1", "::1"]) else {
        // A machine without IPv6 has nothing to show here.
        return;
    };
    let (four, six) = (serving(four, "four"), serving(six, "six"));
    let names = NameServer::start(&["127.0.0.1", "::1"]);
    let weir = named(&names, &four, "upstream.app.pool.idle_max = 0");
    let mut client = Client::connect(weir.web());
    // RFC 8305 section 4: IPv6 comes first.
    assert_eq!(ask(&mut client), "six");
    drop(six);
    eventually("IPv4 takes over", || ask(&mut client) == "four");
}

/// A reload to a name that leads nowhere changes nothing, and says so; a name that works is taken, and so is one that other servers have already.
#[test]
fn a_reload_to_a_name_that_does_not_resolve_changes_nothing() {
    let Some([listener]) = same_port(["127.0.0.1"]) else { return };
    let origin = serving(listener, "app");
    let port = origin.address().port();
    let names = NameServer::start(&["127.0.0.1"]);
    let text = |server: &str| {
        format!("{}{}dns.timeout = \"300ms\"\n", config("127.0.0.1:0", server), names.setting())
    };
    let weir = Weir::start(&text(&format!("app.test:{port}")));
    let clients = BackgroundTraffic::start(weir.web());
    for failure in [DnsAnswer::NoSuchName, DnsAnswer::ServerFailure, DnsAnswer::Silence] {
        names.answer(failure);
        weir.reload_in_vain(&text(&format!("lost.test:{port}")));
        clients.goes_on();
    }
    let refusal = format!("the name of the server `lost.test:{port}` of upstream `app` cannot be resolved");
    weir.line(&["ERROR", &refusal, "no record"]);
    weir.line(&["ERROR", &refusal, "maintenance"]);
    // Silence is none of these: a name that is known is not new.
    weir.reload(
        &text(&format!("app.test:{port}"))
            .replace("upstream.app", "upstream.other")
            .replace("upstream = \"app\"", "upstream = \"other\""),
    );
    clients.goes_on();
    names.move_to(&["127.0.0.1"]);
    weir.reload(&text(&format!("found.test:{port}")));
    clients.end();
}
