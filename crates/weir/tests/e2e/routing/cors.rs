//! Browsers of other origins: preflights, and what responses say.

use crate::harness::{CLOSED_PORT, Client, Origin, Response, Weir, config_with};

fn origin() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: http://of-the-server.test\r\nVary: Accept\r\nContent-Length: {}\r\n\r\n{}",
                request.method().len(),
                request.method()
            ))?;
        }
    })
}

fn start(origin: &Origin, cors: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "listener.web.route = [
                {{ path = \"/\", upstream = \"app\", cors = {{ {cors} }} }},
                {{ path = \"/plain\", upstream = \"app\" }},
                {{ path = \"/down\", upstream = \"down\", cors = {{ {cors} }} }},
             ]
             upstream.down = {{ servers = [\"{CLOSED_PORT}\"], retry = {{ attempts_max = 1 }} }}"
        ),
    ))
}

fn fetch(weir: &Weir, method: &str, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

const ALLOWED: &str = "origins = [\"https://app.test\", \"https://*.app.test\"]";
const ORIGIN: &str = "Origin: https://app.test\r\n";
const PREFLIGHT: &str = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a,x-b\r\n";

#[test]
fn a_preflight_is_answered_by_weir() {
    let origin = origin();
    let weir =
        start(&origin, &format!("{ALLOWED}, credentials = true, max_age = \"5m\", expose = [\"x-c\"]"));
    let response = fetch(&weir, "OPTIONS", "/a", &format!("{ORIGIN}{PREFLIGHT}"));
    assert_eq!(response.status, 204);
    for (name, value) in [
        ("access-control-allow-origin", Some("https://app.test")),
        ("access-control-allow-methods", Some("GET, HEAD, POST, PUT, PATCH, DELETE")),
        ("access-control-allow-headers", Some("x-a,x-b")),
        ("access-control-allow-credentials", Some("true")),
        ("access-control-max-age", Some("300")),
        ("access-control-expose-headers", Some("x-c")),
        ("vary", Some("Origin, Access-Control-Request-Method, Access-Control-Request-Headers")),
    ] {
        assert_eq!(response.field(name), value, "{name}");
    }
    assert_eq!(origin.connections(), 0);
    // Another origin, and questions that are none.
    let other = "Origin: https://evil.test\r\n";
    let response = fetch(&weir, "OPTIONS", "/a", &format!("{other}{PREFLIGHT}"));
    assert_eq!((response.status, response.field("access-control-allow-origin")), (403, None));
    assert_eq!(fetch(&weir, "OPTIONS", "/a", ORIGIN).text(), "OPTIONS");
    assert_eq!(fetch(&weir, "OPTIONS", "/a", PREFLIGHT).text(), "OPTIONS");
    assert_eq!(fetch(&weir, "OPTIONS", "/plain", &format!("{ORIGIN}{PREFLIGHT}")).text(), "OPTIONS");
}

#[test]
fn listed_headers_and_methods() {
    let origin = origin();
    let weir = start(&origin, &format!("{ALLOWED}, methods = [], headers = [\"x-a\"]"));
    let response = fetch(&weir, "OPTIONS", "/a", &format!("{ORIGIN}{PREFLIGHT}"));
    assert_eq!(response.field("access-control-allow-methods"), Some("GET, HEAD, POST"));
    assert_eq!(response.field("access-control-allow-headers"), Some("x-a"));
}

#[test]
fn responses_say_who_may_read_them() {
    let origin = origin();
    let weir = start(&origin, &format!("{ALLOWED}, expose = [\"grpc-status\", \"x-c\"]"));
    let response = fetch(&weir, "GET", "/", "Origin: https://b.app.test\r\n");
    assert_eq!(response.fields().all("access-control-allow-origin"), ["https://b.app.test"]);
    assert_eq!(response.field("access-control-expose-headers"), Some("grpc-status, x-c"));
    assert_eq!(response.fields().all("vary"), ["Accept", "Origin"]);
    // Others get the response all the same: it is their browser that keeps it from scripts.
    for fields in ["Origin: https://evil.test\r\n", ""] {
        let response = fetch(&weir, "GET", "/", fields);
        assert_eq!((response.status, response.field("access-control-allow-origin")), (200, None));
        assert_eq!(response.fields().all("vary"), ["Accept", "Origin"]);
    }
    // A script may learn why a request has failed.
    let response = fetch(&weir, "GET", "/down", ORIGIN);
    assert_eq!(
        (response.status, response.field("access-control-allow-origin")),
        (502, Some("https://app.test"))
    );
    // Elsewhere the server decides.
    let response = fetch(&weir, "GET", "/plain", ORIGIN);
    assert_eq!(response.field("access-control-allow-origin"), Some("http://of-the-server.test"));
}

#[test]
fn every_origin() {
    let origin = origin();
    let weir = start(&origin, "origins = [\"*\"]");
    for fields in [ORIGIN, ""] {
        let response = fetch(&weir, "GET", "/", fields);
        assert_eq!(response.fields().all("access-control-allow-origin"), ["*"]);
        assert_eq!(response.fields().all("vary"), ["Accept"], "caches may share it");
    }
}
