//! The runtime socket: the commands of HAProxy's, and on a Unix socket the admin API as well, served off the workers.
//!
//! Access is controlled by the mode of the socket's file, or by being on this machine. Bounded: lines, commands in a line,
//! connections, silence.

mod connection;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use weir_config::{FileMode, ListenAddress};

use super::admin_operations::Operations;
use crate::administration::admin_access::AdminPeer;
use crate::lifecycle::upgrade::handover::HandedAddress;
use weir_proxy::net::listening::{BoundAddress, remove_stale};

/// Connections that are served at once; more wait in the backlog.
const CONNECTIONS_MAX: usize = 32;

const BACKLOG: i32 = 128;

/// The socket, bound.
pub(crate) enum RuntimeListener {
    Unix(std::os::unix::net::UnixListener),
    Tcp(std::net::TcpListener),
}

impl AsFd for RuntimeListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            RuntimeListener::Unix(listener) => listener.as_fd(),
            RuntimeListener::Tcp(listener) => listener.as_fd(),
        }
    }
}

/// Binds the address.
///
/// # Errors
/// The errors of `bind(2)` and `chmod(2)`.
pub(crate) fn bind(address: &ListenAddress, mode: FileMode) -> io::Result<(RuntimeListener, BoundAddress)> {
    match address {
        ListenAddress::Unix(path) => {
            let listener = bind_unix(path, mode)?;
            Ok((RuntimeListener::Unix(listener), BoundAddress::Unix(path.clone())))
        }
        ListenAddress::Tcp(addr) => {
            let listener = std::net::TcpListener::bind(addr)?;
            listener.set_nonblocking(true)?;
            let bound = listener.local_addr()?;
            Ok((RuntimeListener::Tcp(listener), BoundAddress::Inet(bound)))
        }
        // The check of the config lets no such address pass.
        ListenAddress::AllTcp { .. } => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Takes over a socket of another process that is bound and listens.
///
/// # Errors
/// The errors of `chmod(2)`.
pub(crate) fn take_over(
    handed: HandedAddress,
    mode: FileMode,
) -> io::Result<(RuntimeListener, BoundAddress)> {
    let socket = handed.sockets.into_iter().next().ok_or(io::ErrorKind::NotFound)?;
    let listener = match &handed.bound {
        BoundAddress::Unix(path) => {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode.bits()))?;
            RuntimeListener::Unix(socket.into())
        }
        BoundAddress::Inet(_) => RuntimeListener::Tcp(socket.into()),
    };
    Ok((listener, handed.bound))
}

/// A socket at `path` that has never had more permissions than `mode`: it has none until it is named, and accepts no connection before it listens.
fn bind_unix(path: &Path, mode: FileMode) -> io::Result<std::os::unix::net::UnixListener> {
    remove_stale(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode.bits()))?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The name of the task.
const TASK: &str = "the runtime socket";

/// Serves until the task is dropped.
pub(crate) async fn serve(bound: RuntimeListener, operations: Arc<Operations>) -> io::Result<()> {
    let running = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    match bound {
        RuntimeListener::Unix(listener) => {
            let listener = UnixListener::from_std(listener)?;
            let accept = || async {
                while let Ok(permit) = Arc::clone(&running).acquire_owned().await {
                    match listener.accept().await {
                        Ok((stream, _)) => begin(stream, permit, &operations, AdminPeer::Local),
                        Err(error) => pause(&error).await,
                    }
                }
            };
            weir_tasks::keep(TASK, accept).await;
        }
        RuntimeListener::Tcp(listener) => {
            let listener = TcpListener::from_std(listener)?;
            let accept = || async {
                while let Ok(permit) = Arc::clone(&running).acquire_owned().await {
                    match listener.accept().await {
                        Ok((stream, addr)) => begin(stream, permit, &operations, AdminPeer::Network(addr)),
                        Err(error) => pause(&error).await,
                    }
                }
            };
            weir_tasks::keep(TASK, accept).await;
        }
    }
    Ok(())
}

fn begin(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + AsFd + Unpin + Send + 'static,
    permit: tokio::sync::OwnedSemaphorePermit,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) {
    let operations = Arc::clone(operations);
    tokio::spawn(async move {
        // Whatever goes wrong here concerns this one client only.
        let _outcome = connection::serve(stream, &operations, peer).await;
        drop(permit);
    });
}

async fn pause(error: &io::Error) {
    tracing::warn!(%error, "the runtime socket cannot accept");
    tokio::time::sleep(Duration::from_millis(100)).await;
}
