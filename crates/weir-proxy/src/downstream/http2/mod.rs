//! HTTP/2 to clients (RFC 9113): many streams on one connection, each with an exchange of its own.
//!
//! Nothing above this folder knows that a connection has several streams.

mod connection;
mod tunnel;
mod stream;
mod receive;

pub(crate) use connection::Http2Connection;
pub(crate) use stream::Http2Stream;
