//! All bytes of one side reach the other before the end or the reset that follows, whatever the timing.
//!
//! Each case runs many times, since a reset can overtake bytes at several points. `WEIR_LAST_BYTES_ROUNDS` sets how often.

use std::time::Duration;

use crate::harness::origin::Connection;
use crate::harness::scripts::pattern;
use crate::harness::tls::WEB_TLS;
use crate::harness::watchdog::work;
use crate::harness::websocket::{HANDSHAKE, SWITCH};
use crate::harness::{CertificateAuthority, Client, End, Gate, Origin, Weir, config_with, temporary_folder};

/// The least that a busy direction moves inside the kernel is more than one buffer.
const LENGTHS: [usize; 3] = [10, 3_000, 40_000];

/// More than the kernel keeps for a client that does not read.
const CUT_BYTES: usize = 2_000_000;

fn rounds() -> usize {
    std::env::var("WEIR_LAST_BYTES_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(40)
}

/// A Weir in front of `origin` whose clients may have TLS.
struct Site {
    weir: Weir,
    authority: Option<CertificateAuthority>,
}

impl Site {
    fn start(origin: &Origin, has_tls: bool, settings: &str) -> Site {
        let authority = has_tls.then(CertificateAuthority::new);
        let folder = authority.as_ref().map_or_else(temporary_folder, CertificateAuthority::folder_for_web);
        let tls = if has_tls { WEB_TLS } else { "" };
        let text = config_with(&[origin.entry()], &format!("{tls}{settings}"));
        Site { weir: Weir::start_in(folder, &text), authority }
    }

    fn connect(&self) -> Client {
        match &self.authority {
            None => Client::connect(self.weir.web()),
            Some(authority) => authority.connect(self.weir.web()),
        }
    }

    /// How a truncated stream ends: never like a complete one.
    fn cut(&self) -> End {
        if self.authority.is_some() { End::Truncated } else { End::Closed }
    }
}

/// Answers with as many bytes as the first six say, and closes on input that it has not read: its system sends a reset.
fn answer_and_leave(conn: &mut Connection) -> Option<()> {
    let wanted: usize = String::from_utf8(conn.take(6)?).expect("digits").parse().expect("a number");
    conn.send(pattern(wanted))?;
    conn.reset();
    None
}

/// A request for `len` bytes, followed by more than its server reads.
fn question(len: usize) -> Vec<u8> {
    let mut question = format!("{len:06}").into_bytes();
    question.resize(30_000, b'x');
    question
}

#[test]
fn the_answer_of_a_tcp_server_that_resets() {
    let origin = Origin::start(answer_and_leave);
    for has_tls in [false, true] {
        let site = Site::start(&origin, has_tls, "listener.web.protocol = \"tcp\"");
        for round in 0..rounds() {
            let len = LENGTHS[round % LENGTHS.len()];
            let mut client = site.connect();
            // A part of the question can meet the reset.
            let _ = client.send_what_is_taken(question(len));
            let (answer, end) = client.take_to_end();
            assert_eq!((answer.len(), end), (len, site.cut()), "TLS {has_tls}, round {round}");
            assert!(answer == pattern(len), "TLS {has_tls}, round {round}");
        }
    }
}

#[test]
fn the_close_frame_of_a_websocket_whose_server_resets() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(SWITCH)?;
        answer_and_leave(conn)
    });
    for has_tls in [false, true] {
        let site = Site::start(&origin, has_tls, "");
        for round in 0..rounds() {
            let mut client = site.connect();
            client.send(HANDSHAKE);
            assert_eq!(client.head().status(), Ok(101));
            let _ = client.send_what_is_taken(question(4));
            assert_eq!(client.take_to_end(), (pattern(4), site.cut()), "TLS {has_tls}, round {round}");
        }
    }
}

#[test]
fn what_a_client_sent_before_its_reset() {
    let origin = Origin::start(|conn| {
        conn.send("hello")?;
        conn.wait_for_end();
        None
    });
    for has_tls in [false, true] {
        let site = Site::start(&origin, has_tls, "listener.web.protocol = \"tcp\"");
        for round in 0..rounds() {
            let len = LENGTHS[round % LENGTHS.len()];
            let index = origin.connections();
            let mut client = site.connect();
            assert_eq!(client.take(5), b"hello");
            client.send(pattern(len));
            client.reset();
            assert_eq!(origin.wait_for_end(index), End::Reset, "TLS {has_tls}, round {round}");
            assert!(origin.connection(index).received == pattern(len), "TLS {has_tls}, round {round}");
        }
    }
}

/// How a server frames its body.
const FRAMINGS: [(&str, &str, &str); 2] =
    [("1.1", "Content-Length: 4000000\r\n", ""), ("1.1", "Transfer-Encoding: chunked\r\n", "3d0900\r\n")];

/// A server that sends half of what it has announced, then closes.
fn cutting(fields: &'static str, chunk: &'static str) -> Origin {
    Origin::start(move |conn| {
        conn.request()?;
        conn.send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{chunk}"))?;
        conn.send(pattern(CUT_BYTES))
    })
}

/// Takes everything, beginning late, and removes what frames the chunks.
fn read_late(client: &mut Client) -> (Vec<u8>, End) {
    let head = client.head();
    assert_eq!(head.status(), Ok(200));
    work(Duration::from_millis(50));
    let (wire, end) = client.take_to_end();
    if head.fields.one("transfer-encoding").is_none() {
        return (wire, end);
    }
    assert!(!wire.ends_with(b"0\r\n\r\n"), "no last chunk");
    let (mut body, mut rest) = (Vec::new(), &wire[..]);
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at]).expect("digits");
        let size = usize::from_str_radix(size, 16).expect("a size");
        rest = &rest[at + 2..];
        let len = size.min(rest.len());
        body.extend_from_slice(&rest[..len]);
        rest = rest.get(len + 2..).unwrap_or_default();
    }
    (body, end)
}

#[test]
fn a_response_that_is_cut_short_reaches_a_late_reader() {
    for (version, fields, chunk) in FRAMINGS {
        let origin = cutting(fields, chunk);
        for has_tls in [false, true] {
            let site = Site::start(&origin, has_tls, "");
            for round in 0..rounds().div_ceil(8) {
                let mut client = site.connect();
                client.send(format!("GET / HTTP/{version}\r\nHost: a.test\r\n\r\n"));
                let (body, end) = read_late(&mut client);
                let case = format!("{fields:?} TLS {has_tls}, round {round}");
                assert_eq!((body.len(), end), (CUT_BYTES, site.cut()), "{case}");
                assert!(body == pattern(CUT_BYTES), "{case}");
            }
        }
    }
}

/// Only a reset shows an HTTP/1.0 client without TLS that a body is truncated, and all bytes are delivered before it.
#[test]
fn a_cut_that_only_a_reset_can_show() {
    let (_, fields, chunk) = FRAMINGS[1];
    let origin = cutting(fields, chunk);
    for (has_tls, shown) in [(false, End::Reset), (true, End::Truncated)] {
        let site = Site::start(&origin, has_tls, "");
        for round in 0..rounds().div_ceil(8) {
            let mut client = site.connect();
            client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
            let (body, end) = read_late(&mut client);
            assert_eq!((body.len(), &end), (CUT_BYTES, &shown), "TLS {has_tls}, round {round}");
        }
    }
}

#[test]
fn chunks_before_a_broken_one() {
    let served = Gate::new();
    let gate = served.clone();
    let broken = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")?;
        gate.wait("the client has the first chunk");
        conn.send("xyz\r\n")?;
        conn.wait_for_end();
        None
    });
    let site = Site::start(&broken, false, "");
    let mut client = site.connect();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    client.head();
    assert_eq!(client.take(8), b"3\r\nabc\r\n");
    served.open();
    assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
}

/// A stream of events that falls silent ends in order, without a last chunk.
#[test]
fn events_before_a_silence() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")?;
        conn.wait_for_end();
        None
    });
    for has_tls in [false, true] {
        let site = Site::start(&origin, has_tls, "upstream.app.timeouts.relay = \"200ms\"");
        let mut client = site.connect();
        client.send("GET /events HTTP/1.1\r\nHost: a.test\r\n\r\n");
        client.head();
        assert_eq!(client.take_to_end(), (b"9\r\ndata: 1\n\n\r\n".to_vec(), site.cut()));
    }
}
