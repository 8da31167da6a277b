//! What headers of version 2 say besides addresses, as placeholders and in conditions, over HTTP/1, HTTP/2 and plain TCP.

use crate::harness::origin::ok;
use crate::harness::proxy_header::{binary, binary4, take_binary};
use crate::harness::{Client, Http2Client, Origin, Weir, eventually};

/// One value of a header.
fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    [&[kind][..], &(value.len() as u16).to_be_bytes(), value].concat()
}

/// What a balancer says of a client with TLS and a verified certificate, that came through a VPC endpoint.
fn all() -> Vec<u8> {
    let tls = [
        &[7, 0, 0, 0, 0][..],
        &tlv(0x21, b"TLSv1.3"),
        &tlv(0x22, b"ann"),
        &tlv(0x23, b"TLS_AES_128_GCM_SHA256"),
        &tlv(0x24, b"SHA256"),
        &tlv(0x25, b"EC256"),
    ]
    .concat();
    [
        tlv(1, b"h2"),
        tlv(2, b"shop.test"),
        tlv(5, b"id-77"),
        tlv(0x20, &tls),
        tlv(0xea, b"\x01vpce-08d2"),
        tlv(0xe5, b"own"),
    ]
    .concat()
}

const SHOWN: &str = "{proxy.authority} {proxy.unique_id} {proxy.alpn} {proxy.tls.version} {proxy.tls.cipher_suite} \
     {proxy.tls.client.common_name} {proxy.tls.client.verified} {proxy.tls.signature_algorithm} {proxy.tls.key_algorithm} \
     {proxy.aws.vpc_endpoint} {proxy.tlv.0xE5} {proxy.tlv.6}";

#[test]
fn values_of_a_header_are_placeholders_and_stand_in_conditions() {
    let origin = Origin::serving("seen");
    let weir = Weir::start(&format!(
        "process.workers = 1
         listener.web.address = \"127.0.0.1:0\"
         listener.web.proxy_protocol.from = [\"127.0.0.0/8\"]
         listener.web.http2.prior_knowledge = \"allowed\"
         listener.web.access_log.format = \"{SHOWN}\"
         listener.web.access_log.output = \"file:{{dir}}/access.log\"
         listener.web.response_headers.set.x-shown = \"{SHOWN}\"
         upstream.app.servers = [\"{}\"]
         [[listener.web.route]]
         when = 'proxy.aws.vpc_endpoint == \"vpce-08d2\" && proxy.tls.client.verified == \"yes\" && has(proxy.tlv[\"0xE5\"])'
         upstream = \"app\"
         request_headers.set.x-endpoint = \"{{proxy.aws.vpc_endpoint}}\"
         [[listener.web.route]]
         respond = {{ status = 403, body = \"closed\" }}",
        origin.address()
    ));
    let expected = "shop.test id-77 h2 TLSv1.3 TLS_AES_128_GCM_SHA256 ann yes SHA256 EC256 vpce-08d2 own";
    let mut client = Client::connect(weir.web());
    client.send(binary4(&all()));
    for _ in 0..2 {
        let response = client.fetch("/");
        assert_eq!((response.status, response.field("x-shown").map(str::trim_end)), (200, Some(expected)));
        assert_eq!(origin.last_request().field("x-endpoint"), Some("vpce-08d2"));
    }
    let mut second = Http2Client::silent(weir.web());
    second.send(binary4(&all()));
    second.begin(&[]);
    for _ in 0..2 {
        let stream = second.get("/");
        let response = second.response(stream);
        assert_eq!((response.status, response.field("x-shown").map(str::trim_end)), (200, Some(expected)));
    }
    let unverified =
        [&tlv(0x20, &[1, 0, 0, 0, 1])[..], &tlv(0xea, b"\x01vpce-08d2"), &tlv(0xe5, b"own")].concat();
    let no_tls = [&tlv(0x20, &[0, 0, 0, 0, 0])[..], &tlv(0xea, b"\x02vpce-08d2")].concat();
    let lines = [
        (binary4(&unverified), "- - - - - - no - - vpce-08d2 own -"),
        (binary4(&no_tls), "- - - - - - - - - - - -"),
        (binary4(b""), "- - - - - - - - - - - -"),
        (b"PROXY TCP4 192.0.2.1 198.51.100.2 4660 443\r\n".to_vec(), "- - - - - - - - - - - -"),
        (binary(0, 0, &all()), "- - - - - - - - - - - -"),
    ];
    for (at, (header, line)) in lines.into_iter().enumerate() {
        let mut client = Client::connect(weir.web());
        client.send(header);
        assert_eq!(client.fetch("/").status, 403, "{line}");
        let logged = weir.access_log(5 + at);
        assert_eq!(logged[at + 4], line);
        assert!(logged[..4].iter().all(|line| *line == format!("{expected} -")), "{logged:?}");
    }
}

/// Without the header, a client cannot say any of it.
#[test]
fn bytes_of_a_peer_without_a_header_are_no_values() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying_with(
        &origin,
        "listener.web.proxy_protocol.from = [\"192.0.2.1\"]\nlistener.web.response_headers.set.x-shown = \"{proxy.authority}\"",
    );
    assert_eq!(Client::get(weir.web(), "/").field("x-shown"), None);
    let mut client = Client::connect(weir.web());
    client.send(binary4(&all()));
    assert_eq!(client.response().status, 400);
}

/// On a TCP listener: in the log and as the key of a limit; and the name that the client asked for goes on to a server with its own header.
#[test]
fn connections_of_tcp_have_them_and_the_name_goes_on() {
    let (origin, seen) = {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = std::sync::Arc::clone(&seen);
        let origin = Origin::start(move |conn| {
            noted.lock().expect("it is not poisoned").push(take_binary(conn)?.1);
            conn.request()?;
            conn.send(ok("seen"))
        });
        (origin, seen)
    };
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"
         listener.web.protocol = \"tcp\"
         listener.web.upstream = \"app\"
         listener.web.lists = \"tenants\"
         listener.web.proxy_protocol.from = [\"127.0.0.0/8\"]
         listener.web.access_log.format = \"{{proxy.unique_id}} {{proxy.authority}} {{reason}}\"
         listener.web.access_log.output = \"file:{{dir}}/access.log\"
         list.tenants = {{ action = \"deny\", key = \"{{proxy.authority}}\", entries = [\"closed.test\"] }}
         upstream.app = {{ servers = [\"{}\"], proxy_protocol = \"v2\" }}",
        origin.address()
    ));
    let mut client = Client::connect(weir.web());
    client.send([binary4(&all()), b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()].concat());
    assert_eq!(client.response().status, 200);
    drop(client);
    let header = seen.lock().unwrap()[0].clone();
    assert!(header.windows(12).any(|part| part == tlv(2, b"shop.test")), "{header:?}");
    let mut refused = Client::connect(weir.web());
    refused.send([binary4(&tlv(2, b"closed.test")), b"GET / HTTP/1.1\r\n\r\n".to_vec()].concat());
    assert!(refused.take_to_end().0.is_empty());
    let mut lines = weir.access_log(2);
    lines.sort();
    assert_eq!(lines, ["- closed.test access-denied", "id-77 shop.test -"]);
    eventually("one connection has come", || seen.lock().unwrap().len() == 1);
}
