//! The client of a proof: one connection for each request, of TLS where the endpoint has it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use crate::original::ProofEndpoint;
use crate::requests::ProofRequest;
use crate::servers::nothing;
use crate::wire::{WireMessage, WireReader};

/// How long an answer may take, also on a machine that is busy. Programs that wait for servers have limits of their own, which are longer.
const LIMIT: Duration = Duration::from_secs(8);

/// The client's settings.
pub(crate) struct ProofClient {
    tls: Arc<ClientConfig>,
}

impl ProofClient {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let any = Arc::new(UncheckedCertificate(Arc::clone(&provider)));
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(any)
            .with_no_client_auth();
        Ok(ProofClient { tls: Arc::new(tls) })
    }

    /// The answer to a request; an empty message where none comes.
    pub(crate) fn ask(&self, request: &ProofRequest, endpoint: &ProofEndpoint) -> WireMessage {
        let Some(stream) = connect(request, endpoint) else { return nothing() };
        if endpoint.is_tcp && !endpoint.has_tls {
            return ask_bytes(stream, request);
        }
        if !endpoint.has_tls {
            return ask_http(stream, request, endpoint);
        }
        let name = request.host.split(':').next().unwrap_or_default().to_owned();
        let Ok(name) = ServerName::try_from(name) else { return nothing() };
        match ClientConnection::new(Arc::clone(&self.tls), name) {
            Ok(session) => ask_http(StreamOwned::new(session, stream), request, endpoint),
            Err(_) => nothing(),
        }
    }
}

fn connect(request: &ProofRequest, endpoint: &ProofEndpoint) -> Option<TcpStream> {
    let address = SocketAddr::new(endpoint.address, endpoint.port);
    let stream = match &request.source {
        Some(source) if endpoint.address.is_ipv4() => connect_from(source, address)?,
        _ => TcpStream::connect_timeout(&address, LIMIT).ok()?,
    };
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    stream.set_write_timeout(Some(LIMIT)).ok()?;
    Some(stream)
}

/// From an address that the loopback device has been given.
fn connect_from(source: &str, address: SocketAddr) -> Option<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&socket, &SocketAddr::new(source.parse().ok()?, 0)).ok()?;
    connect(&socket, &address).ok()?;
    Some(TcpStream::from(socket))
}

fn ask_http(stream: impl Read + Write, request: &ProofRequest, endpoint: &ProofEndpoint) -> WireMessage {
    let mut reader = WireReader::new(stream);
    // A request that is refused while it is being sent is refused all the same.
    let _ = reader.stream.write_all(&request.bytes(endpoint)).and_then(|()| reader.stream.flush());
    reader.response(&request.method).unwrap_or_else(nothing)
}

/// Bytes that no protocol begins with, and what comes back.
fn ask_bytes(mut stream: TcpStream, request: &ProofRequest) -> WireMessage {
    let mut answer = nothing();
    let number = request.fields.last().map(|(_, number)| number.as_str()).unwrap_or_default();
    if stream.write_all(format!("proof {number} {}\n", request.target).as_bytes()).is_err() {
        return answer;
    }
    let mut piece = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut piece) {
        answer.body.extend_from_slice(&piece[..len]);
        answer.is_whole = answer.body.ends_with(b"\n");
        if answer.is_whole {
            break;
        }
    }
    answer
}

/// Certificates are made for the proof: which one a name gets is compared, not whether it is trusted.
#[derive(Debug)]
struct UncheckedCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for UncheckedCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
