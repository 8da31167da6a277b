//! One probe: a connection of the probes' own, a request if there is one, and the verdict on the response.
//!
//! Bounded in time by the time limit of the config, in memory by the head that the upstream may send and the part of the
//! body that is read. Must not know what a failure leads to.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{Dialogue, HealthCheck, HealthProbe, Server, ServerProtocol};
use weir_observe::{Cause, Failure, Phase};

use super::conversation;
use super::fastcgi;
use super::grpc;
use super::http2::{Http2Request, ProbeConnection, ResponseLimits};
use super::request::{ProbeReuse, write_request};
use super::response::Expected;
use super::stream::{ProbeStream, send};
use weir_proxy::net::buffer::BufferStock;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::connection::Connection;
use weir_proxy::net::endpoint::Endpoint;
use weir_proxy::net::failure::Fault;
use weir_proxy::net::socket::Behind;
use weir_proxy::net::source::BoundSource;
use weir_proxy::net::tls::client_config::{HandshakeConfig, TlsClientConfig};
use weir_proxy::state::snapshot::UpstreamPlan;
use weir_proxy::upstream::handshake::{self, ConnectionSetup};
use weir_proxy::upstream::proxy_header::{self, ConnectionIdentity};

/// How one server is probed.
#[derive(Debug)]
pub(super) struct Probe {
    timeout: Duration,
    client_config: Option<Arc<TlsClientConfig>>,
    /// Which server it is.
    index: usize,
    stock: Rc<BufferStock>,
    /// What is asked, and the expected response; `None`: the connection is enough, or a conversation.
    question: Option<Question>,
    /// The protocol of the traffic.
    protocol: ServerProtocol,
    response_limits: ResponseLimits,
    /// The conversation in place of a request.
    dialogue: Option<Dialogue>,
    tls: ProbeTls,
    /// The first bytes of each connection (PROXY protocol); `None`: nothing.
    identity: ConnectionIdentity,
    /// How long one connection carries probes; `None`: one probe each.
    connection_age: Option<Duration>,
    connection: Option<KeptConnection>,
    /// The port that is probed; `None`: that of the traffic.
    port: Option<u16>,
    /// Whether the server has required HTTP/1.1 of a probe: further ones go that way.
    uses_http1: bool,
}

/// Whether a probe uses TLS.
#[derive(Debug)]
enum ProbeTls {
    None,
    /// As the traffic does.
    OfTraffic,
    /// Without verification, for the traffic passes through encrypted.
    Blind(HandshakeConfig),
}

/// What a probe asks.
#[derive(Debug)]
enum Question {
    Http { http1: Box<[u8]>, http2: Http2Request, expected: Expected },
    Fastcgi { request: Box<[u8]>, expected: Expected },
    Grpc(Http2Request),
}

/// A connection that requests can be sent on.
#[derive(Debug)]
enum OpenConnection {
    Http1(Connection),
    Http2(Box<ProbeConnection>),
    Fastcgi(Connection),
}

/// A connection that has carried a probe and can carry another.
#[derive(Debug)]
struct KeptConnection {
    connection: OpenConnection,
    opened_at: Instant,
    /// Where the server was when it was opened.
    endpoints: Arc<Vec<Endpoint>>,
}

impl Probe {
    pub(super) fn new(
        check: &HealthCheck,
        index: usize,
        plan: &Arc<UpstreamPlan>,
        stock: &Rc<BufferStock>,
        may_keep: bool,
    ) -> Self {
        let server = &plan.config.servers[index];
        // A server that limits its connections must not lose a place to an idle one.
        let connection_age = check.connection_age.filter(|_| may_keep && server.max_requests.is_none());
        let kept = if connection_age.is_some() { ProbeReuse::Yes } else { ProbeReuse::No };
        let address = &server.address;
        let question = match &check.probe {
            HealthProbe::Tcp | HealthProbe::Tls => None,
            // Another port is another service, which need not speak FastCGI.
            HealthProbe::Http(probe)
                if plan.config.protocol == ServerProtocol::Fastcgi
                    && server.health_port.or(check.port).is_none() =>
            {
                Some(Question::Fastcgi {
                    request: fastcgi::write_request(probe, address),
                    expected: Expected::new(probe, plan),
                })
            }
            HealthProbe::Http(probe) => Some(Question::Http {
                http1: write_request(probe, address, kept),
                http2: Http2Request::of_http(probe, address),
                expected: Expected::new(probe, plan),
            }),
            HealthProbe::Grpc(probe) => Some(Question::Grpc(grpc::request(probe, address))),
        };
        let body_bytes_max = match &question {
            Some(Question::Http { expected, .. } | Question::Fastcgi { expected, .. }) => {
                expected.body_bytes_max()
            }
            _ => grpc::ANSWER_BYTES_MAX,
        };
        let (head, trailers) = (plan.head_limits, plan.chunked_limits);
        // Another port is another service, which need not speak the PROXY protocol.
        let port = server.health_port.or(check.port);
        let version = plan.config.proxy_protocol.filter(|_| port.is_none());
        Self {
            timeout: check.timeout,
            client_config: plan.tls.clone(),
            index,
            stock: Rc::clone(stock),
            question,
            protocol: plan.config.protocol,
            response_limits: ResponseLimits { head, trailers, body_bytes_max },
            dialogue: check.dialogue.clone(),
            tls: ProbeTls::new(check, server, plan),
            identity: ConnectionIdentity {
                header: version.map(proxy_header::of_weir),
                source: BoundSource::of_weir(server),
            },
            connection_age,
            connection: None,
            port,
            uses_http1: false,
        }
    }

    /// Probes the server that gets its traffic at `endpoints`, beginning with any of them.
    ///
    /// # Errors
    /// Why the server is not well.
    pub(super) async fn run(&mut self, endpoints: Arc<Vec<Endpoint>>, first: usize) -> Result<(), Fault> {
        let mut phase = Phase::Connect;
        let timeout = self.timeout;
        let outcome = tokio::time::timeout(timeout, self.ask_by_any(endpoints, first, &mut phase)).await;
        let farewell = outcome.unwrap_or_else(|_| Err(Failure::server(phase, Cause::TimedOut).into()))?;
        if let Some((connection, bytes)) = farewell {
            conversation::close_politely(connection, &self.stock, &bytes).await;
        }
        Ok(())
    }

    /// Asks over HTTP/1.1 if the server requires that and the upstream allows it, as its traffic does.
    async fn ask_by_any(
        &mut self,
        endpoints: Arc<Vec<Endpoint>>,
        first: usize,
        phase: &mut Phase,
    ) -> Result<Option<(Connection, Vec<u8>)>, Fault> {
        let outcome = self.ask(Arc::clone(&endpoints), first, phase).await;
        let is_required = matches!(&outcome, Err(fault) if fault.failure.cause == Cause::Http1Required);
        let is_question_of_http = matches!(self.question, Some(Question::Http { .. }));
        if !is_required || !is_question_of_http || self.protocol != ServerProtocol::Auto {
            return outcome;
        }
        self.uses_http1 = true;
        self.ask(endpoints, first, phase).await
    }

    /// `phase` is the probe's current phase, for the caller that ends it. Returns a connection that is to be closed in order, with the bytes to send before.
    async fn ask(
        &mut self,
        endpoints: Arc<Vec<Endpoint>>,
        first: usize,
        phase: &mut Phase,
    ) -> Result<Option<(Connection, Vec<u8>)>, Fault> {
        let age_max = self.connection_age.unwrap_or_default();
        let now = clock::now();
        let is_there =
            |kept: &KeptConnection| Arc::ptr_eq(&kept.endpoints, &endpoints) || kept.endpoints == endpoints;
        let usable = |kept: &KeptConnection| is_there(kept) && now - kept.opened_at < age_max;
        if let (Some(mut kept), Some(question)) = (self.connection.take().filter(usable), &self.question) {
            match self.exchange(&mut kept.connection, question, phase).await {
                Ok(end) => {
                    self.connection = Some(kept).filter(|_| end == ProbeReuse::Yes);
                    return Ok(None);
                }
                // The server closed it meanwhile, as it may: that says nothing about how well it is.
                Err(Fault { failure, .. }) if is_stale(failure) => {}
                Err(failure) => return Err(failure),
            }
        }
        *phase = Phase::Connect;
        let mut connection = self.open(&endpoints, first).await?;
        if let Some(dialogue) = &self.dialogue {
            let mut source = ProbeStream { connection: &mut connection, stock: &self.stock };
            let quit = conversation::hold(dialogue, &mut source, phase).await?;
            return Ok(Some((connection, quit)));
        }
        let Some(question) = &self.question else {
            connection.send_end_now();
            return Ok(None);
        };
        let mut connection = self.begin(connection, question)?;
        let end = self.exchange(&mut connection, question, phase).await?;
        if end == ProbeReuse::Yes && self.connection_age.is_some() {
            self.connection = Some(KeptConnection { connection, opened_at: clock::now(), endpoints });
        } else {
            connection.send_end_now();
        }
        Ok(None)
    }

    /// Begins the protocol of the traffic on a connection.
    fn begin(&self, connection: Connection, question: &Question) -> Result<OpenConnection, Failure> {
        if matches!(question, Question::Fastcgi { .. }) {
            return Ok(OpenConnection::Fastcgi(connection));
        }
        let agreed = connection.application_protocol() == Some(b"h2");
        let is_call = matches!(question, Question::Grpc(_));
        // Another port is another service, which need not speak HTTP/2 because this one does.
        let is_of_traffic = self.port.is_none();
        let is_http2 = match self.protocol {
            ServerProtocol::Http1 | ServerProtocol::Fastcgi => false,
            ServerProtocol::H2c => is_of_traffic || is_call,
            ServerProtocol::H2 | ServerProtocol::Auto => agreed,
        };
        let needs_http2 = is_call || self.protocol == ServerProtocol::H2 && is_of_traffic;
        match is_http2 {
            true => Ok(OpenConnection::Http2(Box::new(ProbeConnection::new(connection)))),
            false if needs_http2 => Err(Failure::server(Phase::Connect, Cause::NotHttp2)),
            false => Ok(OpenConnection::Http1(connection)),
        }
    }

    /// One request and its response.
    async fn exchange(
        &self,
        connection: &mut OpenConnection,
        question: &Question,
        phase: &mut Phase,
    ) -> Result<ProbeReuse, Fault> {
        match (connection, question) {
            (OpenConnection::Http1(connection), Question::Http { http1, expected, .. }) => {
                let kept = if self.connection_age.is_some() { ProbeReuse::Yes } else { ProbeReuse::No };
                *phase = Phase::Send;
                send(connection, http1).await?;
                expected.receive(&mut ProbeStream { connection, stock: &self.stock }, kept, phase).await
            }
            (OpenConnection::Http2(connection), Question::Http { http2, expected, .. }) => {
                let response = connection.ask(&self.stock, http2, &self.response_limits, phase).await?;
                expected.check_status(response.status)?;
                expected.check_body(&response.body)?;
                Ok(ProbeReuse::Yes)
            }
            (OpenConnection::Http2(connection), Question::Grpc(request)) => {
                let response = connection.ask(&self.stock, request, &self.response_limits, phase).await?;
                grpc::check(&response)?;
                Ok(ProbeReuse::Yes)
            }
            (OpenConnection::Fastcgi(connection), Question::Fastcgi { request, expected }) => {
                *phase = Phase::Send;
                send(connection, request).await?;
                *phase = Phase::Response;
                let mut source = ProbeStream { connection, stock: &self.stock };
                let (status, body) = fastcgi::receive(&mut source, &self.response_limits).await?;
                expected.check_status(status)?;
                expected.check_body(&body)?;
                Ok(ProbeReuse::No)
            }
            (OpenConnection::Fastcgi(_), _) | (_, Question::Fastcgi { .. }) => {
                unreachable!("the connection was begun for the question")
            }
            (OpenConnection::Http1(_), Question::Grpc(_)) => {
                Err(Failure::server(Phase::Connect, Cause::NotHttp2).into())
            }
        }
    }

    async fn open(&self, endpoints: &[Endpoint], first: usize) -> Result<Connection, Failure> {
        let of_traffic = match self.tls {
            ProbeTls::OfTraffic => self.client_config.as_ref().map(|config| match self.uses_http1 {
                true => config.for_http1_probe(self.index),
                false => config.for_probe(self.index),
            }),
            ProbeTls::None | ProbeTls::Blind(_) => None,
        };
        let handshake = match &self.tls {
            ProbeTls::Blind(handshake) => Some(handshake),
            ProbeTls::None | ProbeTls::OfTraffic => of_traffic.as_ref(),
        };
        let speaks_first = self.dialogue.as_ref().is_some_and(conversation::speaks_first);
        let behind = if self.question.is_some() || speaks_first { Behind::More } else { Behind::Unknown };
        let setup = ConnectionSetup { identity: &self.identity, handshake, behind, timers: None };
        match self.port {
            None => handshake::open(setup, endpoints, first, &self.stock).await,
            Some(port) => handshake::open(setup, &on_port(endpoints, port), first, &self.stock).await,
        }
    }
}

impl OpenConnection {
    fn send_end_now(&mut self) {
        match self {
            Self::Http1(connection) | Self::Fastcgi(connection) => connection.send_end_now(),
            Self::Http2(probes) => probes.connection.send_end_now(),
        }
    }
}

impl ProbeTls {
    fn new(check: &HealthCheck, server: &Server, plan: &UpstreamPlan) -> Self {
        if !check.tls {
            return Self::None;
        }
        if plan.tls.is_some() {
            return Self::OfTraffic;
        }
        let name = check.server_name.clone().unwrap_or_else(|| server.tls_name());
        match HandshakeConfig::blind(name) {
            Ok(handshake) => Self::Blind(handshake),
            Err(error) => unreachable!("the defaults of rustls fit each other: {error}"),
        }
    }
}

/// The same hosts on another port.
pub(super) fn on_port(endpoints: &[Endpoint], port: u16) -> Vec<Endpoint> {
    let mut endpoints = endpoints.to_vec();
    for endpoint in &mut endpoints {
        if let Endpoint::Inet(addr) = endpoint {
            addr.set_port(port);
        }
    }
    endpoints
}

/// Whether a connection that was kept ended before the server said anything on it.
fn is_stale(failure: Failure) -> bool {
    matches!(failure.phase, Phase::Send | Phase::Response)
        && matches!(failure.cause, Cause::Closed | Cause::Reset)
}
