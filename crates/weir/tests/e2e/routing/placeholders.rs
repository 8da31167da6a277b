//! Values of the exchange in headers and redirects: what each comes to, in requests, responses and answers of Weir, and that none can split
//! a message.

use crate::harness::http2::start_with_tls;
use crate::harness::{Client, Http2Client, Origin, Weir, config_with, eventually};

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
        ("{path|decode}!", get("/a%20b%25%3f%0d%0ax%2F", ""), "/a b%%3F%0D%0Ax%2F!"),
        ("{path}{query}|", get("/a", ""), "/a|"),
        ("{target}", get("/a%62?c=d", ""), "/a%62?c=d"),
        ("{user_agent} {referer}", get("/", "User-Agent: test/1\r\nReferer: /b\r\n"), "test/1 /b"),
        ("{connection_requests} {queue_position}", get("/", ""), "1 0"),
        ("{header.x-user}!", get("/", "X-User: me\r\n"), "me!"),
        ("{cookie.b}", get("/", "Cookie: a=1; b=2\r\n"), "2"),
        ("{query.b}", get("/?a=1&b=%20", ""), "%20"),
        ("{match.word} {match.2} {match.0}", get("/ab/12", ""), "ab 12 /ab/12"),
        ("{{{host}}}", get("/", ""), "{a.test}"),
    ] {
        assert_eq!(value(template, &head), expected, "{template}");
    }
    assert_eq!(value("{request_id}", &get("/", "")).len(), 32);
    assert_eq!(value("{time}", &get("/", "")).len(), "2026-11-27T01:02:03.123456Z".len());
    let numbers = value("{time.us} {time.seconds} {peer_port}", &get("/", ""));
    let numbers: Vec<f64> = numbers.split(' ').map(|text| text.parse().expect("a number")).collect();
    let seconds = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("it is later than 1970").as_secs_f64();
    assert!(numbers[1] <= seconds && seconds - numbers[1] < 600.0, "{numbers:?} and {seconds}");
    assert!((numbers[0] / 1e6 - numbers[1]).abs() < 1.0 && numbers[2] >= 1.0, "{numbers:?}");
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

/// What the log knows when the head of the response leaves.
#[test]
fn figures_of_an_exchange_in_its_response() {
    let origin = telling();
    let shown = "response_headers.set = { x-attempts = '{attempts} {retries} {server_connection}', x-us = '{duration} {phase.response} {phase.relay}', x-s = '{duration.seconds}', x-none = '{cache}{limit}' }";
    let weir = start(
        &origin,
        &format!(
            "{{ path = \"/\", upstream = \"app\", {shown} }}, {{ path = \"/fixed\", respond = {{ status = 200 }}, {shown} }}"
        ),
    );
    let mut client = Client::connect(weir.web());
    for (target, attempts) in [("/", "1 0 new"), ("/", "1 0 reused"), ("/fixed", "0 0 ")] {
        let response = client.fetch(target);
        let field = |name: &str| response.field(name).unwrap_or_default().to_owned();
        assert_eq!(field("x-attempts").trim_end(), attempts.trim_end(), "{target}");
        let us: Vec<u64> = field("x-us").split(' ').map(|text| text.parse().expect("a number")).collect();
        assert!(us[0] >= us[1] && us[2] == 0, "{us:?}");
        assert!(field("x-s").parse::<f64>().is_ok_and(|seconds| seconds * 1e6 >= us[0] as f64), "{us:?}");
        assert_eq!(response.field("x-none"), None);
    }
}

/// Groups of the path in what several routes share: they have a value on the routes that have them.
#[test]
fn groups_of_the_path_in_logs_and_keys() {
    let origin = telling();
    let weir = Weir::start(&config_with(
        &[origin.named("first")],
        "listener.web.access_log = { format = '{target} [{match.tenant}]', output = \"file:{dir}/access.log\" }
         listener.web.limited_by = \"tenant\"
         limit.tenant = { rate = \"1/h\", key = \"{match.tenant}\" }
         list.blocked = { action = \"deny\", key = \"{match.tenant}\", entries = [\"evil\"] }
         listener.web.route = [
             { path_regex = '^/t/(?<tenant>[a-z]+)', upstream = \"app\", lists = \"blocked\" },
             { path_regex = '^/other/', upstream = \"app\" },
         ]",
    ));
    let status = |target: &str| {
        Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n")).status
    };
    let expected = [
        ("/t/ann/x", 200, "[ann]"),
        ("/t/ann/y", 429, "[ann]"),
        ("/t/bob/x", 200, "[bob]"),
        ("/t/evil/x", 403, "[evil]"),
        ("/other/1", 200, "[-]"),
        ("/other/2", 200, "[-]"),
    ];
    for (target, code, _) in expected {
        assert_eq!(status(target), code, "{target}");
    }
    let read = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    eventually("all lines are written", || read().lines().count() >= expected.len());
    for (target, _, group) in expected {
        assert!(read().lines().any(|line| line == format!("{target} {group}")), "{target}: {}", read());
    }
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

/// Those of the listener are on every route, and on what Weir answers itself; those of a route come on top.
#[test]
fn headers_of_a_listener() {
    let origin = telling();
    let weir = Weir::start(&config_with(
        &[origin.named("first")],
        &format!(
            "listener.web.request_headers.set = {{ x-value = '{{client_address}}' }}
             listener.web.response_headers = {{ remove = ['x-own'], set = {{ x-frame-options = 'DENY', x-host = '{{host}}' }}, add = {{ x-all = '1' }} }}
             listener.web.route = [
                 {{ path = \"/route\", upstream = \"app\", request_headers.set.x-value = 'of the route', response_headers = {{ remove = ['x-frame-options'], set = {{ x-host = 'of the route', cache-control = 'max-age=60' }}, add = {{ x-all = '2' }} }} }},
                 {{ path = \"/fixed\", respond = {{ status = 200 }} }},
                 {{ path = \"/down\", upstream = \"down\", response_headers.set = {{ cache-control = 'max-age=60', content-type = 'text/x-own' }} }},
             ]
             upstream.down.servers = [\"{}\"]
             upstream.down.retry.attempts_max = 1",
            crate::harness::CLOSED_PORT
        ),
    ));
    let fetch = |head: &str| Client::exchange(weir.web(), head);
    let get = |target: &str| fetch(&format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    let response = get("/");
    assert_eq!(response.text(), "127.0.0.1");
    assert_eq!((response.field("x-frame-options"), response.field("x-host")), (Some("DENY"), Some("a.test")));
    assert_eq!((response.field("x-own"), response.field("x-all")), (None, Some("1")));
    let response = get("/route");
    assert_eq!(response.text(), "of the route");
    assert_eq!((response.field("x-frame-options"), response.field("x-host")), (None, Some("of the route")));
    assert_eq!(response.fields().all("x-all"), ["1", "2"]);
    assert_eq!(response.field("cache-control"), Some("max-age=60"));
    assert_eq!(get("/fixed").field("x-frame-options"), Some("DENY"));
    // A failure on a route: what its page says of itself stays.
    let response = get("/down");
    assert_eq!((response.status, response.field("x-frame-options")), (502, Some("DENY")));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    assert_ne!(response.field("content-type"), Some("text/x-own"));
    // One before there is a route.
    let response = fetch("GET / HTTP/1.1\r\nHost: a.test\r\nHost: b.test\r\n\r\n");
    assert_eq!((response.status, response.field("x-frame-options")), (400, Some("DENY")));
}

#[test]
fn strict_transport_security() {
    let origin = telling();
    let (authority, weir) = start_with_tls(
        &origin,
        "listener.web.hsts = { max_age = \"10m\", subdomains = true }
             listener.web.route = [{ path = \"/own\", upstream = \"app\", hsts = { max_age = \"1m\" } }]",
    );
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let response = client.fetch("/");
    assert_eq!(response.field("strict-transport-security"), Some("max-age=600; includeSubDomains"));
    let response = client.fetch("/own");
    assert_eq!(response.field("strict-transport-security"), Some("max-age=60"), "that of the route alone");
}

#[test]
fn bodies_of_the_config_have_values_escaped_for_their_type() {
    let origin = Origin::serving("unused");
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        "listener.web.route = [
            { path = \"/html\", respond = { content_type = \"text/html\", body = \"<p class={a}>{header.x-own} {path}</p>{title}\" } },
            { path = \"/json\", respond = { content_type = \"application/json\", body = '{\"own\":\"{header.x-own}\"}' } },
            { path = \"/text\", respond = { body = \"{header.x-own}{none}\" } },
            { path = \"/plain\", respond = { body = \"{no placeholder}\" } },
         ]",
    ));
    let fetch = |target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nX-Own: <\"&\\\r\n\r\n");
        Client::exchange(weir.web(), &request)
    };
    for (target, expected) in [
        ("/html", "<p class={a}>&lt;&quot;&amp;\\ /html</p>{title}"),
        ("/json", "{\"own\":\"<\\\"&\\\\\"}"),
        ("/text", "<\"&\\{none}"),
        ("/plain", "{no placeholder}"),
    ] {
        let response = fetch(target);
        assert_eq!(response.text(), expected, "{target}");
        assert_eq!(response.field("content-length"), Some(&*expected.len().to_string()));
    }
}
