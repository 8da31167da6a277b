//! The layer below every protocol: sockets, TLS, buffers, timers and the clock.
//!
//! The lowest layer. Must not know HTTP, servers or the config of a listener; the unsafe code is in `sys/`.

pub mod peer;
pub mod failure;
pub mod source;
pub mod endpoint;
pub mod connection;
#[cfg(feature = "http3")]
pub mod quic;
pub mod tls;
pub mod listening;
pub mod socket;
pub mod buffer;
pub(crate) mod pipe;
pub mod files;
pub mod descriptors;
pub(crate) mod permit_queue;
pub mod timing;
pub(crate) mod quantum;
pub mod memory;
pub mod cpus;
pub mod sys;
pub mod clock;
