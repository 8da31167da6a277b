//! How both sides come to speak HTTP/2: ALPN with TLS, prior knowledge without.

use crate::harness::http2::frame::{self, PREFACE};
use crate::harness::http2::{H2C, start, start_with_tls};
use crate::harness::proxy_header::binary4;
use crate::harness::scripts::echo;
use crate::harness::stream::Stream;
use crate::harness::{CertificateAuthority, Client, End, Http2Client, Weir, tls};

/// What a client that offers these protocols gets.
fn agreed(authority: &CertificateAuthority, weir: &Weir, offers: &[&str]) -> std::io::Result<Option<String>> {
    let mut config = authority.client();
    config.alpn_protocols = offers.iter().map(|offer| offer.as_bytes().to_vec()).collect();
    let mut client = tls::try_connect(weir.web(), config, "a.test")?;
    Ok(client.tls().session().alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()))
}

#[test]
fn alpn_prefers_http_2_and_both_protocols_are_served() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, "");
    for offers in [&["h2", "http/1.1"][..], &["http/1.1", "h2"], &["h2"]] {
        assert_eq!(
            agreed(&authority, &weir, offers).expect("a handshake").as_deref(),
            Some("h2"),
            "{offers:?}"
        );
    }
    assert_eq!(agreed(&authority, &weir, &["http/1.1"]).expect("a handshake").as_deref(), Some("http/1.1"));
    assert_eq!(agreed(&authority, &weir, &[]).expect("a handshake"), None);
    assert_eq!(Http2Client::connect_tls(&authority, weir.web()).fetch("/two").text(), "/two");
    assert_eq!(authority.connect(weir.web()).fetch("/one").text(), "/one", "without ALPN it is HTTP/1");
}

#[test]
fn a_listener_without_http_2_does_not_agree_on_it() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, "listener.web.http2.enabled = false");
    let agreed = |offers: &[&str]| agreed(&authority, &weir, offers);
    assert_eq!(agreed(&["h2", "http/1.1"]).expect("a handshake").as_deref(), Some("http/1.1"));
    assert!(agreed(&["h2"]).is_err(), "nothing in common");
}

#[test]
fn both_protocols_are_served_on_one_port_without_tls() {
    let origin = echo();
    let weir = start(&origin);
    for _ in 0..3 {
        assert_eq!(Http2Client::connect(weir.web()).fetch("/two").text(), "/two");
        assert_eq!(Client::get(weir.web(), "/one").text(), "/one");
    }
}

#[test]
fn a_preface_that_comes_in_pieces_is_one() {
    let origin = echo();
    let weir = start(&origin);
    for cut in [1, 3, 4, 14, 16, 18, 23, 24, 27, 33] {
        let mut client = Http2Client::silent(weir.web());
        let (_, opening) = client.opening(&client.request("GET", "/cut"), true);
        let all = [PREFACE, &frame::settings(&[]), &opening].concat();
        client.send(&all[..cut]);
        // A client of HTTP/1 has its answer: Weir has read what came before.
        assert_eq!(Client::get(weir.web(), "/").text(), "/");
        client.send(&all[cut..]);
        assert_eq!(client.response(1).text(), "/cut", "cut at {cut}");
    }
    let mut client = Http2Client::silent(weir.web());
    let (_, opening) = client.opening(&client.request("GET", "/bytewise"), true);
    for byte in [PREFACE, &frame::settings(&[]), &opening].concat() {
        client.send([byte]);
    }
    assert_eq!(client.response(1).text(), "/bytewise");
}

#[test]
fn a_request_that_begins_like_the_preface_is_no_request() {
    let origin = echo();
    let weir = start(&origin);
    // No other request has this method (RFC 9113 section 3.4).
    for request in ["PRI / HTTP/1.1\r\nHost: a.test\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"] {
        let mut client = Http2Client::silent(weir.web());
        client.answers = false;
        client.send(request);
        assert_eq!(client.end_code(), frame::PROTOCOL_ERROR, "{request}");
    }
    let response = Client::exchange(weir.web(), "PRIX /x HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!((response.status, origin.targets()), (200, vec!["/x".to_owned()]));
}

#[test]
fn where_it_is_not_allowed_the_preface_is_answered_505() {
    let origin = echo();
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send([PREFACE, &frame::settings(&[])].concat());
    let response = client.response();
    assert_eq!((response.status, response.reason()), (505, Some("http2-preface")));
    client.assert_closed();
}

#[test]
fn the_preface_behind_a_request_is_not_one() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/first").status, 200);
    client.send([PREFACE, &frame::settings(&[])].concat());
    assert_eq!(client.response().status, 505);
}

#[test]
fn where_nothing_else_is_allowed_http_1_gets_a_goaway() {
    let origin = echo();
    let weir = Weir::proxying_with(&origin, &H2C.replace("allowed", "only"));
    assert_eq!(Http2Client::connect(weir.web()).fetch("/two").text(), "/two");
    let mut client = Http2Client::silent(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.end_code(), frame::PROTOCOL_ERROR);
    assert!(origin.targets().iter().all(|target| target == "/two"));
}

#[test]
fn the_preface_may_come_behind_a_proxy_header() {
    let origin = echo();
    let weir =
        crate::harness::http2::start_with(&origin, "listener.web.proxy_protocol.from = [\"127.0.0.1\"]");
    let mut client = Http2Client::silent(weir.web());
    let (stream, opening) = client.opening(&client.request("GET", "/behind"), true);
    client.send([&binary4(&[])[..], PREFACE, &frame::settings(&[]), &opening].concat());
    assert_eq!(client.response(stream).text(), "/behind");
    assert_eq!(origin.last_request().field("x-forwarded-for"), Some("192.0.2.1"));
}

#[test]
fn a_unix_socket_takes_both_protocols() {
    let origin = echo();
    let weir = Weir::start(&format!(
        "listener.web.address = \"unix:{{dir}}/web.sock\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [{}]\n{H2C}",
        origin.entry()
    ));
    let stream = Stream::connect(weir.listening("web")).expect("the socket is there");
    let mut client = Http2Client::on(stream, "http");
    client.begin(&[]);
    assert_eq!(client.fetch("/two").text(), "/two");
    assert_eq!(Client::get(weir.listening("web").clone(), "/one").text(), "/one");
}

#[test]
fn upgrade_to_h2c_is_ignored() {
    let origin = echo();
    let weir = start(&origin);
    let response = Client::exchange(
        weir.web(),
        "GET /up HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
    );
    assert_eq!((response.status, response.text()), (200, "/up".to_owned()));
    assert_eq!(origin.last_request().fields().all("upgrade"), [""; 0]);
}

#[test]
fn settings_say_what_a_client_may_do() {
    let origin = echo();
    let weir = crate::harness::http2::start_with(&origin, "listener.web.http2.streams_max = 7");
    let mut client = Http2Client::connect(weir.web());
    let settings = client.settings().clone();
    assert_eq!(settings.get(&frame::MAX_CONCURRENT_STREAMS), Some(&7));
    assert_eq!(settings.get(&frame::ENABLE_CONNECT_PROTOCOL), Some(&1));
    assert_eq!(settings.get(&6), Some(&32_768), "the size of a head");
    assert_eq!(settings.get(&9), Some(&1), "no priorities of RFC 7540");
    assert_eq!(settings.get(&2), None, "a server does not say that it takes pushes");
}

#[test]
fn a_tls_client_that_agreed_on_http_2_and_speaks_http_1_gets_a_goaway() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, "");
    let mut config = authority.client();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let mut client = tls::connect(weir.web(), config, "a.test");
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let (bytes, end) = client.take_to_end();
    assert!(bytes.windows(4).any(|bytes| bytes == [7, 0, 0, 0]), "a GOAWAY: {bytes:?}");
    assert_eq!(end, End::Closed);
    assert_eq!(origin.connections(), 0);
}
