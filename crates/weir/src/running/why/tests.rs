//! The text of reports, from their JSON.

use serde_json::json;

use super::*;

fn retried() -> Value {
    serde_json::from_str(RETRIED).unwrap()
}

const RETRIED: &str = r#"{
    "id": "an-id", "number": "0-7", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736", "time": "2026-11-22T10:00:00.000000Z", "kind": "request", "listener": "web",
    "client": "192.0.2.7", "peer": "127.0.0.1:4711", "tls": true, "method": "GET", "path": "/a", "host": "example.test",
    "route": "api", "rule": "path /a", "upstream": "app", "balance": "least-requests", "affinity": null, "names_known": true,
    "words_cut": false, "status": 200, "answered_by": "server", "bytes_in": 80, "bytes_out": 1, "total_ms": 3.25,
    "queue": { "waited_ms": 1.5, "ahead": 2 }, "attempts_omitted": 0,
    "attempt_list": [
        {
            "server": "a", "began_ms": 1.5, "lasted_ms": 0.25, "connection": null, "sent_any": false, "received_any": false,
            "failure": { "reason": "connect-refused", "happened": "Nothing listens there." }, "refused_status": null,
            "decision": "again", "servers": 2, "candidates": [
                { "server": "a", "in_flight": 0, "weight": 1, "chosen": true, "eligible": true, "eligibility": "" },
                { "server": "b", "in_flight": 3, "weight": 2, "chosen": false, "eligible": false, "eligibility": "is being drained" }
            ]
        },
        {
            "server": "b", "began_ms": 2.0, "lasted_ms": null, "sent_any": false, "received_any": false, "failure": null,
            "connection": { "reused": true, "age_ms": 1200.0, "carried": 1 }, "refused_status": null, "decision": null, "servers": 1,
            "candidates": [{ "server": "b", "in_flight": 3, "weight": 1, "chosen": true, "eligible": true, "eligibility": "" }]
        }
    ],
    "phases": [{ "phase": "queue", "ms": 1.5 }, { "phase": "response", "ms": 0.75 }],
    "ended": { "by": null, "how": "kept" }, "failure": null
}"#;

#[test]
fn a_client_of_http3_is_said_to_be_one() {
    let mut exchange = retried();
    exchange["transport"] = json!("quic");
    let report = reports(&json!({ "exchanges": [exchange] }));
    assert!(report.contains("on listener web over QUIC (HTTP/3)\n"), "{report}");
}

#[test]
fn a_report_follows_the_order_of_events() {
    let expected = "\
exchange   an-id (0-7), at 2026-11-22T10:00:00.000000Z, took 3.250 ms
request    GET /a for example.test
client     192.0.2.7, through the trusted proxy 127.0.0.1:4711, on listener web with TLS
trace      4bf92f3577b34da6a3ce929d0e0e4736
route      api, which takes path /a
upstream   app, which chooses by least-requests
queue      waited 1.500 ms, behind 2 others, for a server with a free slot
attempt 1  on a after 1.500 ms, no connection came about
           a had 0 in flight; b was not eligible, with 3 in flight, weight 2: is being drained
           failed after 0.250 ms: connect-refused (Nothing listens there.); nothing of the request was sent
           then: tried again
attempt 2  on b after 2.000 ms, on a kept connection, 1200 ms old, which had carried 1 exchange
           b had 3 in flight; there was no other server
answer     200 by the server; 80 bytes from the client, 1 byte to it
ended      in order; the connection of the client went on

queue             1.500 ms  ########################################
response          0.750 ms  ####################
";
    assert_eq!(reports(&json!({ "exchanges": [retried()] })), expected);
    assert!(
        reports(&json!({ "exchanges": [retried(), retried()] })).starts_with("2 exchanges go by this name")
    );
}

#[test]
fn what_still_runs_says_what_it_waits_for() {
    let mut running = retried();
    running["status"] = Value::Null;
    running["number"] = "s0-17".into();
    running["running"] = json!({
        "connection": "s0-17", "state": "response", "state_ms": 12.5, "waits_for": "the head of the server's response",
    });
    let text = reports(&json!({ "exchanges": [running] }));
    let first =
        "exchange   an-id (s0-17), at 2026-11-22T10:00:00.000000Z, still running, for 3.250 ms by now\n";
    let last = "\
so far     80 bytes from the client, 1 byte to it
now        waits for the head of the server's response; state response for 12.500 ms
to end it  weir ctl end s0-17
";
    assert!(text.starts_with(first) && text.contains(last) && !text.contains("ended  "), "{text}");
}

#[test]
fn a_connection_without_an_exchange_is_told_as_well() {
    let idle = json!({
        "id": "s0-17", "number": "s0-17", "time": "2026-11-22T10:00:00.000000Z", "kind": "idle", "listener": "web", "tls": false,
        "client": "192.0.2.7:1", "peer": "192.0.2.7:1", "total_ms": 250.0, "requests": 2,
        "running": { "connection": "s0-17", "state": "idle", "state_ms": 200.0, "waits_for": "a request" },
    });
    let expected = "\
connection s0-17, open since 2026-11-22T10:00:00.000000Z, for 250 ms by now
request    none at the moment; 2 requests came before
client     192.0.2.7:1, on listener web
now        waits for a request; state idle for 200 ms
to end it  weir ctl end s0-17
";
    assert_eq!(reports(&json!({ "exchanges": [idle] })), expected);
}

#[test]
fn a_failure_says_what_to_change() {
    let mut failed = retried();
    failed["failure"] = json!({
        "reason": "response-reset", "phase": "response", "party": "server", "cause": "reset", "happened": "It was reset.",
        "change": "Look at the server.", "read": "docs/failures.md#response-reset",
    });
    failed["ended"] = json!({ "by": "server", "how": "reset" });
    let text = reports(&json!({ "exchanges": [failed] }));
    let expected = "\
ended      the server reset the connection (RST)
failure    response-reset: phase response, party server, cause reset
           It was reset.
to change  Look at the server.
read       docs/failures.md#response-reset
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn bytes_of_peers_do_not_steer_the_terminal() {
    let mut hostile = retried();
    hostile["path"] = "/\u{1b}[2J\u{202e}".into();
    let text = reports(&json!({ "exchanges": [hostile] }));
    assert!(text.contains("GET /\\u{1b}[2J\\u{202e} for"), "{text}");
}

#[test]
fn what_is_not_known_says_why_that_may_be() {
    let text = json!({
        "error": "unknown", "silent_workers": 1,
        "kept": { "exchanges_per_worker": 4096, "failures_per_worker": 1000, "since": "2026-11-22T10:00:00Z" },
    });
    let said = failures::unknown("x", &text);
    for part in
        ["be older than the last 4096 exchanges and 1000 failures", "another instance", "did not answer"]
    {
        assert!(said.contains(part), "{said}");
    }
    let off = json!({ "kept": { "exchanges_per_worker": 0, "failures_per_worker": 0 } });
    assert!(failures::unknown("x", &off).contains("`recorder` is off"));
}

#[test]
fn failures_are_listed_one_a_line() {
    let line = json!({
        "id": "an-id", "time": "2026-11-22T10:00:00Z", "kind": "request", "method": "GET", "host": "h", "path": "/p",
        "total_ms": 1.0, "failure": { "reason": "no-route" },
    });
    let text = failures::list(&json!({ "failures": [line] }));
    assert!(text.contains("no-route") && text.contains("an-id  GET h/p\n"), "{text}");
    assert!(
        failures::list(&json!({ "failures": [], "kept": { "since": "then" } }))
            .contains("No failure since then")
    );
}

#[test]
fn the_source_of_the_servers_is_named_with_its_age() {
    let with = |source: Value| {
        let mut exchange = retried();
        exchange["source"] = source;
        reports(&json!({ "exchanges": [exchange] }))
    };
    let fresh =
        with(json!({ "name": "etcd /services/app/", "age_ms": 12_400, "is_stale": false, "problem": null }));
    let line =
        "\nsource     etcd /services/app/ names the servers; it did so last 12 s before the exchange began\n";
    assert!(fresh.contains(line), "{fresh}");
    let stale =
        with(json!({ "name": "dns a:80", "age_ms": -200_000, "is_stale": true, "problem": "no answer" }));
    assert!(stale.contains("last 3 min after the exchange began; it does not answer now:"), "{stale}");
    assert!(stale.contains("no answer"), "{stale}");
}
