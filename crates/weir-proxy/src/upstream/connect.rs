//! Opening a connection to a server: one address at once, several as happy eyeballs (RFC 8305).
//!
//! Must not know about reuse, retries or time limits: the caller drops the future when its time is up.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::net::endpoint::Endpoint;
use crate::net::memory;
use crate::net::socket::Socket;
use crate::net::source::{self, BoundSource};
use crate::net::timing::timers::Timers;

/// How long one address may be silent before the next is tried beside it (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// One address that is being tried.
type ConnectAttempt = Pin<Box<dyn Future<Output = io::Result<Socket>> + Send>>;

/// What the next one waits for.
type Delay = Pin<Box<dyn Future<Output = ()>>>;

/// Connects to the first of `endpoints` that answers; `first` rotates where the attempts begin. `timers` are those of the worker,
/// outside of workers those of the event loop. With a `source`, the connection comes from there, or not at all.
///
/// # Errors
/// The error of the last attempt that failed; `NotFound` when there is no endpoint.
pub(crate) async fn connect(
    endpoints: &[Endpoint],
    first: usize,
    source: Option<BoundSource>,
    timers: Option<&Rc<Timers>>,
) -> io::Result<Socket> {
    match endpoints {
        [] => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address yet")),
        [only] => connect_one(only, source).await,
        several => {
            let several = source.map_or_else(|| several.to_vec(), |source| source.reachable(several));
            if several.is_empty() {
                return Err(source::of_other_family());
            }
            race(in_order(&several, first), source, timers).await
        }
    }
}

/// The endpoints from `first` on, address families alternating (RFC 8305 section 4).
fn in_order(endpoints: &[Endpoint], first: usize) -> Vec<Endpoint> {
    let rotated = endpoints.iter().cycle().skip(first % endpoints.len()).take(endpoints.len());
    let (mut six, mut four): (Vec<_>, Vec<_>) =
        rotated.cloned().partition(|endpoint| matches!(endpoint, Endpoint::Inet(SocketAddr::V6(_))));
    six.reverse();
    four.reverse();
    let mut ordered = Vec::with_capacity(endpoints.len());
    while let Some(next) = six.pop().or_else(|| four.pop()) {
        ordered.push(next);
        ordered.extend(four.pop());
    }
    ordered
}

/// Tries the endpoints one after the other, each a little later or as soon as the one before has failed.
async fn race(
    endpoints: Vec<Endpoint>,
    source: Option<BoundSource>,
    timers: Option<&Rc<Timers>>,
) -> io::Result<Socket> {
    let mut waiting = endpoints.into_iter();
    let mut running: Vec<ConnectAttempt> = Vec::new();
    let mut delay: Delay = Box::pin(std::future::ready(()));
    let mut last_error = None;
    std::future::poll_fn(move |cx| {
        loop {
            if let Some(outcome) = poll_running(&mut running, cx, &mut last_error) {
                return Poll::Ready(Ok(outcome));
            }
            if !running.is_empty() && delay.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            let Some(endpoint) = waiting.next() else {
                if running.is_empty() {
                    let error = last_error.take().unwrap_or_else(|| io::ErrorKind::NotConnected.into());
                    return Poll::Ready(Err(error));
                }
                return Poll::Pending;
            };
            running.push(Box::pin(async move { connect_one(&endpoint, source).await }));
            delay = match timers {
                Some(timers) => Box::pin(timers.sleep(ATTEMPT_DELAY)),
                None => Box::pin(tokio::time::sleep(ATTEMPT_DELAY)),
            };
        }
    })
    .await
}

/// Polls every running attempt; the first success wins, failures are dropped and remembered.
fn poll_running(
    running: &mut Vec<ConnectAttempt>,
    cx: &mut Context<'_>,
    last_error: &mut Option<io::Error>,
) -> Option<Socket> {
    let mut winner = None;
    running.retain_mut(|attempt| match attempt.as_mut().poll(cx) {
        Poll::Pending => true,
        Poll::Ready(Ok(socket)) => {
            winner.get_or_insert(socket);
            false
        }
        Poll::Ready(Err(error)) => {
            *last_error = Some(error);
            false
        }
    });
    winner
}

async fn connect_one(endpoint: &Endpoint, source: Option<BoundSource>) -> io::Result<Socket> {
    match endpoint {
        Endpoint::Inet(addr) => {
            let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let fd = stream_socket(family)?;
            sockopt::set_tcp_nodelay(&fd, true)?;
            if let Some(source) = source {
                source.bind(&fd, family)?;
            }
            if let Some(bytes) = memory::unread_max() {
                sockopt::set_socket_recv_buffer_size(&fd, bytes as usize)?;
            }
            finish(rustix::net::connect(&fd, addr), fd).await
        }
        Endpoint::Unix(path) => {
            let fd = stream_socket(AddressFamily::UNIX)?;
            let addr = SocketAddrUnix::new(path.as_path())?;
            finish(rustix::net::connect(&fd, &addr), fd).await
        }
    }
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

async fn finish(started: rustix::io::Result<()>, fd: OwnedFd) -> io::Result<Socket> {
    match started {
        Ok(()) => Ok(Socket::new(fd)),
        // Over loopback the connection is established by now, which saves a turn of the event loop.
        Err(rustix::io::Errno::INPROGRESS) if rustix::net::getpeername(&fd).is_ok() => Ok(Socket::new(fd)),
        Err(rustix::io::Errno::INPROGRESS) => {
            let mut socket = Socket::connecting(fd)?;
            socket.writable().await?;
            socket.take_error()?;
            Ok(socket)
        }
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address without a listener.
    const NOWHERE: &str = "127.0.0.1:1";

    fn inet(text: &str) -> Endpoint {
        Endpoint::Inet(text.parse().expect("an address"))
    }

    #[test]
    fn families_alternate_and_six_comes_first() {
        let all = [inet("10.0.0.1:1"), inet("10.0.0.2:1"), inet("[::1]:1"), inet("[::2]:1")];
        let ordered = in_order(&all, 0);
        assert_eq!(ordered, [inet("[::1]:1"), inet("10.0.0.1:1"), inet("[::2]:1"), inet("10.0.0.2:1")]);
        assert_eq!(in_order(&all, 1)[1], inet("10.0.0.2:1"));
    }

    #[tokio::test]
    async fn a_dead_address_does_not_hide_a_live_one() {
        let live = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let endpoints = [inet(NOWHERE), Endpoint::Inet(live.local_addr().expect("bound"))];
        connect(&endpoints, 0, None, None).await.expect("the live one answers");
    }

    #[tokio::test]
    async fn the_error_of_a_refused_connection_is_reported() {
        let error = connect(&[inet(NOWHERE)], 0, None, None).await.expect_err("the port has no listener");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(connect(&[], 0, None, None).await.is_err());
    }
}
