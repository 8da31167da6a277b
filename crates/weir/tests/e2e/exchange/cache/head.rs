//! `convert_head`: a HEAD for what is not stored is a GET to the server, whose response is stored and answers the HEAD.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{get, results, start, status};
use crate::harness::http2::H2C;
use crate::harness::{
    Client, Gate, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

const CONVERT: &str = ", convert_head = true";

fn head(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("HEAD {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

/// Answers with these fields and the number of the request as the body, which a HEAD does not get.
fn counting(fields: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |conn| {
        loop {
            let is_head = conn.request()?.method() == "HEAD";
            let number = (count.fetch_add(1, Ordering::Relaxed) + 1).to_string();
            let (length, body) = (number.len(), if is_head { "" } else { &number });
            conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{body}"))?;
        }
    })
}

fn methods(origin: &Origin) -> Vec<String> {
    origin.requests().iter().map(|request| request.method().to_owned()).collect()
}

#[test]
fn a_head_fills_the_cache_where_the_route_says_so() {
    let origin = counting("Cache-Control: max-age=60\r\nX-Own: yes\r\n");
    let weir = start(&origin, CONVERT, "");
    let first = head(&weir, "/a", "");
    assert_eq!((first.status, first.field("content-length"), first.text()), (200, Some("1"), String::new()));
    assert_eq!(first.field("x-own"), Some("yes"));
    assert!(status(&first).starts_with("weir; fwd=uri-miss; ttl="), "{}", status(&first));
    assert!(status(&first).ends_with("; stored"), "{}", status(&first));
    let hit = get(&weir, "/a", "");
    assert_eq!(hit.text(), "1");
    assert!(status(&hit).starts_with("weir; hit"), "{}", status(&hit));
    // Over HTTP/2, and one connection for what follows.
    let mut client = Http2Client::connect(weir.web());
    let fields = client.request("HEAD", "/b");
    let stream = client.open(&fields, true);
    let response = client.response(stream);
    assert_eq!((response.status, response.text()), (200, String::new()));
    assert_eq!(client.fetch("/b").text(), "2");
    assert_eq!(methods(&origin), ["GET", "GET"]);
    eventually("they are counted", || results(&weir, "miss") == 2.0 && results(&weir, "hit") == 2.0);
}

#[test]
fn without_the_key_a_head_is_a_head() {
    let origin = counting("Cache-Control: max-age=60\r\n");
    let weir = start(&origin, "", "");
    assert_eq!(head(&weir, "/a", "").status, 200);
    assert_eq!(get(&weir, "/a", "").text(), "2");
    assert_eq!(head(&weir, "/a", "").field("content-length"), Some("1"));
    assert_eq!(methods(&origin), ["HEAD", "GET"]);
}

/// What a client says of its version or a part is not asked of the server, and answered from what is stored.
#[test]
fn the_get_is_for_the_whole_and_has_no_conditions() {
    let origin = counting("Cache-Control: max-age=60\r\nETag: \"v\"\r\n");
    let weir = start(&origin, CONVERT, "");
    let first = head(&weir, "/", "If-None-Match: \"v\"\r\nRange: bytes=0-0\r\nX-Own: 1\r\n");
    assert_eq!((first.status, first.text()), (304, String::new()));
    let asked = &origin.requests()[0];
    assert_eq!(
        (asked.field("if-none-match"), asked.field("range"), asked.field("x-own")),
        (None, None, Some("1"))
    );
    assert_eq!(get(&weir, "/", "").text(), "1");
}

#[test]
fn a_head_for_what_is_not_stored_reaches_the_server() {
    for fields in ["Cache-Control: no-store\r\n", "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n"] {
        let origin = counting(fields);
        let weir = start(&origin, CONVERT, "");
        for expected in [["GET", "HEAD"].as_slice(), &["GET", "HEAD", "HEAD"]] {
            assert_eq!(head(&weir, "/", "").status, 200);
            assert_eq!(methods(&origin), expected, "{fields}");
        }
    }
    let origin = counting("Cache-Control: max-age=60\r\n");
    let weir = start(&origin, &format!("{CONVERT}, bypass = [\"{{header.x-no}}\"]"), "");
    head(&weir, "/", "X-No: 1\r\n");
    assert_eq!(methods(&origin), ["HEAD"]);
}

/// Answers, by the number of the request: a response that is stale at once, then what is said.
fn stale_then(second: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |conn| {
        loop {
            let is_head = conn.request()?.method() == "HEAD";
            let response = match count.fetch_add(1, Ordering::Relaxed) {
                0 => {
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=0, stale-if-error=60\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\nbody"
                }
                _ => second,
            };
            let end = response.find("\r\n\r\n").map_or(response.len(), |at| at + 4);
            conn.send(if is_head { &response[..end] } else { response })?;
        }
    })
}

#[test]
fn what_is_stale_is_confirmed_for_a_head_and_used_when_the_server_fails() {
    for keys in ["", CONVERT] {
        let origin =
            stale_then("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=60\r\n\r\n");
        let weir = start(&origin, keys, "");
        assert_eq!(get(&weir, "/", "").text(), "body");
        let confirmed = head(&weir, "/", "");
        assert_eq!((confirmed.status, confirmed.field("content-length")), (200, Some("4")), "{keys}");
        assert!(status(&confirmed).contains("fwd=stale; fwd-status=304"), "{keys}: {}", status(&confirmed));
        assert_eq!(origin.requests()[1].field("if-none-match"), Some("\"a\""));

        let origin = stale_then("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfail");
        let weir = start(&origin, keys, "");
        assert_eq!(get(&weir, "/", "").text(), "body");
        let instead = head(&weir, "/", "");
        assert_eq!((instead.status, instead.field("content-length")), (200, Some("4")), "{keys}");
        assert!(status(&instead).contains("stale-if-error"), "{keys}: {}", status(&instead));
    }
}

/// Many HEADs and GETs at once are one request.
#[test]
fn heads_and_gets_wait_for_one_fetch() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            opened.wait("all have asked");
            conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\nbody")?;
        }
    });
    let weir = start(&origin, CONVERT, "");
    let mut clients: Vec<Client> = (0..6).map(|_| Client::connect(weir.web())).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        let method = if index % 2 == 0 { "HEAD" } else { "GET" };
        client.send(format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        eventually("the first has begun the fetch", || origin.requests().len() == 1);
    }
    gate.open();
    for (index, client) in clients.iter_mut().enumerate() {
        let response = if index % 2 == 0 { client.response_to("HEAD") } else { client.response() };
        assert_eq!(response.status, 200);
        assert_eq!(response.text(), if index % 2 == 0 { "" } else { "body" });
    }
    assert_eq!(methods(&origin), ["GET"]);
}

/// What the route sends in place of the response of its server is for one client: a page, or what another route has.
#[test]
fn a_response_that_is_replaced_is_not_stored() {
    let origin = Origin::start(|conn| {
        loop {
            let is_head = conn.request()?.method() == "HEAD";
            let body = if is_head { "" } else { "none" };
            conn.send(format!(
                "HTTP/1.1 404 Not Found\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\n\r\n{body}"
            ))?;
        }
    });
    let folder = temporary_folder();
    std::fs::write(folder.path().join("page.html"), "page").expect("the folder takes files");
    let text = config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}cache.pages = {{ memory = \"4MiB\", response_max = \"1MiB\" }}
             listener.web.route = [{{ path = \"/\", upstream = \"app\", cache = {{ name = \"pages\", convert_head = true }},
                                      error_pages = [{{ status = 404, html = \"page.html\", of_servers = true }}] }}]"
        ),
    );
    let weir = Weir::start_in(folder, &text);
    for _ in 0..2 {
        assert_eq!(head(&weir, "/", "Accept: text/html\r\n").status, 404);
    }
    let page = get(&weir, "/", "Accept: text/html\r\n");
    assert!(page.text().contains("page"), "{}", page.text());
}
