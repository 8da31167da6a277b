//! `cache`: a response is the same for every client, whichever protocol and framing it comes by, and whenever its pieces come.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::status;
use crate::harness::fastcgi::{FastcgiRequest, STDOUT, end, record};
use crate::harness::http2::server::Http2Server;
use crate::harness::http2::{H2C, Http2Client};
use crate::harness::scripts::pattern;
use crate::harness::{Client, Connection, Gate, Origin, Weir, config_with};

/// How a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Length,
    Chunked,
    UntilClose,
    Http2,
    Fastcgi,
}

/// When the pieces of a response come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    name: &'static str,
    /// The lengths of the pieces of the body.
    pieces: &'static [usize],
    /// Whether the head is alone until its client has it.
    waits: bool,
    /// Whether the end comes behind the last piece, in a frame of its own.
    ends_alone: bool,
    has_trailers: bool,
    /// Whether the server breaks it off behind the last piece, the first time that it is asked.
    is_cut: bool,
}

const AT_ONCE: Shape = Shape {
    name: "at-once",
    pieces: &[3],
    waits: false,
    ends_alone: false,
    has_trailers: false,
    is_cut: false,
};

const SHAPES: [Shape; 10] = [
    AT_ONCE,
    Shape { name: "end-alone", ends_alone: true, ..AT_ONCE },
    Shape { name: "late", waits: true, ..AT_ONCE },
    Shape { name: "late-end-alone", waits: true, ends_alone: true, ..AT_ONCE },
    Shape { name: "late-empty", pieces: &[], waits: true, ends_alone: true, ..AT_ONCE },
    Shape { name: "pieces", pieces: &[1, 2, 4_095, 4_096, 4_097, 20_000], waits: true, ..AT_ONCE },
    // More than the window of a stream (RFC 9113 section 6.9.2), and than any buffer.
    Shape { name: "large", pieces: &[300_000], waits: true, ..AT_ONCE },
    Shape { name: "trailers", waits: true, has_trailers: true, ..AT_ONCE },
    Shape { name: "cut", pieces: &[100, 20_000], waits: true, is_cut: true, ..AT_ONCE },
    Shape { name: "cut-empty", pieces: &[], waits: true, is_cut: true, ..AT_ONCE },
];

impl Shape {
    fn new(target: &str) -> Shape {
        let found = SHAPES.into_iter().find(|shape| target.split('/').any(|part| part == shape.name));
        found.unwrap_or_else(|| panic!("{target} has no shape"))
    }

    /// The length of the body as it is announced.
    fn len(&self) -> usize {
        self.pieces.iter().sum::<usize>() + usize::from(self.is_cut)
    }

    fn body(&self) -> Vec<u8> {
        pattern(self.len())
    }

    fn pieces(&self) -> Vec<Vec<u8>> {
        let (mut at, body) = (0, self.body());
        let mut next = |len: &usize| {
            at += len;
            body[at - len..at].to_vec()
        };
        self.pieces.iter().map(&mut next).collect()
    }
}

/// What servers wait for, and how often they were asked, by target.
#[derive(Clone, Default)]
struct Targets(Arc<Mutex<HashMap<String, Target>>>);

type Target = (Gate, Arc<AtomicUsize>);

impl Targets {
    fn of(&self, target: &str) -> Target {
        self.0.lock().expect("nothing panics with it").entry(target.to_owned()).or_default().clone()
    }

    /// A request for a target is here: its shape, and whether it is broken off.
    fn asked(&self, target: &str) -> (Shape, bool, Gate) {
        let (gate, count) = self.of(target);
        let shape = Shape::new(target);
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        (shape, shape.is_cut && is_first, gate)
    }

    fn count(&self, target: &str) -> usize {
        self.of(target).1.load(Ordering::SeqCst)
    }
}

const FIELDS: &str = "Cache-Control: max-age=60\r\n";

/// Sends responses of HTTP/1 on one connection.
fn http1(conn: &mut Connection, wire: Wire, targets: &Targets) -> Option<()> {
    loop {
        let request = conn.request()?;
        let (shape, is_cut, gate) = targets.asked(request.target());
        let framing = match wire {
            Wire::Length => format!("Content-Length: {}\r\n", shape.len()),
            Wire::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            _ => "Connection: close\r\n".to_owned(),
        };
        let mut bytes = format!("HTTP/1.1 200 OK\r\n{FIELDS}{framing}\r\n").into_bytes();
        if shape.waits {
            conn.send(std::mem::take(&mut bytes))?;
            gate.wait(request.target());
        }
        let mut pieces = shape.pieces();
        if shape.is_cut && !is_cut {
            pieces = vec![shape.body()];
        }
        let count = pieces.len();
        for (at, piece) in pieces.into_iter().enumerate() {
            if wire == Wire::Chunked {
                bytes.extend(format!("{:x}\r\n", piece.len()).bytes());
                bytes.extend(piece);
                bytes.extend(b"\r\n");
            } else {
                bytes.extend(piece);
            }
            let is_last = at + 1 == count;
            if !is_last || shape.ends_alone || is_cut {
                conn.send(std::mem::take(&mut bytes))?;
            }
        }
        if is_cut {
            conn.reset();
            return None;
        }
        if wire == Wire::Chunked {
            let trailers = if shape.has_trailers { "X-Sum: 1\r\n" } else { "" };
            bytes.extend(format!("0\r\n{trailers}\r\n").bytes());
        }
        conn.send(bytes)?;
        if wire == Wire::UntilClose {
            return Some(());
        }
    }
}

/// Sends responses of HTTP/2 on one connection.
fn http2(conn: &mut Connection, targets: &Targets) -> Option<()> {
    let mut server = Http2Server::accept(conn, &[])?;
    loop {
        let asked = server.request()?;
        let (shape, is_cut, gate) = targets.asked(asked.path());
        server.send_head(asked.stream, &[(":status", "200"), ("cache-control", "max-age=60")], false)?;
        if shape.waits {
            gate.wait(asked.path());
        }
        let mut pieces = shape.pieces();
        if shape.is_cut && !is_cut {
            pieces = vec![shape.body()];
        }
        let ends_alone = shape.ends_alone || shape.has_trailers || is_cut;
        let count = pieces.len();
        for (at, piece) in pieces.into_iter().enumerate() {
            server.send_data(asked.stream, &piece, at + 1 == count && !ends_alone)?;
        }
        if is_cut {
            server.reset(asked.stream, 2)?;
        } else if shape.has_trailers {
            server.send_head(asked.stream, &[("x-sum", "1")], true)?;
        } else if ends_alone {
            server.send_data(asked.stream, b"", true)?;
        }
    }
}

/// Sends responses of a script, one on each connection.
fn fastcgi(conn: &mut Connection, targets: &Targets) -> Option<()> {
    loop {
        let request = FastcgiRequest::read(conn)?;
        let target = request.param("REQUEST_URI")?.to_owned();
        let (shape, is_cut, gate) = targets.asked(&target);
        let mut bytes = record(STDOUT, format!("{FIELDS}\r\n").as_bytes(), 0);
        if shape.waits {
            conn.send(std::mem::take(&mut bytes))?;
            gate.wait(&target);
        }
        let mut pieces = shape.pieces();
        if shape.is_cut && !is_cut {
            pieces = vec![shape.body()];
        }
        for piece in pieces {
            piece.chunks(60_000).for_each(|part| bytes.extend(record(STDOUT, part, 5)));
            if shape.ends_alone || shape.pieces.len() > 1 || is_cut {
                conn.send(std::mem::take(&mut bytes))?;
            }
        }
        if is_cut {
            conn.reset();
            return None;
        }
        bytes.extend([record(STDOUT, b"", 0), end(0, 0)].concat());
        conn.send(bytes)?;
        if !request.keeps_connection {
            return Some(());
        }
    }
}

fn start(wire: Wire, targets: &Targets) -> (Origin, Weir) {
    let known = targets.clone();
    let origin = Origin::start(move |conn| match wire {
        Wire::Length | Wire::Chunked | Wire::UntilClose => http1(conn, wire, &known),
        Wire::Http2 => http2(conn, &known),
        Wire::Fastcgi => fastcgi(conn, &known),
    });
    let (protocol, route) = match wire {
        Wire::Http2 => ("h2c", ""),
        Wire::Fastcgi => ("fastcgi", ", fastcgi = { script = \"\" }"),
        _ => ("http1", ""),
    };
    let settings = format!(
        "{H2C}upstream.app.protocol = \"{protocol}\"\ncache.pages.memory = \"16MiB\"\n\
         listener.web.route = [{{ path = \"/\", upstream = \"app\", cache = {{ name = \"pages\" }}{route} }}]"
    );
    let weir = Weir::start(&config_with(&[origin.named("a")], &settings));
    (origin, weir)
}

/// A client that has asked.
enum Asking {
    Http1(Client),
    Http2(Box<Http2Client>, u32),
}

impl Asking {
    fn begin(weir: &Weir, by_http2: bool, target: &str) -> Asking {
        if by_http2 {
            let mut client = Box::new(Http2Client::connect(weir.web()));
            let stream = client.get(target);
            return Asking::Http2(client, stream);
        }
        let mut client = Client::connect(weir.web());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        Asking::Http1(client)
    }

    /// What comes: `opened` is called when the head is here. `None` for the body of one that is broken off; else with the state of the cache.
    fn take(self, opened: impl FnOnce()) -> Option<(Vec<u8>, String)> {
        match self {
            Asking::Http1(mut client) => {
                let head = client.head();
                opened();
                let response = client.try_response_behind(head, "GET").ok()?;
                assert_eq!(response.status, 200, "{response:?}");
                let status = status(&response).to_owned();
                Some((response.body.bytes, status))
            }
            Asking::Http2(mut client, stream) => {
                client.head(stream);
                opened();
                let received = client.outcome(stream);
                assert_eq!(received.status, 200, "{received:?}");
                let status = received.field("cache-status").unwrap_or_default().to_owned();
                received.has_ended.then_some((received.body, status))
            }
        }
    }
}

/// A client fetches `target`, another one joins it, and both protocols have it from the cache then.
fn check(weir: &Weir, targets: &Targets, target: &str, by_http2: bool) {
    let shape = Shape::new(target);
    let gate = targets.of(target).0;
    let first = Asking::begin(weir, by_http2, target);
    let mut joining = None;
    let outcome = first.take(|| {
        // The response is known by now; the server goes on when the other client has its head as well.
        if shape.waits {
            let other = Asking::begin(weir, !by_http2, target);
            let opening = gate.clone();
            joining = Some(std::thread::spawn(move || other.take(|| opening.open())));
        }
    });
    let joined = joining.map(|thread| thread.join().expect("the other client has what it got"));
    let mut fetched = 1;
    if shape.is_cut {
        assert_eq!((outcome, joined), (None, Some(None)), "{target}: what is cut passes for no whole");
        fetched = 2;
    } else {
        let (body, how) = outcome.unwrap_or_else(|| panic!("{target}: broken off"));
        assert!(body == shape.body(), "{target}: {} bytes of {}", body.len(), shape.len());
        assert!(how.ends_with("; stored"), "{target}: {how}");
        if let Some(joined) = joined {
            let (body, _) = joined.unwrap_or_else(|| panic!("{target}: the other one is broken off"));
            assert!(body == shape.body(), "{target}: {} bytes of {} for the other", body.len(), shape.len());
        }
    }
    for (at, by_http2) in [by_http2, !by_http2].into_iter().enumerate() {
        let taken = Asking::begin(weir, by_http2, target).take(|| {});
        let (body, how) = taken.unwrap_or_else(|| panic!("{target}: broken off from the cache"));
        assert!(body == shape.body(), "{target}: {} bytes of {} again", body.len(), shape.len());
        assert!(how.starts_with("weir; hit") || shape.is_cut && at == 0, "{target}: {how}");
    }
    assert_eq!(targets.count(target), fetched, "{target}: asked for so often");
}

fn check_all(wire: Wire) {
    let targets = Targets::default();
    let (_origin, weir) = start(wire, &targets);
    for shape in SHAPES {
        // FastCGI and the end of a connection have no trailers, and a connection that ends has no other end.
        let has_no_end = wire == Wire::UntilClose && shape.is_cut;
        for (by_http2, client) in [(false, "http1"), (true, "http2")] {
            if !has_no_end {
                check(&weir, &targets, &format!("/{}/{client}", shape.name), by_http2);
            }
        }
    }
}

#[test]
fn of_a_server_that_announces_lengths() {
    check_all(Wire::Length);
}

#[test]
fn of_a_server_that_sends_chunks() {
    check_all(Wire::Chunked);
}

#[test]
fn of_a_server_that_ends_bodies_with_their_connections() {
    check_all(Wire::UntilClose);
}

#[test]
fn of_a_server_of_http2() {
    check_all(Wire::Http2);
}

#[test]
fn of_a_server_of_fastcgi() {
    check_all(Wire::Fastcgi);
}
