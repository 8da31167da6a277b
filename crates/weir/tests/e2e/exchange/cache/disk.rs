//! Responses in the files of `cache.NAME.disk`: they survive a restart and soft purges, and those that a server confirms are not written again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{counting, get, status};
use crate::harness::{Client, Origin, Weir, config_with, eventually, temporary_folder};

const BODY_LEN: usize = 900_000;

fn files(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_cache_disk_files", &[])
}

fn written(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_cache_disk_written_bytes_total", &[])
}

/// A Weir with files in `folder`.
fn config(origin: &Origin, folder: &tempfile::TempDir) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "admin.socket = \"unix:{{dir}}/weir.sock\"
             cache.pages = {{ memory = \"4MiB\", response_max = \"1MiB\", disk = {{ folder = {:?} }} }}
             listener.web.route = [{{ path = \"/\", upstream = \"app\", cache = \"pages\" }}]",
            folder.path().join("cache")
        ),
    )
}

/// Answers with a large body, 304 to conditional requests, 503 while `fails`.
fn versioned(fails: Arc<AtomicBool>) -> Origin {
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let fields =
                "Cache-Control: max-age=600, stale-if-error=600\r\nETag: \"v1\"\r\nCache-Tag: large\r\n";
            if fails.load(Ordering::Relaxed) {
                conn.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")?;
            } else if request.field("if-none-match") == Some("\"v1\"") {
                conn.send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n"))?;
            } else {
                conn.send(format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {BODY_LEN}\r\n\r\n"))?;
                conn.send("x".repeat(BODY_LEN))?;
            }
        }
    })
}

fn purge_softly(weir: &Weir) {
    let purged = weir.run_over_socket(&["ctl", "purge", "pages", "--tag", "large", "--soft"]);
    assert_eq!(purged.stdout, "pages: 1 responses marked stale\n");
}

#[test]
fn files_survive_a_restart() {
    let origin = counting("Cache-Control: max-age=600\r\n");
    let folder = temporary_folder();
    let text = config(&origin, &folder);
    let weir = Weir::start(&text);
    assert_eq!(get(&weir, "/a", "").text(), "1");
    assert_eq!(get(&weir, "/b", "").text(), "2");
    eventually("both are in files", || files(&weir) == 2.0);
    // What was changed does not come back from a file.
    Client::exchange(weir.web(), "DELETE /b HTTP/1.1\r\nHost: a.test\r\n\r\n");
    drop(weir);
    let weir = Weir::start(&text);
    eventually("the folder was read", || files(&weir) == 1.0);
    let hit = get(&weir, "/a", "");
    assert_eq!(hit.text(), "1");
    assert!(status(&hit).starts_with("weir; hit"), "{}", status(&hit));
    assert_eq!(get(&weir, "/b", "").text(), "4");
}

#[test]
fn what_a_server_confirms_is_not_written_again() {
    let origin = versioned(Arc::default());
    let folder = temporary_folder();
    let text = config(&origin, &folder);
    let weir = Weir::start(&text);
    assert_eq!(get(&weir, "/a", "").body.bytes.len(), BODY_LEN);
    eventually("it is in a file", || files(&weir) == 1.0);
    let whole = written(&weir);
    assert!(whole >= BODY_LEN as f64);
    purge_softly(&weir);
    let marked = written(&weir);
    assert!(marked > whole);
    let confirmed = get(&weir, "/a", "");
    assert!(status(&confirmed).starts_with("weir; fwd=stale; fwd-status=304"), "{}", status(&confirmed));
    eventually("its head is written", || written(&weir) > marked);
    assert!(written(&weir) < whole + 4_096.0, "the body is not");
    drop(weir);
    // What is in the file is fresh, and whole.
    let weir = Weir::start(&text);
    eventually("the folder was read", || files(&weir) == 1.0);
    let hit = get(&weir, "/a", "");
    assert!(status(&hit).starts_with("weir; hit; ttl=5"), "{}", status(&hit));
    assert!(hit.body.bytes.len() == BODY_LEN && hit.body.bytes.iter().all(|byte| *byte == b'x'));
    assert_eq!((origin.requests().len(), written(&weir)), (2, 0.0));
}

#[test]
fn a_soft_purge_leaves_what_helps_when_servers_fail() {
    let fails = Arc::<AtomicBool>::default();
    let origin = versioned(Arc::clone(&fails));
    let folder = temporary_folder();
    let text = config(&origin, &folder);
    let weir = Weir::start(&text);
    get(&weir, "/a", "");
    eventually("it is in a file", || files(&weir) == 1.0);
    purge_softly(&weir);
    drop(weir);
    fails.store(true, Ordering::Relaxed);
    let weir = Weir::start(&text);
    eventually("the folder was read", || files(&weir) == 1.0);
    let stale = get(&weir, "/a", "");
    assert_eq!((stale.status, stale.body.bytes.len()), (200, BODY_LEN));
    assert!(status(&stale).contains("fwd-status=503"), "{}", status(&stale));
    assert!(status(&stale).contains("stale-if-error"), "{}", status(&stale));
    // It is in memory by now: so it is purged there and in its file.
    fails.store(false, Ordering::Relaxed);
    assert!(status(&get(&weir, "/a", "")).contains("fwd-status=304"));
    purge_softly(&weir);
    fails.store(true, Ordering::Relaxed);
    assert!(status(&get(&weir, "/a", "")).contains("stale-if-error"));
    let removed = weir.run_over_socket(&["ctl", "purge", "pages", "--all"]);
    assert_eq!(removed.stdout, "pages: 1 responses removed\n");
    assert_eq!(get(&weir, "/a", "").status, 503);
}

/// Files are read at the same time, more of them than memory has room for.
#[test]
fn what_is_in_files_is_used_although_memory_has_no_room_for_it() {
    const COUNT: usize = 12;
    let origin = versioned(Arc::default());
    let folder = temporary_folder();
    let weir = Weir::start(&config(&origin, &folder));
    for number in 0..COUNT {
        get(&weir, &format!("/{number}"), "");
    }
    eventually("all are in files", || files(&weir) == COUNT as f64);
    for _ in 0..5 {
        std::thread::scope(|scope| {
            for number in 0..COUNT {
                let weir = &weir;
                scope.spawn(move || {
                    let hit = get(weir, &format!("/{number}"), "");
                    assert!(status(&hit).starts_with("weir; hit; ttl=5"), "{}", status(&hit));
                    assert_eq!(hit.body.bytes.len(), BODY_LEN);
                });
            }
        });
    }
    assert_eq!(origin.requests().len(), COUNT);
}
