//! Which server gets a request: shares by policy, weights, backups, dead servers, affinity.

use std::collections::HashMap;
use std::time::Duration;

use crate::harness::scripts::numbered;
use crate::harness::watchdog::work;
use crate::harness::{
    CLOSED_PORT, Client, Gate, Origin, ReservedAddress, Weir, config_with, entries, eventually, origin::ok,
};

fn open_gate() -> Gate {
    let gate = Gate::new();
    gate.open();
    gate
}

fn with(origins: &[Origin], extras: &[&str]) -> Vec<String> {
    let table =
        |(origin, extra): (&Origin, &&str)| format!("{{ address = \"{}\"{extra} }}", origin.address());
    origins.iter().zip(extras).map(table).collect()
}

fn counts(origins: &[Origin]) -> Vec<usize> {
    origins.iter().map(|origin| origin.requests().len()).collect()
}

fn ask(weir: &Weir, count: usize) {
    let mut client = Client::connect(weir.web());
    for _ in 0..count {
        assert_eq!(client.fetch("/").status, 200);
    }
}

#[test]
fn round_robin_is_exact() {
    let origins = numbered(3, &open_gate());
    let weir = Weir::start(&config_with(
        &entries(&origins),
        "upstream.app.balance = \"round-robin\"\nprocess.workers = 1",
    ));
    ask(&weir, 30);
    assert_eq!(counts(&origins), [10, 10, 10]);
}

#[test]
fn round_robin_follows_the_weights_smoothly() {
    let origins = numbered(3, &open_gate());
    let servers = with(&origins, &[", weight = 5", ", weight = 2", ", weight = 1"]);
    let weir =
        Weir::start(&config_with(&servers, "upstream.app.balance = \"round-robin\"\nprocess.workers = 1"));
    let mut client = Client::connect(weir.web());
    let mut order = String::new();
    for _ in 0..80 {
        order += &client.fetch("/").text();
    }
    assert_eq!(counts(&origins), [50, 20, 10]);
    assert!(!order.contains("0000"), "smooth: the heavy server's turns are spread: {order}");
}

/// The default: the least busy server, counted over all workers.
#[test]
fn least_requests_is_exact_for_requests_under_way() {
    let gate = Gate::new();
    let origins = numbered(3, &gate);
    let weir = Weir::start(&config_with(&entries(&origins), ""));
    let mut clients: Vec<Client> = Vec::new();
    for n in 1..=30 {
        let mut client = Client::connect(weir.web());
        client.send_get("/held");
        clients.push(client);
        // One after the other, so that each choice sees all earlier ones.
        eventually("the request arrives", || counts(&origins).iter().sum::<usize>() == n);
    }
    assert_eq!(counts(&origins), [10, 10, 10]);
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
}

#[test]
fn least_requests_rotates_ties() {
    let origins = numbered(3, &open_gate());
    let weir = Weir::start(&config_with(&entries(&origins), ""));
    ask(&weir, 90);
    for count in counts(&origins) {
        assert!(
            count >= 20,
            "an idle upstream must not send everything to one server: {:?}",
            counts(&origins)
        );
    }
}

#[test]
fn least_requests_avoids_the_busy_servers() {
    let gate = Gate::new();
    let origins = numbered(3, &gate);
    let weir = Weir::start(&config_with(&entries(&origins), ""));
    let mut held: Vec<Client> = Vec::new();
    for n in 1..=2 {
        let mut client = Client::connect(weir.web());
        client.send_get("/held");
        held.push(client);
        eventually("the request arrives", || counts(&origins).iter().sum::<usize>() == n);
    }
    ask(&weir, 30);
    let mut counts = counts(&origins);
    counts.sort_unstable();
    assert_eq!(counts, [1, 1, 30], "two servers are busy, everything goes to the third");
    gate.open();
    held.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
}

#[test]
fn drawing_policies_reach_every_server() {
    for policy in ["random", "power-of-two"] {
        let origins = numbered(3, &open_gate());
        let weir =
            Weir::start(&config_with(&entries(&origins), &format!("upstream.app.balance = \"{policy}\"")));
        ask(&weir, 300);
        for count in counts(&origins) {
            // 100 expected of 300 drawn; the bounds are more than six standard deviations away.
            assert!((50..150).contains(&count), "{policy}: {:?}", counts(&origins));
        }
    }
}

#[test]
fn drawing_policies_follow_the_weights() {
    let origins = numbered(3, &open_gate());
    let servers = with(&origins, &[", weight = 8", ", weight = 2", ", weight = 0"]);
    let weir = Weir::start(&config_with(&servers, "upstream.app.balance = \"random\""));
    ask(&weir, 400);
    let counts = counts(&origins);
    assert!((30..130).contains(&counts[1]) && counts[2] == 0, "80 expected for weight 2 of 10: {counts:?}");
}

/// One server needs twenty times as long as the others. One client asks at a time, so least requests sees no difference.
#[test]
fn peak_ewma_avoids_the_slow_server() {
    let served_after = |millis| {
        Origin::start(move |conn| {
            loop {
                conn.request()?;
                work(Duration::from_millis(millis));
                conn.send(ok("fine"))?;
            }
        })
    };
    for (policy, expected) in [("peak-ewma", 1..6), ("least-requests", 15..26)] {
        let origins = [served_after(2), served_after(40), served_after(2)];
        let weir =
            Weir::start(&config_with(&entries(&origins), &format!("upstream.app.balance = \"{policy}\"")));
        ask(&weir, 60);
        let counts = counts(&origins);
        assert!(expected.contains(&counts[1]), "{policy}: {counts:?}");
    }
}

#[test]
fn a_server_of_weight_zero_gets_nothing() {
    for policy in ["least-requests", "round-robin", "peak-ewma", "random", "power-of-two", "consistent-hash"]
    {
        let origins = numbered(3, &open_gate());
        let servers = with(&origins, &["", ", weight = 0", ""]);
        let hash = if policy == "consistent-hash" { "\nupstream.app.hash_key = \"query:k\"" } else { "" };
        let weir = Weir::start(&config_with(&servers, &format!("upstream.app.balance = \"{policy}\"{hash}")));
        let mut client = Client::connect(weir.web());
        for n in 0..30 {
            assert_eq!(client.fetch(&format!("/?k={n}")).status, 200);
        }
        assert_eq!(counts(&origins)[1], 0, "{policy}");
    }
}

#[test]
fn a_backup_is_for_bad_days() {
    let origins = numbered(3, &open_gate());
    let servers = with(&origins, &["", "", ", backup = true"]);
    let weir = Weir::start(&config_with(&servers, ""));
    ask(&weir, 30);
    assert_eq!(counts(&origins)[2], 0);

    let dead = [ReservedAddress::new(), ReservedAddress::new()];
    let dead = dead.iter().map(|place| format!("\"{}\"", place.address())).collect();
    let servers = [dead, with(&origins[2..], &[", backup = true"])].concat();
    let weir = Weir::start(&config_with(&servers, "upstream.app.retry.attempts_max = 3"));
    ask(&weir, 5);
    assert_eq!(counts(&origins)[2], 5, "no other server is there");
}

/// A server that refuses connections fails no request: nothing was sent, so any method may go elsewhere.
#[test]
fn a_dead_server_is_not_noticed() {
    for policy in ["least-requests", "round-robin", "peak-ewma", "random", "power-of-two"] {
        let origins = numbered(3, &open_gate());
        let mut servers = entries(&origins);
        servers[1] = format!("\"{CLOSED_PORT}\"");
        let settings = format!(
            "upstream.app.balance = \"{policy}\"\nupstream.app.retry = {{ budget = \"0%\", budget_per_second = 0 }}"
        );
        let weir = Weir::start(&config_with(&servers, &settings));
        let mut client = Client::connect(weir.web());
        for n in 0..30 {
            assert_eq!(client.fetch("/").status, 200, "{policy}, GET {n}");
            client.send("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello");
            assert_eq!(client.response().status, 200, "{policy}, POST {n}");
        }
        assert_eq!(origins[0].requests().len() + origins[2].requests().len(), 60, "{policy}");
        assert!(
            origins.iter().flat_map(Origin::requests).all(|r| r.method() == "GET" || r.text() == "hello")
        );
    }
}

#[test]
fn a_server_that_breaks_is_passed_over_for_idempotent_requests() {
    let broken = Origin::start(|conn| {
        conn.request()?;
        conn.reset();
        None
    });
    let sound = Origin::serving("sound");
    let servers = [format!("\"{}\"", broken.address()), format!("\"{}\"", sound.address())];
    let settings =
        "upstream.app.balance = \"round-robin\"\nupstream.app.retry.budget = \"1000%\"\nprocess.workers = 1";
    let weir = Weir::start(&config_with(&servers, settings));
    let mut client = Client::connect(weir.web());
    for _ in 0..10 {
        assert_eq!(client.fetch("/").text(), "sound");
    }
    assert_eq!(sound.requests().len(), 10);
    assert!((5..=10).contains(&broken.requests().len()), "its turns, and each request at most once");
}

/// The request that carries the n-th key.
type MakeRequest = fn(usize) -> String;

/// The key of each request and the server that answered, asked over many connections.
fn owners(weir: &Weir, request: impl Fn(usize) -> String) -> HashMap<usize, String> {
    let ask = |n: usize| (n, Client::exchange(weir.web(), &request(n)).text());
    (0..60).map(ask).collect()
}

#[test]
fn consistent_hash_keeps_a_key_with_its_server() {
    let origins = numbered(3, &open_gate());
    let keys: [(&str, MakeRequest); 4] = [
        ("header:x-user", |n| format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-User: u{n}\r\n\r\n")),
        ("cookie:session", |n| {
            format!("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: a=b; session=s{n}\r\n\r\n")
        }),
        ("query:id", |n| format!("GET /?x=1&id={n} HTTP/1.1\r\nHost: a.test\r\n\r\n")),
        ("path", |n| format!("GET /p/{n}?q HTTP/1.1\r\nHost: a.test\r\n\r\n")),
    ];
    for (key, request) in keys {
        let settings = format!(
            "upstream.app.balance = \"consistent-hash\"\nupstream.app.hash_key = \"{key}\"\nupstream.app.hash_load_factor = \"off\""
        );
        let weir = Weir::start(&config_with(&entries(&origins), &settings));
        let first = owners(&weir, request);
        assert_eq!(owners(&weir, request), first, "{key}: the same key, the same server");
        for server in ["0", "1", "2"] {
            let share = first.values().filter(|owner| *owner == server).count();
            assert!(share >= 5, "{key}: server {server} has {share} of 60 keys");
        }
    }
}

#[test]
fn consistent_hash_by_client_address() {
    let origins = numbered(3, &open_gate());
    let settings = "upstream.app.balance = \"consistent-hash\"\nupstream.app.hash_key = \"client-address\"\n\
                    upstream.app.hash_load_factor = \"off\"";
    let weir = Weir::start(&config_with(&entries(&origins), settings));
    let ask = |from: &str| {
        let mut client = Client::connect_from(from, weir.web());
        client.fetch("/").text()
    };
    let owners: Vec<String> = (1..40).map(|n| ask(&format!("127.0.0.{n}"))).collect();
    let again: Vec<String> = (1..40).map(|n| ask(&format!("127.0.0.{n}"))).collect();
    assert_eq!(owners, again);
    assert!((0..3).all(|server| owners.contains(&server.to_string())), "{owners:?}");
}

#[test]
fn only_the_keys_of_a_lost_server_move() {
    let origins = numbered(3, &open_gate());
    let settings = "upstream.app.balance = \"consistent-hash\"\nupstream.app.hash_key = \"query:id\"\n\
                    upstream.app.hash_load_factor = \"off\"";
    let request = |n: usize| format!("GET /?id={n} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let before = owners(&Weir::start(&config_with(&entries(&origins), settings)), request);
    let after = owners(&Weir::start(&config_with(&entries(&origins)[..2], settings)), request);
    for (key, owner) in before {
        if owner == "2" {
            assert_ne!(after[&key], "2");
        } else {
            assert_eq!(after[&key], owner, "key {key} moved though its server is still there");
        }
    }
}

/// Networks next to each other go to servers in turn, and each stays where it is.
#[test]
fn a_map_based_hash_spreads_networks_in_turn() {
    let origins = numbered(3, &open_gate());
    let weir = Weir::start(&config_with(
        &entries(&origins),
        "upstream.app.balance = \"map-based-hash\"\nupstream.app.hash_key = \"client-address/24\"\n\
         listener.web.trusted_proxies = [\"127.0.0.1\"]\nlistener.web.client_address_header = \"x-real-ip\"\n",
    ));
    let ask = |third: u8, last: u8| {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Real-Ip: 127.0.{third}.{last}\r\nConnection: close\r\n\r\n"
        );
        Client::exchange(weir.web(), &request).text()
    };
    let homes: Vec<String> = (1..=30).map(|third| ask(third, 2)).collect();
    assert_eq!(counts(&origins), [10, 10, 10]);
    assert_eq!((1..=30).map(|third| ask(third, 200)).collect::<Vec<_>>(), homes);
}
