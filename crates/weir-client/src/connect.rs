//! A connection to a peer: TCP or a Unix socket, and TLS where there is to be some. Must not know what is asked.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::client_error::ClientError;
use crate::destination::{HostAndPort, HttpDestination, PeerAddress};
use crate::overlap::first_to_end;
use crate::tls::TlsSetup;

/// How often a further connection is begun meanwhile: the kernel sends the packets of the first one again after 1, 3 and 7 s.
const CONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// How many connections are begun at most.
const CONNECTS_MAX: usize = 5;

/// A peer that is gone without a word is noticed after about this many seconds times four.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// What is read from and written to.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Duplex for T {}

/// An open connection.
pub type PeerStream = Box<dyn Duplex>;

/// Connects within this time.
///
/// # Errors
/// When the peer does not answer in time, refuses, or is not whom it should be.
pub async fn open(destination: &HttpDestination, connect_time: Duration) -> Result<PeerStream, ClientError> {
    let connecting =
        first_to_end(CONNECT_INTERVAL, CONNECTS_MAX, |number| Box::pin(connect(destination, number)));
    let opened = tokio::time::timeout(connect_time, connecting).await;
    opened.unwrap_or_else(|_| Err(ClientError::Unconnected(io::ErrorKind::TimedOut.into())))
}

/// Connects to any address of the peer; each further try begins with another one.
async fn connect(destination: &HttpDestination, number: usize) -> Result<PeerStream, ClientError> {
    match (&destination.address, &destination.tls) {
        (PeerAddress::Tcp(to), tls) => {
            let stream = connect_tcp(to, number).await?;
            match tls {
                None => Ok(Box::new(stream)),
                Some(tls) => shake(tls, &to.host, stream).await.map_err(ClientError::NoTls),
            }
        }
        (PeerAddress::Unix(path), _) => {
            let stream = UnixStream::connect(path).await.map_err(ClientError::Unconnected)?;
            Ok(Box::new(stream))
        }
    }
}

async fn connect_tcp(to: &HostAndPort, number: usize) -> Result<TcpStream, ClientError> {
    let found = tokio::net::lookup_host((&*to.host, to.port)).await;
    let mut addrs: Vec<SocketAddr> = found.map_err(ClientError::Unresolved)?.collect();
    if addrs.is_empty() {
        let error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        return Err(ClientError::Unresolved(error));
    }
    let first = number % addrs.len();
    addrs.rotate_left(first);
    let stream = TcpStream::connect(&addrs[..]).await.map_err(ClientError::Unconnected)?;
    set_options(&stream).map_err(ClientError::Unconnected)?;
    Ok(stream)
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    rustix::net::sockopt::set_tcp_keepintvl(stream, KEEPALIVE)?;
    Ok(rustix::net::sockopt::set_tcp_keepcnt(stream, 3)?)
}

async fn shake(tls: &TlsSetup, host: &str, stream: TcpStream) -> io::Result<PeerStream> {
    let tls = tls.as_ref().map_err(|why| io::Error::other(why.clone()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(tls.connect(name, stream).await?))
}
