//! Where connections to servers come from (`source_address`): an address of this machine, or that of each client, whose connections no
//! other client ever gets.

use std::net::TcpListener;

use rustix::process::geteuid;

use crate::harness::http2::H2C;
use crate::harness::http2::server::Http2Server;
use crate::harness::origin::{Connection, ok};
use crate::harness::proxy_header::take_line;
use crate::harness::tls::CertificateAuthority;
use crate::harness::websocket::{SWITCH, open_tunnel};
use crate::harness::{CLOSED_PORT, Client, Http2Client, Origin, Weir, config_with, eventually};

const AS_CLIENTS: &str = "source_address = \"{client_address}\"\n";

/// Answers requests with the address that the connection comes from and its number.
fn serve(conn: &mut Connection) -> Option<()> {
    loop {
        conn.request()?;
        conn.send(ok(&format!("{} {}", conn.peer_ip(), conn.index)))?;
    }
}

fn serve_http2(conn: &mut Connection) -> Option<()> {
    let peer = conn.peer_ip();
    let mut server = Http2Server::accept(conn, &[])?;
    loop {
        let asked = server.request()?;
        let answer = format!("{peer} {}", server.conn.index);
        server.respond(asked.stream, "200", answer.as_bytes())?;
    }
}

/// Weir in front of `origin`, with keys of the upstream and more of the config.
fn weir(origin: &Origin, keys: &str, more: &str) -> Weir {
    Weir::start(&config(origin, keys, more))
}

fn config(origin: &Origin, keys: &str, more: &str) -> String {
    let keys: String = keys.lines().map(|key| format!("upstream.app.{key}\n")).collect();
    config_with(&[origin.entry()], &format!("{H2C}{keys}{more}"))
}

fn fetch(weir: &Weir, from: &str) -> String {
    Client::connect_from(from, weir.web()).fetch("/").text()
}

/// Whether the test may use addresses that are not its own.
fn may_be_transparent() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("skipped: this test needs root");
    }
    is_root
}

#[test]
fn connections_come_from_a_fixed_address_over_each_protocol() {
    let authority = CertificateAuthority::new();
    let behind_header = |conn: &mut Connection| {
        take_line(conn)?;
        serve(conn)
    };
    let tls = "tls.ca = \"{dir}/ca.pem\"";
    for (origin, keys) in [
        (Origin::start(serve), ""),
        (Origin::start(serve_http2), "protocol = \"h2c\""),
        (Origin::start(behind_header), "proxy_protocol = \"v1\""),
        (Origin::start_tls(authority.server(&["127.0.0.1"]), serve), tls),
    ] {
        let keys = format!("source_address = \"127.0.0.7\"\n{keys}");
        let folder = authority.folder_for_web();
        authority.write(folder.path(), "ca");
        let weir = Weir::start_in(folder, &config(&origin, &keys, ""));
        assert!(fetch(&weir, "127.0.0.21").starts_with("127.0.0.7 "), "{keys}");
        let mut client = Http2Client::connect(weir.web());
        assert!(client.fetch("/").text().starts_with("127.0.0.7 "), "{keys}");
    }
}

#[test]
fn a_server_has_another_source_or_none() {
    let origins = [Origin::start(serve), Origin::start(serve), Origin::start(serve)];
    let [first, second, third] = origins.each_ref().map(Origin::address);
    let weir = Weir::start(&format!(
        r#"
        listener.web = {{ address = "127.0.0.1:0", upstream = "app" }}
        [upstream.app]
        source_address = "127.0.0.7"
        balance = "round-robin"
        servers = [
            "{first}",
            {{ address = "{second}", source_address = "127.0.0.8" }},
            {{ address = "{third}", source_address = "off" }},
        ]
        "#
    ));
    let mut seen: Vec<String> = (0..3).map(|_| fetch(&weir, "127.0.0.1").replace(" 0", "")).collect();
    seen.sort_unstable();
    assert_eq!(seen, ["127.0.0.1", "127.0.0.7", "127.0.0.8"]);
}

/// Probes come from the fixed address; where clients have theirs, from that of this machine.
#[test]
fn probes_come_from_the_address_of_this_machine() {
    for (keys, expected) in [("source_address = \"127.0.0.7\"\n", "127.0.0.7"), (AS_CLIENTS, "127.0.0.1")] {
        if keys == AS_CLIENTS && !may_be_transparent() {
            return;
        }
        let origin = Origin::start(|conn| {
            conn.request()?;
            conn.send(ok(""))?;
            assert_eq!(conn.take(1), None);
            Some(())
        });
        let expected = expected.to_owned();
        let probed = Origin::start(move |conn| {
            assert_eq!(conn.peer_ip().to_string(), expected);
            conn.request()?;
            conn.send(ok(""))
        });
        let port = probed.address().port();
        let _weir = weir(&origin, &format!("{keys}health = {{ path = \"/\", port = {port} }}"), "");
        probed.wait_for_requests(1);
    }
}

/// Each client has connections from its own address, which are used again for itself only: not for another one of the same address, not
/// for one behind the same proxy.
#[test]
fn connections_from_the_address_of_a_client_are_for_it_alone() {
    if !may_be_transparent() {
        return;
    }
    let origin = Origin::start(serve);
    let trusted = "listener.web.trusted_proxies = [\"127.0.0.99\"]";
    let weir = weir(&origin, AS_CLIENTS, &format!("process.workers = 1\n{trusted}"));
    let mut first = Client::connect_from("127.0.0.21", weir.web());
    assert_eq!(first.fetch("/").text(), "127.0.0.21 0");
    assert_eq!(first.fetch("/").text(), "127.0.0.21 0", "it is used again");
    let mut second = Client::connect_from("127.0.0.22", weir.web());
    assert_eq!(second.fetch("/").text(), "127.0.0.22 1");
    let mut same = Client::connect_from("127.0.0.21", weir.web());
    assert_eq!(same.fetch("/").text(), "127.0.0.21 2", "another connection of the client");
    assert_eq!(first.fetch("/").text(), "127.0.0.21 0");
    drop(first);
    origin.wait_for_end(0);
    assert_eq!(fetch(&weir, "127.0.0.23"), "127.0.0.23 3");

    let mut proxy = Client::connect_from("127.0.0.99", weir.web());
    let mut ask = |client: &str| {
        proxy.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\n\r\n"));
        proxy.response().text()
    };
    assert_eq!(ask("127.0.0.41"), "127.0.0.41 4");
    assert_eq!(ask("127.0.0.41"), "127.0.0.41 4");
    assert_eq!(ask("127.0.0.42"), "127.0.0.42 5", "never that of the client before");
    assert_eq!(ask("127.0.0.41"), "127.0.0.41 6");

    let mut streams = Http2Client::connect(weir.web());
    let several: Vec<u32> = (0..4).map(|_| streams.get("/")).collect();
    for stream in several {
        assert!(streams.response(stream).text().starts_with("127.0.0.1 "));
    }
    assert_eq!(weir.metrics().sum("weir_server_connections_idle", &[]), 0.0, "no pool has one");
}

#[test]
fn tunnels_and_tcp_connections_come_from_the_address_of_the_client() {
    if !may_be_transparent() {
        return;
    }
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(format!("{SWITCH}{}", conn.peer_ip()))?;
        conn.take(1).map(drop)
    });
    let weir = weir(
        &origin,
        AS_CLIENTS,
        "listener.tcp = { address = \"127.0.0.1:0\", protocol = \"tcp\", upstream = \"app\" }",
    );
    for listener in ["web", "tcp"] {
        let mut tunnel = open_tunnel(weir.address(listener));
        assert_eq!(tunnel.take(9), b"127.0.0.1", "{listener}");
    }
}

/// Questions to a server of `forward_auth` and requests for error pages have few headers of the request, and come from its client all the
/// same: behind a proxy, never from the address of that.
#[test]
fn requests_of_weir_come_from_the_client_that_they_are_for() {
    if !may_be_transparent() {
        return;
    }
    let (app, page) = (Origin::serving("app"), Origin::start(serve));
    let judge = Origin::start(|conn| {
        loop {
            conn.request()?;
            let peer = conn.peer_ip();
            conn.send(format!("HTTP/1.1 200 OK\r\nX-Peer: {peer}\r\nContent-Length: 0\r\n\r\n"))?;
        }
    });
    let weir = Weir::start(&format!(
        r#"
        listener.web = {{ address = "127.0.0.1:0", trusted_proxies = ["127.0.0.99"], route = [
            {{ path = "/", upstream = "app", forward_auth = {{ upstream = "judge", request_headers = ["authorization"], response_headers = ["x-peer"] }} }},
            {{ path = "/down", upstream = "down", error_pages = [{{ status = 502, upstream = "page", path = "/page", ttl = "0s" }}] }},
        ] }}
        upstream.app.servers = ["{}"]
        upstream.down.servers = ["{CLOSED_PORT}"]
        upstream.page = {{ servers = ["{}"], source_address = "{{client_address}}" }}
        upstream.judge = {{ servers = ["{}"], source_address = "{{client_address}}" }}
        "#,
        app.address(),
        page.address(),
        judge.address()
    ));
    let mut proxy = Client::connect_from("127.0.0.99", weir.web());
    for client in ["127.0.0.41", "127.0.0.42"] {
        let mut ask = |path: &str| {
            proxy.send(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\n\r\n"));
            proxy.response().text()
        };
        assert_eq!(ask("/"), "app");
        assert_eq!(app.last_request().field("x-peer"), Some(client), "the question");
        let page = ask("/down");
        assert!(page.starts_with(&format!("{client} ")), "the page: {page}");
    }
}

/// A proxy that names no address at all has Weir connect from nowhere: not from an address of this machine, which servers may trust.
#[test]
fn no_address_is_not_that_of_this_machine() {
    if !may_be_transparent() {
        return;
    }
    let origin = Origin::start(serve);
    let weir = weir(&origin, AS_CLIENTS, "listener.web.trusted_proxies = [\"127.0.0.99\"]");
    for client in ["0.0.0.0", "::", "::ffff:0.0.0.0"] {
        let mut proxy = Client::connect_from("127.0.0.99", weir.web());
        proxy.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: {client}\r\n\r\n"));
        let response = proxy.response();
        assert_eq!((response.status, response.reason()), (502, Some("connect-source-address")), "{client}");
    }
    assert_eq!(origin.connections(), 0);
}

/// A reload that changes the source closes what pools and clients have kept.
#[test]
fn a_reload_changes_the_source() {
    if !may_be_transparent() {
        return;
    }
    for (script, protocol) in [(serve as fn(&mut Connection) -> Option<()>, "http1"), (serve_http2, "h2c")] {
        let origin = Origin::start(script);
        let text = |source: &str| {
            let source = format!("source_address = \"{source}\"\nprotocol = \"{protocol}\"");
            config(&origin, &source, "process.workers = 1")
        };
        let weir = Weir::start(&text("off"));
        let mut client = Client::connect_from("127.0.0.21", weir.web());
        let mut count = 0;
        for (source, expected) in [
            ("off", "127.0.0.1"),
            ("127.0.0.7", "127.0.0.7"),
            ("{client_address}", "127.0.0.21"),
            ("127.0.0.8", "127.0.0.8"),
        ] {
            if source == "{client_address}" && protocol == "h2c" {
                continue;
            }
            weir.reload(&text(source));
            assert_eq!(client.fetch("/").text(), format!("{expected} {count}"), "{protocol} {source}");
            count += 1;
        }
    }
}

/// What cannot be connected from there is a failure of its own, which does not count against the server.
#[test]
fn an_address_that_cannot_be_used_is_a_failure_of_this_machine() {
    let origin = Origin::start(serve);
    let settings = |source: &str| {
        format!("source_address = \"{source}\"\nejection = {{ max_fails = 1, fail_timeout = \"10m\" }}")
    };
    let weir = weir(&origin, &settings("192.0.2.1"), "");
    for _ in 0..3 {
        let response = Client::get(weir.web(), "/");
        assert_eq!((response.status, response.reason()), (502, Some("connect-source-address")));
    }
    weir.line(&["connect-source-address", "source_address"]);
    weir.line(&["cannot come from its source address", "192.0.2.1", "os error 99"]);
    weir.reload(&config(&origin, &settings("127.0.0.7"), ""));
    assert_eq!(Client::get(weir.web(), "/").text(), "127.0.0.7 0", "it was not ejected");
}

#[test]
fn a_client_without_an_address_of_the_family_gets_no_connection() {
    if !may_be_transparent() {
        return;
    }
    let origin = Origin::start(serve);
    let more = "listener.six = { address = \"[::1]:0\", upstream = \"app\" }\nlistener.unix = { address = \"unix:{dir}/web.sock\", upstream = \"app\" }";
    let weir = weir(&origin, AS_CLIENTS, more);
    for address in [weir.listening("six"), weir.listening("unix")] {
        let response = Client::get(address.clone(), "/");
        assert_eq!((response.status, response.reason()), (502, Some("connect-source-address")));
    }
    assert_eq!(origin.connections(), 0);
    assert_eq!(fetch(&weir, "127.0.0.21"), "127.0.0.21 0");

    let six = TcpListener::bind("[::1]:0").expect("loopback has IPv6");
    let origin = Origin::listen(six, serve);
    let weir =
        self::weir(&origin, AS_CLIENTS, "listener.six = { address = \"[::1]:0\", upstream = \"app\" }");
    assert_eq!(Client::get(weir.listening("six").clone(), "/").text(), "::1 0");
    assert_eq!(Client::get(weir.web(), "/").reason(), Some("connect-source-address"));
    eventually("all is over", || weir.metrics().sum("weir_server_attempts_open", &[]) == 0.0);
}
