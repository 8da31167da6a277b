//! Incoming headers: accepted from configured peers, rejected from all others.

use std::net::SocketAddr;

use crate::harness::proxy_header::{binary, binary4};
use crate::harness::{Client, End, Metrics, Origin, Weir, eventually};

/// Expects headers from 127.0.0.1 only; logs the origin of each exchange.
const SETTINGS: &str = "admin.address = \"127.0.0.1:0\"\nlistener.web.proxy_protocol.from = [\"127.0.0.1\"]\n\
     listener.web.access_log.output = \"file:{dir}/access.log\"\n\
     listener.web.access_log.format = \"{client_address}:{client_port} {peer_address} {local_address}:{local_port}\"\n";

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

const LINE: &str = "PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\r\n";

fn weir(origin: &Origin, settings: &str) -> Weir {
    Weir::proxying_with(origin, &format!("{SETTINGS}{settings}"))
}

fn failures(metrics: &Metrics, reason: &str) -> f64 {
    metrics.sum("weir_listener_failures_total", &[&format!("reason=\"{reason}\"")])
}

fn headers(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_listener_proxy_headers_total", &[])
}

/// Waits until so many connections ended for this reason.
fn wait_for_failures(weir: &Weir, reason: &str, count: f64) {
    eventually(&format!("{reason} is counted {count} times"), || {
        let all = weir.metrics().all("weir_listener_failures_total", &[&format!("reason=\"{reason}\"")]);
        all.iter().sum::<f64>() == count
    });
}

/// Sends `bytes` and returns how Weir ended the connection, which is without a response.
fn refused(weir: &Weir, bytes: &[u8]) -> End {
    let mut client = Client::connect(weir.web());
    client.send(bytes);
    let (answer, end) = client.take_to_end();
    assert_eq!(answer, b"", "no response before the client is known");
    end
}

fn lines(weir: &Weir) -> Vec<String> {
    let text = std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn the_client_of_a_header_takes_the_place_of_the_peer() {
    let origin = Origin::serving("seen");
    let weir = weir(&origin, "");
    let authority = binary4(b"\x02\0\x06a.test");
    let six = [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[1], &[0; 15], &[2], b"\x12\x34\x01\xbb"].concat();
    let mapped = "PROXY TCP6 ::ffff:192.0.2.1 ::1 4660 443\r\n";
    for (header, client, destination) in [
        (LINE.as_bytes().to_vec(), "192.0.2.1", "198.51.100.2"),
        (authority, "192.0.2.1", "198.51.100.2"),
        (binary(1, 0x21, &six), "2001:db8::1", "::2"),
        (mapped.as_bytes().to_vec(), "192.0.2.1", "::1"),
    ] {
        let logged = lines(&weir).len();
        let mut connection = Client::connect(weir.web());
        // In one packet with the request, and a second request behind it.
        connection.send([&header[..], GET.as_bytes()].concat());
        assert_eq!(connection.response().status, 200);
        connection.send(GET);
        assert_eq!(connection.response().status, 200);
        for request in origin.requests().iter().rev().take(2) {
            assert_eq!(request.field("x-forwarded-for"), Some(client));
            assert_eq!(request.field("x-forwarded-port"), Some("443"));
        }
        eventually("both are in the log", || lines(&weir).len() == logged + 2);
        let expected = format!("{client}:4660 127.0.0.1 {destination}:443");
        assert_eq!(lines(&weir)[logged..], [expected.clone(), expected]);
    }
    assert_eq!(headers(&weir), 4.0);
}

#[test]
fn a_header_may_come_byte_by_byte_and_be_larger_than_a_buffer() {
    let origin = Origin::serving("seen");
    let weir = weir(
        &origin,
        "process.buffer_size = \"4KiB\"\nlistener.web.proxy_protocol.header_size = \"16KiB\"\n",
    );
    for header in [LINE.as_bytes().to_vec(), binary4(b"\x04\0\x02..")] {
        let mut client = Client::connect(weir.web());
        client.send_bytewise([&header[..], GET.as_bytes()].concat()).expect("the header is taken");
        assert_eq!(client.response().status, 200);
        assert_eq!(origin.last_request().field("x-forwarded-for"), Some("192.0.2.1"));
    }
    let filler = |len: u16| binary4(&[&[4][..], &len.to_be_bytes(), &vec![0; len.into()]].concat());
    let mut client = Client::connect(weir.web());
    client.send([&filler(15_000)[..], GET.as_bytes()].concat());
    assert_eq!(client.response().status, 200);
    refused(&weir, &filler(16_384));
    wait_for_failures(&weir, "proxy-header-bad", 1.0);
}

#[test]
fn a_connection_of_the_balancers_own_keeps_its_peer() {
    let origin = Origin::serving("seen");
    let weir = weir(&origin, "");
    for header in [
        binary(0, 0, b""),
        binary(0, 0x11, b"ignored"),
        binary(1, 0, b""),
        binary(1, 0x12, &[7; 12]),
        b"PROXY UNKNOWN\r\n".to_vec(),
    ] {
        let mut client = Client::connect(weir.web());
        client.send([&header[..], GET.as_bytes()].concat());
        assert_eq!(client.response().status, 200);
        assert_eq!(origin.last_request().field("x-forwarded-for"), Some("127.0.0.1"));
        let port = weir.web().port().to_string();
        assert_eq!(origin.last_request().field("x-forwarded-port"), Some(port.as_str()));
    }
    assert_eq!(headers(&weir), 5.0);
}

#[test]
fn a_peer_without_its_required_header_is_closed() {
    let origin = Origin::serving("seen");
    let weir = weir(&origin, "");
    let mut bad_checksum = binary4(b"\x03\0\x04\0\0\0\0");
    bad_checksum.extend_from_slice(GET.as_bytes());
    let refusals: [(&[u8], &str); 6] = [
        (GET.as_bytes(), "does not begin with a PROXY protocol header"),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 4660\r\n", "address or port"),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\nGET", "CR LF"),
        (&binary(2, 0x11, &[0; 12]), "neither LOCAL nor PROXY"),
        (&binary(1, 0x13, &[0; 12]), "the transport of the header is unknown"),
        (&bad_checksum, "checksum"),
    ];
    for (count, (bytes, reason)) in refusals.into_iter().enumerate() {
        refused(&weir, bytes);
        wait_for_failures(&weir, "proxy-header-bad", count as f64 + 1.0);
        eventually("the log says what was wrong", || weir.stderr().contains(reason));
    }
    // Half a header is none.
    let client = Client::connect(weir.web());
    client.duplicate().send("PROXY TCP4 192.0.2.1");
    client.finish();
    wait_for_failures(&weir, "proxy-header-bad", 7.0);
    assert_eq!((origin.requests().len(), headers(&weir)), (0, 0.0));
}

#[test]
fn headers_of_other_peers_are_not_accepted() {
    let origin = Origin::serving("seen");
    let weir = weir(&origin, "");
    // Without a header it is a client like any other.
    let mut client = Client::connect_from("127.0.0.2", weir.web());
    client.send(GET);
    assert_eq!(client.response().status, 200);
    assert_eq!(origin.last_request().field("x-forwarded-for"), Some("127.0.0.2"));
    for header in [LINE.as_bytes().to_vec(), binary4(b"")] {
        let mut client = Client::connect_from("127.0.0.2", weir.web());
        client.send([&header[..], GET.as_bytes()].concat());
        let response = client.response();
        assert_eq!((response.status, response.reason()), (400, Some("proxy-header-unexpected")));
    }
    assert_eq!(origin.requests().len(), 1);
    assert_eq!(failures(&weir.metrics(), "proxy-header-unexpected"), 2.0);
}

#[test]
fn a_header_has_its_time() {
    let origin = Origin::serving("seen");
    let weir = weir(&origin, "listener.web.proxy_protocol.timeout = \"30ms\"\n");
    let mut silent = Client::connect(weir.web());
    let mut slow = Client::connect(weir.web());
    slow.send("PROXY TCP4 192.");
    for client in [&mut silent, &mut slow] {
        assert_eq!(client.take_to_end().0, b"");
    }
    wait_for_failures(&weir, "proxy-header-timeout", 2.0);
    assert_eq!(weir.metrics().sum("weir_listener_connections_open", &[]), 0.0);
}

#[test]
fn a_check_that_only_connects_is_no_failure() {
    let origin = Origin::serving("seen");
    let weir = weir(&origin, "");
    for _ in 0..3 {
        Client::connect(weir.web()).finish();
        Client::connect(weir.web()).reset();
    }
    eventually("all were accepted and are gone", || {
        let metrics = weir.metrics();
        metrics.sum("weir_listener_connections_total", &[]) == 6.0
            && metrics.sum("weir_listener_connections_open", &[]) == 0.0
    });
    let failures = weir.metrics().all("weir_listener_failures_total", &["listener=\"web\""]);
    assert_eq!(failures.iter().sum::<f64>(), 0.0);
}

#[test]
fn limits_per_client_count_the_client_of_the_header() {
    let origin = Origin::serving("seen");
    let weir = weir(&origin, "listener.web.connections_per_client_max = 1\n");
    let open = |client: &str| {
        let mut connection = Client::connect(weir.web());
        connection.send(format!("PROXY TCP4 {client} 198.51.100.2 4660 443\r\n{GET}"));
        connection
    };
    let mut one = open("192.0.2.1");
    assert_eq!(one.response().status, 200);
    let mut other = open("192.0.2.2");
    assert_eq!(other.response().status, 200);
    assert_eq!(open("192.0.2.1").take_to_end().0, b"");
    wait_for_failures(&weir, "client-connection-limit", 1.0);
    // Its place is free again when it goes.
    drop(one);
    eventually("the client may come again", || open("192.0.2.1").try_response_to("GET").is_ok());
}

#[test]
fn trusted_proxies_are_those_of_the_header() {
    let origin = Origin::serving("seen");
    let weir = weir(&origin, "listener.web.trusted_proxies = [\"192.0.2.1\"]\n");
    let forwarded = |client: &str| {
        let mut connection = Client::connect(weir.web());
        connection.send(format!(
            "PROXY TCP4 {client} 198.51.100.2 4660 443\r\nGET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n"
        ));
        assert_eq!(connection.response().status, 200);
        origin.last_request().field("x-forwarded-for").map(str::to_owned)
    };
    assert_eq!(forwarded("192.0.2.1").as_deref(), Some("6.6.6.6, 192.0.2.1"));
    assert_eq!(forwarded("192.0.2.9").as_deref(), Some("192.0.2.9"));
}

#[test]
fn routes_see_the_client_of_the_header() {
    let origin = Origin::serving("seen");
    let address: SocketAddr = origin.address();
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.proxy_protocol.from = [\"127.0.0.0/8\"]\n\
         listener.web.route = [{{ source = \"192.0.2.0/24\", upstream = \"app\" }}]\nupstream.app.servers = [\"{address}\"]\n"
    ));
    for (client, status) in [("192.0.2.7", 200), ("203.0.113.7", 404)] {
        let mut connection = Client::connect(weir.web());
        connection.send(format!("PROXY TCP4 {client} 198.51.100.2 4660 443\r\n{GET}"));
        assert_eq!(connection.response().status, status, "{client}");
    }
}

#[test]
fn a_peer_on_a_unix_socket_can_speak_for_others() {
    let origin = Origin::serving("seen");
    let weir = Weir::start(&format!(
        "listener.web.address = \"unix:{{dir}}/web.sock\"\nlistener.web.upstream = \"app\"\n\
         listener.web.proxy_protocol.from = [\"unix\"]\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    let mut client = Client::connect(weir.listening("web").clone());
    client.send([&binary4(b"")[..], GET.as_bytes()].concat());
    assert_eq!(client.response().status, 200);
    assert_eq!(origin.last_request().field("x-forwarded-for"), Some("192.0.2.1"));
}

#[test]
fn a_tcp_listener_takes_the_header_off_and_nothing_else() {
    let server = Origin::start(|conn| {
        conn.send("greeting")?;
        let rest = conn.wait_for_end().0;
        assert_eq!(rest, b"what follows");
        Some(())
    });
    let weir = weir(&server, "listener.web.protocol = \"tcp\"\n");
    let mut client = Client::connect(weir.web());
    client.send(binary4(b""));
    assert_eq!(client.take(8), b"greeting", "the server may speak before the client does");
    client.send("what follows");
    client.finish();
    client.assert_closed();
    eventually("it is in the log", || lines(&weir).len() == 1);
    assert_eq!(lines(&weir)[0], "192.0.2.1:4660 127.0.0.1 198.51.100.2:443");

    let mut at_once = Client::connect(weir.web());
    at_once.send([LINE.as_bytes(), b"what follows"].concat());
    at_once.finish();
    assert_eq!(at_once.take(8), b"greeting");
    at_once.assert_closed();
    assert_eq!(headers(&weir), 2.0);
    refused(&weir, b"GET / HTTP/1.1\r\n\r\n");
    wait_for_failures(&weir, "proxy-header-bad", 1.0);
}
