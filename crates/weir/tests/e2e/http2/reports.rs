//! A stream is an exchange like any other in logs, metrics, lists and explanations.

use serde_json::Value;

use crate::harness::http2::{start_with, start_with_tls};
use crate::harness::scripts::echo_gated;
use crate::harness::{Client, Gate, Http2Client, Origin, Weir, eventually, run};

/// The open connections and streams of clients, by their state.
fn listed(weir: &Weir) -> Vec<Value> {
    weir.admin_json("/api/connections")["connections"].as_array().expect("a list").clone()
}

#[test]
fn the_access_log_names_the_version() {
    let origin = Origin::serving("fine");
    let weir = start_with(&origin, "access_log = { format = 'common', output = \"file:{dir}/access.log\" }");
    Http2Client::connect(weir.web()).fetch("/two");
    Client::get(weir.web(), "/one");
    let log = weir.access_log(2);
    assert!(log[0].ends_with("\"GET /two HTTP/2.0\" 200 4"), "{log:?}");
    assert!(log[1].ends_with("\"GET /one HTTP/1.1\" 200 4"), "{log:?}");
}

#[test]
fn each_stream_is_listed_beside_its_connection() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start_with(&origin, "");
    let mut client = Http2Client::connect(weir.web());
    let streams = [client.get("/held/1"), client.get("/held/2")];
    origin.wait_for_requests(2);
    let mut list = Vec::new();
    eventually("both streams are listed", || {
        list = listed(&weir);
        list.iter().filter(|line| line["state"] == "response").count() == 2
    });
    let paths: Vec<&str> = list.iter().filter_map(|line| line["exchange"]["path"].as_str()).collect();
    assert!(paths.contains(&"/held/1") && paths.contains(&"/held/2"), "{list:?}");
    assert!(list.iter().any(|line| line["waits_for"] == "its streams"), "{list:?}");
    let from = list[0]["client"].clone();
    assert!(list.iter().all(|line| line["client"] == from), "{list:?}");
    gate.open();
    for stream in streams {
        assert_eq!(client.response(stream).status, 200);
    }
    eventually("the connection is idle", || {
        let list = listed(&weir);
        list.len() == 1 && list[0]["state"] == "idle" && list[0]["requests"] == 2
    });
}

#[test]
fn an_operator_ends_one_stream_or_the_connection() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let socket = "admin.socket = \"unix:{dir}/weir.sock\"";
    let weir = start_with(&origin, socket);
    let mut client = Http2Client::connect(weir.web());
    let held = client.get("/held");
    origin.wait_for_requests(1);
    let id = |state: &str| {
        let mut id = String::new();
        eventually(&format!("one is in state {state}"), || {
            let list = listed(&weir);
            let found = list.iter().find(|line| line["state"] == state);
            id = found.and_then(|line| line["id"].as_str()).unwrap_or_default().to_owned();
            found.is_some()
        });
        id
    };
    let killed = weir.run_over_socket(&["ctl", "end", &id("response")]);
    assert_eq!(killed.code, Some(0), "{}", killed.text());
    assert_eq!(client.outcome(held).reason(), Some("killed-by-operator"));
    assert_eq!(client.fetch("/alive").status, 200, "the connection goes on");
    let killed = weir.run_over_socket(&["ctl", "end", &id("idle")]);
    assert_eq!(killed.code, Some(0), "{}", killed.text());
    client.end();
    gate.open();
}

#[test]
fn why_explains_a_stream() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.reset();
        None
    });
    let weir = start_with(&origin, "upstream.app.retry.attempts_max = 1");
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/broken").status, 502);
    let mut number = String::new();
    eventually("the failure is kept", || {
        let failures = weir.admin_json("/api/failures");
        number = failures["failures"][0]["number"].as_str().unwrap_or_default().to_owned();
        !number.is_empty()
    });
    let report = run(&["why", &number, "--admin", &weir.address("admin").to_string()]);
    assert_eq!(report.code, Some(0), "{}", report.text());
    for part in ["GET /broken", "response-reset", "502 by Weir itself"] {
        assert!(report.stdout.contains(part), "{part} in {}", report.stdout);
    }
}

#[test]
fn metrics_count_streams_as_requests() {
    let origin = Origin::serving("fine");
    let (authority, weir) = start_with_tls(&origin, "");
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    (0..3).for_each(|_| assert_eq!(client.fetch("/").status, 200));
    let other = Http2Client::connect_tls(&authority, weir.web());
    eventually("both connections are counted", || {
        weir.metrics().sum("weir_listener_http2_connections_open", &[]) == 2.0
    });
    drop(other);
    let metrics = weir.metrics();
    for (name, value) in [
        ("weir_listener_requests_total", 3.0),
        ("weir_listener_streams_total", 3.0),
        ("weir_listener_streams_open", 0.0),
        ("weir_listener_http2_connections_total", 2.0),
        ("weir_listener_streams_refused_total", 0.0),
    ] {
        assert_eq!(metrics.sum(name, &[]), value, "{name}");
    }
    assert_eq!(metrics.sum("weir_listener_responses_total", &["class=\"2xx\""]), 3.0);
    assert!(metrics.sum("weir_listener_sent_bytes_total", &[]) > 3.0 * 4.0);
}
