//! `expires`: how long clients may keep responses, by media type, status and origin, beside the cache, files and what servers say.

use std::time::Duration;

use crate::harness::http2::H2C;
use crate::harness::{Client, Http2Client, Origin, Response, Weir, config_with, temporary_folder};

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

fn start(origin: &Origin, expires: &str, more: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}cache.pages.memory = \"4MiB\"
             cache.pages.response_max = \"1MiB\"
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             expires = {expires}
             {more}"
        ),
    ))
}

/// Answers with the status and the fields of the query, which are percent-encoded: `/?200&Content-Type:%20text/css`.
fn scripted() -> Origin {
    Origin::start(|conn| {
        loop {
            let target = conn.request()?.target().replace("%20", " ").replace("%22", "\"");
            let mut parts = target.trim_start_matches("/?").split('&');
            let status = parts.next().unwrap_or("200").to_owned();
            let fields = parts.filter(|field| field.contains(':'));
            let fields: String = fields.map(|field| format!("{field}\r\n")).collect();
            conn.send(format!("HTTP/1.1 {status} x\r\n{fields}Content-Length: 0\r\n\r\n"))?;
        }
    })
}

/// `Cache-Control` in all its lines, and whether there is an `Expires`.
fn shown(response: &Response) -> (String, bool) {
    let lines = response.fields().all("cache-control");
    (lines.join(" | "), response.field("expires").is_some())
}

#[test]
fn times_by_type_and_status() {
    let origin = scripted();
    let by_type =
        "{ \"text/html\" = \"epoch\", \"image/*\" = \"30d\", \"image/svg+xml\" = \"off\", default = \"1h\" }";
    for (expires, target, expected, has_date) in [
        ("\"1h\"", "/?200", "max-age=3600", true),
        ("\"1h\"", "/?304", "max-age=3600", true),
        ("\"1h\"", "/?404", "", false),
        ("\"1h\"", "/?500", "", false),
        ("\"max\"", "/?200", "max-age=315360000", true),
        ("\"epoch\"", "/?200", "no-cache", true),
        ("\"off\"", "/?200&Cache-Control:%20max-age=5", "max-age=5", false),
        // What a server says of how long it is fresh gives way, what it forbids does not, and all else stays.
        ("\"1h\"", "/?200&Cache-Control:%20max-age=5,%20public&Expires:%20x", "max-age=3600, public", true),
        ("\"1h\"", "/?200&Cache-Control:%20private", "private", false),
        ("\"1h\"", "/?200&Cache-Control:%20a&Cache-Control:%20No-Store", "a | No-Store", false),
        (
            "[{ time = \"1h\", override_server = true }]",
            "/?200&Cache-Control:%20no-store",
            "max-age=3600",
            true,
        ),
        (by_type, "/?200&Content-Type:%20text/html;%20charset=utf-8", "no-cache", true),
        (by_type, "/?200&Content-Type:%20image/png", "max-age=2592000", true),
        (by_type, "/?200&Content-Type:%20image/svg%2Bxml", "max-age=2592000", true),
        (by_type, "/?200&Content-Type:%20image/svg+xml", "", false),
        (by_type, "/?200&Content-Type:%20text/css", "max-age=3600", true),
        (by_type, "/?200", "max-age=3600", true),
        (
            "[{ time = \"10s\", status = 404 }, { time = \"1m\", status = [\"4xx\", \"success\"] }]",
            "/?404",
            "max-age=10",
            true,
        ),
        (
            "[{ time = \"10s\", status = 404 }, { time = \"1m\", status = [\"4xx\", \"success\"] }]",
            "/?410",
            "max-age=60",
            true,
        ),
        (
            "[{ time = \"1m\", from = \"file\" }, { time = \"2m\", from = \"server\" }]",
            "/?200",
            "max-age=120",
            true,
        ),
        (
            "[{ time = \"1m\", when = 'query[\"x\"] == \"1\"' }, { time = \"2m\" }]",
            "/?200",
            "max-age=120",
            true,
        ),
        (
            "[{ time = \"1m\", when = 'query[\"x\"] == \"1\"' }, { time = \"2m\" }]",
            "/?200&x=1",
            "max-age=60",
            true,
        ),
    ] {
        let weir = start(&origin, expires, "");
        let first = get(&weir, target, "");
        assert_eq!(shown(&first), (expected.to_owned(), has_date), "{expires} {target}");
        let mut client = Http2Client::connect(weir.web());
        let stream = client.get(target);
        let second = client.response(stream);
        if first.fields().all("cache-control").len() < 2 {
            assert_eq!(
                second.field("cache-control"),
                first.field("cache-control"),
                "HTTP/2: {expires} {target}"
            );
        }
    }
}

#[test]
fn a_rule_for_headers_counts_behind_it_and_a_cookie_stays_private() {
    let origin = scripted();
    let weir = start(&origin, "\"1h\"", "response_headers = { set = { cache-control = \"max-age=7\" } }");
    assert_eq!(shown(&get(&weir, "/?200", "")).0, "max-age=7");
    let weir = start(&origin, "\"1h\"", "response_headers = { set = { cache-control = \"no-store\" } }");
    assert_eq!(shown(&get(&weir, "/?404", "")).0, "no-store");
    let weir = start(&origin, "\"1h\"", "[upstream.app.affinity]\ncookie = \"srv\"");
    let response = get(&weir, "/?200", "");
    assert!(response.field("set-cookie").is_some());
    assert_eq!(shown(&response).0, "private | max-age=3600");
}

/// What is stored is what the server has sent; what a client gets counts from when it gets it.
#[test]
fn a_stored_response_is_as_fresh_to_its_client_as_a_new_one() {
    let origin = scripted();
    let weir =
        start(&origin, "\"1h\"", "cache = { name = \"pages\", ttl = [{ status = 200, time = \"1d\" }] }");
    let target = "/?200&Age:%20100&Cache-Control:%20max-age=500&ETag:%20%22a%22";
    let first = get(&weir, target, "");
    // Another cache on the way has had it for 100 s already.
    assert_eq!(shown(&first).0, "max-age=3700");
    let second = get(&weir, target, "");
    let age: u64 = second.field("age").expect("it is stored").parse().expect("it is a number");
    assert!((100..200).contains(&age), "{age}");
    assert_eq!(shown(&second).0, format!("max-age={}", 3600 + age));
    let third = get(&weir, target, "If-None-Match: \"a\"\r\n");
    assert_eq!(third.status, 304);
    let age: u64 = third.field("age").expect("it is stored").parse().expect("it is a number");
    assert_eq!(shown(&third), (format!("max-age={}", 3600 + age), true));
    assert_eq!(origin.requests().len(), 1, "`expires` does not shorten what is stored");
}

#[test]
fn files_and_their_304() {
    let folder = temporary_folder();
    std::fs::write(folder.path().join("a.css"), "body {}").expect("the folder is writable");
    std::fs::write(folder.path().join("a.html"), "<p>").expect("the folder is writable");
    let path = folder.path().join("a.html");
    let file = std::fs::File::options().write(true).open(path).expect("it was just written");
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    let then = epoch.elapsed().expect("it is after 1970") - Duration::from_secs(600);
    let old = folder.path().join("old.html");
    std::fs::write(&old, "<p>").expect("the folder is writable");
    let old = std::fs::File::options().write(true).open(old).expect("it was just written");
    old.set_modified(epoch + Duration::from_secs(86_400)).expect("the time of a file can be set");
    file.set_modified(epoch + then).expect("the time of a file can be set");
    let weir = Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"
         [listener.web]
         address = \"127.0.0.1:0\"
         route = [{{ path = \"/\", files = {{ root = \"{}\" }},
           expires = {{ \"text/css\" = \"10m\", \"text/html\" = \"modified+1h\" }} }}]",
        folder.path().display()
    ));
    let first = get(&weir, "/a.css", "");
    assert_eq!(shown(&first), ("max-age=600".to_owned(), true));
    let etag = first.field("etag").expect("a file has one").to_owned();
    let second = get(&weir, "/a.css", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((second.status, shown(&second)), (304, ("max-age=600".to_owned(), true)));
    let part = get(&weir, "/a.css", "Range: bytes=0-1,3-4\r\n");
    assert_eq!((part.status, shown(&part).0.as_str()), (206, "max-age=600"));
    let (modified, _) = shown(&get(&weir, "/a.html", ""));
    let left: u64 = modified.trim_start_matches("max-age=").parse().expect("it is a number");
    assert!((2900..=3000).contains(&left), "{left}");
    // Of long ago: stale by either field.
    let old = get(&weir, "/old.html", "");
    assert_eq!(
        (shown(&old).0.as_str(), old.field("expires")),
        ("max-age=0", Some("Fri, 02 Jan 1970 01:00:00 GMT"))
    );
    assert!(!shown(&get(&weir, "/none.css", "")).1);
}

#[test]
fn dates_of_nginx() {
    let origin = scripted();
    let weir = start(&origin, "\"max\"", "");
    let far = get(&weir, "/?200", "");
    assert_eq!(
        (shown(&far).0.as_str(), far.field("expires")),
        ("max-age=315360000", Some("Thu, 31 Dec 2037 23:55:55 GMT"))
    );
    let weir = start(&origin, "\"@15h30m33s\"", "");
    let mut client = Http2Client::connect(weir.web());
    for response in [get(&weir, "/?200", "").fields().all("expires").join(""), {
        let response = client.fetch("/?200");
        response.fields.all("expires").join("")
    }] {
        assert!(response.ends_with(" 15:30:33 GMT"), "{response}");
    }
    let left: u64 =
        shown(&get(&weir, "/?200", "")).0.trim_start_matches("max-age=").parse().expect("a number");
    assert!((0..=86_400).contains(&left), "{left}");
}
