//! What workers share for connections of datagrams: the way of a datagram to the worker that has its connection, and the keys.
//!
//! There, and empty, in a build without HTTP/3, so that only this file knows the difference.

#[cfg(feature = "http3")]
use std::cell::RefCell;
use std::fmt;
#[cfg(feature = "http3")]
use std::net::{IpAddr, SocketAddr};

#[cfg(feature = "http3")]
use quinn_proto::EcnCodepoint;
#[cfg(feature = "http3")]
use tokio::sync::mpsc::{Receiver, Sender, channel};

#[cfg(feature = "http3")]
use crate::net::quic::keys::QuicKeys;

/// Datagrams that wait for one worker at most; with more, they are lost, as datagrams may be.
#[cfg(feature = "http3")]
const WAITING_MAX: usize = 1024;

/// How a worker reaches others with datagrams for their connections.
pub struct DatagramRoutes {
    #[cfg(feature = "http3")]
    queues: Box<[Sender<ForeignDatagram>]>,
    #[cfg(feature = "http3")]
    pub(crate) keys: QuicKeys,
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

impl DatagramRoutes {
    /// Those of so many workers. `before` is the generation of the process that this one replaces.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    #[cfg(feature = "http3")]
    pub fn new(workers: usize, before: Option<u8>) -> Result<(Self, Vec<DatagramInbox>), rustls::Error> {
        let (queues, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| channel(WAITING_MAX)).unzip();
        let inboxes = inboxes.into_iter().map(|inbox| DatagramInbox { datagrams: RefCell::new(inbox) });
        let routes = Self { queues: queues.into(), keys: QuicKeys::random(before)? };
        Ok((routes, inboxes.collect()))
    }

    /// Those of so many workers.
    ///
    /// # Errors
    /// None without HTTP/3.
    #[cfg(not(feature = "http3"))]
    pub fn new(workers: usize, _before: Option<u8>) -> Result<(Self, Vec<DatagramInbox>), rustls::Error> {
        Ok((Self {}, (0..workers).map(|_| DatagramInbox {}).collect()))
    }

    /// The generation of this process in its connection IDs.
    #[cfg(feature = "http3")]
    pub fn generation(&self) -> Option<u8> {
        Some(self.keys.generation())
    }

    /// There is none without HTTP/3.
    #[cfg(not(feature = "http3"))]
    pub fn generation(&self) -> Option<u8> {
        None
    }

    /// Hands a datagram to a worker; `false` when it is lost.
    #[cfg(feature = "http3")]
    pub(crate) fn send(&self, worker: usize, datagram: ForeignDatagram) -> bool {
        self.queues.get(worker).is_some_and(|queue| queue.try_send(datagram).is_ok())
    }
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
