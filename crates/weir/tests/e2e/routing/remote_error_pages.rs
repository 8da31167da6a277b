//! Error pages that a server has: for Weir's own failures and for responses of servers, and what is sent when they cannot be fetched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::harness::http2::H2C;
use crate::harness::origin::ok;
use crate::harness::{
    CLOSED_PORT, Client, Gate, Http2Client, Origin, Response, Weir, config_with, eventually, temporary_folder,
};

/// Has a page for every path but those below `/bad`.
fn pages() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let page = format!("page of {}", request.target());
            match request.target().strip_prefix("/bad/") {
                None => conn.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=koi8-r\r\nContent-Language: de\r\nSet-Cookie: a=b\r\n\
                     Content-Length: {}\r\n\r\n{page}",
                    page.len()
                ))?,
                Some("404") => conn.send("HTTP/1.1 404 X\r\nContent-Length: 6\r\n\r\nabsent")?,
                Some("long") => conn.send(ok(&"x".repeat(2049)))?,
                Some("chunked") => conn.send(format!(
                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n801\r\n{}\r\n0\r\n\r\n",
                    "x".repeat(2049)
                ))?,
                Some("cut") => {
                    conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")?;
                    return None;
                }
                Some("slow") => conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")?,
                Some(_) => return None,
            }
        }
    })
}

/// Answers with the status that is the path, and a body.
fn statuses() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let status = request.target().trim_start_matches('/').to_owned();
            conn.send(format!(
                "HTTP/1.1 {status} X\r\nRetry-After: 7\r\nX-Server: s\r\nContent-Length: 6\r\n\r\nsecret"
            ))?;
        }
    })
}

fn start(origin: &Origin, pages: &str, settings: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("page.html"), "of the file: {status}").expect("the folder takes files");
    let text = config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}{settings}
             upstream.pages = {{ servers = [{pages}], retry = {{ attempts_max = 1 }} }}
             upstream.down = {{ servers = [\"{CLOSED_PORT}\"], retry = {{ attempts_max = 1 }} }}
             upstream.app.retry.attempts_max = 1"
        ),
    );
    // What no route takes has no server.
    Weir::start_in(folder, &text.replace("listener.web.upstream = \"app\"\n", ""))
}

fn fetch(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

fn failed(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_listener_error_page_fetch_failures_total", &["listener=\"web\""])
}

#[test]
fn failures_of_weir_have_the_page_that_a_server_has() {
    let (origin, pages) = (Origin::serving("fine"), pages());
    let weir = start(
        &origin,
        &pages.entry(),
        "listener.web.error_pages = [{ status = \"400-599\", upstream = \"pages\" }]
         listener.web.route = [
            { path = \"/a\", upstream = \"down\", error_pages = [
                { status = \"502-504\", upstream = \"pages\", path = \"/{status}?from={path}&q={query.q}\", forward_host = \"pages.test\" },
            ] },
            { path = \"/c\", upstream = \"app\" },
         ]",
    );
    let response =
        fetch(&weir, "/a/b?q=a%20b", "Accept: text/html\r\nAccept-Language: de\r\nCookie: c=d\r\n");
    let status = response.status;
    assert!((502..=504).contains(&status), "{status}");
    assert_eq!(response.text(), format!("page of /{status}?from=/a/b&q=a%20b"));
    assert_eq!(response.field("content-type"), Some("text/html; charset=koi8-r"));
    assert_eq!(response.field("content-language"), Some("de"));
    assert_eq!(response.field("cache-control"), Some("no-store"));
    assert_eq!(response.field("set-cookie"), None);
    assert!(response.reason().is_some(), "the reason stays");
    let asked = pages.last_request();
    assert_eq!((asked.method(), asked.field("host")), ("GET", Some("pages.test")));
    assert_eq!((asked.field("accept"), asked.field("accept-language")), (Some("text/html"), Some("de")));
    assert_eq!(asked.field("cookie"), None);
    // One without a route, one that cannot be read, one whose body is still to come.
    let response = fetch(&weir, "/nowhere", "");
    assert_eq!((response.status, response.text().as_str()), (404, "page of /404.html"));
    assert_eq!(pages.last_request().field("host"), Some("a.test"));
    let response = Client::exchange(weir.web(), "GET / HTTP/1.1\r\n\r\n");
    assert_eq!((response.status, response.text().as_str()), (400, "page of /400.html"));
    let response =
        Client::exchange(weir.web(), "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100\r\n\r\nhalf");
    assert!(response.text().starts_with("page of /50"), "{}", response.text());
    // What goes well has none.
    assert_eq!(fetch(&weir, "/c", "").text(), "fine");
    let mut client = Client::connect(weir.web());
    client.send("HEAD /nowhere HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let head = client.response_to("HEAD");
    assert_eq!((head.status, head.field("content-length")), (404, Some("17")));
    // The connection goes on.
    assert_eq!(client.fetch("/nowhere").text(), "page of /404.html");
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/nowhere").text(), "page of /404.html");
    assert_eq!(failed(&weir), 0.0);
}

#[test]
fn calls_of_grpc_have_no_page() {
    let (origin, pages) = (Origin::serving("fine"), pages());
    let weir = start(
        &origin,
        &pages.entry(),
        "listener.web.error_pages = [{ status = \"400-599\", upstream = \"pages\", of_servers = true }]
         listener.web.route = [{ path = \"/a\", upstream = \"down\" }, { path = \"/b\", upstream = \"app\" }]",
    );
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/a", &[("content-type", "application/grpc"), ("te", "trailers")]);
    client.data(stream, b"\0\0\0\0\0", true);
    let response = client.response(stream);
    assert!(response.field("grpc-status").is_some(), "{response:?}");
    assert!(response.body.is_empty());
    assert!(pages.requests().is_empty());
}

#[test]
fn responses_of_servers_are_replaced_where_that_is_asked_for() {
    let (origin, pages) = (statuses(), pages());
    let weir = start(
        &origin,
        &pages.entry(),
        "listener.web.route = [{ path = \"/\", upstream = \"app\", error_pages = [
            { status = 404, upstream = \"pages\" },
            { status = \"500-503\", upstream = \"pages\", of_servers = true },
            { status = 504, upstream = \"pages\", path = \"/bad/404\", of_servers = true },
            { status = 505, upstream = \"pages\", path = \"/bad/404\", html = \"page.html\", of_servers = true },
         ] }]",
    );
    let mut client = Client::connect(weir.web());
    for _ in 0..2 {
        for (status, expected) in [
            (200, "secret"),
            (404, "secret"),
            (503, "page of /503.html"),
            // There is no page: what the server has said, or that of the file.
            (504, "secret"),
            (505, "of the file: 505"),
        ] {
            let response = client.fetch(&format!("/{status}"));
            assert_eq!((response.status, response.text().as_str()), (status, expected));
            assert_eq!(response.field("x-server").is_some(), expected == "secret");
            assert_eq!(response.field("retry-after"), Some("7"));
        }
    }
    assert_eq!(origin.connections(), 1, "the connection to the server goes on");
    assert_eq!(pages.connections(), 1);
    client.send("HEAD /503 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.response_to("HEAD").field("content-length"), Some("17"));
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/500").text(), "page of /500.html");
    // One that could not be fetched is not asked for again within a second.
    let failed = failed(&weir);
    assert!((1.0..4.0).contains(&failed), "{failed}");
}

#[test]
fn a_page_that_cannot_be_fetched_is_another_one_and_has_no_page_itself() {
    let (origin, pages) = (Origin::serving("fine"), pages());
    let page = |name: &str, more: &str| {
        format!(
            "{{ path = \"/{name}\", upstream = \"down\", error_pages = [
                {{ status = \"500-599\", upstream = \"pages\", path = \"/bad/{name}\", timeout = \"200ms\", body_size = \"2KiB\"{more} }},
            ] }},"
        )
    };
    let names = ["404", "long", "chunked", "cut", "slow", "none"];
    let routes: String = names.iter().map(|name| page(name, "")).collect();
    let with_file = page("file", ", html = \"page.html\"");
    let weir = start(
        &origin,
        &pages.entry(),
        &format!(
            "listener.web.error_pages = [{{ status = \"400-599\", upstream = \"pages\", path = \"/recursive\" }}]
             listener.web.route = [{routes}{with_file}
                {{ path = \"/down\", upstream = \"down\", error_pages = [{{ status = \"500-599\", upstream = \"down\" }}] }},
             ]"
        ),
    );
    for (count, name) in (1..).zip(names) {
        let response = fetch(&weir, &format!("/{name}"), "Accept: application/json\r\n");
        assert!((502..=504).contains(&response.status), "{name}");
        assert!(response.text().starts_with("{\"status\":50"), "{name}: {}", response.text());
        assert_eq!(failed(&weir), f64::from(count), "{name}");
    }
    let response = fetch(&weir, "/file", "Accept: text/html\r\n");
    assert_eq!(response.text(), format!("of the file: {}", response.status));
    // Of a server that is down, there is no page of the page.
    let response = fetch(&weir, "/down", "Accept: application/json\r\n");
    assert!(response.text().starts_with("{\"status\":50"), "{}", response.text());
    eventually("all are counted", || failed(&weir) == 8.0);
    assert!(!pages.targets().iter().any(|target| target == "/recursive"), "{:?}", pages.targets());
    weir.line(&["an error page could not be fetched", "status=404"]);
}

#[test]
fn a_page_is_fetched_when_the_time_of_the_exchange_is_over() {
    let pages = pages();
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.wait_for_end();
        None
    });
    let weir = start(
        &origin,
        &pages.entry(),
        "listener.web.route = [{ path = \"/\", upstream = \"app\", timeouts = { exchange = \"100ms\" }, error_pages = [
            { status = \"500-599\", upstream = \"pages\" },
         ] }]",
    );
    let response = fetch(&weir, "/", "");
    assert_eq!((response.status, response.text().as_str()), (504, "page of /504.html"));
}

/// Answers with these fields and the number of the request as the page, once `gate` is open.
fn counting(fields: &'static str, gate: Option<Gate>) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |conn| {
        loop {
            conn.request()?;
            let number = format!("page {}", count.fetch_add(1, Ordering::Relaxed) + 1);
            if let Some(gate) = &gate {
                gate.wait("the page");
            }
            conn.send(format!(
                "HTTP/1.1 200 X\r\nContent-Type: text/html\r\n{fields}Content-Length: {}\r\n\r\n{number}",
                number.len()
            ))?;
        }
    })
}

const ALL_PAGES: &str = "listener.web.error_pages = [{ status = \"400-599\", upstream = \"pages\" }]
     listener.web.route = [{ path = \"/a\", upstream = \"app\" }]";

#[test]
fn a_burst_of_failures_makes_one_request_for_the_page() {
    let gate = Gate::new();
    let (origin, pages) = (Origin::serving("fine"), counting("", Some(gate.clone())));
    let weir = start(&origin, &pages.entry(), &format!("process.workers = 2\n{ALL_PAGES}"));
    let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(weir.web())).collect();
    for client in &mut clients {
        client.send("GET /nowhere HTTP/1.1\r\nHost: a.test\r\n\r\n");
    }
    // One that leaves does not take the page of the others with it.
    let leaving = clients.remove(0);
    eventually("all wait for the page", || {
        weir.metrics().sum("weir_listener_connections_open", &["listener=\"web\""]) == 10.0
            && !pages.requests().is_empty()
    });
    drop(leaving);
    gate.open();
    for client in &mut clients {
        let response = client.response();
        assert_eq!((response.status, response.field("content-type")), (404, Some("text/html")));
        assert!(response.text().starts_with("page "), "{}", response.text());
    }
    // The one that left may have been the one that fetched it.
    assert!(pages.requests().len() <= 2, "{:?}", pages.targets());
    // Another host, another status: another page.
    let before = pages.requests().len();
    Client::exchange(weir.web(), "GET /nowhere HTTP/1.1\r\nHost: b.test\r\n\r\n");
    assert_eq!(pages.requests().len(), before + 1);
}

#[test]
fn a_page_is_used_for_as_long_as_it_says() {
    let origin = Origin::serving("fine");
    let texts = |weir: &Weir| [(); 3].map(|()| fetch(weir, "/nowhere", "Accept-Language: de\r\n").text());
    for (fields, settings, expected) in [
        ("", ALL_PAGES.to_owned(), ["page 1", "page 1", "page 1"]),
        (
            "Cache-Control: max-age=30\r\nSet-Cookie: a=b\r\n",
            ALL_PAGES.to_owned(),
            ["page 1", "page 1", "page 1"],
        ),
        ("Cache-Control: no-store\r\n", ALL_PAGES.to_owned(), ["page 1", "page 2", "page 3"]),
        ("", ALL_PAGES.replace("\"pages\" }", "\"pages\", ttl = \"0s\" }"), ["page 1", "page 2", "page 3"]),
    ] {
        let pages = counting(fields, None);
        let weir = start(&origin, &pages.entry(), &settings);
        assert_eq!(texts(&weir), expected, "{fields}{settings}");
    }
    let pages = counting("Vary: Accept-Language\r\n", None);
    let weir = start(&origin, &pages.entry(), ALL_PAGES);
    assert_eq!(texts(&weir), ["page 1"; 3]);
    assert_eq!(fetch(&weir, "/nowhere", "Accept-Language: fr\r\n").text(), "page 2");
    assert_eq!(texts(&weir), ["page 1"; 3]);
    // Fetched anew when its time is over.
    let pages = counting("", None);
    let weir =
        start(&origin, &pages.entry(), &ALL_PAGES.replace("\"pages\" }", "\"pages\", ttl = \"20ms\" }"));
    assert_eq!(fetch(&weir, "/nowhere", "").text(), "page 1");
    eventually("it is fetched anew", || fetch(&weir, "/nowhere", "").text() == "page 2");
}

#[test]
fn a_page_of_before_is_sent_while_the_server_of_the_pages_fails() {
    let origin = Origin::serving("fine");
    let fails = Arc::<AtomicBool>::default();
    let failing = Arc::clone(&fails);
    let pages = Origin::start(move |conn| {
        loop {
            conn.request()?;
            match failing.load(Ordering::Relaxed) {
                false => conn.send(ok("page"))?,
                true => conn.send("HTTP/1.1 500 X\r\nContent-Length: 4\r\n\r\ndown")?,
            }
        }
    });
    let settings = ALL_PAGES.replace("\"pages\" }", "\"pages\", ttl = \"20ms\" }");
    let weir = start(&origin, &pages.entry(), &settings);
    assert_eq!(fetch(&weir, "/nowhere", "").text(), "page");
    fails.store(true, Ordering::Relaxed);
    eventually("it was asked for again", || {
        assert_eq!(fetch(&weir, "/nowhere", "").text(), "page");
        failed(&weir) > 0.0
    });
    // Without one of before, Weir's own is sent, and the server is left alone for a moment.
    let asked = pages.requests().len();
    for _ in 0..5 {
        let other = Client::exchange(weir.web(), "GET /nowhere HTTP/1.1\r\nHost: other.test\r\n\r\n");
        assert!(other.status == 404 && other.text() != "page");
    }
    assert!(pages.requests().len() < asked + 5, "{:?}", pages.targets());
}
