//! The listening sockets: opened, inherited from the supervisor, and changed by a reload.

pub(crate) mod listening_sockets;
pub(crate) mod inherited_sockets;
