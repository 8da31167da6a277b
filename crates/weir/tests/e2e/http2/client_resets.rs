//! A client that gives up a stream, or its connection: the server is freed at once, other streams go on.

use crate::harness::http2::frame::CANCEL;
use crate::harness::http2::{start_with, start_with_slots};
use crate::harness::{End, Http2Client, Origin, Weir, eventually, origin::ok};

/// An origin that waits for the end of the connection on `/wait`, streams without end on `/stream`, else answers.
fn patient() -> Origin {
    Origin::start(|conn| {
        loop {
            match conn.request()?.target() {
                "/wait" => {
                    conn.wait_for_end();
                    return None;
                }
                "/stream" => {
                    conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                    let chunk = format!("1000\r\n{}\r\n", "s".repeat(4096));
                    while conn.send(&chunk).is_some() {}
                    conn.wait_for_end();
                    return None;
                }
                _ => conn.send(ok("alive"))?,
            }
        }
    })
}

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
