//! Exchanges and client connections as JSON. Names are looked up in the config that the exchange ran on.

mod exchange;
mod connection;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use weir_observe::access_log::UnixMicros;

use crate::workers::connections::shown;
use crate::workers::worker_queries::{GenerationNames, WorkerQueries};
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::tracing::recorder::Entry;

/// Writes records with the names of the configs that they began with.
pub(crate) struct ReportWriter {
    names: Vec<Arc<GenerationNames>>,
}

/// Where an exchange came in and went, by name.
pub(crate) struct ExchangePlace<'a> {
    pub(crate) listener: Option<&'a str>,
    pub(crate) upstream: Option<&'a str>,
    pub(crate) server: Option<&'a str>,
}

/// A moment of the past as RFC 3339 has it.
pub(crate) fn rfc3339(at: Instant) -> String {
    String::from_utf8_lossy(&unix_micros(at).rfc3339()).into_owned()
}

/// A moment of the past in the time of the world.
pub(crate) fn unix_micros(at: Instant) -> UnixMicros {
    let unix = clock::unix_now().saturating_sub(clock::now().saturating_duration_since(at));
    UnixMicros(u64::try_from(unix.as_micros()).unwrap_or(u64::MAX))
}

impl ReportWriter {
    pub(crate) fn new(queries: &WorkerQueries) -> Self {
        Self { names: queries.names.all() }
    }

    pub(crate) fn names(&self, generation: u64) -> Option<&GenerationNames> {
        self.names.iter().map(|names| &**names).find(|names| names.generation == generation)
    }

    /// Where an exchange came in and went, once that is decided and known.
    pub(crate) fn places(&self, entry: &Entry) -> ExchangePlace<'_> {
        let upstream = self.names(entry.served_generation).and_then(|names| names.upstream(entry.upstream));
        let listener = self.names(entry.generation).and_then(|names| names.listener(entry.listener));
        ExchangePlace {
            listener: listener.map(|listener| &*listener.name),
            upstream: upstream.map(|upstream| &*upstream.name),
            server: upstream.and_then(|upstream| upstream.server(entry.server, entry.served_revision)),
        }
    }
}

/// The client: the one that a trusted proxy names, or the peer.
pub(crate) fn client(entry: &Entry) -> String {
    entry.client.map_or_else(|| shown(entry.peer), |client| client.to_string())
}

/// Milliseconds with three digits behind the point.
pub(crate) fn millis(time: Duration) -> Value {
    (time.as_micros() as f64 / 1000.0).into()
}
