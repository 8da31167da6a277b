//! A socket of the control plane in use: that of the admin listener, or the runtime socket.

use std::io;
use std::os::fd::OwnedFd;

use tokio::task::AbortHandle;
use weir_config::ListenAddress;

use crate::lifecycle::sockets::listening_sockets::BoundListener;
use crate::lifecycle::upgrade::handover::{AddressRole, HandedAddress};
use weir_proxy::net::listening::{BoundAddress, SocketFile};

/// The socket, and the task that accepts on it.
#[derive(Debug)]
pub(super) struct AdminSocket {
    /// As the config has it.
    pub(super) address: ListenAddress,
    pub(super) bound: BoundListener,
    /// Of a Unix socket.
    pub(super) file: Option<SocketFile>,
    socket: OwnedFd,
    accepting: AbortHandle,
}

impl AdminSocket {
    pub(super) fn new(
        name: &str,
        address: ListenAddress,
        bound: BoundAddress,
        file: Option<SocketFile>,
        socket: OwnedFd,
        accepting: AbortHandle,
    ) -> Self {
        let bound = BoundListener { listener: name.into(), address: bound };
        Self { address, bound, file, socket, accepting }
    }

    /// For the next process.
    pub(super) fn to_hand_over(&self, role: AddressRole) -> io::Result<HandedAddress> {
        Ok(HandedAddress {
            role,
            listener: self.bound.listener.clone(),
            address: self.address.clone(),
            bound: self.bound.address.clone(),
            sockets: vec![self.socket.try_clone()?],
            is_inherited: false,
        })
    }

    /// Accepts no more; what runs continues. Another process may have taken it.
    pub(super) fn leave(self, is_taken: bool) {
        self.accepting.abort();
        if let Some(file) = self.file.filter(|_| !is_taken) {
            file.remove();
        }
    }
}
