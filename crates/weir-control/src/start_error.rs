//! Why the proxy did not start.

use std::io;
use std::net::SocketAddr;

use weir_proxy::state::plan_inputs::TlsError;

/// Why the proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("listener `{listener}` cannot use {address}: {error}")]
    Bind {
        /// The listener in the config.
        listener: Box<str>,
        /// The address as the config has it.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// The admin address cannot be bound.
    #[error("the admin listener cannot use {address}: {error}")]
    BindAdmin {
        /// The address as the config has it.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The runtime socket cannot be bound.
    #[error("the runtime socket cannot use {address}: {error}")]
    BindSocket {
        /// The address as the config has it.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// TLS of a listener cannot be made ready.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The access log cannot be opened.
    #[error("{0}")]
    AccessLog(io::Error),
    /// Spans cannot be exported.
    #[error("traces cannot be exported: {0}")]
    Traces(io::Error),
    /// The system refuses threads, event queues or random numbers.
    #[error("a worker cannot be started: {0}")]
    Worker(#[from] io::Error),
}
