//! Error pages in place of stored responses: the server is asked once, and each client gets the page of its own request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use crate::harness::http2::H2C;
use crate::harness::{
    Client, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

/// Answers with this status, and a secret that no client may get.
fn failing(fields: &'static str) -> (Origin, Arc<AtomicU16>, Arc<AtomicUsize>) {
    let (status, asked) = (Arc::new(AtomicU16::new(404)), Arc::new(AtomicUsize::new(0)));
    let (said, count) = (Arc::clone(&status), Arc::clone(&asked));
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            count.fetch_add(1, Ordering::Relaxed);
            let status = said.load(Ordering::Relaxed);
            conn.send(format!(
                "HTTP/1.1 {status} x\r\nX-Secret: trace\r\nAllow: GET\r\nETag: \"e\"\r\n{fields}Content-Length: 6\r\n\r\nsecret"
            ))?;
        }
    });
    (origin, status, asked)
}

fn start(origin: &Origin, page: &str, keys: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("page.html"), "page for {header.x-name}")
        .expect("the folder is writable");
    let page = page.replace("PAGE", "page.html");
    let text = config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}process.workers = 1\ncache.pages.memory = \"4MiB\"\ncache.pages.response_max = \"1MiB\"\n\
             listener.web.response_headers.set = {{ x-cache = \"{{cache.status}}\" }}\n\
             [[listener.web.route]]\npath = \"/\"\nupstream = \"app\"\n\
             cache = {{ name = \"pages\", ttl = [{{ status = [404, 500], time = \"1h\" }}]{keys} }}\n\
             error_pages = [{{ status = [404, 500], of_servers = true, {page} }}]\n\
             [[listener.web.route]]\nname = \"other\"\ninternal = true\nrespond.body = \"other {{header.x-name}}\"\n\
             [[listener.web.route]]\npath = \"/other\"\nrespond.body = \"other {{header.x-name}}\"\n"
        ),
    );
    Weir::start_in(folder, &text)
}

fn get(weir: &Weir, name: &str) -> Response {
    let request = format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Name: {name}\r\nConnection: close\r\n\r\n");
    Client::exchange(weir.web(), &request)
}

#[test]
fn a_page_is_made_for_each_client_and_the_server_asked_once() {
    for (page, text, status) in [
        ("html = \"PAGE\"", "page for", 404),
        ("html = \"PAGE\", new_status = 410", "page for", 410),
        ("then = \"other\"", "other", 404),
        ("then = \"/other\", status_of_target = true", "other", 200),
    ] {
        let (origin, _, asked) = failing("");
        let weir = start(&origin, page, "");
        for (name, hit) in [("one", false), ("two", true), ("three", true)] {
            let response = get(&weir, name);
            assert_eq!((response.status, response.text()), (status, format!("{text} {name}")), "{page}");
            assert_eq!(response.field("x-secret"), None, "{page}");
            if page.starts_with("html") {
                assert_eq!(response.field("x-cache"), Some(if hit { "HIT" } else { "MISS" }), "{page}");
                assert_eq!(response.field("allow"), Some("GET"));
                assert!(response.field("cache-control").is_some_and(|value| value.contains("no-store")));
            }
        }
        let mut client = Http2Client::connect(weir.web());
        let stream = client.get_with("/", &[("x-name", "four")]);
        let response = client.response(stream);
        assert_eq!(response.text(), format!("{text} four"), "{page}");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{page}");
    }
}

/// A condition is asked for each client: what one gets is kept for no other.
#[test]
fn who_gets_no_page_gets_the_response() {
    let (origin, _, asked) = failing("");
    let weir = start(&origin, "html = \"PAGE\", when = 'header[\"x-name\"] != \"admin\"'", "");
    for (name, expected) in
        [("one", "page for one"), ("admin", "secret"), ("two", "page for two"), ("admin", "secret")]
    {
        assert_eq!(get(&weir, name).text(), expected, "{name}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// One that is stale is neither shown in place of a failure, nor is the failure hidden.
#[test]
fn a_stale_response_that_a_page_replaces_is_no_help() {
    let (origin, status, asked) = failing("Cache-Control: max-age=1\r\n");
    let weir = start(&origin, "html = \"PAGE\"", ", stale_if_error = \"1h\"");
    let first = get(&weir, "one");
    assert_eq!((first.status, first.text().as_str()), (404, "page for one"));
    status.store(500, Ordering::Relaxed);
    eventually("it is stale", || get(&weir, "two").field("x-cache") != Some("HIT"));
    let later = get(&weir, "three");
    assert_eq!((later.text().as_str(), later.field("x-secret")), ("page for three", None));
    assert!(asked.load(Ordering::Relaxed) >= 2);
}
