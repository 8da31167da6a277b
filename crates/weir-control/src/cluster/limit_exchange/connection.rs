//! A connection to a store or a sentinel: TLS where the config wants it, log in, commands, replies, each within the time limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use weir_config::{ServerAddress, StoreLogin, StoreTls};
use weir_http::resp::{RespError, RespReply, write_command};
use weir_proxy::net::tls::client_config::verifying;

use super::failure::StoreError;

/// Characters of an error of the store that are shown.
const ERROR_CHARS_MAX: usize = 200;

/// Bytes of replies to one batch of commands.
const REPLY_BYTES_MAX: usize = 1024 * 1024;

trait StoreStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> StoreStream for T {}

/// An open connection; after an error it is of no use.
pub(super) struct StoreConnection {
    stream: Box<dyn StoreStream>,
    timeout: Duration,
    received: Vec<u8>,
    /// Whether nothing has come yet, and what is sent is not encrypted: a port with TLS closes such a connection.
    is_mute: bool,
}

impl StoreConnection {
    /// Connects and logs in.
    pub(super) async fn open(
        address: &ServerAddress,
        tls: Option<&StoreTls>,
        login: Option<&StoreLogin>,
        timeout: Duration,
    ) -> Result<StoreConnection, StoreError> {
        let stream = tokio::time::timeout(timeout, connect(address)).await;
        let stream = stream.map_err(|_| StoreError::Late(timeout))?.map_err(StoreError::Connect)?;
        let stream: Box<dyn StoreStream> = match tls {
            None => stream,
            Some(tls) => {
                let shaken = tokio::time::timeout(timeout, shake(tls, address, stream)).await;
                shaken.map_err(|_| StoreError::LateTls(timeout))?.map_err(StoreError::Tls)?
            }
        };
        let mut connection =
            StoreConnection { stream, timeout, received: Vec::new(), is_mute: tls.is_none() };
        if let Some(login) = login {
            let mut words = vec![&b"AUTH"[..]];
            words.extend(login.user.as_ref().map(|user| user.as_bytes()));
            words.push(login.password.as_bytes());
            connection.ask_one(&words).await?;
        }
        Ok(connection)
    }

    /// Sends one command; its reply.
    ///
    /// # Errors
    /// When the reply is an error, too.
    pub(super) async fn ask_one(&mut self, words: &[&[u8]]) -> Result<RespReply, StoreError> {
        let reply = self.ask([words].into_iter()).await?.pop();
        reply.ok_or(StoreError::Unexpected("a command"))
    }

    /// Sends commands at once; their replies.
    ///
    /// # Errors
    /// When one of the replies is an error, too.
    pub(super) async fn ask<'a>(
        &mut self,
        commands: impl ExactSizeIterator<Item = &'a [&'a [u8]]> + Send,
    ) -> Result<Vec<RespReply>, StoreError> {
        let (mut out, count) = (Vec::new(), commands.len());
        commands.for_each(|words| write_command(&mut out, words.iter().copied()));
        let timeout = self.timeout;
        let replies = tokio::time::timeout(timeout, self.exchange(&out, count)).await;
        replies.map_err(|_| StoreError::Late(timeout))?
    }

    async fn exchange(&mut self, out: &[u8], count: usize) -> Result<Vec<RespReply>, StoreError> {
        self.stream.write_all(out).await.map_err(|error| self.lost(error))?;
        // TLS keeps what does not fit into the socket.
        self.stream.flush().await.map_err(|error| self.lost(error))?;
        let mut replies = Vec::with_capacity(count);
        while replies.len() < count {
            match RespReply::parse(&self.received).map_err(StoreError::NotRedis)? {
                Some((RespReply::Error(said), _)) => {
                    let said: String = String::from_utf8_lossy(&said).chars().take(ERROR_CHARS_MAX).collect();
                    return Err(StoreError::Refused(said.escape_debug().to_string()));
                }
                Some((reply, len)) => {
                    self.received.drain(..len);
                    replies.push(reply);
                }
                None if self.received.len() > REPLY_BYTES_MAX => {
                    return Err(StoreError::NotRedis(RespError::TooLarge));
                }
                None => match self.stream.read_buf(&mut self.received).await {
                    Ok(0) if self.is_mute => return Err(StoreError::Mute),
                    Ok(0) => return Err(StoreError::Closed),
                    Ok(_) => self.is_mute = false,
                    Err(error) => return Err(self.lost(error)),
                },
            }
        }
        Ok(replies)
    }

    fn lost(&self, error: io::Error) -> StoreError {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe if self.is_mute => StoreError::Mute,
            _ => StoreError::of_open(error),
        }
    }
}

async fn connect(address: &ServerAddress) -> io::Result<Box<dyn StoreStream>> {
    let tcp = match address {
        ServerAddress::Ip(address) => TcpStream::connect(address).await?,
        ServerAddress::Name { host, port } => TcpStream::connect((&**host, *port)).await?,
        ServerAddress::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
    };
    tcp.set_nodelay(true)?;
    Ok(Box::new(tcp))
}

async fn shake(
    tls: &StoreTls,
    address: &ServerAddress,
    stream: Box<dyn StoreStream>,
) -> io::Result<Box<dyn StoreStream>> {
    let config = verifying(&tls.authorities, tls.certificate.as_deref()).map_err(io::Error::other)?;
    let name = tls.server_name.clone().unwrap_or_else(|| address.tls_name());
    Ok(Box::new(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
}
