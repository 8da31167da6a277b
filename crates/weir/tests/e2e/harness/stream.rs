//! A connected stream socket, TCP or Unix, plain or with TLS, with the few socket options that the tests turn.
//!
//! The layer below the HTTP reader: bytes and endings only.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use super::tls::TlsStream;
use super::watchdog::WATCHDOG;

/// Where something listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Tcp(address)
    }
}

/// A connected socket whose every read and write is bounded by the watchdog.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Connects to `address`.
    pub(crate) fn connect(address: &Address) -> io::Result<Stream> {
        match address {
            Address::Tcp(address) => {
                TcpStream::connect_timeout(address, WATCHDOG).and_then(|tcp| Stream::Tcp(tcp).guarded())
            }
            Address::Unix(path) => UnixStream::connect(path).and_then(|unix| Stream::Unix(unix).guarded()),
        }
    }

    /// Connects to the TCP address `to` from the local address `from`, with a receive buffer of `receive_len`
    /// bytes (0: the system's own choice).
    pub(crate) fn connect_from(from: IpAddr, to: SocketAddr, receive_len: usize) -> io::Result<Stream> {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        if receive_len > 0 {
            socket.set_recv_buffer_size(receive_len)?;
        }
        socket.bind(&SocketAddr::new(from, 0).into())?;
        socket.connect_timeout(&to.into(), WATCHDOG)?;
        Stream::Tcp(socket.into()).guarded()
    }

    /// Puts the watchdog on every read and write, and switches Nagle's algorithm off so that one write is one
    /// segment.
    pub(crate) fn guarded(self) -> io::Result<Stream> {
        match &self {
            Stream::Tls(_) => {}
            Stream::Tcp(tcp) => {
                tcp.set_nodelay(true)?;
                tcp.set_write_timeout(Some(WATCHDOG))?;
            }
            Stream::Unix(unix) => unix.set_write_timeout(Some(WATCHDOG))?,
        }
        self.limit_reads(WATCHDOG)?;
        Ok(self)
    }

    /// Sets how long one read may take.
    pub(crate) fn limit_reads(&self, limit: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(tcp) => tcp.set_read_timeout(Some(limit)),
            Stream::Tls(tls) => tls.tcp.set_read_timeout(Some(limit)),
            Stream::Unix(unix) => unix.set_read_timeout(Some(limit)),
        }
    }

    /// A second handle of the same socket.
    pub(crate) fn duplicate(&self) -> io::Result<Stream> {
        match self {
            Stream::Tcp(tcp) => tcp.try_clone().map(Stream::Tcp),
            Stream::Unix(unix) => unix.try_clone().map(Stream::Unix),
            // Two handles would need one state of the encryption.
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The port at this end of a TCP connection.
    pub(crate) fn local_port(&self) -> u16 {
        match self {
            Stream::Tcp(tcp) => tcp.local_addr().expect("a connected socket has an address").port(),
            Stream::Tls(tls) => tls.tcp.local_addr().expect("a connected socket has an address").port(),
            Stream::Unix(_) => panic!("a Unix socket has no port"),
        }
    }

    /// The address at the other end of a TCP connection.
    pub(crate) fn peer_ip(&self) -> IpAddr {
        let peer = match self {
            Stream::Tcp(tcp) => tcp.peer_addr(),
            Stream::Tls(tls) => tls.tcp.peer_addr(),
            Stream::Unix(_) => panic!("a Unix socket has no address"),
        };
        peer.expect("a connected socket has a peer").ip()
    }

    /// Ends one direction, or both, in order: with TLS, by `close_notify` and then FIN.
    pub(crate) fn shut(&self, how: Shutdown) {
        // The peer may have ended the connection before; then there is nothing left to shut.
        let _ = match self {
            Stream::Tcp(tcp) => tcp.shutdown(how),
            Stream::Tls(tls) => {
                tls.notify();
                tls.tcp.shutdown(how)
            }
            Stream::Unix(unix) => unix.shutdown(how),
        };
    }

    /// Makes the close of a TCP socket send RST instead of FIN.
    pub(crate) fn reset_on_close(&self) {
        let tcp = match self {
            Stream::Tcp(tcp) => Some(tcp),
            Stream::Tls(tls) => Some(&tls.tcp),
            Stream::Unix(_) => None,
        };
        if let Some(tcp) = tcp {
            SockRef::from(tcp).set_linger(Some(Duration::ZERO)).expect("SO_LINGER is always settable");
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(tcp) => tcp.read(buf),
            Stream::Tls(tls) => tls.read(buf),
            Stream::Unix(unix) => unix.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(tcp) => tcp.write(buf),
            Stream::Tls(tls) => tls.write(buf),
            Stream::Unix(unix) => unix.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
