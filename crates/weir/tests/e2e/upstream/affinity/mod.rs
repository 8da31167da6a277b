//! Session affinity by a cookie: Weir's own, a marked one, a learned one; servers that are full or gone,
//! and the cookies that clients and servers get.

mod by_key;

use std::net::TcpListener;

use crate::harness::{
    Client, Gate, Origin, ReservedAddress, Response, Weir, config_of, eventually, origin::ok,
};

/// Servers that answer with their number and with `extra` fields, in which `#` is the number of the request on the
/// connection; `/held` waits for the gate.
fn numbered(servers: usize, extra: &'static str, gate: &Gate) -> Vec<Origin> {
    (0..servers).map(|number| numbered_on(loopback(), number, extra, gate)).collect()
}

fn loopback() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("loopback has a free port")
}

fn numbered_on(listener: TcpListener, number: usize, extra: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::listen(listener, move |conn| {
        loop {
            let request = conn.request()?;
            if request.target().starts_with("/held") {
                gate.wait("the test has seen the waiting request");
            }
            let fields = extra.replace('#', &number.to_string());
            let (status, rest) =
                ok(&number.to_string()).split_once("\r\n").map(|(a, b)| (a.to_owned(), b.to_owned()))?;
            conn.send(format!("{status}\r\n{fields}{rest}"))?;
        }
    })
}

fn start(origins: &[Origin], settings: &str) -> Weir {
    Weir::start(&config_of(origins, settings))
}

/// Asks with these cookies.
fn get(weir: &Weir, target: &str, cookies: &str) -> Response {
    let field = if cookies.is_empty() { String::new() } else { format!("Cookie: {cookies}\r\n") };
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a\r\n{field}\r\n"))
}

fn seen_cookies(origins: &[Origin]) -> Vec<Option<String>> {
    let requests = origins.iter().flat_map(Origin::requests);
    requests.map(|request| request.field("Cookie").map(str::to_owned)).collect()
}

#[test]
fn a_client_stays_where_its_cookie_says() {
    let origins = numbered(3, "", &Gate::new());
    let weir = start(&origins, "affinity = {}");
    for _ in 0..6 {
        let first = get(&weir, "/", "");
        let set = first.field("Set-Cookie").expect("a new client gets its cookie").to_owned();
        assert!(
            set.starts_with("weir-server-app=") && set.ends_with("; Path=/; HttpOnly; SameSite=Lax"),
            "{set}"
        );
        assert_eq!(first.field("Cache-Control"), Some("private"));
        for _ in 0..5 {
            let next = get(&weir, "/", &format!("theme=dark; {}; lang=en", first.cookie()));
            assert_eq!((next.text(), next.field("Set-Cookie")), (first.text(), None));
        }
    }
    let seen = seen_cookies(&origins);
    let others = seen.iter().flatten().filter(|cookies| *cookies == "theme=dark; lang=en").count();
    assert_eq!((others, seen.len()), (30, 36), "servers see no cookie of Weir: {seen:?}");
    let counted = |outcome: &str| weir.metrics().sum("weir_upstream_affinity_total", &[outcome]);
    assert_eq!((counted("outcome=\"new\""), counted("outcome=\"kept\"")), (6.0, 30.0));
}

#[test]
fn two_upstreams_of_one_site_keep_the_same_client_each() {
    let origins = numbered(6, "", &Gate::new());
    let servers = |origins: &[Origin]| {
        let servers: Vec<String> = origins.iter().map(|origin| format!("\"{}\"", origin.address())).collect();
        servers.join(", ")
    };
    let weir = Weir::start(&format!(
        "listener.web = {{ address = \"127.0.0.1:0\", route = [{{ path = \"/a\", upstream = \"a\" }}, {{ path = \"/b\", upstream = \"b\" }}] }}\n\
         upstream.a = {{ balance = \"round-robin\", servers = [{}], affinity = {{}} }}\n\
         upstream.b = {{ balance = \"round-robin\", servers = [{}], affinity = {{}} }}\n",
        servers(&origins[..3]),
        servers(&origins[3..])
    ));
    let mut jar = std::collections::BTreeMap::new();
    let mut ask = |target: &str| {
        let cookies: Vec<String> = jar.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let response = get(&weir, target, &cookies.join("; "));
        if response.field("Set-Cookie").is_some() {
            let set = response.cookie();
            let (name, value) = set.split_once('=').expect("a cookie has a value");
            jar.insert(name.to_owned(), value.to_owned());
        }
        response.text()
    };
    let first = [ask("/a"), ask("/b")];
    for _ in 0..5 {
        assert_eq!([ask("/a"), ask("/b")], first);
    }
}

#[test]
fn the_cookie_alone_is_left_out_as_a_whole() {
    let origins = numbered(1, "", &Gate::new());
    let weir = start(&origins, "affinity = {}");
    let first = get(&weir, "/", "");
    assert_eq!(get(&weir, "/", &first.cookie()).status, 200);
    assert_eq!(seen_cookies(&origins), [None, None]);
}

#[test]
fn when_a_server_is_gone_its_clients_alone_move_and_stay_moved() {
    let gate = Gate::new();
    let place = ReservedAddress::new();
    let mut origins = vec![numbered_on(place.listener(), 0, "", &gate)];
    origins.extend((1..3).map(|number| numbered_on(loopback(), number, "", &gate)));
    let weir = start(&origins, "affinity = { cookie = \"SRV\", secure = true }\nbalance = \"round-robin\"");
    let mut clients: Vec<(String, String)> =
        (0..9).map(|_| get(&weir, "/", "")).map(|response| (response.cookie(), response.text())).collect();
    drop(origins.remove(0));
    for (cookie_now, server) in &mut clients {
        let response = get(&weir, "/", cookie_now);
        assert_eq!(response.status, 200);
        if server == "0" {
            assert_ne!(response.text(), "0");
            *cookie_now = response.cookie();
        } else {
            assert_eq!((response.text(), response.field("Set-Cookie")), (server.clone(), None));
        }
        *server = response.text();
    }
    let _back = numbered_on(place.listener(), 0, "", &gate);
    for (cookie, server) in &clients {
        assert_eq!(get(&weir, "/", cookie).text(), *server, "its return moves no client");
    }
    let moved = weir.metrics().sum("weir_upstream_affinity_total", &["outcome=\"moved\""]);
    assert_eq!(moved, 3.0);
}

#[test]
fn a_client_follows_its_server_to_another_address_and_back() {
    let origins = numbered(3, "", &Gate::new());
    let config = |a: &Origin| {
        let settings = "balance = \"round-robin\"\naffinity = {}";
        let text = config_of(&[], settings);
        text.replace("servers = []", &format!("servers = [{}, {}]", a.named("a"), origins[1].named("b")))
    };
    let weir = Weir::start(&config(&origins[0]));
    let clients: Vec<String> = (0..2).map(|_| get(&weir, "/", "").cookie()).collect();
    for (a, expected) in [(0, ["0", "1"]), (2, ["2", "1"]), (0, ["0", "1"]), (2, ["2", "1"])] {
        weir.reload(&config(&origins[a]));
        for _ in 0..3 {
            let mut answers: Vec<String> =
                clients.iter().map(|cookie| get(&weir, "/", cookie).text()).collect();
            answers.sort_by_key(|answer| answer == "1");
            assert_eq!(answers, expected);
        }
    }
}

#[test]
fn a_cookie_that_weir_did_not_sign_binds_to_nothing() {
    let origins = numbered(2, "", &Gate::new());
    let unsigned = start(&origins, "affinity = {}");
    let signed = start(&origins, "affinity = { secret = \"0123456789abcdef\" }");
    let again = start(&origins, "affinity = { secret = \"0123456789abcdef\" }");
    let forged = get(&unsigned, "/", "").cookie();
    let renewed = get(&signed, "/", &forged).cookie();
    assert_ne!(renewed, forged);
    assert_eq!(
        get(&again, "/", &renewed).field("Set-Cookie"),
        None,
        "another node with the same secret knows it"
    );
}

#[test]
fn a_cookie_with_a_lifetime_is_renewed() {
    let origins = numbered(1, "", &Gate::new());
    let weir = start(&origins, "affinity = { max_age = \"1h\", same_site = \"strict\", path = \"/app\" }");
    let first = get(&weir, "/", "");
    let set = first.field("Set-Cookie").map(str::to_owned).unwrap_or_default();
    assert!(set.ends_with("; Path=/app; Max-Age=3600; HttpOnly; SameSite=Strict"), "{set}");
    assert_eq!(get(&weir, "/", &first.cookie()).field("Set-Cookie"), Some(&*set));
}

#[test]
fn the_cookie_of_an_application_is_marked_and_unmarked() {
    let origins =
        numbered(3, "Set-Cookie: SID=abc#; Path=/\r\nX-Between: 1\r\nSet-Cookie: other=x\r\n", &Gate::new());
    let weir = start(&origins, "affinity = { mode = \"prefix\", cookie = \"SID\" }");
    for _ in 0..6 {
        let first = get(&weir, "/", "");
        let sets = first.fields().all("Set-Cookie");
        let marked = sets[0].strip_suffix("; Path=/").expect("its attributes stay");
        assert!(marked.ends_with(&format!("~abc{}", first.text())), "{marked}");
        assert_eq!((sets[1], first.field("X-Between")), ("other=x", Some("1")));
        let next = get(&weir, "/", &format!("other=x; {marked}"));
        assert_eq!(next.text(), first.text());
        let origin = &origins[first.text().parse::<usize>().expect("servers answer with their number")];
        let expected = format!("other=x; SID=abc{}", first.text());
        assert_eq!(origin.last_request().field("Cookie"), Some(&*expected));
    }
}

#[test]
fn what_servers_give_out_is_learned() {
    let origins = numbered(3, "Set-Cookie: SID=abc#; Path=/\r\n", &Gate::new());
    let weir =
        start(&origins, "affinity = { mode = \"learn\", cookie = \"SID\" }\nbalance = \"round-robin\"");
    let mut servers = Vec::new();
    for _ in 0..3 {
        let first = get(&weir, "/", "SID=unknown");
        assert_eq!(first.cookie(), format!("SID=abc{}", first.text()), "nothing is changed");
        servers.push(first.text());
    }
    for server in servers.iter().rev().cycle().take(12) {
        assert_eq!(get(&weir, "/", &format!("SID=abc{server}")).text(), *server);
    }
}

#[test]
fn a_request_whose_server_is_full_waits_for_it() {
    let gate = Gate::new();
    let origins = numbered(2, "", &gate);
    let weir = start(&origins, "affinity = {}\nmax_requests = 1\nqueue.affinity_wait = \"10s\"");
    let first = get(&weir, "/", "");
    let mine = first.cookie();
    let ask = |target: &str| {
        let mut client = Client::connect(weir.web());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nCookie: {mine}\r\n\r\n"));
        client
    };
    let mut held = ask("/held");
    origins[first.text().parse::<usize>().expect("servers answer with their number")].wait_for_requests(2);
    let mut waiting = ask("/");
    let queued = || weir.metrics().sum("weir_upstream_queue_length", &[]);
    eventually("the second waits", || queued() == 1.0);
    let other = get(&weir, "/", "");
    assert_eq!(other.status, 200, "a client without affinity is served");
    assert_ne!(other.text(), first.text());
    assert_eq!(queued(), 1.0);
    gate.open();
    for client in [&mut held, &mut waiting] {
        assert_eq!(client.response().text(), first.text());
    }
}

#[test]
fn and_goes_elsewhere_when_that_takes_too_long() {
    for settings in [
        "affinity = {}\nmax_requests = 1\nqueue.affinity_wait = \"100ms\"",
        "affinity = {}\nmax_requests = 1\nqueue.affinity_wait = \"off\"",
    ] {
        let gate = Gate::new();
        let origins = numbered(2, "", &gate);
        let weir = start(&origins, settings);
        let first = get(&weir, "/", "");
        eventually("its slot is free", || weir.metrics().sum("weir_worker_exchanges_open", &[]) == 0.0);
        let mut held = Client::connect(weir.web());
        held.send(format!("GET /held HTTP/1.1\r\nHost: a\r\nCookie: {}\r\n\r\n", first.cookie()));
        let own = &origins[first.text().parse::<usize>().expect("servers answer with their number")];
        own.wait_for_requests(2);
        let elsewhere = get(&weir, "/", &first.cookie());
        assert_eq!(elsewhere.status, 200);
        assert_ne!(elsewhere.text(), first.text());
        assert_ne!(elsewhere.cookie(), first.cookie(), "it belongs there now");
        gate.open();
        assert_eq!(held.response().status, 200);
    }
}

#[test]
fn a_key_waits_for_its_server_too() {
    let gate = Gate::new();
    let origins = numbered(3, "", &gate);
    let settings =
        "balance = \"consistent-hash\"\nhash_key = \"query:k\"\nhash_load_factor = \"off\"\nmax_requests = 1";
    let weir = start(&origins, settings);
    let own = get(&weir, "/?k=1", "").text();
    let mut held = Client::connect(weir.web());
    held.send_get("/held?k=1");
    let mut waiting = Client::connect(weir.web());
    let origin = &origins[own.parse::<usize>().expect("servers answer with their number")];
    origin.wait_for_requests(2);
    waiting.send_get("/?k=1");
    eventually("it waits", || weir.queue_length() == 1);
    gate.open();
    assert_eq!((held.response().text(), waiting.response().text()), (own.clone(), own));
}

#[test]
fn clients_of_one_network_go_together() {
    let origins = numbered(3, "", &Gate::new());
    let settings =
        "balance = \"consistent-hash\"\nhash_key = \"client-address/24\"\nhash_load_factor = \"off\"";
    let weir = start(&origins, settings);
    let from = |address: &str| {
        let mut client = Client::connect_from(address, weir.web());
        client.fetch("/").text()
    };
    for network in 1..20 {
        let server = from(&format!("127.0.{network}.1"));
        assert_eq!(from(&format!("127.0.{network}.200")), server);
    }
    let servers: std::collections::HashSet<String> =
        (1..20).map(|network| from(&format!("127.0.{network}.1"))).collect();
    assert_eq!(servers.len(), 3, "networks are spread");
}
