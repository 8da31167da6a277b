//! HTTP/2 to clients on the wire (RFC 9113): how it is agreed on, streams and their flow control, priorities, the end of a connection, what
//! of a request cannot go to a server of HTTP/1, and clients that mean harm.
//!
//! The servers speak HTTP/1. What holds of an exchange in any protocol belongs to the folder of its phase.

mod negotiation;
mod heads;
mod bodies;
mod flow;
mod random_segments;
mod early_response;
mod client_resets;
mod limits;
mod reports;
mod websocket;
mod connect;
mod memory;
mod goodbye;
mod timeouts;
mod hostile;
