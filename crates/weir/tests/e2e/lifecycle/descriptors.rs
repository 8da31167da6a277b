//! Few descriptors: every use has a share, and a lack of them is no fault of a server.

use std::thread;
use std::time::Duration;

use crate::harness::watchdog::{Gate, now};
use crate::harness::{Client, Http2Client, Origin, Weir, config_with, entries, eventually};

const LARGE: usize = 3 << 20;

/// An origin with large responses below `/large`, and small ones elsewhere, which closes no connection.
fn origin() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let len = if request.target() == "/large" { LARGE } else { 4 };
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"))?;
            conn.send(vec![b'x'; len])?;
        }
    })
}

fn config(origins: &[Origin], settings: &str) -> String {
    let health = "path = \"/health\", interval = \"100ms\", timeout = \"10s\", fall = 2, rise = 2";
    let settings = format!("process.workers = 1\nupstream.app.health = {{ {health} }}\n{settings}");
    config_with(&entries(origins), &settings)
}

#[test]
fn slow_readers_take_no_more_pipes_than_there_are_descriptors() {
    let origins = [origin(), origin()];
    let weir =
        Weir::start_limited(256, &config(&origins, "upstream.app.ejection = { consecutive_failures = 1 }"));
    // With two descriptors each for a pipe they would need 220.
    let slow: Vec<Client> = (0..55)
        .map(|_| {
            let mut client = Client::connect_narrow(weir.web());
            client.send_get("/large");
            client
        })
        .collect();
    let metrics = || weir.metrics();
    eventually("all of them are served", || metrics().sum("weir_worker_exchanges_open", &[]) == 55.0);
    let probes = metrics().sum("weir_server_probes_total", &["result=\"passed\""]);
    for _ in 0..60 {
        assert_eq!(Client::get(weir.web(), "/").status, 200);
    }
    eventually("the servers are probed all the while", || {
        metrics().sum("weir_server_probes_total", &["result=\"passed\""]) > probes + 4.0
    });
    let metrics = metrics();
    assert_eq!(metrics.sum("weir_server_up", &[]), 2.0);
    assert_eq!(metrics.sum("weir_server_probes_total", &["result=\"failed\""]), 0.0);
    assert_eq!(metrics.sum("weir_server_ejections_total", &[]), 0.0);
    assert_eq!(metrics.sum("weir_worker_accept_errors_total", &[]), 0.0);
    let readers = slow
        .into_iter()
        .map(|mut client| thread::spawn(move || assert_eq!(client.response().body.bytes.len(), LARGE)));
    readers.collect::<Vec<_>>().into_iter().for_each(|reader| reader.join().expect("it got everything"));
}

#[test]
fn without_a_descriptor_no_server_is_judged() {
    let origins = [origin(), origin()];
    let settings = "upstream.app.ejection = { consecutive_failures = 1 }\nupstream.app.pool.idle_max = 0";
    let weir = Weir::start(&config(&origins, settings));
    let mut client = Client::connect(weir.web());
    let mut get = || {
        let response = client.fetch("/");
        (response.status, response.reason().map(str::to_owned))
    };
    assert_eq!(get().0, 200);
    // Below what it has open: from now on it opens nothing.
    let before = weir.limit_open_files(8);
    let began = now();
    while began.elapsed() < Duration::from_millis(600) {
        assert_eq!(get(), (503, Some("connect-descriptor-limit".to_owned())));
    }
    weir.line(&["ERROR", "which says nothing about the servers"]);
    weir.limit_open_files(before);
    assert_eq!(get().0, 200);
    let metrics = weir.metrics();
    assert!(metrics.sum("weir_worker_local_connect_errors_total", &[]) > 0.0);
    assert!(metrics.sum("weir_server_probes_total", &["result=\"skipped\""]) >= 4.0);
    assert_eq!(metrics.sum("weir_server_up", &[]), 2.0);
    assert_eq!(metrics.sum("weir_server_probes_total", &["result=\"failed\""]), 0.0);
    assert_eq!(metrics.sum("weir_server_ejections_total", &[]), 0.0);
    assert_eq!(metrics.sum("weir_server_connect_errors_total", &[]), 0.0);
}

/// Connections with a hundred streams each, all opened at once.
fn flood(weir: &Weir, clients: usize) -> Vec<(Http2Client, Vec<u32>)> {
    let open = |_| {
        let mut client = Http2Client::connect(weir.web());
        let streams = (0..100).map(|_| client.get("/")).collect();
        (client, streams)
    };
    (0..clients).map(open).collect()
}

/// The descriptors that connections to servers have, by the line that the start logs.
fn share_of_servers(weir: &Weir) -> u32 {
    let sum = weir.line(&["file descriptors: 256 = "]);
    let share =
        sum.split("client connections + ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    share.unwrap_or_else(|| panic!("{sum}"))
}

const STREAMS: &str =
    "listener.web.http2.prior_knowledge = \"allowed\"\nupstream.app.ejection = { consecutive_failures = 1 }";

#[test]
fn streams_beyond_the_descriptors_wait_for_a_connection() {
    let gate = Gate::new();
    let held = gate.clone();
    let origins = [0, 1].map(|_| {
        let held = held.clone();
        Origin::start(move |conn| {
            loop {
                let request = conn.request()?;
                if request.target() != "/health" {
                    held.wait("every stream has a connection or waits for one");
                }
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")?;
            }
        })
    });
    let weir = Weir::start_limited(256, &config(&origins, STREAMS));
    let share = share_of_servers(&weir);
    let mut clients = flood(&weir, 6);
    eventually("all streams that have no connection wait for one", || {
        weir.metrics().sum("weir_upstream_queue_length", &[]) >= f64::from(600 - share)
    });
    // Those of the probes are apart.
    assert!(weir.metrics().sum("weir_server_connections_open", &[]) <= f64::from(share));
    gate.open();
    for (client, streams) in &mut clients {
        for stream in streams {
            let response = client.response(*stream);
            assert_eq!((response.status, response.text()), (200, "fine".to_owned()), "{response:?}");
        }
    }
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_worker_local_connect_errors_total", &[]), 0.0);
    assert_eq!(metrics.sum("weir_worker_accept_errors_total", &[]), 0.0);
    assert_eq!(metrics.sum("weir_upstream_queue_length", &[]), 0.0);
    // They went on with the connections that others had left.
    assert!(metrics.sum("weir_server_connects_total", &[]) <= f64::from(2 * share));
    assert_eq!(Client::get(weir.web(), "/").status, 200);
}

#[test]
fn a_wait_for_a_descriptor_ends() {
    let gate = Gate::new();
    let held = gate.clone();
    let origins = [Origin::start(move |conn| {
        conn.request()?;
        held.wait("every stream has a connection or an answer");
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")
    })];
    let limit = "upstream.app.timeouts.queue = \"300ms\"";
    let settings = format!("process.workers = 1\nlistener.web.http2.prior_knowledge = \"allowed\"\n{limit}");
    let weir = Weir::start_limited(256, &config_with(&entries(&origins), &settings));
    let share = share_of_servers(&weir);
    let mut clients = flood(&weir, 3);
    eventually("the others have waited in vain", || {
        weir.metrics().sum("weir_worker_local_connect_errors_total", &[]) >= f64::from(300 - share)
    });
    gate.open();
    let mut statuses = Vec::new();
    for (client, streams) in &mut clients {
        for stream in streams {
            let response = client.response(*stream);
            statuses.push(response.status);
            if response.status != 200 {
                assert_eq!((response.status, response.reason()), (503, Some("connect-descriptor-limit")));
            }
        }
    }
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), share as usize);
    weir.line(&["ERROR", "which says nothing about the servers"]);
    assert_eq!(weir.metrics().sum("weir_server_connect_errors_total", &[]), 0.0);
    assert_eq!(Client::get(weir.web(), "/").status, 200);
}

#[test]
fn the_start_logs_the_shares() {
    let origin = Origin::serving("fine");
    let text = format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    );
    let weir = Weir::start_limited(256, &text);
    let sum = weir.line(&["file descriptors: 256 = ", "client connections", "pipes", "listening", "own"]);
    let clients = sum.split("256 = ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(clients.is_some_and(|clients| clients >= 90), "{sum}");
    weir.line(&["WARN", "the limit on open files is 256", "LimitNOFILE="]);
    drop(weir);
    let plenty = Weir::start_limited(4096, &text);
    plenty.line(&["file descriptors: 4096 = "]);
    assert!(!plenty.stderr().contains("the limit on open files"), "{}", plenty.stderr());
}
