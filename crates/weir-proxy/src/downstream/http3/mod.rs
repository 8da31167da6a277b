//! HTTP/3 to clients (RFC 9114): many streams on one connection of QUIC, each with an exchange of its own.
//!
//! What QUIC does for streams, HTTP/2 does itself: so bodies are read from and written to a stream of QUIC where they are relayed, and the
//! connection does only what concerns all of them. Nothing above this folder knows that.

mod driver;
mod heads;
mod tunnel;
mod stream;
mod incoming;
mod outgoing;
mod shared;
mod transport_watch;
mod upload_window;

pub(crate) use driver::Http3Driver;
pub(crate) use stream::Http3Stream;
