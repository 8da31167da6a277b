//! HTTP/2 to servers (RFC 9113): what they get of a request and clients of their response, how connections are shared, and how they end.

mod messages;
mod bodies;
mod connections;
mod unprocessed;
mod faults;
mod response_splitting;
mod negotiation;
mod http1_required;
mod websocket;
mod reload;
mod health;

use crate::harness::{Origin, Weir, config_with};

/// Weir with one worker in front of `origin` without TLS, by HTTP/2; `keys` are those of the upstream.
fn start(origin: &Origin, keys: &str) -> Weir {
    Weir::start(&config(origin, keys))
}

fn config(origin: &Origin, keys: &str) -> String {
    config_of_servers(&[origin.named("a")], keys)
}

fn config_of_servers(servers: &[String], keys: &str) -> String {
    let keys: String = keys.lines().map(|key| format!("upstream.app.{}\n", key.trim_start())).collect();
    config_with(
        servers,
        &format!(
            "process.workers = 1\nlistener.web.http2.prior_knowledge = \"allowed\"\n\
             upstream.app.protocol = \"h2c\"\n{keys}"
        ),
    )
}
