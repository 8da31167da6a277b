//! Crashes of a worker, which tests order: its connections are lost, and no other; it is started anew, and in the end the process gives up.

use crate::harness::{Client, Origin, Weir, config_with, eventually};

use super::panics::are_zero;

const CRASH: &str = "GET / HTTP/1.1\r\nHost: a.test\r\nWeir-Fault: crash\r\n\r\n";

fn start(origin: &Origin, workers: usize) -> Weir {
    Weir::start_faulty(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = {workers}\nlistener.web.access_log.output = \"file:{{dir}}/access.log\"\nlistener.web.access_log.format = \"{{status}}\"\n"
        ),
    ))
}

fn restarts(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_worker_restarts_total", &[])
}

/// Has a worker crash; waits until its connections have ended.
fn crash(weir: &Weir) {
    let mut client = Client::connect(weir.web());
    client.send(CRASH);
    client.take_to_end();
}

#[test]
fn a_crashed_worker_is_started_anew_and_refuses_no_connection() {
    let origin = Origin::serving("app");
    let weir = start(&origin, 1);
    let mut idle = Client::connect(weir.web());
    assert_eq!(idle.fetch("/").text(), "app");
    crash(&weir);
    // The socket has stayed open, so this one waits in its backlog at most.
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
    idle.take_to_end();
    weir.line(&["a worker has crashed and is started anew", "worker=0", "lost=2"]);
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_worker_restarts_total", &[]), 1.0);
    assert_eq!(metrics.sum("weir_worker_connections_lost_total", &[]), 2.0);
    assert_eq!(metrics.sum("weir_listener_failures_total", &["reason=\"worker-crash\""]), 2.0);
    let has_one = || (weir.metrics().sum("weir_server_connections_idle", &[]) - 1.0).abs() < 0.5;
    eventually("those of before are closed, and the new one is idle", has_one);
    assert_eq!(weir.access_log(2).len(), 2, "no line is lost");
    eventually("all gauges are zero", || are_zero(&weir.metrics()));
}

#[test]
fn other_workers_lose_nothing_and_reloads_go_on() {
    let origin = Origin::serving("app");
    let weir = start(&origin, 2);
    let mut kept: Vec<Client> = (0..16).map(|_| Client::connect(weir.web())).collect();
    kept.iter_mut().for_each(|client| assert_eq!(client.fetch("/").text(), "app"));
    crash(&weir);
    eventually("the worker was started anew", || restarts(&weir) == 1.0);
    let lost = weir.metrics().sum("weir_worker_connections_lost_total", &[]);
    let mut alive = 0.0;
    for mut client in kept {
        client.send(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        alive += f64::from(u8::from(client.try_response_to("GET").is_ok()));
    }
    assert!(lost > 1.0 && alive > 0.0, "{lost} lost, {alive} alive");
    // The connection with the order is among the lost ones.
    assert_eq!(lost - 1.0 + alive, 16.0);
    let next = Origin::serving("next");
    weir.reload(&config_with(&[next.named("b")], "process.workers = 2\n"));
    for _ in 0..16 {
        assert_eq!(Client::get(weir.web(), "/").text(), "next");
    }
    crash(&weir);
    eventually("the worker was started anew", || restarts(&weir) == 2.0);
    for _ in 0..16 {
        assert_eq!(Client::get(weir.web(), "/").text(), "next", "a crash does not bring an old config back");
    }
}

#[test]
fn a_worker_that_crashes_again_and_again_ends_the_process() {
    let origin = Origin::serving("app");
    let mut weir = start(&origin, 1);
    for _ in 0..5 {
        crash(&weir);
    }
    assert_eq!(weir.wait_for_exit().code(), Some(1), "{}", weir.stderr());
    let log = weir.stderr();
    assert!(
        log.contains("error: the worker 0 does not work any more: it has crashed 5 times within 60 seconds"),
        "{log}"
    );
    assert_eq!(log.matches("is started anew").count(), 4, "{log}");
}

#[test]
fn a_health_check_that_panics_is_begun_anew() {
    let origin = Origin::serving("app");
    let checks = "upstream.app.health = { path = \"/health\", interval = \"100ms\" }";
    let weir = Weir::start_faulty(&config_with(&[origin.named("a")], checks));
    let probes = || origin.targets().iter().filter(|target| *target == "/health").count();
    eventually("the server is probed", || probes() > 0);
    for count in 1..=3 {
        Client::exchange(weir.web(), "GET / HTTP/1.1\r\nHost: a.test\r\nWeir-Fault: panic-check\r\n\r\n");
        weir.line(&["a fault was ordered: Check", "weir-health"]);
        let restarts = || weir.metrics().sum("weir_process_task_restarts_total", &[]);
        eventually("it was begun anew", || restarts() >= f64::from(count));
        let before = probes();
        eventually("the server is probed again", || probes() > before);
    }
    weir.line(&["a health check has ended by a defect of Weir and is begun anew", "server=\"a\""]);
    assert_eq!(Client::get(weir.web(), "/").text(), "app", "its state has stayed");
}

/// Orders a fault of the control plane.
fn order(weir: &Weir, fault: &str) {
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\nWeir-Fault: {fault}\r\n\r\n"));
}

fn task_restarts(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_process_task_restarts_total", &[])
}

/// The second time proves that it went on after the first.
#[test]
fn the_watch_of_the_memory_and_the_writer_of_an_access_log_go_on_after_a_panic() {
    let origin = Origin::serving("app");
    let weir = start(&origin, 1);
    for (fault, task, count) in [
        ("panic-memory", "the watch of the memory", 1.0),
        ("panic-memory", "the watch of the memory", 2.0),
        ("panic-access-log", "the writer of an access log", 3.0),
        ("panic-access-log", "the writer of an access log", 4.0),
    ] {
        order(&weir, fault);
        eventually("it was begun anew", || {
            // Has a batch of lines written, in which the writer is struck.
            assert_eq!(Client::get(weir.web(), "/").text(), "app");
            task_restarts(&weir) >= count
        });
        weir.line(&["a task of the control plane has ended by a defect of Weir", task]);
    }
    let written = || std::fs::read_to_string(weir.folder().join("access.log")).unwrap_or_default().len();
    let before = written();
    eventually("lines are written again", || {
        Client::get(weir.web(), "/");
        written() > before
    });
}

#[test]
fn the_own_log_goes_on_after_a_panic_of_its_writer() {
    let origin = Origin::serving("app");
    let weir = start(&origin, 1);
    for count in 1..=2 {
        order(&weir, "panic-own-log");
        // Any line will do: this one is lost.
        let mut client = Client::connect(weir.web());
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\nWeir-Fault: panic-route\r\n\r\n");
        client.take_to_end();
        weir.line(&["panic: a defect of Weir", "OwnLog"]);
        eventually("it was begun anew", || task_restarts(&weir) >= f64::from(count));
    }
    weir.line(&["the writer of this log", "is begun anew after a pause"]);
}

/// There is no authority at this address: the certificate is attempted, and its file looked at, every few seconds.
#[test]
fn certificates_are_obtained_after_a_panic_as_well() {
    let origin = Origin::serving("app");
    let folder = crate::harness::temporary_folder();
    let store = folder.path().join("store").display().to_string();
    let text = |host: &str| {
        config_with(
            &[origin.named("a")],
            &format!(
                "listener.safe.address = \"127.0.0.1:0\"\nlistener.safe.upstream = \"app\"\n\
                 listener.safe.tls.acme = {{ hosts = [\"{host}\"], ca = [\"https://127.0.0.1:1/dir\"], directory = \"{store}\", challenges = [\"tls-alpn-01\"] }}\n"
            ),
        )
    };
    let weir = Weir::start_faulty(&text("one.test"));
    for count in 1..=2 {
        order(&weir, "panic-certificate");
        eventually("the task of the host was begun anew", || task_restarts(&weir) >= f64::from(count));
    }
    weir.line(&["a task of the control plane has ended by a defect of Weir", "the certificate of a host"]);
    order(&weir, "panic-issuers");
    weir.reload(&text("two.test"));
    eventually("the issuers were begun anew", || task_restarts(&weir) >= 3.0);
    // They go by the config in whose turn they were struck.
    weir.line(&["no certificate could be obtained", "two.test"]);
}
