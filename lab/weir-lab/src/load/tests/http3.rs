//! The driver against a server of its own on the same QUIC, which answers as a script says.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig,
    StreamEvent, StreamId, VarInt,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use crate::clock;
use crate::load::http3::client::Http3Client;
use crate::load::http3::request;
use crate::load::http3::setup::Http3Setup;
use crate::load::http3_driver::{Http3Plan, run};
use crate::load::{LoadFault, LoadOutcome, LoadPattern, LoadProgress, TlsClient};
use crate::target::certificate::{NAME, TargetCertificate};
use crate::topology::listener::{CertificateKey, Suite, Tls};
use crate::wire::http3::{self, code, kind};
use crate::wire::{checksum, pattern};

/// How the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// A page of so many bytes; the checksum of a body.
    Page(u64),
    /// Says of every second request that it was not processed.
    RejectHalf,
    /// Takes three requests of each connection, and says so after the first.
    ThreeOnly,
    /// With this status.
    Status(&'static [u8]),
    /// Closes the connection in place of an answer.
    Close,
}

/// A connection as the server has it.
struct ServedConnection {
    connection: Connection,
    /// What has come on each stream of a request.
    requests: HashMap<StreamId, Vec<u8>>,
    /// What could not be sent yet.
    unsent: HashMap<StreamId, Bytes>,
    control: Option<StreamId>,
    count: u64,
}

struct TestServer {
    socket: UdpSocket,
    endpoint: Endpoint,
    connections: HashMap<ConnectionHandle, ServedConnection>,
    script: Script,
    /// It has connections, and so timers.
    is_busy: bool,
}

impl TestServer {
    /// Starts one, which ends with the test.
    fn start(certificate: &TargetCertificate, script: Script) -> SocketAddr {
        let key = PrivateKeyDer::from_pem_file(&certificate.key).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der.clone()], key)
            .unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        let endpoint =
            Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config)), false, None);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        let mut server = Self { socket, endpoint, connections: HashMap::new(), script, is_busy: false };
        std::thread::spawn(move || {
            loop {
                server.turn();
            }
        });
        addr
    }

    fn turn(&mut self) {
        let (mut datagram, mut reply) = ([0; 2048], Vec::new());
        let received = self.socket.recv_from(&mut datagram);
        let now = clock::now();
        if let Ok((len, from)) = received {
            let bytes = BytesMut::from(&datagram[..len]);
            match self.endpoint.handle(now, from, None, None, bytes, &mut reply) {
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let (handle, connection) =
                        self.endpoint.accept(incoming, now, &mut reply, None).ok().unwrap();
                    let served = ServedConnection {
                        connection,
                        requests: HashMap::new(),
                        unsent: HashMap::new(),
                        control: None,
                        count: 0,
                    };
                    self.connections.insert(handle, served);
                }
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    self.connections.get_mut(&handle).unwrap().connection.handle_event(event);
                }
                _ => {}
            }
        }
        for (handle, served) in &mut self.connections {
            served.connection.handle_timeout(now);
            while let Some(event) = served.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    served.connection.handle_event(event);
                }
            }
            served.advance(self.script);
            let mut packet = Vec::new();
            while let Some(transmit) = served.connection.poll_transmit(now, 1, &mut packet) {
                self.socket.send_to(&packet[..transmit.size], transmit.destination).unwrap();
                packet.clear();
            }
        }
        self.connections.retain(|_, served| !served.connection.is_drained());
        if self.is_busy == self.connections.is_empty() {
            self.is_busy = !self.is_busy;
            let timeout = self.is_busy.then_some(Duration::from_millis(2));
            self.socket.set_read_timeout(timeout).unwrap();
        }
    }
}

impl ServedConnection {
    fn advance(&mut self, script: Script) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    let id = self.connection.streams().open(Dir::Uni).unwrap();
                    self.connection.send_stream(id).write(&[0, 4, 0]).unwrap();
                    self.control = Some(id);
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(id) = self.connection.streams().accept(dir) {
                        self.read(id, script);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, script),
                Event::Stream(StreamEvent::Writable { id }) => self.write(id),
                _ => {}
            }
        }
    }

    fn read(&mut self, id: StreamId, script: Script) {
        let received = self.requests.entry(id).or_default();
        let mut from = self.connection.recv_stream(id);
        let Ok(mut chunks) = from.read(true) else { return };
        let is_whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => received.extend_from_slice(&chunk.bytes),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        let _window = chunks.finalize();
        if is_whole && id.dir() == Dir::Bi {
            let request = self.requests.remove(&id).unwrap();
            self.answer(id, &request, script);
        }
    }

    fn answer(&mut self, id: StreamId, request: &[u8], script: Script) {
        self.count += 1;
        let (_, len, rest) = http3::frame_head(request).unwrap();
        let body = http3::frame_head(&rest[len as usize..]).map(|(_, _, body)| body);
        let page = |len: u64| pattern::run(0, len as usize).to_vec();
        let (section, body) = match (script, body) {
            (Script::RejectHalf, _) if self.count.is_multiple_of(2) => {
                let rejected = VarInt::from_u32(code::REQUEST_REJECTED);
                return self.connection.send_stream(id).reset(rejected).unwrap();
            }
            (Script::Close, _) => {
                let now = clock::now();
                return self.connection.close(now, VarInt::from_u32(code::NO_ERROR), Bytes::new());
            }
            (Script::ThreeOnly, _) if self.count > 3 => return,
            (Script::Status(section), _) => (section, Vec::new()),
            (_, Some(body)) => (&b"\0\0\xd9"[..], checksum::line_for(body).into_bytes()),
            (Script::Page(len), None) => (&b"\0\0\xd9"[..], page(len)),
            _ => (&b"\0\0\xd9"[..], page(700)),
        };
        if (script, self.count) == (Script::ThreeOnly, 1) {
            // The fourth request, on stream 12, is the first that is not processed.
            self.connection.send_stream(self.control.unwrap()).write(&[kind::GOAWAY as u8, 1, 12]).unwrap();
        }
        let mut out = Vec::new();
        http3::write_frame_head(&mut out, kind::HEADERS, section.len() as u64);
        out.extend_from_slice(section);
        http3::write_frame_head(&mut out, kind::DATA, body.len() as u64);
        out.extend(body);
        self.unsent.insert(id, out.into());
        self.write(id);
    }

    fn write(&mut self, id: StreamId) {
        let Some(rest) = self.unsent.get_mut(&id) else { return };
        let mut to = self.connection.send_stream(id);
        while !rest.is_empty() {
            let mut parts = [rest.clone()];
            if to.write_chunks(&mut parts).is_err() {
                return;
            }
            [*rest] = parts;
        }
        to.finish().unwrap();
        self.unsent.remove(&id);
    }
}

const TLS: Tls =
    Tls { suite: Suite::Tls13Aes128, key: CertificateKey::EcdsaP256, resume: false, handshake_timeout: None };

/// Clients of a server that answers as `script` says.
fn served(script: Script) -> (SocketAddr, Http3Setup) {
    let dir = tempfile::tempdir().unwrap();
    let certificate = TargetCertificate::make(CertificateKey::EcdsaP256, dir.path()).unwrap();
    let tls = TlsClient::new(TLS, &certificate.der, NAME).unwrap();
    (TestServer::start(&certificate, script), Http3Setup::new(&tls, Duration::from_secs(20)).unwrap())
}

fn plan(script: Script, arrival: LoadPattern) -> Http3Plan {
    let (target, setup) = served(script);
    Http3Plan {
        target,
        setup,
        requests: vec![request::get("lab.test", "/", 700)],
        connections: 3,
        streams: 5,
        arrival,
        warm_up: Duration::from_millis(20),
        window: Duration::from_millis(200),
        timeout: Duration::from_secs(20),
        faults_max: 20,
    }
}

fn drive(plan: &Http3Plan) -> LoadOutcome {
    run(plan, &LoadProgress::default()).unwrap()
}

#[test]
fn a_closed_loop_keeps_every_stream_busy() {
    let outcome = drive(&plan(Script::Page(700), LoadPattern::Closed));
    assert!(outcome.faults.is_empty(), "{}", outcome.faults);
    assert!(outcome.exchanges >= 15 && outcome.latency.len() == outcome.exchanges, "{}", outcome.exchanges);
    assert_eq!((outcome.opened, outcome.closed_by_target), (3, 0));
}

#[test]
fn a_rate_is_kept_with_few_connections() {
    let outcome = drive(&plan(Script::Page(700), LoadPattern::Rate(100.0)));
    assert!(outcome.faults.is_empty(), "{}", outcome.faults);
    assert_eq!((outcome.exchanges, outcome.unsent), (20, 0));
}

#[test]
fn bodies_are_sent_whole_and_checked() {
    for len in [1, 1024, 300_000] {
        let requests = request::posts("lab.test", len);
        let outcome = drive(&Http3Plan { requests, ..plan(Script::Page(0), LoadPattern::Closed) });
        assert!(outcome.faults.is_empty() && outcome.exchanges > 0, "{len}: {}", outcome.faults);
    }
}

#[test]
fn large_answers_are_read_whole() {
    // The longest run of the pattern.
    let (len, arrival) = (pattern::RUN_MAX as u64, LoadPattern::Closed);
    let requests = vec![request::get("lab.test", "/", len)];
    let outcome = drive(&Http3Plan { requests, ..plan(Script::Page(len), arrival) });
    assert!(outcome.faults.is_empty() && outcome.exchanges > 0, "{}", outcome.faults);
}

#[test]
fn wrong_answers_are_faults() {
    let arrival = LoadPattern::Closed;
    for (script, kind) in [
        (Script::Page(699), "body length"),
        (Script::Page(701), "body length"),
        (Script::Status(b"\0\0\x5f\x09\x03502"), "status"),
        (Script::Status(b"\x02\0\x80"), "malformed answer"),
        (Script::Close, "reset"),
    ] {
        let outcome = drive(&plan(script, arrival));
        assert!(outcome.stopped && outcome.faults.of_kind(kind) >= 20, "{script:?}: {}", outcome.faults);
        assert_eq!(outcome.exchanges, 0);
    }
}

#[test]
fn requests_that_were_not_processed_are_sent_again() {
    for script in [Script::RejectHalf, Script::ThreeOnly] {
        let outcome = drive(&plan(script, LoadPattern::Rate(100.0)));
        assert!(outcome.faults.is_empty(), "{script:?}: {}", outcome.faults);
        assert_eq!((outcome.exchanges, outcome.unsent), (20, 0), "{script:?}");
        assert_eq!(outcome.closed_by_target > 0, script == Script::ThreeOnly, "{script:?}");
    }
}

#[test]
fn nobody_there_is_a_fault() {
    let (_, setup) = served(Script::Page(0));
    let target = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let asked = Http3Client::connect(target, &setup)
        .and_then(|client| client.ask(&request::get("lab.test", "/", 1), Duration::from_secs(20)));
    assert!(matches!(asked, Err(LoadFault::Connect(_))), "{asked:?}");
    let outcome = drive(&Http3Plan { target, setup, ..plan(Script::Page(0), LoadPattern::Closed) });
    assert!(outcome.stopped && outcome.faults.of_kind("connect") >= 20, "{}", outcome.faults);
}

#[test]
fn one_request_can_be_asked_for() {
    let (target, setup) = served(Script::Page(612));
    let ask = |len| {
        let client = Http3Client::connect(target, &setup)?;
        client.ask(&request::get("lab.test", "/", len), Duration::from_secs(20))
    };
    assert_eq!(ask(612), Ok(()));
    assert!(ask(613).is_err_and(|fault| fault.kind() == "body length"));
}

#[test]
fn another_certificate_is_not_trusted() {
    let (target, _) = served(Script::Page(612));
    let (_, setup) = served(Script::Page(612));
    let asked = Http3Client::connect(target, &setup)
        .and_then(|client| client.ask(&request::get("lab.test", "/", 612), Duration::from_secs(20)));
    assert!(matches!(asked, Err(LoadFault::Connect(_))), "{asked:?}");
}
