//! What is below every protocol: sockets, TLS, buffers, timers and the clock.
//!
//! The lowest layer. Must not know HTTP, servers or the config of a listener; the unsafe code is in `sys/`.

pub(crate) mod peer;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod connection;
pub(crate) mod tls;
pub(crate) mod listening;
pub(crate) mod socket;
pub(crate) mod buffer;
pub(crate) mod pipe;
pub(crate) mod descriptors;
pub(crate) mod pace;
pub(crate) mod deadline;
pub(crate) mod timers;
pub(crate) mod idleness;
pub(crate) mod alarm;
pub(crate) mod wheel;
pub(crate) mod quantum;
pub(crate) mod memory;
pub(crate) mod cpus;
pub(crate) mod sys;
pub(crate) mod clock;
