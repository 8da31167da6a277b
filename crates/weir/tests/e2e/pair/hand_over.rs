//! `weir ctl hand-over`: connections end with their next response, idle ones are closed, and then others are told; all the while everything is served.

use rustix::process::Signal;

use crate::harness::http2::{H2C, frame};
use crate::harness::metrics::Metrics;
use crate::harness::scripts::{echo, tunnelling};
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel};
use crate::harness::{Client, End, Http2Client, Origin, Weir, eventually};

fn config(origin: &Origin, more: &str) -> String {
    format!(
        "admin = {{ address = \"127.0.0.1:0\", socket = \"unix:{{dir}}/weir.sock\" }}\nprocess.workers = 2\n\
         listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [\"{}\"]\n{more}\n",
        origin.address()
    )
}

fn state(weir: &Weir) -> String {
    let now = weir.admin_json("/api/hand-over");
    now["state"].as_str().expect("the state is a word").to_owned()
}

/// Whether a scrape says so: the metric of this state is 1, those of all others 0.
fn is_measured(weir: &Weir, state: &str) -> bool {
    let metrics = Metrics::scrape(weir.address("admin"));
    metrics.sum("weir_process_state", &[]) == 1.0
        && metrics.sum("weir_process_state", &[&format!("state=\"{state}\"")]) == 1.0
}

#[test]
fn connections_end_step_by_step_and_everything_is_served() {
    let origin = echo();
    let weir = Weir::start(&config(&origin, H2C));
    let ready = || Client::get_by_address(weir.address("admin"), "/ready").status;
    let mut kept = Client::connect(weir.web());
    let mut idle = Client::connect(weir.web());
    let mut streams = Http2Client::connect(weir.web());
    assert!(!kept.fetch("/1").closes());
    assert!(!idle.fetch("/2").closes());
    assert_eq!(streams.fetch("/3").text(), "/3");
    assert!(is_measured(&weir, "serving"));

    let begun = weir.run_over_socket(&["ctl", "hand-over", "--delay", "1h", "--no-wait"]);
    assert!(begun.code == Some(0) && begun.stdout.starts_with("closing: "), "{begun:?}");
    assert_eq!((state(&weir).as_str(), ready()), ("closing", 200));
    assert!(is_measured(&weir, "closing"));
    let page = Client::get_by_address(weir.address("admin"), "/").text();
    assert!(page.contains(">closing</span>"), "{page}");
    let response = kept.fetch("/4");
    assert_eq!((response.text().as_str(), response.closes()), ("/4", true), "{response:?}");
    kept.assert_closed();
    assert_eq!(streams.goaway(1).1, frame::NO_ERROR);
    assert_eq!(streams.end(), End::Closed);
    // A new connection has its response, too.
    let response = Client::get(weir.web(), "/5");
    assert_eq!((response.text().as_str(), response.closes()), ("/5", true));
    // The second request changes nothing.
    weir.run_over_socket(&["ctl", "hand-over", "--delay", "0s", "--no-wait"]);
    assert_eq!(state(&weir), "closing");

    let taken_back = weir.run_over_socket(&["ctl", "take-back"]);
    assert!(taken_back.stdout.starts_with("serving"), "{taken_back:?}");
    assert!(!idle.fetch("/6").closes(), "its time had not come");

    let done = weir.run_over_socket(&["ctl", "hand-over", "--delay", "50ms"]);
    assert!(done.code == Some(0) && done.stdout.starts_with("handed over: "), "{done:?}");
    idle.assert_closed();
    assert_eq!((state(&weir).as_str(), ready()), ("handed-over", 503));
    assert!(is_measured(&weir, "handed-over"));
    assert_eq!(weir.run_over_socket(&["ctl", "ready"]).code, Some(1));
    let response = Client::get(weir.web(), "/7");
    assert_eq!((response.text().as_str(), response.closes()), ("/7", true), "what still arrives is served");
    let response = Http2Client::connect(weir.web()).fetch("/8");
    assert_eq!(response.text(), "/8");
    weir.line(&["handed over", "another node is to serve"]);

    weir.run_over_socket(&["ctl", "take-back"]);
    assert_eq!((state(&weir).as_str(), ready()), ("serving", 200));
    let mut kept = Client::connect(weir.web());
    assert!(!kept.fetch("/9").closes());
    assert!(!kept.fetch("/10").closes());
    weir.line(&["taken back", "unix"]);
}

#[test]
fn a_request_under_way_and_a_tunnel_go_on() {
    let origin = tunnelling();
    let weir = Weir::start(&config(&origin, ""));
    let mut tunnel = open_tunnel(weir.web());
    let done = weir.run_over_socket(&["ctl", "hand-over", "--delay", "0s"]);
    assert!(done.stdout.contains("1 tunnels"), "{done:?}");
    assert_byte_comes_back(&mut tunnel);
    assert_eq!(state(&weir), "handed-over");
}

#[test]
fn it_survives_a_reload_and_an_upgrade() {
    let origin = echo();
    let text = config(&origin, "");
    let mut weir = Weir::start(&text);
    weir.run_over_socket(&["ctl", "hand-over", "--delay", "0s"]);
    weir.reload(&text);
    assert!(Client::get(weir.web(), "/").closes());
    weir.upgrade();
    eventually("the new process has the state of the one before", || {
        weir.run_over_socket(&["ctl", "ready"]).stderr.contains("handed over")
    });
    assert_eq!(state(&weir), "handed-over");
    weir.run_over_socket(&["ctl", "take-back"]);
    eventually("new connections reach the new process alone, and stay open", || {
        !Client::get(weir.web(), "/").closes()
    });
}

#[test]
fn wrong_requests_say_what_is_wrong() {
    let origin = echo();
    let mut weir = Weir::start(&config(&origin, "process.stop_delay = \"1h\""));
    for (delay, expected) in [("5", "`delay`"), ("2h", "at most 1h")] {
        let refused = weir.run_over_socket(&["ctl", "hand-over", "--delay", delay]);
        assert!(refused.code == Some(1) && refused.stderr.contains(expected), "{refused:?}");
    }
    // Without permission: changes over the admin address are off.
    assert_eq!(weir.admin_post("/api/hand-over").status, 403);
    weir.signal(Signal::TERM);
    eventually("the stop is announced", || state(&weir) == "stopping");
    for verb in ["hand-over", "take-back"] {
        let refused = weir.run_over_socket(&["ctl", verb]);
        assert!(refused.code == Some(1) && refused.stderr.contains("stopping"), "{refused:?}");
    }
    weir.signal(Signal::TERM);
    weir.wait_for_exit();
}
