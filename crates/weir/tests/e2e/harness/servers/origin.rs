//! A scripted origin: one thread and one script for each connection, and a record of every byte that arrived.
//!
//! A script returns `None` (by `?`) when its peer goes away, which is nothing special; a panic in a script is kept
//! and fails the test when the origin is dropped.

use std::io::Read as _;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use crate::harness::message::{Fields, Head, latin1};
use rustls::ServerConfig;

use crate::harness::stream::{Address, Stream};
use crate::harness::tls::TlsStream;
use crate::harness::watchdog::WATCHDOG;
use crate::harness::wire::{Body, End, Wire};

/// A request as it arrived at the origin.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Number of the connection it came on, from 0, in order of acceptance.
    pub(crate) connection: usize,
    pub(crate) head: Head,
    pub(crate) body: Body,
}

impl Request {
    /// The request target, as it stands.
    pub(crate) fn target(&self) -> &str {
        self.head.word(1)
    }

    /// The method.
    pub(crate) fn method(&self) -> &str {
        self.head.word(0)
    }

    /// The one value of the field `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.fields.one(name)
    }

    /// The fields of the head.
    pub(crate) fn fields(&self) -> &Fields {
        &self.head.fields
    }

    /// The body as Latin-1 text.
    pub(crate) fn text(&self) -> String {
        latin1(&self.body.bytes)
    }
}

/// What the origin knows of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionRecord {
    /// Every byte that a script read.
    pub(crate) received: Vec<u8>,
    /// How Weir ended the connection, once it did and the script looked.
    pub(crate) end: Option<End>,
}

#[derive(Default)]
struct Record {
    connections: Vec<ConnectionRecord>,
    requests: Vec<Request>,
    failures: Vec<String>,
    open: Vec<Option<Stream>>,
    stopping: bool,
}

#[derive(Default)]
struct Shared {
    record: Mutex<Record>,
    changed: Condvar,
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        let result = change(&mut self.record());
        self.changed.notify_all();
        result
    }
}

type Script = dyn Fn(&mut Connection) -> Option<()> + Send + Sync;

/// A listening origin; dropping it ends every connection.
pub(crate) struct Origin {
    address: Address,
    shared: Arc<Shared>,
}

impl Origin {
    /// Runs `script` on every accepted connection, over TCP on 127.0.0.1.
    pub(crate) fn start(script: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static) -> Origin {
        Origin::listen(listening().0, script)
    }

    /// Runs `script` on every connection that `listener` accepts.
    pub(crate) fn listen(
        listener: TcpListener,
        script: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static,
    ) -> Origin {
        let address = Address::Tcp(listener.local_addr().expect("a bound socket has an address"));
        Origin::run(address, Arc::new(script), move || listener.accept().map(|(tcp, _)| Stream::Tcp(tcp)))
    }

    /// Runs `script` on every connection to the Unix socket `path`.
    pub(crate) fn start_unix(
        path: &Path,
        script: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static,
    ) -> Origin {
        let listener = UnixListener::bind(path).expect("the test's own folder takes a socket");
        let address = Address::Unix(path.to_owned());
        Origin::run(address, Arc::new(script), move || listener.accept().map(|(unix, _)| Stream::Unix(unix)))
    }

    /// Runs `script` on every accepted connection, with TLS.
    pub(crate) fn start_tls(
        config: ServerConfig,
        script: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static,
    ) -> Origin {
        let (listener, address) = listening();
        let config = Arc::new(config);
        Origin::run(address, Arc::new(script), move || {
            let (tcp, _) = listener.accept()?;
            Stream::Tcp(tcp.try_clone()?).guarded()?;
            Ok(Stream::Tls(Box::new(TlsStream::accepted(&config, tcp))))
        })
    }

    /// The same behind a line of plain text, which `heard` gets.
    pub(crate) fn start_tls_behind_line(
        config: ServerConfig,
        heard: impl Fn(String) + Send + 'static,
        script: impl Fn(&mut Connection) -> Option<()> + Send + Sync + 'static,
    ) -> Origin {
        let (listener, address) = listening();
        let config = Arc::new(config);
        Origin::run(address, Arc::new(script), move || {
            let (mut tcp, _) = listener.accept()?;
            Stream::Tcp(tcp.try_clone()?).guarded()?;
            let mut line = Vec::new();
            // Byte by byte, since what comes behind it is not text. Nothing comes when the origin is dropped.
            while !line.ends_with(b"\r\n") {
                let mut byte = [0];
                if tcp.read(&mut byte)? == 0 {
                    break;
                }
                line.push(byte[0]);
            }
            heard(latin1(&line));
            Ok(Stream::Tls(Box::new(TlsStream::accepted(&config, tcp))))
        })
    }

    /// Answers every request with the bytes of `response`, on as many connections as come.
    pub(crate) fn answering(response: impl Into<Vec<u8>>) -> Origin {
        let response = response.into();
        Origin::start(move |conn| {
            loop {
                conn.request()?;
                conn.send(&response)?;
            }
        })
    }

    /// Answers every request with 200, kept alive, and the body `body`.
    pub(crate) fn serving(body: &str) -> Origin {
        Origin::answering(ok(body))
    }

    fn run(
        address: Address,
        script: Arc<Script>,
        accept: impl Fn() -> std::io::Result<Stream> + Send + 'static,
    ) -> Origin {
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            while let Ok(stream) = accept() {
                if accepting.record().stopping {
                    return;
                }
                if let Ok(stream) = stream.guarded() {
                    spawn_script(&accepting, stream, Arc::clone(&script));
                }
            }
        });
        Origin { address, shared }
    }

    /// The TCP address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        match &self.address {
            Address::Tcp(address) => *address,
            Address::Unix(path) => panic!("{path:?} is no TCP address"),
        }
    }

    /// As an entry of a list of servers, without a name.
    pub(crate) fn entry(&self) -> String {
        format!("\"{}\"", self.address())
    }

    /// As an entry of a list of servers, called `name`.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("{{ name = \"{name}\", address = \"{}\" }}", self.address())
    }

    /// How many connections were accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.record().connections.len()
    }

    /// What is known of connection `index`.
    pub(crate) fn connection(&self, index: usize) -> ConnectionRecord {
        self.shared.record().connections[index].clone()
    }

    /// Every complete request so far, in order of completion.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.record().requests.clone()
    }

    /// The last complete request; panics when there is none.
    pub(crate) fn last_request(&self) -> Request {
        self.requests().pop().expect("a request reached the origin")
    }

    /// The targets of all complete requests, in order.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.shared.record().requests.iter().map(|r| r.target().to_owned()).collect()
    }

    /// Waits until connection `index` was ended by Weir, and returns how; the script must have read it.
    pub(crate) fn wait_for_end(&self, index: usize) -> End {
        self.wait("a connection to the origin ends", |record| {
            record.connections.get(index).and_then(|seen| seen.end.clone())
        })
    }

    /// Waits until `count` complete requests arrived.
    pub(crate) fn wait_for_requests(&self, count: usize) -> Vec<Request> {
        self.wait(&format!("{count} requests reach the origin"), |record| {
            (record.requests.len() >= count).then(|| record.requests.clone())
        })
    }

    /// Waits until `count` connections were accepted.
    pub(crate) fn wait_for_connections(&self, count: usize) {
        self.wait(&format!("{count} connections reach the origin"), |record| {
            (record.connections.len() >= count).then_some(())
        });
    }

    fn wait<T>(&self, what: &str, mut look: impl FnMut(&Record) -> Option<T>) -> T {
        let mut found = None;
        let record = self.shared.record();
        let (record, _) = self
            .shared
            .changed
            .wait_timeout_while(record, WATCHDOG, |record| {
                found = look(record);
                found.is_none()
            })
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let seen: Vec<_> = record.connections.iter().map(|c| (latin1(&c.received), c.end.clone())).collect();
        drop(record);
        found.unwrap_or_else(|| {
            panic!("gave up after {WATCHDOG:?} waiting until {what}; connections: {seen:?}")
        })
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        let failures = self.shared.change(|record| {
            record.stopping = true;
            record.open.iter().flatten().for_each(|stream| stream.shut(Shutdown::Both));
            std::mem::take(&mut record.failures)
        });
        // Wakes the accepting thread, which sees that it should stop and closes the listening socket.
        let _ = Stream::connect(&self.address);
        if !thread::panicking() && !failures.is_empty() {
            panic!("a script of the origin failed: {failures:?}");
        }
    }
}

/// A listener on 127.0.0.1, and its address.
fn listening() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    (listener, Address::Tcp(address))
}

fn spawn_script(shared: &Arc<Shared>, stream: Stream, script: Arc<Script>) {
    let index = shared.change(|record| {
        record.connections.push(ConnectionRecord::default());
        record.open.push(stream.duplicate().ok());
        record.connections.len() - 1
    });
    let shared = Arc::clone(shared);
    let run = move || {
        let mut conn = Connection { index, wire: Wire::of_server(stream), shared: Arc::clone(&shared) };
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            script(&mut conn);
            conn.wire.judge();
        }));
        shared.change(|record| {
            record.open[index] = None;
            if let Err(panic) = outcome {
                let text = panic.downcast_ref::<String>().cloned();
                record.failures.push(text.unwrap_or_else(|| "a script panicked".to_owned()));
            }
        });
    };
    // A thousand connections are a thousand threads: keep them small.
    thread::Builder::new().stack_size(256 * 1024).spawn(run).expect("the system takes one more thread");
}

/// The origin's side of one connection, in the hands of a script.
pub(crate) struct Connection {
    /// Number of this connection, from 0, in order of acceptance.
    pub(crate) index: usize,
    wire: Wire,
    shared: Arc<Shared>,
}

impl Connection {
    /// Leaves what arrives on this connection unjudged, for this reason.
    pub(crate) fn exempt(&self, reason: &'static str) {
        self.wire.exempt(reason);
    }

    /// The address that the connection comes from.
    pub(crate) fn peer_ip(&self) -> IpAddr {
        self.wire.stream().peer_ip()
    }

    /// Reads one whole request; `None` when Weir ended the connection first.
    pub(crate) fn request(&mut self) -> Option<Request> {
        let head = self.head()?;
        self.request_body(head)
    }

    /// Reads the head of a request and leaves its body on the wire.
    pub(crate) fn head(&mut self) -> Option<Head> {
        let head = self.wire.head();
        self.note(head)
    }

    /// Reads the body that belongs to `head`, which makes the request complete.
    pub(crate) fn request_body(&mut self, head: Head) -> Option<Request> {
        let body = match head.request_framing() {
            Ok(framing) => self.wire.body(framing),
            Err(what) => Err(End::Malformed(what)),
        };
        let body = self.note(body)?;
        let request = Request { connection: self.index, head, body };
        self.shared.change(|record| record.requests.push(request.clone()));
        Some(request)
    }

    /// The next `len` bytes, which stay on the wire.
    pub(crate) fn peek(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.wire.pending().len() < len {
            let received = self.wire.receive().map(|_| ());
            self.note(received)?;
        }
        Some(self.wire.pending()[..len].to_vec())
    }

    /// Takes exactly `len` bytes off the wire.
    pub(crate) fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        let taken = self.wire.take(len);
        self.note(taken)
    }

    /// Reads some bytes of a large body into `buf` without keeping them.
    pub(crate) fn skim(&mut self, buf: &mut [u8]) -> Option<usize> {
        self.wire.skim(buf).ok()
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> Option<()> {
        self.wire.send(bytes.as_ref()).ok()
    }

    /// Sends bytes and the end of the direction towards Weir (FIN) in one segment, so that Weir receives both at once.
    pub(crate) fn send_last(&mut self, bytes: impl AsRef<[u8]>) -> Option<()> {
        let Stream::Tcp(tcp) = self.wire.stream() else { panic!("only TCP has segments") };
        socket2::SockRef::from(tcp).set_tcp_cork(true).ok()?;
        self.send(bytes)?;
        self.finish();
        Some(())
    }

    /// Sends bytes one by one, each in a segment of its own.
    pub(crate) fn send_bytewise(&mut self, bytes: impl AsRef<[u8]>) -> Option<()> {
        self.wire.send_bytewise(bytes.as_ref()).ok()
    }

    /// Ends the direction towards Weir (FIN) and keeps reading.
    pub(crate) fn finish(&mut self) {
        self.wire.stream().shut(Shutdown::Write);
    }

    /// Ends both directions, so that what comes from now on is answered with RST.
    pub(crate) fn close(&mut self) {
        self.wire.stream().shut(Shutdown::Both);
    }

    /// Makes the end of the script abort the connection with RST.
    pub(crate) fn reset(&mut self) {
        self.wire.stream().reset_on_close();
        // The spare handle would keep the socket open past the end of the script.
        self.shared.change(|record| record.open[self.index] = None);
    }

    /// The connection with TLS; panics where there is none.
    pub(crate) fn tls(&mut self) -> &mut TlsStream {
        match self.wire.stream_mut() {
            Stream::Tls(tls) => tls,
            other => panic!("{other:?} has no TLS"),
        }
    }

    /// Waits until Weir ends the connection; returns the bytes that came before that.
    pub(crate) fn wait_for_end(&mut self) -> (Vec<u8>, End) {
        let (rest, end) = self.wire.take_to_end();
        self.note::<()>(Err(end.clone()));
        (rest, end)
    }

    fn note<T>(&mut self, result: Result<T, End>) -> Option<T> {
        let index = self.index;
        self.shared.change(|record| {
            let seen = &mut record.connections[index].received;
            seen.extend_from_slice(&self.wire.received()[seen.len()..]);
            if let Err(end) = &result {
                record.connections[index].end = Some(end.clone());
            }
        });
        match result {
            Ok(value) => Some(value),
            Err(End::Malformed(what)) => panic!("what Weir sent to the origin is not HTTP/1: {what}"),
            Err(_) => None,
        }
    }
}

/// A response of this status without a body.
pub(crate) fn status(status: u16) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")
}

/// A 200 with a length.
pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
