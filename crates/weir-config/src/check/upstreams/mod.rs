//! Upstreams, their servers, and where both come from.

pub(super) mod upstream;
pub(super) mod upstream_tls;
pub(super) mod discovery;
pub(super) mod dynamic;
pub(super) mod routes_from;
pub(super) mod server_protocol;
pub(super) mod source_address;
pub(super) mod health;
pub(super) mod dialogue;
pub(super) mod ejection;
pub(super) mod affinity;
