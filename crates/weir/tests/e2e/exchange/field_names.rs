//! Names of headers that the config gives: over HTTP/1 as they are written, over HTTP/2 in lower case, the same in every spelling for all else.

use crate::harness::http2::H2C;
use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Weir, config_with};

fn names(fields: &[(String, String)], wanted: &str) -> Vec<String> {
    let is_it = |name: &&String| name.eq_ignore_ascii_case(wanted);
    fields.iter().map(|(name, _)| name).filter(is_it).cloned().collect()
}

fn text(origin: &Origin, name: &str, rule: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}cache.pages = {{ memory = \"4MiB\", response_max = \"1MiB\" }}
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             cache = \"pages\"
             request_headers = [{{ set = {{ {name} = \"1\" }}, add = {{ X-aDDed = \"{{method}}\" }} }}, {{ {rule} set = {{ X-RuLe = \"1\" }} }}]
             response_headers = [{{ set = {{ {name} = \"1\" }}, add = {{ X-aDDed = \"{{method}}\" }} }}, {{ {rule} set = {{ X-RuLe = \"1\" }} }}]"
        ),
    )
}

#[test]
fn names_keep_the_spelling_of_the_config_over_http1() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nx-FOOBAR: server\r\nX-Of-Server: 1\r\nContent-Length: 2\r\n\r\nok",
            )?;
        }
    });
    let weir = Weir::start(&text(&origin, "X-FooBar", "when = 'method == \"GET\"',"));
    // From the server, then from the cache.
    for _ in 0..2 {
        let response =
            Client::exchange(weir.web(), "GET / HTTP/1.1\r\nHost: a.test\r\nx-foobar: client\r\n\r\n");
        let fields = &response.fields().0;
        assert_eq!(names(fields, "x-foobar"), ["X-FooBar"]);
        assert_eq!(names(fields, "x-added"), ["X-aDDed"]);
        assert_eq!(names(fields, "x-rule"), ["X-RuLe"]);
        assert_eq!(names(fields, "x-of-server"), ["X-Of-Server"]);
        assert_eq!(response.field("x-foobar"), Some("1"));
    }
    let request = &origin.requests()[0];
    let fields = &request.fields().0;
    assert_eq!(names(fields, "x-foobar"), ["X-FooBar"], "the client's is replaced, however it is written");
    assert_eq!(names(fields, "x-added"), ["X-aDDed"]);
    assert_eq!(names(fields, "x-rule"), ["X-RuLe"]);
    let mut client = Http2Client::connect(weir.web());
    let response = client.fetch("/");
    assert_eq!(names(&response.fields.0, "x-foobar"), ["x-foobar"]);
    assert_eq!(names(&response.fields.0, "x-rule"), ["x-rule"]);
}

/// A reload that changes nothing but the spelling is one.
#[test]
fn a_reload_changes_the_spelling() {
    let origin = Origin::serving("served");
    let weir = Weir::start(&text(&origin, "X-FooBar", ""));
    let shown = || {
        let response = Client::get(weir.web(), "/");
        names(&response.fields().0, "x-foobar")
    };
    assert_eq!(shown(), ["X-FooBar"]);
    weir.reload(&text(&origin, "x-fooBAR", ""));
    assert_eq!(shown(), ["x-fooBAR"]);
}

/// With `forward_headers = false`, servers get what Weir and the route say, and nothing of the client but its request and its body.
#[test]
fn fields_of_clients_stay_here_where_the_route_says_so() {
    let origin = echo();
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}[[listener.web.route]]
             path = \"/bare\"
             upstream = \"app\"
             forward_headers = false
             request_headers.set = {{ X-Own = \"{{header.x-secret}}\" }}"
        ),
    ));
    let head = "Host: a.test\r\nCookie: a=1\r\nAuthorization: Basic eDp5\r\nX-Secret: s\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nabc";
    let response = Client::exchange(weir.web(), &format!("POST /bare HTTP/1.1\r\n{head}"));
    assert_eq!((response.status, response.text().as_str()), (200, "/bareabc"));
    let mut client = Http2Client::connect(weir.web());
    let mut fields = client.request("GET", "/bare");
    fields.extend([("cookie", "a=1"), ("x-secret", "s")]);
    let stream = client.open(&fields, true);
    assert_eq!(client.response(stream).status, 200);
    let response = Client::exchange(weir.web(), &format!("POST /all HTTP/1.1\r\n{head}"));
    assert_eq!(response.status, 200);
    let requests = origin.requests();
    for request in &requests[..2] {
        for name in ["cookie", "authorization", "x-secret", "content-type"] {
            assert_eq!(request.field(name), None, "{name}");
        }
        assert_eq!(request.field("x-own"), Some("s"), "what the route says may be from the client");
        assert!(request.field("host").is_some() && request.field("x-forwarded-for").is_some());
    }
    for name in ["cookie", "authorization", "x-secret", "content-type"] {
        assert!(requests[2].field(name).is_some(), "{name}");
    }
}
