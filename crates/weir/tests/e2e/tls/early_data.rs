//! Early data (0-RTT): offered to nobody, and skipped where a client sends it with the ticket of another server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::crypto::aws_lc_rs::{self, cipher_suite};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, ServerConnection};

use super::Site;
use crate::harness::Origin;
use crate::harness::tls::{Authority, connect};
use crate::harness::watchdog::pause;

/// Tickets allow no data before the handshake is over: it could be sent again by whoever recorded it.
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
    fn start(authority: &Authority) -> Before {
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
        let provider = rustls::crypto::CryptoProvider { cipher_suites: vec![suite], ..provider };
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
