//! Row 48: forged addresses of clients, loops, PROXY headers and `Max-Forwards`.

use super::{BAD_REQUEST, case, judge};
use crate::harness::{Client, Origin, ReservedAddress, Weir};

/// Row 48.
#[test]
fn replaces_what_an_untrusted_client_claims() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying(&origin);
    let response = Client::exchange(
        weir.web(),
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 6.6.6.6\r\nx-forwarded-for: 7.7.7.7\r\n\
         X-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\nX-Forwarded-Port: 443\r\n\
         Forwarded: for=6.6.6.6;host=evil.test\r\n\r\n",
    );
    assert_eq!(response.status, 200);
    let request = origin.last_request();
    let port = weir.web().port().to_string();
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"), "{request:?}");
    assert_eq!(request.field("x-forwarded-proto"), Some("http"), "{request:?}");
    assert_eq!(request.field("x-forwarded-host"), Some("a.test"), "{request:?}");
    assert_eq!(request.field("x-forwarded-port"), Some(port.as_str()), "{request:?}");
    let forwarded = request.fields().all("forwarded");
    assert!(
        forwarded.iter().all(|value| !value.contains("6.6.6.6") && !value.contains("evil")),
        "{request:?}"
    );
}

/// Row 48.
#[test]
fn finds_a_loop_by_via() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying(&origin);
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    let via = origin.last_request().field("via").expect("Weir names itself in Via").to_owned();
    let again = format!("GET /again HTTP/1.1\r\nHost: a.test\r\nVia: 1.1 other, {via}\r\n\r\n");
    let mut client = Client::connect(weir.web());
    client.send(again);
    let response = client.response();
    assert!([400, 508].contains(&response.status), "{response:?}");
    assert!(response.reason().is_some(), "{response:?}");
    assert_eq!(origin.targets(), ["/"]);

    let other = "GET /other HTTP/1.1\r\nHost: a.test\r\nVia: 1.0 fred, 1.1 p.example.net (weir)\r\n\r\n";
    assert_eq!(Client::exchange(weir.web(), other).status, 200, "another proxy is no loop");
    let seen = origin.last_request();
    assert_eq!(seen.fields().all("via").join(", "), format!("1.0 fred, 1.1 p.example.net (weir), {via}"));
}

/// Row 48.
#[test]
fn a_real_loop_ends() {
    // The first Weir is configured to send everything to itself, by way of the second: the second knows the first one's address,
    // the first one has the second for its server.
    let place = ReservedAddress::new();
    let address = place.address();
    let config = |listen: &str, server: &str| {
        format!(
            "[listener.web]\naddress = \"{listen}\"\nupstream = \"app\"\n[upstream.app]\nservers = [\"{server}\"]\n"
        )
    };
    let second = Weir::start(&config("127.0.0.1:0", &address.to_string()));
    let first = Weir::start(&config(&address.to_string(), &second.web().to_string()));
    let response = Client::get(first.web(), "/round");
    assert_eq!(response.status, 508, "{response:?}");
}

/// Two listeners of one process, one before the other, over HTTP/1 and HTTP/2: a way of the config, not a loop. A way back is one.
#[test]
fn a_listener_proxies_to_another_of_the_same_process() {
    let origin = Origin::serving("fine");
    let (outer, inner) = (ReservedAddress::new(), ReservedAddress::new());
    let weir = Weir::start(&format!(
        "[listener.outer]\naddress = \"{}\"\nupstream = \"inner\"\n\
         [listener.inner]\naddress = \"{}\"\nhttp2.prior_knowledge = \"allowed\"\n\
         [[listener.inner.route]]\npath = \"/back\"\nupstream = \"outer\"\n\
         [[listener.inner.route]]\nupstream = \"app\"\n\
         [upstream.inner]\nservers = [\"{}\"]\nprotocol = \"h2c\"\n\
         [upstream.outer]\nservers = [\"{}\"]\n\
         [upstream.app]\nservers = [\"{}\"]\n",
        outer.address(),
        inner.address(),
        inner.address(),
        outer.address(),
        origin.address()
    ));
    assert_eq!(Client::get(weir.address("outer"), "/").status, 200);
    let vias = origin.last_request().fields().all("via").join(", ");
    assert!(vias.ends_with("(inner)") && vias.contains("(outer), 2.0 "), "{vias}");
    let response = Client::get(weir.address("outer"), "/back");
    assert_eq!((response.status, response.reason()), (508, Some("loop-detected")));
    assert_eq!(origin.targets(), ["/"]);
}

/// Row 48.
#[test]
fn rejects_proxy_headers_on_a_plain_listener() {
    let signature: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let version_2 = [signature, b"\x21\x11\x00\x0c\x06\x06\x06\x06\x7f\x00\x00\x01\x00\x50\x00\x50"].concat();
    let request: &[u8] = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    judge(&[
        case(
            48,
            "PROXY version 1",
            [b"PROXY TCP4 6.6.6.6 127.0.0.1 80 80\r\n", request].concat(),
            BAD_REQUEST,
        ),
        case(48, "PROXY version 1, unknown", [b"PROXY UNKNOWN\r\n", request].concat(), BAD_REQUEST),
        case(48, "PROXY version 2", [&version_2, request].concat(), BAD_REQUEST),
    ]);
}

/// Row 48. RFC 9110 section 7.6.2: with 0 hops left Weir is the last recipient and answers itself.
#[test]
fn answers_itself_when_max_forwards_is_zero() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying(&origin);
    let request = |method: &str, count: u8| {
        format!("{method} / HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: {count}\r\n\r\n")
    };
    for method in ["OPTIONS", "TRACE"] {
        let response = Client::exchange(weir.web(), &request(method, 0));
        assert!(response.text() != "seen", "{method} with Max-Forwards: 0 is answered by Weir: {response:?}");
        assert!(origin.requests().is_empty(), "{method} with Max-Forwards: 0 goes nowhere: {response:?}");
    }
    assert_eq!(Client::exchange(weir.web(), &request("OPTIONS", 5)).text(), "seen");
    assert_eq!(origin.last_request().field("max-forwards"), Some("4"), "one hop less");
    assert_eq!(
        Client::exchange(weir.web(), &request("GET", 0)).text(),
        "seen",
        "Max-Forwards means nothing to GET"
    );
}
