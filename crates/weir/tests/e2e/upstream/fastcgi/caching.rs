//! Responses of scripts are stored as those of servers of HTTP are: pages for visitors, not for those who have logged in.

use std::sync::mpsc::Receiver;

use crate::harness::fastcgi::{FastcgiRequest, response};
use crate::harness::{Client, Origin, Response, Weir, eventually};

use super::{server, start};

/// A site with a cache; what the script answers is up to the query.
fn site_with_cache() -> (Weir, Origin, Receiver<FastcgiRequest>) {
    let (origin, requests) = server(|request| {
        let fields = match request.param("QUERY_STRING") {
            Some("etag") => "Cache-Control: max-age=0\r\nETag: \"v1\"\r\n",
            Some("refresh") => "Cache-Control: max-age=0, stale-while-revalidate=60\r\n",
            Some("private") => "Cache-Control: private\r\n",
            _ => "",
        };
        let is_known = request.param("HTTP_IF_NONE_MATCH") == Some("\"v1\"");
        let status = if is_known { "Status: 304 Not Modified\r\n" } else { "" };
        response(&format!("{status}{fields}Content-Type: text/plain\r\n\r\n{}", request.script()))
    });
    let route = "files = { root = \"site\", try_files = [\"{path}\", \"/index.php\"] }
         cache = { name = \"pages\", ttl = [{ status = 200, time = \"1m\" }], bypass = [\"{cookie.login}\"] }";
    let weir = start(&origin, route, "cache.pages.memory = \"32MiB\"");
    (weir, origin, requests)
}

fn get(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

#[test]
fn pages_of_scripts_are_stored() {
    let (weir, _origin, requests) = site_with_cache();
    for _ in 0..3 {
        let page = get(&weir, "/2026/a-post/", "");
        assert_eq!((page.status, page.text().as_str()), (200, "/index.php - "));
    }
    assert!(requests.try_recv().is_ok() && requests.try_recv().is_err(), "one for all");
    let head = Client::exchange(weir.web(), "HEAD /2026/a-post/ HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert!(head.field("cache-status").is_some_and(|status| status.starts_with("weir; hit")));
    let part = get(&weir, "/2026/a-post/", "Range: bytes=1-5\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "index"));
    assert!(requests.try_recv().is_err());
    // A request with the cookie of a login, another path, a file, a form.
    assert!(get(&weir, "/2026/a-post/", "Cookie: login=1\r\n").field("cache-status").is_some());
    assert!(requests.try_recv().is_ok());
    assert_eq!(get(&weir, "/about.php", "").text(), "/about.php - ");
    assert!(requests.try_recv().is_ok());
    assert_eq!(get(&weir, "/style.css", "").field("cache-status"), None);
    assert!(requests.try_recv().is_err());
    let form = "POST /about.php HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\na=1";
    assert_eq!(Client::exchange(weir.web(), form).status, 200);
    assert_eq!(requests.try_recv().map(|request| request.body).as_deref(), Ok(&b"a=1"[..]));
    get(&weir, "/about.php", "");
    assert!(requests.try_recv().is_ok(), "the form has changed it");
}

#[test]
fn scripts_confirm_and_refresh_what_is_stored() {
    let (weir, _origin, requests) = site_with_cache();
    get(&weir, "/?etag", "");
    let confirmed = get(&weir, "/?etag", "");
    assert_eq!((confirmed.status, confirmed.text().as_str()), (200, "/index.php - etag"));
    assert!(confirmed.field("cache-status").is_some_and(|status| status.contains("fwd-status=304")));
    assert_eq!(requests.try_iter().count(), 2);
    get(&weir, "/?refresh", "");
    assert_eq!(get(&weir, "/?refresh", "").text(), "/index.php - refresh");
    eventually("it was refreshed behind the client", || {
        weir.metrics().sum("weir_cache_refreshes_total", &[]) >= 1.0
    });
    let asked: Vec<String> = requests.try_iter().map(|request| request.script()).collect();
    assert!(asked.len() >= 2 && asked.iter().all(|script| script == "/index.php - refresh"), "{asked:?}");
    for _ in 0..2 {
        assert_eq!(get(&weir, "/?private", "").text(), "/index.php - private");
    }
    assert_eq!(requests.try_iter().count(), 2);
}
