//! Health checks: every checked server is probed at its own interval, and the balancer gets the verdict.
//!
//! Runs on a thread of its own: no probe waits behind traffic, none uses a connection of the traffic, and none takes time
//! from a worker. One probe per server at most runs at a time, so that hanging servers delay no others. The times and
//! the verdict are decided by `weir_traffic::health`.

mod thread;
mod checks;
mod checked_server;
mod agent;
mod probe;
mod conversation;
mod protocols;
mod fastcgi;
mod grpc;
mod http2;
mod response;
mod request;
mod stream;
mod report;
mod jitter;
mod thread_pause;

pub(crate) use self::thread::ProbeThread;
