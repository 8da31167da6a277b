//! Messages and descriptors between two processes: JSON with its length before it, and descriptors beside single bytes (`SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::HandoverError;

/// The kernel takes 253 at most (`SCM_MAX_FD`).
const DESCRIPTORS_AT_ONCE: usize = 64;

/// Bytes of one message: servers and learned state of a large config fit many times.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

#[derive(Debug)]
pub(crate) struct Channel(UnixStream);

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Channel {
    /// With a time limit for each message of the other process.
    pub(crate) fn new(stream: UnixStream, patience: Option<Duration>) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        Ok(Self(stream))
    }

    pub(crate) fn send(&self, message: &impl Serialize) -> Result<(), HandoverError> {
        let text = serde_json::to_vec(message).map_err(io::Error::from)?;
        let len = u32::try_from(text.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        (&self.0).write_all(&len.to_be_bytes())?;
        Ok((&self.0).write_all(&text)?)
    }

    pub(crate) fn receive<T: DeserializeOwned>(&self) -> Result<T, HandoverError> {
        self.receive_up_to(MESSAGE_BYTES_MAX)
    }

    /// The same for messages of so many bytes at most.
    pub(crate) fn receive_up_to<T: DeserializeOwned>(&self, bytes_max: usize) -> Result<T, HandoverError> {
        let mut len = [0; 4];
        (&self.0).read_exact(&mut len)?;
        let len = u32::from_be_bytes(len) as usize;
        if len > bytes_max {
            return Err(HandoverError::Invalid(format!("a message of {len} bytes")));
        }
        let mut text = vec![0; len];
        (&self.0).read_exact(&mut text)?;
        serde_json::from_slice(&text).map_err(|error| HandoverError::Invalid(format!("a message: {error}")))
    }

    /// The descriptors stay open here, too.
    pub(crate) fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        for some in descriptors.chunks(DESCRIPTORS_AT_ONCE) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_AT_ONCE))];
            let mut rights = SendAncillaryBuffer::new(&mut space);
            rights.push(SendAncillaryMessage::ScmRights(some));
            sendmsg(&self.0, &[IoSlice::new(&[0])], &mut rights, SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// The next `count` descriptors; no program that this one starts inherits them.
    pub(crate) fn receive_descriptors(&self, count: usize) -> Result<Vec<OwnedFd>, HandoverError> {
        let mut received = Vec::with_capacity(count.min(DESCRIPTORS_AT_ONCE));
        while received.len() < count {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_AT_ONCE))];
            let mut rights = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            let into = &mut [IoSliceMut::new(&mut byte)];
            let message =
                recvmsg(&self.0, into, &mut rights, RecvFlags::CMSG_CLOEXEC).map_err(io::Error::from)?;
            if message.bytes == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let before = received.len();
            for right in rights.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = right {
                    received.extend(descriptors);
                }
            }
            if received.len() == before {
                return Err(HandoverError::Invalid("fewer sockets than it offered".to_owned()));
            }
        }
        if received.len() > count {
            return Err(HandoverError::Invalid("more sockets than it offered".to_owned()));
        }
        Ok(received)
    }
}
