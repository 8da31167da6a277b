//! `cache`: responses are stored and used again (RFC 9111), fetched once for all, and forgotten when they have to be.

mod broken_off;
mod disk;
mod head;
mod pages;
mod partitions;
mod ranges;
mod rules;
mod sources;
mod stale_status;
mod status;
mod vary;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::http2::H2C;
use crate::harness::{Client, Gate, Http2Client, Origin, Response, Weir, config_with, eventually};

/// A Weir whose only route stores what it gets from `origin`; `keys` are those of the route's `cache`.
pub(super) fn start(origin: &Origin, keys: &str, more: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "{H2C}{more}\n
             cache.pages.memory = \"4MiB\"
             cache.pages.response_max = \"1MiB\"
             listener.web.route = [{{ path = \"/\", upstream = \"app\", cache = {{ name = \"pages\" {keys} }} }}]"
        ),
    ))
}

/// Answers with these fields and the number of the request as the body.
pub(super) fn counting(fields: &'static str) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |conn| {
        loop {
            conn.request()?;
            let number = (count.fetch_add(1, Ordering::Relaxed) + 1).to_string();
            let length = number.len();
            conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n{number}"))?;
        }
    })
}

pub(super) fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

pub(super) fn status(response: &Response) -> &str {
    response.field("cache-status").unwrap_or_default()
}

/// The seconds for which a response that was fetched is stored, rounded up to tens.
fn kept(response: &Response) -> Option<u64> {
    let ttl = status(response).strip_prefix("weir; fwd=uri-miss; ttl=")?.strip_suffix("; stored")?;
    Some(ttl.parse::<u64>().ok()?.next_multiple_of(10))
}

fn results(weir: &Weir, result: &str) -> f64 {
    weir.metrics().sum("weir_cache_requests_total", &[&format!("result=\"{result}\"")])
}

#[test]
fn what_is_fresh_comes_from_the_cache() {
    let origin = counting("Cache-Control: max-age=60\r\nX-Own: yes\r\n");
    let weir = start(&origin, "", "");
    let first = get(&weir, "/a?x=1", "");
    assert_eq!((first.status, first.text()), (200, "1".to_owned()));
    assert_eq!(kept(&first), Some(60));
    assert_eq!(first.field("age"), None);
    for _ in 0..3 {
        let hit = get(&weir, "/a?x=1", "");
        assert_eq!((hit.status, hit.text()), (200, "1".to_owned()));
        assert!(status(&hit).starts_with("weir; hit; ttl="), "{}", status(&hit));
        assert_eq!((hit.field("age"), hit.field("x-own")), (Some("0"), Some("yes")));
        assert_eq!(hit.field("content-length"), Some("1"));
    }
    // Over HTTP/2, and for HEAD.
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get("/a?x=1");
    assert_eq!(client.response(stream).text(), "1");
    let head = Client::exchange(weir.web(), "HEAD /a?x=1 HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!((head.status, head.field("content-length"), head.text()), (200, Some("1"), String::new()));
    // Another query, host or path is another response.
    assert_eq!(get(&weir, "/a?x=2", "").text(), "2");
    assert_eq!(Client::exchange(weir.web(), "GET /a?x=1 HTTP/1.1\r\nHost: b.test\r\n\r\n").text(), "3");
    assert_eq!(origin.requests().len(), 3);
    eventually("hits are counted", || results(&weir, "hit") == 5.0);
    assert_eq!(results(&weir, "miss"), 3.0);
    assert_eq!(weir.metrics().sum("weir_cache_responses", &[]), 3.0);
}

#[test]
fn what_may_not_be_stored_is_not() {
    for (fields, detail) in [
        ("Cache-Control: no-store\r\n", "no-store"),
        ("Cache-Control: private\r\n", "private"),
        ("Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n", "set-cookie"),
        ("Cache-Control: max-age=60\r\nVary: *\r\n", "vary"),
        ("", ""),
    ] {
        let origin = counting(fields);
        let weir = start(&origin, "", "");
        let first = get(&weir, "/", "");
        assert!(status(&first).starts_with("weir; fwd=uri-miss"), "{fields}: {}", status(&first));
        assert!(status(&first).contains(detail), "{fields}: {}", status(&first));
        assert_eq!(get(&weir, "/", "").text(), "2", "{fields}");
    }
    // With credentials only if the response says so.
    for (fields, second) in [("Cache-Control: max-age=60\r\n", "2"), ("Cache-Control: s-maxage=60\r\n", "1")]
    {
        let origin = counting(fields);
        let weir = start(&origin, "", "");
        get(&weir, "/", "Authorization: Basic YTpi\r\n");
        assert_eq!(get(&weir, "/", "Authorization: Basic YTpi\r\n").text(), second, "{fields}");
    }
}

#[test]
fn the_operator_says_how_long() {
    let origin = counting("");
    let weir = start(&origin, ", ttl = [{ status = 200, time = \"1h\" }]", "");
    assert_eq!(kept(&get(&weir, "/", "")), Some(3600));
    assert_eq!(get(&weir, "/", "").text(), "1");
    let origin = counting("Cache-Control: no-store\r\n");
    let weir = start(&origin, ", override_ttl = true, ttl = [{ status = \"200-299\", time = \"1h\" }]", "");
    get(&weir, "/", "");
    assert_eq!(get(&weir, "/", "").text(), "1");
    // Some requests have nothing to do with the cache.
    let origin = counting("Cache-Control: max-age=60\r\n");
    let weir = start(&origin, ", bypass = [\"{cookie.session}\", \"{header.x-preview}\"]", "");
    get(&weir, "/", "");
    for (fields, text) in
        [("Cookie: session=a\r\n", "2"), ("X-Preview: 1\r\n", "3"), ("X-Preview: 0\r\n", "1"), ("", "1")]
    {
        assert_eq!(get(&weir, "/", fields).text(), text, "{fields}");
    }
    eventually("they are counted", || results(&weir, "bypass") == 2.0);
}

#[test]
fn variants_are_told_apart() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let language = request.field("accept-language").unwrap_or("none").to_owned();
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nVary: Accept-Language\r\nContent-Length: {}\r\n\r\n{language}",
                language.len()
            ))?;
        }
    });
    let weir = start(&origin, "", "");
    for round in 0..2 {
        for language in ["de", "en", "fr"] {
            let response = get(&weir, "/", &format!("Accept-Language: {language}\r\n"));
            assert_eq!(response.text(), language);
            assert_eq!(status(&response).contains("hit"), round == 1, "{}", status(&response));
        }
    }
    assert_eq!(origin.requests().len(), 3);
}

#[test]
fn a_stale_response_is_confirmed() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(match request.field("if-none-match") {
                Some("\"v1\"") => "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\nX-New: yes\r\nCache-Control: max-age=60\r\n\r\n",
                Some(_) => "HTTP/1.1 500 Wrong\r\nContent-Length: 0\r\n\r\n",
                None => "HTTP/1.1 200 OK\r\nETag: \"v1\"\r\nCache-Control: max-age=0\r\nContent-Length: 5\r\n\r\nhello",
            })?;
        }
    });
    let weir = start(&origin, "", "");
    get(&weir, "/", "");
    // What the client has is not what is asked about.
    let confirmed = get(&weir, "/", "If-None-Match: \"other\"\r\n");
    assert_eq!((confirmed.status, confirmed.text()), (200, "hello".to_owned()));
    assert!(
        status(&confirmed).starts_with("weir; fwd=stale; fwd-status=304; ttl="),
        "{}",
        status(&confirmed)
    );
    assert_eq!(confirmed.field("x-new"), Some("yes"));
    let hit = get(&weir, "/", "If-None-Match: \"v1\"\r\n");
    assert_eq!((hit.status, hit.field("etag")), (304, Some("\"v1\"")));
    let part = get(&weir, "/", "Range: bytes=1-2\r\n");
    assert_eq!((part.status, part.text()), (206, "el".to_owned()));
    assert_eq!(part.field("content-range"), Some("bytes 1-2/5"));
    assert_eq!(get(&weir, "/", "Range: bytes=9-\r\n").status, 416);
    assert_eq!(origin.requests().len(), 2);
    eventually("it is counted", || results(&weir, "revalidated") == 1.0);
}

#[test]
fn one_request_fetches_for_all() {
    let gate = Gate::new();
    let opened = gate.clone();
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nhello")?;
            opened.wait("the rest of the body");
            conn.send("world")?;
        }
    });
    let weir = start(&origin, "", "process.workers = 2");
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(weir.web())).collect();
    for client in &mut clients {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    }
    eventually("all wait for the body", || {
        weir.metrics().sum("weir_listener_connections_open", &["listener=\"web\""]) == 8.0
            && !origin.requests().is_empty()
    });
    // The first one leaves, and the others get the whole all the same.
    drop(clients.remove(0));
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().text(), "helloworld");
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_stale_response_is_better_than_none() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(match count.fetch_add(1, Ordering::Relaxed) {
                0 => "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nCache-Control: max-age=0, stale-if-error=60\r\nContent-Length: 4\r\n\r\nbody",
                1 => "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy",
                _ => return None,
            })?;
        }
    });
    let weir = start(&origin, "", "upstream.app.retry.attempts_max = 1");
    get(&weir, "/", "");
    let instead = get(&weir, "/", "");
    assert_eq!((instead.status, instead.text()), (200, "body".to_owned()));
    assert!(status(&instead).contains("fwd=stale; fwd-status=503"), "{}", status(&instead));
    // So it is without any response.
    let instead = get(&weir, "/", "");
    assert_eq!((instead.status, instead.text()), (200, "body".to_owned()));
    assert!(status(&instead).contains("detail=\"response-closed\""), "{}", status(&instead));
    eventually("both are counted", || results(&weir, "stale") == 2.0);
}

#[test]
fn a_stale_response_is_refreshed_behind_the_client() {
    let origin = counting("Cache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"x\"\r\n");
    let weir = start(&origin, "", "");
    assert_eq!(get(&weir, "/", "").text(), "1");
    let stale = get(&weir, "/", "Range: bytes=0-0\r\n");
    assert_eq!((stale.status, stale.text()), (206, "1".to_owned()));
    eventually("it is refreshed", || weir.metrics().sum("weir_cache_refreshes_total", &[]) == 1.0);
    let refresh = origin.last_request();
    assert_eq!((refresh.field("if-none-match"), refresh.field("range")), (Some("\"x\""), None));
    assert_eq!(get(&weir, "/", "").text(), "2");
}

#[test]
fn what_changes_something_is_forgotten() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.method() == "POST" {
                conn.send("HTTP/1.1 303 See Other\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")?;
                continue;
            }
            let number = (count.fetch_add(1, Ordering::Relaxed) + 1).to_string();
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: {}\r\n\r\n{number}",
                number.len()
            ))?;
        }
    });
    let weir = start(&origin, "", "");
    let numbers = |weir: &Weir| ["/", "/other", "/third"].map(|path| get(weir, path, "").text());
    assert_eq!(numbers(&weir), ["1", "2", "3"]);
    assert_eq!(numbers(&weir), ["1", "2", "3"]);
    Client::exchange(weir.web(), "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(numbers(&weir), ["4", "5", "3"]);
}

#[test]
fn purges_are_about_keys_prefixes_and_tags() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let number = (count.fetch_add(1, Ordering::Relaxed) + 1).to_string();
            let tag = request.target().trim_start_matches('/').replace('/', "-");
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nCache-Tag: all, {tag}\r\nContent-Length: {}\r\n\r\n{number}",
                number.len()
            ))?;
        }
    });
    let weir = start(&origin, "", "admin.socket = \"unix:{dir}/weir.sock\"");
    let texts = |weir: &Weir| ["/n/1", "/n/2", "/o/1"].map(|path| get(weir, path, "").text());
    assert_eq!(texts(&weir), ["1", "2", "3"]);
    let purge = |words: &[&str]| {
        let words: Vec<&str> = ["ctl", "purge", "pages"].iter().chain(words).copied().collect();
        weir.run_over_socket(&words)
    };
    assert_eq!(purge(&["--key", "http://a.test/n/1"]).stdout, "pages: 1 responses removed\n");
    assert_eq!(texts(&weir), ["4", "2", "3"]);
    assert_eq!(purge(&["--prefix", "http://a.test/n/"]).stdout, "pages: 2 responses removed\n");
    assert_eq!(texts(&weir), ["5", "6", "3"]);
    assert_eq!(purge(&["--tag", "o-1"]).stdout, "pages: 1 responses removed\n");
    assert_eq!(texts(&weir), ["5", "6", "7"]);
    assert_eq!(purge(&["--all", "--soft"]).stdout, "pages: 3 responses marked stale\n");
    assert_eq!(texts(&weir), ["8", "9", "10"]);
    assert_eq!(purge(&["--all"]).stdout, "pages: 3 responses removed\n");
    assert!(purge(&[]).stderr.contains("--all"), "one of them is needed");
    let shown = weir.run_over_socket(&["ctl", "caches"]);
    assert!(shown.stdout.starts_with("pages: 0 responses, "), "{}", shown.stdout);
}

#[test]
fn large_responses_pass_and_small_ones_survive_a_reload() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let len: usize = request.target().trim_start_matches('/').parse().unwrap_or(0);
            conn.send("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            for at in (0..len).step_by(50_000) {
                let part = "x".repeat(50_000.min(len - at));
                conn.send(format!("{:x}\r\n{part}\r\n", part.len()))?;
            }
            conn.send("0\r\n\r\n")?;
        }
    });
    let weir = start(&origin, "", "");
    for len in [3_000_000, 100_000] {
        for _ in 0..2 {
            let response = get(&weir, &format!("/{len}"), "");
            assert_eq!(response.body.bytes.len(), len);
            assert!(response.body.bytes.iter().all(|byte| *byte == b'x'));
        }
    }
    assert_eq!(origin.requests().len(), 3, "the small one is stored");
    weir.hang_up("the config was reloaded");
    assert!(status(&get(&weir, "/100000", "")).contains("hit"));
    assert_eq!(origin.requests().len(), 3);
    eventually("nothing is left of the large one", || {
        weir.metrics().sum("weir_cache_memory_bytes", &[]) < 200_000.0
    });
}

#[test]
fn large_bodies_are_the_same_however_they_are_sent() {
    // No piece looks like another.
    let body: Vec<u8> =
        (0..900_000_u32).flat_map(|number| number.to_le_bytes()).skip(1).take(900_000).collect();
    let served = body.clone();
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let len: usize = request.target().trim_start_matches('/').parse().unwrap_or(0);
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Type: text/plain\r\nContent-Length: {len}\r\n\r\n"
            ))?;
            conn.send(&served[..len])?;
        }
    });
    let weir = start(&origin, "", "admin.socket = \"unix:{dir}/weir.sock\"");
    let mut http2 = Http2Client::connect(weir.web());
    for len in [1_000, 31_000, 100_000, 300_000, 900_000] {
        let target = format!("/{len}");
        for _ in 0..3 {
            let response = get(&weir, &target, "");
            assert!(response.body.bytes == body[..len], "{len} bytes over HTTP/1");
        }
        assert!(http2.fetch(&target).body == body[..len], "{len} bytes over HTTP/2");
        let (start, end) = (len / 3, len - 10);
        let part = get(&weir, &target, &format!("Range: bytes={start}-{end}\r\n"));
        assert_eq!(part.status, 206);
        assert!(part.body.bytes == body[start..=end], "part of {len} bytes");
        let parts = get(&weir, &target, &format!("Range: bytes=0-9,{start}-{end}\r\n"));
        assert_eq!(parts.status, 206);
        for wanted in [&body[..10], &body[start..=end]] {
            let has_it = parts.body.bytes.windows(wanted.len()).any(|bytes| bytes == wanted);
            assert!(has_it, "{} of {len} bytes among others", wanted.len());
        }
    }
    assert_eq!(origin.requests().len(), 5, "each is fetched once");
    // What is purged is gone from memory, too.
    let held = || weir.metrics().sum("weir_cache_memory_bytes", &[]);
    eventually("the bodies are counted", || held() >= 1_332_000.0);
    assert_eq!(weir.run_over_socket(&["ctl", "purge", "pages", "--all"]).code, Some(0));
    eventually("nothing is left", || held() < 10_000.0);
}

/// Headers of the route can say what the cache did, and which server was asked.
#[test]
fn headers_say_what_the_cache_did() {
    let origin = counting("Cache-Control: max-age=60\r\nX-Own: yes\r\n");
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        "cache.pages = { memory = \"4MiB\", response_max = \"1MiB\" }
         listener.web.route = [{ path = \"/\", upstream = \"app\", cache = \"pages\", response_headers.set = { x-cache = \"{cache}\", x-server = \"{server}\", x-copied = \"{response.header.x-own}\" } }]",
    ));
    let shown = |response: &Response| {
        ["x-cache", "x-server", "x-copied"].map(|name| response.field(name).unwrap_or("-").to_owned())
    };
    assert_eq!(shown(&get(&weir, "/", "")), ["miss", "a", "yes"]);
    assert_eq!(shown(&get(&weir, "/", "")), ["hit", "-", "yes"]);
    let post = Client::exchange(weir.web(), "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(shown(&post), ["bypass", "a", "yes"]);
}

#[test]
fn the_log_says_what_the_cache_did() {
    let origin = counting("Cache-Control: no-store\r\n");
    let weir = start(
        &origin,
        "",
        "access_log = { output = \"file:{dir}/access.log\", format = \"{path} {cache} {cache.reason}\" }",
    );
    get(&weir, "/a", "");
    assert_eq!(weir.access_log(1), ["/a miss no-store"]);
}
