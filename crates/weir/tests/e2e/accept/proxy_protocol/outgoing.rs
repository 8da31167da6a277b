//! Outgoing headers: on every new server connection, which then carries requests of that client only.

use std::sync::{Arc, Mutex};

use crate::harness::client_hello::hello;
use crate::harness::origin::ok;
use crate::harness::proxy_header::{binary4, take_binary, take_line};
use crate::harness::watchdog::WATCHDOG;
use crate::harness::{Client, Connection, Origin, Weir, eventually};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// An origin that takes a header off each connection by `take` and remembers it, and then serves requests.
fn expecting<T: Send + 'static>(
    take: impl Fn(&mut Connection) -> Option<T> + Send + Sync + 'static,
) -> (Origin, Arc<Mutex<Vec<T>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let origin = Origin::start(move |conn| {
        let header = take(conn)?;
        noted.lock().expect("no thread panics while it holds it").push(header);
        loop {
            conn.request()?;
            conn.send(ok("seen"))?;
        }
    });
    (origin, seen)
}

fn weir(origin: &Origin, version: &str, settings: &str) -> Weir {
    Weir::proxying_with(origin, &format!("upstream.app.proxy_protocol = \"{version}\"\n{settings}"))
}

/// Sends a GET, which is answered 200.
fn get(client: &mut Client) {
    client.send(GET);
    assert_eq!(client.response().status, 200);
}

#[test]
fn version_1_is_one_line_before_the_request() {
    let (origin, seen) = expecting(take_line);
    let weir = weir(&origin, "v1", "");
    let mut client = Client::connect_from("127.0.0.3", weir.web());
    let port = client.local_port();
    get(&mut client);
    let expected = format!("PROXY TCP4 127.0.0.3 127.0.0.1 {port} {}", weir.web().port());
    assert_eq!(*seen.lock().unwrap(), [expected]);
}

#[test]
fn version_2_has_the_id_of_the_request() {
    let (origin, seen) = expecting(take_binary);
    let weir = weir(&origin, "v2", "");
    let mut client = Client::connect_from("127.0.0.3", weir.web());
    let port = client.local_port();
    get(&mut client);
    let request = origin.last_request();
    let id = request.field("x-request-id").expect("each request has one");
    let mut expected = vec![127, 0, 0, 3, 127, 0, 0, 1];
    expected.extend_from_slice(&port.to_be_bytes());
    expected.extend_from_slice(&weir.web().port().to_be_bytes());
    expected.extend_from_slice(&[5, 0, u8::try_from(id.len()).unwrap()]);
    expected.extend_from_slice(id.as_bytes());
    assert_eq!(*seen.lock().unwrap(), [([0x21, 0x11], expected)]);
}

#[test]
fn a_connection_serves_its_client_only() {
    let (origin, seen) = expecting(take_line);
    let weir = weir(&origin, "v1", "process.workers = 1\n");
    let mut one = Client::connect_from("127.0.0.3", weir.web());
    let mut other = Client::connect_from("127.0.0.4", weir.web());
    for _ in 0..3 {
        get(&mut one);
        get(&mut other);
    }
    let connections: Vec<usize> = origin.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 1, 0, 1, 0, 1]);
    // The same address on another connection is another client too.
    get(&mut Client::connect_from("127.0.0.3", weir.web()));
    assert_eq!(seen.lock().unwrap().len(), 3);
    // What belonged to a client goes with it.
    drop(one);
    origin.wait_for_end(0);
}

#[test]
fn a_server_with_a_limit_is_not_held_by_a_silent_client() {
    let (origin, seen) = expecting(take_line);
    let weir = weir(&origin, "v1", "upstream.app.max_requests = 1\n");
    let mut client = Client::connect(weir.web());
    get(&mut client);
    origin.wait_for_end(0);
    get(&mut client);
    assert_eq!(seen.lock().unwrap().len(), 2);
}

#[test]
fn a_kept_connection_that_the_server_closed_is_replaced_unseen() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let origin = Origin::start(move |conn| {
        let header = take_line(conn)?;
        noted.lock().expect("no thread panics while it holds it").push(header);
        conn.request()?;
        conn.send(ok("seen"))
    });
    let weir = weir(&origin, "v1", "");
    let mut client = Client::connect(weir.web());
    for _ in 0..5 {
        get(&mut client);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|header| *header == seen[0]), "one client: {seen:?}");
}

#[test]
fn a_kept_connection_does_not_outlive_the_address_of_its_server() {
    let [(one, _), (other, _)] = [expecting(take_line), expecting(take_line)];
    let config = |origin: &Origin, more: &str| {
        format!(
            "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
             upstream.app = {{ proxy_protocol = \"v1\", servers = [{}]{more} }}\n",
            origin.named("a")
        )
    };
    let weir = Weir::start(&config(&one, ""));
    let mut client = Client::connect(weir.web());
    let mut seen_by = |origin: &Origin| {
        get(&mut client);
        let requests = origin.requests().len();
        (requests, origin.connections())
    };
    assert_eq!(seen_by(&one), (1, 1));
    weir.reload(&config(&one, ", timeouts = { queue = \"3s\" }"));
    assert_eq!(seen_by(&one), (2, 1), "nothing about the way to the server has changed");
    weir.reload(&config(&other, ""));
    assert_eq!(seen_by(&other), (1, 1), "the server is elsewhere");
    one.wait_for_end(0);
    assert_eq!(seen_by(&other), (2, 1));
    weir.reload(&config(&one, ""));
    assert_eq!(seen_by(&one), (3, 2), "it is back, and begins anew");
}

#[test]
fn a_header_that_came_in_is_passed_on() {
    let trust = "listener.web.proxy_protocol.from = [\"127.0.0.1\"]\n";
    let (origin, seen) = expecting(take_line);
    let weir_v1 = weir(&origin, "v1", trust);
    let mut client = Client::connect(weir_v1.web());
    client.send([&binary4(b"")[..], GET.as_bytes()].concat());
    assert_eq!(client.response().status, 200);
    assert_eq!(*seen.lock().unwrap(), ["PROXY TCP4 192.0.2.1 198.51.100.2 4660 443"]);

    let (origin, seen) = expecting(take_binary);
    let weir_v2 = weir(&origin, "v2", &format!("{trust}listener.web.request_id.header = \"off\"\n"));
    let mut client = Client::connect(weir_v2.web());
    let header = binary4(b"\x02\0\x06a.test");
    client.send([&header[..], GET.as_bytes()].concat());
    assert_eq!(client.response().status, 200);
    assert_eq!(*seen.lock().unwrap(), [([0x21, 0x11], header[16..].to_vec())]);
}

/// Sends a request over a Unix socket to a Weir that sends headers of this version to `origin`.
fn ask_over_unix_socket(origin: &Origin, version: &str) {
    let weir = Weir::start(&format!(
        "listener.web.address = \"unix:{{dir}}/web.sock\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.proxy_protocol = \"{version}\"\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    assert_eq!(Client::get(weir.listening("web").clone(), "/").status, 200);
}

#[test]
fn a_client_without_an_address_is_unknown() {
    let (origin, seen) = expecting(take_line);
    ask_over_unix_socket(&origin, "v1");
    assert_eq!(*seen.lock().unwrap(), ["PROXY UNKNOWN"]);
}

#[test]
fn a_client_without_an_address_is_local_in_version_2() {
    let (origin, seen) = expecting(take_binary);
    ask_over_unix_socket(&origin, "v2");
    assert_eq!(*seen.lock().unwrap(), [([0x20, 0], vec![])], "LOCAL, and nothing behind it");
}

#[test]
fn probes_say_that_they_are_weirs_own() {
    let quick = "upstream.app.health = { path = \"/healthz\", interval = \"30ms\", timeout = \"15s\" }\n";
    let (origin, seen) = expecting(take_line);
    let _weir_v1 = weir(&origin, "v1", quick);
    origin.wait_for_requests(2);
    assert_eq!(seen.lock().unwrap()[0], "PROXY UNKNOWN");

    let (origin, seen) = expecting(take_binary);
    let _weir_v2 = weir(&origin, "v2", quick);
    origin.wait_for_requests(2);
    assert_eq!(seen.lock().unwrap()[0], ([0x20, 0], vec![]));

    let tcp = "upstream.app.health = { interval = \"30ms\", timeout = \"15s\" }\n";
    let (origin, seen) = expecting(take_binary);
    let _weir_tcp = weir(&origin, "v2", tcp);
    eventually("a probe has connected", || !seen.lock().unwrap().is_empty());
    assert_eq!(seen.lock().unwrap()[0], ([0x20, 0], vec![]));
}

#[test]
fn a_probe_of_another_port_begins_without_a_header() {
    let (origin, _) = expecting(take_line);
    let checked = Origin::serving("well");
    let port = checked.address().port();
    let _weir = weir(
        &origin,
        "v1",
        &format!(
            "upstream.app.health = {{ path = \"/healthz\", interval = \"30ms\", timeout = \"15s\", port = {port} }}\n"
        ),
    );
    assert_eq!(checked.wait_for_requests(1)[0].target(), "/healthz");
}

/// A connection of TCP, in version 1: the header comes even if the client is silent, for the server may speak first.
#[test]
fn a_tunnel_begins_with_a_header() {
    let (sender, headers) = std::sync::mpsc::channel();
    let server = Origin::start(move |conn| {
        let header = take_line(conn)?;
        conn.send("greeting")?;
        let rest = conn.wait_for_end().0;
        sender.send((header, rest)).ok()
    });
    let weir = weir(&server, "v1", "listener.web.protocol = \"tcp\"\n");
    for _ in 0..2 {
        let mut client = Client::connect_from("127.0.0.3", weir.web());
        let expected =
            format!("PROXY TCP4 127.0.0.3 127.0.0.1 {} {}", client.local_port(), weir.web().port());
        assert_eq!(client.take(8), b"greeting");
        client.send("what follows");
        client.finish();
        client.assert_closed();
        let (header, rest) = headers.recv_timeout(WATCHDOG).expect("the server has seen the connection");
        assert_eq!((header, rest.as_slice()), (expected, &b"what follows"[..]));
    }
}

#[test]
fn version_2_has_the_sni_of_the_client() {
    let (sender, headers) = std::sync::mpsc::channel();
    let server = Origin::start(move |conn| {
        let (_, content) = take_binary(conn)?;
        let rest = conn.wait_for_end().0;
        sender.send((content, rest)).ok()
    });
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.protocol = \"tcp\"\n\
         listener.web.route = [{{ sni = \"one.test\", upstream = \"app\" }}]\n\
         upstream.app.servers = [\"{}\"]\nupstream.app.proxy_protocol = \"v2\"\n",
        server.address()
    ));
    let mut client = Client::connect(weir.web());
    client.send(hello("ONE.test"));
    client.finish();
    client.assert_closed();
    let (content, rest) = headers.recv_timeout(WATCHDOG).expect("the server has seen the connection");
    assert_eq!(content[12..], b"\x02\0\x08one.test"[..]);
    assert_eq!(rest, hello("ONE.test"), "it went on untouched");
}
