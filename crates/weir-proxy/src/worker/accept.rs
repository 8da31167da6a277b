//! Accepts connections on the listening sockets of a worker, in batches.
//!
//! The kernel spreads connections over the sockets of a `SO_REUSEPORT` group by hash, which leaves few connections very
//! uneven; [`Acceptor::place`] evens that out.
//! Must not read a byte from a client: that is for the task of the connection.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::Acceptor;
use crate::net::clock;
use crate::net::listening::adjust;
use crate::net::peer::Peer;
use crate::net::sys;
use crate::state::budgets::memory_guard::ConnectionAdmission;
use crate::state::budgets::slow_heads::WaitForRoom;
use crate::state::shared::AcceptedConnection;
use crate::state::worker_config::LocalListener;

/// Connections taken in one turn of the event loop, so that accepting does not starve the connections.
const ACCEPT_BATCH: usize = 64;

/// Pause after the process ran out of descriptors; shorter only burns CPU.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Pause when something was closed meanwhile.
const FREED_PAUSE: Duration = Duration::from_millis(2);

/// The longest backlog of a Unix socket, which does not report its length.
const UNIX_BACKLOG_MAX: usize = 65_536;

/// A listening socket of one worker, and the listener that it belongs to.
pub(crate) struct WorkerSocket {
    socket: AsyncFd<Arc<OwnedFd>>,
    port: Option<u16>,
    listener: RefCell<Rc<LocalListener>>,
}

/// A listening socket on which the worker accepts, until it is closed.
pub(crate) struct AcceptingSocket {
    /// The id of the address in the process.
    pub(crate) id: u64,
    incoming: Rc<WorkerSocket>,
    accepting: tokio::task::JoinHandle<()>,
}

impl WorkerSocket {
    /// The listener that it belongs to now.
    pub(crate) fn listener(&self) -> Rc<LocalListener> {
        Rc::clone(&self.listener.borrow())
    }

    /// Whether a connection waits to be accepted.
    pub(crate) fn has_waiting(&self) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.socket.get_ref().as_fd(), PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// How many connections wait to be accepted. A Unix socket does not report it.
    pub(crate) fn waiting(&self) -> usize {
        self.known_waiting().unwrap_or(ACCEPT_BATCH)
    }

    /// The same where it is reported.
    pub(crate) fn known_waiting(&self) -> Option<usize> {
        sys::backlog(self.socket.get_ref().as_fd()).ok()
    }

    fn accept(&self, listener: &LocalListener) -> rustix::io::Result<AcceptedConnection> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (carrier, addr) = rustix::net::acceptfrom_with(&self.socket, flags)?;
        Ok(AcceptedConnection {
            listener: Arc::clone(&listener.state),
            carrier,
            peer: peer_of(addr),
            port: self.port,
        })
    }
}

impl AcceptingSocket {
    /// Accepts on `socket`; `None` when the event loop refuses it.
    pub(crate) fn open(
        acceptor: &Rc<Acceptor>,
        id: u64,
        socket: Arc<OwnedFd>,
        port: Option<u16>,
        listener: &Rc<LocalListener>,
    ) -> Option<Self> {
        let socket = sys::watch_shared(socket, Interest::READABLE);
        let socket =
            socket.inspect_err(|error| tracing::error!(%error, "a listening socket cannot be watched"));
        let incoming =
            Rc::new(WorkerSocket { socket: socket.ok()?, port, listener: RefCell::new(Rc::clone(listener)) });
        let accepting = acceptor.worker.crash.spawn(accept(Rc::clone(acceptor), Rc::clone(&incoming)));
        Some(Self { id, incoming, accepting })
    }

    /// Gives the socket to a listener, with its options for the connections to come.
    pub(crate) fn give_to(&self, listener: &Rc<LocalListener>) {
        let config = &listener.plan().config;
        if self.port_is_inet()
            && let Err(error) = adjust(self.incoming.socket.get_ref().as_fd(), config)
        {
            tracing::warn!(listener = &*config.name, %error, "a listening socket keeps its options of before");
        }
        self.incoming.listener.replace(Rc::clone(listener));
    }

    fn port_is_inet(&self) -> bool {
        self.incoming.port.is_some()
    }

    /// Closes it. Connections in its backlog are accepted, as far as there is room; a stop waits for room.
    pub(crate) async fn close(self, acceptor: &Rc<Acceptor>) {
        self.accepting.abort();
        let _aborted = self.accepting.await;
        let (worker, listener) = (&acceptor.worker, self.incoming.listener());
        // No more than are there now, should others come all the while.
        let mut waiting = sys::backlog(self.incoming.socket.get_ref().as_fd()).unwrap_or(UNIX_BACKLOG_MAX);
        while waiting > 0 {
            if !worker.try_reserve(&listener.state) {
                if !worker.is_stopping() {
                    break;
                }
                worker.timers.sleep(EXHAUSTED_PAUSE).await;
                continue;
            }
            waiting -= 1;
            match self.incoming.accept(&listener) {
                Ok(accepted) => acceptor.place(&listener, accepted),
                Err(errno) => {
                    worker.unreserve(&listener.state);
                    match errno {
                        // The client has left.
                        Errno::CONNABORTED => {}
                        errno if is_exhausted(errno) && worker.is_stopping() => {
                            waiting += 1;
                            worker.timers.sleep(EXHAUSTED_PAUSE).await;
                        }
                        _ => break,
                    }
                }
            }
        }
    }
}

/// Accepts on one socket until it is closed.
async fn accept(acceptor: Rc<Acceptor>, incoming: Rc<WorkerSocket>) {
    let (worker, socket) = (&acceptor.worker, &incoming.socket);
    // Since when there is no descriptor for a new connection.
    let mut exhausted_since = None;
    loop {
        let Ok(mut ready) = socket.readable().await else { return };
        // An accept without a waiting connection costs as much as one with: it makes a socket first. A Unix socket does not
        // report its backlog.
        let waiting = sys::backlog(socket.get_ref().as_fd()).unwrap_or(usize::MAX);
        let mut all_taken = waiting <= ACCEPT_BATCH;
        for _ in 0..waiting.min(ACCEPT_BATCH) {
            // Before the accept, so that a connection beyond the limit stays in the backlog.
            let is_refused = worker.wait_for_memory().await == ConnectionAdmission::Refuse;
            let listener = worker.reserve(&incoming).await;
            match incoming.accept(&listener) {
                Ok(accepted) => {
                    exhausted_since = None;
                    if is_refused {
                        acceptor.refuse(&listener, &accepted);
                    } else {
                        acceptor.place(&listener, accepted);
                    }
                }
                Err(Errno::AGAIN) => {
                    worker.unreserve(&listener.state);
                    all_taken = true;
                    break;
                }
                Err(errno) if is_exhausted(errno) => {
                    worker.unreserve(&listener.state);
                    worker.count_exhausted(&listener, errno);
                    all_taken = false;
                    let since = *exhausted_since.get_or_insert_with(clock::now);
                    let mut wait =
                        WaitForRoom { since: Some(since), waiting: incoming.waiting(), ..Default::default() };
                    // An idle connection goes for the new one, if there is any.
                    let is_freed = worker.free_descriptors() | worker.make_room(None, &mut wait);
                    worker.timers.sleep(if is_freed { FREED_PAUSE } else { EXHAUSTED_PAUSE }).await;
                    break;
                }
                // The client left before it was accepted, or the network failed for it alone.
                Err(_) => worker.unreserve(&listener.state),
            }
        }
        if all_taken {
            // Connections that have come meanwhile are reported again.
            ready.clear_ready();
        } else {
            // The next batch comes after the connections of this one had their turn.
            tokio::task::yield_now().await;
        }
    }
}

/// Whether the system has nothing left to accept with: the connection stays in the backlog.
fn is_exhausted(errno: Errno) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].contains(&errno)
}

fn peer_of(addr: Option<SocketAddrAny>) -> Peer {
    match addr.and_then(|addr| SocketAddr::try_from(addr).ok()) {
        Some(addr) => Peer::Inet(SocketAddr::new(addr.ip().to_canonical(), addr.port())),
        None => Peer::Unix,
    }
}
