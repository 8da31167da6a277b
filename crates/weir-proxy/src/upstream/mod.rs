//! The server side: a slot on a server, then a connection to it.

pub(crate) mod admission;
pub(crate) mod pinned;
pub(crate) mod connect;
pub(crate) mod proxy_header;
pub(crate) mod handshake;
