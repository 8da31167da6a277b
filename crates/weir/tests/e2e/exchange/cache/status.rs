//! `{cache.status}`: the words of `$upstream_cache_status` of nginx.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::{counting, get, start};
use crate::harness::{Http2Client, Origin, eventually};

const SHOWN: &str = "listener.web.response_headers.set = { x-cache = \"{cache.status}\" }\n\
    access_log.format = '{cache.status}'\naccess_log.output = \"file:{dir}/access.log\"\n";

#[test]
fn what_is_stale_is_expired_and_not_missing() {
    let origin = counting("Cache-Control: max-age=1\r\n");
    let weir = start(&origin, "", SHOWN);
    assert_eq!(get(&weir, "/", "").field("x-cache"), Some("MISS"));
    assert_eq!(get(&weir, "/", "").field("x-cache"), Some("HIT"));
    eventually("it is stale", || get(&weir, "/", "").field("x-cache") == Some("EXPIRED"));
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/other").field("x-cache"), Some("MISS"));
    let log = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default();
    eventually("the log has all of them", || {
        ["MISS", "HIT", "EXPIRED"].iter().all(|word| log().lines().any(|line| line == *word))
    });
}

#[test]
fn what_a_server_has_confirmed_and_what_passes_by() {
    let said = Arc::new(AtomicU16::new(200));
    let saying = Arc::clone(&said);
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let status = match saying.load(Ordering::Relaxed) {
                200 if request.field("if-none-match").is_some() => 304,
                status => status,
            };
            let body = if status == 304 { "" } else { "Content-Length: 0\r\n" };
            conn.send(format!(
                "HTTP/1.1 {status} x\r\nETag: \"a\"\r\nCache-Control: max-age=0\r\n{body}\r\n"
            ))?;
        }
    });
    let weir = start(&origin, ", stale_if_error = \"1m\", bypass = [\"{query.no}\"]", SHOWN);
    for (status, target, expected) in
        [(200, "/", "MISS"), (200, "/", "REVALIDATED"), (200, "/?no=1", "BYPASS"), (503, "/", "STALE")]
    {
        said.store(status, Ordering::Relaxed);
        let response = get(&weir, target, "");
        assert_eq!(response.field("x-cache"), Some(expected), "{target}");
    }
}
