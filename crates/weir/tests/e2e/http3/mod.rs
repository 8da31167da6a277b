//! HTTP/3 to clients: QUIC over UDP beside TLS over TCP, on the same port.

mod messages;
mod bodies;
mod websocket;
mod grpc;
mod features;
mod certificates;
mod connections;
mod surviving;
mod pair;
mod early;
mod early_features;
mod moving_bodies;
mod memory;
mod qlog;
mod arriving;
mod hostile;

use crate::harness::http2::start_with_tls;
use crate::harness::{CertificateAuthority, Origin, Weir};

const HTTP3: &str = "listener.web.http3 = {}\n";

/// Weir with HTTP/3 in front of an origin, with one worker.
fn start(origin: &Origin, settings: &str) -> (CertificateAuthority, Weir) {
    start_with_tls(origin, &format!("{HTTP3}{settings}"))
}
