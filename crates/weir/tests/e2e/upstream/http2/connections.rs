//! How requests share connections, and how many there are.

use std::time::Duration;

use super::start;
use crate::harness::http2::frame::MAX_CONCURRENT_STREAMS;
use crate::harness::http2::server::{Http2Server, http2_echo};
use crate::harness::watchdog::now;
use crate::harness::{Client, Gate, Http2Client, Origin, eventually};

/// Answers each request once the gate is open, and takes so many at once.
fn gated(gate: &Gate, streams_max: u32) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[(MAX_CONCURRENT_STREAMS, streams_max)])?;
        loop {
            let asked = server.request()?;
            if asked.path() != "/open" {
                gate.wait("the test lets the requests go on");
            }
            let connection = server.conn.index.to_string();
            server.respond(asked.stream, "200", connection.as_bytes())?;
        }
    })
}

/// Sends `count` requests at once.
fn at_once(client: &mut Http2Client, count: usize) -> Vec<u32> {
    (0..count).map(|_| client.get("/")).collect()
}

/// The number of the connection that each was on.
fn answers(client: &mut Http2Client, streams: &[u32]) -> Vec<usize> {
    streams
        .iter()
        .map(|stream| {
            let response = client.response(*stream);
            assert_eq!(response.status, 200, "{response:?}");
            response.text().parse().expect("the number of a connection")
        })
        .collect()
}

#[test]
fn many_requests_share_one_connection() {
    let origin = http2_echo();
    let weir = start(&origin, "");
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..5 {
        let streams = at_once(&mut client, 100);
        for stream in streams {
            assert_eq!(client.response(stream).text(), "GET / ");
        }
    }
    assert_eq!(origin.connections(), 1);
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_server_connects_total", &[]), 1.0);
    assert_eq!(metrics.sum("weir_server_requests_total", &[]), 500.0);
}

#[test]
fn a_limit_on_streams_opens_further_connections() {
    for (own, servers) in [(10, 1_000), (1_000, 10)] {
        let gate = Gate::new();
        let origin = gated(&gate, servers);
        let weir = start(&origin, &format!("http2.streams_max = {own}"));
        let mut client = Http2Client::connect(weir.web());
        // The first tells what the server takes.
        assert_eq!(Client::get(weir.web(), "/open").status, 200);
        let streams = at_once(&mut client, 35);
        origin.wait_for_connections(4);
        gate.open();
        assert_eq!(answers(&mut client, &streams).len(), 35);
        assert_eq!(origin.connections(), 4, "{own} {servers}");
    }
}

#[test]
fn a_request_waits_for_a_stream_where_no_connection_may_be_added() {
    let gate = Gate::new();
    let origin = gated(&gate, 1_000);
    let weir = start(&origin, "http2 = { streams_max = 2, connections_max = 2 }");
    let mut client = Http2Client::connect(weir.web());
    let streams = at_once(&mut client, 10);
    origin.wait_for_connections(2);
    gate.open();
    assert_eq!(answers(&mut client, &streams).len(), 10);
    assert_eq!(origin.connections(), 2);
}

#[test]
fn no_stream_in_time_is_a_failure_of_its_own() {
    let gate = Gate::new();
    let origin = gated(&gate, 1_000);
    let keys = "http2 = { streams_max = 1, connections_max = 1 }\ntimeouts.connect = \"2s\"";
    let weir = start(&origin, keys);
    let mut client = Http2Client::connect(weir.web());
    let first = client.get("/");
    origin.wait_for_connections(1);
    let response = client.fetch("/");
    assert_eq!((response.status, response.reason()), (503, Some("connect-no-free-stream")));
    gate.open();
    assert_eq!(client.response(first).status, 200);
}

#[test]
fn an_idle_connection_ends_with_goaway() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        let asked = server.request()?;
        server.respond(asked.stream, "200", b"fine")?;
        server.read_to_end();
        assert_eq!(server.goaway, Some(0), "NO_ERROR");
        Some(())
    });
    let weir = start(&origin, "timeouts.idle = \"200ms\"");
    assert_eq!(Client::get(weir.web(), "/").status, 200);
    origin.wait_for_end(0);
    eventually("it is not counted any more", || {
        weir.metrics().sum("weir_server_connections_open", &[]) == 0.0
    });
}

#[test]
fn an_old_connection_and_a_used_one_make_room_for_another() {
    for keys in ["pool.age_max = \"300ms\"", "pool.requests_max = 3", "pool.idle_max = 0"] {
        let origin = http2_echo();
        let weir = start(&origin, keys);
        let mut client = Client::connect(weir.web());
        eventually("there is a second connection", || {
            assert_eq!(client.fetch("/").status, 200, "{keys}");
            origin.connections() >= 2
        });
    }
}

/// A connection that is too old for further requests waits for its last one, and does nothing meanwhile.
#[test]
fn an_old_connection_with_a_long_request_is_quiet() {
    let gate = Gate::new();
    let origin = gated(&gate, 1_000);
    let weir = start(&origin, "pool.age_max = \"200ms\"");
    let mut client = Http2Client::connect(weir.web());
    let streams = at_once(&mut client, 1);
    origin.wait_for_connections(1);
    let began = now();
    eventually("it is too old", || began.elapsed() > Duration::from_millis(400));
    let (before, began) = (weir.cpu_time(), now());
    eventually("a while has passed", || began.elapsed() > Duration::from_millis(600));
    let spent = weir.cpu_time() - before;
    assert!(spent < began.elapsed() / 100, "{spent:?} of {:?} on a processor", began.elapsed());
    gate.open();
    assert_eq!(answers(&mut client, &streams), [0]);
}

#[test]
fn slots_and_balancing_count_requests_not_connections() {
    let gate = Gate::new();
    let origin = gated(&gate, 1_000);
    let weir = start(&origin, "max_requests = 3");
    let mut client = Http2Client::connect(weir.web());
    let streams = at_once(&mut client, 10);
    eventually("the others wait in the queue", || {
        weir.metrics().sum("weir_upstream_queue_length", &[]) == 7.0
    });
    gate.open();
    assert_eq!(answers(&mut client, &streams).len(), 10);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn an_exchange_that_leaves_its_wait_leaves_its_stream_to_others() {
    let gate = Gate::new();
    let origin = gated(&gate, 1_000);
    let weir = start(&origin, "http2 = { streams_max = 1, connections_max = 1 }");
    let mut client = Http2Client::connect(weir.web());
    let first = client.get("/");
    origin.wait_for_connections(1);
    let leaving = client.get("/");
    let last = client.get("/");
    client.settle();
    client.reset(leaving, 8);
    client.settle();
    gate.open();
    assert_eq!((client.response(first).status, client.response(last).status), (200, 200));
}
