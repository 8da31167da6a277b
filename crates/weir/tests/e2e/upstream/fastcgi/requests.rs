//! What a server of FastCGI is told: parameters, fields, and bodies of every length.

use crate::harness::fastcgi::{FastcgiRequest, response};
use crate::harness::http2::start_with_tls;
use crate::harness::{Client, Http2Client, Origin, Weir};

use super::{PAGE, page_server, server, start};

const ROUTE: &str = "fastcgi = { root = \"site\", params = { APP_ENV = \"prod\", WHO = \"{host} {header.x-a}\", SERVER_SOFTWARE = \"nginx\" } }";

#[test]
fn parameters_describe_the_request() {
    let (origin, requests) = page_server(PAGE);
    let weir = start(&origin, ROUTE, "");
    let mut client = Client::connect(weir.web());
    client.send(
        "POST /about.php/info?a=1&b=%20 HTTP/1.1\r\nHost: blog.test:8080\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\
         X-A: 1\r\nX-a: 2\r\nCookie: c=1\r\nCookie: d=2\r\nProxy: http://evil.test\r\nX_A: no\r\nX-Forwarded-For: 1.2.3.4\r\nAuthorization: Basic eDp5\r\n\
         Connection: X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n\r\nxyz",
    );
    assert_eq!(client.response().status, 200);
    let request = requests.recv().expect("it came");
    let root = weir.folder().join("site");
    let root = root.to_str().expect("it is text");
    for (name, value) in [
        ("SCRIPT_FILENAME", &*format!("{root}/about.php")),
        ("SCRIPT_NAME", "/about.php"),
        ("PATH_INFO", "/info"),
        ("PATH_TRANSLATED", &format!("{root}/info")),
        ("DOCUMENT_ROOT", root),
        ("DOCUMENT_URI", "/about.php/info"),
        ("QUERY_STRING", "a=1&b=%20"),
        ("REQUEST_URI", "/about.php/info?a=1&b=%20"),
        ("REQUEST_METHOD", "POST"),
        ("CONTENT_TYPE", "text/plain"),
        ("CONTENT_LENGTH", "3"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_SOFTWARE", "nginx"),
        ("SERVER_NAME", "blog.test"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("SERVER_PORT", &weir.web().port().to_string()),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_PORT", &client.local_port().to_string()),
        ("REQUEST_SCHEME", "http"),
        ("REDIRECT_STATUS", "200"),
        ("APP_ENV", "prod"),
        ("WHO", "blog.test 1"),
        ("HTTP_HOST", "blog.test:8080"),
        ("HTTP_X_A", "1, 2"),
        ("HTTP_COOKIE", "c=1; d=2"),
        ("HTTP_AUTHORIZATION", "Basic eDp5"),
    ] {
        assert_eq!(request.param(name), Some(value), "{name}");
    }
    for name in [
        "HTTPS",
        "HTTP_PROXY",
        "HTTP_X_FORWARDED_FOR",
        "HTTP_VIA",
        "HTTP_X_HOP",
        "HTTP_CONNECTION",
        "HTTP_TE",
        "HTTP_CONTENT_TYPE",
        "REMOTE_USER",
    ] {
        assert_eq!(request.param(name), None, "{name}");
    }
    assert_eq!(request.body, b"xyz");
    assert!(!request.keeps_connection, "a worker of PHP-FPM is not held");
}

#[test]
fn a_trusted_proxy_speaks_for_its_client() {
    let (origin, requests) = page_server(PAGE);
    let weir = start(&origin, ROUTE, "listener.web.trusted_proxies = [\"127.0.0.1\"]");
    let fields = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n";
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
    let request = requests.recv().expect("it came");
    for (name, value) in [
        ("REMOTE_ADDR", Some("203.0.113.9")),
        ("REMOTE_PORT", None),
        ("HTTPS", Some("on")),
        ("REQUEST_SCHEME", Some("https")),
        ("SERVER_PORT", Some("443")),
    ] {
        assert_eq!(request.param(name), value, "{name}");
    }
}

fn echo_server() -> Origin {
    server(|request| {
        let sum =
            request.body.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
        let told = request.param("CONTENT_LENGTH").unwrap_or("-");
        response(&format!("Content-Type: text/plain\r\n\r\n{} {sum} told {told}", request.body.len()))
    })
    .0
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

fn expected(body: &[u8]) -> String {
    let sum = body.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
    format!("{} {sum} told {}", body.len(), body.len())
}

fn start_echo(origin: &Origin) -> Weir {
    start(origin, "fastcgi = { script = \"\" }\nlimits.body_size = \"100MiB\"", "")
}

#[test]
fn bodies_of_every_length_arrive_whole() {
    let origin = echo_server();
    let weir = start_echo(&origin);
    for len in [0, 1, 4095, 16_384, 65_528, 65_529, 100_000, 1 << 20, (16 << 20) + (64 << 10) + 1, 24 << 20] {
        let body = body(len);
        let mut client = Client::connect(weir.web());
        client.send(format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len}\r\n\r\n"));
        client.send(&body);
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, expected(&body)), "{len}");
    }
}

#[test]
fn a_body_of_unknown_length_is_measured_first() {
    let origin = echo_server();
    let weir = start_echo(&origin);
    for len in [5, 70_000, 4 << 20] {
        let body = body(len);
        let mut client = Client::connect(weir.web());
        client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
        for piece in body.chunks(50_000) {
            client.send(format!("{:x}\r\n", piece.len()));
            client.send(piece);
            client.send("\r\n");
        }
        client.send("0\r\n\r\n");
        let response = client.response();
        assert_eq!((response.status, response.text()), (200, expected(&body)), "{len}");
    }
}

#[test]
fn a_body_without_length_that_is_too_long_to_be_measured_is_refused() {
    let origin = echo_server();
    let weir = start(
        &origin,
        "fastcgi = { script = \"\" }\nbuffer_requests = { memory = \"1KiB\", file = \"1KiB\" }",
        "",
    );
    let mut client = Client::connect(weir.web());
    client.send("POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("1000\r\n{}\r\n0\r\n\r\n", "x".repeat(4096)));
    let response = client.response();
    assert_eq!((response.status, response.reason()), (413, Some("body-too-large")));
    assert_eq!(origin.connections(), 0, "no server was bothered");
}

#[test]
fn clients_of_http2_are_served_alike() {
    let (origin, requests) = server(|request| {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        response(&format!("Status: 201 Made\r\nX-A: 1\r\n\r\n[{body}]"))
    });
    let settings = "upstream.app.protocol = \"fastcgi\"\nlistener.web.route = [{ path = \"/\", upstream = \"app\", fastcgi = { script = \"\" } }]\n";
    let (authority, weir) = start_with_tls(&origin, settings);
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    let received = client.fetch_by_post("/form?x", b"some text");
    assert_eq!((received.status, &received.body[..]), (201, &b"[some text]"[..]));
    let request: FastcgiRequest = requests.recv().expect("it came");
    for (name, value) in [
        ("SERVER_PROTOCOL", "HTTP/2.0"),
        ("HTTPS", "on"),
        ("REQUEST_SCHEME", "https"),
        ("CONTENT_LENGTH", "9"),
    ] {
        assert_eq!(request.param(name), Some(value), "{name}");
    }
}
