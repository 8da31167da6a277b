//! Many streams at once: each an exchange of its own, no more than the listener allows, each a request to limits and queue.

use crate::harness::http2::frame::{self, REFUSED_STREAM};
use crate::harness::http2::{H2C, start, start_with, start_with_slots};
use crate::harness::scripts::{echo, echo_gated};
use crate::harness::{Gate, Http2Client, Origin, Weir, config_with, eventually, origin::ok};

#[test]
fn a_hundred_streams_in_one_segment() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let mut all = Vec::new();
    let mut streams = Vec::new();
    for number in 0..100 {
        let target = format!("/held/{number}");
        let (stream, opening) = client.opening(&client.request("GET", &target), true);
        all.extend(opening);
        streams.push((stream, target));
    }
    client.send(all);
    origin.wait_for_connections(100);
    gate.open();
    for (stream, target) in &streams {
        assert_eq!(client.response(*stream).text(), *target);
    }
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_streams_total", &[]), 100.0);
    assert_eq!(metrics.sum("weir_listener_streams_peak", &[]), 100.0);
    assert_eq!(metrics.sum("weir_listener_http2_connections_total", &[]), 1.0);
}

#[test]
fn responses_come_in_the_order_of_the_servers() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/slow");
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let slow = client.get("/slow");
    for _ in 0..10 {
        assert_eq!(client.fetch("/quick").text(), "/quick");
    }
    assert!(!client.received(slow).is_over());
    gate.open();
    assert_eq!(client.response(slow).text(), "/slow");
}

#[test]
fn a_stream_beyond_the_limit_is_refused_and_may_be_repeated() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start_with(&origin, "listener.web.http2.streams_max = 3");
    let mut client = Http2Client::connect(weir.web());
    let held: Vec<u32> = (0..3).map(|_| client.get("/held")).collect();
    let refused = client.get("/refused");
    assert_eq!(client.wait_for_reset(refused), REFUSED_STREAM);
    assert_eq!(client.received(refused).status, 0);
    let post = client.post("/refused", &[]);
    client.data(post, "what was on its way", true);
    assert_eq!(client.wait_for_reset(post), REFUSED_STREAM);
    gate.open();
    for stream in held {
        assert_eq!(client.response(stream).text(), "/held");
    }
    assert_eq!(client.fetch("/again").text(), "/again", "the table of fields went on");
    assert_eq!(weir.metrics().sum("weir_listener_streams_refused_total", &[]), 2.0);
    assert!(!origin.targets().contains(&"/refused".to_owned()));
}

#[test]
fn streams_wait_for_a_slot_as_requests_do() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start_with_slots(&origin, 1, "");
    let mut client = Http2Client::connect(weir.web());
    let held = client.get("/held");
    origin.wait_for_connections(1);
    eventually("the first has the slot", || weir.metrics().sum("weir_listener_streams_open", &[]) == 1.0);
    let waiting: Vec<u32> = (0..5).map(|_| client.get("/waits")).collect();
    eventually("five wait", || weir.queue_length() == 5);
    client.reset(waiting[2], frame::CANCEL);
    eventually("four wait", || weir.queue_length() == 4);
    gate.open();
    assert_eq!(client.response(held).text(), "/held");
    for stream in waiting.iter().filter(|stream| **stream != waiting[2]) {
        assert_eq!(client.response(*stream).text(), "/waits");
    }
    assert_eq!((origin.connections(), origin.targets().len()), (1, 5));
}

#[test]
fn a_full_queue_answers_each_stream_for_itself() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start_with_slots(&origin, 1, "upstream.app.queue.length_max = 1");
    let mut client = Http2Client::connect(weir.web());
    let held = client.get("/held");
    eventually("the first has the slot", || weir.metrics().sum("weir_listener_streams_open", &[]) == 1.0);
    let waits = client.get("/held");
    eventually("one waits", || weir.queue_length() == 1);
    let response = client.fetch("/full");
    assert_eq!((response.status, response.reason()), (503, Some("queue-full")));
    gate.open();
    assert_eq!((client.response(held).status, client.response(waits).status), (200, 200));
}

#[test]
fn streams_of_many_connections_are_balanced_one_by_one() {
    let origins: Vec<Origin> = (0..2).map(|number| Origin::answering(ok(&number.to_string()))).collect();
    let servers: Vec<String> = origins.iter().map(Origin::entry).collect();
    let settings = format!("{}upstream.app.balance = \"round-robin\"", H2C);
    let weir = Weir::start(&config_with(&servers, &settings));
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..20 {
        client.fetch("/");
    }
    let counts: Vec<usize> = origins.iter().map(|origin| origin.requests().len()).collect();
    assert_eq!(counts, [10, 10], "one connection, both servers");
}

#[test]
fn a_thousand_streams_where_so_many_are_allowed() {
    let origin = echo();
    let weir = start_with_slots(&origin, 20, "listener.web.http2.streams_max = 1000");
    let mut client = Http2Client::connect(weir.web());
    let mut all = Vec::new();
    let streams: Vec<u32> = (0..1_000)
        .map(|_| {
            let (stream, opening) = client.opening(&client.request("GET", "/many"), true);
            all.extend(opening);
            stream
        })
        .collect();
    client.send(all);
    for stream in streams {
        assert_eq!(client.response(stream).text(), "/many");
    }
}
