//! No spelling of a request gets round a rule, and no line of a header hides another: routes, lists and limits see the same.

use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Response, Weir, config_with};

fn start(origin: &Origin, keys: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1\nlistener.web.http2.prior_knowledge = \"allowed\"\nlistener.web.response_headers.set.x-host = \"{{host}}\"\n{keys}"
        ),
    ))
}

fn send(weir: &Weir, host: &str, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"))
}

#[test]
fn a_host_is_the_same_in_every_spelling() {
    let origin = echo();
    let weir = start(
        &origin,
        "listener.web.lists = [\"hosts\", \"authorities\"]
         listener.web.limited_by = \"per-host\"
         list.hosts = { action = \"deny\", key = \"{host}\", entries = [\"denied.test\", \"[::1]\"] }
         list.authorities = { action = \"deny\", key = \"{authority}\", entries = [\"port.test:8080\", \"port.test\"] }
         limit.per-host = { rate = \"2/h\", key = \"{host}\" }",
    );
    for (host, status) in [
        ("denied.test", 403),
        ("DENIED.test", 403),
        ("denied.test.", 403),
        ("Denied.Test.:8080", 403),
        ("[0:0::1]", 403),
        ("PORT.test.:8080", 403),
        ("port.test:80", 403),
        ("port.test:81", 200),
    ] {
        assert_eq!(send(&weir, host, "/", "").status, status, "{host}");
    }
    let one_bucket = ["a.test", "A.TEST.", "a.test:81"].map(|host| send(&weir, host, "/", "").status);
    assert_eq!(one_bucket, [200, 200, 429]);
    let seen = send(&weir, "Other.TEST.:81", "/", "");
    assert_eq!(seen.field("x-host"), Some("other.test"));
    assert_eq!(origin.last_request().field("host"), Some("Other.TEST.:81"), "the server gets what was sent");
    let mut client = Http2Client::connect(weir.web());
    let head = [(":method", "GET"), (":scheme", "http"), (":authority", "DENIED.test."), (":path", "/")];
    let stream = client.open(&head, true);
    assert_eq!(client.response(stream).status, 403);
}

#[test]
fn a_route_sees_every_line_and_every_parameter() {
    let origin = echo();
    let weir = start(
        &origin,
        "[[listener.web.route]]
         path = \"/\"
         name = \"header\"
         header.x-debug = \"1\"
         respond = { status = 403 }
         [[listener.web.route]]
         path = \"/\"
         name = \"query\"
         query.debug = \"1\"
         respond = { status = 404 }
         [[listener.web.route]]
         path = \"/\"
         upstream = \"app\"",
    );
    for (target, fields, status) in [
        ("/", "X-Debug: 0\r\nX-Debug: 1\r\n", 403),
        ("/", "x-debug: 1\r\nX-DEBUG: 0\r\n", 403),
        ("/", "X-Debug: 0\r\n", 200),
        ("/?debug=0&debug=1", "", 404),
        ("/?%64ebug=%31", "", 404),
        ("/?debug=11", "", 200),
    ] {
        assert_eq!(send(&weir, "a.test", target, fields).status, status, "{target} {fields}");
    }
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get_with("/", &[("x-debug", "0"), ("x-debug", "1")]);
    assert_eq!(client.response(stream).status, 403);
}

/// One line is enough for a refusal; an `allow` wants all of them.
#[test]
fn a_list_sees_every_line() {
    let origin = echo();
    let weir = start(
        &origin,
        "listener.web.lists = [\"stolen\", \"cookies\", \"parameters\", \"pairs\", \"known\", \"all\"]
         list.stolen = { action = \"deny\", key = \"{header.x-k}\", entries = [\"bad\"] }
         list.cookies = { action = \"deny\", key = \"{cookie.k}\", entries = [\"bad\"] }
         list.parameters = { action = \"deny\", key = \"{query.k}\", entries = [\"bad\"] }
         list.pairs = { action = \"deny\", key = \"{header.x-a}/{header.x-b}\", entries = [\"1/1\"] }
         list.known = { action = \"allow\", key = \"{header.x-pass}\", entries = [\"one\", \"two\"] }
         list.all = { action = \"deny\", entries = [\"0.0.0.0/0\"] }",
    );
    let many = |name: &str| format!("{name}: 2\r\n").repeat(17);
    for (target, fields, status) in [
        ("/", String::new(), 403),
        ("/", "X-Pass: one\r\n".to_owned(), 200),
        ("/", "X-Pass: one\r\nX-Pass: two\r\n".to_owned(), 200),
        ("/", "X-Pass: one\r\nX-Pass: three\r\n".to_owned(), 403),
        ("/", "X-Pass: three\r\nX-Pass: one\r\n".to_owned(), 403),
        ("/", "X-Pass: one\r\nX-K: ok\r\nX-K: bad\r\n".to_owned(), 403),
        ("/", "X-Pass: one\r\nX-K: bad\r\nX-K: ok\r\n".to_owned(), 403),
        ("/", "X-Pass: one\r\nX-K: ok\r\n".to_owned(), 200),
        ("/", "X-Pass: one\r\nX-A: 2\r\nX-A: 1\r\nX-B: 1\r\nX-B: 2\r\n".to_owned(), 403),
        ("/", "X-Pass: one\r\nX-A: 2\r\nX-A: 1\r\nX-B: 2\r\n".to_owned(), 200),
        ("/", "X-Pass: one\r\nCookie: k=ok; k=bad\r\n".to_owned(), 403),
        ("/", "X-Pass: one\r\nCookie: k=ok\r\nCookie: k=bad\r\n".to_owned(), 403),
        ("/?k=ok&k=bad", "X-Pass: one\r\n".to_owned(), 403),
        ("/?%6b=b%61d", "X-Pass: one\r\n".to_owned(), 403),
        // More combinations than are looked up.
        ("/", format!("X-Pass: one\r\n{}{}", many("X-A"), many("X-B")), 403),
        ("/", format!("X-Pass: one\r\n{}", many("X-A")), 200),
    ] {
        assert_eq!(send(&weir, "a.test", target, &fields).status, status, "{target} {fields}");
    }
}

/// A key that is hidden among others is counted all the same, wherever a server would look for it.
#[test]
fn a_limit_counts_every_line() {
    let origin = echo();
    let weir = start(
        &origin,
        "listener.web.limited_by = \"keys\"
         limit.keys = { rate = \"2/h\", key = \"{header.x-key}\" }",
    );
    let status = |fields: &str| send(&weir, "a.test", "/", fields).status;
    assert_eq!(status("X-Key: k\r\nX-Key: random1\r\n"), 200);
    assert_eq!(status("X-Key: random2\r\nX-Key: k\r\n"), 200);
    assert_eq!(status("X-Key: random3\r\nX-Key: k\r\n"), 429);
    assert_eq!(
        [0; 3].map(|_| status("X-Key: random3\r\nX-Key: random3\r\n")),
        [200, 200, 429],
        "one key, and what was refused is free"
    );
    // Of very many, the first ones and the last.
    let junk: String = (0..30).map(|n| format!("X-Key: junk{n}\r\n")).collect();
    assert_eq!(status(&format!("{junk}X-Key: k\r\n")), 429);
    assert_eq!(status(&format!("X-Key: k\r\n{junk}")), 429);
    assert_eq!(status(&junk), 200);
    assert_eq!(status(""), 200);
}
