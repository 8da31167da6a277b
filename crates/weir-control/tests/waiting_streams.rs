//! A stream of HTTP/2 that waits for its response holds little memory: bytes counted by the allocator itself.
//!
//! Client and origin run in the same process and opt out of the count, so what is left is the worker's.

#![expect(unsafe_code, reason = "counting bytes takes a global allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use weir_config::Config;
use weir_control::Proxy;
use weir_proxy::net::listening::BoundAddress;

const STREAMS: usize = 100;
const CONNECTIONS: usize = 5;

/// What a stream takes: the state of its exchange with the lines that tell servers about its client, its part of the connection, and a connection to a
/// server of HTTP/1.
const STREAM_BYTES_MAX: i64 = 4_600;

static BYTES: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static UNCOUNTED: Cell<bool> = const { Cell::new(false) };
}

struct CountingBytes;

fn count(bytes: i64) {
    if !UNCOUNTED.try_with(Cell::get).unwrap_or(true) {
        BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system allocator unchanged; the counter does not allocate.
unsafe impl GlobalAlloc for CountingBytes {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise about pointer and layout is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingBytes = CountingBytes;

/// Takes requests, says so, and answers none.
fn start_origin(arrived: Sender<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        UNCOUNTED.set(true);
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let (mut buf, mut len) = ([0; 4096], 0);
            while !buf[..len].ends_with(b"\r\n\r\n") {
                len += stream.read(&mut buf[len..]).expect("a request comes");
            }
            kept.push(stream);
            if arrived.send(()).is_err() {
                return;
            }
        }
    });
    addr
}

/// A connection whose streams all wait.
fn open(addr: SocketAddr, arrived: &Receiver<()>) -> TcpStream {
    let mut client = TcpStream::connect(addr).expect("the proxy listens");
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // By the static table and literals that enter no table (RFC 7541).
    let block = b"\x82\x86\x04\x05/hold\x01\x06a.test";
    for number in 0..STREAMS as u32 {
        hello.extend_from_slice(&[0, 0, block.len() as u8, 1, 5]);
        hello.extend_from_slice(&(1 + 2 * number).to_be_bytes());
        hello.extend_from_slice(block);
    }
    client.write_all(&hello).expect("the proxy reads");
    for _ in 0..STREAMS {
        arrived.recv().expect("the origin gets each request");
    }
    client
}

#[test]
fn a_stream_that_waits_holds_little_memory() {
    UNCOUNTED.set(true);
    let (sender, arrived) = channel();
    let origin = start_origin(sender);
    let config = format!(
        "process.workers = 1
         listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\", http2.prior_knowledge = \"only\" }}
         upstream.app.servers = [\"{origin}\"]"
    );
    let config = Config::parse(&config, "weir.toml").expect("a good config");
    let proxy = Proxy::start(&config).expect("the proxy starts");
    let BoundAddress::Inet(addr) = proxy.bound_listeners()[0].address else { panic!("a TCP address") };
    let mut clients = vec![open(addr, &arrived)];
    let before = BYTES.load(Ordering::Relaxed);
    clients.extend((0..CONNECTIONS).map(|_| open(addr, &arrived)));
    let bytes = (BYTES.load(Ordering::Relaxed) - before) / (CONNECTIONS * STREAMS) as i64;
    assert!((1_000..STREAM_BYTES_MAX).contains(&bytes), "{bytes} bytes");
    println!("{bytes} bytes for each stream");
}
