//! Client connections before and beside their requests: listening sockets, the first bytes, the PROXY protocol, how connections are
//! spread over workers, how a worker shares its time between them, and which idle ones are closed to make room for new ones.
//!
//! TLS has a folder of its own; what a client sends on its connection belongs to `http1` or `tcp`.

mod first_bytes;
mod unix_sockets;
mod proxy_protocol;
mod hand_over;
mod fair_turns;
mod many_clients;
mod room;
mod surplus;
