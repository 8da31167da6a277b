//! A raw client: sends exactly the bytes it is given and reads exactly one response at a time.
//!
//! Every method panics with all the bytes received so far when the step fails, so a failing test explains itself.

use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::message::{Fields, Head, latin1};
use super::stream::{Address, Stream};
use super::tls::TlsStream;
use super::wire::{Body, End, Wire};

/// A response as it arrived: status line, fields, decoded body.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: Head,
    pub(crate) body: Body,
}

impl Response {
    /// The fields of the head.
    pub(crate) fn fields(&self) -> &Fields {
        &self.head.fields
    }

    /// The one value of the field `name`.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.fields.one(name)
    }

    /// The body as Latin-1 text.
    pub(crate) fn text(&self) -> String {
        latin1(&self.body.bytes)
    }

    /// Whether the sender announces that it closes the connection.
    pub(crate) fn closes(&self) -> bool {
        self.head.fields.lists("connection", "close")
    }

    /// The cookie that it sets, as a client gives it back.
    pub(crate) fn cookie(&self) -> String {
        let set = self.field("Set-Cookie").unwrap_or_else(|| panic!("no cookie: {self:?}"));
        set.split(';').next().unwrap_or_default().to_owned()
    }

    /// The reason code of an answer that Weir gave itself.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.field("weir-reason")
    }
}

/// One client connection.
#[derive(Debug)]
pub(crate) struct Client {
    wire: Wire,
}

impl Client {
    /// Connects to `address`; panics without a listener.
    pub(crate) fn connect(address: impl Into<Address>) -> Client {
        let address = address.into();
        match Stream::connect(&address) {
            Ok(stream) => Client { wire: Wire::of_client(stream) },
            Err(error) => panic!("cannot connect to {address:?}: {error}"),
        }
    }

    /// Takes over a stream that is ready.
    pub(crate) fn on(stream: Stream) -> Client {
        Client { wire: Wire::of_client(stream) }
    }

    /// The TLS of a connection that has it.
    pub(crate) fn tls(&mut self) -> &mut TlsStream {
        match self.wire.stream_mut() {
            Stream::Tls(tls) => tls,
            _ => panic!("the connection is plain"),
        }
    }

    /// The port at this end.
    pub(crate) fn local_port(&self) -> u16 {
        self.wire.stream().local_port()
    }

    /// Takes over a connected socket.
    pub(crate) fn over(tcp: TcpStream) -> Client {
        let stream = Stream::Tcp(tcp).guarded().expect("a connected socket takes its options");
        Client { wire: Wire::of_client(stream) }
    }

    /// Connects to `to` from the local address `from`.
    pub(crate) fn connect_from(from: &str, to: SocketAddr) -> Client {
        let from: IpAddr = from.parse().expect("the test gives an IP address");
        let stream = Stream::connect_from(from, to, 0).expect("the listener accepts connections");
        Client { wire: Wire::of_client(stream) }
    }

    /// Connects with a small receive buffer, so that a reader that stops is felt at once.
    pub(crate) fn connect_narrow(to: SocketAddr) -> Client {
        let stream = Stream::connect_from([127, 0, 0, 1].into(), to, 4096).expect("the listener accepts");
        Client { wire: Wire::of_client(stream) }
    }

    /// Connects, sends a request without body and reads the response; the connection ends here.
    pub(crate) fn get(address: impl Into<Address>, target: &str) -> Response {
        Client::exchange(address, &format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n\r\n"))
    }

    /// [`Client::get`] with the address as `Host`, as the admin listener requires it.
    pub(crate) fn get_by_address(address: SocketAddr, target: &str) -> Response {
        Client::exchange(address, &format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n"))
    }

    /// Connects, sends `request` as it stands and reads the response; the connection ends here.
    pub(crate) fn exchange(address: impl Into<Address>, request: &str) -> Response {
        let mut client = Client::connect(address);
        client.send(request);
        client.response_to(request.split(' ').next().unwrap_or_default())
    }

    /// Sends bytes; panics when the peer is gone.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        if let Err(end) = self.wire.send(bytes.as_ref()) {
            panic!("cannot send, {end}; received so far: {:?}", latin1(self.wire.received()));
        }
    }

    /// Sends bytes as far as the peer takes them: for requests that are refused while they are being sent.
    pub(crate) fn send_what_is_taken(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), End> {
        self.wire.send(bytes.as_ref())
    }

    /// Sends bytes one by one, each in a segment of its own.
    pub(crate) fn send_bytewise(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), End> {
        self.wire.send_bytewise(bytes.as_ref())
    }

    /// Ends the direction towards Weir (FIN) and keeps reading.
    pub(crate) fn finish(&self) {
        self.wire.stream().shut(Shutdown::Write);
    }

    /// Aborts the connection with RST.
    pub(crate) fn reset(self) {
        self.wire.stream().reset_on_close();
    }

    /// Sends a GET of `target` with a Host.
    pub(crate) fn send_get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: example.test\r\n\r\n"));
    }

    /// Reads the response to a request of any method with an ordinary response body.
    pub(crate) fn response(&mut self) -> Response {
        self.response_to("GET")
    }

    /// Sends a GET of `target` with a Host and reads the response that comes next; the connection goes on.
    pub(crate) fn fetch(&mut self, target: &str) -> Response {
        self.send_get(target);
        self.response()
    }

    /// Reads the response to a request of any method with an ordinary response body, past all interim ones.
    pub(crate) fn final_response(&mut self) -> Response {
        loop {
            let response = self.response();
            if response.status >= 200 {
                return response;
            }
        }
    }

    /// Reads one response, interim or final, to a request of `method`.
    pub(crate) fn response_to(&mut self, method: &str) -> Response {
        match self.try_response_to(method) {
            Ok(response) => response,
            Err(end) => panic!("no response, {end}; received: {:?}", latin1(self.wire.received())),
        }
    }

    /// Like [`Client::response_to`], for responses that may be cut off.
    pub(crate) fn try_response_to(&mut self, method: &str) -> Result<Response, End> {
        let head = self.wire.head()?;
        self.try_response_behind(head, method)
    }

    /// Reads the body of a response to a request of `method` whose `head` was read already.
    pub(crate) fn try_response_behind(&mut self, head: Head, method: &str) -> Result<Response, End> {
        let framing = head.response_framing(method).map_err(End::Malformed)?;
        let body = self.wire.body(framing)?;
        let status = head.status().map_err(End::Malformed)?;
        Ok(Response { status, head, body })
    }

    /// Reads the head of a response and leaves its body on the wire.
    pub(crate) fn head(&mut self) -> Head {
        match self.wire.head() {
            Ok(head) => head,
            Err(end) => panic!("no response head, {end}; received: {:?}", latin1(self.wire.received())),
        }
    }

    /// Takes exactly `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        match self.wire.take(len) {
            Ok(bytes) => bytes,
            Err(end) => panic!("{len} bytes wanted, {end}; received: {:?}", latin1(self.wire.received())),
        }
    }

    /// Reads some bytes of a large body into `buf` without keeping them.
    pub(crate) fn skim(&mut self, buf: &mut [u8]) -> usize {
        match self.wire.skim(buf) {
            Ok(len) => len,
            Err(end) => panic!("more of the body wanted, {end}"),
        }
    }

    /// The same; `None` when the connection has ended.
    pub(crate) fn skim_or_end(&mut self, buf: &mut [u8]) -> Option<usize> {
        self.wire.skim(buf).ok()
    }

    /// Reads until Weir ends the connection, and returns how.
    pub(crate) fn take_to_end(&mut self) -> (Vec<u8>, End) {
        self.wire.take_to_end()
    }

    /// Panics unless Weir closes the connection in order, without another byte.
    pub(crate) fn assert_closed(&mut self) {
        let (rest, end) = self.wire.take_to_end();
        assert!(rest.is_empty(), "bytes after the response: {:?}", latin1(&rest));
        assert_eq!(end, End::Closed, "the connection must be closed in order");
    }

    /// Panics unless the connection serves one more request: `GET /alive`, answered 200.
    pub(crate) fn assert_alive(&mut self) {
        self.send_get("/alive");
        let response = self.response();
        assert_eq!(response.status, 200, "the connection must go on: {response:?}");
    }

    /// Changes how long one read may take.
    pub(crate) fn limit_reads(&self, limit: Duration) {
        self.wire.stream().limit_reads(limit).expect("a connected socket takes a time limit");
    }

    /// A second handle of the same connection, so that one thread may send while another reads.
    pub(crate) fn duplicate(&self) -> Client {
        let stream = self.wire.stream().duplicate().expect("the process may open one more file");
        self.exempt("each handle has a part of the bytes");
        let other = Client { wire: Wire::of_client(stream) };
        other.exempt("each handle has a part of the bytes");
        other
    }

    /// Leaves what Weir writes on this connection unjudged, for this reason: it is no HTTP, or the test wants it to be broken.
    pub(crate) fn exempt(&self, reason: &'static str) {
        self.wire.exempt(reason);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.wire.judge();
        }
    }
}
