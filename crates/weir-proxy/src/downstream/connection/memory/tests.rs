//! What must hold of connections without bytes: streams side by side, and every way in which a stream, or the connection, ends.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_observe::Cause;

use super::driver::{RESETS_MAX, ROUND_TRIP};
use super::run;
use super::wire::{Leaving, StreamWire, Wire};
use crate::downstream::connection::simulation::peer::LIMITED_LEN;
use crate::downstream::stream_driver::{EndReason, StreamEnd};
use crate::downstream::transport::Close;
use crate::net::timing::deadline::Cut;
use crate::state::connections::connection_list::{ConnectionQuery, ConnectionQueryMessage};
use crate::state::tracing::recorder::ClientTransport;

const SECOND: Duration = Duration::from_secs(1);

/// A request that is whole.
fn get(wire: &Wire, path: &str, id: usize) -> Rc<StreamWire> {
    let stream = wire.open(&format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Id: {id}\r\n\r\n"));
    stream.end_sending();
    stream
}

/// The client closes the connection, of which nothing is left then.
async fn leave(mut rig: super::MemoryRig, wire: &Wire) -> super::MemoryRig {
    wire.leave(Leaving::Closes);
    rig.settle().await;
    assert!(wire.is_dropped.get(), "the connection is over");
    rig
}

#[test]
fn requests_in_parallel_each_have_their_response() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let paths = ["/short", "/limited"];
        let streams: Vec<_> = (0..40).map(|id| get(&wire, paths[id % 2], id)).collect();
        let body: Vec<u8> = (0..200).collect();
        let upload =
            wire.open("POST /sum HTTP/1.1\r\nHost: a.test\r\nX-Id: 40\r\nContent-Length: 200\r\n\r\n");
        upload.send(&body[..120]);
        rig.settle().await;
        for (id, stream) in streams.iter().enumerate() {
            assert!(stream.is_whole(), "{id}");
            assert_eq!((stream.status(), stream.field("x-id")), (Some(200), Some(id.to_string())));
            assert_eq!(stream.got().len() as u64, if id % 2 == 0 { 5 } else { LIMITED_LEN }, "{id}");
        }
        assert_eq!(upload.status(), None, "its body is not whole");
        upload.send(&body[120..]);
        upload.end_sending();
        rig.settle().await;
        assert_eq!((&*upload.got(), upload.is_whole()), (&b"19900"[..], true));
        assert_eq!((rig.listener.shard.streams.value(), rig.listener.shard.requests.value()), (41, 41));
        // Idle in between, it is as good as new.
        rig.pass(5 * SECOND).await;
        let later = get(&wire, "/short", 41);
        rig.settle().await;
        assert!(later.is_whole());
        leave(rig, &wire).await
    });
}

#[test]
fn servers_are_told_what_the_transport_knows() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let stream = get(&wire, "/short", 0);
        rig.settle().await;
        assert!(stream.is_whole());
        let record = String::from_utf8(rig.server.records()[0].clone()).expect("it is text").to_lowercase();
        for line in ["x-forwarded-proto: https\r\n", "x-forwarded-for: 192.0.2.1\r\n"] {
            assert!(record.contains(line), "{record}");
        }
        leave(rig, &wire).await
    });
}

#[test]
fn a_stream_that_its_client_resets_ends_alone() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let (silent, other) = (get(&wire, "/silent", 0), get(&wire, "/limited", 1));
        other.take_no_more();
        rig.settle().await;
        assert_eq!(rig.server.connections_open(), 2);
        wire.reset(&silent);
        rig.settle().await;
        assert_eq!((silent.status(), silent.end.get()), (None, Some(StreamEnd::Aborted)));
        assert_eq!(rig.server.connections_open(), 1, "its server was told");
        assert_eq!(rig.listener.shard.streams_reset.value(), 1);
        other.give_room(usize::MAX);
        rig.settle().await;
        assert!(other.is_whole(), "the other one goes on");
        leave(rig, &wire).await
    });
}

#[test]
fn a_stream_that_is_reset_before_it_begins_costs_no_exchange() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let stream = get(&wire, "/short", 0);
        wire.reset(&stream);
        rig.settle().await;
        assert_eq!((stream.end.get(), rig.listener.shard.streams.value()), (Some(StreamEnd::CutShort), 0));
        leave(rig, &wire).await
    });
}

#[test]
fn a_stop_drains_the_streams_that_are_on_their_way() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let slow = get(&wire, "/limited", 0);
        slow.take_no_more();
        rig.settle().await;
        rig.stop();
        rig.settle().await;
        assert!(wire.is_announced.get() && wire.end.get().is_none());
        // Sent before the client could know.
        let crossing = get(&wire, "/short", 1);
        rig.settle().await;
        assert!(crossing.is_whole());
        rig.pass(ROUND_TRIP).await;
        assert_eq!(wire.end.get(), Some(EndReason::Regular));
        let late = get(&wire, "/short", 2);
        rig.settle().await;
        assert!(late.is_refused.get(), "the client knew");
        assert!(!wire.is_dropped.get(), "a stream is left");
        slow.give_room(usize::MAX);
        rig.settle().await;
        assert!(slow.is_whole());
        assert_eq!((wire.closed.get(), wire.is_dropped.get()), (Some(Close::Lingering), true));
        rig
    });
}

#[test]
fn a_server_that_is_silent_meets_the_deadline_of_its_stream() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let silent = get(&wire, "/silent", 0);
        rig.pass(2 * SECOND).await;
        let short = get(&wire, "/short", 1);
        rig.settle().await;
        assert_eq!((silent.status(), short.is_whole()), (None, true));
        rig.pass(2 * SECOND).await;
        assert_eq!((silent.status(), silent.is_whole()), (Some(504), true));
        leave(rig, &wire).await
    });
}

#[test]
fn a_client_that_takes_nothing_meets_the_deadline_of_its_stream() {
    run("timeouts.send = \"2s\"", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let stuck = get(&wire, "/limited", 0);
        stuck.take_no_more();
        rig.pass(4 * SECOND).await;
        assert!(!stuck.is_whole() && stuck.end.get().is_some(), "{:?}", stuck.end.get());
        let short = get(&wire, "/short", 1);
        rig.settle().await;
        assert!(short.is_whole(), "the connection goes on");
        leave(rig, &wire).await
    });
}

#[test]
fn a_connection_that_is_idle_for_too_long_ends() {
    run("timeouts.idle = \"20s\"", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let stream = get(&wire, "/short", 0);
        rig.pass(19 * SECOND).await;
        assert!(stream.is_whole() && !wire.is_announced.get());
        rig.pass(SECOND + ROUND_TRIP).await;
        assert_eq!((wire.end.get(), wire.closed.get()), (Some(EndReason::Regular), Some(Close::Lingering)));
        assert!(wire.is_dropped.get());
        rig
    });
}

#[test]
fn a_connection_that_is_old_enough_ends() {
    run("timeouts.connection_age = \"10s\"", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let slow = get(&wire, "/limited", 0);
        slow.take_no_more();
        rig.pass(10 * SECOND + ROUND_TRIP).await;
        assert_eq!(wire.end.get(), Some(EndReason::Regular));
        slow.give_room(usize::MAX);
        rig.settle().await;
        assert!(slow.is_whole() && wire.is_dropped.get());
        rig
    });
}

#[test]
fn a_client_that_does_not_acknowledge_how_we_begin_is_given_up() {
    run("", async |mut rig| {
        let wire = Rc::new(Wire::default());
        assert!(rig.accept(Rc::clone(&wire)));
        rig.pass(9 * SECOND).await;
        assert_eq!(wire.end.get(), None);
        rig.pass(2 * SECOND).await;
        assert_eq!((wire.end.get(), wire.is_dropped.get()), (Some(EndReason::Unacknowledged), true));
        rig
    });
}

#[test]
fn a_client_that_is_gone_leaves_nothing_behind() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let streams = [get(&wire, "/silent", 0), get(&wire, "/limited", 1), get(&wire, "/silent", 2)];
        streams[1].take_no_more();
        rig.settle().await;
        wire.leave(Leaving::Resets);
        rig.settle().await;
        for stream in &streams {
            assert_eq!((stream.gone.get(), stream.end.get()), (Some(Cause::Reset), Some(StreamEnd::Aborted)));
        }
        assert_eq!((wire.closed.get(), wire.is_dropped.get()), (Some(Close::Ended), true));
        assert_eq!(rig.server.connections_open(), 0, "servers were told");
        rig
    });
}

#[test]
fn a_connection_that_closes_during_a_response_ends_as_the_listener_says() {
    for (lines, is_whole) in [("", false), ("abort_on_close = false", true)] {
        run(lines, async |mut rig| {
            let wire = rig.connect().expect("it is served");
            let stream = get(&wire, "/limited", 0);
            stream.take_no_more();
            stream.give_room(1_000);
            rig.settle().await;
            assert_eq!((stream.status(), stream.got().len()), (Some(200), 1_000));
            wire.leave(Leaving::Closes);
            rig.settle().await;
            stream.give_room(usize::MAX);
            rig.settle().await;
            assert_eq!(stream.is_whole(), is_whole, "{lines}");
            assert_eq!((wire.closed.get(), wire.is_dropped.get()), (Some(Close::Ended), true));
            rig
        });
    }
}

#[test]
fn an_operator_ends_a_connection_during_a_response() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let stream = get(&wire, "/limited", 0);
        stream.take_no_more();
        rig.settle().await;
        let query =
            ConnectionQuery { ends: Some(Cut::Requested), count_max: 10, ..ConnectionQuery::default() };
        let (answer, found) = oneshot::channel();
        let message = ConnectionQueryMessage { query: Arc::new(query), answer };
        rig.worker.connection_list.query_all(&rig.worker.timers, message).await;
        let found = found.await.expect("it is answered");
        assert_eq!(found.connections.len(), 1, "the connection, which takes its stream along");
        assert!(found.connections[0].transport == ClientTransport::Tls && found.connections[0].requests == 1);
        rig.settle().await;
        assert!(!stream.is_whole() && stream.end.get() == Some(StreamEnd::Aborted));
        assert!(wire.is_dropped.get());
        rig
    });
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    run("http2.streams_max = 3", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let streams: Vec<_> = (0..5).map(|id| get(&wire, "/limited", id)).collect();
        streams.iter().for_each(|stream| stream.take_no_more());
        rig.settle().await;
        let refused: Vec<_> = streams.iter().map(|stream| stream.is_refused.get()).collect();
        assert_eq!(refused, [false, false, false, true, true]);
        assert_eq!((rig.listener.shard.streams_refused.value(), rig.listener.shard.streams.value()), (2, 3));
        streams[0].give_room(usize::MAX);
        rig.settle().await;
        let again = get(&wire, "/short", 5);
        rig.settle().await;
        assert!(streams[0].is_whole() && again.is_whole(), "there is room again");
        leave(rig, &wire).await
    });
}

#[test]
fn a_connection_that_has_had_its_requests_ends_behind_them() {
    run("limits.requests_per_connection = 3", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let streams: Vec<_> = (0..3).map(|id| get(&wire, "/short", id)).collect();
        rig.settle().await;
        assert!(streams.iter().all(|stream| stream.is_whole()) && wire.is_announced.get());
        rig.pass(ROUND_TRIP).await;
        assert!(wire.end.get().is_some() && wire.is_dropped.get());
        rig
    });
}

#[test]
fn a_client_has_no_more_connections_than_it_may() {
    run("connections_per_client_max = 2", async |mut rig| {
        let wires = [rig.connect().expect("the first"), rig.connect().expect("the second")];
        assert!(rig.connect().is_none(), "a third");
        rig.settle().await;
        wires[0].leave(Leaving::Resets);
        rig.settle().await;
        let third = rig.connect().expect("there is room again");
        rig.settle().await;
        third.leave(Leaving::Resets);
        leave(rig, &wires[1]).await
    });
}

#[test]
fn a_client_that_resets_too_much_loses_its_connection() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let stays = get(&wire, "/silent", 0);
        for id in 1..=RESETS_MAX as usize + 1 {
            let stream = get(&wire, "/silent", id);
            rig.settle().await;
            wire.reset(&stream);
            rig.settle().await;
        }
        assert!(matches!(stays.gone.get(), Some(Cause::Rule(_))), "{:?}", stays.gone.get());
        assert_eq!((wire.closed.get(), wire.is_dropped.get()), (Some(Close::Now), true));
        rig
    });
}

#[test]
fn an_idle_connection_goes_for_another_that_needs_its_place() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let stream = get(&wire, "/short", 0);
        rig.pass(2 * SECOND).await;
        assert!(stream.is_whole());
        assert!(rig.worker.make_room(None, &mut Default::default()), "it is the only one that is idle");
        rig.settle().await;
        assert_eq!((wire.end.get(), wire.is_dropped.get()), (Some(EndReason::Regular), true));
        rig
    });
}

#[test]
fn a_stream_may_become_a_tunnel() {
    run("", async |mut rig| {
        let wire = rig.connect().expect("it is served");
        let upgrade =
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
        let tunnel =
            wire.open(&format!("GET /tunnel HTTP/1.1\r\nHost: a.test\r\nX-Id: 0\r\n{upgrade}\r\n\r\n"));
        rig.settle().await;
        assert_eq!((tunnel.status(), rig.server.tunnels_open()), (Some(101), 1));
        tunnel.send(b"there ");
        rig.settle().await;
        tunnel.send(b"and back");
        rig.settle().await;
        assert_eq!(&*tunnel.got(), b"there and back");
        let other = get(&wire, "/short", 1);
        rig.settle().await;
        assert!(other.is_whole(), "beside a tunnel");
        tunnel.end_sending();
        rig.settle().await;
        assert!(tunnel.is_whole());
        assert_eq!(rig.server.tunnels_open(), 0);
        leave(rig, &wire).await
    });
}
