//! A client's socket, plain or with TLS: bytes out, bytes in, without waiting.
//!
//! With TLS outgoing bytes wait inside until the handshake is done, which proceeds whenever something is sent or received.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustls::{ClientConnection, HandshakeKind};

use super::TlsClient;

/// Ciphertext taken from the kernel at once, in bytes.
const CIPHERTEXT: usize = 64 * 1024;

/// See the module.
#[derive(Debug)]
pub(crate) enum LoadSocket {
    /// Bytes as they are.
    Plain(OwnedFd),
    /// TLS.
    Tls(Box<TlsSocket>),
}

/// A socket with TLS.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    fd: OwnedFd,
    session: ClientConnection,
    /// Received and not yet read by the session: from `read` on.
    ciphertext: Vec<u8>,
    read: usize,
    /// The session has taken the outgoing bytes.
    is_taken: bool,
    /// The kind of handshake has been asked for.
    is_told: bool,
}

impl LoadSocket {
    /// A socket that speaks TLS as `secure` says, if it is given.
    ///
    /// # Errors
    /// The error of the TLS library.
    pub(crate) fn new(fd: OwnedFd, secure: Option<&TlsClient>) -> io::Result<Self> {
        let Some(TlsClient { config, name, .. }) = secure else { return Ok(Self::Plain(fd)) };
        let session = ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        let (ciphertext, read) = (Vec::new(), 0);
        Ok(Self::Tls(Box::new(TlsSocket { fd, session, ciphertext, read, is_taken: false, is_told: false })))
    }

    /// Sends some of `bytes`; says how many are gone. Called again with the same ones after `WouldBlock`.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(fd) => Ok(rustix::net::send(fd, bytes, SendFlags::NOSIGNAL)?),
            Self::Tls(tls) => tls.send(bytes),
        }
    }

    /// Receives into `buf`; 0 at the end.
    pub(crate) fn receive(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(fd) => Ok(rustix::net::recv(fd, buf, RecvFlags::empty())?.0),
            Self::Tls(tls) => tls.receive(buf),
        }
    }

    /// Whether nothing is left in it after `len` of `room` bytes were received.
    pub(crate) fn is_drained(&self, len: usize, room: usize) -> bool {
        matches!(self, Self::Plain(_)) && len < room
    }

    /// The protocol that was agreed on in the handshake, once that is over; `None` before, and without TLS.
    pub(crate) fn agreed(&self) -> Option<Option<&[u8]>> {
        match self {
            Self::Tls(tls) if !tls.session.is_handshaking() => Some(tls.session.alpn_protocol()),
            _ => None,
        }
    }

    /// How its handshake went; said once.
    pub(super) fn take_handshake(&mut self) -> Option<HandshakeKind> {
        match self {
            Self::Tls(tls) if !tls.is_told => {
                let kind = tls.session.handshake_kind();
                tls.is_told = kind.is_some();
                kind
            }
            _ => None,
        }
    }
}

impl AsFd for LoadSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Plain(fd) => fd.as_fd(),
            Self::Tls(tls) => tls.fd.as_fd(),
        }
    }
}

impl TlsSocket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_taken {
            self.session.set_buffer_limit(None);
            self.session.writer().write_all(bytes)?;
            self.is_taken = true;
        }
        self.flush()?;
        self.is_taken = false;
        Ok(bytes.len())
    }

    fn receive(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Without a farewell: the length of the answer says whether it was whole.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                result => return result,
            }
            let mut rest = &self.ciphertext[self.read..];
            if !rest.is_empty() {
                self.read += self.session.read_tls(&mut rest)?;
                self.session.process_new_packets().map_err(io::Error::other)?;
                match self.flush() {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => continue,
                }
            }
            if self.fill()? == 0 {
                self.session.read_tls(&mut io::empty())?;
                self.session.process_new_packets().map_err(io::Error::other)?;
            }
        }
    }

    /// Takes ciphertext from the kernel; 0 at the end.
    fn fill(&mut self) -> io::Result<usize> {
        self.ciphertext.resize(CIPHERTEXT, 0);
        self.read = 0;
        let received = rustix::net::recv(&self.fd, &mut self.ciphertext[..], RecvFlags::empty());
        self.ciphertext.truncate(received.as_ref().map_or(0, |(len, _)| *len));
        Ok(received?.0)
    }

    /// Sends the ciphertext that is ready.
    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut SendingSide(&self.fd)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The sending side of a socket.
struct SendingSide<'a>(&'a OwnedFd);

impl io::Write for SendingSide<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL).map_err(|error: Errno| error.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
