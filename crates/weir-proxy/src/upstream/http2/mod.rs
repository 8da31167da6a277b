//! HTTP/2 to servers (RFC 9113): the requests of many exchanges share few connections.
//!
//! One task per connection reads, tells frames apart and writes. A pool per worker and server gives streams to exchanges, and opens a
//! connection when there is no stream left. Nothing above this folder knows that a connection has several streams.

mod servers;
mod stream;
mod websocket;
mod task;
mod pool;
mod opening;
mod link;
mod receive;

pub(crate) use pool::StreamTicket;
pub(crate) use servers::{Http2Opened, Http2Servers};
pub(crate) use stream::Http2ServerStream;
