//! Values of the exchange in headers and redirects: what each comes to, in requests, responses and answers of Weir, and that none can split
//! a message.

use crate::harness::{Client, Origin, Weir, config_with};

/// An origin that answers with the value of the field `x-value` of the request.
fn telling() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let value = request.fields().one("x-value").unwrap_or("(none)").to_owned();
            let length = value.len();
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nX-Own: from the server\r\nContent-Length: {length}\r\n\r\n{value}"
            ))?;
        }
    })
}

fn start(origin: &Origin, routes: &str) -> Weir {
    Weir::start(&config_with(&[origin.named("first")], &format!("listener.web.route = [{routes}]")))
}

/// What the server gets for `value` with this request.
fn value(value: &str, head: &str) -> String {
    let origin = telling();
    let route = format!(
        "{{ name = \"one\", path_regex = '^/(?<word>[a-z%0-9]*)/?([0-9]*)', upstream = \"app\", request_headers.set = {{ x-value = '{value}' }} }}"
    );
    let weir = start(&origin, &route);
    Client::exchange(weir.web(), head).text()
}

#[test]
fn values_of_a_request() {
    let get =
        |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\nHost: a.test:8080\r\n{fields}\r\n");
    for (template, head, expected) in [
        ("{client_address}", get("/", ""), "127.0.0.1"),
        ("{peer_address}", get("/", ""), "127.0.0.1"),
        ("{local_address}", get("/", ""), "127.0.0.1"),
        ("{listener} {route} {upstream} {server}", get("/", ""), "web one app first"),
        ("{method} {scheme} {version}", get("/", ""), "GET http HTTP/1.1"),
        ("{authority} {host}", get("/", ""), "a.test:8080 a.test"),
        ("{path} {query}", get("/a%62?c=d", ""), "/ab ?c=d"),
        ("{path}{query}|", get("/a", ""), "/a|"),
        ("{header.x-user}!", get("/", "X-User: me\r\n"), "me!"),
        ("{cookie.b}", get("/", "Cookie: a=1; b=2\r\n"), "2"),
        ("{query.b}", get("/?a=1&b=%20", ""), "%20"),
        ("{match.word} {match.2} {match.0}", get("/ab/12", ""), "ab 12 /ab/12"),
        ("{{{host}}}", get("/", ""), "{a.test}"),
    ] {
        assert_eq!(value(template, &head), expected, "{template}");
    }
    assert_eq!(value("{request_id}", &get("/", "")).len(), 32);
}

/// A value that is not there leaves the header out, unless there is text beside it.
#[test]
fn a_header_without_a_value_is_left_out() {
    let get = "GET / HTTP/1.1\r\nHost: a.test\r\nX-Value: of the client\r\n\r\n";
    assert_eq!(value("{header.x-none}", get), "(none)", "what came is gone as well");
    assert_eq!(value("{tls.version}", get), "(none)");
    assert_eq!(value("a{header.x-none}", get), "(none)", "text of the template alone says nothing");
    assert_eq!(value("{host}{header.x-none}", get), "a.test");
}

#[test]
fn values_of_a_response() {
    let origin = telling();
    let weir = start(
        &origin,
        "{ path = \"/\", upstream = \"app\", response_headers = { set = { x-a = '{status} {server} {header.x-user}', x-b = '{response.header.x-own}' }, add = { x-a = 'literal' } } },
         { path = \"/fixed\", respond = { status = 200, headers = { x-a = '{host}' } }, response_headers.set.x-b = '{status} {client_address}' }",
    );
    let fetch = |target: &str| {
        Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nX-User: me\r\n\r\n"))
    };
    let response = fetch("/");
    assert_eq!(response.fields().all("x-a"), ["200 first me", "literal"]);
    assert_eq!(response.field("x-b"), Some("from the server"));
    let response = fetch("/fixed");
    assert_eq!((response.field("x-a"), response.field("x-b")), (Some("a.test"), Some("200 127.0.0.1")));
}

/// Bytes of clients that a grammar lets through, but that are none of a header value.
#[test]
fn no_value_splits_a_message() {
    let head = "GET /?a=%0d%0aX-Evil:%20yes HTTP/1.1\r\nHost: a.test\r\nX-User: a\tb\r\n\r\n";
    assert_eq!(value("{query.a} {header.x-user}", head), "%0d%0aX-Evil:%20yes a\tb");
}

#[test]
fn values_in_a_redirect_are_part_of_a_url() {
    let origin = telling();
    let weir = start(
        &origin,
        "{ path_regex = '^/user/([^/]*)', redirect = { to = 'https://{host}/{match.1}/{header.x-user}{query}' } },
         { path = \"/port\", redirect = { to = 'https://{authority}{path}?lang={cookie.lang}' } }",
    );
    let location = |head: &str| {
        let response = Client::exchange(weir.web(), head);
        assert_eq!(response.status, 308);
        response.field("location").unwrap_or_default().to_owned()
    };
    let head = "GET /user/me?a=b HTTP/1.1\r\nHost: a.test:8080\r\nX-User: <a b>\t\"c\"\r\n\r\n";
    assert_eq!(location(head), "https://a.test/me/%3Ca%20b%3E%09%22c%22?a=b");
    let head = "GET /port HTTP/1.1\r\nHost: a.test:8080\r\nCookie: lang=de\r\n\r\n";
    assert_eq!(location(head), "https://a.test:8080/port?lang=de");
}
