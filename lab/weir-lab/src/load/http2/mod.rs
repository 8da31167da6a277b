//! Clients of HTTP/2 by prior knowledge, which `h2load` cannot play: with a stream that is not read, idle, or hostile.
//!
//! `client` is one connection, `flood` attacks; the driver of a load on several connections stands beside the one of HTTP/1.1.

pub mod flood;
pub mod client;
