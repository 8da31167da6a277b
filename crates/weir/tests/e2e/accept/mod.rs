//! Client connections before and beside their requests: the sockets of listeners, the first bytes, the PROXY protocol, how
//! connections are spread over workers, how workers share their time between them, and who makes room when there are too many.
//!
//! TLS has a folder of its own; what a client sends on its connection belongs to `http1` or `tcp`.

mod first_bytes;
mod unix_sockets;
pub(crate) mod proxy_protocol;
mod hand_over;
mod fair_turns;
mod many_clients;
mod room;
