//! A client with endless requests or bytes does not starve other clients of the worker.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use rustix::process::Signal;

use crate::harness::{Client, Gate, Origin, Weir};

const REQUESTS: usize = 1_000;

/// The order in which one worker answers is that of its access log. It is stopped until the requests of both clients are there.
#[test]
fn a_client_that_pipelines_has_one_answer_per_turn() {
    let weir = Weir::start(
        "process.workers = 1\n\
         [listener.web]\naddress = \"127.0.0.1:0\"\nroute = [{ path = \"/\", respond = { status = 404 } }]\n\
         access_log = { format = \"{target}\", output = \"file:{dir}/access.log\" }\n",
    );
    let mut bystander = Client::connect(weir.web());
    assert_eq!(bystander.fetch("/first").status, 404);
    let mut greedy = TcpStream::connect(weir.web()).expect("the listener accepts");
    let mut taker = greedy.try_clone().expect("there are descriptors left");
    // Both connections are known to the event loop, which then tells of them in the order of their requests.
    greedy.write_all(b"GET /first HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("there is room");
    assert!(taker.read(&mut [0; 65_536]).is_ok_and(|len| len > 0));
    weir.pause();
    greedy
        .write_all("GET /greedy HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(REQUESTS).as_bytes())
        .expect("the kernel has room for a tenth of that");
    bystander.send_get("/bystander");
    let taking = std::thread::spawn(move || while taker.read(&mut [0; 65_536]).is_ok_and(|len| len > 0) {});
    weir.signal(Signal::CONT);
    assert_eq!(bystander.response().status, 404);
    let lines = weir.access_log(REQUESTS + 3);
    let before = lines.iter().position(|line| line == "/bystander").expect("it was answered");
    assert!(before < 20, "{before} answers came before that of the bystander");
    greedy.shutdown(std::net::Shutdown::Both).expect("the connection is open");
    taking.join().expect("it only takes");
}

/// Small chunks that arrive together leave as few.
#[test]
fn small_chunks_are_gathered() {
    let chunks = "1\r\nx\r\n".repeat(1_000);
    let origin =
        Origin::answering(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"));
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    client.head();
    let (wire, _) = client.take_to_end();
    let gathered = wire.windows(2).filter(|two| two == b"\r\n").count() / 2;
    assert!(wire.ends_with(b"0\r\n\r\n") && gathered <= 20, "{gathered} chunks of {} bytes", wire.len());
    assert_eq!(wire.iter().filter(|byte| **byte == b'x').count(), 1_000);
}

/// A chunk that arrives alone is not held back for more.
#[test]
fn a_small_chunk_is_not_held_back() {
    let next = Gate::new();
    let gate = next.clone();
    let origin = Origin::start(move |conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")?;
        gate.wait("the client has the first chunk");
        conn.send("1\r\ny\r\n0\r\n\r\n")
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    client.head();
    assert_eq!(client.take(6), b"1\r\nx\r\n");
    next.open();
    assert_eq!(client.take(11), b"1\r\ny\r\n0\r\n\r\n");
}
