//! The origin over loopback, judged by the bytes it answers.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::{OriginServer, OriginSetup, journal, nth_addr};
use crate::clock;
use crate::wire::fields::{self, BodyFraming};
use crate::wire::{checksum, pattern, websocket};

struct TestResponse {
    status: u16,
    head: String,
    body: Vec<u8>,
}

struct TestClient(TcpStream, Vec<u8>);

impl TestClient {
    fn connect(origin: &OriginServer) -> Self {
        let stream = TcpStream::connect(origin.addr()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(stream, Vec::new())
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn fill(&mut self) -> usize {
        let mut part = [0; 8192];
        let len = self.0.read(&mut part).unwrap();
        self.1.extend_from_slice(&part[..len]);
        len
    }

    fn answer(&mut self) -> TestResponse {
        self.answer_to(true)
    }

    fn answer_to(&mut self, with_body: bool) -> TestResponse {
        while fields::head_len(&self.1).is_none() {
            assert_ne!(self.fill(), 0, "closed before the head ended");
        }
        let len = fields::head_len(&self.1).unwrap();
        let head: Vec<u8> = self.1.drain(..len).collect();
        let (line, lines) = fields::split_line(&head).unwrap();
        let status = fields::decimal(&line[9..12]).unwrap() as u16;
        let body_len = match fields::read(lines).unwrap().framing {
            BodyFraming::Length(len) if with_body && status >= 200 => len as usize,
            _ => 0,
        };
        while self.1.len() < body_len {
            assert_ne!(self.fill(), 0, "closed in the body");
        }
        let body = self.1.drain(..body_len).collect();
        TestResponse { status, head: String::from_utf8(head).unwrap(), body }
    }

    fn is_closed(&mut self) -> bool {
        self.1.is_empty() && self.fill() == 0
    }
}

fn origin() -> OriginServer {
    OriginServer::start("127.0.0.1:0".parse::<SocketAddr>().unwrap(), 1).unwrap()
}

#[test]
fn the_page_comes_again_and_again_on_one_connection() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    for _ in 0..3 {
        client.send(b"GET /index.html HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = client.answer();
        assert_eq!((answer.status, answer.body.len()), (200, 612));
        assert!(pattern::matches(0, &answer.body));
        assert!(answer.head.contains("\r\nDate: ") && answer.head.contains(" GMT\r\n"), "{}", answer.head);
    }
    assert_eq!((origin.counters().accepted(), origin.counters().requests()), (1, 3));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    client.send(
        b"GET /delay/30/bytes/5 HTTP/1.1\r\nHost: a\r\n\r\nPOST /checksum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
          GET /status/503/bytes/9 HTTP/1.1\r\nHost: a\r\n\r\nGET /bytes/300000 HTTP/1.1\r\nHost: a\r\n\r\nGET /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(client.answer().body.len(), 5);
    assert_eq!(client.answer().body, checksum::line_for(b"abc").as_bytes());
    let answer = client.answer();
    assert_eq!((answer.status, answer.body.len()), (503, 9));
    let big = client.answer().body;
    assert!(big.len() == 300_000 && pattern::matches(0, &big));
    assert_eq!(client.answer().body, pattern::run(0, 1));
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    client.0.set_nodelay(true).unwrap();
    for byte in b"POST /checksum HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" {
        client.send(&[*byte]);
    }
    assert_eq!(client.answer().body, checksum::line_for(b"abcde").as_bytes());
}

#[test]
fn a_large_request_body_is_summed_as_it_comes() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    let body: Vec<u8> = (0..50).flat_map(|part| pattern::run(part * 60_000, 60_000).to_vec()).collect();
    client.send(
        format!(
            "POST /checksum HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .as_bytes(),
    );
    assert_eq!(client.answer().status, 100);
    client.send(&body);
    assert_eq!(client.answer().body, checksum::line_for(&body).as_bytes());
}

#[test]
fn persistence_follows_the_version_and_the_client() {
    let origin = origin();
    for (request, stays) in [
        (&b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"[..], false),
        (b"GET / HTTP/1.0\r\n\r\n", false),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true),
    ] {
        let mut client = TestClient::connect(&origin);
        client.send(request);
        let answer = client.answer();
        assert_eq!(answer.body.len(), 612);
        assert_eq!(answer.head.contains("Connection: keep-alive"), stays, "{}", answer.head);
        if stays {
            client.send(request);
            assert_eq!(client.answer().status, 200);
        } else {
            assert!(client.is_closed());
        }
    }
}

#[test]
fn answers_without_a_body_have_none() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    client.send(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.answer_to(false).head;
    assert!(head.contains("Content-Length: 612\r\n"), "{head}");
    client.send(b"GET /status/204 HTTP/1.1\r\nHost: a\r\n\r\nGET /status/304 HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = client.answer();
    assert!(answer.status == 204 && !answer.head.contains("Content-Length"), "{}", answer.head);
    assert_eq!(client.answer_to(false).status, 304);
    client.send(b"GET /bytes/2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().body, pattern::run(0, 2));
}

#[test]
fn a_client_that_half_closes_still_gets_its_answer() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    client.send(b"GET /delay/30 HTTP/1.1\r\nHost: a\r\n\r\nGET /bytes/4 HTTP/1.1\r\nHost: a\r\n\r\n");
    client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.answer().body.len(), 612);
    assert_eq!(client.answer().body.len(), 4);
    assert!(client.is_closed());
    assert!(clock::wait_until(Duration::from_secs(20), || origin.counters().open() == 0));
}

#[test]
fn a_malformed_request_is_refused_and_the_connection_closed() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    client.send(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    assert!(client.is_closed());
}

#[test]
fn several_threads_share_one_address() {
    let origin = OriginServer::start("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    for _ in 0..16 {
        let mut client = TestClient::connect(&origin);
        client.send(b"GET /counters HTTP/1.1\r\nHost: a\r\n\r\n");
        let json: serde_json::Value = serde_json::from_slice(&client.answer().body).unwrap();
        assert_eq!(json["requests"].as_u64(), json["accepted"].as_u64());
    }
    assert_eq!(origin.counters().accepted(), 16);
}

fn setup() -> OriginSetup {
    OriginSetup::plain("127.0.0.1:0".parse().unwrap(), 1)
}

/// What the journal tells of three requests that come at once to an origin with one slot, in the order in which work on them began.
fn three_at_one_slot() -> Vec<journal::JournalEntry> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let origin =
        OriginServer::start_as(&OriginSetup { slots: Some(1), journal: Some(path.clone()), ..setup() })
            .unwrap();
    let mut clients: Vec<TestClient> = (0..3).map(|_| TestClient::connect(&origin)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /delay/20/client/{number} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    }
    // A request without service time does not wait for the others.
    let mut prober = TestClient::connect(&origin);
    prober.send(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(prober.answer().status, 200);
    clients.iter_mut().for_each(|client| assert_eq!(client.answer().body.len(), 612));
    drop(origin);
    let mut visits = journal::read(&path).unwrap();
    visits.retain(|visit| visit.client().is_some());
    visits.sort_by_key(|visit| visit.began);
    assert_eq!(visits.len(), 3);
    visits
}

/// A machine that is taken away for some milliseconds delays what is noted: one attempt in which it was not is enough.
#[test]
fn one_slot_serves_one_request_after_the_other_and_the_journal_tells() {
    let is_in_turn = |pair: &[journal::JournalEntry]| {
        let (done, next) = (pair[0].done.unwrap(), &pair[1]);
        // The beginning is noted a moment after it.
        let took = next.done.unwrap().saturating_sub(next.began.unwrap());
        done <= next.began.unwrap() + 100_000 && took >= 15_000_000 && next.got <= done
    };
    let mut attempts = Vec::new();
    while !attempts.last().is_some_and(|visits: &Vec<_>| visits.windows(2).all(is_in_turn)) {
        assert!(attempts.len() < 4, "{attempts:?}");
        attempts.push(three_at_one_slot());
    }
}

#[test]
fn work_is_done_although_its_client_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let origin =
        OriginServer::start_as(&OriginSetup { slots: Some(1), journal: Some(path.clone()), ..setup() })
            .unwrap();
    let mut gone = TestClient::connect(&origin);
    gone.send(b"GET /delay/200/client/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let seen = || journal::read(&path).is_ok_and(|visits| !visits.is_empty());
    assert!(clock::wait_until(Duration::from_secs(20), seen));
    drop(gone);
    let mut client = TestClient::connect(&origin);
    client.send(b"GET /delay/1/client/2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    drop(origin);
    let visits = journal::read(&path).unwrap();
    assert!(visits[1].began.unwrap() >= visits[0].began.unwrap() + 200_000_000, "{visits:?}");
}

#[test]
fn a_hung_origin_takes_requests_and_answers_when_it_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    let origin = OriginServer::start_as(&OriginSetup { journal: Some(path.clone()), ..setup() }).unwrap();
    let (mut before, mut after) = (TestClient::connect(&origin), TestClient::connect(&origin));
    before.send(b"GET /delay/50 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(clock::wait_until(Duration::from_secs(20), || origin.counters().requests() == 1));
    after.send(b"GET /hang/300 HTTP/1.1\r\nHost: a\r\n\r\nGET /health HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(after.answer().status, 200);
    assert_eq!((before.answer().status, after.answer().status), (200, 200));
    drop(origin);
    let visits = journal::read(&path).unwrap();
    let hung = visits[1].done.unwrap();
    assert_eq!(visits[1].target, "/hang/300");
    for visit in [&visits[0], &visits[2]] {
        assert!(visit.done.unwrap() >= hung + 299_000_000, "{visits:?}");
    }
    assert!(visits[2].got < hung + 299_000_000, "{visits:?}");
}

#[test]
fn one_origin_can_have_many_addresses() {
    let origin = OriginServer::start_as(&OriginSetup { addresses: 40, ..setup() }).unwrap();
    for number in [0, 1, 39] {
        let addr = nth_addr(origin.addr(), number);
        assert_eq!(addr.port(), origin.addr().port());
        TcpStream::connect(addr).unwrap();
    }
    assert!(TcpStream::connect(nth_addr(origin.addr(), 40)).is_err());
}

#[test]
fn messages_of_websocket_come_back_in_whatever_pieces_they_arrive() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    client.send(
        b"GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
          Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let answer = client.answer();
    assert_eq!(answer.status, 101);
    assert!(
        answer.head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
        "{}",
        answer.head
    );
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for (opcode, is_last, len, answer) in [
        (websocket::BINARY, true, 5, websocket::BINARY),
        (1, false, 125, 1),
        (0, true, 126, 0),
        (websocket::PING, true, 3, websocket::PONG),
        (websocket::BINARY, true, 60_000, websocket::BINARY),
        (websocket::CLOSE, true, 2, websocket::CLOSE),
    ] {
        let payload = pattern::run(len as u64, len);
        websocket::write(&mut sent, opcode, is_last, Some([1, 2, 3, len as u8]), payload);
        websocket::write(&mut expected, answer, is_last, None, payload);
    }
    for part in sent.chunks(7001) {
        client.send(part);
    }
    while client.fill() > 0 {}
    assert!(client.1 == expected, "{} bytes came back of {}", client.1.len(), expected.len());
}

#[test]
fn a_frame_that_breaks_the_rules_ends_the_connection() {
    let origin = origin();
    for frame in [&[0x82, 0x00][..], &[0xf2, 0x80, 1, 2, 3, 4]] {
        let mut client = TestClient::connect(&origin);
        client.send(
            b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        assert_eq!(client.answer().status, 101);
        client.send(frame);
        assert!(client.is_closed(), "{frame:?}");
    }
}

/// All that comes until the connection ends, and how it ends.
fn rest(client: &mut TestClient) -> (Vec<u8>, Option<std::io::ErrorKind>) {
    let mut all = std::mem::take(&mut client.1);
    let how = client.0.read_to_end(&mut all).err().map(|error| error.kind());
    (all, how)
}

#[test]
fn a_body_may_come_in_chunks_and_slowly() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    let run = pattern::run(0, 2500);
    let chunks = [
        b"3e8\r\n",
        &run[..1000],
        b"\r\n3e8\r\n",
        &run[1000..2000],
        b"\r\n1f4\r\n",
        &run[2000..],
        b"\r\n0\r\n\r\n",
    ]
    .concat();
    for target in ["/bytes/2500/chunks/1000", "/bytes/2500/chunks/1000/drip/20"] {
        let started = clock::now();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        let answer = client.answer_to(false);
        assert!(answer.head.contains("\r\nTransfer-Encoding: chunked\r\n"), "{}", answer.head);
        while client.1.len() < chunks.len() {
            assert_ne!(client.fill(), 0, "closed in the body");
        }
        assert!(client.1 == chunks, "{target}");
        client.1.clear();
        let least = if target.contains("drip") { 40 } else { 0 };
        assert!(started.elapsed() >= Duration::from_millis(least), "two pauses of 20 ms");
    }
    // The connection goes on, and a client of HTTP/1.0 gets no chunks.
    client.send(b"GET /bytes/2500/chunks/7 HTTP/1.0\r\n\r\n");
    let answer = client.answer();
    assert!(answer.body == run && answer.head.contains("Content-Length: 2500"), "{}", answer.head);
    assert!(client.is_closed());
}

#[test]
fn an_answer_fails_as_its_url_says() {
    use std::io::ErrorKind::ConnectionReset;
    let origin = origin();
    let page = |kind: &str| format!("GET /bytes/4000/fail/{kind} HTTP/1.1\r\nHost: a\r\n\r\n");
    for (kind, how) in [
        ("close", None),
        ("reset", Some(ConnectionReset)),
        ("head", None),
        ("truncate", None),
        ("truncate-reset", Some(ConnectionReset)),
        ("garbage", None),
    ] {
        let mut client = TestClient::connect(&origin);
        client.send(page(kind).as_bytes());
        let (all, ended) = rest(&mut client);
        assert_eq!(ended, how, "{kind}");
        let head = fields::head_len(&all);
        match kind {
            "close" | "reset" => assert!(all.is_empty(), "{kind}: {all:?}"),
            "head" => assert!(all.starts_with(b"HTTP/1.1 200 OK\r\n") && head.is_none(), "{all:?}"),
            "garbage" => assert!(!all.is_empty() && !all.starts_with(b"HTTP"), "{all:?}"),
            // Bytes that a reset overtakes are lost.
            "truncate-reset" => assert!(all.len() < 4000, "{}", all.len()),
            _ => assert_eq!(all.len() - head.unwrap(), 2000, "{kind}"),
        }
    }
}

#[test]
fn a_silent_connection_is_silent_alone_and_ends_with_its_client() {
    let origin = origin();
    let mut silent = TestClient::connect(&origin);
    silent.send(b"GET /fail/silence HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(clock::wait_until(Duration::from_secs(20), || origin.counters().requests() == 1));
    let mut other = TestClient::connect(&origin);
    other.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(other.answer().status, 200);
    silent.0.set_nonblocking(true).unwrap();
    let nothing = silent.0.read(&mut [0; 16]).unwrap_err().kind();
    assert_eq!(nothing, std::io::ErrorKind::WouldBlock);
    drop(silent);
    assert!(clock::wait_until(Duration::from_secs(20), || origin.counters().open() == 1));
}

#[test]
fn failures_fall_on_their_share_of_the_requests_and_on_the_same_ones_again() {
    let falls = |seed: u64| -> Vec<bool> {
        let origin = OriginServer::start_as(&OriginSetup { seed, ..setup() }).unwrap();
        let fails = |_| {
            let mut client = TestClient::connect(&origin);
            client.send(b"GET /fail/close/share/30 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            rest(&mut client).0.is_empty()
        };
        (0..100).map(fails).collect()
    };
    let first = falls(1);
    let count = first.iter().filter(|fails| **fails).count();
    assert!((10..=50).contains(&count), "30 of 100 expected: {count}");
    assert_eq!(first, falls(1));
    assert_ne!(first, falls(2));
}

#[test]
fn an_origin_that_errs_does_so_with_its_share_of_the_answers() {
    let origin = OriginServer::start_as(&OriginSetup { errors: 30, ..setup() }).unwrap();
    let mut client = TestClient::connect(&origin);
    let mut status = |target: &str| {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        let TestResponse { status, body, .. } = client.answer();
        assert_eq!(body.len(), 612);
        status
    };
    let statuses: Vec<u16> = (0..100).map(|_| status("/")).collect();
    let errors = statuses.iter().filter(|status| **status == 500).count();
    assert!((10..=50).contains(&errors), "30 of 100 expected: {errors}");
    assert!(statuses.iter().all(|status| [200, 500].contains(status)));
    // The errors do not apply to `/hang`, which controls the origin.
    assert!((0..30).all(|_| status("/hang/1") == 200));
}

#[test]
fn delays_are_drawn_and_cpu_time_is_burnt() {
    let origin = origin();
    let mut client = TestClient::connect(&origin);
    let mut took = |target: &str| {
        let started = clock::now();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(client.answer().status, 200);
        started.elapsed()
    };
    assert!(took("/burn/20000") >= Duration::from_millis(20));
    assert!(took("/delay/uniform-30-40") >= Duration::from_millis(30));
    assert!(took("/delay/bimodal-1-30-100") >= Duration::from_millis(30));
}
