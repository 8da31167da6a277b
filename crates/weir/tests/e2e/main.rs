//! End-to-end tests: a real Weir process between scripted clients and scripted servers.
//!
//! One file for each behaviour, named after it; `harness` holds what they stand on. Everything runs on loopback, on
//! ports the system chooses, in parallel.

mod harness;

mod http1_cases;

mod keep_alive;
mod pipelining;
mod expect_continue;
mod interim_responses;
mod head_and_no_body;
mod chunked;
mod close_delimited;
mod early_response;
mod upgrade_websocket;
mod stale_connection;
mod server_misbehaviour;
mod client_disconnect;
mod backpressure;
mod graceful_stop;
mod unix_sockets;
mod dns_names;
mod many_clients;
