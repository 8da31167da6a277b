//! Memory is short: what goes first, who is ended, and how it ends. The budget is set by a reload relative to what is in use, so that a test needs few
//! clients on any machine.

use serde_json::Value;

use crate::harness::http2::start_with;
use crate::harness::origin::ok;
use crate::harness::{Client, Http2Client, Origin, Weir, config_with, eventually};

/// A config with an admin listener, one worker and these settings; `memory` is the value of `process.memory_max`.
fn config(origin: &Origin, memory: &str, settings: &str) -> String {
    let all = format!("process.workers = 1\nprocess.memory_max = \"{memory}\"\n{settings}");
    config_with(&[origin.entry()], &all)
}

fn memory(weir: &Weir) -> Value {
    weir.admin_json("/api/memory")
}

/// Waits until this class of memory takes so many bytes at least, then reloads with a budget of which so many percent are in use.
fn use_up(weir: &Weir, origin: &Origin, (class, bytes): (&str, u64), percent: u64, settings: &str) {
    let mut used = 0;
    eventually("a look of the thread that measures", || {
        let figures = memory(weir);
        used = figures["used_bytes"].as_u64().expect("it is a number");
        let classes = figures["classes"].as_array().into_iter().flatten();
        classes.into_iter().any(|found| found["name"] == class && found["bytes"].as_u64() >= Some(bytes))
    });
    weir.reload(&config(origin, &format!("{}B", used * 100 / percent), settings));
}

/// Clients whose request head does not come to its end.
fn slow_heads(weir: &Weir, count: usize) -> Vec<Client> {
    let half = || {
        let mut client = Client::connect(weir.web());
        client.send("GET /half HTTP/1.1\r\nHost: a.test\r\n");
        client
    };
    (0..count).map(|_| half()).collect()
}

#[test]
fn idle_connections_are_closed_first() {
    let origin = Origin::serving("fine");
    let settings = "listener.web.timeouts.idle = \"10m\"";
    let weir = Weir::start(&config(&origin, "off", settings));
    let served = || {
        let mut client = Client::connect(weir.web());
        assert_eq!(client.fetch("/").status, 200);
        client
    };
    let idle: Vec<Client> = (0..200).map(|_| served()).collect();
    assert_eq!(memory(&weir)["max_bytes"], Value::Null);
    use_up(&weir, &origin, ("connections", 200 * 500), 88, settings);
    eventually("idle connections are closed", || memory(&weir)["idle_closed"].as_u64() > Some(0));
    weir.line(&["WARN", "memory is short", "idle connections are closed"]);
    assert_eq!(Client::get(weir.web(), "/new").status, 200);
    let figures = memory(&weir);
    assert_eq!((&figures["slow_ended"], &figures["refused"]), (&0.into(), &0.into()), "{figures}");
    assert!(weir.metrics().sum("weir_process_memory_steps_total", &["step=\"idle\""]) > 0.0);
    weir.reload(&config(&origin, "1GiB", settings));
    eventually("there is enough again", || memory(&weir)["step"] == "normal");
    weir.line(&["INFO", "there is enough memory again"]);
    drop(idle);
}

#[test]
fn the_clients_with_the_slowest_progress_are_ended() {
    let origin = Origin::serving("fine");
    let settings = "listener.web.timeouts.request = \"10m\"";
    let weir = Weir::start(&config(&origin, "off", settings));
    // They have most of the memory: some are ended, and it is enough.
    let mut slow = slow_heads(&weir, 400);
    eventually("their heads are read", || weir.metrics().sum("weir_worker_exchanges_open", &[]) == 400.0);
    use_up(&weir, &origin, ("streams", 400 * 2_000), 92, settings);
    eventually("slow clients are ended", || memory(&weir)["slow_ended"].as_u64() > Some(0));
    if std::fs::exists("/proc/sys/net/ipv4/tcp_mem").unwrap_or(false) {
        let kernel = &memory(&weir)["kernel_tcp"];
        assert!(kernel["max_bytes"].as_u64() > Some(0) && kernel["used_bytes"].is_u64(), "{kernel}");
    }
    let response = slow[0].response();
    assert_eq!((response.status, response.reason()), (503, Some("memory-limit")), "{response:?}");
    slow[0].assert_closed();
    weir.line(&["WARN", "memory is short", "slowest progress"]);
    eventually("that is enough", || memory(&weir)["step"] != "slow" && memory(&weir)["step"] != "refuse");
    assert_eq!(Client::get(weir.web(), "/new").status, 200, "new clients are served");
    assert!(weir.metrics().sum("weir_worker_exchanges_open", &[]) > 10.0, "others go on");
    assert!(weir.metrics().sum("weir_listener_failures_total", &["reason=\"memory-limit\""]) > 0.0);
}

#[test]
fn new_connections_are_refused_while_nothing_can_be_freed() {
    let origin = Origin::serving("fine");
    let weir = Weir::start(&config(&origin, "off", ""));
    use_up(&weir, &origin, ("recorder", 1), 120, "");
    eventually("connections are refused", || {
        let mut client = Client::connect(weir.web());
        // They wait for a second at first.
        let _closed = client.send_what_is_taken("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        memory(&weir)["refused"].as_u64() > Some(0)
    });
    weir.line(&["WARN", "memory is short", "new connections wait or are refused"]);
    let refused =
        || weir.metrics().sum("weir_listener_failures_total", &["reason=\"accept-memory-limit\""]) > 0.0;
    assert!(refused());
    weir.reload(&config(&origin, "1GiB", ""));
    eventually("connections are accepted again", || {
        let mut client = Client::connect(weir.web());
        let sent = client.send_what_is_taken("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        sent.is_ok() && client.try_response_to("GET").is_ok_and(|response| response.status == 200)
    });
}

/// Heads that trickle hold no buffer when buffers are short, as slow bodies: they hold up nothing, and go on.
#[test]
fn slow_heads_leave_buffers_to_others() {
    let origin = Origin::serving("fine");
    let settings = "process.buffers_max = 64\nlistener.web.timeouts.request = \"10m\"";
    let weir = Weir::start(&config(&origin, "off", settings));
    let mut slow = slow_heads(&weir, 100);
    eventually("their heads are read", || weir.metrics().sum("weir_worker_exchanges_open", &[]) == 100.0);
    for _ in 0..20 {
        assert_eq!(Client::get(weir.web(), "/quick").status, 200);
    }
    slow.iter_mut().for_each(|client| client.send("X-More: and more\r\n"));
    assert_eq!(Client::get(weir.web(), "/quick").status, 200);
    slow.iter_mut().for_each(|client| client.send("\r\n"));
    for client in &mut slow {
        assert_eq!(client.response().status, 200);
    }
    assert!(origin.targets().iter().filter(|target| *target == "/half").count() == 100);
    assert_eq!(memory(&weir)["slow_ended"], 0);
}

/// Responses that are not taken hold a buffer each: at `buffers_max` they would hold up all other requests for as long as sending may take.
#[test]
fn slow_downloads_make_room_for_requests_that_wait_for_buffers() {
    let origin = Origin::start(|conn| {
        loop {
            if conn.request()?.target() == "/large" {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")?;
                conn.send(vec![b'x'; 10_000_000])?;
            } else {
                conn.send(ok("fine"))?;
            }
        }
    });
    let weir = start_with(
        &origin,
        "process.buffers_max = 16\nlistener.web.timeouts.request = \"10m\"\nlistener.web.timeouts.send = \"10m\"",
    );
    let mut client = Http2Client::connect(weir.web());
    client.gives_back = false;
    for _ in 0..20 {
        client.get("/large");
    }
    client.settle();
    // Without an end of slow streams they would wait for ten minutes.
    for _ in 0..4 {
        assert_eq!(Client::get(weir.web(), "/waits").text(), "fine");
    }
}

#[test]
fn caches_shrink_before_anything_else_and_grow_again() {
    let body = "x".repeat(20_000);
    let origin = Origin::start(move |conn| {
        loop {
            conn.request()?;
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ))?;
        }
    });
    let settings = "cache.pages.memory = \"64MiB\"\n\
        listener.web.route = [{ path = \"/\", upstream = \"app\", cache = { name = \"pages\" } }]";
    let weir = Weir::start(&config(&origin, "off", settings));
    let held = || weir.admin_json("/api/caches")[0]["memory_bytes"].as_u64().expect("it is a number");
    let fill = |from: usize| {
        let mut client = Client::connect(weir.web());
        (from..from + 200).for_each(|page| assert_eq!(client.fetch(&format!("/{page}")).status, 200));
    };
    fill(0);
    let full = held();
    assert!(full > 200 * 20_000, "{full}");
    use_up(&weir, &origin, ("cache", full), 83, settings);
    eventually("the cache has shrunk", || held() < full * 9 / 10);
    assert_eq!(memory(&weir)["idle_closed"], 0);
    weir.reload(&config(&origin, "off", settings));
    weir.reload(&config(&origin, "4GiB", settings));
    eventually("the cache has grown", || {
        fill(1_000);
        held() > full * 9 / 10
    });
}

#[test]
fn the_start_tells_what_the_budget_is_divided_into() {
    let origin = Origin::serving("fine");
    let settings = "process.buffers_max = 60000\ncache.pages.memory = \"1GiB\"\n\
        listener.web.route = [{ path = \"/\", upstream = \"app\", cache = { name = \"pages\" } }]";
    let weir = Weir::start(&config(&origin, "128MiB", settings));
    weir.line(&["INFO", "memory: 128 MiB at most; up to 64 MiB for buffers, 1024 MiB for caches"]);
    weir.line(&["WARN", "`process.buffers_max = 60000` cannot be had", "4096 of them"]);
    weir.line(&["WARN", "`cache.pages.memory` of 1024 MiB cannot be had"]);
    let page = Client::get_by_address(weir.address("admin"), "/").text();
    assert!(page.contains("Memory budget") && page.contains("nothing has to be freed"), "{page}");
}
