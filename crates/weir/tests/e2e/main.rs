//! End-to-end tests: a real Weir process between scripted clients and scripted servers.
//!
//! One file for each behaviour, named after it; `harness` holds what they stand on. Everything runs on loopback, on
//! ports the system chooses, in parallel.

mod harness;

mod http1_cases;

mod messages_pass;
mod random_segments;
mod keep_alive;
mod pipelining;
mod expect_continue;
mod interim_responses;
mod head_and_no_body;
mod chunked;
mod close_delimited;
mod early_response;
mod upgrade_websocket;
mod upstream_tls;
mod absolute_form;
mod tls;
mod routing;
mod normal_paths;
mod balancing;
mod persistence;
mod connection_auth;
mod drain;
mod health_checks;
mod ejection;
mod forwarded_fields;
mod stale_connection;
mod retries;
mod server_misbehaviour;
mod client_disconnect;
mod client_aborts;
mod backpressure;
mod tcp;
mod timeouts;
mod large_bodies;
mod last_bytes;
mod limits;
mod descriptors;
mod room;
mod queue;
mod queue_order;
mod failures;
mod on_down;
mod overview;
mod profile;
mod why;
mod traces;
mod access_log;
mod access_log_drops;
mod own_log;
mod graceful_stop;
mod reload;
mod runtime_socket;
mod sessions;
mod unix_sockets;
mod proxy_protocol;
mod first_bytes;
mod dns_names;
mod prometheus;
mod metrics_scrape;
mod admin_guard;
mod status_page;
mod many_clients;
mod fair_turns;
mod hand_over;
mod config_commands;
mod program;
mod conformance;
