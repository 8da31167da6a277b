//! The server side: a slot on a server, then a connection to it.

pub(crate) mod slot;
pub(crate) mod pooled;
pub(crate) mod http1;
mod fastcgi;
mod http2;
mod websocket;
pub(crate) mod stream;
pub(crate) mod tunnel;
pub(crate) mod pinned;
pub mod handshake;
pub mod proxy_header;
pub(crate) mod connect;
