//! Early data (0-RTT): never offered, and skipped where a client sends it with the ticket of another server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::crypto::cipher::{AeadKey, Iv, MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::crypto::tls13::{OkmBlock, expand};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, ContentType, KeyLog, ProtocolVersion, ServerConnection};

use super::Site;
use crate::harness::Origin;
use crate::harness::tls::{CertificateAuthority, connect};
use crate::harness::watchdog::pause;

/// Tickets allow no data before the handshake is over: it could be replayed.
#[test]
fn no_early_data_is_taken() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin);
    let mut config = site.authority.client();
    config.enable_early_data = true;
    for _ in 0..3 {
        let mut client = connect(site.weir.web(), config.clone(), "a.test");
        let rustls::Connection::Client(session) = client.tls().session() else {
            unreachable!("it is a client")
        };
        assert!(!session.is_early_data_accepted());
        client.assert_alive();
    }
}

/// A server of before at the same name, which takes early data.
struct Before {
    address: SocketAddr,
}

impl Before {
    fn start(authority: &CertificateAuthority) -> Before {
        let mut config = authority.server(&["a.test"]);
        config.max_early_data_size = u32::MAX;
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || {
            for tcp in listener.incoming() {
                let mut tcp = tcp.expect("a client connects");
                let mut session = ServerConnection::new(Arc::clone(&config)).expect("sound settings");
                session.writer().write_all(b"x").expect("it is buffered");
                while session.is_handshaking() || session.wants_write() {
                    session.complete_io(&mut tcp).expect("the client shakes hands");
                }
            }
        });
        Before { address }
    }

    /// Lets a client have a ticket.
    fn visit(&self, config: &ClientConfig) {
        let mut tcp = TcpStream::connect(self.address).expect("the server accepts");
        let mut session = ClientConnection::new(Arc::new(config.clone()), name()).expect("sound settings");
        let mut byte = [0];
        rustls::Stream::new(&mut session, &mut tcp)
            .read_exact(&mut byte)
            .expect("the server speaks behind its tickets");
    }
}

fn name() -> rustls::pki_types::ServerName<'static> {
    "a.test".try_into().expect("a host name")
}

/// Sends `len` bytes of early data and `more` full records that have no key either, in pieces, as of a network, and then a request.
/// Whether that was answered.
fn try_early(site: &Site, config: &ClientConfig, len: usize, more: usize) -> std::io::Result<()> {
    let mut session = ClientConnection::new(Arc::new(config.clone()), name()).expect("sound settings");
    session.early_data().expect("the ticket allows it").write_all(&vec![b'e'; len])?;
    let mut records = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut records)?;
    }
    for _ in 0..more {
        records.extend([23, 3, 3, 0x40, 0x10]);
        records.extend([0xe5; 0x4010]);
    }
    let mut tcp = TcpStream::connect(site.weir.web())?;
    tcp.set_nodelay(true)?;
    for piece in records.chunks(records.len().div_ceil(5)) {
        tcp.write_all(piece)?;
        pause();
    }
    let mut answer = [0; 12];
    let mut stream = rustls::Stream::new(&mut session, &mut tcp);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")?;
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"HTTP/1.1 200");
    assert!(!session.is_early_data_accepted());
    Ok(())
}

#[test]
fn refused_early_data_is_skipped() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin);
    let before = Before::start(&site.authority);
    for suite in [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let provider = aws_lc_rs::default_provider();
        let provider = CryptoProvider { cipher_suites: vec![suite], ..provider };
        let mut config = site.authority.client_with(provider, &[&TLS13]);
        config.enable_early_data = true;
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(64)));
        for len in [1, 100, 5_000, 12_000, 16_384, 20_000, 60_000] {
            before.visit(&config);
            if let Err(error) = try_early(&site, &config, len, 0) {
                panic!("{len} bytes of early data with {suite:?}: {error}");
            }
        }
    }
}

/// There is an end to what is skipped.
#[test]
fn endless_early_data_ends_the_handshake() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin);
    let before = Before::start(&site.authority);
    let mut config = site.authority.client();
    config.enable_early_data = true;
    before.visit(&config);
    try_early(&site, &config, 100, 4).expect("four records of it are skipped");
    before.visit(&config);
    assert!(try_early(&site, &config, 100, 5).is_err());
    site.connect().assert_alive();
}

/// The secret that a client encrypts the rest of its handshake with.
#[derive(Debug, Default)]
struct HandshakeSecret(Mutex<Vec<u8>>);

impl KeyLog for HandshakeSecret {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if label == "CLIENT_HANDSHAKE_TRAFFIC_SECRET" {
            *self.0.lock().expect("nothing panics with it") = secret.to_vec();
        }
    }
}

/// A client that has the server's whole flight, and what encrypts records as its next ones.
fn before_finished(site: &Site) -> (TcpStream, Box<dyn MessageEncrypter>) {
    let suite = cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
    let provider = CryptoProvider { cipher_suites: vec![suite], ..aws_lc_rs::default_provider() };
    let mut config = site.authority.client_with(provider, &[&TLS13]);
    let secret = Arc::new(HandshakeSecret::default());
    config.key_log = Arc::clone(&secret) as Arc<dyn KeyLog>;
    let mut session = ClientConnection::new(Arc::new(config), name()).expect("sound settings");
    let mut tcp = TcpStream::connect(site.weir.web()).expect("the listener accepts");
    tcp.set_nodelay(true).expect("it is open");
    while session.is_handshaking() {
        while session.wants_write() {
            session.write_tls(&mut tcp).expect("it is open");
        }
        session.read_tls(&mut tcp).expect("the server answers");
        session.process_new_packets().expect("the server keeps to the protocol");
    }
    let suite = suite.tls13().expect("it is one of TLS 1.3");
    let secret = secret.0.lock().expect("nothing panics with it").clone();
    let expander = suite.hkdf_provider.expander_for_okm(&OkmBlock::new(&secret));
    let key: [u8; 32] = expand(&*expander, &[&[0, 32], &[9], b"tls13 key", &[0]]);
    let iv: [u8; 12] = expand(&*expander, &[&[0, 12], &[8], b"tls13 iv", &[0]]);
    (tcp, suite.aead_alg.encrypter(AeadKey::from(key), Iv::from(iv)))
}

/// Parts of handshake messages that come together, with bytes that look like the header of a record: what rustls keeps of them and where
/// is its own affair. Such a client is refused or waited for, and nothing else happens.
#[test]
fn parts_of_messages_are_not_taken_for_early_data() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin);
    // Long messages of a type that does not exist, in two or three parts; zeros in front where a first part may be.
    let long = |len: usize, header_at: Option<usize>| {
        let mut part = vec![0; len];
        if let Some(at) = header_at {
            part[at..at + 5].copy_from_slice(&[23, 3, 3, 0xff, 0xff]);
        }
        part
    };
    let mut cases: Vec<Vec<Vec<u8>>> = Vec::new();
    for first in [vec![0], vec![0, 0], vec![20, 0, 0x10, 0]] {
        for header_at in (8..28).map(Some).chain([None]) {
            let mut second = [&[0, 0x10, 0][..], &long(200, header_at)].concat();
            cases.push(vec![first.clone(), second.clone()]);
            second.truncate(60);
            cases.push(vec![first.clone(), second, vec![0; 30]]);
        }
    }
    for (number, parts) in cases.into_iter().enumerate() {
        let (mut tcp, mut encrypter) = before_finished(&site);
        let records: Vec<u8> = parts
            .iter()
            .zip(0..)
            .flat_map(|(part, sequence)| {
                let payload = OutboundChunks::Single(part);
                let (typ, version) = (ContentType::Handshake, ProtocolVersion::TLSv1_2);
                let plain = OutboundPlainMessage { typ, version, payload };
                encrypter.encrypt(plain, sequence).expect("it is short").encode()
            })
            .collect();
        tcp.write_all(&records).expect("it is open");
        // What comes later is put behind what was kept.
        pause();
        let _refused = tcp.write_all(&[23, 3, 3]);
        let _refused = tcp.shutdown(std::net::Shutdown::Write);
        let _refused = std::io::copy(&mut tcp, &mut std::io::sink());
        if number % 40 == 0 {
            site.connect().assert_alive();
        }
    }
    let stderr = site.weir.stderr();
    assert!(!stderr.contains("panic"), "{stderr}");
}
