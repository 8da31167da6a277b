//! A client of HTTP/3 (RFC 9114) that has not a line of Weir's codec: QUIC, frames and QPACK are those of libraries.
//!
//! Blocking, as all clients of the tests: it makes progress while a call waits.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use h3::client::SendRequest;
use h3::error::{ConnectionError, StreamError};
use h3_quinn::OpenStreams;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, TokenMemoryCache, TransportConfig};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::{CertificateAuthority, Gate, eventually};

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
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Http3Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
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
        Self::begin(to, tls, None, false).map(|client| client.expect("a full handshake can always begin"))
    }

    /// Comes again, and sends requests before the handshake is over (0-RTT); `None` when the session of the config does not allow that.
    pub(crate) fn connect_early(to: SocketAddr, known: &KnownClient) -> Option<Self> {
        let mut tls = known.tls.clone();
        tls.enable_early_data = true;
        Self::begin(to, tls, Some(&known.tokens), true).expect("it begins at once")
    }

    /// A client that has been there, with a request that was answered.
    pub(crate) fn get_known(to: SocketAddr, authority: &CertificateAuthority) -> KnownClient {
        let known = KnownClient { tls: authority.client(), tokens: Arc::new(TokenMemoryCache::default()) };
        let first = Self::begin(to, known.tls.clone(), Some(&known.tokens), false);
        let mut first = first.ok().flatten().expect("there is HTTP/3");
        assert_eq!(first.get("/first").status, 200);
        first.leave();
        known
    }

    fn begin(
        to: SocketAddr,
        mut tls: rustls::ClientConfig,
        tokens: Option<&Arc<TokenMemoryCache>>,
        is_early: bool,
    ) -> Result<Option<Self>, quinn::ConnectionError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let tls = QuicClientConfig::try_from(tls).expect("it has TLS 1.3");
        let mut config = ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(TransportConfig::default()));
        if let Some(tokens) = tokens {
            config.token_store(Arc::clone(tokens) as _);
        }
        let (endpoint, connection) = runtime.block_on(async {
            let endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback has a port");
            let connecting = endpoint.connect_with(config, to, "a.test").expect("the name is sound");
            let connection = match is_early {
                true => connecting.into_0rtt().ok().map(|(connection, _)| connection),
                false => Some(connecting.await?),
            };
            Ok::<_, quinn::ConnectionError>((endpoint, connection))
        })?;
        let Some(connection) = connection else { return Ok(None) };
        let made = runtime.block_on(async {
            let (mut driver, requests) =
                h3::client::new(h3_quinn::Connection::new(connection.clone())).await.expect("HTTP/3 begins");
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
        self.runtime.block_on(pending.0).expect("the task does not panic")
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

    /// Goes on from another port, as when a network address translation forgets the old one.
    pub(crate) fn rebind(&mut self) {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a port");
        let _entered = self.runtime.enter();
        self.endpoint.rebind(socket).expect("the socket is sound");
    }

    /// Leaves, and says so.
    pub(crate) fn leave(self) {
        self.connection.close(0u32.into(), b"");
        let endpoint = self.endpoint.clone();
        self.runtime.block_on(async { endpoint.wait_idle().await });
    }
}

impl Drop for Http3Client {
    fn drop(&mut self) {
        self.driver.abort();
        self.endpoint.close(0u32.into(), b"");
    }
}
