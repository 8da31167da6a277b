//! What every stage gets: the client, its stream, the exchange with what is known of it, and the plans that it follows.

pub(crate) mod lingering;
pub(in crate::exchange) mod plans;
pub(in crate::exchange) mod outcome;
pub(crate) mod stream;
pub(in crate::exchange) mod named_server;
pub(in crate::exchange) mod exchange;
pub(in crate::exchange) mod record;
pub(crate) mod client_end;
pub(crate) mod client;
pub(in crate::exchange) mod rerouting;
pub(in crate::exchange) mod response;
pub(in crate::exchange) mod cache_use;
pub(crate) mod authorization;
pub(in crate::exchange) mod grpc_call;
pub(in crate::exchange) mod exchange_limits;
pub(in crate::exchange) mod exchange_mirror;
pub(in crate::exchange) mod cgi_script;
pub(in crate::exchange) mod header_changes;
pub(in crate::exchange) mod forwarded_lines;
pub(crate) mod waits;
