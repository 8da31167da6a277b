//! One exchange at a time, blocking: to see whether a target answers at all, and to open connections that then idle.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use rustls::{ClientConnection, StreamOwned};

use super::TlsClient;
use super::client::source_addr;
use super::exchange::PreparedExchange;
use super::fault::LoadFault;
use super::response::{ReadProgress, ResponseReader};
use super::websocket::WebSocketOpening;

/// Connects from source number `source`, sends `exchange`, checks the answer; gives the connection back.
///
/// # Errors
/// The fault of the exchange.
pub fn once(
    target: SocketAddr,
    source: usize,
    exchange: &PreparedExchange,
    timeout: Duration,
) -> Result<TcpStream, LoadFault> {
    let stream = connect(target, source).map_err(|error| LoadFault::Connect(error.to_string()))?;
    if let Some(opening) = &exchange.opening {
        open(&stream, opening, timeout)?;
    }
    again(&stream, exchange, timeout)?;
    Ok(stream)
}

/// The same with TLS; the connection ends with it.
///
/// # Errors
/// The fault of the exchange.
pub fn once_secure(
    target: SocketAddr,
    secure: &TlsClient,
    exchange: &PreparedExchange,
    timeout: Duration,
) -> Result<(), LoadFault> {
    let stream = connect(target, 0).map_err(|error| LoadFault::Connect(error.to_string()))?;
    stream.set_read_timeout(Some(timeout)).map_err(|error| failed(&error))?;
    let session = ClientConnection::new(Arc::clone(&secure.config), secure.name.clone())
        .map_err(|error| LoadFault::Connect(error.to_string()))?;
    ask(&mut StreamOwned::new(session, stream), exchange)
}

/// Sends `exchange` on an open connection and checks the answer.
///
/// # Errors
/// The fault of the exchange.
pub fn again(
    mut stream: &TcpStream,
    exchange: &PreparedExchange,
    timeout: Duration,
) -> Result<(), LoadFault> {
    stream.set_read_timeout(Some(timeout)).map_err(|error| failed(&error))?;
    ask(&mut stream, exchange)
}

fn ask(stream: &mut (impl io::Read + io::Write), exchange: &PreparedExchange) -> Result<(), LoadFault> {
    stream.write_all(&exchange.request).map_err(|error| failed(&error))?;
    let (mut reader, mut buf) = (ResponseReader::default(), [0; 16 * 1024]);
    reader.reset(exchange);
    loop {
        let step = match stream.read(&mut buf).map_err(|error| failed(&error))? {
            0 => reader.end(&exchange.expected)?,
            len => reader.feed(&buf[..len], &exchange.expected)?,
        };
        if let ReadProgress::Done { .. } = step {
            return Ok(());
        }
    }
}

/// Opens a tunnel on a new connection.
fn open(mut stream: &TcpStream, opening: &[u8], timeout: Duration) -> Result<(), LoadFault> {
    stream.set_read_timeout(Some(timeout)).map_err(|error| failed(&error))?;
    stream.write_all(opening).map_err(|error| failed(&error))?;
    let (mut answer, mut buf) = (WebSocketOpening::default(), [0; 4096]);
    let mut total = 0;
    loop {
        match stream.read(&mut buf).map_err(|error| failed(&error))? {
            0 => return Err(LoadFault::Closed(total)),
            len if answer.feed(&buf[..len])? => return Ok(()),
            len => total += len as u64,
        }
    }
}

fn failed(error: &std::io::Error) -> LoadFault {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => LoadFault::Timeout,
        _ => LoadFault::Transport(error.to_string()),
    }
}

/// Connects from source number `source`.
pub(super) fn connect(target: SocketAddr, source: usize) -> Result<TcpStream, rustix::io::Errno> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    if let Some(addr) = source_addr(target, source) {
        rustix::net::bind(&socket, &addr)?;
    }
    rustix::net::connect(&socket, &target)?;
    Ok(TcpStream::from(socket))
}
