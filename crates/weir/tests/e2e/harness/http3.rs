//! A client of HTTP/3 (RFC 9114) that has not a line of Weir's codec: QUIC, frames and QPACK are those of libraries, or of this
//! file and `weir-wire` for what the libraries cannot say.
//!
//! Blocking, as all clients of the tests: it makes progress while a call waits.

use std::collections::BTreeSet;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use h3::client::SendRequest;
use h3::error::{ConnectionError, StreamError};
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::udp::RecvMeta;
use quinn::{
    AsyncUdpSocket, ClientConfig, Endpoint, EndpointConfig, Runtime as _, TokenMemoryCache, TokioRuntime,
    TransportConfig, UdpPoller,
};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use weir_wire::RecordedFields;
use weir_wire::http2::RecordedStream;
use weir_wire::http3::{AnnouncedByClient, RecordedPiece, StreamPiece, read_server};

use super::watchdog::WATCHDOG;
use super::{CertificateAuthority, Gate, eventually};

/// The code with which clients give a request up (RFC 9114 section 8.1).
const REQUEST_CANCELLED: u32 = 0x10c;

/// How often the tasks of a connection have their turn until what was written is sent: more than there are.
const TURNS: usize = 16;

/// The host that clients ask for.
const NAME: &str = "a.test";

/// A connection.
pub(crate) struct Http3Client {
    runtime: Runtime,
    endpoint: Endpoint,
    pub(crate) connection: quinn::Connection,
    requests: Option<SendRequest<OpenStreams, Bytes>>,
    driver: JoinHandle<ConnectionError>,
}

/// What a client keeps of its connections: the session, and tokens that prove its address.
pub(crate) struct KnownClient {
    pub(crate) tls: rustls::ClientConfig,
    pub(crate) tokens: Arc<TokenMemoryCache>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Http3Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Http3Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The value of a field, by its name in small letters.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The value of a trailer.
    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        self.trailers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// A request that has been sent.
pub(crate) struct PendingResponse(JoinHandle<Result<Http3Response, StreamError>>);

impl Http3Client {
    /// Connects, trusting `authority` and asking for `a.test`.
    pub(crate) fn connect(to: SocketAddr, authority: &CertificateAuthority) -> Self {
        Self::try_connect(to, authority.client()).expect("there is HTTP/3")
    }

    /// The same with a config of its own.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) fn try_connect(
        to: SocketAddr,
        tls: rustls::ClientConfig,
    ) -> Result<Self, quinn::ConnectionError> {
        Self::try_connect_with(to, tls, TransportConfig::default())
    }

    /// The same with windows and timers of its own.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) fn try_connect_with(
        to: SocketAddr,
        tls: rustls::ClientConfig,
        transport: TransportConfig,
    ) -> Result<Self, quinn::ConnectionError> {
        Self::begin((to, NAME), tls, transport, (None, false))
            .map(|client| client.expect("a full handshake can always begin"))
    }

    /// The same, asking for another host.
    ///
    /// # Errors
    /// Why there is no connection.
    pub(crate) fn try_connect_as(
        to: SocketAddr,
        tls: rustls::ClientConfig,
        name: &str,
    ) -> Result<Self, quinn::ConnectionError> {
        Self::begin((to, name), tls, TransportConfig::default(), (None, false))
            .map(|client| client.expect("a full handshake can always begin"))
    }

    /// Comes again, and sends requests before the handshake is over (0-RTT); `None` when the session of the config does not allow that.
    pub(crate) fn connect_early(to: SocketAddr, known: &KnownClient) -> Option<Self> {
        let mut tls = known.tls.clone();
        tls.enable_early_data = true;
        Self::begin((to, NAME), tls, TransportConfig::default(), (Some(&known.tokens), true))
            .expect("it begins at once")
    }

    /// A client that has been there, with a request that was answered.
    pub(crate) fn get_known(to: SocketAddr, authority: &CertificateAuthority) -> KnownClient {
        let known = KnownClient { tls: authority.client(), tokens: Arc::new(TokenMemoryCache::default()) };
        let first = Self::begin(
            (to, NAME),
            known.tls.clone(),
            TransportConfig::default(),
            (Some(&known.tokens), false),
        );
        let mut first = first.ok().flatten().expect("there is HTTP/3");
        assert_eq!(first.get("/first").status, 200);
        first.leave();
        known
    }

    fn begin(
        (to, name): (SocketAddr, &str),
        tls: rustls::ClientConfig,
        transport: TransportConfig,
        (tokens, is_early): (Option<&Arc<TokenMemoryCache>>, bool),
    ) -> Result<Option<Self>, quinn::ConnectionError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let mut config = client_config(tls, transport);
        if let Some(tokens) = tokens {
            config.token_store(Arc::clone(tokens) as _);
        }
        let (endpoint, connection) = runtime.block_on(async {
            let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback has a port");
            let connecting = endpoint.connect_with(config, to, name).expect("the name is sound");
            let connection = match is_early {
                true => connecting.into_0rtt().ok().map(|(connection, _)| connection),
                false => Some(connecting.await?),
            };
            Ok::<_, quinn::ConnectionError>((endpoint, connection))
        })?;
        let Some(connection) = connection else { return Ok(None) };
        let made = runtime.block_on(async {
            // Without a frame that means nothing between the head of a request and its end: with one, it has a body.
            let quic = h3_quinn::Connection::new(connection.clone());
            let made = h3::client::builder().send_grease(false).build(quic).await;
            let (mut driver, requests) = made.expect("HTTP/3 begins");
            let driver = tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
            (driver, requests)
        });
        let (driver, requests) = made;
        Ok(Some(Self { runtime, endpoint, connection, requests: Some(requests), driver }))
    }

    /// Sends a request with a body, if there is one, and does not wait.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &[u8]) -> PendingResponse {
        let request = http::Request::builder().method(method).uri(format!("https://a.test{path}"));
        self.send_with(request, body)
    }

    /// The same with fields.
    pub(crate) fn send_with(&mut self, request: http::request::Builder, body: &[u8]) -> PendingResponse {
        self.send_until(request, body, None)
    }

    /// The same, but the end of the body is sent when the gate is open, and in a packet of its own.
    pub(crate) fn send_until(
        &mut self,
        request: http::request::Builder,
        body: &[u8],
        gate: Option<Gate>,
    ) -> PendingResponse {
        let request = request.body(()).expect("the request is sound");
        let body = Bytes::copy_from_slice(body);
        let mut requests = self.requests.clone().expect("it goes on");
        let _entered = self.runtime.enter();
        PendingResponse(self.runtime.spawn(async move {
            let mut stream = requests.send_request(request).await?;
            if !body.is_empty() {
                stream.send_data(body).await?;
            }
            if let Some(gate) = gate {
                let opened = tokio::task::spawn_blocking(move || gate.wait("the body may end"));
                opened.await.expect("the gate opens");
            }
            stream.finish().await?;
            let head = stream.recv_response().await?;
            let mut received = Vec::new();
            while let Some(mut piece) = stream.recv_data().await? {
                received.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
            }
            let trailers = stream.recv_trailers().await?;
            let text = |map: &http::HeaderMap| {
                let one = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
                    (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                };
                map.iter().map(one).collect::<Vec<_>>()
            };
            Ok(Http3Response {
                status: head.status().as_u16(),
                fields: text(head.headers()),
                body: received,
                trailers: trailers.as_ref().map(text).unwrap_or_default(),
            })
        }))
    }

    /// The response to a request.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn try_response(&mut self, pending: PendingResponse) -> Result<Http3Response, StreamError> {
        let response = async { tokio::time::timeout(WATCHDOG, pending.0).await };
        let response = self.runtime.block_on(response).expect("a response does not stand still");
        response.expect("the task does not panic")
    }

    /// The response to a request.
    pub(crate) fn response(&mut self, pending: PendingResponse) -> Http3Response {
        self.try_response(pending).unwrap_or_else(|error| panic!("no response: {error}"))
    }

    /// Lets what has been sent leave, and takes in what has come.
    pub(crate) fn progress_until(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        eventually(what, || {
            self.runtime.block_on(async {
                for _ in 0..8 {
                    tokio::task::yield_now().await;
                }
            });
            holds()
        });
    }

    /// A whole GET.
    pub(crate) fn get(&mut self, path: &str) -> Http3Response {
        let pending = self.send("GET", path, b"");
        self.response(pending)
    }

    /// A whole GET with fields.
    pub(crate) fn get_with(&mut self, path: &str, fields: &[(&str, &str)]) -> Http3Response {
        self.ask("GET", path, fields, b"")
    }

    /// A whole POST.
    pub(crate) fn post(&mut self, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Http3Response {
        self.ask("POST", path, fields, body)
    }

    fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Http3Response {
        let request = http::Request::builder().method(method).uri(format!("https://a.test{path}"));
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let pending = self.send_with(request, body);
        self.response(pending)
    }

    /// Opens a stream whose head the library cannot say, or which stays open.
    pub(crate) fn open(&mut self, fields: &[(&str, &str)]) -> OpenHttp3Stream {
        let opened = self.runtime.block_on(self.connection.open_bi()).expect("the connection takes streams");
        let mut stream =
            OpenHttp3Stream { sending: opened.0, receiving: opened.1, record: Vec::new(), received: 0 };
        self.send_raw(&mut stream, &frame(1, &section(fields)));
        stream
    }

    /// Sends bytes on a stream as they are.
    pub(crate) fn send_raw(&mut self, stream: &mut OpenHttp3Stream, bytes: &[u8]) {
        self.try_send_raw(stream, bytes).expect("the stream takes it");
    }

    /// The same, where Weir may have given the stream up.
    ///
    /// # Errors
    /// Why it takes nothing.
    pub(crate) fn try_send_raw(
        &mut self,
        stream: &mut OpenHttp3Stream,
        bytes: &[u8],
    ) -> Result<(), quinn::WriteError> {
        let written = self.runtime.block_on(stream.sending.write_all(bytes));
        self.settle();
        written
    }

    /// Has the tasks of the connection send what there is to be sent.
    fn settle(&self) {
        self.runtime.block_on(async {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        });
    }

    /// Ends our direction of a stream in order.
    pub(crate) fn finish(&mut self, stream: &mut OpenHttp3Stream) {
        // Weir may not want it any more.
        let _ = stream.sending.finish();
        self.settle();
    }

    /// Gives a stream up, both directions of it, as a client does that wants nothing more of it.
    pub(crate) fn cancel(&mut self, stream: &mut OpenHttp3Stream) {
        self.reset(stream, REQUEST_CANCELLED);
        stream.receiving.stop(REQUEST_CANCELLED.into()).expect("it is open");
        self.settle();
    }

    /// Gives our direction of a stream up.
    pub(crate) fn reset(&mut self, stream: &mut OpenHttp3Stream, code: u32) {
        stream.sending.reset(code.into()).expect("it is open");
        self.settle();
    }

    /// Sends a frame of DATA.
    pub(crate) fn send_data(&mut self, stream: &mut OpenHttp3Stream, data: &[u8]) {
        self.send_raw(stream, &frame(0, data));
    }

    /// Reads a stream until `is_enough` of what came, which has so many bytes at least, or its end.
    fn read_until(
        &mut self,
        stream: &mut OpenHttp3Stream,
        bytes_min: usize,
        is_enough: impl Fn(&RecordedStream) -> bool,
    ) -> RecordedStream {
        let mut is_over = false;
        loop {
            if is_over || stream.received >= bytes_min {
                let read = stream.reading();
                if read.has_ended || read.reset.is_some() || is_enough(&read) {
                    return read;
                }
            }
            let next = self.runtime.block_on(stream.receiving.read_chunk(65_536, true));
            let piece = match next {
                Ok(Some(chunk)) => StreamPiece::Bytes(chunk.bytes.to_vec()),
                Ok(None) => StreamPiece::End,
                Err(quinn::ReadError::Reset(code)) => StreamPiece::Reset(code.into_inner()),
                Err(error) => panic!("the stream is lost: {error}"),
            };
            match &piece {
                StreamPiece::Bytes(bytes) => stream.received += bytes.len(),
                _ => is_over = true,
            }
            stream.record.extend(RecordedPiece::new(0, piece).write());
        }
    }

    /// The head of the response on a stream.
    pub(crate) fn head(&mut self, stream: &mut OpenHttp3Stream) -> RecordedStream {
        self.read_until(stream, 0, |read| read.status() != 0)
    }

    /// The first interim response on a stream.
    pub(crate) fn interim(&mut self, stream: &mut OpenHttp3Stream) -> RecordedFields {
        let read = self.read_until(stream, 0, |read| !read.interim.is_empty());
        read.interim.into_iter().next().unwrap_or_default()
    }

    /// The first bytes of the body on a stream: so many, or as many as there are.
    pub(crate) fn body(&mut self, stream: &mut OpenHttp3Stream, len: usize) -> Vec<u8> {
        self.read_until(stream, len, |read| read.body.len() >= len).body
    }

    /// Everything on a stream, to its end.
    pub(crate) fn rest(&mut self, stream: &mut OpenHttp3Stream) -> RecordedStream {
        self.read_until(stream, usize::MAX, |_| false)
    }

    /// The code with which Weir says that it does not want what is sent on a stream.
    pub(crate) fn stop_code(&mut self, stream: &mut OpenHttp3Stream) -> Option<u64> {
        let stopped = self.runtime.block_on(stream.sending.stopped()).expect("the connection goes on");
        stopped.map(quinn::VarInt::into_inner)
    }

    /// Goes on from another port, as when a network address translation forgets the old one.
    pub(crate) fn rebind(&mut self) {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a port");
        let _entered = self.runtime.enter();
        self.endpoint.rebind(socket).expect("the socket is sound");
    }

    /// Opens streams in one direction on which it sends nothing, until the server closes the connection; the code of that.
    pub(crate) fn open_without_type(&mut self, count: usize, mut end: impl FnMut(quinn::SendStream)) -> u64 {
        self.runtime.block_on(async {
            for _ in 0..count {
                match self.connection.open_uni().await {
                    Ok(stream) => end(stream),
                    Err(_) => break,
                }
            }
        });
        self.close_code()
    }

    /// Reads so many responses at once until the server closes the connection; the code of that.
    pub(crate) fn read_until_closed(&mut self, path: &str, count: usize) -> u64 {
        let pending: Vec<_> = (0..count).map(|_| self.send("GET", path, b"")).collect();
        for pending in pending {
            let _outcome = self.try_response(pending);
        }
        self.close_code()
    }

    /// Why the connection ends, without anything that the client says.
    pub(crate) fn end(&self) -> quinn::ConnectionError {
        let closed = async { tokio::time::timeout(WATCHDOG, self.connection.closed()).await };
        self.runtime.block_on(closed).expect("the connection ends")
    }

    /// With which code the server closes the connection.
    fn close_code(&self) -> u64 {
        let closed = async { tokio::time::timeout(WATCHDOG, self.connection.closed()).await };
        match self.runtime.block_on(closed) {
            Ok(quinn::ConnectionError::ApplicationClosed(closed)) => closed.error_code.into_inner(),
            other => panic!("the server has not closed the connection: {other:?}"),
        }
    }

    /// Leaves, and says so.
    pub(crate) fn leave(self) {
        self.connection.close(0u32.into(), b"");
        let endpoint = self.endpoint.clone();
        self.runtime.block_on(async { endpoint.wait_idle().await });
    }
}

fn client_config(mut tls: rustls::ClientConfig, transport: TransportConfig) -> ClientConfig {
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicClientConfig::try_from(tls).expect("it has TLS 1.3");
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(Arc::new(transport));
    config
}

/// Handshakes of one address that never end: of what the server says, the clients hear only that they are to prove their address.
pub(crate) struct HeldHandshakes {
    _runtime: Runtime,
    _endpoint: Endpoint,
}

impl HeldHandshakes {
    /// Begins so many, from an address that no other client has.
    pub(crate) fn begin(to: SocketAddr, authority: &CertificateAuthority, count: usize) -> Self {
        Self::begin_with(to, &client_config(authority.client(), TransportConfig::default()), count)
    }

    /// Begins that of a client that has been there.
    pub(crate) fn begin_known(to: SocketAddr, known: &KnownClient) -> Self {
        let mut config = client_config(known.tls.clone(), TransportConfig::default());
        config.token_store(Arc::clone(&known.tokens) as _);
        Self::begin_with(to, &config, 1)
    }

    fn begin_with(to: SocketAddr, config: &ClientConfig, count: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let entered = runtime.enter();
        let socket = std::net::UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 7), 0)).expect("it is loopback");
        let socket = TokioRuntime.wrap_udp_socket(socket).expect("the socket is sound");
        let (socket, settings) = (Arc::new(RetryOnly(socket)), EndpointConfig::default());
        let endpoint = Endpoint::new_with_abstract_socket(settings, None, socket, Arc::new(TokioRuntime));
        let endpoint = endpoint.expect("the socket is sound");
        for _ in 0..count {
            let connecting = endpoint.connect_with(config.clone(), to, "a.test").expect("the name is sound");
            runtime.spawn(connecting);
        }
        drop(entered);
        Self { _runtime: runtime, _endpoint: endpoint }
    }
}

/// A socket that receives no packets but Retry (RFC 9000 section 17.2.5).
#[derive(Debug)]
struct RetryOnly(Arc<dyn AsyncUdpSocket>);

impl AsyncUdpSocket for RetryOnly {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.0).create_io_poller()
    }

    fn try_send(&self, transmit: &quinn::udp::Transmit<'_>) -> io::Result<()> {
        self.0.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = self.0.poll_recv(cx, bufs, meta);
        if let Poll::Ready(Ok(count)) = received {
            let unheard = bufs.iter().zip(meta).take(count).filter(|(buf, _)| buf[0] & 0xf0 != 0xf0);
            unheard.for_each(|(_, meta)| meta.len = 0);
        }
        received
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A stream that is written and read by hand.
pub(crate) struct OpenHttp3Stream {
    sending: quinn::SendStream,
    receiving: quinn::RecvStream,
    /// What came, as pieces of stream 0.
    record: Vec<u8>,
    /// Bytes that came.
    received: usize,
}

impl OpenHttp3Stream {
    fn reading(&self) -> RecordedStream {
        let announced = AnnouncedByClient { table_bytes_max: 0, without_bodies: &BTreeSet::new() };
        let mut reading = read_server(&self.record, announced);
        assert_eq!(reading.fault, None, "what Weir has sent is no HTTP/3");
        reading.streams.remove(&0).unwrap_or_default()
    }
}

/// A frame (RFC 9114 section 7.1).
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("frames are small") | 0x8000_0000;
    [&[kind][..], &len.to_be_bytes(), payload].concat()
}

/// A field section of literals (RFC 9204 section 4.5.6).
pub(crate) fn section(fields: &[(&str, &str)]) -> Vec<u8> {
    let string = |first: u8, prefix: u32, text: &str| {
        let mask = (1usize << prefix) - 1;
        let mut bytes = vec![first | text.len().min(mask) as u8];
        let mut rest = text.len().checked_sub(mask);
        while let Some(left) = rest {
            rest = (left >= 128).then_some(left / 128);
            bytes.push((left as u8 % 128) | if rest.is_some() { 128 } else { 0 });
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes
    };
    let lines = fields.iter().flat_map(|(name, value)| [string(0x20, 3, name), string(0, 7, value)].concat());
    [0, 0].into_iter().chain(lines).collect()
}

impl Drop for Http3Client {
    fn drop(&mut self) {
        self.driver.abort();
        self.endpoint.close(0u32.into(), b"");
    }
}
