//! Choosing a server and connecting to it: balancers, affinity, the queue of a busy upstream, drains, DNS, and connections that are
//! used again.
//!
//! Servers that fail belong to `resilience`; TLS with servers to `tls`.

mod balancing;
mod affinity;
mod named_upstreams;
mod dynamic;
mod connection_auth;
mod queue;
mod queue_order;
mod overflow;
mod source_address;
mod drain;
mod dns_names;
mod source_outage;
mod first_requests;
mod handed_over_servers;
pub(crate) mod source_panics;
mod discovery;
mod control_plane;
mod stale_connection;
mod http2;
mod fastcgi;
