//! A connection to a source that is asked over the network: TCP, and TLS where its URL says so. Must not know what is asked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use weir_config::{SourceTls, SourceUrl};

use crate::overlap::first_to_end;

/// How long a connection and its handshake may take.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How often a further connection is begun meanwhile: the kernel sends the packets of the first one again after 1, 3 and 7 s.
const CONNECT_INTERVAL: Duration = Duration::from_secs(1);

/// A peer that is gone without a word is noticed after about this many seconds times four.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// What is read from and written to.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Duplex for T {}

/// An open connection.
pub(crate) type SourceStream = Box<dyn Duplex>;

/// TLS that is ready for connections, or why there can be none.
pub(crate) type SourceConnector = Result<TlsConnector, String>;

/// Makes TLS ready, where the URL wants it; `protocols` are offered by ALPN.
pub(crate) fn connector(
    url: &SourceUrl,
    tls: Option<&SourceTls>,
    protocols: &[&[u8]],
) -> Option<SourceConnector> {
    tls.filter(|_| url.is_tls).map(|tls| {
        let config =
            tls_config(tls, protocols).map_err(|error| format!("TLS cannot be made ready: {error}"))?;
        Ok(TlsConnector::from(Arc::new(config)))
    })
}

/// Connects within this time.
///
/// # Errors
/// When it does not answer in time, refuses, or is not whom it should be.
pub(crate) async fn open(
    url: &SourceUrl,
    tls: Option<&SourceConnector>,
    connect_time: Duration,
) -> io::Result<SourceStream> {
    let connecting = first_to_end(CONNECT_INTERVAL, |number| Box::pin(connect(url, tls, number)));
    let opened = tokio::time::timeout(connect_time, connecting).await;
    opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Connects to any address of the host; each further try begins with another one.
async fn connect(url: &SourceUrl, tls: Option<&SourceConnector>, number: usize) -> io::Result<SourceStream> {
    let (host, port) = split_authority(url);
    let mut addrs: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    let first = number % addrs.len().max(1);
    addrs.rotate_left(first);
    let stream = TcpStream::connect(&addrs[..]).await?;
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(&stream, KEEPALIVE)?;
    rustix::net::sockopt::set_tcp_keepintvl(&stream, KEEPALIVE)?;
    rustix::net::sockopt::set_tcp_keepcnt(&stream, 3)?;
    if !url.is_tls {
        return Ok(Box::new(stream));
    }
    let missing = || io::Error::other("there are no authorities to verify its certificate");
    let tls = tls.ok_or_else(missing)?;
    let tls = tls.as_ref().map_err(|why| io::Error::other(why.clone()))?;
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    Ok(Box::new(tls.connect(name, stream).await?))
}

fn tls_config(tls: &SourceTls, protocols: &[&[u8]]) -> Result<rustls::ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(tls.authorities.certificates.iter().cloned());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has cipher suites for TLS 1.2 and 1.3");
    let builder = builder.with_root_certificates(roots);
    let mut config = match &tls.certificate {
        Some(own) => builder.with_client_auth_cert(own.chain.clone(), own.key.clone_key())?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

fn split_authority(url: &SourceUrl) -> (&str, u16) {
    let usual = if url.is_tls { 443 } else { 80 };
    let (host, port) = match url.authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(usual)),
        _ => (&*url.authority, usual),
    };
    (host.trim_start_matches('[').trim_end_matches(']'), port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_split() {
        for (is_tls, authority, host, port) in [
            (false, "a.example:8500", "a.example", 8500),
            (true, "a.example", "a.example", 443),
            (false, "[::1]:2379", "::1", 2379),
            (false, "[::1]", "::1", 80),
        ] {
            let url = SourceUrl::new(is_tls, authority);
            assert_eq!(split_authority(&url), (host, port));
        }
    }
}
