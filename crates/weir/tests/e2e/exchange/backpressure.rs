//! Backpressure reaches from a slow reader to the sender; Weir holds one bounded buffer, whatever the size of the body.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::harness::watchdog::{now, pause};
use crate::harness::{Client, Origin, Weir, origin::ok};

const MIB: u64 = 1 << 20;
/// More than the socket buffers of four sockets can hold together.
const IN_FLIGHT_MAX: u64 = 48 * MIB;
/// What Weir may grow by while it relays: buffers of one exchange, allocator slack, the other clients.
const GROWTH_MAX: u64 = 16 * MIB;

/// Sends `len` bytes on `/large`, counted in `sent`; answers everything else at once.
fn sender(len: u64, sent: &Arc<AtomicU64>) -> Origin {
    let sent = Arc::clone(sent);
    Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            if request.target() != "/large" {
                conn.send(ok("quick"))?;
                continue;
            }
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"))?;
            let block = vec![b'l'; MIB as usize];
            for _ in 0..len / MIB {
                conn.send(&block)?;
                sent.fetch_add(MIB, Ordering::Relaxed);
            }
        }
    })
}

fn check_growth(weir: &Weir, before: u64, when: &str) {
    let now = weir.resident_bytes();
    assert!(now < before + GROWTH_MAX, "{when}: memory grew from {} to {} KiB", before >> 10, now >> 10);
}

#[test]
fn one_gibibyte_through_a_slow_reader() {
    const LEN: u64 = 1024 * MIB;
    const SLOWLY: u64 = 64 * MIB;
    let sent = Arc::new(AtomicU64::new(0));
    let origin = sender(LEN, &sent);
    let weir = Weir::proxying(&origin);
    assert_eq!(Client::get(weir.web(), "/warm").text(), "quick");
    let before = weir.resident_bytes();

    let mut client = Client::connect(weir.web());
    client.send_get("/large");
    assert_eq!(client.head().fields.one("content-length"), Some(LEN.to_string().as_str()));
    let expected = vec![b'l'; MIB as usize];
    let mut buf = vec![0; MIB as usize];
    let mut got = 0;
    // Slowly: other clients are served between any two pieces.
    while got < SLOWLY {
        let target = got + 4 * MIB;
        while got < target {
            got += client.skim(&mut buf) as u64;
        }
        assert_eq!(Client::get(weir.web(), "/other").text(), "quick", "another client is served meanwhile");
        let ahead = sent.load(Ordering::Relaxed).saturating_sub(got);
        assert!(ahead < IN_FLIGHT_MAX, "the server is {} MiB ahead of the client", ahead / MIB);
        check_growth(&weir, before, "while the client reads slowly");
    }
    // Then as fast as it goes.
    while got < LEN {
        let len = client.skim(&mut buf);
        assert!(buf[..len] == expected[..len], "the body is intact after {got} bytes");
        got += len as u64;
    }
    assert_eq!(got, LEN);
    check_growth(&weir, before, "after the body");
    assert_eq!(client.fetch("/after").text(), "quick");
}

#[test]
fn a_reader_that_stops_stops_the_server() {
    const LEN: u64 = 256 * MIB;
    let sent = Arc::new(AtomicU64::new(0));
    let origin = sender(LEN, &sent);
    let weir = Weir::proxying(&origin);
    assert_eq!(Client::get(weir.web(), "/warm").text(), "quick");
    let before = weir.resident_bytes();
    let mut stopped: Vec<Client> = (0..4).map(|_| Client::connect_narrow(weir.web())).collect();
    stopped.iter_mut().for_each(|client| {
        client.send_get("/large");
        assert_eq!(client.head().status(), Ok(200));
    });
    // The clients do not read. After many other exchanges the servers must not have sent more than the socket buffers hold.
    for _ in 0..300 {
        assert_eq!(Client::get(weir.web(), "/other").text(), "quick");
    }
    let ahead = sent.load(Ordering::Relaxed);
    assert!(ahead < 4 * IN_FLIGHT_MAX, "the servers are {} MiB ahead", ahead / MIB);
    check_growth(&weir, before, "with four clients that read nothing");
}

#[test]
fn an_upload_to_a_slow_server() {
    const LEN: u64 = 256 * MIB;
    let read = Arc::new(AtomicU64::new(0));
    let counting = Arc::clone(&read);
    let origin = Origin::start(move |conn| {
        // The connection stays open behind this one: an upload on a closed one could not be repeated.
        while conn.head()?.word(0) == "GET" {
            conn.send(ok("quick"))?;
        }
        let mut buf = vec![0; 65_536];
        let mut got = 0;
        while got < LEN {
            got += conn.skim(&mut buf)? as u64;
            counting.store(got, Ordering::Relaxed);
        }
        conn.send(ok("taken"))
    });
    let weir = Weir::proxying(&origin);
    assert_eq!(Client::get(weir.web(), "/warm").text(), "quick");
    let before = weir.resident_bytes();
    let mut client = Client::connect(weir.web());
    client.send(format!("POST /up HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LEN}\r\n\r\n"));
    let mut writer = client.duplicate();
    let read_so_far = Arc::clone(&read);
    let writing = thread::spawn(move || {
        let block = vec![b'u'; MIB as usize];
        let mut furthest = 0;
        for n in 1..=LEN / MIB {
            writer.send(&block);
            furthest = furthest.max((n * MIB).saturating_sub(read_so_far.load(Ordering::Relaxed)));
        }
        furthest
    });
    assert_eq!(client.response().text(), "taken");
    let furthest = writing.join().expect("the writing thread ends with the test");
    assert!(furthest < IN_FLIGHT_MAX, "the client was {} MiB ahead of the server", furthest / MIB);
    check_growth(&weir, before, "after the upload");
}

/// Requests without end from a client that reads no response: Weir stops reading them.
#[test]
fn a_client_that_pipelines_and_does_not_read() {
    let origin = Origin::start(|conn| {
        let body = "r".repeat(10_000);
        loop {
            conn.request()?;
            conn.send(ok(&body))?;
        }
    });
    let weir = Weir::proxying(&origin);
    assert_eq!(Client::get(weir.web(), "/warm").status, 200);
    let before = weir.resident_bytes();
    let mut client = Client::connect(weir.web());
    let request = "GET /p HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let block = request.repeat(1_000);
    let mut writer = client.duplicate();
    const REQUESTS: usize = 8_000;
    let writing = thread::spawn(move || (0..REQUESTS / 1_000).for_each(|_| writer.send(&block)));
    // Many exchanges of others later, only what fits into socket buffers has been answered.
    for _ in 0..200 {
        assert_eq!(Client::get(weir.web(), "/other").status, 200);
    }
    let served = origin.requests().len();
    assert!(served < REQUESTS, "unread responses of {} MiB", (served * 10_000) as u64 / MIB);
    check_growth(&weir, before, "with a client that only asks");
    for _ in 0..REQUESTS {
        assert_eq!(client.response().body.bytes.len(), 10_000);
    }
    writing.join().expect("the writing thread ends with the responses");
}

/// P99 of batches of requests on one connection, for at least `time`.
fn latencies(client: &mut Client, time: Duration) -> Vec<Duration> {
    const BATCH: usize = 200;
    let (mut worst, start) = (Vec::new(), now());
    while worst.is_empty() || start.elapsed() < time {
        let mut batch = [Duration::ZERO; BATCH].map(|_| {
            let asked = now();
            assert_eq!(client.fetch("/other").text(), "quick");
            asked.elapsed()
        });
        batch.sort_unstable();
        worst.push(batch[BATCH * 99 / 100]);
    }
    worst
}

fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

/// Reads 1 MiB/s while `running`: a piece, then a pause that makes up for it.
fn read_slowly(client: &mut Client, running: &AtomicBool) -> u64 {
    let mut buf = vec![0; 16 * 1024];
    let (mut got, start) = (0, now());
    while running.load(Ordering::Relaxed) {
        let due = start.elapsed().as_millis() as u64 * MIB / 1000;
        if got <= due {
            got += client.skim(&mut buf) as u64;
        } else {
            pause();
        }
    }
    got
}

/// On one worker, so that both share an event loop. Times with and without the slow reader alternate, and of each the
/// median of many P99 counts: whatever else this machine does disturbs both alike.
#[test]
fn a_slow_reader_does_not_slow_others() {
    const LEN: u64 = 1024 * MIB;
    const ROUNDS: usize = 8;
    const ROUND_TIME: Duration = Duration::from_millis(400);
    /// Beyond the noise of a machine that is busy otherwise.
    const RATIO_MAX: u32 = 4;
    let sent = Arc::new(AtomicU64::new(0));
    let origin = sender(LEN, &sent);
    let weir = Weir::proxying_with(&origin, "process.workers = 1");
    let mut other = Client::connect(weir.web());
    latencies(&mut other, ROUND_TIME);
    let before = weir.resident_bytes();

    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.extend(latencies(&mut other, ROUND_TIME));
        let mut slow = Client::connect(weir.web());
        slow.send_get("/large");
        assert_eq!(slow.head().status(), Ok(200));
        let running = Arc::new(AtomicBool::new(true));
        let runs = Arc::clone(&running);
        let reading = thread::spawn(move || read_slowly(&mut slow, &runs));
        beside.extend(latencies(&mut other, ROUND_TIME));
        check_growth(&weir, before, "beside a slow reader");
        running.store(false, Ordering::Relaxed);
        let got = reading.join().expect("the reader ends with the round");
        assert!(got > 0 && got < LEN, "it read all the time: {got} bytes");
    }
    check_growth(&weir, before, "after the slow readers");
    let (alone, beside) = (median(alone), median(beside));
    assert!(beside < alone * RATIO_MAX, "P99 of others: {alone:?} alone, {beside:?} beside a slow reader");
}
