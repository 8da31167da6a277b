//! One exchange at a time, blocking: to see whether a target answers at all, and to open connections that then idle.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};

use super::client::source_addr;
use super::exchange::Exchange;
use super::fault::Fault;
use super::response::{Reader, Step};

/// Connects from source number `source`, sends `exchange`, checks the answer; gives the connection back.
///
/// # Errors
/// The fault of the exchange.
pub fn once(
    target: SocketAddr,
    source: usize,
    exchange: &Exchange,
    timeout: Duration,
) -> Result<TcpStream, Fault> {
    let stream = connect(target, source).map_err(|error| Fault::Connect(error.to_string()))?;
    again(&stream, exchange, timeout)?;
    Ok(stream)
}

/// Sends `exchange` on an open connection and checks the answer.
///
/// # Errors
/// The fault of the exchange.
pub fn again(mut stream: &TcpStream, exchange: &Exchange, timeout: Duration) -> Result<(), Fault> {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Fault::Timeout,
        _ => Fault::Transport(error.to_string()),
    };
    stream.set_read_timeout(Some(timeout)).map_err(failed)?;
    stream.write_all(&exchange.request).map_err(failed)?;
    let (mut reader, mut buf) = (Reader::default(), [0; 16 * 1024]);
    loop {
        let step = match stream.read(&mut buf).map_err(failed)? {
            0 => reader.end(&exchange.expected)?,
            len => reader.feed(&buf[..len], &exchange.expected)?,
        };
        if let Step::Done { .. } = step {
            return Ok(());
        }
    }
}

fn connect(target: SocketAddr, source: usize) -> Result<TcpStream, rustix::io::Errno> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket =
        rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, Some(ipproto::TCP))?;
    if let Some(addr) = source_addr(target, source) {
        rustix::net::bind(&socket, &addr)?;
    }
    rustix::net::connect(&socket, &target)?;
    Ok(TcpStream::from(socket))
}
