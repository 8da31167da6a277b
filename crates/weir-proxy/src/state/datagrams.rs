//! What workers share for connections of datagrams: the way of a datagram to the worker that has its connection, the keys, and what the next process
//! gets of both.
//!
//! There, and empty, in a build without HTTP/3, so that only this file knows the difference.

#[cfg(feature = "http3")]
use std::cell::RefCell;
use std::fmt;
use std::io;
#[cfg(feature = "http3")]
use std::net::IpAddr;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
#[cfg(feature = "http3")]
use std::sync::OnceLock;

use std::time::Duration;

#[cfg(feature = "http3")]
use quinn_proto::EcnCodepoint;
#[cfg(feature = "http3")]
use tokio::sync::Notify;
#[cfg(feature = "http3")]
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use weir_config::Http3Key;

#[cfg(feature = "http3")]
use crate::net::quic::forwarding;
#[cfg(feature = "http3")]
use crate::net::quic::keys::QuicKeys;
use crate::state::connection_id::ConnectionId;

/// Datagrams that wait for one worker at most; with more, they are lost, as datagrams may be.
#[cfg(feature = "http3")]
const WAITING_MAX: usize = 1024;

/// What a process hands over so that its connections of datagrams go on.
#[derive(Debug)]
pub struct HandedGeneration {
    /// By what its connection IDs are known.
    pub ids: Vec<u8>,
    /// Where it receives its datagrams from the process that has its sockets.
    pub socket: OwnedFd,
}

/// An order to write down what happens to one connection of QUIC for a while, as qlog.
#[derive(Debug)]
pub struct TraceOrder {
    /// The connection, which this worker has.
    pub connection: ConnectionId,
    /// For how long.
    pub length: Duration,
    /// Gets what was written. Dropped if there is no such connection.
    pub done: oneshot::Sender<Vec<u8>>,
}

/// How a worker reaches others with datagrams for their connections.
pub struct DatagramRoutes {
    #[cfg(feature = "http3")]
    queues: Box<[Sender<ForeignDatagram>]>,
    #[cfg(feature = "http3")]
    pub(crate) keys: QuicKeys,
    #[cfg(feature = "http3")]
    succession: Succession,
}

/// That another process receives the datagrams.
#[cfg(feature = "http3")]
#[derive(Default)]
pub(crate) struct Succession {
    succeeded: OnceLock<Succeeded>,
    happened: Notify,
}

/// At which addresses it does, and where it gives this one what is for connections of this one.
#[cfg(feature = "http3")]
pub(crate) struct Succeeded {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) from_next: Option<Arc<OwnedFd>>,
}

#[cfg(feature = "http3")]
impl Succession {
    /// Once it is so.
    pub(crate) fn known(&self) -> Option<&Succeeded> {
        self.succeeded.get()
    }

    /// Waits until it is so.
    pub(crate) async fn wait(&self) -> &Succeeded {
        loop {
            let happened = self.happened.notified();
            let mut happened = std::pin::pin!(happened);
            happened.as_mut().enable();
            match self.succeeded.get() {
                Some(succeeded) => return succeeded,
                None => happened.await,
            }
        }
    }
}

impl fmt::Debug for DatagramRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramRoutes").finish_non_exhaustive()
    }
}

/// Where the datagrams of one worker come in that others have received.
pub struct DatagramInbox {
    #[cfg(feature = "http3")]
    datagrams: RefCell<Receiver<ForeignDatagram>>,
}

impl fmt::Debug for DatagramInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramInbox").finish_non_exhaustive()
    }
}

#[cfg(feature = "http3")]
impl DatagramRoutes {
    /// Those of so many workers, with the keys of files, behind processes that have connections still.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub fn new(
        workers: usize,
        files: &[Arc<Http3Key>],
        before: Vec<HandedGeneration>,
    ) -> Result<(Self, Vec<DatagramInbox>), rustls::Error> {
        let (queues, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel(WAITING_MAX)).unzip();
        let inboxes = inboxes.into_iter().map(|inbox| DatagramInbox { datagrams: RefCell::new(inbox) });
        let before = before.into_iter().map(|HandedGeneration { ids, socket }| (ids, socket)).collect();
        let routes = Self {
            queues: queues.into(),
            keys: QuicKeys::new(workers, files, before)?,
            succession: Succession::default(),
        };
        Ok((routes, inboxes.collect()))
    }

    /// What the next process needs: of this one, and of those before it.
    ///
    /// # Errors
    /// When the descriptors of the process end.
    pub fn to_hand_over(&self) -> io::Result<Vec<HandedGeneration>> {
        let (theirs, ours) = forwarding::pair()?;
        self.keys.next_process().offer(ours);
        let handed = self.keys.to_hand_over(theirs)?;
        Ok(handed.into_iter().map(|(ids, socket)| HandedGeneration { ids, socket }).collect())
    }

    /// The next process receives at these addresses from now on.
    pub fn leave_to_next(&self, addresses: Vec<SocketAddr>) {
        let from_next = self.keys.next_process().receives().map(Arc::new);
        if self.succession.succeeded.set(Succeeded { addresses, from_next }).is_ok() {
            self.succession.happened.notify_waiters();
        }
    }

    /// That another process receives.
    pub(crate) fn succession(&self) -> &Succession {
        &self.succession
    }

    /// Hands a datagram to a worker; `false` when it is lost.
    pub(crate) fn send(&self, worker: usize, datagram: ForeignDatagram) -> bool {
        self.queues.get(worker).is_some_and(|queue| queue.try_send(datagram).is_ok())
    }
}

#[cfg(not(feature = "http3"))]
impl DatagramRoutes {
    /// Those of so many workers.
    ///
    /// # Errors
    /// None without HTTP/3.
    pub fn new(
        workers: usize,
        _files: &[Arc<Http3Key>],
        _before: Vec<HandedGeneration>,
    ) -> Result<(Self, Vec<DatagramInbox>), rustls::Error> {
        Ok((Self {}, (0..workers).map(|_| DatagramInbox {}).collect()))
    }

    /// There is nothing to hand over.
    ///
    /// # Errors
    /// None without HTTP/3.
    pub fn to_hand_over(&self) -> io::Result<Vec<HandedGeneration>> {
        Ok(Vec::new())
    }

    /// Changes nothing.
    pub fn leave_to_next(&self, _addresses: Vec<SocketAddr>) {}
}

#[cfg(feature = "http3")]
impl DatagramInbox {
    /// The next one.
    pub(crate) async fn next(&self) -> Option<ForeignDatagram> {
        std::future::poll_fn(|cx| self.datagrams.borrow_mut().poll_recv(cx)).await
    }
}

/// A datagram that has come to another worker than that of its connection.
#[cfg(feature = "http3")]
#[derive(Debug)]
pub(crate) struct ForeignDatagram {
    /// The id of the address that it came in on.
    pub(crate) socket: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: Box<[u8]>,
}
