//! QUIC below HTTP/3 (RFC 9000): UDP sockets, the endpoint of each, its connections, and their TLS (RFC 9001).
//!
//! The protocol itself is `quinn-proto`, which reads no clock and touches no socket. Must not know what streams carry.

pub(crate) mod endpoint;
pub(crate) mod link;
mod socket;
mod worker_ids;
mod handshakes;
mod path_guard;
pub(crate) mod trace;
pub(crate) mod udp;
pub(crate) mod tls;
pub(crate) mod held_hello;
pub mod keys;
mod shared_keys;
mod used_tokens;
pub(crate) mod forwarding;
mod connection_ids;
