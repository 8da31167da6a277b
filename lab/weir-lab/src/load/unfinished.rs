//! Connections whose TLS handshake never ends: every other one says nothing, the rest stop in the middle of the ClientHello.
//!
//! They only wait until the target has enough of them. Must not answer whatever it says.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustls::ClientConnection;

use super::client::SOURCES;
use super::fault::LoadFault;
use super::{TlsClient, probe};
use crate::clock;

/// Endings taken in at a time.
const EVENTS: usize = 1024;

/// The interval at which the progress is polled.
const LOOK: Duration = Duration::from_millis(50);

/// Connections with an unfinished handshake, spread over the client's source addresses.
#[derive(Debug)]
pub struct UnfinishedHandshakes {
    target: SocketAddr,
    /// The first half of a ClientHello.
    half: Vec<u8>,
    connections: Vec<TcpStream>,
    /// Reports each connection once, when the target has ended it.
    epoll: OwnedFd,
    ended: usize,
}

impl UnfinishedHandshakes {
    /// None yet; their hello is that of `secure`.
    ///
    /// # Errors
    /// The error of the TLS library or the system.
    pub fn new(target: SocketAddr, secure: &TlsClient) -> anyhow::Result<Self> {
        let mut half = Vec::new();
        ClientConnection::new(Arc::clone(&secure.config), secure.name.clone())?.write_tls(&mut half)?;
        half.truncate(half.len() / 2);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { target, half, connections: Vec::new(), epoll, ended: 0 })
    }

    /// Opens connections until there were `number`.
    ///
    /// # Errors
    /// The first fault.
    pub fn grow_to(&mut self, number: usize) -> Result<(), LoadFault> {
        while self.connections.len() < number {
            self.open().map_err(|error| LoadFault::Connect(error.to_string()))?;
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        let number = self.connections.len();
        let mut stream = probe::connect(self.target, number % SOURCES)?;
        if number % 2 == 1 {
            stream.write_all(&self.half)?;
        }
        let flags = epoll::EventFlags::RDHUP | epoll::EventFlags::ONESHOT;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(number as u64), flags)?;
        self.connections.push(stream);
        Ok(())
    }

    /// Number of connections that the target has not ended so far.
    ///
    /// # Errors
    /// The errors of `epoll_wait(2)`.
    pub fn open_now(&mut self) -> io::Result<usize> {
        while self.take_in(Duration::ZERO)? > 0 {}
        Ok(self.connections.len() - self.ended)
    }

    /// Waits until the target has ended all of them, `limit` has passed or `is_over`; gives how many are left.
    ///
    /// # Errors
    /// The errors of `epoll_wait(2)`.
    pub fn wait_until_gone(&mut self, limit: Duration, is_over: impl Fn() -> bool) -> io::Result<usize> {
        let start = clock::now();
        while self.ended < self.connections.len() && start.elapsed() < limit && !is_over() {
            self.take_in(LOOK)?;
        }
        Ok(self.connections.len() - self.ended)
    }

    /// Counts endings, waiting for the first; returns how many there were.
    fn take_in(&mut self, limit: Duration) -> io::Result<usize> {
        let limit = Timespec::try_from(limit).expect("it is short");
        let mut events = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&limit)) {
            Ok(count) => {
                self.ended += count;
                Ok(count)
            }
            Err(rustix::io::Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{TlsClient, UnfinishedHandshakes, clock};
    use crate::target::certificate::{NAME, TargetCertificate};
    use crate::topology::listener::{CertificateKey, Suite, Tls};
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn they_wait_until_all_are_ended_by_the_other_side() {
        let dir = tempfile::tempdir().unwrap();
        let certificate = TargetCertificate::make(CertificateKey::EcdsaP256, dir.path()).unwrap();
        let tls = Tls {
            suite: Suite::Tls13Aes256,
            key: CertificateKey::EcdsaP256,
            resume: false,
            handshake_timeout: None,
        };
        let secure = TlsClient::new(tls, &certificate.der, NAME).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut unfinished = UnfinishedHandshakes::new(listener.local_addr().unwrap(), &secure).unwrap();
        unfinished.grow_to(20).unwrap();
        let mut accepted: Vec<_> = (0..20).map(|_| listener.accept().unwrap().0).collect();
        assert_eq!(unfinished.open_now().unwrap(), 20);
        let hellos = accepted.iter().filter(|stream| stream.peek(&mut [0; 5]).is_ok_and(|len| len == 5));
        accepted.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
        assert_eq!(hellos.count(), 10, "every other one says something");
        accepted.truncate(5);
        let limit = Duration::from_secs(20);
        assert!(clock::wait_until(limit, || unfinished.open_now().unwrap() == 5));
        assert_eq!(unfinished.wait_until_gone(limit, || true).unwrap(), 5, "the user has enough");
        drop(accepted);
        assert_eq!(unfinished.wait_until_gone(limit, || false).unwrap(), 0);
    }
}
