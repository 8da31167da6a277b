//! The client side: a connection, from its first byte to its end, and the streams that it yields.

pub(crate) mod connection;
mod http1;
mod http2;
#[cfg(feature = "http3")]
mod http3;
mod tcp;
mod abort;
mod stream_driver;
mod transport;
mod byte_driver;
