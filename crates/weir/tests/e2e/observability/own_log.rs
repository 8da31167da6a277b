//! Weir's own log stops no worker: the reader of standard error may stall, and repeated lines are folded.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::program::{command, wait_for_exit};
use crate::harness::scripts::gated;
use crate::harness::{Client, Gate, Metrics, Origin, Weir, eventually, temporary_folder};

/// A listener whose clients get a line in the log each, and one like others.
fn config(origin: &Origin) -> String {
    format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.strict = {{ address = \"127.0.0.1:0\", upstream = \"app\", proxy_protocol.from = [\"127.0.0.0/8\"] }}\n\
         listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    )
}

/// Has a line written that names the address of the client.
fn annoy(strict: SocketAddr, from: &str) {
    let mut client = Client::connect_from(from, strict);
    client.send("GET / HTTP/1.1\r\n\r\n");
    let _refused = client.take_to_end();
}

#[test]
fn a_reader_of_standard_error_that_stalls_stops_no_worker() {
    let origin = Origin::serving("fine");
    let folder = temporary_folder();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, config(&origin)).expect("the test's own folder takes a file");
    let mut weir = command(&["serve", file.to_str().expect("temporary paths are UTF-8")]);
    let mut weir =
        weir.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it was built with this test");
    let mut stderr = BufReader::new(weir.stderr.take().expect("it is piped"));
    let mut text = String::new();
    while !text.ends_with("ready\n") {
        assert_ne!(stderr.read_line(&mut text).expect("it is UTF-8"), 0, "{text}");
    }
    let address = |listener: &str| -> SocketAddr {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("listening listener={listener} address=")));
        line.and_then(|address| address.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    let (strict, web, admin) = (address("strict"), address("web"), address("admin"));
    // More than the pipe, what is being written and the queue take together.
    for number in 0..2_700_u32 {
        annoy(strict, &format!("127.1.{}.{}", number / 250, number % 250 + 1));
    }
    for _ in 0..20 {
        assert_eq!(Client::get(web, "/").status, 200);
    }
    eventually("lines are dropped", || Metrics::scrape(admin).sum("weir_log_lines_dropped_total", &[]) > 0.0);
    // When it is read again, it goes on, and reports the missing lines.
    let mut more = String::new();
    while !more.contains("lines of this log were dropped") {
        assert_ne!(stderr.read_line(&mut more).expect("it is UTF-8"), 0, "{more}");
    }
    kill_process(Pid::from_child(&weir), Signal::TERM).expect("it runs");
    stderr.read_to_string(&mut more).expect("it is UTF-8");
    assert!(more.contains("stopping: running exchanges may finish"), "the last lines are written: {more}");
    let status = wait_for_exit(&mut weir).expect("it ends");
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_line_that_is_repeated_is_summed_up() {
    let origin = Origin::serving("fine");
    let mut weir = Weir::start(&config(&origin));
    let strict = weir.address("strict");
    for _ in 0..50 {
        annoy(strict, "127.0.0.1");
    }
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_failures_total", &["reason=\"proxy-header-bad\""]), 50.0);
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
    let log = weir.stderr();
    let lines: Vec<&str> =
        log.lines().filter(|line| line.contains("a PROXY protocol header was refused")).collect();
    assert_eq!(lines.len(), 11, "{log}");
    assert!(lines[10].ends_with("(and 40 more like it in 10 s)"), "{log}");
}

/// Without a metric at hand, an operator reads the log.
#[test]
fn what_is_refused_is_told_once_with_cause_and_number() {
    let gate = Gate::new();
    let origin = gated(&gate, "/", "fine");
    let weir = Weir::with_one_slot(
        &origin,
        "",
        "queue.length_max = 0\n[listener.web2]\naddress = \"127.0.0.1:0\"\nupstream = \"app\"\nconnections_per_client_max = 1",
    );
    let mut served = Client::connect(weir.web());
    served.send("GET /served HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    for _ in 0..3 {
        assert_eq!(Client::get(weir.web(), "/").reason(), Some("all-servers-full"));
    }
    let web2 = weir.address("web2");
    let _first = Client::connect(web2);
    eventually("it is accepted", || {
        weir.metrics().sum("weir_listener_connections_total", &["listener=\"web2\""]) == 1.0
    });
    let _refused = Client::connect(web2).take_to_end();
    let full = weir.line(&["upstream=", "app", "reason=", "all-servers-full"]);
    assert!(
        full.contains("Every server of the upstream is at its limit")
            && full.contains("upstream.NAME.queue.length_max"),
        "{full}"
    );
    let limit = weir.line(&["listener=", "web2", "reason=", "client-connection-limit", "refused=1"]);
    assert!(limit.contains("connections_per_client_max"), "{limit}");
    gate.open();
    assert_eq!(served.response().status, 200);
    let lines = weir.stderr().lines().filter(|line| line.contains("all-servers-full")).count();
    assert_eq!(lines, 1, "{}", weir.stderr());
}
