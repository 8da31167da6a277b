//! The end of a connection, in two steps (RFC 9113 section 6.8): at first every stream that is on its way is still taken, and when the client
//! knows, it is told the last one. No stream that was taken is lost.

use std::thread;

use rustix::process::Signal;

use crate::harness::http2::frame::{self, ACK, NO_ERROR, PING};
use crate::harness::http2::{H2C, start, start_with, start_with_tls};
use crate::harness::scripts::{echo, echo_gated};
use crate::harness::{End, Gate, Http2Client, Origin, Weir, config_with};

/// The last stream in the first step: all there may be.
const ALL: u32 = u32::MAX >> 1;

/// Two listeners, so that one can go.
fn two_listeners(origin: &Origin) -> (String, String) {
    let other = "listener.other = { address = \"127.0.0.1:0\", upstream = \"app\" }";
    let one = config_with(&[origin.named("a")], &format!("process.workers = 1\n{other}\n"));
    let without =
        one.replace("listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n", "");
    (format!("{one}{H2C}"), without)
}

/// A client that knows of the end only when the test lets it.
fn unaware(weir: &Weir) -> Http2Client {
    let mut client = Http2Client::connect(weir.web());
    client.settle();
    client.answers = false;
    client
}

/// Answers Weir's ping: the client knows.
fn know(client: &mut Http2Client) {
    client.send(frame::frame(PING, ACK, 0, b"goodbye!"));
}

#[test]
fn when_a_reload_takes_the_listener_away() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let (with, without) = two_listeners(&origin);
    let weir = Weir::start(&with);
    let mut client = unaware(&weir);
    let held = client.get("/held");
    origin.wait_for_requests(1);
    weir.reload(&without);
    assert_eq!(client.goaway(1), (ALL, NO_ERROR));
    // It was on its way when Weir said so.
    let late = client.get("/late");
    assert_eq!(client.response(late).text(), "/late");
    know(&mut client);
    assert_eq!(client.goaway(2), (late, NO_ERROR));
    // This one was not taken: the client may repeat it elsewhere.
    let beyond = client.get("/beyond");
    gate.open();
    assert_eq!(client.response(held).text(), "/held");
    assert_eq!(client.end(), End::Closed);
    assert!(!client.received(beyond).is_over());
    assert_eq!(origin.targets(), ["/held", "/late"]);
}

#[test]
fn a_reload_that_keeps_the_listener_keeps_its_connections() {
    let gate = Gate::new();
    let (old, new) = (echo_gated(&gate, "/held"), Origin::serving("new"));
    let config = |origin: &Origin| config_with(&[origin.named("a")], &format!("process.workers = 1\n{H2C}"));
    let weir = Weir::start(&config(&old));
    let mut client = Http2Client::connect(weir.web());
    let held = client.get("/held");
    old.wait_for_requests(1);
    weir.reload(&config(&new));
    assert_eq!(client.fetch("/next").text(), "new", "the next stream goes by the new config");
    gate.open();
    assert_eq!(client.response(held).text(), "/held");
    client.settle();
    assert_eq!(client.goaways, []);
}

#[test]
fn when_weir_stops() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let mut weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let held = [client.get("/held/1"), client.get("/held/2")];
    origin.wait_for_requests(2);
    weir.signal(Signal::TERM);
    assert_eq!(client.goaway(2), (held[1], NO_ERROR));
    assert_eq!(client.goaways[0], (ALL, NO_ERROR));
    gate.open();
    assert_eq!(client.response(held[0]).text(), "/held/1");
    assert_eq!(client.response(held[1]).text(), "/held/2");
    assert_eq!(client.end(), End::Closed);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

#[test]
fn when_weir_stops_and_the_connection_is_idle() {
    let origin = echo();
    let (authority, mut weir) = start_with_tls(&origin, "");
    let mut client = Http2Client::connect_tls(&authority, weir.web());
    assert_eq!(client.fetch("/").status, 200);
    weir.signal(Signal::TERM);
    assert_eq!(client.end(), End::Closed, "with close_notify");
    assert_eq!(client.goaways, [(ALL, NO_ERROR), (1, NO_ERROR)]);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

/// Nothing is cut: the client has everything.
#[test]
fn when_weir_stops_and_the_client_does_not_close() {
    let origin = echo();
    let mut weir = start_with(&origin, "process.stop_grace = \"1s\"");
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/").status, 200);
    weir.signal(Signal::TERM);
    assert_eq!(client.end(), End::Closed);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
}

#[test]
fn a_client_that_does_not_say_that_it_knows_is_not_waited_for() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.timeouts.connection_age = \"100ms\"");
    let mut client = unaware(&weir);
    assert_eq!(client.end(), End::Closed);
    assert_eq!(client.goaways, [(ALL, NO_ERROR), (0, NO_ERROR)]);
}

#[test]
fn at_the_age_of_a_connection() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start_with(&origin, "listener.web.timeouts.connection_age = \"200ms\"");
    let mut client = Http2Client::connect(weir.web());
    let held = client.get("/held");
    assert_eq!(client.goaway(2), (held, NO_ERROR));
    gate.open();
    assert_eq!(client.response(held).text(), "/held");
    assert_eq!(client.end(), End::Closed);
}

#[test]
fn after_the_last_request_of_a_connection() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.limits.requests_per_connection = 3");
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..2 {
        assert_eq!(client.fetch("/").status, 200);
        client.settle();
        assert_eq!(client.goaways, []);
    }
    assert_eq!(client.fetch("/").status, 200);
    assert_eq!(client.end(), End::Closed);
    assert_eq!(client.goaways, [(ALL, NO_ERROR), (5, NO_ERROR)]);
}

#[test]
fn a_burst_beyond_the_last_request_is_answered() {
    let origin = echo();
    let weir = start_with(&origin, "listener.web.limits.requests_per_connection = 3");
    let mut client = Http2Client::connect(weir.web());
    let mut all = Vec::new();
    let streams: Vec<u32> = (0..50)
        .map(|_| {
            let (stream, opening) = client.opening(&client.request("GET", "/burst"), true);
            all.extend(opening);
            stream
        })
        .collect();
    client.send(all);
    client.end();
    let (last, _) = client.goaways[1];
    for stream in streams {
        assert_eq!(client.received(stream).has_ended, stream <= last, "{stream} of {last}");
    }
    assert!(last >= 5, "{last}");
}

/// It has to know which of its streams were not taken, although Weir does not wait until the client has read that.
#[test]
fn when_a_connection_makes_room_for_another() {
    let origin = echo();
    let weir = start_with(&origin, "process.connections_max = 2");
    let mut first = Http2Client::connect(weir.web());
    assert_eq!(first.fetch("/").status, 200);
    let mut others = [Http2Client::connect(weir.web()), Http2Client::connect(weir.web())];
    for other in &mut others {
        assert_eq!(other.fetch("/").status, 200);
    }
    assert_eq!(first.end(), End::Closed);
    assert_eq!(first.goaways, [(1, NO_ERROR)]);
}

/// A client that asks without pause repeats what is beyond the last stream, and nothing else is missing.
#[test]
fn no_stream_that_was_taken_is_lost() {
    for _ in 0..5 {
        let origin = echo();
        let (with, without) = two_listeners(&origin);
        let weir = Weir::start(&with);
        let mut client = Http2Client::connect(weir.web());
        client.settle();
        let mut streams = Vec::new();
        thread::scope(|scope| {
            let reload = scope.spawn(|| weir.reload(&without));
            while client.goaways.len() < 2 {
                for _ in 0..5 {
                    let (stream, opening) = client.opening(&client.request("GET", "/asked"), true);
                    streams.push(stream);
                    if client.send_what_is_taken(opening).is_err() {
                        break;
                    }
                }
                let last = *streams.last().expect("some were opened");
                client.wait("the last is answered, or not taken", |client| {
                    client.received(last).is_over() || client.goaways.len() >= 2
                });
            }
            reload.join().expect("the config is reloaded");
        });
        client.end();
        let (last, code) = client.goaways[1];
        assert_eq!(code, NO_ERROR);
        for stream in streams {
            let received = client.received(stream);
            if stream <= last {
                assert_eq!(
                    (received.status, received.has_ended),
                    (200, true),
                    "{stream} of {last}: {received:?}"
                );
            } else {
                assert_eq!(received.status, 0, "{stream} of {last}: {received:?}");
            }
        }
    }
}

#[test]
fn a_goaway_of_the_client_ends_nothing_that_is_open() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let held = client.get("/held");
    origin.wait_for_requests(1);
    client.send(frame::frame(frame::GOAWAY, 0, 0, &[0; 8]));
    client.settle();
    gate.open();
    assert_eq!(client.response(held).text(), "/held");
}
