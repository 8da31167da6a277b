//! A connection to a store: log in, commands, replies, each within the time limit.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use weir_config::{LimitStore, ServerAddress};
use weir_http::resp::{RespError, RespReply, write_command};

/// Characters of an error of the store that are shown.
const ERROR_CHARS_MAX: usize = 200;

/// Bytes of replies to one batch of commands.
const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// Why nothing can be exchanged.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("no connection to the store: {0}")]
    Connect(std::io::Error),
    #[error("the connection to the store is lost: {0}")]
    Lost(std::io::Error),
    #[error("the store has closed the connection")]
    Closed,
    #[error("the store has not answered within {0:?}")]
    Late(Duration),
    #[error("the store does not speak the protocol of Redis: {0}")]
    NotRedis(RespError),
    #[error("the store says: {0}")]
    Refused(String),
    #[error("the reply of the store to {0} is not the expected one")]
    Unexpected(&'static str),
}

impl StoreError {
    /// What can be done about it.
    pub(super) fn change(&self) -> &'static str {
        match self {
            Self::Connect(_) => "start the store, or correct `address` of the store",
            Self::Lost(_) | Self::Closed => "see the log of the store",
            Self::Late(_) => "see why the store is slow, or raise `timeout` of the store",
            Self::NotRedis(_) | Self::Unexpected(_) => {
                "correct `address`: it is that of a Redis 5 or later, or a Valkey"
            }
            Self::Refused(said) => match said.split(' ').next() {
                Some("NOAUTH" | "WRONGPASS") => {
                    "correct `user` and `password` (or `password_file`) of the store"
                }
                Some("NOPERM") => {
                    "permit the user of the store `+set +get +pexpire +del +time +evalsha +script|load +select` and keys that begin with `prefix`"
                }
                Some("READONLY") => "correct `address`: it is that of a replica, and the master is needed",
                Some("OOM") => "give the store more memory, or a `maxmemory-policy` other than `noeviction`",
                Some("MOVED" | "CROSSSLOT" | "CLUSTERDOWN") => {
                    "correct `address`: a Redis Cluster is not supported"
                }
                Some("NOSCRIPT") => "none: the script is loaded again",
                _ => "see the message of the store",
            },
        }
    }
}

trait StoreStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> StoreStream for T {}

/// An open connection; after an error it is of no use.
pub(super) struct StoreConnection {
    stream: Box<dyn StoreStream>,
    timeout: Duration,
    received: Vec<u8>,
}

impl StoreConnection {
    /// Connects and logs in.
    pub(super) async fn open(store: &LimitStore) -> Result<StoreConnection, StoreError> {
        let stream = tokio::time::timeout(store.timeout, connect(&store.address)).await;
        let stream = stream.map_err(|_| StoreError::Late(store.timeout))?.map_err(StoreError::Connect)?;
        let mut connection = StoreConnection { stream, timeout: store.timeout, received: Vec::new() };
        if let Some(login) = &store.login {
            let mut words = vec![&b"AUTH"[..]];
            words.extend(login.user.as_ref().map(|user| user.as_bytes()));
            words.push(login.password.as_bytes());
            connection.ask([&words[..]].into_iter()).await?;
        }
        if store.database != 0 {
            let database = store.database.to_string();
            connection.ask([&[&b"SELECT"[..], database.as_bytes()][..]].into_iter()).await?;
        }
        Ok(connection)
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
        self.stream.write_all(out).await.map_err(StoreError::Lost)?;
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
                None => match self.stream.read_buf(&mut self.received).await.map_err(StoreError::Lost)? {
                    0 => return Err(StoreError::Closed),
                    _ => continue,
                },
            }
        }
        Ok(replies)
    }
}

async fn connect(address: &ServerAddress) -> std::io::Result<Box<dyn StoreStream>> {
    let tcp = match address {
        ServerAddress::Ip(address) => TcpStream::connect(address).await?,
        ServerAddress::Name { host, port } => TcpStream::connect((&**host, *port)).await?,
        ServerAddress::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
    };
    tcp.set_nodelay(true)?;
    Ok(Box::new(tcp))
}
