//! A keep-alive exchange on a warm worker allocates nothing: counted by the allocator itself.
//!
//! Client, origin and control threads run in the same process; threads count that are named as workers.

#![expect(unsafe_code, reason = "counting allocations takes a global allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use weir_config::Config;
use weir_control::Proxy;
use weir_proxy::net::listening::BoundAddress;

const WARM_UP: usize = 500;
const MEASURED: usize = 2_000;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

struct Counting;

/// Whether this thread is a worker, by its name in the kernel: asking for that does not allocate.
fn is_worker() -> bool {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes at most 16 bytes to a live array of that length.
    let outcome = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    outcome == 0 && name.starts_with(b"weir-worker-")
}

// SAFETY: every call goes to the system allocator unchanged; the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_worker() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise about pointer and layout is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn read_until(stream: &mut TcpStream, buf: &mut [u8], end: &[u8]) -> usize {
    let mut len = 0;
    while !buf[..len].ends_with(end) {
        let read = stream.read(&mut buf[len..]).expect("the peer answers");
        assert!(read > 0, "the peer closed after {:?}", String::from_utf8_lossy(&buf[..len]));
        len += read;
    }
    len
}

/// Answers every request on every connection with the same short response.
fn start_origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let mut buf = [0; 4096];
                let mut len = 0;
                loop {
                    match stream.read(&mut buf[len..]) {
                        Ok(0) | Err(_) => return,
                        Ok(read) => len += read,
                    }
                    let whole = buf[..len].ends_with(b"\r\n\r\n") || buf[..len].ends_with(b"end-of-body");
                    if whole {
                        stream.write_all(RESPONSE).expect("the proxy reads");
                        len = 0;
                    }
                }
            });
        }
    });
    addr
}

const RESPONSE: &[u8] =
    b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello";

fn allocations_for(request: &[u8], count: usize, stream: &mut TcpStream) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut buf = [0; 4096];
    for _ in 0..count {
        stream.write_all(request).expect("the proxy reads");
        read_until(stream, &mut buf, b"hello");
    }
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn a_warm_exchange_allocates_nothing() {
    let origin = start_origin();
    // One listener without anything, one with limits and a list.
    let config = format!(
        "process.workers = 1
         listener.plain = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}
         listener.limited = {{ address = \"127.0.0.1:0\", upstream = \"app\", lists = \"near\", limited_by = [\"a\", \"b\", \"c\"] }}
         upstream.app.servers = [\"{origin}\"]
         list.near = {{ action = \"tag\", entries = [\"127.0.0.0/8\"] }}
         limit.a.rate = \"100000000/s\"
         limit.b = {{ rate = \"100000000/s\", key = \"{{header.user-agent}} {{path}} {{tag}}\", count_status = \"200-299\" }}
         limit.c.concurrent = 10"
    );
    let config = Config::parse(&config, "weir.toml").expect("a good config");
    let proxy = Proxy::start(&config).expect("the proxy starts");
    let get: &[u8] =
        b"GET /path?query=1 HTTP/1.1\r\nHost: example.test\r\nUser-Agent: test\r\nAccept: */*\r\n\
        Accept-Encoding: gzip\r\nCookie: a=b; c_d=e\r\n\r\n";
    let post: &[u8] = b"POST /form HTTP/1.1\r\nHost: example.test\r\nContent-Length: 11\r\n\r\nend-of-body";
    for bound in proxy.bound_listeners() {
        let BoundAddress::Inet(addr) = bound.address else { panic!("a TCP address") };
        let mut client = TcpStream::connect(addr).expect("the proxy listens");
        for request in [get, post] {
            allocations_for(request, WARM_UP, &mut client);
            let allocations = allocations_for(request, MEASURED, &mut client);
            assert_eq!(allocations, 0, "{}: {}", bound.listener, String::from_utf8_lossy(request));
        }
    }
    let BoundAddress::Inet(addr) = proxy.bound_listeners()[0].address else { panic!("a TCP address") };
    // The counter itself works: a new client connection does allocate.
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let mut second = TcpStream::connect(addr).expect("the proxy listens");
    allocations_for(get, 1, &mut second);
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > before);
}
