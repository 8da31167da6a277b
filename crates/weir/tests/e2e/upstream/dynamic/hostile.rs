//! What clients and name servers send to reach what the list does not have, to fill the table of names or to keep resolvers busy.

use std::thread;

use super::{ALLOW, config, get, port, refused, request, telling};
use crate::harness::http2::Http2Client;
use crate::harness::{Client, DnsAnswer, NameServer, Origin, Weir, eventually};

/// The listener of [`config`], whose requests say in the query what they say there in a header.
fn by_query(port: u16, names: &NameServer) -> String {
    config(port, ALLOW, &names.setting()).replace("{header.x-app}", "{query.app}")
}

#[test]
fn bytes_that_no_name_has_reach_no_resolver() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&["127.0.0.1"]);
    let weir = Weir::start(&by_query(port(&origin), &names));
    let get = |app: &str| {
        Client::exchange(weir.web(), &format!("GET /?app={app} HTTP/1.1\r\nHost: a.test\r\n\r\n"))
    };
    for app in [
        "one%00.apps.test",
        "%00.apps.test",
        "one.apps.test%00",
        "one.apps.test%00.evil.test",
        "one.apps.test%0D%0A",
        "one.apps.test%0a.apps.test",
        "one%20two.apps.test",
        "one%2Fapps.test",
        "one%5C.apps.test",
        "one%40two.apps.test",
        "one%E3%80%82apps.test",
        "%EF%BC%91.apps.test",
        "one%C2%AD.apps.test",
        "one%FF.apps.test",
        "%2E.apps.test",
        ".apps.test",
        "-.apps.test%3A80",
        "%5B::1%25lo%5D",
        "%5B::ffff:7f00:1%5D",
        "%5B::ffff:0:127.0.0.1%5D",
        "%5B64:ff9b::7f00:1%5D",
        "%5B2002:7f00:1::%5D",
        "%5B2001:0:7f00:1::%5D",
    ] {
        let response = get(app);
        assert_eq!((response.status, response.reason()), (502, Some("server-not-allowed")), "{app}");
    }
    assert_eq!(names.names_asked(), 0, "no resolver hears of them");
    assert_eq!(origin.connections(), 0);
    // The same dot, sent in another way, is a dot.
    assert_eq!(get("one%2Eapps.test").status, 200);
}

#[test]
fn the_longest_names_are_names_and_longer_ones_are_not() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&["127.0.0.1"]);
    let weir = Weir::start(&config(port(&origin), ALLOW, &names.setting()));
    let label = "l".repeat(63);
    let below = format!("{label}.{label}.{label}.apps.test");
    let of_len = |len: usize| format!("{}.{below}", "x".repeat(len - below.len() - 1));
    assert_eq!(get(&weir, &of_len(253)).status, 200);
    let asked = names.names_asked();
    assert_eq!(get(&weir, &format!("{}.", of_len(253).to_uppercase())).status, 200, "it is the same name");
    assert_eq!(names.names_asked(), asked);
    for name in [of_len(254), format!("{}..", of_len(253)), format!("l{label}.apps.test"), "x".repeat(4_000)]
    {
        assert_eq!(refused(&weir, &name), (502, "server-not-allowed".to_owned()), "{name}");
    }
    assert_eq!(names.names_asked(), asked);
}

/// Forms of addresses of this machine and of the services of clouds, in what a name server says.
#[test]
fn no_answer_of_a_name_server_leads_to_special_addresses() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&[]);
    for (list, forbidden) in [
        (
            "allow = [\"*.apps.test\"]",
            &[
                "::ffff:127.0.0.1",
                "::ffff:169.254.169.254",
                "::127.0.0.1",
                "::ffff:0:127.0.0.1",
                "64:ff9b::7f00:1",
                "64:ff9b:1::7f00:1",
                "2002:7f00:1::1",
                "2001:0:7f00:1::1",
                "fe80::1",
                "::1",
                "::",
                "0.0.0.0",
                "127.1.2.3",
                "255.255.255.255",
                "168.63.129.16",
                "fd20:ce::254",
            ][..],
        ),
        // A network that is allowed is not allowed in other forms of its addresses that lead elsewhere.
        (
            "allow = [\"*.apps.test\", \"10.0.0.0/8\"]",
            &["64:ff9b::a00:1", "2002:a00:1::1", "::10.0.0.1", "::ffff:127.0.0.1", "192.0.2.1"],
        ),
    ] {
        let weir = Weir::start(&config(port(&origin), list, &names.setting()));
        for (number, address) in forbidden.iter().enumerate() {
            let name = format!("n{number}.apps.test");
            names.move_name_to(&name, &[address]);
            assert_eq!(refused(&weir, &name), (502, "address-not-allowed".to_owned()), "{list} {address}");
        }
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn answers_that_count_for_no_time_keep_no_resolver_busy() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&["127.0.0.1"]);
    names.set_ttl(0);
    let text = config(port(&origin), ALLOW, &names.setting()).replace("\"50ms\"", "\"300ms\"");
    let weir = Weir::start(&text);
    assert_eq!(get(&weir, "one.apps.test").status, 200);
    let asked = names.asked_of("one.apps.test");
    let requests = 200;
    for _ in 0..requests {
        assert_eq!(get(&weir, "one.apps.test").status, 200);
    }
    let found = names.asked_of("one.apps.test") - asked;
    assert!(found < requests / 4, "{found} questions for {requests} requests");
}

/// On one connection of HTTP/2, each stream names a server about which no answer comes.
#[test]
fn streams_for_names_without_an_answer_leave_room_behind() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&[]);
    names.answer(DnsAnswer::Silence);
    names.move_name_to("good.apps.test", &["127.0.0.1"]);
    let rest = format!(
        "{}dns.timeout = \"200ms\"\nupstream.apps.timeouts.connect = \"30s\"\nprocess.workers = 2",
        names.setting()
    );
    let weir = Weir::start(&config(port(&origin), &format!("{ALLOW}, names_max = 8"), &rest));
    for round in 0..5 {
        let mut client = Http2Client::connect(weir.web());
        let streams: Vec<u32> = (0..60)
            .map(|number| client.get_with("/", &[("x-app", &*format!("r{round}n{number}.apps.test"))]))
            .collect();
        eventually("names of the flood are asked for", || names.names_asked() > round);
        streams.iter().for_each(|stream| client.reset(*stream, 8));
        drop(client);
        eventually("a name that exists has room", || get(&weir, "good.apps.test").status == 200);
    }
    // Each round has room for eight names at once, which make room as lookups end.
    assert!(names.names_asked() <= 5 * 60 + 1, "{}", names.names_asked());
    let servers = weir.admin_json("/api/overview")["upstreams"][0]["servers"].as_array().map_or(0, Vec::len);
    assert!(servers <= 8, "{servers}");
    // What a worker still reads of the flood may take its place once more.
    eventually("it has room again", || get(&weir, "good.apps.test").status == 200);
}

#[test]
fn a_reload_answers_requests_that_wait_for_a_name_that_is_not_allowed_any_more() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&[]);
    names.answer(DnsAnswer::Silence);
    names.move_name_to("good.apps.test", &["127.0.0.1"]);
    let rest = format!("{}dns.timeout = \"1m\"\nupstream.apps.timeouts.connect = \"5m\"", names.setting());
    let weir = Weir::start(&config(port(&origin), ALLOW, &rest));
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(weir.web())).collect();
    clients.iter_mut().for_each(|client| client.send(request("slow.apps.test")));
    let mut http2 = Http2Client::connect(weir.web());
    let stream = http2.get_with("/", &[("x-app", "slow.apps.test")]);
    eventually("it is asked for", || names.asked_of("slow.apps.test") > 0);
    // Longer than any test waits: they are answered by the reload.
    weir.reload(&config(port(&origin), "allow = [\"good.apps.test\", \"127.0.0.0/8\"]", &rest));
    for client in &mut clients {
        let response = client.response();
        assert_eq!(response.status, 502, "{:?}", response.reason());
    }
    assert_eq!(http2.response(stream).status, 502);
    assert_eq!(get(&weir, "good.apps.test").status, 200);
}

#[test]
fn a_reload_without_the_upstream_ends_what_waits_for_its_names() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&[]);
    names.answer(DnsAnswer::Silence);
    let rest = format!("{}dns.timeout = \"20s\"\nupstream.apps.timeouts.connect = \"2s\"", names.setting());
    let weir = Weir::start(&config(port(&origin), ALLOW, &rest));
    let mut clients: Vec<Client> = (0..20).map(|_| Client::connect(weir.web())).collect();
    clients.iter_mut().for_each(|client| client.send(request("slow.apps.test")));
    eventually("it is asked for", || names.asked_of("slow.apps.test") > 0);
    let without = format!(
        "admin.address = \"127.0.0.1:0\"\nadmin.socket = \"unix:{{dir}}/weir.sock\"\nlistener.web.address = \"127.0.0.1:0\"\n\
         listener.web.upstream = \"other\"\nupstream.other.servers = [\"{}\"]\n",
        origin.address()
    );
    weir.reload(&without);
    for client in &mut clients {
        let status = client.response().status;
        assert!(matches!(status, 502..=504), "{status}");
    }
    assert_eq!(get(&weir, "slow.apps.test").status, 200);
    // And back, while answers to questions from before arrive.
    names.move_name_to("slow.apps.test", &["127.0.0.1"]);
    weir.reload(&config(port(&origin), ALLOW, &rest));
    eventually("it is a server again", || get(&weir, "slow.apps.test").status == 200);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(get(&weir, "slow.apps.test").status, 200));
        }
    });
}
