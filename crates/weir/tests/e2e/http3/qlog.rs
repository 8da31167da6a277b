//! What happens to one connection, as qlog: `weir ctl qlog`.

use std::thread;

use serde_json::Value;

use super::start;
use crate::harness::http3::Http3Client;
use crate::harness::scripts::echo;
use crate::harness::{Weir, run};

const ADMIN: &str = "admin.changes = true\n";

/// The number of the first connection of HTTP/3.
fn name(weir: &Weir) -> String {
    let list = weir.admin_json("/api/connections?listener=web");
    list["connections"][0]["id"].as_str().expect("there is one").to_owned()
}

/// The records of a JSON text sequence (RFC 7464).
fn records(text: &str) -> Vec<Value> {
    assert!(text.starts_with('\u{1e}') && text.ends_with('\n'), "{text}");
    let records = text.split('\u{1e}').skip(1);
    records
        .map(|record| serde_json::from_str(record).unwrap_or_else(|error| panic!("{error}: {record}")))
        .collect()
}

fn events<'a>(records: &'a [Value], name: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["name"] == name).map(|record| &record["data"]).collect()
}

#[test]
fn a_connection_is_written_down_until_it_ends() {
    let origin = echo();
    let (authority, weir) = start(&origin, ADMIN);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/first").text(), "/first");
    let (id, admin) = (name(&weir), weir.address("admin").to_string());
    let file = weir.folder().join("weir.sqlog");
    let path = file.to_str().expect("temporary paths are UTF-8").to_owned();
    let command =
        thread::spawn(move || run(&["ctl", "qlog", &id, "--seconds", "60", "-o", &path, "--admin", &admin]));
    weir.line(&["a connection is being written down as qlog", "seconds=60"]);
    let id = name(&weir);
    assert_eq!(weir.admin_post(&format!("/api/connections/{id}/qlog")).status, 409, "one at a time");
    client.rebind();
    for number in 0..3 {
        let path = format!("/{number}");
        assert_eq!(client.post(&path, &[], &[b'x'; 5_000]).body.len(), path.len() + 5_000);
    }
    client.leave();
    let done = command.join().expect("the thread does not panic");
    assert_eq!(done.code, Some(0), "{done:?}");
    let text = std::fs::read_to_string(&file).expect("it was written");
    let records = records(&text);
    assert_eq!(records[0]["file_schema"], "urn:ietf:params:qlog:file:sequential");
    assert_eq!(records[0]["trace"]["vantage_point"]["type"], "server");
    assert!(records[1..].is_sorted_by_key(|record| record["time"].as_f64().map(f64::to_bits)), "{text}");
    assert_eq!(events(&records, "weir:connection_found")[0]["connection"], id);
    assert_eq!(events(&records, "weir:client_moved").len(), 1);
    assert_eq!(events(&records, "http3:frame_parsed").len(), 3);
    let streams = events(&records, "quic:stream_state_updated");
    let count = |state: &str| streams.iter().filter(|stream| stream["new"] == state).count();
    assert_eq!((count("open"), count("closed")), (3, 3));
    assert!(!events(&records, "quic:recovery_metrics_updated").is_empty());
    let sum = |name: &str, key: &str| -> u64 {
        events(&records, name).iter().map(|data| data[key].as_u64().expect("a number")).sum()
    };
    assert!(sum("quic:udp_datagrams_received", "weir_bytes") > 15_000);
    assert!(sum("quic:udp_datagrams_sent", "count") >= 3);
    let closed = events(&records, "quic:connection_closed");
    assert_eq!((closed.len(), &closed[0]["initiator"]), (1, &Value::from("remote")), "{text}");
}

#[test]
fn what_is_written_down_ends_with_its_time_and_the_connection_goes_on() {
    let origin = echo();
    let (authority, weir) = start(&origin, ADMIN);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/first").text(), "/first");
    let response = weir.admin_post(&format!("/api/connections/{}/qlog?seconds=1", name(&weir)));
    assert_eq!((response.status, response.field("content-type")), (200, Some("application/qlog+json-seq")));
    assert!(events(&records(&response.text()), "quic:connection_closed").is_empty());
    assert_eq!(client.get("/then").text(), "/then");
}

#[test]
fn only_connections_of_http3_can_be_written_down() {
    let origin = echo();
    let (authority, weir) = start(&origin, ADMIN);
    let mut tcp = authority.connect(weir.web());
    tcp.send("GET /one HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(tcp.response().text(), "/one");
    for (id, status) in
        [(name(&weir), 404), ("s0-999".to_owned(), 404), ("s7-1".to_owned(), 404), ("x".to_owned(), 404)]
    {
        assert_eq!(weir.admin_post(&format!("/api/connections/{id}/qlog")).status, status, "{id}");
    }
    let id = name(&weir);
    assert_eq!(weir.admin_post(&format!("/api/connections/{id}/qlog?seconds=61")).status, 400);
    let (_authority, closed) = start(&origin, "");
    assert_eq!(closed.admin_post("/api/connections/s0-1/qlog").status, 403);
}
