//! The inputs of every plan that do not depend on the config, and the error when a plan cannot be made.

use std::sync::Arc;

use weir_config::TiedRoutes;

use super::due_upstreams::DueUpstreams;
use crate::net::clock::Instant;
use crate::net::tls::issued::Issuers;
use crate::net::tls::server_config::TlsConfigError;

/// Why TLS cannot be offered.
#[derive(Debug, thiserror::Error)]
#[error("TLS of {place} cannot be used: {error}")]
pub struct TlsError {
    /// The table of the config, such as ``listener `web` ``.
    pub(in crate::state) place: String,
    pub(in crate::state) error: TlsConfigError,
}

/// Why a config cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// TLS of a listener or an upstream.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Routes of a listener, in a config that is not from a text.
    #[error(transparent)]
    Routes(#[from] TiedRoutes),
}

/// The inputs of plans that do not depend on the config.
#[derive(Debug, Clone)]
pub struct PlanInputs {
    /// What Weir calls itself in `Via`.
    pub via_name: Box<str>,
    /// Decides with which server each balancer begins.
    pub seed: u64,
    /// The number of workers.
    pub workers: usize,
    /// The outlier tables that the control thread has to review.
    pub due_upstreams: Arc<DueUpstreams>,
    /// The certificates that Weir obtains by itself.
    pub issuers: Arc<Issuers>,
}

/// Whether two parts of configs are the same, which costs nothing where one config was made from the other.
pub(in crate::state) fn is_same<T: PartialEq>(one: &Arc<T>, other: &Arc<T>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// Milliseconds from a moment to a later one.
pub fn millis_between(epoch: Instant, at: Instant) -> u64 {
    at.nanos_since(epoch) / 1_000_000
}
