//! Health checks: every server that is checked is probed on its own beat, and what the probes say goes to the balancer.
//!
//! Runs on a thread of its own: no probe waits behind traffic, none uses a connection of the traffic, and none takes time
//! from a worker. One probe per server at most runs at a time, so that servers that hang hold up nobody else's. When and
//! with what effect is decided by `weir_traffic::health`.

mod thread;
mod checks;
mod checked_server;
mod probe;
mod conversation;
mod protocols;
mod response;
mod request;
mod stream;
mod report;
mod jitter;
mod thread_pause;

pub(crate) use self::thread::ProbeThread;
