//! Streams when the buffers of a worker are used up: they wait for one, no longer than a head may take, and slow ones keep none.

use crate::harness::http2::frame::CANCEL;
use crate::harness::http2::start_with;
use crate::harness::scripts::{echo_gated, measuring};
use crate::harness::{Client, Gate, Http2Client, Origin, Weir, eventually, origin::ok};

/// Room for eight exchanges.
const LITTLE: &str = "process.buffers_max = 16\n";

/// A client with as many streams as there is room for, which are held.
fn holding(weir: &Weir, origin: &Origin) -> (Http2Client, Vec<u32>) {
    let mut client = Http2Client::connect(weir.web());
    let held = (0..8).map(|_| client.get("/held")).collect();
    origin.wait_for_requests(8);
    (client, held)
}

/// Waits until so many streams wait for memory.
fn wait_for_waiting(weir: &Weir, count: usize) {
    eventually(&format!("{count} wait for memory"), || {
        let list = weir.admin_json("/api/connections");
        let list = list["connections"].as_array().expect("a list");
        list.iter().filter(|line| line["waits_for"] == "a buffer of Weir to become free").count() == count
    });
}

#[test]
fn streams_that_wait_for_memory_go_on_when_others_end() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start_with(&origin, LITTLE);
    let (mut client, held) = holding(&weir, &origin);
    let waiting: Vec<u32> = (0..50).map(|_| client.get("/waits")).collect();
    wait_for_waiting(&weir, 50);
    client.reset(waiting[10], CANCEL);
    client.reset(held[0], CANCEL);
    gate.open();
    for stream in held.iter().skip(1) {
        assert_eq!(client.response(*stream).text(), "/held");
    }
    for stream in waiting.iter().filter(|stream| **stream != waiting[10]) {
        assert_eq!(client.response(*stream).text(), "/waits");
    }
    assert_eq!(Client::get(weir.web(), "/one").text(), "/one");
}

#[test]
fn a_stream_that_waits_for_memory_for_too_long() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start_with(&origin, &format!("{LITTLE}listener.web.timeouts.request = \"500ms\""));
    let (mut client, held) = holding(&weir, &origin);
    let streams = [client.get("/waits"), client.post("/waits", &[])];
    for stream in streams {
        let response = client.outcome(stream);
        assert_eq!((response.status, response.reason()), (503, Some("buffer-limit")), "{response:?}");
    }
    gate.open();
    for stream in held {
        assert_eq!(client.response(stream).text(), "/held");
    }
    assert_eq!(client.fetch("/fine").text(), "/fine", "the connection goes on");
}

#[test]
fn slow_bodies_leave_buffers_to_others() {
    let origin = measuring();
    let weir = start_with(&origin, "process.buffers_max = 64");
    let mut client = Http2Client::connect(weir.web());
    let slow: Vec<u32> = (0..60).map(|_| client.post("/slow", &[])).collect();
    slow.iter().for_each(|stream| client.data(*stream, "1", false));
    eventually("all of them have begun", || weir.metrics().sum("weir_worker_exchanges_open", &[]) == 60.0);
    for part in ["2", "3"] {
        for _ in 0..20 {
            assert_eq!(client.fetch("/quick").status, 200);
            assert_eq!(Client::get(weir.web(), "/quick").status, 200);
        }
        slow.iter().for_each(|stream| client.data(*stream, part, part == "3"));
    }
    for stream in slow {
        assert_eq!(client.response(stream).text(), "3");
    }
    eventually("nothing is left of them", || weir.metrics().sum("weir_worker_exchanges_open", &[]) == 0.0);
}

/// Responses that are not taken hold a buffer each, so there is a limit on their number; others go on when they do.
#[test]
fn responses_that_nobody_takes_leave_buffers_to_others_in_time() {
    let origin = Origin::start(|conn| {
        loop {
            if conn.request()?.target() == "/large" {
                conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")?;
                conn.send(vec![b'x'; 10_000_000])?;
            } else {
                conn.send(ok("fine"))?;
            }
        }
    });
    let limit = "listener.web.timeouts.send = { credit = \"300ms\", rate_min = \"100B/s\" }";
    let weir = start_with(&origin, &format!("{LITTLE}{limit}"));
    let mut client = Http2Client::connect(weir.web());
    client.gives_back = false;
    for _ in 0..20 {
        client.get("/large");
    }
    client.settle();
    assert_eq!(Client::get(weir.web(), "/one").text(), "fine");
    assert_eq!(Http2Client::connect(weir.web()).fetch("/two").text(), "fine");
}
