//! `bandwidth` of a limit: all responses of a key together are no faster than it says, whatever makes and carries them.

use std::thread;
use std::time::Duration;

use crate::harness::http2::H2C;
use crate::harness::scripts::pattern;
use crate::harness::watchdog::now;
use crate::harness::{Client, Http2Client, Origin, Weir, eventually, temporary_folder};

/// The length of every response.
const LEN: usize = 200_000;

/// Serves the pattern, by length and in chunks.
fn serving_pattern() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let body = pattern(LEN);
            if request.target().starts_with("/chunks") {
                conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                for chunk in body.chunks(5_000) {
                    conn.send(format!("{:x}\r\n", chunk.len()))?;
                    conn.send(chunk)?;
                    conn.send("\r\n")?;
                }
                conn.send("0\r\n\r\n")?;
            } else {
                let fields = "Cache-Control: max-age=60\r\nContent-Type: text/plain";
                conn.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: {LEN}\r\n\r\n"))?;
                conn.send(body)?;
            }
        }
    })
}

/// Every path has a budget of its own for each client, so that no case takes from another.
fn start(origin: &Origin, limit: &str) -> Weir {
    let folder = temporary_folder();
    std::fs::create_dir(folder.path().join("site")).expect("the test owns the folder");
    std::fs::write(folder.path().join("site/file"), pattern(LEN)).expect("the test owns the folder");
    Weir::start_in(
        folder,
        &format!(
            "{H2C}admin.address = \"127.0.0.1:0\"\nprocess.workers = 2\n\
             cache.pages.memory = \"16MiB\"\n\
             limit.one = {{ key = \"{{client_address}} {{path}}\", {limit} }}\n\
             access_log = {{ format = '{{path}} {{status}} {{limit}}', output = \"file:{{dir}}/access.log\" }}\n\
             listener.web.address = \"127.0.0.1:0\"\nlistener.web.limited_by = \"one\"\nlistener.web.upstream = \"app\"\n\
             [[listener.web.route]]\npath = \"/file\"\nfiles = {{ root = \"{{dir}}/site\" }}\n\
             [[listener.web.route]]\npath = \"/cached\"\nupstream = \"app\"\ncache = \"pages\"\n\
             [[listener.web.route]]\npath = \"/buffered\"\nupstream = \"app\"\nbuffer_responses = {{}}\n\
             [[listener.web.route]]\npath = \"/packed\"\nupstream = \"app\"\ncompression = true\n\
             [upstream.app]\nservers = [{}]\n",
            origin.entry()
        ),
    )
}

fn fetch(weir: &Weir, from: &str, target: &str) {
    let mut client = Client::connect_from(from, weir.web());
    let response = client.fetch(target);
    assert_eq!(response.status, 200, "{target}");
    assert!(response.body.bytes == pattern(LEN), "{target} is whole");
}

/// Two responses at once take as long as one of twice the length, less the burst.
#[test]
fn two_connections_of_a_client_share_its_bandwidth() {
    let origin = serving_pattern();
    let weir = start(&origin, "bandwidth = \"1MB/s\", bandwidth_burst = \"50kB\"");
    // The first one fetches what the others get from the cache, for another client.
    fetch(&weir, "127.0.0.9", "/cached");
    let least = Duration::from_millis((2 * LEN as u64 - 50_000) / 1_000);
    let targets = ["/server", "/chunks", "/file", "/cached", "/buffered"];
    thread::scope(|scope| {
        for target in targets {
            let weir = &weir;
            scope.spawn(move || {
                let began = now();
                thread::scope(|pair| {
                    for _ in 0..2 {
                        pair.spawn(|| fetch(weir, "127.0.0.2", target));
                    }
                });
                assert!(began.elapsed() >= least, "{target} took {:?}", began.elapsed());
            });
        }
        scope.spawn(|| {
            let began = now();
            let mut client = Http2Client::connect_with(weir.web(), &[]);
            let streams = [client.get("/streams"), client.get("/streams")];
            client.open_window(0, 4 * LEN as u32);
            for stream in streams {
                client.open_window(stream, 2 * LEN as u32);
            }
            for stream in streams {
                assert!(client.response(stream).body == pattern(LEN));
            }
            assert!(began.elapsed() >= least, "streams took {:?}", began.elapsed());
        });
    });
    assert_eq!(origin.requests().iter().filter(|request| request.target() == "/cached").count(), 1);
    let paced = || weir.metrics().sum("weir_limit_paced_total", &["limit=\"one\""]);
    eventually("all are counted", || paced() >= 12.0);
    let lines = weir.access_log(13);
    assert!(lines.iter().filter(|line| line.ends_with(" 200 one")).count() >= 12, "{lines:?}");
}

/// What counts is what the client gets: a compressed body, not the one of the server.
#[test]
fn compressed_bodies_are_paced_as_they_are_sent() {
    let origin = serving_pattern();
    let weir = start(&origin, "bandwidth = \"1MB/s\", bandwidth_burst = \"50kB\"");
    let began = now();
    let packed =
        Client::exchange(weir.web(), "GET /packed HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!((packed.status, packed.field("content-encoding")), (200, Some("gzip")));
    let sent = packed.body.bytes.len() as u64;
    assert!(began.elapsed() >= Duration::from_millis((sent - 50_000) / 1_000), "{sent} bytes");
}

/// While one client waits for a bandwidth at which its response would take minutes, another has its own; and the wait of the first ends
/// with its connection.
#[test]
fn other_clients_are_free() {
    let origin = serving_pattern();
    let weir = start(&origin, "bandwidth = \"1kB/s\", bandwidth_burst = \"250kB\"");
    fetch(&weir, "127.0.0.2", "/server");
    let mut slow = Client::connect_from("127.0.0.2", weir.web());
    slow.send_get("/server");
    let paced = || weir.metrics().sum("weir_limit_paced_total", &["limit=\"one\""]);
    eventually("the second response waits", || paced() == 1.0);
    assert_eq!(slow.head().start_line, "HTTP/1.1 200 OK");
    fetch(&weir, "127.0.0.3", "/server");
    fetch(&weir, "127.0.0.2", "/file");
    assert_eq!(paced(), 1.0);
    slow.reset();
    let mut lines = weir.access_log(4);
    lines.sort_unstable();
    assert_eq!(lines, ["/file 200 -", "/server 200 -", "/server 200 -", "/server 200 one"]);
}

/// A dry run slows nothing down, and neither does an empty body.
#[test]
fn what_is_not_slowed_down() {
    let origin = serving_pattern();
    let weir = start(&origin, "bandwidth = \"1B/s\", bandwidth_burst = \"1B\", dry_run = true");
    fetch(&weir, "127.0.0.2", "/server");
    let weir = start(&origin, "bandwidth = \"1B/s\", bandwidth_burst = \"1B\"");
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        client.send("HEAD /server HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.response_to("HEAD").status, 200);
    }
    assert_eq!(weir.metrics().sum("weir_limit_paced_total", &[]), 0.0);
}
