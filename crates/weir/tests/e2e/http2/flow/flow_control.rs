//! A client that does not take what it asked for: its stream, or its connection, ends in time, others are not held up, and memory is bounded.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use crate::harness::http2::frame::{
    END_HEADERS, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, PREFACE, frame, settings, window_update,
};
use crate::harness::http2::{start, start_with};
use crate::harness::{End, Http2Client, Origin, Weir, eventually, origin::ok};

const SEND_LIMIT: &str = "listener.web.timeouts.send = { credit = \"300ms\", rate_min = \"100B/s\" }";

/// Answers with as much as is taken on `/endless`, with little elsewhere.
fn endless() -> Origin {
    Origin::start(|conn| {
        loop {
            if conn.request()?.target() != "/endless" {
                conn.send(ok("little"))?;
                continue;
            }
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
            let piece = vec![b'x'; 100_000];
            while conn.send(&piece).is_some() {}
            conn.wait_for_end();
            return Some(());
        }
    })
}

fn assert_ended(origin: &Origin, connection: usize) {
    let end = origin.wait_for_end(connection);
    assert!(matches!(end, End::Closed | End::Reset), "{end}");
}

#[test]
fn a_stream_whose_window_stays_shut_ends_in_time_and_alone() {
    let origin = endless();
    let weir = start_with(&origin, SEND_LIMIT);
    let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, 1_000)]);
    client.gives_back = false;
    let stalled = client.get("/endless");
    client.body(stalled, 1_000);
    // The window of the connection is open: others go on.
    for _ in 0..20 {
        assert_eq!(client.fetch("/other").text(), "little");
    }
    client.wait_for_reset(stalled);
    assert_ended(&origin, 0);
    assert_eq!(client.fetch("/other").text(), "little", "the connection goes on");
    assert_eq!(client.goaways, []);
    assert_eq!(failures(&weir, "client"), 1.0);
}

#[test]
fn a_stream_whose_window_never_opens_ends_in_time() {
    let origin = endless();
    let weir = start_with(&origin, SEND_LIMIT);
    let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, 0)]);
    let streams: Vec<u32> = (0..10).map(|_| client.get("/endless")).collect();
    for stream in streams {
        client.wait_for_reset(stream);
        assert_eq!(client.received(stream).status, 200);
    }
    (0..10).for_each(|connection| assert_ended(&origin, connection));
}

#[test]
fn a_stream_whose_window_dribbles_open_ends_in_time() {
    let origin = endless();
    let weir =
        start_with(&origin, "listener.web.timeouts.send = { credit = \"300ms\", rate_min = \"1MB/s\" }");
    let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, 1)]);
    client.gives_back = false;
    let stream = client.get("/endless");
    let mut taken = 1;
    while client.received(stream).reset.is_none() {
        client.wait("a byte comes, or the end", |client| {
            client.received(stream).body.len() >= taken || client.received(stream).is_over()
        });
        client.open_window(stream, 1);
        taken += 1;
    }
    assert_ended(&origin, 0);
}

#[test]
fn a_shut_window_of_the_connection_ends_its_streams_in_time() {
    let origin = endless();
    let weir = start_with(&origin, SEND_LIMIT);
    let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    client.gives_back = false;
    let streams: Vec<u32> = (0..3).map(|_| client.get("/endless")).collect();
    // That it talks, and that others have their heads, is no progress.
    while streams.iter().any(|stream| client.received(*stream).reset.is_none()) {
        client.settle();
        crate::harness::watchdog::work(std::time::Duration::from_millis(20));
    }
    (0..3).for_each(|connection| assert_ended(&origin, connection));
    client.open_window(0, 100_000);
    assert_eq!(client.fetch("/other").text(), "little", "the connection goes on");
}

#[test]
fn a_client_that_does_not_read_is_cut_off_in_time() {
    let origin = endless();
    let weir = start_with(&origin, SEND_LIMIT);
    let mut client = Http2Client::connect_narrow(weir.web(), &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    client.send(crate::harness::http2::frame::window_update(0, 1 << 30));
    (0..3).for_each(|_| {
        client.get("/endless");
    });
    let mut other = Http2Client::connect(weir.web());
    (0..3).for_each(|connection| assert_ended(&origin, connection));
    assert_eq!(other.fetch("/other").text(), "little");
    eventually("the connection is gone", || {
        weir.metrics().sum("weir_listener_http2_connections_open", &[]) == 1.0
    });
    // It has not acknowledged the settings either, but that takes longer.
    let late = weir.metrics().all("weir_listener_failures_total", &["reason=\"request-head-timeout\""]);
    assert_eq!(late, [0.0; 0], "it was the limit on sending");
}

/// What Weir keeps for streams that are not read is bounded by a buffer for each.
#[test]
fn streams_that_nobody_reads_hold_little_memory() {
    let origin = endless();
    let weir = start_with(&origin, "listener.web.timeouts.send = \"off\"");
    let mut warm = Http2Client::connect(weir.web());
    assert_eq!(warm.fetch("/other").text(), "little");
    let before = weir.resident_bytes();
    let mut client = Http2Client::connect_with(weir.web(), &[(INITIAL_WINDOW_SIZE, 1)]);
    client.gives_back = false;
    let streams: Vec<u32> = (0..100).map(|_| client.get("/endless")).collect();
    for stream in &streams {
        client.body(*stream, 1);
    }
    for _ in 0..10 {
        client.settle();
        assert_eq!(warm.fetch("/other").text(), "little");
    }
    let grown = weir.resident_bytes().saturating_sub(before);
    assert!(grown < 30 << 20, "{} KiB for 100 streams", grown >> 10);
}

#[test]
fn uploads_that_no_server_reads_hold_their_windows_at_most() {
    let origin = Origin::start(|conn| {
        loop {
            if conn.head()?.word(1) == "/other" {
                conn.send(ok("little"))?;
                continue;
            }
            std::thread::park_timeout(crate::harness::watchdog::WATCHDOG);
            return None;
        }
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    assert_eq!(client.fetch("/other").text(), "little");
    let before = weir.resident_bytes();
    let streams: Vec<u32> = (0..50).map(|_| client.post("/stalled", &[])).collect();
    let piece = vec![b'x'; 16_384];
    for _ in 0..3 {
        for stream in &streams {
            let room = client.send_room(*stream).clamp(0, 16_384) as usize;
            client.data(*stream, &piece[..room], false);
            client.settle();
        }
    }
    assert_eq!(client.fetch("/other").text(), "little");
    let grown = weir.resident_bytes().saturating_sub(before);
    assert!(grown < 30 << 20, "{} KiB for 50 uploads", grown >> 10);
}

/// How many exchanges failed through this party.
fn failures(weir: &Weir, party: &str) -> f64 {
    weir.metrics().all("weir_listener_failures_total", &[&format!("party=\"{party}\"")]).iter().sum()
}

/// Bytes that the kernel holds of what was written to the socket from `from` to `to` and not acknowledged (proc_net_tcp.txt).
fn queued(from: SocketAddr, to: SocketAddr) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc is mounted");
    let text = |addr: SocketAddr| match addr {
        SocketAddr::V4(addr) => {
            format!("{:08X}:{:04X}", u32::from_ne_bytes(addr.ip().octets()), addr.port())
        }
        SocketAddr::V6(addr) => panic!("{addr} is in another table"),
    };
    let ends = format!("{} {}", text(from), text(to));
    let line = table.lines().find(|line| line.contains(&ends)).expect("the connection is open");
    let queue = line.split_whitespace().nth(4).and_then(|queues| queues.split(':').next());
    usize::from_str_radix(queue.expect("the table has queues"), 16).expect("a number")
}

/// What is in the kernel has its place in the order of the responses for good, and costs memory: there is little of it, however large the
/// windows of HTTP/2 are.
#[test]
fn a_client_that_stops_reading_has_little_in_the_kernel() {
    let origin = endless();
    let weir = start(&origin);
    let mut client = TcpStream::connect(weir.web()).expect("Weir listens");
    let head = b"\x82\x86\x04\x08/endless\x01\x06a.test";
    let hello = [
        PREFACE,
        &settings(&[(INITIAL_WINDOW_SIZE, 1 << 30)]),
        &window_update(0, 1 << 30),
        &frame(HEADERS, END_HEADERS | END_STREAM, 1, head),
    ];
    client.write_all(&hello.concat()).expect("Weir reads");
    let (ours, web) = (client.local_addr().expect("connected"), weir.web());
    let (mut before, mut same) = (0, 0);
    eventually("nothing moves any more", || {
        let now = queued(web, ours);
        same = if now == before && now > 0 { same + 1 } else { 0 };
        before = now;
        same > 20
    });
    // As much as may be unsent, and the last write.
    assert!((10_000..=256 * 1024).contains(&before), "{before} bytes");
}
