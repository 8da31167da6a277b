//! Servers that requests name (`dynamic`): resolved when they are asked for, kept apart, bounded, and nothing but what the list allows.

mod hostile;

use std::thread;

use super::dns_names::{same_port, serving};
use crate::harness::http2::server::http2_origin;
use crate::harness::http2::{H2C, Http2Client};
use crate::harness::origin::{Connection, ok};
use crate::harness::websocket::assert_byte_comes_back;
use crate::harness::{
    CertificateAuthority, Client, CommandResult, DnsAnswer, NameServer, Origin, Response, Weir, eventually,
    run, temporary_folder,
};

/// Names below `apps.test`, on this machine.
const ALLOW: &str = "allow = [\"*.apps.test\", \"127.0.0.0/8\"]";

/// A listener whose requests say in `X-App` the host of their server, which has this port.
fn config(port: u16, dynamic: &str, rest: &str) -> String {
    format!(
        "admin.address = \"127.0.0.1:0\"\nadmin.socket = \"unix:{{dir}}/weir.sock\"\naccess_log.output = \"file:{{dir}}/access.log\"\n\
         access_log.format = \"{{upstream}} {{server}} {{status}} {{reason}}\"\nlistener.web.address = \"127.0.0.1:0\"\n\
         listener.web.upstream = \"apps\"\n{H2C}upstream.apps.dynamic = {{ server = \"{{header.x-app}}:{port}\", {dynamic} }}\n\
         discovery.empty_grace = \"0s\"\ndns.ttl_min = \"50ms\"\n{rest}\n"
    )
}

fn start(names: &NameServer, port: u16, rest: &str) -> Weir {
    Weir::start(&config(port, ALLOW, &format!("{}{rest}", names.setting())))
}

fn request(app: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-App: {app}\r\n\r\n")
}

fn get(weir: &Weir, app: &str) -> Response {
    Client::exchange(weir.web(), &request(app))
}

fn refused(weir: &Weir, app: &str) -> (u16, String) {
    let response = get(weir, app);
    (response.status, response.reason().unwrap_or_default().to_owned())
}

/// Waits until the access log has this line.
fn logged(weir: &Weir, line: &str) {
    let file = weir.folder().join("access.log");
    eventually("the line is written", || {
        std::fs::read_to_string(&file).is_ok_and(|log| log.lines().any(|written| written == line))
    });
}

fn port(origin: &Origin) -> u16 {
    origin.address().port()
}

/// An origin of this address that answers with the host that it was asked for.
fn telling(conn: &mut Connection) -> Option<()> {
    loop {
        let request = conn.request()?;
        let host = request.field("host").unwrap_or_default().to_owned();
        conn.send(ok(&host))?;
    }
}

#[test]
fn a_name_appears_moves_and_goes() {
    let [old, new] = same_port(["127.0.0.1", "127.0.0.2"]).expect("every 127.0.0.0/8 address is local");
    let (old, _new) = (serving(old, "old"), serving(new, "new"));
    let names = NameServer::start(&[]);
    names.answer(DnsAnswer::NoSuchName);
    let weir = start(&names, port(&old), "");
    assert_eq!(refused(&weir, "one.apps.test"), (502, "name-not-found".to_owned()));

    names.move_name_to("one.apps.test", &["127.0.0.1"]);
    eventually("the name is found", || get(&weir, "one.apps.test").text() == "old");
    // Another notation of the name is the same server, on the same connection.
    let mut client = Client::connect(weir.web());
    for app in ["one.apps.test", "ONE.Apps.Test", "one.apps.test."] {
        client.send(request(app));
        assert_eq!(client.response().text(), "old", "{app}");
    }
    names.move_name_to("one.apps.test", &["127.0.0.2"]);
    eventually("requests follow", || get(&weir, "one.apps.test").text() == "new");
    let before = old.requests().len();
    client.send(request("one.apps.test"));
    assert_eq!(client.response().text(), "new");
    assert_eq!(old.requests().len(), before);

    // The last addresses stay while no resolver answers.
    names.answer_for("one.apps.test", DnsAnswer::ServerFailure);
    let asked = names.asked_of("one.apps.test");
    eventually("it is asked again", || names.asked_of("one.apps.test") > asked + 2);
    assert_eq!(get(&weir, "one.apps.test").text(), "new");
    names.answer_for("one.apps.test", DnsAnswer::NoSuchName);
    eventually("it is gone", || refused(&weir, "one.apps.test").1 == "name-not-found");
    logged(&weir, "apps - 502 name-not-found");
}

#[test]
fn names_are_kept_apart_on_one_connection_and_on_both_protocols() {
    let [one, two] = same_port(["127.0.0.1", "127.0.0.2"]).expect("every 127.0.0.0/8 address is local");
    let (one, two) = (serving(one, "one"), serving(two, "two"));
    let names = NameServer::start(&[]);
    names.move_name_to("one.apps.test", &["127.0.0.1"]);
    names.move_name_to("two.apps.test", &["127.0.0.2"]);
    let weir = start(&names, port(&one), "process.workers = 1");
    let mut client = Client::connect(weir.web());
    let mut http2 = Http2Client::connect(weir.web());
    for _ in 0..5 {
        for name in ["one", "two"] {
            let app = format!("{name}.apps.test");
            client.send(request(&app));
            assert_eq!(client.response().text(), name);
            let stream = http2.get_with("/", &[("x-app", &app)]);
            assert_eq!(http2.response(stream).text(), name);
        }
    }
    assert_eq!((one.connections(), two.connections()), (1, 1), "connections are used again, by name");
    let overview = weir.admin_json("/api/overview");
    let servers: Vec<&str> = overview["upstreams"][0]["servers"]
        .as_array()
        .expect("the upstream has servers")
        .iter()
        .filter_map(|server| server["name"].as_str())
        .collect();
    let expected = ["one", "two"].map(|name| format!("{name}.apps.test:{}", port(&one)));
    assert!(expected.iter().all(|name| servers.contains(&&**name)), "{servers:?}");
    // No label grows with what clients say.
    let metrics = Client::get_by_address(weir.address("admin"), "/metrics").text();
    assert!(!metrics.contains("apps.test"), "{metrics}");
}

#[test]
fn http2_and_websockets_to_servers() {
    let origin =
        http2_origin(|asked| ("200", asked.field(":authority").unwrap_or_default().as_bytes().to_vec()));
    let names = NameServer::start(&["127.0.0.1"]);
    let weir = start(&names, port(&origin), "process.workers = 1\nupstream.apps.protocol = \"h2c\"");
    let mut http2 = Http2Client::connect(weir.web());
    for app in ["one.apps.test", "two.apps.test", "one.apps.test"] {
        let stream = http2.get_with("/", &[("x-app", app)]);
        assert_eq!(http2.response(stream).status, 200);
        assert_eq!(get(&weir, app).status, 200);
    }
    assert_eq!(origin.connections(), 2, "one for each name, though the address is the same");

    let socket = crate::harness::websocket::switching(|conn| {
        loop {
            let byte = conn.take(1)?;
            conn.send(byte)?;
        }
    });
    let weir = start(&names, port(&socket), "");
    let mut tunnel = Client::connect(weir.web());
    tunnel.send(
        "GET /socket HTTP/1.1\r\nHost: a.test\r\nX-App: ws.apps.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(tunnel.head().status(), Ok(101));
    assert_byte_comes_back(&mut tunnel);
}

#[test]
fn nothing_but_the_list_can_be_named() {
    let origin = Origin::serving("inside");
    let names = NameServer::start(&["127.0.0.1"]);
    let text = config(port(&origin), "allow = [\"*.apps.test\"]", &names.setting());
    let weir = Weir::start(&text);
    for app in [
        "",
        "evil.test",
        "apps.test",
        "xapps.test",
        "one.apps.test.evil.test",
        "evil.test#.apps.test",
        "evil.test/.apps.test",
        "user@one.apps.test",
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "127.1",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[fe80::1%25lo]",
        "xn--a.apps.test",
        "localhost",
        "one.apps.test:80",
        "one..apps.test",
        "unix:/run/x",
        "{upstream}",
    ] {
        assert_eq!(refused(&weir, app), (502, "server-not-allowed".to_owned()), "{app}");
    }
    assert_eq!(names.names_asked(), 0, "no resolver hears of them");
    // DNS that leads back inside (rebinding): the name is fine, its address is not.
    assert_eq!(refused(&weir, "one.apps.test"), (502, "address-not-allowed".to_owned()));
    names.move_name_to("meta.apps.test", &["169.254.169.254"]);
    assert_eq!(refused(&weir, "meta.apps.test"), (502, "address-not-allowed".to_owned()));
    weir.line(&["leads to addresses that `allow` does not have", "apps.test"]);
    weir.line(&["reason=\"server-not-allowed\"", "upstream=\"apps\""]);
    assert!(origin.requests().is_empty() && origin.connections() == 0);
    eventually("both are counted", || {
        weir.metrics().sum("weir_upstream_failures_total", &["reason=\"address-not-allowed\""]) >= 2.0
    });
}

/// Addresses are checked at each answer, not only at the first; a connection that is open already is not used again.
#[test]
fn a_name_that_is_bound_to_another_address_reaches_nothing() {
    let [inside, outside] =
        same_port(["127.0.0.1", "127.0.1.1"]).expect("every 127.0.0.0/8 address is local");
    let (good, bad) = (serving(inside, "good"), serving(outside, "bad"));
    let names = NameServer::start(&["127.0.0.1"]);
    let allow = "allow = [\"*.apps.test\", \"127.0.0.0/24\"]";
    let weir = Weir::start(&config(port(&good), allow, &names.setting()));
    assert_eq!(get(&weir, "one.apps.test").text(), "good");
    names.move_to(&["127.0.1.1", "127.0.0.1"]);
    let asked = names.asked_of("one.apps.test");
    eventually("it is asked again", || {
        get(&weir, "one.apps.test");
        names.asked_of("one.apps.test") > asked + 1
    });
    for _ in 0..20 {
        assert_eq!(get(&weir, "one.apps.test").text(), "good", "of two addresses, the one that is allowed");
    }
    names.move_to(&["127.0.1.1"]);
    eventually("it leads nowhere", || refused(&weir, "one.apps.test").1 == "address-not-allowed");
    assert_eq!(bad.connections(), 0);
    names.move_to(&["127.0.0.1"]);
    eventually("it is back", || get(&weir, "one.apps.test").text() == "good");
}

#[test]
fn a_thousand_requests_for_a_new_name_are_one_question() {
    let origin = Origin::serving("fine");
    let names = NameServer::start(&["127.0.0.1"]);
    names.answer(DnsAnswer::Silence);
    let weir =
        start(&names, port(&origin), "dns.timeout = \"300ms\"\nupstream.apps.timeouts.connect = \"30s\"");
    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(weir.web())).collect();
    clients.iter_mut().for_each(|client| client.send(request("one.apps.test")));
    eventually("it is asked for", || names.asked_of("one.apps.test") > 0);
    names.move_to(&["127.0.0.1"]);
    for client in &mut clients {
        assert_eq!(client.response().text(), "fine");
    }
    // Those of the resolver itself, which repeats what is lost.
    assert!(names.asked_of("one.apps.test") < 10, "{}", names.asked_of("one.apps.test"));
}

#[test]
fn a_resolver_that_is_slow_or_fails_is_said_to_be() {
    let origin = Origin::serving("fine");
    let names = NameServer::start(&[]);
    names.answer_for("slow.apps.test", DnsAnswer::Silence);
    names.answer_for("bad.apps.test", DnsAnswer::ServerFailure);
    names.move_name_to("good.apps.test", &["127.0.0.1"]);
    let weir =
        start(&names, port(&origin), "dns.timeout = \"5s\"\nupstream.apps.timeouts.connect = \"300ms\"");
    let mut slow = Client::connect(weir.web());
    slow.send(request("slow.apps.test"));
    assert_eq!(get(&weir, "good.apps.test").text(), "fine", "no other name waits for it");
    let response = slow.response();
    assert_eq!((response.status, response.reason()), (504, Some("resolve-timed-out")));
    assert_eq!(refused(&weir, "bad.apps.test"), (503, "resolver-failed".to_owned()));
    logged(&weir, "apps - 503 resolver-failed");
    // A client that leaves meanwhile is no failure of ours, and leaves nothing behind.
    let mut gone = Client::connect(weir.web());
    gone.send(request("slow.apps.test"));
    eventually("it waits", || names.asked_of("slow.apps.test") > 0);
    drop(gone);
    assert_eq!(get(&weir, "good.apps.test").text(), "fine");
    let mut http2 = Http2Client::connect(weir.web());
    let stream = http2.get_with("/", &[("x-app", "slow.apps.test")]);
    http2.reset(stream, 8);
    let stream = http2.get_with("/", &[("x-app", "good.apps.test")]);
    assert_eq!(http2.response(stream).text(), "fine");
}

#[test]
fn a_flood_of_names_stays_within_its_bounds() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n1")?;
        // The second byte never comes: the request goes on.
        conn.take(1)?;
        None
    });
    let names = NameServer::start(&["127.0.0.1"]);
    let dynamic = format!("{ALLOW}, names_max = 4");
    let weir = Weir::start(&config(port(&origin), &dynamic, &names.setting()));
    let hold = |app: &str| {
        let mut client = Client::connect(weir.web());
        client.send(request(app));
        assert_eq!(client.head().status(), Ok(200), "{app}");
        client
    };
    let held: Vec<Client> = ["a.apps.test", "b.apps.test", "c.apps.test"].map(hold).into();
    for at in 0..50 {
        let app = format!("flood{at}.apps.test");
        eventually("the name before has made room", || {
            let mut client = Client::connect(weir.web());
            client.send(request(&app));
            let is_served = client.head().status() == Ok(200);
            client.reset();
            is_served
        });
    }
    let mut last = None;
    eventually("the last of the flood has made room", || {
        let mut client = Client::connect(weir.web());
        client.send(request("d.apps.test"));
        let is_served = client.head().status() == Ok(200);
        last = is_served.then_some(client);
        is_served
    });
    assert_eq!(refused(&weir, "e.apps.test"), (503, "too-many-names".to_owned()));
    last.expect("it was served").reset();
    eventually("another one has room", || {
        let mut client = Client::connect(weir.web());
        client.send(request("e.apps.test"));
        let is_served = client.head().status() == Ok(200);
        client.reset();
        is_served
    });
    let servers = weir.admin_json("/api/overview")["upstreams"][0]["servers"].as_array().map_or(0, Vec::len);
    assert!(servers <= 5, "{servers}");
    let metric = |name: &str| weir.metrics().sum(&format!("weir_upstream_{name}"), &["upstream=\"apps\""]);
    assert_eq!([metric("names"), metric("names_max")], [4.0; 2]);
    assert!(metric("name_evictions_total") >= 50.0 && metric("name_refusals_total") >= 1.0);
    drop(held);
}

/// A flood pushes out its own names, not those that requests come back to.
#[test]
fn names_that_requests_come_back_to_survive_a_flood() {
    let origin = Origin::serving("fine");
    let names = NameServer::start(&["127.0.0.1"]);
    names.set_ttl(3_600);
    let weir = Weir::start(&config(port(&origin), &format!("{ALLOW}, names_max = 10"), &names.setting()));
    let good: Vec<String> = (0..6).map(|at| format!("good{at}.apps.test")).collect();
    for app in good.iter().chain(&good).chain(&good) {
        assert_eq!(get(&weir, app).text(), "fine");
    }
    let asked: Vec<usize> = good.iter().map(|app| names.asked_of(app)).collect();
    let mut http2 = Http2Client::connect(weir.web());
    for at in 0..40 {
        assert_eq!(get(&weir, &format!("flood{at}.apps.test")).text(), "fine");
        let app = format!("flood{at}.over2.apps.test");
        let stream = http2.get_with("/", &[("x-app", &app)]);
        assert_eq!(http2.response(stream).text(), "fine");
    }
    for app in &good {
        assert_eq!(get(&weir, app).text(), "fine");
    }
    let again: Vec<usize> = good.iter().map(|app| names.asked_of(app)).collect();
    assert_eq!(again, asked, "none was asked for again");
    assert!(weir.metrics().sum("weir_upstream_name_evictions_total", &["upstream=\"apps\""]) >= 70.0);
}

#[test]
fn a_reload_keeps_what_is_still_allowed_and_nothing_else() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&["127.0.0.1"]);
    let weir = start(&names, port(&origin), "process.workers = 1");
    for app in ["one.apps.test", "two.apps.test"] {
        assert_eq!(get(&weir, app).status, 200);
    }
    let (connections, asked) = (origin.connections(), names.asked_of("one.apps.test"));
    let allow = "allow = [\"one.apps.test\", \"127.0.0.0/8\"]";
    let rest = format!("{}process.workers = 1", names.setting());
    weir.reload(&config(port(&origin), allow, &rest));
    assert_eq!(get(&weir, "one.apps.test").status, 200);
    assert_eq!(origin.connections(), connections, "its connections are kept");
    assert!(names.asked_of("one.apps.test") <= asked + 3, "and what is known of it");
    assert_eq!(refused(&weir, "two.apps.test"), (502, "server-not-allowed".to_owned()));
    // A network that is not allowed any more.
    weir.reload(&config(port(&origin), "allow = [\"one.apps.test\", \"127.0.1.0/24\"]", &rest));
    eventually("no request goes there", || refused(&weir, "one.apps.test").1 == "address-not-allowed");
    assert_eq!(origin.connections(), connections);
    weir.reload(&config(port(&origin), ALLOW, &rest));
    eventually("it is allowed again", || get(&weir, "two.apps.test").status == 200);
}

#[test]
fn another_process_takes_over() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&["127.0.0.1"]);
    let mut weir = start(&names, port(&origin), "");
    assert_eq!(get(&weir, "one.apps.test").status, 200);
    weir.upgrade();
    for app in ["one.apps.test", "two.apps.test"] {
        assert_eq!(get(&weir, app).status, 200);
    }
}

#[test]
fn certificates_are_verified_for_the_name() {
    let authority = CertificateAuthority::new();
    let folder = temporary_folder();
    std::fs::write(folder.path().join("ca.pem"), authority.pem()).expect("the folder takes a file");
    let origin = Origin::start_tls(authority.server(&["one.apps.test"]), |conn| {
        loop {
            conn.request()?;
            let rustls::Connection::Server(session) = conn.tls().session() else {
                unreachable!("an origin serves")
            };
            let name = session.server_name().unwrap_or("-").to_owned();
            conn.send(ok(&name))?;
        }
    });
    let names = NameServer::start(&["127.0.0.1"]);
    let rest = format!("{}upstream.apps.tls = {{ ca = \"ca.pem\" }}", names.setting());
    let weir = Weir::start_in(folder, &config(port(&origin), ALLOW, &rest));
    assert_eq!(get(&weir, "one.apps.test").text(), "one.apps.test", "SNI");
    let (status, reason) = refused(&weir, "two.apps.test");
    assert_eq!((status, &*reason), (502, "connect-tls-certificate-name-mismatch"));
    assert_eq!(get(&weir, "one.apps.test").text(), "one.apps.test");
}

/// The key of the cache says nothing of the server; what one has stored is not for another all the same.
#[test]
fn a_cache_keeps_servers_apart() {
    let [one, two] = same_port(["127.0.0.1", "127.0.0.2"]).expect("every 127.0.0.0/8 address is local");
    let storable = |body: &'static str| {
        move |conn: &mut Connection| -> Option<()> {
            loop {
                conn.request()?;
                conn.send(format!(
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                ))?;
            }
        }
    };
    let (one, two) = (Origin::listen(one, storable("one")), Origin::listen(two, storable("two")));
    let names = NameServer::start(&[]);
    names.move_name_to("one.apps.test", &["127.0.0.1"]);
    names.move_name_to("two.apps.test", &["127.0.0.2"]);
    let rest = format!(
        "{}cache.pages = {{ memory = \"4MiB\", response_max = \"1MiB\" }}\n\
         listener.web.route = [{{ path = \"/\", upstream = \"apps\", cache = {{ name = \"pages\", key = \"{{path}}\" }} }}]",
        names.setting()
    );
    let text = config(port(&one), ALLOW, &rest).replace("listener.web.upstream = \"apps\"\n", "");
    let weir = Weir::start(&text);
    for _ in 0..3 {
        for name in ["one", "two"] {
            assert_eq!(get(&weir, &format!("{name}.apps.test")).text(), name);
        }
    }
    assert_eq!((one.requests().len(), two.requests().len()), (1, 1));
    assert_eq!(get(&weir, "ONE.apps.test.").text(), "one", "another notation is the same server");
    assert_eq!(one.requests().len(), 1);
    // What is stored is not for a server that the list does not have, nor for one in another notation.
    assert_eq!(refused(&weir, "evil.test").0, 502);
}

/// Where clients choose ports, too, the list has them; and a way back to Weir itself comes to an end.
#[test]
fn ports_are_those_of_the_list_and_loops_end() {
    let origin = Origin::serving("fine");
    let names = NameServer::start(&["127.0.0.1"]);
    let any = "allow = [\"*.loop.test:1-65535\", \"*.apps.test:PORT\", \"127.0.0.0/8:1-65535\"]";
    let allow = any.replace("PORT", &port(&origin).to_string());
    let text = config(0, &allow, &names.setting()).replace("{header.x-app}:0", "{header.x-app}");
    let weir = Weir::start(&text);
    let named = |name: &str, port: u16| refused(&weir, &format!("{name}:{port}"));
    assert_eq!(named("one.apps.test", port(&origin)).0, 200);
    assert_eq!(named("one.apps.test", weir.web().port()), (502, "server-not-allowed".to_owned()));
    assert_eq!(named("one.apps.test", 0), (502, "server-not-allowed".to_owned()));
    assert_eq!(named("one.loop.test", weir.web().port()).0, 508, "it ends");
    assert_eq!(named("one.apps.test", port(&origin)).0, 200);
}

#[test]
fn operators_drain_a_name_and_move_none() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&["127.0.0.1"]);
    let weir = start(&names, port(&origin), "");
    assert_eq!(get(&weir, "one.apps.test").status, 200);
    let server = format!("apps/one.apps.test:{}", port(&origin));
    let moved = weir.ask_socket(&format!("set server {server} addr 127.0.0.9"));
    assert!(moved.contains("requests name"), "{moved}");
    let _set = weir.ask_socket(&format!("set server {server} state maint"));
    eventually("it is in maintenance", || refused(&weir, "one.apps.test").1 == "no-server");
    assert_eq!(get(&weir, "two.apps.test").status, 200, "no other name is");
    let _set = weir.ask_socket(&format!("set server {server} state ready"));
    eventually("it serves", || get(&weir, "one.apps.test").status == 200);
}

#[test]
fn workers_ask_at_once_while_names_come_and_go() {
    let origin = Origin::start(telling);
    let names = NameServer::start(&["127.0.0.1"]);
    let dynamic = format!("{ALLOW}, names_max = 8");
    let weir =
        Weir::start(&config(port(&origin), &dynamic, &format!("{}process.workers = 4", names.setting())));
    thread::scope(|scope| {
        for worker in 0..4 {
            let weir = &weir;
            scope.spawn(move || {
                for at in 0..60 {
                    let app = format!("n{}.apps.test", (at * 7 + worker) % 20);
                    let response = get(weir, &app);
                    let full = response.status == 503 && response.reason() == Some("too-many-names");
                    assert!(full || response.status == 200, "{app} {response:?}");
                }
            });
        }
    });
    assert_eq!(get(&weir, "last.apps.test").status, 200);
}

#[test]
fn explain_shows_what_a_request_names() {
    let folder = temporary_folder();
    let file = folder.path().join("weir.toml");
    let text = config(8080, ALLOW, "").replace("{dir}", &folder.path().display().to_string());
    std::fs::write(&file, text).expect("the folder can be written");
    let explain = |app: &str| -> CommandResult {
        let field = format!("X-App: {app}");
        run(&["explain", &file.display().to_string(), "http://a.test/", "-H", &field])
    };
    let shown = explain("One.apps.test").text();
    assert!(shown.contains("one.apps.test:8080"), "{shown}");
    let refused = explain("evil.test").text();
    assert!(refused.contains("server-not-allowed"), "{refused}");
}
