//! Clients of HTTP/3, each a connection of QUIC on a socket of its own, as those of browsers are.
//!
//! `quinn-proto` is their QUIC, which has neither sockets nor a clock; the frames of HTTP/3 are the lab's own. `client` is one connection,
//! `request` prepares what it sends, `answer` reads what comes back; the driver of a load on several stands beside the one of HTTP/1.1.

pub mod client;
pub mod setup;
pub mod socket;
pub mod request;
mod answer;
