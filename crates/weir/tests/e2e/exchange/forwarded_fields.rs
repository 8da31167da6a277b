//! The fields about the client that a server gets: its address, the original request, `Via`, and the request id.

use std::collections::HashSet;

use crate::harness::{Client, Origin, Request, Response, Weir};

/// Sends a GET with these field lines, from 127.0.0.1; returns what the server received.
fn forwarded(settings: &str, fields: &str) -> Request {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying_with(&origin, settings);
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n");
    assert_eq!(Client::exchange(weir.web(), &request).status, 200);
    origin.last_request()
}

const TRUST: &str = "listener.web.trusted_proxies = [\"127.0.0.0/8\"]";

#[test]
fn defaults() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect_from("127.0.0.3", weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test:8080\r\n\r\n");
    assert_eq!(client.response().status, 200);
    let request = origin.last_request();
    assert_eq!(request.field("host"), Some("a.test:8080"), "the Host is kept");
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.3"));
    assert_eq!(request.field("x-forwarded-proto"), Some("http"));
    assert_eq!(request.field("x-forwarded-host"), Some("a.test:8080"));
    assert_eq!(request.field("x-forwarded-port"), Some(weir.web().port().to_string().as_str()));
    assert_eq!(request.field("forwarded"), None);
    assert!(request.field("via").is_some_and(|via| via.starts_with("1.1 ")), "{request:?}");
    assert!(request.field("x-request-id").is_some_and(|id| id.len() >= 16), "{request:?}");
}

#[test]
fn fields_of_a_trusted_proxy_are_kept_and_extended() {
    let request = forwarded(
        TRUST,
        "X-Forwarded-For: 6.6.6.6, 7.7.7.7\r\nX-Forwarded-For: 8.8.8.8\r\nX-Forwarded-Proto: https\r\n\
         X-Forwarded-Host: outer.test\r\nX-Forwarded-Port: 443\r\n",
    );
    assert_eq!(request.fields().all("x-forwarded-for").join(", "), "6.6.6.6, 7.7.7.7, 8.8.8.8, 127.0.0.1");
    assert_eq!(request.field("x-forwarded-proto"), Some("https"));
    assert_eq!(request.field("x-forwarded-host"), Some("outer.test"));
    assert_eq!(request.field("x-forwarded-port"), Some("443"));
}

/// Where a trusted proxy says how its client came, the port is that of the same connection.
#[test]
fn the_port_is_that_of_the_connection_that_the_other_fields_are_about() {
    for (fields, port) in [
        ("X-Forwarded-Proto: https\r\n", Some("443")),
        ("X-Forwarded-Proto: http\r\n", Some("80")),
        ("X-Forwarded-Proto: https\r\nX-Forwarded-Host: a.test:8443\r\n", Some("8443")),
        ("X-Forwarded-Proto: https\r\nX-Forwarded-Port: 444\r\n", Some("444")),
        ("X-Forwarded-Host: a.test:8443\r\n", Some("8443")),
        ("X-Forwarded-For: 192.0.2.1\r\n", None),
    ] {
        let request = forwarded(TRUST, fields);
        let is_of_listener =
            request.field("x-forwarded-port").is_some_and(|port| !["80", "443"].contains(&port));
        match port {
            Some(port) => assert_eq!(request.fields().all("x-forwarded-port"), [port], "{fields}"),
            None => assert!(is_of_listener, "{request:?}"),
        }
    }
}

/// The whole set, whatever its names: from trusted proxies only.
#[test]
fn no_field_of_the_set_passes_from_an_untrusted_peer() {
    let names = [
        "X-Forwarded-Prefix",
        "X-Forwarded-Ssl",
        "X-Forwarded-Scheme",
        "X-Forwarded-Server",
        "X-Forwarded-Uri",
        "X-Forwarded-Method",
        "X-Forwarded-User",
        "X-Forwarded-Preferred-Username",
        "X-Forwarded-Client-Cert",
        "X_Forwarded_Prefix",
    ];
    let fields: String = names.iter().map(|name| format!("{name}: forged\r\n")).collect();
    for (settings, passes) in [("", false), (TRUST, true)] {
        let request = forwarded(settings, &fields);
        for name in names {
            let passes = passes && !name.contains('_');
            assert_eq!(request.field(name).is_some(), passes, "{name}");
        }
    }
    let kept = forwarded("listener.web.request_headers.set.x-forwarded-prefix = \"/app\"", &fields);
    assert_eq!(kept.fields().all("x-forwarded-prefix"), ["/app"]);
}

#[test]
fn fields_of_an_untrusted_peer_are_replaced() {
    let request = forwarded(
        "listener.web.trusted_proxies = [\"10.0.0.0/8\"]",
        "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Request-Id: forged\r\n",
    );
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("http"));
    assert_ne!(request.field("x-request-id"), Some("forged"));
}

#[test]
fn a_peer_on_a_unix_socket_can_be_trusted() {
    let origin = Origin::serving("seen");
    for (trust, expected) in [("trusted_proxies = [\"unix\"]", true), ("trusted_proxies = []", false)] {
        let weir = Weir::start(&format!(
            "listener.web.address = \"unix:{{dir}}/web.sock\"\nlistener.web.upstream = \"app\"\nlistener.web.{trust}\n\
             upstream.app.servers = [\"{}\"]\n",
            origin.address()
        ));
        let request =
            "GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\n\r\n";
        assert_eq!(Client::exchange(weir.listening("web").clone(), request).status, 200);
        let seen = origin.last_request();
        let believed = seen.fields().lists("x-forwarded-for", "6.6.6.6");
        assert_eq!(
            (believed, seen.field("x-forwarded-proto") == Some("https")),
            (expected, expected),
            "{seen:?}"
        );
    }
}

#[test]
fn rfc_7239() {
    let on = "listener.web.forwarded.rfc7239 = true";
    let request = forwarded(on, "Forwarded: for=6.6.6.6\r\n");
    let value = request.field("forwarded").expect("the field is there").to_ascii_lowercase();
    assert!(value.contains("for=127.0.0.1") && value.contains("proto=http"), "{value}");
    assert!(!value.contains("6.6.6.6"), "{value}");

    let request = forwarded(&format!("{on}\n{TRUST}"), "Forwarded: for=6.6.6.6;proto=https\r\n");
    let value = request.fields().all("forwarded").join(", ");
    assert!(value.starts_with("for=6.6.6.6;proto=https, "), "{value}");
    assert!(value.contains("for=127.0.0.1"), "{value}");
}

#[test]
fn rfc_7239_with_ipv6_is_quoted() {
    let origin = Origin::serving("seen");
    let weir = Weir::start(&format!(
        "listener.web.address = \"[::1]:0\"\nlistener.web.upstream = \"app\"\nlistener.web.forwarded.rfc7239 = true\n\
         upstream.app.servers = [\"{}\"]\n",
        origin.address()
    ));
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    let value = origin.last_request().field("forwarded").expect("the field is there").to_ascii_lowercase();
    assert!(value.contains("for=\"[::1]\""), "RFC 7239 section 6: {value}");
}

#[test]
fn everything_can_be_switched_off() {
    let request = forwarded(
        "listener.web.forwarded = { x_forwarded = false, via = false }\nlistener.web.request_id.header = \"off\"",
        "",
    );
    assert_eq!(request.fields().0, [("Host".to_owned(), "a.test".to_owned())]);
}

#[test]
fn a_request_without_a_host_has_none_to_tell() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying_with(&origin, "listener.web.forwarded = { rfc7239 = true }");
    assert_eq!(Client::exchange(weir.web(), "GET / HTTP/1.0\r\n\r\n").status, 200);
    let request = origin.last_request();
    assert_eq!(request.field("x-forwarded-host"), None, "{request:?}");
    let forwarded = request.field("forwarded").expect("the field is there");
    assert!(!forwarded.contains("host="), "{forwarded}");
}

#[test]
fn via_has_the_version_the_request_came_with() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying_with(&origin, "process.name = \"edge-1\"");
    assert_eq!(Client::exchange(weir.web(), "GET / HTTP/1.0\r\nHost: a.test\r\n\r\n").status, 200);
    assert_eq!(origin.last_request().field("via"), Some("1.0 edge-1 (web)"));
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    assert_eq!(origin.last_request().field("via"), Some("1.1 edge-1 (web)"));
}

#[test]
fn each_request_has_an_id_of_its_own() {
    let origin = Origin::serving("seen");
    let weir = Weir::proxying(&origin);
    for _ in 0..10 {
        let mut client = Client::connect(weir.web());
        for _ in 0..10 {
            assert_eq!(client.fetch("/").status, 200);
        }
    }
    let ids: HashSet<String> =
        origin.requests().iter().map(|r| r.field("x-request-id").expect("each has one").to_owned()).collect();
    assert_eq!(ids.len(), 100);
}

#[test]
fn the_id_of_a_trusted_peer_is_kept() {
    let sent = "X-Request-Id: from-outside-1\r\n";
    assert_eq!(forwarded(TRUST, sent).field("x-request-id"), Some("from-outside-1"));
    let always = "listener.web.request_id.accept = \"always\"";
    assert_eq!(forwarded(always, sent).field("x-request-id"), Some("from-outside-1"));
    assert_ne!(forwarded("", sent).field("x-request-id"), Some("from-outside-1"));
    let never = format!("{TRUST}\nlistener.web.request_id.accept = \"never\"");
    assert_ne!(forwarded(&never, sent).field("x-request-id"), Some("from-outside-1"));
    let renamed = format!("{TRUST}\nlistener.web.request_id.header = \"x-trace\"");
    assert_eq!(forwarded(&renamed, "X-Trace: t1\r\n").field("x-trace"), Some("t1"));
}

#[test]
fn weirs_own_answers_quote_the_id() {
    let origin = Origin::serving("seen");
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.request_id.accept = \"always\"\nupstream.app.servers = [\"{}\"]\n\
         listener.web.route = [{{ path = \"/only\", upstream = \"app\" }}]\n",
        origin.address()
    ));
    let request =
        "GET / HTTP/1.1\r\nHost: a.test\r\nAccept: application/json\r\nX-Request-Id: ask-for-me\r\n\r\n";
    let response = Client::exchange(weir.web(), request);
    assert_eq!(response.status, 404);
    assert!(response.text().contains("ask-for-me"), "{response:?}");
}

#[test]
fn clients_get_the_id_where_they_are_to_have_it() {
    let origin =
        Origin::answering("HTTP/1.1 200 OK\r\nX-Request-Id: of-the-server\r\nContent-Length: 0\r\n\r\n");
    let config = |settings: &str| {
        format!(
            "listener.web.address = \"127.0.0.1:0\"\n{settings}\nupstream.app.servers = [\"{}\"]\n\
             [[listener.web.route]]\npath = \"/only\"\nupstream = \"app\"\n\
             [[listener.web.route]]\npath = \"/fixed\"\nrespond = {{ status = 204 }}\n",
            origin.address()
        )
    };
    let ids = |response: &Response, name: &str| response.fields().all(name).join(" and ");
    let weir = Weir::start(&config("listener.web.request_id.in_response = true"));
    for path in ["/only", "/fixed", "/nowhere"] {
        assert_eq!(ids(&Client::get(weir.web(), path), "x-request-id").len(), 32, "{path}");
    }
    let response = Client::get(weir.web(), "/only");
    assert_eq!(origin.last_request().field("x-request-id"), response.field("x-request-id"));
    // By default the field of the server passes, and nothing is added.
    let weir = Weir::start(&config(""));
    assert_eq!(ids(&Client::get(weir.web(), "/only"), "x-request-id"), "of-the-server");
    assert_eq!(ids(&Client::get(weir.web(), "/fixed"), "x-request-id"), "");
    let renamed = "listener.web.request_id = { header = \"x-trace\", in_response = true }";
    let weir = Weir::start(&config(renamed));
    let response = Client::get(weir.web(), "/only");
    assert_eq!(ids(&response, "x-request-id"), "of-the-server");
    assert_eq!(origin.last_request().field("x-trace"), response.field("x-trace"));
}
