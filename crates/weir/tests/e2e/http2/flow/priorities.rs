//! Priorities (RFC 9218): when the client takes less than there is, urgent streams come first, and incremental ones share.

use crate::harness::http2::frame::{DATA, INITIAL_WINDOW_SIZE, priority_update};
use crate::harness::http2::start;
use crate::harness::{Gate, Http2Client, Origin};

const LEN: usize = 400_000;

/// A client whose streams have large windows, while that of the connection is shut.
fn client(to: std::net::SocketAddr) -> Http2Client {
    let mut client = Http2Client::connect_with(to, &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    client.gives_back = false;
    client
}

/// Answers with a large body.
fn large() -> Origin {
    Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"))?;
            conn.send(vec![b'x'; LEN])?;
        }
    })
}

/// Uses up the window of the connection by a stream that is least urgent, then opens streams with these priorities, all of which have
/// something to send before anything can be sent.
fn open(client: &mut Http2Client, origin: &Origin, priorities: &[&str]) -> Vec<u32> {
    let first = client.get_with("/", &[("priority", "u=7")]);
    client.body(first, 65_535);
    client.settle();
    let streams: Vec<u32> =
        priorities.iter().map(|priority| client.get_with("/", &[("priority", priority)])).collect();
    for stream in &streams {
        client.head(*stream);
    }
    origin.wait_for_requests(streams.len() + 1);
    // Each waits for room once its first bytes are there.
    for _ in 0..3 {
        client.settle();
    }
    streams
}

/// Opens the window of the connection bit by bit; the streams in the order in which they got their last byte.
fn order_of_ends(client: &mut Http2Client, streams: &[u32]) -> Vec<u32> {
    let mut order = Vec::new();
    while order.len() < streams.len() {
        client.open_window(0, 10_000);
        client.settle();
        for stream in streams {
            if client.received(*stream).has_ended && !order.contains(stream) {
                order.push(*stream);
            }
        }
    }
    order
}

#[test]
fn urgent_streams_come_first_and_of_these_the_oldest() {
    let origin = large();
    let weir = start(&origin);
    let mut client = client(weir.web());
    let streams = open(&mut client, &origin, &["u=5", "u=1", "u=3", "u=1", "u=0"]);
    let [five, one, three, also_one, zero] = streams[..] else { panic!("five streams") };
    assert_eq!(order_of_ends(&mut client, &streams), [zero, one, also_one, three, five]);
}

#[test]
fn streams_that_are_of_use_in_parts_share() {
    let origin = large();
    let weir = start(&origin);
    let mut client = client(weir.web());
    let streams = open(&mut client, &origin, &["u=3, i", "u=3, i", "u=3, i"]);
    client.open_window(0, 300_000);
    client.wait("the window is used up", |client| {
        streams.iter().map(|stream| client.received(*stream).body.len()).sum::<usize>() == 300_000
    });
    let bodies: Vec<usize> = streams.iter().map(|stream| client.received(*stream).body.len()).collect();
    assert!(bodies.iter().all(|len| (80_000..120_000).contains(len)), "{bodies:?}");
}

#[test]
fn streams_that_are_of_use_as_a_whole_do_not_share() {
    let origin = large();
    let weir = start(&origin);
    let mut client = client(weir.web());
    let streams = open(&mut client, &origin, &["u=3", "u=3", "u=3"]);
    assert_eq!(order_of_ends(&mut client, &streams), streams);
    let of = |stream: u32| {
        let frames = client.frames().iter().enumerate();
        let of_it = frames.filter(move |(_, frame)| frame.kind == DATA && frame.stream == stream);
        of_it.map(|(at, _)| at).collect::<Vec<usize>>()
    };
    let [first, second, third] = [of(streams[0]), of(streams[1]), of(streams[2])];
    assert!(first.last() < second.first() && second.last() < third.first(), "one after the other");
}

#[test]
fn a_priority_update_changes_the_order() {
    let origin = large();
    let weir = start(&origin);
    let mut client = client(weir.web());
    let streams = open(&mut client, &origin, &["u=1", "u=2", "u=3"]);
    client.send(priority_update(streams[2], "u=0"));
    client.send(priority_update(streams[0], "u=6, i"));
    assert_eq!(order_of_ends(&mut client, &streams), [streams[2], streams[1], streams[0]]);
}

#[test]
fn a_priority_that_cannot_be_read_is_that_without_one() {
    let origin = large();
    let weir = start(&origin);
    let mut client = client(weir.web());
    let streams = open(&mut client, &origin, &["u=4", "nonsense;;", "u=2"]);
    assert_eq!(order_of_ends(&mut client, &streams), [streams[2], streams[1], streams[0]]);
}

/// A quick small response is not held up by a large one that is less urgent and has its room in the output already.
#[test]
fn an_urgent_stream_passes_one_that_is_on_its_way() {
    let gate = Gate::new();
    let origin_gate = gate.clone();
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.target() == "/urgent" {
                origin_gate.wait("the other stream is on its way");
            }
            let len = if request.target() == "/urgent" { 1_000 } else { 4_000_000 };
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"))?;
            conn.send(vec![b'x'; len])?;
        }
    });
    let weir = start(&origin);
    let mut client = client(weir.web());
    let background = client.get_with("/background", &[("priority", "u=7")]);
    let urgent = client.get_with("/urgent", &[("priority", "u=0")]);
    client.body(background, 65_535);
    gate.open();
    client.head(urgent);
    (0..3).for_each(|_| client.settle());
    while !client.received(urgent).has_ended {
        client.open_window(0, 10_000);
        client.settle();
    }
    assert!(client.received(background).body.len() < 1_000_000, "{}", client.received(background).body.len());
}

/// A stream that waits behind a more urgent one, while the client takes that, is not one that the client does not take.
#[test]
fn a_stream_that_waits_for_its_turn_is_not_timed_out() {
    let origin = large();
    let limit = "listener.web.timeouts.send = { credit = \"500ms\", rate_min = \"1kB/s\" }";
    let weir = crate::harness::http2::start_with(&origin, limit);
    let mut client = client(weir.web());
    let streams = open(&mut client, &origin, &["u=0", "u=5"]);
    for _ in 0..30 {
        client.open_window(0, 10_000);
        client.settle();
        crate::harness::watchdog::work(std::time::Duration::from_millis(50));
    }
    assert!(!client.received(streams[0]).is_over(), "it is on its way");
    assert_eq!(client.received(streams[1]).reset, None, "{:?}", weir.admin_json("/api/failures").to_string());
}
