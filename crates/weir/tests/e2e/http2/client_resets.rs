//! A client that gives up a stream, or its connection: the server is freed at once, other streams go on.

use crate::harness::http2::frame::CANCEL;
use crate::harness::http2::{start_with, start_with_slots};
use crate::harness::scripts::patient;
use crate::harness::{End, Http2Client, Origin, Weir, eventually, origin::ok};

fn logging(origin: &Origin) -> Weir {
    let format = "{status} {reason} {target}";
    start_with(
        origin,
        &format!("access_log = {{ format = '{format}', output = \"file:{{dir}}/access.log\" }}"),
    )
}

fn assert_ended(origin: &Origin, connection: usize) {
    let end = origin.wait_for_end(connection);
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
}

#[test]
fn a_reset_while_the_server_thinks_is_logged_as_499() {
    let origin = patient();
    let weir = logging(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.get("/wait");
    origin.wait_for_requests(1);
    client.reset(stream, CANCEL);
    assert_ended(&origin, 0);
    assert_eq!(client.fetch("/alive").text(), "alive", "the connection goes on");
    let log = weir.access_log(2);
    assert!(log[0].starts_with("499 client-") && log[0].ends_with(" /wait"), "{log:?}");
    assert_eq!(weir.metrics().sum("weir_listener_streams_reset_total", &[]), 1.0);
    assert_eq!(weir.metrics().sum("weir_listener_streams_open", &[]), 0.0);
}

#[test]
fn a_reset_in_the_middle_of_a_response() {
    let origin = patient();
    let weir = logging(&origin);
    let mut client = Http2Client::connect(weir.web());
    for index in 0..3 {
        let stream = client.get("/stream");
        client.body(stream, 100_000);
        client.reset(stream, CANCEL);
        assert_ended(&origin, index);
    }
    assert_eq!(client.fetch("/alive").text(), "alive");
}

#[test]
fn a_reset_in_the_middle_of_an_upload() {
    let origin = patient();
    let weir = logging(&origin);
    let mut client = Http2Client::connect(weir.web());
    for index in 0..3 {
        let stream = client.post("/wait", &[]);
        client.data(stream, "some of it", false);
        origin.wait_for_connections(index + 1);
        client.reset(stream, CANCEL);
        assert_ended(&origin, index);
        assert!(origin.requests().is_empty(), "the end of the body was not made up");
    }
    assert_eq!(client.fetch("/alive").text(), "alive");
}

#[test]
fn a_connection_that_goes_takes_all_its_streams_along() {
    for reset in [false, true] {
        let origin = patient();
        let weir = logging(&origin);
        let mut client = Http2Client::connect(weir.web());
        client.get("/wait");
        client.get("/wait");
        let stream = client.get("/stream");
        client.body(stream, 100_000);
        origin.wait_for_requests(3);
        if reset {
            client.abort();
        } else {
            drop(client);
        }
        (0..3).for_each(|index| assert_ended(&origin, index));
        eventually("no stream is left", || weir.metrics().sum("weir_listener_streams_open", &[]) == 0.0);
        eventually("no connection is left", || {
            weir.metrics().sum("weir_listener_http2_connections_open", &[]) == 0.0
        });
        assert_eq!(weir.access_log(3).iter().filter(|line| line.contains("client-")).count(), 3);
    }
}

/// Whatever was under way, all that is counted as open is counted back.
#[test]
fn nothing_is_left_of_clients_that_go_at_any_moment() {
    let gate = crate::harness::Gate::new();
    let held = gate.clone();
    let origin = Origin::start(move |conn| {
        loop {
            match conn.request()?.target() {
                "/held" => {
                    held.wait("the clients are gone");
                    conn.send(ok("late"))?;
                }
                "/stream" => {
                    conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                    let chunk = format!("1000\r\n{}\r\n", "s".repeat(4096));
                    while conn.send(&chunk).is_some() {}
                    return None;
                }
                "/socket" => return crate::harness::websocket::switch_and_return_bytes(conn),
                _ => conn.send(ok("fine"))?,
            }
        }
    });
    let weir = start_with_slots(&origin, 40, "upstream.app.retry.attempts_max = 1");
    for round in 0..60 {
        let mut client = Http2Client::connect(weir.web());
        client.gives_back = round % 2 == 0;
        for _ in 0..3 {
            client.get("/stream");
            client.get("/held");
            client.get("/fine");
            let upload = client.post("/upload", &[]);
            client.data(upload, "some of it", false);
            let malformed = client.post("/", &[("connection", "close")]);
            client.data(malformed, "x", true);
        }
        let stream = client.get("/stream");
        match round % 5 {
            0 => {}
            1 => client.settle(),
            2 => client.reset(stream, CANCEL),
            3 => client.send([0xff; 100]),
            _ => client.finish(),
        }
        if round % 3 == 0 {
            client.abort();
        }
    }
    gate.open();
    for gauge in [
        "weir_listener_streams_open",
        "weir_listener_http2_connections_open",
        "weir_listener_connections_open",
        "weir_worker_exchanges_open",
        "weir_upstream_queue_length",
        "weir_server_attempts_open",
        "weir_worker_buffers_in_use",
    ] {
        eventually(&format!("{gauge} is 0"), || weir.metrics().sum(gauge, &[]) == 0.0);
    }
    assert_eq!(Http2Client::connect(weir.web()).fetch("/fine").text(), "fine");
}

#[test]
fn a_client_that_has_ended_its_direction_gets_its_responses() {
    let gate = crate::harness::Gate::new();
    let origin = crate::harness::scripts::echo_gated(&gate, "/held");
    let weir = start_with(&origin, "listener.web.abort_on_close = false");
    let mut client = Http2Client::connect(weir.web());
    let streams = [client.get("/held/1"), client.get("/held/2")];
    origin.wait_for_requests(2);
    client.finish();
    gate.open();
    for (stream, text) in streams.into_iter().zip(["/held/1", "/held/2"]) {
        assert_eq!(client.response(stream).text(), text);
    }
    assert_eq!(client.end(), End::Closed);
}

#[test]
fn a_reset_frees_the_slot_for_the_next_stream() {
    let origin = patient();
    let weir = start_with_slots(&origin, 1, "");
    let mut client = Http2Client::connect(weir.web());
    let holds = client.get("/wait");
    origin.wait_for_requests(1);
    let next = client.get("/alive");
    eventually("it waits", || weir.queue_length() == 1);
    client.reset(holds, CANCEL);
    assert_eq!(client.response(next).text(), "alive");
}
